"""Stopping: when the target's validation score is past its peak. Further training would also spoil the estimates."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from scipy.interpolate import make_smoothing_spline

from enlist._internal.options import Options
from enlist._internal.typing import FloatArray

SPLINE_LEAST = 5
"""Minimum number of points for SciPy's smoothing spline."""


class Stopper:
    """Follows the scores of a run: which one is the best, and whether to stop.

    >>> stopper = Patience(rounds=2).start()
    >>> [stopper.update(score) for score in (0.6, 0.7, 0.65, 0.69)]
    [False, False, False, True]
    >>> stopper.best, stopper.best_round
    (0.7, 2)
    """

    def __init__(self, options: Stopping, lower_is_better: bool = False) -> None:
        self.options, self.lower_is_better = options, lower_is_better
        self.scores: list[float] = []
        self.best, self.best_round, self.improved = math.nan, 0, False

    def update(self, score: float) -> bool:
        """Record the score of a round (counted from 1); True to stop. `improved` says whether it is the best."""
        self.scores.append(score)
        better = score < self.best if self.lower_is_better else score > self.best
        self.improved = not math.isnan(score) and (math.isnan(self.best) or better)
        if self.improved:
            self.best, self.best_round = score, len(self.scores)
        curve = np.array(self.scores)
        return self.options.stops(-curve if self.lower_is_better else curve)

    def state(self) -> dict[str, Any]:
        """What `restore` needs to continue, ready for JSON."""
        return {"scores": [None if math.isnan(score) else score for score in self.scores]}

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        fresh = Stopper(Never(), self.lower_is_better)
        for score in saved["scores"]:
            fresh.update(math.nan if score is None else score)
        self.scores, self.best, self.best_round, self.improved = (
            fresh.scores, fresh.best, fresh.best_round, fresh.improved,
        )  # fmt: skip


class Stopping(Options):
    """Base class of all ways to stop; `start` makes a stopper.

    >>> isinstance(Patience(), Stopping)
    True
    """

    def start(self, lower_is_better: bool = False) -> Stopper:
        """A new stopper."""
        return Stopper(self, lower_is_better)

    def stops(self, scores: FloatArray) -> bool:
        """Whether to stop after these scores, where higher is better; NaN where a round had none."""
        raise NotImplementedError(f"{type(self).__name__} must define stops(scores)")


class Never(Stopping):
    """All rounds are played; the best model is still kept.

    >>> Never().start().update(0.5)
    False
    """

    kind: Literal["never"] = "never"

    def stops(self, scores: FloatArray) -> bool:
        return False


class Patience(Stopping):
    """Stops when the best score is `rounds` rounds old.

    >>> stopper = Patience(rounds=1).start(lower_is_better=True)
    >>> [stopper.update(loss) for loss in (0.9, 0.8, 0.85)]
    [False, False, True]
    """

    kind: Literal["patience"] = "patience"
    rounds: int = pydantic.Field(5, ge=1, description="Rounds without a better score after which training stops.")
    gain: float = pydantic.Field(
        0.0, ge=0, allow_inf_nan=False, description="A score must exceed the best by more than this to count as better."
    )

    def stops(self, scores: FloatArray) -> bool:
        best, since = -math.inf, 0
        for score in scores[~np.isnan(scores)].tolist():
            better = score > best + self.gain
            best, since = (score, 0) if better else (best, since + 1)
        return since >= self.rounds


class SplineSlope(Stopping):
    """Stops when a smoothing spline through all scores falls over the last rounds.

    >>> stopper = SplineSlope().start()
    >>> [stopper.update(score) for score in (1, 2, 3, 4, 5, 6, 5.5, 5, 4.5, 4, 3.5)].index(True) + 1
    9
    """

    kind: Literal["spline"] = "spline"
    window: int = pydantic.Field(5, ge=2, description="Number of last rounds over which the slope is computed.")
    least: int = pydantic.Field(8, ge=SPLINE_LEAST, description="Minimum number of rounds.")
    smoothing: float | None = pydantic.Field(
        None, ge=0, description="Weight of the curvature; by default chosen by cross-validation."
    )

    def stops(self, scores: FloatArray) -> bool:
        known = np.flatnonzero(~np.isnan(scores))
        if len(known) < self.least or np.ptp(scores[known]) == 0:
            return False
        spline = make_smoothing_spline(known.astype(float), scores[known], lam=self.smoothing)
        last, before = spline(float(known[-1])), spline(float(known[max(len(known) - self.window, 0)]))
        return bool(last < before)


class EMASlope(Stopping):
    """Stops when an exponential moving average of the scores falls over the last rounds.

    average <- average + weight (score - average)

    >>> stopper = EMASlope(window=2, weight=0.5, least=3).start()
    >>> [stopper.update(score) for score in (1.0, 2.0, 3.0, 1.0)]
    [False, False, False, True]
    """

    kind: Literal["ema"] = "ema"
    window: int = pydantic.Field(5, ge=2, description="Number of last rounds over which the slope is computed.")
    weight: float = pydantic.Field(0.3, gt=0, le=1, description="Weight of the latest score in the average.")
    least: int = pydantic.Field(8, ge=2, description="Minimum number of rounds.")

    def stops(self, scores: FloatArray) -> bool:
        known = scores[~np.isnan(scores)].tolist()
        if len(known) < self.least:
            return False
        averages = known[:1]
        for score in known[1:]:
            averages.append(averages[-1] + self.weight * (score - averages[-1]))
        return bool(averages[-1] < averages[max(len(averages) - self.window, 0)])


AnyStopping = Annotated[Never | Patience | SplineSlope | EMASlope, pydantic.Field(discriminator="kind")]
