"""How comparisons, sweeps, ladders and studies are shown: true before, while and after they run, and when damaged."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import re
import time
from pathlib import Path

import pytest

from enlist.runs.example import example_run, write_run
from enlist.studies import writing
from enlist.studies.example import COINS
from enlist.studies.running import Reproduction
from enlist.ui.catalogue import Catalogue
from enlist.ui.groups import group_status
from enlist.ui.status import RunSummary, Status
from enlist.ui.views.study import markdown_table, section
from tests.ui.ui_helpers import SAVED, Server, comparison, unfinished

STUDIES = sorted((Path(__file__).parents[2] / "docs" / "studies").glob("*/verdict.md"))


def rows_of(place):
    with Server(place) as client:
        return {row["id"]: row for row in client.get("/data/runs").json()["rows"]}


def old(place, seconds=3_600):
    """As if it had been written long ago."""
    then = time.time() - seconds
    for path in place.rglob("*"):
        os.utime(path, (then, then))


def study(place, scale="laptop"):
    with Reproduction.open(COINS, COINS.scale(scale), place) as work:
        work.run()
        writing.write(work, "enlist reproduce coins", jobs=1)
    return place


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_the_table_of_a_study_is_that_of_its_claims(path):
    text = path.read_text()
    table = markdown_table(section(text))
    number = int(re.search(r"^## (\d+) claims", text, re.MULTILINE).group(1))
    assert table[0][0] == "claim"
    assert table[0][-1] == "verdict"
    assert len(table) == number + 1
    assert [row[0] for row in table[1:]] == [
        line.removeprefix("### ").rpartition(": ")[0].replace("\\|", "|")
        for line in text.splitlines()
        if line.startswith("### ")
    ]


def test_a_study_shows_claims_figures_and_its_report(tmp_path):
    study(tmp_path / "lab" / "coins")
    with Server(tmp_path / "lab") as client:
        row = client.get("/data/runs").json()["rows"][0]
        assert (row["kind"], row["state"], row["progress"]) == ("study", "finished", 1.0)
        found = client.get("/data/study/lab/coins").json()
        claims, figures, setting = found["parts"][:3]
        assert re.match(r"1 claim: ", claims["heading"])
        assert claims["table"]["columns"] == ["claim", "verdict", "in the paper", "here, with its 95 % interval"]
        told = list(csv.reader(io.StringIO(client.get("/table/claims/study/lab/coins").text)))
        assert told == [claims["table"]["columns"], *claims["table"]["rows"]]
        assert (setting["heading"], setting["table"]["columns"][0]) == ("What was run", "what")
        picture = figures["pictures"][0]
        assert client.get(picture["to"]).content.startswith(b"\x89PNG")
        drawing = client.get(picture["svg"])
        assert drawing.content.startswith(b"<svg")
        assert drawing.headers["content-disposition"].startswith("attachment")  # it is never shown: it may hold scripts
        assert found["links"] == [{"text": "Its report", "to": "/report/study/lab/coins"}]
        report = client.get("/report/study/lab/coins")
        assert report.text == (tmp_path / "lab" / "coins" / "report.html").read_text()
        assert report.headers["content-disposition"].startswith("attachment")


def test_a_published_study_is_shown_without_its_experiments(tmp_path):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "darts").symlink_to(STUDIES[0].parent)  # links are not followed
    assert rows_of(tmp_path / "lab") == {}
    with Server(STUDIES[0].parents[1]) as client:
        found = client.get("/data/study/studies/darts").json()
        assert found["state"]["state"] == "finished"
        assert found["parts"][0]["heading"].startswith("16 claims: ")
        assert client.get("/report/study/studies/darts").status_code == 404
        assert "at the end" in client.get("/report/study/studies/darts").json()["error"]


def test_a_comparison_with_runs_that_have_not_begun_is_not_finished(tmp_path):
    place = tmp_path / "lab" / "compared"
    comparison(place, ("oort", "random"), seeds=1)
    header = json.loads((place / "comparison.json").read_text())
    (place / "comparison.json").write_text(json.dumps({**header, "selectors": ["oort", "random", "bsfl"], "seeds": 4}))
    old(tmp_path)
    row = rows_of(tmp_path / "lab")["lab/compared"]
    assert (row["state"], row["done"], row["planned"]) == ("stalled", 2, 12)
    assert row["progress"] == pytest.approx(2 / 12)
    assert "2 of 12 runs are finished" in row["why"]
    with Server(tmp_path / "lab") as client:
        view = client.get("/data/compare?of=lab/compared").json()
        assert (view["state"]["state"], view["state"]["why"]) == (row["state"], row["why"])
        both = client.get("/data/compare?of=lab/compared&method=oort").json()
        assert both["state"]["state"] == "finished"  # of those that are shown


def test_a_comparison_that_has_just_begun_waits_and_later_has_stalled(tmp_path):
    place = tmp_path / "lab" / "compared"
    place.mkdir(parents=True)
    (place / "comparison.json").write_text(json.dumps({"selectors": ["oort"], "seeds": 3}))
    old(tmp_path, -600)  # written just now, however slow this machine is
    assert rows_of(tmp_path / "lab")["lab/compared"]["state"] == "waiting"
    write_run(example_run("oort"), place / "runs" / "oort" / "0")
    old(tmp_path, -600)
    assert rows_of(tmp_path / "lab")["lab/compared"]["state"] == "running"  # between two runs
    old(tmp_path)
    assert rows_of(tmp_path / "lab")["lab/compared"]["state"] == "stalled"


def test_time_left_counts_runs_that_have_not_begun():
    def run(state, progress, left=None):
        return RunSummary(None, Status(state, 0.0, progress=progress, left=left))

    one = [run("finished", 1.0), run("finished", 1.0), run("running", 0.5, 8.0)]
    # A sixteenth of a run is done per second; 9 whole runs and half a run are left.
    assert group_status(one, expected=12).left == pytest.approx(9.5 * 16)
    two = [*one, run("running", 0.0), run("running", 0.5, 8.0)]
    # The one that has no pace yet is counted among what is left: 7 + 1 + 2 halves, an eighth of a run per second.
    assert group_status(two, expected=12).left == pytest.approx(9 * 8)
    # The longest of those that run is the least.
    assert group_status([run("running", 0.9, 1.0), run("running", 0.1, 90.0)]).left == pytest.approx(90.0)
    # Nobody does those again that failed.
    assert group_status([run("running", 0.5, 8.0), run("failed", 0.1)], ["no memory"], 3).left == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("name", "content"),
    [("comparison.json", "{"), ("comparison.json", '{"selectors": "oort", "seeds": 1}'), ("comparison.json", "[]")],
)
def test_a_damaged_header_is_shown_as_such_and_hides_nothing(tmp_path, name, content):
    comparison(tmp_path / "lab" / "compared")
    (tmp_path / "lab" / "compared" / name).write_text(content)
    rows = rows_of(tmp_path / "lab")
    assert rows["lab/compared"]["state"] == "damaged"
    assert name in rows["lab/compared"]["why"]
    assert str(tmp_path) not in rows["lab/compared"]["why"]
    assert rows["lab/compared/runs/oort/0"]["state"] == "finished"
    with Server(tmp_path / "lab") as client:
        view = client.get("/data/compare?of=lab/compared").json()
        assert view["state"]["state"] == "damaged"
        assert len(view["parts"][0]["table"]["rows"]) == 2


def test_a_sweep_counts_the_runs_of_all_its_points(tmp_path):
    place = tmp_path / "lab" / "swept"
    for point in ("k=3", "k=5"):
        comparison(place / point)
    (place / "sweep.json").write_text(json.dumps({"keys": ["rounds.k"], "points": [{}, {}, {}]}))
    old(tmp_path)
    row = rows_of(tmp_path / "lab")["lab/swept"]
    assert (row["state"], row["done"], row["planned"]) == ("stalled", 8, 12)  # the third point has no folder
    (place / "sweep.json").write_text(json.dumps({"keys": ["rounds.k"], "points": [{}, {}]}))
    assert rows_of(tmp_path / "lab")["lab/swept"]["state"] == "finished"
    (place / "k=5" / "comparison.json").write_text("{")
    assert rows_of(tmp_path / "lab")["lab/swept"]["state"] == "damaged"


def ladder(place, rungs=("silos", "phones"), seeds=2):
    place.mkdir(parents=True)
    (place / "ladder.json").write_text('{"version": 1, "seeds": "development"}')
    for rung in rungs:
        comparison(place / rung, seeds=seeds)
    return place


def test_a_ladder_while_it_runs_and_its_report(tmp_path):
    place = ladder(tmp_path / "lab" / "ladder")
    going = place / "phones" / "runs" / "oort" / "1"
    for path in going.iterdir():
        path.unlink()
    unfinished(going, "oort", 1, rounds=4, of=8)
    with (going / "lock").open("w") as lock, Server(tmp_path / "lab") as client:
        fcntl.flock(lock, fcntl.LOCK_EX)
        row = next(row for row in client.get("/data/runs").json()["rows"] if row["id"] == "lab/ladder")
        assert (row["state"], row["done"], row["planned"]) == ("running", 7, 8)
        assert row["progress"] == pytest.approx(7.5 / 8)
        found = client.get("/data/ladder/lab/ladder").json()
        assert (found["state"]["state"], found["state"]["progress"]) == ("running", row["progress"])
        assert {each["name"]: each["value"] for each in found["figures"]}["runs"] == "7 of 8 finished"
        standings = found["parts"][0]
        assert {row[1] if row[0].isdigit() else row[0] for row in standings["table"]["rows"]} >= {"oort", "random"}
        rungs = next(part for part in found["parts"] if part["heading"] == "Rungs")["table"]
        assert [row[1:] for row in rungs["rows"]] == [["3", "1", "0"], ["4", "0", "0"]]
        for name in ("heat-map", "ranks", "profile"):
            assert "spec" in client.get(f"/chart/{name}/ladder/lab/ladder").json(), name
        report = client.get("/report/ladder/lab/ladder")
        assert report.status_code == 200
        assert "vegaEmbed" in report.text
        assert "oort" in report.text


def test_a_ladder_whose_results_are_damaged(tmp_path):
    place = tmp_path / "lab" / "ladder"
    place.mkdir(parents=True)
    (place / "ladder.json").write_text('{"version": 1, "seeds": "development"}')
    (place / "results.csv").write_text("rung,selector\nsilos\n")
    row = rows_of(tmp_path / "lab")["lab/ladder"]
    assert row["state"] == "damaged"
    assert "results.csv" in row["why"]
    (place / "results.csv").write_text("rung,selector,seed\nsilos,random,0\n")
    assert rows_of(tmp_path / "lab")["lab/ladder"]["state"] == "finished"
    (place / "ladder.json").write_text("{")
    assert rows_of(tmp_path / "lab")["lab/ladder"]["state"] == "damaged"


def test_a_study_that_runs_has_stalled_or_is_damaged(tmp_path):
    place = tmp_path / "lab" / "coins"
    with Reproduction.open(COINS, COINS.scale("laptop"), place) as work:
        work.run()
    row = rows_of(tmp_path / "lab")["lab/coins"]
    assert (row["state"], "--resume" in row["why"]) == ("stalled", True)
    with (place / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert rows_of(tmp_path / "lab")["lab/coins"]["state"] == "running"
    (place / "config.json").write_text("{")
    row = rows_of(tmp_path / "lab")["lab/coins"]
    assert (row["kind"], row["state"], "config.json" in row["why"]) == ("study", "damaged", True)
    with Server(tmp_path / "lab") as client:
        found = client.get("/data/study/lab/coins").json()
        assert found["state"]["state"] == "damaged"
        assert str(tmp_path) not in json.dumps(found)


def test_viewers_of_a_study_hear_of_its_experiments(tmp_path):
    place = tmp_path / "lab" / "coins"
    with Reproduction.open(COINS, COINS.scale("smoke"), place):
        pass
    catalogue = Catalogue([tmp_path / "lab"])
    catalogue.refresh()
    folder = place / "experiments" / "fair" / "0"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    catalogue._scanned = -1e9
    assert catalogue.refresh() == {"lab/coins"}
    assert catalogue.groups["lab/coins"].done == 1


def test_a_study_of_an_earlier_version_has_stalled():
    row = rows_of(SAVED)["0.1/study"]
    assert (row["kind"], row["state"]) == ("study", "stalled")


def test_accuracies_are_sorted_by_what_is_shown(tmp_path):
    # The last evaluation and the mean of the last three put these in opposite orders.
    for name, ends in (("rises", (0.2, 0.2, 0.9)), ("falls", (0.9, 0.9, 0.8))):
        run = example_run(name, rounds=6)
        values = run.rounds["accuracy"].copy()
        values[1::2] = ends
        run.rounds["accuracy"] = values
        write_run(run, tmp_path / "lab" / name)
    with Server(tmp_path / "lab") as client:
        found = client.get("/data/runs?sort=last&down=1").json()["rows"]
        assert [(row["method"], row["last"]) for row in found] == [("rises", 0.9), ("falls", 0.8)]
        assert found[0]["final"] < found[1]["final"]
        script = client.get("/pages/runs.js").text
        assert "['last', 'accuracy']" in script
