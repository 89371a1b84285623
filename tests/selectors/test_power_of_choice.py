"""Power-of-choice: candidates that can be asked for twice, last known and fresh losses."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError, MissingColumnError


def make(sizes=(10, 20, 30, 40, 50, 60), **settings):
    return enlist.create("power-of-choice", Clients(num_examples=list(sizes)), seed=1, **settings)


def see_all(selector, losses):
    count = len(selector.clients)
    selector.tell(selector.ask(k=count), Feedback(loss=losses))


def test_a_round_by_hand():
    # Everybody is a candidate (d = 6): the two largest losses, .9 and .8, are those of clients 4 and 1.
    selector = make(d=6)
    see_all(selector, [0.1, 0.8, 0.3, 0.2, 0.9, 0.5])
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [1, 4]
    assert picked.terms["loss"].tolist() == [0.8, 0.9]
    # The next reports are what counts from then on: .9, .8 become .4, .05, so 5 (.5) and 1 (.4) are next.
    selector.tell(picked, Feedback(loss=[0.4, 0.05]))
    assert selector.ask(k=2).clients.tolist() == [1, 5]
    # Only the available: losses .1, .3, .2.
    assert selector.ask([0, 2, 3], k=1).clients.tolist() == [2]


def test_ask_takes_the_best_of_the_candidates_it_named():
    selector = make(np.arange(1, 41))
    losses = np.random.default_rng(5).permutation(40) / 40
    see_all(selector, losses)
    sets = set()
    for _ in range(30):
        available = np.arange(0, 40, 2)
        candidates = selector.candidates(available, k=3)
        assert candidates.tolist() == selector.candidates(available, k=3).tolist()
        assert len(candidates) == 6
        assert set(candidates) <= set(available)
        best = candidates[np.argsort(-losses[candidates])[:3]]
        assert selector.ask(available, k=3).clients.tolist() == sorted(best)
        sets.add(tuple(candidates))
    assert len(sets) == 30  # a new draw every round


def test_naming_candidates_changes_nothing():
    one, other = make(np.arange(1, 41)), make(np.arange(1, 41))
    for _ in range(5):
        one.candidates(k=4)
        assert one.ask(k=4).clients.tolist() == other.ask(k=4).clients.tolist()


def test_candidates_are_drawn_in_proportion_to_size():
    # One candidate of sizes 1, 2, 7 in 3000 rounds: .1, .2, .7, standard error at most .0084, margin five of them.
    selector = make((1, 2, 7), d=1)
    drawn = np.zeros(3)
    for _ in range(3000):
        drawn[selector.candidates(k=1)] += 1
        selector.ask(k=1)
    np.testing.assert_allclose(drawn / 3000, [0.1, 0.2, 0.7], atol=0.042)


def test_fresh_losses_decide_and_are_remembered():
    selector = make(d=6)
    see_all(selector, [0.1, 0.8, 0.3, 0.2, 0.9, 0.5])
    # Out of order, and one not measured (NaN): 0 -> .95, 4 -> .0; 1 keeps .8.
    fresh = Feedback(clients=[4, 0, 1], loss=[0.0, 0.95, np.nan])
    assert selector.ask(k=2, fresh=fresh).clients.tolist() == [0, 1]
    np.testing.assert_allclose(selector.state.loss, [0.95, 0.8, 0.3, 0.2, 0.0, 0.5])


def test_fresh_makes_an_unseen_client_known():
    selector = make((1, 1, 1), d=3)
    fresh = Feedback(clients=selector.candidates(k=1), loss=[0.2, 0.6, 0.4])
    assert selector.ask(k=1, fresh=fresh).clients.tolist() == [1]
    assert selector.counts.selected.tolist() == [0, 1, 0]


def test_fresh_is_remembered_when_everybody_is_chosen():
    selector = make((1, 1))
    assert selector.candidates(k=2).tolist() == [0, 1]
    selector.ask(k=2, fresh=Feedback(clients=[1], loss=[0.3]))
    np.testing.assert_array_equal(selector.state.loss, [np.nan, 0.3])


def test_fresh_needs_losses():
    selector = make()
    with pytest.raises(InputError, match="fresh without loss"):
        selector.ask(k=2, fresh=Feedback(clients=[1], latency=[2.0]))
    assert selector.round == 0


def test_never_selected_come_first():
    selector = make(d=6)
    selector.tell(selector.ask([0, 1, 2, 3], k=4), Feedback(loss=[9.0, 9.0, 9.0, 9.0]))
    assert selector.ask(k=3).clients.tolist()[1:] == [4, 5]


def test_one_that_always_fails_is_neither_forced_nor_shut_out():
    # Losses .1 and .9 are known, client 2 failed: it counts as their mean .5, so the order is 1, 2, 0.
    selector = make((1, 1, 1), d=3)
    outcome = [Outcome.COMPLETED, Outcome.COMPLETED, Outcome.DROPPED]
    selector.tell(selector.ask(k=3), Feedback(outcome=outcome, loss=[0.1, 0.9, np.nan]))
    assert selector.ask(k=1).clients.tolist() == [1]
    assert selector.ask(k=2).clients.tolist() == [1, 2]
    assert selector.ask([0, 2], k=1).clients.tolist() == [2]
    assert np.isnan(selector.ask([0, 2], k=1).terms["loss"]).all()


def test_nothing_known_at_all():
    selector = make((1, 1, 1), d=3)
    selector.tell(selector.ask(k=3), Feedback(outcome=[Outcome.DROPPED] * 3))
    assert len(selector.ask(k=2)) == 2


def test_unknown_and_late_losses_are_left_alone():
    selector = make((1, 1, 1), d=3)
    see_all(selector, [0.1, 0.2, 0.3])
    picked = selector.ask(k=3)
    outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.FAILED]
    selector.tell(picked, Feedback(outcome=outcome, loss=[np.nan, 7.0, 8.0]))
    np.testing.assert_allclose(selector.state.loss, [0.1, 0.2, 0.3])
    selector.tell(picked, Feedback(clients=[1], outcome=[Outcome.ARRIVED], loss=[0.7]))
    np.testing.assert_allclose(selector.state.loss, [0.1, 0.7, 0.3])


def test_an_old_reply_does_not_undo_a_newer_one():
    selector = make((1, 1), d=2)
    first, second = selector.ask([0], k=1), selector.ask([0], k=1)
    selector.tell(first, Feedback(outcome=[Outcome.LATE]))
    selector.tell(second, Feedback(loss=[0.2]))
    selector.tell(first, Feedback(outcome=[Outcome.ARRIVED], loss=[5.0]))
    assert selector.state.loss[0] == 0.2
    third = selector.ask([0], k=1, fresh=Feedback(clients=[0], loss=[0.4]))
    selector.tell(third, Feedback(loss=[0.3]))
    assert selector.state.loss[0] == 0.3


def test_clients_without_examples_fill_up_only():
    selector = make((0, 5, 0, 5, 0))
    for _ in range(20):
        assert selector.candidates(k=2).tolist() == [1, 3]
        assert selector.ask(k=2).clients.tolist() == [1, 3]
    seen = set()
    for _ in range(40):
        candidates = selector.candidates(k=3)
        assert len(candidates) == 3
        assert {1, 3} <= set(candidates)
        assert selector.ask(k=3).clients.tolist() == candidates.tolist()
        seen |= set(candidates)
    assert seen == {0, 1, 2, 3, 4}


def test_too_few_candidates_are_refused():
    selector = make(d=3)
    with pytest.raises(InputError, match=r"d=3 .* k=4"):
        selector.ask(k=4)
    with pytest.raises(InputError, match=r"d=3 .* k=4"):
        selector.candidates(k=4)
    assert selector.round == 0
    assert len(selector.ask([0, 1], k=4)) == 2  # only two can be chosen anyway
    with pytest.raises(InputError, match="d is 0"):
        make(d=0)


def test_needs():
    with pytest.raises(MissingColumnError, match="num_examples"):
        enlist.create("power-of-choice", Clients(count=3))
    selector = make()
    with pytest.raises(MissingColumnError, match="loss"):
        selector.tell(selector.ask(k=2), Feedback(latency=[1.0, 2.0]))


def test_loaded_selectors_name_the_same_candidates(tmp_path):
    selector = make(np.arange(1, 41))
    selector.ask(k=3)
    selector.save(tmp_path)
    assert enlist.load(tmp_path).candidates(k=3).tolist() == selector.candidates(k=3).tolist()
