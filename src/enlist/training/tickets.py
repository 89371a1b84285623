"""Turns: numbers that several processes take, one process each, without a lock that a dead process could hold."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from typing import Any

from enlist.engine import context

TICKET = struct.Struct("=I")
ROOM = 4096
"""Bytes that every pipe holds; usually 16 times as many, but not for a user with very many pipes."""


class Tickets:
    """Tickets in a pipe: a process that reads a ticket has taken it; the system ensures that only one process does.

    A process that is stopped or killed at any moment does not block the others; what it has taken is missing from the
    answers, and is dealt again.

    >>> turns = Tickets()
    >>> each = turns.deal(3)
    >>> list(turns.taken(3, each)), list(turns.taken(3, each))
    ([0, 1, 2], [])
    >>> turns.close()
    """

    def __init__(self, preload: str | None = None) -> None:
        start: Any = context(preload)
        self._counter: Any = None
        if sys.platform == "win32":
            self._counter = start.Value("q", 0)
            return
        self._reader, self._writer = start.Pipe(duplex=False)
        os.set_blocking(self._reader.fileno(), False)

    def deal(self, count: int) -> int:
        """Deal `count` turns and withdraw an earlier deal; returns how many share a ticket to fit into the pipe."""
        self.drop()
        if sys.platform == "win32":
            self._counter.value = 0
            return 1
        each = max(-(-count * TICKET.size // self._room()), 1)
        tickets = range(-(-count // each))
        os.write(self._writer.fileno(), b"".join(TICKET.pack(ticket) for ticket in tickets))
        return each

    def taken(self, count: int, each: int) -> Iterator[int]:
        """Numbers below `count` that no other process has taken, as long as there are any."""
        if sys.platform == "win32":
            yield from self._counted(count)
            return
        while True:
            try:
                ticket = os.read(self._reader.fileno(), TICKET.size)
            except BlockingIOError:
                return
            first = TICKET.unpack(ticket)[0] * each
            yield from range(first, min(first + each, count))

    def drop(self) -> None:
        """Withdraw all turns that no process has taken."""
        if sys.platform == "win32":
            with self._counter.get_lock():
                self._counter.value = sys.maxsize // 2
            return
        while True:
            try:
                os.read(self._reader.fileno(), 2**16)
            except BlockingIOError:
                return

    def close(self) -> None:
        """Release the pipe."""
        if sys.platform != "win32":
            self._reader.close()
            self._writer.close()

    def _room(self) -> int:
        if sys.platform != "linux":
            return ROOM
        import fcntl

        return max(fcntl.fcntl(self._writer.fileno(), fcntl.F_GETPIPE_SZ), ROOM)

    def _counted(self, count: int) -> Iterator[int]:
        while True:
            with self._counter.get_lock():
                number = self._counter.value
                self._counter.value = number + 1
            if number >= count:
                return
            yield number
