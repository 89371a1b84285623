"""Clients that bring no reward, rewards that come late, and what must not be learned from them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import enlist
from enlist import Books, Clients, Feedback, Outcome
from enlist.bandits import MeanLatency
from enlist.bandits.annealing import exhaustive
from enlist.rounds import Observation

RULES = ("ucb", "epsilon-greedy", "thompson", "discounted-thompson")


@pytest.mark.parametrize("name", RULES)
def test_who_is_always_cut_off_is_not_asked_for_ever(name):
    """20 clients, 5 a round: each client's share is 50 of 200 rounds."""
    selector = enlist.create(name, Clients(count=20), seed=1)
    rng = np.random.default_rng(2)
    for _ in range(200):
        picked = selector.ask(k=5, deadline=10.0)
        cut = picked.clients == 0
        outcome = np.where(cut, Outcome.LATE, Outcome.COMPLETED)
        gain = np.where(cut, np.nan, rng.normal(0.5, 0.1, 5))
        selector.tell(picked, Feedback(outcome=outcome, latency=np.full(5, 3.0), censored=cut, accuracy_gain=gain))
    assert 5 < selector.counts.selected[0] < 100


@pytest.mark.parametrize("name", RULES)
def test_who_never_reports_the_value_is_not_asked_for_ever(name):
    selector = enlist.create(name, Clients(count=20), seed=1)
    rng = np.random.default_rng(2)
    for _ in range(200):
        picked = selector.ask(k=5)
        selector.tell(picked, Feedback(accuracy_gain=np.where(picked.clients < 3, np.nan, rng.normal(0.5, 0.1, 5))))
    assert (selector.counts.selected[:3] < 110).all()


@pytest.mark.parametrize("name", RULES)
def test_with_completion_as_the_reward_those_who_complete_are_preferred(name):
    selector = enlist.create(name, Clients(count=10), seed=1, reward="completed")
    for _ in range(200):
        picked = selector.ask(k=2)
        selector.tell(picked, Feedback(outcome=np.where(picked.clients < 5, Outcome.DROPPED, Outcome.COMPLETED)))
    assert selector.counts.selected[5:].sum() > 4 * selector.counts.selected[:5].sum()


def test_an_arrival_after_the_deadline_was_not_in_time():
    selector = enlist.create("ucb", Clients(count=3), seed=1, reward="completed", scale="raw")
    picked = selector.ask(k=3, deadline=10.0)
    late = Feedback(outcome=[0, 1, 1], latency=[1.0, 10.0, 4.0], censored=[False, False, True])
    selector.tell(picked, late)
    arrived = Feedback(clients=[1, 2], outcome=[Outcome.ARRIVED] * 2, latency=[25.0, 6.0])
    selector.tell(picked, arrived)
    assert selector.rule.values().tolist() == pytest.approx([1.0, 0.0, 1.0])


def test_rewards_are_whole_at_the_next_choice_and_fade_after_it():
    selector = enlist.create("discounted-thompson", Clients(count=3), seed=1, preset="paper")
    picked = selector.ask([0], k=1)
    selector.tell(picked, Feedback(accuracy_gain=[0.1]))
    seen = []
    choose = selector.choose
    selector.choose = lambda request: (seen.append(float(selector.state.rule.successes[0])), choose(request))[1]
    selector.ask(k=1)
    assert seen == [1.0]
    assert selector.state.rule.successes[0] == 0.75


def test_what_is_revised_has_faded():
    """gamma = 0.75: a failure three rounds ago weighs 0.75³ = 0.42; the success that takes its place weighs as much."""
    selector = enlist.create("discounted-thompson", Clients(count=2), seed=1, preset="paper")
    first = selector.ask([0], k=1, deadline=10.0)
    selector.tell(first, Feedback(outcome=[Outcome.LATE], latency=[10.0], censored=[False]))
    for _ in range(3):
        selector.tell(selector.ask([1], k=1), Feedback(accuracy_gain=[0.0]))
    assert selector.state.rule.failures[0] == pytest.approx(0.75**3)
    selector.tell(first, Feedback(outcome=[Outcome.ARRIVED], latency=[12.0], accuracy_gain=[0.5]))
    assert selector.state.rule.successes[0] == pytest.approx(0.75**3)
    assert selector.state.rule.failures[0] == pytest.approx(0.0)


