"""Random numbers that devices, sessions and features share: inverse distribution functions, no rejection.

Each draw of a client is read at the client's own place in a stream, so the first clients of a large population are
the clients of a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from enlist._internal.typing import AnyArray, FloatArray, IntArray


def truncated_lognormal(scores: FloatArray, median: float, sigma: float, low: float, high: float) -> FloatArray:
    """Lognormal values within [low, high], from standard normal scores: exp(ln median + sigma·Φ⁻¹(a + (b − a)·Φ(z))).

    a and b are the probabilities that the untruncated lognormal lies below low and below high.

    >>> truncated_lognormal(np.array([-2.0, 0.0, 2.0]), median=65.0, sigma=0.8, low=15.0, high=200.0).round(1)
    array([ 17.9,  62. , 181. ])
    """
    nearest = min(max(median, low), high)
    if sigma < 1e-9:
        return np.full(len(scores), nearest)
    edges = np.log(np.array([low, high]) / median) / sigma
    # Above the median the upper tail is the exact one: probabilities close to 1 have no digits left.
    side = -1.0 if edges[0] > 0 else 1.0
    below, above = ndtr(side * edges)
    if below == above:
        return np.full(len(scores), nearest)
    values = median * np.exp(side * sigma * ndtri(below + (above - below) * ndtr(scores)))
    return np.asarray(np.clip(values, low, high))


def mean_one(scores: FloatArray, sigma: float) -> FloatArray:
    """Lognormal factors of mean 1, from standard normal scores: exp(sigma·z − sigma²/2).

    >>> mean_one(np.array([-1.0, 0.0, 1.0]), 0.2).round(3)
    array([0.803, 0.98 , 1.197])
    """
    return np.asarray(np.exp(sigma * scores - sigma**2 / 2.0))


def blended(scores: FloatArray, noise: FloatArray, correlation: float) -> FloatArray:
    """Standard normal scores correlated with given ones: r·z + √(1 − r²)·noise.

    >>> blended(np.array([1.0, -1.0]), np.array([5.0, 7.0]), 1.0)
    array([ 1., -1.])
    """
    return np.asarray(correlation * scores + np.sqrt(1.0 - correlation**2) * noise)


def normal_scores(values: FloatArray) -> FloatArray:
    """Ranks mapped to a standard normal; equal values share the mean of their ranks.

    >>> normal_scores(np.array([10.0, 30.0, 10.0])).round(2)
    array([-0.43,  0.97, -0.43])
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]  # what scipy.stats.rankdata gives; it is slow to import
    return np.asarray(ndtri((ranks - 0.5) / len(values)))


def dealt(shares: Sequence[float], count: int, rng: np.random.Generator) -> IntArray:
    """A group for each of `count` clients; every group has its share of them, up to rounding.

    >>> np.bincount(dealt([1.0, 9.0], 50, np.random.default_rng(0)))
    array([ 5, 45])
    """
    places = np.empty(count)
    places[np.argsort(rng.uniform(size=count), kind="stable")] = (np.arange(count) + 0.5) / count
    edges = np.cumsum(shares)[:-1] / np.sum(shares)
    return np.searchsorted(edges, places, side="right").astype(np.int64)


class Recent:
    """The most recent arrays, by number: a bounded cache of what can always be made again.

    >>> recent = Recent(size=2)
    >>> [int(recent.get(number, lambda n: np.array([n * n]))[0]) for number in (3, 4, 5, 3)]
    [9, 16, 25, 9]
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: dict[int, AnyArray] = {}

    def get(self, number: int, make: Callable[[int], AnyArray]) -> AnyArray:
        """The array of this number, made if it is not in the cache."""
        if number not in self._kept:
            made = make(number)
            while len(self._kept) >= self.size:
                del self._kept[next(iter(self._kept))]
            self._kept[number] = made
        return self._kept[number]
