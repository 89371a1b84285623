"""Keys of a configuration with dots: how a change is written, and how it is put into nested tables."""

from __future__ import annotations

import tomllib
from typing import Any

from enlist._internal.text import brief_reason
from enlist.errors import InputError

KINDS = ("kind", "name")
"""Keys that say which other keys their table has."""


def spelled_out(key: str, short: Any) -> dict[str, Any]:
    """The table that a short form stands for.

    >>> spelled_out("partition", "iid"), spelled_out("deadline", 60)
    ({'kind': 'iid'}, {'kind': 'fixed', 'seconds': 60})
    """
    if isinstance(short, int | float):
        return {"kind": "fixed", "seconds": short}
    return {"name" if key in ("dataset", "model", "selector") else "kind": short}


def parted(change: str) -> tuple[str, Any]:
    """Key and value of a change as written on the command line.

    >>> parted("rounds.k=20")
    ('rounds.k', 20)
    """
    path, equals, text = change.partition("=")
    if not equals or not path:
        raise InputError(f"--set got '{change}'; write key.key=value, for example rounds.k=20.")
    return path.strip(), value_of(path, text)


def value_of(path: str, text: str) -> Any:
    """A value as written on the command line or in a table: a number, a list, a bare word.

    >>> value_of("model.hidden", "[32, 16]"), value_of("data.partition", "iid")
    ([32, 16], 'iid')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word is a string
    except (ValueError, RecursionError) as error:
        raise InputError(f"--set {path} cannot be read: {brief_reason(error)}") from None


def put(values: dict[str, Any], path: str, value: Any, anew: bool = False) -> None:
    """Change a key; with `anew`, a change of a table's kind drops the other keys of that table.

    >>> values = {"data": {"partition": {"kind": "dirichlet", "alpha": 0.1}}}
    >>> put(values, "data.partition.kind", "iid", anew=True)
    >>> values
    {'data': {'partition': {'kind': 'iid'}}}
    """
    table = values
    *parents, last = path.split(".")
    for parent in parents:
        inner = table.setdefault(parent, {})
        if not isinstance(inner, dict):
            inner = table[parent] = spelled_out(parent, inner)
        table = inner
    if anew and last in KINDS and parents and table.get(last) != value:
        table.clear()
    table[last] = value
