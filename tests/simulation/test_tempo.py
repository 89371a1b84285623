"""Tempo with everything at once: days and nights, crashes, late updates, joins; killed twice, other workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist.runs.tables import read_table
from enlist.simulation import Callback, Config, Simulation
from tests.simulation.simulation_helpers import Kill, assert_same, checkpoint, config, continue_run

ROUNDS = 14


def world(**rounds: Any) -> Config:
    return config(
        selector="tempo",
        data={"clients": 30, "partition": "dirichlet"},
        devices={"kind": "phones"},
        availability={"kind": "diurnal", "sessions_per_day": 1000, "session_median": 25, "night_median": 0},
        failures={"crash": 0.15},
        membership={"joins": [{"round": 4, "clients": 3}, {"round": 9, "clients": 2}]},
        drift=[{"kind": "speed", "share": 0.3, "factor": 0.2, "from_round": 6}],
        training={"steps": 3, "momentum": 0.5},
        rounds={
            "rounds": ROUNDS, "k": 4, "over_commit": 1.5, "late": "merge", "staleness": "refl",
            "deadline": {"kind": "moving-average", "factor": 1.2}, "max_lateness": 3, **rounds,
        },
        evaluation={"every": 5, "reasons": True},
    )  # fmt: skip


class Ends(Callback):
    """Ends the run after a round, like a kill."""

    def __init__(self, round: int) -> None:
        self.round = round

    def on_round(self, simulation: Simulation, record: Any) -> None:
        if record.row["round"] == self.round:
            raise Kill


def test_killed_twice_and_trained_by_others_it_is_the_same_run(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    continue_run(whole, world())
    for last, workers in ((5, 0), (10, 2)):
        with pytest.raises(Kill):
            continue_run(cut, world(), Ends(last), workers=workers)
    continue_run(cut, world(), workers=1)
    assert_same(cut, whole)
    assert (cut / "rounds.csv").read_bytes() == (whole / "rounds.csv").read_bytes()
    state = [path.relative_to(whole) for path in (checkpoint(whole) / "selector").iterdir()]
    assert {path.name for path in state} >= {"state.json"}


def test_the_run_is_as_troubled_as_it_claims_to_be(tmp_path: Path) -> None:
    """Otherwise the test above could pass on a run in which nothing happens."""
    path = tmp_path / "run"
    continue_run(path, world())
    seen = read_table(path / "participations.csv")
    assert set(seen["outcome"]) >= {"completed", "late", "arrived", "dropped"}
    joined = np.asarray(seen["client"])[np.asarray(seen["round"]) >= 4] >= 25
    assert joined.any()
    rounds = read_table(path / "rounds.csv")
    assert min(rounds["available"]) < 30
    assert len(rounds["round"]) == ROUNDS
    assert (path / "reasons.csv").read_text().splitlines()[0].count("fair_share") == 1
