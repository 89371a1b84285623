"""SHA-256 digests of a run folder's configuration and tables, which reveal that somebody else changed them.

A checkpoint holds the digests of config.json, of clients.csv and of each table up to its length at the time; a
finished run leaves digests.json, with those of the whole tables and of result.json. They reveal files that were
edited, damaged or lost; they are no protection against deliberate forgery.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from enlist import storage
from enlist._internal import files
from enlist.errors import StateFileError

LOGGER = logging.getLogger("enlist.runs")
SEAL = "digests.json"
"""Written when a run is finished."""
UNSEALED = (SEAL, "wall.csv", "timing.csv", "environment.json", "origin.json")
"""Tables and documents that digests.json does not cover: what differs from run to run, and itself."""
BLOCK = 1 << 20
WAY_OUT = "restore it from a copy, or accept what is there with --accept-changes (in Python accept_changes=True)."
ACCEPTING: contextvars.ContextVar[bool] = contextvars.ContextVar("ACCEPTING", default=False)
"""Whether folders that are opened without an explicit choice accept changes made to them."""


@contextlib.contextmanager
def accepting_changes(accept: bool) -> Iterator[None]:
    """Within the block, folders opened by any code accept changes made to them, or do not.

    >>> with accepting_changes(True):
    ...     ACCEPTING.get()
    True
    """
    token = ACCEPTING.set(accept)
    try:
        yield
    finally:
        ACCEPTING.reset(token)


class Difference(NamedTuple):
    """The first key at which two configurations differ, with both values; None where there is no value.

    >>> first_difference({"rounds": {"k": 3}}, {"rounds": {"k": 4}})
    Difference(key='rounds.k', before=3, now=4)
    """

    key: str
    before: Any
    now: Any


def first_difference(before: Any, now: Any, key: str = "") -> Difference | None:
    """Where two configurations first differ; None if they do not. A key without a value may be missing.

    >>> first_difference({"seed": 1, "more": None}, {"seed": 1}) is None
    True
    >>> first_difference({"poison": 1}, {"poison": True})
    Difference(key='poison', before=1, now=True)
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in {**before, **now}:
            found = first_difference(before.get(name), now.get(name), f"{key}.{name}" if key else str(name))
            if found is not None:
                return found
        return None
    return None if _same(before, now) else Difference(key, before, now)


def _same(before: Any, now: Any) -> bool:
    if isinstance(before, list | tuple) and isinstance(now, list | tuple):
        return len(before) == len(now) and all(
            first_difference(one, other) is None for one, other in zip(before, now, strict=True)
        )
    if isinstance(before, bool) != isinstance(now, bool):
        return False
    return bool(before == now or (before != before and now != now))  # NaN is not equal to itself


def config_change(before: Any, now: Any) -> str:
    """How a config.json differs from the one, as text, that a checkpoint holds.

    >>> config_change('{"seed": 1}', {"seed": 2})
    'config.json was changed since the checkpoint was made: seed is 2 and was 1'
    """
    try:
        found = first_difference(json.loads(before), now)
    except (TypeError, ValueError):
        found = None
    what = f"{found.key} is {found.now!r} and was {found.before!r}" if found else "it was rewritten"
    return f"config.json was changed since the checkpoint was made: {what}"


class Running:
    """The SHA-256 of a file that only grows: fed with what is appended, so the file is never read again.

    >>> running = Running()
    >>> running.update("round,accuracy\\n")
    >>> running.length, running.digest() == digest_of(b"round,accuracy\\n")
    (15, True)
    """

    def __init__(self) -> None:
        self.length, self._hash = 0, hashlib.sha256()

    @classmethod
    def of(cls, file: TextIO, length: int | None = None) -> Running:
        """The digest of the first `length` bytes of a file, or of all."""
        found = cls()
        with _from_start(file) as binary:
            left = os.fstat(binary.fileno()).st_size if length is None else length
            while left > 0 and (block := binary.read(min(left, BLOCK))):
                found._hash.update(block)
                found.length, left = found.length + len(block), left - len(block)
        return found

    def follow(self, file: TextIO) -> None:
        """Take in what was appended to a file since the last call."""
        with _from_start(file) as binary:
            binary.seek(self.length)
            while block := binary.read(BLOCK):
                self._hash.update(block)
                self.length += len(block)

    def update(self, text: str) -> None:
        """Take in appended text."""
        payload = text.encode()
        self._hash.update(payload)
        self.length += len(payload)

    def digest(self) -> str:
        """The digest of everything so far."""
        return self._hash.copy().hexdigest()


