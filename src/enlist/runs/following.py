"""Tables that grow, read as they grow: each call reads the bytes that were appended since the last one."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection
from pathlib import Path

import numpy as np

from enlist._internal import files
from enlist._internal.aliases import present_columns
from enlist.errors import InputError
from enlist.runs.tables import Table, numbers

LARGEST = 1_000_000_000
"""Maximum size of a table in bytes; a larger one is not followed."""
CHUNK = 4_000_000
"""Bytes to read at a time."""
LONGEST = 400
"""Characters to keep of a cell of text: a column takes as much room as its longest cell, in every row."""
BEFORE = 256
"""Bytes before the current position that are checked: if they changed, the table was cut and rewritten."""


class TableFollower:
    """A CSV table that is still being written; `read` returns what `read_table` would, but reads only new bytes.

    A table that was cut, replaced or revised is read again from its beginning. Longer cells of text are shortened.

    Parameters
    ----------
    path : Path
        The file. It is open only during a call.
    columns : collection of str, optional
        The columns to read; all by default.
    text : collection of str
        Columns that hold text, though their cells may look like numbers.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rounds.csv"
    ...     _ = path.write_text("round,accuracy\\n1,0.5\\n2,0.")
    ...     table = TableFollower(path)
    ...     before = table.read()["accuracy"].tolist()
    ...     with path.open("a") as file:
    ...         _ = file.write("75\\n")
    ...     before, table.read()["accuracy"].tolist(), table.fresh
    ([0.5], [0.5, 0.75], 7)
    """

    def __init__(self, path: Path, columns: Collection[str] | None = None, text: Collection[str] = ()) -> None:
        self.path, self.columns, self.text = path, columns, frozenset(text)
        self.fresh = 0
        """Bytes that the last call has parsed."""
        self._found_text: set[str] = set()
        self._forget()

    def _forget(self) -> None:
        self._identity: tuple[int, int] | None = None
        self._offset, self._tail, self._lines = 0, b"", 0
        self._header: list[str] = []
        self._table: Table = {}

    @property
    def size(self) -> int:
        """Bytes that it holds in memory."""
        return sum(column.nbytes for column in self._table.values())

    def read(self) -> Table:
        """The current table, up to its last complete line."""
        self.fresh = 0
        try:
            with os.fdopen(files.descriptor(self.path, os.O_RDONLY), "rb") as file:
                found = os.fstat(file.fileno())
                if found.st_size > LARGEST:
                    raise InputError(
                        f"{self.path} has {found.st_size:,} bytes; at most {LARGEST:,} are read while a table grows."
                    )
                if not self._goes_on(file, found):
                    self._forget()
                    self._identity = (found.st_dev, found.st_ino)
                self._look(file)
        except FileNotFoundError:
            self._forget()
            raise InputError(f"{self.path} is missing; name a folder that a run has written.") from None
        except (UnicodeDecodeError, csv.Error) as error:
            self._forget()
            raise InputError(f"{self.path} is damaged ({error}); run it again, or leave this run out.") from None
        except OSError as error:
            raise InputError(f"{self.path} cannot be read ({error.strerror}).") from None
        except InputError:
            self._forget()
            raise
        if not self._header:
            raise InputError(f"{self.path} is empty; run it again, or leave this run out.")
        return dict(self._table)

    def _goes_on(self, file: io.BufferedReader, found: os.stat_result) -> bool:
        if self._identity != (found.st_dev, found.st_ino) or found.st_size < self._offset:
            return False
        file.seek(self._offset - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def _look(self, file: io.BufferedReader) -> None:
        file.seek(self._offset)
        rest = b""
        while block := file.read(CHUNK):
            whole, rest = _whole(rest + block)
            try:
                self._add(whole)
            except _IsText as found:  # a column taken for numbers is text: start again, knowing that
                self._found_text.add(found.column)
                identity = self._identity
                self._forget()
                self._identity = identity
                file.seek(0)
                rest = b""
                continue
            if whole:
                self._offset += len(whole)
                self._tail = (self._tail + whole)[-BEFORE:]
                self.fresh += len(whole)

    def _add(self, whole: bytes) -> None:
        rows = list(csv.reader(io.StringIO(whole.decode(), newline="")))
        if not self._header and rows:
            self._header = present_columns(self.path.name, rows.pop(0))
            if len(set(self._header)) < len(self._header):
                names = ", ".join(self._header)
                raise InputError(f"{self.path} names a column twice: {names}; run it again, or leave this run out.")
            wanted = [name for name in self._header if self.columns is None or name in self.columns]
            self._table = {name: np.empty(0) for name in wanted}
        for place, row in enumerate(rows):
            if len(row) != len(self._header):
                raise InputError(
                    f"{self.path} is damaged: row {self._lines + place + 1} has {len(row)} cells under "
                    f"{len(self._header)} columns; run it again, or leave this run out."
                )
        if not rows:
            return
        cells = list(zip(*rows, strict=True))
        for name, before in list(self._table.items()):
            column = cells[self._header.index(name)]
            if name in self.text or name in self._found_text:
                new = np.array([cell[:LONGEST] for cell in column])
                self._table[name] = new if not len(before) else np.concatenate([before, new])
                continue
            try:
                self._table[name] = np.concatenate([before, numbers(column)])
            except ValueError:
                raise _IsText(name) from None
        self._lines += len(rows)


class _IsText(Exception):  # noqa: N818 - it is a discovery, not an error
    def __init__(self, column: str) -> None:
        self.column = column


def _whole(block: bytes) -> tuple[bytes, bytes]:
    """The part up to the end of the last complete row, and the rest; a line break inside quotes ends no row."""
    end = block.rfind(b"\n")
    while end >= 0 and block.count(b'"', 0, end) % 2:
        end = block.rfind(b"\n", 0, end)
    return block[: end + 1], block[end + 1 :]
