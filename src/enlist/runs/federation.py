"""What operators want to know about a real federation: is it running, since when, and what is wrong with a client?"""

from __future__ import annotations

import collections
import csv
import dataclasses
import datetime
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from enlist._internal import files
from enlist._internal.typing import AnyArray
from enlist.runs.scores import first_rows
from enlist.runs.tables import RunTables, Table, read_table

STARTS = ("date", "time", "round", "what")
"""Columns of starts.csv: when (UTC), the seconds of the run's clock, the last finished round, and what happened."""
ENDED, STOPPED = "finished", "stopped"
SEEN = ("completed", "failed", "arrived")
"""Outcomes that a client itself has caused."""
WRITTEN = "%Y-%m-%d %H:%M:%S"


class Start(NamedTuple):
    """A row of starts.csv: the server was started, or has ended.

    >>> Start(datetime.datetime(2026, 11, 17), 0.0, 0, "started").what
    'started'
    """

    date: datetime.datetime
    time: float
    round: int
    what: str


def note_start(folder: Path, date: float, time: float, number: int, what: str) -> None:
    """Append a row to starts.csv, which is never cut: it records all starts, including unsuccessful ones.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> note_start(place, 1_700_000_000.0, 12.5, 3, "continued")
    >>> (place / "starts.csv").read_text().splitlines()
    ['date,time,round,what', '2023-11-14 22:13:20,12.5,3,continued']
    """
    moment = datetime.datetime.fromtimestamp(date, datetime.UTC).strftime(WRITTEN)
    with files.open_to_append(folder / "starts.csv") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not file.tell():
            writer.writerow(STARTS)
        writer.writerow((moment, repr(float(time)), number, what))


def starts(run: RunTables) -> list[Start]:
    """The rows of starts.csv; none in folders of version 0.1.

    >>> from enlist.runs.example import example_run
    >>> starts(example_run())
    []
    """
    if run.folder is None or not files.has_file(run.folder / "starts.csv"):
        return []
    table = read_table(run.folder / "starts.csv", text=("date", "what"))
    if not table.keys() >= set(STARTS):
        return []
    found = []
    for date, time, number, what in zip(*(table[name].tolist() for name in STARTS), strict=True):
        try:
            moment = datetime.datetime.strptime(date, WRITTEN).replace(tzinfo=datetime.UTC)
        except ValueError:
            continue
        found.append(Start(moment, float(time), 0 if math.isnan(number) else int(number), str(what)))
    return found


@dataclasses.dataclass(frozen=True)
class FederationState:
    """The status of a federation.

    status    "finished", "running", "stopped" by an error or an operator, or "killed": it ended without a message
    why       its message when it was stopped
    began     when its clock was at zero; None if that was not recorded
    last      when its last finished round ended
    restarts  how often it was continued

    >>> FederationState("running").restarts
    0
    """

    status: str
    why: str = ""
    began: datetime.datetime | None = None
    last: datetime.datetime | None = None
    restarts: int = 0

    def at(self, seconds: float) -> datetime.datetime | None:
        """The date of a moment of the run's clock."""
        if self.began is None or not math.isfinite(seconds):
            return None
        return self.began + datetime.timedelta(seconds=seconds)


def state(run: RunTables) -> FederationState:
    """The status of a federation, from the contents of its folder and from whether a process holds its lock.

    >>> from enlist.runs.example import example_run
    >>> state(example_run()).status
    'finished'
    """
    rows = starts(run)
    began = rows[0].date - datetime.timedelta(seconds=rows[0].time) if rows else None
    ends = run.rounds["end"]
    status, why = "killed", ""
    if run.result is not None and run.result.get("status") == ENDED:
        status = ENDED
    elif run.folder is not None and files.is_claimed(run.folder / "lock"):
        status = "running"
    elif rows and rows[-1].what.startswith(STOPPED):
        status, why = STOPPED, rows[-1].what.removeprefix(STOPPED).removeprefix(": ")
    found = FederationState(status, why, began, None, sum(row.what == "continued" for row in rows))
    return dataclasses.replace(found, last=found.at(float(ends[-1])) if len(ends) else None)


