"""What takes too long for `make test`:  python -m benchmarks.verify [--output docs/verify.md] [--part NAME]

Statistical claims over 20 seeds, populations of a million, and a soak. Each part prints a table, says what it holds
against, and fails the run if the statement does not hold. With --part and --output, only its section is replaced.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import gc
import inspect
import re
import subprocess
import sys
import tempfile
import time
import tracemalloc
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import enlist
from benchmarks import chaos, flower_versions
from benchmarks import hostile as attacks
from benchmarks.selectors import footprint, measure
from benchmarks.simulations import Part, learning, long_run, scale, selection
from enlist.arena import BSFLReward, Rules, Scenario, Summary, Tournament, World, compare, play
from enlist.arena.compare import Results
from enlist.testing import population, transcript


def regret() -> Part:
    """BSFL's pseudo-regret, 5 of 20 clients, 20,000 rounds, 20 seeds, against CS-UCB and random, under two rewards.

    "doubling" is [R(20,000) - R(10,000)] / [R(10,000) - R(5,000)] with its 95 % interval: 1 if regret is logarithmic
    (its growth stays flat), 1.41 if it grows as the square root, 2 if it is linear. The exponent is
    log2 R(20,000)/R(10,000).
    Each preset of BSFL maximises one of the two rewards and is judged by that one. The test is that random is linear,
    and BSFL under its own reward is clearly below linear. The paper claims logarithmic regret; up to 20,000 rounds
    neither preset shows it, because gaps between sets get arbitrarily small (its proof assumes a smallest gap).
    """
    lines, holds = [], True
    players = ("bsfl", "bsfl:paper", "cs-ucb", "random")
    for label, reward, judged in (
        ("normalised", BSFLReward(), "bsfl"),
        ("printed", BSFLReward(normalised=False), "bsfl:paper"),
    ):
        settings = Tournament(players, "slow-minority", clients=20, k=5, rounds=20_000, seeds=20, reward=reward)
        results = compare(settings, jobs=os.cpu_count() or 1)
        lines += ["", f"Reward {label}, alpha 1; its own preset is {judged}:", ""]
        lines += ["| selector | R(5,000) | R(10,000) | R(20,000) | doubling | exponent |", "|---|---|---|---|---|---|"]
        for name in players:
            at = {n: _curve(results, name, n) for n in (5_000, 10_000, 20_000)}
            doubling = Summary.of((at[20_000] - at[10_000]) / (at[10_000] - at[5_000]))
            exponent = Summary.of(np.log2(at[20_000] / at[10_000]))
            cells = [f"{at[n].mean():.0f}" for n in (5_000, 10_000, 20_000)]
            lines.append(f"| {name} | {' | '.join(cells)} | {_show(doubling)} | {_show(exponent)} |")
            if name == "random":
                holds &= 1.9 < doubling.mean < 2.1
            if name == judged:
                holds &= doubling.high < 1.9 and at[20_000].mean() < 0.1 * _curve(results, "random", 20_000).mean()
    return lines, holds


def _curve(results: Results, name: str, number: int) -> np.ndarray:
    """Cumulated pseudo-regret at the checkpoint next to round `number`, per seed."""
    records = [record for (selector, _), record in results.items() if selector == name]
    index = int(np.argmin(np.abs(np.array(records[0].rounds) - number)))
    return np.array([record.curves["pseudo"][index] for record in records])


def _show(summary: Summary) -> str:
    return f"{summary.mean:.2f} [{summary.low:.2f}, {summary.high:.2f}]"


def fractions() -> Part:
    """CS-UCB-Q reaches required fractions (0.6, 0.5, 0.4) with k = 2 of 3 clients of very different speeds.

    20 seeds, 5,000 rounds each; the smallest share over seeds is shown.
    """
    wanted = np.array([0.6, 0.5, 0.4])
    shares = []
    for seed in range(20):
        selector = enlist.create("cs-ucb-q", enlist.Clients(count=3), seed=seed, fractions=wanted)
        rng = np.random.default_rng(seed)
        for _ in range(5_000):
            picked = selector.ask(k=2, deadline=1.0)
            latency = np.array([0.1, 0.5, 0.9])[picked.clients] * rng.uniform(0.9, 1.1, 2)
            selector.tell(picked, enlist.Feedback(latency=latency))
        shares.append(selector.counts.selected / 5_000)
    least = np.min(shares, axis=0)
    lines = ["", "| client | required | smallest share |", "|---|---|---|"]
    lines += [f"| {i} | {wanted[i]} | {least[i]:.3f} |" for i in range(3)]
    return lines, bool((least >= wanted - 0.001).all())


def darts() -> Part:
    """Team Darts' UCB on 12 clients, 3 a round, 100 rounds, 50 seeds: the share of picks that goes to the 3 best.

    Uniform selection gives 0.25. With preset "paper" the bonus swamps gains of a percent, and it behaves like
    round-robin; with the default it does not.
    """
    lines = ["", "| preset | share of the 3 best | most / least selected |", "|---|---|---|"]
    means = {}
    for preset in ("paper", None):
        shares, spreads = [], []
        for seed in range(50):
            world = World(Scenario(latency="equal", utility_noise=0.05), clients=12, rounds=100, seed=seed)
            record = play(enlist.create("darts-ucb", world.clients(), seed=seed, preset=preset), world, Rules(k=3))
            best = np.argsort(-world.truth(1).utility)[:3]
            shares.append(float(record.selected[best].sum() / record.selected.sum()))
            spreads.append(float(record.selected.max() / max(record.selected.min(), 1)))
        means[preset] = Summary.of(shares)
        lines.append(f"| {preset or 'default'} | {_show(means[preset])} | {_show(Summary.of(spreads))} |")
    return lines, means["paper"].high < 0.29 and means[None].low > 0.33


def million() -> Part:
    """Every selector at 1,000,000 clients, k = 100, one core: at most 1 s per round and 400 bytes per client."""
    lines = ["", "| selector | ms per round, median | largest | bytes per client |", "|---|---|---|---|"]
    holds = True
    for name in enlist.names():
        median, largest, held = measure(name, 1_000_000, rounds=5)
        holds &= median <= 1000.0 and held <= 400.0
        lines.append(f"| {name} | {median:.0f} | {largest:.0f} | {held:.0f} |")
    return lines, holds


def soak() -> Part:
    """Memory does not grow over 5,000 rounds with late clients, lost clients and missing outcomes, every selector.

    Bytes allocated by Python and NumPy after 1,000 and after 5,000 rounds, and bytes of state.
    """
    lines = ["", "| selector | after 1,000 | after 5,000 | state |", "|---|---|---|---|"]
    holds = True
    for name in enlist.names():
        selector = enlist.create(name, population(60), seed=1)
        tracemalloc.start()
        transcript(selector, 1_000)
        early, held = _traced(), footprint(selector)
        transcript(selector, 4_000)
        late, after = _traced(), footprint(selector)
        tracemalloc.stop()
        holds &= late < early + 100_000 and held == after
        lines.append(f"| {name} | {early:,} | {late:,} | {after:,} |")
    return lines, holds


def kills_and_damage() -> Part:
    """Runs killed and continued, folders and states damaged, configurations and calls fuzzed: no violation.

    A quarter of the trials of docs/reliability.md, which says what a violation is.
    """
    return chaos.table(seed=2, share=0.25, only=None)


def hostile() -> Part:
    """When 30 % of the clients send their updates times -10, a guarded mean stays above 90 % with every selector.

    docs/hostile.md has the whole table; these are different seeds, 310 to 314.
    """
    lines, holds = ["", "| selector | accuracy, % |", "|---|---|"], True
    for name in attacks.SELECTORS:
        runs = [attacks.run(("sign flip", "mean, guarded", name, seed)) for seed in range(310, 315)]
        found = Summary.of(np.array([100 * run["accuracy"] for run in runs]))
        lines.append(f"| {name} | {found.mean:.1f} [{found.low:.1f}, {found.high:.1f}] |")
        holds &= found.mean > 90
    return lines, holds


RAY_TESTS = ("tests/test_ray.py", "tests/test_ray_cluster.py", "tests/test_ray_commands.py", "tests/test_slurm.py")


def ray_cluster() -> Part:
    """Ray clusters on this machine whose nodes, head and drivers are killed: the same bytes as on the local engine.

    A cluster is a head and two more nodes, raylets with resources of their own, of which SIGKILL ends one in the middle
    of a comparison and one in the middle of a training run. Tests of `pytest -m verify` in tests/test_ray*.py and
    tests/test_slurm.py.
    """
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "tests.xml"
        done = _verify_tests(*RAY_TESTS, f"--junitxml={report}")
        if not report.exists():
            return ["", *done.stdout.splitlines()[-5:]], False
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    lines, holds = ["", "| test | seconds | |", "|---|---|---|"], bool(cases) and done.returncode == 0
    for case in cases:
        wrong = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        name = case.attrib.get("name", "interrupted").removeprefix("test_").replace("_", " ")
        lines.append(f"| {name} | {float(case.attrib['time']):.0f} | {wrong[0] if wrong else 'passed'} |")
        holds &= not wrong
    return lines, holds


def long_tests() -> Part:
    """The other tests that are marked `verify`: a Flower federation whose servers are killed, among others."""
    done = _verify_tests("tests", *(f"--ignore={each}" for each in RAY_TESTS))
    return ["", f"`pytest -m verify`: exit {done.returncode}", *done.stdout.splitlines()[-1:]], done.returncode == 0


def _verify_tests(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "verify", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def versions_of_flower() -> Part:
    """The adapter under the oldest and the newest flwr that pip finds in the range of the extra `flower`.

    Its tests, except those that start a SuperLink, and four rounds of Flower's simulation with six nodes.
    """
    return flower_versions.table()


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


PARTS: dict[str, Callable[[], Part]] = {
    "regret": regret,
    "fractions": fractions,
    "darts": darts,
    "million": million,
    "soak": soak,
    "scale": scale,
    "long-run": long_run,
    "selection": selection,
    "learning": learning,
    "tests": long_tests,
    "ray": ray_cluster,
    "flower": versions_of_flower,
    "hostile": hostile,
    "chaos": kills_and_damage,
}


def section(page: str, name: str, block: Sequence[str]) -> str:
    """The page with this section in place of the one of that name, or at its end.

    >>> section("# All\\n\\n## soak\\n\\nold\\n\\n## ray\\n\\nold\\n", "soak", ["## soak", "", "new"])
    '# All\\n\\n## soak\\n\\nnew\\n\\n## ray\\n\\nold\\n'
    """
    before, *sections = re.split(r"^(?=## )", page, flags=re.M)
    heads = [each.partition("\n")[0] for each in sections]
    text, wanted = "\n".join(block).strip() + "\n\n", f"## {name}"
    at = heads.index(wanted) if wanted in heads else len(sections)
    sections[at : at + 1] = [text]
    return "".join([before, *(each.rstrip() + "\n\n" for each in sections)]).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--part", choices=list(PARTS))
    options = parser.parse_args()
    head = "The last output of `make verify`; its parts can be run alone: `python -m benchmarks.verify --part soak`."
    page, failed = f"# Verification\n\n{head}\n\n", []
    if options.part and options.output and options.output.exists():
        page = options.output.read_text(encoding="utf-8")
    for name, part in PARTS.items():
        if options.part in (None, name):
            start = time.perf_counter()
            lines, holds = part()
            about = inspect.cleandoc(part.__doc__ or "")
            block = [f"## {name}", "", *about.splitlines(), *lines, "", "Holds." if holds else "Does not hold."]
            page = section(page, name, block)
            print("\n".join(["", *block]), f"\n({time.perf_counter() - start:.0f} s)", flush=True)
            failed += [] if holds else [name]
    if options.output:
        options.output.write_text(page, encoding="utf-8")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
