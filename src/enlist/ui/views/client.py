"""One client of a run: its history, the terms by which it was chosen, and why it was (not) chosen in a round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from enlist._internal.text import printable
from enlist.errors import EnlistError, InputError
from enlist.report.charts import looks
from enlist.report.reasons import MOST_TERMS, term_chart
from enlist.report.rounds import history_chart, history_rows
from enlist.runs.printing import duration, percent
from enlist.runs.reasons import OWN
from enlist.runs.scores import first_rows, times_selected
from enlist.runs.tables import RunTables, Table
from enlist.runs.why import row_of, why
from enlist.ui.index import Item
from enlist.ui.status import RunSummary
from enlist.ui.views.model import Cell, Chart, NotFoundError, Part, View, address, figure, link, some
from enlist.ui.views.run import number_cell, state_of

SHOWN = 40
"""Most requests to a client that are listed, the latest first."""
LIMIT = (
    "A run records the terms of chosen clients, and how many were available, but neither which ones nor the "
    "scores of clients that were not chosen. What is said here follows from that."
)
"""What is unknown about a client that was not chosen."""
TITLES = {"latency": "latency (s)", "num_examples": "samples"}
FACTS = {
    "num_examples": "samples",
    "compute_ms": "compute time per sample (ms)",
    "bandwidth_kbps": "bandwidth (kbit/s)",
    "expected_latency": "expected latency (s)",
    "uptime": "share of time online",
    "node": "node",
}


def client_view(item: Item, summary: RunSummary, run: RunTables, client: str, round: int | None) -> View:
    """A client, by its position or its name.

    >>> from pathlib import Path
    >>> from enlist.runs.example import example_run
    >>> from enlist.ui.status import Status
    >>> item = Item("mine", "run", Path("mine"), Path("mine"))
    >>> view = client_view(item, RunSummary(item, Status("finished", 0.0)), example_run("oort"), "7", 5)
    >>> view.title, view.parts()[0].text[-1][:24]
    ('Client 7 of oort, seed 0', 'Client 7 was not chosen:')
    """
    if not run.count:
        raise NotFoundError("no client is known yet, because the run has just begun.")
    try:
        row = row_of(run, client)
    except InputError as error:
        raise NotFoundError(str(error).replace(str(run.folder), item.id)) from None
    number = int(run.clients["client"][row])
    name = f"Client {number}" + (f" ({printable(run.names[row], 60)})" if run.names is not None else "")
    shown = _round(run, row, round)
    mine = np.flatnonzero(run.who == row)
    charts: dict[str, Chart] = {}
    if len(mine):
        charts["history"] = lambda: history_chart(history_rows(run, row), f"Requests to client {number}")
    if terms_of(run, row):
        charts["terms"] = lambda: term_chart(
            _term_rows(run, row), f"Terms by which client {number} was chosen", looks([run.selector])[0].colour
        )
    known = run.rounds["round"]
    span = [int(known[0]), int(known[-1])] if len(known) else []
    return View(
        "client",
        f"{name} of {run.name}",
        _lead(run, row),
        state=state_of(summary.status),
        figures=lambda: _figures(run, row),
        parts=lambda: [_why(item, run, row, shown), _history(item, run, row, list(charts)), _facts(run, row)],
        charts=charts,
        tables={
            "history": lambda: some(run.participations, mine[::-1].tolist()),
            "terms": lambda: {name: column for name, column in terms_of(run, row).items() if name != "client"},
            "client": lambda: some(run.clients, [row]),
        },
        links=[("The run", address("federation" if run.federation else "run", item.id, round=shown))],
        data={"id": item.id, "client": number, "round": shown, "rounds": span, "clients": run.count},
    )


def _round(run: RunTables, row: int, wanted: int | None) -> int | None:
    """The round to explain: the requested one, else the last in which the client was selected, else the last of all."""
    known = run.rounds["round"]
    if wanted is not None and len(known) and wanted not in known:
        raise NotFoundError(f"round {wanted} is not in this run; it has rounds {known[0]:g} to {known[-1]:g}.")
    if wanted is not None:
        return wanted
    asked = run.participations["selected_in"][run.who == row]
    return int(asked.max()) if len(asked) else int(known[-1]) if len(known) else None


def terms_of(run: RunTables, row: int) -> Table:
    """The terms of one client's selections, with their rounds; empty if there are none."""
    kept = run.reasons
    if not kept:
        return {}
    mine = kept["client"] == run.clients["client"][row]
    return {name: column[mine] for name, column in kept.items()} if mine.any() else {}