def by_client(run: RunTables) -> Table:
    """One row per client: client, name, asked, completed, late, failed, dropped, seen, reasons.

    `seen` is the time of its last reply on the run's clock, NaN if there was none; `reasons` say why it failed or was
    dropped, with counts, the most frequent first.

    >>> from enlist.runs.example import example_run
    >>> table = by_client(example_run("oort"))
    >>> list(table), table["selected"][:4]
    (['client', 'name', 'selected', 'completed', 'late', 'failed', 'dropped', 'seen', 'reasons'], array([8, 0, 5, 2]))
    """
    told, who, count = run.participations, run.who, run.count
    first = first_rows(run)
    numbers = run.clients["client"].astype(np.int64)
    found: Table = {"client": numbers}
    found["name"] = run.names if run.names is not None else np.array([str(number) for number in numbers])
    found["selected"] = np.bincount(who[first], minlength=count)
    for outcome in ("completed", "late", "failed", "dropped"):
        found[outcome] = np.bincount(who[first & (told["outcome"] == outcome)], minlength=count)
    found["seen"] = _seen(run)
    found["reasons"] = _reasons(run)
    return found


def _seen(run: RunTables) -> AnyArray:
    told = run.participations
    begun = dict(zip(run.rounds["round"].tolist(), run.rounds["start"].tolist(), strict=True))
    latency = told.get("latency", np.full(len(told["round"]), np.nan))
    moments = np.array([begun.get(number, math.nan) for number in told["selected_in"].tolist()]) + latency
    seen = np.full(run.count, -np.inf)
    there = np.isin(told["outcome"], SEEN) & np.isfinite(moments)
    np.maximum.at(seen, run.who[there], moments[there])
    return np.where(np.isfinite(seen), seen, np.nan)


def _reasons(run: RunTables) -> AnyArray:
    column = run.participations.get("reason")
    counts: Mapping[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    if column is not None and column.dtype.kind == "U":
        for client, reason in zip(run.who.tolist(), column.tolist(), strict=True):
            if reason:
                counts[client][reason] += 1
    told = [counts[client].most_common() if client in counts else [] for client in range(run.count)]
    return np.array(
        ["; ".join(reason if times == 1 else f"{reason} ({times}x)" for reason, times in each) for each in told]
    )


def event_totals(kinds: Sequence[str], texts: Sequence[str], reasons: Sequence[str]) -> dict[str, int]:
    """How often each kind of event happened, from columns of events.csv and the reasons in participations.csv.

    events.csv has each thing once, however often a node does it; every refused reply has a reason.

    >>> event_totals(["refused", "doubted"], ["refused: no model", "claims much"], ["", *["refused: no model"] * 5])
    {'refused': 5, 'doubted': 1}
    """
    refused = collections.Counter(reason for reason in reasons if reason.startswith("refused"))
    found = collections.Counter({"refused": refused.total()} if refused else {})
    for kind, text in zip(kinds, texts, strict=True):
        found[kind] += not (kind == "refused" and text in refused)
    return dict(found)


def events(run: RunTables) -> list[dict[str, Any]]:
    """The rows of events.csv, newest first: round, time, kind, node, client, text.

    >>> from enlist.runs.example import example_run
    >>> events(example_run())
    []
    """
    path = None if run.folder is None else run.folder / "events.csv"
    if path is None or not files.has_file(path):
        return []
    table = read_table(path, text=("kind", "text", "node"))
    if not {"round", "time", "kind", "client", "text"} <= table.keys():
        return []
    names = dict(zip(run.clients["client"].tolist(), by_client(run)["name"].tolist(), strict=True))
    rows = [
        dict(zip(table, values, strict=True)) for values in zip(*(table[name].tolist() for name in table), strict=True)
    ]
    return [{**row, "name": names.get(row["client"], f"node {row.get('node', '?')}")} for row in reversed(rows)]
