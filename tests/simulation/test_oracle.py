"""The oracle: what it knows, that it works in simulations only, and that it is the ladder's ceiling."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import enlist
from enlist.cli.app import app
from enlist.errors import InputError
from enlist.ladder import Rung, ladder
from enlist.ladder import rung as rung_module
from enlist.simulation import Callback, Config, Simulation, simulate
from enlist.simulation.oracle import SURE, Oracle, SimulatedTruth
from tests.simulation.simulation_helpers import Kill, assert_same, config, continue_run, scripted, sessions

NAME = "enlist.simulation.oracle:Oracle"
EVERYBODY = np.arange(10)
SPEEDS = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])


def truth_of(settings: Config, **fields: Any) -> tuple[Simulation, SimulatedTruth]:
    simulation = Simulation(settings, population=scripted(settings, compute=SPEEDS, **fields))
    simulation.state.round = 1
    return simulation, SimulatedTruth(simulation.clients, simulation.state)


def test_it_knows_how_long_everybody_takes() -> None:
    simulation, truth = truth_of(config())
    latency, finishes = truth.replies(np.array([0, 4]))
    assert latency.tolist() == [1.0, 5.0]
    assert finishes.tolist() == [1.0, 1.0]
    assert truth.noise() == SURE
    simulation.close()


def test_it_knows_what_changes_when_it_changes() -> None:
    drift = [{"kind": "speed", "clients": [1, 2], "factor": 0.125, "from_round": 3}]
    simulation, truth = truth_of(config(drift=drift))
    assert truth.replies(EVERYBODY)[0].tolist() == SPEEDS.tolist()
    simulation.state.round = 3
    assert truth.replies(EVERYBODY)[0].tolist() == [1.0, 16.0, 24.0, *SPEEDS[3:]]
    simulation.close()


def test_samples_that_are_swapped_take_their_labels_and_their_time_along() -> None:
    settings = config(
        data={"partition": {"kind": "dirichlet-lognormal", "alpha": 5.0, "sigma": 0.8, "min_size": 5}},
        drift=[{"kind": "data", "clients": [0, 1], "from_round": 2}],
    )
    settings = settings.replace("data.label_noise={share=0.4, low=0.6, high=1.0}", "devices.kind=phones")
    simulation = Simulation(settings)
    truth, quality = SimulatedTruth(simulation.clients, simulation.state), simulation.population.quality
    simulation.state.round = 1
    before = truth.replies(EVERYBODY)[0]
    assert truth.right_labels(EVERYBODY).tolist() == quality.tolist()
    assert (quality < 0.5).sum() == 4
    simulation.state.round = 2
    assert truth.right_labels(EVERYBODY).tolist() == [quality[1], quality[0], *quality[2:]]
    after = truth.replies(EVERYBODY)[0]
    assert (after[:2] != before[:2]).all()
    assert (after[2:] == before[2:]).all()
    simulation.close()


def test_it_knows_who_goes_offline_and_who_may_crash() -> None:
    availability = sessions(10, [(3, 0.0, 4.5), (5, 0.0, 4.5), (7, 2.0, 90.0)])
    simulation, truth = truth_of(config(failures={"crash": 0.25}), availability=availability)
    # Client 3 takes 4 s and stays for 4.5, client 5 takes 6 s, client 7 is not there.
    finishes = truth.replies(EVERYBODY)[1]
    assert finishes.tolist() == [0.75, 0.75, 0.75, 0.75, 0.75, 0.0, 0.75, 0.0, 0.75, 0.75]
    simulation.state.now = 1.0
    assert truth.replies(np.array([3]))[1].tolist() == [0.0]
    simulation.close()


def test_noise_is_known_by_its_deviation() -> None:
    simulation = Simulation(config(devices={"kind": "phones", "compute_noise": 0.3, "bandwidth_noise": 0.1}))
    assert SimulatedTruth(simulation.clients, simulation.state).noise() == 0.3
    simulation.close()


def test_it_leaves_out_wrong_labels_and_who_will_not_reply() -> None:
    settings = config(rounds={"rounds": 12, "k": 2}, evaluation={"every": 12}, selector=NAME)
    quality = np.where(EVERYBODY == 0, 0.2, 1.0)  # the fastest
    availability = sessions(10, [(1, 0.0, 1e-3)])
    population = scripted(settings, compute=np.ones(10), availability=availability, quality=quality)
    simulation = Simulation(settings, population=population)
    simulation.run()
    asked = simulation.selector.counts.selected
    assert asked[:2].tolist() == [0, 0]
    assert asked[2:].min() >= 2


def test_it_is_refused_outside_a_simulation() -> None:
    selector = enlist.create(Oracle, enlist.Clients(count=4), seed=1)
    with pytest.raises(InputError, match="only works in simulations; use 'tempo'"):
        selector.ask(k=2)
    assert "oracle" not in enlist.names()


def test_it_is_at_least_as_fast_as_tempo() -> None:
    settings = config(
        devices={"kind": "phones"}, data={"clients": 40}, rounds={"rounds": 40, "k": 4}, evaluation={"every": 40}
    )
    took = {
        name: float(np.mean([simulate(settings.replace(f"seed={seed}"), name).summary["time"] for seed in range(3)]))
        for name in ("random", "tempo", NAME)
    }
    assert took[NAME] < took["tempo"] < took["random"]


class Ends(Callback):
    def __init__(self, round: int) -> None:
        self.round = round

    def on_round(self, simulation: Simulation, record: Any) -> None:
        if record.row["round"] == self.round:
            raise Kill


def test_it_survives_a_resume(tmp_path: Path) -> None:
    settings = config(
        selector=NAME,
        devices={"kind": "phones"},
        rounds={"rounds": 7, "k": 3, "over_commit": 1.4, "late": "merge"},
        drift=[{"kind": "speed", "share": 0.4, "from_round": 4}],
    )
    continue_run(tmp_path / "whole", settings)
    for round in (3, 5):
        with pytest.raises(Kill):
            continue_run(tmp_path / "cut", settings, Ends(round))
    continue_run(tmp_path / "cut", settings)
    assert_same(tmp_path / "cut", tmp_path / "whole")


def tiny() -> Rung:
    return Rung("tiny", "Next to nothing.", config(evaluation={"every": 1}))


def test_on_the_ladder_it_is_the_ceiling_and_has_no_rank() -> None:
    board = ladder("oracle,oort", [tiny()], seeds=1)
    assert board.labels[-1] == "oracle"
    assert sorted(board.contestants) == ["oort", "random"]
    ranks = {row["selector"]: row["rank"] for row in board.standings}
    assert math.isnan(ranks["oracle"])
    assert sorted([ranks["oort"], ranks["random"]]) in ([1.0, 2.0], [1.5, 1.5])
    assert "oracle (ceiling)" in str(board)
    assert "and the oracle" in board.title


def test_the_command_knows_the_oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[rung]\nhard = "Small."\n[data]\nclients = 8\n[rounds]\nrounds = 3\nk = 3\n[evaluation]\nevery = 1\n'
    (tmp_path / "small.toml").write_text(text)
    monkeypatch.setattr(rung_module, "FOLDER", tmp_path)
    monkeypatch.setattr(rung_module, "NAMES", ("small",))
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["ladder", "--selectors", "oracle", "--seeds", "1", "--jobs", "1", "--output", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert "the oracle" in done.output
    assert (out / "small" / "runs" / "oracle" / "0" / "result.json").is_file()
