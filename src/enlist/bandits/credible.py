"""Scales that no single client can blow up, because they leave out absurd values.

The largest value dominates a maximum, a mean, a standard deviation or a quantile of few values: one client that reports
1e15 shrinks all other reports to nothing. A scale shared by clients is therefore taken over credible values only. A
value is absurd if it is above 1,000 and more than a million times the lower quartile of all values: honest reports are
never that far apart, so ordinary values are never touched, and up to three quarters of the values in a window may be
one client's. With only two values, either may be absurd; it takes three. Only scales are protected: a client's report
still counts as its own value, and smaller lies are for the driver to judge.
"""

from __future__ import annotations

import numpy as np

from enlist._internal.typing import BoolArray, FloatArray

APART = 1e6
"""How many times the lower quartile a value may be."""
SMALL = 1e-3
"""The lower quartile counts as no less, so that 1,000 is always credible."""
NOTHING = 1e-6
"""Values closer to zero are rounding errors of zero, and say nothing about the scale."""


def largest_credible(values: FloatArray) -> float:
    """The magnitude beyond which one of these values is absurd; NaN is ignored.

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
