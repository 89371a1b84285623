"""Users and classes with names: in tables, in `describe`, in charts; and nothing new where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist.cli import describe
from enlist.report import skew
from enlist.runs.columns import PARTICIPATIONS
from enlist.runs.folder import RunFolder
from enlist.runs.tables import read_run
from enlist.simulation import Config, Recorder, Simulation, build, read, simulate
from tests.simulation.simulation_helpers import Kill, assert_same, config, continue_run

NASTY = ["007", '=HYPERLINK("http://x")', "a,b", 'she said "hi"', "two\nlines", "\x1b[2J bell", "Zürich", "9"]
CLASSES = ["no, never", "yes"]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Eight users with names that are hard to write down, and two classes."""
    rng = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("data") / "mine.npz"
    users = np.repeat(NASTY, 12)
    labels = np.array(CLASSES)[rng.integers(0, 2, len(users))]
    np.savez(path, x=rng.normal(size=(len(users), 3)), y=labels, users=users, test_x=np.zeros((4, 3)),
             test_y=np.array(CLASSES * 2), test_users=users[:4])  # fmt: skip
    data = {"dataset": {"name": "file", "path": str(path)}, "clients": 0, "partition": "natural"}
    rounds = {"rounds": 3, "k": 3, "late": "merge", "over_commit": 1.5}
    return config(data=data, rounds=rounds, selector={"name": "oort"}, devices={"kind": "phones"})


def test_names_survive_the_tables(settings: Config, tmp_path: Path) -> None:
    run = simulate(settings, folder=tmp_path / "run")
    expected = sorted(NASTY)
    shown = [name.encode("unicode_escape").decode() if not name.isprintable() else name for name in expected]
    assert run.clients["user"].tolist() == shown, "text, though some look like numbers, and each on one line"
    assert list(run.clients.columns)[-3:] == ["class_no, never", "class_yes", "user"]
    asked = run.participations
    assert list(asked.columns)[-1] == "user"
    assert [shown[client] for client in asked["client"]] == asked["user"].tolist()
    memory = simulate(settings)
    assert memory.participations["user"].tolist() == asked["user"].tolist()
    assert memory.clients["user"].tolist() == shown
    assert len((tmp_path / "run" / "participations.csv").read_text().splitlines()) == len(asked) + 1


def test_a_killed_run_keeps_its_users(settings: Config, tmp_path: Path) -> None:
    continue_run(tmp_path / "whole", settings)

    class Killer(Recorder):
        def on_start(self, simulation: Any) -> None:
            super().on_start(simulation)
            raise Kill

    with RunFolder.open(tmp_path / "killed", settings.model_dump(mode="json"), resume=True) as opened:
        recorder = Killer(opened)
        simulation = Simulation(settings, callbacks=[recorder])
        recorder.restore(simulation)
        with pytest.raises(Kill):
            simulation.run()
    continue_run(tmp_path / "killed", settings)
    assert_same(tmp_path / "whole", tmp_path / "killed")


def test_without_names_nothing_is_new(tmp_path: Path) -> None:
    simulate(config(), folder=tmp_path / "run")
    header = (tmp_path / "run" / "participations.csv").read_text().splitlines()[0]
    assert header == ",".join(PARTICIPATIONS)
    assert "user" not in (tmp_path / "run" / "clients.csv").read_text()
    assert read_run(tmp_path / "run").names is None


def test_an_old_folder_goes_on_with_the_header_that_it_has(settings: Config, tmp_path: Path) -> None:
    with pytest.raises(Kill):
        continue_run(tmp_path / "run", settings, _Stop(2))
    path = tmp_path / "run" / "participations.csv"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line.rpartition(',')[0]}\n" for line in lines if '"' not in line))  # as 0.1 wrote it
    with RunFolder.open(tmp_path / "run", settings.model_dump(mode="json"), resume=True, accept_changes=True) as opened:
        recorder = Recorder(opened)
        with Simulation(settings, callbacks=[recorder]) as simulation:
            assert recorder.restore(simulation)
            simulation.run()
    table = read(tmp_path / "run").participations
    assert "user" not in table.columns
    assert table["round"].max() == 3


class _Stop(Recorder):
    def __init__(self, round: int) -> None:
        self.round = round

    def restore(self, simulation: Any) -> bool:
        raise NotImplementedError

    def on_start(self, simulation: Any) -> None:
        """Nothing is written."""

    def on_round(self, simulation: Any, record: Any) -> None:
        if record.row["round"] == self.round:
            raise Kill


def test_describe_and_charts_show_names(settings: Config) -> None:
    people = build(settings)
    columns = people.columns(0)
    (table, *_) = describe.client_tables(people, columns, 140)
    cells = list(table.columns[1].cells)
    assert len(cells) == 8
    assert all("\n" not in cell and "\x1b" not in cell for cell in cells)
    assert [row[:2] for row in describe.dominant(people, columns)][:2] == [["client", "user"], ["0", r"\x1b[2J bell"]]
    text = str(skew.class_heatmap(people.counts, "Title", describe.class_names(people), people.users).to_dict())
    assert "1 007" in text
    assert "no, never" in text
