"""`enlist profile`: what it prints and what it writes."""

from __future__ import annotations

import csv
import re

import pytest
import typer
from typer.testing import CliRunner

from enlist.cli import console
from enlist.cli.profile import by_client, profile, table, whom
from enlist.errors import InputError, MissingExtraError
from enlist.report.profile import profile_charts
from enlist.simulation.config import Config
from enlist.simulation.profile import profile as profiled
from enlist.simulation.profile import scores

SMALL = """
[data]
clients = 4
partition = "iid"
[model]
name = "mlp"
hidden = [8]
"""
CHARTS = [
    "accuracy", "memory", "memory-deviation", "score", "time-deviation", "time-per-batch", "time-per-client",
    "time-per-sample",
]  # fmt: skip


def called(*arguments):
    one = typer.Typer()
    one.command()(profile)
    result = CliRunner().invoke(one, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    (folder / "small.toml").write_text(SMALL)
    options = ["--batch-sizes", "8,16,64", "--rounds", "2", "--weights", "1,2,1", "--output", folder / "out"]
    return folder / "out", called(folder / "small.toml", *options)


@pytest.fixture(scope="module")
def result():
    return profiled(Config(data={"clients": 3, "partition": "iid"}, model="logistic"), [8, 32], rounds=1)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_everything_is_written(done):
    folder, output = done
    names = ["charts", "config.json", "measurements.csv", "profile.csv", "report.html"]
    assert sorted(path.name for path in folder.iterdir()) == names
    drawn = sorted(path.name for path in (folder / "charts").iterdir())
    assert drawn == sorted(f"{name}{suffix}" for name in CHARTS for suffix in (".png", ".svg"))
    assert all(path.stat().st_size > 1000 for path in (folder / "charts").iterdir())
    assert output.rstrip().endswith(f"report: {folder / 'report.html'}")


def test_the_tables_agree_with_each_other(done):
    folder, _ = done
    batches, ones = rows_of(folder / "profile.csv"), rows_of(folder / "measurements.csv")
    assert [row["batch"] for row in batches] == ["8", "16", "64"]
    assert len(ones) == 12
    for row in batches:
        own = [one for one in ones if one["batch"] == row["batch"]]
        accuracies = [float(one["accuracy"]) for one in own]
        assert float(row["accuracy"]) == pytest.approx(sum(accuracies) / 4)
        assert float(row["memory"]) == pytest.approx(sum(float(one["memory"]) for one in own) / 4)
        seconds, samples = (sum(float(one[name]) for one in own) for name in ("seconds", "samples"))
        assert float(row["per_sample"]) == pytest.approx(seconds / samples)


def test_the_choice_is_printed_with_its_rule(done):
    folder, output = done
    batches = rows_of(folder / "profile.csv")
    totals = {
        row["batch"]: sum(float(row[f"{name}_score"]) for name in ("time", "memory", "accuracy")) for row in batches
    }
    best = min(totals, key=lambda batch: (round(totals[batch], 9), int(batch)))
    assert f"batch size {best} is chosen" in output
    assert re.search(rf"^  {best} ← ", output, re.MULTILINE)
    assert "here 1,2,1" in output
    assert "measured on this machine" in output


def test_the_page_opens_offline_and_says_what_was_measured_where(done):
    page = (done[0] / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"""(?:\bsrc|\bhref)\s*=\s*["']?\s*(?:https?:)?//""", page, re.IGNORECASE)
    assert page.count('<div id="chart') == len(CHARTS)
    assert "measured on this machine" in page
    assert "counted, not measured" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--batch-sizes", "8,x"], "--batch-sizes is '8,x'; give whole numbers separated by commas"),
        (["--batch-sizes", "8.5"], "--batch-sizes is '8.5'"),
        (["--batch-sizes", "0"], "batch size is 0"),
        (["--weights", "1,1"], "weights has 2 numbers"),
        (["--weights", "0,0,0"], "weights are all 0"),
        (["--weights", "a,b,c"], "--weights is 'a,b,c'"),
        (["--rounds", "0"], "rounds is 0"),
    ],
)
def test_bad_options_leave_no_folder(done, tmp_path, options, words):
    with pytest.raises(InputError, match=re.escape(words)):
        called(done[0].parent / "small.toml", *options, "--output", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_extra_is_named_where_it_is_missing(done, monkeypatch):
    monkeypatch.setattr(console.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"'enlist profile' needs the extra 'sim'"):
        called(done[0].parent / "small.toml")


def test_the_table_of_clients(result):
    rows = by_client(result)
    assert rows[0] == ["client", "samples", "batch 8", "batch 32"]
    assert [row[0] for row in rows[1:]] == ["0", "1", "2"]
    first = result.measurements[0]
    assert rows[1][1:3] == [str(first.samples), f"{100 * first.accuracy:.1f} %"]
    assert whom(result) == "3 clients"


def test_a_regression_shows_losses():
    data = {"dataset": {"name": "linear-regression", "samples": 200}, "clients": 2, "partition": "iid"}
    found = profiled(Config(data=data, model="linear"), [8, 32], rounds=1)
    parts = scores(found.rows)
    shown = table(found, parts)
    assert "loss" in shown[0]
    assert "accuracy" not in shown[0]
    assert "nan" not in str(shown)
    assert "nan" not in str(by_client(found))
    drawn = profile_charts(found, parts)
    assert sorted(drawn) == CHARTS
    assert drawn["accuracy"].to_dict()["title"].startswith("Loss")


def test_the_scores_that_are_drawn_are_those_of_the_rule(result):
    parts = scores(result.rows, (1, 1, 1))
    chart = profile_charts(result, parts)["score"].to_dict()
    bars, words = (chart["datasets"][layer["data"]["name"]] for layer in chart["layer"])
    drawn = {(row["batch"], row["part"]): row["score"] for row in bars}
    assert [drawn[8, name] for name in ("time", "memory", "accuracy")] == parts[0].tolist()
    marked = [row["batch"] for row in words if row["text"]]
    assert marked == [result.best]
