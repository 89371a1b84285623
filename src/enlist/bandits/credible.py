"""Scales that no single client can blow up: absurd values are left out of them.

A maximum, a mean, a standard deviation or a quantile of few values is whatever the largest value makes it: one client
that reports 1e15 shrinks what all others report to nothing. What clients share as a scale is therefore taken over the
credible values alone. A value is absurd if it is above 1,000 and more than a million times as large as what the lowest
quarter of all values reaches: nothing that honest clients report side by side is so far apart, so ordinary values are
never touched, and up to three quarters of the values of a window may be one client's. Of two values nobody can say
which is absurd; it takes three. Only scales are protected: what a client reports still counts as its own value, and a
lie that is nearer to the truth is for the driver to judge.
"""

from __future__ import annotations

import numpy as np

from enlist._internal.typing import BoolArray, FloatArray

APART = 1e6
"""Times the lowest quarter that a value may be."""
SMALL = 1e-3
"""The lowest quarter counts as no less, so that 1,000 is always credible."""
NOTHING = 1e-6
"""Values closer to zero are rounding errors of zero, and say nothing of the scale."""


def largest_credible(values: FloatArray) -> float:
    """The magnitude beyond which one of these values is absurd; NaN is left out.

    >>> largest_credible(np.array([0.5, 2.0, 1e15]))
    2000000.0
    """
    size = np.abs(values)
    size = size[size >= NOTHING]
    if len(size) < 3:
        return np.inf
    rank = max((len(size) - 1) // 4, 1)
    return APART * max(float(np.partition(size, rank)[rank]), SMALL)


def credible(values: FloatArray) -> FloatArray:
    """The values that are not absurd: all of them, as they are, unless one is.

    >>> credible(np.array([0.5, 2.0, 1e15, -3.0]))
    array([ 0.5,  2. , -3. ])
    """
    if not len(values) or float(np.abs(values).max()) <= APART * SMALL:
        return values
    return values[~absurd(values, values)]


def absurd(values: FloatArray, among: FloatArray) -> BoolArray:
    """Which values are absurd among others; NaN is not.

    >>> absurd(np.array([1e15, 3.0, np.nan]), np.array([1.0, 2.0, 3.0]))
    array([ True, False, False])
    """
    size = np.abs(values)
    if not (size > APART * SMALL).any():
        return np.zeros(len(values), dtype=bool)
    return np.asarray(size > largest_credible(among))


def credible_extent(extreme: float, values: FloatArray) -> float:
    """A running maximum of magnitudes, unless it is absurd: then the largest credible one of `values`.

    >>> credible_extent(9.0, np.array([1.0, 2.0])), credible_extent(1e15, np.array([1.0, 2.0, 1e15]))
    (9.0, 2.0)
    """
    if extreme <= APART * SMALL or not len(values) or extreme <= largest_credible(values):
        return extreme
    return float(np.max(credible(values), initial=0.0))
