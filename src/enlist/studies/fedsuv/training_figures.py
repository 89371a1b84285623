"""Figures of trained runs: convergence (Figs. 5 and 7 to 10), who came back in time, speed-ups and final accuracies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist._internal.statistics import Summary
from enlist.report.charts import Row
from enlist.report.training import curve_rows
from enlist.runs.printing import time_unit
from enlist.studies.charts import Look, intervals, within
from enlist.studies.fedsuv.methods import ABLATIONS, FEDSUV, MAIN, OTHERS, RANDOM, palette, title
from enlist.studies.fedsuv.paper import AVERAGING
from enlist.studies.fedsuv.scores import JUDGED, completed, finals, methods, name_of, runs_of, speed_up, tasks
from enlist.studies.fedsuv.settings import SWEEP
from enlist.studies.fedsuv.tasks import IN_TIME
from enlist.studies.fedsuv.training_causes import COMPARED, ablated_task
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Results
from enlist.studies.study import Figure

Rows = list[dict[str, Any]]
COLUMNS = 2
POINTS = 60
SMOOTH = 10
"""Rounds of which the share in time is averaged, so that a trend can be seen."""


def convergence(results: Results, over: str) -> Figure:
    """Accuracy over rounds or virtual time, a panel per task.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> convergence(example_results(), "time").name
    '05-convergence-time'
    """
    panels = []
    for start in tasks(results):
        runs = [run for name in _main(results, start) for run in runs_of(results[f"{start}/{name}"], title(name))]
        rows = [{**row, "series": row["selector"]} for row in thinned(curve_rows(runs, along=over))]
        unit, size = time_unit(max(row["at"] for row in rows)) if over == "time" else ("", 1.0)
        shown = [{**row, "at": row["at"] / size} for row in rows]
        axis = f"virtual time ({unit})" if over == "time" else "round"
        panels.append(Panel(name_of(results, start), shown, axis, "test accuracy"))
    what = "virtual time" if over == "time" else "rounds"
    return Figure(
        f"05-convergence-{over}",
        f"Test accuracy over {what} (Figs. 5 and 7 to 10)",
        side_by_side(panels, f"Test accuracy over {what}", palette(tuple(MAIN)), COLUMNS, 400, 230),
        "Mean and 95 % interval over seeds, cut at the edge of the panel. In a panel all select equally many clients "
        "per round under the same deadline. BSFL tries everybody once before it chooses, which takes it long where "
        "clients are many.",
        highlight=over == "rounds",
    )


def thinned(rows: Sequence[Row]) -> list[Row]:
    """At most about 60 rows of each selector, the last one among them: more cannot be seen.

    >>> rows = [{"selector": "oort", "at": at} for at in range(200)]
    >>> [row["at"] for row in thinned(rows)][:3], thinned(rows)[-1]["at"], len(thinned(rows))
    ([0, 4, 8], 199, 51)
    """
    kept: list[Row] = []
    for name in dict.fromkeys(row["selector"] for row in rows):
        own = [row for row in rows if row["selector"] == name]
        step = -(-len(own) // POINTS)
        kept += own[:-1:step] + own[-1:]
    return kept


def in_time(results: Results) -> Figure:
    """How many of the clients asked come back in time, round by round.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> in_time(example_results()).highlight
    True
    """
    panels = []
    for start in tasks(results, AVERAGING):
        rows: Rows = []
        for name in _main(results, start):
            group = results[f"{start}/{name}"]
            values = group.column("completed") / np.maximum(group.column("asked"), 1.0)
            window = min(SMOOTH, values.shape[1])
            kernel = np.ones(window) / window
            smooth = np.array([np.convolve(row, kernel, mode="valid") for row in values])
            rows += within(along(np.arange(window, values.shape[1] + 1.0), smooth, title(name)), 0.0, 1.0)
        panels.append(Panel(name_of(results, start), rows, "round", "share in time"))
    return Figure(
        "in-time",
        "Who comes back in time",
        side_by_side(panels, "Share of the clients asked that are in time", palette(tuple(MAIN)), COLUMNS, 400, 200),
        f"Mean over the last {SMOOTH} rounds, with its 95 % interval over seeds. On Fashion-MNIST, FedSUV as printed "
        "ends up asking the same clients, which are never in time: their optimistic utility never falls, because only "
        "who is in time teaches the utility model anything.",
        highlight=True,
    )


def speed_ups(results: Results) -> Figure:
    """Speed-ups over random selection in rounds and in virtual time (Table 2).

    >>> from enlist.studies.fedsuv.example import example_results
    >>> speed_ups(example_results()).name
    'speed-ups'
    """
    rows: Rows = []
    for start in tasks(results):
        for name in _main(results, start):
            for unit, words in (("rounds", "rounds"), ("seconds", "virtual time")):
                found = speed_up(results, start, name, unit)
                if found.pairs and name != RANDOM:
                    rows.append(_row(title(name), found.summary, words, name_of(results, start)))
    return Figure(
        "speed-ups",
        f"Speed-up over random selection to {JUDGED:.0%} of its final accuracy (Table 2)",
        intervals(rows, "How many times fewer rounds, and less virtual time", Look(x="speed-up", width=210), rule=1.0),
        "Geometric mean over seeds with its 95 % interval. A run that never gets there counts with its whole length, "
        "so that the value is a bound: which ones are, and in which direction, is said in the table.",
    )


def final_accuracy(results: Results) -> Figure:
    """Final accuracies (Table 3).

    >>> from enlist.studies.fedsuv.example import example_results
    >>> final_accuracy(example_results()).name
    'final-accuracy'
    """
    charts: list[Any] = []
    for start in tasks(results):
        rows = [_row(title(name), _final(results, start, name), "") for name in _main(results, start)]
        look = Look(x="test accuracy", width=300)
        charts.append(intervals(rows, name_of(results, start), look, rule=_final(results, start, RANDOM).mean))
    return Figure(
        "final-accuracy",
        "Final test accuracy (Table 3)",
        alt.concat(*charts, columns=COLUMNS, spacing=26),
        "Mean of the last three evaluations over seeds, with its 95 % interval; dashed: random selection.",
    )


def ablated(results: Results) -> Figure:
    """FedSUV with one part changed at a time: final accuracy, and share in time.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> ablated(example_results()).name
    'ablations'
    """
    start = ablated_task(results)
    names = [name for name in (*FEDSUV, *ABLATIONS) if f"{start}/{name}" in results]
    charts: list[Any] = []
    scores: tuple[tuple[str, Callable[..., Any]], ...] = (("final test accuracy", finals), ("share in time", completed))
    for words, score in scores:
        rows = [_row(title(name), Summary.of(score(results[f"{start}/{name}"]).tolist()), "") for name in names]
        rule = float(score(results[f"{start}/{RANDOM}"]).mean())
        charts.append(intervals(rows, words, Look(x=words, width=300), rule=rule))
    return Figure(
        "ablations",
        f"FedSUV with one part changed at a time ({name_of(results, start)})",
        alt.concat(*charts, columns=2, spacing=26),
        "The first three are the readings of FedSUV; the others differ from the printed rule in one respect each, "
        "except 'one model of the product' (late counts 0, no elimination, no Pareto step) and the last one, which "
        "differs from our default in two: two criteria, and nothing learned from who is late. "
        "Mean over seeds with its 95 % interval; dashed: random selection.",
        highlight=True,
    )


def selectors(results: Results) -> Figure:
    """Final accuracy of every selector that we have, in one task.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> selectors(example_results()).name
    'selectors'
    """
    start = ablated_task(results)
    names = [name for name in (*MAIN, *OTHERS) if f"{start}/{name}" in results]
    names.sort(key=lambda name: -_final(results, start, name).mean)
    kinds = {name: "FedSUV" if name in FEDSUV else "others" for name in names}
    kinds[RANDOM] = "random"
    rows = [_row(title(name), _final(results, start, name), kinds[name]) for name in names]
    look = Look(
        x="final test accuracy", width=420, colours={"FedSUV": "#d1495b", "others": "#0b6e99", "random": "#8d99ae"}
    )
    chart = _dots(rows, f"Final accuracy of every selector ({name_of(results, start)})", look)
    return Figure("selectors", "Every selector", chart, "Mean over seeds with its 95 % interval, best first.")


def deadlines(results: Results) -> Figure:
    """The further experiment on the deadline: final accuracy and share in time against the share that can meet it.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> deadlines(example_results()).name
    'deadlines'
    """
    places = {percent: f"further/deadline-{percent:g}/{AVERAGING}" for percent in SWEEP}
    places[IN_TIME] = ablated_task(results)
    panels = []
    scores: tuple[tuple[str, Callable[..., Any]], ...] = (("final test accuracy", finals), ("share in time", completed))
    for words, score in scores:
        rows: Rows = []
        for name in COMPARED:
            for percent in sorted(places):
                summary = Summary.of(score(results[f"{places[percent]}/{name}"]).tolist())
                rows.append({"series": title(name), "at": percent, **_bounds(summary)})
        panels.append(Panel(words, rows, "clients that can meet the deadline (%)", words, steps=True))
    return Figure(
        "deadlines",
        "The same task with other deadlines",
        side_by_side(panels, "Other deadlines", palette(COMPARED), 2, 330, 230),
        "Further experiment: the deadline is the latency that this share of the clients has in a typical round.",
    )


def _main(results: Results, start: str) -> list[str]:
    there = methods(results, start)
    return [name for name in MAIN if name in there]


def _final(results: Results, start: str, name: str) -> Summary:
    return Summary.of(finals(results[f"{start}/{name}"]).tolist())


def _bounds(summary: Summary) -> dict[str, float]:
    low, high = (summary.mean, summary.mean) if np.isnan(summary.low) else (summary.low, summary.high)
    return {"mean": summary.mean, "low": low, "high": high}


def _row(name: str, summary: Summary, series: str, panel: str | None = None) -> dict[str, Any]:
    return {"name": name, "series": series, **_bounds(summary), **({"panel": panel} if panel else {})}


def _dots(rows: Sequence[dict[str, Any]], heading: str, look: Look) -> alt.TopLevelMixin:
    """Intervals one below the other, coloured by kind, without a row of its own for each kind."""
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    known = [float(row[bound]) for row in rows for bound in ("low", "high")]
    margin = 0.04 * (max(known) - min(known)) or 0.05
    scale = alt.Scale(domain=[min(known) - margin, max(known) + margin], zero=False)
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=320, ticks=False, domain=False)),
        color=look.colour(names, "circle"),
    )
    spans = base.mark_rule(strokeWidth=2.5, opacity=0.55).encode(
        x=alt.X("low:Q", scale=scale, title=look.x), x2="high:Q"
    )
    dots = base.mark_circle(size=70, opacity=1).encode(
        x="mean:Q", tooltip=["name:N", *(alt.Tooltip(f"{each}:Q", format=".4f") for each in ("mean", "low", "high"))]
    )
    height = 24 * len({row["name"] for row in rows})
    drawn: alt.TopLevelMixin = (spans + dots).properties(title=heading, width=look.width, height=height)
    return drawn


def over_rounds(results: Results) -> Figure:
    """Accuracy over rounds, as the paper shows it.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> over_rounds(example_results()).name
    '05-convergence-rounds'
    """
    return convergence(results, "rounds")


def over_time(results: Results) -> Figure:
    """Accuracy over virtual time.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> over_time(example_results()).name
    '05-convergence-time'
    """
    return convergence(results, "time")


FIGURES = (over_rounds, over_time, in_time, speed_ups, final_accuracy, ablated, selectors, deadlines)
"""In the order of the page."""
