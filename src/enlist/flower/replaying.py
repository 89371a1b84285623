"""The decisions of a federation, kept so that they can be played back: same replies, same selections.

Each segment holds the selector as it was when the segment began, and a log of everything it was asked and told since.
A segment that has become long is followed by a new one, and only the last two are kept, so disk use is bounded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from enlist import selectors, storage
from enlist.books import replay_lines
from enlist.contract import Selector
from enlist.errors import InputError
from enlist.flower.choosers import FunctionSelector
from enlist.records import Selection
from enlist.typing import IntArray

LONGEST_SEGMENT = 16_000_000
"""Bytes of a log after which a new segment begins."""

LOG = "decisions.jsonl"


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

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def segments(self) -> list[Path]:
        """The segments, oldest first."""
        found = self.folder.iterdir() if self.folder.exists() else ()
        return sorted(path for path in found if path.name.isdigit() and (path / "selector").exists())

    def begin(self, selector: Selector[Any, Any]) -> Path:
        """Begin a segment with the selector as it is now; returns the log to write to."""
        before = self.segments()
        segment = self.folder / f"{int(before[-1].name) + 1 if before else 1:08d}"
        shutil.rmtree(segment, ignore_errors=True)
        selector.save(segment / "selector")
        (segment / LOG).touch()
        for old in before[:-1]:
            shutil.rmtree(old, ignore_errors=True)
        return segment / LOG

    def position(self) -> dict[str, Any] | None:
        """Where the log ends now, safely on disk: for a checkpoint."""
        segments = self.segments()
        if not segments:
            return None
        with open(segments[-1] / LOG, "ab") as file:
            os.fsync(file.fileno())
            return {"segment": segments[-1].name, "length": file.tell()}

    def full(self) -> bool:
        """Whether a new segment should begin."""
        segments = self.segments()
        return bool(segments) and (segments[-1] / LOG).stat().st_size > LONGEST_SEGMENT

    def cut(self, position: dict[str, Any] | None) -> Path | None:
        """Go back to where a checkpoint was made; returns the log to write to, None if a segment has to begin."""
        keep = None
        for segment in self.segments():
            if position is None or segment.name > position["segment"]:
                shutil.rmtree(segment, ignore_errors=True)
            elif segment.name == position["segment"]:
                keep = segment / LOG
        if keep is None or position is None or keep.stat().st_size < position["length"]:
            return None
        os.truncate(keep, position["length"])
        return keep


def replay(
    folder: str | PathLike[str], kind: type[Selector[Any, Any]] | None = None, **functions: Callable[..., Any]
) -> list[tuple[Selection, IntArray]]:
    """Play the recorded federation in `folder` into the bare selector; per round, its selection and the recorded one.

    A selection that differs is an error. A selector class that is not registered is passed as `kind`, and settings
    that were functions are passed again by name. A last line without an end, as a killed server leaves it, is left out.

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
        name = storage.saved_name(start)
        cls = kind or (FunctionSelector if name == FunctionSelector.name else selectors.get(name))
        text = (segment / LOG).read_text(encoding="utf-8")
        lines = text[: text.rfind("\n") + 1].splitlines()
        found += replay_lines(lines, storage.load(start, cls, functions), str(segment / LOG))
    return found
