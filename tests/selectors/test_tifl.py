"""TiFL: tiers, probabilities and credits by hand."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError, MissingColumnError

NAN = float("nan")
PROFILE = Clients(expected_latency=[9.0, 1.0, 5.0, 2.0, 8.0, 4.0])


def play(selector: enlist.Selector, rounds: int, k: int, accuracy: np.ndarray) -> None:
    for _ in range(rounds):
        picked = selector.ask(k=k)
        selector.tell(picked, Feedback(latency=np.ones(len(picked)), accuracy=accuracy[picked.clients]))


def test_tiers_are_equal_parts_by_latency() -> None:
    selector = enlist.create("tifl", PROFILE, tiers=3)
    selector.ask(k=1)
    # sorted: 1, 2 | 4, 5 | 8, 9
    assert selector.state.tier.tolist() == [2, 0, 1, 0, 2, 1]


def test_sizes_need_not_divide() -> None:
    selector = enlist.create("tifl", Clients(expected_latency=np.arange(7.0)), tiers=3)
    selector.ask(k=1)
    assert selector.state.tier.tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_probabilities_by_ascending_accuracy() -> None:
    selector = enlist.create("tifl", PROFILE, tiers=3, interval=4, seed=1)
    accuracy = np.array([0.5, 0.9, 0.2, 0.7, 0.7, 0.4])  # tier means .8, .3, .6
    for _ in range(4):
        assert selector.state.probability.tolist() == [1 / 3, 1 / 3, 1 / 3]
        picked = selector.ask(k=6)  # everybody, so that every tier is measured
        selector.tell(picked, Feedback(latency=np.ones(6), accuracy=accuracy))
    selector.ask(k=1)
    # n = 3: ranks 0, 1, 2 get 3/6, 2/6, 1/6; tier 1 is worst, then tier 2, then tier 0
    assert selector.state.accuracy.round(12).tolist() == [0.8, 0.3, 0.6]
    assert selector.state.probability.tolist() == [1 / 6, 3 / 6, 2 / 6]


def test_tiers_are_drawn_by_probability() -> None:
    clients = Clients(expected_latency=np.repeat([1.0, 2.0, 3.0], 10))
    selector = enlist.create("tifl", clients, tiers=3, interval=10**6, seed=5)
    selector.ask(k=1)
    selector.state.probability[:] = [1 / 6, 3 / 6, 2 / 6]
    drawn = np.zeros(3)
    for _ in range(3000):
        tiers = np.unique(selector.ask(k=2).clients // 10)
        assert len(tiers) == 1
        drawn[tiers[0]] += 1
    # four standard deviations of a share of 3000 draws are below .037
    assert np.abs(drawn / 3000 - [1 / 6, 3 / 6, 2 / 6]).max() < 0.037


def test_a_tier_never_measured_is_the_most_likely() -> None:
    selector = enlist.create("tifl", PROFILE, tiers=3, interval=2)
    for _ in range(2):
        picked = selector.ask([1, 3, 2, 5], k=4)  # tiers 0 and 1
        selector.tell(picked, Feedback(latency=np.ones(4), accuracy=[0.1, 0.5, 0.1, 0.5]))
    selector.ask(k=6)
    assert selector.state.probability[2] == 3 / 6


def test_accuracy_counts_since_the_last_interval_and_is_kept_without_news() -> None:
    selector = enlist.create("tifl", Clients(expected_latency=[1.0, 2.0]), tiers=2, interval=1)
    selector.tell(selector.ask(k=2), Feedback(latency=[1.0, 1.0], accuracy=[0.2, 0.8]))
    selector.tell(selector.ask([0], k=1), Feedback(latency=[1.0], accuracy=[0.6]))
    selector.ask(k=2)
    assert selector.state.accuracy.tolist() == [0.6, 0.8]
    assert selector.state.probability.tolist() == [2 / 3, 1 / 3]


def test_only_if_stalled() -> None:
    clients = Clients(expected_latency=[1.0, 1.5, 2.0, 2.5])
    selector = enlist.create("tifl", clients, tiers=2, interval=1, preset="paper")

    def ranked_after(accuracy: float) -> bool:
        """Tier 0 is drawn and tells an accuracy; whether the next round begins with new probabilities."""
        selector.state.probability[:] = [1.0, 0.0]
        picked = selector.ask([0, 1], k=1)
        selector.state.probability[:] = [1.0, 0.0]
        selector.tell(picked, Feedback(latency=[1.0], accuracy=[accuracy]))
        selector.ask([], k=1)
        return selector.state.probability.tolist() != [1.0, 0.0]

    assert ranked_after(0.4)  # nothing to compare with
    assert not ranked_after(0.5)
    assert ranked_after(0.5)
    assert selector.state.probability.tolist() == [1 / 3, 2 / 3]  # tier 1 was never measured
    assert ranked_after(0.3)
    assert not ranked_after(0.35)


def test_filled_from_slower_then_faster_neighbours() -> None:
    clients = Clients(expected_latency=np.arange(8.0))  # tiers 01 23 45 67
    selector = enlist.create("tifl", clients, tiers=4)
    selector.begin_round(enlist.Request(round=1, available=np.arange(8), k=0, population=8))

    def chosen(drawn: int, k: int, available: list[int] | None = None) -> list[int]:
        selector.state.probability[:] = 0.0
        selector.state.probability[drawn] = 1.0
        return selector.ask(available, k=k).clients.tolist()

    assert chosen(1, 4) == [2, 3, 4, 5]
    assert chosen(1, 6) == [0, 1, 2, 3, 4, 5]
    assert chosen(3, 4) == [4, 5, 6, 7]
    assert chosen(1, 3, [0, 1, 2, 5, 6]) in ([0, 2, 5], [1, 2, 5])


def test_credits_run_out_and_are_refilled() -> None:
    clients = Clients(expected_latency=np.arange(10.0))
    selector = enlist.create("tifl", clients, tiers=2, credits=3, seed=4)
    drawn = [int(selector.ask(k=2).clients[0] >= 5) for _ in range(12)]
    for start in (0, 6):
        assert sorted(drawn[start : start + 6]) == [0, 0, 0, 1, 1, 1]
    assert selector.state.credits.tolist() == [0.0, 0.0]
    assert len(selector.ask(k=2)) == 2


def test_only_tiers_with_credits_are_ranked() -> None:
    clients = Clients(expected_latency=[1.0, 1.0, 2.0, 2.0, 3.0, 3.0])
    selector = enlist.create("tifl", clients, tiers=3, interval=2, credits=5)
    for _ in range(2):
        picked = selector.ask(k=6)
        selector.tell(picked, Feedback(latency=np.ones(6), accuracy=[0.9, 0.9, 0.1, 0.1, 0.5, 0.5]))
    selector.state.credits[:] = [5, 0, 5]
    selector.ask(k=6)
    # n = 2: tier 2 (.5) 2/3, tier 0 (.9) 1/3, tier 1 nothing
    assert selector.state.probability.tolist() == [1 / 3, 0.0, 2 / 3]
    # nobody but the tier without credits is available: refilled, not stuck
    assert selector.ask([2, 3], k=1).clients[0] in (2, 3)
    assert selector.state.credits.tolist() == [5, 4, 5]


def test_observed_latency_when_there_is_no_profile() -> None:
    selector = enlist.create("tifl", Clients(count=6), tiers=3, interval=2)
    picked = selector.ask(k=6, deadline=20.0)
    outcome = np.array([0, Outcome.DROPPED, 0, Outcome.LATE, 0, 0])
    feedback = Feedback(
        outcome=outcome,
        latency=[7.0, NAN, 3.0, 8.0, 1.0, 2.0],
        censored=outcome == Outcome.LATE,
        accuracy=[0.5, NAN, 0.5, NAN, NAN, 0.5],
    )
    selector.tell(picked, feedback)
    # dropped: the deadline, 20; cut off at 8 and never seen: 8
    assert selector.state.latency.mean.tolist() == [7.0, 20.0, 3.0, 8.0, 1.0, 2.0]
    assert selector.state.reports.sum() == 3  # two did not complete, one NaN
    selector.ask(k=1)
    selector.ask(k=1)  # round 3: new tiers 1 2 | 3 7 | 8 20
    assert selector.state.tier.tolist() == [1, 2, 1, 2, 0, 0]


def test_cut_off_cannot_make_a_client_faster_and_an_amendment_tells_the_truth() -> None:
    selector = enlist.create("tifl", Clients(count=1), tiers=1)
    selector.tell(selector.ask(k=1, deadline=20.0), Feedback(latency=[10.0], accuracy=[0.4]))
    picked = selector.ask(k=1, deadline=20.0)
    selector.tell(picked, Feedback(outcome=[Outcome.LATE], latency=[4.0], censored=[True]))
    assert selector.state.latency.mean.tolist() == [10.0]
    arrived = Feedback(outcome=[Outcome.ARRIVED], latency=[16.0], accuracy=[0.8])
    selector.tell(picked, arrived)
    assert selector.state.latency.mean.tolist() == [13.0]
    assert selector.state.total.round(12).tolist() == [1.2]
    assert selector.state.reports.tolist() == [2.0]


def test_unobserved_clients_stay_in_a_random_tier() -> None:
    selector = enlist.create("tifl", Clients(count=1000), tiers=5, interval=1, seed=1)
    selector.ask([], k=1)
    before = selector.state.tier.copy()
    assert np.bincount(before, minlength=5).min() > 140
    selector.ask([], k=1)
    assert (selector.state.tier == before).all()


def test_joined_clients_get_a_tier_at_once() -> None:
    selector = enlist.create("tifl", PROFILE, tiers=2)
    selector.ask(k=1)
    selector.join(Clients(expected_latency=[0.5, 20.0]))
    selector.ask(k=1)
    # sorted 0.5 1 2 4 | 5 8 9 20
    assert selector.state.tier.tolist() == [1, 0, 1, 0, 1, 0, 0, 1]


def test_more_tiers_than_clients() -> None:
    selector = enlist.create("tifl", Clients(expected_latency=[1.0, 2.0, 3.0]), tiers=7)
    play(selector, 30, 2, np.array([0.1, 0.2, 0.3]))
    assert selector.counts.selected.min() > 0


def test_accuracy_is_needed() -> None:
    selector = enlist.create("tifl", PROFILE)
    with pytest.raises(MissingColumnError, match="accuracy"):
        selector.tell(selector.ask(k=1), Feedback(latency=[1.0]))


@pytest.mark.parametrize("wrong", [{"tiers": 0}, {"tiers": 128}, {"interval": 0}, {"credits": 0}])
def test_settings_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        enlist.create("tifl", Clients(count=2), **wrong)
