"""What only some runs measure: it is scored, printed and drawn where it is there, and nowhere else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from enlist.report.further import further_sections
from enlist.runs.comparing import comparison_rows
from enlist.runs.example import example_run
from enlist.runs.printing import comparison_table
from enlist.runs.scores import run_scores
from enlist.runs.tables import RunTables


def measured(selector: str, seed: int) -> RunTables:
    """A run with accuracies of clients and a metric that is negative."""
    run = example_run(selector, seed)
    accuracy = run.rounds["accuracy"]
    further = {"client_accuracy": accuracy, "accuracy_worst_tenth": accuracy / 2, "accuracy_spread": accuracy / 4}
    return dataclasses.replace(run, rounds={**run.rounds, **further, "metric_r2": accuracy - 1.0})


def test_finals_are_means_of_the_last_three() -> None:
    run = measured("oort", 0)
    seen = run.rounds["accuracy"][np.isfinite(run.rounds["accuracy"])][-3:]
    assert run_scores(run)["accuracy_worst_tenth"] == pytest.approx(seen.mean() / 2)
    assert run_scores(run)["metric_r2"] == pytest.approx(seen.mean() - 1.0)
    assert run_scores(example_run()).keys().isdisjoint({"accuracy_worst_tenth", "metric_r2"})


def test_tables_and_sections_show_it_where_it_is_known() -> None:
    runs = [measured("oort", 0), measured("oort", 1), example_run("random", 0), example_run("random", 1)]
    table = comparison_table(comparison_rows(runs, target=0.5))
    columns = dict(zip(table[0], zip(*table[1:], strict=True), strict=True))
    assert columns["worst tenth of clients"][0].endswith(" %")
    assert columns["r2"][0].startswith("-0.")
    assert {columns[name][1] for name in ("worst tenth of clients", "spread over clients", "r2")} == {"–"}
    assert not {"r2", "worst tenth of clients"} & set(comparison_table(comparison_rows(runs[2:], target=0.5))[0])
    (clients, charts), (own, metrics) = further_sections(runs)
    assert (clients.heading, own.heading) == ("Clients' own accuracies", "Your metrics")
    assert list(charts) == ["client-accuracy", "accuracy-worst-tenth", "accuracy-spread"]
    drawn = metrics["metric-r2"].to_dict()
    assert drawn["layer"][0]["encoding"]["y"]["scale"]["domain"][0] < 0  # a metric may be negative
