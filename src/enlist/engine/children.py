"""A process that works for this one: a pipe to it, and a watchdog.

A thread in the process counts up a shared number, whatever the process computes. A thread of the master checks that
number regularly: a process that is stopped, or stuck in the system, is reported and eventually killed. Its pipe
then breaks, which is how the master learns of every death, whatever the cause.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from enlist.engine.leftovers import status
from enlist.engine.starting import BEAT, context, serve_parent
from enlist.errors import EnlistError, InputError

LOGGER = logging.getLogger("enlist")
LOOK = 5.0
"""Seconds between two checks of the children."""
REPORTED = 30.0
"""Seconds of silence after which a child is reported."""
PATIENCE = 600.0
"""Seconds of silence after which a child is killed, unless the environment says otherwise."""
VARIABLE = "ENLIST_PATIENCE"
SCRIPT = "in a script of your own, call this below `if __name__ == '__main__':`"


def patience() -> float:
    """Seconds of silence after which a process is killed and replaced: ENLIST_PATIENCE, else 600.

    >>> patience()
    600.0
    """
    given = os.environ.get(VARIABLE, "")
    if not given:
        return PATIENCE
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not seconds >= 4 * BEAT:
        raise InputError(
            f"{VARIABLE} is {given!r}; give the seconds of silence after which a process is replaced, at least "
            f"{4 * BEAT:g}, or inf for never."
        )
    return seconds


class Child:
    """A process that runs `target(connection, *arguments)`, as its master sees it.

    role   a description of it for messages

    >>> child = Child("an echo", _echo)
    >>> child.connection.send("hello")
    >>> child.connection.recv()
    'hello'
    >>> child.end()
    """

    def __init__(
        self, role: str, target: Callable[..., None], *arguments: Any, preload: str | None = None
    ) -> None:  # fmt: skip
        self.role, self.patience = role, patience()
        self.silent, self.reported, self.reason = 0.0, False, ""
        start: Any = context(preload)
        self.connection, theirs = start.Pipe()
        self.beat = start.RawValue("q", 0)
        self.process = start.Process(target=_live, args=(target, theirs, self.beat, *arguments), daemon=True)
        self.process.start()
        theirs.close()
        self._seen = (0, 0)
        WATCH.over(self)

    @property
    def hopeless(self) -> bool:
        """Whether the process exited by itself before it could begin: another one would do the same."""
        return not self.beat.value and (self.process.exitcode or 0) > 0

    def fate(self) -> str:
        """How the process ended, in words."""
        self.process.join(timeout=1.0)
        return f"{self.role} (process {self.process.pid}) {self.reason or _fate(self.process.exitcode)}"

    def died(self, advice: str) -> EnlistError:
        """The error that says how the process ended, and what to do about it."""
        return EnlistError(f"{self.fate()}; {SCRIPT if self.hopeless else advice}.")

    def end(self, wait: float = 0.0) -> None:
        """Make sure that the process has ended, after waiting for it for a while."""
        WATCH.forget(self)
        if wait > 0:
            self.process.join(timeout=wait)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.connection.close()

    def look(self, elapsed: float) -> None:
        """Check whether the process has given a sign of life; report it, or kill it, if it has been silent for long."""
        if self.reason or not self.process.is_alive():
            return
        facts = status(self.process.pid) if sys.platform == "linux" else []
        # Besides the beat, time spent computing is a sign of life: a call that holds Python's lock stops the beat.
        seen = (self.beat.value, int(facts[11]) + int(facts[12]) if facts else 0)
        if seen != self._seen:
            if self.reported:
                LOGGER.warning("%s (process %d) continues.", self.role, self.process.pid)
            self._seen, self.silent, self.reported = seen, 0.0, False
            return
        self.silent += elapsed
        stopped = bool(facts) and facts[0] in "Tt"
        if self.silent >= self.patience:
            how = "stopped" if stopped else "silent"
            self.reason = f"was {how} for {self.silent:.0f} s and was killed"
            self.process.kill()
        elif self.silent >= min(REPORTED, self.patience / 2) and not self.reported:
            self.reported = True
            why = f"; it is stopped: `kill -CONT {self.process.pid}` resumes it" if stopped else ""
            LOGGER.warning(
                "%s (process %d) has given no sign of life for %.0f s%s. After %g s it is killed and replaced (%s).",
                self.role, self.process.pid, self.silent, why, self.patience, VARIABLE,
            )  # fmt: skip


class ChildMonitor:
    """A thread that watches all children of this process, as long as there are any.

    >>> ChildMonitor().children
    []
    """

    def __init__(self) -> None:
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def children(self) -> list[Child]:
        """The children that are watched."""
        with self._lock:
            return list(self._children)

    def over(self, child: Child) -> None:
        """Watch one more child."""
        with self._lock:
            self._children.add(child)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="enlist-watch", daemon=True)
                self._thread.start()

    def forget(self, child: Child) -> None:
        """Stop watching a child."""
        with self._lock:
            self._children.discard(child)

    def _look(self) -> None:
        last = time.monotonic()
        while children := self._still():
            between = min(LOOK, *(child.patience / 8 for child in children))
            time.sleep(between)
            now = time.monotonic()
            # If this process itself was stopped, its children are not to blame for the time that has passed.
            elapsed, last = min(now - last, 2 * between), now
            for child in children:
                with contextlib.suppress(ValueError, OSError):  # closed meanwhile
                    child.look(elapsed)

    def _still(self) -> list[Child]:
        with self._lock:
            found = list(self._children)
            if not found:
                self._thread = None
            return found


WATCH = ChildMonitor()


def _live(target: Callable[..., None], connection: Any, beat: Any, *arguments: Any) -> None:
    serve_parent(beat)
    target(connection, *arguments)


def _fate(code: int | None) -> str:
    if code is None or code >= 0:
        return f"died (exit code {code})"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    short = ", as the system does when memory is short" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{short}"


def _echo(connection: Any) -> None:
    connection.send(connection.recv())
