"""Updates as a selector asks for them: their lengths and sketches, and averages by weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import Message, MetricRecord
from flwr.serverapp.strategy import Strategy

from enlist._internal.typing import AnyArray, FloatArray
from enlist.errors import InputError
from enlist.flower import strategies
from enlist.flower.late import Model, flat, rebased
from enlist.flower.replies import Reply
from enlist.streams import Streams

NUMBERS = 64
"""Numbers of a sketch, as in the simulator."""

MEASURED = frozenset({"update", "update_norm"})
"""Columns of `Feedback` that the server computes from updates, if the selector needs them."""


class UpdateMeasures:
    """Lengths and sketches of updates, computed only if the selector needs them.

    A sketch holds signed sums of the parameters (a count sketch): inner products of sketches are, on average, those of
    the updates. It is seeded, so that it is the same in a run that is continued.

    >>> measures = UpdateMeasures(frozenset({"update_norm"}), seed=1)
    >>> reply = Reply(11, 1)
    >>> measures.take(reply, {"w": np.array([3.0, 4.0])})
    >>> reply.update_norm, reply.sketch is None
    (5.0, True)
    """

    def __init__(self, needs: frozenset[str], seed: int) -> None:
        self.wanted, self.seed = needs & MEASURED, seed
        self.places: AnyArray = np.zeros(0)
        self.signs: AnyArray = np.zeros(0)

    def take(self, reply: Reply, moved: Model) -> None:
        """Note what is wanted of the update of a reply."""
        if not self.wanted:
            return
        update = flat(moved)
        reply.update_norm = float(np.sqrt(np.square(update).sum()))
        if "update" in self.wanted:
            reply.sketch = self._sketch(update)

    def _sketch(self, update: FloatArray) -> FloatArray:
        if len(self.places) != len(update):
            generator = Streams(self.seed).generator("sketch")
            self.places = generator.integers(NUMBERS, size=len(update), dtype=np.int32)
            self.signs = generator.integers(2, size=len(update), dtype=np.int8) * 2 - 1
        return np.bincount(self.places, weights=update * self.signs, minlength=NUMBERS).astype(float)


def check_weighable(strategy: Strategy, name: str, late: str) -> None:
    """Refuse weights of a selector where the strategy does not average by weights, or averages late replies as well.

    >>> from flwr.serverapp.strategy import FedMedian
    >>> check_weighable(FedMedian(), "clustered", "feedback")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: selector 'clustered' weighs updates itself, and FedMedian does not average by weights...
    """
    base = strategies.innermost(strategy)
    if isinstance(base, strategies.UNWEIGHED) or base is not strategy:
        raise InputError(
            f"selector '{name}' weighs updates itself, and {type(strategy).__name__} does not average by weights; use "
            "FedAvg or one of its kin, or another selector."
        )
    if late == "merge":
        raise InputError(
            f"selector '{name}' weighs updates itself, so a late reply has no weight to be merged with; use "
            "late='feedback' or late='drop'."
        )


def weighted_messages(
    replies: Sequence[Reply], changes: Sequence[Model], weights: Sequence[float], now: Model, weight_key: str
) -> list[Message]:
    """What a strategy that averages is handed, so that its average is the model plus the weighted sum of updates.

    The weights of an unbiased sampler add up to 1 on average only, so updates are scaled by their sum, by which the
    strategy divides.

    >>> from enlist.flower.fake import instruction, model_reply
    >>> from enlist.flower.replies import Instruction
    >>> sent = instruction(7)
    >>> reply = Reply.to(Instruction(sent, "train", 1, 0.0, 0.0, 0.0), Message(model_reply(sent), reply_to=sent), 1.0)
    >>> reply.message.content["arrays"]["w"] = __import__("flwr.app").app.Array(np.ones(1))
    >>> [made] = weighted_messages([reply], [{"w": np.array([4.0])}], [0.5], {"w": np.array([1.0])}, "num-examples")
    >>> made.content["arrays"]["w"].numpy(), made.content["metrics"]["num-examples"]
    (array([3.]), 0.5)
    """
    total, messages = float(sum(weights)), []
    for reply, moved, weight in zip(replies, changes, weights, strict=True):
        reply.weight = float(weight)
        if weight <= 0:
            continue
        assert reply.message is not None
        assert reply.sent is not None
        scaled = {name: values * total if values.dtype.kind == "f" else values for name, values in moved.items()}
        content = rebased(reply.message.content, scaled, now, 1.0, weight_key)
        for name, metrics in list(content.metric_records.items()):
            values: dict[str, Any] = {**metrics, weight_key: float(weight)}
            content[name] = MetricRecord(values)
        messages.append(Message(content=content, reply_to=reply.sent.message))
    return messages
