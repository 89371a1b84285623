"""Folders under runs/ that hold no run: a study, an arena, a profile or a description, with its own page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from enlist._internal import files

PAGE = "report.html"
MARKS = {
    "an arena": ("curves.csv", "scores.csv", "settings.json"),
    "a profile": ("profile.csv", "measurements.csv"),
    "a description of clients": ("clients.csv", "charts", PAGE),
}
"""Files that show what wrote a folder."""


class FolderContent(NamedTuple):
    """What a folder holds: its name, its page if there is one, and the command that continues it if there is none yet.

    >>> FolderContent("a profile", None, "").what
    'a profile'
    """

    what: str
    page: Path | None
    again: str = ""


def held(folder: Path) -> FolderContent | None:
    """What a folder holds, if it is neither a run nor a folder above runs.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = (Path(place) / "config.json").write_text('{"study": "mabfl", "scale": "smoke"}')
    ...     held(Path(place)).what
    "the study 'mabfl' (scale smoke)"
    """
    page = folder / PAGE if (folder / PAGE).is_file() else None
    if study := _study(folder):
        name, scale = study
        again = f"enlist reproduce {name} --scale {scale} --output {folder} --resume"
        return FolderContent(f"the study '{name}' (scale {scale})", page, again)
    if (folder / "rounds.csv").exists():
        return None
    return next(
        (FolderContent(what, page) for what, names in MARKS.items() if all((folder / name).exists() for name in names)),
        None,
    )


def _study(folder: Path) -> tuple[str, str] | None:
    try:
        found = json.loads(files.read(folder / "config.json"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not {"study", "scale"} <= found.keys():
        return None
    return str(found["study"]), str(found["scale"])
