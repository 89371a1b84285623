"""A cache of tables, which are read as they grow, and of summaries of runs; the least recently used go first."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path

from enlist.runs.columns import SCORED
from enlist.runs.failures import FAILURE, FAILURES
from enlist.runs.following import TableFollower
from enlist.runs.tables import RunTables, Table, read_reasons, read_run
from enlist.ui.index import Item
from enlist.ui.status import RunSummary, summarise

ROOM = 400_000_000
"""Size limit of all cached tables, in bytes."""
MOST_SUMMARIES = 10_000
COLUMNS = (
    *SCORED, "latency", "censored", "num_examples", "loss", "loss_rms", "accuracy", "accuracy_gain", "weight",
    "reason", "user",
)  # fmt: skip
"""Columns of participations that views use."""
FILES = (
    "config.json", "rounds.csv", "participations.csv", "reasons.csv", "clients.csv", "result.json", "events.csv",
    "starts.csv", "shadow.csv", "arms.csv", "verdict.md", "results.csv", "lock", FAILURE, FAILURES,
)  # fmt: skip
"""Files whose change gives an item a new version."""
AGAIN = 2.0
"""Seconds after which the status of an unfinished run is checked again, even if nothing was written."""


def version(item: Item, names: Collection[str] = FILES) -> str:
    """A short text that changes when any file of an item does.

    >>> len(version(Item("a", "run", Path("no/such/run"), Path("no"))))
    12
    """
    found, folder = [], str(item.folder)  # paths as text: this runs for every file of hundreds of runs
    for name in names:
        try:
            stat = os.lstat(f"{folder}/{name}")
            found.append((name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            continue
    return hashlib.sha256(repr(found).encode()).hexdigest()[:12]


class TableCache:
    """Tables and summaries by item. Safe to use from several threads.

    >>> import tempfile
    >>> from enlist.runs.example import example_run, write_run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = write_run(example_run("oort", seed=2), Path(place) / "mine")
    ...     tables = TableCache()
    ...     item = Item("mine", "run", folder, folder)
    ...     tables.run(item).name, tables.summary(item).status.state, 0 < tables.size < 100_000
    ('oort, seed 2', 'finished', True)
    """

    def __init__(self, room: int = ROOM) -> None:
        self.room, self.size = room, 0
        """The size limit of cached tables and their current size, in bytes."""
        self._tables: OrderedDict[tuple[str, str], tuple[TableFollower, threading.Lock]] = OrderedDict()
        self._sizes: dict[tuple[str, str], int] = {}
        self._summaries: OrderedDict[str, tuple[str, float, RunSummary]] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, item: Item, reasons: bool = False) -> RunTables:
        """The current state of a run; `reasons` includes its reasons, read as they grow."""
        item.check()
        run = read_run(item.folder, COLUMNS, self.read)
        return dataclasses.replace(run, kept=read_reasons(item.folder, run.rounds, self.read)) if reasons else run

    def summary(self, item: Item, found: str | None = None) -> RunSummary:
        """The summary of a run; read again after a write or, unless the run is finished, after two seconds."""
        now, found = time.time(), version(item) if found is None else found
        with self._lock:
            known = self._summaries.get(item.id)
        if known and known[0] == found and (known[2].status.state == "finished" or now - known[1] < AGAIN):
            return known[2]
        # Tables for overviews are not kept once a run is finished: there may be thousands of them.
        new = summarise(item, self.read, now)
        if new.status.state in ("finished", "damaged"):
            self._forget(item.folder / "rounds.csv")
        with self._lock:
            self._summaries[item.id] = (found, now, new)
            self._summaries.move_to_end(item.id)
            while len(self._summaries) > MOST_SUMMARIES:
                self._summaries.popitem(last=False)
        return new

    def read(self, path: Path, columns: Collection[str] | None, text: Collection[str]) -> Table:
        """A table; only new rows are read."""
        key = (str(path), ",".join(sorted(columns)) if columns is not None else "")
        with self._lock:
            following, lock = self._tables.get(key) or (TableFollower(path, columns, text), threading.Lock())
            self._tables[key] = (following, lock)
            self._tables.move_to_end(key)
        with lock:
            table = following.read()
            size = following.size
        with self._lock:
            if key in self._tables:
                self.size += size - self._sizes.get(key, 0)
                self._sizes[key] = size
            while len(self._tables) > 1 and self.size > self.room:
                self._drop(next(iter(self._tables)))
        return table

    def _forget(self, path: Path) -> None:
        with self._lock:
            self._drop((str(path), ""))

    def _drop(self, key: tuple[str, str]) -> None:
        self._tables.pop(key, None)
        self.size -= self._sizes.pop(key, 0)
