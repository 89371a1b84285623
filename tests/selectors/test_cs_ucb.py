"""Rounds of cs-ucb and cs-ucb-q, worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from tests.selectors.by_hand import LN4, play


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
    for order in itertools.islice(itertools.permutations(range(3)), 1, None, 2):
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
