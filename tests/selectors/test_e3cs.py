"""E3CS: capped probabilities, exact marginals, importance-weighted updates."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError


def make(count=4, **settings):
    return enlist.create("e3cs", Clients(count=count), seed=1, **settings)


def test_two_rounds_by_hand():
    # k = 2 of 4, sigma = .5 * 2/4 = .25. Equal weights: p = .25 + (2 - 1)/4 = .5; rate k/n - sigma = .25.
    # One completes: its log-weight grows by eta * rate / p = .5 * .25 / .5 = .25; after subtracting the largest it
    # stands at 0 and all others at -.25.
    # Then w = (1, e^-.25 three times), e^-.25 = .778801, sum 3.336402:
    # p = .25 + 1/3.336402 = .549724 for it, .25 + .778801/3.336402 = .483425 for the others.
    selector = make()
    picked = selector.ask(k=2)
    np.testing.assert_allclose(picked.terms["probability"], [0.5, 0.5])
    selector.tell(picked, Feedback(outcome=[Outcome.DROPPED, Outcome.COMPLETED]))
    good = picked.clients[1]
    np.testing.assert_allclose(selector.state.log_weight, np.where(np.arange(4) == good, 0.0, -0.25))
    picked = selector.ask(k=2)
    expected = np.where(picked.clients == good, 0.549724, 0.483425)
    np.testing.assert_allclose(picked.terms["probability"], expected, atol=1e-6)


def test_capped_probabilities_by_hand():
    # No quota, weights 8, 1, 1, 2, k = 2: client 0 is capped at 1, the other 1 is shared as 1 : 1 : 2.
    selector = make(share=0.0)
    weights = np.log([8.0, 1.0, 1.0, 2.0])
    np.testing.assert_allclose(selector._probabilities(weights, 2, 0.0), [1.0, 0.25, 0.25, 0.5])
    # Only differences count: e^-900 : e^-901 : e^-901 is 1 : .367879 : .367879, of 1.735759.
    probability = selector._probabilities(np.array([-900.0, -901.0, -901.0]), 1, 0.0)
    np.testing.assert_allclose(probability, [0.576117, 0.211942, 0.211942], atol=1e-6)
    # sigma = .25 leaves 1 to share, at most .75 each: client 0 reaches 1, the others .25 + .25/3.
    probability = selector._probabilities(np.log([100.0, 1.0, 1.0, 1.0]), 2, 0.25)
    np.testing.assert_allclose(probability, [1.0, 1 / 3, 1 / 3, 1 / 3])


def test_draws_have_these_marginals():
    # 4000 draws: standard error at most .008, margin five of them.
    selector = make(share=0.0)
    selector.state.log_weight[:] = np.log([8.0, 1.0, 1.0, 2.0])
    for _ in range(4000):
        assert len(selector.ask(k=2)) == 2
    np.testing.assert_allclose(selector.counts.selected / 4000, [1.0, 0.25, 0.25, 0.5], atol=0.04)
    assert selector.counts.selected[0] == 4000


def test_capped_clients_do_not_learn():
    # As above: 0 is certain and gains nothing; the other one, at p, gains eta * (2/4) / p = .25 / p.
    selector = make(share=0.0)
    start = np.log([8.0, 1.0, 1.0, 2.0])
    selector.state.log_weight[:] = start
    picked = selector.ask(k=2)
    other = picked.clients[1]
    selector.tell(picked, Feedback())
    gain = np.zeros(4)
    gain[other] = 0.25 / (0.5 if other == 3 else 0.25)
    learned = start + gain
    np.testing.assert_allclose(selector.state.log_weight, learned - learned.max(), atol=1e-12)


def test_partial_tells_meet_their_own_probability():
    selector = make(share=0.0, count=6)
    selector.state.log_weight[:] = np.log([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    picked = selector.ask(k=3)
    before = selector.state.log_weight.copy()
    probability = np.minimum(picked.terms["probability"], 1.0)
    selector.tell(picked, Feedback(clients=picked.clients[[2, 0]], outcome=[Outcome.COMPLETED, Outcome.FAILED]))
    gain = np.zeros(6)
    gain[picked.clients[2]] = 0.5 * 0.5 / probability[2]
    np.testing.assert_allclose(selector.state.log_weight, before + gain - (before + gain).max(), atol=1e-12)


@pytest.mark.parametrize("outcome", [Outcome.LATE, Outcome.DROPPED, Outcome.FAILED])
def test_only_returning_in_time_counts(outcome):
    selector = make()
    picked = selector.ask(k=2, deadline=2.0)
    selector.tell(picked, Feedback(outcome=[outcome, outcome]))
    np.testing.assert_array_equal(selector.state.log_weight, 0.0)
    if outcome == Outcome.LATE:
        selector.tell(picked, Feedback(outcome=[Outcome.ARRIVED, Outcome.ARRIVED], latency=[3.0, 4.0]))
        np.testing.assert_array_equal(selector.state.log_weight, 0.0)


def test_whoever_was_cut_off_and_arrives_before_the_deadline_returned_in_time():
    selector = make()
    picked = selector.ask(k=2, deadline=10.0)
    selector.tell(picked, Feedback(outcome=[Outcome.LATE] * 2, latency=[1.0, 1.0], censored=[True, True]))
    np.testing.assert_array_equal(selector.state.log_weight, 0.0)
    selector.tell(picked, Feedback(outcome=[Outcome.ARRIVED] * 2, latency=[3.0, 11.0]))
    weight = selector.state.log_weight
    assert weight[picked.clients[0]] > weight[picked.clients[1]]


def test_no_choice_no_update():
    selector = make()
    selector.tell(selector.ask([0, 2], k=2), Feedback())
    np.testing.assert_array_equal(selector.state.log_weight, 0.0)


def test_probabilities_are_those_of_the_available():
    # 2 of 3 available, sigma = 1/3, equal weights: p = 2/3, although client 3, who is away, outweighs them all.
    selector = make()
    selector.state.log_weight[:] = [-900.0, -900.0, -900.0, 0.0]
    picked = selector.ask([0, 1, 2], k=2)
    np.testing.assert_allclose(picked.terms["probability"], [2 / 3, 2 / 3])
    np.testing.assert_allclose(picked.terms["rate"], [1 / 3, 1 / 3])


def test_the_late_quota():
    # A quarter of 9 rounds: rounds 1 and 2 without a quota, from round 3 on uniform and without learning.
    selector = make(quota="late", rounds=9)
    selector.state.log_weight[:] = np.log([8.0, 1.0, 1.0, 2.0])
    for _ in range(2):
        picked = selector.ask(k=2)
        assert picked.clients[0] == 0
        assert picked.terms["probability"][0] == pytest.approx(1.0)
        np.testing.assert_allclose(picked.terms["rate"], 0.5)
    picked = selector.ask(k=2)
    np.testing.assert_allclose(picked.terms["probability"], 0.5)
    selector.tell(picked, Feedback())
    np.testing.assert_allclose(selector.state.log_weight, np.log([1.0, 1 / 8, 1 / 8, 1 / 4]))


def test_vanishing_weights_still_give_k_clients():
    selector = make(count=6, share=0.0)
    selector.state.log_weight[:] = [0.0, -2000.0, -3000.0, -4000.0, -5000.0, -6000.0]
    for _ in range(50):
        picked = selector.ask(k=3)
        assert len(set(picked.clients.tolist())) == 3
        assert picked.clients[0] == 0
        selector.tell(picked, Feedback())
    assert np.isfinite(selector.state.log_weight).all()


def test_many_rounds_stay_bounded_and_favour_the_reliable():
    selector = make(count=10)
    chance = np.where(np.arange(10) < 5, 1.0, 0.1)
    world = np.random.default_rng(3)
    for _ in range(400):
        picked = selector.ask(k=3)
        back = world.uniform(size=3) < chance[picked.clients]
        selector.tell(picked, Feedback(outcome=np.where(back, Outcome.COMPLETED, Outcome.DROPPED)))
    assert selector.state.log_weight.max() == 0.0
    # The quota alone gives .5 * 3/10 * 400 = 60 each, standard deviation 7.
    assert selector.counts.selected.min() > 35
    assert selector.counts.selected[:5].sum() > 1.5 * selector.counts.selected[5:].sum()


def test_probabilities_survive_saving(tmp_path):
    selector = make(share=0.0)
    selector.state.log_weight[:] = np.log([2.0, 1.0, 1.0, 2.0])
    picked = selector.ask(k=2)
    selector.save(tmp_path)
    again = enlist.load(tmp_path)
    for one in (selector, again):
        one.tell(picked, Feedback())
    np.testing.assert_array_equal(selector.state.log_weight, again.state.log_weight)
    assert (again.state.log_weight != np.log([2.0, 1.0, 1.0, 2.0])).any()


def test_settings_are_checked():
    with pytest.raises(InputError, match=r"rounds=\.\.\."):
        make(quota="late")
    with pytest.raises(InputError, match="constant"):
        make(quota="often")
    with pytest.raises(InputError, match="share"):
        make(share=1.1)
    with pytest.raises(InputError, match="eta"):
        make(eta=-0.5)
