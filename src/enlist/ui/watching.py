"""Viewers, and what wakes them: folders are looked at while somebody watches, and whom a change concerns is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from typing import Any

import anyio

from enlist.ui.desk import LOOK, Desk

MOST_VIEWERS = 1_000
HEARTBEAT = 15.0
"""Seconds after which a viewer hears something, so that one that has gone is noticed."""
RETRY = 2_000
"""Milliseconds after which a browser connects again."""


class Viewer:
    """Somebody who watches: the ids that concern them, or none for the overview, which everything concerns.

    >>> Viewer(["a"]).concerned({"b"})
    False
    """

    def __init__(self, ids: Collection[str] = ()) -> None:
        self.ids, self.wake = frozenset(ids), asyncio.Event()

    def concerned(self, changed: set[str]) -> bool:
        """Whether a change is one of what they watch."""
        return not self.ids or not self.ids.isdisjoint(changed)


class Watch:
    """Looks at folders, once for all viewers.

    >>> from enlist.ui.desk import Desk
    >>> Watch(Desk([])).viewers
    set()
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.viewers: set[Viewer] = set()
        self._looking: asyncio.Task[set[str]] | None = None
        self._somebody = asyncio.Event()

    async def look(self) -> None:
        """Bring the desk up to date, unless that was done a moment ago; who asks meanwhile shares the look."""
        if self._looking is None or self._looking.done():
            if not self.desk.due():
                return
            self._looking = asyncio.create_task(self._look())
        await asyncio.shield(self._looking)

    async def _look(self) -> set[str]:
        changed = await anyio.to_thread.run_sync(self.desk.look)
        for viewer in list(self.viewers):
            if changed and viewer.concerned(changed):
                viewer.wake.set()
        return changed

    async def run(self) -> None:
        """Look again and again, as long as somebody watches."""
        while True:
            await self._somebody.wait()
            await self.look()
            await asyncio.sleep(LOOK)

    async def stream(self, viewer: Viewer) -> AsyncIterator[str]:
        """Server-sent events for one viewer, until they go."""
        self.viewers.add(viewer)
        self._somebody.set()
        try:
            yield f"retry: {RETRY}\n{_event('hello', number=self.desk.number)}"
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await viewer.wake.wait()
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                viewer.wake.clear()
                yield _event("change", number=self.desk.number)
        finally:
            self.viewers.discard(viewer)
            if not self.viewers:
                self._somebody.clear()


def _event(name: str, **data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
