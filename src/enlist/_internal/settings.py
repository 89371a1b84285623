"""Settings of a selector or rule: a frozen dataclass, filled from a preset and keyword arguments, saved and read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

import numpy as np

from enlist._internal.text import brief
from enlist._internal.typing import AnyArray
from enlist.errors import InputError, StateFileError, unknown


@dataclasses.dataclass(frozen=True)
class NoSettings:
    """The settings of something that has none.

    >>> NoSettings()
    NoSettings()
    """


def build_settings(owner: Any, preset: str | None, given: Mapping[str, Any]) -> Any:
    """The settings of `owner` (it has `name`, `Settings`, `presets`): defaults, then preset, then what was given.

    >>> from enlist.selectors.bsfl import BSFL
    >>> build_settings(BSFL, "paper", {"alpha": 5.0}).alpha
    5.0
    """
    label = f"{owner.__name__} '{owner.name}'" if owner.name else owner.__name__
    known = [field.name for field in dataclasses.fields(owner.Settings)]
    for name in given:
        if name not in known:
            raise unknown("parameter", name, known, owner=label)
    if preset is not None and preset not in owner.presets:
        raise unknown("preset", preset, owner.presets, owner=label)
    values = {**(owner.presets[preset] if preset is not None else {}), **given}
    try:
        for field in dataclasses.fields(owner.Settings):
            _check_kind(field, values.get(field.name, field.default))
        return owner.Settings(**values)
    except InputError as error:
        raise InputError(f"{label}: {error}") from None


def written_settings(settings: Any, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    """Settings as stored in the header; arrays are added to `arrays`, and functions are kept by name.

    >>> from enlist.selectors.oort import OortSettings
    >>> written_settings(OortSettings(penalty=1.0), {})["penalty"]
    1.0
    """
    saved: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, np.ndarray):
            arrays[f"settings/{field.name}"] = value
            saved[field.name] = {"array": f"settings/{field.name}"}
        elif callable(value):
            saved[field.name] = {"function": getattr(value, "__qualname__", repr(value))}
        else:
            saved[field.name] = value.item() if isinstance(value, np.generic) else value
    return saved


def read_settings(
    folder: str | PathLike[str],
    saved: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
    functions: Mapping[str, Callable[..., Any]],
) -> dict[str, Any]:
    """What `written_settings` wrote, as keywords; functions are never saved and must be passed again.

    >>> read_settings("saved", {"penalty": 1.0, "tiers": [1, 2]}, {}, {})
    {'penalty': 1.0, 'tiers': (1, 2)}
    """
    for name in functions:
        if name not in saved:
            raise unknown("parameter", name, saved, owner="the saved selector")
    settings: dict[str, Any] = {}
    for name, value in saved.items():
        if isinstance(value, dict) and "array" in value:
            settings[name] = arrays[value["array"]]
        elif isinstance(value, dict) and "function" in value:
            if name not in functions:
                raise StateFileError(
                    f"{folder}: setting '{name}' was the function {value['function']}, and code is never saved; "
                    f"pass it again: enlist.load(folder, {name}=...)."
                )
            settings[name] = functions[name]
        else:
            settings[name] = tuple(value) if isinstance(value, list) else value
    return settings


def _check_kind(field: dataclasses.Field[Any], value: Any) -> None:
    """Check that switches are true or false and names are text, which settings classes do not check themselves."""
    kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
    if kind == "bool" and not isinstance(value, bool | np.bool_):
        raise InputError(f"{field.name} is {brief(value)}; it must be true or false.")
    if kind in ("str", "str | None") and not (isinstance(value, str) or (value is None and kind != "str")):
        raise InputError(f"{field.name} is {brief(value)}; it must be text.")
