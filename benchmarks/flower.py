"""What the Flower adapter itself costs in a round: 1,000 simulated nodes, 50 per round, on a grid in memory.

    python -m benchmarks.flower [--nodes 1000] [--k 50] [--rounds 60] [--selector oort]

The same federation runs with plain FedAvg, with a selector around it, and with a selector and a folder (tables, and a
checkpoint every round). The fake grid's clock does not wait. Time inside the grid and inside FedAvg is Flower's; the
rest is the adapter: choosing, polling, reading and checking replies, telling, writing. It is time of the processor, so
that whatever else the machine does makes no difference; a disk that is slow to sync comes on top.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Message
from flwr.serverapp.strategy import FedAvg, Strategy

from enlist.flower import with_selector
from enlist.flower.fake import FakeGrid, FakeReply, model_reply

LIMIT = 20.0
MODEL = [(64, 32), (32,), (32, 10), (10,)]


class Meter:
    """Seconds of the processor inside Flower, which do not count as the adapter's, and when rounds ended."""

    def __init__(self) -> None:
        self.inside, self.depth = 0.0, 0
        self.marks: list[tuple[float, float]] = []

    @contextmanager
    def flower(self) -> Iterator[None]:
        """Time spent here is Flower's."""
        start, self.depth = time.process_time(), self.depth + 1
        try:
            yield
        finally:
            self.depth -= 1
            if not self.depth:
                self.inside += time.process_time() - start

    def mark(self) -> None:
        """A round ends."""
        self.marks.append((time.process_time(), self.inside))


class TimedGrid(FakeGrid):
    """A grid in memory that times itself."""

    def __init__(self, meter: Meter, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.meter = meter

    def push_messages(self, messages: Any) -> Any:
        """Timed."""
        with self.meter.flower():
            return super().push_messages(messages)

    def pull_messages(self, message_ids: Any) -> Any:
        """Timed."""
        with self.meter.flower():
            return super().pull_messages(message_ids)

    def get_node_ids(self) -> Any:
        """Timed."""
        with self.meter.flower():
            return super().get_node_ids()


class TimedFedAvg(FedAvg):
    """FedAvg with a fixed number of nodes per round that times itself."""

    def __init__(self, meter: Meter, k: int) -> None:
        super().__init__(fraction_train=1e-9, min_train_nodes=k, min_available_nodes=k, fraction_evaluate=0.0)
        self.meter = meter

    def configure_train(self, *arguments: Any, **named: Any) -> Any:
        """Timed."""
        with self.meter.flower():
            return list(super().configure_train(*arguments, **named))

    def aggregate_train(self, *arguments: Any, **named: Any) -> Any:
        """Timed."""
        with self.meter.flower():
            return super().aggregate_train(*arguments, **named)

    def aggregate_evaluate(self, *arguments: Any, **named: Any) -> Any:
        """Timed."""
        with self.meter.flower():
            return super().aggregate_evaluate(*arguments, **named)


class Cost(NamedTuple):
    """Milliseconds of a round, medians: all of it, and what is not inside Flower."""

    total: float
    adapter: float


def behaviour(seed: int = 1) -> Callable[[Message], FakeReply]:
    """Nodes that reply after a while of their own, with losses of their own."""
    rng = np.random.default_rng(seed)
    seconds, loss = rng.lognormal(1.0, 0.8, 100_000), rng.uniform(0.1, 3.0, 100_000)

    def answer(message: Message) -> FakeReply:
        node = message.metadata.dst_node_id
        claims = {"loss": float(loss[node]), "loss_rms": float(1.1 * loss[node]), "accuracy_gain": 0.01}
        return FakeReply(
            float(seconds[node]), model_reply(message, examples=20 + node % 50, client_id=f"phone-{node}", **claims)
        )

    return answer


def cost(strategy: Strategy, meter: Meter, nodes: int, rounds: int) -> Cost:
    """Run a federation, and look at every round but the first three."""
    grid = TimedGrid(meter, range(2, nodes + 2), behaviour())
    strategy.clock = grid.clock  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    arrays = ArrayRecord([rng.normal(size=shape).astype(np.float32) for shape in MODEL])

    def evaluate(number: int, arrays: ArrayRecord) -> None:
        meter.mark()

    strategy.start(grid=grid, initial_arrays=arrays, num_rounds=rounds, evaluate_fn=evaluate)
    pairs = list(zip(meter.marks[3:], meter.marks[4:], strict=False))
    total = [1e3 * (after[0] - before[0]) for before, after in pairs]
    inside = [1e3 * (after[1] - before[1]) for before, after in pairs]
    return Cost(statistics.median(total), statistics.median(np.subtract(total, inside)))


def measure(nodes: int, k: int, rounds: int, selector: str) -> dict[str, Cost]:
    """Costs of a round: plain, with the selector, and with the selector and a folder."""
    meter = Meter()
    found = {"plain FedAvg": cost(TimedFedAvg(meter, k), meter, nodes, rounds)}
    with tempfile.TemporaryDirectory() as place:
        for name, folder in ((f"with {selector}", None), (f"with {selector}, folder", Path(place) / "run")):
            meter = Meter()
            wrapped = with_selector(TimedFedAvg(meter, k), selector, k=k, deadline=60.0, folder=folder)
            found[name] = cost(wrapped, meter, nodes, rounds)
    return found


def main() -> None:
    """Print medians side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--selector", default="oort")
    given = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    print(f"{given.nodes} nodes, {given.k} per round, {given.rounds} rounds: milliseconds of the processor (median)")
    print(f"{'':24s} {'round':>8s} {'outside Flower':>15s}   limit {LIMIT:g}")
    for name, found in measure(given.nodes, given.k, given.rounds, given.selector).items():
        print(f"{name:24s} {found.total:8.1f} {found.adapter:15.1f}")


if __name__ == "__main__":
    main()
