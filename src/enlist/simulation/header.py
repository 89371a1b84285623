"""What a comparison's folder says of it: comparison.json, which goes on only with the comparison that it holds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist import files, storage
from enlist.errors import EnlistError, InputError, StateFileError
from enlist.runs.digests import digest_of, first_difference, report
from enlist.runs.starting import missing_folders, pinned, undo
from enlist.simulation.config import GROWING, Config

if TYPE_CHECKING:
    from enlist.simulation.comparison import Comparison


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
    file, header = path / "comparison.json", _header(comparison)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if files.has_file(file):
            header = _joined(file, header, accept_changes)
        elif any(path.iterdir()):
            raise InputError(f"{path} is not empty and holds no comparison; name a new folder with --output.")
        sealed = {**header, "digest": _digest(header)}
        storage.replace(file, (json.dumps(sealed, indent=1) + "\n").encode())
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); name another folder.") from None


@contextlib.contextmanager
def remembered(comparison: Comparison, path: Path, accept_changes: bool = False) -> Iterator[None]:
    """The same while runs are done; a new folder to which no run came is removed in the end.

    >>> import tempfile
    >>> from enlist.simulation.comparison import Comparison
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with remembered(Comparison(Config(), "random"), Path(folder) / "runs" / "compare-001"):
    ...         pass
    ...     list(Path(folder).iterdir())
    []
    """
    made = missing_folders(path)
    remember(comparison, path, accept_changes)
    try:
        yield
    finally:
        if made:
            undo(path, ["comparison.json"], made)


def _header(comparison: Comparison) -> dict[str, Any]:
    """What comparison.json holds: whom it compares, with which settings, on which seeds, in which federation."""
    chosen = [comparison.config.with_method(method).recorded().selector for method in comparison.methods]
    methods = {
        label: section.model_dump(mode="json", exclude={"label"})
        for label, section in zip(comparison.labels, chosen, strict=True)
    }
    return {
        "selectors": list(comparison.labels),
        "first_seed": comparison.first_seed,
        "seeds": comparison.seeds,
        "methods": methods,
        "config": comparison.config.model_dump(mode="json", exclude={"seed", "selector"}),
    }


def _joined(file: Path, header: dict[str, Any], accept_changes: bool) -> dict[str, Any]:
    """The header of the folder with this one added, which must not say anything else of what was compared before."""
    known = read_table(file)
    if known is None or not {"selectors", "first_seed", "seeds", "config"} <= known.keys():
        raise StateFileError(f"{file} is damaged; restore it from a copy, or name a new folder.")
    digest = known.pop("digest", None)
    if digest not in (None, _digest(known)):  # version 0.1 wrote none
        report(file.parent, [f"{file.name} was changed by somebody"], accept_changes)
    known = _of_version_01(known) if "methods" not in known else known
    if any(type(known.get(name)) is not type(value) for name, value in header.items()):
        raise StateFileError(f"{file} is damaged; restore it from a copy, or name a new folder.")
    then = _filled(known["config"])
    again = {label: entry for label, entry in known["methods"].items() if label in header["methods"]}
    for what, before, now in (
        ("", then, pinned(header["config"], then, GROWING)),
        *((f"method '{label}': ", entry, header["methods"][label]) for label, entry in again.items()),
    ):
        found = first_difference(before, now)
        if found is not None:
            raise InputError(
                f"{file.parent} holds a comparison with {what}{found.key} = {found.before!r}, and {found.now!r} was "
                "asked for; continue it with its own configuration, or name a new folder."
            )
    first = min(header["first_seed"], known["first_seed"])
    last = max(each["first_seed"] + each["seeds"] for each in (known, header))
    return {
        **header,
        "selectors": list(dict.fromkeys([*known["selectors"], *header["selectors"]])),
        "first_seed": first,
        "seeds": last - first,
        "methods": {**known["methods"], **header["methods"]},
    }


def _filled(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with the defaults of keys that came later."""
    try:
        parsed: Config = Config.parse(config, "comparison.json")
    except EnlistError:
        return config
    return parsed.model_dump(mode="json", exclude={"seed", "selector"})


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
    """A JSON table, or None if there is no whole one.

    >>> read_table(Path("no/such/result.json")) is None
    True
    """
    try:
        document = json.loads(files.read(path))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
