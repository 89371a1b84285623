"""The head of a Ray cluster, seen from the driver: nothing works without it, and Ray itself waits for a long time."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

from enlist.errors import EnlistError, InputError

PATIENCE = 25.0
"""Seconds that a head may be silent; after a minute Ray ends the driver's process without a message of ours."""
ANSWER = 3.0
"""Seconds to wait for an answer."""


def refuse_bad_address(address: str) -> None:
    """Refuse an address that is invalid, or at which nothing listens; Ray itself takes a minute to notice.

    Words such as "auto" and "local", which Ray understands as well, pass.

    >>> refuse_bad_address("auto")
    >>> refuse_bad_address("ray://head")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: the address of the Ray cluster is 'ray://head'; it must have a host and a port, as in ...
    >>> refuse_bad_address("127.0.0.1:1")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: nothing answers at 127.0.0.1:1; start a Ray cluster there with `ray start --head`, or ...
    """
    if ":" not in address:
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16 or "/" in host:
        raise InputError(
            f"the address of the Ray cluster is {address!r}; it must have a host and a port, as in ray://head:10001 "
            "for a client of the cluster, or head:6379 on a node of it."
        )
    if not Head(address).answers():
        raise InputError(
            f"nothing answers at {address}; start a Ray cluster there with `ray start --head`, or name another one in "
            "RAY_ADDRESS or with --engine ray://host:10001."
        )


class Head:
    """Whether a head still takes connections.

    Parameters
    ----------
    address : str, optional
        Its host and port, perhaps after "ray://"; without one, the head counts as available.
    patience : float
        Seconds that it may be silent before it counts as lost.

    >>> head = Head("127.0.0.1:1", patience=0.0)
    >>> head.check()
    Traceback (most recent call last):
    ...
    enlist.errors.EnlistError: the head of the Ray cluster at 127.0.0.1:1 no longer answers; restart the cluster ...
    >>> head.lost
    True
    """

    def __init__(
        self, address: str | None, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.address, self.patience, self.clock, self.lost = address, patience, clock, False
        self.silent: float | None = None

    def answers(self) -> bool:
        """Whether something listens there at this moment.

        >>> with socket.create_server(("127.0.0.1", 0)) as server:
        ...     Head(f"ray://127.0.0.1:{server.getsockname()[1]}").answers()
        True
        """
        if self.address is None:
            return True
        host, _, port = self.address.rpartition("//")[2].rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER):
                return True
        except OSError:
            return False

    def check(self) -> bool:
        """Whether it answers; an error if it has been silent for too long."""
        if self.answers():
            self.silent = None
            return True
        now = self.clock()
        self.silent = now if self.silent is None else self.silent
        if now - self.silent >= self.patience:
            raise self.error()
        return False

    def error(self) -> EnlistError:
        """The error for a lost head."""
        self.lost = True
        return EnlistError(
            f"the head of the Ray cluster at {self.address} no longer answers; restart the cluster and repeat the same "
            "command, for a single run with --resume: finished work is kept."
        )

    @contextlib.contextmanager
    def needed(self, *failures: type[BaseException]) -> Iterator[None]:
        """Turn failures of these kinds into an error that says so, if they are due to a lost head.

        >>> with Head("127.0.0.1:1").needed(ConnectionError):
        ...     raise ConnectionError("broken pipe")
        Traceback (most recent call last):
        ...
        enlist.errors.EnlistError: the head of the Ray cluster at 127.0.0.1:1 no longer answers; restart the cluster ...
        """
        try:
            yield
        except failures:
            if self.answers():
                raise
            raise self.error() from None
