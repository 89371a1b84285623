"""Exclusion: a client that keeps sending bad updates is not selected for a while, whatever the selector wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray, BoolArray

STRIKES = 2
"""This many bad updates in a row exclude a client."""
LONGEST = 16
"""An exclusion is at most this many times as long as the first."""


class Exclusion:
    """Counts bad updates in a row, and excludes clients for some rounds, twice as long each time.

    rounds    length of the first exclusion; 0 excludes no client

    A good update makes up for all bad ones before it, and halves the next exclusion.

    >>> exclusion = Exclusion(4, rounds=5)
    >>> for number in (1, 2):
    ...     exclusion.note([(0, False), (3, True)], round=number)
    >>> exclusion.now(np.ones(4, dtype=bool), round=3, k=2)
    array([False, False, False,  True])
    >>> exclusion.now(np.ones(4, dtype=bool), round=8, k=2).any()
    np.False_
    """

    def __init__(self, count: int, rounds: int) -> None:
        self.rounds = rounds
        self.strikes = np.zeros(count, dtype=np.int64)
        self.factor = np.ones(count, dtype=np.int64)
        self.until = np.zeros(count, dtype=np.int64)

    def note(self, updates: Iterable[tuple[int, bool]], round: int) -> None:
        """Take note of updates in order of arrival: the client of each, and whether it was bad."""
        if not self.rounds:
            return
        for client, bad in updates:
            if not bad:
                self.strikes[client] = 0
                self.factor[client] = max(1, self.factor[client] // 2)
                continue
            self.strikes[client] += 1
            if self.strikes[client] >= STRIKES:
                self.until[client] = round + self.rounds * self.factor[client]
                self.factor[client] = min(LONGEST, 2 * self.factor[client])

    def now(self, free: BoolArray, round: int, k: int) -> BoolArray:
        """Mask of excluded clients in this round; none, if fewer than k of the free clients would be left."""
        excluded: BoolArray = self.until[: len(free)] >= round
        return excluded if (free & ~excluded).sum() >= k else np.zeros_like(excluded)

    def state(self) -> dict[str, AnyArray]:
        """The contents of a checkpoint."""
        if not self.rounds:
            return {}
        return {f"exclusion/{name}": getattr(self, name) for name in ("strikes", "factor", "until")}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        if self.rounds:
            self.strikes, self.factor, self.until = (
                arrays[f"exclusion/{name}"] for name in ("strikes", "factor", "until")
            )
