"""Clustered and optimal sampling: rounds by hand, exact chances, and aggregates that are those of all on average."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.bandits.urns import by_cluster, by_size
from enlist.errors import PopulationError
from enlist.simulation import Config, simulate

SIZES = np.array([30.0, 10.0, 10.0, 10.0, 25.0, 5.0, 8.0, 2.0])


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


def see_all(selector, **columns):
    """Tell the selector about every client, one by one: a sampler with weights may leave some out of a large round."""
    for client in range(len(selector.clients)):
        picked = selector.ask([client], k=1)
        selector.tell(picked, Feedback(**{name: values[client : client + 1] for name, values in columns.items()}))


GRADIENTS = np.random.default_rng(8).normal(size=(8, 3)) * np.array([9, 1, 1, 1, 4, 1, 1, 0.2])[:, None]


@pytest.mark.parametrize("name", ["clustered", "clustered:paper", "optimal-sampling", "optimal-sampling:paper"])
def test_the_mean_of_the_aggregate_is_the_full_gradient(name):
    """2000 draws; every coordinate of the full gradient lies in a 99.9 % interval, Bonferroni over three of them."""
    selector = enlist.create(name, Clients(num_examples=SIZES), seed=5)
    see_all(selector, update=GRADIENTS, update_norm=np.linalg.norm(GRADIENTS, axis=1))
    whole = SIZES @ GRADIENTS / SIZES.sum()
    sums, taken = [], np.zeros(8)
    for _ in range(2000):
        picked = selector.ask(k=3)
        sums.append(picked.weights @ GRADIENTS[picked.clients])
        taken[picked.clients] += 1.0 / picked.probabilities
    gap = np.mean(sums, axis=0) - whole
    half = student.ppf(1 - 0.001 / 6, 1999) * np.std(sums, axis=0, ddof=1) / math.sqrt(2000)
    assert (np.abs(gap) < half + 1e-12).all()
    assert (half < 0.35).all()  # the interval says something
    np.testing.assert_allclose(taken / 2000, 1.0, atol=0.35)  # chances are as stated: each 1/p sums to the rounds


def test_less_variance_than_without_norms():
    spread = {}
    for name in ("optimal-sampling:paper", "optimal-sampling+floor=1"):
        selector = enlist.create(name, Clients(num_examples=SIZES), seed=5)
        see_all(selector, update_norm=np.linalg.norm(GRADIENTS, axis=1))
        sums = [picked.weights @ GRADIENTS[picked.clients] for picked in (selector.ask(k=3) for _ in range(800))]
        spread[name] = float(np.var(sums, axis=0).sum())
    assert spread["optimal-sampling:paper"] < 0.5 * spread["optimal-sampling+floor=1"]


def test_chances_by_hand():
    # u = w |g| in proportion to 8, 1, 1, 2 and k = 2: 2 * 8 / 12 > 1, so 0 is certain, and one place is left for
    # 1, 1, 2: a quarter, a quarter and a half. In the paper's words: l = 3, (2 + 3 - 4) u / 4.
    selector = enlist.create("optimal-sampling:paper", Clients(count=4), seed=1)
    see_all(selector, update_norm=np.array([8.0, 1.0, 1.0, 2.0]))
    for _ in range(10):
        picked = selector.ask(k=2)
        expected = np.array([1.0, 0.25, 0.25, 0.5])[picked.clients]
        np.testing.assert_allclose(picked.probabilities, expected)
        np.testing.assert_allclose(picked.weights, 0.25 / expected)
    # One never heard from counts as the mean of the others.
    selector = enlist.create("optimal-sampling:paper", Clients(count=3), seed=1)
    first = selector.ask(k=3)
    selector.tell(first, Feedback(outcome=[0, 0, Outcome.DROPPED], update_norm=[1.0, 3.0, np.nan]))
    picked = selector.ask(k=1)
    np.testing.assert_allclose(picked.probabilities, np.array([1, 3, 2])[picked.clients] / 6)


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


@pytest.mark.parametrize("method", ["clustered", "clustered:paper", "optimal-sampling"])
def test_late_drop_outs_resume_and_workers_change_nothing(method, tmp_path):
    config = Config(
        data={"clients": 8, "partition": {"kind": "dirichlet", "alpha": 0.5, "min_size": 4}},
        model={"name": "logistic"},
        training={"batch": 10},
        rounds={
            "rounds": 6,
            "k": 3,
            "over_commit": 1.4,
            "late": "merge",
            "deadline": {"kind": "percentile", "percentile": 60.0},
        },
        devices={"kind": "phones"},
        failures={"crash": 0.2},
    )
    simulate(config, method, folder=tmp_path / "whole")
    for stop, workers in ((2, 2), (6, 0)):
        shorter = config.replace(f"rounds.rounds={stop}")
        simulate(shorter, method, folder=tmp_path / "cut", workers=workers, resume=stop > 2)
    for name in ("rounds.csv", "participations.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
