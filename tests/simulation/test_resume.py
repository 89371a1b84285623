"""Runs that are killed, wherever it may be, and resumed end with the same bytes as runs that were not."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enlist.engine import context
from enlist.simulation import Callback, Config
from tests.simulation.simulation_helpers import (
    KILLS,
    SAVING,
    Kill,
    assert_same,
    break_at,
    config,
    continue_run,
    every_selector,
    kill_at,
    run_child,
)

EVERYWHERE = (*SAVING, *KILLS)


def world(selector: str = "random", **rounds: Any) -> Config:
    """Everything at once: days and nights, crashes, over-commitment, late replies, joining, leaving, server state."""
    return config(
        selector=selector,
        data={"clients": 24, "partition": "dirichlet"},
        devices={"kind": "phones"},
        availability={"kind": "diurnal", "sessions_per_day": 1000, "session_median": 20, "night_median": 0},
        failures={"crash": 0.15},
        membership={"joins": [{"round": 4, "clients": 2}], "leaves": [{"round": 5, "clients": [1]}]},
        training={"steps": 3, "momentum": 0.5},
        server={"optimiser": {"kind": "fedyogi"}},
        rounds={
            "rounds": 8, "k": 3, "over_commit": 2.0, "late": "merge", "staleness": "refl", "forecast": 0.9,
            "deadline": {"kind": "moving-average", "factor": 1.5}, "adaptive_target": True, "max_lateness": 3, **rounds,
        },
        evaluation={"every": 3, "target": 0.2},
    )  # fmt: skip


def killed(path: Path, settings: Config, kind: str, number: int, patch: pytest.MonkeyPatch, **arguments: Any) -> None:
    """Run until killed in one of the ways of EVERYWHERE, in round or at checkpoint `number` of this run."""
    first: list[Callback] = []
    last: list[Callback] = []
    if kind in SAVING:
        break_at(kind, Kill(), patch, number)
    else:
        first, last = kill_at(kind, number, patch)
    with pytest.raises(Kill):
        continue_run(path, settings, *last, first=first, **arguments)
    patch.undo()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The folder of the undisturbed run of a configuration, each run once."""
    known: dict[str, Path] = {}

    def found(settings: Config) -> Path:
        key = settings.model_dump_json()
        if key not in known:
            known[key] = tmp_path_factory.mktemp("whole") / "run"
            continue_run(known[key], settings)
        return known[key]

    return found


OFTEN = {"random", "tempo", "oort", "bsfl", "fedsuv", "refl", "safa", "power-of-choice", "divfl", "eafl"}
"""One of each kind of state; `make verify` has the others."""


