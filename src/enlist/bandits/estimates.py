"""Running estimates of what each arm (or client) is worth."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.bandits.credible import credible
from enlist.state import State, column


@dataclasses.dataclass
class Estimates(State):
    """Mean of the values seen per arm: plain, or weighted towards recent ones.

    plain     mean += (value - mean) / count
    recency   mean += step * (value - mean): the last value has weight `step`, the initial one (1 - step)^count

    >>> estimates = Estimates.create(2)
    >>> estimates.update(np.array([0]), np.array([1.0]))
    >>> estimates.update(np.array([0]), np.array([2.0]))
    >>> estimates.mean, estimates.count
    (array([1.5, 0. ]), array([2, 0]))
    """

    count: IntArray = column(0, int)
    mean: FloatArray = column(0.0)

    def update(self, arms: IntArray, values: FloatArray, step: float | None = None) -> None:
        """Add one value for each of the distinct `arms`."""
        self.count[arms] += 1
        weight = 1.0 / self.count[arms] if step is None else step
        self.mean[arms] += weight * (values - self.mean[arms])

    def revise(self, arms: IntArray, before: FloatArray, after: FloatArray) -> None:
        """Replace a value added earlier (plain means only)."""
        self.mean[arms] += (after - before) / np.maximum(self.count[arms], 1)


@dataclasses.dataclass
class BetaPosterior(State):
    """Beta posteriors of success probabilities, from (possibly discounted) counts.

    >>> posterior = BetaPosterior.create(2)
    >>> posterior.update(np.array([1]), np.array([1.0]))
    >>> posterior.mean(1.0, 1.0)
    array([0.5       , 0.66666667])
    """

    successes: FloatArray = column(0.0)
    failures: FloatArray = column(0.0)

    def update(self, arms: IntArray, rewards: FloatArray) -> None:
        """Add rewards in [0, 1] of the distinct `arms`."""
        self.successes[arms] += rewards
        self.failures[arms] += 1.0 - rewards

    def discount(self, factor: float) -> None:
        """Forget part of what was seen of every arm; the prior is untouched, so the variance grows again."""
        self.successes *= factor
        self.failures *= factor

    def sample(self, arms: IntArray | slice, alpha: float, beta: float, rng: np.random.Generator) -> FloatArray:
        """One draw per arm from Beta(alpha + successes, beta + failures)."""
        return rng.beta(alpha + self.successes[arms], beta + self.failures[arms])

    def mean(self, alpha: float, beta: float) -> FloatArray:
        """Posterior means under the prior Beta(alpha, beta)."""
        return (alpha + self.successes) / (alpha + beta + self.successes + self.failures)


@dataclasses.dataclass
class RecentValues(State):
    """A window of the last values, for running quantiles; memory does not grow.

    >>> recent = RecentValues.of(4)
    >>> recent.add(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    >>> recent.values()
    array([5., 2., 3., 4.])
    """

    ring: AnyArray
    seen: int = 0

    @classmethod
    def of(cls, size: int) -> RecentValues:
        """An empty window of `size` values."""
        return cls(ring=np.zeros(size))

    def add(self, values: FloatArray) -> None:
        """Append values; the oldest drop out."""
        slots = (self.seen + np.arange(len(values))) % len(self.ring)
        self.ring[slots] = values
        self.seen += len(values)

    def values(self) -> FloatArray:
        """The values in the window, in no particular order."""
        return self.ring[: min(self.seen, len(self.ring))]

    def credible(self) -> FloatArray:
        """The values in the window without absurd ones, for use in scales."""
        return credible(self.values())

    def quantile(self, q: float, default: float, minimum: int = 1) -> float:
        """A quantile of the credible values, or `default` while there are fewer than `minimum`."""
        values = self.credible()
        return float(np.quantile(values, q)) if len(values) >= minimum else default

    def scaled(self, values: FloatArray, low: float = 0.05, high: float = 0.95) -> FloatArray:
        """`values` mapped to [0, 1] between two running quantiles; 0.5 while these coincide."""
        window = self.credible()
        bottom, top = np.quantile(window, [low, high]) if len(window) else (0.0, 0.0)
        if not top > bottom:
            return np.where(np.isnan(values), np.nan, 0.5)
        return np.clip((values - bottom) / (top - bottom), 0.0, 1.0)
