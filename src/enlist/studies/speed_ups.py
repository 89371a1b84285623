"""How much sooner one run gets to a target than another: ways to it, and ratios that may be bounds."""

from __future__ import annotations

import math
from typing import NamedTuple

from enlist._internal.statistics import Summary
from enlist.runs.scores import Reached


class Way(NamedTuple):
    """The way of a run to a target: what it needed, or None, and what the whole run took.

    >>> Way(None, Reached(300, 1500.0)).rounds
    300
    """

    reached: Reached | None
    whole: Reached

    @property
    def rounds(self) -> int:
        """Rounds to the target, those of the whole run if it was not reached."""
        return (self.reached or self.whole).rounds

    @property
    def seconds(self) -> float:
        """Virtual seconds to the target, those of the whole run if it was not reached."""
        return (self.reached or self.whole).seconds


class SpeedUp(NamedTuple):
    """How many times faster than random selection, with what the number is a bound of, and over how many pairs.

    >>> SpeedUp(Summary(1.2, 1.1, 1.3), "", 5).shown()
    '×1.20 [1.10, 1.30]'
    """

    summary: Summary
    bound: str
    pairs: int

    @property
    def proves(self) -> bool:
        """Whether it is no bound from above: the method got there with every seed with which random selection did."""
        return self.bound in ("", ">=")

    def shown(self) -> str:
        """As text; a bound says so."""
        if not self.pairs:
            return "target never reached"
        sign = {"": "", ">=": "at least ", "<=": "at most ", "?": "about "}[self.bound]
        span = "" if math.isnan(self.summary.low) else f" [{self.summary.low:.2f}, {self.summary.high:.2f}]"
        return f"{sign}×{self.summary.mean:.2f}{span}"
