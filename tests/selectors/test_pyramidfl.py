"""PyramidFL: Oort's clients, with more work for the fast."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError
from enlist.simulation import Config, Simulation
from tests.resuming import assert_resumes

HEARD = {"loss_rms": [1.0] * 4, "latency": [3.0, 8.0, 20.0, 11.0], "upload_latency": [1.0, 4.0, 2.0, 1.0]}


def make(**settings):
    selector = enlist.create("pyramidfl", Clients(count=4), seed=1, exploration=0.0, exploration_min=0.0, **settings)
    picked = selector.ask(k=4)
    most = selector.settings.most
    np.testing.assert_allclose(picked.work, 1.0 / most)  # nothing is known: the least work
    selector.tell(picked, Feedback(**HEARD))
    return selector


def test_rounds_by_hand():
    # With the least work: t = 3, 8, 20, 11 s, of which training is c = 2, 4, 18, 10 s; the slowest ends at D = 20 s.
    # r = 1 + (20 - t) / c = 9.5, 4, 1, 1.9, at most 5; work is a fifth of it.
    selector = make(most=5.0)
    picked = selector.ask(k=4)
    np.testing.assert_allclose(picked.work, [1.0, 0.8, 0.2, 0.38])
    np.testing.assert_allclose(picked.terms["work"], picked.work)
    # Half of the spare time: r = 5.25, 2.5, 1, 1.45.
    np.testing.assert_allclose(make(most=5.0, fill=0.5).ask(k=4).work, [1.0, 0.5, 0.2, 0.29])
    # Of what takes longer with more work, the time of the least is learned: client 3 trained 1.9 * 10 s, sent 1 s.
    told = {**HEARD, "latency": [11.0, 20.0, 20.0, 20.0]}
    selector.tell(picked, Feedback(**told))
    np.testing.assert_allclose(selector.state.local, [2.0, 4.0, 18.0, 10.0])
    np.testing.assert_allclose(selector.state.duration, [3.0, 8.0, 20.0, 11.0])


def test_the_round_ends_with_enough_replies_or_at_the_deadline():
    # Three of four replies end it at 11 s: r = 5, 1.75, 1 (it is later), 1. A deadline of 9 s: r = 4, 1.25, 1, 1.
    np.testing.assert_allclose(make(most=8.0).ask(k=4, enough=3).work * 8.0, [5.0, 1.75, 1.0, 1.0])
    np.testing.assert_allclose(make(most=8.0).ask(k=4, deadline=9.0).work * 8.0, [4.0, 1.25, 1.0, 1.0])


def test_who_never_replied_does_the_least_and_asynchronously_everybody_all():
    selector = enlist.create("pyramidfl", Clients(count=3), seed=1, most=4.0)
    outcome = [Outcome.COMPLETED, Outcome.DROPPED, Outcome.COMPLETED]
    told = Feedback(outcome=outcome, loss_rms=[1.0, np.nan, 1.0], latency=[2.0, np.nan, 3.0])
    selector.tell(selector.ask(k=3), told)
    np.testing.assert_allclose(selector.ask(k=3).work, [1.5 / 4, 0.25, 0.25])  # no upload is told: 1 + (3 - 2) / 2
    assert selector.ask(k=2, asynchronous=True).work.tolist() == [1.0, 1.0]


def test_with_equal_work_it_is_oort():
    plain, same = (enlist.create(name, Clients(count=20), seed=3) for name in ("oort", "pyramidfl"))
    rng = np.random.default_rng(1)
    loss, latency = rng.uniform(0.1, 2.0, 20), np.full(20, 4.0)
    for _ in range(30):
        asked = [selector.ask(k=5) for selector in (plain, same)]
        assert asked[0].clients.tolist() == asked[1].clients.tolist()
        for selector, picked in zip((plain, same), asked, strict=True):
            selector.tell(picked, Feedback(loss_rms=loss[picked.clients], latency=latency[picked.clients]))


def config(rounds=None, **sections):
    return Config(
        data={"clients": 12, "partition": {"kind": "dirichlet", "alpha": 0.5, "min_size": 4}},
        model={"name": "logistic"},
        training={"epochs": 6, "batch": 8},
        rounds={"rounds": 8, "k": 5, **(rounds or {})},
        selector="pyramidfl",
        **sections,
    )


def test_the_simulator_gives_fast_clients_more_work_and_waits_no_longer():
    devices = {"kind": "phones", "compute_noise": 0.0, "bandwidth_noise": 0.0}
    works, checked = [], 0
    with Simulation(config(devices=devices, rounds={"rounds": 12})) as simulation:
        for _ in range(12):
            known = simulation.selector.state.duration.copy()
            record = simulation.step()
            picked = record.selection
            works += picked.work.tolist()
            least = known[picked.clients]
            if not np.isnan(simulation.selector.state.local[picked.clients]).any() and (picked.work > 0.5).any():
                assert record.row["duration"] == pytest.approx(simulation.selector.state.duration[picked.clients].max())
                checked += not np.isnan(least).any()
    assert min(works) == 0.5
    assert max(works) > 0.9
    assert checked


def test_it_is_the_same_after_stops_with_other_workers(tmp_path):
    rounds = {"over_commit": 1.4, "late": "merge", "deadline": {"kind": "percentile"}}
    assert_resumes(tmp_path, config(rounds=rounds, failures={"crash": 0.2}), stops=[3])


def test_the_preset_is_that_of_the_code():
    settings = enlist.create("pyramidfl", Clients(count=3), preset="code").settings
    assert (settings.most, settings.fill, settings.clip, settings.cut_off) == (11.0, 0.5, 0.98, 0.7)


def test_settings_are_checked():
    with pytest.raises(InputError, match="most"):
        enlist.create("pyramidfl", Clients(count=3), most=0.5)
