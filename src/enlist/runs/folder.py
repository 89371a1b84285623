"""The run folder: configuration, append-only tables, checkpoints. One writer; never overwritten silently.

A checkpoint is a folder of its own that appears by one rename and records how long the tables were. Resuming cuts
the rows beyond it and runs those rounds again, so a run that was killed at any moment ends like one that was not. What
somebody changed in the meantime is named and refused, and no link in the folder is followed.
"""

from __future__ import annotations

import contextlib
import contextvars
import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import safetensors
import safetensors.numpy

from enlist import storage
from enlist._internal import files
from enlist._internal.typing import AnyArray
from enlist.errors import FolderInUseError, InputError, StateFileError
from enlist.runs import checkpoints, digests, trust
from enlist.runs.checkpoints import CHECKPOINTS, Checkpoint, Saves, Weights, checksum
from enlist.runs.columns import LARGEST, OPEN, TABLES, USER
from enlist.runs.digests import Running, digest_of, digest_of_file
from enlist.runs.environment import about
from enlist.runs.starting import check_same, grew, missing_folders, outgrown, undo

FILES = ("lock", "config.json", "environment.json", "clients.csv", "wall.csv", "result.json", "model.safetensors")
"""Files of a run folder besides its tables."""
FIRST_FILES = ("lock", ".config.json.", trust.ORIGIN, f".{trust.ORIGIN}.")
"""How the names begin that a run killed at its very beginning may have left."""
ACCEPTING: contextvars.ContextVar[bool] = contextvars.ContextVar("ACCEPTING", default=False)
"""Whether folders that are opened without saying so accept what was changed in them."""


@contextlib.contextmanager
def accepting_changes(accept: bool) -> Iterator[None]:
    """Folders that are opened meanwhile, by whomever, accept what was changed in them, or do not.

    >>> with accepting_changes(True):
    ...     ACCEPTING.get()
    True
    """
    token = ACCEPTING.set(accept)
    try:
        yield
    finally:
        ACCEPTING.reset(token)


