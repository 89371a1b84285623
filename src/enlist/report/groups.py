"""The report of runs that differ in keys of their configurations: a panel per group, and a column per key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from enlist.report import sentences
from enlist.report.charts import Row, unchecked
from enlist.report.federation import as_chosen, federation_sections
from enlist.report.group_charts import PANELS, SERIES, baseline_of, group_curves, measured, shown_methods, trend_chart
from enlist.report.page import Section, publish
from enlist.runs.groups import Group, group_rows
from enlist.runs.printing import comparison_table, short_names

EXPENDABLE = ("round time", "seen", "Jain", " sent")
"""Columns of a comparison that are in scores.json, but not on the page."""


@unchecked()
def write_groups(
    groups: Sequence[Group],
    place: Path | str,
    title: str = "Runs",
    target: float | None = None,
    window: int = 1,
    baseline: str | None = None,
) -> Path:
    """Write the page, and next to it charts/ (PNG and SVG) and scores.json; returns the page's path.

    >>> import tempfile
    >>> from enlist.runs.example import example_run
    >>> from enlist.runs.groups import grouped
    >>> runs = [example_run(name, seed, k=k) for k in (3, 5) for name in ("oort", "random") for seed in (0, 1)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_groups(grouped(runs), folder)
    ...     sorted(path.name for path in (page.parent / "charts").iterdir() if path.suffix == ".png")
    ['final.png', 'rounds.png', 'speed-up.png', 'time.png']
    """
    runs = [run for group in groups for run in group.runs]
    rows, sections, charts = group_sections(groups, target, window, baseline)
    return publish(place, title, sentences.size(runs, len(groups)), sections, charts, rows)


def group_sections(
    groups: Sequence[Group], target: float | None = None, window: int = 1, baseline: str | None = None
) -> tuple[list[dict[str, Any]], list[Section], dict[str, alt.TopLevelMixin]]:
    """Scores, sections and charts of the page.

    >>> from enlist.runs.example import example_run
    >>> from enlist.runs.groups import grouped
    >>> rows, sections, charts = group_sections(grouped([example_run(k=k) for k in (3, 5)]))
    >>> [section.heading for section in sections]
    ['Results', 'What the values change', 'Learning curves']
    """
    runs = [run for group in groups for run in group.runs]
    groups = [group._replace(runs=as_chosen(group.runs)) for group in groups]
    rows = group_rows(groups, target, window, baseline)
    charts = _charts(groups, rows)
    told = [*federation_sections(runs), _results(groups, rows, window), *_sections(groups, rows, charts)]
    return rows, told, charts


def _results(groups: Sequence[Group], rows: Sequence[Row], window: int) -> Section:
    keys = list(groups[0].values)
    table = comparison_table(rows, keys)
    kept = [index for index, name in enumerate(table[0]) if not any(word in name for word in EXPENDABLE)]
    names = [f"{short} is {key}" for key, short in short_names(keys).items() if short != key]
    reached = "an evaluation meets it" if window == 1 else f"the mean of {window} evaluations meets it"
    targets = {row["target"] for row in rows if math.isfinite(row["target"])}
    several = len(targets) > 1
    notes = [
        sentences.unfinished([run for group in groups for run in group.runs]),
        f"{'; '.join(names)}." if names else "",
        "If no target was set, it is what the baseline with the same values always reached in the end."
        if several
        else "",
        f"A target counts as reached when {reached}, without interpolation." if targets else "",
        "± is half a 95 % interval over seeds (Student's t), brackets hold one; the final figure is the mean of the "
        "last three evaluations. The speed-up is over the baseline with the same values, paired by seed: the geometric "
        "mean of ratios of times, Student's t on logarithms. ≥ and ≤ mark bounds: a run that never reached the target "
        "counts with its total time, and (2/3) means that two of three seeds reached it. scores.json holds more.",
    ]
    lines = [[line[index] for index in kept] for line in table]
    return Section("Results", text=sentences.sweep(rows, keys), table=lines, note=" ".join(filter(None, notes)))


def _sections(groups: Sequence[Group], rows: Sequence[Row], charts: dict[str, alt.TopLevelMixin]) -> list[Section]:
    names, shown = list(dict.fromkeys(row["selector"] for row in rows)), shown_methods(rows)
    notes = []
    if len(shown) < len(names):
        left = ", ".join(name for name in names if name not in shown)
        notes.append(f"Charts show {SERIES} of {len(names)} methods, the best and the baseline; not {left}.")
    if len(groups) > PANELS:
        notes.append(f"Curves are those of the first {PANELS} of {len(groups)} groups; the table has all.")
    clock = groups[0].runs[0].clock
    found = []
    if "final" in charts:
        text = "Dots are means over seeds, lines through them their 95 % intervals"
        bounds = any(row.get("speed_up_bound") in (">=", "<=") for row in rows)
        text += "; a triangle is a bound, and points towards the speed-up." if bounds else "."
        own = [charts[name] for name in ("final", "speed-up") if name in charts]
        found.append(Section("What the values change", text, charts=own, note=" ".join(notes[:1])))
    if "time" in charts:
        text = "Lines are means over seeds, bands their 95 % intervals; a target is dashed."
        text += " Virtual time is the time of rounds on the simulated devices." if clock == "virtual time" else ""
        own = [charts["time"], charts["rounds"]]
        found.append(Section("Learning curves", text, charts=own, note=" ".join(notes)))
    return found


def _charts(groups: Sequence[Group], rows: Sequence[Row]) -> dict[str, alt.TopLevelMixin]:
    clock, by = groups[0].runs[0].clock, measured(rows)
    drawn = {
        "final": trend_chart(groups, rows, "final", f"Final {by}"),
        "speed-up": trend_chart(groups, rows, "speed_up", f"Speed-up over {baseline_of(rows)}"),
        "time": group_curves(groups, rows, "time", f"{by.capitalize()} over {clock}"),
        "rounds": group_curves(groups, rows, "rounds", f"{by.capitalize()} over rounds"),
    }
    return {name: chart for name, chart in drawn.items() if chart is not None}
