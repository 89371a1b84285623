"""What commands share: a console that is wide enough and shows names as they are, folders made before the work, a
clean Ctrl-C, and a full disk.

Names come from configurations, data, run folders and replies. In tables they go through `shown` and in lines through
`say`, so that text that looks like Rich's markup is printed literally. `Terminal` never prints control characters.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from enlist._internal import files
from enlist._internal.text import printable
from enlist.errors import EnlistError, InputError, MissingExtraError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
BROKEN = {errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENAMETOOLONG, errno.EMFILE, errno.ENFILE}
"""Errors caused by the machine. Any other OSError is a bug of ours, and shows its traceback."""

if TYPE_CHECKING:
    from enlist.simulation.config import Config

NOTHING = "nothing was kept. The same command starts again from the beginning."
"""The message for a command that was stopped before it had any result."""
CELL = 80
"""Most characters of a table cell."""
LINE = 4_000
"""Most characters of a line."""


class Terminal(Console):
    """A console that escapes control characters; colours and bars are Rich's own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The output, in segments."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                yield Segment(printable(segment.text, None, keep="\n"), segment.style)


def open_console(width: int = 120, quiet: bool = False) -> Console:
    """A console that is wide enough for our tables if its output goes to a pipe or a file."""
    console = Terminal(emoji=False, quiet=quiet)
    return console if console.is_terminal else Terminal(emoji=False, width=width, quiet=quiet)


def shown(text: object, most: int = CELL) -> str:
    """A name from outside for a cell, a title or a line of its own: cleaned, and without markup."""
    clean = printable(text, most, keep="\n")
    return escape(f"{clean}.")[:-1]  # a trailing backslash would be doubled, in case a tag follows


def say(console: Console, *parts: str | tuple[str, str], style: str = "") -> None:
    """Print one line, which may hold names from outside; a part is text, or text with a style."""
    line = Text(style=style)
    for part in parts:
        text, own = (part, "") if isinstance(part, str) else part
        line.append(printable(text, LINE, keep="\n"), own)
    console.print(line, soft_wrap=True)


def warn(console: Console, sentence: str) -> None:
    """Print a warning, if there is one."""
    if sentence:
        say(console, sentence, style="yellow")


def say_where(console: Console, page: Path) -> None:
    """Print the last line of a command: where the report is."""
    say(console, f"report: {page}")


@contextlib.contextmanager
def new_folder(wanted: Path | None, kind: str) -> Iterator[Path]:
    """A folder made before the work begins, so that nothing is lost at the end; removed if nothing was written."""
    folder = wanted or numbered(kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"{folder} is a file; name a new folder with --output.") from None
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror}); name another with --output.") from None
    if any(folder.iterdir()):
        raise InputError(f"{folder} already exists and is not empty; name a new folder with --output.")
    try:
        with writing_to(folder):
            yield folder
    finally:
        with contextlib.suppress(OSError):
            if not any(folder.iterdir()):
                folder.rmdir()
                if wanted is None and not any(folder.parent.iterdir()):
                    folder.parent.rmdir()


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn a full disk, or a folder that cannot be written, into one sentence: where, why, and what to do."""
    try:
        yield
    except OSError as error:
        trouble = trouble_of(error, folder)
        if trouble is None:
            raise
        raise trouble from error


def trouble_of(error: OSError, folder: Path | None = None) -> EnlistError | None:
    """An error caused by the machine, as one of ours; None if it has another cause."""
    if error.errno not in FULL | FORBIDDEN | BROKEN:
        return None
    where: object = error.filename or folder or "a file"
    if error.filename is None and _output_is_broken():
        return EnlistError(f"cannot write to standard output: {error.strerror}; redirect it elsewhere.")
    way = "name another folder"
    if error.errno in FULL:
        left = f" ({folder} is incomplete: remove it)" if folder is not None else ""
        way = f"make room{left}, or name a folder on another disk"
    return EnlistError(f"{where} cannot be {_done(error)}: {error.strerror}; {way}, then try again.")


def _done(error: OSError) -> str:
    return "written" if error.errno in FULL or error.errno == errno.EROFS else "used"


def _output_is_broken() -> bool:
    """Whether standard output is broken; if so, it is closed, so that Python does not try again at exit.

    A failed write does not name its file. On an output that works, an extra newline does no harm.
    """
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    try:
        os.write(descriptor, b"\n")
    except OSError:
        silence()
        return True
    return False


def silence() -> None:
    """Close standard output."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_config(folder: Path, config: Config, ran: bool) -> None:
    """Save the configuration in a new folder; if it names code, and that ran, mark it as this user's."""
    from enlist.runs import trust

    values = config.model_dump(mode="json")
    files.write(folder / "config.json", (json.dumps(values, indent=1) + "\n").encode())
    if ran and config.code():
        trust.vouch(folder, json.loads(json.dumps(values)))


@contextlib.contextmanager
def stopping(console: Console) -> Iterator[None]:
    """Ctrl-C ends the command with one line instead of a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        say(console, f"stopped; {NOTHING}")
        raise typer.Exit(130) from None


def as_rich(rows: Sequence[Sequence[str]], title: str, hidden: Sequence[str] = ()) -> Table:
    """A table for the terminal; the first row is its header, `hidden` columns are left out."""
    kept = [index for index, name in enumerate(rows[0]) if name not in hidden]
    table = Table(
        title=shown(title, LINE), title_justify="left", title_style="bold", header_style="dim", box=box.SIMPLE_HEAD
    )
    for index in kept:
        first = index == 0
        name, style = shown(rows[0][index]), "bold" if first else ""
        table.add_column(name, justify="left" if first else "right", style=style, no_wrap=True)
    for row in rows[1:]:
        table.add_row(*(shown(row[index]) for index in kept))
    return table


def numbered(kind: str) -> Path:
    """A new folder under runs/, numbered after the last one of its kind."""
    known = _known(kind)
    last = int(known[-1].name.rpartition("-")[2]) if known else 0
    return Path("runs") / f"{kind}-{last + 1:03d}"


def to_resume(output: Path | None, kind: str, holds: str = "config.json") -> Path:
    """The folder that --resume continues: the one given, or the last of its kind under runs/.

    `holds` is a pattern of what must be in it.
    """
    known = _known(kind)
    if output is None and not known:
        raise InputError(f"--resume finds no runs/{kind}-NNN here; name the folder with --output.")
    folder = known[-1] if output is None else output
    if not folder.is_dir():
        raise InputError(f"{folder} does not exist, so there is nothing to resume; leave --resume out to start there.")
    if not any(folder.glob(holds)):
        raise InputError(f"{folder} holds nothing to resume; leave --resume out to start from scratch.")
    return folder


def _known(kind: str) -> list[Path]:
    """Folders of one kind under runs/, by number."""
    found = [path for path in Path("runs").glob(f"{kind}-*") if path.name.removeprefix(f"{kind}-").isdecimal()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(f"{kind}-")))


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def needs_sim(command: str) -> None:
    """Say which extra a command needs, if PyTorch or related packages are missing."""
    needed = ("torch", "pydantic", "safetensors", "sklearn", "pooch")
    if any(importlib.util.find_spec(name) is None for name in needed):
        raise MissingExtraError(command, "sim")
