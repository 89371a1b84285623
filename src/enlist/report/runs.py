"""The report of simulation runs: one page that opens offline, with its charts and scores as files next to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from enlist.errors import InputError
from enlist.report import sentences
from enlist.report.charts import Row, unchecked
from enlist.report.devices import (
    availability_chart,
    availability_rows,
    device_chart,
    device_rows,
    latency_chart,
    latency_rows,
)
from enlist.report.federation import as_chosen, federation_sections
from enlist.report.flower import shadow_sections
from enlist.report.further import further_sections
from enlist.report.groups import group_sections, write_groups
from enlist.report.made import made_section
from enlist.report.page import Section, page_text, publish
from enlist.report.participation import (
    activity_chart,
    evenness_rows,
    lorenz_chart,
    outcome_chart,
    outcome_rows,
    selection_chart,
    selection_rows,
)
from enlist.report.reasons import reason_sections
from enlist.report.sizes import size_histogram
from enlist.report.skew import class_heatmap
from enlist.report.timing import timing_sections
from enlist.report.training import curve_chart, curve_rows, reach_chart, reach_rows
from enlist.runs.comparing import comparison_rows, configured_target
from enlist.runs.groups import grouped, ordered
from enlist.runs.printing import comparison_table, target_name
from enlist.runs.tables import RunTables, Table

Charts = dict[str, alt.TopLevelMixin]

ORDER_NAMES = {"speed": "speed", "size": "size of data"}
COLUMNS = (
    "'seen' is the share of clients with at least one merged update, Jain is Jain's index of how evenly updates come "
    "from clients (1 is even), and traffic counts both directions."
)


@unchecked()
def write_report(
    runs: Sequence[RunTables],
    place: Path | str,
    title: str = "Runs",
    target: float | None = None,
    window: int = 1,
    baseline: str | None = None,
    rows: Sequence[dict[str, Any]] | None = None,
) -> Path:
    """Write the page, and next to it charts/ (PNG and SVG) and scores.json; returns the page's path.

    `place` is a folder, in which the page is named report.html, or the path of the page itself, ending in .html. Files
    of an earlier report are replaced. Runs without a finished round are left out. Runs that differ in keys of their
    configurations are grouped by these keys. `rows` is the result of `comparison_rows` for these runs, target, window
    and baseline, if already computed.

    >>> import tempfile
    >>> from enlist.runs.example import example_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report([example_run()], folder)
    ...     sorted(path.name for path in page.parent.iterdir())
    ['charts', 'report.html', 'scores.json']
    """
    started = ordered([run for run in runs if len(run.rounds["round"])])
    if not started:
        raise InputError("no run has finished a round yet; there is nothing to report.")
    if len(groups := grouped(started)) > 1:
        return write_groups(groups, place, title, target, window, baseline)
    rows, sections = run_sections(started, target, window, baseline, rows)
    charts = {name: chart for _, own in sections for name, chart in own.items()}
    return publish(place, title, sentences.size(started), [section for section, _ in sections], charts, rows)


def report_text(
    runs: Sequence[RunTables], title: str = "Runs", target: float | None = None, baseline: str | None = None
) -> str:
    """The page that `write_report` writes, as text, without further files.

    >>> from enlist.runs.example import example_run
    >>> "<h2>Results</h2>" in report_text([example_run()])
    True
    """
    started = ordered([run for run in runs if len(run.rounds["round"])])
    if not started:
        raise InputError("no run has finished a round yet; there is nothing to report.")
    if len(groups := grouped(started)) > 1:
        return page_text(title, sentences.size(started, len(groups)), group_sections(groups, target, 1, baseline)[1])
    _, sections = run_sections(started, target, 1, baseline)
    return page_text(title, sentences.size(started), [section for section, _ in sections])


def run_sections(
    runs: Sequence[RunTables],
    target: float | None = None,
    window: int = 1,
    baseline: str | None = None,
    rows: Sequence[dict[str, Any]] | None = None,
) -> tuple[list[dict[str, Any]], list[tuple[Section, Charts]]]:
    """Scores of runs with one configuration, and the sections of their page with their charts.

    `rows` are the scores, if already computed.

    >>> from enlist.runs.example import example_run
    >>> [section.heading for section, _ in run_sections([example_run()])[1]][:3]
    ['Results', 'Learning curves', 'Who was selected']
    """
    started = as_chosen(runs)
    if rows is None:
        rows = comparison_rows(started, target, window, baseline)
    labels = list(dict.fromkeys(run.selector for run in started))
    rows = sorted(rows, key=lambda row: labels.index(row["selector"]))
    sections: list[tuple[Section, Charts]] = [
        *((section, {}) for section in federation_sections(runs)),
        _results(started, rows, given=target is not None, window=window),
        *_learning(started, rows, window),
        *further_sections(started),
        _selected(started),
        *reason_sections(runs),
        _outcomes(started, rows),
        *shadow_sections(runs),
        *_data(started),
        *_devices(started),
        *((section, {}) for section in timing_sections(started)),
        (made_section(started), {}),
    ]
    return rows, sections


def _results(runs: Sequence[RunTables], rows: Sequence[Row], given: bool, window: int) -> tuple[Section, Charts]:
    notes = [sentences.unfinished(runs)]
    seeds = max(row["seeds"] for row in rows)
    if math.isfinite(rows[0]["target"]):
        goal = target_name(rows[0])
        reached = "evaluation that meets it" if window == 1 else f"{window} evaluations in a row whose mean meets it"
        notes.append(f"The target is {goal}; it counts as reached with the first {reached}, without interpolation.")
        if not given and configured_target(runs) is None:
            base = rows[0]["baseline"]
            some = [run for run in runs if run.selector == base] or runs
            whose = some[0].name if len(some) == 1 else base if len(some) < len(runs) else "every run"
            notes.append(f"It was not set, but taken from these runs: what {whose} always reached in the end.")
    notes.append("The final figure is the mean of the last three evaluations.")
    if seeds > 1:
        notes.append(f"± is half a 95 % interval over {seeds} seeds (Student's t).")
    if any(math.isfinite(row.get("speed_up_low", math.nan)) for row in rows):
        notes.append(
            f"The speed-up is the {runs[0].clock} of {rows[0]['baseline']} to the target over the method's, seed by "
            f"seed: geometric mean with a 95 % interval over {seeds} seeds (Student's t on logarithms)."
        )
    if math.isfinite(rows[0]["target"]) and any(row["reached"] < row["seeds"] for row in rows):
        notes.append(
            "≥ and ≤ mark bounds: a run that never reached the target counts with its total time, and (2/3) means that "
            "two of three seeds reached it; pairs in which neither did are left out of the speed-up."
        )
    text = " ".join(part for part in (sentences.speed(rows), sentences.ending(rows)) if part)
    note = " ".join(part for part in (*notes, COLUMNS) if part)
    return Section("Results", text=text, table=comparison_table(rows), note=note), {}


def _learning(runs: Sequence[RunTables], rows: Sequence[Row], window: int) -> list[tuple[Section, Charts]]:
    by, target = rows[0]["measure"], rows[0]["target"]
    over_time = curve_rows(runs, "time", by)
    if not over_time:
        return []
    name, clock = by.capitalize(), runs[0].clock
    charts: Charts = {
        "time": curve_chart(over_time, f"{name} over {clock}", "time", by, target, clock),
        "rounds": curve_chart(curve_rows(runs, "rounds", by), f"{name} over rounds", "rounds", by, target),
    }
    if math.isfinite(target) and len(runs) > 1:
        reach = reach_rows(runs, target, window, by)
        charts["time-to-target"] = reach_chart(reach, f"{clock.capitalize()} to {target_name(rows[0])}", clock)
    many = max(row["seeds"] for row in rows) > 1
    text = f"{sentences.bands(len(rows))} " if many else ""
    if clock == "virtual time":
        text += "Virtual time is the time of rounds on the simulated devices, not on this machine."
    note = ""
    if many:
        note = "A curve ends where the shortest run of its selector ends. "
    if "time-to-target" in charts:
        note += "Dots are single seeds"
        note += ", triangles are runs that missed the target." if any(r["reached"] < r["seeds"] for r in rows) else "."
    return [(Section("Learning curves", text, charts=list(charts.values()), note=note), charts)]


def _selected(runs: Sequence[RunTables]) -> tuple[Section, Charts]:
    maps: dict[str, list[dict[str, Any]]] = {}
    if all(np.isfinite(run.clients.get("expected_latency", np.array([np.nan]))).all() for run in runs):
        maps["speed"] = selection_rows(runs, "speed")
    if any(run.clients["num_examples"].min() < run.clients["num_examples"].max() for run in runs) or not maps:
        maps["size"] = selection_rows(runs, "size")
    most = max(row["share"] for rows in maps.values() for row in rows)
    charts: Charts = {
        f"selected-by-{order}": selection_chart(rows, f"Who was selected, by {ORDER_NAMES[order]}", order, most)
        for order, rows in maps.items()
    }
    even = evenness_rows(runs)
    charts["updates"] = activity_chart(even, "Updates per client")
    charts["evenness"] = lorenz_chart(even, "How evenly clients took part")
    text = " ".join(part for part in (sentences.preference(runs), sentences.evenness(runs)) if part)
    note = "A cell is the share of rounds in which its clients were selected"
    note += ", on average over seeds." if len({run.seed for run in runs}) > 1 else "."
    return Section("Who was selected", text, charts=list(charts.values()), note=note), charts


def _outcomes(runs: Sequence[RunTables], rows: Sequence[Row]) -> tuple[Section, Charts]:
    charts: Charts = {"outcomes": outcome_chart(outcome_rows(runs), "Outcomes of selected clients")}
    return Section("Outcomes", sentences.outcomes(rows), charts=list(charts.values())), charts


def _data(runs: Sequence[RunTables]) -> list[tuple[Section, Charts]]:
    run = runs[0]
    charts: Charts = {}
    sizes = run.clients["num_examples"]
    told = sizes[np.isfinite(sizes)]  # for real clients it is known after a reply
    if not len(told):
        return []
    if run.classes:
        counts = np.stack([run.clients[name] for name in run.classes], axis=1)
        classes = [name.removeprefix("class_") for name in run.classes]
        charts["classes"] = class_heatmap(counts, "Which classes clients hold", classes, run.names)
    charts["sizes"] = size_histogram(told, "How much clients hold")
    return [(Section("Data", sentences.data(run), charts=list(charts.values()), note=_of_seed(runs)), charts)]


def _devices(runs: Sequence[RunTables]) -> list[tuple[Section, Charts]]:
    run = runs[0]
    charts: Charts = {}
    if dots := device_rows(run):
        shown = f"Devices ({len(dots):,} of {run.count:,})" if len(dots) < run.count else "Devices"
        charts["devices"] = device_chart(dots, shown)
    if bars := latency_rows(run):
        charts["latency"] = latency_chart(bars, "How long an update takes")
    there = availability_rows(runs)
    if any(row["available"] < row["clients"] for row in there):
        charts["availability"] = availability_chart(there, "Available clients", run.clock)
    text = " ".join(part for part in (sentences.devices(run), sentences.presence(runs)) if part)
    if not charts and not text:
        return []
    note = _of_seed(runs)
    if note and "availability" in charts:
        note += " Availability has one line per seed."
    return [(Section("Devices", text, charts=list(charts.values()), note=note), charts)]


def _of_seed(runs: Sequence[RunTables]) -> str:
    first = runs[0]
    same = all(_equal(first.clients, run.clients) for run in runs)
    return "" if same else f"Clients are those of seed {first.seed}; other seeds have other clients."


def _equal(left: Table, right: Table) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name], equal_nan=True) for name in left)
