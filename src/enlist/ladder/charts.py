"""Charts of a leaderboard: standings, heat map, mean ranks with their critical difference, performance profile."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from enlist.ladder.leaderboard import Leaderboard
from enlist.report.charts import NEUTRAL, colours
from enlist.report.kit import BLUE, band_chart, cell_layers, interval_layers

CELL = 26
"""Height of a row of a heat map, in pixels."""
LIMIT = 2.0
"""The colour scale of speed-ups ends at this power of two: from a quarter to four."""


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
    colour = alt.Color("power:Q", scale=scale, legend=None)
    layers = cell_layers(base, colour, "shown:N", f"abs(datum.power) < {0.6 * LIMIT}")
    layered: alt.LayerChart = alt.LayerChart(layer=layers).properties(
        title="Speed-up over random, by rung", width=56 * len(board.rungs), height=CELL * len(board.labels)
    )
    return layered


def standing_chart(board: Leaderboard) -> alt.LayerChart:
    """Speed-up over random of every method: the mean with its interval, and one small tick per rung.

    >>> [layer.mark.type for layer in standing_chart(example()).layer]
    ['rule', 'tick', 'rule', 'point']
    """
    means = [
        {
            "selector": board.name(row["selector"]),
            "mean": row["speed_up"],
            "low": row["speed_up_low"],
            "high": row["speed_up_high"],
        }
        for row in board.standings
        if row["speed_up"] > 0
    ]
    rungs = [
        {"selector": board.name(row["selector"]), "rung": row["rung"], "mean": row["speed_up"]}
        for row in board.rows
        if row["speed_up"] > 0
    ]
    names = [board.name(label) for label in board.labels]
    y = alt.Y("selector:N", sort=names, title=None, axis=alt.Axis(labelLimit=220))
    x = alt.X(
        "mean:Q",
        title="speed-up over random (logarithmic); each tick is a rung",
        scale=alt.Scale(type="log", nice=False, padding=8),
        axis=alt.Axis(values=[0.25, 0.5, 1, 2, 4, 8, 16], format="~g", grid=False),
    )
    shown = alt.Tooltip("mean:Q", title="speed-up", format=".2f")
    one = alt.Chart(alt.InlineData(values=[{"mean": 1.0}])).mark_rule(color=NEUTRAL["random"]).encode(x=x)
    ticks = (
        alt.Chart(alt.InlineData(values=rungs))
        .mark_tick(thickness=1.5, opacity=0.45, height=9, color=NEUTRAL["random"])
        .encode(x=x, y=y, tooltip=["selector:N", "rung:N", shown])
    )
    base = alt.Chart(alt.InlineData(values=means)).encode(y=y, color=alt.value(BLUE))
    layered: alt.LayerChart = alt.LayerChart(layer=[one, ticks, *interval_layers(base, x, ["selector:N", shown])])
    return layered.properties(title="Speed-up over random on the ladder", width=520, height=16 * len(names))


def rank_chart(board: Leaderboard) -> alt.LayerChart:
    """Mean ranks over the rungs without the oracle; methods whose bars do not overlap differ (Nemenyi, 5 %).

    >>> rank_chart(example()).title
    'Mean rank (1 is best); bars of half a critical difference of 1.96'
    """
    half = board.critical_difference / 2.0
    reach = half if math.isfinite(half) else 0.0
    last = max(len(board.contestants), 2)  # bars end where ranks end
    ranks = {row["selector"]: row["rank"] for row in board.standings if row["selector"] in board.contestants}
    rows = [
        {"selector": board.name(label), "mean": rank, "low": max(rank - reach, 1.0), "high": min(rank + reach, last)}
        for label, rank in ranks.items()
    ]
    names = [row["selector"] for row in sorted(rows, key=lambda row: row["mean"])]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("selector:N", sort=names, title=None, axis=alt.Axis(labelLimit=220)), color=alt.value(BLUE)
    )
    x = alt.X("mean:Q", title="mean rank", scale=alt.Scale(domain=[1, last], nice=False))
    layers = interval_layers(base, x, ["selector:N", alt.Tooltip("mean:Q", title="mean rank", format=".2f")])
    title = "Mean rank (1 is best)"
    if math.isfinite(half):
        title += f"; bars of half a critical difference of {board.critical_difference:.2f}"
    layered: alt.LayerChart = alt.LayerChart(layer=layers).properties(title=title, width=460, height=20 * len(names))
    return layered


def profile_chart(board: Leaderboard, most: int = 5) -> alt.LayerChart:
    """Share of rungs on which a method is within a factor of the best, for the leading methods.

    >>> [layer.mark.type for layer in profile_chart(example()).layer]
    ['line']
    """
    first = board.contestants[:most]
    names = [board.name(label) for label in first]
    rows: list[dict[str, Any]] = [
        {"selector": board.name(row["selector"]), "factor": row["factor"]}
        | dict.fromkeys(("mean", "low", "high"), row["share"])
        for row in board.profile
        if row["selector"] in first
    ]
    x = alt.X("factor:Q", title="within this factor of the best", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("mean:Q", title="share of rungs", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    share = alt.Tooltip("mean:Q", title="share", format=".0%")
    return band_chart(
        rows,
        "Performance profile",
        x,
        y,
        alt.Color("selector:N", scale=colours(names), sort=names, title=None),
        ["selector:N", alt.Tooltip("factor:Q", format=".2f"), share],
        width=390,
        height=280,
        interpolate="step-after",
    )


def example() -> Leaderboard:
    """A small leaderboard, for examples.

    >>> example().rungs
    ['silos']
    """
    common = {"rung": "silos", "seed": 0, "data": "fashion-mnist", "target": 0.7, "reached": 1, "final": 0.75}
    common |= {"wasted": 0.1, "worst_tenth": math.nan, "server_ms": 0.2}
    times = {"random": 90.0, "oort": 60.0}
    return Leaderboard([{**common, "selector": name, "seconds": at, "rounds": int(at)} for name, at in times.items()])
