"""Figures: those of the paper (Figs. 3 to 10), then an appendix; and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist._internal.statistics import Summary
from enlist._internal.typing import FloatArray
from enlist.bandits.pareto import front
from enlist.errors import unknown
from enlist.studies.charts import ChartStyle, intervals
from enlist.studies.fedsuv.claims import regimes, trained
from enlist.studies.fedsuv.process import DIAGONAL, MARKS
from enlist.studies.fedsuv.rules import ABLE, VALUED
from enlist.studies.fedsuv.settings import (
    ABLATIONS,
    AVERAGING,
    COLOURS,
    COLUMNS,
    DEFAULT,
    FEDSUV,
    FIVE,
    LABELS,
    LATE_0,
    METHODS,
    NOISES,
    PRINTED,
    RANDOM,
    TASKS,
    YOGI,
)
from enlist.studies.measures import FINAL_ACCURACY, ROUNDS_TO_TARGET, Measure
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Replicates, Results
from enlist.studies.rules import Contrast
from enlist.studies.study import Figure, Table, possible

Rows = list[dict[str, Any]]
CELLS, SMOOTH, POINTS = 20, 10, 60
"""Cells of a heat map in each direction, rounds that shares are averaged over, points of a curve."""
STATES = {"chosen in this round": "#e07a1f", "candidate": "#0b6e99", "removed": "#c9ced6"}
BOUND, GREY = "#222222", "#8d99ae"
CLEAN = f"process/{NOISES[0]:g}/"
OVER_SEEDS = "Mean over seeds with its 95 % interval."


def figures(results: Results) -> Sequence[Figure]:
    """Every figure whose experiments have been run.

    >>> figures(Results({}))
    []
    """
    makers = [
        _pareto,
        _rectangles,
        lambda found: _convergence(found, "round"),
        _heat_maps,
        lambda found: _convergence(found, "hours"),
        _in_time,
        _regimes,
        _ablations,
        _coverage,
        _bounds,
    ]
    return possible(makers, results)


def _places(results: Results) -> list[tuple[str, str]]:
    """Task and aggregation of all trainings."""
    found = [(task, each) for task in TASKS for each in (AVERAGING, YOGI) if f"train/{task}/{each}/{FEDSUV}" in results]
    if not found:
        raise unknown("finished experiment", f"train/.../{FEDSUV}", results.groups)
    return found


def _curve(results: Results, key: str, axis: str) -> Rows:
    """Accuracy of a method over rounds, or over hours at which all seeds were evaluated."""
    group = results[key]
    accuracy, end = group.column("accuracy"), group.column("end") / 3600.0
    known = np.flatnonzero(np.isfinite(accuracy).all(axis=0))
    known = np.unique(np.append(known[:: max(len(known) // POINTS, 1)], known[-1]))
    label = LABELS[key.rpartition("/")[2]]
    if axis == "round":
        return along((known + 1).astype(np.float64), accuracy[:, known], label, share=True)
    hours = np.linspace(end[:, known[0]].max(), end[:, known[-1]].min(), POINTS)
    values = [np.interp(hours, own[known], curve[known]) for own, curve in zip(end, accuracy, strict=True)]
    return along(hours, np.array(values), label, share=True)


def _panels(results: Results, methods: Sequence[str], axis: str, words: str) -> list[Panel]:
    panels = []
    for task, aggregation in _places(results):
        rows: Rows = []
        for method in methods:
            if (key := trained(task, aggregation, method).key) in results:
                rows += _curve(results, key, axis)
        panels.append(Panel(f"{TASKS[task].title}, {aggregation}", rows, words, "test accuracy"))
    return panels


def _convergence(results: Results, axis: str) -> Figure:
    """What Figs. 5 and 7 to 10 show of the paper's five tasks, of those that were run; over virtual time, too."""
    words, name = ("round", "rounds") if axis == "round" else ("virtual hours", "virtual time")
    own = {task for task, _ in _places(results)}
    title = f"Test accuracy over {name} ({'' if own >= set(PRINTED) else 'after '}Figs. 5 and 7 to 10)"
    others = "" if own >= set(PRINTED) else ' The figures show five tasks, which the scale "paper" runs.'
    chart = side_by_side(_panels(results, FIVE, axis, words), title, COLOURS, 2, 400, 230)
    return Figure(f"05-convergence-{axis}", title, chart, f"{OVER_SEEDS}{others}", highlight=axis == "round")


