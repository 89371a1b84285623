"""A Flower federation for its operator: is it running, which nodes are there, what is wrong, since when."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from enlist.errors import EnlistError
from enlist.report.federation import COLUMNS, client_rows, shadow, standing
from enlist.report.flower import shadow_chart, shadow_fifths, shadow_sentence, shadow_table
from enlist.runs.checkpoints import CHECKPOINTS
from enlist.runs.checkpoints import written as checkpoints_of
from enlist.runs.federation import FederationState, by_client, event_totals, events, starts, state
from enlist.runs.printing import duration, score
from enlist.runs.scores import measure, requests
from enlist.runs.tables import RunTables
from enlist.ui.index import Item
from enlist.ui.status import RunSummary
from enlist.ui.views.model import Cell, Chart, Part, View, address, columns_of, figure, link
from enlist.ui.views.run import (
    choice_part,
    configuration,
    configuration_part,
    learning_part,
    rounds_part,
    run_charts,
    selected_parts,
    shown_round,
    span,
    state_of,
)

SHOWN_EVENTS, SHOWN_NODES = 30, 20
TROUBLE = ("refused", "doubted")
"""Kinds of events to count."""


def federation_view(item: Item, summary: RunSummary, run: RunTables, round: int | None = None) -> View:
    """A federation, running or recorded; the most urgent comes first."""
    now = state(run)
    charts = run_charts([run])
    table = shadow_table(run)
    if table is not None:
        charts["shadow"] = _shadow_chart(run)
    shown = shown_round(run, round)

    def parts() -> list[Part]:
        if not len(run.rounds["round"]):
            return [configuration_part([run])]
        found = [_trouble(item, run, now), _events(item, run, now), rounds_part(item, run)]
        found += [
            learning_part(run, charts),
            choice_part(item, run, shown),
            *_shadow(run),
            *selected_parts([run], charts),
        ]
        return [*found, _starts(run), configuration_part([run])]

    begun = len(run.rounds["round"]) > 0
    return View(
        "federation",
        f"{item.name}: {run.selector}",
        " ".join(part for part in (standing(run, now), shadow(run)) if part) if begun else "No round is finished yet.",
        state=state_of(summary.status),
        figures=lambda: operator_figures(item, summary, run),
        parts=parts,
        charts=charts,
        tables={
            "nodes": lambda: by_client(run),
            "events": lambda: columns_of(events(run)),
            "rounds": lambda: run.rounds,
            "participations": lambda: run.participations,
            "reasons": lambda: run.reasons,
            "shadow": lambda: shadow_table(run) or {"round": []},
            "starts": lambda: columns_of([each._asdict() for each in starts(run)]),
            "configuration": lambda: configuration([run]),
        },
        links=[("Compare with others", address("compare", of=[item.id]))],
        data={"id": item.id, "round": shown, "rounds": span(run)},
    )


def operator_figures(item: Item, summary: RunSummary, run: RunTables) -> list[dict[str, Any]]:
    """Nodes online, selected, at work, late and lost in the last round; refused and doubted; the checkpoint."""
    found = [figure("rounds finished", f"{summary.status.rounds:,}")]
    if not len(run.rounds["round"]):
        return found
    last = {name: _last(run, name) for name in run.rounds}
    found += [figure("nodes online", f"{last['available']:.0f}"), figure("selected", f"{last['selected']:.0f}")]
    found += [figure(name, f"{last[name]:.0f}", name if last[name] else "") for name in ("completed", "late")]
    if run.asynchronous:
        found += [figure("at work", f"{at_work(run):,}")]
    found += [figure("still busy", f"{len(busy(run)):,}", "late" if len(busy(run)) else "")]
    found += [figure("lost", f"{last['dropped']:.0f}", "dropped" if last["dropped"] else "")]
    found += [figure("failed", f"{last['failed']:.0f}", "failed" if last["failed"] else "")]
    counts = event_counts(run)
    found += [figure(kind, f"{counts.get(kind, 0):,}", "failed" if counts.get(kind) else "") for kind in TROUBLE]
    limit = last.get("deadline", math.nan)
    waited = duration(last["end"] - last["start"])
    found.append(
        figure("waited", waited, note=f"deadline {duration(limit)}" if math.isfinite(limit) else "no deadline")
    )
    by = measure([run])
    known = run.rounds[by][np.isfinite(run.rounds[by])]
    found += [figure(f"last {by}", score(float(known[-1]), by))] if len(known) else []
    age = checkpoint_written(item.folder)
    return [*found, {**figure("checkpoint", ""), "since": age}] if age else found


def _last(run: RunTables, name: str) -> float:
    return float(np.nan_to_num(run.rounds[name][-1], posinf=math.inf))


def busy(run: RunTables) -> list[int]:
    """Rows of clients that were late and have not replied since: they may still be at work."""
    told = run.participations
    when = told["round"] + told["selected_in"] / 1e9
    last: dict[int, tuple[float, str]] = {}
    for client, moment, outcome in zip(run.who.tolist(), when.tolist(), told["outcome"].tolist(), strict=True):
        if client not in last or moment >= last[client][0]:
            last[client] = (moment, outcome)
    return [client for client, (_, outcome) in last.items() if outcome == "late"]


def at_work(run: RunTables) -> int:
    """In buffered mode, requests that were open when the last step ended; none once the federation has ended.

    >>> from enlist.runs.example import example_run
    >>> at_work(example_run())
    0
    """
    if not run.asynchronous or run.result is not None:
        return 0
    return max(int(np.nansum(run.rounds["selected"])) - len(requests(run)), 0)


def event_counts(run: RunTables) -> dict[str, int]:
    """The number of events of each kind; empty if they cannot be read."""
    try:
        told = events(run)
    except EnlistError:
        return {}
    reasons = [str(each) for each in run.participations.get("reason", ())]
    return event_totals([str(event["kind"]) for event in told], [str(event["text"]) for event in told], reasons)


def checkpoint_written(folder: Path) -> float | None:
    """The time of the last checkpoint, as a Unix time; None if there is none."""
    try:
        whole = checkpoints_of(folder / CHECKPOINTS, partial=False)
        return whole[-1].stat().st_mtime if whole else None
    except (OSError, EnlistError):
        return None


def _trouble(item: Item, run: RunTables, now: FederationState) -> Part:
    lines = client_rows(run, now)
    names = {str(name): number for name, number in zip(by_client(run)["name"], by_client(run)["client"], strict=True)}
    rows: list[list[Cell]] = [list(COLUMNS)]
    for line in lines[1 : SHOWN_NODES + 1]:
        number = names.get(line[0])
        here: Cell = line[0] if number is None else link(line[0], address("client", item.id, client=int(number)))
        rows.append([here, *line[1:]])
    waiting = busy(run)
    were = "was late and has" if len(waiting) == 1 else "were late and have"
    text = [f"{len(waiting):,} of {run.count:,} nodes {were} not replied since."] if waiting else []
    note = "Those with the most trouble come first. 'late' counts requests that the server did not wait for."
    if run.count > SHOWN_NODES:
        note = f"{SHOWN_NODES} of {run.count:,} nodes; the CSV has all. {note}"
    return Part("Nodes", text, rows, "nodes", note=note)


def _events(item: Item, run: RunTables, now: FederationState) -> Part:
    told = events(run)
    if not told:
        return Part("Events", ["Nothing was refused or doubted."])
    rows: list[list[Cell]] = [["when", "round", "what", "node", "text"]]
    for event in told[:SHOWN_EVENTS]:
        seconds = event["time"]
        date = now.at(seconds) if isinstance(seconds, float) else None
        when = f"{date:%Y-%m-%d %H:%M} UTC" if date else f"after {duration(seconds)}"
        rows.append([when, f"{event['round']:.0f}", str(event["kind"]), str(event["name"]), str(event["text"])])
    note = "What a node does repeatedly is listed once; the figures above count every time."
    if len(told) > SHOWN_EVENTS:
        note = f"The last {SHOWN_EVENTS} of {len(told):,}. {note}"
    return Part("Events", [], rows, "events", note=note)


def _shadow(run: RunTables) -> list[Part]:
    table = shadow_table(run)
    if table is None:
        return []
    text = shadow_sentence(table, run.selector, float(np.nanmean(run.rounds["available"])))
    return [Part(f"{run.selector} in shadow mode", [text], csv="shadow", charts=["shadow"])]


def _shadow_chart(run: RunTables) -> Chart:
    def made() -> Any:
        table = shadow_table(run)
        rows = shadow_fifths(run, table) if table is not None else []
        return shadow_chart(rows, "Selected clients, and those the selector wanted") if rows else None

    return made


def _starts(run: RunTables) -> Part:
    rows: list[list[Cell]] = [["date", "after", "round", "what"]]
    rows += [
        [f"{start.date:%Y-%m-%d %H:%M:%S} UTC", duration(start.time), str(start.round), start.what]
        for start in reversed(starts(run))
    ]
    return Part("Starts", table=rows if len(rows) > 1 else (), csv="starts", folded=True)
