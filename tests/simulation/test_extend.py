"""A run that is extended ends with the same bytes as one that was as long from the start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from enlist.errors import InputError, StateFileError
from enlist.runs import RunFolder
from enlist.simulation import Comparison, Config, simulate
from enlist.simulation.jobs import run_in
from tests.simulation.simulation_helpers import Kill, assert_same, break_at, config


def world(rounds: int, **evaluation: Any) -> Config:
    """Phones that crash and come late, and whose late replies are used; an evaluation that falls on no last round."""
    return config(
        devices={"kind": "phones"},
        failures={"crash": 0.2},
        selector="oort",
        rounds={"rounds": rounds, "k": 3, "over_commit": 2.0, "late": "merge"},
        evaluation={"every": 3, "target": 0.2, **evaluation},
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven rounds from the start."""
    path = tmp_path_factory.mktemp("whole") / "run"
    run_in(path, world(7))
    return path


@pytest.mark.parametrize(("first", "workers"), [(3, 0), (4, 1), (5, 0)])
def test_a_finished_run_goes_on_as_if_it_had_been_longer(first: int, workers: int, tmp_path: Path, whole: Path) -> None:
    path = tmp_path / "run"
    run_in(path, world(first))
    assert (path / "rounds.csv").read_text().splitlines()[-1].split(",")[12], "the last round is evaluated"
    run = simulate(world(7), folder=path, resume=True, workers=workers)
    assert run.summary["rounds"] == 7
    assert_same(path, whole)
    assert (path / "config.json").read_bytes() == (whole / "config.json").read_bytes()
    assert simulate(world(7), folder=path, resume=True).summary["rounds"] == 7


@pytest.mark.parametrize(("step", "number"), [("state", 1), ("rename", 1), ("after rename", 1), ("rename", 2)])
def test_a_kill_while_it_is_extended_changes_nothing(
    step: str, number: int, tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    run_in(path, world(4))
    break_at(step, Kill(), monkeypatch, number)
    with pytest.raises(Kill):
        run_in(path, world(7))
    monkeypatch.undo()
    run_in(path, world(7))
    assert_same(path, whole)


def test_virtual_time_can_be_extended_too(tmp_path: Path) -> None:
    def timed(seconds: float | None) -> Config:
        return config(rounds={"rounds": 5, "k": 3, "seconds": seconds}, evaluation={"every": 2})

    whole = simulate(timed(None), folder=tmp_path / "whole")
    end = float(whole.rounds["end"][2])
    assert simulate(timed(end), folder=tmp_path / "cut").summary["rounds"] == 3
    simulate(timed(None), folder=tmp_path / "cut", resume=True)
    assert_same(tmp_path / "cut", tmp_path / "whole")
    with pytest.raises(InputError, match=r"rounds\.seconds = None, but"):
        simulate(timed(end), folder=tmp_path / "cut", resume=True)


def test_a_target_that_only_the_last_evaluation_met_is_met_later(tmp_path: Path) -> None:
    def eager(rounds: int) -> Config:
        return config(
            rounds={"rounds": rounds, "k": 10},
            training={"epochs": 5, "lr": 0.2},
            evaluation={"every": 3, "target": 0.1, "stop_at_target": True},
        )

    assert simulate(eager(2), folder=tmp_path / "cut").summary["rounds_to_target"] == 2
    assert simulate(eager(5), folder=tmp_path / "cut", resume=True).summary["rounds_to_target"] == 3
    simulate(eager(5), folder=tmp_path / "whole")
    assert_same(tmp_path / "cut", tmp_path / "whole")


def test_whatever_else_differs_is_refused_by_its_key_and_nothing_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_in(path, world(4))
    before = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}
    for other, message in (
        (world(3), r"rounds\.rounds = 4, but 3 was asked for"),
        (world(7, target=0.3), r"evaluation\.target = 0\.2, but 0\.3 .*only rounds\.rounds and rounds\.seconds may"),
    ):
        with pytest.raises(InputError, match=message):
            simulate(other, folder=path, resume=True)
    with RunFolder.open(path, world(7).model_dump(mode="json"), resume=True, growing=["rounds.rounds"]) as opened:
        assert not opened.finished()  # and if the start fails now, nothing has been changed
    assert before == {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}
    (path / "rounds.csv").write_bytes(before["rounds.csv"].replace(b"0", b"1", 1))
    with pytest.raises(StateFileError, match=r"rounds\.csv was changed"):
        simulate(world(7), folder=path, resume=True)


def test_a_comparison_is_extended_with_all_its_runs(tmp_path: Path, whole: Path) -> None:
    short, long = (Comparison(world(rounds), "random,oort", seeds=1) for rounds in (4, 7))
    short.run(tmp_path / "out")
    ended = long.run(tmp_path / "out")
    assert {result["rounds"] for result in ended.finished.values()} == {7}
    assert_same(tmp_path / "out" / "runs" / "oort" / "0", whole)
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["config"]["rounds"]["rounds"] == 7
    with pytest.raises(InputError, match=r"holds a comparison with rounds\.rounds = 7, and 4 was asked for"):
        short.run(tmp_path / "out")


def error_rate(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(dim=1) != targets).float().mean())


def test_metrics_and_accuracies_of_clients_are_taken_back_too(tmp_path: Path) -> None:
    def judged(rounds: int) -> Config:
        return world(rounds, metrics=[error_rate]).replace("data.client_test=0.2")

    simulate(judged(6), folder=tmp_path / "whole")
    simulate(judged(4), folder=tmp_path / "cut")
    extended = simulate(judged(6), folder=tmp_path / "cut", resume=True)
    assert_same(tmp_path / "cut", tmp_path / "whole")
    assert extended.rounds["metric_error_rate"].notna().tolist() == [False, False, True, False, False, True]


def test_the_best_model_is_not_chosen_by_an_evaluation_that_would_not_have_been(tmp_path: Path) -> None:
    simulate(world(3, keep_best=True), folder=tmp_path / "even")
    longer = simulate(world(6, keep_best=True), folder=tmp_path / "even", resume=True)
    assert longer.summary["rounds"] == 6
    simulate(world(4, keep_best=True), folder=tmp_path / "odd")
    with pytest.raises(InputError, match=r"only a run whose rounds are a multiple of evaluation\.every = 3"):
        simulate(world(6, keep_best=True), folder=tmp_path / "odd", resume=True)
    assert simulate(world(4, keep_best=True), folder=tmp_path / "odd", resume=True).summary["status"] == "finished"
