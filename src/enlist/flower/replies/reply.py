"""A reply from its arrival to the average: the instruction that it answers, its outcome, and what it claims.

`Reply.outcome` is its status. A reply arrives as COMPLETED. An error of the ClientApp makes it FAILED, a lost node
DROPPED, and `Reply.refuse` marks a reply that cannot be used as FAILED.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import ArrayRecord, Error, Message

from enlist._internal.typing import FloatArray
from enlist.flower import keys
from enlist.flower.replies.arrays import (
    ReplyRecords,
    Shapes,
    Template,
    cut_weight,
    examined,
    records_of,
    unweighed,
)
from enlist.flower.replies.trust import RANGES
from enlist.records import Outcome

LOST = {3: "message unavailable", 4: "reply unavailable", 5: "node unavailable"}
"""Flower's error codes for a lost node or reply; all others are failures of the ClientApp."""

REASON = 200
"""Longest recorded reason, in characters."""

LONGEST_NAME = 200

MEASURED = frozenset({"update", "update_norm"})
"""Columns of `Feedback` that the server computes from updates, if the selector needs them."""


@dataclasses.dataclass(eq=False)
class Instruction:
    """A message to a node: its kind, its round, and when it was sent (`at`: monotonic clock, `wall`: wall clock).

    `absent` is the time of the last poll that found no reply.

    >>> from enlist.flower.fake import instruction
    >>> Instruction(instruction(7), "train", 3, at=1.0, wall=1.0, absent=1.0).node
    7
    """

    message: Message
    kind: str
    round: int
    at: float
    wall: float
    absent: float

    @property
    def node(self) -> int:
        """The node it was sent to."""
        return self.message.metadata.dst_node_id

    @property
    def identity(self) -> str:
        """The id of the message, by which its reply is matched."""
        return self.message.metadata.message_id

    def failure(self, code: int, reason: str | None) -> Message:
        """An error reply from the node that got the message."""
        return Message(Error(code, reason), reply_to=self.message)


