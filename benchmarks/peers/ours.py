"""Enlist itself as a peer:  python -m benchmarks.peers.ours --model mlp

The whole simulator runs, not the engine alone: selection, virtual clock, feedback and tables in memory. Only the test
set is left out, as the other peers have none.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from benchmarks.peers.workload import BATCH, CLIENTS, COHORT, RATE, Channel, arguments

if TYPE_CHECKING:
    from enlist.simulation import Config


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)


def configured(model: str, sizes: str, precision: str = "float32", seed: int = 0) -> Config:
    """The workload as a configuration."""
    from enlist.simulation import Config

    return Config(
        data={
            "dataset": "fashion-mnist",
            "clients": CLIENTS,
            "validation": 0.0,
            "partition": {"kind": "lognormal", "sigma": 1.0} if sizes == "lognormal" else {"kind": "iid"},
        },
        model={"name": model} | ({"hidden": [200]} if model == "mlp" else {}),
        training={"batch": BATCH, "lr": RATE, "precision": precision},
        rounds={"rounds": 10**9, "k": COHORT},
        evaluation={"every": 10**9},
        seed=seed,
    )


def main() -> None:
    options = arguments("ours", extend)
    channel = Channel("enlist", options)
    from enlist.simulation import Simulation
    from enlist.training.workers import one_thread

    config = configured(options.model, options.sizes, options.precision, options.seed)
    simulation = Simulation(config, workers=options.workers)

    def run(count: int) -> list[float]:
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            record = simulation.step()
            spent = time.perf_counter() - start
            samples = sum(row.get("num_examples", 0.0) for row in record.participations)
            seconds.append(spent * COHORT * 120 / samples)  # clients of unequal size: as if the round had the mean size
        return seconds

    with one_thread():
        channel.serve(run)
    simulation.trainer.close()


if __name__ == "__main__":
    main()
