"""Work that the server does while workers train, and that no later round depends on."""

from __future__ import annotations

import collections
from collections.abc import Callable

Errand = Callable[[], None]


class IdleTasks:
    """Errands that wait until there is nothing else to do; this thread does them in order.

    If one fails, the others are dropped, because they may depend on it: a checkpoint refers to rows that were to be
    written before it.

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
        """Do all waiting errands now."""
        try:
            while self.waiting:
                self.waiting.popleft()()
        except BaseException:
            self.waiting.clear()
            raise

    def attempt(self) -> Exception | None:
        """The same, but return the error, for a caller that has something to finish first."""
        try:
            self.run()
        except Exception as error:
            return error
        return None
