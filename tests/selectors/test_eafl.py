"""EAFL: what is left in batteries against Oort's score."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.simulation import Config, Simulation, simulate


def make(**settings):
    clients = Clients(battery=[100.0, 200.0, 100.0], num_examples=[10, 10, 10])
    selector = enlist.create("eafl", clients, seed=1, exploration=0.0, exploration_min=0.0, **settings)
    told = Feedback(loss_rms=[3.0, 1.0, 2.0], latency=[5.0, 5.0, 5.0], energy=[30.0, 10.0, 20.0])
    selector.tell(selector.ask(k=3), told)
    return selector


def test_a_round_by_hand():
    # Left after another round: (90 - 30) / 100 = .6, (50 - 10) / 200 = .2, (95 - 20) / 100 = .75.
    # Oort's scores, utilities 30, 10, 20 scaled by (u - 9.99) / 20.01 (cut at the largest), plus the same staleness,
    # scaled to [0, 1]: 1, 0, .5. With f = .25: .25 + .45 = .7; .15; .125 + .5625 = .6875.
    selector = make()
    picked = selector.ask(k=2, context={"battery": [90.0, 50.0, 95.0]})
    assert picked.clients.tolist() == [0, 2]
    np.testing.assert_allclose(picked.terms["battery"], [0.6, 0.75])
    np.testing.assert_allclose(picked.terms["score"], [0.7, 0.6875], atol=1e-3)
    assert make(utility=0.0).ask(k=1, context={"battery": [90.0, 50.0, 95.0]}).clients.tolist() == [2]
    assert make(utility=1.0).ask(k=1, context={"battery": [90.0, 50.0, 95.0]}).clients.tolist() == [0]


def test_without_context_what_was_spent_counts():
    selector = make(utility=0.0)
    # Full, less the first round, less another: 40, 180 of 200, 60: the second has .9 left.
    picked = selector.ask(k=1)
    assert picked.clients.tolist() == [1]
    assert picked.terms["battery"][0] == pytest.approx(0.9)
    selector.tell(picked, Feedback(outcome=[Outcome.DROPPED]))
    assert selector.state.battery[1] == 190.0


def test_it_is_told_of_batteries_by_the_simulator(tmp_path):
    config = Config(
        data={"clients": 8, "partition": {"kind": "dirichlet", "alpha": 0.5, "min_size": 4}},
        model={"name": "logistic"},
        rounds={"rounds": 6, "k": 3, "over_commit": 1.4, "late": "merge", "deadline": {"kind": "percentile"}},
        failures={"crash": 0.2},
        energy={"battery": 100.0, "charge_watts": 0.1},
    )
    with Simulation(config, "eafl") as simulation:
        record = simulation.step()
        assert "battery" in record.selection.terms
        assert not np.isnan(simulation.selector.state.spent).all()
        left = simulation.state.batteries.at(simulation.now)
        assert (left[record.selection.clients] < 100.0).all()
    simulate(config, "eafl", folder=tmp_path / "whole")
    for stop, workers in ((2, 2), (6, 0)):
        shorter = config.replace(f"rounds.rounds={stop}")
        simulate(shorter, "eafl", folder=tmp_path / "cut", workers=workers, resume=stop > 2)
    for name in ("rounds.csv", "participations.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


def test_where_energy_is_not_counted_it_is_told_of_phones_on_the_mains():
    config = Config(data={"clients": 8}, model={"name": "logistic"}, rounds={"rounds": 2, "k": 3})
    with Simulation(config, "eafl") as simulation:
        record = simulation.step()
        assert "energy" not in record.row
        assert simulation.state.batteries is None
        assert (simulation.selector.clients.battery == 40_000).all()
        assert np.isfinite(simulation.selector.state.spent[record.selection.clients]).all()
