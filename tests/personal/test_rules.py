"""Every rule by hand over arms: what it plays, what it adopts, what it learns, whom it drops, and how it is saved."""

from __future__ import annotations

import math

import numpy as np
import pydantic
import pytest
from scipy.stats import t as student

from enlist.bandits import ArmStatistics
from enlist.errors import InputError
from enlist.personal.arms import Arms
from enlist.personal.decision import Decision, ExploreRounds, Play
from enlist.personal.rules import (
    AnyRule,
    BayesianExtremeExploreRule,
    DiscountedThompsonRule,
    EpsilonGreedyRule,
    ExtremeExploreRule,
    FixedRule,
    ThompsonRule,
    UCBRule,
)

NAN = float("nan")
FOUR = ["1", "2", "3", "4"]
ALL = np.ones(3, dtype=bool)
RULES = [
    EpsilonGreedyRule(),
    EpsilonGreedyRule(stationary=True),
    UCBRule(),
    ThompsonRule(),
    DiscountedThompsonRule(),
    ExtremeExploreRule(),
    ExtremeExploreRule(delayed=True),
    BayesianExtremeExploreRule(gamma=0.9),
    FixedRule(combination=["3"]),
]


def begin(rule, arms=None, seed=0, explore=None):
    return rule.start(Arms.pairs(FOUR, "2") if arms is None else arms, np.random.default_rng(seed), explore)


def rounds(decision, means, count, noise=0.0, seed=0, first=1, threshold=None):
    """Play rounds against arms of known mean increases; returns what was adopted."""
    draw = np.random.default_rng([seed, first])
    adopted = []
    for round in range(first, first + count):
        play = decision.play(np.ones(len(means), dtype=bool), round)
        increases = np.asarray(means)[play.arms] + noise * draw.normal(size=len(play.arms))
        rewards = increases if threshold is None else (increases > threshold).astype(float)
        adopted.append(int(play.arms[decision.adopt(play, rewards)]))
        decision.learn(play.arms, rewards, increases)
    return adopted


def test_the_greedy_arm_is_played_with_probability_exactly_one_minus_epsilon():
    decision = begin(EpsilonGreedyRule(epsilon=0.2, stationary=True))
    decision.learn([0, 1, 2], [0.01, 0.05, 0.02], [0.01, 0.05, 0.02])
    plays = [int(decision.play(ALL, round).arms[0]) for round in range(1, 5001)]
    shares = np.bincount(plays, minlength=3) / 5000
    # the common variant would give the greedy arm 0.8 + 0.2 / 3; the others share epsilon evenly
    assert shares == pytest.approx([0.1, 0.8, 0.1], abs=0.02)


def test_optimistic_initial_values_make_a_greedy_rule_try_every_arm():
    optimistic = begin(EpsilonGreedyRule(epsilon=0.0, initial=1.0))
    assert set(rounds(optimistic, [0.05, 0.02, 0.01], 3)) == {0, 1, 2}
    pessimistic = begin(EpsilonGreedyRule(epsilon=0.0, initial=0.0))
    assert len(set(rounds(pessimistic, [0.05, 0.02, 0.01], 9))) == 1


def test_a_larger_step_is_more_recent():
    # r1 = 0.1, r2 = 0 from the initial value 0: the estimate is step (1 - step) 0.1
    values = {}
    for step in (0.25, 0.5, 0.75, 1.0):
        decision = begin(UCBRule(step=step, initial=0.0))
        decision.learn([1], [0.1], [0.1])
        decision.learn([1], [0.0], [0.0])
        values[step] = decision.values()[1]
        assert values[step] == pytest.approx(step * (1 - step) * 0.1)
        weight_of_latest = _weight(step, position=1)
        assert weight_of_latest == pytest.approx(step)
        assert _weight(step, position=0) == pytest.approx(step * (1 - step))
    assert values[1.0] == 0.0  # only the last reward
    ratios = [_weight(step, 1) / max(_weight(step, 0), 1e-12) for step in (0.25, 0.5, 0.75)]
    assert ratios == sorted(ratios)


