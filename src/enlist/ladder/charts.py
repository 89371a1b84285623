"""Charts of a leaderboard: heat map, mean ranks with their critical difference, performance profile."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from enlist.ladder.leaderboard import Leaderboard
from enlist.report.charts import colours

CELL = 26
"""Height of a row of a heat map, in pixels."""
LIMIT = 2.0
"""Speed-ups are coloured from a quarter to four: powers of two up to this."""


def heat_map(board: Leaderboard) -> alt.LayerChart:
    """Speed-up over random of every method on every rung; blue is faster, red slower.

    >>> heat_map(example()).layer[0].mark.type
    'rect'
    """
    rows = [
        {
            "selector": board.name(row["selector"]),
            "rung": row["rung"],
            "speed-up": row["speed_up"],
            "power": max(-LIMIT, min(LIMIT, math.log2(row["speed_up"]))),
            "shown": f"{row['speed_up']:.2f}",
            "accuracy": row["final_difference"],
            "reached": f"{row['reached']} of {row['seeds']}",
        }
        for row in board.rows
        if row["speed_up"] > 0
    ]
    names = [board.name(label) for label in board.labels]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("rung:N", sort=board.rungs, title=None, axis=alt.Axis(labelAngle=-40, orient="top", labelLimit=160)),
        y=alt.Y("selector:N", sort=names, title=None, axis=alt.Axis(labelLimit=220)),
        tooltip=["selector:N", "rung:N", alt.Tooltip("speed-up:Q", format=".2f"),
                 alt.Tooltip("accuracy:Q", format="+.3f", title="accuracy over random"), "reached:N"],
    )  # fmt: skip
    scale = alt.Scale(scheme="redblue", domain=[-LIMIT, LIMIT])
    cells = base.mark_rect(stroke="white").encode(color=alt.Color("power:Q", scale=scale, legend=None))
    pale = abs(alt.datum.power) < 0.6 * LIMIT
    text = base.mark_text(fontSize=11).encode(
        text="shown:N", color=alt.condition(pale, alt.value("#222"), alt.value("white"))
    )
    layered: alt.LayerChart = (cells + text).properties(
        title="Speed-up over random, by rung", width=56 * len(board.rungs), height=CELL * len(board.labels)
    )
    return layered


def rank_chart(board: Leaderboard) -> alt.LayerChart:
    """Mean ranks over the rungs; methods whose bars do not overlap differ significantly (Nemenyi, 5 %). Not the oracle.

    >>> rank_chart(example()).title
    'Mean rank (1 is best); bars of half a critical difference of 1.96'
    """
    half = board.critical_difference / 2.0
    reach = half if math.isfinite(half) else 0.0
    ranks = {row["selector"]: row["rank"] for row in board.standings}
    rows = [
        {"selector": board.name(label), "rank": ranks[label], "low": ranks[label] - reach, "high": ranks[label] + reach}
        for label in board.contestants
    ]
    names = [row["selector"] for row in sorted(rows, key=lambda row: row["rank"])]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("selector:N", sort=names, title=None, axis=alt.Axis(labelLimit=220)),
        tooltip=["selector:N", alt.Tooltip("rank:Q", format=".2f")],
    )
    bars = base.mark_rule(strokeWidth=5, opacity=0.3, color="#0b6e99").encode(
        x=alt.X("low:Q", title="mean rank", scale=alt.Scale(zero=False)), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=70, opacity=1, color="#0b6e99").encode(x="rank:Q")
    title = "Mean rank (1 is best)"
    if math.isfinite(half):
        title += f"; bars of half a critical difference of {board.critical_difference:.2f}"
    layered: alt.LayerChart = (bars + dots).properties(title=title, width=460, height=20 * len(names))
    return layered


def profile_chart(board: Leaderboard, most: int = 8) -> alt.Chart:
    """Share of rungs on which a method is within a factor of the best; the methods that stand highest.

    >>> profile_chart(example()).mark.type
    'line'
    """
    first = board.contestants[:most]
    names = [board.name(label) for label in first]
    rows: list[dict[str, Any]] = [
        {**row, "selector": board.name(row["selector"])} for row in board.profile if row["selector"] in first
    ]
    pick = alt.selection_point(fields=["selector"], bind="legend")
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=2.2, interpolate="step-after")
        .encode(
            x=alt.X("factor:Q", title="within this factor of the best", scale=alt.Scale(type="log", nice=False)),
            y=alt.Y("share:Q", title="share of rungs", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            color=alt.Color("selector:N", scale=colours(names), sort=names, title=None),
            opacity=alt.condition(pick, alt.value(1.0), alt.value(0.08)),
            tooltip=["selector:N", alt.Tooltip("factor:Q", format=".2f"), alt.Tooltip("share:Q", format=".0%")],
        )
        .add_params(pick)
        .properties(title="Performance profile", width=390, height=280)
    )
    return chart


def example() -> Leaderboard:
    """A small leaderboard, for examples.

    >>> example().rungs
    ['silos']
    """
    common = {"rung": "silos", "seed": 0, "data": "fashion-mnist", "target": 0.7, "reached": 1, "final": 0.75}
    common |= {"wasted": 0.1, "worst_tenth": math.nan, "server_ms": 0.2}
    times = {"random": 90.0, "oort": 60.0}
    return Leaderboard([{**common, "selector": name, "seconds": at, "rounds": int(at)} for name, at in times.items()])
