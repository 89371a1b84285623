"""The part of a report on shadow mode in a Flower federation: what Flower selected, and what the selector wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist._internal.text import place_name
from enlist._internal.typing import AnyArray, BoolArray
from enlist.report.charts import NEUTRAL, PALETTE, Row
from enlist.report.kit import HEIGHT, WIDTH
from enlist.report.page import Section
from enlist.runs.printing import duration, percent
from enlist.runs.tables import RunTables, Table, read_table

FIFTHS = ("fastest fifth", "second", "third", "fourth", "slowest fifth")
FLOWER = "Flower's sampling"


def shadow_table(run: RunTables) -> Table | None:
    """shadow.csv of a run, if it has one with rows.

    >>> from enlist.runs.example import example_run
    >>> shadow_table(example_run()) is None
    True
    """
    path = None if run.folder is None else run.folder / "shadow.csv"
    if path is None or not path.exists():
        return None
    table = read_table(path)
    told = table["round"] <= (run.rounds["round"][-1] if len(run.rounds["round"]) else -math.inf)
    return {name: column[told] for name, column in table.items()} if told.any() else None


def shadow_sentence(table: Table, selector: str, available: float) -> str:
    """How far the two agree, compared with chance, and the outcomes of clients that both wanted.

    >>> both = {"round": [1, 1, 1], "selected": [1, 1, 0], "wanted": [1, 0, 1]}
    >>> table = {name: np.array(column, dtype=float) for name, column in both.items()}
    >>> table |= {"outcome": np.array(["completed", "failed", ""]), "latency": np.array([4.0, np.nan, np.nan])}
    >>> shadow_sentence(table, "oort", available=8.0)
    "Of 2 requests that Flower's sampling made, oort would have made 50 % as well (25 % by chance). Of those, ..."
    """
    asked, wanted = table["selected"] == 1, table["wanted"] == 1
    rounds = len(np.unique(table["round"]))
    shared = asked & wanted
    chance = wanted.sum() / rounds / available if available else math.nan
    text = f"Of {asked.sum():,} requests that {FLOWER} made, {selector} would have made "
    text += f"{percent(shared.sum() / max(asked.sum(), 1))} as well ({percent(min(chance, 1.0))} by chance)."
    parts = [
        f"{percent(float((table['outcome'][where] == 'completed').mean()))} were completed{_after(table, where)}"
        for where in (shared, asked & ~wanted)
        if where.any()
    ]
    if len(parts) == 2:
        text += f" Of those, {parts[0]}; of the others, {parts[1]}."
    return text


def _after(table: Table, where: BoolArray) -> str:
    times = table["latency"][where & (table["outcome"] == "completed")]
    times = times[np.isfinite(times)]
    return f", after {duration(float(times.mean()))} on average" if len(times) else ""


def shadow_fifths(run: RunTables, table: Table) -> list[dict[str, Any]]:
    """The share of requests to each fifth of the clients by measured latency, selected and wanted.

    >>> from enlist.runs.example import example_run
    >>> run = example_run(clients=10)
    >>> columns = {"client": [0, 1], "selected": [1, 0], "wanted": [0, 1]}
    >>> rows = shadow_fifths(run, {name: np.array(column, dtype=float) for name, column in columns.items()})
    >>> sum(row["share"] for row in rows if row["who"] == "random")
    1.0
    """
    speed: AnyArray = run.clients.get("expected_latency", np.full(run.count, math.nan))
    known = np.flatnonzero(np.isfinite(speed))
    if len(known) < len(FIFTHS):
        return []
    order = known[np.argsort(speed[known], kind="stable")]
    fifth = np.full(run.count, -1)
    fifth[order] = np.arange(len(order)) * len(FIFTHS) // len(order)
    numbers = {number: row for row, number in enumerate(run.clients["client"].tolist())}
    place = np.array([fifth[numbers[number]] if number in numbers else -1 for number in table["client"].tolist()])
    found = []
    for who, column in ((FLOWER, "selected"), (run.selector, "wanted")):
        places = place[(table[column] == 1) & (place >= 0)]
        counts = np.bincount(places, minlength=len(FIFTHS))
        found += [
            {"who": who, "fifth": name, "share": float(count / max(counts.sum(), 1))}
            for name, count in zip(FIFTHS, counts.tolist(), strict=True)
        ]
    return found


def shadow_chart(rows: Sequence[Row], title: str) -> alt.Chart:
    """Bars side by side: which clients get the requests, under Flower's sampling and under the selector.

    >>> rows = [{"who": who, "fifth": "second", "share": 0.2} for who in (FLOWER, "oort")]
    >>> type(shadow_chart(rows, "Selected clients")).__name__
    'Chart'
    """
    names = list(dict.fromkeys(row["who"] for row in rows))
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_bar()
        .encode(
            x=alt.X("fifth:N", sort=list(FIFTHS), title="clients by measured latency", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("who:N", sort=names),
            y=alt.Y("share:Q", title="share of requests", axis=alt.Axis(format="%", tickCount=5)),
            color=alt.Color(
                "who:N",
                scale=alt.Scale(domain=names, range=[NEUTRAL["random"], PALETTE[0]]),
                legend=alt.Legend(title=None, orient="top", symbolType="square", symbolStrokeWidth=0),
            ),
            tooltip=["who:N", "fifth:N", alt.Tooltip("share:Q", format=".1%")],
        )
        .properties(title=title, width=WIDTH, height=HEIGHT)
    )
    return chart


def shadow_sections(runs: Sequence[RunTables]) -> list[tuple[Section, dict[str, alt.TopLevelMixin]]]:
    """A section for each run in shadow mode.

    >>> from enlist.runs.example import example_run
    >>> shadow_sections([example_run()])
    []
    """
    found = []
    tables = [(run, table) for run in runs if (table := shadow_table(run)) is not None]
    for place, (run, table) in enumerate(tables):
        charts: dict[str, alt.TopLevelMixin] = {}
        if rows := shadow_fifths(run, table):
            charts[f"shadow-{place_name(place, run.selector)}"] = shadow_chart(
                rows, "Selected clients, and those the selector wanted"
            )
        text = shadow_sentence(table, run.selector, float(np.nanmean(run.rounds["available"])))
        note = "The selector was told the outcomes of Flower's selections, and recorded its own choices."
        found.append((Section(f"{run.selector} in shadow mode", text, charts=list(charts.values()), note=note), charts))
    return found
