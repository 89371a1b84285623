"""Speed and memory of every selector:  python -m benchmarks.selectors [--sizes 1000,10000] [--output FILE]

One core. Each selector first sees a fifth of the population in each of five rounds, so that its state is full; then
rounds with k = 100 and 70 % of the clients available are timed, one ask and one tell each.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import enlist
from benchmarks.oort_reference import PlainOort
from enlist.bandits import ExactGP, FeatureGP, feature_count, median_distance
from enlist.state import State
from enlist.testing import feedback, population

LIMITS = {10_000: 20.0, 1_000_000: 1000.0}
SETTINGS: dict[str, dict[str, Any]] = {"fedcor": {"warm_up": 3}}
"""So that the rounds that are timed are not those in which a selector still draws at random."""


def footprint(selector: enlist.Selector[Any, Any]) -> int:
    """Bytes of every array a selector holds, caches included, without the clients table that the user passed."""

    def arrays(value: object) -> Iterator[np.ndarray]:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, State):
            for _, leaf in value.leaves():
                yield from arrays(leaf)

    found = {}
    for name, value in vars(selector).items():
        if name not in ("clients", "openings"):
            found.update({id(array): array.nbytes for array in arrays(value)})
    return sum(found.values())


def one_round(selector: enlist.Selector[Any, Any], mask: np.ndarray, k: int) -> float:
    """Milliseconds of one ask and one tell."""
    number, count = selector.round + 1, len(selector.clients)
    fresh = None
    if selector.name in SETTINGS and len(selector.candidates(mask, k)):
        losses = np.random.default_rng(number).normal(1.0, 0.1, count)
        fresh = enlist.Feedback(clients=np.arange(count), loss=losses)
    start = time.perf_counter()
    picked = selector.ask(mask, k, now=60.0 * number, deadline=10.0, fresh=fresh)
    asked = time.perf_counter() - start
    report = feedback(picked, seed=1)
    start = time.perf_counter()
    selector.tell(picked, report, enlist.RoundMetrics(accuracy=0.5 + 0.001 * (number % 7), duration=9.0))
    return 1000.0 * (asked + time.perf_counter() - start)


def measure(name: str, count: int, rounds: int = 7) -> tuple[float, float, float]:
    """Median and largest milliseconds per round, and bytes of state per client."""
    clients = population(count)
    selector = enlist.create(name, clients, seed=1, **SETTINGS.get(name, {}))
    rng = np.random.default_rng(0)
    for part in np.array_split(rng.permutation(count), 5):
        mask = np.zeros(count, dtype=bool)
        mask[part] = True
        one_round(selector, mask, len(part))
    times = [one_round(selector, rng.uniform(size=count) < 0.7, 100) for _ in range(rounds)]
    return statistics.median(times), max(times), footprint(selector) / count


def oort_ratio(count: int, rounds: int = 7) -> tuple[float, float]:
    """Median milliseconds of the plain-Python Oort and of ours, alternating round by round."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(10, 500, count).astype(float)
    ours = enlist.create("oort", enlist.Clients(num_examples=sizes), seed=1)
    plain = PlainOort(sizes.tolist(), seed=1)
    first = ours.ask(k=count, deadline=10.0)
    latency, loss = rng.uniform(1, 9, count), rng.uniform(0.1, 3, count)
    ours.tell(first, enlist.Feedback(latency=latency, loss_rms=loss))
    plain.tell(list(range(count)), latency.tolist(), loss.tolist())
    times: dict[str, list[float]] = {"plain": [], "ours": []}
    everybody = list(range(count))
    for _ in range(rounds):
        start = time.perf_counter()
        chosen = plain.ask(everybody, 100)
        plain.tell(chosen, [5.0] * 100, [1.0] * 100)
        times["plain"].append(1000.0 * (time.perf_counter() - start))
        start = time.perf_counter()
        picked = ours.ask(k=100, deadline=10.0)
        ours.tell(picked, enlist.Feedback(latency=np.full(100, 5.0), loss_rms=np.ones(100)))
        times["ours"].append(1000.0 * (time.perf_counter() - start))
    return statistics.median(times["plain"]), statistics.median(times["ours"])


