"""What happens in a process of a Ray cluster: one task, or an actor; and the mailbox through which it reports.

Nothing here imports Ray: the engine passes what is needed of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import socket
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from enlist.engine.interface import TaskContext
from enlist.engine.local import done
from enlist.errors import EnlistError

PACKAGES = ("enlist", "torch")


def versions() -> dict[str, str]:
    """What must be the same on all machines for equal results: the versions of Python, Enlist and PyTorch.

    >>> sorted(versions())[:2]
    ['enlist', 'python']
    """
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def refuse_others(wanted: Mapping[str, str]) -> None:
    """Refuse to work for a driver that has other versions than this process.

    >>> refuse_others(versions() | {"torch": "0.4"})
    Traceback (most recent call last):
    ...
    enlist.errors.EnlistError: node ... has torch ..., and the driver has 0.4; results would ...
    """
    here = versions()
    for name, theirs in wanted.items():
        if here.get(name) != theirs:
            raise EnlistError(
                f"node {socket.gethostname()} has {name} {here.get(name, '(none)')}, and the driver has {theirs}; "
                "results would differ. Install the same versions on every node."
            )


def enter(folder: str) -> None:
    """Work in the driver's folder where this machine sees it, so that relative paths and own modules are found.

    >>> enter("/no/such/folder")
    """
    if os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK):
        os.chdir(folder)


class ProgressBuffer:
    """Holds the reports of tasks until the driver takes them.

    >>> async def use() -> list[tuple[int, str, object]]:
    ...     mailbox = ProgressBuffer()
    ...     await mailbox.put(3, "progress", {"rounds": 1})
    ...     return await mailbox.take()
    >>> asyncio.run(use())
    [(3, 'progress', {'rounds': 1})]
    """

    def __init__(self) -> None:
        self._messages: list[tuple[int, str, Any]] = []
        self._news = asyncio.Event()

    async def put(self, number: int, kind: str, content: Any) -> None:
        """Leave a message of a task."""
        self._messages.append((number, kind, content))
        self._news.set()

    async def take(self) -> list[tuple[int, str, Any]]:
        """All messages, once there are any."""
        await self._news.wait()
        self._news.clear()
        found, self._messages = self._messages, []
        return found


class LogForwarder(logging.Handler):
    """Passes the log messages of a task on to the driver.

    >>> LogForwarder(print, logging.WARNING).handle(logging.makeLogRecord({"msg": "memory is short", "levelno": 30}))
    30 memory is short
    True
    """

    def __init__(self, send: Callable[[int, str], Any], level: int) -> None:
        super().__init__(level)
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        self._send(record.levelno, record.getMessage())


@contextlib.contextmanager
def logged(send: Callable[[int, str], Any]) -> Iterator[None]:
    """Within the block, everything that Enlist logs is also sent to the driver.

    >>> with logged(print):
    ...     logging.getLogger("enlist").warning("memory is short")
    30 memory is short
    """
    logger, handler = logging.getLogger("enlist"), LogForwarder(send, logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def perform(
    number: int,
    function: Callable[..., Any],
    begin: Callable[[], None] | None,
    content: bytes,
    shared: Any,
    mailbox: Any,
    wanted: Mapping[str, str],
    folder: str,
) -> tuple[str, Any]:
    """One task: ("result", packed), or ("failure", an exception).

    >>> perform(0, print, None, b"", None, None, {"torch": "0.4"}, "")[0]
    'failure'
    """
    try:
        refuse_others(wanted)
    except EnlistError as error:
        return "failure", error
    enter(folder)
    if begin is not None:
        begin()
    with logged(lambda level, text: mailbox.put.remote(number, "log", (level, text))):
        report = lambda state: mailbox.put.remote(number, "progress", state)  # noqa: E731
        return done(function, TaskContext(shared, report), content)


class Host:
    """Holds the object of an actor.

    >>> host = Host(versions(), "", list, [3, 4])
    >>> host.call("index", 4), host.call("index", 5)
    (1, EnlistError('ValueError: 5 is not in list'))
    """

    def __init__(self, wanted: Mapping[str, str], folder: str, kind: Callable[..., Any], *arguments: Any) -> None:
        refuse_others(wanted)
        enter(folder)
        self.hosted = kind(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of the object returns, or its exception."""
        try:
            return getattr(self.hosted, method)(*arguments)
        except Exception as error:
            return EnlistError(f"{type(error).__name__}: {error}")
