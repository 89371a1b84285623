"""`enlist run`, `compare`, `report` and `demo` as a person types them: each once in a process of its own."""

from __future__ import annotations

import dataclasses
import filecmp
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from enlist.cli import main
from enlist.cli.compare import finish
from enlist.cli.live import ComparisonProgress
from enlist.simulation import Config
from enlist.simulation.comparison import Comparison, JobResults

SCRIPT = Path(sys.executable).parent / "enlist"
SMALL = """
[data]
clients = 12
[rounds]
rounds = {rounds}
k = 4
[evaluation]
every = 2
target = 0.3
"""


def enlisted(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    surroundings = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, text=True, cwd=cwd, env=surroundings, check=False, timeout=120
    )


@dataclasses.dataclass
class Here:
    """Commands in this process, which has imported already what they need."""

    folder: Path
    patch: pytest.MonkeyPatch
    shown: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.patch.chdir(self.folder)
        self.patch.setattr(sys, "argv", ["enlist", *arguments])
        self.shown.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        shown = self.shown.readouterr()
        return subprocess.CompletedProcess(arguments, code, shown.out, shown.err)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(tmp_path, monkeypatch, capsys)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL.format(rounds=6), encoding="utf-8")
    return path


def test_run_says_where_the_time_went(config: Path, tmp_path: Path) -> None:
    done = enlisted("run", "small.toml", "--timing", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Where the time of rounds went" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if line.endswith("%  ")][-5:] == [
        "train", "wait", "server", "evaluate", "write",
    ]  # fmt: skip
    assert len((tmp_path / "runs" / "run-001" / "timing.csv").read_text().splitlines()) == 1 + 6


def test_run_leaves_a_folder_and_says_where(config: Path, tmp_path: Path, here: Here) -> None:
    done = enlisted("run", "small.toml", "--set", "selector.name=bsfl", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / "run-001"
    assert "bsfl, seed 0" in done.stdout
    assert "inputs: 64 (1 x 8 x 8)" in done.stdout
    assert "enlist report runs/run-001" in done.stdout
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "config.json",
        "rounds.csv",
        "participations.csv",
        "clients.csv",
        "result.json",
        "environment.json",
    }
    assert json.loads((folder / "result.json").read_text())["rounds"] == 6
    again = here("run", "small.toml", "--set", "selector.name=bsfl", "--output", str(folder))
    assert again.returncode == 2
    assert "already holds a run" in again.stderr
    assert "--resume" in again.stderr
    report = here("report", "runs")
    assert report.returncode == 0, report.stderr
    assert "report.html" in report.stdout


def test_ctrl_c_stops_after_the_round_and_resume_ends_the_same(config: Path, tmp_path: Path, here: Here) -> None:
    config.write_text(SMALL.format(rounds=150), encoding="utf-8")
    process = subprocess.Popen(
        [str(SCRIPT), "run", "small.toml", "--output", "cut", "--workers", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    rows = tmp_path / "cut" / "rounds.csv"
    patience = time.monotonic() + 240  # a busy machine is no bug
    while not (rows.exists() and len(rows.read_text().splitlines()) > 5):
        assert time.monotonic() < patience
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "enlist run cut/config.json --output cut --resume" in out
    assert 5 < len(rows.read_text().splitlines()) < 150
    resumed = here("run", "cut/config.json", "--output", "cut", "--resume", "--workers", "2")
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming after round" in resumed.stdout
    whole = here("run", "small.toml", "--output", "whole", "--workers", "0")
    assert whole.returncode == 0, whole.stderr
    for name in ("rounds.csv", "participations.csv", "clients.csv", "result.json"):
        assert filecmp.cmp(tmp_path / "cut" / name, tmp_path / "whole" / name, shallow=False), name


def test_compare_continues_and_prints_a_table(config: Path, tmp_path: Path, here: Here) -> None:
    command = ["compare", "small.toml", "--selectors", "random,oort", "--seeds", "2", "--output", "out", "--jobs", "2"]
    done = enlisted(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "speed-up" in done.stdout
    assert (tmp_path / "out" / "report" / "report.html").exists()
    json.loads((tmp_path / "out" / "report" / "scores.json").read_text())
    stamp = (tmp_path / "out" / "runs" / "oort" / "1" / "rounds.csv").stat().st_mtime_ns
    more = here(*command[:3], "random,oort,bsfl", *command[4:])
    assert more.returncode == 0, more.stderr
    assert "bsfl" in more.stdout
    assert (tmp_path / "out" / "runs" / "oort" / "1" / "rounds.csv").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "nothing.toml"), ("nothing.toml", "examples")),
        (("run", "small.toml", "--set", "rounds.kk=3"), ("rounds.kk", "Did you mean 'k'")),
        (("run", "small.toml", "--set", "rounds.k=0"), ("rounds.k = 0", "greater than or equal to 1")),
        (("compare", "small.toml", "--selectors", "orot"), ("orot", "oort")),
        (("run", "small.toml", "--resume"), ("--resume", "--output")),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[str, ...],
    words: tuple[str, ...],
    config: Path,
    here: Here,
) -> None:
    refused = here(*arguments)
    assert refused.returncode == 2
    assert not refused.stdout
    assert all(word in refused.stderr for word in words)


def test_demo_on_one_seed(tmp_path: Path) -> None:
    done = enlisted("demo", "--seeds", "1", "--output", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("random", "oort", "bsfl", "fedsuv", "darts-ucb"):
        assert name in done.stdout
    assert done.stdout.strip().endswith("demo/report/report.html")
    for result in (tmp_path / "demo").glob("runs/*/0/result.json"):
        assert json.loads(result.read_text())["time_to_target"] is not None


def test_the_demo_is_the_example_in_which_selection_matters() -> None:
    root = Path(__file__).parents[2]
    assert filecmp.cmp(root / "src/enlist/cli/demo.toml", root / "examples/selection-matters.toml", shallow=False)


def test_a_reason_with_brackets_is_printed_as_it_is(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    comparison = Comparison(Config(), ("random",), seeds=1)
    ended = JobResults({}, {("random", 0): "no such file: [/data/x]; see [availability]"})
    with pytest.raises(typer.Exit):
        finish(console, comparison, ended, tmp_path, None, "small")
    assert "no such file: [/data/x]; see [availability]" in console.file.getvalue()  # type: ignore[attr-defined]


def test_runs_that_were_abandoned_are_over() -> None:
    console = Console(file=io.StringIO(), width=200)
    view = ComparisonProgress(console, Comparison(Config(), ("random",), seeds=2))
    view.tick("random", 0, {"status": "abandoned", "rounds": 3, "time": 9.0, "accuracy": 0.5})
    view.tick("random", 1, {"status": "running", "rounds": 4, "time": 9.0, "accuracy": 0.5})
    task = view.progress.tasks[0]
    assert task.completed == Config().rounds.rounds + 4
    assert task.fields["state"].startswith("1/2 seeds")
