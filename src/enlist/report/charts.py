"""What all charts share: one colour per method, the house style, and how charts become pictures and pages."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import vl_convert
from altair.utils.schemapi import debug_mode

from enlist._internal import files
from enlist.report.document import cleaned, document
from enlist.report.library import VEGA_LITE

Row = Mapping[str, Any]

PALETTE = ("#0b6e99", "#e07a1f", "#5b2a86", "#2fb574", "#7b3f00", "#b8336a", "#5a9ee1", "#b5a642")
"""Colours that people with any kind of colour blindness can tell apart; a test measures this."""
NEUTRAL = {"random": "#8d99ae", "genie": "#2b2d42"}
DARK = dict(
    zip(
        (*PALETTE, *NEUTRAL.values()),
        ("#2f91c6", "#db831a", "#946ee8", "#48d08b", "#a8693b", "#d14e85", "#a0cffd", "#ddd36c", "#8d9cb0", "#e8ebef"),
        strict=True,
    )
)
"""Light-page colours -> the same on a dark page; the test measures these too."""
DASHES = ([1, 0], [7, 3], [2, 2])
"""Line styles for methods beyond the palette: the same colours again, dashed, and then dotted."""


class Look(NamedTuple):
    """The style of a method in all charts: its colour, and which of `DASHES` its lines have.

    >>> Look.of(0), Look.of(8), Look.of(24) == Look.of(0)
    (Look(colour='#0b6e99', dash=0), Look(colour='#0b6e99', dash=1), True)
    """

    colour: str
    dash: int = 0

    @classmethod
    def of(cls, number: int) -> Look:
        """The style of the method with this number; the 24 styles then repeat."""
        return cls(PALETTE[number % len(PALETTE)], number // len(PALETTE) % len(DASHES))


_KNOWN: contextvars.ContextVar[Mapping[str, Look]] = contextvars.ContextVar("_KNOWN")


@contextlib.contextmanager
def coloured(known: Mapping[str, Look]) -> Iterator[None]:
    """Fix the styles of these methods in charts made inside, so that they are the same on many pages.

    >>> with coloured({"oort": Look("#123456")}):
    ...     colours(["bsfl", "oort"]).range
    ['#0b6e99', '#123456']
    """
    token = _KNOWN.set({**_KNOWN.get({}), **known})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def looks(names: Sequence[str]) -> list[Look]:
    """One style per method: random is always grey and the genie always dark, so that they are easy to find.

    >>> looks(["bsfl", "random"])
    [Look(colour='#0b6e99', dash=0), Look(colour='#8d99ae', dash=0)]
    """
    known = {**{name: Look(colour) for name, colour in NEUTRAL.items()}, **_KNOWN.get({})}
    taken = {known[name] for name in names if name in known}
    every = [Look.of(number) for number in range(len(PALETTE) * len(DASHES))]
    free = itertools.cycle([look for look in every if look not in taken] or every)
    return [known.get(name) or next(free) for name in names]


def colours(names: Sequence[str]) -> alt.Scale:
    """The colours of methods.

    >>> colours(["bsfl", "random"]).range
    ['#0b6e99', '#8d99ae']
    """
    return alt.Scale(domain=list(names), range=[look.colour for look in looks(names)])


def dashes(names: Sequence[str], legend: Any = alt.Undefined) -> dict[str, Any]:
    """Dash channels for a chart's lines by `selector`, if colours alone do not tell these methods apart; else none.

    >>> dashes(["bsfl", "random"]), dashes([f"m{number}" for number in range(9)])["strokeDash"]["scale"]["range"][7:]
    ({}, [[1, 0], [7, 3]])
    """
    found = [look.dash for look in looks(names)]
    if not any(found):
        return {}
    scale = alt.Scale(domain=list(names), range=[DASHES[dash] for dash in found])
    return {"strokeDash": alt.StrokeDash("selector:N", scale=scale, sort=list(names), legend=legend, title=None)}


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """A decorator or `with` block in which Altair does not validate charts against its schema.

    Validation takes a third of the time of a report, and data cannot make it fail; tests make charts with validation.

    >>> with unchecked():
    ...     alt.Chart("data.csv", width="wrong").width
    'wrong'
    """
    with debug_mode(False):
        yield


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """A chart in the house style as Vega-Lite, with cleaned text; all pictures and pages are made from it.

    It is not validated, which takes longer than everything else and is left to tests.

    >>> specification(alt.Chart().mark_point())["config"]["font"]
    'Helvetica Neue, Arial, sans-serif'
    """
    return dict(cleaned(styled(chart).to_dict(validate=False)))


def styled(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    """Apply the house style.

    >>> styled(alt.Chart().mark_point()).to_dict()["config"]["font"]
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
    """Write `stem`.png, .svg and .html (interactive and self-contained: it opens without a network).

    >>> import tempfile
    >>> chart = alt.Chart(alt.InlineData(values=[{"round": 1}])).mark_point().encode(x="round:Q")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save(chart, Path(folder) / "regret")]
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
