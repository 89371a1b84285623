"""One thread at a time: a lock for stateful objects that several threads share."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


class Shared:
    """Base of classes that several threads may share: methods marked `exclusive` run one at a time.

    The lock is not part of the object's value: a copy or an unpickled object has its own.

    >>> import copy
    >>> class Counter(Shared):
    ...     count = 0
    ...     @exclusive
    ...     def add(self) -> int:
    ...         self.count += 1
    ...         return self.count
    >>> counter = Counter()
    >>> counter.add(), copy.deepcopy(counter).add()
    (1, 2)
    """

    _lock: threading.RLock

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        made = super().__new__(cls)
        made._lock = threading.RLock()
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}


def exclusive(method: MethodT) -> MethodT:
    """Mark a method of a `Shared` object: while one thread runs it, others wait to enter any method so marked.

    >>> class Idle(Shared):
    ...     @exclusive
    ...     def wait(self) -> str:
    ...         "Waits."
    ...         return "waited"
    >>> Idle().wait(), Idle.wait.__doc__
    ('waited', 'Waits.')
    """

    @functools.wraps(method)
    def alone(self: Shared, *arguments: Any, **named: Any) -> Any:
        with self._lock:
            return method(self, *arguments, **named)

    return cast("MethodT", alone)
