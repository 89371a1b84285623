"""Charts of participation: over rounds, by outcome, and how even it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist._internal import checks
from enlist.report.charts import Row
from enlist.report.kit import HEIGHT, WIDTH
from enlist.report.training import names_of, selector_lines
from enlist.runs.scores import OUTCOMES, requests, times_completed
from enlist.runs.tables import RunTables

MOST_BINS, LEAST_BINS = 48, 16
PER_CELL = 4  # cells with fewer requests on average show chance rather than preference
HEAT = ("#f4f7f9", "#c6dfe9", "#7fbad0", "#2f86a8", "#0b5675", "#062c3d")
FIFTHS = [0, 0.2, 0.4, 0.6, 0.8, 1]
OUTCOME_COLOURS = {"completed": "#2a9d5c", "late": "#f2b84b", "dropped": "#a3acb9", "failed": "#c8443d"}
ORDERS = {"speed": ("expected_latency", "fastest", "slowest"), "size": ("num_examples", "least data", "most data")}


def selection_rows(runs: Sequence[RunTables], order: str = "speed") -> list[dict[str, Any]]:
    """How often clients were selected, as a share of the rounds: cells of client x round, means over seeds.

    Clients are ranked by expected latency (`order` is 'speed', fastest first) or by samples ('size'); clients of
    different seeds are averaged by rank. There are up to 48 rows and columns of cells, fewer if there are few requests
    to count.

    >>> from enlist.runs.example import example_run
    >>> rows = selection_rows([example_run()])
    >>> len(rows), rows[0]
    (96, {'selector': 'random', 'client': 0, 'round': 0, 'share': 0.0, 'clients': '1', 'rounds': '1'})
    """
    column, _, _ = ORDERS[checks.one_of("order", order, tuple(ORDERS))]
    count = min(run.count for run in runs)
    longest = max(len(run.rounds["round"]) for run in runs)
    asked_for = sum(float(np.nansum(run.rounds["selected"])) for run in runs) / len({run.selector for run in runs})
    bins = int(np.clip(np.sqrt(asked_for / PER_CELL), LEAST_BINS, MOST_BINS))
    down, across = min(bins, count), min(bins, longest)
    rows = []
    for name in dict.fromkeys(run.selector for run in runs):
        asked, possible = np.zeros((down, across)), np.zeros((down, across))
        for run in (run for run in runs if run.selector == name):
            rank = np.empty(run.count, dtype=np.int64)
            rank[np.argsort(run.clients[column], kind="stable")] = np.arange(run.count)
            who = rank * down // run.count
            when = np.arange(len(run.rounds["round"])) * across // longest
            # A late update that arrived was counted in the round that selected its client.
            first = requests(run)
            number = np.searchsorted(run.rounds["round"], first // run.count)
            known = number < len(when)
            client = (first[known] % run.count).astype(np.int64)
            np.add.at(asked, (who[client], when[number[known]]), 1.0)
            possible += np.outer(np.bincount(who, minlength=down), np.bincount(when, minlength=across))
        share = np.divide(asked, possible, out=np.full_like(asked, np.nan), where=possible > 0)
        rows += [
            {
                "selector": name,
                "client": i,
                "round": j,
                "share": round(float(share[i, j]), 5),
                "clients": _span(i, count, down),
                "rounds": _span(j, longest, across),
            }
            for i in range(down)
            for j in range(across)
            if not np.isnan(share[i, j])
        ]
    return rows


def _span(position: int, count: int, bins: int) -> str:
    low, high = -(-position * count // bins) + 1, -(-(position + 1) * count // bins)
    return f"{low:,}" if low == high else f"{low:,} – {high:,}"


def _end(span: str) -> int:
    return int(span.split("–")[-1].replace(",", ""))


def _range(name: str, count: int, bins: int) -> str:
    """`_span` as a Vega expression: thousands of spans as text would make a page large."""
    low = f"format(ceil(datum.{name} * {count} / {bins}) + 1, ',')"
    high = f"format(ceil((datum.{name} + 1) * {count} / {bins}), ',')"
    return f"{low} == {high} ? {low} : {low} + ' – ' + {high}"


def _lines(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The cells of each client of a selector in one row, as lists, which takes a fifth of the bytes."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        key = (row["selector"], row["client"])
        line = found.setdefault(key, {"selector": key[0], "client": key[1], "round": [], "share": []})
        line["round"].append(row["round"])
        line["share"].append(row["share"])
    return list(found.values())


def selection_chart(rows: Sequence[Row], title: str, order: str = "speed", most: float | None = None) -> alt.FacetChart:
    """A heat map of client x round for each selector, on a common colour scale from 0 to `most`, or to the maximum.

    >>> from enlist.runs.example import example_run
    >>> type(selection_chart(selection_rows([example_run()]), "Who was selected")).__name__
    'FacetChart'
    """
    _, first, last = ORDERS[checks.one_of("order", order, tuple(ORDERS))]
    names = names_of(rows)
    down, across = max(row["client"] for row in rows) + 1, max(row["round"] for row in rows) + 1
    clients, rounds = (max(_end(row[name]) for row in rows) for name in ("clients", "rounds"))
    step = next(step for step in _steps() if rounds / step <= 6)
    columns = min(len(names), 3)
    width, height = (272, 230) if columns > 1 else (352, 256)
    cells = _lines(rows)
    most = most or max(row["share"] for row in rows) or 1.0
    heat = (
        alt.Chart(alt.InlineData(values=cells))
        .transform_flatten(["round", "share"])
        .transform_calculate(
            right="datum.round + 1",
            bottom="datum.client + 1",
            clients=_range("client", clients, down),
            rounds=_range("round", rounds, across),
        )
        .mark_rect(strokeWidth=0)
        .encode(
            x=alt.X(
                "round:Q",
                title="round",
                scale=alt.Scale(domain=[0, across], nice=False),
                axis=alt.Axis(
                    grid=False,
                    values=[number * across / rounds for number in range(0, rounds + 1, step)],
                    labelExpr=f"format(datum.value * {rounds / across!r}, ',.0f')",
                ),
            ),
            x2="right:Q",
            y=alt.Y(
                "client:Q",
                title="clients",
                scale=alt.Scale(domain=[0, down], reverse=True, nice=False),
                axis=alt.Axis(
                    grid=False,
                    ticks=False,
                    values=[0, down],
                    labelExpr=f"datum.value == 0 ? '{first}' : '{last}'",
                    labelBaseline=alt.ExprRef("datum.value == 0 ? 'top' : 'bottom'"),
                    titlePadding=-22,
                ),
            ),
            y2="bottom:Q",
            color=alt.Color(
                "share:Q",
                scale=alt.Scale(range=list(HEAT), domain=[0, most], type="sqrt"),
                legend=alt.Legend(title=["selected in", "this share", "of rounds"], format="~%", gradientLength=150),
            ),
            tooltip=[
                "selector:N",
                alt.Tooltip("clients:N", title=f"clients ({first} first)"),
                "rounds:N",
                alt.Tooltip("share:Q", title="selected in", format=".1%"),
            ],
        )
        .properties(width=across * max(width // across, 1), height=down * max(height // down, 1))
    )
    header = alt.Header(title=None, labelFontSize=13, labelFontWeight="bold", labelColor="#222", labelAnchor="start")
    faceted: alt.FacetChart = heat.facet(
        facet=alt.Facet("selector:N", sort=names, header=header), columns=columns, spacing=26
    ).properties(title=title)
    return faceted


def _steps() -> Iterator[int]:
    return (step * 10**power for power in itertools.count() for step in (1, 2, 5))


def outcome_rows(runs: Sequence[RunTables]) -> list[dict[str, Any]]:
    """Outcomes of selected clients: shares per selector, over all its rounds and seeds.

    >>> from enlist.runs.example import example_run
    >>> [(row["outcome"], row["share"]) for row in outcome_rows([example_run()])]
    [('completed', 0.875), ('late', 0.0625), ('dropped', 0.0625), ('failed', 0.0)]
    """
    rows = []
    for name in dict.fromkeys(run.selector for run in runs):
        own = [run.rounds for run in runs if run.selector == name]
        asked = sum(float(np.nansum(rounds["selected"])) for rounds in own)
        start = 0.0
        for position, outcome in enumerate(OUTCOMES):
            count = sum(float(np.nansum(rounds[outcome])) for rounds in own)
            share = count / asked if asked else 0.0
            rows.append(
                {"selector": name, "outcome": outcome, "position": position, "count": count, "share": share}
                | {"from": start, "to": start + share}
            )
            start += share
    return rows


def outcome_chart(rows: Sequence[Row], title: str) -> alt.LayerChart:
    """A bar per selector, divided by outcome; parts that are wide enough are labelled with their share.

    >>> from enlist.runs.example import example_run
    >>> type(outcome_chart(outcome_rows([example_run()]), "Outcomes")).__name__
    'LayerChart'
    """
    names = names_of(rows)
    values = [{**row, "middle": (row["from"] + row["to"]) / 2.0} for row in rows]
    down = alt.Y("selector:N", sort=names, title=None, axis=alt.Axis(labelFontSize=13, ticks=False, domain=False))
    scale = alt.Scale(domain=[0, max(1.0, max(row["to"] for row in rows))], nice=False)
    base = alt.Chart(alt.InlineData(values=values)).encode(y=down)
    bars = base.mark_bar(height=26, stroke="white", strokeWidth=1).encode(
        x=alt.X(
            "from:Q",
            title="share of selected clients",
            scale=scale,
            axis=alt.Axis(format="%", grid=False, values=FIFTHS),
        ),
        x2="to:Q",
        color=alt.Color(
            "outcome:N",
            scale=alt.Scale(domain=list(OUTCOME_COLOURS), range=list(OUTCOME_COLOURS.values())),
            legend=alt.Legend(title=None, orient="top", symbolType="square", symbolStrokeWidth=0),
        ),
        tooltip=[
            "selector:N",
            "outcome:N",
            alt.Tooltip("share:Q", format=".1%"),
            alt.Tooltip("count:Q", title="clients selected", format=",.0f"),
        ],
    )
    written = (
        base.transform_filter("datum.share >= 0.06")
        .mark_text(fontSize=12)
        .encode(
            x=alt.X("middle:Q", scale=scale),
            text=alt.Text("share:Q", format=".0%"),
            color=alt.condition("datum.outcome == 'late'", alt.value("#333"), alt.value("white")),
        )
    )
    layered: alt.LayerChart = (bars + written).properties(title=title, width=WIDTH, height=alt.Step(40))
    return layered


def evenness_rows(runs: Sequence[RunTables]) -> list[dict[str, Any]]:
    """Merged updates per client, from the most to the least active, and the Lorenz curve; means over seeds.

    `rank` is the share of clients, `times` the number of updates of the client at that rank, and `held` the share of
    all updates from the least active `rank` of the clients.

    >>> from enlist.runs.example import example_run
    >>> rows = evenness_rows([example_run()])
    >>> rows[0]["times"], round(rows[50]["held"], 2), rows[-1]["held"]
    (7.0, 0.14, 1.0)
    """
    ranks = np.linspace(0.0, 1.0, 101)
    rows = []
    for name in dict.fromkeys(run.selector for run in runs):
        curves, shares = [], []
        for run in (run for run in runs if run.selector == name):
            counts = np.sort(times_completed(run)).astype(float)
            at = np.minimum((ranks * run.count).astype(np.int64), run.count - 1)
            curves.append(counts[::-1][at])
            gathered = np.concatenate([[0.0], np.cumsum(counts)]) / max(counts.sum(), 1.0)
            shares.append(np.interp(ranks * run.count, np.arange(run.count + 1), gathered))
        rows += [
            {"selector": name, "rank": round(float(rank), 4), "times": float(times), "held": round(float(held), 6)}
            for rank, times, held in zip(ranks, np.mean(curves, axis=0), np.mean(shares, axis=0), strict=True)
        ]
    return rows


def activity_chart(rows: Sequence[Row], title: str) -> alt.LayerChart:
    """Updates per client, sorted: a flat line is an even load, a steep one means a few favourites.

    >>> from enlist.runs.example import example_run
    >>> type(activity_chart(evenness_rows([example_run()]), "Updates per client")).__name__
    'LayerChart'
    """
    base = _ranked(rows, "clients, from the most to the least active")
    tooltip = ["selector:N", alt.Tooltip("rank:Q", format=".0%"), alt.Tooltip("times:Q", format=",.1f")]
    line = base.mark_line(strokeWidth=2.4, interpolate="step-after").encode(
        y=alt.Y("times:Q", title="updates merged per client", axis=alt.Axis(tickCount=6, tickMinStep=1)),
        tooltip=tooltip,
    )
    layered: alt.LayerChart = alt.LayerChart(layer=[line]).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def lorenz_chart(rows: Sequence[Row], title: str) -> alt.LayerChart:
    """The Lorenz curve of updates: the closer to the dashed diagonal, the more even.

    >>> from enlist.runs.example import example_run
    >>> type(lorenz_chart(evenness_rows([example_run()]), "How even")).__name__
    'LayerChart'
    """
    tooltip = ["selector:N", alt.Tooltip("rank:Q", format=".0%"), alt.Tooltip("held:Q", format=".1%")]
    line = _ranked(rows, "clients, from the least to the most active").mark_line(strokeWidth=2.4)
    line = line.encode(
        y=alt.Y("held:Q", title="share of all updates", axis=alt.Axis(format="%", values=FIFTHS)), tooltip=tooltip
    )
    even = alt.Chart(alt.InlineData(values=[{"rank": 0, "held": 0}, {"rank": 1, "held": 1}]))
    diagonal = even.mark_line(strokeDash=[5, 4], color="#555", strokeWidth=1.2).encode(x="rank:Q", y="held:Q")
    word = (
        alt.Chart(alt.InlineData(values=[{"rank": 0.5, "held": 0.5, "text": "perfectly even"}]))
        .mark_text(align="right", dx=-6, dy=-6, fontSize=11, color="#555")
        .encode(x="rank:Q", y="held:Q", text="text:N")
    )
    layered: alt.LayerChart = (line + diagonal + word).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def _ranked(rows: Sequence[Row], along: str) -> alt.Chart:
    names = names_of(rows)
    return alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X(
            "rank:Q", title=along, scale=alt.Scale(nice=False), axis=alt.Axis(format="%", grid=False, values=FIFTHS)
        ),
        **selector_lines(names),
    )
