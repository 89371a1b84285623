"""One append-only table of a run folder: its header, its length, and the digest of its contents."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from enlist._internal import files
from enlist._internal.aliases import present_columns
from enlist.runs import digests
from enlist.runs.columns import LARGEST, OPEN
from enlist.runs.digests import Running, digest_of_file


class TableFile:
    """A table that rows are appended to. It is opened when first needed.

    Parameters
    ----------
    path : Path
        The file.
    columns : sequence of str
        Its header; a table in `OPEN` gets further columns from its first row.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     table = TableFile(Path(place) / "rounds.csv", ["round", "accuracy"])
    ...     table.append([{"round": 1, "accuracy": 0.5}, {"round": 2}])
    ...     rows = table.rows()
    ...     table.close()
    >>> rows
    [{'round': '1', 'accuracy': '0.5'}, {'round': '2', 'accuracy': ''}]
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, tuple(columns)
        self._open = path.name in OPEN
        self._most = LARGEST.get(path.name, math.inf)
        self._file: TextIO | None = None
        self._running: Running | None = None
        self._header: list[str] | None = None
        self.revised = ""
        """The last row as it will be once a checkpoint holds it; empty if it was not revised."""

    @property
    def length(self) -> int:
        """Bytes."""
        if self._running is not None:
            return self._running.length
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def digest(self) -> str:
        """The digest of its contents; empty if there is no such file."""
        return digest_of_file(self.path) if self._running is None else self._running.digest()

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows; a missing or NaN value is an empty cell. A table that is too long takes no more rows."""
        self._begin(rows)
        assert self._running is not None
        assert self._header is not None
        if self._running.length < self._most:
            names = present_columns(self.path.name, self._header)  # a table of an earlier version keeps its header
            self.write(lines([cell(row.get(name)) for name in names] for row in rows))

    def write(self, text: str) -> None:
        """Append text."""
        file, running = self._begin()
        file.write(text)
        file.flush()
        running.update(text)

    def rows(self) -> list[dict[str, str]]:
        """The complete rows, as text."""
        found = csv.reader(line.decode() for line in digests.whole_lines(self.opened()))
        names = present_columns(self.path.name, next(found, []))
        return [dict(zip(names, cells, strict=False)) for cells in found]

    def revise(self, values: Mapping[str, Any]) -> None:
        """Change some cells of the last row; a checkpoint must follow, which then holds the row.

        From here on the table is known without that row, so at no moment can a kill leave a table that does not fit the
        last checkpoint.
        """
        file = self.opened()
        known = digests.whole_lines(file)
        cells = next(csv.reader([known[-1].decode()]))
        columns = present_columns(self.path.name, next(csv.reader([known[0].decode()])))
        row = [cell(values[name]) if name in values else before for name, before in zip(columns, cells, strict=True)]
        self.revised = lines([row])
        self._running = Running.of(file, sum(map(len, known[:-1])))

    def cut(self, length: int) -> None:
        """Keep only the first bytes, and a header."""
        if self._open and not length:  # its first row will determine its header
            self.path.unlink(missing_ok=True)
            self.close()
            self._running = None
            return
        file = self.opened()
        if os.fstat(file.fileno()).st_size > length:
            os.ftruncate(file.fileno(), length)
            self._header = None
        if self._running is None:
            self._running = Running()
        if self._running.length != length:
            self._running = Running.of(file)
        self._begin()

    def examine(self, length: int) -> Running:
        """Length and digest of the first bytes from now on; fewer if the file is shorter."""
        self._running = Running.of(self.opened(), length)
        return self._running

    def opened(self) -> TextIO:
        """The file."""
        if self._file is None:
            self._file = files.open_to_append(self.path)
        return self._file

    def flush(self) -> None:
        """Hand written data to the operating system."""
        if self._file is not None:
            self._file.flush()

    def sync(self) -> None:
        """Wait until written data is on the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Release the file; it is opened again when needed."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk was reported when the rows were appended
                self._file.close()
            self._file = None

    def _begin(self, rows: Sequence[Mapping[str, Any]] = ()) -> tuple[TextIO, Running]:
        """The file with its header, with its length and digest; a file that has a header keeps it."""
        file = self.opened()
        if self._running is None:
            self._running = Running.of(file)
        if not self._running.length:
            further = rows[0] if rows and self._open else ()
            self._header = list(dict.fromkeys((*self.columns, *further)))
            header = lines([self._header])
            file.write(header)
            file.flush()
            self._running.update(header)
        if self._header is None:
            with files.open_text(self.path) as text:
                self._header = next(csv.reader(text))
        return file, self._running


def cell(value: Any) -> str:
    """A value as text; None and NaN are empty.

    >>> cell(True), cell(0.1), cell(float("nan")), cell("late")
    ('1', '0.1', '', 'late')
    """
    kind = type(value)
    if kind is float:  # most cells are, and the rest takes five times as long
        return repr(value) if value == value else ""
    if kind is int or kind is str:
        return str(value)
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else repr(float(value))
    return str(value)


def lines(rows: Iterable[Iterable[str]]) -> str:
    """Rows of cells as CSV.

    >>> lines([["a", "b,c"], ["1", ""]])
    'a,"b,c"\\n1,\\n'
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
