"""Sections on what only some runs measure: accuracies of clients, and the user's own metrics."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from enlist.report.page import Section
from enlist.report.training import curve_chart, curve_rows
from enlist.runs.columns import FAIRNESS, METRIC
from enlist.runs.scores import extra_columns
from enlist.runs.tables import RunTables

Charts = dict[str, alt.TopLevelMixin]
TITLES = ("Mean accuracy of clients", "Accuracy of the worst tenth of clients", "Spread of clients' accuracies")
MEANING = (
    "Each client keeps a share of its samples for testing (data.client_test), so its accuracy is that of the "
    "model on data like its own. The worst tenth is the mean of the lowest tenth of all clients, the spread their "
    "standard deviation."
)


def further_sections(runs: Sequence[RunTables]) -> list[tuple[Section, Charts]]:
    """A section on accuracies of clients and one on the user's own metrics, if runs have them.

    >>> from enlist.runs.example import example_run
    >>> further_sections([example_run()])
    []
    """
    found = extra_columns(runs)
    fair = {name: title for name, title in zip(FAIRNESS, TITLES, strict=True) if name in found}
    own = {name: name.removeprefix(METRIC) for name in found if name.startswith(METRIC)}
    sections: list[tuple[Section, Charts]] = []
    for heading, text, titles in (("Clients' own accuracies", MEANING, fair), ("Your metrics", "", own)):
        charts: Charts = {
            name.replace("_", "-"): chart for name in titles if (chart := _chart(runs, name, titles[name]))
        }
        if charts:
            sections.append((Section(heading, text, charts=list(charts.values())), charts))
    return sections


def _chart(runs: Sequence[RunTables], name: str, title: str) -> alt.LayerChart | None:
    rows = curve_rows([run for run in runs if name in run.rounds], "time", name)
    if not rows:
        return None
    by = "accuracy" if name in FAIRNESS else "metric"
    clock = runs[0].clock
    return curve_chart(
        rows, f"{title} over {clock}", "time", by, clock=clock, axis=title.lower() if by == "accuracy" else title
    )
