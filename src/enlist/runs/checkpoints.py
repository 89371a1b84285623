"""Checkpoints of a run: their names, which distinguish them from anything else there, and how to read one."""

from __future__ import annotations

import copy
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import safetensors
import safetensors.numpy

from enlist import storage
from enlist._internal import files
from enlist._internal.typing import AnyArray
from enlist.contract import Selector
from enlist.errors import StateFileError

CHECKPOINTS = "checkpoints"
"""Name of the folder of all checkpoints in a run folder."""
NAME = re.compile(r"([0-9]{8}|[1-9][0-9]{8,})(?:-([0-9]{2}))?(\.partial)?", re.ASCII)
"""The names that a run gives to its checkpoints; anything with another name does not belong to it."""
WEIGHTS = re.compile(r"[\w-]+\.safetensors", re.ASCII)

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


def new_name(places: Path, round: int) -> Path:
    """The name of the next checkpoint of this round.

    >>> new_name(Path("run/checkpoints"), 12).name
    '00000012'
    """
    names = [f"{round:08d}", *(f"{round:08d}-{again:02d}" for again in range(1, 100))]
    free = (places / name for name in names if not os.path.lexists(places / name))
    found = next(free, None)
    if found is None:
        raise StateFileError(f"{places} holds {len(names)} checkpoints of round {round}; remove the older ones.")
    return found


def written(places: Path, partial: bool = True) -> list[Path]:
    """The checkpoints that a run wrote into this folder, the last one last; links among them are an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("00000012-01", "00000012", "00000003-best", "00000013.partial"):
    ...         (Path(folder) / name).mkdir()
    ...     [path.name for path in written(Path(folder))], [path.name for path in written(Path(folder), partial=False)]
    (['00000012', '00000012-01', '00000013.partial'], ['00000012', '00000012-01'])
    """
    return [path for _, path in sorted(_numbered(places)) if partial or path.suffix != ".partial"]


def _numbered(places: Path) -> Iterator[tuple[tuple[int, int], Path]]:
    if not files.has_folder(places):
        return
    for path in places.iterdir():
        found = NAME.fullmatch(path.name)
        if found and files.has_folder(path):
            yield (int(found[1]), int(found[2] or 0)), path


class Checkpoint:
    """A checkpoint that was read.

    >>> import tempfile
    >>> import numpy as np
    >>> from enlist.runs.folder import RunFolder
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with RunFolder.open(Path(place) / "run", {"seed": 1}, resume=False) as folder:
    ...         folder.save(3, {"round": 3}, {"lag": np.arange(2)}, {"model": {"bias": np.ones(1)}}, {})
    ...         found = folder.load()
    >>> found.header["round"], found.arrays["lag"], found.weights["model"]["bias"]
    (3, array([0, 1]), array([1.]))
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files.check_tree(folder)
        self.header, self.arrays = storage.read(folder / "state", "run")
        try:
            self.round, self.lengths = int(self.header["round"]), _numbers(self.header["tables"])
            checksums = dict(self.header["checksums"])
            self.written: Mapping[str, Any] = dict(self.header.get("folder", {}))
            self.digests = dict(self.written.get("digests", {}))
            self.rows = {str(table): str(row) for table, row in dict(self.written.get("rows", {})).items()}
            """Last rows of tables that are not part of their recorded length."""
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise StateFileError(
                f"{folder} is not a checkpoint of a run ({error!r}); restore it from a copy."
            ) from None
        try:
            for name, known in checksums.items():
                if not WEIGHTS.fullmatch(name) or checksum(folder / name) != known:
                    raise StateFileError(f"{folder / name} is truncated or was altered; restore it from a copy.")
            self.weights: dict[str, dict[str, AnyArray]] = {
                name.removesuffix(".safetensors"): safetensors.numpy.load_file(folder / name) for name in checksums
            }
        except (OSError, safetensors.SafetensorError) as error:
            raise StateFileError(f"{folder} cannot be read: {error}; restore it from a copy.") from None


def last(folder: Path) -> Checkpoint:
    """The last complete checkpoint of a run folder.

    >>> last(Path("no/such/run"))
    Traceback (most recent call last):
    ...
    enlist.errors.StateFileError: no/such/run holds no checkpoint; the run has not been saved yet.
    """
    whole = written(folder / CHECKPOINTS, partial=False)
    if not whole:
        raise StateFileError(f"{folder} holds no checkpoint; the run has not been saved yet.")
    return Checkpoint(whole[-1])


def checksum(path: Path) -> str:
    """The SHA-256 of a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "empty").touch()
    ...     checksum(Path(folder) / "empty")[:12]
    'e3b0c44298fc'
    """
    with os.fdopen(files.descriptor(path, os.O_RDONLY), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def snapshot(selector: Selector[Any, Any]) -> Saves:
    """The current state of a selector, to be saved later; a selector with its own way to save itself is copied whole.

    >>> import enlist
    >>> type(snapshot(enlist.create("random", enlist.Clients(count=9)))).__name__
    'Snapshot'
    """
    return storage.Snapshot(selector) if type(selector).save is Selector.save else copy.deepcopy(selector)


def _numbers(table: Mapping[str, Any]) -> dict[str, int]:
    found = {name: int(value) for name, value in table.items()}
    if min(found.values(), default=0) < 0:
        raise ValueError("a negative length")
    return found
