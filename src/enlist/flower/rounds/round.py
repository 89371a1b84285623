"""A round in progress: the nodes selected, what came back, and which replies the strategy gets to see."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord
from flwr.serverapp.strategy import Result

from enlist._internal import aliases
from enlist._internal.typing import FloatArray, IntArray
from enlist.errors import EnlistError
from enlist.flower.grid import LOGGER
from enlist.flower.replies.arrays import Shapes, Template, misshapen, outliers, put_in_order
from enlist.flower.replies.reply import Reply
from enlist.records import Outcome, Selection


@dataclasses.dataclass(eq=False)
class Round:
    """One round of training, from the selection of its nodes to their outcomes.

    nodes      node -> position of its client, for all selected nodes
    expected   names and shapes of arrays that replies must have; None if any will do
    wanted     in shadow mode, what the selector would have selected
    watching   shadow mode: Flower may wait longer than the deadline, and later replies are late for the selector
    waited     seconds until it was closed; None as long as it is open
    templates  the arrays that were sent, with which those of replies are checked without decoding
    sent       nodes whose message the SuperLink accepted
    replies    replies in time, by the id of the message that they answer
    reported   replies whose client the selector knows, once the round is closed, in the order of clients
    usable     replies that the strategy averages; `failures` holds the error messages that it gets for the others
    late       replies to earlier rounds that arrived in this one
    updated    whether the strategy made a new model from it
    evaluations   number of nodes selected to evaluate, and their outcomes: columns of rounds.csv

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
    replies: dict[str, Reply] = dataclasses.field(default_factory=dict)
    reported: list[Reply] = dataclasses.field(default_factory=list)
    usable: list[Reply] = dataclasses.field(default_factory=list)
    failures: list[Message] = dataclasses.field(default_factory=list)
    late: list[Reply] = dataclasses.field(default_factory=list)
    updated: bool = False
    bytes_down: int = 0
    bytes_up: int = 0
    evaluations: dict[str, int] = dataclasses.field(default_factory=dict)
    stepping: ClassVar[bool] = False
    """Whether it includes replies to earlier rounds, as a step of a buffered server does."""

    def entries(self) -> list[tuple[int, Reply | None]]:
        """Selected clients, each with its reply, or None."""
        reported = {reply.client: reply for reply in self.reported}
        return [(client, reported.get(client)) for client in self.selection.clients.tolist()]

    def examples(self) -> tuple[IntArray, FloatArray]:
        """Clients with completed replies, and the number of examples that each claims."""
        done = [reply for reply in self.reported if reply.completed]
        claimed = [reply.claims.get("num_examples", np.nan) for reply in done]
        return np.array([reply.client for reply in done], dtype=np.int64), np.array(claimed, dtype=float)

    def weigh(self, weight_key: str, heaviest: float) -> None:
        """Set the weight with which each usable reply counts, after the cut."""
        for reply in self.usable:
            reply.weigh(weight_key, heaviest)
            self.bytes_up += reply.size()

    def count_nothing(self) -> None:
        """There were too few replies: set all weights to zero."""
        for reply in (*self.usable, *self.late):
            if not math.isnan(reply.weight):
                reply.weight = 0.0

    def good(self, known: Sequence[Shapes]) -> int:
        """The number of usable replies so far."""
        return sum(reply.completed and self._fits(reply, known) for reply in self.replies.values())

    def _fits(self, reply: Reply, known: Sequence[Shapes]) -> bool:
        return self.expected is None or reply.shapes in (self.expected, *known)

    def sort_out(self, known: Sequence[Shapes]) -> Shapes | None:
        """Decide what the strategy sees, and the outcome of every reply.

        Arrays must have the shapes that were sent. If none has, but two or more agree, the app replies in this form (it
        may send only a part of the model), and these shapes are returned. If both forms are allowed, the majority
        decides: a strategy cannot take two kinds.
        """
        # In the order of clients, whatever the order of arrival, so that sums are the same to the last bit.
        everybody = sorted(self.replies.values(), key=lambda reply: self.nodes.get(reply.node, -1))
        good = [reply for reply in everybody if reply.completed]
        other = None
        if not any(self._fits(reply, known) for reply in good):
            forms = collections.Counter(tuple(sorted(reply.shapes.items())) for reply in good).most_common(1)
            other = dict(forms[0][0]) if forms and forms[0][1] > max(1, len(good) / 2) else None
        allowed = (*known, *([] if other is None else [other]))
        found = [reply.shapes for reply in good]
        usual = None if self.expected is None else max((self.expected, *allowed), key=found.count)
        fitting = [reply for reply in good if usual is None or reply.shapes == usual]
        odd = dict(zip(map(id, fitting), outliers([reply.records for reply in fitting]), strict=True))
        for reply in good:
            fault = odd.get(id(reply)) or ("" if usual is None else misshapen(reply.shapes, usual))
            if fault:
                reply.refuse(fault)
        for reply in everybody:
            self._close(reply)
        if self.usable:
            names = list(self.usable[0].shapes if usual is None or usual != self.expected else usual)
            for reply in self.usable:
                put_in_order(reply.arrays, names)
        for node in self.nodes.keys() - self.sent:
            lost = Reply(node, self.number, 0.0, self.nodes[node])
            lost.end(Outcome.DROPPED, "the message could not be sent")
            self.reported.append(lost)
        return other

    def _close(self, reply: Reply) -> None:
        if not self.watching:
            reply.latency = min(reply.latency, self.selection.deadline)
        if reply.completed:
            self.usable.append(reply)
        else:
            self.failures.append(reply.failure())
        if reply.node in self.nodes:  # else, in shadow mode, a node unknown to the selector
            reply.client = self.nodes[reply.node]
            self.reported.append(reply)


