"""SAFA: the arrivals the server takes, and the selector-only variant."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError

NAN = float("nan")


def test_cfcfm_by_hand() -> None:
    selector = enlist.create("safa", Clients(count=6))
    # round 1: nobody was picked before, the first two of four
    assert selector.accept([5, 2, 0, 3], k=2).tolist() == [5, 2]
    # round 2: picked before {5, 2}; priority 4, 1 fills the quota although 2 came first
    assert selector.accept([2, 4, 5, 1, 3], k=2).tolist() == [4, 1]
    # round 3: picked before {4, 1}; priority 0 alone, then the earliest of the others, 1
    assert selector.accept([1, 4, 0], k=2).tolist() == [0, 1]
    # round 4: no more than the quota arrived: all, in order of arrival
    assert selector.accept([1, 0], k=2).tolist() == [1, 0]
    assert np.flatnonzero(selector.state.accepted).tolist() == [0, 1]
    # round 5: nobody arrived, so nobody was picked before round 6
    assert selector.accept([], k=2).tolist() == []
    assert selector.accept([1, 0, 3], k=2).tolist() == [1, 0]


def test_accept_none() -> None:
    selector = enlist.create("safa", Clients(count=3))
    assert selector.accept([2, 1], k=0).tolist() == []


@pytest.mark.parametrize(
    ("arrivals", "k"),
    [([0, 0], 1), ([0, 3], 1), ([-1, 0], 1), ([0.5], 1), ([True, False, True], 1), ([0, 1], -1), ([[0, 1]], 1)],
)
def test_accept_refuses_without_forgetting(arrivals: list[int], k: int) -> None:
    selector = enlist.create("safa", Clients(count=3))
    selector.accept([2], k=1)
    with pytest.raises(InputError):
        selector.accept(arrivals, k=k)
    assert selector.state.accepted.tolist() == [False, False, True]


def test_everybody_trains_does_not_disturb_the_picks() -> None:
    selector = enlist.create("safa", Clients(count=4))
    assert selector.trains_all
    for expected in ([3, 2], [1, 0], [3, 2]):
        picked = selector.ask(k=4)
        assert picked.clients.tolist() == [0, 1, 2, 3]
        assert selector.accept([3, 2, 1, 0], k=2).tolist() == expected
        selector.tell(picked, Feedback(latency=[4.0, 3.0, 2.0, 1.0]))


def test_picks_survive_saving(tmp_path: str) -> None:
    selector = enlist.create("safa", Clients(count=4))
    selector.accept([3, 2, 1, 0], k=2)
    selector.save(tmp_path)
    assert enlist.load(tmp_path).accept([3, 2, 1, 0], k=2).tolist() == [1, 0]


def test_lite_rotates_then_goes_by_duration() -> None:
    selector = enlist.create("safa", Clients(expected_latency=[5.0, 1.0, 4.0, 2.0, 3.0]))
    # by duration: 1 (1 s), 3 (2 s); then 4 (3 s), 2 (4 s); then of {1, 3, 0}: 1, 3
    assert selector.ask(k=2).clients.tolist() == [1, 3]
    assert selector.ask(k=2).clients.tolist() == [2, 4]
    assert selector.ask(k=2).clients.tolist() == [1, 3]
    # k = 4: 0, 2, 4 were not chosen, and the faster of the others is 1
    assert selector.ask(k=4).clients.tolist() == [0, 1, 2, 4]
    # an empty round chooses nobody, so then the fastest have no predecessor
    selector.ask([], k=2)
    assert selector.ask(k=2).clients.tolist() == [1, 3]


def test_observed_latency_replaces_the_profile() -> None:
    selector = enlist.create("safa", Clients(expected_latency=[1.0, 2.0, 3.0]))
    selector.tell(selector.ask([0], k=1), Feedback(latency=[9.0]))
    selector.ask([], k=1)
    assert selector.ask(k=2).clients.tolist() == [1, 2]


def test_mean_latency_of_late_lost_and_amended_clients() -> None:
    selector = enlist.create("safa", Clients(count=4))
    selector.tell(selector.ask(k=4, deadline=20.0), Feedback(latency=[2.0, 6.0, 10.0, 4.0]))
    picked = selector.ask(k=4, deadline=20.0)
    outcome = [Outcome.COMPLETED, Outcome.DROPPED, Outcome.LATE, Outcome.LATE]
    feedback = Feedback(outcome=outcome, latency=[4.0, NAN, 8.0, 8.0], censored=[False, False, True, True])
    selector.tell(picked, feedback)
    # (2+4)/2; (6+20)/2, lost counts as the deadline; cut off at 8 though 10 is its mean: 10; cut off at 8: (4+8)/2
    assert selector.state.latency.mean.tolist() == [3.0, 13.0, 10.0, 6.0]
    selector.tell(picked, Feedback(clients=[2, 3], outcome=[Outcome.ARRIVED] * 2, latency=[16.0, 12.0]))
    assert selector.state.latency.mean.tolist() == [3.0, 13.0, 13.0, 8.0]


def test_lost_without_a_deadline_teaches_nothing() -> None:
    selector = enlist.create("safa", Clients(count=1))
    selector.tell(selector.ask(k=1), Feedback(outcome=[Outcome.DROPPED], latency=[NAN]))
    assert selector.state.latency.count.tolist() == [0]


def test_unknown_durations_stand_anywhere() -> None:
    firsts = {enlist.create("safa", Clients(count=20), seed=seed).ask(k=1).clients[0] for seed in range(30)}
    assert len(firsts) > 8
    # one known client among 20: an unknown one draws its duration, so ties are broken at random, neither side first
    wins = 0
    for seed in range(200):
        selector = enlist.create("safa", Clients(count=2), seed=seed)
        selector.tell(selector.ask([0], k=1), Feedback(latency=[5.0]))
        selector.ask([], k=1)
        wins += int(selector.ask(k=1).clients[0] == 0)
    assert 70 < wins < 130


def test_joined_clients_were_not_picked() -> None:
    selector = enlist.create("safa", Clients(count=2))
    selector.accept([0, 1], k=2)
    selector.join(Clients(count=1))
    assert selector.accept([0, 1, 2], k=2).tolist() == [2, 0]
