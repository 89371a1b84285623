"""How a run folder begins: which run it is for, how far that may grow, and its removal if nothing comes of it."""

from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist._internal.aliases import present_config
from enlist.errors import InputError
from enlist.runs.digests import first_difference


def outgrown(saved: Mapping[str, Any], given: Mapping[str, Any], growing: Sequence[str]) -> bool:
    """Whether a configuration extends a saved one: some of its `growing` keys exceed the saved values.

    A key that is None sets no limit.

    >>> outgrown({"rounds": {"rounds": 20}}, {"rounds": {"rounds": 40}}, ["rounds.rounds"])
    True
    >>> outgrown({"rounds": {"seconds": None}}, {"rounds": {"seconds": 60.0}}, ["rounds.seconds"])
    False
    """
    return any(_grown(*_both(saved, given, key)) for key in growing)


def pinned(given: Mapping[str, Any], saved: Mapping[str, Any], growing: Sequence[str]) -> dict[str, Any]:
    """A configuration with the saved values of the keys that have grown: what must be the same in a continued run.

    >>> pinned({"seed": 1, "rounds": {"rounds": 40}}, {"rounds": {"rounds": 20}}, ["rounds.rounds"])
    {'seed': 1, 'rounds': {'rounds': 20}}
    """
    found: dict[str, Any] = copy.deepcopy(dict(given))
    for key in growing:
        before, now = _both(saved, given, key)
        if _grown(before, now):
            *parents, last = key.split(".")
            table = found
            for name in parents:
                table = table[name]
            table[last] = before
    return found


def check_same(folder: Path, saved: Mapping[str, Any], given: Mapping[str, Any], growing: Sequence[str] = ()) -> None:
    """Refuse to continue with another configuration, unless only `growing` keys differ, with larger values.

    >>> check_same(Path("runs/run-001"), {"rounds": {"rounds": 40}}, {"rounds": {"rounds": 20}}, ["rounds.rounds"])
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: runs/run-001 holds a run with rounds.rounds = 40, but 20 was asked for; resume it with ...
    """
    saved, given = present_config(saved), present_config(json.loads(json.dumps(given)))
    found = first_difference(saved, pinned(given, saved, growing))
    if found is not None and found.key.endswith(".source"):
        raise InputError(
            f"the source of the {found.key.removesuffix('.source')} has changed since the run in {folder} began; "
            "continue with the original code, or name a new folder."
        )
    if found is not None and found.key.endswith(".digest"):
        raise InputError(
            f"the run in {folder} was made with other data (their digest differs); continue with the original data, "
            "or name a new folder."
        )
    if found is not None:
        more = f" (only {' and '.join(growing)} may grow)" if growing else ""
        raise InputError(
            f"{folder} holds a run with {found.key} = {found.before!r}, but {found.now!r} was asked for; resume it "
            f"with its own configuration{more}, or name a new folder."
        )


def grew(before: Any, now: Mapping[str, Any], growing: Sequence[str]) -> bool:
    """Whether a configuration differs from an earlier one, given as text, only by growth.

    >>> grew('{"rounds": 20, "k": 3}', {"rounds": 40, "k": 3}, ["rounds"])
    True
    >>> grew('{"rounds": 20, "k": 3}', {"rounds": 40, "k": 4}, ["rounds"])
    False
    """
    try:
        saved, now = present_config(json.loads(before)), present_config(now)
    except (TypeError, ValueError, RecursionError, AttributeError):
        return False
    return outgrown(saved, now, growing) and first_difference(saved, pinned(now, saved, growing)) is None


def _both(saved: Mapping[str, Any], given: Mapping[str, Any], key: str) -> tuple[Any, Any]:
    values: list[Any] = [saved, given]
    for name in key.split("."):
        values = [value.get(name) if isinstance(value, Mapping) else None for value in values]
    return values[0], values[1]


def _grown(before: Any, now: Any) -> bool:
    if not isinstance(before, int | float):  # nothing exceeds no limit
        return False
    return now is None or (isinstance(now, int | float) and now > before)


def missing_folders(path: Path) -> list[Path]:
    """The folders that must be created for this one to exist, the innermost first.

    >>> [made.name for made in missing_folders(Path("no/such/run"))]
    ['run', 'such', 'no']
    """
    return [place for place in (path, *path.parents) if not os.path.lexists(place)]


def undo(folder: Path, names: Iterable[str], made: Sequence[Path]) -> None:
    """Remove what the beginning of a run wrote, and the folders that were made for it, if they hold nothing else.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     run = Path(place) / "runs" / "run-001"
    ...     made = missing_folders(run)
    ...     run.mkdir(parents=True)
    ...     (run / "config.json").touch()
    ...     undo(run, ["config.json", "lock"], made)
    ...     list(Path(place).iterdir())
    []
    """
    known = set(names)
    for inner, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            if Path(inner) != folder:
                os.rmdir(inner)  # of runs that began in it and failed
    with contextlib.suppress(OSError):
        there = list(folder.iterdir())
        if any(path.name not in known or not files.has_file(path) for path in there):
            return
        for path in there:
            path.unlink()
        for place in made:
            place.rmdir()  # fails, and thus stops, where there is something else
