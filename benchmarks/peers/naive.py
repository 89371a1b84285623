"""The loop that a researcher writes first:  python -m benchmarks.peers.naive --model mlp

Torch as it comes (threads are not set), a DataLoader and a deep copy of the model per client, and an average of the
state dictionaries.
"""

from __future__ import annotations

import copy
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.peers.workload import (
    BATCH,
    RATE,
    Channel,
    arguments,
    autocast,
    build,
    cohorts,
    deal,
    inputs,
    read_images,
)


class Naive:
    """One server with its model, and a data set per client."""

    def __init__(self, model: str, sizes: str, seed: int, precision: str = "float32") -> None:
        self.precision = precision
        pixels, labels = read_images()
        x, y = inputs(model, pixels), torch.from_numpy(labels)
        shares = deal(len(labels), sizes, seed)
        self.data = [TensorDataset(x[shares.samples(i)], y[shares.samples(i)]) for i in range(len(shares.sizes))]
        self.model = build(model, seed, plain=True)
        self.cohorts = cohorts(seed)

    def round(self) -> float:
        start = time.perf_counter()
        states, sizes = [], []
        for client in next(self.cohorts):
            local = copy.deepcopy(self.model)
            optimizer = torch.optim.SGD(local.parameters(), lr=RATE)
            for x, y in DataLoader(self.data[client], batch_size=BATCH, shuffle=True):
                optimizer.zero_grad()
                with autocast(self.precision):
                    outputs = local(x)
                nn.functional.cross_entropy(outputs.float(), y).backward()
                optimizer.step()
            states.append(local.state_dict())
            sizes.append(len(self.data[client]))
        total = sum(sizes)
        average = {
            name: sum(state[name] * (size / total) for state, size in zip(states, sizes, strict=True))
            for name in states[0]
        }
        self.model.load_state_dict(average)
        return time.perf_counter() - start


def main() -> None:
    options = arguments("naive")
    channel = Channel("naive", options)
    peer = Naive(options.model, options.sizes, options.seed, options.precision)
    channel.serve(lambda count: [peer.round() for _ in range(count)])


if __name__ == "__main__":
    main()
