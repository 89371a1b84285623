"""The catalogue: the items found, the status of each run, versions that reveal changes, one chart style per method."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from enlist._internal.text import printable
from enlist.report.charts import NEUTRAL, Look
from enlist.runs.failures import failures_of
from enlist.ui.cache import ROOM, TableCache, version
from enlist.ui.groups import FILES, GroupStatus, standing
from enlist.ui.index import GROUPS, MOST_ITEMS, RUNS, Index, Item, segment
from enlist.ui.status import RunSummary
from enlist.ui.views.model import NotFoundError

SCAN = 3.0
"""Seconds between searches for new folders, which also check finished runs."""
INTERVAL = 0.4
"""Seconds between checks of unfinished runs."""
MOST_METHODS = 500
"""Most methods that have the same style on all pages; the rest get one per chart."""


class Catalogue:
    """Everything that views are made from. `refresh` updates it, and may be called from any thread.

    >>> import tempfile
    >>> from enlist.runs.example import example_run, write_run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = write_run(example_run("oort", seed=2), Path(place) / "mine")
    ...     catalogue = Catalogue([Path(place)])
    ...     changed = catalogue.refresh()
    >>> [summary.method for summary in catalogue.summaries.values()], catalogue.looks
    (['oort'], {'oort': Look(colour='#0b6e99', dash=0)})
    """

    def __init__(self, roots: Sequence[Path], room: int = ROOM) -> None:
        self.roots, self.tables = list(roots), TableCache(room)
        self.index = Index({})
        self.summaries: dict[str, RunSummary] = {}
        self.members: dict[str, list[RunSummary]] = {}
        """Ids of groups -> all runs below them."""
        self.groups: dict[str, GroupStatus] = {}
        """The status of groups."""
        self.failures: dict[str, str] = {}
        """Ids of failed runs -> why, according to their comparisons."""
        self.versions: dict[str, str] = {}
        self.number = 0
        """The number of the last change."""
        self.looks: dict[str, Look] = {}
        """The style of each method in all charts."""
        self._looks = map(Look.of, itertools.count())
        self._scanned = self._refreshed = -1e9
        self._lock = threading.Lock()

    def due(self) -> bool:
        """Whether it is time to check again."""
        return time.monotonic() - self._refreshed >= INTERVAL

    def refresh(self) -> set[str]:
        """Check the folders; returns the ids of changed items and of everything that they belong to."""
        with self._lock:
            began = time.monotonic()
            whole = began - self._scanned >= SCAN
            if whole:
                self.index = Index.of(self.roots)
                self.failures = _failures(self.index)
                self._scanned = time.monotonic()
            items = self.index.items
            summaries, versions = dict(self.summaries) if not whole else {}, {}
            for item in items.values():
                if item.kind not in RUNS:
                    continue
                known = self.summaries.get(item.id)
                if not whole and known is not None and known.status.state == "finished":
                    versions[item.id] = self.versions[item.id]
                    continue
                written = version(item)
                summary = self._judged(self.tables.summary(item, written))
                summaries[item.id] = summary
                versions[item.id] = f"{written}-{summary.status.state}"
            members = self._members(summaries)
            groups = self._standing(members, whole)
            versions |= self._of_groups(versions, members, groups)
            changed = {id for id, found in versions.items() if self.versions.get(id) != found}
            changed |= self.versions.keys() - versions.keys()
            self.summaries, self.versions = summaries, versions
            self.members, self.groups = members, groups
            self._look([each.method for each in summaries.values() if each.item.kind != "personal"])
            self.number += bool(changed)
            self._refreshed = time.monotonic()
            return changed

    def _members(self, summaries: dict[str, RunSummary]) -> dict[str, list[RunSummary]]:
        found: dict[str, list[RunSummary]] = {}
        for summary in summaries.values():
            parent = summary.item.parent
            while parent is not None and parent in self.index.items:
                found.setdefault(parent, []).append(summary)
                parent = self.index.items[parent].parent
        return found

    def _standing(self, members: dict[str, list[RunSummary]], whole: bool) -> dict[str, GroupStatus]:
        """The status of groups. Studies are checked along with new folders: their experiments are counted."""
        items = [item for item in self.index.items.values() if item.kind not in RUNS]
        inside: dict[str, list[Item]] = {}
        for item in items:
            inside.setdefault(item.parent or "", []).append(item)
        found = {}
        for item in items:
            known = self.groups.get(item.id) if item.kind == "study" and not whole else None
            lost = list(self.missing([item]).values())
            found[item.id] = known or standing(item, inside.get(item.id, []), members.get(item.id, []), lost)
        return found

    def _of_groups(
        self, runs: dict[str, str], members: dict[str, list[RunSummary]], groups: dict[str, GroupStatus]
    ) -> dict[str, str]:
        """Versions of groups: they change when a run does, when their own files do, and when they stall."""
        found = {}
        for id, now in groups.items():
            own = [f"{version(self.index.items[id], FILES)} {now.state} {now.done} {now.failed}"]
            inside = [f"{summary.item.id} {runs[summary.item.id]}" for summary in members.get(id, ())]
            found[id] = _digest([*own, *inside])
        return found

    def look(self, methods: Iterable[str]) -> Mapping[str, Look]:
        """Assign styles to these methods, as to those of runs; returns the styles of all."""
        with self._lock:
            self._look(methods)
            return self.looks

    def _look(self, methods: Iterable[str]) -> None:
        found = dict(self.looks)  # other threads may be reading it
        for name in methods:
            if name and name not in found and len(found) < MOST_METHODS:
                found[name] = Look(NEUTRAL[name]) if name in NEUTRAL else next(self._looks)
        self.looks = found

    def item(self, id: str, kinds: Sequence[str] = ()) -> Item:
        """The item of an id, which must be of one of these kinds."""
        found = self.index.items.get(id)
        if found is None:
            raise NotFoundError("there is nothing of that name in the given folders; it may have been removed.")
        if kinds and found.kind not in kinds:
            raise NotFoundError(f"{found.id} is a {found.kind}; this page shows a {kinds[0]}.")
        return found

    def summary(self, item: Item) -> RunSummary:
        """The status of a run."""
        return self.summaries.get(item.id) or self._judged(self.tables.summary(item))

    def _judged(self, summary: RunSummary) -> RunSummary:
        """Mark a run that is not running as failed, if its comparison says so."""
        why = self.failures.get(summary.item.id)
        if why is None or summary.status.state != "stalled":
            return summary
        return dataclasses.replace(summary, status=dataclasses.replace(summary.status, state="failed", why=why))

    def missing(self, items: Sequence[Item]) -> dict[str, str]:
        """Runs of these items that failed before they had a folder -> why."""
        if not self.failures:
            return {}
        inside = tuple(f"{item.id}/" for item in items)
        return {id: why for id, why in self.failures.items() if id.startswith(inside) and id not in self.index.items}

    def version(self, items: Sequence[Item]) -> str:
        """A text that changes when any of the items does."""
        return _digest([f"{item.id} {self.versions.get(item.id, '')}" for item in items])


def _failures(index: Index) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in index.items.values():
        if item.kind in GROUPS.values():
            for path, why in failures_of(item.folder).items():
                found[f"{item.id}/{'/'.join(map(segment, path.split('/')))}"] = printable(why, 400)
    return dict(itertools.islice(found.items(), MOST_ITEMS))


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:16]
