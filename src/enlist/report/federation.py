"""The first part of a report on a real federation: its status, and which clients have which problems."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from enlist._internal.text import printable
from enlist.report.flower import FLOWER, shadow_table
from enlist.report.page import Section
from enlist.runs.federation import FederationState, by_client, events, state
from enlist.runs.printing import duration, plural
from enlist.runs.tables import RunTables, Table

MOST_CLIENTS = 500
MOST_EVENTS = 200
LONGEST_REASON = 120
TROUBLE = ("failed", "dropped", "late")
COLUMNS = ("client", "selected", "completed", "late", "failed", "dropped", "last seen", "reasons")


def as_chosen(runs: Sequence[RunTables]) -> list[RunTables]:
    """Runs named after what chose the clients: Flower's sampling, if the selector only watched.

    >>> from enlist.runs.example import example_run
    >>> [run.selector for run in as_chosen([example_run("oort")])]
    ['oort']
    """
    watched = [rounds_in_shadow(run) == len(run.rounds["round"]) > 0 for run in runs]
    names = [
        f"{FLOWER}, {run.selector} watching" if only else run.selector for run, only in zip(runs, watched, strict=True)
    ]
    return [dataclasses.replace(run, selector=name) for run, name in zip(runs, names, strict=True)]


def rounds_in_shadow(run: RunTables) -> int:
    """The number of rounds in which the selector only watched.

    >>> from enlist.runs.example import example_run
    >>> rounds_in_shadow(example_run())
    0
    """
    table = shadow_table(run)
    return 0 if table is None else len(np.unique(table["round"]))


def federation_sections(runs: Sequence[RunTables]) -> list[Section]:
    """A section for each real federation.

    >>> from enlist.runs.example import example_run
    >>> federation_sections([example_run()])
    []
    """
    found = []
    for run in runs:
        if run.federation and run.folder is not None:
            heading = "The federation" if len(runs) == 1 else f"The federation in {printable(run.folder.name)}"
            found.append(_section(run, heading))
    return found


def _section(run: RunTables, heading: str) -> Section:
    now, told = state(run), events(run)
    text = " ".join(part for part in (standing(run, now), shadow(run), evaluations(run)) if part)
    note = (
        "Those with the most trouble come first; click a heading to sort by it. 'late' are requests that the server "
        "did not wait for, 'failed' replies that were errors or unusable, 'dropped' nodes that were lost."
    )
    rows = [[_date(now, row["time"]), f"{row['round']:.0f}", row["kind"], row["name"], row["text"]] for row in told]
    listed = [["when", "round", "what", "client", "text"], *([printable(cell) for cell in row] for row in rows)]
    title = f"Events ({len(told):,})" if len(told) <= MOST_EVENTS else f"The last {MOST_EVENTS} of {len(told):,} events"
    folded = listed[: MOST_EVENTS + 1] if told else ()
    table = client_rows(run, now)
    return Section(heading, text, table, note=note, sortable=True, worded=True, folded=folded, folded_title=title)


def standing(run: RunTables, now: FederationState) -> str:
    """Its status in sentences: whether it is running, since when, how often it was resumed, and lost clients.

    >>> from enlist.runs.example import example_run
    >>> standing(example_run(), FederationState("killed"))
    'It is not running: it ended unexpectedly after round 8.'
    """
    number = int(run.rounds["round"][-1])
    words = {
        "finished": f"It is finished after {plural(number, 'round')}.",
        "running": f"It is running; round {number} is the last finished one.",
        "stopped": f"It is not running: it was stopped after round {number} ({printable(now.why)}).",
        "killed": f"It is not running: it ended unexpectedly after round {number}.",
    }
    parts = [words[now.status]]
    if now.began is not None:
        begun = f"It began on {_written(now.began)}"
        parts.append(f"{begun}, and its last round ended on {_written(now.last)}." if now.last else f"{begun}.")
        again = {0: "never continued", 1: "continued once"}.get(now.restarts, f"continued {now.restarts} times")
        parts.append(f"It was {again} after a stop.")
    return " ".join(parts)


def shadow(run: RunTables) -> str:
    """Of a federation in shadow mode, which selections its accuracy is due to.

    >>> from enlist.runs.example import example_run
    >>> shadow(example_run())
    ''
    """
    watched = rounds_in_shadow(run)
    if not watched:
        return ""
    if watched == len(run.rounds["round"]):
        return (
            f"{run.selector} only watched (shadow mode): {FLOWER} selected the clients, so accuracy, times and "
            "outcomes are not due to the selector."
        )
    return (
        f"In {plural(watched, 'round')} of {len(run.rounds['round'])} {run.selector} only watched (shadow mode); "
        f"their results are due to {FLOWER}."
    )


def evaluations(run: RunTables) -> str:
    """The outcomes of evaluations by clients.

    >>> from enlist.runs.example import example_run
    >>> evaluations(example_run())
    ''
    """
    selected, completed, failed = (
        int(np.nansum(run.rounds.get(f"evaluate_{name}", np.zeros(0)))) for name in ("selected", "completed", "failed")
    )
    if not selected:
        return ""
    return (
        f"Clients were asked to evaluate the model {selected:,} times: {completed:,} of these evaluations were used, "
        f"{failed:,} failed or gave impossible values, {selected - completed - failed:,} did not arrive in time."
    )


def client_rows(run: RunTables, now: FederationState) -> list[list[str]]:
    """The table of clients, with a header, those with the most trouble first.

    >>> from enlist.runs.example import example_run
    >>> client_rows(example_run("oort"), FederationState("finished"))[1]
    ['0', '8', '7', '0', '0', '1', 'after 1 min 30 s', '']
    """
    table = by_client(run)
    order = np.lexsort((-table["selected"], *(-table[name] for name in reversed(TROUBLE))))
    return [list(COLUMNS), *(_row(table, place, now) for place in order[:MOST_CLIENTS].tolist())]


def _row(table: Table, place: int, now: FederationState) -> list[str]:
    name, reasons = printable(table["name"][place], 60), printable(table["reasons"][place], LONGEST_REASON)
    counts = [str(table[outcome][place]) for outcome in ("selected", "completed", "late", "failed", "dropped")]
    return [name, *counts, _date(now, float(table["seen"][place])), reasons]


def _date(now: FederationState, seconds: Any) -> str:
    """A time of the run's clock: its date, or the time since the start."""
    if not isinstance(seconds, float) or not math.isfinite(seconds):
        return "–"
    date = now.at(seconds)
    return f"after {duration(seconds)}" if date is None else _written(date)


def _written(date: datetime.datetime) -> str:
    return f"{date:%Y-%m-%d %H:%M} UTC"