def _in_time(results: Results) -> Figure:
    panels = []
    for task, aggregation in _places(results):
        rows: Rows = []
        for method in FIVE:
            values = results[trained(task, aggregation, method).key].column("able")
            rows += _smoothed(values, LABELS[method])
        panels.append(Panel(f"{TASKS[task].title}, {aggregation}", rows, "round", "share"))
    title = "Share of those asked who would meet the deadline in a typical round"
    caption = f"Mean over {SMOOTH} rounds. {OVER_SEEDS}"
    return Figure("in-time", title, side_by_side(panels, title, COLOURS, 2, 400), caption, highlight=True)


def _smoothed(values: FloatArray, label: str) -> Rows:
    window = min(SMOOTH, values.shape[1])
    smooth = np.array([np.convolve(row, np.ones(window) / window, mode="valid") for row in values])
    return along(np.arange(window, values.shape[1] + 1.0), smooth, label, share=True)


def _summary(name: str, found: Summary, series: str = "") -> dict[str, Any]:
    return {"name": name, "series": series, "mean": found.mean, "low": found.low, "high": found.high}


def _over_seeds(group: Replicates, measure: Measure) -> Summary:
    return Summary.of([measure.of(each, each).number for each in group.outputs.values()])


def _regimes(results: Results) -> Figure:
    """Is there a setting in which the printed algorithm wins?"""
    rows = []
    for method in (FEDSUV, LATE_0):
        for name, rule in regimes(method).items():
            rows.append(_summary(name, rule.compare(results, rule.of, rule.against[0]).summary, LABELS[method]))
    look = ChartStyle(x="times fewer rounds than random selection", width=420, colours=COLOURS)
    caption = (
        f"{ROUNDS_TO_TARGET.name.capitalize()}; geometric mean over seeds with its 95 % interval. In each setting one "
        "thing is changed in the task of small steps. A run that never gets there counts with its whole length."
    )
    return Figure("regimes", "Speed-ups in other settings", intervals(rows, "Speed-ups", look, rule=1.0), caption, True)


def _ablations(results: Results) -> Figure:
    task, aggregation = _places(results)[0]
    parts = ((FINAL_ACCURACY, f"train/{task}/{aggregation}/"), (VALUED, CLEAN))
    charts: list[Any] = []
    for measure, start in parts:
        names = (FEDSUV, LATE_0, DEFAULT, *ABLATIONS)
        rows = [_summary(LABELS[name], _over_seeds(results[f"{start}{name}"], measure)) for name in names]
        rule = _over_seeds(results[f"{start}{RANDOM}"], measure).mean
        words = "test accuracy at the end" if measure is FINAL_ACCURACY else "valid utility, of the best possible"
        charts.append(intervals(rows, words, ChartStyle(x=words, width=300), rule=rule))
    chart = alt.concat(*charts, columns=2, spacing=26)
    caption = f"{TASKS[task].title}, and the selection process; dashed: random selection. {OVER_SEEDS}"
    return Figure("ablations", "FedSUV with one part changed at a time", chart, caption, highlight=True)


def _coverage(results: Results) -> Figure:
    panels = []
    for noise in NOISES:
        covered, rows = results[f"process/{noise:g}/{FEDSUV}"].column("covered"), []
        for place, name in enumerate(("validity", "utility", "both")):
            rows += along(np.arange(1.0, covered.shape[1] + 1), covered[:, :, place], name, share=True)
        panels.append(Panel(f"noise {noise:g} on features", rows, "round", "share of clients"))
    title = "Clients whose truth lies in their intervals (Theorem 5.3)"
    colours = {"validity": "#0b6e99", "utility": "#e07a1f", "both": BOUND}
    chart = side_by_side(panels, title, colours, 3, 250, 210)
    return Figure("coverage", title, chart, f"{LABELS[FEDSUV]}. {OVER_SEEDS}")


