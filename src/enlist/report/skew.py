"""Charts of how data is spread over clients: classes per client, sizes, and how far each client is from the whole.

All take arrays: `counts` (clients, classes), `sizes` (clients,). They stay readable, and small, with any number of
clients; more than 100 classes are shown in 100 groups of neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.text import printable
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.errors import InputError

FEW = 24
"""Up to so many clients get a bar or a pie each."""
WRITTEN = 60
"""Up to so many clients get a row of the heat map each, with the counts written in the cells."""
COLUMNS = 200
"""Beyond that, the clients, sorted, share so many columns."""
POINTS = 4000
"""Up to so many clients get a dot each in the scatter plot."""
MOST_CLASSES = 100

TEN = ("#0b6e99", "#e9a23b", "#6a4c93", "#2a9d5c", "#d1495b", "#7cc6e3", "#8c6239", "#f0a6bc", "#a9c94a", "#4a5568")
LONGEST_USER = 24
HEAT = ("#f6f9fb", "#b9dcea", "#5aa9c8", "#0b6e99", "#06405c")


def class_bars(
    counts: ArrayLike, title: str, class_names: Sequence[str] = (), users: AnyArray | None = None
) -> alt.LayerChart:
    """A bar per client, stacked by class, for at most 24 clients; `users` are ids to show beside positions.

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
    """A pie per client, divided by class, for at most 24 clients; the heading tells how many samples it stands for.

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

    Up to 60 clients have a row each, with the counts in the cells. More are sorted by their most frequent class and by
    its share, and stand side by side in at most 200 columns, each the mean of its clients: the darker the
    steps, the stronger the skew.

    >>> type(class_heatmap([[3, 1], [0, 5]], "Two clients")).__name__
    'LayerChart'
    """
    table, names = _folded(counts, class_names)
    if len(table) > WRITTEN:
        return _sorted_columns(table, names, title)
    return _written(table, names, _clients(len(table), users), title)


def size_histogram(sizes: ArrayLike, title: str) -> alt.LayerChart:
    """How many clients hold how many samples, with the median marked.

    Bins grow geometrically, on a logarithmic axis, if the 95 % quantile is above 10 times the 5 % quantile or the
    largest above 30 times the median.

    >>> type(size_histogram([3, 5, 5, 8], "Sizes")).__name__
    'LayerChart'
    """
    held = _sizes(sizes)
    edges = _edges(held)
    heights, _ = np.histogram(held, edges)
    rows = [
        {"from": low, "to": high, "clients": int(height), "range": f"{np.ceil(low):,.0f} to {np.ceil(high) - 1:,.0f}"}
        for low, high, height in zip(edges[:-1].tolist(), edges[1:].tolist(), heights, strict=True)
        if height
    ]
    # A bar or two would fill the whole chart.
    room = 2.0 if edges[-1] - edges[0] < 4 and not _is_wide(held) else 0.0
    scale = _size_scale(held, edges[0] - room, edges[-1] + room)
    bars = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(color=HEAT[3], stroke="white", strokeWidth=0.6)
        .encode(
            x=alt.X("from:Q", bin="binned", title="samples per client", scale=scale, axis=_size_axis(held)),
            x2="to:Q",
            y=alt.Y("clients:Q", title="clients", axis=alt.Axis(tickMinStep=1, format=",d", tickCount=6)),
            tooltip=[alt.Tooltip("range:N", title="samples"), alt.Tooltip("clients:Q", format=",d")],
        )
    )
    median = float(np.median(held))
    middle = alt.Chart(alt.InlineData(values=[{"median": median, "text": f"median {median:,.10g}"}])).encode(
        x=alt.X("median:Q", scale=scale)
    )
    rule = middle.mark_rule(color="#e07a1f", strokeWidth=2)
    word = middle.mark_text(dy=-5, baseline="bottom", color="#b85c0a", fontSize=12).encode(
        y=alt.value(0), text="text:N"
    )
    layered: alt.LayerChart = (bars + rule + word).properties(title=title, width=460, height=280)
    return layered


def skew_scatter(
    sizes: ArrayLike, values: ArrayLike, title: str, axis: str = "distance of the labels to the whole"
) -> alt.LayerChart:
    """Size against a number in [0, 1] per client: distance to the whole, or entropy of the labels.

    Up to 4,000 clients are dots; more are counted in cells. Clients without a value (NaN) are left out.

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
        # Shares of few samples or classes gather at simple fractions, which 33 steps keep away from the cells' edges.
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


def _written(table: IntArray, names: Sequence[str], who: Sequence[Any], title: str) -> alt.LayerChart:
    rows = [
        {**cell, "text": f"{cell['samples']:d}" if cell["samples"] < 10_000 else f"{cell['samples'] / 1000:.0f}k"}
        for cell in _cells(table, names, who, empty=True)
    ]
    narrow = len(names) > 30
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("class:N", sort=list(names), title="class", axis=_class_axis("top", names)),
        y=alt.Y("client:O", title="client", sort=list(who), axis=alt.Axis(ticks=False, domain=False, labelLimit=160)),
    )
    cells = base.mark_rect(stroke="white", strokeWidth=1).encode(color=_share_colour(), tooltip=_tooltips())
    numbers = (
        base.transform_filter("datum.samples > 0")
        .mark_text(fontSize=8 if narrow else 11)
        .encode(text="text:N", color=alt.condition("datum.share > 0.4", alt.value("white"), alt.value("#222")))
    )
    layered: alt.LayerChart = (cells + numbers).properties(
        title=title, width=alt.Step(22 if narrow else 40), height=alt.Step(19)
    )
    return layered


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
            # Reaching below the next column, which is drawn later, leaves no seam between the two.
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
    """The counts with the names of the classes; beyond 100 classes, neighbours are put together."""
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
    """What clients are called: their positions, with their user ids if they have any."""
    if users is None:
        return list(range(count))
    return [f"{client} {printable(user, LONGEST_USER)}" for client, user in enumerate(users.tolist())]


def _cells(table: IntArray, names: Sequence[str], who: Sequence[Any], empty: bool = False) -> list[dict[str, Any]]:
    """A row for each client and class, with those of which there is nothing if `empty`."""
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
        # Finer steps would hold now one whole number, now two, and the bars would jump.
        octaves = np.log2(high / low)
        fine = [parts for parts in (4, 2) if low * (2 ** (1 / parts) - 1) >= 4 and parts * octaves <= 40]
        parts = max(fine, default=1)
        count = int(np.floor(parts * octaves)) + 1
        return np.unique(np.ceil(low * 2.0 ** (np.arange(count + 1) / parts)))
    bins = np.clip(np.ceil(3 * len(held) ** (1 / 3)), 8, 40)
    step = max(np.ceil((high - low + 1) / bins), 1.0)
    return np.asarray(low - 0.5 + step * np.arange(np.ceil((high - low + 1) / step) + 1))


def _padded(held: FloatArray) -> tuple[float, float]:
    """A span in which dots at the ends are whole."""
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
        # The ticks chosen for a narrow span fall between whole numbers.
        few = [*range(int(held.min()), int(held.max()) + 1)] if held.max() - held.min() < 8 else alt.Undefined
        return alt.Axis(grid=False, format=",d", tickCount=6, values=few)
    decades = range(int(np.log10(held.max())) + 2)
    steps = (1, 2, 5) if held.max() / held.min() < 1000 else (1,)
    return alt.Axis(grid=False, format=",d", values=[step * 10**power for power in decades for step in steps])


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
