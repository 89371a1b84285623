"""One job at a time in a thread of its own, so that the caller can continue meanwhile."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable


class Background:
    """Runs jobs one after the other, in the order in which they are handed over; an exception is raised once.

    >>> background, done = Background(), []
    >>> background.run(lambda: done.append("first"))
    >>> background.run(lambda: done.append(1 / 0))
    >>> background.wait()
    Traceback (most recent call last):
    ...
    ZeroDivisionError: division by zero
    >>> background.wait(), done
    (None, ['first'])
    """

    def __init__(self) -> None:
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._job: concurrent.futures.Future[None] | None = None

    def run(self, job: Callable[[], None]) -> None:
        """Begin a job as soon as the previous one has ended: there are never two, nor twice the memory of one."""
        self.wait()
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="enlist-checkpoint")
        self._job = self._pool.submit(job)

    def check(self) -> None:
        """Raise what a finished job has raised; a running job is left alone."""
        if self._job is not None and self._job.done():
            self.wait()

    def wait(self) -> None:
        """Wait for the job, and raise what it has raised."""
        job, self._job = self._job, None
        try:
            if job is not None:
                job.result()
        except KeyboardInterrupt:
            self._job = job if job is not None and not job.done() else None  # only the waiting was interrupted
            raise

    def close(self) -> None:
        """Wait, and end the thread."""
        try:
            self.wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
            self._pool = None