def _weight(step, position):
    """Weight of one of two rewards in the estimate, as a difference."""
    estimates = []
    for changed in (0.0, 1.0):
        decision = begin(UCBRule(step=step, initial=0.0))
        given = [0.0, 0.0]
        given[position] = changed
        for reward in given:
            decision.learn([1], [reward], [reward])
        estimates.append(decision.values()[1])
    return estimates[1] - estimates[0]


def test_stationary_estimates_are_plain_means():
    decision = begin(EpsilonGreedyRule(stationary=True, initial=9.0))
    for reward in (0.1, 0.0, 0.05):
        decision.learn([2], [reward], [reward])
    assert decision.values() == pytest.approx([9.0, 9.0, 0.05])


def test_ucb_by_hand():
    decision = begin(UCBRule(c=0.05, stationary=True))
    assert {int(decision.play(ALL, 1).arms[0]) for _ in range(20)} == {0, 1, 2}  # every arm first
    for arm, reward in [(0, 0.01), (1, 0.03), (2, 0.0), (1, 0.01)]:
        decision.learn([arm], [reward], [reward])
    width = 0.05 * math.sqrt(2 * math.log(4))
    assert decision.rule.values() + decision.rule.bonus() == pytest.approx(
        [0.01 + width, 0.02 + width / math.sqrt(2), width]
    )
    assert decision.play(ALL, 5).arms.tolist() == [0]  # 0.0933 against 0.0789 and 0.0833


def test_thompson_by_hand():
    decision = begin(ThompsonRule())
    for reward in (1.0, 1.0, 0.0):
        decision.learn([0], [reward], [0.03 * reward])
    assert decision.values() == pytest.approx([3 / 5, 1 / 2, 1 / 2])
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        decision.learn([0], [-0.02], [-0.02])


def test_discounted_thompson_by_hand():
    decision = begin(DiscountedThompsonRule(gamma=0.5))
    decision.learn([0], [1.0], [0.03])
    decision.learn([1], [0.0], [0.0])
    decision.learn([0], [0.0], [0.0])
    assert decision.rule.state.successes.tolist() == [0.25, 0.0, 0.0]
    assert decision.rule.state.failures.tolist() == [1.0, 0.5, 0.0]
    assert decision.values() == pytest.approx([1.25 / 3.25, 1 / 2.5, 1 / 2])


def test_extreme_explore_adopts_the_best_reward_of_the_round():
    decision = begin(ExtremeExploreRule())
    play = decision.play(ALL, 1)
    assert (play.arms.tolist(), play.extreme) == ([0, 1, 2], True)
    assert decision.adopt(play, [0.01, -0.02, 0.04]) == 2


def test_ties_of_binary_rewards_go_by_estimate():
    # Estimates after one round: 1, 0, 0. Arms 0 and 1 tie at 1, so 0 is kept; 1 and 2 tie, so either, whatever they
    # increased the score by.
    decision = begin(ExtremeExploreRule())
    play = decision.play(ALL, 1)
    decision.learn([0, 1, 2], [1.0, 0.0, 0.0], [0.1, 0.0, 0.0])
    assert decision.adopt(play, [1.0, 1.0, 0.0]) == 0
    assert {decision.adopt(play, [0.0, 1.0, 1.0]) for _ in range(30)} == {1, 2}


def test_binary_rewards_keep_other_models_than_continuous_ones():
    # Increases .05 and .06 lie above the threshold, and the first arm was above it before: it is kept, although the
    # other increases more. By the continuous reward the other is kept.
    increases = np.array([0.05, 0.06, 0.0])
    kept = {}
    for name, rewards in {"binary": (increases > 0.025).astype(float), "continuous": increases}.items():
        decision = begin(ExtremeExploreRule())
        decision.learn([0, 1, 2], [1.0, 0.0, 0.0] if name == "binary" else [0.05, 0.01, 0.0], [0.05, 0.01, 0.0])
        kept[name] = decision.adopt(decision.play(ALL, 2), rewards)
    assert kept == {"binary": 0, "continuous": 1}


