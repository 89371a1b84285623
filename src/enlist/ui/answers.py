"""A cache of answers: each is made once per version, for all requests, and kept as long as there is room."""

from __future__ import annotations

import asyncio
import gzip
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple

import anyio

ROOM = 64_000_000
"""Size limit of the cache, in bytes."""
SMALL = 1_000
"""Size below which compression is not worth it, in bytes."""
AT_ONCE = 2
"""Most answers made at the same time."""


class Answer(NamedTuple):
    """A body, also compressed, and its version.

    >>> Answer.of("v1", b"text").packed
    b''
    """

    version: str
    body: bytes
    packed: bytes

    @classmethod
    def of(cls, version: str, body: bytes) -> Answer:
        """Compress a body, if it is large."""
        return cls(version, body, gzip.compress(body, 5) if len(body) >= SMALL else b"")


class AnswerCache:
    """Answers by request; the least recently used goes first.

    >>> AnswerCache(room=10).size
    0
    """

    def __init__(self, room: int = ROOM) -> None:
        self.room, self.size = room, 0
        self._answers: OrderedDict[Hashable, Answer] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[Answer]] = {}
        self._places = anyio.CapacityLimiter(AT_ONCE)

    async def get(self, key: Hashable, version: str, make: Callable[[], bytes]) -> Answer:
        """The answer of this version; a request for one that is being made waits for it."""
        found = self._answers.get(key)
        if found is not None and found.version == version:
            self._answers.move_to_end(key)
            return found
        task = self._making.get((key, version))
        if task is None:
            task = asyncio.create_task(self._make(key, version, make))
            self._making[key, version] = task
            task.add_done_callback(lambda _: self._making.pop((key, version), None))
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, version: str, make: Callable[[], bytes]) -> Answer:
        answer = await anyio.to_thread.run_sync(lambda: Answer.of(version, make()), limiter=self._places)
        self._drop(key)
        self._answers[key] = answer
        self.size += _size(answer)
        while self.size > self.room and len(self._answers) > 1:
            self._drop(next(iter(self._answers)))
        return answer

    def _drop(self, key: Hashable) -> None:
        old = self._answers.pop(key, None)
        self.size -= _size(old) if old is not None else 0


def _size(answer: Answer) -> int:
    return len(answer.body) + len(answer.packed)
