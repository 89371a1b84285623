"""Charts of a mini-batch profile: time, memory and accuracy over batch sizes and clients, and the choice."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import altair as alt

from enlist._internal.typing import FloatArray
from enlist.report.charts import Row
from enlist.report.kit import interval_layers

if TYPE_CHECKING:
    from enlist.simulation.profile import Profile

PARTS = ("time", "memory", "accuracy")
COLOURS = ("#0b6e99", "#e9a23b", "#6a4c93")
WIDTH, HEIGHT = 430, 280


def profile_charts(result: Profile, parts: FloatArray) -> dict[str, alt.TopLevelMixin]:
    """All charts of a profile by name; `parts` (batch sizes, 3) are its `simulation.profile.scores`.

    >>> from enlist.simulation import Config
    >>> from enlist.simulation.profile import profile, scores
    >>> result = profile(Config(data={"clients": 3}, model="logistic"), [8, 32], rounds=1)
    >>> list(profile_charts(result, scores(result.rows)))[:3]
    ['score', 'time-per-sample', 'time-per-batch']
    """
    rows = [dataclasses.asdict(row) for row in result.rows]
    ones = [{**dataclasses.asdict(one), "seconds": one.seconds} for one in result.measurements]
    regression = math.isnan(rows[0]["accuracy"])
    unit, size = memory_unit(max(row["memory"] + row["memory_std"] for row in rows))
    learned, form = ("loss", ".3g") if regression else ("accuracy", ".0%")
    own = f"{learned.capitalize()} of each client on its own samples"
    return {
        "score": _score_chart(result, parts, "Score, lower is better"),
        "time-per-sample": _spread_chart(rows, "per_sample", 1e3, "ms per sample", "Time per sample on this machine"),
        "time-per-batch": _spread_chart(
            rows, "per_batch", 1e3, "ms per mini-batch", "Time per mini-batch on this machine"
        ),
        "time-per-client": _client_chart(
            ones, "seconds", 1e3, "ms per pass", "Time per client on this machine", ",.4~g"
        ),
        "memory": _spread_chart(rows, "memory", 1 / size, f"{unit} per step", "Peak memory of a training step"),
        "accuracy": _dots_chart(ones, rows, learned, form, own),
        "time-deviation": _bar_chart(rows, "per_batch_std", 1e3, "ms per mini-batch", "Standard deviation of time"),
        "memory-deviation": _bar_chart(
            rows, "memory_std", 1 / size, f"{unit} per step", "Standard deviation of memory"
        ),
    }


def _spread_chart(rows: Sequence[Row], name: str, scale: float, axis: str, title: str) -> alt.LayerChart:
    """A value over batch sizes with one standard deviation to either side."""
    values = [
        {
            "batch": row["batch"],
            "mean": row[name] * scale,
            "std": row[f"{name}_std"] * scale,
            "low": max(row[name] - row[f"{name}_std"], 0.0) * scale,
            "high": (row[name] + row[f"{name}_std"]) * scale,
        }
        for row in rows
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(x=_batch_axis(), color=alt.value(COLOURS[0]))
    up = alt.Y("mean:Q", title=axis, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=6))
    tooltip = [
        "batch:O",
        alt.Tooltip("mean:Q", title=axis, format=".4~g"),
        alt.Tooltip("std:Q", title="standard deviation", format=".3~g"),
    ]
    interval, dots = interval_layers(base, up, tooltip)
    line = base.mark_line(strokeWidth=2).encode(y="mean:Q")
    layered: alt.LayerChart = (interval + line + dots).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def _bar_chart(rows: Sequence[Row], name: str, scale: float, axis: str, title: str) -> alt.Chart:
    """A bar per batch size."""
    values = [{"batch": row["batch"], "value": row[name] * scale} for row in rows]
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar(color=COLOURS[0], size=46)
        .encode(
            x=_batch_axis(),
            y=alt.Y("value:Q", title=axis, axis=alt.Axis(tickCount=6)),
            tooltip=["batch:O", alt.Tooltip("value:Q", title=axis, format=".4~g")],
        )
        .properties(title=title, width=WIDTH, height=HEIGHT)
    )
    return chart


def _client_chart(ones: Sequence[Row], name: str, scale: float, axis: str, title: str, form: str) -> alt.Chart:
    """A dot per client and batch size, clients side by side."""
    values = [{"batch": one["batch"], "client": one["client"], "value": one[name] * scale} for one in ones]
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_circle(size=80, opacity=0.9)
        .encode(
            x=alt.X("client:O", axis=alt.Axis(labelAngle=0, grid=True, ticks=False)),
            y=alt.Y("value:Q", title=axis, axis=alt.Axis(tickCount=6)),
            color=alt.Color("batch:O", title="batch size", scale=alt.Scale(scheme="viridis")),
            tooltip=["client:O", "batch:O", alt.Tooltip("value:Q", title=axis, format=form)],
        )
        .properties(title=title, width=max(30 * len({one["client"] for one in ones}), 240), height=HEIGHT)
    )
    return chart


def _dots_chart(ones: Sequence[Row], rows: Sequence[Row], name: str, form: str, title: str) -> alt.LayerChart:
    """A dot per client in a column per batch size, always at the same position, and a line at their mean."""
    values = [{"batch": one["batch"], "client": one["client"], "value": one[name]} for one in ones]
    means = [{"batch": row["batch"], "value": row[name]} for row in rows]
    scale = alt.Scale(zero=False, nice=True)
    up = alt.Y("value:Q", title=name, scale=scale, axis=alt.Axis(format=form, tickCount=6))
    tooltip = ["client:O", "batch:O", alt.Tooltip("value:Q", title=name, format=".1%" if "%" in form else form)]
    dots = (
        alt.Chart(alt.InlineData(values=values))
        .mark_circle(size=60, opacity=0.55, color=COLOURS[2])
        .encode(x=_batch_axis(), xOffset="client:O", y=up, tooltip=tooltip)
    )
    mean = (
        alt.Chart(alt.InlineData(values=means))
        .mark_tick(color="#e07a1f", thickness=3, size=min(90, 0.75 * WIDTH / len(rows)))
        .encode(x=_batch_axis(), y=up, tooltip=["batch:O", alt.Tooltip("value:Q", title="mean", format=form)])
    )
    layered: alt.LayerChart = (dots + mean).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def _score_chart(result: Profile, parts: FloatArray, title: str) -> alt.LayerChart:
    """The parts of time, memory and accuracy in the score of every batch size; the choice is marked."""
    values = [
        {"batch": row.batch, "part": name, "score": share, "order": order}
        for row, shares in zip(result.rows, parts.tolist(), strict=True)
        for order, (name, share) in enumerate(zip(PARTS, shares, strict=True))
    ]
    totals = [
        {"batch": row.batch, "score": total, "text": "chosen" if row.batch == result.best else ""}
        for row, total in zip(result.rows, parts.sum(axis=1).tolist(), strict=True)
    ]
    up = alt.Y("score:Q", title="score", axis=alt.Axis(tickCount=6))
    bars = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar(size=46)
        .encode(
            x=_batch_axis(),
            y=up,
            color=alt.Color(
                "part:N", title=None, sort=list(PARTS), scale=alt.Scale(domain=list(PARTS), range=list(COLOURS))
            ),
            order=alt.Order("order:Q"),
            tooltip=["batch:O", "part:N", alt.Tooltip("score:Q", format=".3f")],
        )
    )
    words = (
        alt.Chart(alt.InlineData(values=totals))
        .mark_text(dy=-9, fontSize=13, fontWeight="bold", color="#b85c0a")
        .encode(x=_batch_axis(), y=up, text="text:N")
    )
    layered: alt.LayerChart = (bars + words).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def _batch_axis() -> alt.X:
    return alt.X("batch:O", title="batch size", axis=alt.Axis(labelAngle=0, ticks=False))


def memory_unit(most: float) -> tuple[str, float]:
    """The unit for memory of up to this many bytes, and its size in bytes.

    >>> memory_unit(3e5), memory_unit(2.5e6)
    (('kB', 1000.0), ('MB', 1000000.0))
    """
    return next((unit for unit in (("GB", 1e9), ("MB", 1e6)) if most >= unit[1]), ("kB", 1e3))
