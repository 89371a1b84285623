"""Plain text: small tables for `repr`, and names of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from enlist.typing import AnyArray


def plain_table(columns: Mapping[str, AnyArray]) -> str:
    """Columns of equal length, right-aligned under their titles.

    >>> print(plain_table({"client": np.array([3, 12]), "mean": np.array([0.25, 1.5])}))
      client  mean
           3  0.25
          12   1.5
    """
    cells = [[title, *map(_cell, values)] for title, values in columns.items()]
    widths = [max(map(len, column)) for column in cells]
    rows = zip(*cells, strict=True)
    return "\n".join("  " + "  ".join(map(str.rjust, row, widths)) for row in rows)


def function_name(function: Callable[..., Any]) -> str:
    """A name for a function that is the same in every process; of an object that can be called, its type's.

    >>> import functools
    >>> function_name(plain_table), function_name(functools.partial(plain_table))
    ('plain_table', 'partial')
    """
    return str(getattr(function, "__qualname__", type(function).__name__))


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)
