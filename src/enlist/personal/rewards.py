"""Rewards: the value of an increase in the target's score for the rule.

An increase i is the score of the aggregate minus the score of the target's own model of the same round, or, to show why
that is worse, minus the score of the previous round. A meter turns the increases of a round into rewards.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pydantic
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.options import Options
from enlist._internal.typing import FloatArray
from enlist.bandits import RecentValues
from enlist.errors import InputError

WINDOW = 4096
"""Most increases for a running quantile; a run has fewer."""


def increase(reference: float, value: float, lower_is_better: bool = False) -> float:
    """How much better `value` is than `reference`: above 0 is better, also for a loss.

    >>> increase(0.60, 0.65), increase(0.60, 0.65, lower_is_better=True)
    (0.05..., -0.05...)
    """
    return reference - value if lower_is_better else value - reference


def pilot_threshold(increases: ArrayLike, q: float = 0.5) -> float:
    """The threshold for binary rewards from the increases of a pilot run: their q-quantile; NaN are left out.

    >>> pilot_threshold([0.01, 0.02, float("nan"), 0.06])
    0.02
    """
    checks.finite("q", q, 0.0, 1.0)
    known = np.asarray(increases, dtype=float).ravel()
    known = known[~np.isnan(known)]
    if not len(known):
        raise InputError("the pilot run has no increase; let it run for some rounds, or give a threshold.")
    return float(np.quantile(known, q))


class Meter:
    """Turns increases into rewards, round by round.

    >>> meter = Binary(threshold=0.025).start()
    >>> meter.rewards(np.array([0.03, 0.01, float("nan")]), reference=0.6)
    array([ 1.,  0., nan])
    """

    def __init__(self, options: Reward) -> None:
        self.options = options
        self.past = RecentValues.of(WINDOW)

    def rewards(self, increases: ArrayLike, reference: float) -> FloatArray:
        """Rewards of the arms of a round; `reference` is the score that they are compared with. NaN stays NaN."""
        given = np.asarray(increases, dtype=float)
        rewards = self.options.rewards(given, reference, self.past)
        self.past.add(given[~np.isnan(given)])
        return rewards

    def state(self) -> dict[str, Any]:
        """What `restore` needs to continue, ready for JSON."""
        return {"past": self.past.values().tolist(), "seen": self.past.seen}

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        self.past = RecentValues.of(WINDOW)
        self.past.ring[: len(saved["past"])] = saved["past"]
        self.past.seen = saved["seen"]


class Reward(Options):
    """Base class of all rewards: the reference of scores; `start` makes a meter.

    >>> Increment(against="previous").against, Binary().binary
    ('previous', True)
    """

    binary: ClassVar[bool] = False
    against: Literal["local", "previous"] = pydantic.Field(
        "local",
        description="What a score is compared with: the target's local model of the same round, or the previous round.",
    )

    def start(self) -> Meter:
        """A new meter."""
        return Meter(self)

    def rewards(self, increases: FloatArray, reference: float, past: RecentValues) -> FloatArray:
        """Rewards for the increases of a round, given those of earlier rounds."""
        raise NotImplementedError(f"{type(self).__name__} must define rewards(increases, reference, past)")


class Increment(Reward):
    """Reward type 1: the increase itself, r = i.

    >>> Increment().start().rewards([0.03, -0.01], reference=0.6)
    array([ 0.03, -0.01])
    """

    kind: Literal["increment"] = "increment"

    def rewards(self, increases: FloatArray, reference: float, past: RecentValues) -> FloatArray:
        return increases


class Binary(Reward):
    """Reward type 2: r = 1 if i > threshold, else 0. The thesis's best thresholds are 0.025 and, for Extreme
    Explore, 0.05.

    >>> Binary().start().rewards([0.03, 0.025], reference=0.6)
    array([1., 0.])
    """

    kind: Literal["binary"] = "binary"
    threshold: float = pydantic.Field(0.025, allow_inf_nan=False, description="Increase that counts as a success.")
    binary: ClassVar[bool] = True

    def rewards(self, increases: FloatArray, reference: float, past: RecentValues) -> FloatArray:
        return _above(increases, self.threshold)


class Quantile(Reward):
    """Binary rewards whose threshold is a running quantile of the increases of all earlier rounds.

    >>> meter = Quantile(minimum=3, threshold=0.1).start()
    >>> meter.rewards([0.01, 0.02, 0.03], reference=0.6), meter.rewards([0.025], reference=0.6)
    (array([0., 0., 0.]), array([1.]))
    """

    kind: Literal["quantile"] = "quantile"
    q: float = pydantic.Field(0.5, ge=0, le=1, description="Which quantile of the earlier increases.")
    minimum: int = pydantic.Field(5, ge=1, description="Increases that must be known before the quantile is used.")
    threshold: float = pydantic.Field(0.025, allow_inf_nan=False, description="Threshold until then.")
    binary: ClassVar[bool] = True

    def rewards(self, increases: FloatArray, reference: float, past: RecentValues) -> FloatArray:
        return _above(increases, past.quantile(self.q, default=self.threshold, minimum=self.minimum))


class Relative(Reward):
    """Relative gain r = i / y, where y is the score compared with. It favours rounds in which y is small, which are the
    early ones if scores grow; the thesis tried it and dropped it. If y is not above 0, there is no reward (NaN).

    >>> Relative().start().rewards([0.03], reference=0.6)
    array([0.05])
    """

    kind: Literal["relative"] = "relative"

    def rewards(self, increases: FloatArray, reference: float, past: RecentValues) -> FloatArray:
        return increases / reference if reference > 0 else np.full_like(increases, np.nan)


AnyReward = Annotated[Increment | Binary | Quantile | Relative, pydantic.Field(discriminator="kind")]


def _above(increases: FloatArray, threshold: float) -> FloatArray:
    return np.where(np.isnan(increases), np.nan, (increases > threshold).astype(float))
