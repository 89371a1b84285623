"""Metrics for Prometheus: of federations, and of unfinished simulations and comparisons."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from enlist._internal.aliases import FORMER_METRICS
from enlist._internal.text import printable
from enlist.ui.catalogue import Catalogue
from enlist.ui.status import STATES, RunSummary
from enlist.ui.views.federation import checkpoint_written

MOST = 1_000
"""Most runs to report."""
FORMER = {now: former for former, now in FORMER_METRICS.items()}
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ExportedMetric(NamedTuple):
    """A metric: its name without "enlist_", its kind, and its meaning.

    >>> METRICS["selected"].name
    'selected_total'
    """

    name: str
    kind: str
    help: str


METRICS = {
    "rounds": ExportedMetric("rounds_total", "counter", "Finished rounds."),
    "selected": ExportedMetric("selected_total", "counter", "Clients selected."),
    "completed": ExportedMetric("completed_total", "counter", "Clients that replied in time."),
    "late": ExportedMetric("late_total", "counter", "Clients that the server did not wait for."),
    "dropped": ExportedMetric("dropped_total", "counter", "Clients that went offline."),
    "failed": ExportedMetric("failed_total", "counter", "Clients that failed, or sent something unusable."),
    "arrived": ExportedMetric("arrived_total", "counter", "Late updates that arrived later."),
    "refused": ExportedMetric("refused_total", "counter", "Refused replies."),
    "doubted": ExportedMetric("doubted_total", "counter", "Doubted claims of clients."),
    "online": ExportedMetric("online_clients", "gauge", "Clients online at the start of the last round."),
    "accuracy": ExportedMetric("accuracy", "gauge", "Test accuracy of the last evaluation."),
    "loss": ExportedMetric("loss", "gauge", "Test loss of the last evaluation, of a regression."),
    "seconds": ExportedMetric("round_seconds", "gauge", "Duration of the last round, on the run's own clock."),
    "progress": ExportedMetric("progress_ratio", "gauge", "Share of the rounds that are finished."),
    "written": ExportedMetric("last_write_timestamp_seconds", "gauge", "When the run was last written."),
    "checkpoint": ExportedMetric("checkpoint_age_seconds", "gauge", "Age of the last checkpoint."),
}


def metrics(catalogue: Catalogue, now: float | None = None) -> str:
    """All metrics in the text format of Prometheus.

    >>> metrics(Catalogue([])).splitlines()[-1]
    'enlist_runs{state="finished"} 0'
    """
    now = time.time() if now is None else now
    told = [
        summary
        for summary in catalogue.summaries.values()
        if summary.item.kind == "federation" or summary.status.state in ("running", "stalled", "failed")
    ][:MOST]
    values = [(summary, values_of(summary, now)) for summary in told]
    lines: list[str] = []
    for key, metric in METRICS.items():
        rows = [
            f"enlist_{metric.name}{{{labels(summary)}}} {_number(found[key])}"
            for summary, found in values
            if math.isfinite(found.get(key, math.nan))
        ]
        lines += _head(metric) + rows if rows else []
        if rows and metric.name in FORMER:
            former = ExportedMetric(FORMER[metric.name], metric.kind, f"The former name of enlist_{metric.name}.")
            lines += _head(former) + [row.replace(metric.name, former.name, 1) for row in rows]
    if told:
        lines += _head(ExportedMetric("state", "gauge", "1 for the current state of a run."))
        lines += [f'enlist_state{{{labels(summary)},state="{summary.status.state}"}} 1' for summary in told]
    lines += _head(ExportedMetric("runs", "gauge", "Runs in the folders, by state."))
    counts = dict.fromkeys(STATES, 0)
    for summary in catalogue.summaries.values():
        counts[summary.status.state] += 1
    lines += [f'enlist_runs{{state="{state}"}} {count}' for state, count in counts.items()]
    return "\n".join(lines) + "\n"


def values_of(summary: RunSummary, now: float) -> Mapping[str, float]:
    """The values of one run."""
    found = {"rounds": float(summary.status.rounds), **summary.totals, "written": summary.status.since}
    found["accuracy" if summary.measure == "accuracy" else "loss"] = summary.last
    if summary.status.progress is not None:
        found["progress"] = summary.status.progress
    made = checkpoint_written(summary.item.folder)
    if made is not None:
        found["checkpoint"] = max(now - made, 0.0)
    return found


def labels(summary: RunSummary) -> str:
    """The labels of one run."""
    given = {
        "run": summary.item.id,
        "kind": summary.item.kind,
        "method": summary.method,
        "comparison": summary.item.parent or "",
    }
    given["seed"] = "" if summary.seed is None else str(summary.seed)
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in given.items() if value)


def _escaped(text: str) -> str:
    return printable(text, 200).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _head(metric: ExportedMetric) -> list[str]:
    return [f"# HELP enlist_{metric.name} {metric.help}", f"# TYPE enlist_{metric.name} {metric.kind}"]


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def names() -> Iterable[str]:
    """The full names of all metrics of a run.

    >>> "enlist_refused_total" in list(names())
    True
    """
    return (f"enlist_{metric.name}" for metric in METRICS.values())
