"""Would Flower send the folder of a run to every node? `flwr run` packs an app's folder, by these rules."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import pathspec

from enlist.errors import InputError

PROJECT = "pyproject.toml"
NEVER_PACKED = (
    ".flwr/**",
    "**/__pycache__/**",
    "build/**",
    "eggs/**",
    ".eggs/**",
    "lib/**",
    "lib64/**",
    "parts/**",
    ".venv/**",
    "env/**",
    "venv/**",
    "ENV/**",
    "env.bak/**",
    "venv.bak/**",
)
"""Folders that Flower 1.41 leaves out of every app archive, whatever the app says."""

TELLING = ("config.json", "decisions/00000001/decisions.jsonl")
"""Files of a run folder of the kinds that Flower packs."""


def refuse_packed(folder: str | PathLike[str]) -> None:
    """Raise if files of the run in `folder` would be packed with a Flower app, and say what to do instead.

    >>> import tempfile
    >>> app = Path(tempfile.mkdtemp()).resolve()
    >>> _ = (app / PROJECT).write_text("[tool.flwr.app]")
    >>> refuse_packed(app / ".flwr" / "state")
    >>> refuse_packed(app / "state")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: folder is '...state', inside the Flower app ..., so that `flwr run` would pack ...
    """
    place = Path(folder).expanduser().resolve()
    for app in place.parents:
        rules = _rules(app / PROJECT)
        if rules is None or not _packed(app, place.relative_to(app).as_posix(), rules):
            continue
        name = place.relative_to(app).as_posix()
        raise InputError(
            f"folder is '{os.fspath(folder)}', inside the Flower app {app}, so that `flwr run` would pack every "
            f"client's losses and latencies and send them to all nodes; name a folder outside, such as "
            f"'~/{place.name}', or one that Flower never packs, '{app / '.flwr' / place.name}', or add the line "
            f"'/{name}/' to the app's .gitignore."
        )


def _rules(project: Path) -> dict[str, Any] | None:
    """What an app says of its archive; None where there is no app."""
    try:
        found: Any = tomllib.loads(project.read_text(encoding="utf-8"))
        for name in ("tool", "flwr", "app"):
            found = found[name]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _packed(app: Path, name: str, rules: dict[str, Any]) -> bool:
    """Whether a file of the run is left once Flower has applied .gitignore, the app's patterns and its own."""
    left = [f"{name}/{file}" for file in TELLING]
    if "fab-include" in rules:
        left = list(_spec(rules["fab-include"]).match_files(left))
    for patterns in (_ignored(app), rules.get("fab-exclude", ()), NEVER_PACKED):
        left = list(_spec(patterns).match_files(left, negate=True))
    return bool(left)


def _ignored(app: Path) -> list[str]:
    try:
        return (app / ".gitignore").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _spec(patterns: object) -> pathspec.GitIgnoreSpec:
    listed = patterns if isinstance(patterns, Iterable) and not isinstance(patterns, str) else ()
    return pathspec.GitIgnoreSpec.from_lines([text for text in listed if isinstance(text, str)])
