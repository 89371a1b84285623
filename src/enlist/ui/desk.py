"""What the server knows: the index, how each run stands, versions by which changes are seen, one colour per method."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from enlist.report.charts import NEUTRAL, many_colours
from enlist.ui.index import RUNS, Index, Item
from enlist.ui.shelf import ROOM, Shelf, version
from enlist.ui.standing import Brief
from enlist.ui.views.model import NotFoundError

SCAN = 3.0
"""Seconds between searches for new folders, in which also finished runs are looked at."""
LOOK = 0.4
"""Seconds between looks at runs that are not finished."""
MOST_METHODS = 500
"""Methods that have a colour of their own; the rest are coloured chart by chart."""


class Desk:
    """Everything that views are made from. `look` brings it up to date; it may be called from any thread.

    >>> import tempfile
    >>> from enlist.runs.example import example_run, write_run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = write_run(example_run("oort", seed=2), Path(place) / "mine")
    ...     desk = Desk([Path(place)])
    ...     changed = desk.look()
    >>> [brief.method for brief in desk.briefs.values()], desk.colours
    (['oort'], {'oort': '#0b6e99'})
    """

    def __init__(self, roots: Sequence[Path], room: int = ROOM) -> None:
        self.roots, self.shelf = list(roots), Shelf(room)
        self.index = Index({})
        self.briefs: dict[str, Brief] = {}
        self.versions: dict[str, str] = {}
        self.number = 0
        """Of the last change."""
        self.colours: dict[str, str] = {}
        self._palette = itertools.cycle(many_colours())
        self._scanned = self._looked = -1e9
        self._lock = threading.Lock()

    def due(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() - self._looked >= LOOK

    def look(self) -> set[str]:
        """Look at folders; returns the ids of what has changed, with all that they belong to."""
        with self._lock:
            began = time.monotonic()
            whole = began - self._scanned >= SCAN
            if whole:
                self.index = Index.of(self.roots)
                self._scanned = time.monotonic()
            items = self.index.items
            briefs, versions = dict(self.briefs) if not whole else {}, {}
            for item in items.values():
                if item.kind not in RUNS:
                    continue
                known = self.briefs.get(item.id)
                if not whole and known is not None and known.standing.state == "finished":
                    versions[item.id] = self.versions[item.id]
                    continue
                brief = self.shelf.brief(item)
                briefs[item.id] = brief
                versions[item.id] = f"{version(item)}-{brief.standing.state}"
            versions |= self._of_groups(versions)
            changed = {id for id, found in versions.items() if self.versions.get(id) != found}
            changed |= self.versions.keys() - versions.keys()
            self.briefs, self.versions = briefs, versions
            self._colour(briefs)
            self.number += bool(changed)
            self._looked = time.monotonic()
            return changed

    def _of_groups(self, runs: dict[str, str]) -> dict[str, str]:
        """Versions of what holds runs: they change when a run does, and when their own files do."""
        inside: dict[str, list[str]] = {}
        for id, found in runs.items():
            parent = self.index.items[id].parent
            while parent is not None:
                inside.setdefault(parent, []).append(f"{id} {found}")
                parent = self.index.items[parent].parent
        groups = [item for item in self.index.items.values() if item.kind not in RUNS]
        return {item.id: _digest([version(item), *inside.get(item.id, [])]) for item in groups}

    def _colour(self, briefs: dict[str, Brief]) -> None:
        for brief in briefs.values():
            name = brief.method
            if name and name not in self.colours and brief.item.kind != "personal" and len(self.colours) < MOST_METHODS:
                self.colours[name] = NEUTRAL.get(name) or next(self._palette)

    def item(self, id: str, kinds: Sequence[str] = ()) -> Item:
        """The item of an id, which must be of one of these kinds."""
        found = self.index.items.get(id)
        if found is None:
            raise NotFoundError(
                "nothing of that name lies below the folders that were given; it may have been removed."
            )
        if kinds and found.kind not in kinds:
            raise NotFoundError(f"{found.id} is a {found.kind}; there it is a {kinds[0]} that is shown.")
        return found

    def brief(self, item: Item) -> Brief:
        """How a run stands."""
        return self.briefs.get(item.id) or self.shelf.brief(item)

    def version(self, items: Sequence[Item]) -> str:
        """A text that changes when one of the items does."""
        return _digest([f"{item.id} {self.versions.get(item.id, '')}" for item in items])


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:16]
