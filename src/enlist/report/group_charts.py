"""Charts of runs that differ in keys of their configurations: a panel per group, or scores over the values of a key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from enlist.report.charts import Row
from enlist.report.kit import REFERENCE, TARGET, band_layers, cut, interval_layers, legend_choice
from enlist.report.training import axis_format, curve_rows, domain_of, selector_lines
from enlist.runs.groups import Group
from enlist.runs.printing import short_names, time_unit, titled, written
from enlist.runs.scores import measure

SERIES = 5
"""Most methods in a panel."""
PANELS = 12
"""Most panels of a chart."""
POINTS = 80
"""Points of a curve; few, because a panel is small."""
WIDTHS = {1: 430, 2: 400, 3: 270, 4: 200}
"""Panels in a row -> width of one."""
HEIGHT = 180
APART = 4.0
"""If the longest group lasts this many times as long as the shortest, each panel has its own time axis."""


def measured(rows: Sequence[Row]) -> str:
    """The measure of all rows, or "figure" if they differ.

    >>> measured([{"measure": "accuracy"}, {"measure": "loss"}])
    'figure'
    """
    found = {row["measure"] for row in rows}
    return str(found.pop()) if len(found) == 1 else "figure"


def baseline_of(rows: Sequence[Row]) -> str:
    """The name of the baseline in these rows.

    >>> baseline_of([{"baseline": ""}, {"baseline": "random"}])
    'random'
    """
    return str(next((row["baseline"] for row in rows if row["baseline"]), "the baseline"))


def shown_methods(rows: Sequence[Row]) -> list[str]:
    """The methods to draw: all if they are few, otherwise the baseline and the best final figures on average.

    >>> rows = [{"selector": f"s{i}", "final": i / 10, "measure": "accuracy", "baseline": "s0"} for i in range(7)]
    >>> shown_methods(rows)
    ['s0', 's3', 's4', 's5', 's6']
    """
    names = list(dict.fromkeys(row["selector"] for row in rows))
    if len(names) <= SERIES:
        return names
    sign = -1.0 if measured(rows) == "loss" else 1.0
    ends: dict[str, list[float]] = {name: [] for name in names}
    for row in rows:
        ends[row["selector"]] += [sign * row["final"]] if math.isfinite(row["final"]) else []
    best = sorted(names, key=lambda name: -sum(ends[name]) / len(ends[name]) if ends[name] else math.inf)
    base = [name for name in names if name == baseline_of(rows)]
    kept = [*base, *(name for name in best if name not in base)][:SERIES]
    return [name for name in names if name in kept]


def group_curves(
    groups: Sequence[Group], rows: Sequence[Row], along: str = "time", title: str = ""
) -> alt.TopLevelMixin | None:
    """A panel per group with a line per method and its 95 % band over seeds; None if nothing was evaluated.

    `rows` are those of `group_rows`, which have the targets.

    >>> from enlist.runs.example import example_run
    >>> from enlist.runs.groups import group_rows, grouped
    >>> groups = grouped([example_run(k=3), example_run(k=5)])
    >>> group_curves(groups, group_rows(groups), "rounds").to_dict()["facet"]["sort"]
    ['k = 3', 'k = 5']
    """
    shown, panels = shown_methods(rows), list(groups)[:PANELS]
    values: list[dict[str, Any]] = []
    for group in panels:
        runs = [run for run in group.runs if run.selector in shown]
        by = measure(group.runs)
        goal = next((row["target"] for row in rows if _belongs(row, group)), math.nan)
        curves = curve_rows(runs, along, by, POINTS)
        values += [{**row, "group": titled(group.values), "target": goal} for row in curves]
    if not values:
        return None
    unit, size = time_unit(max(row["at"] for row in values)) if along == "time" else ("", 1.0)
    by, means = measured(rows), [float(row["mean"]) for row in values]
    room = 0.25 * (max(means) - min(means))  # bands over few seeds are wide, so they are cut
    least, most = min(row["low"] for row in values), max(row["high"] for row in values)
    bounds = [max(least, min(means) - room), min(most, max(means) + room)]
    bounds += [row["target"] for row in values if math.isfinite(row["target"])]
    domain = domain_of(bounds, by)
    values = [{**row, "at": round(row["at"] / size, 5)} for row in cut(values, domain)]
    clock = groups[0].runs[0].clock
    base = alt.Chart().encode(
        x=alt.X(
            "at:Q",
            title=f"{clock} ({unit})" if along == "time" else "round",
            scale=alt.Scale(nice=False, domainMin=0),
            axis=alt.Axis(grid=False, tickCount=5),
        ),
        **selector_lines(shown),
    )
    scale = alt.Scale(zero=False, nice=False, domain=domain)
    y = alt.Y("mean:Q", title=f"test {by}", scale=scale, axis=alt.Axis(format=axis_format(by), tickCount=4))
    tooltip = ["group:N", "selector:N", alt.Tooltip("mean:Q", format=".1%" if by == "accuracy" else ".4g")]
    choice = legend_choice("selector")
    layers = band_layers(base, y, tooltip, choice)
    layers[-1] = layers[-1].add_params(choice)
    if any(math.isfinite(row["target"]) for row in values):
        layers.append(alt.Chart().mark_rule(**TARGET).encode(y="mean(target):Q"))
    ends = [max((row["at"] for row in values if row["group"] == name), default=0.0) for name in _titles(panels)]
    known = [end for end in ends if end > 0]
    apart = bool(known) and max(known) > APART * min(known)
    chart = _faceted(alt.LayerChart(layer=layers), values, _titles(panels), _across(panels), title)
    return chart.resolve_scale(x="independent") if apart else chart


def trend_chart(groups: Sequence[Group], rows: Sequence[Row], score: str, title: str) -> alt.TopLevelMixin | None:
    """A score with its 95 % interval over the values of a key, a colour per method; None if no method has it.

    If the groups are a grid of two or more keys, the key with the most values is the axis, and there is a panel for
    each combination of the others; otherwise every group has its place on the axis.

    >>> from enlist.runs.example import example_run
    >>> from enlist.runs.groups import group_rows, grouped
    >>> groups = grouped([example_run(k=3), example_run(k=5)])
    >>> trend_chart(groups, group_rows(groups), "final", "Final accuracy").to_dict()["title"]
    'Final accuracy'
    >>> trend_chart(groups, group_rows(groups), "speed_up", "Speed-up") is None
    True
    """
    shown, (key, others) = shown_methods(rows), _axes(groups)
    values = []
    for group in groups:
        for row in (row for row in rows if _belongs(row, group)):
            value, low, high = (row.get(f"{score}{end}", math.nan) for end in ("", "_low", "_high"))
            if row["selector"] not in shown or not math.isfinite(value) or row.get("speed_up_bound") == "?":
                continue
            place = titled(group.values) if key is None else written(group.values[key])
            panel = titled({other: group.values[other] for other in others})
            known = math.isfinite(low)
            low, high = (
                (max(low, 0.0), min(high, 1.0)) if row["measure"] == "accuracy" and score == "final" else (low, high)
            )
            bound = str(row.get("speed_up_bound", "")) if score == "speed_up" else ""
            values.append(
                {"selector": row["selector"], "place": place, "panel": panel, "mean": value, "bound": bound}
                | {"low": low if known else value, "high": high if known else value}
            )
    if not values:
        return None
    by = measured(rows)
    shown = [name for name in shown if any(row["selector"] == name for row in values)]
    places = list(dict.fromkeys(titled(g.values) if key is None else written(g.values[key]) for g in groups))
    panels = list(dict.fromkeys(titled({other: group.values[other] for other in others}) for group in groups))
    scale, axis = _score_axis(values, score, by)
    values = cut(values, scale.domain)
    title_x = " · ".join(short_names(list(groups[0].values)).values()) if key is None else key
    crowded = key is None or sum(map(len, places)) > 30
    x = alt.X(
        "place:N",
        sort=places,
        title=title_x,
        axis=alt.Axis(labelAngle=-35 if crowded else 0, labelLimit=220, grid=False),
        scale=alt.Scale(paddingInner=0.35, paddingOuter=0.25),
    )
    offset = alt.XOffset("selector:N", sort=shown)
    base = alt.Chart().encode(x=x, xOffset=offset, **selector_lines(shown))
    tooltip = ["selector:N", "place:N", *(alt.Tooltip(f"{name}:Q", format=".3g") for name in ("mean", "low", "high"))]
    shapes = alt.Scale(domain=["", ">=", "<="], range=["circle", "triangle-up", "triangle-down"])
    y = alt.Y("mean:Q", title=_score_name(score, by), scale=scale, axis=axis)
    layers = interval_layers(base, y, tooltip, shape=alt.Shape("bound:N", scale=shapes, legend=None))
    even = alt.Chart().mark_rule(**REFERENCE).encode(y=alt.datum(1.0))
    layers = [even, *layers] if score == "speed_up" else layers
    return _faceted(
        alt.LayerChart(layer=layers), values, panels, min(len(panels), 3), title, 14 * len(places) * len(shown)
    )


def _axes(groups: Sequence[Group]) -> tuple[str | None, list[str]]:
    """The key of the axis and the keys of the panels; none if the groups are not a grid, or it is too large."""
    levels = {key: len({written(group.values[key]) for group in groups}) for key in groups[0].values}
    if math.prod(levels.values()) != len(groups):
        return None, []
    key = max(levels, key=lambda name: levels[name])
    others = [other for other in levels if other != key]
    return (key, others) if math.prod(levels[other] for other in others) <= PANELS else (None, [])


def _score_axis(values: Sequence[Row], score: str, by: str) -> tuple[alt.Scale, alt.Axis]:
    """The range of the axis: intervals over few seeds can be very wide, so they are cut."""
    inner = [float(row["mean"]) for row in values]
    outer = [float(row[name]) for row in values for name in ("low", "high")]
    if score == "speed_up":
        low, high = (max(min(outer), min(inner) / 3.0), min(max(outer), max(inner) * 3.0))
        scale = alt.Scale(type="log", nice=False, domain=[min(low, 0.9) * 0.95, max(high, 1.1) * 1.05])
        ticks = [tick for tick in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low / 3.0 <= tick <= high * 3.0]
        return scale, alt.Axis(values=ticks, format="~g")
    room = max(max(inner) - min(inner), 0.05 * abs(max(inner)), 1e-9)
    ends = [max(min(outer), min(inner) - room), min(max(outer), max(inner) + room)]
    axis = alt.Axis(format=axis_format(by), tickCount=5)
    return alt.Scale(zero=False, nice=False, domain=domain_of(ends, by)), axis


def _score_name(score: str, by: str) -> str:
    return "speed-up" if score == "speed_up" else f"final {by}"


def _belongs(row: Row, group: Group) -> bool:
    return all(written(row[key]) == written(value) for key, value in group.values.items())


def _titles(groups: Sequence[Group]) -> list[str]:
    return [titled(group.values) for group in groups]


def _across(groups: Sequence[Group]) -> int:
    """The number of panels in a row: in a small grid, the number of values of the last key."""
    last = len({written(list(group.values.values())[-1]) for group in groups})
    grid = 1 < last <= 4 and len(groups) % last == 0 and len(groups[0].values) > 1
    return last if grid else min(len(groups), 3)


def _faceted(
    inner: alt.LayerChart,
    values: Sequence[Row],
    panels: Sequence[str],
    across: int,
    title: str,
    least: int = 0,
) -> alt.TopLevelMixin:
    """One chart, or small multiples if there are several panels; a single panel has at least this width."""
    data = alt.InlineData(values=list(values))
    width = min(max(WIDTHS[across], least), 2 * WIDTHS[1]) if len(panels) == 1 else WIDTHS[across]
    if len(panels) == 1:
        return inner.properties(data=data, title=title, width=width, height=int(1.4 * HEIGHT))
    name = "group" if "group" in values[0] else "panel"
    header = alt.Header(title=None, labelFontSize=12, labelColor="#222", labelLimit=width)
    faceted: alt.TopLevelMixin = inner.properties(width=width, height=HEIGHT).facet(
        facet=alt.Facet(f"{name}:N", sort=list(panels), header=header), data=data, columns=across, spacing=22
    )
    return faceted.properties(title=title)
