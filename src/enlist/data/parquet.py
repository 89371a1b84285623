"""Parquet files with one row for each sample. Needs pyarrow, which is asked for only here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from enlist.errors import InputError
from enlist.typing import AnyArray


def read_parquet(path: Path, label: str, user: str | None) -> dict[str, AnyArray]:
    """Arrays x (n, features), y (n,) and, if a column of users is named, users (n,).

    >>> read_parquet(Path("nowhere.parquet"), label="label", user=None)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: nowhere.parquet cannot be read as Parquet: ...
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{path} is a Parquet file, and to read it needs pyarrow: pip install pyarrow") from None
    try:
        with path.open("rb") as file:
            table = pyarrow.parquet.read_table(file)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from None
    for role, column in (("label", label), ("user", user)):
        if column is not None and column not in table.column_names:
            raise InputError(
                f"{path} has no column '{column}', which the key '{role}' names; it has "
                f"{', '.join(table.column_names)}."
            )
    inputs = [name for name in table.column_names if name not in (label, user)]
    if not inputs:
        raise InputError(f"{path} has no columns of inputs beside '{label}'; add some.")
    arrays = {"x": np.stack([_numbers(path, name, table[name]) for name in inputs], axis=1)}
    arrays["y"] = _values(path, label, table[label])
    if user is not None:
        arrays["users"] = _values(path, user, table[user])
    return arrays


def _numbers(path: Path, name: str, column: Any) -> AnyArray:
    values = _values(path, name, column)
    if values.dtype.kind not in "biuf":
        raise InputError(f"{path}: column '{name}' holds {column.type}, not numbers; turn it into numbers or drop it.")
    return values.astype(np.float32)


def _values(path: Path, name: str, column: Any) -> AnyArray:
    if column.null_count:
        raise InputError(f"{path}: column '{name}' has {column.null_count} empty cells; fill or drop those rows first.")
    values: AnyArray = np.asarray(column.to_numpy())
    return np.array([str(value) for value in values]) if values.dtype.kind == "O" else values
