"""Commands that cannot begin, or are stopped before they do: a sentence, the right exit status, and no folder."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from enlist import Choice, Request
from enlist.cli.app import app
from enlist.selectors import Random
from enlist.simulation import Comparison, Config, simulate
from enlist.simulation.callbacks import Callback

SMALL = """
[data]
clients = 8
[rounds]
rounds = 3
k = 3
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def left(place: Path) -> list[str]:
    """What a command left behind."""
    return sorted(path.name for path in place.iterdir() if path.name != "small.toml")


NO_DATA = ("--set", "data.dataset.name=parquet", "--set", "data.dataset.path=nowhere.parquet")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "small.toml", "--workers", "0", *NO_DATA),
        ("run", "small.toml", "--workers", "0", *NO_DATA, "--output", "deep/er/folder"),
        ("run", "small.toml", "--set", "selector.name=oort", "--set", "selector.settings.penalty=-1"),
        ("run", "small.toml", "--set", "data.clients=100000"),
        ("compare", "small.toml", "--jobs", "1", "--seeds", "1", *NO_DATA),
        ("compare", "small.toml", "--jobs", "1", "--selectors", "oort+penalty=-1", "--output", "deep/out"),
        ("describe", "small.toml", *NO_DATA),
        ("profile", "small.toml", *NO_DATA),
    ],
)
def test_a_start_that_fails_leaves_no_folder(arguments: tuple[str, ...], place: Path) -> None:
    done = typed(*arguments)
    assert done.exit_code != 0
    assert left(place) == []


def test_an_error_in_the_first_round_leaves_no_folder_and_a_later_one_does(place: Path) -> None:
    class Trips(Callback):
        def __init__(self, round: int) -> None:
            self.round = round

        def on_round(self, simulation: Any, row: Any, participations: Any = ()) -> None:
            if simulation.round == self.round:
                raise ZeroDivisionError

    class Begins(Callback):
        def on_start(self, simulation: Any) -> None:
            raise KeyboardInterrupt

    config = Config(data={"clients": 8}, rounds={"rounds": 3, "k": 3})
    with pytest.raises(KeyboardInterrupt):
        simulate(config, folder="first/run", callbacks=[Begins()])
    assert left(place) == []
    (place / "mine").mkdir()
    with pytest.raises(KeyboardInterrupt):
        simulate(config, folder="mine", callbacks=[Begins()])
    assert [list((place / name).iterdir()) for name in left(place)] == [[]], "an empty folder of the user's stays"
    with pytest.raises(ZeroDivisionError):
        simulate(config, folder="mine", callbacks=[Trips(2)])
    assert (place / "mine" / "rounds.csv").exists(), "rounds are kept"
    assert simulate(config, folder="mine", resume=True).summary["rounds"] == 3


def test_a_folder_with_something_else_is_left_as_it_is(place: Path) -> None:
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").touch()
    with pytest.raises(Exception, match="not empty and holds no run"):
        simulate(Config(data={"clients": 8}), folder="mine")
    assert [path.name for path in (place / "mine").iterdir()] == ["thesis.txt"]


def test_a_comparison_of_which_every_run_fails_leaves_no_folder(place: Path) -> None:
    config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})

    class Broken(Random):
        def choose(self, request: Request) -> Choice:
            raise ZeroDivisionError("in my own code")

    ended = Comparison(config, {"broken": Broken}, seeds=2).run("out")
    assert "in my own code" in ended.failed["broken", 1]
    assert left(place) == []


@pytest.mark.parametrize("command", ["run", "personalise"])
def test_nothing_cannot_be_resumed(command: str, place: Path) -> None:
    if command == "personalise":
        (place / "small.toml").write_text('[workers.dataset]\nname = "telecom"\nrows = 4000\n')
    done = typed(command, "small.toml", "--resume", "--output", "nowhere")
    assert "nowhere does not exist, so there is nothing to resume" in str(done.exception)
    (place / "nowhere").mkdir()
    done = typed(command, "small.toml", "--resume", "--output", "nowhere")
    assert "nowhere holds nothing to resume; leave --resume out" in str(done.exception)
    assert list((place / "nowhere").iterdir()) == []


@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("enlist.simulation.config.read", ("run", "small.toml")),
        ("enlist.simulation.simulation.build", ("run", "small.toml", "--workers", "0")),
        ("enlist.simulation.simulation.Trainer", ("run", "small.toml", "--workers", "0")),
        ("enlist.simulation.jobs.shared_population", ("compare", "small.toml", "--jobs", "1")),
        ("enlist.simulation.population.build", ("describe", "small.toml")),
        ("enlist.simulation.population.build", ("profile", "small.toml")),
        ("enlist.studies.running.Reproduction._perform", ("reproduce", "mabfl", "--scale", "smoke")),
    ],
)
def test_ctrl_c_while_it_starts_is_one_line(
    where: str, arguments: tuple[str, ...], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    done = typed(*arguments)
    assert done.exit_code == 130
    assert done.output.splitlines()[-1].startswith("stopped")
    begun = arguments[0] == "reproduce"  # a study keeps its rules before its first experiment
    assert done.output.count("is kept. Continue with:" if begun else "nothing was kept") == 1
    assert left(place) == (["runs"] if begun else [])


def test_more_clients_wanted_than_there_are_is_warned_about_once(place: Path) -> None:
    for arguments in (
        ("run", "--workers", "0"),
        ("compare", "--selectors", "random", "--seeds", "2", "--jobs", "1"),
        ("describe",),
    ):
        command, *more = arguments
        done = typed(command, "small.toml", "--set", "rounds.k=20", "--set", "rounds.rounds=1", *more)
        assert done.output.count("rounds.k is 20, but there are 8 clients") == 1
    assert "rounds.k" not in typed("describe", "small.toml", "--set", "rounds.k=8").output


def test_a_finished_run_is_extended_from_the_command_line(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    short = ("run", "small.toml", "--workers", "0", "--output", "out")
    assert typed(*short).exit_code == 0
    assert "is already finished" in typed(*short, "--resume").output
    done = typed(*short, "--resume", "--set", "rounds.rounds=5")
    assert "resuming after round 3" in done.output
    assert len((place / "out" / "rounds.csv").read_text().splitlines()) == 6
    refused = typed(*short, "--resume", "--set", "rounds.k=4", "--set", "rounds.rounds=5")
    assert "rounds.k = 3, but 4 was asked for" in str(refused.exception)
    assert not caplog.records


def test_run_and_report_show_the_same_figures(place: Path) -> None:
    shown = typed("run", "small.toml", "--workers", "0", "--output", "out", "--set", "evaluation.every=1").output
    reported = typed("report", "out").output
    final, last, best = re.findall(r"\d+\.\d %", shown)
    assert final != last, "three evaluations and one"
    assert float(best[:-2]) >= float(last[:-2])
    assert final in reported
    for output in (shown, reported):
        assert "final accuracy" in output
        assert "final: mean of the last three evaluations" in output


@pytest.mark.parametrize("command", ["describe", "profile", "run", "compare"])
def test_quiet_prints_nothing(command: str, place: Path) -> None:
    more = {
        "profile": ["--rounds", "1"],
        "run": ["--workers", "0"],
        "compare": ["--selectors", "random", "--seeds", "1", "--jobs", "1"],
    }
    done = typed(command, "small.toml", "--quiet", "--output", "out", *more.get(command, []))
    assert (done.exit_code, done.output) == (0, "")
    assert left(place) == ["out"]
    if command in ("describe", "profile"):
        shown = typed("report", "out").output
        assert "which has its own page" in shown
        assert "report: out/report.html" in shown
