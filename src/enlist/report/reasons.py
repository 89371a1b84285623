"""Why clients were selected, on a page: the terms of their scores over time, and a row for each client."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist._internal.text import printable
from enlist.report.charts import Row, looks
from enlist.report.kit import BLUE
from enlist.report.page import Section
from enlist.runs.clients import MEANS, by_client
from enlist.runs.reasons import OWN
from enlist.runs.tables import RunTables, read_run

MOST_TERMS = 5
POINTS = 120
MOST_CLIENTS = 200
"""Most rows of the table of clients."""
MOST_CHARTS = 6
TITLES = {"latency": "mean latency (s)", "loss": "mean loss", "accuracy": "mean accuracy"}


def term_rows(runs: Sequence[RunTables]) -> list[dict[str, Any]]:
    """Means of the terms over selected clients, round by round, over all `runs` (seeds of one method).

    There are at most five terms, those with the largest means, and at most 120 points for each.

    >>> from enlist.runs.example import example_run
    >>> rows = term_rows([example_run("oort")])
    >>> len(rows), rows[0]["term"], rows[0]["round"], round(rows[0]["mean"], 1)
    (8, 'speed', 1, 4.8)
    """
    tables = [run.reasons for run in runs if run.reasons]
    names = [name for name in dict.fromkeys(name for table in tables for name in table) if name not in OWN]
    means = {name: _by_round([table for table in tables if name in table], name) for name in names}
    size = {name: float(np.nanmean(np.abs(values))) for name, (_, values) in means.items() if len(values)}
    largest = sorted(size, key=lambda name: -size[name])[:MOST_TERMS]
    return [
        {"term": name.replace("_", " "), "round": int(number), "mean": float(value)}
        for name in names
        if name in largest
        for number, value in zip(*means[name], strict=True)
    ]


def _by_round(tables: Sequence[dict[str, Any]], name: str) -> tuple[Any, Any]:
    """Rounds and means of a term; many rounds are grouped."""
    rounds = np.concatenate([table["round"] for table in tables])
    values = np.concatenate([table[name] for table in tables])
    known = np.isfinite(values)
    rounds, values = rounds[known], values[known]
    if not len(rounds):
        return rounds, values
    step = max(1, math.ceil(float(rounds.max()) / POINTS))
    at, place = np.unique(np.ceil(rounds / step) * step, return_inverse=True)
    return at, np.bincount(place, weights=values) / np.bincount(place)


def term_chart(rows: Sequence[Row], title: str, colour: str = BLUE) -> alt.FacetChart:
    """A small panel per term, in the colour of the method, one above the other, because terms differ in units.

    >>> type(term_chart([{"term": "bonus", "round": 1, "mean": 0.5}], "A title")).__name__
    'FacetChart'
    """
    names = list(dict.fromkeys(row["term"] for row in rows))
    along = alt.Axis(grid=False, tickMinStep=1, format="d", tickCount=6)
    dots = {"size": 12, "color": colour} if len(rows) <= 10 * len(names) else False
    line = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_line(strokeWidth=2, color=colour, point=dots)
        .encode(
            x=alt.X("round:Q", title="round", scale=alt.Scale(nice=False), axis=along),
            y=alt.Y("mean:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=3)),
            tooltip=["term:N", "round:Q", alt.Tooltip("mean:Q", format=".4g")],
        )
        .properties(width=390, height=64)
    )
    header = alt.Header(title=None, labelOrient="top", labelAnchor="start", labelFontWeight="bold", labelPadding=2)
    faceted: alt.FacetChart = (
        line.facet(facet=alt.Facet("term:N", sort=names, header=header), columns=1, spacing=8)
        .resolve_scale(y="independent")
        .properties(title=title)
    )
    return faceted


def reason_sections(runs: Sequence[RunTables]) -> list[tuple[Section, dict[str, alt.TopLevelMixin]]]:
    """The terms of every method that has some, and the clients of the first run.

    >>> from enlist.runs.example import example_run
    >>> [section.heading for section, _ in reason_sections([example_run("oort")])]
    ['Why they were selected', 'Clients']
    """
    charts: dict[str, alt.TopLevelMixin] = {}
    names = list(dict.fromkeys(run.selector for run in runs))
    for name, look in zip(names, looks(names), strict=True):
        rows = term_rows([run for run in runs if run.selector == name])
        if rows and len(charts) < MOST_CHARTS:
            charts[f"reasons-{len(charts) + 1}"] = term_chart(rows, f"Terms of {name}", look.colour)
    found: list[tuple[Section, dict[str, alt.TopLevelMixin]]] = []
    if charts:
        text = "The terms of the scores, each a mean over the clients selected in a round"
        text += ", and over seeds." if len({run.seed for run in runs}) > 1 else "."
        note = "The command enlist why prints those of one round, client by client, and explains them."
        found.append((Section("Why they were selected", text, charts=list(charts.values()), note=note), charts))
    return [*found, (_clients(runs), {})]


def _clients(runs: Sequence[RunTables]) -> Section:
    run = runs[0]
    if run.folder is not None and any(name not in run.participations for name in MEANS):
        run = read_run(run.folder)  # scores do not use these columns
    table = by_client(run)
    order = np.argsort(-table["selected"], kind="stable")
    shown = order[:MOST_CLIENTS]
    rows = [[TITLES.get(name, name) for name in table]]
    rows += [[_cell(name, table[name][row]) for name in table] for row in shown.tolist()]
    text = "Click a heading to sort by it."
    if len(order) > len(shown):
        text = f"The {len(shown)} of {len(order):,} clients that were selected most often. {text}"
    note = "Means are over a client's updates."
    if "reward" in table:
        note += " The reward is what the selector expected of a client when it last selected it."
    if len(runs) > 1:
        note += f" These are the clients of {printable(run.name)}; a report of another run alone shows its own."
    return Section("Clients", text, rows, note=note, sortable=True)


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return printable(value, 60)
    if isinstance(value, float | np.floating):
        return "–" if math.isnan(value) else f"{value:,.{2 if name == 'latency' else 3}f}"
    return f"{value:d}"
