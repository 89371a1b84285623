"""Statistics over seeds, with intervals: means, differences and ratios of paired runs, shares, any statistic.

And before a run: what its seeds could show.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy  # scipy.stats and scipy.optimize, slow to import, are loaded when a function uses them
from numpy.typing import ArrayLike

from enlist._internal.typing import FloatArray
from enlist.streams import Streams


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
        half = _student(len(values) - 1) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half)

    def columns(self, name: str) -> dict[str, float]:
        """As columns of a table: the mean under this name, and the ends of the interval beside it."""
        return {name: self.mean, f"{name}_low": self.low, f"{name}_high": self.high}

    def within(self, least: float, most: float) -> Summary:
        """With the interval clipped to what is possible: a share cannot exceed 1."""
        return Summary(self.mean, max(self.low, least), min(self.high, most))


@functools.lru_cache(maxsize=1024)
def _student(freedom: int) -> float:
    """The quantile for 95 % intervals; computing it takes longer than all else, and curves need it at every point."""
    return float(scipy.stats.t.ppf(0.975, freedom))


def geometric_mean(ratios: Sequence[float]) -> Summary:
    """Geometric mean of ratios, one per seed, with the 95 % interval of Student's t on their logarithms.

    >>> geometric_mean([1.0, 2.0, 4.0])
    Summary(mean=2.0, low=0.35..., high=11.18...)
    """
    logs = Summary.of(np.log(np.asarray(ratios, dtype=float)).tolist())
    return Summary(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high))


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Summary:
    """Mean of first − second, pair by pair, with Student's t interval; with a single pair there is none.

    >>> paired_difference([3.0, 4.0, 5.0], [1.0, 1.0, 1.0])
    Summary(mean=3.0, low=0.51..., high=5.48...)
    """
    pairs = zip(first, second, strict=True)
    return Summary.of([one - other for one, other in pairs])


def bootstrap(statistic: Callable[..., float], *columns: ArrayLike, resamples: int = 2_000) -> Summary:
    """Any statistic of columns with a 95 % bootstrap interval; row i of every column belongs to seed i.

    Rows are resampled together, so pairs stay pairs. Percentiles are taken further out than 2.5 % and 97.5 %, at
    Φ(∓t·sqrt(n/(n−1))) with Student's t, because plain ones are too narrow for few seeds (the expanded percentile
    interval of Hesterberg, "What Teachers Should Know About the Bootstrap", 2015). A single seed has no interval.
    Resamples whose statistic is NaN are left out; if all are NaN, there is no interval either.

    >>> bootstrap(lambda a, b: a.std() / b.std(), [1.0, 3.0, 2.0, 4.0], [1.0, 3.0, 2.0, 4.0])
    Summary(mean=1.0, low=1.0, high=1.0)
    """
    arrays = [np.asarray(column, dtype=float) for column in columns]
    count = len(arrays[0])
    value = float(statistic(*arrays))
    if count < 2:
        return Summary(value, math.nan, math.nan)
    level = float(scipy.stats.norm.cdf(-scipy.stats.t.ppf(0.975, count - 1) * math.sqrt(count / (count - 1))))
    drawn = Streams(0).generator("bootstrap").integers(count, size=(resamples, count))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.array([statistic(*(array[rows] for array in arrays)) for rows in drawn])
    if np.isnan(values).all():
        return Summary(value, math.nan, math.nan)
    low, high = np.nanquantile(values, [level, 1.0 - level])
    return Summary(value, float(low), float(high))


def share(successes: int, trials: int) -> Summary:
    """A share with its 95 % Wilson interval, which stays within 0 and 1 and is defined for every count.

    >>> share(18, 20)
    Summary(mean=0.9, low=0.69..., high=0.97...)
    """
    found = scipy.stats.binomtest(successes, trials).proportion_ci(method="wilson")
    return Summary(successes / trials, float(found.low), float(found.high))


def power_of(difference: float, spread: float, seeds: int) -> float:
    """The chance that the 95 % interval of a paired difference leaves out 0, if the true mean is `difference`.

    spread   standard deviation of the differences across seeds, from development seeds; for ratios, that of their
             logarithms, and `difference` is a logarithm, too
    seeds    how many pairs there will be; a single one has no interval, so it shows nothing

    The two tails of Student's noncentral t, by quadrature over the deviation that the seeds will have: scipy's own is
    NaN in places.

    >>> round(power_of(0.5, spread=1.0, seeds=34), 4)
    0.8078
    """
    if seeds < 2:
        return 0.0
    if spread == 0.0:
        return float(difference != 0.0)
    nodes, weights = _quadrature()
    deviation = np.sqrt(scipy.stats.chi2.ppf((nodes + 1.0) / 2.0, seeds - 1) / (seeds - 1))
    bar = float(scipy.stats.t.ppf(0.975, seeds - 1)) * deviation
    shift = abs(difference) / spread * math.sqrt(seeds)
    return min(float(weights @ (scipy.special.ndtr(shift - bar) + scipy.special.ndtr(-shift - bar))) / 2.0, 1.0)


@functools.cache
def _quadrature() -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on [-1, 1]: computing them takes longer than using them."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return nodes, weights


def smallest_difference(spread: float, seeds: int, power: float = 0.8) -> float:
    """The smallest true difference that this many seeds would show with probability `power`; see `power_of`.

    A claim about less than that cannot be tested with these seeds. `power` lies between 0.06 and 0.999. For ratios it
    is exp of the result, if `spread` is that of logarithms. Infinite for a single seed.

    >>> round(smallest_difference(spread=0.01, seeds=5), 4)
    0.0168
    """
    if seeds < 2:
        return math.inf
    if spread == 0.0:
        return 0.0
    most = 1e4 / math.sqrt(seeds)
    return spread * float(scipy.optimize.brentq(lambda size: power_of(size, 1.0, seeds) - power, 0.0, most))


def seeds_needed(difference: float, spread: float, power: float = 0.8, most: int = 10_000) -> int | None:
    """How many seeds would show a true difference with probability `power`; None if `most` are not enough.

    >>> seeds_needed(0.5, spread=1.0), seeds_needed(0.0, spread=1.0)
    (34, None)
    """
    low, high = 1, 2
    while power_of(difference, spread, high) < power:
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(difference, spread, middle) >= power else (middle, high)
    return high


def mean_ranks(scores: ArrayLike) -> FloatArray:
    """Mean rank of each column over the rows, 1 for the largest score; ties share their ranks, NaN comes last.

    >>> mean_ranks([[3.0, 1.0, 2.0], [5.0, 5.0, 1.0]])
    array([1.25, 2.25, 2.5 ])
    """
    values = np.asarray(scores, dtype=float)
    return np.asarray(scipy.stats.rankdata(-np.where(np.isnan(values), -np.inf, values), axis=1).mean(axis=0))


def critical_difference(methods: int, blocks: int, level: float = 0.05) -> float:
    """By how much the mean ranks of two methods over this many blocks must differ to be significant (Nemenyi).

    q · sqrt(m (m + 1) / (6 n)), where q is the quantile of the studentised range over sqrt(2). Demšar: Statistical
    Comparisons of Classifiers over Multiple Data Sets, JMLR 2006, whose example has four methods and fourteen sets.

    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    if methods < 2 or blocks < 1:
        return math.nan
    quantile = float(scipy.stats.studentized_range.ppf(1.0 - level, methods, np.inf)) / math.sqrt(2.0)
    return quantile * math.sqrt(methods * (methods + 1) / (6.0 * blocks))