def test_who_joins_a_fair_federation_late_gets_its_share():
    """CS-UCB-Q owes 2 of 5 clients of equal size 0.4 of the rounds each, from the round on in which they come."""
    selector = enlist.create("cs-ucb-q", Clients(num_examples=[10] * 4), seed=1, share=1.0)

    def rounds(count):
        for _ in range(count):
            picked = selector.ask(k=2, deadline=10.0)
            selector.tell(picked, Feedback(latency=1.0 + 2.0 * picked.clients))

    rounds(500)
    selector.join(Clients(num_examples=[10]))
    rounds(200)
    assert selector.counts.selected[4] / 200 == pytest.approx(0.4, abs=0.03)


def test_a_long_latency_that_arrives_after_all_is_the_longest_seen():
    latency = MeanLatency.create(2)
    picked = enlist.Selection(1, np.array([0, 1]))
    cut = Feedback(outcome=[0, 1], latency=[1.0, 1.0], censored=[False, True]).resolved(picked)
    credited = latency.learn(Observation(picked, cut))
    arrived = Feedback(clients=[1], outcome=[Outcome.ARRIVED], latency=[50.0]).resolved(picked)
    latency.amend(Observation(picked, arrived, credited[1:]))
    assert latency.longest == 50.0


def test_a_loaded_array_is_laid_out_as_it_was(tmp_path):
    """Products of few rows round differently if the matrix is laid out otherwise; so would clients that join later."""
    rng = np.random.default_rng(0)
    clients = Clients(features=rng.normal(size=(300, 3)))
    selector = enlist.create("fedsuv", clients, seed=1, posterior="features")
    selector.save(tmp_path / "state")
    again = enlist.load(tmp_path / "state")
    for (path, one), (_, other) in zip(selector.state.leaves(), again.state.leaves(), strict=True):
        if isinstance(one, np.ndarray) and one.ndim > 1:
            assert one.flags.f_contiguous == other.flags.f_contiguous, path
    for number in range(8):
        more = Clients(features=np.random.default_rng(number).normal(size=(1, 3)))
        selector.join(more)
        again.join(more)
    for (path, one), (_, other) in zip(selector.state.leaves(), again.state.leaves(), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=path)


def test_an_old_straggler_does_not_overwrite_what_is_newer():
    selector = enlist.create("oort", Clients(num_examples=[10] * 3), seed=1, preset="oort-code")
    old = selector.ask(k=3, deadline=10.0)
    new = selector.ask(k=3, deadline=10.0)
    selector.tell(new, Feedback(loss_rms=[1.0, 1.0, 5.0], latency=[1.0, 1.0, 1.0]))
    selector.tell(
        old,
        Feedback(
            outcome=[0, 0, 1], loss_rms=[1.0, 1.0, math.nan], latency=[1.0, 1.0, 4.0], censored=[False, False, True]
        ),
    )
    assert selector.state.utility[2] == 50.0
    assert selector.state.last_round[2] == 2


@pytest.mark.parametrize(("waited", "observations"), [(2.0, 2), (10.0, 3)])
def test_cut_off_without_any_latency_is_no_missed_deadline(waited, observations):
    clients = Clients(num_examples=[10] * 3, features=np.eye(3))
    selector = enlist.create("fedsuv", clients, seed=1)
    books = Books(selector)
    picked = books.ask(k=3, deadline=10.0)
    books.reply(picked, [0, 1], loss_rms=[1.0, 1.0], accuracy_gain=[0.1, 0.1])
    seen = []
    learn = selector.learn
    selector.learn = lambda told: (seen.append(int((~told.cut_off).sum())), learn(told))[1]
    books.close(picked, waited=waited)
    assert sum(seen) == observations


def test_ties_of_every_subset_are_drawn():
    drawn = {tuple(exhaustive(np.ones(6), np.zeros(6), 2, np.random.default_rng(seed)).tolist()) for seed in range(20)}
    assert len(drawn) > 5
