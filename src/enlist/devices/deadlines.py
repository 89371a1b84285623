"""Deadlines: how long a round waits. A policy of the server, fixed or learned from what it observes."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
import pydantic

from enlist._internal import checks
from enlist._internal.options import Options
from enlist._internal.typing import FloatArray
from enlist.errors import InputError

MEGABYTE = 1_000_000


class Deadline:
    """A deadline that does not change; the others derive from it.

    >>> deadline = Deadline(30.0)
    >>> deadline.observe(np.array([3.0]))
    >>> deadline.seconds, deadline.state()
    (30.0, {})
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = checks.seconds("the deadline", seconds)

    @property
    def seconds(self) -> float:
        """How long the next round waits; infinity if it waits for all clients."""
        return self._seconds

    def observe(self, latencies: FloatArray) -> None:
        """Take in the completed latencies of a round."""

    def state(self) -> dict[str, float]:
        """What was learned, for resuming a run."""
        return {}

    def restore(self, state: Mapping[str, float]) -> None:
        """Continue from what `state` returned, bit for bit."""
        known = self.state().keys()
        if state.keys() != known:
            raise InputError(f"the deadline's state has {sorted(state)}; this kind has {sorted(known)}.")


class AverageDeadline(Deadline):
    """factor · average, the average taking in a percentile of each round's completed latencies with weight alpha.

    >>> deadline = AverageDeadline(10.0, factor=2.0, alpha=0.5, percentile=50.0)
    >>> deadline.observe(np.array([5.0, 6.0, 30.0]))
    >>> deadline.seconds, deadline.state()
    (16.0, {'average': 8.0})
    """

    def __init__(self, average: float, factor: float, alpha: float, percentile: float) -> None:
        super().__init__(factor * average)
        self.average, self.factor, self.alpha, self.percentile = average, factor, alpha, percentile

    @property
    def seconds(self) -> float:
        """How long the next round waits."""
        return self.factor * self.average

    def observe(self, latencies: FloatArray) -> None:
        """Take in the completed latencies of a round; none, or latencies of 0, change nothing."""
        latencies = np.asarray(latencies, dtype=float)
        if not (np.isfinite(latencies) & (latencies >= 0)).all():
            raise InputError(f"completed latencies are {latencies}; they must be finite and not negative.")
        if len(latencies) and (level := float(np.percentile(latencies, self.percentile))) > 0:
            self.average = (1.0 - self.alpha) * self.average + self.alpha * level

    def state(self) -> dict[str, float]:
        """The average, for resuming a run."""
        return {"average": self.average}

    def restore(self, state: Mapping[str, float]) -> None:
        """Continue from what `state` returned, bit for bit."""
        super().restore(state)
        self.average = checks.finite("the deadline's average", state["average"], 0.0)


class DeadlineOptions(Options, abc.ABC):
    """Base of all kinds of deadline.

    >>> Fixed(seconds=60.0).start(np.array([10.0]), model_bytes=0).seconds
    60.0
    """

    model_config = pydantic.ConfigDict(allow_inf_nan=False)

    @abc.abstractmethod
    def start(self, expected: FloatArray, model_bytes: int) -> Deadline:
        """The policy, for a population with these expected latencies (N,) and a model of this size (one way)."""


class NoDeadline(DeadlineOptions):
    """A round waits for all clients.

    >>> NoDeadline().start(np.array([10.0]), model_bytes=0).seconds
    inf
    """

    kind: Literal["none"] = "none"

    def start(self, expected: FloatArray, model_bytes: int) -> Deadline:
        """The policy."""
        return Deadline(np.inf)


class Fixed(DeadlineOptions):
    """A round waits a fixed number of seconds.

    >>> Fixed(seconds=60.0).start(np.array([10.0]), model_bytes=0).seconds
    60.0
    """

    kind: Literal["fixed"] = "fixed"
    seconds: float = pydantic.Field(100.0, gt=0, description="Seconds that a round waits.")

    def start(self, expected: FloatArray, model_bytes: int) -> Deadline:
        """The policy."""
        return Deadline(self.seconds)


class PercentileOptions(DeadlineOptions):
    """A percentile of the population's expected latencies: that share of the clients is in time in a typical round.

    >>> PercentileOptions(percentile=75.0).start(np.array([10.0, 20.0, 30.0, 40.0, 50.0]), model_bytes=0).seconds
    40.0
    """

    kind: Literal["percentile"] = "percentile"
    percentile: float = pydantic.Field(
        80.0, gt=0, le=100, description="Percentile of the expected latencies of all clients."
    )

    def start(self, expected: FloatArray, model_bytes: int) -> Deadline:
        """The policy."""
        return Deadline(_level(expected, self.percentile))


class MovingAverageOptions(DeadlineOptions):
    """A multiple of a moving average of the completed latencies; it begins with the population's expected ones.

    Completed latencies are those below the deadline, so the average settles below the population's own percentile;
    `factor` makes up for it.

    >>> deadline = MovingAverageOptions(factor=2.0).start(np.array([10.0, 20.0, 30.0]), model_bytes=0)
    >>> deadline.seconds
    40.0
    """

    kind: Literal["moving-average"] = "moving-average"
    factor: float = pydantic.Field(2.0, gt=0, description="Deadline in units of the average.")
    percentile: float = pydantic.Field(
        50.0, gt=0, le=100, description="Percentile of a round's completed latencies that the average takes in."
    )
    alpha: float = pydantic.Field(0.25, gt=0, le=1, description="Weight of the newest round in the average.")

    def start(self, expected: FloatArray, model_bytes: int) -> AverageDeadline:
        """The policy."""
        return AverageDeadline(_level(expected, self.percentile), self.factor, self.alpha, self.percentile)


class ModelScaled(DeadlineOptions):
    """base + per_megabyte · size of the model: a larger model gets the time that its transfers take.

    By default a megabyte (10⁶ bytes) gets 5.5 s: down and up at 2.9 Mbit/s, the 25th percentile of `phones`.

    >>> ModelScaled(base=60.0, per_megabyte=2.0).start(np.array([10.0]), model_bytes=5_000_000).seconds
    70.0
    """

    kind: Literal["model-scaled"] = "model-scaled"
    base: float = pydantic.Field(100.0, gt=0, description="Seconds for a model without size.")
    per_megabyte: float = pydantic.Field(5.5, ge=0, description="Seconds per megabyte of the model, one way.")

    def start(self, expected: FloatArray, model_bytes: int) -> Deadline:
        """The policy."""
        return Deadline(self.base + self.per_megabyte * model_bytes / MEGABYTE)


AnyDeadline = Annotated[
    NoDeadline | Fixed | PercentileOptions | MovingAverageOptions | ModelScaled, pydantic.Field(discriminator="kind")
]
"""Any kind of deadline, told apart by `kind`."""


def _level(expected: FloatArray, percentile: float) -> float:
    expected = np.asarray(expected, dtype=float)
    if not len(expected) or not np.isfinite(expected).all():
        raise InputError(f"expected latencies of shape {expected.shape} are empty or not finite; give one per client.")
    level = float(np.percentile(expected, percentile))
    if not level > 0:
        raise InputError(
            f"the {percentile:g}th percentile of the expected latencies is {level}; set a fixed deadline instead."
        )
    return level
