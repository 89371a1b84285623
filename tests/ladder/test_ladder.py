"""Running the ladder: who climbs, killed and continued, in one process or two, with a class of the user's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from enlist import selectors
from enlist.cli.app import app
from enlist.errors import InputError
from enlist.ladder import Ladder, Rung, ladder, read
from enlist.ladder import rung as rung_module
from enlist.simulation import Config

OWN = """
import numpy as np
from enlist import Selector

class LossPerSecond(Selector):
    needs = frozenset({"loss_rms", "latency"})

    def choose(self, request):
        return request.pick(np.argsort(request.available)[: request.k])
"""


def tiny(name: str = "tiny", **rounds: Any) -> Rung:
    return Rung(
        name,
        "Next to nothing.",
        Config(
            data={"clients": 10, "partition": "iid"},
            model={"name": "mlp", "hidden": [6]},
            rounds={"rounds": 4, "k": 3, "seconds": 1000.0, **rounds},
            evaluation={"every": 1},
        ),
    )


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "climbing_selectors.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "climbing_selectors:LossPerSecond"
    sys.modules.pop("climbing_selectors", None)


def test_all_is_everybody_and_random_is_always_there(own: str) -> None:
    climbed = Ladder(f"all,{own}", [tiny()], seeds=1)
    assert climbed.labels[0] == "random"
    assert set(climbed.labels) == {*selectors.names(), own}
    assert Ladder({"mine": "oort+penalty=1"}, [tiny()]).labels == ("random", "mine")
    assert Ladder(["all"], [tiny()]).labels[0] == "random"


def test_seeds_are_those_of_the_version() -> None:
    assert Ladder("oort", [tiny()]).seeds == (0, 1, 2, 3, 4)
    assert Ladder("oort", [tiny()], seeds=2, published=True).seeds == (1000, 1001)
    with pytest.raises(InputError, match="has 5 development seeds"):
        Ladder("oort", [tiny()], seeds=6)
    with pytest.raises(InputError, match="two rungs are called 'tiny'"):
        Ladder("oort", [tiny(), tiny()])


def test_killed_and_continued_by_two_processes_it_gives_the_same_leaderboard(own: str, tmp_path: Path) -> None:
    federations = [tiny(), tiny("late", over_commit=1.4, late="merge", deadline=3.0)]
    whole = ladder(f"oort,{own}", federations, seeds=2)
    folder, ended = tmp_path / "ladder", []

    def kill(rung: str, label: str, seed: int, state: dict[str, Any]) -> None:
        if state["status"] == "finished":
            ended.append((rung, label, seed))
            if len(ended) == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ladder(f"oort,{own}", federations, seeds=2, folder=folder, tick=kill)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("result.json")}
    assert len(before) == 4
    again = ladder(f"oort,{own}", federations, seeds=2, folder=folder, jobs=2)
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())  # they were not run again
    for row in again.results:
        assert row.pop("server_ms") >= 0
    assert again.results == [{k: v for k, v in row.items() if k != "server_ms"} for row in whole.results]
    assert [line[:-2] for line in again.lines()] == [line[:-2] for line in whole.lines()]
    assert own in again.labels
    assert read(folder).labels == again.labels
    more = ladder(f"oort,bsfl,{own}", federations, seeds=2, folder=folder)  # a rival joins later
    assert len(more.labels) == 4


def test_a_folder_holds_one_version_one_kind_of_seeds_and_one_data_set(tmp_path: Path) -> None:
    ladder("oort", [tiny()], seeds=1, folder=tmp_path / "ladder")
    with pytest.raises(InputError, match="seeds = 'development', and 'published' was asked for"):
        ladder("oort", [tiny()], seeds=1, published=True, folder=tmp_path / "ladder")
    other = Rung("tiny", "Other data.", tiny().config.replace("data.dataset={name='digits', test_share=0.3}"))
    with pytest.raises(InputError, match=r"holds a comparison with data.dataset.test_share"):
        ladder("oort", [other], seeds=1, folder=tmp_path / "ladder")
    header = json.loads((tmp_path / "ladder" / "ladder.json").read_text())
    (tmp_path / "ladder" / "ladder.json").write_text(json.dumps({**header, "version": 0}))
    with pytest.raises(InputError, match="version = 0"):
        ladder("oort", [tiny()], seeds=1, folder=tmp_path / "ladder")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no ladder"):
        ladder("oort", [tiny()], seeds=1, folder=tmp_path / "full")


def test_a_method_that_fails_is_named_and_the_others_stand(tmp_path: Path) -> None:
    from enlist.selectors.random import Random

    class Broken(Random):
        def choose(self, request: Any) -> Any:
            raise ZeroDivisionError("oh")

    board = ladder({"broken": Broken}, [tiny()], seeds=1)
    assert board.labels == ["random"]
    assert "ZeroDivisionError: oh" in board.failed["tiny", "broken", 0]


def test_the_command(own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[rung]\nhard = "Small."\n[data]\nclients = 8\n[rounds]\nrounds = 3\nk = 3\n[evaluation]\nevery = 1\n'
    (tmp_path / "small.toml").write_text(text)
    monkeypatch.setattr(rung_module, "FOLDER", tmp_path)
    monkeypatch.setattr(rung_module, "NAMES", ("small",))
    command = ["ladder", "--selectors", f"oort,{own}", "--seeds", "1", "--jobs", "1", "--output", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, [*command, "--show"])
    assert "Small." in shown.output
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "3 methods, 1 rung, 1 development seed" in done.output
    pictures = {path.name for path in (tmp_path / "out" / "report" / "charts").iterdir()}
    assert pictures >= {"heat-map.png", "ranks.svg", "profile.png"}
    assert (tmp_path / "out" / "small" / "runs" / "random" / "0" / "result.json").is_file()
    assert CliRunner().invoke(app, ["ladder", "--selectors", "nobody", "--rungs", "small"]).exit_code != 0
