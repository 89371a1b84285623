"""The header in the folder of a comparison or sweep: comparison.json or sweep.json.

A folder is only continued with what it holds; methods, seeds and points may be added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist import storage
from enlist._internal import files
from enlist._internal.aliases import present_config
from enlist.errors import EnlistError, InputError, StateFileError
from enlist.runs.digests import digest_of, first_difference, report
from enlist.runs.starting import pinned
from enlist.simulation.config import GROWING, Config
from enlist.simulation.sections import SelectorSection

if TYPE_CHECKING:
    from enlist.simulation.comparison import Comparison
    from enlist.simulation.sweep import Sweep

Header = dict[str, Any]
Join = Callable[[Path, Header, Header], Header]


def remember(comparison: Comparison, path: Path, accept_changes: bool = False) -> None:
    """Write comparison.json, or check that the folder holds this comparison; methods, seeds and rounds may be added.

    >>> import tempfile
    >>> from enlist.simulation import Config
    >>> from enlist.simulation.comparison import Comparison
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     remember(Comparison(Config(), "random"), Path(folder))
    ...     remember(Comparison(Config(data={"clients": 9}), "random"), Path(folder))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: ... holds a comparison with data.clients = 100, and 9 was asked for; continue it ...
    """
    _keep(path, "comparison", _header(comparison), _joined, accept_changes)


def remember_sweep(sweep: Sweep, path: Path, accept_changes: bool = False) -> None:
    """Write sweep.json, or check that the folder holds this sweep; then the same of the comparison at each point.

    >>> import tempfile
    >>> from enlist.simulation import Config
    >>> from enlist.simulation.sweep import Sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     remember_sweep(Sweep(Config(), {"rounds.k": [5]}, "random"), Path(folder))
    ...     remember_sweep(Sweep(Config(), {"data.clients": [50]}, "random"), Path(folder))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: ... holds a sweep over rounds.k, and one over data.clients was asked for; name a new ...
    """
    header = {
        "keys": list(sweep.keys),
        "points": [dict(point.written) for point in sweep.points],
        "config": _without(_recorded(sweep.config), sweep.keys),
    }
    _keep(path, "sweep", header, _joined_sweep, accept_changes)
    for comparison, place in zip(sweep.comparisons, sweep.places(path), strict=True):
        remember(comparison, place, accept_changes)


def _keep(path: Path, kind: str, header: Header, join: Join, accept_changes: bool) -> None:
    """Write a header; where there is one, `join` checks it and adds this one to it."""
    file = path / f"{kind}.json"
    try:
        path.mkdir(parents=True, exist_ok=True)
        if files.has_file(file):
            header = join(file, _known(file, header, accept_changes), header)
        elif any(path.iterdir()):
            raise InputError(f"{path} is not empty and holds no {kind}; name a new folder (--output).")
        sealed = {**header, "digest": _digest(header)}
        storage.replace(file, (json.dumps(sealed, indent=1) + "\n").encode())
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); name another folder.") from None


def _known(file: Path, header: Header, accept_changes: bool) -> Header:
    """The header of a folder, in the same form as this one."""
    known = read_table(file)
    digest = None if known is None else known.pop("digest", None)
    if known is not None and digest not in (None, _digest(known)):  # version 0.1 wrote none
        report(file.parent, [f"{file.name} was changed since it was written"], accept_changes)
    known = _of_version_01(known) if known is not None and _is_version_01(known) else known
    if known is None or any(type(known.get(name)) is not type(value) for name, value in header.items()):
        raise StateFileError(f"{file} is damaged; restore it from a copy, or name a new folder.")
    return known


def _header(comparison: Comparison) -> dict[str, Any]:
    """The contents of comparison.json: methods with their settings, seeds, and the federation."""
    chosen = [comparison.configured(method).recorded().selector for method in comparison.methods]
    methods = {
        label: section.model_dump(mode="json", exclude={"label"})
        for label, section in zip(comparison.labels, chosen, strict=True)
    }
    return {
        "selectors": list(comparison.labels),
        "first_seed": comparison.first_seed,
        "seeds": comparison.seeds,
        "methods": methods,
        "config": _recorded(comparison.config),
    }


def _recorded(config: Config) -> Header:
    """What all methods share; this excludes the configuration's own selector, which need not be importable."""
    shared = config.model_copy(update={"selector": SelectorSection()}).recorded()
    return shared.model_dump(mode="json", exclude={"seed", "selector"})