def _bounds(results: Results) -> Figure:
    """Theorems 5.4 and 5.5."""
    group = results[f"long/{FEDSUV}"]
    width, lost = group.column("width"), group.column("front").cumsum(axis=1)
    rounds = np.arange(1.0, width.shape[1] + 1)
    some = np.unique(np.geomspace(1, len(rounds), POINTS).astype(np.int64)) - 1
    drawn = {
        "widest rectangle": (width, group.column("width_bound"), np.full_like(width, DIAGONAL)),
        "cumulated regret": (lost, group.column("regret_bound"), np.broadcast_to(rounds, lost.shape)),
    }
    panels = []
    for title, curves in drawn.items():
        rows: Rows = []
        for name, values in zip((LABELS[FEDSUV], "bound", "the most possible"), curves, strict=True):
            # Seeds differ by orders of magnitude in the smallest gap, so the median stands for all of them.
            rows += along(rounds[some], np.median(values, axis=0, keepdims=True)[:, some], name)
        panels.append(Panel(title, rows, "round", title, log_x=True, log_y=True))
    colours = {LABELS[FEDSUV]: METHODS[FEDSUV].colour, "bound": BOUND, "the most possible": GREY}
    title = "Widths and regret against their bounds (Theorems 5.4 and 5.5)"
    return Figure("bounds", title, side_by_side(panels, title, colours, 2), "Median over seeds.")


