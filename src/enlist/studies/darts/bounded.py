"""Curves of quantities that have bounds: intervals over few seeds reach beyond them, pictures must not."""

from __future__ import annotations

from typing import Any

from enlist.studies.charts import bands, within
from enlist.typing import FloatArray


def means(values: FloatArray, series: str) -> list[dict[str, Any]]:
    """Rows of a curve (seeds, rounds) without a band, for pictures in which several bands would hide each other.

    >>> import numpy as np
    >>> means(np.array([[0.5], [1.0]]), "ucb")
    [{'series': 'ucb', 'at': 1, 'mean': 0.75}]
    """
    return [{"series": series, "at": at + 1, "mean": float(mean)} for at, mean in enumerate(values.mean(axis=0))]


def shares(values: FloatArray, **labels: Any) -> list[dict[str, Any]]:
    """`bands` of shares (seeds, rounds), which lie between 0 and 1.

    >>> import numpy as np
    >>> shares(np.array([[0.5], [0.9]]), series="ucb")[0]["high"]
    1.0
    """
    return within(bands(values, **labels), 0.0, 1.0)


def amounts(values: FloatArray, **labels: Any) -> list[dict[str, Any]]:
    """`bands` of what cannot be negative (seeds, rounds).

    >>> import numpy as np
    >>> amounts(np.array([[0.5], [90.0]]), series="ucb")[0]["low"]
    0.0
    """
    return within(bands(values, **labels), 0.0)
