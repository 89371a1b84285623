"""Pisces: a round by hand, staleness, exploration, and corrupted clients."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

import enlist
from enlist import Clients, Feedback
from enlist.errors import InputError
from enlist.selectors.pisces import outliers


def make(clients=4, **settings):
    return enlist.create("pisces", Clients(num_examples=np.full(clients, 10.0)), seed=1, **settings)


def tell_all(selector, loss, late=None, k=None):
    picked = selector.ask(k=len(selector.clients) if k is None else k, asynchronous=True)
    loss = np.asarray(loss, float)[picked.clients]
    columns = {} if late is None else {"rounds_late": np.asarray(late, float)[picked.clients]}
    selector.tell(picked, Feedback(latency=np.ones(len(picked)), loss_rms=loss, **columns))


def test_a_round_by_hand():
    # U = n loss / sqrt(tau + 1): 10 * 1 / 1 = 10; 10 * 2 / sqrt(4) = 10; 10 * 3 / sqrt(9) = 10; 10 * 1.5 / 1 = 15.
    selector = make(explore=0.0)
    tell_all(selector, [1.0, 2.0, 3.0, 1.5], [0, 3, 8, 0])
    np.testing.assert_allclose(selector.utility(), [10.0, 10.0, 10.0, 15.0])
    # A second reply of clients 1 and 2, fresh: tau = 1.5 and 4, U = 20 / sqrt(2.5) = 12.65, 30 / sqrt(5) = 13.42.
    picked = selector.ask([1, 2], k=2, asynchronous=True)
    selector.tell(picked, Feedback(latency=[1, 1], loss_rms=[2.0, 3.0], rounds_late=[0, 0]))
    np.testing.assert_allclose(selector.expected(), [0.0, 1.5, 4.0, 0.0])
    np.testing.assert_allclose(selector.utility(), [10.0, 20 / np.sqrt(2.5), 30 / np.sqrt(5.0), 15.0])
    again = selector.ask(k=2, asynchronous=True)
    assert again.clients.tolist() == [2, 3]
    np.testing.assert_allclose(again.terms["staleness"], [4.0, 0.0])


def test_staleness_is_the_mean_of_the_last_five():
    selector = make(2, explore=0.0)
    for late in (50, 1, 2, 3, 4, 5):
        tell_all(selector, [1.0, 1.0], [late, 0])
    assert selector.expected().tolist() == [3.0, 0.0]


def test_without_staleness_it_is_loss_times_samples():
    selector = make(explore=0.0)
    tell_all(selector, [1.0, 4.0, 2.0, 3.0])
    assert selector.ask(k=2).clients.tolist() == [1, 3]


def test_exploration_decays_from_one_ask_to_the_next():
    selector = make(500, explore=1.0, decay=0.5, least_explore=0.2)
    assert selector.counts.selected[selector.ask(k=5).clients].tolist() == [1] * 5
    for expected in (0.5, 0.25, 0.2, 0.2):
        selector.ask(k=5)
        assert selector.state.explore == pytest.approx(expected)


def test_new_clients_are_asked_where_nobody_else_is():
    selector = make(6, explore=0.0)
    selector.ask([0, 1], k=2)
    assert selector.ask(k=4).clients.tolist()[:2] == [0, 1]


def test_clients_whose_losses_lie_apart_lose_their_place():
    """Of twenty clients, two report a loss of 9 where the others have about 1; after five replies they are out."""
    rng = np.random.default_rng(0)
    selector = make(20, explore=0.0)
    loss = np.where(np.arange(20) < 2, 9.0, rng.uniform(0.8, 1.2, 20))
    for number in range(5):
        assert selector.state.outliers.tolist() == [number] * 2 + [0] * 18
        tell_all(selector, loss)
    assert not np.isin([0, 1], selector.ask(k=18).clients).any()
    assert np.isin([0, 1], selector.ask(k=20).clients).all()  # everybody, if others do not suffice
    trusting = make(20, explore=0.0, robust=False)
    for _ in range(8):
        tell_all(trusting, loss)
    assert np.isin([0, 1], trusting.ask(k=2).clients).all()


def test_outliers_are_those_of_dbscan():
    rng = np.random.default_rng(3)
    for _ in range(200):
        values = rng.normal(2.0, rng.uniform(0.1, 2.0), 20)
        labels = DBSCAN(eps=0.5, min_samples=10).fit(values[:, None]).labels_
        assert outliers(values, 0.5, 10).tolist() == (labels == -1).tolist()


def test_settings_are_checked():
    for wrong in ({"beta": -1.0}, {"explore": 2.0}, {"pool": 1}, {"radius": 0.0}, {"credits": 0}):
        with pytest.raises(InputError):
            make(**wrong)
