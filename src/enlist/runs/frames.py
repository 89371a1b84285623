"""Tables as data frames: pandas where it is installed, polars on request, plain columns otherwise.

Integers stay integers: a count without missing values is int64, and one with gaps is pandas' nullable Int64.
"""

from __future__ import annotations

import html
import importlib.util
from collections.abc import Collection, Mapping, Sequence
from typing import Any, overload

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray
from enlist.errors import InputError, unknown

LIBRARIES = ("pandas", "polars", "arrays")
WHOLE = frozenset({
    "round", "selected_in", "client", "available", "selected", "completed", "late", "dropped", "failed", "arrived",
    "bytes_down", "bytes_up", "rounds_late", "num_examples", "seed", "seeds", "pairs", "reached", "rounds",
    "rounds_to_target",
})  # fmt: skip
"""Columns that count something."""
FLAGS = frozenset({"censored"})
TEXTS = frozenset({"outcome", "reason"})
SHOWN = 10


class Columns(dict[str, AnyArray]):
    """A table without any library: column name to array, of equal length; it prints its first rows.

    A list of names gives a table of these columns, as in a data frame.

    >>> table = Columns({"round": np.array([1, 2]), "loss": np.array([0.9, 0.8]), "accuracy": np.array([np.nan, 0.5])})
    >>> table[["round", "accuracy"]]
      round  accuracy
          1       nan
          2       0.5
    >>> table["acuracy"]
    Traceback (most recent call last):
    ...
    enlist.errors.UnknownNameError: no column is called 'acuracy'. Did you mean 'accuracy'? Known: ...
    """

    @overload
    def __getitem__(self, name: str) -> AnyArray: ...
    @overload
    def __getitem__(self, name: list[str]) -> Columns: ...
    def __getitem__(self, name: str | list[str]) -> AnyArray | Columns:
        if isinstance(name, list):
            return Columns({each: self[each] for each in name})
        return super().__getitem__(name)

    def __missing__(self, name: str) -> AnyArray:
        raise unknown("column", name, self)

    def __len__(self) -> int:
        return len(next(iter(self.values()), ()))

    def _lines(self) -> list[list[str]]:
        return [[str(cell) for cell in line[1:]] for line in zip(range(SHOWN), *self.values(), strict=False)]

    def __repr__(self) -> str:
        lines = [list(self), *self._lines()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = ["  " + "  ".join(map(str.rjust, line, widths)) for line in lines]
        more = [f"  ... {len(self):,} rows"] if len(self) > SHOWN else []
        return "\n".join([*rows, *more])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in self._lines()
        )
        return f"<table><tr>{head}</tr>{body}</table>"


def frame(columns: Mapping[str, Any], library: str | None = None, shares: Collection[str] = ()) -> Any:
    """Columns of equal length as a data frame.

    Parameters
    ----------
    columns : mapping of str to array
        NaN or None where a value is missing.
    library : {"pandas", "polars", "arrays"}, optional
        By default pandas if it is installed, else `Columns`.
    shares : collection of str
        Columns whose names elsewhere stand for counts, but which hold shares.

    >>> frame({"round": np.array([1.0, 2.0]), "loss": np.array([0.5, np.nan])}, "arrays")["round"]
    array([1, 2])
    """
    if library is None:
        library = "pandas" if importlib.util.find_spec("pandas") else "arrays"
    checks.one_of("library", library, LIBRARIES)
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    typed = {name: values if name in shares else _typed(name, values) for name, values in arrays.items()}
    if library == "arrays":
        return Columns({name: _plain(values) for name, values in typed.items()})
    if importlib.util.find_spec(library) is None:
        raise InputError(f"library is '{library}', which is not installed; pip install {library}, or use 'arrays'.")
    if library == "polars":
        import polars

        gaps = {name: values for name, values in typed.items() if isinstance(values, np.ma.MaskedArray)}
        counts = {name: polars.Series(values.tolist(), dtype=polars.Int64) for name, values in gaps.items()}
        return polars.DataFrame({**typed, **counts}, nan_to_null=True)
    import pandas

    return pandas.DataFrame(
        {
            name: pandas.array(values, dtype="Int64") if isinstance(values, np.ma.MaskedArray) else values
            for name, values in typed.items()
        }
    )


def columns_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, AnyArray]:
    """Rows as columns of these names; a value missing from a row is NaN, in a column of text the empty text.

    >>> columns_of([{"round": 1}, {"round": 2, "loss": 0.5}], ["round", "loss"])
    {'round': array([1, 2]), 'loss': array([nan, 0.5])}
    """
    found: dict[str, AnyArray] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        text = any(isinstance(value, str) for value in values)
        found[name] = np.array([("" if text else np.nan) if value is None else value for value in values])
    return found


def _typed(name: str, values: AnyArray) -> AnyArray:
    """Whole numbers as int64, masked where some are missing; flags as bool; text as text; others unchanged."""
    if name in TEXTS and values.dtype.kind == "f":
        return np.full(len(values), "")
    if values.dtype.kind != "f" or not (name in WHOLE or name in FLAGS or name.startswith("class_")):
        return values
    known = ~np.isnan(values)
    if (values[known] % 1).any():
        return values
    whole = np.where(known, values, 0).astype(np.int64)
    if known.all():
        return whole.astype(bool) if name in FLAGS else whole
    return np.ma.MaskedArray(whole, mask=~known)


def _plain(values: AnyArray) -> AnyArray:
    return np.ma.filled(values.astype(float), np.nan) if isinstance(values, np.ma.MaskedArray) else values
