"""Rounds worked out by hand for the selectors that need no more than a page of arithmetic."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome, RoundMetrics
from enlist.bandits import objective

LN2, LN3, LN4, LN5 = (math.log(number) for number in (2, 3, 4, 5))


def play(selector, available, k, *, deadline=math.inf, metrics=None, **columns):
    """Ask and tell at once; returns the clients."""
    picked = selector.ask(available, k=k, deadline=deadline)
    selector.tell(picked, Feedback(**columns), metrics)
    return picked.clients.tolist()


# -------------------------------------------------------------------------------------------------------------- random


def test_random_is_uniform():
    # 6 subsets of 2 of 4, 6,000 rounds: 1,000 each, deviation 29
    selector = enlist.create("random", Clients(count=6), seed=1)
    counts = dict.fromkeys(itertools.combinations([0, 2, 3, 5], 2), 0)
    for _ in range(6000):
        counts[tuple(selector.ask([0, 2, 3, 5], k=2).clients.tolist())] += 1
    assert all(abs(count - 1000) < 150 for count in counts.values())


# --------------------------------------------------------------------------------------------------- size-proportional


def inclusion(selector, available, k, rounds=12_000):
    counts = np.zeros(len(selector.clients))
    for _ in range(rounds):
        counts[selector.ask(available, k=k).clients] += 1
    return counts / rounds


def test_successive_draws_over_include_the_small():
    # sizes 1, 1, 2 and k = 2. Small client 0: first with 1/4; second after 1 with 1/4 * 1/3, after 2 with 1/2 * 1/2
    # = 1/4 + 1/12 + 1/4 = 7/12. Large client: 2 - 2 * 7/12 = 5/6
    selector = enlist.create("size-proportional", Clients(num_examples=[1, 1, 2]), seed=1)
    assert inclusion(selector, None, 2).tolist() == pytest.approx([7 / 12, 7 / 12, 5 / 6], abs=0.02)


def test_fixed_inclusion_is_proportional_to_size():
    # sizes 1, 1, 2, k = 2: c = 1/2 gives 1/2, 1/2, 1
    clients = Clients(num_examples=[1, 1, 2])
    selector = enlist.create("size-proportional", clients, seed=1, variant="fixed-inclusion")
    assert inclusion(selector, None, 2, 4000).tolist() == pytest.approx([0.5, 0.5, 1.0], abs=0.035)
    # sizes 1, 2, 3, 4, k = 1: a tenth of the size; of the available 1, 3, 4 only: an eighth
    clients = Clients(num_examples=[1, 2, 3, 4])
    selector = enlist.create("size-proportional", clients, seed=1, variant="fixed-inclusion")
    assert inclusion(selector, None, 1).tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.02)
    assert inclusion(selector, [0, 2, 3], 1).tolist() == pytest.approx([1 / 8, 0, 3 / 8, 4 / 8], abs=0.02)


def test_fixed_inclusion_is_capped_at_one():
    # sizes 8, 1, 1, k = 2: the first would get 1.6; capped at 1, the others share 1
    clients = Clients(num_examples=[8, 1, 1])
    selector = enlist.create("size-proportional", clients, seed=1, variant="fixed-inclusion")
    picked = selector.ask(k=2)
    assert picked.terms["inclusion"].tolist() == [1.0, 0.5]
    assert inclusion(selector, None, 2, 4000).tolist() == pytest.approx([1.0, 0.5, 0.5], abs=0.035)


@pytest.mark.parametrize("variant", ["successive", "fixed-inclusion"])
def test_clients_without_examples_are_never_chosen(variant):
    clients = Clients(num_examples=[0, 5, 0, 1])
    selector = enlist.create("size-proportional", clients, seed=1, variant=variant)
    assert selector.ask(k=4).clients.tolist() == [1, 3]
    assert selector.ask(k=3).clients.tolist() == [1, 3]
    assert selector.ask([0, 2], k=1).clients.tolist() == []
    assert all(selector.ask([0, 1, 2], k=1).clients.tolist() == [1] for _ in range(20))


# ----------------------------------------------------------------------------------------------------------- darts-ucb


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
    play(selector, [0, 1], 2, metrics=accuracy(0.10))  # absolute accuracy: (.1 + 1)/2 = .55
    play(selector, [0, 2], 2, metrics=accuracy(0.30))  # (.2 + 1)/2 = .6
    play(selector, [0, 3], 2, metrics=accuracy(0.20))  # (-.1 + 1)/2 = .45
    means = [(0.55 + 0.6 + 0.45) / 3, 0.55, 0.6, 0.45]
    assert selector.state.rewards.mean.tolist() == pytest.approx(means)
    # s = 6, n = (3, 1, 1, 1): bonuses sqrt(2 ln 6 / n) = 1.0929 and 1.8931
    picked = selector.ask([0, 1, 3], k=2)
    assert picked.clients.tolist() == [1, 3]  # 2.443 and 2.343 against 1.626
    assert picked.terms["bonus"].tolist() == pytest.approx([math.sqrt(2 * math.log(6))] * 2)


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


# --------------------------------------------------------------------------------------- the rules of the MAB-FL thesis


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


# -------------------------------------------------------------------------------------------------------------- cs-ucb


@pytest.mark.parametrize(("settings", "scale"), [({}, 0.1), ({"preset": "paper"}, 1.0)])
def test_cs_ucb_by_hand(settings, scale):
    selector = enlist.create("cs-ucb", Clients(count=4), seed=1, **settings)
    play(selector, [0, 1], 2, deadline=10.0, latency=[2.0, 9.0])  # rewards .8, .1
    play(selector, [0, 2], 2, deadline=10.0, latency=[4.0, 5.0])  # .6, .5
    assert selector.rewards().tolist() == pytest.approx([0.7, 0.1, 0.5, 0.0])
    assert selector.state.latency.count.tolist() == [2, 1, 1, 0]
    play(selector, [3], 1, deadline=10.0, latency=[8.0])  # .2
    # round 4, k = 2: s sqrt(3 ln 4 / z); z = (2, 1, 1, 1)
    bonus = [scale * math.sqrt(3 * LN4 / 2), scale * math.sqrt(3 * LN4)]
    picked = selector.ask([0, 1, 2], k=2, deadline=10.0)
    # default: .7 + .144, .1 + .204, .5 + .204; paper: .7 + 1.442, .1 + 2.039, .5 + 2.039 (1 and 0 are 2.139, 2.142)
    assert picked.clients.tolist() == [0, 2]
    assert picked.terms["mean"].tolist() == pytest.approx([0.7, 0.5])
    assert picked.terms["bonus"].tolist() == pytest.approx(bonus)


def test_cs_ucb_never_tried_first():
    selector = enlist.create("cs-ucb", Clients(count=5), seed=1)
    play(selector, [0, 1], 2, deadline=10.0, latency=[0.1, 0.1])
    assert selector.ask(k=3, deadline=10.0).clients.tolist() == [2, 3, 4]


def test_cs_ucb_outcomes():
    # late at the deadline, dropped and failed give 0
    selector = enlist.create("cs-ucb", Clients(count=4), seed=1)
    outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED, Outcome.FAILED]
    play(selector, None, 4, deadline=10.0, outcome=outcome, latency=[5.0, 12.0, math.nan, math.nan])
    assert selector.rewards().tolist() == pytest.approx([0.5, 0.0, 0.0, 0.0])
    assert selector.state.latency.count.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["cs-ucb", "cs-ucb-q"])
def test_cs_ucb_cut_off_and_amendment(name):
    selector = enlist.create(name, Clients(num_examples=[1, 1]), seed=1)
    play(selector, None, 2, deadline=10.0, latency=[8.0, 1.0])  # .2, .9
    picked = selector.ask(k=2, deadline=10.0)
    cut = Feedback(outcome=[1, 1], latency=[4.0, 4.0], censored=[True, True])
    selector.tell(picked, cut)
    # both needed more than 4 s, at best .6: client 0 keeps its mean .2, client 1 falls to (.9 + .6)/2 = .75
    assert selector.rewards().tolist() == pytest.approx([0.2, 0.75])
    selector.tell(picked, Feedback(outcome=[4, 4], latency=[6.0, 12.0], rounds_late=[1, 1]))
    # true rewards .4 and 0: (.2 + .4)/2 and (.9 + 0)/2
    assert selector.rewards().tolist() == pytest.approx([0.3, 0.45])
    assert selector.state.latency.count.tolist() == [2, 2]


def test_cs_ucb_without_a_deadline():
    selector = enlist.create("cs-ucb", Clients(count=3), seed=1)
    play(selector, None, 3, outcome=[0, 0, 2], latency=[2.0, 8.0, math.nan])  # the longest seen, 8, stands in
    assert selector.rewards().tolist() == pytest.approx([0.75, 0.0, 0.0])
    assert selector.state.latency.count.tolist() == [1, 1, 1]  # the lost one counts as the longest seen
    # the longest grows: what was learned before is read on the same scale
    play(selector, [0], 1, latency=[32.0])
    assert selector.rewards().tolist() == pytest.approx([1 - 17 / 32, 0.75, 0.75])


def test_a_cut_off_client_is_not_punished_by_the_rules():
    # cut off at 1.1 s of a 100 s deadline: nothing is known, so what others bring; past the deadline: the floor
    for latency, expected in ((1.1, 0.99), (100.0, 0.0)):
        selector = enlist.create("ucb", Clients(count=2), reward="speed", scale="raw", initial=0.5)
        play(selector, None, 2, deadline=100.0, outcome=[0, 1], latency=[1.0, latency], censored=[False, True])
        assert selector.rule.values().tolist() == pytest.approx([0.99, expected])


def test_rules_learn_what_arrives_late():
    selector = enlist.create("ucb", Clients(count=2), scale="raw", initial=0.5)
    picked = selector.ask(k=2, deadline=10.0)
    late = Feedback(outcome=[1, 1], latency=[4.0, 10.0], censored=[True, True])
    selector.tell(picked, late)  # the first was cut off, the second is past the deadline
    assert selector.rule.values().tolist() == [0.5, 0.0]
    arrived = Feedback(outcome=[Outcome.ARRIVED] * 2, latency=[6.0, 12.0], accuracy_gain=[0.2, 0.3])
    selector.tell(picked, arrived)
    assert selector.rule.values().tolist() == pytest.approx([0.2, 0.3])
    assert selector.state.rule.estimates.count.tolist() == [1, 1]


@pytest.mark.parametrize("name", ["ucb", "epsilon-greedy", "thompson", "discounted-thompson"])
def test_telling_in_parts_is_telling_at_once(name):
    whole, parts = (enlist.create(name, Clients(count=6), seed=1, reward="completed") for _ in range(2))
    for _ in range(10):
        first, second = whole.ask(k=3), parts.ask(k=3)
        assert first.clients.tolist() == second.clients.tolist()
        whole.tell(first, Feedback(outcome=[0, 2, 0], latency=[1.0, math.nan, 1.0]))
        for client, outcome in zip(second.clients, [0, 2, 0], strict=True):
            seconds = math.nan if outcome else 1.0
            parts.tell(second, Feedback(clients=[client], outcome=[outcome], latency=[seconds]))
    assert whole.rule.values().tolist() == pytest.approx(parts.rule.values().tolist())


# ------------------------------------------------------------------------------------------------------------ cs-ucb-q


def test_cs_ucb_q_by_hand():
    selector = enlist.create("cs-ucb-q", Clients(count=3), seed=1, fractions=[0.1, 0.6, 0.2], beta=0.5)
    # round 1: D = (.1, .6, .2), everybody unknown: speed 1. Scores .55, .8, .6: clients 1 and 2
    picked = selector.ask(k=2, deadline=10.0)
    assert picked.clients.tolist() == [1, 2]
    assert picked.terms["queue"].tolist() == pytest.approx([0.6, 0.2])
    assert picked.terms["speed"].tolist() == [1.0, 1.0]
    selector.tell(picked, Feedback(latency=[9.0, 5.0]))  # rewards .1, .5
    # round 2: D = (.2, max(.6+.6-1, 0) = .2, max(.2+.2-1, 0) = 0); width sqrt(2 ln 2) = 1.177: speeds all 1
    # scores .6, .6, .5
    picked = selector.ask(k=2, deadline=10.0)
    assert picked.clients.tolist() == [0, 1]
    assert picked.terms["queue"].tolist() == pytest.approx([0.2, 0.2])
    selector.tell(picked, Feedback(latency=[10.0, 9.0]))
    assert selector.rewards().tolist() == pytest.approx([0.0, 0.1, 0.5])
    # nobody available: D grows by what everybody is owed, as far as it was there: min(c, 2/3)
    selector.ask([], k=2)
    # D = (max(.2+.1-1, 0), max(.2+.6-1, 0), 0 + .2)
    assert selector.state.queues.backlog.tolist() == pytest.approx([0.0, 0.0, 0.2], abs=1e-12)


def test_cs_ucb_q_with_a_small_width():
    selector = enlist.create("cs-ucb-q", Clients(count=2), seed=1, fractions=[0.0, 0.0], bonus_scale=0.0)
    play(selector, None, 2, deadline=10.0, latency=[2.0, 6.0])
    picked = selector.ask(k=1, deadline=10.0)
    assert picked.clients.tolist() == [0]
    assert picked.terms["speed"].tolist() == pytest.approx([0.8])


def test_cs_ucb_q_reaches_its_fractions():
    # spec M.5: three clients of very different speed, k = 2, fractions .6, .5, .4
    fractions = np.array([0.6, 0.5, 0.4])
    for order in itertools.permutations(range(3)):
        latency = np.array([1.0, 5.0, 9.5])[list(order)]
        selector = enlist.create("cs-ucb-q", Clients(count=3), seed=1, fractions=fractions)
        draw = np.random.default_rng(0)
        for _ in range(1000):
            picked = selector.ask(k=2, deadline=10.0)
            noise = draw.uniform(0.9, 1.05, size=len(picked))
            selector.tell(picked, Feedback(latency=latency[picked.clients] * noise))
        assert (selector.counts.selected / 1000 >= fractions - 0.01).all()
        assert selector.state.queues.backlog.max() < 10


def test_cs_ucb_q_reaches_its_fractions_with_availability():
    # as in the paper: each is there nine times of ten
    fractions, draw = np.array([0.6, 0.5, 0.4]), np.random.default_rng(1)
    selector = enlist.create("cs-ucb-q", Clients(count=3), seed=1, fractions=fractions)
    for _ in range(2000):
        picked = selector.ask(draw.uniform(size=3) < 0.9, k=2, deadline=5.0)
        selector.tell(picked, Feedback(latency=1.0 + 1.5 * picked.clients))
    assert (selector.counts.selected / 2000 >= fractions - 0.015).all()


def test_cs_ucb_q_fractions_by_size():
    # share .5 of k n_i / sum n: sizes 6, 3, 1 and k = 1 give .3, .15, .05
    selector = enlist.create("cs-ucb-q", Clients(num_examples=[6, 3, 1]), seed=1)
    selector.ask(k=1)
    assert selector.state.queues.backlog.tolist() == pytest.approx([0.3, 0.15, 0.05])


def test_cs_ucb_q_caps_a_fraction_at_the_availability():
    # client 0 is owed .9 but there only every second round: its queue must not run away
    selector = enlist.create("cs-ucb-q", Clients(count=3), seed=1, fractions=[0.9, 0.1, 0.1])
    for number in range(1000):
        picked = selector.ask([0, 1, 2] if number % 2 else [1, 2], k=2, deadline=10.0)
        selector.tell(picked, Feedback(latency=1.0 + picked.clients))
    assert selector.counts.selected[0] == 500
    assert selector.state.queues.backlog[0] < 10


# ---------------------------------------------------------------------------------------------------------------- bsfl


def bsfl(count=4, **settings):
    return enlist.create("bsfl", Clients(count=count), seed=1, **settings)


def warmed(count=4, deadline=10.0, latency=(1.0, 2.0, 4.0, 5.0), **settings):
    """Everybody has been seen once."""
    selector = bsfl(count, **settings)
    play(selector, None, count, deadline=deadline, latency=list(latency))
    return selector


def test_bsfl_paper_by_hand():
    selector = warmed(preset="paper")
    # shortest 1: speeds 1, .5, .25, .2
    assert selector.speed().tolist() == pytest.approx([1.0, 0.5, 0.25, 0.2])
    picked = selector.ask(k=2, deadline=10.0)
    # round 2: bonus sqrt(3 ln 2 / 1) for all; g = 2/4 - 1/2 = 0 for all: the fastest win
    assert picked.clients.tolist() == [0, 1]
    assert picked.terms["bonus"].tolist() == pytest.approx([math.sqrt(3 * LN2)] * 2)
    assert picked.terms["generalisation"].tolist() == pytest.approx([0.0, 0.0])
    selector.tell(picked, Feedback(latency=[1.0, 4.0]))
    assert selector.speed().tolist() == pytest.approx([1.0, (0.5 + 0.25) / 2, 0.25, 0.2])
    # round 3: c = (2, 2, 1, 1): bonus sqrt(3 ln 3 / c) = 1.2838, 1.8154; ucb 2.284, 1.659, 2.065, 2.015
    # g = .5 - c/3 = -.1667, -.1667, .1667, .1667. Sets: {0,2} 2.065 + 0, {2,3} 2.015 + .1667 = 2.182: the best
    picked = selector.ask(k=2, deadline=10.0)
    assert picked.clients.tolist() == [2, 3]
    assert picked.terms["generalisation"].tolist() == pytest.approx([1 / 6, 1 / 6])
    assert picked.terms["speed"].tolist() == pytest.approx([0.25, 0.2])


def test_bsfl_default_by_hand():
    selector = warmed()
    assert (selector.settings.bonus_scale, selector.settings.normalised) == (0.1, True)
    play(selector, [0, 1], 2, deadline=10.0, latency=[1.0, 4.0])
    # round 3: bonus .1 sqrt(3 ln 3 / c): .1284, .1815; ucb 1.128, .503, .431, .381
    # normalised: x/target = (.5 - c/3)/.5 = -1/3 for 0, 1 and 1/3 for 2, 3; alpha/k = 1/2
    # {0,2}: .431 + 0; {2,3}: .381 + 1/3 = .715; {0,1}: .503 - 1/3; {0,3}: .381
    picked = selector.ask(k=2, deadline=10.0)
    assert picked.clients.tolist() == [2, 3]
    assert picked.terms["generalisation"].tolist() == pytest.approx([1 / 3, 1 / 3])
    assert picked.terms["bonus"].tolist() == pytest.approx([0.1 * math.sqrt(3 * LN3)] * 2)


def test_bsfl_without_generalisation_is_the_fastest_k():
    selector = warmed(alpha=0.0)
    for _ in range(5):
        assert play(selector, None, 2, deadline=10.0, latency=[1.0, 2.0]) == [0, 1]


def test_bsfl_never_tried_first():
    selector = bsfl(5)
    play(selector, [0, 1, 2], 3, deadline=10.0, latency=[1.0, 1.0, 1.0])
    assert selector.ask(k=2, deadline=10.0).clients.tolist() == [3, 4]


def test_bsfl_powers_keep_the_sign():
    for beta, expected in ((1.0, [-0.5, 0.25]), (2.0, [-0.25, 0.0625]), (3.0, [-0.125, 0.015625])):
        selector = bsfl(2, preset="paper", beta=beta)
        play(selector, [0], 1, deadline=10.0, latency=[1.0])
        play(selector, [0], 1, deadline=10.0, latency=[1.0])
        play(selector, [0, 1], 2, deadline=10.0, latency=[1.0, 1.0])
        selector.round = 4  # as if the fourth round had begun: c/t = 3/4, 1/4; targets 1/2 with k = 1
        lag = np.array([0.5 - 0.75, 0.5 - 0.25])
        assert selector.generalisation(1).tolist() == pytest.approx((np.sign(lag) * abs(lag) ** beta).tolist())
        assert np.sign(expected).tolist() == np.sign(lag).tolist()


def test_bsfl_size_and_quality():
    # d = n q = (4, 2, 2): targets k d / sum = 1 * (.5, .25, .25); with k = 2: (1, .5, .5)
    clients = Clients(num_examples=[4, 4, 2], quality=[1.0, 0.5, 1.0])
    selector = enlist.create("bsfl", clients, seed=1, generalisation="size-quality", preset="paper")
    assert selector.targets(1).tolist() == pytest.approx([0.5, 0.25, 0.25])
    assert selector.targets(2).tolist() == pytest.approx([1.0, 0.5, 0.5])
    play(selector, None, 3, deadline=10.0, latency=[2.0, 2.0, 2.0])
    # round 2, k = 1: x = target - 1/2 = (0, -.25, -.25); equal speeds: client 0
    picked = selector.ask(k=1, deadline=10.0)
    assert picked.clients.tolist() == [0]
    assert picked.terms["generalisation"].tolist() == pytest.approx([0.0])


def test_bsfl_targets_above_one_are_capped():
    # spec D.4.4: d = (8, 1, 1), k = 2: 1.6 is capped at 1, the rest shares 1
    clients = Clients(num_examples=[8, 1, 1])
    selector = enlist.create("bsfl", clients, generalisation="size-quality")
    assert selector.targets(2).tolist() == pytest.approx([1.0, 0.5, 0.5])


def test_bsfl_targets_as_printed():
    # Eq. 4: d = (8, 1, 1), k = 2: 2 * 8/10 = 1.6, .2, .2, also if everybody is wanted
    clients = Clients(num_examples=[8, 1, 1])
    selector = enlist.create("bsfl", clients, generalisation="size-quality", preset="paper")
    assert selector.targets(2).tolist() == pytest.approx([1.6, 0.2, 0.2])
    assert selector.targets(3).tolist() == pytest.approx([2.4, 0.3, 0.3])
    selector.round = 1
    assert selector.generalisation(2).tolist() == pytest.approx([1.6, 0.2, 0.2])
    nothing = enlist.create("bsfl", Clients(num_examples=[0, 0]), generalisation="size-quality", preset="paper")
    assert nothing.targets(1).tolist() == [0.0, 0.0]


def test_bsfl_loss():
    selector = bsfl(3, generalisation="loss")
    assert selector.targets(1).tolist() == pytest.approx([1 / 3] * 3)  # nothing known yet
    play(selector, [0, 1], 2, deadline=10.0, latency=[1.0, 1.0], loss=[1.0, 3.0])
    # client 2 counts as 3, the largest seen: targets 1/7, 3/7, 3/7
    assert selector.targets(1).tolist() == pytest.approx([1 / 7, 3 / 7, 3 / 7])
    play(selector, [1, 2], 2, deadline=10.0, latency=[1.0, 1.0], loss=[0.5, 0.5])
    assert selector.targets(1).tolist() == pytest.approx([0.5, 0.25, 0.25])


def test_bsfl_callable():
    selector = warmed(latency=[2.0] * 4, generalisation=lambda selector, k: k * np.array([0.0, 0.0, 0.6, 0.4]))
    # round 2: c/t = 1/2, equal speeds, k = 1: x = (-.5, -.5, .1, -.1), normalised and clipped: -1, -1, 1/6, -1/4
    picked = selector.ask(k=1, deadline=10.0)
    assert picked.clients.tolist() == [2]
    assert picked.terms["generalisation"].tolist() == pytest.approx([1 / 6])
    assert selector.generalisation(1)[[0, 3]].tolist() == pytest.approx([-1.0, -0.25])


def test_bsfl_rates_by_round_or_by_available_round():
    for rates, share in (("round", 1 / 4), ("available", 1 / 2)):
        selector = bsfl(3, preset="paper", rates=rates)
        play(selector, [0, 1, 2], 3, deadline=10.0, latency=[1.0, 1.0, 1.0])
        for _ in range(2):
            play(selector, [0, 1], 1, deadline=10.0, latency=[1.0])
        selector.ask([0, 1, 2], k=1, deadline=10.0)
        # before the fourth choice client 2 had been chosen once, in 4 rounds, of which it was there in 2
        selector.counts.selected[2] = 1
        assert selector.generalisation(1)[2] == pytest.approx(1 / 3 - share)


SOLVERS = ("exact", "exhaustive", "annealing", "alsa")


@pytest.mark.parametrize("preset", [None, "paper"])
def test_bsfl_solvers_agree(preset):
    """On seven clients all four find a set of the same value, round after round."""
    exact = bsfl(7, preset=preset)
    others = {solver: bsfl(7, preset=preset, solver=solver, steps=600) for solver in SOLVERS[1:]}
    draw = np.random.default_rng(0)
    for _ in range(12):
        latency = draw.uniform(1.0, 9.0, size=7)
        picked = exact.ask(k=3, deadline=10.0)
        choices = {solver: selector.ask(k=3, deadline=10.0) for solver, selector in others.items()}
        if exact.counts.selected.sum() > 9:  # nobody is new any more
            exact.counts.selected[picked.clients] -= 1
            keys, values = exact.speed() + exact.bonus(3), exact.settings.alpha / 3 * exact.generalisation(3)
            exact.counts.selected[picked.clients] += 1
            best = objective(keys, values, picked.clients)
            for choice in choices.values():
                assert objective(keys, values, choice.clients) == pytest.approx(best)
        exact.tell(picked, Feedback(latency=latency[picked.clients]))
        for solver, selector in others.items():  # all live through the history of the exact one
            selector.counts.selected[:] = exact.counts.selected
            selector.state.pulls[:] = exact.state.pulls
            selector.state.inverse_latency[:] = exact.state.inverse_latency
            selector.state.shortest = exact.state.shortest
            assert len(choices[solver]) == 3


def test_bsfl_outcomes_are_scored_at_the_deadline():
    selector = bsfl(4)
    outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED, Outcome.FAILED]
    play(selector, None, 4, deadline=10.0, outcome=outcome, latency=[2.0, 13.0, math.nan, math.nan])
    assert selector.state.pulls.tolist() == [1, 1, 1, 1]
    assert selector.state.inverse_latency.tolist() == pytest.approx([0.5, 0.1, 0.1, 0.1])
    assert selector.state.shortest == 2.0
    assert selector.speed().tolist() == pytest.approx([1.0, 0.2, 0.2, 0.2])


def test_bsfl_a_client_that_was_cut_off_is_not_scored_at_the_deadline():
    selector = bsfl(3)
    play(selector, [0, 1], 2, deadline=10.0, latency=[2.0, 8.0])
    picked = selector.ask(k=3, deadline=10.0)
    cut = Feedback(outcome=[1, 1, 1], latency=[4.0, 4.0, 4.0], censored=[True, True, True])
    selector.tell(picked, cut)
    # client 0 was at best 1/4; client 1 keeps its mean 1/8, for 1/4 would be a gain; client 2 is new: 1/4, not 1/10
    assert selector.state.inverse_latency.tolist() == pytest.approx([0.5 + 0.25, 0.125 + 0.125, 0.25])
    assert selector.state.pulls.tolist() == [2, 2, 1]


def test_bsfl_amendment():
    selector = bsfl(3)
    picked = selector.ask(k=3, deadline=10.0)
    selector.tell(picked, Feedback(outcome=[0, 1, 1], latency=[2.0, 4.0, 4.0], censored=[False, True, True]))
    assert selector.state.inverse_latency.tolist() == pytest.approx([0.5, 0.25, 0.25])
    late = Feedback(clients=[1, 2], outcome=[4, 4], latency=[5.0, 20.0], rounds_late=[1, 1], loss=[0.7, 0.8])
    selector.tell(picked, late)
    # the true latencies take the place of the bounds: 1/5, and 1/10 beyond the deadline
    assert selector.state.inverse_latency.tolist() == pytest.approx([0.5, 0.2, 0.1])
    assert selector.state.pulls.tolist() == [1, 1, 1]
    assert selector.state.loss[1:].tolist() == [0.7, 0.8]


def test_bsfl_a_shorter_latency_rescales_history():
    selector = bsfl(2)
    play(selector, None, 2, deadline=10.0, latency=[4.0, 8.0])
    assert selector.speed().tolist() == pytest.approx([1.0, 0.5])
    play(selector, [0], 1, deadline=10.0, latency=[2.0])
    # shortest 2: client 0 (2/4 + 2/2)/2 = .75, client 1 2/8
    assert selector.speed().tolist() == pytest.approx([0.75, 0.25])
    assert bsfl(2, shortest=1.0).settings.shortest == 1.0


def test_bsfl_with_a_known_shortest_latency():
    selector = bsfl(2, shortest=1.0)
    play(selector, None, 2, deadline=10.0, latency=[4.0, 8.0])
    assert selector.speed().tolist() == pytest.approx([0.25, 0.125])


def test_bsfl_without_a_deadline_the_lost_count_as_the_longest_seen():
    selector = bsfl(3)
    play(selector, None, 3, outcome=[0, 0, 2], latency=[4.0, 8.0, math.nan])
    assert selector.state.pulls.tolist() == [1, 1, 1]
    assert selector.speed().tolist() == pytest.approx([1.0, 0.5, 0.5])


def test_bsfl_does_not_chase_clients_that_always_fail():
    selector = bsfl(20)
    for _ in range(200):
        picked = selector.ask(k=5)
        lost = picked.clients < 5
        latency = np.where(lost, np.nan, 1.0 + 0.1 * picked.clients)
        selector.tell(picked, Feedback(outcome=np.where(lost, 2, 0), latency=latency))
    assert selector.counts.selected[:5].mean() < selector.counts.selected[5:].mean()


def test_bsfl_is_fast_and_fair_in_the_long_run():
    # two slow clients of eight: with alpha = 0 they are avoided, with a large alpha everybody gets its share
    def shares(alpha):
        selector = bsfl(8, alpha=alpha)
        for _ in range(300):
            picked = selector.ask(k=2, deadline=10.0)
            selector.tell(picked, Feedback(latency=np.where(picked.clients < 2, 9.0, 1.0)))
        return selector.counts.selected / 300

    assert shares(0.0)[:2].max() < 0.1
    np.testing.assert_allclose(shares(50.0), 0.25, atol=0.02)