def test_delayed_rewards_adopt_by_the_estimates_before_them():
    decision = begin(ExtremeExploreRule(delayed=True))
    play = decision.play(ALL, 1)
    decision.learn(play.arms, [0.01, 0.05, 0.0], [0.01, 0.05, 0.0])
    now = [0.5, 0.0, 0.0]
    assert decision.adopt(play, now) == 1
    decision.learn(play.arms, now, now)
    assert decision.adopt(play, [0.0, 0.0, 0.0]) == 0
    posterior = begin(BayesianExtremeExploreRule(delayed=True))
    posterior.learn(play.arms, [0.0, 0.0, 1.0], [0.0, 0.0, 0.1])
    assert posterior.adopt(play, [1.0, 0.0, 0.0]) == 2


def test_before_any_reward_delayed_adoption_is_fair():
    adopted = set()
    for seed in range(30):
        decision = begin(ExtremeExploreRule(delayed=True), seed=seed)
        adopted.add(decision.adopt(decision.play(ALL, 1), [0.1, 0.0, 0.0]))
    assert adopted == {0, 1, 2}


@pytest.mark.parametrize("delayed", [False, True])
def test_an_arm_that_is_not_credited_is_neither_adopted_nor_learned(delayed):
    decision = begin(ExtremeExploreRule(delayed=delayed, initial=0.0))
    decision.learn([0, 1, 2], [0.09, 0.01, 0.0], [0.09, 0.01, 0.0])
    before = decision.values().copy()
    play = decision.play(ALL, 2)
    assert decision.adopt(play, [NAN, 0.02, 0.01]) == 1
    decision.learn(play.arms, [NAN, 0.02, NAN], [NAN, 0.02, NAN])
    assert decision.values()[[0, 2]].tolist() == before[[0, 2]].tolist()
    assert decision.count().tolist() == [1, 2, 1]


def test_nothing_credited_changes_nothing_at_all():
    decision = begin(DiscountedThompsonRule())
    decision.learn([0], [1.0], [0.1])
    decision.learn([1], [NAN], [NAN])
    assert decision.rule.state.successes.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_only_allowed_arms_are_played(rule):
    decision = begin(rule)
    for round in range(1, 31):
        play = decision.play([False, True, False], round)
        assert play.arms.tolist() == [1]
        decision.learn(play.arms, [1.0], [0.1])
    assert decision.play([False, False, False], 31).arms.tolist() == []


def test_all_masked_is_a_play_of_nothing_even_in_an_extreme_round():
    decision = begin(ExtremeExploreRule())
    assert decision.play([False] * 3, 1) == Play(pytest.approx(np.zeros(0)), False)
    with pytest.raises(InputError, match="each of 3 arms"):
        decision.play([True], 1)


def test_fixed_combinations():
    every = Arms.every(FOUR, "2")
    assert begin(FixedRule(combination="all"), every).play(np.ones(8, dtype=bool), 1).arms.tolist() == [7]
    assert begin(FixedRule(combination="alone"), every).play(np.ones(8, dtype=bool), 1).arms.tolist() == [0]
    away = every.allowed([True, True, True, False])
    assert begin(FixedRule(combination="all"), every).play(away, 1).arms.tolist() == []
    with pytest.raises(InputError, match="'all' is not among the arms"):
        begin(FixedRule(combination="all"))
    assert FixedRule(combination=["1", "3"]).arms(FOUR, "2").codes == ("1110",)


def test_extreme_rounds_by_schedule():
    decision = begin(UCBRule(), explore=ExploreRounds(every=4))
    extreme = [round for round in range(1, 13) if decision.play(ALL, round).extreme]
    assert extreme == [4, 8, 12]
    growing = ExploreRounds(every=2, growth=1.5)  # gaps 2, 3, 4.5 -> 5, 6.75 -> 7
    assert [round for round in range(1, 20) if growing.scheduled(round)] == [2, 5, 10, 17]
    assert decision.play(ALL, 4).arms.tolist() == [0, 1, 2]


def test_extreme_rounds_by_probability():
    decision = begin(EpsilonGreedyRule(), explore=ExploreRounds(probability=0.1))
    extreme = sum(decision.play(ALL, round).extreme for round in range(1, 3001))
    assert extreme / 3000 == pytest.approx(0.1, abs=0.02)


