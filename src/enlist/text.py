"""Plain text: small tables for `repr`, names of functions, and names of files."""

from __future__ import annotations

import re
import unicodedata
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


def slug(name: str, longest: int = 40) -> str:
    """A name as part of a file name: small ASCII letters, digits and hyphens, "" if nothing of it is left.

    >>> slug("Sankt Pölten / North"), slug("../../escaped"), slug("東京")
    ('sankt-polten-north', 'escaped', '')
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain).strip("-")[:longest].rstrip("-")


def place_name(position: int, name: str) -> str:
    """A folder name for something that is called as its user likes: its position, and what is safe of its name.

    >>> place_name(3, "Harbour"), place_name(12, "../..")
    ('0003-harbour', '0012')
    """
    return f"{position:04d}-{slug(name)}".rstrip("-")


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)
