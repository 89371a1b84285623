"""CSV files with one row per sample, read in blocks of lines."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from enlist._internal.text import brief
from enlist._internal.typing import AnyArray, FloatArray
from enlist.data.base import check_numbers
from enlist.data.tables import UNNAMED, Roles, check_length
from enlist.errors import InputError

BLOCK = 1000
"""Number of rows that are held as text at a time."""
SEPARATORS = ",;\t"


def read_csv(path: Path, roles: Roles) -> tuple[dict[str, AnyArray], tuple[str, ...]]:
    """Arrays x (n, features), y (n,) and, if a column of users is named, users (n,); and the names of the features.

    The first line names the columns, which are separated by commas, or, where it has none, by semicolons or tabs. A
    first column without a name is the index that pandas writes, not a feature. Labels are whole numbers if all are,
    else fractions if all are numbers, else text; users are whole numbers or text, and 007 is text.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.csv")
    ...     _ = path.write_text("a,b,label\\n1,2,yes\\n3,oops,no\\n")
    ...     read_csv(path, Roles("label", None, None, ("b",)))[0]["x"]
    ...     read_csv(path, Roles("label", None, None, ()))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: ...mine.csv, line 3: column 'b' holds 'oops', not a number; turn it into one, or ...
    """
    kinds = {"label": [_whole, _fractions, _texts], "user": [_whole, _texts]}
    while True:
        try:
            return _read(path, roles, kinds["label"][0], kinds["user"][0])
        except _OtherKindError as found:  # a column may begin with numbers and go on as text: then it is read again
            kinds[str(found)].pop(0)
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}).") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 text ({error.reason}); save it as CSV in UTF-8.") from None


class _OtherKindError(Exception):
    """The label or the user holds something other than the kind it was taken for."""


Convert = Callable[[Sequence[str]], AnyArray]


def _read(path: Path, roles: Roles, label: Convert, user: Convert) -> tuple[dict[str, AnyArray], tuple[str, ...]]:
    source = str(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        found = [mark for mark in SEPARATORS if mark in first]
        rows = _rows(itertools.chain([first], file), source, found[0] if found else ",")
        _, names = next(rows, (0, []))
        if not names:
            raise InputError(f"{path} is empty; its first line names the columns.")
        names = [names[0] or UNNAMED, *names[1:]]
        if "" in names:
            raise InputError(f"{path}: column {names.index('') + 1} has no name; the first line names all columns.")
        inputs = roles.inputs(source, names)
        places = [names.index(name) for name in inputs]
        parts: dict[str, list[AnyArray]] = {"x": [], "y": [], "users": []}
        count = 0
        while block := list(itertools.islice(rows, BLOCK)):
            count += len(block)
            check_numbers(source, count, len(inputs))
            _check_widths(source, block, names)
            cells = list(zip(*(row for _, row in block), strict=True))
            lines = [line for line, _ in block]
            x = [_inputs(source, name, lines, cells[place]) for name, place in zip(inputs, places, strict=True)]
            parts["x"].append(np.stack(x, axis=1))
            parts["y"].append(_converted(source, "label", roles.label, lines, cells[names.index(roles.label)], label))
            if roles.user is not None:
                held = cells[names.index(roles.user)]
                parts["users"].append(_converted(source, "user", roles.user, lines, held, user))
    if not count:
        raise InputError(f"{path} has a first line, which names the columns, and no samples; add some.")
    return {name: np.concatenate(part) for name, part in parts.items() if part}, tuple(inputs)


def _rows(lines: Iterator[str], source: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every line that is not blank."""
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{source}, line {reader.line_num}: {error}; fix that line.") from None


def _check_widths(source: str, block: Sequence[tuple[int, list[str]]], names: Sequence[str]) -> None:
    for line, row in block:
        if len(row) != len(names):
            raise InputError(f"{source}, line {line}: {len(row)} cells under {len(names)} columns; fix that line.")


def _inputs(source: str, name: str, lines: Sequence[int], cells: Sequence[str]) -> AnyArray:
    try:
        values = _floats(cells)
    except ValueError:
        values = np.array([_number(cell) for cell in cells])
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        what = "is empty" if not cells[row].strip() else f"holds {brief(cells[row])}, not a number"
        raise InputError(
            f"{source}, line {lines[row]}: column '{name}' {what}; turn it into one, or name the column in drop."
        )
    return found


def _converted(
    source: str, role: str, name: str, lines: Sequence[int], cells: Sequence[str], convert: Convert
) -> AnyArray:
    empty = [line for line, cell in zip(lines, cells, strict=True) if not cell.strip()]
    if empty:
        raise InputError(f"{source}, line {empty[0]}: column '{name}' is empty; fill it, or drop that line.")
    check_length(source, name, cells)
    try:
        return convert(cells)
    except (ValueError, OverflowError):
        raise _OtherKindError(role) from None


def _floats(cells: Sequence[str]) -> FloatArray:
    if "_" in "".join(cells):  # Python allows these between digits
        raise ValueError
    return np.fromiter(map(float, cells), dtype=float, count=len(cells))


def _number(cell: str) -> float:
    try:
        return float("nan") if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _whole(cells: Sequence[str]) -> AnyArray:
    values = np.fromiter(map(int, cells), dtype=np.int64, count=len(cells))
    if list(map(str, values.tolist())) != [cell.strip() for cell in cells]:
        raise ValueError
    return values


def _fractions(cells: Sequence[str]) -> AnyArray:
    if any(cell.strip().isdigit() and cell.strip().startswith("0") and cell.strip() != "0" for cell in cells):
        raise ValueError  # 01 is the name of a class, not a fraction
    return _floats(cells)


def _texts(cells: Sequence[str]) -> AnyArray:
    return np.array([cell.strip() for cell in cells], dtype=np.str_)
