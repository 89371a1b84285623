"""Charts of how much data clients hold, alone and against the distance of their labels to the whole.

They stay readable and small with any number of clients.
"""

from __future__ import annotations

from typing import Literal

import altair as alt
import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray
from enlist.errors import InputError
from enlist.report.kit import histogram
from enlist.report.skew import HEAT

POINTS = 4000
"""Up to this many clients get a dot each in the scatter plot."""


def size_histogram(sizes: ArrayLike, title: str) -> alt.LayerChart:
    """The distribution of samples over clients, with the median marked.

    Bins grow geometrically, on a logarithmic axis, if the 95 % quantile is above 10 times the 5 % quantile or the
    largest above 30 times the median.

    >>> type(size_histogram([3, 5, 5, 8], "Sizes")).__name__
    'LayerChart'
    """
    held = _sizes(sizes)
    edges = _edges(held)
    heights, _ = np.histogram(held, edges)
    rows = [
        {"from": low, "to": high, "clients": int(height), "span": f"{np.ceil(low):,.0f} to {np.ceil(high) - 1:,.0f}"}
        for low, high, height in zip(edges[:-1].tolist(), edges[1:].tolist(), heights, strict=True)
        if height
    ]
    # One or two bars would fill the whole chart.
    room = 2.0 if edges[-1] - edges[0] < 4 and not _is_wide(held) else 0.0
    scale = _size_scale(held, edges[0] - room, edges[-1] + room)
    x = alt.X("from:Q", bin="binned", title="samples per client", scale=scale, axis=_size_axis(held))
    median = float(np.median(held))
    return histogram(rows, title, x, median, f"median {median:,.10g}", "samples")


def skew_scatter(
    sizes: ArrayLike, values: ArrayLike, title: str, axis: str = "distance of the labels to the whole"
) -> alt.LayerChart:
    """Size against a number in [0, 1] per client: distance to the whole, or entropy of the labels.

    Up to 4,000 clients are dots; if there are more, they are counted in cells. Clients without a value (NaN) are left
    out.

    >>> type(skew_scatter([3, 5], [0.1, 0.4], "Size and skew")).__name__
    'LayerChart'
    """
    held = _sizes(sizes)
    heights = checks.number_column("skew", "values", values, len(held), missing=True)
    held, heights = held[~np.isnan(heights)], heights[~np.isnan(heights)]
    if not len(held):
        raise InputError("no client has a value to show; give at least one that is not NaN.")
    dots = len(held) <= POINTS
    up = alt.Y("value:Q", title=axis, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".1f", tickCount=6))
    along = alt.X("samples:Q", title="samples per client", axis=_size_axis(held))
    if dots:
        rows = [{"samples": size, "value": value} for size, value in zip(held.tolist(), heights.tolist(), strict=True)]
        along = along.scale(_size_scale(held, *_padded(held)))
        marks = alt.Chart(alt.InlineData(values=rows)).mark_circle(
            color=HEAT[3], opacity=0.55 if len(rows) <= 500 else 0.3, size=60 if len(rows) <= 200 else 20
        )
        tooltip = [alt.Tooltip("samples:Q", format=",d"), alt.Tooltip("value:Q", title=axis, format=".3f")]
    else:
        edges = _edges(held)
        # Shares of few samples or classes cluster at simple fractions; with 33 steps, they are not at cells' edges.
        steps = np.linspace(0.0, 1.0, 34)
        cells, _, _ = np.histogram2d(held, np.clip(heights, 0.0, 1.0), bins=(edges, steps))
        rows = [
            {
                "samples": float(edges[i]),
                "to": float(edges[i + 1]),
                "value": float(steps[j]),
                "high": float(steps[j + 1]),
                "clients": int(cells[i, j]),
            }
            for i, j in zip(*np.nonzero(cells), strict=True)
        ]
        along = along.scale(_size_scale(held, edges[0], edges[-1]))
        shade = alt.Color("clients:Q", scale=alt.Scale(range=list(HEAT[1:]), type="sqrt"), title="clients")
        marks = alt.Chart(alt.InlineData(values=rows)).mark_rect(stroke="white", strokeWidth=0.5)
        marks = marks.encode(x2="to:Q", y2="high:Q", color=shade)
        tooltip = [
            alt.Tooltip("samples:Q", title="samples from", format=",.0f"),
            alt.Tooltip("value:Q", title="value from", format=".3f"),
            alt.Tooltip("clients:Q", format=",d"),
        ]
    layered: alt.LayerChart = alt.LayerChart(layer=[marks.encode(x=along, y=up, tooltip=tooltip)]).properties(
        title=title, width=460, height=300
    )
    return layered


def _sizes(sizes: ArrayLike) -> AnyArray:
    held = checks.as_array("skew", "sizes", sizes, float)
    if held.ndim != 1 or not len(held):
        raise InputError(f"sizes has shape {held.shape}; give the samples of at least one client.")
    return checks.not_negative("skew", "sizes", checks.number_column("skew", "sizes", held, len(held)))


def _is_wide(held: FloatArray) -> bool:
    low, middle, high = np.quantile(held, (0.05, 0.5, 0.95))
    return bool(held.min() >= 1 and (high > 10 * low or held.max() > 30 * middle))


def _edges(held: FloatArray) -> FloatArray:
    """Edges of bins [low, high) that hold all sizes."""
    low, high = held.min(), held.max()
    if _is_wide(held):
        # Finer steps would hold one or two whole numbers in turn, and the bars would jump.
        octaves = np.log2(high / low)
        fine = [parts for parts in (4, 2) if low * (2 ** (1 / parts) - 1) >= 4 and parts * octaves <= 40]
        parts = max(fine, default=1)
        count = int(np.floor(parts * octaves)) + 1
        return np.unique(np.ceil(low * 2.0 ** (np.arange(count + 1) / parts)))
    bins = np.clip(np.ceil(3 * len(held) ** (1 / 3)), 8, 40)
    step = max(np.ceil((high - low + 1) / bins), 1.0)
    return np.asarray(low - 0.5 + step * np.arange(np.ceil((high - low + 1) / step) + 1))


def _padded(held: FloatArray) -> tuple[float, float]:
    """A range in which dots at the ends are not cut off."""
    low, high = float(held.min()), float(held.max())
    if _is_wide(held):
        return low / (high / low) ** 0.03, high * (high / low) ** 0.03
    room = max(0.04 * (high - low), 0.5)
    return low - room, high + room


def _size_scale(held: FloatArray, low: float, high: float) -> alt.Scale:
    kind: Literal["log", "linear"] = "log" if _is_wide(held) else "linear"
    return alt.Scale(type=kind, zero=False, nice=False, domain=[float(low), float(high)])


def _size_axis(held: FloatArray) -> alt.Axis:
    if not _is_wide(held):
        # In a narrow range, automatic ticks fall between whole numbers.
        few = [*range(int(held.min()), int(held.max()) + 1)] if held.max() - held.min() < 8 else alt.Undefined
        return alt.Axis(grid=False, format=",d", tickCount=6, values=few)
    decades = range(int(np.log10(held.max())) + 2)
    steps = (1, 2, 5) if held.max() / held.min() < 1000 else (1,)
    return alt.Axis(grid=False, format=",d", values=[step * 10**power for power in decades for step in steps])
