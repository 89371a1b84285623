"""Known results: whom they show beside what was run, what they are measured by, and that they are marked everywhere."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.ladder import Leaderboard, known, known_results, ladder, read, rungs
from enlist.ladder import rung as rung_module
from enlist.ladder.charts import heat_map, profile_chart, rank_chart
from enlist.ladder.results import COLUMNS, read_results, write_results
from enlist.selectors.random import Random

SMALL = """
[rung]
hard = "Small."
[data]
clients = 8
[model]
name = "mlp"
hidden = [6]
[rounds]
rounds = 4
k = 3
seconds = 1000.0
[evaluation]
every = 1
"""


def row(selector: str, rung: str = "silos", seed: int = 0, **values: Any) -> dict[str, Any]:
    common = {"rung": rung, "selector": selector, "seed": seed, "data": "fashion-mnist", "target": 0.7, "reached": 1}
    common |= {"seconds": 100.0, "rounds": 50, "final": 0.8, "wasted": 0.1, "worst_tenth": math.nan, "server_ms": 0.5}
    return {**common, **values}


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("server_ms", "worst_tenth")} for row in rows]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with the rung small, of which random, oort and bsfl are known with both seeds; returns its folder."""
    (tmp_path / "rungs").mkdir()
    (tmp_path / "rungs" / "small.toml").write_text(SMALL)
    monkeypatch.setattr(rung_module, "FOLDER", tmp_path / "rungs")
    monkeypatch.setattr(rung_module, "NAMES", ("small",))
    monkeypatch.setattr("enlist.ladder.leaderboard.NAMES", ("small",))
    monkeypatch.setattr("enlist.ladder.leaderboard.FOLDER", tmp_path / "rungs")
    monkeypatch.setattr(known, "FOLDER", tmp_path / "known")
    board = ladder("oort,bsfl", "small", seeds=2)
    (tmp_path / "known").mkdir()
    write_results(board.results, tmp_path / "known" / "development.csv", digits=known.DIGITS)
    (tmp_path / "known" / "ladder.json").write_text('{"version": 1}')
    return tmp_path / "known"


def test_a_known_method_is_measured_by_its_own_random() -> None:
    there = [row("random", seconds=80.0), row("fast", seconds=40.0)]
    board = Leaderboard([row("random"), row("mine", seconds=50.0)], known=there)
    scores = {each["selector"]: (each["speed_up"], each["known"]) for each in board.standings}
    assert scores == {"random": (1.0, 0), "mine": (2.0, 0), "fast": (2.0, 1)}  # not 100 / 40
    assert "differently here in 1 of 1 runs" in board.footnote
    close = Leaderboard([row("random"), row("mine")], known=[row("random", seconds=100.0004), *there[1:]])
    assert "differently" not in close.footnote
    assert "fast *" in repr(close)


def test_only_what_can_be_compared_is_shown() -> None:
    here = [row("random"), row("random", "users"), row("random", "drift", data="digits"), row("mine", seconds=50.0)]
    base = [row("random"), row("random", seed=1), row("random", "drift"), row("random", "crowd")]
    fitting, run_here = row("oort"), row("mine", seconds=1.0)
    others = [row("oort", seed=1), row("oort", "drift"), row("oort", "crowd"), row("oort", "users")]
    board = Leaderboard(here, known=[*base, fitting, run_here, *others])
    assert board.known == [fitting]  # not another seed, data set or rung, nor without a random of its own
    assert board.known_labels == {"oort"}
    assert [each["speed_up"] for each in board.rows if each["selector"] == "mine"] == [2.0]
    assert "2 methods run here and 1 known, 3 rungs" in board.title
    assert [each["rungs"] for each in board.standings if each["selector"] == "oort"] == [1]


def test_known_methods_are_marked_in_tables_charts_page_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enlist.report.page.save", lambda *chart: None)
    board = Leaderboard([row("random"), row("mine")], known=[row("random"), row("oort", seconds=40.0)])
    assert [line[0] for line in board.lines()[1:]] == ["oort *", "random", "mine"]
    for chart in (heat_map(board), rank_chart(board), profile_chart(board)):
        assert '"oort *"' in json.dumps(chart.to_dict())
    page = board.report(tmp_path).read_text()
    assert "oort *" in page
    assert "* known: comes with the package" in page
    assert "oort (known) is first" in page
    assert "oort *" in board.markdown()
    with board.write(tmp_path).open() as file:
        assert {each["selector"]: each["known"] for each in csv.DictReader(file)} == {
            "random": "0",
            "mine": "0",
            "oort": "1",
        }
    assert {each["selector"] for each in read_results(tmp_path / "results.csv")} == {"random", "mine"}
    alone = Leaderboard([row("random")])
    assert not alone.footnote
    assert "*" not in repr(alone)


