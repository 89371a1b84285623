"""Two objectives at once: dominance between rectangles, and hypervolume. All O(n log n) but the best subset."""

from __future__ import annotations

import numpy as np

from enlist._internal.typing import BoolArray, FloatArray, IntArray


def dominated(
    first_high: FloatArray, second_high: FloatArray, first_low: FloatArray, second_low: FloatArray
) -> BoolArray:
    """Which clients are certainly worse than another: their optimistic corner lies below its pessimistic corner.

    At least one of the two inequalities must be strict, so two identical clients do not remove each other.

    >>> ones = np.array([0.9, 0.3, 0.3])
    >>> dominated(ones, ones, ones, ones)
    array([False,  True,  True])
    """
    order = np.argsort(-first_low, kind="stable")
    lows = first_low[order]
    best = np.maximum.accumulate(second_low[order])
    # The staircase: among those whose first pessimistic value is at least (or above) x, the largest second one.
    at_least = np.searchsorted(-lows, -first_high, side="right")
    above = np.searchsorted(-lows, -first_high, side="left")
    reach = np.concatenate([[-np.inf], best])
    return np.asarray((reach[at_least] > second_high) | (reach[above] >= second_high))


def front(first: FloatArray, second: FloatArray) -> IntArray:
    """Indices of the points that no other point dominates, by falling first coordinate; duplicates count once.

    >>> front(np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.5, 0.4]))
    array([1, 0])
    """
    order = np.lexsort((-second, -first))
    reached = np.concatenate([[-np.inf], np.maximum.accumulate(second[order])[:-1]])
    return np.asarray(order[second[order] > reached])


def hypervolume(first: FloatArray, second: FloatArray) -> float:
    """Area of the union of the rectangles [0, first] x [0, second].

    >>> hypervolume(np.array([1.0, 2.0]), np.array([2.0, 1.0]))
    3.0
    """
    if not len(first):
        return 0.0
    order = np.argsort(-first, kind="stable")
    heights = np.maximum.accumulate(np.maximum(second[order], 0.0))
    rises = np.diff(heights, prepend=0.0)
    return float((np.maximum(first[order], 0.0) * rises).sum())


def best_subset(first: FloatArray, second: FloatArray, k: int) -> tuple[IntArray, float]:
    """The k points with the largest hypervolume, by dynamic programming over the front, O(k p^2).

    >>> chosen, area = best_subset(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0]), 1)
    >>> chosen, area
    (array([1]), 4.0)
    """
    if k <= 0:
        return np.zeros(0, dtype=np.int64), 0.0
    points = front(first, second)
    if len(points) <= k:
        return points, hypervolume(first[points], second[points])
    x, y = np.maximum(first[points], 0.0), np.maximum(second[points], 0.0)
    # gain[i, j]: adding point j after point i, with x falling and y rising along the front.
    gain = x[None, :] * (y[None, :] - y[:, None])
    gain[np.tril_indices(len(points))] = -np.inf
    value = x * y
    parents = []
    for _ in range(k - 1):
        step = value[:, None] + gain
        parents.append(np.argmax(step, axis=0))
        value = step.max(axis=0)
    last = int(np.argmax(value))
    chosen = [last]
    for parent in reversed(parents):
        chosen.append(int(parent[chosen[-1]]))
    return points[np.array(chosen[::-1])], float(value[last])
