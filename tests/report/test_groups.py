"""The report of runs that differ in their configurations: a column per key, a panel per group."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from enlist.cli.report import report
from enlist.report import sentences
from enlist.report.group_charts import PANELS, group_curves, shown_methods, trend_chart
from enlist.report.runs import write_report
from enlist.runs.example import example_run, write_run
from enlist.runs.groups import group_rows, grouped, ordered


def made(values=(3, 6), names=("oort", "random"), seeds=2):
    return ordered([example_run(name, seed, k=k) for k in values for name in names for seed in range(seeds)])


def body(path):
    return re.sub(r"<script.*</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def rows_of(specification):
    (rows,) = specification["datasets"].values()
    return rows


@pytest.fixture
def _no_files(monkeypatch):
    monkeypatch.setattr("enlist.report.page.save", lambda chart, stem, suffixes: [])


def test_a_page_of_runs_that_differ_in_a_key(tmp_path):
    page = write_report(made(), tmp_path, "Two <ks>", target=0.6)
    text = body(page)
    assert re.findall(r"<h2>(.*?)</h2>", text) == ["Results", "What the values change", "Learning curves"]
    assert "2 configurations, 2 selectors, 2 seeds each: 12 clients, 3 to 6 of them selected in a round" in text
    assert "<th>k</th><th>selector</th>" in text
    assert text.count("<td>oort</td>") == 2
    assert "Beware" not in text
    stems = {path.stem for path in (tmp_path / "charts").iterdir()}
    assert stems == {"final", "speed-up", "time", "rounds"}
    scores = json.loads((tmp_path / "scores.json").read_text(), parse_constant=pytest.fail)
    assert [(row["k"], row["selector"]) for row in scores] == [(3, "oort"), (3, "random"), (6, "oort"), (6, "random")]


@pytest.mark.usefixtures("_no_files")
def test_runs_that_differ_in_method_and_seed_only_have_the_page_of_a_comparison(tmp_path):
    text = body(write_report(made((4,)), tmp_path))
    assert re.findall(r"<h2>(.*?)</h2>", text)[:3] == ["Results", "Learning curves", "Who was selected"]


def test_a_panel_per_group_and_at_most_five_methods():
    names = ("random", "oort", "fedcs", "a", "b", "c", "d")
    groups = grouped(made(range(2, 9), names, seeds=1))
    rows = group_rows(groups)
    assert len(shown_methods(rows)) == 5
    assert "random" in shown_methods(rows)
    chart = group_curves(groups, rows).to_dict()
    assert chart["facet"]["sort"] == [f"k = {k}" for k in range(2, 9)]
    drawn = {row["selector"] for row in rows_of(chart)}
    assert drawn == set(shown_methods(rows))
    many = grouped(made(range(1, 12), seeds=1) + [example_run(k=k, rounds=9) for k in range(1, 4)])
    assert len(group_curves(many, group_rows(many)).to_dict()["facet"]["sort"]) == PANELS


def test_a_grid_has_an_axis_and_panels_and_loose_points_have_places():
    runs = [example_run(k=k, rounds=rounds) for k in (2, 3, 4) for rounds in (6, 8)]
    groups = grouped(runs)
    chart = trend_chart(groups, group_rows(groups), "final", "t").to_dict()
    assert chart["facet"]["sort"] == ["rounds = 6", "rounds = 8"]
    assert {row["place"] for row in rows_of(chart)} == {"2", "3", "4"}
    loose = grouped(runs[:3])
    chart = trend_chart(loose, group_rows(loose), "final", "t").to_dict()
    assert "facet" not in chart
    assert {row["place"] for row in rows_of(chart)} == {
        "rounds = 6, k = 2",
        "rounds = 6, k = 3",
        "rounds = 8, k = 2",
    }


def test_an_accuracy_has_no_interval_beyond_one():
    groups = grouped(made((3, 6), seeds=2))
    values = rows_of(trend_chart(groups, group_rows(groups), "final", "t").to_dict())
    assert all(0 <= row["low"] <= row["mean"] <= row["high"] <= 1 for row in values)


@pytest.mark.usefixtures("_no_files")
def test_runs_that_know_little_and_regressions(tmp_path):
    def blind(run, *names):
        return dataclasses.replace(run, rounds={**run.rounds, **{name: np.full(8, math.nan) for name in names}})

    unknown = write_report([blind(run, "accuracy", "loss") for run in made()], tmp_path / "a")
    assert "Nothing was evaluated." in body(unknown)
    assert "Learning curves" not in body(unknown)
    assert "final loss" in body(write_report([blind(run, "accuracy") for run in made()], tmp_path / "b"))
    mixed = [blind(run, "accuracy") if run.config["k"] == 3 else run for run in made()]
    assert "final figure" in body(write_report(mixed, tmp_path / "c"))


def test_what_is_said_of_a_sweep():
    row = {"measure": "accuracy", "final": 0.8, "baseline": "random", "k": 5, "speed_up_bound": ""}
    fast = {**row, "selector": "oort", "speed_up_low": 1.2, "speed_up_high": 2.0}
    slow = {**row, "selector": "oort", "k": 9, "speed_up_low": 0.2, "speed_up_high": 0.9}
    same = [{**row, "selector": name, "speed_up_low": 0.5, "speed_up_high": 2.0} for name in "abcdefg"]
    bound = {**row, "selector": "h", "speed_up_low": 1.2, "speed_up_high": 2.0, "speed_up_bound": "<="}
    text = sentences.sweep([fast, slow, *same, bound], ["k"])
    assert "oort is faster in 1 and slower in 1 of 2 configurations." in text
    assert text.endswith("In no configuration do these seeds distinguish random from a, b, c, d, e and 3 more.")


@pytest.mark.usefixtures("_no_files")
def test_the_command_groups_any_folders(tmp_path, monkeypatch):
    for run in made():
        write_run(run, tmp_path / f"{run.config['k']}-{run.selector}-{run.seed}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    app = typer.Typer()
    app.command()(report)
    done = CliRunner().invoke(app, [".", "--target", "0.6"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 configurations, 2 selectors, 2 seeds each: 12 clients, 3 to 6 of them selected")
    rows = [line.split()[:2] for line in lines if line.startswith(("  3 ", "  6 "))]
    assert rows == [["3", "oort"], ["3", "random"], ["6", "oort"], ["6", "random"]]
    assert "Beware" not in done.stdout