class RunFolder:
    """Writes a run. `open` it with a configuration: a new folder, or with resume=True one that was interrupted.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with RunFolder.open(Path(place) / "run", {"seed": 1}, resume=False) as folder:
    ...         folder.append("rounds.csv", [{"round": 1, "accuracy": float("nan"), "duration": 2.5}])
    ...     (Path(place) / "run" / "rounds.csv").read_text().splitlines()[1][:9]
    '1,,2.5,,,'
    """

    def __init__(
        self,
        path: Path,
        lock: TextIO,
        tables: Mapping[str, Sequence[str]] = TABLES,
        config: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
        *,
        code: Sequence[str] = (),
        growing: Sequence[str] = (),
        changed: Sequence[str] = (),
    ) -> None:
        self.path, self.tables, self._lock = path, tables, lock
        self._config = json.dumps(config or {})  # as text, which costs a checkpoint less than a table of tables
        self.accept_changes, self.accepted, self.resumed = accept_changes, False, False
        self._files: dict[str, TextIO] = {}
        self._wall: TextIO | None = None
        self._running: dict[str, Running] = {}
        self._headers: dict[str, list[str]] = {}
        self._fixed: dict[str, str] = {}
        self._revised: dict[str, str] = {}
        self._code, self._growing, self._changed = code, growing, changed
        self._made: Sequence[Path] = ()
        self._begun, self.extends = True, False

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        config: Mapping[str, Any],
        *,
        resume: bool,
        tables: Mapping[str, Sequence[str]] = TABLES,
        code: Sequence[str] = (),
        accept_changes: bool | None = None,
        growing: Sequence[str] = (),
        changed: Sequence[str] = (),
    ) -> RunFolder:
        """Make the folder, or continue in it after checking that it is the same run; `tables` name their columns.

        `code` is what the configuration names of it; a new folder is then marked as this user's. `accept_changes`
        goes on with files that were changed since they were written, and says so. Keys in `growing` may say more than
        the folder does, such as more rounds: the run is then extended, also if it was finished. Keys in
        `changed` are not at their defaults, which is noted for reports.

        Used as a context, a new folder in which an error lets nothing happen is removed again.
        """
        folder = Path(path)
        made, fresh = missing_folders(folder), not os.path.lexists(folder / "lock")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.fdopen(files.descriptor(folder / "lock", os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a")
        except OSError as error:
            raise InputError(f"{folder} cannot be written ({error.strerror}); name another folder.") from None
        ours = False
        try:
            ours = files.claim(lock) and _is_at(lock, folder / "lock")
            if not ours:
                raise FolderInUseError(f"{folder} is being written by another process; wait for it, or end it.")
            _examine(folder, tables)
            saved = folder / "config.json"
            there = files.has_file(saved)
            if there and not resume:
                raise InputError(f"{folder} already holds a run; continue it with --resume, or name a new folder.")
            known = _read(saved) if there else {}
            if there:
                check_same(folder, known, config, growing)
            elif any(not other.name.startswith(FIRST_FILES) for other in folder.iterdir()):
                raise InputError(f"{folder} is not empty and holds no run; name a new folder.")
            accept = ACCEPTING.get() if accept_changes is None else accept_changes
            run = cls(folder, lock, tables, config, accept, code=code, growing=growing, changed=changed)
            run._made, run._begun, run.extends = made, there, there and outgrown(known, config, growing)
        except BaseException:
            if ours and fresh:
                (folder / "lock").unlink(missing_ok=True)
                undo(folder, (), made)
            lock.close()
            raise
        try:
            run._start()
        except BaseException as failure:
            run.__exit__(failure)
            raise
        return run

    def _start(self) -> None:
        with self.writing():
            if not files.has_file(self.path / "config.json"):
                self._write_config()
            if not files.has_file(self.path / "environment.json"):
                _write(self.path / "environment.json", about(self._changed))
        _read(self.path / "environment.json")
        self._fixed["config.json"] = digest_of_file(self.path / "config.json")

    def _write_config(self) -> None:
        config = json.loads(self._config)
        if self._code:
            trust.vouch(self.path, config)
        _write(self.path / "config.json", config)

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a table; a missing or NaN value is an empty cell."""
        self._begun = self._begun or bool(rows)
        with self.writing():
            file = self._file(table, rows)
            if self._running[table].length >= LARGEST.get(table, math.inf):
                return
            columns = self._headers[table]
            text = _lines([_cell(row.get(name)) for name in columns] for row in rows)
            file.write(text)
            file.flush()
            self._running[table].update(text)

    def write_clients(self, columns: Mapping[str, AnyArray]) -> None:
        """Write clients.csv, once: a run that is continued leaves it as it is. Users are in participations.csv too."""
        path = self.path / "clients.csv"
        if USER in columns:
            table, before = "participations.csv", self.tables["participations.csv"]
            self.tables = {**self.tables, table: (*before, USER)}
            if self._length(table) == len(_lines([before])):  # a header, and nothing below
                self._cut(table, 0)
        if path.name in self._fixed:
            return
        if not (self.resumed and files.has_file(path)):
            rows = zip(*(values.tolist() for values in columns.values()), strict=True)
            text = _lines([columns, *([_cell(value) for value in row] for row in rows)])
            with self.writing():
                storage.replace(path, text.encode())
        self._fixed[path.name] = digest_of_file(path)

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write result.json: the run is finished. Its digests come first, so that no finished run is without."""
        with self.writing():
            found = {name: digest_of_file(self.path / name) for name in ("config.json", "clients.csv")}
            found |= {table: self._digest(table) for table in self.tables}
            found["result.json"] = digest_of(_text(result))
            digests.write_seal(self.path, {name: digest for name, digest in found.items() if digest})
            _write(self.path / "result.json", result)

    def finished(self) -> bool:
        """Whether the run is finished, and is not to be extended; one that was changed since then is refused."""
        if not files.has_file(self.path / "result.json"):
            return False
        digests.check_finished(self.path, self.accept_changes)
        return not self.extends

    def reopen(self) -> None:
        """A finished run goes on: it is no longer finished."""
        with self.writing():
            for name in ("result.json", digests.SEAL):
                (self.path / name).unlink(missing_ok=True)

    def rows(self, table: str) -> list[dict[str, str]]:
        """The whole rows of a table, as text."""
        return list(csv.DictReader(line.decode() for line in digests.whole_lines(self._open(table))))

    def revise(self, table: str, values: Mapping[str, Any]) -> None:
        """Change some cells of the last row of a table; a checkpoint must follow.

        The row is part of that checkpoint, and no longer of the table as the checkpoint knows it. So there is no moment
        at which a kill leaves a table that does not fit the last checkpoint.
        """
        file = self._open(table)
        lines = digests.whole_lines(file)
        cells = next(csv.reader([lines[-1].decode()]))
        columns = next(csv.reader([lines[0].decode()]))
        row = [_cell(values[name]) if name in values else cell for name, cell in zip(columns, cells, strict=True)]
        self._revised[table] = _lines([row])
        self._running[table] = Running.of(file, sum(map(len, lines[:-1])))

    def _put_back(self, rows: Mapping[str, str]) -> None:
        """Append rows that a checkpoint holds to tables that are cut back to it."""
        for table, text in rows.items():
            file = self._file(table)
            file.write(text)
            file.flush()
            self._running[table].update(text)

    def note_wall(self, round: int, seconds: float, selecting: float = math.nan) -> None:
        """Append to wall.csv, outside the promise of equal bits: seconds of a round, and those of the selector."""
        with self.writing():
            if self._wall is None:
                self._wall = files.open_to_append(self.path / "wall.csv")
                if not os.fstat(self._wall.fileno()).st_size:
                    self._wall.write("round,seconds,selecting\n")
            own = "" if math.isnan(selecting) else f"{selecting:.6f}"
            self._wall.write(f"{round},{seconds:.6f},{own}\n")
            self._wall.flush()

    def save(
        self, round: int, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], weights: Weights,
        parts: Mapping[str, Saves],
    ) -> None:  # fmt: skip
        """Write a checkpoint; the one before is removed only when this one is whole.

        `header` and `arrays` go into the folder "state", each of `weights` into a safetensors file of its name, and
        each of `parts` saves itself into a folder of its name.
        """
        self.prepared(round, header, arrays, lambda: weights, parts)()
        with self.writing():
            for table in self._revised:
                self._cut(table, self._length(table))
            self._put_back(self._revised)
            self._revised = {}

    def prepared(
        self, round: int, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], weights: Callable[[], Weights],
        parts: Mapping[str, Saves], logs: Sequence[Path] = (),
    ) -> Callable[[], None]:  # fmt: skip
        """The checkpoint of this moment, as `save` writes it, written by calling what is returned.

        That may be done by another thread, while rows are appended and `logs` grow: the checkpoint knows the tables as
        they are now. What is passed must not change until then. A checkpoint is whole on disk, with all that it
        refers to, before it gets its name.
        """
        with self.writing():
            for file in self._files.values():
                file.flush()
        tables, revised = list(self._files.values()), dict(self._revised)
        lengths = {table: self._length(table) for table in self.tables}
        known = self._fixed | {table: self._digest(table) for table in self.tables}
        own = {"config": self._config, "digests": {name: digest for name, digest in known.items() if digest}}
        own |= {"rows": revised} if revised else {}

        def write() -> None:
            with self.writing():
                final = checkpoints.new_name(files.make_folder(self.path, CHECKPOINTS), round)
                partial = final.with_suffix(".partial")
                files.remove_folder(partial)
                partial.mkdir()
                for file in tables:
                    os.fsync(file.fileno())
                for log in logs:
                    _sync(log)
                for name, part in parts.items():
                    part.save(partial / name)
                sums = {}
                for name, values in weights().items():
                    safetensors.numpy.save_file(dict(values), partial / f"{name}.safetensors")
                    _sync(partial / f"{name}.safetensors")
                    sums[f"{name}.safetensors"] = checksum(partial / f"{name}.safetensors")
                content = {**header, "round": round, "tables": lengths, "checksums": sums, "folder": own}
                storage.write(partial / "state", "run", content, dict(arrays))
                os.rename(partial, final)
                _sync(final.parent)
                for other in checkpoints.written(final.parent):
                    if other != final:
                        files.remove_folder(other)

        return write

    def load(self) -> Checkpoint | None:
        """The last whole checkpoint, with the tables cut back to it; None if there is none (tables are emptied).

        Before anything is cut, the folder is compared with what the checkpoint says of it.
        """
        whole = checkpoints.written(self.path / CHECKPOINTS, partial=False)
        found = Checkpoint(whole[-1]) if whole else None
        with self.writing():
            lengths = self._checked(found) if found else dict.fromkeys(self.tables, 0)
            for table, length in lengths.items():
                self._cut(table, length)
            self._put_back(found.rows if found else {})
        self.resumed = found is not None
        return found

    def extend(self) -> None:
        """If the run is to go on beyond its end, it is no longer finished, and its configuration is the longer one."""
        if not self.extends:
            return
        with self.writing():
            self.reopen()
            self._write_config()
            _write(self.path / "environment.json", {**_read(self.path / "environment.json"), "changed": self._changed})
            self._fixed["config.json"] = digest_of_file(self.path / "config.json")
        self.extends = False

    def _checked(self, checkpoint: Checkpoint) -> dict[str, int]:
        """Where the tables are to be cut; configuration, clients and tables that were changed are refused."""
        known, changes = checkpoint.digests, []
        if known.get("config.json", self._fixed["config.json"]) != self._fixed["config.json"]:
            now = _read(self.path / "config.json")
            before = checkpoint.written.get("config")
            changes += [] if grew(before, now, self._growing) else [digests.config_change(before, now)]
        clients = digest_of_file(self.path / "clients.csv")
        if clients and known.get("clients.csv", clients) != clients:
            changes.append("clients.csv was changed since the checkpoint was made")
        lengths = {table: checkpoint.lengths.get(table, 0) for table in self.tables}
        for table, length in lengths.items():
            file = self._open(table)
            running = self._running[table] = Running.of(file, length)
            lost = running.length < length
            if not lost and known.get(table, running.digest()) == running.digest():
                continue
            changes.append(
                f"{table} has {running.length} bytes, but the checkpoint was made when it had {length}; rows were lost"
                if lost
                else f"{table} was changed since the checkpoint was made"
            )
            lengths[table] = digests.kept_length(file, checkpoint.round)
        digests.report(self.path, changes, self.accept_changes)
        self.accepted = bool(changes)
        return lengths

    def close(self) -> None:
        """Release the files and the lock."""
        try:
            for file in (*self._files.values(), *([self._wall] if self._wall else [])):
                with contextlib.suppress(OSError):  # a full disk was reported when the rows were appended
                    file.close()
            self._files, self._wall = {}, None
        finally:
            self._lock.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *failure: object) -> None:
        if any(failure) and not self._begun:
            undo(self.path, (*FILES, trust.ORIGIN, *self.tables), self._made)
        self.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A full disk or a lost folder is an error that says so; the last checkpoint is intact."""
        try:
            yield
        except (OSError, safetensors.SafetensorError, StateFileError) as error:
            if isinstance(error, StateFileError) and not isinstance(error.__cause__, OSError):
                raise  # nothing about the disk: it says itself what is wrong
            reason = getattr(error, "strerror", None) or str(error)
            raise StateFileError(
                f"cannot write to {self.path}: {reason}. The last good checkpoint is intact; make room, then continue "
                "with --resume, or a Flower app by starting it again."
            ) from error

    def _open(self, table: str) -> TextIO:
        if table not in self._files:
            self._files[table] = files.open_to_append(self.path / table)
        return self._files[table]

    def _file(self, table: str, rows: Sequence[Mapping[str, Any]] = ()) -> TextIO:
        """A table, opened, with its header and with the digest of what it holds; one that has a header keeps it."""
        file = self._open(table)
        if table not in self._running:
            self._running[table] = Running.of(file)
        if not self._running[table].length:
            further = rows[0] if rows and table in OPEN else ()
            self._headers[table] = list(dict.fromkeys((*self.tables[table], *further)))
            header = _lines([self._headers[table]])
            file.write(header)
            file.flush()
            self._running[table].update(header)
        if table not in self._headers:
            with files.open_text(self.path / table) as text:
                self._headers[table] = next(csv.reader(text))
        return file

    def _length(self, table: str) -> int:
        path = self.path / table
        return self._running[table].length if table in self._running else path.stat().st_size if path.exists() else 0

    def _digest(self, table: str) -> str:
        return self._running[table].digest() if table in self._running else digest_of_file(self.path / table)

    def _cut(self, table: str, length: int) -> None:
        if table in OPEN and not length:  # its first row will say what its header is
            (self.path / table).unlink(missing_ok=True)
            if table in self._files:
                self._files.pop(table).close()
            self._running.pop(table, None)
            return
        file = self._open(table)
        if os.fstat(file.fileno()).st_size > length:
            os.ftruncate(file.fileno(), length)
            self._headers.pop(table, None)
        if self._running.setdefault(table, Running()).length != length:
            self._running[table] = Running.of(file)
        self._file(table)


def _examine(folder: Path, tables: Iterable[str]) -> None:
    """Refuse links, pipes, devices and folders under the names of a run's files, before any of them is touched."""
    for name in (*FILES, digests.SEAL, trust.ORIGIN, *tables):
        files.has_file(folder / name)
    for checkpoint in checkpoints.written(folder / CHECKPOINTS):
        files.check_tree(checkpoint)


def _is_at(lock: TextIO, path: Path) -> bool:
    """Whether a lock still is where it was opened: who fails to begin a run removes it."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(lock.fileno()), os.lstat(path))
    return False


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(files.read(path))
    except (OSError, ValueError, RecursionError) as error:
        raise StateFileError(
            f"{path} cannot be read ({error}); restore it from a copy, or name a new folder."
        ) from None
    if not isinstance(content, dict):
        raise StateFileError(f"{path} holds no table; restore it from a copy, or name a new folder.")
    return content


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else repr(float(value))
    return str(value)


def _lines(rows: Iterable[Iterable[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _write(path: Path, document: Mapping[str, Any]) -> None:
    storage.replace(path, _text(document))


def _text(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = ["Checkpoint", "RunFolder", "Saves", "Weights", "accepting_changes"]
