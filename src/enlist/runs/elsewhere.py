"""The folder of a run on another machine: the same one where both see it, else a copy that is sent back at the end.

A trial tells which: the driver leaves a file with random content beside the folders, and a task that reads the same
content there works in place. So an interrupted run on shared storage continues from its last checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from enlist import storage
from enlist._internal import files
from enlist.engine import temporary_folder
from enlist.runs.trust import ORIGIN

LAST = ("digests.json", "result.json")
"""Written last, because they mark a run as finished."""
SIGN, YOUNG = re.compile(r"\.enlist-[0-9a-f]{16}"), 60.0
"""Names of signs, and the seconds for which an unlocked sign is left alone."""
Contents = dict[str, bytes]
"""Files of a folder, by their path within it."""


@dataclasses.dataclass(frozen=True)
class TaskFolder:
    """A folder of the driver, as a task finds it on its machine.

    Parameters
    ----------
    folder : Path
        The folder, with its whole path on the driver.
    sign : Path
        A file that shows whether a machine sees the driver's folders.
    content : str
        Its content.
    held : dict
        The current files of the folder, for a machine that does not see it.

    >>> TaskFolder(Path("/no/such/run"), Path("/no/such/sign"), "7", {}).visible
    False
    """

    folder: Path
    sign: Path
    content: str
    held: Contents = dataclasses.field(default_factory=dict)

    @property
    def visible(self) -> bool:
        """Whether this machine sees the driver's folder."""
        try:
            return self.sign.read_text(encoding="ascii", errors="replace") == self.content
        except OSError:
            return False

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[Path, Contents]]:
        """The folder to work in; if it must be sent back, the dict holds its files afterwards."""
        found: Contents = {}
        if self.visible:
            yield self.folder, found
            return
        with temporary_folder("run") as scratch:
            folder = scratch / self.folder.name
            if self.held:
                write_back(folder, self.held)
            yield folder, found
            found.update(contents(folder))


@contextlib.contextmanager
def signed(folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """A sign beside these folders for as long as tasks work on them: its path and its content.

    It is locked by this process; signs of drivers that were killed are removed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place, signed([Path(place, "runs", "0")]) as (sign, content):
    ...     TaskFolder(Path(place), sign, content).visible, TaskFolder(Path(place), sign, "another").visible
    (True, False)
    """
    together = Path(os.path.commonpath([os.path.abspath(folder) for folder in folders])).parent
    while not together.is_dir():
        together = together.parent
    sign, content = together / f".enlist-{secrets.token_hex(8)}", secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        stack.callback(sign.unlink, missing_ok=True)
        with contextlib.suppress(OSError):  # the folders then count as not shared
            lock = stack.enter_context(sign.open("x", encoding="ascii"))
            if files.claim(lock) and files.is_claimed(sign):  # else there are no locks here, and nothing can be told
                _remove_left(together)
            lock.write(content)
            lock.flush()
        yield sign, content


def _remove_left(together: Path) -> None:
    """Remove signs that no process holds, unless they are so young that they may not be locked yet."""
    for other in together.glob(".enlist-*"):
        with contextlib.suppress(OSError):
            old = time.time() - other.lstat().st_mtime > YOUNG
            if SIGN.fullmatch(other.name) and old and files.has_file(other) and not files.is_claimed(other):
                other.unlink()


def contents(folder: Path) -> Contents:
    """The files of a folder that go to another machine; the note of who made it does not.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = Path(place, "rounds.csv").write_text("round\\n")
    ...     contents(Path(place))
    {'rounds.csv': b'round\\n'}
    """
    if not files.has_folder(folder):
        return {}
    files.check_tree(folder)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ORIGIN]
    return {path.relative_to(folder).as_posix(): files.read(path) for path in paths}


def write_back(folder: Path, found: Contents) -> None:
    """Write files of a task into a folder, those that mark it as finished last.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_back(Path(place), {"result.json": b"{}", "checkpoint/state.json": b"{}"})
    ...     sorted(path.name for path in Path(place).rglob("*.json"))
    ['result.json', 'state.json']
    """
    for name in sorted(found, key=lambda name: (LAST.index(name) if name in LAST else -1, name)):
        parts = Path(name).parts
        place = files.make_folder(folder.parent, folder.name, *parts[:-1])
        storage.replace(place / parts[-1], found[name])
