"""Updates: how a reply differs from the model that its node was sent, for averages, staleness and selectors.

A late reply holds a model that was trained from an older one. What counts is the change: the strategy gets the current
model plus that change, and the weight of the reply in the average is multiplied by its staleness weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray
from enlist.bandits import staleness
from enlist.bandits.sketches import NUMBERS
from enlist.errors import InputError
from enlist.flower.replies.arrays import Shapes, averageable, misshapen, outliers
from enlist.flower.replies.reply import MEASURED, Reply
from enlist.streams import Streams

Model = Mapping[str, AnyArray]
Weighting = str | Callable[[FloatArray], ArrayLike]

WEIGHTINGS = ("equal", "dynsgd", "adasgd", "polynomial", "refl")

MOST_ROUNDS = 5
"""A reply that is later than this still teaches the selector, but is not merged: its model is no longer kept."""


def model_of(arrays: ArrayRecord) -> dict[str, AnyArray]:
    """The arrays of a record, by name.

    >>> model_of(ArrayRecord([np.ones(2)]))
    {'0': array([1., 1.])}
    """
    return {name: array.numpy() for name, array in arrays.items()}


def record_of(model: Model) -> ArrayRecord:
    """A model as Flower's record.

    >>> list(record_of({"w": np.ones(2)}))
    ['w']
    """
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in model.items()})


def checked_weighting(weighting: Weighting) -> Weighting:
    """Check a weighting passed by the user.

    >>> checked_weighting("dynsgd")
    'dynsgd'
    """
    return weighting if callable(weighting) else checks.one_of("staleness", weighting, WEIGHTINGS)


def weights(
    weighting: Weighting, rounds_late: Sequence[float], changes: Sequence[Model], fresh: Sequence[Model]
) -> list[float]:
    """The staleness weight of each late reply, from its change of the model; `fresh` holds the changes in time.

    >>> weights("dynsgd", [1, 3], [], [])
    [0.5, 0.25]
    """
    late = np.asarray(rounds_late, dtype=float)
    if callable(weighting):
        found = np.asarray(weighting(late), dtype=float)
        if found.shape != late.shape or not np.isfinite(found).all() or (found < 0).any():
            raise InputError(
                f"staleness gave {found}; it must give a finite weight >= 0 for each of {len(late)} replies."
            )
    elif weighting == "refl":
        mean = None if not fresh else np.mean([flat(change) for change in fresh], axis=0)
        different = np.full(len(late), np.nan)
        if mean is not None and len(late):
            different = staleness.deviation(mean, np.stack([flat(change) for change in changes]), len(fresh))
        found = staleness.refl_weights(late, different)
    else:
        found = getattr(staleness, weighting)(late)
    return [float(weight) for weight in found]


def change(model: Model, base: Model) -> dict[str, AnyArray]:
    """How a model differs from the one it was trained from.

    >>> change({"w": np.array([3.0])}, {"w": np.array([1.0])})
    {'w': array([2.])}
    """
    return {name: _minus(model[name], base[name]) for name in base}


def _minus(new: AnyArray, old: AnyArray) -> AnyArray:
    """The difference; also for booleans and unsigned integers, which cannot be negative themselves."""
    return np.asarray(np.subtract(new, old, dtype=np.result_type(new, old, np.int8)))


def rebased(
    content: RecordDict, moved: Model, now: Model, weight: float, weight_key: str, heaviest: float = math.inf
) -> RecordDict:
    """A late reply's records as if it had begun with the current model, with its weight multiplied by `weight`.

    The weight that it claims is cut at `heaviest` first.

    >>> late = RecordDict({"arrays": ArrayRecord([np.ones(1)]), "metrics": MetricRecord({"num-examples": 10})})
    >>> new = rebased(late, {"0": np.array([2.0])}, {"0": np.array([5.0])}, 0.5, "num-examples")
    >>> new["arrays"]["0"].numpy(), new["metrics"]["num-examples"]
    (array([7.]), 5.0)
    """
    records: dict[str, ArrayRecord | MetricRecord] = {}
    for name in content.array_records:
        moved_to = {key: np.asarray(now[key] + moved[key]).astype(now[key].dtype) for key in now}
        records[name] = record_of(moved_to)
    for name, metrics in content.metric_records.items():
        counted = metrics[weight_key]
        assert isinstance(counted, int | float)
        records[name] = MetricRecord({**metrics, weight_key: weight * min(counted, heaviest)})
    return RecordDict({**records})


def flat(moved: Model) -> FloatArray:
    """The floating-point parameters of a change, flattened.

    >>> flat({"w": np.ones((2, 2)), "steps": np.array(3)})
    array([1., 1., 1., 1.])
    """
    parts = [values.ravel().astype(float) for values in moved.values() if values.dtype.kind == "f"]
    return np.concatenate([np.zeros(0), *parts])


class LateReplies:
    """Replies that arrive after their round, and what is needed to use them.

    asked     round -> node -> client, for rounds with open messages
    chosen    round -> the selector's own number of that round, which differs if it has selected before
    models    round -> the model that was sent, if late replies are merged or measured

    >>> late = LateReplies(keeping=True)
    >>> late.sent(1, {11: 0}, ArrayRecord([np.ones(2)]), chosen=1)
    >>> late.forget(open_rounds=set()), late.models
    (None, {})
    """

    def __init__(self, keeping: bool) -> None:
        self.keeping = keeping
        self.asked: dict[int, Mapping[int, int]] = {}
        self.chosen: dict[int, int] = {}
        self.models: dict[int, Model] = {}
        self.waiting: list[Reply] = []

    def sent(self, number: int, nodes: Mapping[int, int], arrays: ArrayRecord, chosen: int) -> None:
        """A round has begun."""
        self.asked[number], self.chosen[number] = nodes, chosen
        if self.keeping:
            self.models[number] = model_of(arrays)

    def taken(self) -> list[Reply]:
        """What has arrived since the last call, sorted by the round that it answers and by client."""
        found = [reply for reply in self.waiting if reply.node in self.asked.get(reply.round, {})]
        for reply in found:
            reply.client = self.asked[reply.round][reply.node]
        self.waiting = []
        return sorted(found, key=lambda reply: (reply.round, reply.client))

    def merged(
        self,
        number: int,
        late: Sequence[Reply],
        fresh: Sequence[Reply],
        weighting: Weighting,
        weight_key: str,
        heaviest: float = math.inf,
        known: Sequence[Shapes] = (),
    ) -> list[Message]:
        """Messages that stand for late replies in the strategy's average; sets the weight of each of these replies.

        Replies that the strategy could not aggregate with the `fresh` ones are refused. Others that cannot be merged,
        because they are too late or hold only a part of the model (`known`), still teach the selector.
        """
        now = self.models.get(number)
        if now is None:
            return []
        for reply in late:
            if fault := self._misshapen(reply, known):
                reply.refuse(fault)
        fitting = [reply for reply in late if self._mergeable(number, reply, fresh)]
        odd = outliers([reply.records for reply in fitting], like=fresh[0].records if fresh else None)
        good = []
        for reply, fault in zip(fitting, odd, strict=True):
            model = model_of(reply.arrays)
            if fault := fault or _miscast(model, now):
                reply.refuse(fault)
            else:
                good.append((reply, change(model, self.models[reply.round])))
        if not good:
            return []
        news = [change(model_of(reply.arrays), now) for reply in fresh] if weighting == "refl" else []
        steps = [step for _, step in good]
        factors = weights(weighting, [number - reply.round for reply, _ in good], steps, news)
        messages = []
        for (reply, step), factor in zip(good, factors, strict=True):
            assert reply.message is not None
            assert reply.sent is not None
            content = rebased(reply.message.content, step, now, factor, weight_key, heaviest)
            weight = next(iter(content.metric_records.values()))[weight_key]
            if isinstance(weight, int | float) and weight > 0:
                messages.append(Message(content=content, reply_to=reply.sent.message))
                reply.weight = float(weight)
        return messages

    def changes(self, late: Sequence[Reply]) -> list[tuple[Reply, Model]]:
        """The changes made by late replies, for those whose base model is still kept."""
        found = [(reply, self.models[reply.round]) for reply in late if reply.completed and reply.round in self.models]
        return [(reply, change(model_of(reply.arrays), base)) for reply, base in found if reply.shapes == _shapes(base)]

    def _misshapen(self, reply: Reply, known: Sequence[Shapes]) -> str:
        """How the arrays of a late reply differ from those that were sent, if that model is still kept."""
        if not reply.completed or reply.round not in self.models or reply.shapes in known:
            return ""
        return misshapen(reply.shapes, _shapes(self.models[reply.round]))

    def _mergeable(self, number: int, reply: Reply, fresh: Sequence[Reply]) -> bool:
        if not reply.completed or reply.round not in self.models or number - reply.round > MOST_ROUNDS:
            return False
        alike = (_shapes(self.models[reply.round]), _shapes(self.models[number]), *(one.shapes for one in fresh[:1]))
        return all(reply.shapes == shapes for shapes in alike)

    def forget(self, open_rounds: set[int]) -> None:
        """Keep only rounds with open messages or unread replies, and only the latest models."""
        open_rounds = open_rounds | {reply.round for reply in self.waiting}
        self.asked = {number: nodes for number, nodes in self.asked.items() if number in open_rounds}
        self.chosen = {number: own for number, own in self.chosen.items() if number in open_rounds}
        recent = sorted(number for number in self.models if number in open_rounds)[-MOST_ROUNDS:]
        self.models = {number: self.models[number] for number in recent}


def _miscast(model: Model, now: Model) -> str:
    for name, values in model.items():
        if not averageable(values.dtype, now[name].dtype):
            return f"array '{name}' holds {values.dtype}, not {now[name].dtype}"
    return ""


def _shapes(model: Model) -> dict[str, tuple[int, ...]]:
    return {name: values.shape for name, values in model.items()}


class UpdateMeasures:
    """Lengths and sketches of updates, computed only if the selector needs them.

    A sketch holds signed sums of the parameters (a count sketch): inner products of sketches equal, on average, those
    of the updates. It is seeded, so that it is the same in a resumed run.

    >>> measures = UpdateMeasures(frozenset({"update_norm"}), seed=1)
    >>> reply = Reply(11, 1)
    >>> measures.take(reply, {"w": np.array([3.0, 4.0])})
    >>> reply.update_norm, reply.sketch is None
    (5.0, True)
    """

    def __init__(self, needs: frozenset[str], seed: int, numbers: int = NUMBERS) -> None:
        self.wanted, self.seed, self.numbers = needs & MEASURED, seed, numbers
        self.places: AnyArray = np.zeros(0)
        self.signs: AnyArray = np.zeros(0)

    def take(self, reply: Reply, moved: Model) -> None:
        """Measure the update of a reply as far as the selector needs it."""
        if not self.wanted:
            return
        update = flat(moved)
        reply.update_norm = float(np.sqrt(np.square(update).sum()))
        if "update" in self.wanted:
            reply.sketch = self._sketch(update)

    def _sketch(self, update: FloatArray) -> FloatArray:
        if len(self.places) != len(update):
            generator = Streams(self.seed).generator("sketch")
            self.places = generator.integers(self.numbers, size=len(update), dtype=np.int32)
            self.signs = generator.integers(2, size=len(update), dtype=np.int8) * 2 - 1
        return np.bincount(self.places, weights=update * self.signs, minlength=self.numbers).astype(float)


def weighted_messages(
    replies: Sequence[Reply], changes: Sequence[Model], weights: Sequence[float], now: Model, weight_key: str
) -> list[Message]:
    """Messages for an averaging strategy, so that its average is the model plus the weighted sum of updates.

    The weights of an unbiased sampler sum to 1 only on average. So updates are scaled by the sum, by which the strategy
    divides.

    >>> from enlist.flower.fake import instruction, model_reply
    >>> from enlist.flower.replies.reply import Instruction
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
