"""Figures over seeds: a mean with its interval, and a ratio of paired runs with its interval."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from enlist.streams import Streams

RESAMPLES = 10_000


@dataclasses.dataclass(frozen=True)
class Summary:
    """Mean of a quantity over seeds with its 95 % interval.

    >>> Summary.of([1.0, 2.0, 3.0])
    Summary(mean=2.0, low=-0.48..., high=4.48...)
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Student's t interval; with a single seed there is none."""
        mean = float(np.mean(values))
        if len(values) < 2:
            return cls(mean, math.nan, math.nan)
        half = float(student.ppf(0.975, len(values) - 1)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half)


def geometric_mean(ratios: Sequence[float]) -> Summary:
    """Geometric mean of ratios, one per seed, with a 95 % percentile bootstrap interval over seeds.

    A ratio belongs to a pair of runs of the same seed, so resampling ratios resamples pairs. The resamples come from a
    stream of their own: the same ratios always give the same interval. A single ratio has none.

    >>> geometric_mean([1.0, 4.0])
    Summary(mean=2.0, low=1.0, high=4.0)
    """
    logs = np.log(np.asarray(ratios, dtype=float))
    mean = float(np.exp(logs.mean()))
    if len(logs) < 2:
        return Summary(mean, math.nan, math.nan)
    drawn = Streams(0).generator("paired bootstrap").integers(len(logs), size=(RESAMPLES, len(logs)))
    low, high = np.exp(np.quantile(logs[drawn].mean(axis=1), [0.025, 0.975]))
    return Summary(mean, float(low), float(high))
