"""Scores of a leaderboard, formatted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from enlist.runs.printing import UNKNOWN

Row = Mapping[str, Any]


def ratio(row: Row, name: str) -> str:
    """A ratio with its interval.

    >>> ratio({"speed_up": 1.5, "speed_up_low": 1.2, "speed_up_high": 1.9}, "speed_up")
    '1.50 [1.20, 1.90]'
    """
    value, low, high = (row[key] for key in (name, f"{name}_low", f"{name}_high"))
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:.2f}" + (f" [{low:.2f}, {high:.2f}]" if math.isfinite(low) else "")


def points(difference: float) -> str:
    """A difference of accuracies, in points.

    >>> points(-0.0123), points(0.004)
    ('-1.2', '+0.4')
    """
    return f"{100.0 * difference:+.1f}" if math.isfinite(difference) else UNKNOWN


def difference(row: Row) -> str:
    """The final accuracy minus that of random, in points, with its interval.

    >>> difference({"final_difference": 0.01, "final_difference_low": -0.002, "final_difference_high": 0.022})
    '+1.0 [-0.2, +2.2]'
    """
    low, high = row["final_difference_low"], row["final_difference_high"]
    span = f" [{points(low)}, {points(high)}]" if math.isfinite(low) else ""
    return points(row["final_difference"]) + span
