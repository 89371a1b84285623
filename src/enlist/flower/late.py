"""Late replies that are merged after all: rebased on the present model, and weighed by how late they are.

A late reply holds a model that was trained from an older one. What counts is its change: the reply is handed to the
strategy as the present model plus that change, with its weight in the average multiplied by the weight of staleness.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from numpy.typing import ArrayLike

from enlist import checks
from enlist.bandits import staleness
from enlist.errors import InputError
from enlist.flower.contents import misshapen
from enlist.flower.federation import Report
from enlist.flower.replies import Said
from enlist.flower.round import Judged
from enlist.records import Outcome
from enlist.typing import AnyArray, FloatArray

Model = Mapping[str, AnyArray]
Weighting = str | Callable[[FloatArray], ArrayLike]

WEIGHTINGS = ("equal", "dynsgd", "adasgd", "refl")
MOST_ROUNDS = 5
"""A reply that is later than that teaches the selector, and is not merged: its model is no longer kept."""


def model_of(arrays: ArrayRecord) -> dict[str, AnyArray]:
    """The arrays of a record by name.

    >>> model_of(ArrayRecord([np.ones(2)]))
    {'0': array([1., 1.])}
    """
    return {name: array.numpy() for name, array in arrays.items()}


def checked(weighting: Weighting) -> Weighting:
    """A weighting as a user gave it.

    >>> checked("dynsgd")
    'dynsgd'
    """
    return weighting if callable(weighting) else checks.one_of("staleness", weighting, WEIGHTINGS)


def weights(
    weighting: Weighting, rounds_late: Sequence[float], changes: Sequence[Model], fresh: Sequence[Model]
) -> list[float]:
    """The weight of staleness of each late reply, by its change of the model; `fresh` are the changes in time.

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
        mean = None if not fresh else np.mean([_flat(change) for change in fresh], axis=0)
        different = np.full(len(late), np.nan)
        if mean is not None and len(late):
            different = staleness.deviation(mean, np.stack([_flat(change) for change in changes]), len(fresh))
        found = staleness.refl_weights(late, different)
    else:
        found = getattr(staleness, weighting)(late)
    return [float(weight) for weight in found]


def change(model: Model, base: Model) -> dict[str, AnyArray]:
    """How a model differs from the one it was trained from.

    >>> change({"w": np.array([3.0])}, {"w": np.array([1.0])})
    {'w': array([2.])}
    """
    return {name: np.asarray(model[name] - base[name]) for name in base}


def rebased(content: RecordDict, moved: Model, now: Model, weight: float, weight_key: str) -> RecordDict:
    """A late reply's records as if it had begun with the present model, with its weight in the average multiplied.

    >>> late = RecordDict({"arrays": ArrayRecord([np.ones(1)]), "metrics": MetricRecord({"num-examples": 10})})
    >>> new = rebased(late, {"0": np.array([2.0])}, {"0": np.array([5.0])}, 0.5, "num-examples")
    >>> new["arrays"]["0"].numpy(), new["metrics"]["num-examples"]
    (array([7.]), 5.0)
    """
    records: dict[str, ArrayRecord | MetricRecord] = {}
    for name in content.array_records:
        moved_to = {key: np.asarray(now[key] + moved[key]).astype(now[key].dtype) for key in now}
        records[name] = ArrayRecord({key: Array(value) for key, value in moved_to.items()})
    for name, metrics in content.metric_records.items():
        counted = metrics[weight_key]
        assert isinstance(counted, int | float)
        records[name] = MetricRecord({**metrics, weight_key: weight * counted})
    return RecordDict({**records})


def _flat(moved: Model) -> FloatArray:
    parts = [values.ravel().astype(float) for values in moved.values() if values.dtype.kind == "f"]
    return np.concatenate([np.zeros(0), *parts])


class LateReplies:
    """Replies that come after their round, and what is needed to make use of them.

    asked     round -> node -> client, of rounds of which something is still open
    models    round -> the model that was sent, if late replies are merged

    >>> late = LateReplies(merging=True)
    >>> late.sent(1, {11: 0}, ArrayRecord([np.ones(2)]))
    >>> late.forget(open_rounds=set()), late.models
    (None, {})
    """

    def __init__(self, merging: bool) -> None:
        self.merging = merging
        self.asked: dict[int, Mapping[int, int]] = {}
        self.models: dict[int, Model] = {}
        self.waiting: list[Judged] = []

    def sent(self, number: int, nodes: Mapping[int, int], arrays: ArrayRecord) -> None:
        """A round has begun."""
        self.asked[number] = nodes
        if self.merging:
            self.models[number] = model_of(arrays)

    def taken(self) -> list[tuple[int, Report, Judged]]:
        """What has come since the last time: the round it answers, what it says, and the reply itself."""
        found = []
        for judged in self.waiting:
            number, node = judged.arrival.sent.round, judged.arrival.sent.node
            if node in self.asked.get(number, {}):
                said = Said(Outcome.FAILED, f"refused: {judged.fault}") if judged.fault else judged.said
                report = Report(node, self.asked[number][node], said, judged.arrival.latency)
                found.append((number, report, judged))
        self.waiting = []
        return sorted(found, key=lambda entry: (entry[0], entry[1].client))

    def merged(
        self,
        number: int,
        late: Sequence[tuple[int, Report, Judged]],
        fresh: Sequence[Judged],
        weighting: Weighting,
        weight_key: str,
    ) -> tuple[list[Message], dict[int, float]]:
        """Messages to hand to the strategy for late replies, and by node the weight that each counts with."""
        now = self.models.get(number)
        if now is None:
            return [], {}
        mergeable = [
            (since, judged)
            for since, report, judged in late
            if report.said.outcome == Outcome.COMPLETED and since in self.models and number - since <= MOST_ROUNDS
            if not misshapen(judged.shapes, _shapes(self.models[since])) and not misshapen(judged.shapes, _shapes(now))
        ]
        if not mergeable:
            return [], {}
        moved = [change(_model(judged), self.models[since]) for since, judged in mergeable]
        news = [change(_model(judged), now) for judged in fresh] if weighting == "refl" else []
        factors = weights(weighting, [number - since for since, _ in mergeable], moved, news)
        messages, counted = [], {}
        for (_, judged), step, factor in zip(mergeable, moved, factors, strict=True):
            content = rebased(judged.arrival.reply.content, step, now, factor, weight_key)
            weight = next(iter(content.metric_records.values()))[weight_key]
            if isinstance(weight, int | float) and weight > 0:
                messages.append(Message(content=content, reply_to=judged.arrival.sent.message))
                counted[judged.arrival.sent.node] = float(weight)
        return messages, counted

    def forget(self, open_rounds: set[int]) -> None:
        """Keep only rounds of which something is still open or has not been looked at, and only so many models."""
        open_rounds = open_rounds | {judged.arrival.sent.round for judged in self.waiting}
        self.asked = {number: nodes for number, nodes in self.asked.items() if number in open_rounds}
        recent = sorted(number for number in self.models if number in open_rounds)[-MOST_ROUNDS:]
        self.models = {number: self.models[number] for number in recent}


def _model(judged: Judged) -> dict[str, AnyArray]:
    return model_of(next(iter(judged.parts.arrays.values())))


def _shapes(model: Model) -> dict[str, tuple[int, ...]]:
    return {name: values.shape for name, values in model.items()}
