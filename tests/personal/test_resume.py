"""Runs that are killed, wherever it may be, and resumed end with the same bytes as runs that were not."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from enlist import storage
from enlist.engine import context
from enlist.errors import InputError
from enlist.personal import PersonalConfig, run_in
from enlist.runs import RunFolder
from enlist.simulation import Recorder, RoundRecord
from tests.personal.personal_helpers import assert_same, config, continue_run, run_child, task
from tests.simulation.simulation_helpers import KILLS, Assassin, Kill, break_at, kill_at

SAVING = ("decision", "rule", "model", "tensors", "state", "sync", "rename", "after rename")
EVERYWHERE = (*SAVING, *KILLS)
FOUR = [1.0, 0.9, 0.3, -0.5]
RULES: dict[str, Any] = {
    "ucb": {"rule": "ucb", "explore": {"probability": 0.3}},
    "epsilon-greedy": {"rule": {"kind": "epsilon-greedy", "stationary": True}},
    "thompson": {"rule": "thompson", "reward": "quantile"},
    "discounted-thompson": {"rule": "discounted-thompson", "reward": {"kind": "binary", "threshold": 0.0}},
    "extreme-explore": {"rule": "extreme-explore", "elimination": {"confidence": 0.8}},
    "delayed": {"rule": {"kind": "extreme-explore", "delayed": True}, "reward": {"kind": "binary", "threshold": 0.0}},
    "bayesian": {"rule": {"kind": "bayesian-extreme-explore", "delayed": True}, "reward": "quantile"},
    "fixed": {"rule": {"kind": "fixed", "combination": "all"}},
    "clusters": {"rule": "ucb", "arms": {"kind": "clusters", "subsets": "all", "alone": True}},
    "growing": {"rule": "ucb", "arms": {"grow": 2}, "reward": {"kind": "increment", "against": "previous"}},
    "shrinking": {"rounds": {"rounds": 8, "epochs": {"kind": "shrinking", "epochs": 3, "window": 1}}},
    "stable": {"rounds": {"rounds": 8, "epochs": {"kind": "stable", "epochs": 4}}, "stopping": "patience"},
    "average": {"rounds": {"rounds": 8, "start": "average"}, "weights": "similarity", "stopping": "ema"},
    "network": {"model": {"name": "thesis", "hidden": [8, 6, 4]}, "training": {"lr": 0.1, "momentum": 0.5}},
}


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """A killed process does not lose what it wrote; waiting for the disk would only take time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def workers() -> Any:
    return task(FOUR)


def world(kind: str = "ucb") -> PersonalConfig:
    """With workers that are away and fail, also the target, also in the first round."""
    failures = {"away": 0.15, "fail": 0.15, "target_away": 0.1, "target_fail": 0.1}
    return config(**{"seed": 11, "failures": failures, "rounds": {"rounds": 8}, **RULES[kind]})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, workers: Any) -> Iterator[Any]:
    """The folder of the undisturbed run of a configuration, each run once."""
    known: dict[str, Path] = {}

    def found(settings: PersonalConfig) -> Path:
        key = settings.model_dump_json()
        if key not in known:
            known[key] = tmp_path_factory.mktemp("whole") / "run"
            continue_run(known[key], settings, workers)
        return known[key]

    return found


def break_decision(step: str, patch: pytest.MonkeyPatch, number: int) -> None:
    """Let saving fail where the decision, or the rule within it, is written, the time `number`."""
    replace, calls = storage.replace, itertools.count(1)

    def failing(path: Path, payload: bytes) -> None:
        if path.parent.name == step and path.name == "state.json" and next(calls) == number:
            raise Kill
        replace(path, payload)

    patch.setattr(storage, "replace", failing)


def killed(
    path: Path, settings: PersonalConfig, workers: Any, kind: str, number: int, patch: pytest.MonkeyPatch
) -> None:
    """Run until killed in one of the ways of EVERYWHERE, in round or at checkpoint `number` of this run."""
    first: list[Any] = []
    last: list[Any] = []
    if kind in ("decision", "rule"):
        break_decision(kind, patch, number)
    elif kind in SAVING:
        break_at(kind, Kill(), patch, number)
    else:
        first, last = kill_at(kind, number, patch)
    with pytest.raises(Kill):
        continue_run(path, settings, workers, *last, first=first)
    patch.undo()


