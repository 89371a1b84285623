"""Evaluations by clients: which of them the strategy sees, and with what weight. They are claims, like all reports."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from enlist.flower import keys, strategies
from enlist.flower.federation import FlowerFederation
from enlist.flower.grid import LOGGER, GridView
from enlist.flower.replies.arrays import ReplyRecords, cut_weight, outliers, records_of, unweighed, weight_of
from enlist.flower.replies.reply import Reply, error_text, measured, refusal
from enlist.flower.replies.trust import RANGES, WEIGHT_FACTOR
from enlist.flower.terms import Terms

Labels = Mapping[str, Sequence[str]]
"""What is claimed, `accuracy` or `loss` -> the keys under which it is looked up."""


def doubt(metrics: Mapping[str, Any], labels: Labels) -> str:
    """The impossible value of an evaluation, or "".

    >>> doubt({"eval_acc": 7.0}, {"accuracy": ["accuracy", "eval_acc"]})
    'eval_acc is 7.0'
    """
    for name, names in labels.items():
        low, high = RANGES[name]
        for key in names:
            value = metrics.get(key)
            if isinstance(value, int | float) and not low <= value <= high:
                return f"{key} is {value}"
    return ""


def believed(metrics: Mapping[str, Any] | None, name: str, names: Sequence[str]) -> float | None:
    """What clients measured, under the first of these keys; None if it is impossible.

    >>> [believed({"acc": value}, "accuracy", ["acc"]) for value in (0.5, 50.0)]
    [0.5, None]
    """
    value = measured(metrics, names)
    low, high = RANGES[name]
    return value if value is not None and low <= value <= high else None


def named(replies: Iterable[Reply]) -> list[Message]:
    """Replies as a strategy should see them: an error names the node, not the SuperLink that reports it.

    >>> from enlist.flower.fake import instruction
    >>> from enlist.flower.replies.reply import Instruction
    >>> from flwr.app import Error
    >>> asked = instruction(11, "evaluate")
    >>> lost = Message(Error(5, "Node Unavailable"), reply_to=asked)
    >>> [message] = named([Reply.to(Instruction(asked, "evaluate", 1, 0.0, 0.0, 0.0), lost, 1.0)])
    >>> message.metadata.src_node_id, message.error.reason
    (11, 'Node Unavailable')
    """
    found = []
    for reply in replies:
        if reply.message is not None and reply.message.has_error():
            reply.reason = error_text(reply.message)
            found.append(reply.failure())
        elif reply.message is not None:
            found.append(reply.message)
    return found


def sifted(
    replies: Iterable[Message], weight_key: str, labels: Labels, heaviest: float = math.inf
) -> tuple[list[Message], list[tuple[int, str]]]:
    """The evaluations that count, with cut weights, and, by node, why others do not.

    Evaluations that would end the run are left out. So are impossible ones, unless they are the majority, as in an app
    that reports percentages. A weight is cut at `heaviest`, which depends on training data, or at ten times the median
    of these evaluations, if that is more: test sets may be larger than training sets.

    >>> from enlist.flower.fake import instruction
    >>> from flwr.app import MetricRecord, RecordDict
    >>> told = [MetricRecord({"num-examples": 5, "accuracy": value}) for value in (0.5, 0.25, 7.0)]
    >>> asked = [instruction(node, "evaluate") for node in (11, 12, 13)]
    >>> made = [Message(RecordDict({"m": one}), reply_to=to) for one, to in zip(told, asked)]
    >>> usable, left_out = sifted(made, "num-examples", {"accuracy": ["accuracy"]})
    >>> len(usable), [fault for _, fault in left_out]
    (2, ['accuracy is 7.0'])
    """
    found = [(reply, records_of(reply.content)) for reply in replies if not reply.has_error()]
    faults = {id(reply): unweighed(records, weight_key) for reply, records in found}
    whole = [(reply, records._replace(arrays={})) for reply, records in found if not faults[id(reply)]]
    for (reply, _), fault in zip(whole, outliers([records for _, records in whole]), strict=True):
        faults[id(reply)] = fault
    alike = [(reply, records) for reply, records in whole if not faults[id(reply)]]
    doubts = {id(reply): text for reply, records in alike if (text := doubt(_metrics(records), labels))}
    if 2 * len(doubts) <= len(alike):
        faults |= doubts
    usable = [(reply, records) for reply, records in alike if not faults[id(reply)]]
    weights = [weight_of(records, weight_key) for _, records in usable]
    for _, records in usable:
        cut_weight(records, weight_key, max(heaviest, WEIGHT_FACTOR * statistics.median_low(weights)))
    left_out = [(reply.metadata.src_node_id, fault) for reply, _ in found if (fault := faults[id(reply)])]
    return [reply for reply, _ in usable], left_out


def _metrics(records: ReplyRecords) -> Mapping[str, Any]:
    return next(iter(records.metrics.values()))


def labels_of(terms: Terms) -> Labels:
    """The keys under which accuracy and loss of an evaluation are looked up.

    >>> labels_of(Terms(k=1, keys={"round.loss": "mse"}))["loss"]
    ('mse',)
    """
    usual = {"accuracy": keys.ACCURACIES, "loss": keys.LOSSES}
    return {name: terms.own(f"round.{name}", labels) for name, labels in usual.items()}


def requested(
    strategy: Strategy, number: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, busy: set[int]
) -> list[Message]:
    """A strategy's messages for an evaluation, to nodes that are not busy.

    >>> from enlist.flower.fake import FakeGrid
    >>> from flwr.serverapp.strategy import FedAvg
    >>> strategy, grid = FedAvg(min_available_nodes=1), FakeGrid([11, 12])
    >>> asked = requested(strategy, 1, ArrayRecord(), ConfigRecord(), grid, busy={11})
    >>> [message.metadata.dst_node_id for message in asked]
    [12]
    """
    free = [node for node in grid.get_node_ids() if node not in busy]
    if not free:
        return []
    with strategies.fewer_evaluators(strategy, len(free)):
        return list(strategy.configure_evaluate(number, arrays, config, GridView(grid, free)))


def counted(
    replies: Sequence[Message], federation: FlowerFederation, weight_key: str, labels: Labels, heaviest: float
) -> tuple[list[Message], dict[str, int]]:
    """The evaluations that a strategy sees, and the counts for rounds.csv. The others become events.

    >>> from enlist.flower.fake import instruction
    >>> from enlist.flower.selector import SelectorSource
    >>> from flwr.app import Error
    >>> federation = FlowerFederation(SelectorSource.of("random", None, None, seed=1))
    >>> lost = Message(Error(2, "boom"), reply_to=instruction(11, "evaluate"))
    >>> counted([lost], federation, "num-examples", {}, math.inf)[1], federation.events
    ({'evaluate_completed': 0, 'evaluate_failed': 1}, [('failed', 11, 'evaluation: boom')])
    """
    failed = [reply for reply in replies if reply.has_error()]
    usable, left_out = sifted(replies, weight_key, labels, heaviest)
    federation.events += [("refused", node, refusal(f"evaluation: {fault}")) for node, fault in left_out]
    federation.events += [
        ("failed", reply.metadata.src_node_id, f"evaluation: {error_text(reply)}") for reply in failed
    ]
    if left_out:
        LOGGER.warning("enlist: %d evaluations are left out: inconsistent, impossible or without weight", len(left_out))
    ended = {"evaluate_completed": len(usable), "evaluate_failed": len(failed) + len(left_out)}
    return [*usable, *failed], ended


def round_values(result: Result, number: int, labels: Labels) -> dict[str, float | None]:
    """What the server measured after a round, else what clients measured, if possible at all.

    >>> from flwr.app import MetricRecord
    >>> told = Result(evaluate_metrics_clientapp={1: MetricRecord({"acc": 0.5})})
    >>> round_values(told, 1, {"accuracy": ["acc"]})
    {'accuracy': 0.5}
    """
    central = result.evaluate_metrics_serverapp.get(number)
    asked = result.evaluate_metrics_clientapp.get(number)
    found: dict[str, float | None] = {}
    for name, names in labels.items():
        own = measured(central, names)
        found[name] = believed(asked, name, names) if own is None else own
    return found
