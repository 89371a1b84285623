"""Plain text: small tables for `repr`, values in messages, and names of functions."""

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


def brief(value: Any, most: int = 80) -> str:
    """How a message shows a value: its repr, cut in the middle where that is long, and never an error.

    >>> brief(0.5), brief("x" * 1000, most=9), brief(10**5000)
    ('0.5', "'xx...xx'", 'a whole number of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > 8 * most:
        return f"a whole number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    if len(text) > most:
        kept = most // 2 - 1
        text = f"{text[:kept]}...{text[-kept:]}"
    return text


def brief_reason(error: BaseException) -> str:
    """What an error says, on one short line.

    >>> brief_reason(ValueError("  wrong  and long: " + "x" * 1000))[:25]
    'wrong and long: xxxxxxxxx'
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


def function_name(function: Callable[..., Any]) -> str:
    """A name for a function that is the same in every process; of an object that can be called, its type's.

    >>> import functools
    >>> function_name(plain_table), function_name(functools.partial(plain_table))
    ('plain_table', 'partial')
    """
    return str(getattr(function, "__qualname__", type(function).__name__))


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)
