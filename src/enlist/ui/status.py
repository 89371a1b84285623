"""The status of a run in summary: whether it is running, its progress, the time left, and its results so far."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal import files
from enlist._internal.text import printable
from enlist._internal.typing import FloatArray
from enlist.errors import EnlistError
from enlist.runs import federation
from enlist.runs.comparing import configured_target
from enlist.runs.failures import failure_of
from enlist.runs.groups import leaves
from enlist.runs.scores import LAST, evaluations, measure, time_to
from enlist.runs.tables import ReadTable, RunTables, identity, read_json, read_rounds, read_table
from enlist.ui.index import Item

STATES = ("running", "stalled", "failed", "damaged", "waiting", "finished")
POINTS = 40
"""Points of a sparkline."""
FRESH = 5.0
"""Seconds after a write during which a run counts as running even if no process seems to hold its lock."""
PATIENT, TIMES = 60.0, 20.0
"""A locked run counts as stalled after this long without a round, or after this many times its usual round."""
RECENT = 20
"""Rounds whose wall-clock times are used to estimate the time left."""
TAIL = 4_096


@dataclasses.dataclass(frozen=True)
class Status:
    """The status of a run.

    state     one of STATES
    since     when it was last written, as a Unix time
    rounds    finished rounds
    of        rounds to run; None if not known
    progress  share that is done; None if not known
    left      seconds until it is done, at its recent speed; None if not known
    why       what went wrong, if anything

    >>> Status("finished", 0.0, rounds=8, of=8, progress=1.0).left is None
    True
    """

    state: str
    since: float
    rounds: int = 0
    of: int | None = None
    progress: float | None = None
    left: float | None = None
    why: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class RunSummary:
    """A row of the overview.

    values   dotted keys of the configuration, to group by
    spark    results of evaluations, thinned
    totals   sums over rounds, and seconds and online clients of the last round

    >>> RunSummary(Item("a", "run", Path("a"), Path("a")), Status("waiting", 0.0)).method
    ''
    """

    item: Item
    status: Status
    method: str = ""
    seed: int | None = None
    data: str = ""
    measure: str = "accuracy"
    last: float = math.nan
    final: float = math.nan
    spark: Sequence[float] = ()
    target: float | None = None
    rounds_to: int | None = None
    time_to: float | None = None
    clock: float = math.nan
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    totals: Mapping[str, float] = dataclasses.field(default_factory=dict)


def summarise(item: Item, read: ReadTable = read_table, now: float | None = None) -> RunSummary:
    """The summary of one run; a damaged one says what is wrong with it.

    >>> import tempfile
    >>> from enlist.runs.example import example_run, write_run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = write_run(example_run("oort", seed=2), Path(place) / "mine")
    ...     found = summarise(Item("mine", "run", folder, folder))
    >>> found.method, found.status.state, round(found.final, 2)
    ('oort', 'finished', 0.55)
    """
    now = time.time() if now is None else now
    since = written(item.folder)
    try:
        item.check()
        if not files.has_file(item.folder / "rounds.csv"):
            state = "waiting" if files.is_claimed(item.folder / "lock") or now - since < FRESH else "stalled"
            return RunSummary(item, Status(state, since, why="no round is finished yet"), **_named(item))
        if item.kind == "personal":
            return _personal(item, read, since, now)
        run = read_rounds(item.folder, read)
        return _of_run(item, run, read, since, now)
    except (EnlistError, OSError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        why = str(error).replace(f"{item.folder}{os.sep}", "").replace(str(item.folder), item.id)
        return RunSummary(item, Status("damaged", since, why=printable(why, 400)))


def _of_run(item: Item, run: RunTables, read: ReadTable, since: float, now: float) -> RunSummary:
    by = measure([run])
    seen = evaluations(run, by).values
    target = configured_target([run])
    reached = None if target is None else time_to(run, target, by=by)
    ends = run.rounds["end"]
    return RunSummary(
        item,
        status_of(run, since, now),
        run.selector,
        run.seed,
        data_name(run.config),
        by,
        float(seen[-1]) if len(seen) else math.nan,
        float(seen[-LAST:].mean()) if len(seen) else math.nan,
        thinned(seen),
        target,
        reached.rounds if reached else None,
        reached.seconds if reached else None,
        float(ends[-1]) if len(ends) else 0.0,
        leaves(run.config),
        totals(run, read),
    )


COUNTED = ("selected", "completed", "late", "dropped", "failed", "arrived")
EVENTS = ("refused", "doubted")


def totals(run: RunTables, read: ReadTable = read_table) -> dict[str, float]:
    """Sums over the rounds of a run, and, of a federation, the numbers of events by kind.

    >>> from enlist.runs.example import example_run
    >>> found = totals(example_run())
    >>> found["selected"], found["online"], round(found["seconds"], 1)
    (32.0, 9.0, 12.4)
    """
    table = run.rounds
    found = {name: float(np.nansum(table[name])) for name in COUNTED if name in table}
    if len(table["end"]):
        found["seconds"] = float(table["end"][-1] - table["start"][-1])
        found["online"] = float(np.nan_to_num(table["available"][-1]))
    if run.federation and run.folder is not None and files.has_file(run.folder / "events.csv"):
        counts = _event_totals(run.folder, read)
        found |= {name: float(counts.get(name, 0)) for name in EVENTS}
    return found


def _event_totals(folder: Path, read: ReadTable) -> dict[str, int]:
    told = read(folder / "events.csv", ("kind", "text"), ("kind", "text"))
    if not {"kind", "text"} <= told.keys():
        return {}
    path, reasons = folder / "participations.csv", np.empty(0, dtype=np.str_)
    if files.has_file(path):
        reasons = read(path, ("reason",), ("reason",)).get("reason", reasons)
    return federation.event_totals(told["kind"].tolist(), told["text"].tolist(), [str(each) for each in reasons])


def _personal(item: Item, read: ReadTable, since: float, now: float) -> RunSummary:
    config = read_json(item.folder / "config.json") or {}
    rounds = read(item.folder / "rounds.csv", ("round", "test", "skipped"), ("skipped",))
    result = read_json(item.folder / "result.json")
    scores = rounds["test"][np.isfinite(rounds["test"])]
    measured = str((result or {}).get("metric") or config.get("metric", "score"))
    number = int(rounds["round"][-1]) if len(rounds["round"]) else 0
    seed = config.get("seed")
    return RunSummary(
        item,
        _status(item.folder, result, config, number, math.nan, since, now),
        f"worker {config.get('target', '?')}",
        seed if isinstance(seed, int) else None,
        data_name(config),
        "accuracy" if measured == "accuracy" else measured,
        float(scores[-1]) if len(scores) else math.nan,
        float(scores[-LAST:].mean()) if len(scores) else math.nan,
        thinned(scores),
        values=leaves(config),
    )


def _named(item: Item) -> dict[str, Any]:
    """What the configuration alone says."""
    config = read_json(item.folder / "config.json") or {}
    method, seed = identity(item.folder, config)
    return {"method": method, "seed": seed, "data": data_name(config), "values": leaves(config)}


def status_of(run: RunTables, since: float, now: float) -> Status:
    """The status of a simulation or a federation, from its files and its lock.

    >>> from enlist.runs.example import example_run
    >>> status_of(example_run(), 0.0, 0.0).state
    'finished'
    """
    ends = run.rounds["end"]
    clock = float(ends[-1]) if len(ends) else 0.0
    found = _status(run.folder, run.result, run.config, len(ends), clock, since, now)
    if run.federation and found.state == "stalled":
        said = federation.state(run)
        if said.status == federation.STOPPED:
            return dataclasses.replace(found, state="failed", why=printable(said.why, 400) or "it was stopped")
    return found


def _status(
    folder: Path | None,
    result: Mapping[str, Any] | None,
    config: Mapping[str, Any],
    rounds: int,
    clock: float,
    since: float,
    now: float,
) -> Status:
    of, progress = planned(config, rounds, clock)
    if result is not None and "status" in result:
        why = "" if result["status"] == "finished" else printable(result["status"], 80)
        return Status("finished", since, rounds, of, 1.0, why=why)
    if folder is None:
        return Status("stalled", since, rounds, of, progress)
    usual = recent_seconds(folder)
    claimed = files.is_claimed(folder / "lock")
    if not claimed and (reason := failure_of(folder)):
        return Status("failed", since, rounds, of, progress, why=printable(reason, 400))
    limit = max(PATIENT, TIMES * usual if math.isfinite(usual) else 0.0)
    if not claimed and now - since > FRESH:
        return Status("stalled", since, rounds, of, progress, why="no process is running it; --resume continues it")
    if now - since > limit:
        return Status("stalled", since, rounds, of, progress, why="it is running, but no round has ended yet")
    return Status("running", since, rounds, of, progress, time_left(progress, rounds, usual))


def planned(config: Mapping[str, Any], rounds: int, clock: float) -> tuple[int | None, float | None]:
    """Rounds to run and the share that is done, from a configuration; None where it does not say.

    >>> planned({"rounds": {"rounds": 100, "seconds": 50.0}}, 10, 20.0)
    (100, 0.4)
    """
    section = config.get("rounds")
    limits = section if isinstance(section, Mapping) else {"rounds": section}
    most, seconds = limits.get("rounds"), limits.get("seconds")
    shares = [rounds / most] if isinstance(most, int) and most > 0 else []
    if isinstance(seconds, int | float) and seconds > 0 and math.isfinite(clock):
        shares.append(clock / seconds)
    return (most if isinstance(most, int) else None), (min(max(shares), 1.0) if shares else None)


def time_left(progress: float | None, rounds: int, usual: float) -> float | None:
    """Seconds until a run is done, if rounds take as long as usual.

    >>> time_left(0.25, rounds=10, usual=2.0)
    60.0
    """
    if not progress or not rounds or not math.isfinite(usual):
        return None
    return (rounds / progress - rounds) * usual


def recent_seconds(folder: Path) -> float:
    """Recent wall-clock seconds per round, from the end of wall.csv; NaN if there are none.

    >>> recent_seconds(Path("no/such/run"))
    nan
    """
    try:
        with os.fdopen(files.descriptor(folder / "wall.csv", os.O_RDONLY), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL))
            lines = file.read(TAIL).decode(errors="replace").split("\n")[1:-1]
    except (OSError, EnlistError):
        return math.nan
    seconds = []
    for line in lines[-RECENT:]:
        with contextlib.suppress(ValueError, IndexError):
            seconds.append(float(line.split(",")[1]))
    return float(np.mean(seconds)) if seconds else math.nan


def written(folder: Path) -> float:
    """When a run was last written: the newest change of its tables."""
    found = [0.0]
    for name in ("rounds.csv", "result.json", "config.json", "starts.csv"):
        with contextlib.suppress(OSError):
            found.append(os.lstat(folder / name).st_mtime)
    return max(found)


def data_name(config: Mapping[str, Any]) -> str:
    """The data set of a configuration, or the strategy of a federation.

    >>> data_name({"data": {"dataset": {"name": "digits"}}}), data_name({"strategy": "FedAvg"})
    ('digits', 'FedAvg')
    """
    for name in ("data", "workers"):
        section = config.get(name)
        found = section.get("dataset") if isinstance(section, Mapping) else None
        if found is not None:
            return str(found.get("name", "")) if isinstance(found, Mapping) else str(found)
    return str(config.get("strategy", ""))


def thinned(values: FloatArray, most: int = POINTS) -> list[float]:
    """At most `most` of the values, evenly spaced, including the first and the last.

    >>> thinned(np.arange(5.0), most=3)
    [0.0, 2.0, 4.0]
    """
    kept = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(np.int64))
    return [float(f"{values[place]:.4g}") for place in kept] if len(values) else []