@pytest.mark.parametrize(
    "selector", [pytest.param(name, marks=[] if name in OFTEN else pytest.mark.verify) for name in every_selector()]
)
def test_every_selector_resumes_bit_by_bit(
    selector: str, tmp_path: Path, undisturbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, path = world(selector), tmp_path / "run"
    turn = every_selector().index(selector)
    killed(path, settings, EVERYWHERE[turn % len(EVERYWHERE)], 2 + turn % 3, monkeypatch)
    killed(path, settings, "after the round", 6, monkeypatch, workers=1 + turn % 2)
    continue_run(path, settings)
    assert_same(path, undisturbed(settings))
    text = (path / "participations.csv").read_text()
    for outcome in ("completed", "late", "arrived"):
        assert f",{outcome}," in text, "the world is to hold all kinds of outcome"


@pytest.mark.parametrize("kind", EVERYWHERE)
def test_a_kill_at_any_step_changes_nothing(
    kind: str, tmp_path: Path, undisturbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, path = world("oort"), tmp_path / "run"
    killed(path, settings, kind, 3, monkeypatch)
    killed(path, settings, kind, 5 if kind not in SAVING else 2, monkeypatch)
    continue_run(path, settings)
    assert_same(path, undisturbed(settings))


def test_a_kill_between_the_last_checkpoint_and_the_result_changes_nothing(
    tmp_path: Path, undisturbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, path = world("oort"), tmp_path / "run"
    killed(path, settings, "after the round", 8, monkeypatch)
    continue_run(path, settings)
    assert_same(path, undisturbed(settings))


@pytest.mark.parametrize("late", ["drop", "merge"])
def test_safa_resumes_bit_by_bit(late: str, tmp_path: Path, undisturbed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, path = world("safa", protocol="safa", late=late, lag_tolerance=2, adaptive_target=False), tmp_path / "run"
    killed(path, settings, "after the round", 3, monkeypatch)
    killed(path, settings, "between the tables", 6, monkeypatch)
    continue_run(path, settings)
    assert_same(path, undisturbed(settings))


@pytest.mark.parametrize("optimiser", ["fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi"])
def test_server_optimisers_resume(optimiser: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(server={"optimiser": optimiser}, rounds={"rounds": 4, "k": 3})
    continue_run(tmp_path / "whole", settings)
    killed(tmp_path / "cut", settings, "after the round", 2, monkeypatch)
    continue_run(tmp_path / "cut", settings)
    assert_same(tmp_path / "cut", tmp_path / "whole")


def test_batch_norm_and_dropout_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(
        model={"name": "thesis"},
        rounds={"rounds": 4, "k": 3, "over_commit": 2.0, "late": "merge"},
        devices={"kind": "phones"},
    )
    continue_run(tmp_path / "whole", settings)
    killed(tmp_path / "cut", settings, "after the round", 2, monkeypatch)
    continue_run(tmp_path / "cut", settings)
    assert_same(tmp_path / "cut", tmp_path / "whole")


def test_without_any_checkpoint_the_run_begins_again(
    tmp_path: Path, undisturbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, path = world("oort"), tmp_path / "run"
    killed(path, settings, "after the round", 5, monkeypatch, eager=False)
    assert not (path / "checkpoints").exists()
    continue_run(path, settings, eager=False)
    assert_same(path, undisturbed(settings))


def test_a_finished_run_that_is_resumed_stays_as_it_is(tmp_path: Path, undisturbed: Any) -> None:
    settings, path = world("oort"), tmp_path / "run"
    shutil.copytree(undisturbed(settings), path)
    continue_run(path, settings)
    assert_same(path, undisturbed(settings))


def test_the_target_that_was_reached_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(
        rounds={"rounds": 6, "k": 10}, training={"epochs": 5, "lr": 0.2}, evaluation={"every": 1, "target": 0.3}
    )
    continue_run(tmp_path / "whole", settings)
    killed(tmp_path / "cut", settings, "after the round", 4, monkeypatch)
    continue_run(tmp_path / "cut", settings)
    assert_same(tmp_path / "cut", tmp_path / "whole")
    assert '"rounds_to_target": null' not in (tmp_path / "cut" / "result.json").read_text()


def test_a_process_that_is_killed_at_random_moments(tmp_path: Path) -> None:
    """Real processes and SIGKILL, with and without workers; in the end the run is whole."""
    settings = world("oort", rounds=50)
    continue_run(tmp_path / "whole", settings, eager=False)
    path, generator = tmp_path / "killed", random.Random(4)
    start, kills = context(preload="enlist.simulation.comparison"), 0
    for attempt in range(40):
        process = start.Process(target=run_child, args=(str(path), settings.model_dump(mode="json"), attempt % 3 == 1))
        process.start()
        rows = _rows(path) + generator.randint(1, 15)
        limit = time.monotonic() + 60
        while process.is_alive() and attempt < 3 and _rows(path) < rows and time.monotonic() < limit:
            time.sleep(0.001)
        if attempt < 3:
            time.sleep(0.02 * generator.random())
            process.kill()
        process.join(60)
        kills += process.exitcode == -9
        assert process.exitcode in (0, -9)
        if process.exitcode == 0:
            break
    assert kills >= 2
    assert_same(path, tmp_path / "whole")


def _rows(path: Path) -> int:
    return (path / "rounds.csv").read_bytes().count(b"\n") if (path / "rounds.csv").exists() else 0
