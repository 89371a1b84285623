"""The limit of the machine:  python -m benchmarks.peers.bare --model mlp

One process per core, one thread each, pushes its share of a round's samples through SGD steps of batch 20, starting
again from the initial weights (a copy) after every 120 samples. There is no server: no aggregation, no selection, no
waiting between the rounds of a block, and a perfect division of the work. A round has 25 x 120 samples, also with
`--sizes lognormal`, where that is the mean. `--check` compares the weights with those of torch's autograd and
optimiser instead.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import multiprocessing
import time
from multiprocessing.connection import Connection

import numpy as np
import torch
from torch import nn

from benchmarks.peers.kernels import KERNELS
from benchmarks.peers.workload import (
    BATCH,
    COHORT,
    RATE,
    Channel,
    arguments,
    build,
    inputs,
    keep_memory,
    read_images,
)

STEPS = 6


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--check", action="store_true", help="print the largest difference from autograd and SGD")


class Worker:
    """One process's share of every round."""

    def __init__(self, options: argparse.Namespace, data: tuple[torch.Tensor, torch.Tensor], rank: int) -> None:
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        keep_memory()
        self.rank, self.processes = rank, options.processes
        self.order = torch.from_numpy(np.random.default_rng([options.seed, 2, rank]).permutation(len(data[0])))
        self.position = 0
        kernel = KERNELS[options.model]
        self.largest = kernel.largest
        shapes = [(group, STEPS) for group in range(1, self.largest + 1)] + [(1, steps) for steps in range(1, STEPS)]
        self.kernels = {shape: kernel(data, *shape, options.seed) for shape in shapes}

    def train(self, group: int, steps: int) -> None:
        count = group * steps * BATCH
        if self.position + count > len(self.order):
            self.position = 0
        self.kernels[group, steps].train(self.order[self.position : self.position + count])
        self.position += count

    def round(self) -> None:
        steps = COHORT * STEPS
        mine = steps * (self.rank + 1) // self.processes - steps * self.rank // self.processes
        clients, rest = divmod(mine, STEPS)
        for _ in range(clients // self.largest):
            self.train(self.largest, STEPS)
        if clients % self.largest:
            self.train(clients % self.largest, STEPS)
        if rest:
            self.train(1, rest)

    def obey(self, pipe: Connection) -> None:
        while count := pipe.recv():
            for _ in range(count):
                self.round()
            pipe.send(count)


class Bare:
    """The processes."""

    def __init__(self, options: argparse.Namespace) -> None:
        data = KERNELS[options.model].prepare(*read_images())
        context = multiprocessing.get_context("fork")
        self.pipes = []
        for rank in range(options.processes):
            ours, theirs = context.Pipe()
            context.Process(target=obey, args=(options, data, rank, theirs), daemon=True).start()
            self.pipes.append(ours)

    def run(self, count: int) -> list[float]:
        start = time.perf_counter()
        for pipe in self.pipes:
            pipe.send(count)
        for pipe in self.pipes:
            pipe.recv()
        return [(time.perf_counter() - start) / count] * count


def obey(options: argparse.Namespace, data: tuple[torch.Tensor, torch.Tensor], rank: int, pipe: Connection) -> None:
    Worker(options, data, rank).obey(pipe)


def difference(model: str) -> float:
    """Largest difference between a kernel's weights and those of autograd and torch's SGD, after an epoch."""
    pixels, labels = read_images()
    group = 3
    rows = torch.from_numpy(np.random.default_rng(0).permutation(len(labels))[: group * STEPS * BATCH])
    with torch.no_grad():
        make = KERNELS[model]
        kernel = make(make.prepare(pixels, labels), group, STEPS)
        kernel.train(rows)
    module = build(model)
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    x, y = inputs(model, pixels), torch.from_numpy(labels)
    for batch in rows.view(group, STEPS, BATCH)[-1]:
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
        optimizer.step()
    pairs = zip(kernel.weights(group - 1), module.parameters(), strict=True)
    return max(float((ours - theirs.detach()).abs().max()) for ours, theirs in pairs)


def main() -> None:
    options = arguments("bare", extend)
    channel = Channel("bare", options)
    if options.check:
        channel.say(difference=difference(options.model))
        return
    channel.serve(Bare(options).run)


if __name__ == "__main__":
    main()
