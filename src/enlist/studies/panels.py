"""Panels side by side, each with axes of its own, under one legend."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist._internal.typing import FloatArray
from enlist.report.charts import Row
from enlist.report.kit import band_layers, cut, legend_choice
from enlist.studies.charts import ChartStyle, bands

HEADROOM = 1.25
FINE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


@dataclasses.dataclass(frozen=True)
class Panel:
    """Curves with bands; rows hold `series`, `at`, `mean`, `low` and `high`.

    log_x, log_y   logarithmic axes: what is not positive is left out
    steps          the values along x are settings, not amounts: evenly spaced, with points
    zero           the axis of values begins at 0

    >>> Panel("iid", [], "round", "regret").log_x
    False
    """

    title: str
    rows: Sequence[Row]
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    steps: bool = False
    zero: bool = False


def along(points: FloatArray, values: FloatArray, series: str, share: bool = False) -> list[dict[str, Any]]:
    """Rows of a curve over `points`, mean and 95 % interval over seeds; `values` are (seeds, points).

    The interval of a `share` ends at 0 and 1. Of one or two seeds it is not drawn: it would be wider than everything
    else.

    >>> [(row["at"], row["high"]) for row in along(np.array([10.0, 20.0]), np.ones((2, 2)), "bsfl")]
    [(10.0, 1.0), (20.0, 1.0)]
    >>> [row["high"] for row in along(np.array([1.0]), np.array([[0.8], [1.0], [1.0]]), "in time", share=True)]
    [1.0]
    """
    rows = [{**row, "at": float(points[row["at"] - 1])} for row in bands(values, series=series)]
    if share:
        rows = [{**row, "low": max(row["low"], 0.0), "high": min(row["high"], 1.0)} for row in rows]
    return rows if len(values) > 2 else [{**row, "low": row["mean"], "high": row["mean"]} for row in rows]


def side_by_side(
    panels: Sequence[Panel],
    title: str,
    colours: Mapping[str, str],
    columns: int = 2,
    width: int = 330,
    height: int = 230,
) -> alt.TopLevelMixin:
    """All panels with their titles; the legend singles out a series, and of a single one there is none.

    >>> rows = along(np.array([1.0, 2.0]), np.ones((2, 2)), "BSFL")
    >>> side_by_side([Panel("iid", rows, "round", "regret")], "Regret", {"BSFL": "#0b6e99"}).to_dict()["title"]["text"]
    'Regret'
    """
    names = list(dict.fromkeys(str(row["series"]) for panel in panels for row in panel.rows))
    look = ChartStyle(colours=dict(colours), columns=5, named=len(names) > 1)
    choice = legend_choice("series")
    rows = {f"panel-{number}": _drawn(panel) for number, panel in enumerate(panels)}
    charts = [
        _panel(panel, name, rows[name], look.colour(names), choice, (width, height))
        for name, panel in zip(rows, panels, strict=True)
    ]
    joined: alt.TopLevelMixin = (
        alt.concat(*charts, columns=columns, spacing=26)
        .resolve_scale(color="shared")
        .properties(title=alt.TitleParams(title, anchor="start"), datasets=rows)
    )
    return joined


def _drawn(panel: Panel) -> list[dict[str, Any]]:
    """Rows that the axes can show; bands are cut to the axis here, as clipping makes a PNG take seven times as long."""
    rows = [row for row in panel.rows if (row["at"] > 0 or not panel.log_x) and (row["mean"] > 0 or not panel.log_y)]
    return cut(rows, _domain(rows, panel))


def _panel(
    panel: Panel, name: str, rows: Sequence[Row], colour: alt.Color, choice: alt.Parameter | None, size: tuple[int, int]
) -> alt.LayerChart | alt.FacetChart:
    """One panel; its data stand once beside all charts, because Altair copies what is inside of them at every step."""
    base = alt.Chart(alt.NamedData(name)).encode(x=_along(panel, size[0]), color=colour)
    scale = alt.Scale(type="log" if panel.log_y else "linear", nice=False, domain=_domain(rows, panel))
    y = alt.Y("mean:Q", title=panel.y, scale=scale, axis=_ticks(panel.log_y, [row["mean"] for row in rows], 5))
    tooltip = ["series:N", alt.Tooltip("at:Q", title=panel.x), alt.Tooltip("mean:Q", format=".4g")]
    points: dict[str, Any] = {"point": {"size": 30}} if panel.steps else {}
    choice = choice if colour["legend"] is not None else None  # without a legend there is nothing to click on
    marks = band_layers(base, y, tooltip, choice, any(row["high"] > row["low"] for row in rows), **points)
    if name == "panel-0" and choice is not None:
        # The legend belongs to all panels, and one of them has to own the choice.
        marks[-1] = marks[-1].add_params(choice)
    heading = alt.TitleParams(panel.title, fontSize=12, fontWeight="normal", offset=6, frame="group")
    return alt.layer(*marks).properties(title=heading, width=size[0], height=size[1])


def _domain(rows: Sequence[Row], panel: Panel) -> list[float]:
    """All means with some room; bands that reach beyond are cut, as a few seeds can make them very wide."""
    inner = [float(row["mean"]) for row in rows] or [1.0]
    outer = [float(row[name]) for row in rows for name in ("low", "high")] or [1.0]
    if panel.log_y:
        return [max(min(outer), min(inner) / HEADROOM), min(max(outer), max(inner) * HEADROOM**2)]
    room = 0.25 * (max(inner) - min(inner)) or 0.1
    edge = 0.1 * room
    low, high = max(min(outer), min(inner) - room) - edge, min(max(outer), max(inner) + room) + edge
    return [min(low, 0.0) if panel.zero else low, high]


def _along(panel: Panel, width: int) -> alt.X:
    if panel.steps:
        return alt.X("at:O", title=panel.x, axis=alt.Axis(labelAngle=0, grid=False))
    scale = alt.Scale(type="log" if panel.log_x else "linear", nice=False)
    known = [float(row["at"]) for row in panel.rows]
    return alt.X("at:Q", title=panel.x, scale=scale, axis=_ticks(panel.log_x, known, width // 65, grid=False))


def _ticks(logarithmic: bool, values: Sequence[float], count: int, grid: bool = True) -> alt.Axis:
    """Few ticks; on a logarithmic axis powers of ten, and more between them where there are only few."""
    if not logarithmic:
        return alt.Axis(tickCount=count, grid=grid)
    positive = [value for value in values if value > 0] or [1.0]
    low, high = np.floor(np.log10(min(positive))), np.ceil(np.log10(max(positive)))
    steps = (1.0,) if high - low > 2 else (1.0, 2.0, 5.0) if max(positive) > 5 * min(positive) else FINE
    ticks = [float(f"{step * 10.0**power:.6g}") for power in np.arange(low, high + 1) for step in steps]
    return alt.Axis(values=ticks, grid=grid, format=",~g")
