"""The server's side of a round: which model clients start from, and how their updates change it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch

from enlist.bandits import staleness
from enlist.simulation.config import ServerSection
from enlist.training.aggregation import Aggregator, BufferMerge
from enlist.training.engine import refused
from enlist.training.flat import Layout, Vectors
from enlist.training.local import Report
from enlist.typing import FloatArray


@dataclasses.dataclass(eq=False)
class Late:
    """An update of an earlier round that has just come in.

    >>> Late(3, 1, 2, Report(), Vectors(torch.zeros(1), torch.zeros(0), torch.zeros(0)), 9.0).lateness
    2
    """

    client: int
    round: int
    lateness: int
    report: Report
    update: Vectors
    latency: float


class Server:
    """Holds the global model and changes it once a round.

    >>> from enlist.simulation.config import ServerSection
    >>> layout = Layout.of(torch.nn.Linear(1, 1))
    >>> server = Server(ServerSection(), layout, Vectors.zeros(layout))
    >>> server.begin()
    >>> update = Vectors.zeros(layout)
    >>> _ = update.parameters.fill_(2.0)
    >>> server.add(Report(samples=10.0), update)
    ''
    >>> server.finish([], "refl")
    []
    >>> server.model.parameters[0].item()
    2.0
    """

    def __init__(self, settings: ServerSection, layout: Layout, model: Vectors) -> None:
        self.settings, self.layout, self.model = settings, layout, model
        self.optimiser = settings.optimiser.start(layout.size)
        self.begin()

    def begin(self) -> None:
        """Start collecting the updates of a round."""
        self.aggregator: Aggregator = self.settings.aggregation.start(self.layout.size)
        self.buffers = BufferMerge(self.layout.buffer_size, self.layout.counter_size)
        self.fresh = 0

    def add(self, report: Report, update: Vectors) -> str:
        """Take in one update, in client order; returns why it was refused, or nothing."""
        reason = report.error or refused(update, self.layout)
        if not reason:
            self._take(update, report.samples)
            self.fresh += 1
        return reason

    def add_sum(self, total: Vectors, weight: float, count: int) -> None:
        """Take in the sum of `count` updates that were multiplied by their weights."""
        self.aggregator.add_sum(total.parameters, weight)
        self.buffers.add_sum(total.buffers, total.counters, weight)
        self.fresh += count

    def finish(self, late: list[Late], weighting: str) -> list[float]:
        """Take in late updates and change the model; returns the weight that each late update got."""
        weights = self._staleness(late, weighting)
        for entry, weight in zip(late, weights, strict=True):
            self._take(entry.update, entry.report.samples, weight)
        change = self.aggregator.result()
        if change is not None:
            self.optimiser.step(self.model.parameters, change)
            self.buffers.into(self.model.buffers, self.model.counters)
        self.begin()
        return weights

    def _take(self, update: Vectors, samples: float, discount: float = 1.0) -> None:
        self.aggregator.add(update.parameters, samples, discount)
        self.buffers.add(update.buffers, update.counters, discount * samples)

    def _staleness(self, late: list[Late], weighting: str) -> list[float]:
        if not late:
            return []
        rounds = [entry.lateness for entry in late]
        if weighting != "refl":
            return [float(weight) for weight in getattr(staleness, weighting)(rounds)]
        mean = self.aggregator.result() if self.fresh else None
        if mean is None:
            different: FloatArray = np.full(len(late), math.nan)
        else:
            stack = torch.stack([entry.update.parameters for entry in late])
            different = staleness.deviation(mean.numpy(), stack.numpy(), self.fresh)
        return [float(weight) for weight in staleness.refl_weights(rounds, different)]


class Versions:
    """Models that somebody still trains from: the present one, and those of rounds with late clients.

    Each has a slot in the trainer's shared memory; a slot is free again when nobody needs its model any more.

    >>> versions = Versions()
    >>> versions.slot(1), versions.slot(2), versions.keep({2}), versions.slot(3)
    (0, 1, None, 0)
    """

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}

    def slot(self, version: int) -> int:
        """The slot of a version, which is given one if it has none yet."""
        if version not in self.slots:
            used = set(self.slots.values())
            self.slots[version] = next(slot for slot in range(len(used) + 1) if slot not in used)
        return self.slots[version]

    def keep(self, versions: set[int]) -> None:
        """Forget all others."""
        self.slots = {version: slot for version, slot in self.slots.items() if version in versions}
