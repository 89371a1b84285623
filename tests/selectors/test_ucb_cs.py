"""UCB-CS: discounted sums that fade lazily, and selections that bring no loss."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError, MissingColumnError


def make(count=3, sizes=None, **settings):
    clients = Clients(count=count) if sizes is None else Clients(num_examples=sizes)
    return enlist.create("ucb-cs", clients, seed=1, **{"preset": "paper", **settings})


def two_rounds(selector):
    selector.tell(selector.ask([0, 1], k=2), Feedback(loss=[1.0, 3.0]))
    selector.tell(selector.ask([1, 2], k=2), Feedback(loss=[2.0, 5.0]))


def test_a_round_by_hand():
    # gamma = .5. Round 1: clients 0, 1 with losses 1, 3; round 2: clients 1, 2 with losses 2, 5. For round 3:
    # N = (.5, 1.5, 1), L = (.5, 2 + 1.5, 5), L/N = (1, 7/3, 5), T = 1.5, ln T = .405465
    # losses 1, 3, 2, 5: mean 2.75, variance (3.0625 + .0625 + .5625 + 5.0625)/4 = 2.1875
    # sqrt(2 * 2.1875 * .405465) = 1.331882, so the bonuses are 1.883566, 1.087477, 1.331882
    # and the scores 2.883566, 3.420811, 6.331882 (times 1/3)
    selector = make(gamma=0.5)
    two_rounds(selector)
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [1, 2]
    np.testing.assert_allclose(picked.terms["loss"], [7 / 3, 5.0])
    np.testing.assert_allclose(picked.terms["bonus"], [1.087477, 1.331882], atol=1e-6)
    np.testing.assert_allclose(picked.terms["share"], [1 / 3, 1 / 3])


def test_sizes_weigh_the_score():
    # The same with shares 10/12, 1/12, 1/12: 2.402972, .285068, .527657.
    selector = make(sizes=[10, 1, 1], gamma=0.5)
    two_rounds(selector)
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [0, 2]
    np.testing.assert_allclose(picked.terms["bonus"], [1.883566, 1.331882], atol=1e-6)
    np.testing.assert_allclose(picked.terms["share"], [10 / 12, 1 / 12])


def test_bonus_scale():
    # Client 0 alone against 1: 1 + 1.883566 s against 2.333333 + 1.087477 s: 0 wins from s = 1.675 on.
    for scale, expected in ((1.6, 1), (1.75, 0)):
        selector = make(gamma=0.5, bonus_scale=scale)
        two_rounds(selector)
        assert selector.ask([0, 1], k=1).clients.tolist() == [expected]


def test_without_discount_it_is_plain_ucb():
    # gamma = 1: N = (1, 2, 1), T = 2, L/N = (1, 2.5, 5); sqrt(2 * 2.1875 * ln 2) = 1.741413.
    selector = make(gamma=1.0)
    two_rounds(selector)
    picked = selector.ask(k=2)
    np.testing.assert_allclose(picked.terms["loss"], [2.5, 5.0])
    np.testing.assert_allclose(picked.terms["bonus"], [1.741413 / np.sqrt(2), 1.741413], atol=1e-6)


def test_sums_fade_also_in_rounds_without_the_client():
    # After two more empty rounds N = (.125, .375, .25), means as before, T = 1 + .5 + .25 + .125 = 1.875.
    selector = make(gamma=0.5)
    two_rounds(selector)
    selector.ask([], k=1)
    selector.ask([], k=1)
    picked = selector.ask([1, 2], k=1)
    width = np.sqrt(2 * 2.1875 * np.log(1.875))
    assert picked.clients.tolist() == [2]
    np.testing.assert_allclose(picked.terms["bonus"], [width / np.sqrt(0.25)])


def test_a_reply_counts_for_its_own_round():
    # Client 0 in rounds 1 and 2; the loss of round 2 (4) comes first, that of round 1 (2) as an amendment after
    # round 3: (4 + .5 * 2)/(1 + .5) = 10/3, whatever the order.
    selector = make(gamma=0.5)
    first, second = selector.ask([0, 1], k=2), selector.ask([0, 1], k=2)
    selector.tell(first, Feedback(outcome=[Outcome.LATE, Outcome.COMPLETED], loss=[99.0, 2.0]))
    selector.tell(second, Feedback(loss=[4.0, 4.0]))
    assert selector.state.mean[0] == 4.0
    selector.ask([2], k=1)
    selector.tell(first, Feedback(clients=[0], outcome=[Outcome.ARRIVED], loss=[2.0]))
    np.testing.assert_allclose(selector.state.mean[:2], 10 / 3)
    np.testing.assert_allclose(selector.state.weight[:2], 1.5)
    np.testing.assert_allclose(selector.state.pulls, [1.5, 1.5, 1.0])


def test_a_selection_without_a_loss_narrows_the_bonus_only():
    selector = make(gamma=0.5)
    two_rounds(selector)
    picked = selector.ask(k=3)
    outcome = [Outcome.DROPPED, Outcome.COMPLETED, Outcome.FAILED]
    selector.tell(picked, Feedback(outcome=outcome, loss=[7.0, np.nan, 7.0]))
    np.testing.assert_allclose(selector.state.mean, [1.0, 7 / 3, 5.0])
    np.testing.assert_allclose(selector.state.pulls, [1.25, 1.75, 1.5])
    assert selector.state.recent.seen == 4


def test_never_selected_come_first():
    selector = make(4)
    selector.tell(selector.ask([0, 1], k=2), Feedback(loss=[50.0, 90.0]))
    assert selector.ask(k=2).clients.tolist() == [2, 3]
    assert selector.ask(k=1).clients.tolist() != [2]  # still no loss of 2, but it was tried: the mean 70 < 90


def test_one_that_never_returns_counts_as_the_mean():
    # Losses 1 and 3, T = 1 in round 2, so no bonus: 3, then the lost client at 2, then 1.
    selector = make(3)
    outcome = [Outcome.COMPLETED, Outcome.DROPPED, Outcome.COMPLETED]
    selector.tell(selector.ask(k=3), Feedback(outcome=outcome, loss=[1.0, np.nan, 3.0]))
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [1, 2]
    np.testing.assert_allclose(picked.terms["loss"], [2.0, 3.0])


def test_one_that_never_returns_is_not_chosen_for_ever():
    selector = make(5)
    world = np.random.default_rng(2)
    for _ in range(200):
        picked = selector.ask(k=1)
        outcome = np.where(picked.clients == 0, Outcome.DROPPED, Outcome.COMPLETED)
        selector.tell(picked, Feedback(outcome=outcome, loss=world.uniform(1, 2, size=1)))
    assert 10 < selector.counts.selected[0] < 80


def test_the_larger_loss_is_chosen_more_often():
    selector = make(6)
    for _ in range(100):
        picked = selector.ask(k=2)
        selector.tell(picked, Feedback(loss=1.0 + picked.clients))
    assert (np.diff(selector.counts.selected) >= 0).all()
    assert selector.counts.selected[5] > 2 * selector.counts.selected[0]


@pytest.mark.parametrize("gamma", [0.1, 0.7])
def test_scores_stay_finite_after_ages(gamma):
    selector = make(gamma=gamma)
    two_rounds(selector)
    selector.round = 10**6
    picked = selector.ask(k=1)
    assert np.isfinite(picked.terms["bonus"]).all()
    selector.tell(picked, Feedback(loss=[1.5]))
    assert np.isfinite(selector.state.mean).all()
    assert np.isfinite(selector.summary()["bonus"]).all()


def test_only_failures_so_far():
    selector = make()
    selector.tell(selector.ask(k=3), Feedback(outcome=[Outcome.DROPPED] * 3))
    picked = selector.ask(k=2)
    np.testing.assert_array_equal(picked.terms["loss"], 0.0)


def test_needs_and_settings():
    selector = make()
    with pytest.raises(MissingColumnError, match="loss"):
        selector.tell(selector.ask(k=2), Feedback(latency=[1.0, 2.0]))
    with pytest.raises(InputError, match="gamma"):
        make(gamma=0.0)
    with pytest.raises(InputError, match="bonus_scale"):
        make(bonus_scale=-1.0)
    assert len(make(sizes=[0, 0, 0]).ask(k=2)) == 2


def test_saved_and_loaded(tmp_path):
    selector = make(8)
    selector.tell(selector.ask(k=3), Feedback(loss=[1.0, 2.0, 4.0]))
    selector.save(tmp_path)
    again = enlist.load(tmp_path)
    for _ in range(6):
        picks = [one.ask(k=3) for one in (selector, again)]
        assert picks[0].clients.tolist() == picks[1].clients.tolist()
        for one, picked in zip((selector, again), picks, strict=True):
            one.tell(picked, Feedback(loss=1.0 + picked.clients))
