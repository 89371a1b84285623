"""Extreme Explore plays everything and keeps the best; priors put estimates in place."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.bandits import UCB, BayesianExtremeExplore, EpsilonGreedy, ExtremeExplore, Thompson
from enlist.bandits.extreme import winner
from enlist.errors import InputError

NAN = float("nan")


@pytest.mark.parametrize("kind", [ExtremeExplore, BayesianExtremeExplore])
def test_all_allowed_arms_are_played_and_the_generator_is_left_alone(kind):
    rule = kind(5, seed=1)
    before = rule.rng.bit_generator.state
    assert rule.choose().tolist() == [0, 1, 2, 3, 4]
    assert rule.choose(mask=[False, True, False, True, False], count=1).tolist() == [1, 3]
    assert rule.rng.bit_generator.state == before


def test_extreme_explore_by_hand():
    rule = ExtremeExplore(3, step=0.75, initial=0.05)
    rule.update([0, 1, 2], [0.01, 0.05, -0.03])
    rule.update([0, 1, 2], [0.02, 0.01, 0.03])
    # 0.05 -> 0.25 * 0.05 + 0.75 r1 -> 0.25 (...) + 0.75 r2
    first = 0.0125 + 0.75 * np.array([0.01, 0.05, -0.03])
    assert rule.values() == pytest.approx(0.25 * first + 0.75 * np.array([0.02, 0.01, 0.03]))


def test_bayesian_extreme_explore_by_hand():
    rule = BayesianExtremeExplore(2, gamma=0.5)
    rule.update([0, 1], [1.0, 0.0])
    rule.update([0, 1], [1.0, 1.0])
    # successes 0.5 + 1 = 1.5 and 1, failures 0 and 0.5; prior Beta(1, 1)
    assert rule.values() == pytest.approx([2.5 / 3.5, 2.0 / 3.5])
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        rule.update([0], [0.03 - 0.05])


def test_winner_goes_by_reward_then_by_what_follows():
    assert winner([0.1, 0.3, 0.2]) == 1
    assert winner([1, 1, 0], [0.03, 0.04, 0.9]) == 1
    assert winner([1, 1, 0], [0.03, 0.03, 0.9], [0.2, 0.5, 0.9]) == 1
    assert winner([NAN, 0.0, NAN], [1.0, 0.0, 2.0]) == 1
    assert winner([NAN, NAN], [NAN, NAN], [0.1, 0.2]) == 1
    assert winner([1, 1]) == 0
    with pytest.raises(InputError, match="empty"):
        winner([])


def test_priors_stand_for_that_many_rewards():
    mean = UCB(3, c=0.0)
    mean.prior(np.array([0, 2]), np.array([0.2, 0.4]), 3)
    assert mean.values().tolist() == [0.2, 0.05, 0.4]
    assert mean.choose().tolist() == [1]  # the arm without a prior was never tried
    mean.update([2], [0.8])
    assert mean.values()[2] == pytest.approx((3 * 0.4 + 0.8) / 4)
    beta = Thompson(2)
    beta.prior(np.array([1]), np.array([0.75]), 8)
    assert beta.values() == pytest.approx([0.5, 7 / 10])
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        beta.prior(np.array([1]), np.array([1.5]), 1)


@pytest.mark.parametrize("kind", [ExtremeExplore, BayesianExtremeExplore, EpsilonGreedy])
def test_saved_and_loaded_it_continues_the_same(kind, tmp_path):
    rule = kind(3, seed=4)
    rule.update([0, 1, 2], [0.0, 1.0, 1.0])
    rule.save(tmp_path)
    again = kind.load(tmp_path)
    for _ in range(20):
        assert again.choose().tolist() == rule.choose().tolist()
    assert again.values().tolist() == rule.values().tolist()