def test_an_extreme_round_of_another_rule_adopts_the_best_and_teaches_all():
    decision = begin(UCBRule(stationary=True), explore=ExploreRounds(every=1))
    play = decision.play(ALL, 1)
    assert decision.adopt(play, [0.0, 0.01, 0.03]) == 2
    decision.learn(play.arms, [0.0, 0.01, 0.03], [0.0, 0.01, 0.03])
    assert decision.values() == pytest.approx([0.0, 0.01, 0.03])
    assert decision.rule.state.plays == 1


def test_bounds_are_students_from_three_increases_on():
    decision = begin(UCBRule())
    for value in (0.01, 0.02, 0.06):
        assert np.isinf(decision.bounds()[0]).all()
        decision.learn([1], [value], [value])
    lower, upper = decision.bounds(confidence=0.9)
    half = student.ppf(0.95, 2) * np.std([0.01, 0.02, 0.06], ddof=1) / math.sqrt(3)
    assert (lower[1], upper[1]) == (pytest.approx(0.03 - half), pytest.approx(0.03 + half))
    assert (lower[0], upper[0]) == (-math.inf, math.inf)


def test_equal_increases_are_not_believed_to_be_certain():
    evidence = ArmStatistics.create(3)
    for value in (0.0, 0.02, 0.04, 0.06):
        evidence.add(np.array([0, 1, 2]), np.array([0.0, 0.1, value]))
    variance, freedom = evidence.variance()
    pooled = np.var([0.0, 0.02, 0.04, 0.06], ddof=1) / 3
    assert variance == pytest.approx([pooled, pooled, 3 * pooled])
    assert freedom.tolist() == [9.0, 9.0, 3.0]
    lower, upper = evidence.bounds(certain=0)
    assert (lower[0], upper[0]) == (0.0, 0.0)  # the target alone
    assert lower[1] < 0.1 < upper[1]


def test_clearly_worse_arms_are_eliminated_and_stay_out():
    decision = begin(ExtremeExploreRule())
    rounds(decision, [0.02, 0.06, 0.055], 20, noise=0.01)
    assert decision.eliminate().tolist() == [0]
    assert decision.eliminate().tolist() == []
    assert decision.removed.tolist() == [True, False, False]
    assert decision.play(ALL, 21).arms.tolist() == [1, 2]
    assert decision.play([True, False, False], 21).arms.tolist() == []
    assert np.flatnonzero(decision.bounds()[1] < decision.bounds()[0].max()).tolist() == [0]


def test_few_increases_eliminate_nobody():
    decision = begin(ExtremeExploreRule())
    rounds(decision, [0.0, 0.9, 0.5], 2)
    assert decision.eliminate().tolist() == []


def test_the_probability_of_being_best():
    decision = begin(ExtremeExploreRule())
    assert decision.probability_best() == pytest.approx([1 / 3] * 3)
    rounds(decision, [0.02, 0.06, 0.02], 12, noise=0.01)
    before = decision.rng.bit_generator.state
    sure = decision.probability_best()
    assert sure.sum() == pytest.approx(1.0)
    assert sure[1] > 0.99
    assert decision.probability_best().tolist() == sure.tolist()
    assert decision.rng.bit_generator.state == before


def test_two_equal_arms_share_the_probability():
    evidence = ArmStatistics.create(2)
    draw = np.random.default_rng(0).normal(size=30)
    for value in np.concatenate([draw, -draw]):
        evidence.add(np.array([0, 1]), np.array([value, -value]))
    assert evidence.probability_best() == pytest.approx([0.5, 0.5], abs=0.03)


def test_an_arm_never_tried_may_be_the_best_but_is_not_named():
    decision = begin(UCBRule())
    for value in (0.01, 0.03, 0.02):
        decision.learn([0], [value], [value])
        decision.learn([2], [value + 0.01], [value + 0.01])
    assert decision.probability_best()[1] > 0.1
    assert decision.best() == 2
    fresh = begin(UCBRule())
    assert fresh.best() == 0
    assert begin(FixedRule(combination=["4"])).best() == 2


