"""Clustered sampling: urns by hand, exact chances, and aggregates that are those of all on average."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients
from enlist.bandits.urns import by_cluster, by_size
from enlist.errors import PopulationError
from tests.resuming import UNEVEN, assert_resumes
from tests.selectors.weighing import SIZES, assert_unbiased, see_all


def shares(urns, count):
    """r_ui, (urns, clients): how much of each urn each client fills."""
    starts = np.concatenate([[0.0], urns.ends[:-1]])
    table = np.zeros((urns.count, count))
    for client, start, end in zip(urns.client, starts, urns.ends, strict=True):
        for number in range(urns.count):
            table[number, client] += max(0.0, min(end, number + 1) - max(start, number))
    return table


def test_urns_by_size_by_hand():
    # 100 samples, four urns: 25 samples fill one. In order of size: 0 has 30, 4 has 25, then 1, 2, 3 with 10 each.
    table = shares(by_size(SIZES, 4), 8)
    np.testing.assert_allclose(table[0], [1, 0, 0, 0, 0, 0, 0, 0], atol=1e-12)  # 25 of the 30
    np.testing.assert_allclose(table[1], [0.2, 0, 0, 0, 0.8, 0, 0, 0], atol=1e-12)  # the other 5, and 20 of the 25
    np.testing.assert_allclose(table[2], [0, 0.4, 0.4, 0, 0.2, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(table[3], [0, 0, 0, 0.4, 0, 0.2, 0.32, 0.08], atol=1e-12)


@pytest.mark.parametrize("seed", range(15))
def test_every_urn_is_full_and_every_client_has_its_share(seed):
    rng = np.random.default_rng(seed)
    count, k = int(rng.integers(3, 12)), int(rng.integers(1, 9))
    sizes = rng.lognormal(2, 1.2, count)
    points = rng.normal(size=(count, 2))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    for urns in (by_size(sizes, k), by_cluster(sizes, k, apart, rng)):
        table = shares(urns, count)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-8)
        np.testing.assert_allclose(table.sum(axis=0), k * sizes / sizes.sum(), atol=1e-8)
        np.testing.assert_allclose(urns.chances(count), 1 - np.prod(1 - table, axis=0), atol=1e-7)


def test_urns_by_similarity_by_hand():
    # Three of one kind and three of another, all of one size, two urns: each kind has its own.
    selector = enlist.create("clustered:paper", Clients(num_examples=[5] * 6), seed=1)
    assert selector.settings.by == "similarity"
    north, east = [0.0, 1.0], [1.0, 0.0]
    see_all(selector, update=np.array([north, east, north, east, east, north]))
    for _ in range(20):
        picked = selector.ask(k=2)
        assert {int(client) in (0, 2, 5) for client in picked.clients} == {False, True}
        np.testing.assert_allclose(picked.probabilities, 1 / 3)


@pytest.mark.parametrize("name", ["clustered", "clustered:paper"])
def test_the_mean_of_the_aggregate_is_the_full_gradient(name):
    assert_unbiased(name)


def test_one_that_is_drawn_twice_weighs_twice():
    selector = enlist.create("clustered", Clients(num_examples=[90, 5, 5]), seed=1)
    picked = selector.ask(k=3)  # the first fills 2.7 urns
    assert picked.clients[0] == 0
    assert picked.weights[0] in (pytest.approx(2 / 3), pytest.approx(1.0))
    assert picked.weights.sum() == pytest.approx(1.0)
    assert picked.probabilities[0] == 1.0


def test_too_many_clients_to_compare_are_refused_with_the_reason():
    many = Clients(num_examples=np.ones(2001))
    with pytest.raises(PopulationError, match=r"compares all pairs of at most 2000 clients, not 2001; use by='size'"):
        enlist.create("clustered", many, by="similarity")
    assert len(enlist.create("clustered", many).ask(k=9)) <= 9


@pytest.mark.parametrize("method", ["clustered", "clustered:paper"])
def test_late_drop_outs_resume_and_workers_change_nothing(method, tmp_path):
    assert_resumes(tmp_path, UNEVEN.with_method(method), stops=[2])
