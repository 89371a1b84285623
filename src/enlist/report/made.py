"""How runs were made, for the end of a page: command, date, versions and configuration, non-default keys first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from enlist._internal import files
from enlist.report.page import Section
from enlist.runs.environment import environment
from enlist.runs.groups import leaves
from enlist.runs.tables import RunTables

Rows = list[list[str]]
OWN = ("seed", "selector")
"""Keys in which runs of a comparison differ, which are elsewhere on the page."""
LONGEST = 300
"""Most characters of a value."""


def made_section(runs: Sequence[RunTables]) -> Section:
    """A section on how runs were made, taken from their folders, or without folders from this process.

    >>> from enlist.runs.example import example_run
    >>> section = made_section([example_run()])
    >>> section.table[1][0], ["rounds", "8"] in section.folded
    ('versions', True)
    """
    about = [_about(run) for run in runs]
    settings = [leaves(run.config) for run in runs]
    keys = [key for key in dict.fromkeys(key for each in settings for key in each) if key.partition(".")[0] not in OWN]
    own = {key for each in about for key in each["changed"]}
    rows = [[key, _values(settings, key)] for key in keys]
    table = [["what", "value"], *_facts(about), *(row for row in rows if row[0] in own)]
    text = "Keys of the configuration with values other than the defaults are listed here." if own else ""
    folded = [["key", "value"], *(row for row in rows if row[0] not in own)]
    title = "The rest of the configuration" if own else "The configuration"
    return Section("How this was made", text, table, folded=folded, folded_title=title)


def _about(run: RunTables) -> dict[str, Any]:
    """The content of environment.json, without unusable entries."""
    found: Any = environment() if run.folder is None else None
    if run.folder is not None:
        try:
            found = json.loads(files.read(run.folder / "environment.json"))
        except (OSError, ValueError, RecursionError):
            found = None
    found = found if isinstance(found, Mapping) else {}
    changed, packages = found.get("changed"), found.get("packages")
    texts = {name: str(found[name]) for name in ("command", "date", "python", "platform") if found.get(name)}
    return {
        **texts,
        "changed": [str(key) for key in changed] if isinstance(changed, list) else [],
        "packages": dict(packages) if isinstance(packages, Mapping) else {},
    }


def _facts(about: Sequence[Mapping[str, Any]]) -> Rows:
    commands = list(dict.fromkeys(each["command"] for each in about if "command" in each))
    dates = sorted({each["date"] for each in about if "date" in each})
    versions = list(dict.fromkeys(_versions(each) for each in about if each["packages"]))
    platforms = list(dict.fromkeys(each["platform"] for each in about if "platform" in each))
    span = [dates[0]] if len(dates) == 1 else [f"{dates[0]} to {dates[-1]}"] if dates else []
    facts = {"command": commands, "begun": span, "versions": versions, "platform": platforms}
    return [[name, _cut("; ".join(values))] for name, values in facts.items() if values]


def _versions(about: Mapping[str, Any]) -> str:
    packages = {"Python": about.get("python", "?"), **about["packages"]}
    return ", ".join(f"{name} {version}" for name, version in packages.items())


def _values(settings: Sequence[Mapping[str, Any]], key: str) -> str:
    values = dict.fromkeys(json.dumps(each.get(key), ensure_ascii=False).strip('"') for each in settings)
    return _cut("; ".join(values))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
