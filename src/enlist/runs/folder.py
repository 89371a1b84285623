"""The run folder: configuration, append-only tables, checkpoints. One writer; never overwritten silently.

A checkpoint is a folder of its own that appears by one rename and records how long the tables were. Resuming cuts
the rows beyond it and runs those rounds again, so a run that was killed at any moment ends like one that was not.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import io
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
import safetensors
import safetensors.numpy

from enlist import storage
from enlist.errors import InputError, StateFileError
from enlist.typing import AnyArray

ROUNDS = (
    "round", "start", "duration", "end", "available", "asked", "completed", "late", "dropped", "failed", "arrived",
    "deadline", "accuracy", "loss", "validation_accuracy", "validation_loss", "train_loss", "bytes_down", "bytes_up",
)  # fmt: skip
PARTICIPATIONS = (
    "round", "selected_in", "client", "outcome", "latency", "censored", "download", "compute", "upload", "samples",
    "loss", "loss_rms", "loss_after", "accuracy", "accuracy_gain", "rounds_late", "weight",
    "reason",
)  # fmt: skip
TABLES = {"rounds.csv": ROUNDS, "participations.csv": PARTICIPATIONS}
FIRST_FILES = ("lock", ".config.json.")
"""How the names begin that a run killed at its very beginning may have left."""
PACKAGES = ("enlist", "numpy", "scipy", "torch", "scikit-learn", "pydantic", "safetensors", "flwr")

Weights = Mapping[str, Mapping[str, AnyArray]]
"""File in a checkpoint -> name -> array."""


class Saves(Protocol):
    """What writes itself into a folder: a selector, a rule.

    >>> import tempfile
    >>> import enlist
    >>> part: Saves = enlist.create("random", enlist.Clients(count=3), seed=1)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     part.save(Path(place) / "selector")
    ...     len(list((Path(place) / "selector").iterdir())) > 0
    True
    """

    def save(self, folder: Path, /) -> None:
        """Write everything that is needed to continue."""


class RunFolder:
    """Writes a run. `open` it with a configuration: a new folder, or with resume=True one that was interrupted.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with RunFolder.open(Path(place) / "run", {"seed": 1}, resume=False) as folder:
    ...         folder.append("rounds.csv", [{"round": 1, "accuracy": float("nan"), "duration": 2.5}])
    ...     (Path(place) / "run" / "rounds.csv").read_text().splitlines()[1][:9]
    '1,,2.5,,,'
    """

    def __init__(self, path: Path, lock: TextIO, tables: Mapping[str, Sequence[str]] = TABLES) -> None:
        self.path, self.tables, self._lock = path, tables, lock
        self._files: dict[str, TextIO] = {}

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        config: Mapping[str, Any],
        *,
        resume: bool,
        tables: Mapping[str, Sequence[str]] = TABLES,
    ) -> RunFolder:
        """Make the folder, or continue in it after checking that it is the same run; `tables` name their columns."""
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = open(folder / "lock", "a")  # noqa: SIM115
        except OSError as error:
            raise InputError(f"{folder} cannot be written ({error.strerror}); name another folder.") from None
        try:
            _claim(lock, folder)
            saved = folder / "config.json"
            if saved.exists() and not resume:
                raise InputError(f"{folder} already holds a run; continue it with --resume, or name a new folder.")
            if saved.exists():
                _same_config(folder, _read(saved), config)
            elif any(not other.name.startswith(FIRST_FILES) for other in folder.iterdir()):
                raise InputError(f"{folder} is not empty and holds no run; name a new folder.")
            run = cls(folder, lock, tables)
            run._start(config)
        except BaseException:
            lock.close()
            raise
        return run

    def _start(self, config: Mapping[str, Any]) -> None:
        with self.writing():
            if not (self.path / "config.json").exists():
                _write(self.path / "config.json", config)
            if not (self.path / "environment.json").exists():
                _write(self.path / "environment.json", _environment())

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a table; a missing or NaN value is an empty cell."""
        columns = self.tables[table]
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([[_cell(row.get(name)) for name in columns] for row in rows])
        with self.writing():
            file = self._file(table)
            file.write(buffer.getvalue())
            file.flush()

    def write_clients(self, columns: Mapping[str, AnyArray]) -> None:
        """Write clients.csv, once."""
        path = self.path / "clients.csv"
        if path.exists():
            return
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in rows)
        with self.writing():
            storage.replace(path, buffer.getvalue().encode())

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write result.json: the run is finished."""
        with self.writing():
            _write(self.path / "result.json", result)

    def note_wall(self, round: int, seconds: float) -> None:
        """Append to wall.csv, which is outside the promise of equal bits."""
        with self.writing(), open(self.path / "wall.csv", "a", encoding="utf-8") as file:
            if not file.tell():
                file.write("round,seconds\n")
            file.write(f"{round},{seconds:.6f}\n")

    def save(
        self, round: int, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], weights: Weights,
        parts: Mapping[str, Saves],
    ) -> None:  # fmt: skip
        """Write a checkpoint; the one before is removed only when this one is whole.

        `header` and `arrays` go into the folder "state", each of `weights` into a safetensors file of its name, and
        each of `parts` saves itself into a folder of its name.
        """
        places = self.path / "checkpoints"
        final = next(path for path in _names(places, round) if not path.exists())
        partial = final.with_suffix(".partial")
        with self.writing():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            lengths = {table: _length(self.path / table) for table in self.tables}
            for name, part in parts.items():
                part.save(partial / name)
            files = [f"{name}.safetensors" for name in weights]
            for file_name, values in zip(files, weights.values(), strict=True):
                safetensors.numpy.save_file(dict(values), partial / file_name)
                _sync(partial / file_name)
            sums = {name: _checksum(partial / name) for name in files}
            content = {**header, "round": round, "tables": lengths, "checksums": sums}
            storage.write(partial / "state", "run", content, dict(arrays))
            os.rename(partial, final)
            _sync(final.parent)
            for other in sorted(final.parent.iterdir()):
                if other != final:
                    shutil.rmtree(other, ignore_errors=True)

    def load(self) -> Checkpoint | None:
        """The last whole checkpoint, with the tables cut back to it; None if there is none (tables are emptied)."""
        folder = self.path / "checkpoints"
        whole = sorted(path for path in folder.iterdir() if path.suffix != ".partial") if folder.exists() else []
        found = Checkpoint(whole[-1]) if whole else None
        with self.writing():
            for table in self.tables:
                self._cut(table, found.header["tables"][table] if found else 0)
        return found

    def close(self) -> None:
        """Release the files and the lock."""
        try:
            for file in self._files.values():
                with contextlib.suppress(OSError):  # a full disk was reported when the rows were appended
                    file.close()
            self._files = {}
        finally:
            self._lock.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A full disk or a lost folder is an error that says so; the last checkpoint is intact."""
        try:
            yield
        except (OSError, safetensors.SafetensorError, StateFileError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise StateFileError(
                f"cannot write to {self.path}: {reason}. The last good checkpoint is intact; make room, then continue "
                "with --resume, or a Flower app by starting it again."
            ) from error

    def _file(self, table: str) -> TextIO:
        if table not in self._files:
            path = self.path / table
            fresh = not path.exists() or not path.stat().st_size
            self._files[table] = open(path, "a", encoding="utf-8", newline="")  # noqa: SIM115
            if fresh:
                self._files[table].write(",".join(self.tables[table]) + "\n")
                self._files[table].flush()
        return self._files[table]

    def _cut(self, table: str, length: int) -> None:
        path = self.path / table
        present = _length(path)
        if present < length:
            raise StateFileError(
                f"{path} has {present} bytes, but the checkpoint was made when it had {length}; rows were lost. "
                "Restore the file from a copy."
            )
        if present > length:
            os.truncate(path, length)
        self._file(table)


class Checkpoint:
    """A checkpoint that was read.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with RunFolder.open(Path(place) / "run", {"seed": 1}, resume=False) as folder:
    ...         folder.save(3, {"round": 3}, {"lag": np.arange(2)}, {"model": {"bias": np.ones(1)}}, {})
    ...         found = folder.load()
    >>> found.header["round"], found.arrays["lag"], found.weights["model"]["bias"]
    (3, array([0, 1]), array([1.]))
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header, self.arrays = storage.read(folder / "state", "run")
        try:
            for name, checksum in self.header["checksums"].items():
                if _checksum(folder / name) != checksum:
                    raise StateFileError(f"{folder / name} is truncated or was altered; restore it from a copy.")
            self.weights: dict[str, dict[str, AnyArray]] = {
                name.removesuffix(".safetensors"): safetensors.numpy.load_file(folder / name)
                for name in self.header["checksums"]
            }
        except (OSError, safetensors.SafetensorError) as error:
            raise StateFileError(f"{folder} cannot be read: {error}; restore it from a copy.") from None


def _claim(lock: TextIO, folder: Path) -> None:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            raise InputError(f"{folder} is being written by another process; wait for it, or end it.") from None
        return
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(f"{folder} is being written by another process; wait for it, or end it.") from None


def _same_config(folder: Path, saved: Any, given: Any, path: str = "") -> None:
    if isinstance(saved, dict) and isinstance(given, Mapping):
        for key in {**saved, **given}:
            _same_config(folder, saved.get(key), given.get(key), f"{path}.{key}" if path else key)
    elif saved != json.loads(json.dumps(given)):
        raise InputError(
            f"{folder} holds a run with {path} = {saved!r}, but {given!r} was asked for; resume it with its own "
            "configuration, or name a new folder."
        )


def _names(places: Path, round: int) -> Iterator[Path]:
    """Names for a checkpoint of this round, in the order in which they would be used."""
    yield places / f"{round:08d}"
    for again in range(1, 100):
        yield places / f"{round:08d}-{again:02d}"


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StateFileError(
            f"{path} cannot be read ({error}); restore it from a copy, or name a new folder."
        ) from None


@functools.cache
def _environment() -> dict[str, Any]:
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": found}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else repr(float(value))
    return str(value)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    storage.replace(path, (json.dumps(document, indent=1) + "\n").encode())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
