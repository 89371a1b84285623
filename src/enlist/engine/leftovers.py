"""What a killed program leaves in the temporary folder, and how the next one removes it.

Everything of ours carries the number and the start of the process that owns it, and is locked by that process as long
as it lives. Shared memory and pipes have no names, so nothing of them is left to remove.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import util
from pathlib import Path

SEMAPHORES = Path("/dev/shm")
MARK = re.compile(r"enlist-(?P<pid>\d+)-(?P<start>\d+)")
"""Our mark in the folder of sockets that Python makes for a process that starts others."""
FOLDER = re.compile(r"enlist-[a-z]+-(?P<pid>\d+)-(?P<start>\d+)-\w+")
"""A temporary folder of our own."""
PYTHONS = "pymp-"
"""Prefixes of the folders that Python makes for sockets."""


@functools.cache
def claim() -> None:
    """Clean up after earlier programs, then mark this process's own sockets, so that the next one can do the same.

    >>> claim()
    """
    if sys.platform != "linux" or multiprocessing.parent_process() is not None:
        return
    with contextlib.suppress(OSError):
        clean()
        mark = Path(util.get_temp_dir()) / _owner("enlist", os.getpid())
        mark.touch()
        _hold(mark)


@contextlib.contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """A folder that is removed at the end: by this process or, if it is killed, by our next one.

    >>> with temporary_folder("rehearsal") as folder:
    ...     folder.name.startswith("enlist-rehearsal-")
    True
    >>> folder.exists()
    False
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            clean()
    with tempfile.TemporaryDirectory(prefix=f"{_owner(f'enlist-{purpose}', os.getpid())}-") as folder:
        held = _hold(Path(folder)) if sys.platform == "linux" else None
        try:
            yield Path(folder)
        finally:
            if held is not None:
                os.close(held)


def clean(place: Path | None = None, semaphores: Path = SEMAPHORES) -> list[Path]:
    """Remove from the temporary folder what is ours and whose owner is dead; returns what was removed.

    Nothing is touched that belongs to another user, to a living process, or to another program.

    >>> with tempfile.TemporaryDirectory() as place:
    ...     clean(Path(place))
    []
    """
    removed: list[Path] = []
    for entry in sorted(Path(tempfile.gettempdir() if place is None else place).iterdir()):
        if not entry.name.startswith((PYTHONS, "enlist-")) or not _own_folder(entry):
            continue
        marks = [entry] if FOLDER.fullmatch(entry.name) else [path for path in _inside(entry) if _is_mark(path)]
        owners = [_numbers(mark) for mark in marks]
        if not marks or any(started(pid) == start for pid, start in owners) or not all(map(_free, marks)):
            continue
        if any(_answers(path) for path in _inside(entry)):
            continue
        for pid, _ in owners:
            removed += _semaphores(pid, semaphores)
        shutil.rmtree(entry, ignore_errors=True)
        removed.append(entry)
    return removed


def started(pid: int) -> int | None:
    """When a process was started, in ticks since the machine was; None if there is no process with this number.

    >>> started(0) is None
    True
    """
    fields = status(pid)
    return int(fields[19]) if fields else None


def status(pid: int) -> list[str]:
    """The status of a process on Linux (man 5 proc_pid_stat), from its state on; empty where there is none.

    >>> status(0)
    []
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name before it may hold blanks and brackets


def _owner(prefix: str, pid: int) -> str:
    return f"{prefix}-{pid}-{started(pid) or 0}"


def _numbers(path: Path) -> tuple[int, int]:
    found = MARK.fullmatch(path.name) or FOLDER.fullmatch(path.name)
    assert found is not None
    return int(found["pid"]), int(found["start"])


def _is_mark(path: Path) -> bool:
    return MARK.fullmatch(path.name) is not None and path.is_file() and not path.is_symlink()


def _own_folder(path: Path) -> bool:
    with contextlib.suppress(OSError):
        found = path.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return False


def _inside(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _hold(path: Path) -> int:
    """Lock a file or folder as long as this process lives; a process in another container sees it too."""
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with contextlib.suppress(OSError):  # a file system without locks: the process number must do
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _free(path: Path) -> bool:
    """Whether no process holds this."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return True


def _answers(path: Path) -> bool:
    """Whether a living process listens at this socket."""
    with contextlib.suppress(OSError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(0.2)
        try:
            caller.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _semaphores(pid: int, place: Path) -> list[Path]:
    """Remove the named semaphores that scikit-learn's loky made in a process of ours that is dead."""
    if started(pid) is not None:
        return []
    removed = []
    with contextlib.suppress(OSError):
        for path in sorted(place.glob(f"sem.loky-{pid}-*")):
            if path.lstat().st_uid == os.getuid():
                path.unlink(missing_ok=True)
                removed.append(path)
    return removed
