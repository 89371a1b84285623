"""What processes do in tests: it imports little, so that they start soon."""

from __future__ import annotations

import contextlib
import os
import signal
import weakref
from pathlib import Path
from typing import Any

from enlist.errors import InputError


def once(mark: str, how: str, number: int) -> int:
    """Ten times a number; the first process that is asked, or with `always` every one, kills or stops itself."""
    if how == "always" or not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)
    if number < 0:
        raise InputError(f"{number} is below 0.")
    return 10 * number


def listen(connection: Any) -> None:
    with contextlib.suppress(EOFError):
        connection.recv()


class Held:
    """Something large that tasks share; it knows how many of its kind a process holds."""

    alive: weakref.WeakSet[Held] = weakref.WeakSet()

    def __init__(self) -> None:
        Held.alive.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        Held.alive.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"sent": True}


def held(context: Any) -> int:
    """How many a process holds; leaves a cycle that holds one."""
    cycle: list[Any] = [context.shared]
    cycle.append(cycle)
    return len(Held.alive)
