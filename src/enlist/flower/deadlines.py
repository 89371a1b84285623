"""Deadlines: how long a round waits, fixed or learned. A policy is a function of the round and of recent latencies.

It holds no state of its own: what it looks at is kept, and saved, by whoever asks it. Any function will do:

    deadline=lambda number, recent: 300.0 if number <= 3 else 60.0
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from enlist._internal import checks
from enlist._internal.text import function_name
from enlist._internal.typing import FloatArray
from enlist.errors import InputError

Policy = Callable[[int, Sequence[FloatArray]], float]
"""(number of the round, latencies of recent rounds, newest last) -> seconds. Who was late counts as the time waited."""

RECENT_ROUNDS = 50


@dataclasses.dataclass(frozen=True)
class Percentile:
    """factor times a percentile of the latencies of the last `window` rounds; `start` until there are any.

    Late nodes count as the time that was waited for them, so a deadline that is too short grows by itself.

    >>> policy = Percentile(percentile=50.0, factor=2.0, start=300.0)
    >>> policy(1, []), policy(2, [np.array([5.0, 6.0, 30.0])])
    (300.0, 12.0)
    """

    percentile: float = 90.0
    factor: float = 1.5
    start: float = 600.0
    least: float = 1.0
    window: int = 20

    def __post_init__(self) -> None:
        checks.finite("percentile", self.percentile, 0.0, 100.0)
        checks.above_zero("factor", self.factor)
        checks.seconds("start", self.start)
        checks.seconds("least", self.least)
        checks.whole("window", self.window, minimum=1)

    def __call__(self, number: int, recent: Sequence[FloatArray]) -> float:
        """Seconds that round `number` waits."""
        known = np.concatenate([np.zeros(0), *recent[-self.window :]])
        if not len(known):
            return self.start
        return max(self.factor * float(np.percentile(known, self.percentile)), self.least)


@dataclasses.dataclass(frozen=True)
class MovingAverage:
    """factor times a moving average, which takes in a percentile of each round's latencies with weight alpha.

    >>> policy = MovingAverage(factor=2.0, alpha=0.5, percentile=50.0, start=20.0)
    >>> policy(1, []), policy(2, [np.array([5.0, 6.0, 30.0])])
    (20.0, 16.0)
    """

    factor: float = 2.0
    percentile: float = 50.0
    alpha: float = 0.25
    start: float = 600.0
    least: float = 1.0

    def __post_init__(self) -> None:
        checks.above_zero("factor", self.factor)
        checks.finite("percentile", self.percentile, 0.0, 100.0)
        checks.finite("alpha", self.alpha, 0.0, 1.0)
        checks.seconds("start", self.start)
        checks.seconds("least", self.least)

    def __call__(self, number: int, recent: Sequence[FloatArray]) -> float:
        """Seconds that round `number` waits."""
        average = self.start / self.factor
        for latencies in recent:
            if len(latencies):
                average += self.alpha * (float(np.percentile(latencies, self.percentile)) - average)
        return max(self.factor * average, self.least)


def seconds(policy: float | Policy | None, number: int, recent: Sequence[FloatArray], longest: float) -> float:
    """What a policy says for a round, checked, and never more than `longest`.

    >>> seconds(90.0, 1, [], longest=60.0), seconds(None, 1, [], longest=60.0)
    (60.0, 60.0)
    >>> seconds(lambda number, recent: -1.0, 4, [], longest=60.0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: the deadline policy gave -1.0 for round 4; it must give seconds above 0.
    """
    if policy is None:
        return longest
    if not callable(policy):
        return min(policy, longest)
    given = policy(number, recent)
    if isinstance(given, bool) or not isinstance(given, int | float | np.number) or not float(given) > 0:
        raise InputError(f"the deadline policy gave {given!r} for round {number}; it must give seconds above 0.")
    return min(float(given), longest)


def checked(policy: float | Policy | None) -> float | Policy | None:
    """A deadline as a user gave it, refused if it is neither seconds nor a function.

    >>> checked(60), checked(None)
    (60.0, None)
    """
    if policy is None or callable(policy):
        return policy
    return checks.seconds("deadline", policy)


def described(policy: float | Policy | None) -> float | str | None:
    """A deadline for the configuration that a run leaves.

    >>> described(Percentile(start=60.0))
    'Percentile(percentile=90.0, factor=1.5, start=60.0, least=1.0, window=20)'
    """
    if policy is None or isinstance(policy, float):
        return None if policy is None or math.isinf(policy) else policy
    return repr(policy) if dataclasses.is_dataclass(policy) else function_name(policy)
