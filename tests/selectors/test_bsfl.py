"""Rounds of bsfl, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.bandits import objective
from tests.selectors.by_hand import LN2, LN3, play


def bsfl(count=4, **settings):
    return enlist.create("bsfl", Clients(count=count), seed=1, **settings)


def warmed(count=4, deadline=10.0, latency=(1.0, 2.0, 4.0, 5.0), **settings):
    """Every client has been seen once."""
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
