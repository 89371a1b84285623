"""Clusters of clients with similar label distributions."""

from __future__ import annotations

import numpy as np

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.bandits.sketches import distances

SAMPLE = 2000
"""The most clients compared pair by pair; others join the cluster with the nearest centre."""
CENTRES = 200
"""The most clusters, if there are more clients than that."""


def hellinger(counts: FloatArray) -> FloatArray:
    """Rows whose Euclidean distances are the Hellinger distances of the label distributions, between 0 and 1.

    >>> rows = hellinger(np.array([[9.0, 0.0], [0.0, 4.0], [1.0, 0.0]]))
    >>> distances(rows, rows).round(3)
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray(np.sqrt(counts / np.where(total > 0, total, 1.0) / 2.0))


def clusters(rows: FloatArray, distance: float, rng: np.random.Generator) -> AnyArray:
    """Cluster of each row: chains of rows nearer than `distance` to the next; a row without neighbours is alone.

    That is DBSCAN with two samples for a core point, which is what OPTICS gives for one distance. Above 2,000 rows,
    that many random ones are compared, and the others join the nearest of the 200 largest clusters.

    >>> clusters(np.array([[0.0], [0.1], [0.9], [0.2], [0.5]]), 0.15, np.random.default_rng(0)).tolist()
    [0, 0, 1, 0, 2]
    """
    if len(rows) <= SAMPLE:
        from scipy.sparse import csr_matrix  # slow to import, and most selectors form no clusters
        from scipy.sparse.csgraph import connected_components

        near = (distances(rows, rows) < distance).astype(np.int8)
        return np.asarray(connected_components(csr_matrix(near), directed=False)[1], np.int32)
    sample = np.sort(rng.choice(len(rows), SAMPLE, replace=False))
    found = clusters(rows[sample], distance, rng)
    largest = np.argsort(-np.bincount(found), kind="stable")[:CENTRES]
    centres = np.stack([rows[sample[found == number]].mean(axis=0) for number in largest])
    return nearest(rows, centres)


def nearest(rows: FloatArray, centres: FloatArray, block: int = 65_536) -> AnyArray:
    """Which centre is nearest to each row.

    >>> nearest(np.array([[0.2], [0.9]]), np.array([[0.0], [1.0]])).tolist()
    [0, 1]
    """
    parts = [distances(rows[start : start + block], centres).argmin(axis=1) for start in range(0, len(rows), block)]
    return np.concatenate(parts).astype(np.int32)


def joined(rows: FloatArray, known: AnyArray, distance: float) -> AnyArray:
    """Clusters of rows, the last of which have none yet: that of the nearest centre, or a new one if all are too far.

    >>> joined(np.array([[0.0], [0.2], [1.0], [0.15], [0.6]]), np.array([0, 0, 1], np.int32), 0.3).tolist()
    [0, 0, 1, 0, 2]
    """
    old, new = rows[: len(known)], rows[len(known) :]
    numbers, members = np.unique(known, return_inverse=True)
    centres = np.zeros((len(numbers), rows.shape[1]))
    np.add.at(centres, members, old)
    centres /= np.bincount(members)[:, None]
    place = nearest(new, centres)
    far = np.linalg.norm(new - centres[place], axis=1) >= distance
    found = numbers[place].astype(np.int32)
    if far.any():
        alone = clusters(new[far][:SAMPLE], distance, np.random.default_rng(0))
        extra = np.zeros(int(far.sum()), np.int32)
        extra[: len(alone)] = alone
        found[far] = numbers.max() + 1 + extra
    return np.concatenate([known, found])


def totals(cluster: AnyArray, values: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """The clusters that occur, the index of each client's among them, and the mean value of each.

    >>> totals(np.array([4, 7, 4]), np.array([1.0, 5.0, 2.0]))
    (array([4, 7]), array([0, 1, 0]), array([1.5, 5. ]))
    """
    numbers, place = np.unique(cluster, return_inverse=True)
    mean = np.bincount(place, weights=values) / np.bincount(place)
    return numbers, place, mean
