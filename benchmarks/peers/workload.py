"""What every peer trains, and how a driver talks to it.

500 clients share the 60,000 training images of Fashion-MNIST; 25 of them take part in a round, each with one epoch of
SGD (batch 20, rate 0.05). A peer loads everything, warms up, prints one JSON line that says that it is ready, and then
reads orders from its standard input: `run N` makes it do N rounds and print one JSON line with the seconds of each,
`quit` (or the end of the input) ends it. So a driver can let peers alternate, block by block, on a machine that is not
always equally fast. With `--rounds N` a peer does N rounds at once and ends.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from torch import nn

CLIENTS = 500
COHORT = 25
BATCH = 20
RATE = 0.05
MODELS = ("logistic", "mlp", "cnn")
SIZES = ("equal", "lognormal")
PRECISIONS = ("float32", "bf16")
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")

Run = Callable[[int], Sequence[float]]


def read_images() -> tuple[np.ndarray, np.ndarray]:
    """Training images (60000, 28, 28) as bytes and labels (60000,) as int64, from Debian's IDX files."""
    files = [FASHION_MNIST / name for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")]
    missing = [str(path) for path in files if not path.exists()]
    if missing:
        sys.exit(f"{' and '.join(missing)} not found. Install them: apt-get install dataset-fashion-mnist")
    pixels, labels = (gzip.decompress(path.read_bytes()) for path in files)
    x = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 28, 28)
    return x, np.frombuffer(labels, np.uint8, offset=8).astype(np.int64)


@dataclass(frozen=True)
class Deal:
    """Which samples each client holds: client i has order[offsets[i]:offsets[i + 1]]."""

    order: np.ndarray
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    def samples(self, client: int) -> np.ndarray:
        return self.order[self.offsets[client] : self.offsets[client + 1]]


def deal(samples: int, sizes: str = "equal", seed: int = 0) -> Deal:
    """Deals shuffled samples to the clients: equal parts, or parts that are lognormal with sigma 1 (at least one)."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(samples)
    weights = np.exp(rng.normal(size=CLIENTS)) if sizes == "lognormal" else np.ones(CLIENTS)
    ends = np.cumsum(1 + (samples - CLIENTS) * weights / weights.sum())
    return Deal(order, np.concatenate([[0], np.rint(ends).astype(np.int64)]))


def cohorts(seed: int = 0) -> Iterator[np.ndarray]:
    """Round after round 25 distinct clients."""
    rng = np.random.default_rng([seed, 1])
    while True:
        yield rng.choice(CLIENTS, COHORT, replace=False)


class CNN(nn.Module):
    """Two 5x5 convolutions with ReLU and 2x2 max-pooling, a dense layer of 64.

    Plain: as one writes it first. Otherwise the same function in the order and memory format that are fastest on a
    CPU: pooled before ReLU, and channels last. With one channel both formats describe the same bytes, and torch takes
    such images for contiguous; only strides that say channels-last outright make the convolution answer in it.
    """

    def __init__(self, plain: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 5, padding=2)
        self.second = nn.Conv2d(16, 32, 5, padding=2)
        self.hidden = nn.Linear(32 * 7 * 7, 64)
        self.head = nn.Linear(64, 10)
        self.plain = plain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.plain:
            x = nn.functional.max_pool2d(torch.relu(self.first(x)), 2)
            x = nn.functional.max_pool2d(torch.relu(self.second(x)), 2)
        else:
            x = x.view(-1, 28, 28, 1).permute(0, 3, 1, 2)
            x = torch.relu(nn.functional.max_pool2d(self.first(x), 2))
            x = torch.relu(nn.functional.max_pool2d(self.second(x), 2))
        return self.head(torch.relu(self.hidden(x.flatten(1))))


def build(model: str, seed: int = 0, plain: bool = False) -> nn.Module:
    """The model, with the same initial weights in every peer."""
    torch.manual_seed(seed)
    if model == "logistic":
        return nn.Linear(784, 10)
    if model == "mlp":
        return nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10))
    return CNN(plain)


def inputs(model: str, pixels: np.ndarray) -> torch.Tensor:
    """Images as the model takes them, scaled to [0, 1]: (n, 784), or (n, 1, 28, 28) for the CNN."""
    x = torch.from_numpy(pixels.reshape(len(pixels), -1).astype(np.float32) / 255)
    return x.view(-1, 1, 28, 28) if model == "cnn" else x


def autocast(precision: str) -> contextlib.AbstractContextManager[object]:
    """The context of a forward pass: torch's own autocast for bf16."""
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def keep_memory() -> None:
    """Tells glibc to keep freed memory: otherwise it is faulted in anew in every step. Elsewhere it does nothing."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        for option, value in ((-3, 32 << 20), (-1, 512 << 20), (-2, 64 << 20)):
            libc.mallopt(option, value)


def arguments(peer: str, extend: Callable[[argparse.ArgumentParser], Any] | None = None) -> argparse.Namespace:
    """The command line that all peers share."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.peers.{peer}")
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--sizes", choices=SIZES, default="equal")
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="float32", help="bf16: forward passes under autocast"
    )
    parser.add_argument("--rounds", type=int, default=0, help="do so many rounds and end; 0: read orders")
    parser.add_argument("--warmup", type=int, default=3, help="rounds before the first measured one")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch in each process")
    parser.add_argument("--seed", type=int, default=0)
    if extend:
        extend(parser)
    return parser.parse_args()


class Channel:
    """The peer's side of the protocol. Whatever else is printed goes to standard error from now on."""

    def __init__(self, peer: str, options: argparse.Namespace) -> None:
        self.peer = peer
        self.options = options
        self.out: TextIO = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, **facts: Any) -> None:
        told = {"peer": self.peer, "model": self.options.model, "sizes": self.options.sizes, **facts}
        print(json.dumps(told), file=self.out, flush=True)

    def orders(self) -> Iterator[int]:
        """Numbers of rounds to do."""
        if self.options.rounds:
            yield self.options.rounds
            return
        for line in sys.stdin:
            word, _, count = line.strip().partition(" ")
            if word == "quit":
                return
            if word == "run" and count.isdigit() and int(count) > 0:
                yield int(count)
            elif word:
                self.say(error=f"'{line.strip()}' is no order. Orders: 'run N' with N of at least 1, 'quit'.")

    def serve(self, run: Run) -> None:
        """Warms up, says so, and obeys until told to quit."""
        start = time.perf_counter()
        if self.options.warmup:
            run(self.options.warmup)
        self.say(ready=True, warmup_seconds=round(time.perf_counter() - start, 4))
        for count in self.orders():
            self.say(seconds_per_round=[round(second, 6) for second in run(count)])
