"""The chart kit: lines with bands, dots with intervals, histograms, tiles and cells with numbers, shared by all charts.

Functions take a chart with its data and its specifics, and return marks that look the same everywhere. Rows for a line
with a band, and for a dot with an interval, hold `mean`, `low` and `high`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import altair as alt
import numpy as np

from enlist._internal.statistics import Summary
from enlist._internal.typing import IntArray
from enlist.report.charts import Row, dashes

Channel = TypeVar("Channel", alt.X, alt.Y, alt.X | alt.Y)

WIDTH, HEIGHT = 430, 290
ANY = (-math.inf, math.inf)
CROWD = 8
"""With more lines than this, bands would hide each other: then only highlighted lines have one."""
TARGET: dict[str, Any] = {"strokeDash": [5, 4], "color": "#555", "strokeWidth": 1.2}
"""The line of a target, dashed."""
REFERENCE: dict[str, Any] = {"strokeDash": [4, 3], "color": "#999"}
"""The line of no difference, or of another reference value."""
NUMBER = ".6~g"
"""Number format of an axis; without the precision, Vega uses that of the steps, and 50 becomes 5e+1."""
BLUE, ORANGE, BROWN = "#0b6e99", "#e07a1f", "#b85c0a"


def summarised(values: Sequence[float], limits: tuple[float, float] = ANY) -> dict[str, float]:
    """Mean and 95 % interval over seeds as columns of a row, cut to `possible` values; one seed has an empty interval.

    >>> summarised([0.9, 1.0, 0.8], (0.0, 1.0))["high"], summarised([0.5])
    (1.0, {'mean': 0.5, 'low': 0.5, 'high': 0.5})
    """
    found = Summary.of(values)
    if math.isnan(found.low):
        return {"mean": found.mean, "low": found.mean, "high": found.mean}
    cut = found.within(*limits)
    return {"mean": found.mean, "low": min(cut.low, found.mean), "high": max(cut.high, found.mean)}


def domain(values: Sequence[float], limits: tuple[float, float] = ANY, zero: bool = False) -> list[float]:
    """The range of an axis: a little beyond the values, from 0 if `zero`, and within what is possible.

    >>> domain([0.5, 1.0], (0.0, 1.0)), domain([2.0, 3.0], zero=True)
    ([0.475, 1.0], [0.0, 3.05])
    """
    known = [float(value) for value in values if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    # Values that differ only by rounding count as equal; an axis between them would be degenerate.
    margin = 0.05 * (high - low) if high - low > 1e-9 * max(abs(low), abs(high)) else 0.05
    least, most = max(low - margin, limits[0]), max(min(high + margin, limits[1]), high)
    return [min(least, 0.0) if zero else least, most]


def cut(rows: Sequence[Row], bounds: Sequence[float]) -> list[dict[str, Any]]:
    """Rows with intervals cut to an axis: clipping in the chart makes a picture take seven times as long.

    >>> cut([{"mean": 0.5, "low": -4.0, "high": 0.7}], [0.0, 1.0])
    [{'mean': 0.5, 'low': 0.0, 'high': 0.7}]
    """
    least, most = bounds
    return [
        {**row, "low": min(max(row["low"], least), most), "high": max(min(row["high"], most), least)} for row in rows
    ]


def legend_choice(field: str) -> alt.Parameter:
    """A click on the legend highlights one value of a field.

    >>> legend_choice("selector").param.bind
    'legend'
    """
    return alt.selection_point(fields=[field], bind="legend")


def band_layers(
    base: alt.Chart,
    y: alt.Y,
    tooltip: Sequence[Any] = (),
    choice: alt.Parameter | None = None,
    band: bool = True,
    crowded: bool = False,
    **line: Any,
) -> list[alt.Chart]:
    """A line through `mean` for each colour of `base`, over its band from `low` to `high`.

    Parameters
    ----------
    base : alt.Chart
        Data with x and colour.
    y : alt.Y
        Title, scale and axis of the values; its field is replaced.
    tooltip : sequence
        The tooltip of a point.
    choice : alt.Parameter, optional
        Highlights lines; the caller adds it to one chart.
    band : bool, default True
        Whether to draw bands.
    crowded : bool, default False
        Whether a line has its band only while highlighted.
    **line
        Further properties of the line, such as `interpolate`.

    >>> chart = alt.Chart().encode(x="at:Q", color="series:N")
    >>> [layer.to_dict()["mark"]["type"] for layer in band_layers(chart, alt.Y("mean:Q", title="AUC"))]
    ['area', 'line']
    """

    def faded(full: float, faint: float) -> Any:
        return alt.value(full) if choice is None else alt.condition(choice, alt.value(full), alt.value(faint))

    mean = base.mark_line(**{"strokeWidth": 2.2, "strokeJoin": "round", **line}).encode(
        y=_of(y, "mean:Q"), opacity=faded(1.0, 0.08), tooltip=list(tooltip)
    )
    if not band:
        return [mean]
    shade = faded(0.16, 0.02)
    if crowded and choice is not None:
        shade = alt.condition(choice, alt.value(0.16), alt.value(0.0), empty=False)
    return [base.mark_area().encode(y=_of(y, "low:Q"), y2="high:Q", fillOpacity=shade), mean]


def band_chart(
    rows: Sequence[Row],
    title: str,
    x: alt.X,
    y: alt.Y,
    colour: alt.Color,
    tooltip: Sequence[Any],
    over: Sequence[alt.Chart] = (),
    width: int = WIDTH,
    height: int = HEIGHT,
    **line: Any,
) -> alt.LayerChart:
    """One chart of lines with bands, distinguished by the field of `colour`; the legend highlights lines.

    `over` are further marks, such as a target. If no row has a band, none is drawn.

    >>> rows = [{"series": "ucb", "at": 1, "mean": 0.5, "low": 0.4, "high": 0.6}]
    >>> chart = band_chart(rows, "AUC", alt.X("at:Q"), alt.Y("mean:Q"), alt.Color("series:N"), ["mean:Q"])
    >>> [layer["mark"]["type"] for layer in chart.to_dict()["layer"]]
    ['area', 'line']
    """
    field = str(colour.shorthand).partition(":")[0]
    choice, crowded = legend_choice(field), len({row[field] for row in rows}) > CROWD
    lines = dashes(list(dict.fromkeys(row[field] for row in rows)), colour["legend"]) if field == "selector" else {}
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(x=x, color=colour, **lines)
    layers = band_layers(base, y, tooltip, choice, any(row["high"] > row["low"] for row in rows), crowded, **line)
    layered: alt.LayerChart = (
        alt.LayerChart(layer=[*layers, *over]).add_params(choice).properties(title=title, width=width, height=height)
    )
    return layered


def interval_layers(base: alt.Chart, values: alt.X | alt.Y, tooltip: Sequence[Any] = (), **dot: Any) -> list[alt.Chart]:
    """A dot at `mean` on a line from `low` to `high`, along the axis of `values`, whose field is replaced.

    >>> [layer.mark.type for layer in interval_layers(alt.Chart().encode(y="name:N"), alt.X("mean:Q"))]
    ['rule', 'point']
    """
    name = "x" if isinstance(values, alt.X) else "y"
    rule = base.mark_rule(strokeWidth=2.5, opacity=0.55).encode(**{name: _of(values, "low:Q"), f"{name}2": "high:Q"})
    dots = base.mark_point(filled=True, size=70, opacity=1)
    return [rule, dots.encode(**{name: _of(values, "mean:Q")}, tooltip=list(tooltip), **dot)]


def histogram(
    rows: Sequence[Row], title: str, x: alt.X, median: float, text: str, unit: str, height: int = HEIGHT
) -> alt.LayerChart:
    """Bars of `clients` between `from` and `to`, with `span` as the tooltip, and the median marked and labelled.

    >>> rows = [{"from": 0.0, "to": 5.0, "clients": 3, "span": "0 to 4"}]
    >>> len(histogram(rows, "Sizes", alt.X("from:Q"), 2.0, "median 2", "samples").layer)
    3
    """
    bars = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_bar(color=BLUE, stroke="white", strokeWidth=0.6)
        .encode(
            x=x,
            x2="to:Q",
            y=alt.Y("clients:Q", title="clients", axis=alt.Axis(tickMinStep=1, tickCount=6, format=",d")),
            tooltip=[alt.Tooltip("span:N", title=unit), alt.Tooltip("clients:Q", format=",d")],
        )
    )
    place = alt.Chart(alt.InlineData(values=[{"at": median, "text": text}])).encode(x=alt.X("at:Q", scale=x["scale"]))
    rule = place.mark_rule(color=ORANGE, strokeWidth=2)
    word = place.mark_text(baseline="bottom", dy=-4, color=BROWN, fontSize=12).encode(y=alt.value(0), text="text:N")
    layered: alt.LayerChart = (bars + rule + word).properties(title=title, width=WIDTH, height=height)
    return layered


def tile_layer(
    base: alt.Chart,
    places: Sequence[Any],
    x: str,
    y: alt.Y,
    colour: alt.Color,
    tooltip: Sequence[Any],
    width: int,
    title: str = "",
) -> alt.Chart:
    """A tile for each of `places` of the field `x` and each line of `y`; if many, only some places are labelled.

    >>> colour, y = alt.Color("arm:N"), alt.Y("seed:N")
    >>> tile_layer(alt.Chart(), [1, 2, 3], "round", y, colour, [], 430).encoding.x["axis"]["values"]
    [1, 2, 3]
    """
    axis = alt.Axis(values=labelled(places, width), labelAngle=0, ticks=False, domain=False)
    tiles: alt.Chart = base.mark_rect(stroke="white", strokeWidth=0.8).encode(
        x=alt.X(f"{x}:O", title=title or x, axis=axis), y=y, color=colour, tooltip=list(tooltip)
    )
    return tiles


def labelled(places: Sequence[Any], width: int) -> list[Any]:
    """The sorted places that get a label: all, or the first one and round numbers after it.

    >>> labelled(range(1, 41), 430)
    [1, 5, 10, 15, 20, 25, 30, 35, 40]
    """
    room = max(width // 21, 2)
    steps = (1, 5, *(step * 10**power for power in range(1, 12) for step in (1, 2, 5)))
    step = next(step for step in steps if len(places) <= step * room)
    return [place for number, place in enumerate(places) if step == 1 or number == 0 or (number + 1) % step == 0]


def cell_layers(base: alt.Chart, colour: alt.Color, text: str, light: str, size: int = 11) -> list[alt.Chart]:
    """Coloured cells containing `text`, which is white where the Vega expression `light` is false.

    >>> [layer.mark.type for layer in cell_layers(alt.Chart(), alt.Color("share:Q"), "text:N", "datum.share < 0.4")]
    ['rect', 'text']
    """
    written = alt.condition(light, alt.value("#222"), alt.value("white"))
    cells = base.mark_rect(stroke="white", strokeWidth=1).encode(color=colour)
    return [cells, base.mark_text(fontSize=size).encode(text=text, color=written)]


def target_layers(value: float, text: str) -> list[alt.Chart]:
    """A dashed line across the chart, with a word above it.

    >>> [layer.mark.type for layer in target_layers(0.7, "target 70 %")]
    ['rule', 'text']
    """
    base = alt.Chart(alt.InlineData(values=[{"value": value, "text": text}])).encode(y="value:Q")
    word = base.mark_text(align="left", baseline="bottom", dx=5, dy=-3, color="#555", fontSize=11)
    return [base.mark_rule(**TARGET), word.encode(x=alt.value(0), text="text:N")]


def evenly(count: int, most: int) -> IntArray:
    """At most `most` of the first `count` positions, evenly spaced, including the first and the last.

    >>> evenly(5, 3).tolist()
    [0, 2, 4]
    """
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.int64))


def _of(channel: Channel, field: str) -> Channel:
    found = channel.copy(deep=False)
    found.shorthand = field
    return found
