"""The server's side of a round: how updates are checked, and how they change the model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from enlist._internal.typing import FloatArray
from enlist.bandits import staleness
from enlist.errors import InputError
from enlist.simulation.sections import ServerSection
from enlist.training.aggregation import Aggregator, BufferMerge
from enlist.training.aggregators import MOST_SAMPLES, length
from enlist.training.bounds import RunningBound
from enlist.training.engine import refused
from enlist.training.flat import Layout, Vectors
from enlist.training.local import Report

SUMMED = 1000.0
"""From this norm_bound on, sums of updates are checked first."""
SHARE = 100.0
"""A sum looks wrong if its mean update is longer than norm_bound / SHARE times the usual. This catches every update
beyond the bound with at least a hundredth of the sum's weight, unless it is cancelled out."""

Sender = tuple[int, int]
"""A client, and the round in which it was selected: it may reply late, and again in the same round."""


@dataclasses.dataclass(eq=False)
class LateUpdate:
    """An update of an earlier round that has just arrived; `model` is the client's, if the protocol keeps models.

    `weight` is what the selector gave it, if it weighs updates itself.

    >>> LateUpdate(3, 1, 2, Report(), Vectors(torch.zeros(1), torch.zeros(0), torch.zeros(0)), 9.0).lateness
    2
    """

    client: int
    round: int
    lateness: int
    report: Report
    update: Vectors
    latency: float
    model: Vectors | None = None
    weight: float | None = None


