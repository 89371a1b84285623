"""Words that had another spelling before, and what is said to who still uses it. docs/configuration.md lists them."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from enlist._internal import checks

LOGGER = logging.getLogger("enlist")

LATE = ("drop", "learn", "merge")
"""What is done with replies that come too late: nothing; the selector learns from them; the model does, too."""
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
"""Names at /metrics, without "enlist_"; both are told."""
FORMER_COUNTS = {"asked": "selected"}
"""Counts of a `RoundResult`, which `on_round` gets."""
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
"""What was never documented, under its old name, and where it is now."""


def late(given: str, allowed: Iterable[str] = LATE, owner: str = "late") -> str:
    """What was given for `late`, in the word of today; another one is refused.

    >>> late("feedback"), late("merge")
    ('learn', 'merge')
    >>> late("mrege")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: late is 'mrege'. Did you mean 'merge'? Allowed: drop, learn, merge.
    """
    return checks.one_of(owner, present_late(given, owner), tuple(allowed))


def present_late(given: Any, owner: str) -> Any:
    """What was given for `late`, in the word of today, unchecked; of an old one a notice is given.

    >>> present_late("learn", "rounds.late"), present_late(3, "rounds.late")
    ('learn', 3)
    """
    if not isinstance(given, str) or given not in FORMER_LATE:
        return given
    say(f'{owner} = "{given}"', f'"{FORMER_LATE[given]}"')
    return FORMER_LATE[given]


@functools.lru_cache(maxsize=100)
def say(former: str, now: str) -> None:
    """Say once that something is spelt otherwise now."""
    LOGGER.warning("%s is spelt %s now; the old spelling still works.", former, now)


def former_names(module: str) -> Callable[[str], Any]:
    """What a module of `FORMER_NAMES` has as `__getattr__`.

    >>> import enlist
    >>> enlist.Told is enlist.Observation
    True
    >>> enlist.Tolled
    Traceback (most recent call last):
    ...
    AttributeError: module 'enlist' has no attribute 'Tolled'
    """

    names = FORMER_NAMES[module]

    def found(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        say(f"{module}.{name}", f"{module}.{names[name]}")
        return getattr(sys.modules[module], names[name])

    return found


def present_columns(table: str, header: Iterable[str]) -> list[str]:
    """The header of a table of a run folder, in the words of today.

    >>> present_columns("rounds.csv", ["round", "asked"]), present_columns("reasons.csv", ["asked"])
    (['round', 'selected'], ['asked'])
    """
    former = FORMER_COLUMNS.get(table, {})
    return [former.get(name, name) for name in header]


def present_config(saved: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration that a folder holds, of a simulation or a federation, in the words of today.

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
