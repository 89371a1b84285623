"""`enlist describe`: what it prints and what it writes."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pandas
import pytest
import typer
from typer.testing import CliRunner

from enlist.cli import console
from enlist.cli.describe import (
    charts,
    client_tables,
    describe,
    described,
    dominant,
    input_line,
    online_lines,
    online_shares,
    too_wide,
)
from enlist.errors import InputError, MissingExtraError
from enlist.simulation.config import Config, parse

DARTS = """
seed = 3
[data]
dataset = "digits"
clients = 12
partition = { kind = "dirichlet", alpha = 0.05 }
[availability]
kind = "diurnal"
[model]
name = "logistic"
"""
CHARTS = [
    "availability",
    "class-bars",
    "class-heatmap",
    "class-pies",
    "devices",
    "distance",
    "entropy",
    "latency",
    "sizes",
]


def called(*arguments):
    one = typer.Typer()
    one.command()(describe)
    result = CliRunner().invoke(one, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def population(**data):
    return described(Config(data={"clients": 12, **data}, model="linear", seed=3))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("describe")
    (folder / "darts.toml").write_text(DARTS)
    return folder / "out", called(folder / "darts.toml", "--output", folder / "out")


def test_everything_is_written(done):
    folder, output = done
    assert sorted(path.name for path in folder.iterdir()) == ["charts", "clients.csv", "config.json", "report.html"]
    names = sorted(path.name for path in (folder / "charts").iterdir())
    assert names == sorted(f"{name}{suffix}" for name in CHARTS for suffix in (".png", ".svg"))
    assert all(path.stat().st_size > 1000 for path in (folder / "charts").iterdir())
    assert output.rstrip().endswith(f"report: {folder / 'report.html'}")


def test_clients_csv_holds_every_client_and_adds_up(done):
    folder, _ = done
    with open(folder / "clients.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    people, columns, description = described(parse(json.loads((folder / "config.json").read_text()), "config.json"))
    assert [int(row["client"]) for row in rows] == list(range(12))
    assert sum(int(row["num_examples"]) for row in rows) == description.samples
    for row, counts in zip(rows, people.counts, strict=True):
        assert [int(row[f"class_{label}"]) for label in range(10)] == counts.tolist()
        assert int(row["num_examples"]) == counts.sum()
    assert [float(row["expected_latency"]) for row in rows] == columns["expected_latency"].tolist()


def test_the_terminal_shows_the_description_and_every_count(done):
    folder, output = done
    people, _, description = described(parse(json.loads((folder / "config.json").read_text()), "config.json"))
    assert f"mean entropy {description.entropy:.3f}" in output
    assert f"mean {description.distance:.3f}" in output
    lines = output.splitlines()
    for client in range(12):
        counts = [f"{count:,}" if count else "·" for count in people.counts[client].tolist()]
        expected = [str(client), f"{people.sizes[client]:,}", *counts]
        assert any(line.split()[:12] == expected for line in lines), client
    assert re.search(r"online over a day +mean \d+ %, from \d+ % at \d\d:\d\d to \d+ % at \d\d:\d\d", output)
    assert re.search(r"expected latency +median .* s", output)


def test_the_page_opens_offline_and_holds_every_chart(done):
    page = (done[0] / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"""(?:\bsrc|\bhref)\s*=\s*["']?\s*(?:https?:)?//""", page, re.IGNORECASE)
    assert page.count('<div id="chart') == len(CHARTS)
    for heading in ("In numbers", "Classes", "Sizes and skew", "Clients", "Devices and availability"):
        assert f"<h2>{heading}</h2>" in page


def test_inputs_are_counted_and_named():
    people = population()[0]
    assert input_line(people) == ("inputs", "64 (1 x 8 x 8)")
    arrays = {"x": np.zeros((40, 14)), "y": [0, 1] * 20}
    table = pandas.DataFrame(arrays["x"], columns=[f"c{k}" for k in range(14)]).assign(label=arrays["y"])
    for given, end in ((arrays, "14"), (table, "14 (c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 and 2 more)")):
        assert input_line(population(dataset=given, partition="iid")[0]) == ("inputs", end)


