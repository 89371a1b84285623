"""The folder of a study that holds links, or says what it should not: refused, and nothing outside changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from enlist.errors import EnlistError, InputError, StateFileError
from enlist.studies.example import COINS
from enlist.studies.experiments import simulation
from enlist.studies.running import Reproduction, perform
from enlist.studies.study import Experiment
from enlist.studies.writing import publish, write

SCALE = COINS.scale("smoke")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "run"
    reproduce(folder)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def reproduce(folder: Path, resume: bool = False) -> None:
    with Reproduction.open(COINS, SCALE, folder, resume=resume) as work:
        work.run()
        write(work, "enlist reproduce coins", jobs=1)


NAMES = ["experiments", "experiments/fair", "experiments/fair/0", "experiments/fair/0/state.json", "tables", "figures"]


@pytest.mark.parametrize("name", [*NAMES, "report.html", "wall.csv", "environment.json", "config.json"])
def test_links_are_refused(name: str, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.move(folder / name, outside)
    (folder / name).symlink_to(outside)
    inner = [outside] if outside.is_file() else sorted(path for path in outside.rglob("*") if path.is_file())
    before = [path.read_bytes() for path in inner]
    with pytest.raises(EnlistError, match=f"{name} is a symbolic link"):
        reproduce(folder, resume=True)
    assert [path.read_bytes() for path in inner] == before


def test_damaged_readings_of_the_clock_do_not_stop_a_study(folder: Path) -> None:
    (folder / "wall.csv").write_bytes(b"round,seconds\n1,\xff\n2,1.5\n3")
    with Reproduction.open(COINS, SCALE, folder, resume=True) as work:
        assert work.wall() == 1.5
    (folder / "environment.json").write_text("{")
    with pytest.raises(StateFileError, match=r"environment\.json cannot be read"):
        Reproduction.open(COINS, SCALE, folder, resume=True)


@pytest.mark.parametrize("facts", [{"study": "../../escaped", "extras": []}, {"study": "a", "extras": ["/b"]}, {}, []])
def test_a_received_study_is_not_published_elsewhere(facts: Any, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "escaped" / "figures").mkdir(parents=True)
    (tmp_path / "escaped" / "figures" / "thesis.png").write_text("mine")
    (folder / "settings.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match=r"settings\.json"):
        publish(folder, tmp_path / "docs" / "studies")
    assert (tmp_path / "escaped" / "figures" / "thesis.png").read_text() == "mine"


def test_secrets_are_not_published_through_links(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "verdict.md").unlink()
    (folder / "verdict.md").symlink_to(tmp_path / "secret")
    with pytest.raises(StateFileError, match=r"verdict\.md is a symbolic link"):
        publish(folder, tmp_path / "docs")


def test_an_edited_run_of_an_experiment_is_refused_unless_that_is_accepted(tmp_path: Path) -> None:
    settings = {"selector": "random", "config": {"data": {"clients": 6}, "rounds": {"rounds": 2, "k": 2}}}
    experiment = Experiment("one", 0, settings, run=simulation)
    assert perform(experiment, tmp_path) == ""
    table = tmp_path / "experiments" / "one" / "0" / "run" / "rounds.csv"
    table.write_text(table.read_text().replace("\n1,0.0,", "\n1,0.5,", 1))
    assert "rounds.csv was changed since the checkpoint was made" in perform(experiment, tmp_path)
    assert perform(experiment, tmp_path, accept_changes=True) == ""