@dataclasses.dataclass(eq=False)
class Reply:
    """What came back from a node, and its outcome.

    node      the node that replied
    round     the round in which it was selected
    latency   seconds from the instruction to the reply
    client    position of the node's client in the selector; -1 if the selector does not know it
    outcome   COMPLETED, FAILED or DROPPED; `reason` says why it is not completed
    name      the name that the client reports
    claims    what it reports, by column of `Feedback`; `seconds` is the training time that it reports, and
              `battery_left` the joules that it has left
    doubts    impossible claims, which count as not made
    records   its records by kind; `shapes` are those of its arrays
    weight    its weight in the average; NaN if that was never decided
    update_norm, sketch
              length and sketch of the update, if the selector needs them
    message   Flower's message, and `sent` the instruction that it answers; the old API has neither

    >>> reply = Reply(node=11, round=1, latency=2.5, claims={"loss": 0.5})
    >>> reply.refuse("array 'w' is missing")
    >>> reply.outcome.name, reply.reason, reply.claims
    ('FAILED', "refused: array 'w' is missing", {})
    """

    node: int
    round: int
    latency: float = math.nan
    client: int = -1
    outcome: Outcome = Outcome.COMPLETED
    reason: str = ""
    name: str | None = None
    claims: Mapping[str, float] = dataclasses.field(default_factory=dict)
    seconds: float = math.nan
    battery_left: float = math.nan
    doubts: tuple[str, ...] = ()
    records: ReplyRecords = ReplyRecords({}, {}, {})
    shapes: Shapes = dataclasses.field(default_factory=dict)
    weight: float = math.nan
    update_norm: float = math.nan
    sketch: FloatArray | None = None
    message: Message | None = None
    sent: Instruction | None = None

    @classmethod
    def to(cls, sent: Instruction, message: Message, latency: float) -> Reply:
        """The reply to an instruction, not read yet."""
        return cls(sent.node, sent.round, latency, message=message, sent=sent)

    @property
    def kind(self) -> str:
        """The kind of the instruction."""
        return "" if self.sent is None else self.sent.kind

    @property
    def identity(self) -> str:
        """The id of the message that it answers."""
        return "" if self.sent is None else self.sent.identity

    @property
    def completed(self) -> bool:
        """Whether its outcome is COMPLETED."""
        return self.outcome == Outcome.COMPLETED

    @property
    def arrays(self) -> ArrayRecord:
        """Its arrays, if it has one ArrayRecord."""
        return next(iter(self.records.arrays.values()))

    def end(self, outcome: Outcome, reason: str) -> None:
        """Set another outcome than COMPLETED; its claims do not count."""
        self.outcome, self.reason = outcome, reason
        self.name, self.claims, self.doubts = None, {}, ()
        self.seconds = self.battery_left = math.nan

    def refuse(self, fault: str) -> None:
        """Mark it as unusable."""
        self.end(Outcome.FAILED, refusal(fault))

    def read(self, own_keys: Mapping[str, str] | None, weight_key: str) -> None:
        """Read its outcome, its sender, and its claims.

        A claim is looked up in Enlist's ConfigRecord, then in the MetricRecord, there also under the app's own key.
        """
        assert self.message is not None
        if self.message.has_error():
            lost = self.message.error.code in LOST
            self.end(Outcome.DROPPED if lost else Outcome.FAILED, error_text(self.message))
            return
        self.records = records_of(self.message.content)
        metrics: Mapping[str, Any] = next(iter(self.records.metrics.values()), {})
        self.claim(self.records.extra, metrics, {"num_examples": weight_key, **(own_keys or {})})

    def claim(self, extra: Mapping[str, Any], metrics: Mapping[str, Any], own: Mapping[str, str] | None) -> None:
        """Read the claims in Enlist's record and in the metrics, there also under the app's own keys."""
        own = own or {}
        claims: dict[str, float] = {}
        doubts: list[str] = []
        for name, key in (*keys.CLAIMS.items(), ("seconds", keys.SECONDS), ("battery_left", keys.BATTERY_LEFT)):
            value = _found(extra, metrics, key, own.get(name))
            if value is None:
                continue
            low, high = RANGES[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                doubts.append(f"{key} is {value!r:.40}")
            else:
                claims[name] = float(value)
        identity = _found(extra, metrics, keys.CLIENT_ID, None)
        identity = _found(extra, metrics, keys.PARTITION_ID, None) if identity is None else identity
        name_told = told_name(int(identity) if isinstance(identity, float) and identity.is_integer() else identity)
        if identity is not None and name_told is None:
            doubts.append(f"{keys.CLIENT_ID} is {identity!r:.40}")
        self.seconds = claims.pop("seconds", math.nan)
        self.battery_left = claims.pop("battery_left", math.nan)
        self.name, self.claims, self.doubts = name_told, claims, tuple(doubts)

    def examine(
        self, own_keys: Mapping[str, str] | None, weight_key: str, templates: Mapping[str, Template] | None = None
    ) -> None:
        """Read it, and refuse it if its arrays cannot be used or it has no weight."""
        self.read(own_keys, weight_key)
        if self.completed:
            self.shapes, fault = examined(self.records, templates)
            if fault := fault or unweighed(self.records, weight_key):
                self.refuse(fault)

    def weigh(self, weight_key: str, heaviest: float) -> None:
        """Set the weight with which it counts, after the cut."""
        self.weight = cut_weight(self.records, weight_key, heaviest)

    def size(self) -> int:
        """Bytes of its arrays."""
        return sum(len(array.data) for array in self.arrays.values())

    def failure(self) -> Message:
        """What a strategy gets for it if it did not complete: an error from the node that was selected."""
        assert self.sent is not None
        assert self.message is not None
        return self.sent.failure(self.message.error.code if self.message.has_error() else 0, self.reason)


def refusal(fault: str) -> str:
    """Why a reply is refused: one printable line, whatever names its sender used.

    >>> refusal("the metrics are a\\r\\nb")
    'refused: the metrics are a b'
    """
    start = f"refused: {fault}"[: 10 * REASON]
    printable = "".join(letter if letter.isprintable() else " " for letter in start)
    return " ".join(printable.split())[:REASON]


def error_text(message: Message) -> str:
    """The reason of an error reply, as one line of bounded length.

    >>> from enlist.flower.fake import instruction
    >>> [error_text(Message(Error(code, told), reply_to=instruction(7))) for code, told in ((2, "a\\nb"), (5, None))]
    ['a b', 'node unavailable']
    """
    code = message.error.code
    return " ".join((message.error.reason or LOST.get(code, f"error {code}")).split())[:REASON]


def read(message: Message, own_keys: Mapping[str, str] | None = None, weight_key: str = "num-examples") -> Reply:
    """Read a message into a reply.

    >>> from enlist.flower.fake import instruction, model_reply
    >>> sent = instruction(7)
    >>> reply = read(Message(model_reply(sent, client_id=3, loss=0.5, accuracy=7.0), reply_to=sent))
    >>> reply.outcome.name, reply.name, reply.claims, reply.doubts
    ('COMPLETED', '3', {'num_examples': 10.0, 'loss': 0.5}, ('accuracy is 7.0',))
    """
    reply = Reply(message.metadata.src_node_id, 0, message=message)
    reply.read(own_keys, weight_key)
    return reply


def _found(extra: Mapping[str, Any], metrics: Mapping[str, Any], key: str, own: str | None) -> Any:
    for record, label in ((metrics, own), (extra, key), (extra, key.replace("-", "_")), (metrics, key)):
        if label is not None and label in record:
            return record[label]
    return metrics.get(key.replace("-", "_"))


def told_name(value: object) -> str | None:
    """A name that a client reported; None if it is not a name, that is, printable text or a whole number.

    >>> told_name(3), told_name(" phone-3 "), told_name(""), told_name(0.5)
    ('3', 'phone-3', None, None)
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).strip()
    return text if 0 < len(text) <= LONGEST_NAME and text.isprintable() else None


@dataclasses.dataclass(frozen=True, eq=False)
class Introduction:
    """What a node reported about itself when asked; None for everything it left out.

    >>> Introduction("phone-3").features is None
    True
    """

    name: str | None = None
    num_examples: float | None = None
    features: tuple[float, ...] | None = None
    feature_names: tuple[str, ...] = ()
    label_counts: tuple[float, ...] | None = None
    energy_per_sample: float | None = None
    energy_per_byte: float | None = None
    battery: float | None = None


def introduced(reply: Message) -> Introduction:
    """What a node reports about itself; impossible values count as not reported.

    >>> from enlist.flower import client
    >>> from enlist.flower.fake import instruction
    >>> introduced(client.introduction(instruction(7), client_id=3, features={"cores": 8.0})).features
    (8.0,)
    """
    if reply.has_error():
        return Introduction()
    extra = records_of(reply.content).extra
    count = extra.get(keys.CLAIMS["num_examples"])
    known = isinstance(count, int | float) and 0 < count <= RANGES["num_examples"][1]
    features, names = extra.get(keys.FEATURES), extra.get(keys.FEATURE_NAMES)
    right = isinstance(features, list) and isinstance(names, list) and len(features) == len(names) > 0
    right = right and all(isinstance(value, int | float) and math.isfinite(value) for value in features or ())
    titles = tuple(told_name(name) for name in names or ()) if right else ()
    right = right and None not in titles and len(set(titles)) == len(titles)
    return Introduction(
        told_name(extra.get(keys.CLIENT_ID, extra.get(keys.PARTITION_ID))),
        float(count) if known and count is not None else None,
        tuple(map(float, features or ())) if right else None,
        tuple(map(str, titles)) if right else (),
        _counts(extra.get(keys.LABEL_COUNTS)),
        **{name: _amount(extra.get(key)) for name, key in keys.ENERGY.items()},
    )


def _counts(values: object) -> tuple[float, ...] | None:
    amounts = [_amount(value) for value in values] if isinstance(values, list) else []
    return tuple(value for value in amounts if value is not None) if amounts and None not in amounts else None


def _amount(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and 0 <= value <= RANGES["num_examples"][1] else None  # type: ignore[operator,arg-type]


def measured(metrics: Mapping[str, Any] | None, names: Sequence[str]) -> float | None:
    """The value of the first of these keys that holds a finite number; None if there is none.

    >>> measured({"eval_acc": 0.5}, keys.ACCURACIES)
    0.5
    """
    for name in names:
        value = (metrics or {}).get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None