def posterior_error(count: int = 5000, batches: int = 40, size: int = 20) -> list[tuple[int, float, float]]:
    """Root mean square error of the feature form's mean and deviation against the exact posterior."""
    rng = np.random.default_rng(3)
    inputs = rng.standard_normal((count, 6))
    weights = rng.standard_normal(6)
    truth = np.tanh(inputs @ weights / 2.0)
    length = median_distance(inputs, np.random.default_rng(0))
    plan = [rng.choice(count, size, replace=False) for _ in range(batches)]
    values = [truth[batch] + 0.3 * rng.standard_normal(size) for batch in plan]
    exact = ExactGP.of(inputs, length, 0.1)
    for batch, value in zip(plan, values, strict=True):
        exact.update(batch, value)
    mean, deviation = exact.predict()
    rows = []
    for features in sorted({32, 64, 128, 256, feature_count(5001), 512}):
        gp = FeatureGP.of(inputs, length, 0.1, features, np.random.default_rng(0))
        for batch, value in zip(plan, values, strict=True):
            gp.update(batch, value)
        ours, width = gp.predict()
        rows.append((features, _rms(ours - mean), _rms(width - deviation)))
    return [(0, _rms(mean), _rms(deviation)), *rows]


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--selectors", default=",".join(enlist.names()))
    parser.add_argument("--output", type=Path, help="write the tables as Markdown, too")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    lines = [
        "# Speed and memory",
        "",
        "`python -m benchmarks.selectors --output docs/benchmarks.md`, one core: milliseconds per ask + tell (median,",
        "and the largest of seven rounds in brackets), k = 100, 70 % of the clients available; then bytes of state per",
        "client, caches included.",
        "",
        "| selector | " + " | ".join(f"{size:,}" for size in sizes) + f" | bytes at {sizes[-1]:,} |",
        "|---" * (len(sizes) + 2) + "|",
    ]
    print("\n".join(lines))
    slow = []
    for name in options.selectors.split(","):
        cells, held = [], 0.0
        for size in sizes:
            median, largest, held = measure(name, size)
            cells.append(f"{median:.1f} ({largest:.1f})")
            limit = LIMITS.get(size, float("inf")) * (7.5 if name == "fedsuv" and size == 10_000 else 1.0)
            if median > limit or (size == 1_000_000 and held > 400.0):
                slow.append(f"{name} at {size:,}: {median:.0f} ms, {held:.0f} bytes")
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {held:.0f} |")
        print(lines[-1], flush=True)
    extra = [
        "",
        "## Oort: plain Python and Enlist",
        "",
        "Same scores and shares (without the pacer). All clients are available and explored; rounds alternate between",
        "the two.",
        "",
    ]
    extra += ["| clients | plain Python, ms | Enlist, ms | ratio |", "|---|---|---|---|"]
    for size in (1_000, 10_000, 100_000, 1_000_000):
        plain, ours = oort_ratio(size)
        extra.append(f"| {size:,} | {plain:.1f} | {ours:.2f} | {plain / ours:.0f}x |")
    extra += [
        "",
        "## FedSUV's feature form against the exact posterior",
        "",
        "5,000 clients with 6 features, 800 observations: root mean square error of the posterior mean and deviation.",
        "The first row gives the size of the exact values. Populations above 5,000 get 256 features, from 78,000 on",
        "128, from 305,000 on 64.",
        "",
        "| features | mean | deviation |",
        "|---|---|---|",
    ]
    extra += [
        f"| {features or 'exact'} | {mean:.3f} | {deviation:.3f} |" for features, mean, deviation in posterior_error()
    ]
    extra += ["", "Limits met." if not slow else "Limits missed: " + "; ".join(slow) + "."]
    print("\n".join(extra))
    if options.output:
        options.output.write_text("\n".join(lines + extra) + "\n")
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
