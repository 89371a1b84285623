"""`enlist sweep`: what it prints and writes, how it is interrupted and goes on, what it refuses."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas
import pytest
from rich.console import Console
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.cli.live import BARS, ComparisonProgress
from enlist.errors import EnlistError
from enlist.simulation import Config, Sweep

FILE = """
[data]
clients = 8
partition = "iid"
[model]
name = "mlp"
hidden = [6]
[rounds]
rounds = 2
k = 3
[evaluation]
every = 1
"""
SMALL = ["--selectors", "random,oort", "--seeds", "2", "--jobs", "1", "--output", "out"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr("enlist.report.page.save", lambda chart, stem, suffixes: [])
    (tmp_path / "small.toml").write_text(FILE)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["sweep", "small.toml", *arguments])

    return run


def test_a_grid_a_table_a_file_and_a_page(call: Any, tmp_path: Path) -> None:
    done = call("--set", "rounds.k=2,4", "--set", "model.hidden=[6,4],[8]", "--set", "rounds.rounds=1", *SMALL)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "4 points, 2 methods, 2 seeds: 16 runs"
    assert sum("[6, 4]" in line for line in lines) == 4
    assert lines[-2:] == ["table: out/sweep.csv", "report: out/report/report.html"]
    assert max(map(len, lines)) <= 140
    table = pandas.read_csv(tmp_path / "out" / "sweep.csv")
    assert len(table) == 16
    assert table.groupby(["rounds.k", "model.hidden", "method"])["final"].count().tolist() == [2] * 8
    assert set(table["rounds"]) == {1}
    assert all((tmp_path / "out" / folder / "rounds.csv").exists() for folder in table["folder"])
    before = (tmp_path / "out" / "sweep.csv").read_bytes()
    assert (
        call("--set", "rounds.k=2,4", "--set", "model.hidden=[6,4],[8]", "--set", "rounds.rounds=1", *SMALL).exit_code
        == 0
    )
    assert (tmp_path / "out" / "sweep.csv").read_bytes() == before


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick = ComparisonProgress.tick

    def interrupt(self: ComparisonProgress, *news: Any) -> None:
        tick(self, *news)
        if news[-1]["status"] == "finished":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ComparisonProgress, "tick", interrupt)
        done = call("--set", "rounds.k=2,4", "--target", "0.5", *SMALL)
    assert done.exit_code == 130
    again = done.stdout.splitlines()[-1].partition("Continue with: ")[2]
    assert again.startswith("enlist sweep small.toml --set rounds.k=2,4 --selectors random,oort --seeds 2")
    assert again.endswith("--output out --target 0.5")
    assert len(list(tmp_path.glob("out/points/*/runs/*/*/result.json"))) == 1
    done = CliRunner().invoke(app, [*again.split()[1:], "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert len(list(tmp_path.glob("out/points/*/runs/*/*/result.json"))) == 8


def test_points_from_a_file_and_a_run_that_fails(call: Any, tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("rounds.k,data.validation\n2,0\n3,0.1\n")
    options = ["--selectors", "random,darts-ucb", "--seeds", "1", "--jobs", "1", "--quiet", "--output", "out"]
    done = call("--points", "points.csv", *options)
    assert (done.exit_code, done.stdout) == (1, "")
    assert len(pandas.read_csv(tmp_path / "out" / "sweep.csv")) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no key is swept; name one with its values, for example --set rounds.k=5,10,20"),
        (["--set", "rounds.k=5"], "no key is swept"),
        (["--set", "rounds.k=5,0"], "point k = 0: rounds.k = 0"),
        (["--set", "rounds.k=5,6", "--points", "p.csv"], "--points names the points, and --set sweeps over rounds.k"),
        (["--points", "p.csv"], "p.csv cannot be read"),
        (["--set", "rounds.k=5,6", "--selectors", "orot"], "Did you mean 'oort'"),
        (["--set", "rounds.k=5,6", "--baseline", "oort", "--selectors", "random"], "--baseline is 'oort'"),
        (["--set", "rounds.k=5,6", "--jobs", "-1"], "--jobs is -1"),
    ],
)
def test_what_it_refuses_leaves_nothing_behind(call: Any, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = call(*arguments)
    assert isinstance(done.exception, EnlistError)
    assert message in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_bars_of_many_points_are_shown_while_they_are_under_way() -> None:
    console = Console(file=io.StringIO(), width=200)
    config = Config()
    view = ComparisonProgress(
        console, Sweep(config, {"rounds.rounds": list(range(1, BARS + 3))}, "random", seeds=2), "runs"
    )
    whole, first, second, *_ = view.progress.tasks
    assert (whole.visible, first.visible, second.total) == (True, False, 4)
    view.tick("rounds = 2", "random", 0, {"status": "running", "rounds": 1, "time": 1.0, "accuracy": 0.5})
    assert (second.visible, second.completed, whole.completed) == (True, 1, 1)
    for seed in range(2):
        view.tick("rounds = 2", "random", seed, {"status": "finished", "rounds": 2, "time": 1.0, "accuracy": 0.5})
    assert (second.visible, second.completed, whole.fields["state"]) == (False, 4, f"2/{2 * BARS + 4} runs")


def test_parts_fill_one_folder_and_give_what_the_whole_gives(call: Any, tmp_path: Path) -> None:
    points = ("--set", "rounds.k=2,4", *SMALL[:-1])
    for number in (2, 1, 3):
        done = call(*points, "parts", "--shard", f"{number}/3")
        assert done.exit_code == 0, done.output
        assert "when all parts are done, see them with: enlist report parts" in done.stdout
    whole = call(*points, "whole")
    assert whole.exit_code == 0
    kept = [sorted(path for path in (tmp_path / name).rglob("rounds.csv")) for name in ("parts", "whole")]
    assert len(kept[0]) == 8
    assert [path.read_bytes() for path in kept[0]] == [path.read_bytes() for path in kept[1]]
    again = call(*points, "parts")  # nothing is left to run; the tables are written
    assert again.exit_code == 0
    assert (tmp_path / "parts" / "sweep.csv").read_bytes() == (tmp_path / "whole" / "sweep.csv").read_bytes()
    joined = CliRunner().invoke(app, ["report", "parts", "--output", "joined"])
    assert joined.exit_code == 0, joined.output


def test_more_parts_than_runs_leave_some_with_nothing_to_do(call: Any, tmp_path: Path) -> None:
    done = call("--set", "rounds.k=2", "--points", "none.csv", "--shard", "9/9")
    assert done.exit_code != 0
    done = call("--set", "rounds.k=2,3", "--selectors", "random", "--seeds", "1", "--output", "out", "--shard", "9/9")
    assert done.exit_code == 0, done.output
    assert "part 9/9: 0 runs finished in out." in done.stdout


@pytest.mark.parametrize("given", ["0/4", "5/4", "4", "a/b"])
def test_a_part_that_is_none(call: Any, given: str) -> None:
    done = call("--set", "rounds.k=2,4", *SMALL, "--shard", given)
    assert isinstance(done.exception, EnlistError)
    assert f"--shard is '{given}'; give a part and the number of parts" in str(done.exception)
