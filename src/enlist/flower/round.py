"""A round while it lasts: whom it asked, what came back, and which replies the strategy gets to see."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from flwr.app import Message

from enlist._internal.typing import FloatArray, IntArray
from enlist.flower.contents import (
    Parts,
    Shapes,
    Template,
    cut_weight,
    examined,
    misshapen,
    outliers,
    parts_of,
    put_in_order,
    unweighed,
)
from enlist.flower.federation import Report
from enlist.flower.grid import Arrival
from enlist.flower.replies import REASON, Said, read
from enlist.records import Outcome, Selection


@dataclasses.dataclass(frozen=True, eq=False)
class Judged:
    """A reply, what it says, its records, and the shapes of its arrays; `fault` is why they cannot be used.

    >>> said = Said(Outcome.COMPLETED, "")
    >>> [Judged(None, said, {}, {}, fault).completed for fault in ("", "array 'w' is not finite")]
    [True, False]
    """

    arrival: Arrival
    said: Said
    parts: Parts
    shapes: Shapes
    fault: str

    @property
    def completed(self) -> bool:
        """Whether it is a reply without error whose arrays can be used, if their shapes are right."""
        return self.said.outcome == Outcome.COMPLETED and not self.fault


def refused(fault: str) -> Said:
    """What is written down of a reply that is refused: one line that can be printed, however its sender names things.

    >>> refused("the metrics are a\\r\\nb").reason
    'refused: the metrics are a b'
    """
    start = f"refused: {fault}"[: 10 * REASON]
    printable = "".join(letter if letter.isprintable() else " " for letter in start)
    return Said(Outcome.FAILED, " ".join(printable.split())[:REASON])


def judge(
    arrival: Arrival,
    own_keys: Mapping[str, str] | None,
    weight_key: str,
    templates: Mapping[str, Template] | None = None,
) -> Judged:
    """Read a reply and look at its arrays.

    >>> from enlist.flower.fake import instruction, model_reply
    >>> message = instruction(7)
    >>> from enlist.flower.grid import Sent
    >>> sent = Sent(message, "train", 1, 0.0, 0.0, 0.0)
    >>> judge(Arrival(sent, Message(model_reply(message), reply_to=message), 2.0), None, "num-examples").completed
    True
    """
    said = read(arrival.reply, own_keys, weight_key)
    if said.outcome != Outcome.COMPLETED:
        return Judged(arrival, said, Parts({}, {}, {}), {}, "")
    parts = parts_of(arrival.reply.content)
    shapes, fault = examined(parts, templates)
    return Judged(arrival, said, parts, shapes, fault or unweighed(parts, weight_key))


@dataclasses.dataclass(eq=False)
class Round:
    """One round of training, from the choice of its nodes to their outcomes.

    nodes      node -> position of its client, of everybody who was asked
    expected   names and shapes of arrays that replies must have; None if any will do
    wanted     in shadow mode, whom the selector would have chosen
    watching   shadow mode: Flower may wait longer than the deadline, and what comes then is late for the selector
    waited     seconds until it was closed; None as long as it is open
    sent       nodes whose message the SuperLink has taken
    updated    whether the strategy has made a new model of it
    evaluations   how many nodes were asked to evaluate, and how that ended: columns of rounds.csv

    >>> Round(1, Selection(1, np.array([0])), {11: 0}, [], None, {11}, 0.0).waited is None
    True
    """

    number: int
    selection: Selection
    nodes: dict[int, int]
    messages: list[Message]
    expected: Shapes | None
    online: set[int]
    began: float
    wanted: Sequence[int] = ()
    watching: bool = False
    waited: float | None = None
    templates: Mapping[str, Template] = dataclasses.field(default_factory=dict)
    sent: set[int] = dataclasses.field(default_factory=set)
    judged: dict[str, Judged] = dataclasses.field(default_factory=dict)
    reports: list[Report] = dataclasses.field(default_factory=list)
    usable: list[Judged] = dataclasses.field(default_factory=list)
    failures: list[Message] = dataclasses.field(default_factory=list)
    weights: dict[int, float] = dataclasses.field(default_factory=dict)
    late: list[tuple[int, Report, Judged]] = dataclasses.field(default_factory=list)
    late_weights: dict[int, float] = dataclasses.field(default_factory=dict)
    updated: bool = False
    bytes_down: int = 0
    bytes_up: int = 0
    evaluations: dict[str, int] = dataclasses.field(default_factory=dict)

    def examples(self) -> tuple[IntArray, FloatArray]:
        """Who has sent usable replies, and how many examples each claims."""
        done = [report for report in self.reports if report.said.outcome == Outcome.COMPLETED]
        claimed = [report.said.claims.get("num_examples", np.nan) for report in done]
        return np.array([report.client for report in done], dtype=np.int64), np.array(claimed, dtype=float)

    def weigh(self, weight_key: str, heaviest: float) -> None:
        """Note, and cut, the weight with which each usable reply counts."""
        for judged in self.usable:
            self.weights[judged.arrival.sent.node] = cut_weight(judged.parts, weight_key, heaviest)
            arrays = next(iter(judged.parts.arrays.values()))
            self.bytes_up += sum(len(array.data) for array in arrays.values())

    def count_nothing(self) -> None:
        """There were too few replies: none of them counts in an average."""
        self.weights = dict.fromkeys(self.weights, 0.0)
        self.late_weights = dict.fromkeys(self.late_weights, 0.0)

    def good(self, known: Sequence[Shapes]) -> int:
        """How many usable replies there are so far."""
        return sum(judged.completed and self._fits(judged, known) for judged in self.judged.values())

    def _fits(self, judged: Judged, known: Sequence[Shapes]) -> bool:
        return self.expected is None or judged.shapes in (self.expected, *known)

    def sort_out(self, known: Sequence[Shapes]) -> Shapes | None:
        """Decide what the strategy sees, and how everybody who replied has ended.

        Arrays must have the shapes that were sent. If none of them has, but two or more agree, that is how the app
        replies (it sends only a part of the model, say), and these shapes are returned. Where both would be allowed,
        those of most are right: a strategy cannot take two kinds.
        """
        everybody = sorted(self.judged.values(), key=self._place)
        good = [judged for judged in everybody if judged.completed]
        other = None
        if not any(self._fits(judged, known) for judged in good):
            forms = collections.Counter(tuple(sorted(judged.shapes.items())) for judged in good).most_common(1)
            other = dict(forms[0][0]) if forms and forms[0][1] > max(1, len(good) / 2) else None
        allowed = (*known, *([] if other is None else [other]))
        found = [judged.shapes for judged in good]
        usual = None if self.expected is None else max((self.expected, *allowed), key=found.count)
        fitting = [judged for judged in good if usual is None or judged.shapes == usual]
        odd = dict(zip(map(id, fitting), outliers([judged.parts for judged in fitting]), strict=True))
        for judged in everybody:
            fault = judged.fault or odd.get(id(judged), "")
            if judged.completed and usual is not None:
                fault = fault or misshapen(judged.shapes, usual)
            self._close(judged, fault)
        if self.usable:
            names = list(self.usable[0].shapes if usual is None or usual != self.expected else usual)
            for judged in self.usable:
                put_in_order(next(iter(judged.parts.arrays.values())), names)
        for node in self.nodes.keys() - self.sent:
            said = Said(Outcome.DROPPED, "the message could not be sent")
            self.reports.append(Report(node, self.nodes[node], said, 0.0))
        return other

    def _place(self, judged: Judged) -> int:
        """In the order of clients, whatever the order of arrival: sums then come out the same, to the last bit."""
        return self.nodes.get(judged.arrival.sent.node, -1)

    def _close(self, judged: Judged, fault: str) -> None:
        sent, said = judged.arrival.sent, judged.said
        latency = judged.arrival.latency if self.watching else min(judged.arrival.latency, self.selection.deadline)
        if fault:
            said = refused(fault)
            self.failures.append(sent.failure(0, said.reason))
        elif said.outcome == Outcome.COMPLETED:
            self.usable.append(judged)
        else:
            self.failures.append(sent.failure(judged.arrival.reply.error.code, said.reason))
        if sent.node in self.nodes:  # else, in shadow mode, one of whom the selector knows nothing
            self.reports.append(Report(sent.node, self.nodes[sent.node], said, latency))
