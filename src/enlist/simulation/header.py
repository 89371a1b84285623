"""What a comparison's folder says of it: comparison.json, which goes on only with the comparison that it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enlist import files, storage
from enlist.errors import InputError, StateFileError
from enlist.runs.digests import digest_of, report

if TYPE_CHECKING:
    from enlist.simulation.comparison import Comparison


def remember(comparison: Comparison, path: Path, accept_changes: bool = False) -> None:
    """Write comparison.json, or check that the folder holds this comparison; selectors and seeds may be added.

    >>> import tempfile
    >>> from enlist.simulation import Config
    >>> from enlist.simulation.comparison import Comparison
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     remember(Comparison(Config(), ("random",)), Path(folder))
    ...     remember(Comparison(Config(data={"clients": 9}), ("random",)), Path(folder))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: ... holds another comparison; continue it with its own configuration, or ...
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


def _header(comparison: Comparison) -> dict[str, Any]:
    """What comparison.json holds: whom it compares, on which seeds, with which settings, in which federation."""
    chosen = comparison.config.selector
    own = {"settings": chosen.settings, "preset": chosen.preset}
    told = (chosen.settings or chosen.preset) and chosen.name in _kinds(comparison.selectors)
    return {
        "selectors": list(comparison.selectors),
        "first_seed": comparison.first_seed,
        "seeds": comparison.seeds,
        "settings": {chosen.name: own} if told else {},
        "config": comparison.config.model_dump(mode="json", exclude={"seed", "selector"}),
    }


def _joined(file: Path, header: dict[str, Any], accept_changes: bool) -> dict[str, Any]:
    """The header of the folder with this one added, which must not say anything else of what was compared before."""
    known = read_table(file)
    if known is None or any(type(known.get(name)) is not type(value) for name, value in header.items()):
        raise StateFileError(f"{file} is damaged; restore it from a copy, or name a new folder.")
    digest = known.pop("digest", None)
    if digest not in (None, _digest(known)):  # version 0.1 wrote none
        report(file.parent, [f"{file.name} was changed by somebody"], accept_changes)
    again = _kinds(known["selectors"]) & _kinds(header["selectors"])
    same = all(known["settings"].get(name) == header["settings"].get(name) for name in again)
    if known["config"] != header["config"] or not same:
        raise InputError(
            f"{file.parent} holds another comparison; continue it with its own configuration, or name a new folder."
        )
    first = min(header["first_seed"], known["first_seed"])
    last = max(each["first_seed"] + each["seeds"] for each in (known, header))
    return {
        **header,
        "selectors": list(dict.fromkeys([*known["selectors"], *header["selectors"]])),
        "first_seed": first,
        "seeds": last - first,
        "settings": {**known["settings"], **header["settings"]},
    }


def _digest(header: dict[str, Any]) -> str:
    return digest_of(json.dumps(header, sort_keys=True).encode())


def _kinds(selectors: Iterable[str]) -> set[str]:
    """Names without presets."""
    return {name.partition(":")[0] for name in selectors}


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