LONGEST_QUOTE = 80


class NoUpdateError(EnlistError, RuntimeError):
    """The model was not updated for `stop_without_update` rounds."""


class UpdateMonitor:
    """Warns of rounds without an update of the model, and of deadlines that no node can meet.

    warn_after   rounds in a row without an update after which the log warns, and again after as many more
    stop_after   rounds in a row without an update after which the run ends; None for never

    >>> UpdateMonitor(warn_after=3, stop_after=None).idle
    0
    """

    def __init__(self, warn_after: int, stop_after: int | None) -> None:
        self.warn_after, self.stop_after = warn_after, stop_after
        self.idle = 0
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.reasons: collections.Counter[str] = collections.Counter()
        self.met = False
        self.quickest = math.inf
        self.warned: set[str] = set()

    def note(self, current: Round) -> None:
        """Record a finished round."""
        if current.updated:
            self.idle = 0
            self.outcomes.clear()
            self.reasons.clear()
        else:
            self.idle += 1
            self._count(current)
            if self.idle % self.warn_after == 0:
                LOGGER.warning("enlist: %s", self._sentence())
        if not current.watching and not current.stepping:
            self._look_at_deadline(current)

    def _count(self, current: Round) -> None:
        self.outcomes.update(reply.outcome.name.lower() for reply in current.reported)
        self.outcomes["late"] += sum(reply is None for _, reply in current.entries())
        told = [reply.reason for reply in current.reported if reply.reason]
        self.reasons.update(reason[:LONGEST_QUOTE] for reason in told)
        while len(self.reasons) > 100:
            self.reasons.popitem()

    def _sentence(self) -> str:
        """The outcomes of requests since the last update."""
        rounds = "round" if self.idle == 1 else f"{self.idle} rounds"
        parts = [f"{count} {name}" for name, count in sorted(self.outcomes.items()) if count]
        text = f"no update of the model in the last {rounds}; of {self.outcomes.total()} requests: "
        text += ", ".join(parts) or "none"
        quoted = "".join(f" (most often: {reason})" for reason, _ in self.reasons.most_common(1))
        return f"{text}{quoted}"

    def _look_at_deadline(self, current: Round) -> None:
        deadline = current.selection.deadline
        self.met = self.met or any(reply.outcome == Outcome.COMPLETED for reply in current.reported)
        late = [reply.latency for reply in current.late if reply.outcome == Outcome.COMPLETED]
        self.quickest = min([self.quickest, *late])
        if self.met:
            return
        if self.quickest < math.inf and self.quickest > deadline:
            text = "the deadline of %.4g s is shorter than any training so far; the fastest took %.4g s"
            self._warn_once("shorter", text, deadline, self.quickest)
        elif len(current.selection) and not current.reported:
            text = "none of %d nodes replied within the deadline of %.4g s"
            self._warn_once("nobody", text, len(current.selection), deadline)

    def _warn_once(self, kind: str, text: str, *values: float) -> None:
        """Warn once of each kind."""
        if kind not in self.warned:
            self.warned.add(kind)
            LOGGER.warning(f"enlist: {text}", *values)

    @property
    def over(self) -> bool:
        """Whether the run must end."""
        return self.stop_after is not None and self.idle >= self.stop_after

    def end(self) -> None:
        """Raise an error if the run must end."""
        if self.over:
            raise NoUpdateError(
                f"{self._sentence()}; stop_without_update={self.stop_after} ends the run. Give rounds a longer "
                "deadline, check the clients' logs, or leave out stop_without_update."
            )


class RoundCounts(dict[str, int]):
    """Counts of a round, by name; `asked` is the former name of `selected`, and gives a warning.

    >>> counts = RoundCounts(selected=3, completed=2)
    >>> counts["completed"], "asked" in counts
    (2, False)
    """

    def __missing__(self, name: str) -> int:
        if name != "asked":
            raise KeyError(name)
        aliases.warn("counts['asked'] of a RoundResult", "counts['selected']")
        return self["selected"]


@dataclasses.dataclass(frozen=True, eq=False)
class RoundResult:
    """What `on_round` gets after every round.

    A resumed run begins after its last checkpoint: rounds after it are run, and reported, again. The checkpoint of this
    round, if one is due, may still be in the process of being written.

    number            of the round, counted over all starts
    arrays            the model after it
    updated           whether the strategy made a new model in it
    train_metrics     aggregated metrics of the clients' training; None if there are none
    evaluate_metrics  aggregated metrics of the clients' evaluation; None if there are none
    server_metrics    what evaluate_fn returned; None if there is none
    counts            selected, completed, late, dropped, failed, arrived
    result            Flower's `Result` so far, with the metrics of all rounds

    >>> told = RoundResult(3, ArrayRecord(), True, MetricRecord({"loss": 0.5}), None, None, {"selected": 5}, Result())
    >>> told.train_metrics["loss"], told.counts["selected"]
    (0.5, 5)
    """

    number: int
    arrays: ArrayRecord
    updated: bool
    train_metrics: MetricRecord | None
    evaluate_metrics: MetricRecord | None
    server_metrics: MetricRecord | None
    counts: Mapping[str, int]
    result: Result

    @classmethod
    def of(cls, number: int, result: Result, updated: bool, counts: Mapping[str, Any]) -> RoundResult:
        """The result of a finished round."""
        return cls(
            number,
            result.arrays,
            updated,
            result.train_metrics_clientapp.get(number),
            result.evaluate_metrics_clientapp.get(number),
            result.evaluate_metrics_serverapp.get(number),
            RoundCounts(counts),
            result,
        )


Hook = Callable[[RoundResult], object]
