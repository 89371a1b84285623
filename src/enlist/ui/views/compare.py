"""Runs side by side: methods with bands over seeds, the report's table, and how their configurations differ."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from enlist.errors import EnlistError
from enlist.report import sentences
from enlist.report.federation import as_chosen
from enlist.report.group_charts import group_curves, trend_chart
from enlist.report.training import reach_chart, reach_rows
from enlist.runs.groups import Group, compared_rows, differing, group_rows, grouped, leaves, ordered
from enlist.runs.printing import comparison_table, plural, target_name, written
from enlist.runs.tables import RunTables
from enlist.ui.groups import GroupStatus, group_status
from enlist.ui.index import Item
from enlist.ui.status import RunSummary
from enlist.ui.views.model import Cell, Chart, NotFoundError, Part, View, address, address_of, columns_of, figure, link
from enlist.ui.views.run import run_charts, selected_parts, state_of

MOST_RUNS = 400
MOST_METHODS = 12
"""Most methods whose selections are drawn."""


def compare_view(
    title: str,
    chosen: Sequence[tuple[Item, RunSummary, RunTables]],
    lost: Sequence[tuple[Item, str]] = (),
    methods: Sequence[str] = (),
    target: float | None = None,
    now: GroupStatus | None = None,
    failed: Mapping[str, str] | None = None,
) -> View:
    """Compare runs, including those that could not be read; `methods` names those to show, all by default.

    `now` is their joint status, by default computed from them. `failed` maps ids of runs that failed before they had a
    folder to the reason.

    >>> from pathlib import Path
    >>> from enlist.runs.example import example_run
    >>> from enlist.ui.status import Status
    >>> item = Item("mine", "run", Path("mine"), Path("mine"))
    >>> runs = [(item, RunSummary(item, Status("finished", 0.0)), example_run(name)) for name in ("oort", "random")]
    >>> view = compare_view("Both", runs)
    >>> [part.heading for part in view.parts()][:2]
    ['Results', 'Learning']
    """
    known = list(dict.fromkeys(run.selector for _, _, run in chosen))
    kept = [each for each in chosen if not methods or each[2].selector in methods]
    begun = [each for each in kept if len(each[2].rounds["round"])]
    runs = ordered([run for _, _, run in begun])
    missing = dict(failed or {})
    if now is None:
        now = group_status([summary for _, summary, _ in kept], list(missing.values()))
    charts, rows = _charts(runs, target)

    def parts() -> list[Part]:
        found = [_results(runs, rows, target), *_curves(runs, charts)] if runs else []
        if not runs:
            found = [Part("Results", ["No run has finished a round yet."])]
        return [*found, _differences(runs), _listed(kept, lost, missing)]

    figures = [figure("runs", f"{now.done:,} of {now.total:,} finished"), figure("methods", f"{len(known):,}")]
    figures += [figure("failed", f"{now.failed:,}", "failed")] if now.failed else []
    figures += [figure("damaged", f"{len(lost):,}", "failed")] if lost else []
    return View(
        "compare",
        title,
        sentences.size(runs, len(grouped(runs))) if runs else "",
        state=state_of(now),
        figures=lambda: figures,
        parts=parts,
        charts=charts,
        tables={
            "scores": lambda: columns_of(rows()),
            "runs": lambda: columns_of(_run_rows(runs, target)),
            "configurations": lambda: _difference_columns(runs),
        },
        data={"methods": known, "shown": list(methods) or known, "target": target},
    )


def _groups(runs: Sequence[RunTables]) -> list[Group]:
    return [group._replace(runs=as_chosen(group.runs)) for group in grouped(runs)]


def _run_rows(runs: Sequence[RunTables], target: float | None) -> list[dict[str, Any]]:
    return compared_rows(_groups(runs), target, None) if runs else []


def _charts(runs: Sequence[RunTables], target: float | None) -> tuple[dict[str, Chart], Any]:
    """Charts, and a function for the rows of the table; both are made on demand."""
    groups = _groups(runs) if runs else []

    @functools.cache
    def rows() -> list[dict[str, Any]]:
        return group_rows(groups, target) if groups else []

    if not runs:
        return {}, rows
    if len(groups) > 1:
        clock = runs[0].clock
        return {
            "final": lambda: trend_chart(groups, rows(), "final", "Final figures"),
            "speed-up": lambda: trend_chart(groups, rows(), "speed_up", "Speed-up over the baseline"),
            "curves-time": lambda: group_curves(groups, rows(), "time", f"Over {clock}"),
            "curves-rounds": lambda: group_curves(groups, rows(), "rounds", "Over rounds"),
        }, rows
    own = groups[0].runs
    charts = run_charts(own, target)

    def reach() -> Any:
        row = rows()[0]
        if not math.isfinite(row["target"]):
            return None
        title = f"{own[0].clock.capitalize()} to {target_name(row)}"
        return reach_chart(reach_rows(own, row["target"], by=row["measure"]), title, own[0].clock)

    return {**charts, "time-to-target": reach}, rows


def _results(runs: Sequence[RunTables], rows: Any, target: float | None) -> Part:
    try:
        found = rows()
        keys = list(grouped(runs)[0].values)
        text = [sentences.sweep(found, keys)] if keys else [sentences.speed(found), sentences.ending(found)]
        notes = [
            sentences.unfinished(runs),
            "± is half a 95 % interval over seeds (Student's t), brackets hold one. The speed-up is paired by seed, "
            "the geometric mean of ratios of times. ≥ and ≤ mark bounds where runs did not reach the target.",
        ]
        return Part("Results", text, comparison_table(found, keys), "scores", note=" ".join(filter(None, notes)))
    except EnlistError as error:
        return Part("Results", [str(error)])


def _curves(runs: Sequence[RunTables], charts: dict[str, Chart]) -> list[Part]:
    if "curves-time" in charts:
        return [
            Part("What the values change", charts=["final", "speed-up"]),
            Part("Learning", charts=["curves-time", "curves-rounds"]),
        ]
    names = [name for name in charts if name.startswith(("accuracy-", "loss-"))]
    many = len({run.seed for run in runs}) > 1
    text = [sentences.bands(len({run.selector for run in runs}))] if many else []
    found = [Part("Learning", text, charts=[*names, "time-to-target"])]
    if len({run.selector for run in runs}) <= MOST_METHODS:
        found += selected_parts(as_chosen(runs), charts)
    terms = [name for name in charts if name.startswith("terms-")]
    return [*found, *([Part("Why they were selected", charts=terms, folded=True)] if terms else [])]


def _difference_columns(runs: Sequence[RunTables]) -> dict[str, list[Any]]:
    """One row per key in which configurations differ, one column per method and group."""
    if not runs:
        return {"key": []}
    keys = differing(runs, ("seed", "selector.label", "selector.source"))
    columns: dict[str, list[Any]] = {"key": keys}
    for run in runs:
        config = leaves(run.config)
        values = [written(config.get(key)) for key in keys]
        names = [name for name in columns if name != "key" and name.partition(" #")[0] == run.selector]
        if not any(columns[name] == values for name in names):
            columns[run.selector if not names else f"{run.selector} #{len(names) + 1}"] = values
    return columns


def _differences(runs: Sequence[RunTables]) -> Part:
    columns = _difference_columns(runs)
    if not runs or not columns["key"]:
        text = "Their configurations are the same, except for seeds." if runs else ""
        return Part("Configurations", [text], folded=True)
    shown = dict(list(columns.items())[:13])
    rows = [list(shown), *(list(row) for row in zip(*shown.values(), strict=True))]
    left = len(columns) - len(shown)
    note = f"{plural(left, 'further column')} in the CSV." if left else ""
    return Part("How the configurations differ", [], rows, "configurations", note=note)


def _listed(
    kept: Sequence[tuple[Item, RunSummary, RunTables]], lost: Sequence[tuple[Item, str]], missing: Mapping[str, str]
) -> Part:
    rows: list[list[Cell]] = [["run", "method", "seed", "state", "rounds"]]
    for item, summary, run in kept:
        now = summary.status
        progress = f"{now.rounds:,} of {now.of:,}" if now.of else f"{now.rounds:,}"
        told = f"failed: {now.why}" if now.state == "failed" and now.why else now.state
        rows.append([link(item.id, address_of(item)), run.selector, str(run.seed), told, progress])
    for item, why in lost:
        rows.append([link(item.id, address("run", item.id)), "", "", f"damaged: {why}", ""])
    rows += [[id, "", "", f"failed: {why}", "0"] for id, why in missing.items()]
    return Part("Runs", table=rows, csv="runs", folded=True)


def check_number(runs: int) -> None:
    """Refuse more runs than can be compared at once.

    >>> check_number(1000)
    Traceback (most recent call last):
    ...
    enlist.ui.views.model.NotFoundError: 1,000 runs are more than the 400 that can be compared at once; choose fewer.
    """
    if runs > MOST_RUNS:
        raise NotFoundError(f"{runs:,} runs are more than the {MOST_RUNS} that can be compared at once; choose fewer.")