def digest_of(payload: bytes) -> str:
    """The SHA-256 of some bytes, as text.

    >>> digest_of(b"")[:12]
    'e3b0c44298fc'
    """
    return hashlib.sha256(payload).hexdigest()


def digest_of_file(path: Path) -> str:
    """The SHA-256 of a regular file, as text; "" if there is none.

    >>> digest_of_file(Path("no/such/file"))
    ''
    """
    if not files.has_file(path):
        return ""
    with files.open_text(path) as file:
        return Running.of(file).digest()


def kept_length(file: TextIO, round: int) -> int:
    """Length of a table up to the last complete row of this round or an earlier one: where an edited table is cut.

    >>> import tempfile
    >>> with tempfile.TemporaryFile("w+") as file:
    ...     _ = file.write("round,loss\\n1,0.5\\n2,0.25\\n3,0.1")
    ...     file.flush()
    ...     kept_length(file, 2), kept_length(file, 1)
    (24, 17)
    """
    kept = 0
    with _from_start(file) as binary:
        for line in binary:
            first = line.partition(b",")[0]
            if not line.endswith(b"\n") or (first.isdigit() and int(first) > round):
                break
            kept += len(line)
    return kept


def whole_lines(file: TextIO) -> list[bytes]:
    """The lines of a table that are complete.

    >>> import tempfile
    >>> with tempfile.TemporaryFile("w+") as file:
    ...     _ = file.write("round,loss\\n1,0.5\\n2,0.")
    ...     file.flush()
    ...     whole_lines(file)
    [b'round,loss\\n', b'1,0.5\\n']
    """
    with _from_start(file) as binary:
        return [line for line in binary if line.endswith(b"\n")]


def _from_start(file: TextIO) -> BinaryIO:
    """The same open file, to be read from its beginning; what is appended still goes to its end."""
    binary = os.fdopen(os.dup(file.fileno()), "rb")
    binary.seek(0)
    return binary


def write_seal(folder: Path, digests: Mapping[str, str]) -> None:
    """Write the digests of a finished run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files.write(Path(folder) / "rounds.csv", b"round\\n")
    ...     write_seal(Path(folder), {"rounds.csv": digest_of(b"round\\n")})
    ...     changed_since_finished(Path(folder))
    []
    """
    storage.replace(folder / SEAL, (json.dumps(dict(digests), indent=1) + "\n").encode())


def changed_since_finished(folder: Path) -> list[str]:
    """The files of a finished run that were changed; none for a run of version 0.1, which left no digests.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files.write(Path(folder) / "rounds.csv", b"round\\n")
    ...     write_seal(Path(folder), {"rounds.csv": digest_of(b"ruond\\n")})
    ...     changed_since_finished(Path(folder))
    ['rounds.csv']
    """
    if not files.has_file(folder / SEAL):
        return []
    try:
        known = dict(json.loads(files.read(folder / SEAL)))
    except (ValueError, TypeError, RecursionError):
        return [SEAL]
    if any(Path(name).name != name for name in known):
        return [SEAL]
    return [name for name, digest in known.items() if digest_of_file(folder / name) != digest]


def check_finished(folder: Path, accept_changes: bool = False) -> None:
    """Refuse a finished run whose files were changed; if changes are accepted, log them, and use the files as they are.

    >>> check_finished(Path("no/such/run"))
    """
    changed = changed_since_finished(folder)
    if not changed:
        return
    report(folder, [f"{name} was changed after the run was finished" for name in changed], accept_changes)
    there = sorted(path for path in folder.iterdir() if path.suffix in (".csv", ".json") and path.name not in UNSEALED)
    write_seal(folder, {path.name: digest_of_file(path) for path in there})


def report(folder: Path, changes: Iterable[str], accept_changes: bool) -> None:
    """Refuse changes with one sentence that names them all; if they are accepted, log it.

    >>> report(Path("run"), ["rounds.csv was changed"], accept_changes=False)
    Traceback (most recent call last):
    ...
    enlist.errors.StateFileError: run: rounds.csv was changed; restore it from a copy, or accept what is there with ...
    """
    told = "; ".join(changes)
    if not told:
        return
    if not accept_changes:
        raise StateFileError(f"{folder}: {told}; {WAY_OUT}")
    LOGGER.warning("%s: %s; accepted as it is.", folder, told)
