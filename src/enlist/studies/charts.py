"""Charts that studies share: curves with bands, boxes with points, intervals, residuals, small multiples of each.

Every function takes rows (dicts) with fixed keys and returns an Altair chart. `panel` and `row` of a row, if given,
say in which of the small multiples it is drawn.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist._internal.typing import FloatArray
from enlist.report.charts import PALETTE, Row
from enlist.report.kit import REFERENCE, band_layers, domain, interval_layers, legend_choice, summarised, tile_layer

GREY = "#9aa3af"


@dataclasses.dataclass(frozen=True)
class ChartStyle:
    """How a chart is labelled and how large a panel is.

    colours   series -> colour, in the order of the legend; others get what is left of the palette
    zero      whether the axis of values begins at 0
    log       whether the other axis is logarithmic
    legend    title of the legend, which has `columns` columns; without `named` there is none

    >>> ChartStyle(x="round", y="AUC", colours={"FedAvg": "#999999"}).range(["FedAvg", "ucb"])
    ['#999999', '#0b6e99']
    """

    x: str = ""
    y: str = ""
    width: int = 430
    height: int = 280
    colours: dict[str, str] = dataclasses.field(default_factory=dict)
    zero: bool = False
    log: bool = False
    legend: str | None = None
    named: bool = True
    columns: int = 6

    def range(self, names: Sequence[str]) -> list[str]:
        """A colour for each name."""
        free = itertools.cycle([colour for colour in PALETTE if colour not in self.colours.values()] or PALETTE)
        return [self.colours.get(name) or next(free) for name in names]

    def colour(self, names: Sequence[str], symbol: str = "stroke") -> alt.Color:
        """Series told apart by colour, their names above the chart."""
        known = [name for name in self.colours if name in names]
        order = [*known, *(name for name in names if name not in known)]
        legend = alt.Legend(
            title=self.legend, titleLimit=400, orient="top", symbolType=symbol, columns=self.columns, labelLimit=240
        )
        scale = alt.Scale(domain=order, range=self.range(order))
        return alt.Color("series:N", scale=scale, sort=order, legend=legend if self.named else None)


def bands(values: FloatArray, **labels: Any) -> list[dict[str, Any]]:
    """Rows of a curve: mean and 95 % interval (Student's t) over seeds at each round.

    values   (seeds, rounds), NaN where nothing is known

    >>> [round(row["high"], 2) for row in bands(np.array([[0.0, 1.0], [2.0, 1.0]]), series="ucb")]
    [13.71, 1.0]
    """
    known = np.isfinite(values)
    return [
        {**labels, "at": int(at) + 1, **summarised(values[known[:, at], at].tolist())}
        for at in np.flatnonzero(known.any(axis=0))
    ]


def lines(values: FloatArray, **labels: Any) -> list[dict[str, Any]]:
    """Rows of one thin line per seed.

    >>> [row["mean"] for row in lines(np.array([[0.5, 0.6]]), series="ucb")]
    [0.5, 0.6]
    """
    return [
        {**labels, "line": line, "at": at + 1, "mean": float(value)}
        for line, curve in enumerate(values)
        for at, value in enumerate(curve)
        if np.isfinite(value)
    ]


def curves(
    rows: Sequence[Row], title: str, look: ChartStyle, thin: Sequence[Row] = (), rule: float | None = None
) -> alt.TopLevelMixin:
    """A line per series, with a band where rows have `low` and `high`, over `thin` single lines; `rule` is dashed.

    >>> rows = bands(np.array([[0.5, 0.6], [0.6, 0.7]]), series="ucb")
    >>> curves(rows, "AUC", ChartStyle("round", "AUC")).to_dict()["title"]
    'AUC'
    """
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    marked = _cut([{**row, "part": "mean"} for row in rows] + [{**row, "part": "thin"} for row in thin])
    choice = legend_choice("series")
    base = alt.Chart().encode(
        x=alt.X(
            "at:Q",
            title=look.x,
            scale=alt.Scale(nice=False, type="log" if look.log else "linear"),
            axis=_axis(rows, look),
        ),
        color=look.colour(names),
    )
    heights = [float(row[name]) for row in marked for name in ("mean", "low", "high") if name in row]
    ends = domain([*heights, *([rule] if rule is not None else [])], zero=look.zero)
    y = alt.Y("mean:Q", title=look.y, scale=alt.Scale(zero=look.zero, domain=ends), axis=alt.Axis(tickCount=5))
    layers = []
    if thin:
        layers.append(
            base.transform_filter("datum.part == 'thin'")
            .mark_line(strokeWidth=0.7)
            .encode(y=y, detail="line:N", strokeOpacity=alt.condition(choice, alt.value(0.35), alt.value(0.03)))
        )
    tooltip = ["series:N", alt.Tooltip("at:Q", title=look.x), alt.Tooltip("mean:Q", format=".3f")]
    means = base.transform_filter("datum.part == 'mean'")
    layers += band_layers(means, y, tooltip, choice, any("low" in row for row in rows))
    layers[-1] = layers[-1].add_params(choice)
    layers += [alt.Chart().mark_rule(**REFERENCE).encode(y=alt.datum(rule))] if rule is not None else []
    return _panels(layers, marked, title, look)


def boxes(rows: Sequence[Row], title: str, look: ChartStyle) -> alt.TopLevelMixin:
    """A box and its points for every group and series; rows hold `group`, `series` and `value`.

    >>> rows = [{"group": "0.1", "series": "0.75", "value": value} for value in (0.6, 0.7, 0.65)]
    >>> boxes(rows, "Best performance", ChartStyle("ε", "AUC")).to_dict()["title"]
    'Best performance'
    """
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    order = [name for name in look.colours if name in names] or names
    scale = alt.Scale(domain=domain([float(row["value"]) for row in rows], zero=look.zero), zero=look.zero)
    base = alt.Chart().encode(
        x=alt.X("group:N", title=look.x, sort=None, axis=alt.Axis(labelAngle=0, labelLimit=160)),
        xOffset=alt.XOffset("series:N", sort=order),
        y=alt.Y("value:Q", title=look.y, scale=scale),
        color=look.colour(names, "square"),
    )
    box = base.mark_boxplot(
        extent="min-max", size=look.width // max(len(_groups(rows)) * len(names) * 2, 1), opacity=0.5
    )
    points = base.mark_circle(size=26, opacity=0.85, stroke="white", strokeWidth=0.5).encode(
        tooltip=["group:N", "series:N", alt.Tooltip("value:Q", format=".4f")]
    )
    return _panels([box, points], rows, title, look)


def intervals(rows: Sequence[Row], title: str, look: ChartStyle, rule: float | None = None) -> alt.TopLevelMixin:
    """A dot with its interval for each `name`, one below the other; rows hold `name`, `series`, `mean`, `low`, `high`.

    >>> rows = [{"name": "ucb", "series": "rule", "mean": 0.7, "low": 0.68, "high": 0.72}]
    >>> intervals(rows, "Best performance", ChartStyle(x="AUC")).to_dict()["title"]
    'Best performance'
    """
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    known = [float(row[name]) for row in rows for name in ("low", "high", "mean") if np.isfinite(row[name])]
    ends = domain([*known, *([rule] if rule is not None else [])], zero=look.zero)
    scale = alt.Scale(domain=ends, zero=look.zero)
    plain = [{**row, "low": _or(row["low"], row["mean"]), "high": _or(row["high"], row["mean"])} for row in rows]
    base = alt.Chart().encode(
        y=alt.Y("name:N", sort=None, title=look.y or None, axis=alt.Axis(labelLimit=320, ticks=False, domain=False)),
        color=look.colour(names, "circle") if len(names) > 1 else alt.value(PALETTE[0]),
    )
    if len(names) > 1:
        base = base.encode(yOffset=alt.YOffset("series:N", sort=names))
    x = alt.X("mean:Q", scale=scale, title=look.x, axis=alt.Axis(tickCount=max(look.width // 70, 2)))
    tooltip = ["name:N", "series:N", *(alt.Tooltip(f"{n}:Q", format=".4f") for n in ("mean", "low", "high"))]
    layers = interval_layers(base, x, tooltip)
    if rule is not None:
        layers.append(alt.Chart().mark_rule(**REFERENCE).encode(x=alt.datum(rule)))
    sized = dataclasses.replace(look, height=max(26 * len(dict.fromkeys(row["name"] for row in rows)), 60))
    return _panels(layers, plain, title, sized)


def points(rows: Sequence[Row], title: str, look: ChartStyle, over: Sequence[Row] = ()) -> alt.TopLevelMixin:
    """Single points, and over them a line, with a band where its rows have one.

    Rows hold `at`, `value` and `series`, those of the line `at`, `mean` and perhaps `low` and `high`.

    >>> rows = [{"at": 1, "value": 0.1, "series": "0110"}]
    >>> points(rows, "Residuals", ChartStyle("round", "residual")).to_dict()["title"]
    'Residuals'
    """
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    marked = _cut([{**row, "part": "point"} for row in rows] + [{**row, "part": "over"} for row in over])
    heights = [float(row[name]) for row in marked for name in ("value", "low", "high") if name in row]
    scale = alt.Scale(domain=domain(heights, zero=look.zero), zero=look.zero)
    base = alt.Chart().encode(
        x=alt.X("at:Q", title=look.x, scale=alt.Scale(nice=False, padding=4), axis=_axis(rows, look)),
        color=look.colour(names, "circle") if len(names) > 1 else alt.value(PALETTE[0]),
    )
    layers = [
        base.transform_filter("datum.part == 'point'")
        .mark_circle(size=14, opacity=1, fillOpacity=0.55)
        .encode(y=alt.Y("value:Q", title=look.y, scale=scale, axis=alt.Axis(tickCount=5)))
    ]
    if over:
        mean = alt.Y("mean:Q", title=look.y, scale=scale)
        banded = any("low" in row for row in over)
        *band, line = band_layers(base.transform_filter("datum.part == 'over'"), mean, band=banded, strokeWidth=1.4)
        layers = [*band, *layers, line.encode(color=alt.value("#333"))]
    return _panels(layers, marked, title, look)


def tiles(rows: Sequence[Row], title: str, look: ChartStyle) -> alt.TopLevelMixin:
    """What was done in each round of each experiment, as coloured tiles; rows hold `at`, `line` and `series`.

    >>> rows = [{"at": 1, "line": 0, "series": "0110"}, {"at": 2, "line": 0, "series": "1100"}]
    >>> tiles(rows, "Executed actions", ChartStyle("round", "experiment")).to_dict()["title"]
    'Executed actions'
    """
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    places = sorted({row["at"] for row in rows})
    down = alt.Y("line:O", title=look.y, axis=alt.Axis(ticks=False, domain=False))
    tooltip = ["line:O", "at:O", "series:N"]
    chart = tile_layer(alt.Chart(), places, "at", down, look.colour(names, "square"), tooltip, look.width, look.x)
    return _panels([chart], rows, title, look)


def _panels(layers: Sequence[alt.Chart], rows: Sequence[Row], title: str, look: ChartStyle) -> alt.TopLevelMixin:
    """One chart, or small multiples where rows name a panel or a row."""
    data = alt.InlineData(values=[{name: _short(value) for name, value in row.items()} for row in rows])
    facets: dict[str, Any] = {}
    for name, kind in (("panel", alt.Column), ("row", alt.Row)):
        found = list(dict.fromkeys(str(row[name]) for row in rows if name in row))
        if found:
            header = alt.Header(title=None, labelFontSize=12, labelColor="#222", labelLimit=260)
            facets["column" if name == "panel" else "row"] = kind(f"{name}:N", sort=found, header=header)
    size = {"width": look.width, "height": look.height}
    if not facets:
        return alt.layer(*layers, data=data).properties(title=title, **size)
    inner = alt.layer(*layers).properties(**size)
    titled: alt.TopLevelMixin = inner.facet(data=data, spacing=14, **facets).properties(title=title)
    return titled


def _axis(rows: Sequence[Row], look: ChartStyle) -> alt.Axis:
    """The horizontal axis: whole numbers for rounds, the very points on a logarithmic one."""
    places = sorted({float(row["at"]) for row in rows}) or [1.0]
    if look.log:
        return alt.Axis(grid=False, values=places, format="~g", labelOverlap=True)
    if look.x == "round" or all(place == int(place) for place in places):
        return alt.Axis(grid=False, tickMinStep=1, tickCount=int(min(places[-1], max(look.width // 40, 2))), format="d")
    return alt.Axis(grid=False, tickCount=max(look.width // 50, 2))


def _cut(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows whose bands reach beyond the values no further than these spread: those of two seeds would hide all else."""
    core = [float(row[name]) for row in rows for name in ("mean", "value") if name in row]
    low, high = min(core), max(core)
    reach = (high - low) or 0.05
    found = [dict(row) for row in rows]
    for row in found:
        if "low" in row:
            row["low"], row["high"] = max(row["low"], low - reach), min(row["high"], high + reach)
    return found


def _groups(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["group"]) for row in rows))


def _short(value: Any) -> Any:
    """Digits that nobody can see make a page large."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _or(value: float, other: float) -> float:
    return float(value) if np.isfinite(value) else float(other)
