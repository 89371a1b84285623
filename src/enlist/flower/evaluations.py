"""Evaluations by clients: which of them the strategy sees, and with what weight. They are claims like all others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Message

from enlist.flower.contents import Parts, cut_weight, outliers, parts_of, unweighed, weight_of
from enlist.flower.grid import Arrival
from enlist.flower.replies import error_text, measured
from enlist.flower.trust import RANGES, WEIGHT_FACTOR

Labels = Mapping[str, Sequence[str]]
"""What is claimed, `accuracy` or `loss` -> the keys under which it is looked for."""


def doubt(metrics: Mapping[str, Any], labels: Labels) -> str:
    """What in an evaluation cannot be true, if something.

    >>> doubt({"eval_acc": 7.0}, {"accuracy": ["accuracy", "eval_acc"]})
    'eval_acc is 7.0'
    """
    for name, keys in labels.items():
        low, high = RANGES[name]
        for key in keys:
            value = metrics.get(key)
            if isinstance(value, int | float) and not low <= value <= high:
                return f"{key} is {value}"
    return ""


def believed(metrics: Mapping[str, Any] | None, name: str, keys: Sequence[str]) -> float | None:
    """What clients have measured, the first of these keys, if it can be true.

    >>> [believed({"acc": value}, "accuracy", ["acc"]) for value in (0.5, 50.0)]
    [0.5, None]
    """
    value = measured(metrics, keys)
    low, high = RANGES[name]
    return value if value is not None and low <= value <= high else None


def named(arrivals: Iterable[Arrival]) -> list[Message]:
    """Replies as a strategy is to see them: an error names the node that was asked, not the SuperLink that tells it.

    >>> from enlist.flower.fake import instruction
    >>> from enlist.flower.grid import Sent
    >>> from flwr.app import Error
    >>> asked = instruction(11, "evaluate")
    >>> lost = Message(Error(5, "Node Unavailable"), reply_to=asked)
    >>> [reply] = named([Arrival(Sent(asked, "evaluate", 1, 0.0, 0.0, 0.0), lost, 1.0)])
    >>> reply.metadata.src_node_id, reply.error.reason
    (11, 'Node Unavailable')
    """
    return [
        sent.failure(reply.error.code, error_text(reply)) if reply.has_error() else reply for sent, reply, _ in arrivals
    ]


def sifted(
    replies: Iterable[Message], weight_key: str, labels: Labels, heaviest: float = math.inf
) -> tuple[list[Message], list[tuple[int, str]]]:
    """The evaluations that count, their weights cut, and by node why others do not.

    Left out are those that would end the run, and those that cannot be true; unless most are such, as where an app
    counts in percent. A weight is cut at `heaviest`, which goes by what was trained on, or at ten times the median of
    these evaluations, if that is more: test data may well be more than what clients train on.

    >>> from enlist.flower.fake import instruction
    >>> from flwr.app import MetricRecord, RecordDict
    >>> told = [MetricRecord({"num-examples": 5, "accuracy": value}) for value in (0.5, 0.25, 7.0)]
    >>> asked = [instruction(node, "evaluate") for node in (11, 12, 13)]
    >>> made = [Message(RecordDict({"m": one}), reply_to=to) for one, to in zip(told, asked)]
    >>> usable, left_out = sifted(made, "num-examples", {"accuracy": ["accuracy"]})
    >>> len(usable), [fault for _, fault in left_out]
    (2, ['accuracy is 7.0'])
    """
    found = [(reply, parts_of(reply.content)) for reply in replies if not reply.has_error()]
    faults = {id(reply): unweighed(parts, weight_key) for reply, parts in found}
    whole = [(reply, parts._replace(arrays={})) for reply, parts in found if not faults[id(reply)]]
    for (reply, _), fault in zip(whole, outliers([parts for _, parts in whole]), strict=True):
        faults[id(reply)] = fault
    alike = [(reply, parts) for reply, parts in whole if not faults[id(reply)]]
    doubts = {id(reply): text for reply, parts in alike if (text := doubt(_metrics(parts), labels))}
    if 2 * len(doubts) <= len(alike):
        faults |= doubts
    usable = [(reply, parts) for reply, parts in alike if not faults[id(reply)]]
    weights = [weight_of(parts, weight_key) for _, parts in usable]
    for _, parts in usable:
        cut_weight(parts, weight_key, max(heaviest, WEIGHT_FACTOR * statistics.median_low(weights)))
    left_out = [(reply.metadata.src_node_id, fault) for reply, _ in found if (fault := faults[id(reply)])]
    return [reply for reply, _ in usable], left_out


def _metrics(parts: Parts) -> Mapping[str, Any]:
    return next(iter(parts.metrics.values()))
