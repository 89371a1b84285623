"""How processes are started, and why they never outlive the process that started them."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from enlist.engine.leftovers import claim

BEAT = 0.5
"""Seconds between two signs of life of a watched process."""


def context(preload: str | None = None) -> multiprocessing.context.BaseContext:
    """How to start processes: from a server that has imported `preload` already, or afresh where there is no server.

    This process itself is never forked: it may hold threads and locks. What killed programs of ours have left behind is
    removed first.

    >>> context().get_start_method() in ("forkserver", "spawn")
    True
    """
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    claim()
    server = multiprocessing.get_context("forkserver")
    if preload is not None:
        server.set_forkserver_preload(["__main__", preload])
    return server


def start_early(preload: str) -> None:
    """Start the server that processes are started from, so that it imports `preload` while this process continues.

    >>> start_early("enlist.simulation.comparison")
    """
    if sys.platform != "win32":
        from multiprocessing import forkserver

        context(preload)
        forkserver.ensure_running()


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Run linear algebra of NumPy and SciPy in one thread, then as before.

    Selectors multiply small matrices: FedSUV with 2,500 clients takes 2.7 times as much processor time with two threads
    as with one, and the other cores have their own work. The number of cores then cannot change the bits.

    >>> with one_core():
    ...     pass
    """
    import threadpoolctl

    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield


def have_children() -> None:
    """Let this process start processes of its own, which Python forbids to those that end with their parent.

    They end with this one: see `serve_parent`.

    >>> have_children()
    >>> multiprocessing.current_process().daemon
    False
    """
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]


def serve_parent(beat: Any = None) -> None:
    """Leave Ctrl-C to the main process, which then ends its workers; do not outlive the main process if it is killed.

    beat   a shared number that is counted up as long as this process runs, whatever it computes

    >>> child = context().Process(target=serve_parent)
    >>> child.start(), child.join(), child.exitcode
    (None, None, 0)
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if beat is not None:
        beat.value = 1
    threading.Thread(target=_end_with_parent, args=(beat,), daemon=True).start()


def _end_with_parent(beat: Any) -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    while True:
        parent.join(None if beat is None else BEAT)
        if not parent.is_alive():
            os._exit(1)
        if beat is not None:
            beat.value += 1


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory for the next step instead of handing it back to the system (glibc only).

    Activations are freed after every step; getting their pages again took a fifth of the time of a small CNN's step.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    wanted = ((mmap_threshold, 32 << 20), (trim_threshold, 512 << 20), (top_pad, 64 << 20))
    return sum(int(mallopt(option, value)) for option, value in wanted) == len(wanted)


def yield_to_parent() -> None:
    """Do not take the core from the parent when it wakes this process: it has other workers to wake first.

    >>> child = context().Process(target=yield_to_parent)
    >>> child.start(), child.join(), child.exitcode
    (None, None, 0)
    """
    if hasattr(os, "sched_setscheduler"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
