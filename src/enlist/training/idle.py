"""What is done while workers train: work of the server that no later round depends on."""

from __future__ import annotations

import collections
from collections.abc import Callable

Errand = Callable[[], None]


class IdleTasks:
    """Errands that wait for a moment in which there is nothing else to do; they are done in order, by this thread.

    After one that fails the others are dropped, because they may rest on it: a checkpoint refers to the rows that were
    to be written before.

    >>> errands = IdleTasks()
    >>> errands.add(lambda: print("written"))
    >>> errands.run()
    written
    """

    def __init__(self) -> None:
        self.waiting: collections.deque[Errand] = collections.deque()

    def add(self, errand: Errand) -> None:
        """Do something later."""
        self.waiting.append(errand)

    def run(self) -> None:
        """Do now whatever waits."""
        try:
            while self.waiting:
                self.waiting.popleft()()
        except BaseException:
            self.waiting.clear()
            raise

    def attempt(self) -> Exception | None:
        """The same; returns what went wrong, for a caller that has something to bring to an end first."""
        try:
            self.run()
        except Exception as error:
            return error
        return None
