"""Rounds of darts-ucb, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome, RoundMetrics
from tests.selectors.by_hand import LN3, play


def darts(**settings):
    return enlist.create("darts-ucb", Clients(count=4), seed=1, **{"epsilon": 0.0, "initial_rounds": 0, **settings})


def accuracy(value):
    return RoundMetrics(accuracy=value)


def test_darts_default_by_hand():
    selector = darts()
    assert play(selector, [0, 1], 2, metrics=accuracy(0.10)) == [0, 1]  # no gain yet, no reward
    assert selector.state.rewards.count.tolist() == [0, 0, 0, 0]
    assert play(selector, [0, 2], 2, metrics=accuracy(0.30)) == [0, 2]  # gain .2, the only one: scaled to .5
    assert selector.state.rewards.mean.tolist() == pytest.approx([0.5, 0, 0.5, 0])
    assert play(selector, [1, 3], 2, metrics=accuracy(0.20)) == [1, 3]
    # gains .2 and -.1: quantiles 5 % and 95 % are -.085 and .185, so -.1 scales to 0
    assert selector.state.rewards.mean.tolist() == pytest.approx([0.5, 0, 0.5, 0])
    assert selector.state.rewards.count.tolist() == [1, 1, 1, 1]
    # s = 6 selections; everybody has one reward: bonus .3 sqrt(ln 6); the best means are 0 and 2
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [0, 2]
    assert picked.terms["mean"].tolist() == pytest.approx([0.5, 0.5])
    assert picked.terms["bonus"].tolist() == pytest.approx([0.3 * math.sqrt(math.log(6))] * 2)


def test_darts_paper_by_hand():
    selector = darts(preset="paper")
    assert selector.settings.c == math.sqrt(2)
    play(selector, [0, 1], 2, metrics=accuracy(0.31))  # the accuracy itself, not (.31 + 1)/2 = .655
    assert selector.state.rewards.mean.tolist() == [0.31, 0.31, 0, 0]
    play(selector, [0, 2], 2, metrics=accuracy(0.51))  # (.2 + 1)/2 = .6
    play(selector, [0, 3], 2, metrics=accuracy(0.41))  # (-.1 + 1)/2 = .45
    means = [(0.31 + 0.6 + 0.45) / 3, 0.31, 0.6, 0.45]
    assert selector.state.rewards.mean.tolist() == pytest.approx(means)
    # s = 6, n = (3, 1, 1, 1): bonuses sqrt(2 ln 6 / n) = 1.0929 and 1.8931
    picked = selector.ask([0, 1, 3], k=2)
    assert picked.clients.tolist() == [1, 3]  # 2.203 and 2.343 against 1.546
    assert picked.terms["bonus"].tolist() == pytest.approx([math.sqrt(2 * math.log(6))] * 2)


def test_darts_paper_stretched_by_hand():
    # After round 1, the accuracy itself: gains .2 (the only one: .5), -.1 (the smallest: 0), .4 (the largest: 1), and
    # .05: (.05 + .1)/(.4 + .1) = .3
    selector = darts(preset="paper-stretched")
    assert selector.settings.c == math.sqrt(2)
    for client, value in enumerate((0.31, 0.51, 0.41, 0.81)):
        play(selector, [client], 1, metrics=accuracy(value))
    assert selector.state.rewards.mean.tolist() == pytest.approx([0.31, 0.5, 0.0, 1.0])
    play(selector, [1], 1, metrics=accuracy(0.86))
    assert selector.state.rewards.mean.tolist() == pytest.approx([0.31, (0.5 + 0.3) / 2, 0.0, 1.0])


def test_darts_counts_rewards_or_selections():
    # client 0 is chosen three times and drops out twice; n is 1 by rewards, 3 by selections
    for count, pulls in (("observed", 1), ("selected", 3)):
        selector = darts(count=count, first_reward=True, c=1.0)
        play(selector, [0], 1, metrics=accuracy(0.1))
        for _ in range(2):
            play(selector, [0], 1, metrics=accuracy(0.1), outcome=[Outcome.DROPPED])
        assert selector.state.rewards.count[0] == 1
        assert selector.summary()["bonus"][0] == pytest.approx(math.sqrt(LN3 / pulls))


def test_darts_rewards_only_those_who_completed():
    selector = darts(reward="raw", first_reward=True)
    outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED, Outcome.FAILED]
    latency = [1.0, 5.0, math.nan, math.nan]
    play(selector, None, 4, metrics=accuracy(0.4), outcome=outcome, latency=latency)
    assert selector.state.rewards.count.tolist() == [1, 0, 0, 0]
    assert selector.state.rewards.mean.tolist() == pytest.approx([0.4, 0, 0, 0])


@pytest.mark.parametrize(("reward", "expected"), [("shift", 0.4), ("clip", 0.0), ("raw", -0.2)])
def test_darts_rewards(reward, expected):
    selector = darts(reward=reward)
    play(selector, [0], 1, metrics=accuracy(0.5))
    play(selector, [0], 1, metrics=accuracy(0.3))
    assert selector.state.rewards.mean[0] == pytest.approx(expected)


@pytest.mark.parametrize("preset", [None, "paper"])
def test_darts_without_initial_rounds_is_never_nan(preset):
    # spec B.5: s < 1 before the first selection made the printed root one of a negative number
    selector = darts(preset=preset)
    assert np.isfinite(selector.summary()["bonus"]).all()
    picked = selector.ask(k=2)
    assert len(picked) == 2
    assert all(np.isfinite(values).all() for values in picked.terms.values())


def test_darts_never_selected_first_even_after_a_single_pull():
    # spec B.6: at s = 1 the printed bonus of an unseen client collapses to c, and a good first reward would win
    selector = darts(preset="paper", c=0.01)
    first = play(selector, None, 1, metrics=accuracy(0.9))
    seen = set(first)
    for _ in range(3):
        (client,) = play(selector, None, 1, metrics=accuracy(0.9))
        assert client not in seen
        seen.add(client)
    assert seen == {0, 1, 2, 3}


def test_darts_initial_rounds_and_epsilon_are_uniform():
    # with rewards on client 3 only, greedy rounds choose 3; random ones each client with 1/4
    def share(**settings):
        selector = darts(reward="raw", c=0.0, **settings)
        play(selector, [0, 1, 2, 3], 4, metrics=accuracy(0.0))
        play(selector, [3], 1, metrics=accuracy(1.0))
        picks = [selector.ask(k=1).clients[0] for _ in range(2000)]
        return np.bincount(picks, minlength=4) / 2000

    assert share()[3] == 1.0
    assert share(initial_rounds=5000).tolist() == pytest.approx([0.25] * 4, abs=0.04)
    assert share(epsilon=0.4)[3] == pytest.approx(0.6 + 0.1, abs=0.045)


def test_darts_credits_those_who_completed_the_measured_round():
    selector = darts(reward="raw", first_reward=True)
    picked = selector.ask([0, 1], k=2)
    selector.tell(picked, Feedback(outcome=[0, 1], latency=[1.0, 5.0]), accuracy(0.3))
    arrived = Feedback(clients=[1], outcome=[Outcome.ARRIVED], latency=[6.0])
    selector.tell(picked, arrived)
    assert selector.state.rewards.mean[:2].tolist() == pytest.approx([0.3, 0.0])