def test_whoever_is_not_run_is_known(small: Path) -> None:
    board = ladder("afl", "small", seeds=1)
    assert set(board.labels) == {"random", "afl", "oort", "bsfl"}
    assert board.known_labels == {"oort", "bsfl"}
    assert {each["seed"] for each in board.known} == {0}  # the second seed was not asked for
    assert "differently" not in board.footnote
    asked = ladder("oort", "small", seeds=1)
    assert asked.known_labels == {"bsfl"}  # who is named is run
    assert {each["selector"] for each in asked.results} == {"random", "oort"}
    run = {each["selector"]: each for each in asked.standings}["oort"]
    told = {each["selector"]: each for each in board.standings}["oort"]
    assert told["speed_up"] == pytest.approx(run["speed_up"], rel=1e-5)
    alone = ladder("afl", "small", seeds=1, known=False)
    assert set(alone.labels) == {"random", "afl"}


def test_interrupted_and_continued_by_two_processes_it_shows_the_same(small: Path, tmp_path: Path) -> None:
    whole, folder, ended = ladder("afl,e3cs", "small", seeds=2), tmp_path / "ladder", []

    def kill(rung: str, label: str, seed: int, state: dict[str, Any]) -> None:
        if state["status"] == "finished":
            ended.append(label)
            if len(ended) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ladder("afl,e3cs", "small", seeds=2, folder=folder, tick=kill)
    again = ladder("afl,e3cs", "small", seeds=2, folder=folder, jobs=2)
    assert without_times(again.results) == without_times(whole.results)
    assert without_times(again.known) == without_times(whole.known)
    assert len(again.known) == 4
    assert again.known_labels == {"oort", "bsfl"}
    assert read(folder).lines() == again.lines()
    assert set(read(folder, known=False).labels) == {"random", "afl", "e3cs"}
    more = ladder("afl,oort", "small", seeds=2, folder=folder)  # a known one is run after all
    assert more.known_labels == {"bsfl"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_known_runs_do_not_become_runs_of_a_folder(small: Path, tmp_path: Path, jobs: int) -> None:
    ladder("afl", "small", seeds=1, folder=tmp_path / "ladder", jobs=jobs)
    assert sorted(path.name for path in (tmp_path / "ladder" / "small" / "runs").iterdir()) == ["afl", "random"]


def test_a_changed_rung_of_the_same_name_knows_nobody(small: Path, tmp_path: Path) -> None:
    [rung] = rungs("small")
    assert ladder("afl", [rung], seeds=1).known
    changed = dataclasses.replace(rung, config=rung.config.replace("rounds.k=2"))
    assert not ladder("afl", [changed], seeds=1, folder=tmp_path / "ladder").known
    assert not read(tmp_path / "ladder").known
    ladder("afl", [changed], seeds=1, folder=tmp_path / "ladder")
    assert json.loads((tmp_path / "ladder" / "ladder.json").read_text())["own"] == ["small"]


def test_a_method_that_failed_here_is_not_replaced_by_what_is_known(small: Path) -> None:
    class Broken(Random):
        def choose(self, request: Any) -> Any:
            raise ZeroDivisionError("oh")

    board = ladder({"oort": Broken}, "small", seeds=1)
    assert ("small", "oort", 0) in board.failed
    assert board.known_labels == {"bsfl"}


def test_without_files_or_with_those_of_another_version_nothing_is_known(small: Path) -> None:
    assert len(known_results()) == 6
    assert known_results(published=True) == []  # there is no such file
    (small / "published.csv").write_text(",".join(COLUMNS) + "\n")
    assert known_results(published=True) == []
    (small / "published.csv").write_text("")
    assert known_results(published=True) == []
    assert not ladder("afl", "small", seeds=1, published=True).known
    (small / "ladder.json").write_text('{"version": 0}')
    assert known_results() == []
    assert set(ladder("afl", "small", seeds=1).labels) == {"random", "afl"}
    (small / "ladder.json").unlink()
    assert known_results() == []


def test_a_folder_of_another_version_is_read_alone(small: Path, tmp_path: Path) -> None:
    ladder("afl", "small", seeds=1, folder=tmp_path / "ladder")
    assert read(tmp_path / "ladder").known
    (tmp_path / "ladder" / "ladder.json").write_text('{"version": 0, "seeds": "development"}')
    assert not read(tmp_path / "ladder").known


def test_the_command_shows_known_methods_unless_it_is_alone(small: Path, tmp_path: Path) -> None:
    command = ["ladder", "--selectors", "afl", "--seeds", "1", "--jobs", "1", "--output", str(tmp_path / "out")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "2 methods run here and 2 known, 1 rung" in done.output
    assert "oort *" in done.output
    assert "was not run here" in " ".join(done.output.split())
    assert "oort *" in (tmp_path / "out" / "report" / "report.html").read_text()
    alone = CliRunner().invoke(app, [*command, "--alone"])
    assert alone.exit_code == 0, alone.output
    assert "oort" not in alone.output
    assert "oort" not in (tmp_path / "out" / "leaderboard.csv").read_text()
