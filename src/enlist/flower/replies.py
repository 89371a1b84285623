"""What a reply says: how it ended, what it claims, and who it is from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import Message

from enlist.flower import keys
from enlist.flower.contents import parts_of
from enlist.flower.nodes import told_name
from enlist.flower.trust import RANGES
from enlist.records import Outcome

LOST = {3: "message unavailable", 4: "reply unavailable", 5: "node unavailable"}
"""Flower's error codes that mean that the node, or its reply, is lost; all others are failures of the ClientApp."""

REASON = 200
"""Longest reason that is written down, in characters."""


@dataclasses.dataclass(frozen=True, eq=False)
class Said:
    """What a reply to a train message says; `doubts` are claims that cannot be true and count as not made.

    >>> Said(Outcome.FAILED, "boom").claims
    {}
    """

    outcome: Outcome
    reason: str = ""
    name: str | None = None
    claims: Mapping[str, float] = dataclasses.field(default_factory=dict)
    seconds: float = math.nan
    doubts: tuple[str, ...] = ()


def error_text(reply: Message) -> str:
    """Why a reply is an error, in one line of bounded length.

    >>> from enlist.flower.fake import instruction
    >>> from flwr.app import Error
    >>> [error_text(Message(Error(code, told), reply_to=instruction(7))) for code, told in ((2, "a\\nb"), (5, None))]
    ['a b', 'node unavailable']
    """
    code = reply.error.code
    return " ".join((reply.error.reason or LOST.get(code, f"error {code}")).split())[:REASON]


def read(reply: Message, own_keys: Mapping[str, str] | None = None, weight_key: str = "num-examples") -> Said:
    """How a reply ended, who it is from, and what it claims.

    A claim is looked for in Enlist's ConfigRecord, then in the MetricRecord, there also under the app's own key.

    >>> from enlist.flower.fake import instruction, model_reply
    >>> message = instruction(7)
    >>> said = read(Message(model_reply(message, client_id=3, loss=0.5, accuracy=7.0), reply_to=message))
    >>> said.outcome.name, said.name, said.claims, said.doubts
    ('COMPLETED', '3', {'num_examples': 10.0, 'loss': 0.5}, ('accuracy is 7.0',))
    """
    if reply.has_error():
        return Said(Outcome.DROPPED if reply.error.code in LOST else Outcome.FAILED, error_text(reply))
    parts = parts_of(reply.content)
    metrics: Mapping[str, Any] = next(iter(parts.metrics.values()), {})
    return claimed(parts.extra, metrics, {"num_examples": weight_key, **(own_keys or {})})


def claimed(extra: Mapping[str, Any], metrics: Mapping[str, Any], own: Mapping[str, str] | None) -> Said:
    """What a good reply claims in Enlist's record and in its metrics, there also under the app's own keys.

    >>> claimed({}, {"num-examples": 5, "my_loss": 0.5}, {"loss": "my_loss"}).claims
    {'num_examples': 5.0, 'loss': 0.5}
    """
    own = own or {}
    claims: dict[str, float] = {}
    doubts: list[str] = []
    for name, key in (*keys.CLAIMS.items(), ("seconds", keys.SECONDS)):
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
    told = told_name(int(identity) if isinstance(identity, float) and identity.is_integer() else identity)
    if identity is not None and told is None:
        doubts.append(f"{keys.CLIENT_ID} is {identity!r:.40}")
    seconds = claims.pop("seconds", math.nan)
    return Said(Outcome.COMPLETED, "", told, claims, seconds, tuple(doubts))


def _found(extra: Mapping[str, Any], metrics: Mapping[str, Any], key: str, own: str | None) -> Any:
    for record, label in ((metrics, own), (extra, key), (extra, key.replace("-", "_")), (metrics, key)):
        if label is not None and label in record:
            return record[label]
    return metrics.get(key.replace("-", "_"))


@dataclasses.dataclass(frozen=True, eq=False)
class Introduced:
    """What a node told of itself when it was asked; None where it told nothing.

    >>> Introduced("phone-3").features is None
    True
    """

    name: str | None = None
    num_examples: float | None = None
    features: tuple[float, ...] | None = None
    feature_names: tuple[str, ...] = ()


def introduced(reply: Message) -> Introduced:
    """What a node tells of itself; what cannot be true counts as not told.

    >>> from enlist.flower import client
    >>> from enlist.flower.fake import instruction
    >>> introduced(client.introduction(instruction(7), client_id=3, features={"cores": 8.0})).features
    (8.0,)
    """
    if reply.has_error():
        return Introduced()
    extra = parts_of(reply.content).extra
    count = extra.get(keys.CLAIMS["num_examples"])
    known = isinstance(count, int | float) and 0 < count <= RANGES["num_examples"][1]
    features, names = extra.get(keys.FEATURES), extra.get(keys.FEATURE_NAMES)
    right = isinstance(features, list) and isinstance(names, list) and len(features) == len(names) > 0
    right = right and all(isinstance(value, int | float) and math.isfinite(value) for value in features or ())
    titles = tuple(told_name(name) for name in names or ()) if right else ()
    right = right and None not in titles and len(set(titles)) == len(titles)
    return Introduced(
        told_name(extra.get(keys.CLIENT_ID, extra.get(keys.PARTITION_ID))),
        float(count) if known and count is not None else None,
        tuple(map(float, features or ())) if right else None,
        tuple(map(str, titles)) if right else (),
    )


def measured(metrics: Mapping[str, Any] | None, names: Sequence[str]) -> float | None:
    """The first of these keys that has a finite number, else None.

    >>> measured({"eval_acc": 0.5}, keys.ACCURACIES)
    0.5
    """
    for name in names:
        value = (metrics or {}).get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None
