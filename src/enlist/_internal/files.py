"""Files in a folder that may come from somebody else: links are not followed, and only plain files are opened.

The sender of a run folder decides what is behind the names that a run writes: a link to another place, a pipe that
never ends, a device. All code that reads, writes, truncates or removes files in such a folder goes through here. The
path to the folder itself may contain links: the user typed it.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from enlist.errors import StateFileError

FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
"""Flags for opening every file, where the platform has them: links are not followed, and pipes do not block."""

CLAIM_WAITS = (0.005, 0.02, 0.05)
"""Seconds between attempts to claim a lock."""

KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def has_file(path: Path) -> bool:
    """Whether there is a plain file; a link, a folder, a pipe or a device in its place is an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "rounds.csv").symlink_to("elsewhere")
    ...     has_file(Path(folder) / "clients.csv"), has_file(Path(folder) / "rounds.csv")
    Traceback (most recent call last):
    ...
    enlist.errors.StateFileError: ...rounds.csv is a symbolic link, where a plain file belongs. Links inside ...
    """
    return _is(path, stat.S_ISREG, "a plain file")


def has_folder(path: Path) -> bool:
    """Whether there is a folder; a link, even to one, or anything else in its place is an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     has_folder(Path(folder)), has_folder(Path(folder) / "checkpoints")
    (True, False)
    """
    return _is(path, stat.S_ISDIR, "a folder")


def inside(root: Path, *names: str) -> Path:
    """The path of a folder below `root`, after checking that no folder on the way is a link.

    >>> inside(Path("comparison"), "runs", "oort", "0").as_posix()
    'comparison/runs/oort/0'
    """
    path = root
    for name in names:
        path = path / name
        has_folder(path)
    return path


def make_folder(root: Path, *names: str) -> Path:
    """Make a folder below `root` with its parents; none of them may be a link.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     make_folder(Path(folder), "report", "charts").is_dir()
    True
    """
    path = inside(root, *names)
    path.mkdir(parents=True, exist_ok=True)
    return path


def check_tree(folder: Path) -> None:
    """Refuse links, pipes and devices anywhere below a folder; it may be missing.

    >>> check_tree(Path("no/such/folder"))
    """
    if not has_folder(folder):
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                check_tree(Path(entry.path))
            else:
                has_file(Path(entry.path))


def remove_folder(path: Path) -> None:
    """Remove a folder and its contents, if it exists; a link to one is an error, and links in it are unlinked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     remove_folder(make_folder(Path(folder), "00000003.partial"))
    ...     list(Path(folder).iterdir())
    []
    """
    if has_folder(path):
        shutil.rmtree(path, ignore_errors=True)


def read(path: Path, follow: bool = False) -> bytes:
    """The contents of a plain file; `follow` allows a link, for a path that the user typed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder) / "note", b"kept")
    ...     read(Path(folder) / "note")
    b'kept'
    """
    with os.fdopen(descriptor(path.resolve() if follow else path, os.O_RDONLY), "rb") as file:
        return file.read()


def open_text(path: Path) -> TextIO:
    """Open a plain file to read text; line endings stay as they are.

    >>> open_text(Path("no/such/rounds.csv"))
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: 'no/such/rounds.csv'
    """
    return os.fdopen(descriptor(path, os.O_RDONLY), encoding="utf-8", newline="")


def open_to_append(path: Path) -> TextIO:
    """Open a plain file to append to; it is created if missing.

    A file with several names (hard links) is refused, because it would change under all of them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_to_append(Path(folder) / "wall.csv") as file:
    ...         file.write("round,seconds\\n")
    14
    """
    found = descriptor(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    if os.fstat(found).st_nlink > 1:
        os.close(found)
        raise StateFileError(
            f"{path} has other names (hard links), and writing to it would change it under all of them; put a "
            "copy in its place."
        )
    return os.fdopen(found, "a", encoding="utf-8", newline="")


def claim(lock: TextIO) -> bool:
    """Lock an open file for this process; False if another process holds it.

    It keeps trying for a moment: merely asking whether a lock is held (`is_claimed`) holds it for that long.

    >>> import tempfile
    >>> with tempfile.TemporaryFile("w") as lock:
    ...     claim(lock)
    True
    """
    for wait in (*CLAIM_WAITS, None):
        if _claim(lock):
            return True
        if wait is not None:
            time.sleep(wait)
    return False


def _claim(lock: TextIO) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_at(file: TextIO, path: Path) -> bool:
    """Whether an open file is still where it was opened: a process that fails to begin a run removes its lock.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as lock:
    ...     is_at(lock, Path(lock.name)), is_at(lock, Path("elsewhere"))
    (True, False)
    """
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except OSError:
        return False


def is_claimed(path: Path) -> bool:
    """Whether a process holds this lock file; False if it does not exist, or if that cannot be determined.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as lock:
    ...     before = is_claimed(Path(lock.name))
    ...     before, claim(lock.file), is_claimed(Path(lock.name))
    (False, True, True)
    """
    if sys.platform == "win32" or not has_file(path):
        return False
    import fcntl

    try:
        lock = descriptor(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two processes that ask do not see each other
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(lock)
    return False


def write(path: Path, payload: bytes) -> None:
    """Write a new file; other names of the old one (hard links) keep it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "report.html").symlink_to("elsewhere")
    ...     write(Path(folder) / "report.html", b"page")
    Traceback (most recent call last):
    ...
    enlist.errors.StateFileError: ...report.html is a symbolic link, where a plain file belongs. Links inside ...
    """
    if has_file(path):
        path.unlink()
    with os.fdopen(descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(payload)


def descriptor(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a plain file without following a link; anything else under that name is an error.

    >>> descriptor(Path("/dev/null"), os.O_RDONLY)
    Traceback (most recent call last):
    ...
    enlist.errors.StateFileError: /dev/null is a device, where a plain file belongs. Put one there, or remove it.
    """
    has_file(path)  # first, because merely opening a device can have effects
    found = os.open(path, flags | FLAGS, mode)
    kind = os.fstat(found).st_mode
    if not stat.S_ISREG(kind):
        os.close(found)
        raise _wrong(path, kind, "a plain file")
    return found


def _is(path: Path, expected: Callable[[int], bool], what: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not expected(mode):
        raise _wrong(path, mode, what)
    return True


def _wrong(path: Path, mode: int, what: str) -> StateFileError:
    kind = KINDS.get(stat.S_IFMT(mode), "a file")
    rule = "Links inside a folder that Enlist writes are never followed: put" if stat.S_ISLNK(mode) else "Put"
    return StateFileError(f"{path} is {kind}, where {what} belongs. {rule} one there, or remove it.")