def test_priors_come_from_another_target():
    mine, other = Arms.pairs(FOUR, "2"), Arms.pairs(FOUR, "3")
    decision = begin(UCBRule(c=0.0), mine)
    decision.priors(mine.matching(other, [0.1, 0.7, 0.3]), weight=2)
    assert decision.values().tolist() == [0.05, 0.7, 0.05]
    assert decision.count().tolist() == [0, 0, 0]
    assert int(decision.play(ALL, 1).arms[0]) in (0, 2)  # the arms about which nothing is known come first
    greedy = begin(EpsilonGreedyRule(epsilon=0.0), mine)
    greedy.priors([NAN, 0.7, NAN])
    assert greedy.play(ALL, 1).arms.tolist() == [1]
    greedy.learn([1], [0.0], [0.0])
    with pytest.raises(InputError, match="before the first reward"):
        greedy.priors([0.1, 0.1, 0.1])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_saved_and_loaded_it_continues_bit_exactly(rule, tmp_path):
    explore = ExploreRounds(probability=0.2, every=7, growth=1.5)
    means = [0.01, 0.05, 0.03]
    decision = begin(rule, seed=5, explore=explore)
    rounds(decision, means, 9, noise=0.02, threshold=0.025)
    decision.eliminate(confidence=0.5)
    decision.save(tmp_path / "decision")
    again = Decision.load(tmp_path / "decision")
    assert again.removed.tolist() == decision.removed.tolist()
    one = rounds(decision, means, 25, noise=0.02, threshold=0.025, first=10)
    two = rounds(again, means, 25, noise=0.02, threshold=0.025, first=10)
    assert one == two
    assert again.values().tolist() == decision.values().tolist()
    assert again.probability_best().tolist() == decision.probability_best().tolist()
    assert again.rng.bit_generator.state == decision.rng.bit_generator.state
    assert (again.arms == decision.arms, again.explore, again.delayed) == (True, decision.explore, decision.delayed)


@pytest.mark.parametrize("rule", [UCBRule(), ThompsonRule(), ExtremeExploreRule()], ids=lambda rule: rule.kind)
def test_more_arms_can_be_added_on_the_way(rule, tmp_path):
    decision = begin(rule)
    rounds(decision, [0.01, 0.05, 0.03], 6, threshold=0.025)
    before = decision.values().copy()
    decision.extend(decision.arms.with_more([("1", "3")]))
    fresh = 0.5 if rule.binary else 0.05
    assert decision.values().tolist() == [*before.tolist(), fresh]
    decision.save(tmp_path)
    again = Decision.load(tmp_path)
    assert again.arms.codes == ("1100", "0110", "0101", "1110")
    rounds(again, [0.01, 0.05, 0.03, 0.2], 30, noise=0.005, first=7, threshold=0.1)
    assert again.best() == 3
    with pytest.raises(InputError, match="must begin with the current ones"):
        decision.extend(Arms.every(FOUR, "2"))


@pytest.mark.parametrize(
    "rule",
    [
        EpsilonGreedyRule(stationary=True),
        UCBRule(stationary=True),
        ExtremeExploreRule(),
        ExtremeExploreRule(delayed=True),
        ThompsonRule(),
        BayesianExtremeExploreRule(),
    ],
    ids=lambda rule: rule.kind,
)
def test_the_best_of_eight_pairs_is_named(rule):
    # increases as large and as noisy as differences of AUC are
    means = np.array([0.01, 0.0, 0.06, -0.02, 0.015, 0.0, -0.05, 0.02])
    arms = Arms.pairs([str(number) for number in range(9)], 0)
    named = []
    for seed in range(20):
        decision = begin(rule, arms, seed=seed)
        rounds(decision, means, 40, noise=0.015, seed=seed, threshold=0.025 if rule.binary else None)
        named.append(decision.best())
    assert named.count(2) >= 18


def test_kinds_are_told_apart_by_name():
    adapter = pydantic.TypeAdapter(AnyRule)
    assert adapter.validate_python({"kind": "ucb", "c": 0.1}) == UCBRule(c=0.1)
    assert adapter.validate_python({"kind": "fixed", "combination": ["3"]}) == FixedRule(combination=("3",))
    assert [rule.binary for rule in (UCBRule, ThompsonRule, BayesianExtremeExploreRule)] == [False, True, True]
    with pytest.raises(InputError, match="step = 0"):
        UCBRule(step=0.0)
