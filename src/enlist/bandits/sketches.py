"""The last sketch of every client's update, and choosing clients whose updates represent all."""

from __future__ import annotations

import dataclasses
import heapq

import numpy as np

from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.bandits.credible import largest_credible
from enlist.errors import InputError
from enlist.rounds import Observation
from enlist.state import Scalar, State, column

NUMBERS, MOST_NUMBERS = 64, 4096
"""Numbers kept per sketch, unless one has more, and the most kept; shorter sketches are padded with zeros, which
changes no distance."""


@dataclasses.dataclass
class Sketches(State):
    """The last sketch of each client, and the round it was asked in (0: none yet); 260 bytes per client, or four for
    each number if sketches have more than 64.

    >>> sketches = Sketches.create(3)
    >>> sketches.note(np.array([2]), np.array([[3.0, 4.0]]), 7)
    >>> sketches.known, sketches.lengths(np.arange(3))
    (array([False, False,  True]), array([0., 0., 5.]))
    """

    values: AnyArray = column(0.0, np.float32, (NUMBERS,))
    measured: AnyArray = column(0, np.int32)

    @property
    def known(self) -> BoolArray:
        """Which clients have a sketch."""
        return np.asarray(self.measured > 0)

    def learn(self, told: Observation) -> None:
        """Record the sketches of clients whose reply is in."""
        if told.feedback.update is not None:
            done = told.completed
            self.note(told.clients[done], told.feedback.update[done], told.selection.round)

    def note(self, clients: IntArray, update: FloatArray, number: int) -> None:
        """Record sketches of updates asked for in round `number`, unless later ones are known."""
        width = update.shape[1]
        if width > MOST_NUMBERS:
            raise InputError(f"sketches have {width} numbers; at most {MOST_NUMBERS} are kept, so make shorter ones.")
        self._widen(width)
        good = ~np.isnan(update).any(axis=1) & (self.measured[clients] <= number)
        self.values[clients[good], :width] = update[good]
        self.values[clients[good], width:] = 0.0
        self.measured[clients[good]] = number

    def _widen(self, width: int) -> None:
        more = width - self.values.shape[1]
        if more > 0:
            self.values = np.pad(self.values, ((0, 0), (0, more)))

    def grow(self, more: int) -> None:
        """Append `more` unknown clients."""
        self.values = np.pad(self.values, ((0, more), (0, 0)))
        self.measured = np.pad(self.measured, (0, more))

    def restore(self, saved: dict[str, AnyArray | Scalar], prefix: str = "") -> None:
        """Fill this state from what `leaves` gave, however long the sketches were."""
        values = saved.get(f"{prefix}values")
        if isinstance(values, np.ndarray) and values.ndim == 2:
            self._widen(min(values.shape[1], MOST_NUMBERS))
        super().restore(saved, prefix)

    def lengths(self, clients: IntArray) -> FloatArray:
        """The lengths of these clients' sketches."""
        return np.asarray(np.linalg.norm(self.values[clients].astype(float), axis=1))

    def of(self, clients: IntArray) -> FloatArray:
        """The sketches of these clients; one of absurd length is clipped, or it would swamp all distances."""
        values, length = self.values[clients].astype(float), self.lengths(clients)
        limit = largest_credible(length)
        return values * np.minimum(1.0, limit / np.maximum(length, 1e-300))[:, None]


def distances(left: FloatArray, right: FloatArray) -> FloatArray:
    """Euclidean distances between the rows of two tables.

    >>> distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[5., 1.]])
    """
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2.0 * left @ right.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def facility_location(distance: FloatArray, k: int, weights: FloatArray | None = None) -> tuple[IntArray, IntArray]:
    """k columns such that the rows lie near one of them: greedy for  min over S of  sum_j w_j min_{i in S} d_ji.

    The greedy set is within 1 - 1/e of the best gain (Nemhauser, Wolsey and Fisher 1978). Lazy: a gain only falls as
    others are chosen, so one that was computed earlier is a bound, and most are never computed again (Minoux 1978).

    Returns the chosen columns in the order in which they were chosen, and for each row the position, in that order, of
    the column that represents it. Ties go to the first column.

    >>> points = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    >>> chosen, stands = facility_location(distances(points, points), 2)
    >>> chosen.tolist(), stands.tolist()
    ([2, 3], [0, 0, 0, 1, 1])
    """
    rows, columns = distance.shape
    if not rows or k < 1:
        return np.zeros(0, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    weights = np.ones(rows) if weights is None else weights
    nearest = distance.max(axis=1)
    stands = np.zeros(rows, dtype=np.int64)
    gains = weights @ (nearest[:, None] - distance)
    heap = [(-gain, index) for index, gain in enumerate(gains.tolist())]
    heapq.heapify(heap)
    chosen: list[int] = []
    while len(chosen) < min(k, columns):
        bound, index = heapq.heappop(heap)
        closer = np.maximum(nearest - distance[:, index], 0.0)
        gain = float(weights @ closer)
        # The same sum in another order differs by a rounding error, which must not requeue it for ever.
        if heap and (-gain, index) > heap[0] and gain < -bound * (1.0 - 1e-9):
            heapq.heappush(heap, (-gain, index))
            continue
        stands[closer > 0] = len(chosen)
        nearest = np.minimum(nearest, distance[:, index])
        chosen.append(index)
    return np.array(chosen, dtype=np.int64), stands
