"""ArmStatistics: what the values seen so far say about the mean of each arm, and with what certainty."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy

from enlist._internal.typing import FloatArray, IntArray
from enlist.state import State, column
from enlist.streams import Streams

LEAST = 3
"""Fewer values of an arm than this say nothing about its mean."""
DRAWS = 4096


@dataclasses.dataclass
class ArmStatistics(State):
    """Number, mean and sum of squared deviations of the values of each arm.

    >>> evidence = ArmStatistics.create(2)
    >>> for value in (0.01, 0.02, 0.03):
    ...     evidence.add(np.array([1]), np.array([value]))
    >>> evidence.mean, evidence.squares
    (array([0.  , 0.02]), array([0.    , 0.0002]))
    >>> lower, upper = evidence.bounds()
    >>> lower[1].round(4), upper[1].round(4), upper[0]
    (np.float64(-0.0048), np.float64(0.0448), np.float64(inf))
    """

    count: IntArray = column(0, int)
    mean: FloatArray = column(0.0)
    squares: FloatArray = column(0.0)

    def add(self, arms: IntArray, values: FloatArray) -> None:
        """Add one value for each of the distinct `arms`."""
        self.count[arms] += 1
        before = values - self.mean[arms]
        self.mean[arms] += before / self.count[arms]
        self.squares[arms] += before * (values - self.mean[arms])

    def variance(self, certain: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Variance of a value of each arm, and its degrees of freedom; NaN and 0 where nothing is known.

        An arm with fewer than three values, or with equal ones (a coarse score), takes the pooled variance of all arms.
        Only the arm `certain`, if there is one whose value is fixed by definition, is believed if it does not vary.
        """
        own = self.squares / np.maximum(self.count - 1, 1)
        freedom = np.maximum(self.count - 1, 0).astype(float)
        pooled_freedom = float(freedom.sum())
        pooled = float(self.squares.sum()) / pooled_freedom if pooled_freedom else np.nan
        vague = (self.count < LEAST) | (own <= 0)
        if certain is not None and self.count[certain]:
            vague[certain] &= own[certain] > 0
        return np.where(vague, pooled, own), np.where(vague, pooled_freedom, freedom)

    def bounds(self, confidence: float = 0.95, certain: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Student's interval of the mean of each arm; infinite below three values."""
        variance, freedom = self.variance(certain)
        known = (self.count >= LEAST) & (freedom > 0)
        half = np.full(len(self.mean), np.inf)
        quantile = scipy.stats.t.ppf(0.5 + confidence / 2, freedom[known])
        half[known] = quantile * np.sqrt(variance[known] / self.count[known])
        return self.mean - half, self.mean + half

    def probability_best(self, certain: int | None = None) -> FloatArray:
        """Probability that each arm has the largest mean: its share of wins in seeded draws.

        The mean of an arm is drawn from Student's distribution around what was seen; that of an arm never seen, from
        the spread of all others. With fewer than two values in all, every arm is equally probable.
        """
        arms, seen = len(self.mean), self.count > 0
        if self.count.sum() < 2:
            return np.full(arms, 1.0 / arms)
        variance, freedom = self.variance(certain)
        between = float(np.var(self.mean[seen], ddof=1)) if seen.sum() > 1 else 0.0
        variance, freedom = np.where(np.isnan(variance), between, variance), np.maximum(freedom, 1.0)
        centre = np.where(seen, self.mean, self.mean[seen].mean())
        scale = np.sqrt(np.where(seen, variance / np.maximum(self.count, 1), variance + between))
        generator = Streams(0).generator("probability best")
        wins = np.zeros(arms)
        rounds = max(DRAWS // 16, min(DRAWS, 2**24 // arms))
        for _ in range(rounds // 64):
            drawn = centre + scale * generator.standard_t(freedom, size=(64, arms))
            wins += np.bincount(drawn.argmax(axis=1), minlength=arms)
        return np.asarray(wins / wins.sum())
