"""The decisions of a federation, recorded for replay: same replies, same selections.

Each segment holds the selector as it was when the segment began, and a log of everything it was asked and told since.
When a segment gets long, a new one begins. Only the last two are kept, so disk use is bounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from enlist import selectors, storage
from enlist._internal import files
from enlist._internal.typing import IntArray
from enlist.books import replay_lines
from enlist.contract import Selector
from enlist.errors import InputError
from enlist.flower.selector import FunctionSelector
from enlist.records import Selection
from enlist.runs.digests import Running, report

LONGEST_SEGMENT = 16_000_000
"""Bytes of a log after which a new segment begins."""

LOG = "decisions.jsonl"
SEGMENT = re.compile("[0-9]{8}")


class Decisions:
    """The folder `decisions` of a run.

    >>> import enlist, tempfile
    >>> place = Path(tempfile.mkdtemp()) / "decisions"
    >>> books = enlist.Books(enlist.create("ucb", enlist.Clients(count=6), seed=3))
    >>> books.log = Decisions(place).begin(books.selector)
    >>> for _ in range(4):
    ...     picked = books.ask(k=2)
    ...     books.settle(picked, enlist.Feedback(accuracy_gain=0.1 * picked.clients))
    >>> len(replay(place.parent))
    4
    """

    def __init__(self, folder: Path, accept_changes: bool = False) -> None:
        self.folder, self.accept_changes = folder, accept_changes
        self._followed: tuple[Path, Running] | None = None
        for segment in self.segments():
            files.check_tree(segment)

    def segments(self) -> list[Path]:
        """The segments, oldest first; files with other names are ignored."""
        found = self.folder.iterdir() if files.has_folder(self.folder) else ()
        named = (path for path in found if SEGMENT.fullmatch(path.name) and files.has_folder(path))
        return sorted(path for path in named if files.has_folder(path / "selector"))

    def begin(self, selector: Selector[Any, Any]) -> Path:
        """Begin a segment with the current state of the selector; returns the log to write to."""
        before = self.segments()
        segment = files.inside(self.folder, f"{int(before[-1].name) + 1 if before else 1:08d}")
        files.remove_folder(segment)
        selector.save(segment / "selector")
        files.write(segment / LOG, b"")
        for old in before[:-1]:
            files.remove_folder(old)
        return segment / LOG

    def log(self) -> Path | None:
        """The current log."""
        segments = self.segments()
        return segments[-1] / LOG if segments else None

    def position(self) -> dict[str, Any] | None:
        """Length and digest of the log, for a checkpoint, which makes sure that the log is on disk."""
        log = self.log()
        if log is None:
            return None
        with files.open_to_append(log) as file:
            known = self._followed[1] if self._followed is not None and self._followed[0] == log else Running()
            known.follow(file)
        self._followed = log, known
        return {"segment": log.parent.name, "length": known.length, "sha256": known.digest()}

    def full(self) -> bool:
        """Whether a new segment should begin."""
        log = self.log()
        return log is not None and log.stat().st_size > LONGEST_SEGMENT

    def cut(self, position: dict[str, Any] | None) -> Path | None:
        """Cut the log back to a checkpoint; returns the log to write to, or None if a new segment must begin."""
        keep = None
        for segment in self.segments():
            if position is None or segment.name > position["segment"]:
                files.remove_folder(segment)
            elif segment.name == position["segment"]:
                keep = segment / LOG
        if keep is None or position is None or not files.has_file(keep):
            return None
        with files.open_to_append(keep) as file:
            found = Running.of(file, position["length"])
            if found.length < position["length"]:
                return None
            if position.get("sha256", found.digest()) != found.digest():
                changed = f"{keep.relative_to(self.folder.parent)} was changed since the checkpoint was made"
                report(self.folder.parent, [changed], self.accept_changes)
            os.ftruncate(file.fileno(), position["length"])
        self._followed = keep, found
        return keep


def replay(
    folder: str | PathLike[str], kind: type[Selector[Any, Any]] | None = None, **functions: Callable[..., Any]
) -> list[tuple[Selection, IntArray]]:
    """Replay the recorded federation in `folder` with the selector alone; returns its and the recorded selections.

    A selection that differs is an error. Pass a selector class that is not registered as `kind`, and settings that
    were functions by name. An incomplete last line, as a killed server leaves it, is skipped.

    >>> replay("no/such/folder")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: no/such/folder holds no recorded decisions; name the folder that with_selector was given.
    """
    found: list[tuple[Selection, IntArray]] = []
    segments = Decisions(Path(folder) / "decisions").segments()
    if not segments:
        raise InputError(f"{folder} holds no recorded decisions; name the folder that with_selector was given.")
    for segment in segments:
        start = segment / "selector"
        function = storage.saved_name(start) == FunctionSelector.name
        cls = kind or (FunctionSelector if function else selectors.saved_kind(start))
        text = files.read(segment / LOG).decode()
        lines = text[: text.rfind("\n") + 1].splitlines()
        found += replay_lines(lines, storage.load(start, cls, functions), str(segment / LOG))
    return found
