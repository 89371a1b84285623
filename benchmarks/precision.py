"""Whether bf16 learns as well as float32:  python -m benchmarks.precision [--seeds 5] [--rounds 100] [--speed]

With `--speed`, instead, the processor time of training one client of `benchmarks.training` with the CNN, both
precisions in turn: a busy machine stretches it less than the clock.

A small CNN on the bundled digits, 50 clients, 10 a round: accuracy after the last round under both precisions, seed by
seed. What counts is whether their difference is within what seeds make of float32 alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from enlist.arena import Summary
from enlist.data import Samples
from enlist.engine import keep_freed_memory
from enlist.simulation import Config, Simulation
from enlist.training.engine import ModuleTrainer, SharedSamples, TrainingSetup
from enlist.training.flat import Vectors
from enlist.training.local import LocalTraining, TrainingTask
from enlist.training.models import CNN

PRECISIONS: tuple[Literal["float32"], Literal["bf16"]] = ("float32", "bf16")


def accuracy(precision: str, seed: int, rounds: int) -> float:
    """Of the model after the last round."""
    config = Config(
        data={"dataset": "digits", "clients": 50},
        model={"name": "cnn", "channels": [8, 16], "kernel": 3, "padding": 1, "hidden": [32]},
        training={"batch": 10, "lr": 0.05, "precision": precision},
        rounds={"rounds": rounds, "k": 10},
        evaluation={"every": rounds},
        seed=seed,
    )
    return float(Simulation(config).run()["accuracy"])


def speed(clients: int = 20) -> None:
    """Seconds of the processor for one client, and the ratio of turns."""
    torch.set_num_threads(1)
    keep_freed_memory()
    rng = np.random.default_rng(0)
    images = rng.random((120 * clients, 1, 28, 28), dtype=np.float32)
    samples = SharedSamples.of(Samples(images, rng.integers(10, size=len(images))), channels_last=True)
    engines, spent = [], np.empty((clients, 2))
    for precision in PRECISIONS:
        module = CNN().build((1, 28, 28), 10)
        setup = TrainingSetup(module, 10, LocalTraining(), {"train": samples}, seed=1, precision=precision)
        engines.append(ModuleTrainer(setup))
    for client in range(-2, clients):  # two that do not count
        for number, engine in enumerate(engines):
            models, updates = Vectors.zeros(engine.flat.layout, 1), Vectors.zeros(engine.flat.layout, 1)
            models[0].copy_(engine.flat.vectors)
            start = 120 * max(client, 0)
            began = time.thread_time()
            engine.train([TrainingTask(0, start, start + 120, 6, 1, 0, 0)], models, updates)
            spent[client, number] = time.thread_time() - began
    plain, low = np.median(spent, axis=0)
    ratio = np.quantile(spent[:, 0] / spent[:, 1], [0.5, 0.1, 0.9])
    print(f"float32 {1e3 * plain:.1f} ms, bf16 {1e3 * low:.1f} ms of the processor per client")
    print(f"float32 / bf16: {ratio[0]:.2f} [{ratio[1]:.2f}, {ratio[2]:.2f}]")


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--speed", action="store_true")
    given = parser.parse_args(words)
    if given.speed:
        speed()
        return
    print("| seed | float32 | bf16 |\n|---|---|---|")
    rows = []
    for seed in range(given.seeds):
        rows.append([accuracy(precision, seed, given.rounds) for precision in PRECISIONS])
        print(f"| {seed} | {rows[-1][0]:.4f} | {rows[-1][1]:.4f} |", flush=True)
    found = np.array(rows)
    apart = Summary.of(found[:, 1] - found[:, 0])
    print(f"bf16 minus float32: {apart.mean:.4f} [{apart.low:.4f}, {apart.high:.4f}]")
    print(f"standard deviation of float32 over seeds: {found[:, 0].std(ddof=1):.4f}")


if __name__ == "__main__":
    main()
