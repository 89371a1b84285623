"""What all charts share: colours, one per method, the house look, and how they become pictures and pages."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from enlist._internal import files
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


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """A chart in our look as Vega-Lite, its text cleaned: what every picture and page is made of.

    It is not validated, which takes longer than all else and is for tests.

    >>> specification(alt.Chart().mark_point())["config"]["font"]
    'Helvetica Neue, Arial, sans-serif'
    """
    return dict(cleaned(styled(chart).to_dict(validate=False)))


def styled(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    """The house look.

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
    """Write `stem`.png, .svg and .html (interactive, and self-contained: it opens without a network).

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
