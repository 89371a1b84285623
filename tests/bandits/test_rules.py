"""Decision rules against MABWiser where both mean the same, and by hand where they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mabwiser.mab import MAB, LearningPolicy

from enlist.bandits import UCB, BetaPosterior, DiscountedThompson, EpsilonGreedy, Estimates, RecentValues, Thompson
from enlist.errors import InputError, UnknownNameError

ARMS = 6


def history(count, seed=0, binary=False):
    """Every arm once, then arms at random."""
    draw = np.random.default_rng(seed)
    arms = np.concatenate([np.arange(ARMS), draw.integers(ARMS, size=count - ARMS)])
    rewards = draw.uniform(size=count)
    return arms, (rewards < 0.4).astype(float) if binary else rewards


def taught(rule, arms, rewards):
    for arm, reward in zip(arms, rewards, strict=True):
        rule.update([arm], [reward])
    return rule


def mabwiser(policy, arms, rewards):
    bandit = MAB(arms=list(range(ARMS)), learning_policy=policy, seed=1)
    bandit.fit(decisions=arms, rewards=rewards)
    return bandit


@pytest.mark.parametrize("count", [ARMS, 7, 20, 100])
@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_ucb_is_mabwisers_ucb1(count, alpha):
    # MABWiser: mean + alpha sqrt(2 ln(decisions) / count); with one arm per update t is the number of decisions
    arms, rewards = history(count)
    theirs = mabwiser(LearningPolicy.UCB1(alpha=alpha), arms, rewards)
    expected = theirs.predict_expectations()
    ours = taught(UCB(ARMS, c=alpha), arms, rewards)
    scores = ours.values() + ours.bonus()
    assert scores.tolist() == pytest.approx([expected[arm] for arm in range(ARMS)])
    assert ours.choose().tolist() == [theirs.predict()]


def test_ucb_follows_mabwiser_round_by_round():
    arms, rewards = history(ARMS)
    theirs = mabwiser(LearningPolicy.UCB1(alpha=0.5), arms, rewards)
    ours = taught(UCB(ARMS, c=0.5), arms, rewards)
    draw = np.random.default_rng(3)
    for _ in range(60):
        arm = int(ours.choose()[0])
        assert arm == theirs.predict()
        reward = float(draw.uniform() * (arm + 1) / ARMS)
        ours.update([arm], [reward])
        theirs.partial_fit([arm], [reward])


@pytest.mark.parametrize("count", [ARMS, 7, 20, 100])
def test_greedy_is_mabwisers_greedy(count):
    arms, rewards = history(count)
    theirs = mabwiser(LearningPolicy.EpsilonGreedy(epsilon=0.0), arms, rewards)
    expected = theirs.predict_expectations()
    ours = taught(EpsilonGreedy(ARMS, epsilon=0.0), arms, rewards)
    assert ours.values().tolist() == pytest.approx([expected[arm] for arm in range(ARMS)])
    assert ours.choose().tolist() == [theirs.predict()]


@pytest.mark.parametrize("count", [ARMS, 20, 100])
def test_thompson_has_mabwisers_posterior(count):
    # MABWiser counts from 1: Beta(1 + successes, 1 + failures), our default prior
    arms, rewards = history(count, binary=True)
    theirs = mabwiser(LearningPolicy.ThompsonSampling(), arms, rewards)._imp
    ours = taught(Thompson(ARMS), arms, rewards)
    assert (1 + ours.state.successes).tolist() == [theirs.arm_to_success_count[arm] for arm in range(ARMS)]
    assert (1 + ours.state.failures).tolist() == [theirs.arm_to_fail_count[arm] for arm in range(ARMS)]
    mean = [
        theirs.arm_to_success_count[a] / (theirs.arm_to_success_count[a] + theirs.arm_to_fail_count[a])
        for a in range(ARMS)
    ]
    assert ours.values().tolist() == pytest.approx(mean)


# ------------------------------------------------------------------------------------------------------ epsilon-greedy


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.5])
def test_the_greedy_arm_is_played_with_probability_one_minus_epsilon(epsilon):
    # the common variant would give 1 - epsilon + epsilon/4, at least 0.025 more; 4 deviations are at most 0.02
    rule = EpsilonGreedy(4, seed=1, epsilon=epsilon)
    rule.update([0, 1, 2, 3], [0.1, 0.2, 0.9, 0.3])
    counts = np.bincount([rule.choose()[0] for _ in range(10_000)], minlength=4) / 10_000
    assert counts[2] == pytest.approx(1 - epsilon, abs=0.02)
    assert counts[[0, 1, 3]].tolist() == pytest.approx([epsilon / 3] * 3, abs=0.02)


def test_every_slot_explores_with_probability_epsilon():
    # 3 slots of 10 arms, epsilon .2: a greedy arm is in with probability .8, any other with .2 * 3 / 7
    rule = EpsilonGreedy(10, seed=2, epsilon=0.2)
    rule.update(np.arange(10), np.arange(10) / 10)
    counts = np.zeros(10)
    for _ in range(5000):
        arms = rule.choose(count=3)
        assert len(set(arms.tolist())) == 3
        counts[arms] += 1
    assert (counts[7:] / 5000).tolist() == pytest.approx([0.8] * 3, abs=0.025)
    assert (counts[:7] / 5000).tolist() == pytest.approx([0.6 / 7] * 7, abs=0.025)


def test_exploration_is_bounded_by_the_arms_outside():
    rule = EpsilonGreedy(4, seed=3, epsilon=1.0)
    rule.update([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4])
    for _ in range(50):
        arms = set(rule.choose(count=3).tolist())
        assert len(arms) == 3
        assert 0 in arms  # the only arm that is not greedy


def test_masked_arms_are_never_played():
    for kind in (EpsilonGreedy, UCB, Thompson, DiscountedThompson):
        rule = kind(5, seed=1)
        for _ in range(40):
            arms = rule.choose([True, False, True, False, True], count=2)
            assert set(arms.tolist()) <= {0, 2, 4}
            rule.update(arms, np.full(2, 0.5))
        assert rule.choose([1, 3], count=7).tolist() == [1, 3]
        assert rule.choose([], count=1).tolist() == []


# -------------------------------------------------------------------------------------------------------- estimates


def test_recency_gives_the_last_sample_the_weight_step():
    rule = EpsilonGreedy(2, step=0.75, initial=0.05)
    rule.update([0], [0.4])  # .25 * .05 + .75 * .4 = .3125
    assert rule.values().tolist() == pytest.approx([0.3125, 0.05])
    rule.update([0], [1.0])  # .25 * .3125 + .75 = .828125
    assert rule.values()[0] == pytest.approx(0.828125)
    twin = EpsilonGreedy(2, step=0.75, initial=0.05)
    twin.update([0], [0.4])
    twin.update([0], [0.0])
    assert rule.values()[0] - twin.values()[0] == pytest.approx(0.75)


def test_recency_keeps_the_initial_value_with_the_rest_of_the_weight():
    high, low = (UCB(1, step=0.75, initial=value) for value in (1.0, 0.0))
    for rule in (high, low):
        for reward in (0.2, 0.6, 0.1):
            rule.update([0], [reward])
    assert high.values()[0] - low.values()[0] == pytest.approx(0.25**3)


def test_plain_means_forget_the_initial_value_with_the_first_sample():
    rule = UCB(2, initial=0.05)
    rule.update([0], [0.4])
    assert rule.values().tolist() == pytest.approx([0.4, 0.05])
    rule.update([0], [0.2])
    assert rule.values()[0] == pytest.approx(0.3)


def test_a_step_of_one_is_the_last_reward():
    rule = UCB(1, step=1.0)
    for reward in (0.9, 0.2):
        rule.update([0], [reward])
    assert rule.values()[0] == pytest.approx(0.2)


def test_revising_a_value_in_a_plain_mean():
    estimates = Estimates.create(2)
    for value in (1.0, 4.0, 1.0):
        estimates.update(np.array([1]), np.array([value]))
    estimates.revise(np.array([1]), np.array([4.0]), np.array([7.0]))
    assert estimates.mean.tolist() == pytest.approx([0.0, 3.0])


# --------------------------------------------------------------------------------------------------------- ucb by hand


def test_every_arm_is_played_once_first():
    rule = UCB(5, seed=4, c=0.0)
    played = []
    for _ in range(5):
        arm = rule.choose()
        played.extend(arm.tolist())
        rule.update(arm, [1.0])
    assert sorted(played) == [0, 1, 2, 3, 4]
    orders = {tuple(UCB(5, seed=seed).choose(count=2).tolist()) for seed in range(40)}
    assert len(orders) > 5  # and not in the order of their numbers


def test_ucb_by_hand():
    rule = UCB(2, c=0.5)
    for arm, reward in ((0, 0.6), (1, 0.5), (0, 0.6)):
        rule.update([arm], [reward])
    # t = 3: .6 + .5 sqrt(2 ln 3 / 2) = 1.1241, .5 + .5 sqrt(2 ln 3 / 1) = 1.2412
    assert rule.bonus().tolist() == pytest.approx([0.5 * math.sqrt(math.log(3)), 0.5 * math.sqrt(2 * math.log(3))])
    assert rule.choose().tolist() == [1]


def test_before_the_first_update_nothing_is_nan():
    assert UCB(3).bonus().tolist() == [0.0, 0.0, 0.0]


# ---------------------------------------------------------------------------------------------------- thompson by hand


def test_discounted_thompson_by_hand():
    rule = DiscountedThompson(3, gamma=0.75)
    rule.update([0], [1.0])  # S = (1, 0, 0)
    rule.update([1], [0.0])  # S = (.75, 0, 0), F = (0, 1, 0)
    rule.update([0], [1.0])  # S = (.75^2 + 1, 0, 0), F = (0, .75, 0)
    assert rule.state.successes.tolist() == pytest.approx([1.5625, 0.0, 0.0])
    assert rule.state.failures.tolist() == pytest.approx([0.0, 0.75, 0.0])
    # the prior is not discounted: Beta(1 + S, 1 + F)
    assert rule.values().tolist() == pytest.approx([2.5625 / 3.5625, 1 / 2.75, 0.5])


def test_gamma_of_one_forgets_nothing():
    arms, rewards = history(50, binary=True)
    discounted, plain = (
        taught(DiscountedThompson(ARMS, gamma=1.0), arms, rewards),
        taught(Thompson(ARMS), arms, rewards),
    )
    assert discounted.state.successes.tolist() == plain.state.successes.tolist()
    assert discounted.state.failures.tolist() == plain.state.failures.tolist()


def test_thompson_draws_from_its_posterior():
    posterior = BetaPosterior.create(2)
    for _ in range(8):
        posterior.update(np.array([0, 1]), np.array([1.0, 0.25]))
    rng = np.random.default_rng(0)
    draws = np.array([posterior.sample(slice(None), 2.0, 3.0, rng) for _ in range(20_000)])
    # Beta(10, 3) and Beta(4, 9): means 10/13 and 4/13; the deviation of the mean is about 0.001
    assert draws.mean(axis=0).tolist() == pytest.approx([10 / 13, 4 / 13], abs=0.005)
    assert draws.var(axis=0).tolist() == pytest.approx([30 / 13**2 / 14, 36 / 13**2 / 14], rel=0.05)


@pytest.mark.parametrize("reward", [-0.1, 1.1])
def test_thompson_refuses_rewards_outside_the_unit_interval(reward):
    rule = DiscountedThompson(2)
    rule.update([0, 1], [1.0, 0.0])
    before = rule.state.successes.copy()
    with pytest.raises(InputError, match=r"must lie in \[0, 1\]"):
        rule.update([0], [reward])
    assert rule.state.successes.tolist() == before.tolist()


# ------------------------------------------------------------------------------------------------------------ the rest


@pytest.mark.parametrize(
    ("arms", "rewards", "message"),
    [
        ([0, 3], [0.1, 0.2], "arms holds position 3"),
        ([0, 0], [0.1, 0.2], "repeats position 0"),
        ([0], [0.1, 0.2], "one finite number for each of 1 arms"),
        ([0], [math.nan], "one finite number"),
        ([0.7], [0.5], "arms"),
        ([True, False], [0.5, 0.5], "arms"),
        (["a"], [0.5], "arms"),
        ([0], ["good"], "rewards"),
    ],
)
def test_update_refuses_nonsense(arms, rewards, message):
    rule = UCB(3)
    with pytest.raises(InputError, match=message):
        rule.update(arms, rewards)
    assert rule.state.plays == 0
    assert rule.state.estimates.count.tolist() == [0, 0, 0]


def test_settings_of_rules_are_checked():
    with pytest.raises(InputError, match="epsilon is 2"):
        EpsilonGreedy(3, epsilon=2)
    with pytest.raises(UnknownNameError, match="Did you mean 'epsilon'"):
        EpsilonGreedy(3, epsilom=0.1)
    with pytest.raises(InputError, match="arms is 0"):
        UCB(0)
    with pytest.raises(InputError, match="alpha is inf"):
        Thompson(3, alpha=math.inf)


def test_recent_values_are_a_window():
    recent = RecentValues.of(4)
    assert recent.quantile(0.5, default=7.0) == 7.0
    recent.add(np.array([1.0, 2.0, 3.0]))
    assert recent.quantile(0.5, default=7.0, minimum=4) == 7.0
    assert recent.quantile(0.5, default=7.0) == 2.0
    recent.add(np.arange(10.0, 20.0))  # more than fits: the last four stay
    assert sorted(recent.values().tolist()) == [16.0, 17.0, 18.0, 19.0]
    assert recent.seen == 13
    size = recent.nbytes
    recent.add(np.arange(1000.0))
    assert recent.nbytes == size


def test_scaling_between_running_quantiles():
    recent = RecentValues.of(200)
    recent.add(np.arange(101.0))  # quantiles 5 and 95
    np.testing.assert_allclose(recent.scaled(np.array([-9.0, 5.0, 50.0, 95.0, 200.0])), [0.0, 0.0, 0.5, 1.0, 1.0])
    np.testing.assert_array_equal(recent.scaled(np.array([np.nan])), [np.nan])


def test_scaling_keeps_unknown_values_unknown_while_all_values_are_alike():
    recent = RecentValues.of(10)
    recent.add(np.array([0.3, 0.3]))
    np.testing.assert_array_equal(recent.scaled(np.array([0.3, np.nan, 9.0])), [0.5, np.nan, 0.5])
