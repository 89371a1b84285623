"""Trust: who sends bad updates again and again is not asked for a while, whatever the selector thinks of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from enlist.typing import AnyArray, BoolArray

STRIKES = 2
"""So many bad updates in a row are one too many."""
LONGEST = 16
"""An exclusion is at most so many times as long as the first."""


class Trust:
    """Counts bad updates in a row, and excludes clients for some rounds, twice as long each time.

    rounds    length of the first exclusion; 0 excludes nobody

    A good update makes up for all bad ones before it, and halves the next exclusion.

    >>> trust = Trust(4, rounds=5)
    >>> for number in (1, 2):
    ...     trust.note({0: False, 3: True}, round=number)
    >>> trust.without(np.ones(4, dtype=bool), np.zeros(4, dtype=bool), round=3, k=2)
    array([ True,  True,  True, False])
    >>> trust.without(np.ones(4, dtype=bool), np.zeros(4, dtype=bool), round=8, k=2)
    array([ True,  True,  True,  True])
    """

    def __init__(self, count: int, rounds: int) -> None:
        self.rounds = rounds
        self.strikes = np.zeros(count, dtype=np.int64)
        self.factor = np.ones(count, dtype=np.int64)
        self.until = np.zeros(count, dtype=np.int64)

    def note(self, bad: Mapping[int, bool], round: int) -> None:
        """The updates of these clients have come, and were bad or not."""
        if not self.rounds:
            return
        for client, wrong in bad.items():
            if not wrong:
                self.strikes[client] = 0
                self.factor[client] = max(1, self.factor[client] // 2)
                continue
            self.strikes[client] += 1
            if self.strikes[client] >= STRIKES:
                self.until[client] = round + self.rounds * self.factor[client]
                self.factor[client] = min(LONGEST, 2 * self.factor[client])

    def without(self, available: BoolArray, busy: BoolArray, round: int, k: int) -> BoolArray:
        """Who may be asked: all who are available but the excluded; everybody if fewer than k would be left."""
        if not self.rounds:
            return available
        left: BoolArray = available & (self.until[: len(available)] < round)
        return left if (left & ~busy).sum() >= k else available

    def state(self) -> dict[str, AnyArray]:
        """What a checkpoint holds."""
        if not self.rounds:
            return {}
        return {"trust/strikes": self.strikes, "trust/factor": self.factor, "trust/until": self.until}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        if self.rounds:
            self.strikes, self.factor = arrays["trust/strikes"], arrays["trust/factor"]
            self.until = arrays["trust/until"]
