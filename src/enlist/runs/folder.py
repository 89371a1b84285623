"""The run folder: configuration, append-only tables, checkpoints. One writer; never overwritten silently.

A checkpoint is a folder of its own that appears by one rename and records how long the tables were. Resuming cuts
the rows beyond it and runs those rounds again, so a run that was killed at any moment ends like one that was not.
Changes made by others in the meantime are named and refused, and no link in the folder is followed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

import safetensors
import safetensors.numpy

from enlist import storage
from enlist._internal import files
from enlist._internal.typing import AnyArray
from enlist.errors import FolderInUseError, InputError, StateFileError
from enlist.runs import checkpoints, digests, failures, timing, trust
from enlist.runs.appending import TableFile, cell, lines
from enlist.runs.checkpoints import CHECKPOINTS, Checkpoint, Saves, Weights, checksum
from enlist.runs.columns import TABLES, USER
from enlist.runs.digests import digest_of, digest_of_file
from enlist.runs.documents import document_bytes, read_document, write_document
from enlist.runs.environment import about
from enlist.runs.starting import check_same, grew, missing_folders, outgrown, undo

FILES = ("lock", "config.json", "environment.json", "clients.csv", "wall.csv", "timing.csv", "result.json",
         "model.safetensors")  # fmt: skip
"""Files of a run folder besides its tables."""
FIRST_FILES = ("lock", ".config.json.", trust.ORIGIN, f".{trust.ORIGIN}.")
"""Prefixes of files that a run killed at its very beginning may have left."""


class RunFolder:
    """Writes a run. `open` it with a configuration: a new folder or, with resume=True, one of an interrupted run.

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
        self.path, self._lock = path, lock
        self.tables = {name: TableFile(path / name, columns) for name, columns in tables.items()}
        self._config = json.dumps(config or {})  # as text, which makes checkpoints cheaper than nested tables
        self.accept_changes, self.accepted, self.resumed = accept_changes, False, False
        self._readings: dict[str, TextIO] = {}
        self._fixed: dict[str, str] = {}
        self._code, self._growing, self._changed = code, growing, changed
        self._made: Sequence[Path] = ()
        self._begun, self.extends = True, False
        self._appended = False

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

        `code` is the code that the configuration names; a new folder is then marked as this user's. `accept_changes`
        continues with files that were changed since they were written, and logs it. Keys in `growing` may exceed the
        folder's values, such as more rounds: the run is then extended, even if it was finished. Keys in `changed` are
        not at their defaults, which is recorded for reports.

        Used as a context, a new folder is removed again if an error prevents any progress.
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
            ours = files.claim(lock) and files.is_at(lock, folder / "lock")
            if not ours:
                raise FolderInUseError(f"{folder} is being written by another process; wait for it, or end it.")
            _examine(folder, tables)
            saved = folder / "config.json"
            there = files.has_file(saved)
            if there and not resume:
                raise InputError(f"{folder} already holds a run; continue it with --resume, or name a new folder.")
            known = read_document(saved) if there else {}
            if there:
                check_same(folder, known, config, growing)
            elif any(not other.name.startswith(FIRST_FILES) for other in folder.iterdir()):
                raise InputError(f"{folder} is not empty and holds no run; name a new folder.")
            accept = digests.ACCEPTING.get() if accept_changes is None else accept_changes
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
                write_document(self.path / "environment.json", about(self._changed))
        read_document(self.path / "environment.json")
        self._fixed["config.json"] = digest_of_file(self.path / "config.json")

    def _write_config(self) -> None:
        config = json.loads(self._config)
        if self._code:
            trust.vouch(self.path, config)
        write_document(self.path / "config.json", config)

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a table; a missing or NaN value is an empty cell."""
        if rows and not self._appended:
            self._begun = self._appended = True
            failures.forget_failure(self.path)
        with self.writing():
            self.tables[table].append(rows)

    def write_clients(self, columns: Mapping[str, AnyArray]) -> None:
        """Write clients.csv, once: a run that is continued leaves it unchanged. Users are in participations.csv too."""
        path = self.path / "clients.csv"
        if USER in columns:
            table = self.tables["participations.csv"]
            bare = len(lines([table.columns]))
            table.columns = (*table.columns, USER)
            if table.length == bare:  # a header, and nothing below
                table.cut(0)
        if path.name in self._fixed:
            return
        if not (self.resumed and files.has_file(path)):
            rows = zip(*(values.tolist() for values in columns.values()), strict=True)
            text = lines([columns, *([cell(value) for value in row] for row in rows)])
            with self.writing():
                storage.replace(path, text.encode())
        self._fixed[path.name] = digest_of_file(path)

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write result.json: the run is finished. Its digests come first, so that no finished run lacks them."""
        with self.writing():
            found = {name: digest_of_file(self.path / name) for name in ("config.json", "clients.csv")}
            found |= {name: table.digest for name, table in self.tables.items()}
            found["result.json"] = digest_of(document_bytes(result))
            digests.write_seal(self.path, {name: digest for name, digest in found.items() if digest})
            write_document(self.path / "result.json", result)
            failures.forget_failure(self.path)

    def finished(self) -> bool:
        """Whether the run is finished, and is not to be extended; a finished run that was changed is refused."""
        if not files.has_file(self.path / "result.json"):
            return False
        digests.check_finished(self.path, self.accept_changes)
        return not self.extends

    def reopen(self) -> None:
        """Continue a finished run: it is no longer finished."""
        with self.writing():
            for name in ("result.json", digests.SEAL):
                (self.path / name).unlink(missing_ok=True)

    def rows(self, table: str) -> list[dict[str, str]]:
        """The complete rows of a table, as text."""
        return self.tables[table].rows()

    def revise(self, table: str, values: Mapping[str, Any]) -> None:
        """Change some cells of the last row of a table; a checkpoint must follow, which then holds that row."""
        self.tables[table].revise(values)

    def note_wall(self, round: int, seconds: float, selecting: float = math.nan) -> None:
        """Append to wall.csv, which is not bit-reproducible: seconds of a round, and those of the selector."""
        self._note("wall.csv", {"round": round, "seconds": seconds, "selecting": selecting})

    def note_timing(self, round: int, seconds: Mapping[str, float]) -> None:
        """Append to timing.csv, which is not bit-reproducible either: the seconds of each part of a round."""
        self._note(timing.FILE, {"round": round, **{part: seconds[part] for part in timing.PARTS}})

    def _note(self, name: str, reading: Mapping[str, float]) -> None:
        with self.writing():
            if name not in self._readings:
                self._readings[name] = file = files.open_to_append(self.path / name)
                if not os.fstat(file.fileno()).st_size:
                    file.write(",".join(reading) + "\n")
            cells = (str(value) if isinstance(value, int) else f"{value:.6f}" for value in reading.values())
            self._readings[name].write(",".join(cells).replace("nan", "") + "\n")
            self._readings[name].flush()

    def save(
        self, round: int, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], weights: Weights,
        parts: Mapping[str, Saves],
    ) -> None:  # fmt: skip
        """Write a checkpoint; the previous one is removed only when this one is complete.

        `header` and `arrays` go into the folder "state", each of `weights` into a safetensors file of its name, and
        each of `parts` saves itself into a folder of its name.
        """
        self.prepared(round, header, arrays, lambda: weights, parts)()
        with self.writing():
            for table in self.tables.values():
                if table.revised:
                    table.cut(table.length)
                    table.write(table.revised)
                    table.revised = ""

    def prepared(
        self, round: int, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], weights: Callable[[], Weights],
        parts: Mapping[str, Saves], logs: Sequence[Path] = (),
    ) -> Callable[[], None]:  # fmt: skip
        """Prepare a checkpoint of this moment; calling the returned function writes it as `save` does.

        Another thread may call it while rows are appended and `logs` grow: the checkpoint knows the tables as they are
        now. What is passed must not change until then. A checkpoint is completely on disk, with all that it refers to,
        before it gets its name.
        """
        with self.writing():
            for table in self.tables.values():
                table.flush()
        revised = {name: table.revised for name, table in self.tables.items() if table.revised}
        lengths = {name: table.length for name, table in self.tables.items()}
        known = self._fixed | {name: table.digest for name, table in self.tables.items()}
        own = {"config": self._config, "digests": {name: digest for name, digest in known.items() if digest}}
        own |= {"rows": revised} if revised else {}

        def write() -> None:
            with self.writing():
                final = checkpoints.new_name(files.make_folder(self.path, CHECKPOINTS), round)
                partial = final.with_suffix(".partial")
                files.remove_folder(partial)
                partial.mkdir()
                for table in self.tables.values():
                    table.sync()
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
        """The last complete checkpoint, with the tables cut back to it; None if there is none (tables are emptied).

        Before anything is cut, the folder is compared with the record in the checkpoint.
        """
        whole = checkpoints.written(self.path / CHECKPOINTS, partial=False)
        found = Checkpoint(whole[-1]) if whole else None
        with self.writing():
            lengths = self._checked(found) if found else dict.fromkeys(self.tables, 0)
            for name, length in lengths.items():
                self.tables[name].cut(length)
            for name, text in (found.rows if found else {}).items():
                self.tables[name].write(text)
        self.resumed = found is not None
        return found

    def extend(self) -> None:
        """If the run is to continue beyond its end, mark it as not finished, and write the longer configuration."""
        if not self.extends:
            return
        with self.writing():
            self.reopen()
            self._write_config()
            place = self.path / "environment.json"
            write_document(place, {**read_document(place), "changed": self._changed})
            self._fixed["config.json"] = digest_of_file(self.path / "config.json")
        self.extends = False

    def _checked(self, checkpoint: Checkpoint) -> dict[str, int]:
        """Lengths to which the tables are to be cut; changed configuration, clients and tables are refused."""
        known, changes = checkpoint.digests, []
        if known.get("config.json", self._fixed["config.json"]) != self._fixed["config.json"]:
            now = read_document(self.path / "config.json")
            before = checkpoint.written.get("config")
            changes += [] if grew(before, now, self._growing) else [digests.config_change(before, now)]
        clients = digest_of_file(self.path / "clients.csv")
        if clients and known.get("clients.csv", clients) != clients:
            changes.append("clients.csv was changed since the checkpoint was made")
        lengths = {name: checkpoint.lengths.get(name, 0) for name in self.tables}
        for table, length in lengths.items():
            running = self.tables[table].examine(length)
            lost = running.length < length
            if not lost and known.get(table, running.digest()) == running.digest():
                continue
            changes.append(
                f"{table} has {running.length} bytes, but the checkpoint was made when it had {length}; rows were lost"
                if lost
                else f"{table} was changed since the checkpoint was made"
            )
            lengths[table] = digests.kept_length(self.tables[table].opened(), checkpoint.round)
        digests.report(self.path, changes, self.accept_changes)
        self.accepted = bool(changes)
        return lengths

    def close(self) -> None:
        """Release the files and the lock."""
        try:
            for table in self.tables.values():
                table.close()
            for file in self._readings.values():
                with contextlib.suppress(OSError):
                    file.close()
            self._readings = {}
        finally:
            self._lock.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *failure: object) -> None:
        if any(failure) and not self._begun:
            undo(self.path, (*FILES, trust.ORIGIN, *self.tables), self._made)
        error = next((each for each in failure if isinstance(each, Exception)), None)
        if error is not None and self._appended:  # not for a folder that was refused or a run that was interrupted
            failures.note_failure(self.path, error)
        self.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Raise an error that explains a full disk or a lost folder; the last checkpoint is intact."""
        try:
            yield
        except (OSError, safetensors.SafetensorError, StateFileError) as error:
            if isinstance(error, StateFileError) and not isinstance(error.__cause__, OSError):
                raise  # not about the disk: its own message says what is wrong
            reason = getattr(error, "strerror", None) or str(error)
            raise StateFileError(
                f"cannot write to {self.path}: {reason}. The last good checkpoint is intact; make room, then continue "
                "with --resume, or a Flower app by starting it again."
            ) from error


def _examine(folder: Path, tables: Iterable[str]) -> None:
    """Refuse links, pipes, devices and folders under the names of a run's files, before touching any of them."""
    for name in (*FILES, digests.SEAL, trust.ORIGIN, *tables):
        files.has_file(folder / name)
    for checkpoint in checkpoints.written(folder / CHECKPOINTS):
        files.check_tree(checkpoint)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = ["Checkpoint", "RunFolder", "Saves", "Weights"]