def _joined(file: Path, known: Header, header: Header) -> Header:
    """The header of the folder with this one added, which must not contradict what was compared before."""
    again = {label: entry for label, entry in known["methods"].items() if label in header["methods"]}
    then = _filled(known["config"])
    _same(file, "comparison", then, pinned(header["config"], then, GROWING))
    for label, entry in again.items():
        _same(file, "comparison", entry, header["methods"][label], f"method '{label}': ")
    first = min(header["first_seed"], known["first_seed"])
    last = max(each["first_seed"] + each["seeds"] for each in (known, header))
    return {
        **header,
        "selectors": list(dict.fromkeys([*known["selectors"], *header["selectors"]])),
        "first_seed": first,
        "seeds": last - first,
        "methods": {**known["methods"], **header["methods"]},
    }


def _joined_sweep(file: Path, known: Header, header: Header) -> Header:
    """The header of the folder with the points of this one added."""
    if sorted(known["keys"]) != sorted(header["keys"]):
        raise InputError(
            f"{file.parent} holds a sweep over {', '.join(known['keys'])}, and one over {', '.join(header['keys'])} "
            "was asked for; name a new folder."
        )
    then = _without(_filled(known["config"]), header["keys"])
    _same(file, "sweep", then, pinned(header["config"], then, GROWING))
    return {
        **header,
        "points": [*known["points"], *(point for point in header["points"] if point not in known["points"])],
    }


def _same(file: Path, kind: str, then: Any, now: Any, what: str = "") -> None:
    found = first_difference(then, now)
    if found is not None and found.key.endswith((".source", ".digest", "evaluation.metrics")):
        raise InputError(
            f"{file.parent} holds a {kind} with another {what}{found.key}: code or data have changed since it began; "
            "continue it with the original ones, or name a new folder."
        )
    if found is not None:
        raise InputError(
            f"{file.parent} holds a {kind} with {what}{found.key} = {found.before!r}, and {found.now!r} was asked for; "
            "continue it with its own configuration, or name a new folder."
        )


def _without(config: Header, keys: Iterable[str]) -> Header:
    """A configuration without some keys."""
    for key in keys:
        *parents, last = key.split(".")
        table: Any = config
        for parent in parents:
            table = table.get(parent) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table.pop(last, None)
    return config


def _filled(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with defaults for keys that were added later."""
    try:
        parsed: Config = Config.parse(present_config(config), "comparison.json")
    except EnlistError:
        return config
    return parsed.model_dump(mode="json", exclude={"seed", "selector"})


def _is_version_01(known: Header) -> bool:
    return {"selectors", "first_seed", "seeds", "config"} <= known.keys() and "methods" not in known


def _of_version_01(known: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1 knew names with presets only, and kept the settings of the configuration's own selector."""
    methods = {}
    for text in known["selectors"]:
        name, _, preset = str(text).partition(":")
        own = dict(known.get("settings", {}).get(name, {}))
        section = {"name": name, "preset": preset or own.get("preset"), "settings": own.get("settings", {})}
        methods[str(text)] = {**section, "source": None}
    return {**{key: value for key, value in known.items() if key != "settings"}, "methods": methods}


def _digest(header: dict[str, Any]) -> str:
    return digest_of(json.dumps(header, sort_keys=True).encode())


def read_table(path: Path) -> dict[str, Any] | None:
    """A JSON table, or None if it is missing or broken.

    >>> read_table(Path("no/such/result.json")) is None
    True
    """
    try:
        document = json.loads(files.read(path))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
