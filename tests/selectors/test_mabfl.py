"""Rounds of the rules of the MAB-FL thesis (epsilon-greedy, ucb, thompson, discounted-thompson), worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import enlist
from enlist import Clients, Outcome
from tests.selectors.by_hand import play


def test_epsilon_greedy_by_hand():
    selector = enlist.create("epsilon-greedy", Clients(count=4), seed=1, epsilon=0.0, scale="raw", initial=0.5)
    play(selector, [0, 1], 2, accuracy_gain=[0.9, 0.1])
    assert selector.rule.values().tolist() == pytest.approx([0.9, 0.1, 0.5, 0.5])
    play(selector, [0, 1], 2, accuracy_gain=[0.5, 0.3])
    assert selector.rule.values().tolist() == pytest.approx([0.7, 0.2, 0.5, 0.5])
    assert selector.ask(k=3).clients.tolist() == [0, 2, 3]
    assert selector.ask([1, 2, 3], k=2).clients.tolist() == [2, 3]


def test_epsilon_greedy_paper_by_hand():
    selector = enlist.create("epsilon-greedy", Clients(count=3), seed=1, preset="paper", max_open=9999)
    assert selector.settings.epsilon == 0.2
    play(selector, [0], 1, accuracy_gain=[0.4])  # .25 * .05 + .75 * .4
    assert selector.rule.values().tolist() == pytest.approx([0.3125, 0.05, 0.05])
    picks = np.bincount([selector.ask(k=1).clients[0] for _ in range(5000)], minlength=3) / 5000
    assert picks.tolist() == pytest.approx([0.8, 0.1, 0.1], abs=0.025)


def test_rewards_are_scaled_between_running_quantiles():
    selector = enlist.create("epsilon-greedy", Clients(count=3), seed=1)
    play(selector, [0, 1, 2], 3, accuracy_gain=[0.0, 0.1, 0.2])
    # quantiles 5 % and 95 % of (0, .1, .2): .01 and .19
    assert selector.rule.values().tolist() == pytest.approx([0.0, 0.5, 1.0])


def test_a_reply_without_a_value_counts_as_what_is_expected():
    # nothing is known of it yet: the middle of the scale, or what others bring; then its own mean
    for scale, middle in (("raw", 0.1), ("quantile", 0.5), ("threshold", 0.5), ("median", 0.5)):
        selector = enlist.create("ucb", Clients(count=2), seed=1, scale=scale)
        play(selector, None, 2, accuracy_gain=[math.nan, 0.1])
        play(selector, [0], 1, accuracy_gain=[math.nan])
        assert selector.rule.values()[0] == pytest.approx(middle), scale
        assert selector.state.rule.estimates.count.tolist() == [2, 1], scale


def test_late_and_lost_clients_get_nothing():
    selector = enlist.create("ucb", Clients(count=4), seed=1, scale="raw")
    outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED, Outcome.FAILED]
    play(selector, None, 4, outcome=outcome, latency=[1.0, 5.0, math.nan, math.nan], accuracy_gain=[0.3, 0.9, 0.9, 0.9])
    assert selector.rule.values().tolist() == pytest.approx([0.3, 0.0, 0.0, 0.0])
    assert selector.state.rule.estimates.count.tolist() == [1, 1, 1, 1]


def test_speed_as_reward():
    selector = enlist.create("ucb", Clients(count=3), seed=1, reward="speed", scale="raw")
    play(selector, None, 3, deadline=10.0, outcome=[0, 0, 2], latency=[1.0, 8.0, math.nan])
    assert selector.rule.values().tolist() == pytest.approx([0.9, 0.2, 0.0])


@pytest.mark.parametrize("deadline", [10.0, math.inf])
def test_a_lost_client_is_never_worth_more_than_one_that_replied(deadline):
    selector = enlist.create("ucb", Clients(count=2), seed=1, reward="speed", scale="raw")
    play(selector, None, 2, deadline=deadline, outcome=[0, 2], latency=[4.0, math.nan])
    replied, lost = selector.rule.values()
    assert replied >= lost


def test_completion_as_reward():
    selector = enlist.create("thompson", Clients(count=2), seed=1, reward="completed", scale="threshold")
    play(selector, None, 2, outcome=[0, 2])
    assert selector.state.rule.successes.tolist() == [1.0, 0.0]
    assert selector.state.rule.failures.tolist() == [0.0, 1.0]


def test_ucb_by_hand():
    selector = enlist.create("ucb", Clients(count=3), seed=1, scale="raw", c=0.5)
    play(selector, [0, 1], 2, accuracy_gain=[0.6, 0.5])
    play(selector, [0], 1, accuracy_gain=[0.6])
    assert selector.ask(k=1).clients.tolist() == [2]  # never tried
    play(selector, [2], 1, accuracy_gain=[0.1])
    # round t = 5, counts (2, 1, 1): .6 + .5 sqrt(ln 5) = 1.234, .5 + .5 sqrt(2 ln 5) = 1.397, .1 + .897 = .997
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [0, 1]
    assert picked.terms["mean"].tolist() == pytest.approx([0.6, 0.5])
    assert picked.terms["bonus"].tolist() == pytest.approx(
        [0.5 * math.sqrt(math.log(5)), 0.5 * math.sqrt(2 * math.log(5))]
    )
    assert selector.ask(k=1).clients.tolist() == [1]


def test_ucb_paper():
    settings = enlist.create("ucb", Clients(count=3), preset="paper").settings
    assert (settings.c, settings.step, settings.initial, settings.scale) == (0.05, 0.75, 0.05, "raw")


def test_thompson_by_hand():
    selector = enlist.create("thompson", Clients(count=5), seed=1)
    # fewer than five values: the threshold .025 stands in for the median
    play(selector, [0, 1, 2], 3, accuracy_gain=[0.01, 0.03, 0.02])
    assert selector.state.rule.successes.tolist() == [0, 1, 0, 0, 0]
    assert selector.state.rule.failures.tolist() == [1, 0, 1, 0, 0]
    # five values .01 .03 .02 .9 .8: the median is .03; both are above it
    play(selector, [3, 4], 2, accuracy_gain=[0.9, 0.8])
    assert selector.state.rule.successes.tolist() == [0, 1, 0, 1, 1]
    # median of .01 .03 .02 .9 .8 .025 is .0275: a failure
    play(selector, [1], 1, accuracy_gain=[0.025])
    assert selector.state.rule.failures.tolist() == [1, 1, 1, 0, 0]
    # Beta(1 + S, 1 + F)
    assert selector.rule.values().tolist() == pytest.approx([1 / 3, 2 / 4, 1 / 3, 2 / 3, 2 / 3])


def test_thompson_prefers_the_better_in_proportion_to_its_posterior():
    # Beta(2, 1) against Beta(1, 2): P(first larger) = 5/6; 4,000 rounds, deviation .006
    selector = enlist.create("thompson", Clients(count=2), seed=1, preset="paper", max_open=9999)
    play(selector, None, 2, accuracy_gain=[0.5, 0.0])
    picks = np.array([selector.ask(k=1).clients[0] for _ in range(4000)])
    assert (picks == 0).mean() == pytest.approx(5 / 6, abs=0.03)


def test_discounted_thompson_by_hand():
    selector = enlist.create("discounted-thompson", Clients(count=3), seed=1, preset="paper")
    assert selector.settings.gamma == 0.75
    play(selector, [0, 1], 2, accuracy_gain=[0.1, 0.0])  # S = (1, 0, 0), F = (0, 1, 0)
    play(selector, [0], 1, accuracy_gain=[0.0])  # S = (.75, 0, 0), F = (1, .75, 0)
    assert selector.state.rule.successes.tolist() == pytest.approx([0.75, 0.0, 0.0])
    assert selector.state.rule.failures.tolist() == pytest.approx([1.0, 0.75, 0.0])
    assert selector.rule.values().tolist() == pytest.approx([1.75 / 3.75, 1 / 2.75, 0.5])
    assert enlist.create("discounted-thompson", Clients(count=3)).settings.gamma == 0.98
