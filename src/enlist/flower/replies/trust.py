"""What clients report is a claim. Two limits keep a liar from capturing the selection.

No client gets more than `most_often` times an even share of the requests in the last rounds, whatever the selector
prefers: with 3, a twentieth of the clients gets at most three twentieths of the requests.

And claims are clipped to the range of other clients' claims, so that absurd ones do not spoil what the selector learns.
The last claim of every client is kept, and each new one is clipped between two quantiles of these: one vote per client,
however often it is selected. With a share of liars below 1 - quantile, honest clients set the limits, and the best a
liar can do is to look like one of the best of them. Latency is measured, not claimed; it is only limited so that it
cannot be better than that of the fastest others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from enlist._internal.typing import FloatArray, IntArray
from enlist.flower import keys
from enlist.state import State, column

LEAST_CLAIMS = 10
"""Claims are clipped once this many clients have made one."""

RANGES = {
    "num_examples": (0.0, 1e12),
    "loss": (-1e9, 1e9),
    "loss_rms": (0.0, 1e9),
    "accuracy": (0.0, 1.0),
    "accuracy_gain": (-1.0, 1.0),
    "energy": (0.0, 1e12),
    "battery_left": (0.0, 1e12),
    "seconds": (0.0, 1e7),
}
"""Possible values; a claim outside its range counts as not made."""

WEIGHT_FACTOR = 10.0
"""The weight of a reply in the average is cut at this many times the quantile of claimed numbers of examples."""


@dataclasses.dataclass
class Claims(State):
    """The last claim of every client, NaN before the first.

    >>> claims = Claims.create(12)
    >>> claims.note("loss", np.arange(11), np.arange(11.0))
    >>> claims.limits("loss", 0.9)
    (1.0, 9.0)
    >>> claims.note("loss", np.array([11]), np.array([1e9]))
    >>> claims.cut("loss", np.array([1e9, 5.0]), 0.9)
    array([9., 5.])
    """

    num_examples: FloatArray = column(np.nan)
    loss: FloatArray = column(np.nan)
    loss_rms: FloatArray = column(np.nan)
    accuracy: FloatArray = column(np.nan)
    accuracy_gain: FloatArray = column(np.nan)
    energy: FloatArray = column(np.nan)
    latency: FloatArray = column(np.nan)
    battery_left: FloatArray = column(np.nan)

    def note(self, name: str, clients: IntArray, values: FloatArray) -> None:
        """Remember what these clients claim; NaN is no claim."""
        known = ~np.isnan(values)
        getattr(self, name)[clients[known]] = values[known]

    def limits(self, name: str, quantile: float) -> tuple[float, float]:
        """The range to which claims are clipped: order statistics, which no single claim can move."""
        values = getattr(self, name)
        known = values[~np.isnan(values)]
        if len(known) < LEAST_CLAIMS:
            return -np.inf, np.inf
        rank = int((len(known) - 1) * quantile + 1e-9)
        low, high = np.partition(known, (len(known) - 1 - rank, rank))[[len(known) - 1 - rank, rank]]
        return float(low), float(high)

    def cut(self, name: str, values: FloatArray, quantile: float | None) -> FloatArray:
        """Claims after clipping; None as `quantile` leaves them as they are."""
        if quantile is None:
            return values
        low, high = self.limits(name, quantile)
        return np.clip(values, low, np.inf if name == "latency" else high)

    def context(self, needs: frozenset[str]) -> dict[str, FloatArray] | None:
        """The context of every ask for a selector with these needs: the joules that clients last reported as left."""
        return {"battery": self.battery_left} if needs & {"clients.battery", "context.battery"} else None

    def heaviest(self, quantile: float | None) -> float:
        """The largest number of examples that counts as a weight."""
        if quantile is None:
            return np.inf
        most = self.limits("num_examples", quantile)[1]
        return WEIGHT_FACTOR * most if most > 0 else np.inf


COLUMNS = tuple(keys.CLAIMS)

WINDOW = 20
"""Rounds over which requests to a client are counted."""


def resting(
    asked: Sequence[IntArray], online: IntArray, busy: IntArray, k: int, most_often: float, count: int
) -> IntArray:
    """Clients that must pause because they got more than `most_often` times an even share of the requests.

    `asked` holds the clients selected in each of the last rounds; `count` is the number of all clients. At least k
    clients always remain, those selected least often.

    >>> resting([np.array([0, 1]), np.array([0, 2])], np.arange(9), np.zeros(0, int), k=2, most_often=3.0, count=9)
    array([0])
    """
    free = np.setdiff1d(online, busy, assume_unique=True)
    rounds = asked[-(WINDOW - 1) :]
    limit = max(1, math.ceil(most_often * (len(rounds) + 1) * k / max(len(online), 1) - 1e-9))
    if not rounds or limit > len(rounds) or len(free) <= k:
        return np.zeros(0, dtype=np.int64)
    times = np.bincount(np.concatenate(rounds), minlength=count)[free]
    most = free[np.argsort(-times, kind="stable")][: len(free) - k]
    return np.sort(most[np.sort(-times)[: len(most)] <= -limit])
