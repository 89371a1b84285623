"""Urns: k draws, one from each urn, in which a client's chance is given by its samples."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from enlist._internal.typing import FloatArray, IntArray


@dataclasses.dataclass(frozen=True, eq=False)
class Urns:
    """k urns of mass 1, laid end to end from 0 to k; each client fills one or more stretches of that line.

    client   who fills each stretch
    ends     where each stretch ends; the next begins there

    >>> urns = by_size(np.array([3.0, 1.0, 1.0, 1.0]), 2)
    >>> urns.client, urns.ends.round(2)
    (array([0, 1, 2, 3]), array([1.  , 1.33, 1.67, 2.  ]))
    """

    client: IntArray
    ends: FloatArray
    count: int

    def draw(self, rng: np.random.Generator) -> IntArray:
        """One client from each urn."""
        points = np.arange(self.count) + rng.uniform(size=self.count)
        place = np.searchsorted(self.ends, points, side="right")
        return np.asarray(self.client[np.minimum(place, len(self.client) - 1)])

    def chances(self, clients: int) -> FloatArray:
        """The chance of each client to be drawn at least once."""
        starts = np.concatenate([[0.0], self.ends[:-1]])
        missed = np.ones(clients)
        # A stretch is cut where one urn ends and the next begins: in the first, whole ones, and the last.
        first, last = np.floor(starts + 1e-9), np.ceil(self.ends - 1e-9) - 1
        within = np.minimum(self.ends, first + 1) - starts
        np.multiply.at(missed, self.client, 1.0 - np.clip(within, 0.0, 1.0))
        longer = last > first
        beyond = np.where(longer, self.ends - last, 0.0)
        np.multiply.at(missed, self.client, 1.0 - np.clip(beyond, 0.0, 1.0))
        missed[self.client[last - first > 1]] = 0.0
        return 1.0 - missed


def by_size(sizes: FloatArray, k: int) -> Urns:
    """The largest clients fill the first urns, and so on (Fraboni et al., Algorithm 1). O(n log n).

    >>> by_size(np.array([1.0, 2.0, 1.0]), 2).client
    array([1, 0, 2])
    """
    order = np.argsort(-sizes, kind="stable")
    return _laid(order, k * sizes[order] / sizes.sum(), k)


def by_cluster(sizes: FloatArray, k: int, distance: FloatArray, rng: np.random.Generator) -> Urns:
    """Similar clients share an urn (Fraboni et al., Algorithm 2). O(n^2).

    Ward's tree of the distances is cut into the largest branches that an urn can hold. The k heaviest branches get an
    urn each, the others fill them up. A client that fills urns by itself has them to itself.

    >>> apart = np.array([[0.0, 0.1, 1.0, 1.0], [0.1, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.1], [1.0, 1.0, 0.1, 0.0]])
    >>> by_cluster(np.ones(4), 2, apart, np.random.default_rng(0)).client
    array([0, 1, 2, 3])
    """
    mass = k * sizes / sizes.sum()
    whole = np.floor(mass + 1e-9)
    alone = np.repeat(np.arange(len(sizes)), whole.astype(int))
    mass, left = np.maximum(mass - whole, 0.0), k - len(alone)
    mass[mass < 1e-9] = 0.0
    branch = _branches(mass, distance)
    numbers, place = np.unique(branch, return_inverse=True)
    weight = np.bincount(place, weights=mass)
    heaviest = np.argsort(-weight, kind="stable")[:left]
    urn = np.full(len(numbers), -1)
    urn[heaviest] = np.arange(len(heaviest))
    mine = urn[place]
    rest = rng.permutation(np.flatnonzero((mine < 0) & (mass > 0)))
    rest = rest[np.argsort(-weight[place[rest]], kind="stable")]
    client, length = [alone], [np.ones(len(alone))]
    queue, open_mass = list(rest), mass.copy()
    for number in range(left):
        members = np.flatnonzero((mine == number) & (mass > 0))
        client.append(members)
        length.append(mass[members])
        room = 1.0 - float(mass[members].sum())
        while queue and room > 1e-12:
            part = min(room, float(open_mass[queue[0]]))
            client.append(np.array([queue[0]]))
            length.append(np.array([part]))
            room -= part
            open_mass[queue[0]] -= part
            if open_mass[queue[0]] <= 1e-12:
                queue.pop(0)
    return _laid(np.concatenate(client), np.concatenate(length), k)


def _laid(client: IntArray, length: FloatArray, k: int) -> Urns:
    ends = np.cumsum(length)
    ends *= k / ends[-1]
    return Urns(client, ends, k)


def _branches(mass: FloatArray, distance: FloatArray) -> IntArray:
    """The largest branches of Ward's tree that weigh at most 1."""
    if len(mass) < 2:
        return np.zeros(len(mass), dtype=np.int64)
    tree = linkage(squareform(distance, checks=False), "ward")
    weight = np.concatenate([mass, np.zeros(len(tree))])
    for row, (left, right) in enumerate(tree[:, :2].astype(int)):
        weight[len(mass) + row] = weight[left] + weight[right]
    tree[:, 2] = weight[len(mass) :]  # cut by weight, not by height: both only grow towards the root
    return np.asarray(fcluster(tree, 1.0 + 1e-9, criterion="distance"), dtype=np.int64)
