"""Charts of the arena: regret over rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from enlist.arena.compare import Results
from enlist.report.charts import Row, colours
from enlist.report.kit import band_chart, summarised


def regret_rows(results: Results, curve: str = "pseudo") -> list[dict[str, Any]]:
    """Mean and 95 % interval of a cumulated curve over seeds, one row per selector and checkpoint.

    >>> from enlist.arena import Tournament, compare
    >>> settings = Tournament(("random",), "alike", clients=10, k=2, rounds=4, seeds=2)
    >>> [row["round"] for row in regret_rows(compare(settings))]
    [1, 2, 3, 4]
    """
    rows = []
    for name in dict.fromkeys(selector for selector, _ in results):
        records = [record for (selector, _), record in results.items() if selector == name]
        for index, number in enumerate(records[0].rounds):
            values = [record.curves[curve][index] for record in records]
            rows.append({"selector": name, "round": number, **summarised(values, (0.0, math.inf))})
    return rows


def regret_chart(
    rows: Sequence[Row], title: str, axis: str = "cumulated pseudo regret", logarithmic: bool = False
) -> alt.LayerChart:
    """Regret over rounds, a line per selector with its 95 % band; the legend highlights lines.

    Logarithmic axes make it easy to distinguish linear regret from regret that flattens.

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
    return band_chart(
        rows,
        title,
        alt.X("round:Q", title="round", scale=along, axis=alt.Axis(grid=False, tickCount=6)),
        alt.Y("mean:Q", title=axis, scale=scale, axis=alt.Axis(values=ticks)),
        alt.Color("selector:N", scale=colours(names), sort=names, title=None),
        ["selector:N", alt.Tooltip("round:Q", format=",")]
        + [alt.Tooltip(f"{name}:Q", format=",.2f") for name in ("mean", "low", "high")],
        width=390,
        height=280,
    )
