"""Parquet files with one row per sample. Needs pyarrow, which is imported only here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray
from enlist.data.tables import Roles, numbers, words
from enlist.errors import InputError


def read_parquet(path: Path, roles: Roles) -> tuple[dict[str, AnyArray], tuple[str, ...]]:
    """Arrays x (n, features), y (n,) and, if a column of users is named, users (n,); and the names of the features.

    An index that pandas has written for a data frame is not a feature.

    >>> read_parquet(Path("nowhere.parquet"), Roles("label", None, None, ()))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: nowhere.parquet cannot be read as Parquet: ...
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{path} is a Parquet file; reading it needs pyarrow: pip install pyarrow") from None
    try:
        with path.open("rb") as file:
            table = pyarrow.parquet.read_table(file)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from None
    source = str(path)
    inputs = roles.inputs(source, table.column_names, _index(table.schema.metadata or {}))
    parts = [numbers(source, name, _values(source, name, table[name]), str(table[name].type)) for name in inputs]
    arrays = {
        "x": np.stack(parts, axis=1),
        "y": words(source, roles.label, _values(source, roles.label, table[roles.label])),
    }
    if roles.user is not None:
        arrays["users"] = words(source, roles.user, _values(source, roles.user, table[roles.user]))
    return arrays, tuple(inputs)


def _index(metadata: dict[bytes, bytes]) -> list[str]:
    """The columns that pandas marks as an index; one that only counts rows is a table of its bounds, no column."""
    try:
        columns = json.loads(metadata.get(b"pandas", b"{}")).get("index_columns", [])
        return [column for column in columns if isinstance(column, str)]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return []


def _values(source: str, name: str, column: Any) -> AnyArray:
    if column.null_count:
        raise InputError(
            f"{source}: column '{name}' has {column.null_count} empty cells; fill or drop those rows first."
        )
    return np.asarray(column.to_numpy())
