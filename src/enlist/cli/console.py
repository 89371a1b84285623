"""What commands share: a console of a decent width, folders that are made before the work, and a clean Ctrl-C."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from enlist import files
from enlist.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from enlist.simulation.config import Config


def open_console(width: int = 120) -> Console:
    """A console that is wide enough for our tables when its output goes into a pipe or a file."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def say_where(console: Console, page: Path) -> None:
    """The last line of a command: where the report is."""
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def new_folder(wanted: Path | None, kind: str) -> Iterator[Path]:
    """A folder made before the work begins, so that nothing is lost in the end; gone again if nothing was written."""
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
        yield folder
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()
            if wanted is None and not any(folder.parent.iterdir()):
                folder.parent.rmdir()


def write_config(folder: Path, config: Config, ran: bool) -> None:
    """Leave the configuration in a new folder; if it names code, and that ran, marked as this user's."""
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
        console.print("stopped; nothing was written. The same command starts again from the beginning.")
        raise typer.Exit(130) from None


def as_rich(rows: Sequence[Sequence[str]], title: str, hidden: Sequence[str] = ()) -> Table:
    """A table for the terminal, the first row being its header; `hidden` columns are left out."""
    kept = [index for index, name in enumerate(rows[0]) if name not in hidden]
    shown = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=box.SIMPLE_HEAD)
    for index in kept:
        first = index == 0
        shown.add_column(
            rows[0][index], justify="left" if first else "right", style="bold" if first else "", no_wrap=True
        )
    for row in rows[1:]:
        shown.add_row(*(escape(row[index]) for index in kept))
    return shown


def numbered(kind: str) -> Path:
    """A new folder under runs/, numbered after the last of its kind."""
    known = _known(kind)
    last = int(known[-1].name.rpartition("-")[2]) if known else 0
    return Path("runs") / f"{kind}-{last + 1:03d}"


def latest(kind: str) -> Path:
    """The last folder of this kind under runs/."""
    known = _known(kind)
    if not known:
        raise InputError(f"--resume finds no runs/{kind}-NNN here; name the folder with --output.")
    return known[-1]


def _known(kind: str) -> list[Path]:
    """What there is of a kind under runs/, by number."""
    found = [path for path in Path("runs").glob(f"{kind}-*") if path.name.removeprefix(f"{kind}-").isdecimal()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(f"{kind}-")))


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def needs_sim(command: str) -> None:
    """Say which extra a command needs, if PyTorch and its companions are not there."""
    needed = ("torch", "pydantic", "safetensors", "sklearn", "pooch")
    if any(importlib.util.find_spec(name) is None for name in needed):
        raise MissingExtraError(command, "sim")