@pytest.mark.parametrize("kind", RULES)
def test_every_kind_of_run_resumes_bit_by_bit(
    kind: str, tmp_path: Path, workers: Any, undisturbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, path = world(kind), tmp_path / "run"
    killed(path, settings, workers, "after the round", 1, monkeypatch)
    killed(path, settings, workers, "between the tables", 4, monkeypatch)
    killed(path, settings, workers, "after the round", 6, monkeypatch)
    continue_run(path, settings, workers)
    assert_same(path, undisturbed(settings))


@pytest.mark.parametrize("kind", EVERYWHERE)
def test_a_kill_at_any_step_changes_nothing(
    kind: str, tmp_path: Path, workers: Any, undisturbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, path = world(), tmp_path / "run"
    killed(path, settings, workers, kind, 3, monkeypatch)
    killed(path, settings, workers, kind, 5 if kind not in SAVING else 2, monkeypatch)
    continue_run(path, settings, workers)
    assert_same(path, undisturbed(settings))


def test_the_world_of_these_tests_has_everything_in_it(undisturbed: Any) -> None:
    text = (undisturbed(world()) / "rounds.csv").read_text()
    for word in ("target away", "target failed", ",w1,", "w0+w2"):
        assert word in text


def test_without_any_checkpoint_the_run_begins_again(tmp_path: Path, workers: Any, undisturbed: Any) -> None:
    settings, path = world(), tmp_path / "run"
    with pytest.raises(Kill):
        continue_run(path, settings, workers, Assassin(5), eager=False)
    assert not (path / "checkpoints").exists()
    continue_run(path, settings, workers, eager=False)
    assert_same(path, undisturbed(settings))


def test_a_finished_run_that_is_resumed_stays_as_it_is(tmp_path: Path, workers: Any, undisturbed: Any) -> None:
    settings, path = world(), tmp_path / "run"
    shutil.copytree(undisturbed(settings), path)
    continue_run(path, settings, workers)
    assert_same(path, undisturbed(settings))


def test_a_folder_is_not_overwritten_and_not_resumed_as_another_run(tmp_path: Path, workers: Any) -> None:
    settings = world().model_copy(update={"rounds": config(rounds={"rounds": 1}).rounds})
    run_in(tmp_path / "run", settings, workers=workers)
    with pytest.raises(InputError, match="already holds a run; continue it with --resume"):
        run_in(tmp_path / "run", settings, workers=workers)
    other = settings.model_copy(update={"seed": 12})
    with pytest.raises(InputError, match="holds a run with seed = 11, but 12 was asked for"):
        run_in(tmp_path / "run", other, workers=workers, resume=True)


def test_checkpoints_take_at_most_a_twentieth_of_the_time(tmp_path: Path, workers: Any) -> None:
    settings = world()
    with RunFolder.open(tmp_path, settings.model_dump(mode="json"), resume=False) as opened:
        recorder = Recorder(opened)
        recorder.cost, recorder.saved = 1.0, recorder.saved
        calls = []
        recorder.checkpoint = lambda run: calls.append(run)  # type: ignore[method-assign]
        run = SimpleNamespace(meanwhile=lambda errand: errand and errand())
        recorder.on_round(run, RoundRecord(None, {"round": 1}))  # type: ignore[arg-type]
        assert not calls, "a checkpoint that took a second is not repeated within twenty"
        recorder.saved -= 20.0
        recorder.on_round(run, RoundRecord(None, {"round": 2}))  # type: ignore[arg-type]
        assert len(calls) == 1


@pytest.mark.verify
def test_a_process_that_is_killed_at_random_moments(tmp_path: Path) -> None:
    """Real processes and SIGKILL; in the end the run is whole."""
    settings = PersonalConfig(
        seed=2,
        workers={"dataset": {"name": "telecom", "rows": 4000}},
        model={"name": "thesis", "hidden": [8, 6, 4]},
        explore={"probability": 0.2},
        rounds={"rounds": 60},
        failures={"away": 0.1, "fail": 0.1},
    )
    run_in(tmp_path / "whole", settings)
    path, generator = tmp_path / "killed", random.Random(4)
    start, kills = context(preload="enlist.personal"), 0
    for attempt in range(2):
        process = start.Process(target=run_child, args=(str(path), settings.model_dump(mode="json")))
        process.start()
        rows, limit = _rows(path) + generator.randint(2, 20), time.monotonic() + 60
        while process.is_alive() and attempt < 1 and _rows(path) < rows and time.monotonic() < limit:
            time.sleep(0.001)
        if attempt < 1:
            process.kill()
        process.join(60)
        kills += process.exitcode == -9
        assert process.exitcode in (0, -9)
        if process.exitcode == 0:
            break
    assert kills == 1
    assert_same(path, tmp_path / "whole")


def _rows(path: Path) -> int:
    return (path / "rounds.csv").read_bytes().count(b"\n") if (path / "rounds.csv").exists() else 0