def _axis(field: str, name: str | None = None, vertical: bool = False) -> Any:
    kind: Any = alt.Y if vertical else alt.X
    axis = alt.Axis(grid=False, values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~g")
    return kind(f"{field}:Q", title=name or field, scale=alt.Scale(domain=[0, 1]), axis=axis)


def _colour(named: dict[str, str]) -> alt.Color:
    scale = alt.Scale(domain=list(named), range=list(named.values()))
    return alt.Color("series:N", scale=scale, legend=alt.Legend(title=None, orient="top"))


def _pareto(results: Results) -> Figure:
    """Fig. 3."""
    output = next(iter(results[f"{CLEAN}{FEDSUV}"].outputs.values()))
    validity, utility, selected = (np.asarray(output[name]) for name in ("validity", "utility", "selected"))
    names = {"selected": "#e07a1f", "never selected": "#c9ced6"}
    rows = [
        {"validity": float(v), "utility": float(u), "selected": int(s), "series": list(names)[int(not s)]}
        for v, u, s in zip(validity, utility, selected, strict=True)
    ]
    best = front(validity, utility)
    best = best[np.argsort(validity[best])]
    line = [{"validity": float(validity[each]), "utility": float(utility[each])} for each in best]
    dots = alt.Chart(alt.InlineData(values=rows)).mark_circle(opacity=0.9)
    size = alt.Size("selected:Q", scale=alt.Scale(range=[8, 120]), legend=None)
    cloud = dots.encode(x=_axis("validity"), y=_axis("utility", vertical=True), color=_colour(names), size=size)
    stairs = alt.Chart(alt.InlineData(values=line)).mark_line(
        color=BOUND, strokeWidth=1.6, interpolate="step-before", point={"color": BOUND, "size": 45}
    )
    chart = (cloud + stairs.encode(x="validity:Q", y="utility:Q")).properties(width=400, height=400)
    caption = f"{len(validity):,} clients, {len(best)} of them Pareto-optimal (black); {LABELS[FEDSUV]}."
    return Figure("03-pareto-front", "The Pareto front of one population (Fig. 3)", chart, caption, highlight=True)


def _rectangles(results: Results) -> Figure:
    """Fig. 4."""
    output = next(iter(results[f"{CLEAN}{FEDSUV}"].outputs.values()))
    rows: Rows = []
    for place, corners in enumerate(output["rectangles"]):
        for client, sides in enumerate(corners):
            chosen, alive = output["chosen"][place][client], output["alive"][place][client]
            row = dict(zip(("v_low", "v_high", "u_low", "u_high"), map(float, sides), strict=True))
            row |= {"validity": float(output["validity"][client]), "utility": float(output["utility"][client])}
            state = list(STATES)[0 if chosen else 1 if alive else 2]
            rows.append({**row, "series": state, "panel": f"round {MARKS[place]}"})
    base = alt.Chart().encode(color=_colour(STATES))
    boxes = base.mark_rect(filled=False, strokeWidth=1.1, opacity=1, strokeOpacity=0.75).encode(
        x=_axis("v_low", "validity"), x2="v_high:Q", y=_axis("u_low", "utility", vertical=True), y2="u_high:Q"
    )
    dots = base.mark_circle(size=22, opacity=1).encode(x="validity:Q", y="utility:Q")
    sort = [f"round {mark}" for mark in MARKS]
    column = alt.Column("panel:N", sort=sort, header=alt.Header(title=None, labelFontSize=12))
    data = alt.InlineData(values=rows)
    chart = alt.layer(boxes, dots).properties(width=235, height=235).facet(data=data, column=column, spacing=14)
    caption = f"Some of the clients; a dot is the truth, its rectangle what {LABELS[FEDSUV]} believes."
    return Figure("04-rectangles", "Rectangles as rounds go by (Fig. 4)", chart, caption, highlight=True)


def _heat_maps(results: Results) -> Figure:
    """Fig. 6."""
    charts: list[Any] = []
    for name, words in (("candidate", "rounds as a candidate"), ("selected", "times selected")):
        rows = [row for noise in NOISES for row in _cells(results[f"process/{noise:g}/{FEDSUV}"], name, noise)]
        top = float(np.quantile([row["value"] for row in rows], 0.98))
        scale = alt.Scale(scheme="viridis", domain=[0.0, max(top, 1e-9)], clamp=True)
        legend = alt.Legend(title=words, orient="right", gradientLength=180)
        cells = alt.Chart().mark_rect().properties(width=210, height=210)
        cells = cells.encode(
            *(_axis("v", "validity"), alt.X2("v2:Q"), _axis("u", "utility", vertical=True), alt.Y2("u2:Q")),
            color=alt.Color("value:Q", scale=scale, legend=legend),
        )
        facet = alt.Column("panel:N", header=alt.Header(title=None, labelFontSize=12))
        charts.append(cells.facet(data=alt.InlineData(values=rows), column=facet, spacing=14))
    chart = alt.vconcat(*charts, spacing=22).resolve_scale(color="independent")
    caption = f"{LABELS[FEDSUV]}; mean over the clients of a cell and over seeds. Colours end at the 98th percentile."
    return Figure("06-heat-maps", "Who is a candidate, and who is selected (Fig. 6)", chart, caption, highlight=True)


def _cells(group: Replicates, name: str, noise: float) -> Rows:
    """Mean of a number over the clients of each cell, over all seeds."""
    validity, utility, values = (np.concatenate(group.each(each)) for each in ("validity", "utility", name))
    column, row = (np.minimum((axis * CELLS).astype(np.int64), CELLS - 1) for axis in (validity, utility))
    count, total = (np.bincount(column * CELLS + row, weights, CELLS**2) for weights in (None, values))
    found = []
    for at in np.flatnonzero(count):
        v, u = divmod(int(at), CELLS)
        edges = {"v": v / CELLS, "v2": (v + 1) / CELLS, "u": u / CELLS, "u2": (u + 1) / CELLS}
        found.append({**edges, "value": float(total[at] / count[at]), "panel": f"noise {noise:g} on features"})
    return found


def tables(results: Results) -> Sequence[Table]:
    """Every table whose experiments have been run; what the paper prints needs none.

    >>> [table.name for table in tables(Results({}))]
    ['printed']
    """
    return possible([_methods, _printed], results)


def _methods(results: Results) -> Table:
    rows = []
    for task, aggregation in _places(results):
        base = trained(task, aggregation, RANDOM)
        for method, label in LABELS.items():
            if (own := trained(task, aggregation, method)).key not in results:
                continue
            found = Contrast("greater", ROUNDS_TO_TARGET, own, [base], 0.0).compare(results, own, base)
            row: dict[str, Any] = {"task": TASKS[task].title, "aggregation": aggregation, "method": label}
            row |= {"times as fast": found.shown(2)} if method != RANDOM else {"times as fast": None}
            row |= {"final accuracy": _over_seeds(results[own.key], FINAL_ACCURACY).mean}
            rows.append(row | {"would be in time": _over_seeds(results[own.key], ABLE).mean, "seeds": found.seeds})
    caption = f"Rounds of random selection over those of a method; {ROUNDS_TO_TARGET.name}."
    return Table("methods", "Speed-ups and final accuracies (Tables 2 and 3)", rows, caption, highlight=True)


def _printed(results: Results) -> Table:
    rows = [
        {
            "task": f"{column.dataset}, {column.model}",
            "aggregation": aggregation,
            "method": method,
            "rounds": column.rounds[aggregation][place],
            "speed-up": column.speed_up(aggregation, method),
            "accuracy": column.accuracy[aggregation][place],
        }
        for aggregation in (AVERAGING, YOGI)
        for column in PRINTED.values()
        for place, method in enumerate(COLUMNS)
    ]
    return Table("printed", "What the paper prints (Tables 2 and 3)", rows, on_page=False)
