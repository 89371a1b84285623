"""Trace files as columns: CSV with a header, or JSON (a list of rows, or an object of columns)."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.errors import InputError


def read_columns(path: str | os.PathLike[str], wanted: Sequence[str], format: str) -> dict[str, list[Any]]:
    """The columns of a file in the format "csv" or "json"; `wanted` must be among them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "devices.csv")
    ...     _ = path.write_text("client,compute_ms\\n0,20.5\\n")
    ...     read_columns(path, ["client", "compute_ms"], "csv")
    {'client': ['0'], 'compute_ms': ['20.5']}
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    columns = _json_columns(path, text) if format == "json" else _csv_columns(path, text)
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise InputError(f"{path} has no column {missing[0]!r}; it has {sorted(columns)} and needs {list(wanted)}.")
    lengths = {len(columns[name]) for name in columns}
    if lengths == {0}:
        raise InputError(f"{path} has no rows; give at least one.")
    if len(lengths) != 1:
        raise InputError(f"{path} has columns of different lengths {sorted(lengths)}; give one value per row in each.")
    return columns


def numbers(path: str | os.PathLike[str], name: str, values: Sequence[Any]) -> FloatArray:
    """A column as finite numbers.

    >>> numbers("devices.csv", "compute_ms", ["1.5", "fast"])
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: devices.csv, column 'compute_ms', row 2: 'fast' is not a finite number.
    """
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        array = np.array([_parsed(value) for value in values])
    if array.shape != (len(values),):
        raise InputError(f"{path}, column {name!r}: give one number per row.")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"{path}, column {name!r}, row {row + 1}: {values[row]!r} is not a finite number.")
    return array


def entries(ids: Sequence[Any]) -> tuple[AnyArray, IntArray]:
    """The distinct ids in ascending order (as numbers, if all are whole numbers), and the position of each row's id.

    >>> entries(["10", "2", "10"])
    (array([ 2, 10]), array([1, 0, 1]))
    """
    try:
        array = np.array([int(value) for value in ids], dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        array = np.array([str(value) for value in ids])
    distinct, places = np.unique(array, return_inverse=True)
    return distinct, places.astype(np.int64)


def _parsed(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _csv_columns(path: Path, text: str) -> dict[str, list[Any]]:
    rows = [row for row in csv.reader(text.splitlines()) if row]
    if not rows:
        raise InputError(f"{path} is empty; give a header line and one line per row.")
    header = [name.strip() for name in rows[0]]
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise InputError(f"{path}, row {number} has {len(row)} cells; the header has {len(header)}.")
    cells = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    return {name: list(column) for name, column in zip(header, cells, strict=True)}


def _json_columns(path: Path, text: str) -> dict[str, list[Any]]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}.") from None
    if isinstance(value, dict) and all(isinstance(column, list) for column in value.values()):
        return value
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        uneven = [number for number, row in enumerate(value, start=1) if row.keys() != value[0].keys()]
        if uneven:
            raise InputError(f"{path}, row {uneven[0]} has other keys than the first; give every row the same keys.")
        return {name: [row[name] for row in value] for name in value[0]}
    raise InputError(f"{path} holds neither a list of rows nor an object of columns; give one of them.")
