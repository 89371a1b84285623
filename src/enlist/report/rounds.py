"""Charts of the rounds of one run: how long each took, what ended it, and the outcomes of selected clients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist.report.charts import Row
from enlist.report.kit import HEIGHT, NUMBER, WIDTH, evenly
from enlist.report.participation import OUTCOME_COLOURS
from enlist.runs.printing import duration, time_unit
from enlist.runs.scores import OUTCOMES
from enlist.runs.tables import RunTables

POINTS = 240
BARS = 100
APART, FEW = 40, 6
"""Most bars with gaps between them, and most clients for which an axis labels every number."""
EVERYBODY, ENOUGH, DEADLINE, NOBODY = "all replied", "enough replied", "the deadline", "none was selected"
STEP = "enough updates for a step"
ENDINGS = {EVERYBODY: "#2fb574", ENOUGH: "#0b6e99", DEADLINE: "#e07a1f", NOBODY: "#8d99ae", STEP: "#6b5ca5"}
SHAPES = {EVERYBODY: "circle", ENOUGH: "square", DEADLINE: "triangle-up", NOBODY: "cross", STEP: "diamond"}
"""Shapes distinguish endings where colours do not."""


def ending_of(row: Row) -> str:
    """What ended a round, according to its row.

    >>> some = {"selected": 5.0, "late": 0.0, "duration": 9.0, "deadline": 30.0}
    >>> ending_of(some), ending_of(some | {"late": 2.0}), ending_of(some | {"late": 2.0, "duration": 30.0})
    ('all replied', 'enough replied', 'the deadline')
    """
    if not row["selected"] > 0:
        return NOBODY
    if math.isfinite(row["deadline"]) and row["duration"] >= row["deadline"] * (1.0 - 1e-6):
        return DEADLINE
    return ENOUGH if row["late"] > 0 else EVERYBODY


def ending_rows(run: RunTables, most: int = POINTS) -> list[dict[str, Any]]:
    """Duration and deadline of each round, and what ended it; very many rounds are thinned evenly.

    >>> from enlist.runs.example import example_run
    >>> [(row["round"], row["ended"]) for row in ending_rows(example_run())][:2]
    [(1, 'all replied'), (2, 'the deadline')]
    """
    table, count = run.rounds, len(run.rounds["round"])
    took = table.get("duration", table["end"] - table["start"])
    limits = table.get("deadline", np.full(count, np.inf))
    rows = []
    for place in evenly(count, most).tolist():
        row = {
            "round": int(table["round"][place]),
            "duration": float(took[place]),
            "deadline": float(limits[place]),
            "selected": float(table["selected"][place]),
            "late": float(table["late"][place]),
        }
        rows.append({**row, "ended": STEP if run.asynchronous else ending_of(row)})
    return rows


def ending_chart(rows: Sequence[Row], title: str) -> alt.LayerChart:
    """A mark per round at its duration, by what ended it; deadlines are dashed, if a round came near one.

    >>> from enlist.runs.example import example_run
    >>> type(ending_chart(ending_rows(example_run()), "How long rounds took")).__name__
    'LayerChart'
    """
    most = max((row["duration"] for row in rows if math.isfinite(row["duration"])), default=0.0)
    unit, size = time_unit(most)
    values = [
        {"round": row["round"], "took": row["duration"] / size, "spent": duration(row["duration"])}
        | {"ended": row["ended"], "deadline": _near(row["deadline"], most, size)}
        for row in rows
    ]
    present = [name for name in ENDINGS if any(row["ended"] == name for row in rows)]
    legend = alt.Legend(title=None, orient="top", columns=4, symbolStrokeWidth=0)
    base = alt.Chart(alt.InlineData(values=values)).encode(x=_along())
    y = alt.Y("took:Q", title=f"duration of the round ({unit})", scale=alt.Scale(domainMin=0), axis=_up())
    marks = base.mark_point(filled=True, size=34, opacity=0.85).encode(
        y=y,
        color=alt.Color(
            "ended:N", scale=alt.Scale(domain=present, range=[ENDINGS[name] for name in present]), legend=legend
        ),
        shape=alt.Shape("ended:N", scale=alt.Scale(domain=present, range=[SHAPES[name] for name in present])),
        tooltip=["round:Q", alt.Tooltip("spent:N", title="took"), alt.Tooltip("ended:N", title="ended by")],
    )
    line = base.mark_line(strokeWidth=1, color="#8d99ae", opacity=0.5).encode(y=y)
    layers = [line, marks]
    if any(row["deadline"] is not None for row in values):
        limit = base.mark_line(strokeDash=[5, 4], strokeWidth=1.2, color="#555", interpolate="step-after")
        layers.insert(0, limit.encode(y="deadline:Q"))
    layered: alt.LayerChart = alt.LayerChart(layer=layers).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def round_outcome_rows(run: RunTables, most: int = BARS) -> list[dict[str, Any]]:
    """Outcomes of the clients selected in each round; many rounds are grouped and averaged.

    >>> from enlist.runs.example import example_run
    >>> round_outcome_rows(example_run())[0]
    {'round': 1, 'last': 1, 'outcome': 'completed', 'clients': 4.0, 'from': 0.0, 'to': 4.0}
    """
    table, count = run.rounds, len(run.rounds["round"])
    step = max(1, math.ceil(count / most))
    rows = []
    for first in range(0, count, step):
        part, bottom = slice(first, min(first + step, count)), 0.0
        numbers = table["round"][part]
        for outcome in OUTCOMES:
            mean = round(float(np.nan_to_num(table[outcome][part]).mean()), 3)
            row = {"round": int(numbers[0]), "last": int(numbers[-1]), "outcome": outcome, "clients": mean}
            rows.append({**row, "from": round(bottom, 3), "to": round(bottom + mean, 3)})
            bottom += mean
    return rows


def round_outcome_chart(rows: Sequence[Row], title: str) -> alt.Chart:
    """Stacked bars over rounds, by outcome.

    >>> from enlist.runs.example import example_run
    >>> type(round_outcome_chart(round_outcome_rows(example_run()), "Outcomes")).__name__
    'Chart'
    """
    most = max((row["to"] for row in rows), default=0.0)
    whole = list(range(math.ceil(most) + 1)) if most <= FEW else alt.Undefined  # clients are whole numbers
    chart: alt.Chart = (
        alt.Chart(
            alt.InlineData(values=[{**row, "left": row["round"] - 0.5, "right": row["last"] + 0.5} for row in rows])
        )
        .mark_rect(stroke="white", strokeWidth=1 if len({row["round"] for row in rows}) <= APART else 0)
        .encode(
            x=alt.X("left:Q", title="round", scale=alt.Scale(nice=False), axis=_round_axis()),
            x2="right:Q",
            y=alt.Y("from:Q", title="clients selected", scale=alt.Scale(nice=True), axis=_up(whole)),
            y2="to:Q",
            color=alt.Color(
                "outcome:N",
                scale=alt.Scale(domain=list(OUTCOME_COLOURS), range=list(OUTCOME_COLOURS.values())),
                sort=list(OUTCOME_COLOURS),
                legend=alt.Legend(title=None, orient="top", symbolType="square", symbolStrokeWidth=0),
            ),
            tooltip=["round:Q", "outcome:N", alt.Tooltip("clients:Q", format=",.1~f")],
        )
        .properties(title=title, width=WIDTH, height=HEIGHT)
    )
    return chart


def history_rows(run: RunTables, row: int) -> list[dict[str, Any]]:
    """The outcome of every request to one client (a row of the clients table), with its latency.

    >>> from enlist.runs.example import example_run
    >>> [(each["round"], each["outcome"]) for each in history_rows(example_run("oort"), 0)][:2]
    [(1, 'completed'), (2, 'completed')]
    """
    told = run.participations
    mine = np.flatnonzero(run.who == row)
    latency = told.get("latency", np.full(len(told["round"]), np.nan))
    return [
        {
            "round": int(told["selected_in"][place]),
            "outcome": str(told["outcome"][place]),
            "latency": float(latency[place]),
        }
        for place in mine.tolist()
    ]


def history_chart(rows: Sequence[Row], title: str) -> alt.Chart:
    """A mark per request at its latency, by outcome; at zero if it has no latency.

    >>> from enlist.runs.example import example_run
    >>> type(history_chart(history_rows(example_run("oort"), 0), "Client 0")).__name__
    'Chart'
    """
    unit, size = time_unit(max((row["latency"] for row in rows if math.isfinite(row["latency"])), default=0.0))
    known = {**OUTCOME_COLOURS, "arrived": "#0b6e99"}
    present = [name for name in known if any(row["outcome"] == name for row in rows)]
    shapes = dict(zip(known, ("circle", "triangle-up", "cross", "diamond", "square"), strict=True))
    values = [
        {**row, "took": row["latency"] / size if math.isfinite(row["latency"]) else 0.0}
        | {"spent": duration(row["latency"])}
        for row in rows
    ]
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_point(filled=True, size=48, opacity=0.85)
        .encode(
            x=_along(),
            y=alt.Y("took:Q", title=f"latency ({unit})", scale=alt.Scale(domainMin=0), axis=_up()),
            color=alt.Color(
                "outcome:N",
                scale=alt.Scale(domain=present, range=[known[name] for name in present]),
                legend=alt.Legend(title=None, orient="top", columns=5, symbolStrokeWidth=0),
            ),
            shape=alt.Shape("outcome:N", scale=alt.Scale(domain=present, range=[shapes[name] for name in present])),
            tooltip=["round:Q", "outcome:N", alt.Tooltip("spent:N", title="latency")],
        )
        .properties(title=title, width=WIDTH, height=HEIGHT)
    )
    return chart


def _along() -> alt.X:
    return alt.X("round:Q", title="round", scale=alt.Scale(nice=False), axis=_round_axis())


def _round_axis() -> alt.Axis:
    return alt.Axis(grid=False, tickMinStep=1, format=",d", tickCount=7)


def _up(values: Any = alt.Undefined) -> alt.Axis:
    return alt.Axis(tickCount=6, format=NUMBER, values=values)


def _near(deadline: float, most: float, size: float) -> float | None:
    """Leave out a deadline far above everything, which would press all marks to the bottom."""
    return deadline / size if math.isfinite(deadline) and deadline <= 2.0 * most else None
