"""Where the time of a round goes:  python -m benchmarks.rounds [--model mlp] [--workers 2] [--rounds 200]

The workload of `benchmarks.training`, in milliseconds per round: what `enlist run --timing` shows. `--server` leaves
training out (reports are made up, sums are constant), so that what is left is the server's own work with warm caches.
`--operations` trains clients one after another in this process under PyTorch's profiler, and says what share of the
processor time each kind of operation takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.peers.ours import configured
from benchmarks.peers.workload import MODELS, SIZES
from enlist.simulation import Simulation
from enlist.training.local import Report
from enlist.training.times import TimeSpent
from enlist.training.workers import one_thread

WARM = 30
"""Rounds before the first that counts."""
OPERATIONS = {
    "convolutions": ("conv",),
    "pooling": ("pool",),
    "products": ("mm", "addmm", "bmm"),
    "samples": ("index_select",),
}
"""Kind -> parts of the names of PyTorch's operations; everything else is overhead of small operations and calls."""


def without_training(simulation: Simulation) -> None:
    """From now on nobody trains."""
    losses = np.random.default_rng(0).uniform(1.0, 2.0, 64).tolist()
    reports = [Report(loss=loss, loss_rms=loss + 0.1, num_examples=120.0) for loss in losses]

    def reduce(tasks: Sequence[Any], weights: Any, models: Any, total: Any) -> list[Report]:
        total.parameters.fill_(1e-4)
        return reports[: len(tasks)]

    engine = simulation.trainer.engine
    assert engine is not None
    engine.reduce = reduce  # type: ignore[method-assign]


def operations(model: str, sizes: str, rounds: int) -> dict[str, float]:
    """Kind of operation -> its share of the processor time that PyTorch spends."""
    spent = dict.fromkeys([*OPERATIONS, "everything else"], 0.0)
    with one_thread(), Simulation(configured(model, sizes)) as run:
        run.step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            for _ in range(rounds):
                run.step()
    for each in profiler.key_averages():
        kinds = [kind for kind, parts in OPERATIONS.items() if any(part in each.key.lower() for part in parts)]
        spent[kinds[0] if kinds else "everything else"] += each.self_cpu_time_total
    whole = sum(spent.values())
    return {kind: value / whole for kind, value in spent.items()}


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="logistic")
    parser.add_argument("--sizes", choices=SIZES, default="equal")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--server", action="store_true", help="the server alone")
    parser.add_argument("--operations", action="store_true", help="shares of PyTorch's operations in training")
    given = parser.parse_args(words)
    if given.operations:
        for kind, share in operations(given.model, given.sizes, given.rounds).items():
            print(f"{kind:>16} {100 * share:.0f} %")
        return
    whole, spent = [], TimeSpent()
    with (
        one_thread(),
        Simulation(configured(given.model, given.sizes), workers=0 if given.server else given.workers) as run,
    ):
        for _ in range(WARM):
            run.step()
        if given.server:
            without_training(run)
        for _ in range(given.rounds):
            began = time.perf_counter()
            spent += run.step().spent
            whole.append(time.perf_counter() - began)
    print(f"round, median {1e3 * median(whole):.2f} ms, least {1e3 * min(whole):.2f} ms; means of its parts:")
    for field in dataclasses.fields(spent):
        print(f"{field.name:>10} {1e3 * getattr(spent, field.name) / given.rounds:.2f} ms")


if __name__ == "__main__":
    main()
