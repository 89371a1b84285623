"""Charts of how runs learn: accuracy over virtual time and over rounds, and the time to a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist.report.charts import Row, colours, dashes
from enlist.report.kit import (
    ANY,
    CROWD,
    NUMBER,
    WIDTH,
    band_chart,
    cut,
    domain,
    evenly,
    summarised,
    target_layers,
)
from enlist.runs.columns import METRIC
from enlist.runs.printing import duration, level, time_unit
from enlist.runs.scores import evaluations, time_to, total
from enlist.runs.tables import RunTables

POINTS = 240


def names_of(rows: Sequence[Row]) -> list[str]:
    """The selectors among rows, in order of appearance.

    >>> names_of([{"selector": "oort"}, {"selector": "random"}, {"selector": "oort"}])
    ['oort', 'random']
    """
    return list(dict.fromkeys(row["selector"] for row in rows))


def selector_colour(names: Sequence[str]) -> alt.Color:
    """Selectors distinguished by colour, with their names above the chart.

    >>> selector_colour(["oort", "random"]).to_dict()["sort"]
    ['oort', 'random']
    """
    return alt.Color("selector:N", scale=colours(names), sort=list(names), legend=_above())


def _above() -> alt.Legend:
    return alt.Legend(title=None, orient="top", symbolType="stroke", columns=5, labelLimit=120)


def selector_lines(names: Sequence[str]) -> dict[str, Any]:
    """Channels that distinguish lines of selectors: colour, and dashes if there are more selectors than colours.

    >>> list(selector_lines(["oort", "random"])), list(selector_lines([f"m{number}" for number in range(9)]))
    (['color'], ['color', 'strokeDash'])
    """
    return {"color": selector_colour(names), **dashes(names, _above())}


def curve_rows(
    runs: Sequence[RunTables], along: str = "time", by: str = "accuracy", most: int = POINTS
) -> list[dict[str, Any]]:
    """Mean and 95 % interval over seeds of evaluations, on a grid of times, or at the evaluated rounds.

    Between evaluations a run keeps its last value. A selector's curve begins where all its seeds have been evaluated
    and ends where the shortest of its runs ends, so that the mean is always over the same seeds. A single run shows its
    evaluations as they are. A curve has at most about `most` points.

    >>> from enlist.runs.example import example_run
    >>> rows = curve_rows([example_run(seed=seed) for seed in range(3)], along="rounds")
    >>> [(row["at"], round(row["mean"], 2)) for row in rows][:3]
    [(2.0, 0.49), (4.0, 0.67), (6.0, 0.76)]
    """
    place = 1 if along == "time" else 0
    grid = np.linspace(0.0, max((float(total(run)[place]) for run in runs), default=0.0), most + 1)
    rows = []
    for name in dict.fromkeys(run.selector for run in runs):
        own = [run for run in runs if run.selector == name]
        seen = [evaluations(run, by) for run in own]
        if not all(len(each.values) for each in seen):
            continue
        first = max(float(each[place][0]) for each in seen)
        end = min(float(total(run)[place]) for run in own)
        inner = grid
        if along == "rounds" or len(own) == 1:
            inner = np.unique(np.concatenate([each[place] for each in seen])).astype(float)
            inner = inner[evenly(len(inner), most)]
        points = np.unique([first, *inner[(inner > first) & (inner < end)], end])
        steps = [each.values[np.searchsorted(each[place], points, side="right") - 1] for each in seen]
        for at, values in zip(points, np.transpose(steps), strict=True):
            rows.append({"selector": name, "at": float(at), **summarised(values, limits_of(by))})
    return rows


def curve_chart(
    rows: Sequence[Row],
    title: str,
    along: str = "time",
    by: str = "accuracy",
    target: float = math.nan,
    clock: str = "virtual time",
    axis: str = "",
) -> alt.LayerChart:
    """A line per selector with its 95 % band over seeds; the target is dashed; the legend highlights lines.

    `axis` is the title of the vertical axis, if it is not the test accuracy or loss.

    >>> from enlist.runs.example import example_run
    >>> type(curve_chart(curve_rows([example_run()]), "Accuracy over time", target=0.7)).__name__
    'LayerChart'
    """
    unit, size = time_unit(max(row["at"] for row in rows)) if along == "time" else ("", 1.0)
    goal = math.isfinite(target)
    ends = ("mean",) if len(names_of(rows)) > CROWD else ("low", "high")  # hidden bands need no space
    limits = domain_of([row[end] for row in rows for end in ends] + [target] * goal, by)
    scale = alt.Scale(zero=False, domain=limits, nice=False)
    values = [{**row, "at": round(row["at"] / size, 5), "spent": _spent(row["at"], along)} for row in cut(rows, limits)]
    numbers = ".1%" if by == "accuracy" else ".4g"
    return band_chart(
        values,
        title,
        alt.X(
            "at:Q",
            title=f"{clock} ({unit})" if along == "time" else "round",
            scale=alt.Scale(nice=False, domainMin=0),
            axis=alt.Axis(grid=False, tickCount=7, tickMinStep=alt.Undefined if along == "time" else 1),
        ),
        alt.Y("mean:Q", title=axis or f"test {by}", scale=scale, axis=alt.Axis(format=axis_format(by), tickCount=6)),
        selector_colour(names_of(rows)),
        ["selector:N", alt.Tooltip("spent:N", title=along)]
        + [alt.Tooltip(f"{name}:Q", format=numbers) for name in ("mean", "low", "high")],
        target_layers(target, f"target {level(target, by)}") if goal else (),
    )


def _spent(at: float, along: str) -> str:
    return duration(at) if along == "time" else f"{at:,.0f}"


def axis_format(by: str) -> str:
    """The number format of an axis of accuracies, losses or other figures.

    >>> axis_format("accuracy"), axis_format("loss")
    ('.0%', '.6~g')
    """
    return ".0%" if by == "accuracy" else NUMBER


def limits_of(by: str) -> tuple[float, float]:
    """The possible range of a figure; unlimited for a user's own metric.

    >>> limits_of("accuracy"), limits_of("loss")
    ((0.0, 1.0), (0.0, inf))
    """
    return ANY if by.startswith(METRIC) or by == "metric" else (0.0, math.inf if by == "loss" else 1.0)


def domain_of(bounds: Sequence[float], by: str) -> list[float]:
    """The range of an axis of accuracies or losses.

    >>> domain_of([0.5, 1.0], "accuracy")
    [0.475, 1.0]
    """
    return domain(bounds, limits_of(by))


def reach_rows(runs: Sequence[RunTables], target: float, window: int = 1, by: str = "accuracy") -> list[dict[str, Any]]:
    """When each run reached the target; for one that did not, its total time, with `reached` false.

    >>> from enlist.runs.example import example_run
    >>> reach_rows([example_run("fedcs")], 0.7)
    [{'selector': 'fedcs', 'seed': 0, 'seconds': 104.38778609564483, 'rounds': 8, 'reached': True}]
    """
    rows = []
    for run in runs:
        found = time_to(run, target, window, by)
        rounds, seconds = found or total(run)
        rows.append(
            {"selector": run.selector, "seed": run.seed, "seconds": seconds, "rounds": rounds}
            | {"reached": found is not None}
        )
    return rows


def reach_chart(rows: Sequence[Row], title: str, clock: str = "virtual time") -> alt.LayerChart:
    """A dot per seed and selector at the time to the target, over the mean and its 95 % interval.

    Runs that never reached it are hollow triangles at their end, pointing onwards; their selector has no interval.

    >>> from enlist.runs.example import example_run
    >>> runs = [example_run(seed=seed) for seed in range(3)]
    >>> type(reach_chart(reach_rows(runs, 0.7), "Time to 70 %")).__name__
    'LayerChart'
    """
    names = names_of(rows)
    unit, size = time_unit(max(row["seconds"] for row in rows))
    dots = [
        {
            **row,
            "at": row["seconds"] / size,
            "spent": ("" if row["reached"] else "not within ") + duration(row["seconds"]),
        }
        for row in rows
    ]
    spans = []
    for name in names:
        own = [row for row in dots if row["selector"] == name]
        if all(row["reached"] for row in own):
            span = summarised([row["at"] for row in own], (0.0, math.inf))
            spans.append({"selector": name, **span, "text": duration(span["mean"] * size)})
    most = max([*(row["at"] for row in dots), *(span["high"] for span in spans)])
    along = alt.X(
        "at:Q",
        title=f"{clock} ({unit})",
        scale=alt.Scale(domain=[0, 1.04 * most], nice=False),
        axis=alt.Axis(tickCount=7),
    )
    down = alt.Y("selector:N", sort=names, title=None, axis=alt.Axis(labelFontSize=13, ticks=False, domain=False))
    colour = alt.Color("selector:N", scale=colours(names), legend=None)
    base = alt.Chart(alt.InlineData(values=dots)).encode(x=along, y=down, color=colour)
    tooltip = ["selector:N", "seed:O", alt.Tooltip("spent:N", title="time"), "rounds:Q"]
    mean = alt.Chart(alt.InlineData(values=spans)).encode(y=down, color=colour)
    layers = [
        mean.mark_bar(height=14, opacity=0.22, cornerRadius=7).encode(x=alt.X("low:Q"), x2="high:Q"),
        mean.mark_tick(thickness=3, height=26).encode(x="mean:Q"),
        base.transform_filter("datum.reached")
        .mark_circle(size=70, opacity=0.75, stroke="white", strokeWidth=0.8)
        .encode(tooltip=tooltip),
        base.transform_filter("!datum.reached")
        .mark_point(shape="triangle-right", size=90, strokeWidth=1.8)
        .encode(tooltip=tooltip),
        mean.mark_text(dy=-20, fontSize=11).encode(x="mean:Q", text="text:N", color=alt.value("#333")),
    ]
    kept = layers if spans else layers[2:4]
    layered: alt.LayerChart = alt.LayerChart(layer=kept).properties(title=title, width=WIDTH, height=alt.Step(52))
    return layered
