"""Simulations and matches as experiments of a study: resumed, and the same as the commands run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from enlist.arena.compare import Tournament, run
from enlist.studies.experiments import match, simulation

CONFIG = {"data": {"clients": 8}, "rounds": {"rounds": 3, "k": 3}, "evaluation": {"every": 1}}


def test_a_simulation_is_that_of_a_comparison_and_is_not_run_twice(tmp_path: Path) -> None:
    from enlist.simulation.comparison import Comparison as Simulations
    from enlist.simulation.config import parse

    settings = {"selector": "oort:paper", "config": CONFIG}
    first = simulation(settings, 4, tmp_path / "a")
    again = simulation(settings, 4, tmp_path / "a")
    comparison = Simulations(parse(CONFIG, "config"), ("oort:paper",), seeds=1, first_seed=4)
    other = comparison.run(tmp_path / "b").finished["oort:paper", 4]
    assert first["accuracy"].tolist() == again["accuracy"].tolist()
    assert first["accuracy"][-1] == other["accuracy"]
    assert first["selected"].sum() == 9
    assert first["status"] == "finished"
    assert (tmp_path / "a" / "run" / "rounds.csv").exists()


def test_selectors_of_one_seed_share_a_population(tmp_path: Path) -> None:
    found = [simulation({"selector": name, "config": CONFIG}, 1, tmp_path / name) for name in ("random", "oort")]
    assert all(len(one["end"]) == 3 for one in found)
    names = [(tmp_path / name / "run" / "clients.csv").read_text() for name in ("random", "oort")]
    assert names[0] == names[1]


def test_safas_own_protocol_asks_everybody_of_the_same_population(tmp_path: Path) -> None:
    own = {**CONFIG, "rounds": {**CONFIG["rounds"], "protocol": "safa"}, "selector": {"name": "safa"}}
    everybody = simulation({"selector": "safa", "config": own}, 1, tmp_path / "own")
    simulation({"selector": "safa", "config": CONFIG}, 1, tmp_path / "first")
    assert everybody["asked"][0] == 8, "all of them train at first"
    names = [(tmp_path / name / "run" / "clients.csv").read_text() for name in ("own", "first")]
    assert names[0] == names[1]


def test_a_match_is_that_of_the_arena() -> None:
    settings = {"scenario": "slow-minority", "clients": 12, "k": 3, "rounds": 30}
    found = match({"selector": "bsfl", **settings, "reward": {"alpha": 0.5}}, 7, Path())
    from enlist.arena.genie import BSFLReward

    record = run(Tournament(("bsfl",), seeds=1, first_seed=7, reward=BSFLReward(alpha=0.5), **settings), "bsfl", 7)
    assert found["round_time"] == record.scores["round_time"]
    assert np.array_equal(found["curve/pseudo"], record.curves["pseudo"])
    assert np.array_equal(found["selected"], record.selected)
