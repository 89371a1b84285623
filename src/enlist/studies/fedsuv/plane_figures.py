"""Figures of the plane of validity and utility: the front, rectangles, and heat maps (Figs. 3, 4, 6)."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from enlist.bandits.pareto import front
from enlist.report.charts import PALETTE
from enlist.studies.fedsuv.measures import CLEAN
from enlist.studies.fedsuv.methods import PRINTED
from enlist.studies.fedsuv.process_figures import SHOWN, Rows, called
from enlist.studies.fedsuv.settings import NOISES
from enlist.studies.results import Group, Results
from enlist.studies.study import Figure

CELLS = 20
"""Cells of a heat map in each direction."""
STATES = {"chosen in this round": PALETTE[1], "candidate": PALETTE[0], "removed": "#c9ced6"}


def pareto(results: Results) -> Figure:
    """Fig. 3: clients in the plane of validity and utility, and the Pareto front.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> pareto(example_results()).name
    '03-pareto-front'
    """
    outcome = _first(results[f"{CLEAN}{PRINTED}"])
    validity, utility, selected = outcome["validity"], outcome["utility"], outcome["selected"]
    best = front(validity, utility)
    rows = [
        {
            "validity": float(v),
            "utility": float(u),
            "selected": int(count),
            "series": "selected" if count else "never selected",
        }
        for v, u, count in zip(validity, utility, selected, strict=True)
    ]
    order = best[np.argsort(validity[best])]
    # The front as a staircase: what is below and left of it is dominated.
    steps = [{"validity": 0.0, "utility": float(utility[order[0]]), "place": 0}]
    for place, client in enumerate(order):
        steps.append({"validity": float(validity[client]), "utility": float(utility[client]), "place": 2 * place + 1})
        below = float(utility[order[place + 1]]) if place + 1 < len(order) else 0.0
        steps.append({"validity": float(validity[client]), "utility": below, "place": 2 * place + 2})
    x, y = _axis("validity"), _axis("utility", vertical=True)
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=["selected", "never selected"], range=[PALETTE[1], "#c9ced6"]),
        legend=alt.Legend(title=None, orient="top"),
    )
    dots = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_circle(opacity=0.9)
        .encode(
            x=x,
            y=y,
            color=colour,
            size=alt.Size("selected:Q", scale=alt.Scale(range=[8, 120]), legend=None),
            tooltip=["validity:Q", "utility:Q", "selected:Q"],
        )
    )
    line = (
        alt.Chart(alt.InlineData(values=steps))
        .mark_line(color="#222", strokeWidth=1.6)
        .encode(x=x, y=y, order="place:Q")
    )
    points = (
        alt.Chart(alt.InlineData(values=steps[1::2])).mark_point(color="#222", size=50, filled=True).encode(x=x, y=y)
    )
    chart = (dots + line + points).properties(width=400, height=400, title="The Pareto front, and whom FedSUV selects")
    return Figure(
        "03-pareto-front",
        "The Pareto front of one population (Fig. 3)",
        chart,
        f"{len(validity):,} clients, of which {len(best)} are Pareto-optimal (black). Orange: selected by FedSUV as "
        "printed, larger if more often. It goes by optimistic utility alone, so it selects along the upper edge.",
    )


def rectangles(results: Results) -> Figure:
    """Fig. 4: what FedSUV believes of some clients as rounds go by.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> rectangles(example_results()).name
    '04-rectangles'
    """
    group = results[f"{CLEAN}{PRINTED}"]
    outcome, marks = _first(group), group.settings["marks"]
    rows: Rows = []
    for place, mark in enumerate(marks):
        for client, corners in enumerate(outcome["rectangles"][place]):
            chosen, alive = bool(outcome["chosen"][place][client]), bool(outcome["alive"][place][client])
            state = "chosen in this round" if chosen else "candidate" if alive else "removed"
            names = ("v_low", "v_high", "u_low", "u_high")
            truth = {"validity": float(outcome["validity"][client]), "utility": float(outcome["utility"][client])}
            rows.append(
                dict(zip(names, map(float, corners), strict=True)) | truth | {"series": state, "panel": f"round {mark}"}
            )
    states = [state for state in STATES if any(row["series"] == state for row in rows)]
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=states, range=[STATES[state] for state in states]),
        legend=alt.Legend(title=None, orient="top"),
    )
    base = alt.Chart().encode(color=colour)
    boxes = base.mark_rect(filled=False, strokeWidth=1.1, opacity=1, strokeOpacity=0.75).encode(
        x=_axis("v_low", "validity"), x2="v_high:Q", y=_axis("u_low", "utility", vertical=True), y2="u_high:Q"
    )
    dots = base.mark_circle(size=22, opacity=1).encode(x="validity:Q", y="utility:Q")
    header = alt.Header(title=None, labelFontSize=12)
    column = alt.Column("panel:N", sort=[f"round {mark}" for mark in marks], header=header)
    chart = (
        alt.layer(boxes, dots)
        .properties(width=235, height=235)
        .facet(data=alt.InlineData(values=rows), column=column, spacing=14)
    )
    return Figure(
        "04-rectangles",
        "Rectangles of some clients as rounds go by (Fig. 4)",
        chart.properties(title="What FedSUV believes: rectangles shrink, and who is certainly worse is removed"),
        f"{len(outcome['alive'][0])} of the clients. A dot is the truth, its rectangle what the printed rule believes.",
        highlight=True,
    )


def heat_maps(results: Results) -> Figure:
    """Fig. 6: rounds as a candidate and times selected, by true validity and utility, for each noise.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> heat_maps(example_results()).highlight
    True
    """
    pair: list[Any] = []
    for name, words in (("candidate", "rounds as a candidate"), ("selected", "times selected")):
        rows: Rows = []
        for noise in NOISES:
            rows += _cells(results[f"process/{noise:g}/{PRINTED}"], name, f"noise {noise:g}")
        pair.append(_heat(rows, words, [f"noise {noise:g}" for noise in NOISES]))
    return Figure(
        "06-heat-maps",
        "Who is a candidate, and who is selected (Fig. 6)",
        alt.vconcat(*pair, spacing=22).resolve_scale(color="independent"),
        "FedSUV as printed; mean over clients of a cell and over seeds. Noise is what is added to the features. The "
        "paper shows both for one population and one setting, with the bright corner at the upper right. The colour "
        "scale ends at the 98th percentile.",
        highlight=True,
    )


def heat_maps_by_selector(results: Results) -> Figure:
    """Times selected, by true validity and utility, for several selectors.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> heat_maps_by_selector(example_results()).name
    '06-heat-maps-by-selector'
    """
    rows: Rows = []
    for name in SHOWN:
        rows += _cells(results[f"{CLEAN}{name}"], "selected", called(name))
    return Figure(
        "06-heat-maps-by-selector",
        "Whom several selectors select",
        _heat(rows, "times selected", [called(name) for name in SHOWN], columns=3),
        "Features without noise. 'Validity × utility' has the same two models as FedSUV, but one score for both. The "
        "colour scale ends at the 98th percentile.",
    )


def _first(group: Group) -> Any:
    return next(iter(group.outcomes.values()))


def _cells(group: Group, name: str, panel: str) -> Rows:
    """Mean of a number over the clients of each cell, over all seeds."""
    validity, utility, values = (np.concatenate(group.each(each)) for each in ("validity", "utility", name))
    place = [np.minimum((axis * CELLS).astype(np.int64), CELLS - 1) for axis in (validity, utility)]
    cell = place[0] * CELLS + place[1]
    count = np.bincount(cell, minlength=CELLS**2)
    total = np.bincount(cell, weights=values, minlength=CELLS**2)
    return [
        {
            "v": float(at // CELLS) / CELLS,
            "v2": float(at // CELLS + 1) / CELLS,
            "u": float(at % CELLS) / CELLS,
            "u2": float(at % CELLS + 1) / CELLS,
            "value": float(total[at] / count[at]),
            "panel": panel,
        }
        for at in np.flatnonzero(count)
    ]


def _heat(rows: Rows, words: str, panels: list[str], columns: int = 3) -> alt.TopLevelMixin:
    top = float(np.quantile([row["value"] for row in rows], 0.98))
    scale = alt.Scale(scheme="viridis", domain=[0.0, max(top, 1e-9)], clamp=True)
    chart = (
        alt.Chart()
        .mark_rect()
        .encode(
            x=_axis("v", "validity"),
            x2="v2:Q",
            y=_axis("u", "utility", vertical=True),
            y2="u2:Q",
            color=alt.Color("value:Q", scale=scale, legend=alt.Legend(title=words, orient="right", gradientLength=180)),
            tooltip=["v:Q", "u:Q", alt.Tooltip("value:Q", format=".2f")],
        )
        .properties(width=210, height=210)
    )
    header = alt.Header(title=None, labelFontSize=12)
    facet = alt.Facet("panel:N", sort=panels, header=header)
    drawn: alt.TopLevelMixin = chart.facet(data=alt.InlineData(values=rows), facet=facet, columns=columns, spacing=14)
    return drawn.properties(title=words.capitalize())


def _axis(field: str, name: str | None = None, vertical: bool = False) -> Any:
    kind: Any = alt.Y if vertical else alt.X
    axis = alt.Axis(grid=False, values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~g")
    return kind(f"{field}:Q", title=name or field, scale=alt.Scale(domain=[0, 1]), axis=axis)


FIGURES = (pareto, rectangles, heat_maps, heat_maps_by_selector)
"""In the order of the page."""
