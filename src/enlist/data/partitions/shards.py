"""Shards: which client holds which samples. Two arrays, whatever the number of clients."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray, IntArray
from enlist.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Shards:
    """What each of N clients holds: client i has the samples order[offsets[i]:offsets[i+1]].

    order      positions in the data set, each at most once; no client holds a sample that is not listed
    offsets    (N + 1,) from 0 to len(order), not decreasing

    >>> shards = Shards(order=[4, 0, 2], offsets=[0, 2, 2, 3])
    >>> len(shards), shards.sizes, shards.owner
    (3, array([2, 0, 1]), array([0, 0, 2]))
    >>> shards.held_by(0)
    array([4, 0])
    """

    order: IntArray
    offsets: IntArray

    def __post_init__(self) -> None:
        for name in ("order", "offsets"):
            array = checks.as_array("Shards", name, getattr(self, name), None)
            if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
                raise InputError(f"Shards.{name} is {array.dtype} of shape {array.shape}; give a row of whole numbers.")
            object.__setattr__(self, name, array.astype(np.int64, copy=False))
        ends = (int(self.offsets[0]), int(self.offsets[-1])) if len(self.offsets) else None
        if ends != (0, len(self.order)) or (np.diff(self.offsets) < 0).any():
            raise InputError(
                f"Shards.offsets has the ends {ends}; it must go from 0 to {len(self.order)}, the length of order, "
                "without decreasing."
            )
        if not len(self.order):
            return
        if self.order.min() < 0:
            raise InputError(f"Shards.order holds {self.order.min()}; positions in the data set begin at 0.")
        times = np.bincount(self.order)
        if times.max() > 1:
            raise InputError(f"Shards.order repeats sample {times.argmax()}; at most one client may hold a sample.")

    @classmethod
    def from_owners(cls, owners: AnyArray, clients: int) -> Shards:
        """The shards of `clients` clients from the owner of each sample, -1 where no client holds it.

        >>> Shards.from_owners(np.array([1, 0, -1, 1]), clients=2).order
        array([1, 0, 3])
        """
        order = np.argsort(owners, kind="stable")
        ordered = owners[order]
        order = order[np.searchsorted(ordered, 0) :]
        return cls(order, np.searchsorted(ordered[ordered >= 0], np.arange(clients + 1)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @functools.cached_property
    def sizes(self) -> IntArray:
        """(N,) samples that each client holds."""
        return np.diff(self.offsets)

    @functools.cached_property
    def owner(self) -> IntArray:
        """The client of each entry of `order`."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def held_out(self, share: float, rng: np.random.Generator) -> tuple[Shards, Shards]:
        """Two parts of each client's samples: the rest, and a `share` drawn at random.

        A client with at least two samples has some in both, a client with one has it in the rest.

        >>> rest, taken = Shards(order=[4, 0, 2, 5], offsets=[0, 3, 4]).held_out(0.2, np.random.default_rng(1))
        >>> rest.sizes, taken.sizes
        (array([2, 1]), array([1, 0]))
        """
        wanted = np.minimum(np.maximum(np.floor(share * self.sizes + 0.5), 1), self.sizes - 1).clip(min=0)
        shuffled = np.lexsort((rng.random(len(self.order)), self.owner))
        rank = np.arange(len(self.order)) - np.repeat(self.offsets[:-1], self.sizes)
        taken = np.zeros(len(self.order), dtype=bool)
        taken[shuffled] = rank < np.repeat(wanted, self.sizes)
        parts = [
            Shards(
                self.order[mask], np.concatenate([[0], np.cumsum(np.bincount(self.owner[mask], minlength=len(self)))])
            )
            for mask in (~taken, taken)
        ]
        return parts[0], parts[1]

    def held_by(self, client: int) -> IntArray:
        """The samples of one client."""
        if not 0 <= client < len(self):
            raise InputError(f"client {client} does not exist; allowed are 0 to {len(self) - 1}.")
        return self.order[self.offsets[client] : self.offsets[client + 1]]