def test_many_clients_have_a_heat_map_and_no_rows_of_their_own(tmp_path):
    (tmp_path / "many.toml").write_text(DARTS)
    output = called(
        tmp_path / "many.toml", "--set", "data.clients=90", "--set", "availability=always", "--output", tmp_path / "out"
    )
    names = {path.stem for path in (tmp_path / "out" / "charts").iterdir()}
    assert names == set(CHARTS) - {"class-bars", "class-pies", "availability"}
    assert "Samples of each class" not in output
    assert "all clients, all day" in output
    assert "<h2>Clients</h2>" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_folder_under_runs_is_taken_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(DARTS)
    monkeypatch.setattr("enlist.cli.describe.charts", lambda *_: {"a": {}, "b": {}, "c": {}})
    assert called("a.toml").rstrip().endswith("report: runs/describe-001/report.html")
    assert called("a.toml").rstrip().endswith("report: runs/describe-002/report.html")


def test_a_folder_in_use_is_refused(done):
    with pytest.raises(InputError, match="not empty"):
        called(done[0].parent / "darts.toml", "--output", done[0])


def test_a_wrong_key_leaves_no_folder(done, tmp_path):
    with pytest.raises(InputError, match="Did you mean 'alpha'"):
        called(done[0].parent / "darts.toml", "--set", "data.partition.alhpa=1", "--output", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_extra_is_named_where_it_is_missing(done, monkeypatch):
    monkeypatch.setattr(console.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"'enlist describe' needs the extra 'sim'"):
        called(done[0].parent / "darts.toml")


def test_dominant_classes_by_hand():
    people, columns, _ = population()
    people.counts[0] = [60, 0, 21, 0, 0, 0, 0, 10, 9, 0]
    people.offsets = np.concatenate([[0], people.counts.sum(axis=1).cumsum()])
    assert dominant(people, columns)[1][:3] == ["0", "100", "0 (60 %), 2 (21 %), 7 (10 %)"]
    people.counts[0] = [10] * 10
    assert dominant(people, columns)[1][2] == "0 (10 %), 1 (10 %), 2 (10 %)"


def test_narrow_terminals_leave_out_columns():
    rows = [["client", "one", "two"], ["0", "12345", "1"]]
    assert too_wide(rows, ("two", "one"), 24) == ()
    assert too_wide(rows, ("two", "one"), 23) == ("two",)
    assert too_wide(rows, ("two", "one"), 17) == ("two", "one")
    assert too_wide(rows, ("two", "one"), 9) is None


def test_long_names_of_classes_give_way_to_numbers_with_a_legend():
    people, columns, _ = population()
    people.class_names = tuple(f"a kind of thing {number}" for number in range(10))
    shown, legend = client_tables(people, columns, 120)
    assert [column.header for column in shown.columns][2:5] == ["0", "1", "2"]
    assert "9 a kind of thing 9" in legend
    narrow, missing = client_tables(people, columns, 50)
    assert str(missing).startswith("4 columns not shown: online, expected latency, distance, entropy; see the report")
    assert [column.header for column in narrow.columns] == ["client", "samples", "most frequent classes"]


def test_a_regression_is_described_by_tenths_of_its_targets():
    people, columns, _ = population(dataset={"name": "linear-regression", "samples": 500})
    shown = client_tables(people, columns, 120)[0]
    assert "tenths of all targets" in shown.title
    assert [column.header for column in shown.columns][2:12] == [str(number) for number in range(1, 11)]
    assert list(charts(people, columns)["Classes"]) == ["class-bars", "class-pies", "class-heatmap"]


def test_the_share_online_is_that_of_the_availability():
    people, _, _ = described(Config(data={"clients": 12}, availability="bernoulli", model="logistic"))
    moments, shares = online_shares(people)
    assert (moments[0], moments[-1], len(moments)) == (0.0, 86_400.0, 97)
    assert shares[3] == people.availability.online(2700.0).mean()
    found = dict(online_lines(people))["online over a day"]
    assert found.startswith(f"mean {100 * shares[:-1].mean():.0f} %, from {100 * shares.min():.0f} %")
