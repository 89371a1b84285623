"""Choosing k of n: the largest with fair ties, weighted draws, and draws with given inclusion probabilities."""

from __future__ import annotations

import itertools

import numpy as np

from enlist._internal.typing import FloatArray, IntArray

FAINTEST = -600.0
"""Logarithm of the least weight passed to `weighted`."""


def top_k(scores: FloatArray, k: int, rng: np.random.Generator) -> IntArray:
    """Indices of the k largest scores in no particular order; ties at the border are drawn by `rng`. O(n).

    A score of NaN counts as the lowest.

    >>> top_k(np.array([0.3, 0.9, 0.1, 0.7]), 2, np.random.default_rng(0))
    array([1, 3])
    """
    if k >= len(scores):
        return np.arange(len(scores))
    if k <= 0:
        return np.zeros(0, dtype=np.int64)
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = np.flatnonzero(scores > border)
    ties = np.flatnonzero(scores == border)
    missing = k - len(above)
    if len(ties) < missing:  # NaN sorts as the largest and equals nothing: clients without a score come last
        return top_k(np.where(np.isnan(scores), -np.inf, scores), k, rng)
    if len(ties) > missing:
        ties = rng.choice(ties, missing, replace=False)
    return np.concatenate([above, ties])


def unseen_first(scores: FloatArray, unseen: np.ndarray, k: int, rng: np.random.Generator) -> IntArray:
    """Indices of k clients: the unseen ones first, at random, then the largest scores.

    A mask instead of infinite scores: arithmetic on infinity gives NaN.

    >>> unseen_first(np.array([0.3, 0.9, 0.1]), np.array([False, False, True]), 2, np.random.default_rng(0))
    array([2, 1])
    """
    new = np.flatnonzero(unseen)
    if len(new) >= k:
        return rng.choice(new, k, replace=False)
    known = np.flatnonzero(~unseen)
    return np.concatenate([new, known[top_k(scores[known], k - len(new), rng)]])


def uniform(n: int, k: int, rng: np.random.Generator) -> IntArray:
    """k of 0..n-1, every subset equally likely.

    >>> sorted(uniform(3, 3, np.random.default_rng(0)).tolist())
    [0, 1, 2]
    """
    return rng.choice(n, min(k, n), replace=False)


def rest(n: int, chosen: IntArray) -> IntArray:
    """Those of 0..n-1 that are not chosen, ascending.

    >>> rest(4, np.array([2, 0]))
    array([1, 3])
    """
    left = np.ones(n, dtype=bool)
    left[chosen] = False
    return np.flatnonzero(left)


def weighted(weights: FloatArray, k: int, rng: np.random.Generator) -> IntArray:
    """k successive draws without replacement, each in proportion to the remaining weights (Plackett-Luce). O(n).

    Exponential keys e/w, k smallest. A weight of zero is never drawn, so fewer than k may come back.

    >>> weighted(np.array([0.0, 1.0, 0.0, 2.0]), 3, np.random.default_rng(0)).tolist()
    [1, 3]
    """
    positive = np.flatnonzero(weights > 0)
    keys = rng.exponential(size=len(positive)) / weights[positive]
    return np.sort(positive[top_k(-keys, k, rng)])


def weighted_by_logarithm(logarithms: FloatArray, k: int, rng: np.random.Generator) -> IntArray:
    """`weighted` for weights exp(l), however far apart they are; -inf is never drawn.

    The same draws as `weighted` makes from exp(l - max l), as long as none of these is too small for a float.

    >>> weighted_by_logarithm(np.array([-np.inf, 0.0, -1e9, -1e9 + 50]), 2, np.random.default_rng(0)).tolist()
    [1, 3]
    """
    possible = np.flatnonzero(logarithms > -np.inf)
    given = logarithms[possible]
    if not len(given) or float(given.min() - given.max()) > FAINTEST:
        return weighted(np.exp(logarithms - (given.max() if len(given) else 0.0)), k, rng)
    keys = np.log(rng.exponential(size=len(possible))) - (given - given.max())
    return np.sort(possible[top_k(-keys, k, rng)])


def systematic(inclusion: FloatArray, rng: np.random.Generator) -> IntArray:
    """A draw in which i is included with probability exactly `inclusion[i]`; its size is their (whole) sum.

    Systematic sampling in random order: points u, u+1, u+2, ... on the cumulated probabilities.

    >>> systematic(np.array([1.0, 0.5, 0.5, 0.0]), np.random.default_rng(0)).tolist()
    [0, 1]
    """
    certain = np.flatnonzero(inclusion >= 1.0 - 1e-12)
    open_ones = np.flatnonzero((inclusion > 0.0) & (inclusion < 1.0 - 1e-12))
    order = rng.permutation(open_ones)
    size = round(float(inclusion[order].sum()))
    if not size:
        return certain
    borders = np.cumsum(inclusion[order])
    borders *= size / borders[-1]  # the sum is whole up to rounding; make it exactly so
    points = rng.uniform() + np.arange(size)
    drawn = np.minimum(np.searchsorted(borders, points, side="right"), len(order) - 1)
    return np.sort(np.concatenate([certain, order[drawn]]))


def sets_by_time(times: FloatArray, scores: FloatArray, k: int, rng: np.random.Generator, most: int = 64) -> IntArray:
    """Sets of k clients, one per row: for growing time limits, the k best scores within the limit. O(n log n).

    Every limit is tried if there are at most `most` of them, else as many on a geometric scale. Ties in time, and of
    scores at the border, are drawn by `rng`.

    >>> times, scores = np.array([1.0, 9.0, 2.0, 3.0]), np.array([0.1, 0.9, 0.2, 0.5])
    >>> np.sort(sets_by_time(times, scores, 2, np.random.default_rng(0)))
    array([[0, 2],
           [2, 3],
           [1, 3]])
    """
    order = rng.permutation(len(times))
    order = order[np.argsort(times[order], kind="stable")]
    lengths = np.arange(k, len(order) + 1)
    if len(lengths) > most:
        lengths = np.unique(np.geomspace(k, len(order), most).round().astype(np.int64))
    held = order[:k]
    sets = [held]
    for start, stop in itertools.pairwise(lengths.tolist()):
        # A client among the best of a longer stretch is among the best of every part of it.
        entering = order[start:stop]
        entering = entering[scores[entering] > scores[held].min()]
        if len(entering):
            both = np.concatenate([held, entering])
            held = both[np.argpartition(-scores[both], k - 1)[:k]]
            sets.append(held)
    return np.stack(sets)
