"""Everything at once: failures, poison, proposals, growth, elimination, mixed rounds, kills and resume."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from enlist.personal.after import personalise
from tests.personal.personal_helpers import Memory, assert_same, config, continue_run, task
from tests.simulation.simulation_helpers import Assassin, Kill

LIKENESS = [1.0, 0.95, 0.9, -0.2, 0.92, 0.95, 0.9, -0.6, 0.1, 0.9, -0.3, 0.2]


@pytest.fixture(autouse=True)
def quick_disk() -> Iterator[None]:
    """A killed process does not lose what it wrote; waiting for the disk would only take time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def test_everything_at_once(tmp_path: Path) -> None:
    settings = config(
        seed=8,
        model={"name": "thesis", "hidden": [10, 8, 6]},
        training={"lr": 0.2, "momentum": 0.3},
        rule="ucb",
        arms={"kind": "clusters", "size": 6, "grow": 5},
        explore={"probability": 0.15, "every": 4, "growth": 1.5},
        elimination={"confidence": 0.8},
        weights={"kind": "target", "share": 0.6},
        rounds={"rounds": 24, "epochs": {"kind": "shrinking", "epochs": 4, "least": 2}, "pretrain": 8},
        failures={"away": 0.08, "fail": 0.08, "target_away": 0.05, "target_fail": 0.05},
        poison=[
            {"kind": "sign-flip", "workers": ["w5"], "factor": 2.0},
            {"kind": "label-flip", "workers": ["w9"]},
            {"kind": "noise-features", "workers": ["w7"]},
        ],
        after={"baselines": False},
    )
    workers = task(LIKENESS, seed=8, train=[60] * 6 + [45] * 6, poison=settings.poison)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    memory = Memory()
    continue_run(whole, settings, workers, memory)
    for number in (7, 16):
        with pytest.raises(Kill):
            continue_run(cut, settings, workers, Assassin(number))
    continue_run(cut, settings, workers)
    assert_same(cut, whole)

    rows = memory.rounds
    assert {row["skipped"] for row in rows} == {"", "target away", "target failed"}
    assert any(row["failed"] for row in rows if not row["skipped"])
    assert {bool(row["extreme"]) for row in rows if not row["skipped"]} == {True, False}
    assert len({row["epochs"] for row in rows if not row["skipped"]}) > 1
    labels = {entry["arm"] for entry in memory.arms}
    first = {entry["arm"] for entry in memory.arms if entry["round"] == 1}
    assert first < labels, "an arm was added"
    assert any(entry["removed"] for entry in memory.arms), "an arm was removed"

    summary = personalise(settings, whole, workers=workers, resume=True)
    learned = set(summary["combination"].split("+"))
    assert not learned & {"w5", "w9", "w7"}, "nobody poisonous"
    assert learned - {"w0"} <= {"w1", "w2", "w4", "w6"}, "only workers that are like the target"
