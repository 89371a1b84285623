"""Virtual queues and water-filling: long-run selection shares as debts."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.state import State, column


@dataclasses.dataclass
class VirtualQueues(State):
    """What each client is still owed: every round, backlog <- max(backlog + required - served last round, 0).

    >>> queues = VirtualQueues.create(2)
    >>> queues.advance(np.array([0.6, 0.5]))
    >>> queues.serve(np.array([0]))
    >>> queues.advance(np.array([0.6, 0.5]))
    >>> queues.backlog
    array([0.2, 1. ])
    """

    backlog: FloatArray = column(0.0)
    served: BoolArray = column(False, bool)

    def advance(self, required: FloatArray | float) -> None:
        """A new round begins: add what each is owed, subtract what it got in the last one."""
        np.maximum(self.backlog + required - self.served, 0.0, out=self.backlog)
        self.served[:] = False

    def serve(self, clients: IntArray) -> None:
        """These clients take part in the round that has begun."""
        self.served[clients] = True


def proportional_shares(weights: FloatArray, total: float) -> FloatArray:
    """Shares in proportion to the weights that sum to `total`, however large a single one gets; 0 if all weights are.

    >>> proportional_shares(np.array([8.0, 1.0, 1.0]), 2.0)
    array([1.6, 0.2, 0.2])
    """
    whole = float(weights.sum())
    return np.asarray(total * (weights / whole)) if whole > 0 else np.zeros(len(weights))


def capped_shares(weights: FloatArray, total: float, cap: float = 1.0) -> FloatArray:
    """Shares min(cap, c * weight) with c such that they sum to `total` (water-filling), O(n log n).

    If even `cap` for every positive weight does not reach `total`, all of those get `cap`.

    >>> capped_shares(np.array([8.0, 1.0, 1.0]), 2.0)
    array([1. , 0.5, 0.5])
    """
    positive = weights > 0
    if cap * positive.sum() <= total:
        return np.where(positive, cap, 0.0)
    order = np.argsort(-weights, kind="stable")
    ranked = weights[order]
    below = ranked[::-1].cumsum()[::-1]
    levels = (total - cap * np.arange(len(weights))) / np.where(below > 0, below, 1.0)
    # The first j clients are capped for the smallest j whose successor stays under the cap.
    first = int(np.argmax(levels * ranked <= cap * (1 + 1e-12)))
    return np.asarray(np.minimum(cap, levels[first] * weights))