def _term_rows(run: RunTables, row: int) -> list[dict[str, Any]]:
    table = terms_of(run, row)
    names = [name for name in table if name not in OWN and np.isfinite(table[name]).any()][:MOST_TERMS]
    return [
        {"term": printable(name, 40).replace("_", " "), "round": int(number), "mean": float(value)}
        for name in names
        for number, value in zip(table["round"], table[name], strict=True)
        if math.isfinite(value)
    ]


def _lead(run: RunTables, row: int) -> str:
    count, rounds = int(times_selected(run)[row]), len(run.rounds["round"])
    return f"Selected in {count:,} of {rounds:,} rounds."


def _figures(run: RunTables, row: int) -> list[dict[str, Any]]:
    told = run.participations
    mine = run.who == row
    first = mine & first_rows(run)
    asked = int(first.sum())
    found = [figure("selected", f"{asked:,}")]
    for outcome in ("completed", "late", "dropped", "failed"):
        count = int((first & (told["outcome"] == outcome)).sum())
        found.append(
            figure(outcome, f"{count:,}", outcome if count else "", note=percent(count / asked) if asked else "")
        )
    updated = mine & np.isin(told["outcome"], ("completed", "arrived"))
    for name, show in (("latency", duration), ("loss", "{:.3g}".format), ("accuracy", percent)):
        if name in told and np.isfinite(told[name][updated]).any():
            found.append(figure(f"mean {name}", show(float(np.nanmean(told[name][updated])))))
    return found


def _why(item: Item, run: RunTables, row: int, number: int | None) -> Part:
    heading = "Why it was chosen, or was not"
    if number is None:
        return Part(heading, ["No round is finished yet."])
    try:
        found = why(run, number, int(run.clients["client"][row]))
    except EnlistError as error:
        return Part(heading, [str(error).replace(str(run.folder), item.id)])
    table = found.rows()
    if len(table) > 1:
        return Part(f"Round {number}: why it was chosen", found.sentences, table, name="choice")
    return Part(f"Round {number}: why it was not chosen", found.sentences, note=LIMIT)


def _history(item: Item, run: RunTables, row: int, charts: list[str]) -> Part:
    told = run.participations
    mine = np.flatnonzero(run.who == row)[::-1]
    names = [
        name
        for name in ("latency", "num_examples", "loss", "loss_rms", "accuracy", "accuracy_gain", "weight")
        if name in told and np.isfinite(told[name][mine]).any()
    ]
    reason = told.get("reason")
    worded = reason is not None and reason.dtype.kind == "U" and bool(len(mine)) and (reason[mine] != "").any()
    rows: list[list[Cell]] = [["round", "outcome", *(TITLES.get(name, name.replace("_", " ")) for name in names)]]
    rows[0] += ["reason"] if worded else []
    number = int(run.clients["client"][row])
    for place in mine[:SHOWN].tolist():
        asked = int(told["selected_in"][place])
        cells: list[Cell] = [link(asked, address("client", item.id, client=number, round=asked))]
        cells += [str(told["outcome"][place]), *(_cell(told[name][place]) for name in names)]
        rows.append(cells + ([str(reason[place])] if worded and reason is not None else []))
    text = ["It was never selected."] if not len(mine) else []
    note = f"The latest {SHOWN} of {len(mine):,}." if len(mine) > SHOWN else ""
    return Part("History", text, rows if len(mine) else (), "history" if len(mine) else "", charts, note)


def _facts(run: RunTables, row: int) -> Part:
    table = run.clients
    rows: list[list[Cell]] = [["what", "value"]]
    for name, title in FACTS.items():
        if name in table:
            rows.append([title, _cell(table[name][row])])
    held = [name for name in run.classes if table[name][row] > 0]
    rows += [[f"samples of class {name.removeprefix('class_')}", _cell(table[name][row])] for name in held]
    return Part("Data and device", table=rows, csv="client")


def _cell(value: Any) -> str:
    return number_cell(float(value)) if isinstance(value, float | np.floating) else str(value)


def missing_client(item: Item, query: Mapping[str, str]) -> str:
    """The client named by an address.

    >>> from pathlib import Path
    >>> missing_client(Item("mine", "run", Path("mine"), Path("mine")), {"client": "7"})
    '7'
    """
    client = query.get("client", "").strip()
    if not client:
        raise NotFoundError(f"name a client of {item.id}: {address('client', item.id, client=0)}.")
    return client
