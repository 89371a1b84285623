"""How the time of a round was spent."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class TimeSpent:
    """Wall-clock seconds, by what they were spent on.

    train      workers trained, on average over them
    wait       workers waited for each other, and for messages, while clients were trained
    evaluate   models were tested
    server     everything else

    >>> (TimeSpent(train=2.0) + TimeSpent(train=1.0, wait=0.5)).total
    3.5
    """

    train: float = 0.0
    wait: float = 0.0
    evaluate: float = 0.0
    server: float = 0.0

    @property
    def total(self) -> float:
        """Their sum."""
        return self.train + self.wait + self.evaluate + self.server

    def __add__(self, other: TimeSpent) -> TimeSpent:
        return TimeSpent(
            self.train + other.train,
            self.wait + other.wait,
            self.evaluate + other.evaluate,
            self.server + other.server,
        )
