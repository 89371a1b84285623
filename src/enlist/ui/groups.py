"""The status of comparisons, sweeps, ladders and studies, from their own files and from their runs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist._internal.text import printable
from enlist.errors import EnlistError
from enlist.runs.printing import plural
from enlist.runs.tables import read_json, read_table
from enlist.ui.index import GROUPS, MOST_ITEMS, Item
from enlist.ui.status import PATIENT, RunSummary, Status

FILES = (*GROUPS, "config.json", "failures.json", "lock", "report.html", "results.csv", "settings.json", "verdict.md")
"""The parts of a group besides its runs."""
MOST_RUNS = 10**6
"""Most runs that a header may announce."""
MOST_EXPERIMENTS = 100_000
RESUME = "no process is running it; --resume continues it"


@dataclasses.dataclass(frozen=True)
class GroupStatus(Status):
    """The status of a group: that of a run, plus how many of its runs are finished.

    >>> GroupStatus("stalled", 0.0, done=2, total=12).total
    12
    """

    done: int = 0
    total: int = 0
    failed: int = 0


def standing(
    item: Item, inside: Sequence[Item], runs: Sequence[RunSummary], lost: Sequence[str] = (), now: float | None = None
) -> GroupStatus:
    """The status of a group; `inside` are the groups below it, `runs` all runs below it, `lost` as in `group_status`.

    >>> standing(Item("mine", "sweep", Path("no/such"), Path("no")), [], []).why
    'mine is gone (No such file or directory).'
    """
    try:
        item.check()
        return study_status(item) if item.kind == "study" else comparison_status(item, inside, runs, lost, now)
    except (EnlistError, OSError, LookupError, TypeError, ValueError) as error:
        why = str(error).replace(f"{item.folder}{os.sep}", "").replace(str(item.folder), item.id)
        return GroupStatus("damaged", 0.0, why=printable(why, 400), total=len(runs))


def group_status(
    runs: Sequence[RunSummary],
    lost: Sequence[str] = (),
    expected: int = 0,
    damage: str = "",
    since: float = 0.0,
    now: float | None = None,
) -> GroupStatus:
    """The joint status of runs.

    Parameters
    ----------
    runs : sequence of RunSummary
        The runs that have a folder.
    lost : sequence of str
        Why others failed before they had one.
    expected : int, default 0
        The number of runs that a header announces; those without a folder have not begun.
    damage : str, default ""
        What is wrong with the header.
    since : float, default 0.0
        When a header was last written, as a Unix time.
    now : float, optional
        The current time.

    >>> run = lambda state, progress, left=None: RunSummary(Item("a", "run", Path("a"), Path("a")),
    ...     Status(state, 0.0, rounds=8, progress=progress, left=left))
    >>> found = group_status([run("finished", 1.0), run("finished", 1.0), run("running", 0.5, 8.0)], expected=12)
    >>> found.state, round(found.progress, 2), found.left
    ('running', 0.21, 152.0)
    >>> group_status([run("finished", 1.0)], expected=2).why
    '1 of 2 runs is finished; no process is running it; --resume continues it'
    """
    now = time.time() if now is None else now
    states = Counter(summary.status.state for summary in runs)
    total = max(expected, len(runs) + len(lost))
    failed, done = states["failed"] + len(lost), states["finished"]
    since = max([since, *(summary.status.since for summary in runs)])
    begun = len(runs) + len(lost)
    if damage:
        state = "damaged"
    elif states["running"] or (states["waiting"] and done):
        state = "running"
    elif states["waiting"]:
        state = "waiting"
    elif total and done == total:
        state = "finished"
    elif begun < total and not states["stalled"] and now - since < PATIENT:
        state = "running" if begun else "waiting"  # the next run is about to begin
    else:
        state = "failed" if failed else "damaged" if states["damaged"] else "stalled"
    shares = [1.0 if each.status.state == "finished" else each.status.progress or 0.0 for each in runs]
    why = damage or _why(runs, lost) or (_rest(done, total) if state == "stalled" else "")
    return GroupStatus(
        state, since, sum(summary.status.rounds for summary in runs), None, sum(shares) / total if total else None,
        _left(runs, total - begun) if state == "running" else None, why, done, total, failed,
    )  # fmt: skip


def _left(runs: Sequence[RunSummary], unbegun: int) -> float | None:
    """Seconds until all are done, with as many running at once, and as fast, as now."""
    going = [
        each.status for each in runs if each.status.state == "running" and each.status.left and each.status.progress
    ]
    if not going:
        return None
    speed = sum((1.0 - (each.progress or 0.0)) / (each.left or 1.0) for each in going)
    open_ = [each.status for each in runs if each.status.state in ("running", "waiting", "stalled")]
    rest = unbegun + sum(1.0 - (each.progress or 0.0) for each in open_)
    return max(*(each.left or 0.0 for each in going), rest / speed) if speed > 0 else None


def _why(runs: Sequence[RunSummary], lost: Sequence[str]) -> str:
    for state, word in (("failed", "failed"), ("damaged", "cannot be read")):
        reasons = [summary.status.why for summary in runs if summary.status.state == state]
        reasons += lost if state == "failed" else ()
        if reasons:
            return f"{plural(len(reasons), 'run')} {word}: {reasons[0]}"
    return ""


def _rest(done: int, total: int) -> str:
    if not total:
        return "it has no runs"
    return f"{done:,} of {plural(total, 'run')} {'is' if done == 1 else 'are'} finished; {RESUME}"


def comparison_status(
    item: Item, inside: Sequence[Item], runs: Sequence[RunSummary], lost: Sequence[str] = (), now: float | None = None
) -> GroupStatus:
    """The status of a comparison, a sweep or a ladder; `inside` are the comparisons that it consists of.

    >>> item = Item("mine", "comparison", Path("mine"), Path("mine"))
    >>> comparison_status(item, [], [], now=1e9).state
    'damaged'
    """
    own = [item] if item.kind == "comparison" else [each for each in inside if each.kind == "comparison"]
    headers = [header_of(each) for each in dict.fromkeys([item, *own])]
    damage = next((header.damage for header in headers if header.damage), "")
    expected = [header.runs for header in headers if header.runs]
    # Points of a sweep without a folder count as large as the others.
    absent = max(headers[0].points - len(own), 0) * max(expected, default=0)
    since = max(header.since for header in headers)
    if item.kind == "ladder":
        board = results_of(item)
        if board is not None and not damage and not runs and not expected:
            damage, since = board.damage, max(since, board.since)
            return GroupStatus("damaged" if damage else "finished", since, progress=1.0, why=damage)
        damage = damage or (board.damage if board is not None else "")
    return group_status(runs, lost, sum(expected) + absent, damage, since, now)


@dataclasses.dataclass(frozen=True)
class Header:
    """The header of a group: how many runs or points it announces, or what is wrong with it.

    >>> Header(runs=12).damage
    ''
    """

    runs: int = 0
    points: int = 0
    damage: str = ""
    since: float = 0.0


def header_of(item: Item) -> Header:
    """The header of a comparison, a sweep or a ladder; read again after a write.

    >>> header_of(Item("mine", "comparison", Path("mine"), Path("mine"))).damage
    'comparison.json is gone'
    """
    name = next(name for name, kind in GROUPS.items() if kind == item.kind)
    return _kept(item.folder / name, item.kind) or Header(damage=f"{name} is gone")


def results_of(item: Item) -> Header | None:
    """Whether the results of a ladder can be read; None if there are none yet."""
    return _kept(item.folder / "results.csv", "results")


def _kept(path: Path, kind: str) -> Header | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return _read(path, kind, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=2 * MOST_ITEMS)
def _read(path: Path, kind: str, changed: int, size: int) -> Header:
    since = changed / 1e9
    try:
        if kind == "results":
            table = read_table(path)
            good = {"rung", "selector", "seed"} <= table.keys() and len(table["rung"]) > 0
            return Header(since=since) if good else _damaged(path, since)
        content = read_json(path) or {}
    except (EnlistError, OSError, LookupError, TypeError, ValueError):
        return _damaged(path, since)
    if kind == "comparison":
        methods, seeds = content.get("selectors"), content.get("seeds")
        if not isinstance(methods, list) or type(seeds) is not int or not 0 < len(methods) * seeds < MOST_RUNS:
            return _damaged(path, since)
        return Header(len(methods) * seeds, since=since)
    if kind == "sweep":
        points = content.get("points")
        return Header(points=len(points), since=since) if isinstance(points, list) else _damaged(path, since)
    return Header(since=since) if "version" in content else _damaged(path, since)


def _damaged(path: Path, since: float) -> Header:
    return Header(damage=f"{path.name} cannot be read; restore it from a copy, or run it again", since=since)


def study_status(item: Item) -> GroupStatus:
    """The status of a study; unless it is finished, `done` counts saved experiments and `total` planned ones.

    Raises an error if the configuration cannot be read.

    >>> study_status(Item("mine", "study", Path("no/such"), Path("no"))).state
    'stalled'
    """
    folder, since = item.folder, 0.0
    for name in ("verdict.md", "settings.json", "config.json", "experiments"):
        with contextlib.suppress(OSError):
            since = max(since, os.lstat(folder / name).st_mtime)
    read_json(folder / "config.json")
    running = files.is_claimed(folder / "lock")
    if files.has_file(folder / "verdict.md") and not running:
        return GroupStatus("finished", since, progress=1.0)
    done, failed = experiments(folder)
    planned = planned_experiments(study_facts(folder))
    found = GroupStatus("running", since, progress=done / planned if planned else None, done=done, total=planned,
                        failed=failed)  # fmt: skip
    if running:
        return found
    if failed:
        return dataclasses.replace(found, state="failed", why=f"{plural(failed, 'experiment')} failed; {RESUME}")
    return dataclasses.replace(found, state="stalled", why=f"it has no verdicts yet; {RESUME}")


def study_facts(folder: Path) -> dict[str, Any]:
    """The content of a study's settings.json; empty if it cannot be read.

    >>> study_facts(Path("no/such/study"))
    {}
    """
    try:
        facts = read_json(folder / "settings.json") or {}
    except EnlistError:
        return {}
    return facts if isinstance(facts.get("experiments", {}), dict) else {}


def planned_experiments(facts: Mapping[str, Any]) -> int:
    """The number of experiments of a study.

    >>> planned_experiments({"experiments": {"bent": {"seeds": [0, 1, 2]}}, "further": {"longer": {"seeds": [0]}}})
    4
    """
    found = [facts.get(name, {}) for name in ("experiments", "further")]
    every = [each for part in found if isinstance(part, dict) for each in part.values() if isinstance(each, dict)]
    return sum(len(each["seeds"]) for each in every if isinstance(each.get("seeds"), list))


def experiments(folder: Path) -> tuple[int, int]:
    """The numbers of saved and failed experiments of a study.

    >>> experiments(Path("no/such/study"))
    (0, 0)
    """
    done = failed = 0
    for _, inner, names in itertools.islice(os.walk(folder / "experiments"), MOST_EXPERIMENTS):
        if "state.json" in names:
            done += 1
            inner.clear()
        failed += "error.txt" in names
    return done, failed
