"""Charts: each function takes rows (a list of dicts) and returns an Altair chart; `save` writes it in three formats."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert

from enlist._internal import files
from enlist._internal.statistics import Summary
from enlist.arena.compare import Results
from enlist.report.document import VEGA_LITE, cleaned, document

Row = Mapping[str, Any]

PALETTE = ("#0b6e99", "#e07a1f", "#5b2a86", "#2fb574", "#7b3f00", "#b8336a", "#5a9ee1", "#b5a642")
"""Colours that also people with any kind of colour blindness can tell apart; a test measures how well."""
NEUTRAL = {"random": "#8d99ae", "genie": "#2b2d42"}


_KNOWN: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar("_KNOWN")


@contextlib.contextmanager
def coloured(known: Mapping[str, str]) -> Iterator[None]:
    """In charts that are made meanwhile, these methods have these colours: one colour per method over many pages.

    >>> with coloured({"oort": "#123456"}):
    ...     colours(["bsfl", "oort"]).range
    ['#0b6e99', '#123456']
    """
    token = _KNOWN.set(known)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def colours(names: Sequence[str]) -> alt.Scale:
    """One colour per selector: random is always grey and the genie always dark, so the eye finds them.

    >>> colours(["bsfl", "random"]).range
    ['#0b6e99', '#8d99ae']
    """
    known = {**NEUTRAL, **_KNOWN.get({})}
    taken = {known[name] for name in names if name in known}
    free = itertools.cycle([colour for colour in PALETTE if colour not in taken] or PALETTE)
    return alt.Scale(domain=list(names), range=[known.get(name) or next(free) for name in names])


def many_colours() -> list[str]:
    """The palette, then its colours lighter and darker: for pages that show more methods than it has colours.

    >>> found = many_colours()
    >>> len(found), len(set(found)), found[:2] == list(PALETTE[:2])
    (24, 24, True)
    """
    return [
        *PALETTE,
        *(_mixed(colour, 255, 0.42) for colour in PALETTE),
        *(_mixed(colour, 0, 0.4) for colour in PALETTE),
    ]


def _mixed(colour: str, other: int, share: float) -> str:
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return "#" + "".join(f"{round((1 - share) * part + share * other):02x}" for part in parts)


def regret_rows(results: Results, curve: str = "pseudo") -> list[dict[str, Any]]:
    """Mean and 95 % interval of a cumulated curve over seeds, one row per selector and checkpoint.

    >>> from enlist.arena import Comparison, compare
    >>> settings = Comparison(("random",), "alike", clients=10, k=2, rounds=4, seeds=2)
    >>> [row["round"] for row in regret_rows(compare(settings))]
    [1, 2, 3, 4]
    """
    rows = []
    for name in dict.fromkeys(selector for selector, _ in results):
        records = [record for (selector, _), record in results.items() if selector == name]
        for index, number in enumerate(records[0].rounds):
            summary = Summary.of([record.curves[curve][index] for record in records])
            low, high = (
                (summary.mean, summary.mean)
                if np.isnan(summary.low)
                else (min(max(summary.low, 0.0), summary.mean), summary.high)
            )
            rows.append({"selector": name, "round": number, "mean": summary.mean, "low": low, "high": high})
    return rows


def regret_chart(
    rows: Sequence[Row], title: str, axis: str = "cumulated pseudo regret", logarithmic: bool = False
) -> alt.LayerChart:
    """Regret over rounds, a line per selector with its 95 % band; the legend singles out lines.

    On logarithmic axes, regret that grows linearly and regret that flattens are easy to tell apart.

    >>> rows = [{"selector": "random", "round": 1, "mean": 1.0, "low": 0.5, "high": 1.5}]
    >>> type(regret_chart(rows, "A title")).__name__
    'LayerChart'
    """
    names = list(dict.fromkeys(row["selector"] for row in rows))
    most = max(row["high"] for row in rows)
    scale = (
        alt.Scale(type="symlog", constant=1, domain=[0, most], nice=False) if logarithmic else alt.Scale(domainMin=0)
    )
    ticks = [0, *(10**power for power in range(12) if 10**power <= most)] if logarithmic else alt.Undefined
    along = alt.Scale(type="log", nice=False) if logarithmic else alt.Scale(nice=False)
    pick = alt.selection_point(fields=["selector"], bind="legend")
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("round:Q", title="round", scale=along, axis=alt.Axis(grid=False, tickCount=6)),
        color=alt.Color("selector:N", scale=colours(names), sort=names, title=None),
        opacity=alt.condition(pick, alt.value(1.0), alt.value(0.08)),
    )
    band = base.mark_area(clip=True).encode(
        y=alt.Y("low:Q", title=axis, scale=scale, axis=alt.Axis(values=ticks)),
        y2="high:Q",
        opacity=alt.condition(pick, alt.value(0.18), alt.value(0.02)),
    )
    line = base.mark_line(strokeWidth=2.2, clip=True).encode(
        y="mean:Q",
        tooltip=[
            alt.Tooltip("selector:N"),
            alt.Tooltip("round:Q", format=","),
            alt.Tooltip("mean:Q", format=",.2f"),
            alt.Tooltip("low:Q", format=",.2f"),
            alt.Tooltip("high:Q", format=",.2f"),
        ],
    )
    layered: alt.LayerChart = (band + line).add_params(pick).properties(title=title, width=390, height=280)
    return layered


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """A chart in our look as Vega-Lite, its text cleaned: what every picture and page is made of.

    It is not validated, which takes longer than all else and is for tests.

    >>> rows = [{"selector": "random", "round": 1, "mean": 1.0, "low": 0.5, "high": 1.5}]
    >>> specification(regret_chart(rows, "A title"))["config"]["font"]
    'Helvetica Neue, Arial, sans-serif'
    """
    return dict(cleaned(styled(chart).to_dict(validate=False)))


def styled(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    """The house look.

    >>> rows = [{"selector": "random", "round": 1, "mean": 1.0, "low": 0.5, "high": 1.5}]
    >>> styled(regret_chart(rows, "A title")).to_dict()["config"]["font"]
    'Helvetica Neue, Arial, sans-serif'
    """
    configured: alt.TopLevelMixin = chart.configure(
        font="Helvetica Neue, Arial, sans-serif",
        background="white",
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(labelColor="#444", titleColor="#222", gridColor="#eee", labelFontSize=12, titleFontSize=13),
        title=alt.TitleConfig(fontSize=15, anchor="start", color="#222", offset=12),
        legend=alt.LegendConfig(labelFontSize=12, symbolStrokeWidth=4, symbolOpacity=1),
    )
    return configured


def save(chart: alt.TopLevelMixin, stem: Path, suffixes: Sequence[str] = (".png", ".svg", ".html")) -> list[Path]:
    """Write `stem`.png, .svg and .html (interactive, and self-contained: it opens without a network).

    >>> import tempfile
    >>> rows = [{"selector": "random", "round": 1, "mean": 1.0, "low": 0.5, "high": 1.5}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save(regret_chart(rows, "A title"), Path(folder) / "regret")]
    ['regret.png', 'regret.svg', 'regret.html']
    """
    content = specification(chart)
    paths = {suffix: stem.with_name(f"{stem.name}{suffix}") for suffix in suffixes}
    drawing = vl_convert.vegalite_to_svg(content, vl_version=VEGA_LITE)
    if ".svg" in paths:
        files.write(paths[".svg"], drawing.encode())
    if ".png" in paths:
        files.write(paths[".png"], vl_convert.svg_to_png(drawing, scale=2.0))
    if ".html" in paths:
        page = document(stem.name, "", '<div id="chart0"></div>', [content])
        files.write(paths[".html"], page.encode())
    return list(paths.values())
