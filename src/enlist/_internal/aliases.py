"""Former names and spellings that still work, and the notice they give. docs/configuration.md lists them."""

from __future__ import annotations

import functools
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from enlist._internal import checks

LOGGER = logging.getLogger("enlist")
GOES_IN = "0.4"
"""The version that removes names deprecated in 0.2; docs/stability.md promises one minor version in between."""

LATE = ("drop", "learn", "merge")
"""What happens to replies that come too late: nothing; the selector learns from them; the model does, too."""
FORMER_LATE = {"use": "merge", "feedback": "learn", "await": "learn"}
FORMER_KEYS = {"overcommit": "over_commit"}
"""Keys of the configuration of a federation, and arguments of `with_selector`."""
FORMER_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "rounds.csv": {"asked": "selected", "evaluate_asked": "evaluate_selected"},
    "participations.csv": {"samples": "num_examples"},
    "clients.csv": {"samples": "num_examples"},
    "shadow.csv": {"asked": "selected"},
}
FORMER_NAMES: Mapping[str, Mapping[str, str]] = {
    "enlist": {"Told": "Observation"},
    "enlist.contract": {"Told": "Observation"},
    "enlist.rounds": {"Told": "Observation"},
    "enlist.engine": {"Context": "TaskContext"},
    "enlist.arena": {"Reward": "BSFLReward"},
    "enlist.devices": {
        "Batteries": "BatteryLevels",
        "Described": "FeatureDevices",
        "Equal": "EqualDevices",
        "Everybody": "AlwaysOnline",
        "Failures": "DeviceFailures",
        "MovingAverage": "MovingAverageOptions",
        "Percentile": "PercentileOptions",
    },
    "enlist.personal": {"Config": "PersonalConfig"},
    "enlist.flower.fake": {"Answer": "FakeReply"},
}
"""Public names of modules."""
FORMER_METRICS = {"asked_total": "selected_total"}
"""Names at /metrics, without "enlist_"; both are reported."""
FORMER_COUNTS = {"asked": "selected"}
"""Counts of a `RoundResult`, which `on_round` receives."""
GONE: Mapping[str, str] = {
    **{
        f"enlist.{name}": f"enlist._internal.{name}"
        for name in (
            "archives", "checks", "files", "importing", "locks", "options", "settings", "statistics", "text", "typing",
        )
    },
    "enlist.processes": "enlist.engine",
    "enlist.unpickle": "enlist.data.unpickle",
    "enlist.training.local.Report.samples": "enlist.training.local.Report.num_examples",
}  # fmt: skip
"""Old names of what was never documented, and where it is now."""


def late(given: str, allowed: Iterable[str] = LATE, owner: str = "late") -> str:
    """The current value of an argument `late`; a former one warns, an unknown one is refused.

    >>> late("merge")
    'merge'
    >>> late("mrege")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: late is 'mrege'. Did you mean 'merge'? Allowed: drop, learn, merge.
    """
    if given in FORMER_LATE:
        warn(f'{owner}="{given}"', f'{owner}="{FORMER_LATE[given]}"')
        given = FORMER_LATE[given]
    return checks.one_of(owner, given, tuple(allowed))


def present_late(given: Any, key: str) -> Any:
    """The current value of a configuration key, unchecked; a former one is logged.

    >>> present_late("learn", "rounds.late"), present_late(3, "rounds.late")
    ('learn', 3)
    """
    if not isinstance(given, str) or given not in FORMER_LATE:
        return given
    log(f'{key} = "{given}"', f'{key} = "{FORMER_LATE[given]}"')
    return FORMER_LATE[given]


def notice(former: str, now: str) -> str:
    """The notice about a former spelling.

    >>> notice("enlist.Told", "enlist.Observation")
    'enlist.Told is deprecated and will be removed in Enlist 0.4; use enlist.Observation instead.'
    """
    return f"{former} is deprecated and will be removed in Enlist {GOES_IN}; use {now} instead."


def warn(former: str, now: str) -> None:
    """Warn about a former spelling in Python, at the caller's line that uses it.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("Told", "Observation")
    >>> caught[0].category.__name__, str(caught[0].message).startswith("Told")
    ('DeprecationWarning', True)
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "enlist":
        level, frame = level + 1, frame.f_back
    warnings.warn(notice(former, now), DeprecationWarning, stacklevel=level + 1)


@functools.lru_cache(maxsize=100)
def log(former: str, now: str) -> None:
    """Log once that a configuration uses a former spelling: users of the command line see no Python warnings."""
    LOGGER.warning(notice(former, now))


def former_names(module: str) -> Callable[[str], Any]:
    """The `__getattr__` for a module in `FORMER_NAMES`.

    >>> import enlist
    >>> with warnings.catch_warnings(record=True, action="always") as given:
    ...     enlist.Told is enlist.Observation
    True
    >>> print(given[0].message)
    enlist.Told is deprecated and will be removed in Enlist 0.4; use enlist.Observation instead.
    >>> enlist.Tolled
    Traceback (most recent call last):
    ...
    AttributeError: module 'enlist' has no attribute 'Tolled'
    """

    names = FORMER_NAMES[module]

    def found(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        warn(f"{module}.{name}", f"{module}.{names[name]}")
        return getattr(sys.modules[module], names[name])

    return found


def present_columns(table: str, header: Iterable[str]) -> list[str]:
    """The header of a table in a run folder, in current names.

    >>> present_columns("rounds.csv", ["round", "asked"]), present_columns("reasons.csv", ["asked"])
    (['round', 'selected'], ['asked'])
    """
    former = FORMER_COLUMNS.get(table, {})
    return [former.get(name, name) for name in header]


def present_config(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration in a folder, of a simulation or a federation, in current names.

    >>> present_config({"seed": 1, "rounds": {"k": 3, "late": "use"}})
    {'seed': 1, 'rounds': {'k': 3, 'late': 'merge'}}
    >>> present_config({"strategy": "FedAvg", "overcommit": 1.3, "late": "feedback"})
    {'strategy': 'FedAvg', 'over_commit': 1.3, 'late': 'learn'}
    """
    found = {FORMER_KEYS.get(name, name): value for name, value in saved.items()}
    if isinstance(found.get("rounds"), Mapping):
        found["rounds"] = _present_late(found["rounds"])
    return _present_late(found)


def _present_late(table: Mapping[str, Any]) -> dict[str, Any]:
    given = table.get("late")
    return {**table, "late": FORMER_LATE.get(given, given)} if isinstance(given, str) else dict(table)
