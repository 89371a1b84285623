"""Proposals: combinations worth trying, and weights within one, from the similarity of the workers' updates."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import linkage

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.errors import InputError
from enlist.personal.arms import MOST_OTHERS, Arms

Combination = tuple[int, ...]


def clusters(
    updates: ArrayLike, target: int, size: int = 5, subsets: Literal["pairs", "all"] = "pairs"
) -> tuple[Combination, ...]:
    """Combinations of the target with workers whose updates point in the same direction.

    updates    (workers, parameters) one update of each worker from the same model
    size       largest number of other workers that are proposed
    subsets    "pairs": each with the target, and all together; "all": every subset of them

    Ward clustering of the updates scaled to unit length, whose squared distance is 2 (1 - cosine). The tree is cut at
    the largest cluster of the target with at most `size` others that does not include all workers; one with fewer than
    two others is replaced by the two nearest. With many workers few arms remain: 50 workers, at most 6 (pairs) or 2^5.

    Reference: Sattler, Müller and Samek 2020 cluster updates; that the thesis's rules then try them is its outlook.

    >>> rng = np.random.default_rng(0)
    >>> updates = np.repeat([[1.0, 0.0], [0.0, 1.0]], 3, axis=0) + 0.1 * rng.normal(size=(6, 2))
    >>> clusters(updates, target=1)
    ((0, 1), (1, 2), (0, 1, 2))
    """
    units = _unit_rows(updates)
    if not 0 <= target < len(units) or len(units) < 2:
        raise InputError(
            f"target is {target} among {len(units)} updates; there must be at least two, the target's too."
        )
    most = checks.whole("size", size, minimum=1)
    if subsets == "all" and most > MOST_OTHERS:
        raise InputError(f"size is {most}; all subsets are listed for at most {MOST_OTHERS} workers.")
    others = _neighbours(units, target, most)
    lengths = range(1, len(others) + 1) if subsets == "all" else dict.fromkeys((1, len(others)))
    chosen = [some for length in lengths for some in itertools.combinations(others, length)]
    return tuple(tuple(sorted((target, *some))) for some in chosen)


def grown(arms: Arms, values: ArrayLike, above: float = 0.0) -> Combination | None:
    """The best arm joined with the best arm that adds a worker to it, to be tried next.

    None if there are not two such arms above `above`, or if their union is already an arm: it has been tried, and is
    not the best. The target alone adds no worker. Called again with the extended arms, it grows further.

    >>> arms = Arms.pairs(["1", "2", "3", "4"], "2")
    >>> grown(arms, [0.02, 0.05, -0.01])
    (0, 1, 2)
    """
    given = np.asarray(values, dtype=float)
    good = np.flatnonzero((given > above) & (arms.sizes > 1))
    ranked = good[np.argsort(-given[good], kind="stable")]
    best = arms.members[ranked[0]] if len(ranked) else None
    for other in ranked[1:]:
        union = tuple(int(worker) for worker in np.flatnonzero(best | arms.members[other]))
        if len(union) > arms.sizes[ranked[0]]:
            return union if arms.position(union) is None else None
    return None


def size_weights(sizes: ArrayLike) -> FloatArray:
    """Weights in proportion to the workers' samples.

    >>> size_weights([10, 30])
    array([0.25, 0.75])
    """
    given = checks.not_negative("weights", "sizes", np.asarray(sizes, dtype=float))
    if not given.sum() > 0:
        raise InputError("no worker has a sample; weights need at least one.")
    return np.asarray(given / given.sum())


def target_weights(sizes: ArrayLike, target: int, share: float = 0.7) -> FloatArray:
    """The target gets `share`, the others get the rest in proportion to their samples; alone it gets all.

    >>> target_weights([10, 30, 10], target=1, share=0.7)
    array([0.15, 0.7 , 0.15])
    """
    checks.finite("share", share, 0.0, 1.0)
    given = np.asarray(sizes, dtype=float).copy()
    if len(given) == 1:
        return np.ones(1)
    given[target] = 0.0
    weights = (1.0 - share) * size_weights(given)
    weights[target] = share
    return weights


def similarity_weights(
    updates: ArrayLike, target: int, sizes: ArrayLike | None = None, temperature: float | None = None
) -> FloatArray:
    """Weights by the cosine between each worker's update and the target's, times the samples if `sizes` are given.

    The cosine is cut off at 0, so that a worker that pulls the other way has no say; with a temperature the weight is
    exp(cosine / temperature) instead.

    >>> similarity_weights([[1.0, 0.0], [3.0, 4.0], [-1.0, 0.0]], target=0)
    array([0.625, 0.375, 0.   ])
    """
    units = _unit_rows(updates)
    cosine = units @ units[target]
    cosine[target] = 1.0
    if temperature is None:
        weights = np.maximum(cosine, 0.0)
    else:
        weights = np.exp((cosine - 1.0) / checks.above_zero("temperature", temperature))
    return size_weights(weights if sizes is None else weights * np.asarray(sizes, dtype=float))


def _unit_rows(updates: ArrayLike) -> FloatArray:
    given = np.asarray(updates, dtype=float)
    if given.ndim != 2 or not np.isfinite(given).all():
        raise InputError(f"updates has shape {given.shape}; it needs a row of finite numbers for each worker.")
    return np.asarray(given / np.maximum(np.linalg.norm(given, axis=1, keepdims=True), 1e-12))


def _neighbours(units: FloatArray, target: int, most: int) -> list[int]:
    """The others in the target's cluster, or the two nearest."""
    count = len(units)
    clusters: dict[int, IntArray] = {worker: np.array([worker]) for worker in range(count)}
    found = clusters[target]
    for step, (left, right, _, _) in enumerate(linkage(units, method="ward")):
        merged = np.concatenate([clusters[int(left)], clusters[int(right)]])
        clusters[count + step] = merged
        if target in merged and len(merged) - 1 <= most and len(merged) < count:
            found = merged
    least = min(2, most, count - 1)
    if len(found) - 1 < least:
        nearest = np.argsort(-(units @ units[target]), kind="stable")
        found = nearest[nearest != target][:least]
    return sorted(int(worker) for worker in found if worker != target)
