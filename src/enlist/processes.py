"""Worker processes: how they are started, and that they never outlive whoever started them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import threading


def context(preload: str | None = None) -> multiprocessing.context.BaseContext:
    """How to start processes: from a server that has imported `preload` already, or afresh where there is none.

    Forking this process itself is never done: it may hold threads and locks.

    >>> context().get_start_method() in ("forkserver", "spawn")
    True
    """
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    server = multiprocessing.get_context("forkserver")
    if preload is not None:
        server.set_forkserver_preload(["__main__", preload])
    return server


def serve_parent() -> None:
    """Leave Ctrl-C to the main process, which then ends its workers; and do not outlive it if it is killed.

    >>> serve_parent.__name__
    'serve_parent'
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
