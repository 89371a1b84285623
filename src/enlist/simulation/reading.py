"""Reading a configuration from a file: what it holds, with changes applied, and whether code that it names may run."""

from __future__ import annotations

import errno
import json
import tomllib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist._internal.aliases import present_config
from enlist._internal.text import brief_reason
from enlist.errors import InputError
from enlist.methods import parts_of
from enlist.runs.trust import check_trust, folder_of
from enlist.simulation.keys import parted, put


def check_code(path: str | PathLike[str], changes: Sequence[str], names: Sequence[str], trust: bool) -> None:
    """Refuse the code that a run folder's own configuration names, unless it is this user's; code in `changes` may run.

    >>> check_code("quickstart.toml", [], ["mynet:Net"], trust=False)
    >>> check_code("received/config.json", ["model.factory=mynet:Net"], ["mynet:Net"], trust=False)
    """
    typed = [change.partition("=")[2].strip() for change in changes]
    named = [name for name in names if not any(_names(text, name) or f'"{name}"' in text for text in typed)]
    folder = folder_of(path) if named and not trust else None
    if folder is not None:
        check_trust(folder, read(path), named)


def _names(text: str, name: str) -> bool:
    """Whether a text is this name, or a method with it."""
    try:
        return name in (text, parts_of(text)[1])
    except InputError:
        return False


def read(path: str | PathLike[str], changes: Sequence[str] = ()) -> dict[str, Any]:
    """The contents of a TOML or JSON file, with `a.b=c` changes applied; nothing is checked yet.

    >>> read("missing.toml")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: missing.toml cannot be read: No such file or directory. Examples are in examples/.
    """
    file = Path(path)
    try:
        if file.exists() and not file.is_file() and not file.is_dir():  # a pipe or a device might never end
            raise OSError(errno.EINVAL, "it is not a plain file")
        text = file.read_text(encoding="utf-8") if folder_of(file) is None else files.read(file, follow=True).decode()
        values = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
        if file.name == "config.json" and isinstance(values, dict):  # nobody rewrites an old one
            values = present_config(values)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}. Examples are in examples/.") from None
    except RecursionError:
        raise InputError(f"{file} nests values too deeply; a key holds a value or a table.") from None
    except ValueError as error:  # from the parsers, or from Python for numbers with thousands of digits
        kind = "JSON" if file.suffix == ".json" else "TOML"
        raise InputError(f"{file} is not valid {kind}: {brief_reason(error)}") from None
    if not isinstance(values, dict):
        raise InputError(f"{file} holds a {type(values).__name__}; a configuration is a table of sections.")
    for change in changes:
        put(values, *parted(change))
    return values
