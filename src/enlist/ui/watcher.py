"""The watcher: checks folders while they are viewed, and notifies the viewers that a change concerns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from typing import Any

import anyio

from enlist.ui.catalogue import INTERVAL, Catalogue

MOST_VIEWERS = 1_000
HEARTBEAT = 15.0
"""Maximum seconds between messages to a viewer, so that one that has left is noticed."""
RETRY = 2_000
"""Milliseconds after which a browser reconnects."""


class Viewer:
    """A viewer: the ids that it shows, or none for the overview, which every change concerns.

    >>> Viewer(["a"]).concerned({"b"})
    False
    """

    def __init__(self, ids: Collection[str] = ()) -> None:
        self.ids, self.wake = frozenset(ids), asyncio.Event()

    def concerned(self, changed: set[str]) -> bool:
        """Whether a change concerns this viewer."""
        return not self.ids or not self.ids.isdisjoint(changed)


class Watcher:
    """Checks folders, once for all viewers.

    >>> from enlist.ui.catalogue import Catalogue
    >>> Watcher(Catalogue([])).viewers
    set()
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.viewers: set[Viewer] = set()
        self._refreshing: asyncio.Task[set[str]] | None = None
        self._somebody = asyncio.Event()

    async def refresh(self) -> None:
        """Update the catalogue, unless that was done a moment ago; concurrent calls share one check."""
        if self._refreshing is None or self._refreshing.done():
            if not self.catalogue.due():
                return
            self._refreshing = asyncio.create_task(self._refresh())
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> set[str]:
        changed = await anyio.to_thread.run_sync(self.catalogue.refresh)
        for viewer in list(self.viewers):
            if changed and viewer.concerned(changed):
                viewer.wake.set()
        return changed

    async def run(self) -> None:
        """Check repeatedly, as long as there are viewers."""
        while True:
            await self._somebody.wait()
            await self.refresh()
            await asyncio.sleep(INTERVAL)

    async def stream(self, viewer: Viewer) -> AsyncIterator[str]:
        """Server-sent events for one viewer, until it leaves."""
        self.viewers.add(viewer)
        self._somebody.set()
        try:
            yield f"retry: {RETRY}\n{_event('hello', number=self.catalogue.number)}"
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await viewer.wake.wait()
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                viewer.wake.clear()
                yield _event("change", number=self.catalogue.number)
        finally:
            self.viewers.discard(viewer)
            if not self.viewers:
                self._somebody.clear()


def _event(name: str, **data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
