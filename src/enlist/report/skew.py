"""Charts of how classes are spread over clients.

All take an array, `counts` (clients, classes). They stay readable and small with any number of clients; more than 100
classes are shown in 100 groups of neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.text import printable
from enlist._internal.typing import AnyArray, IntArray
from enlist.errors import InputError
from enlist.report.kit import cell_layers

FEW = 24
"""Up to this many clients get a bar or a pie each."""
WRITTEN = 60
"""Up to this many clients get a row of the heat map each, with the counts in the cells."""
COLUMNS = 200
"""Beyond that, the sorted clients share this many columns."""
MOST_CLASSES = 100

TEN = ("#0b6e99", "#e9a23b", "#6a4c93", "#2a9d5c", "#d1495b", "#7cc6e3", "#8c6239", "#f0a6bc", "#a9c94a", "#4a5568")
LONGEST_USER = 24
HEAT = ("#f6f9fb", "#b9dcea", "#5aa9c8", "#0b6e99", "#06405c")


def class_bars(
    counts: ArrayLike, title: str, class_names: Sequence[str] = (), users: AnyArray | None = None
) -> alt.LayerChart:
    """A bar per client, stacked by class, for at most 24 clients; `users` are ids to show next to positions.

    >>> type(class_bars([[3, 1], [0, 5]], "Two clients")).__name__
    'LayerChart'
    """
    table, names = _few(counts, class_names)
    who = _clients(len(table), users)
    totals = [{"client": client, "samples": int(total)} for client, total in zip(who, table.sum(axis=1), strict=True)]
    axis = alt.Axis(labelAngle=0 if users is None else -45, ticks=False, labelLimit=120)
    along = alt.X("client:O", title="client", sort=who, axis=axis)
    up = alt.Y("samples:Q", title="samples", axis=alt.Axis(tickCount=6, format=",d"))
    bars = (
        alt.Chart(alt.InlineData(values=_cells(table, names, who)))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(x=along, y=up, color=_class_colour(names), order=alt.Order("position:Q"), tooltip=_tooltips())
    )
    sums = (
        alt.Chart(alt.InlineData(values=totals))
        .mark_text(dy=-8, fontSize=11, color="#444")
        .encode(x=along, y=up, text=alt.Text("samples:Q", format=",d"))
    )
    layered: alt.LayerChart = (bars + sums).properties(title=title, width=max(42 * len(table), 240), height=300)
    return layered


def class_pies(
    counts: ArrayLike, title: str, class_names: Sequence[str] = (), users: AnyArray | None = None
) -> alt.FacetChart:
    """A pie per client, divided by class, for at most 24 clients; the heading has its number of samples.

    >>> type(class_pies([[3, 1], [0, 5]], "Two clients")).__name__
    'FacetChart'
    """
    table, names = _few(counts, class_names)
    sizes = table.sum(axis=1)
    who = _clients(len(table), users)
    headings = [
        f"{'client ' if users is None else ''}{client}: {size:,}" for client, size in zip(who, sizes, strict=True)
    ]
    heading_of = dict(zip(who, headings, strict=True))
    rows = [{**cell, "heading": heading_of[cell["client"]]} for cell in _cells(table, names, who)]
    pies = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_arc(radius=48, stroke="white", strokeWidth=0.6)
        .encode(
            theta=alt.Theta("samples:Q", stack="normalize"),
            color=_class_colour(names),
            order=alt.Order("position:Q"),
            tooltip=_tooltips(),
        )
        .properties(width=112, height=104)
    )
    heading = alt.Header(title=None, labelFontSize=12, labelColor="#222", labelPadding=2)
    faceted: alt.FacetChart = pies.facet(
        facet=alt.Facet("heading:N", sort=headings, header=heading), columns=min(6, len(table)), spacing=10
    ).properties(title=title)
    return faceted


def class_heatmap(
    counts: ArrayLike, title: str, class_names: Sequence[str] = (), users: AnyArray | None = None
) -> alt.LayerChart:
    """Which classes each client holds: colour is the share of the client's own samples.

    Up to 60 clients have a row each, with the counts in the cells. If there are more, they are sorted by their most
    frequent class and its share, and placed in at most 200 columns, each the mean of its clients: the darker the steps,
    the stronger the skew.

    >>> type(class_heatmap([[3, 1], [0, 5]], "Two clients")).__name__
    'LayerChart'
    """
    table, names = _folded(counts, class_names)
    if len(table) > WRITTEN:
        return _sorted_columns(table, names, title)
    return _written(table, names, _clients(len(table), users), title)


def _written(table: IntArray, names: Sequence[str], who: Sequence[Any], title: str) -> alt.LayerChart:
    rows = [{**cell, "text": _shown(cell["samples"])} for cell in _cells(table, names, who, empty=True)]
    narrow = len(names) > 30
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("class:N", sort=list(names), title="class", axis=_class_axis("top", names)),
        y=alt.Y("client:O", title="client", sort=list(who), axis=alt.Axis(ticks=False, domain=False, labelLimit=160)),
        tooltip=_tooltips(),
    )
    layers = cell_layers(base, _share_colour(), "text:N", "datum.share <= 0.4", 8 if narrow else 11)
    layered: alt.LayerChart = alt.LayerChart(layer=layers).properties(
        title=title, width=alt.Step(22 if narrow else 40), height=alt.Step(19)
    )
    return layered


def _shown(samples: int) -> str:
    return "" if not samples else f"{samples:d}" if samples < 10_000 else f"{samples / 1000:.0f}k"


def _sorted_columns(table: IntArray, names: Sequence[str], title: str) -> alt.LayerChart:
    part = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    top = part.argmax(axis=1)
    order = np.lexsort((-part.max(axis=1), top))
    bounds = np.linspace(0, len(table), min(COLUMNS, len(table)) + 1).astype(np.int64)
    means = np.add.reduceat(part[order], bounds[:-1], axis=0) / np.diff(bounds)[:, None]
    per = len(table) / len(means)
    rows = [
        {
            "from": int(bounds[column]),
            "to": int(bounds[column + 1]),
            # Extending under the next column, which is drawn later, leaves no seam between the two.
            "edge": float(min(bounds[column + 1] + per / 2, len(table))),
            "class": name,
            "share": round(float(means[column, position]), 4),
        }
        for column in range(len(means))
        for position, name in enumerate(names)
    ]
    many = f"{len(table):,} clients, sorted by their most frequent class"
    cells = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect(strokeWidth=0)
        .encode(
            x=alt.X(
                "from:Q",
                title=many if per == 1 else f"{many}; about {per:.3g} to a column",
                scale=alt.Scale(domain=[0, len(table)], nice=False),
                axis=alt.Axis(grid=False, format=",d", tickCount=8),
            ),
            x2="edge:Q",
            y=alt.Y("class:N", sort=list(names), title="class", axis=_class_axis("left", names)),
            color=_share_colour(),
            tooltip=[alt.Tooltip("from:Q", title="clients from"), alt.Tooltip("to:Q"), "class:N", _share_tooltip()],
        )
    )
    layered: alt.LayerChart = alt.LayerChart(layer=[cells]).properties(
        title=title, width=800, height=alt.Step(26 if len(names) <= 20 else 7)
    )
    return layered


def _folded(counts: ArrayLike, class_names: Sequence[str]) -> tuple[IntArray, list[str]]:
    """The counts with the names of the classes; beyond 100 classes, neighbours are grouped."""
    given = checks.as_array("skew", "counts", counts, None)
    if given.ndim != 2 or 0 in given.shape or given.dtype.kind not in "iuf" or not (given >= 0).all():
        raise InputError(
            f"counts is {given.dtype} of shape {given.shape}; give samples, not negative, as (clients, classes)."
        )
    table: IntArray = given.astype(np.int64)
    names = [str(name) for name in class_names] or [str(number) for number in range(table.shape[1])]
    if len(names) != table.shape[1]:
        raise InputError(f"there are {len(names)} class names for {table.shape[1]} classes; give one each, or none.")
    if len(names) <= MOST_CLASSES:
        return table, names
    starts = np.linspace(0, len(names), MOST_CLASSES + 1).astype(np.int64)
    ends = starts[1:] - 1
    joined = [
        names[low] if low == high else f"{names[low]} – {names[high]}"
        for low, high in zip(starts[:-1], ends, strict=True)
    ]
    return np.add.reduceat(table, starts[:-1], axis=1), joined


def _few(counts: ArrayLike, class_names: Sequence[str]) -> tuple[IntArray, list[str]]:
    table, names = _folded(counts, class_names)
    if len(table) > FEW:
        raise InputError(f"there are {len(table)} clients; this chart shows at most {FEW}: use class_heatmap.")
    return table, names


def _clients(count: int, users: AnyArray | None) -> list[Any]:
    """Labels of clients: their positions, with their user ids if they have any."""
    if users is None:
        return list(range(count))
    return [f"{client} {printable(user, LONGEST_USER)}" for client, user in enumerate(users.tolist())]


def _cells(table: IntArray, names: Sequence[str], who: Sequence[Any], empty: bool = False) -> list[dict[str, Any]]:
    """A row for each client and class, including empty ones if `empty`."""
    part = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    return [
        {
            "client": who[client],
            "position": position,
            "class": name,
            "samples": int(table[client, position]),
            "share": round(float(part[client, position]), 4),
        }
        for client in range(len(table))
        for position, name in enumerate(names)
        if empty or table[client, position] > 0
    ]


def _class_axis(side: Literal["top", "left"], names: Sequence[str]) -> alt.Axis:
    slanted = side == "top" and max(len(name) for name in names) > 5
    overlap: Literal["greedy"] | bool = False if slanted else "greedy"
    angle = -45 if slanted else 0
    return alt.Axis(orient=side, ticks=False, domain=False, labelOverlap=overlap, labelAngle=angle, labelLimit=120)


def _class_colour(names: Sequence[str]) -> alt.Color:
    count = len(names)
    if count <= len(TEN):
        scale = alt.Scale(domain=list(names), range=list(TEN[:count]))
    else:
        scale = alt.Scale(domain=list(names), scheme="tableau20" if count <= 20 else "turbo")
    legend = alt.Legend(
        title="class",
        columns=-(-count // 20),
        direction="horizontal" if count > 20 else "vertical",
        symbolLimit=0,
        symbolType="square",
        labelLimit=120,
    )
    return alt.Color("class:N", scale=scale, sort=list(names), legend=legend)


def _share_colour() -> alt.Color:
    legend = alt.Legend(
        title=["share of", "the client's", "samples"], format=".0%", gradientLength=140, values=[0, 0.1, 0.3, 0.6, 1]
    )
    return alt.Color(
        "share:Q", scale=alt.Scale(type="pow", exponent=0.7, domain=[0, 1], range=list(HEAT)), legend=legend
    )


def _share_tooltip() -> alt.Tooltip:
    return alt.Tooltip("share:Q", format=".1%")


def _tooltips() -> list[Any]:
    return ["client:O", "class:N", alt.Tooltip("samples:Q", format=",d"), _share_tooltip()]