class Server:
    """Holds the global model and changes it once a round.

    lengths      judges updates one by one, by their length
    glance       judges sums of updates, as long as none looks wrong: cheaper, and enough for a generous bound
    distances    judges updates by their distance from the aggregate; a client far from it is `distrusted`

    >>> from enlist.simulation.sections import ServerSection
    >>> layout = Layout.of(torch.nn.Linear(1, 1))
    >>> server = Server(ServerSection(), layout, Vectors.zeros(layout))
    >>> update = Vectors.zeros(layout)
    >>> _ = update.parameters.fill_(2.0)
    >>> server.add((3, 1), Report(num_examples=10.0), update)
    >>> server.finish()
    >>> server.model.parameters[0].item()
    2.0
    """

    def __init__(self, settings: ServerSection, layout: Layout, model: Vectors) -> None:
        self.settings, self.layout, self.model = settings, layout, model
        self.optimiser = settings.optimiser.start(layout.size)
        self.memory = settings.aggregation.memory(layout.size)
        self.lengths = RunningBound(settings.norm_bound)
        self.glance = RunningBound(settings.norm_bound / SHARE)
        self.distances = RunningBound(settings.distrust)
        self.distrusted: dict[Sender, str] = {}
        self.begin()

    def begin(self) -> None:
        """Start collecting the updates of a round."""
        self.aggregator: Aggregator = self.settings.aggregation.start(self.layout.size, self.memory)
        self.buffers = BufferMerge(
            self.layout.buffer_size, self.layout.counter_size, robust=not self.aggregator.streaming
        )
        self.fresh = 0
        self.given = 0.0
        self.senders: list[Sender] = []

    @property
    def one_by_one(self) -> bool:
        """Whether every update must be checked: the bound is tight, or a sum has looked wrong before."""
        return 0 < self.settings.norm_bound < SUMMED or bool(self.lengths.values)

    def examined(self, answers: Iterator[tuple[Report, Vectors]]) -> Iterator[tuple[Report, Vectors]]:
        """Reports that say why an update is refused, if it is; updates are valid until the next one is taken.

        Until enough lengths are known, all updates are kept and compared with each other.
        """
        if self.lengths.ready:
            for report, update in answers:
                yield report._replace(error=self._reasons([(report, update)])[0]), update
            return
        kept = [(report, update.clone()) for report, update in answers]
        for (report, update), reason in zip(kept, self._reasons(kept), strict=True):
            yield report._replace(error=reason), update

    def examined_late(self, answers: Iterator[tuple[Report, Vectors]]) -> Iterator[tuple[Report, Vectors]]:
        """The same for late updates; if only sums were checked so far, they are compared with these."""
        if self.lengths.values:
            yield from self.examined(answers)
            return
        limit = SHARE * self.glance.limit()
        for report, update in answers:
            reason = report.error or refused(update, self.layout) or _claim(report)
            given = 0.0 if reason else length(update.parameters)
            yield report._replace(error=reason or self._too_long(given, limit)), update

    def _reasons(self, answers: Sequence[tuple[Report, Vectors]]) -> list[str]:
        """Why each of some updates is refused, or nothing."""
        reasons = [report.error or refused(update, self.layout) or _claim(report) for report, update in answers]
        if not self.lengths.factor:
            return reasons
        good = [number for number, reason in enumerate(reasons) if not reason]
        lengths = [length(answers[number][1].parameters) for number in good]
        limit = self.lengths.limit(() if self.lengths.ready else lengths)
        self.lengths.judge(lengths)
        for number, given in zip(good, lengths, strict=True):
            reasons[number] = self._too_long(given, limit)
        return reasons

    def _too_long(self, given: float, limit: float) -> str:
        if given <= limit:
            return ""
        bound = self.settings.norm_bound
        return (
            f"the update is {given:.3g} long, over norm_bound = {bound:g} times the running median {limit / bound:.3g}"
        )

    def add(
        self, sender: Sender, report: Report, update: Vectors, weight: float | None = None, factor: float = 1.0
    ) -> None:
        """Add one update that was examined, in client order; `weight`, if given, replaces its number of samples.

        `factor` makes it shorter without changing its weight (FedBuff).
        """
        if factor != 1.0:
            update = Vectors(factor * update.parameters, update.buffers, update.counters)
        self._take(sender, update, report.num_examples, weight=weight)
        self.fresh += 1

    def add_sum(self, total: Vectors, weight: float, count: int, scaled: float | None = None) -> None:
        """Add the sum of `count` updates that were multiplied by their weights.

        `scaled` is the sum of these weights, if they include factors that leave the weight of an update alone.
        """
        self.aggregator.add_sum(total.parameters, weight)
        self.buffers.add_sum(total.buffers, total.counters, weight if scaled is None else scaled)
        self.fresh += count

    def looks_wrong(self, lengths: Sequence[float]) -> bool:
        """Whether any of these lengths of mean updates is so unusual that updates must be checked one by one."""
        return not all(self.glance.judge(lengths))

    def deviation(self, late: Sequence[LateUpdate]) -> FloatArray:
        """How far each late update is from the mean of this round's (REFL); NaN if there is no such mean."""
        mean = self.aggregator.result() if self.fresh else None
        if mean is None:
            return np.full(len(late), math.nan)
        stack = torch.stack([entry.update.parameters for entry in late])
        return staleness.deviation(mean.numpy(), stack.numpy(), self.fresh)

    def finish(self, late: Sequence[LateUpdate] = (), discounts: Sequence[float] = ()) -> None:
        """Add late updates, each at its discount, and change the model by the aggregate."""
        for entry, discount in zip(late, discounts, strict=True):
            self._take((entry.client, entry.round), entry.update, entry.report.num_examples, discount, entry.weight)
        change = self.aggregator.result()
        if change is not None and self.given:
            change *= self.given  # weights of a selector are factors: the model moves by the sum, not by the mean
        self.distrusted = {}
        if change is not None:
            self._judge(change)
            self.aggregator.remember(change)
            self.optimiser.step(self.model.parameters, change)
            self.buffers.into(self.model.buffers, self.model.counters)
        self.begin()

    def move_to(self, model: Vectors) -> None:
        """Change the model by a step of the optimiser towards another one."""
        self.optimiser.step(self.model.parameters, model.parameters - self.model.parameters)
        self.model.buffers.copy_(model.buffers)
        self.model.counters.copy_(model.counters)

    def _judge(self, change: torch.Tensor) -> None:
        """Determine which clients to distrust."""
        if not self.distances.factor:
            return
        far = self.aggregator.distances(change)
        factor = self.distances.factor
        usual = self.distances.limit(() if self.distances.ready else far) / factor
        for sender, gap, within in zip(self.senders, far, self.distances.judge(far), strict=True):
            if not within:
                self.distrusted[sender] = (
                    f"distrusted: the update is {gap:.3g} away from the aggregate, over distrust = {factor:g} times "
                    f"the running median {usual:.3g}"
                )

    def _take(
        self, sender: Sender, update: Vectors, samples: float, discount: float = 1.0, weight: float | None = None
    ) -> None:
        if weight is None:
            self.aggregator.add(update.parameters, samples, discount)
        else:
            if self.aggregator.weight(1.0) is None:
                kind = self.settings.aggregation.kind
                raise InputError(
                    f"the selector weighs updates itself, and server.aggregation.kind is '{kind}', which has no "
                    "weights; use 'mean'."
                )
            samples = weight
            self.aggregator.add_sum(update.parameters * (discount * weight), discount * weight)
            self.given += discount * weight
        self.buffers.add(update.buffers, update.counters, discount * samples)
        if discount:
            self.senders.append(sender)

    def state(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """The contents of a checkpoint besides the model: usual lengths, and memories of optimiser and aggregation."""
        bounds = {"lengths": self.lengths, "glance": self.glance, "distances": self.distances}
        tensors = {f"server/{name}": tensor for name, tensor in self.optimiser.state().items()}
        tensors |= {f"aggregation/{name}": tensor.clone() for name, tensor in self.memory.items()}
        return {name: bound.state() for name, bound in bounds.items()}, tensors

    def restore(self, header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        """Continue from what `state` returned; version 0.1 had no bounds."""
        for name, bound in (("lengths", self.lengths), ("glance", self.glance), ("distances", self.distances)):
            bound.restore(header.get(name, ()))
        self.optimiser.restore(under("server/", tensors))
        for name, tensor in self.memory.items():
            tensor.copy_(tensors[f"aggregation/{name}"])


def under(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    """The entries whose names begin with `prefix`, without it.

    >>> under("a/", {"a/x": 1, "b/x": 2})
    {'x': 1}
    """
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _claim(report: Report) -> str:
    """Why the number of samples that a client claims to have trained on cannot be true, or nothing."""
    if 0 <= report.num_examples <= MOST_SAMPLES:
        return ""
    return (
        f"the client claims to have trained on {report.num_examples:g} samples; at most {MOST_SAMPLES:g} are believed"
    )
