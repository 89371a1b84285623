"""Settings of a selector or rule: a frozen dataclass, filled from a preset and keyword arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from enlist._internal.text import brief
from enlist.errors import InputError, unknown


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


def _check_kind(field: dataclasses.Field[Any], value: Any) -> None:
    """Switches are true or false and names are text: what no check of a class of settings looks at by itself."""
    kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
    if kind == "bool" and not isinstance(value, bool | np.bool_):
        raise InputError(f"{field.name} is {brief(value)}; it must be true or false.")
    if kind in ("str", "str | None") and not (isinstance(value, str) or (value is None and kind != "str")):
        raise InputError(f"{field.name} is {brief(value)}; it must be text.")
