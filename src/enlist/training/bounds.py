"""A bound relative to recent values: for lengths of updates, and for distances from the aggregate."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence

WINDOW = 50
"""Number of recent values that the bound is based on: few enough to follow a model whose updates grow in the first
rounds, enough that hostile clients are not the majority by chance."""
ENOUGH = 10
"""Number of values that must be known before a value is judged by earlier ones alone."""


class RunningBound:
    """`factor` times the median of the last values; 0 bounds nothing.

    The median does not follow a minority: with fewer than half of the last values hostile it stays where honest ones
    are, even if a single round has more. Values beyond the bound count too. Otherwise, a bound that is once too low
    would stay too low, because it would never see what it refuses.

    >>> bound = RunningBound(3.0)
    >>> bound.judge([1.0, 1.2, 0.9, 50.0])  # nothing is known yet: they are compared with each other
    [True, True, True, False]
    >>> bound.limit()  # three times the lower one of the middle two
    3.0
    >>> RunningBound(0.0).limit()
    inf
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.values: deque[float] = deque(maxlen=WINDOW)

    @property
    def ready(self) -> bool:
        """Whether a single value can be judged."""
        return not self.factor or len(self.values) >= ENOUGH

    def limit(self, present: Sequence[float] = ()) -> float:
        """The largest value within the bound, given these new values; infinite if nothing is known."""
        known = [*self.values, *(value for value in present if math.isfinite(value))]
        return (self.factor * statistics.median_low(known) if self.factor and known else 0.0) or math.inf

    def judge(self, values: Sequence[float]) -> list[bool]:
        """Whether each of these is within the bound; they all count from now on."""
        limit = self.limit(() if self.ready else values)
        if self.factor:
            self.values.extend(value for value in values if math.isfinite(value))
        return [value <= limit for value in values]

    def state(self) -> list[float]:
        """The contents of a checkpoint."""
        return list(self.values)

    def restore(self, values: Iterable[float]) -> None:
        """Continue from what `state` returned."""
        self.values = deque(values, maxlen=WINDOW)
