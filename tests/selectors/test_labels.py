"""HACCS and FedLECC: clusters of labels, rounds by hand, and clients that join."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.bandits import distances, hellinger
from enlist.bandits.clusters import clusters
from enlist.simulation import Config, simulate

COUNTS = [[9, 1], [8, 1], [9, 0], [0, 9], [1, 8], [5, 5]]


def make(name, counts=COUNTS, **settings):
    return enlist.create(name, Clients(label_counts=counts), seed=1, **settings)


def see_all(selector, **columns):
    selector.tell(selector.ask(k=len(selector.clients)), Feedback(**columns))


@pytest.mark.parametrize("seed", range(10))
def test_clusters_are_those_of_dbscan(seed):
    rows = hellinger(np.random.default_rng(seed).dirichlet(np.full(4, 0.3), size=40))
    found = clusters(rows, 0.25, np.random.default_rng(0))
    theirs = DBSCAN(eps=0.25 - 1e-9, min_samples=2, metric="precomputed").fit_predict(distances(rows, rows))
    for mine in range(40):
        together = theirs == theirs[mine] if theirs[mine] >= 0 else np.arange(40) == mine
        np.testing.assert_array_equal(found == found[mine], together)


def test_large_populations_are_clustered_by_a_sample():
    labels = np.random.default_rng(0).integers(3, size=6000)
    counts = 90.0 * np.eye(3)[labels] + np.random.default_rng(1).integers(0, 4, (6000, 3))
    found = make("haccs", counts).state.cluster
    assert len(np.unique(found)) == 3
    for label in range(3):
        assert len(np.unique(found[labels == label])) == 1


def test_a_round_of_haccs_by_hand():
    # Clusters {0, 1, 2}, {3, 4}, {5}. Mean latencies 5, 4, 10: 1 - T / 10 = .5, .6, 0. Mean squared losses 1, 4, 5, of
    # 10: .1, .4, .5. With rho = .5: .3, .5, .25, of 1.05. For k = 4: 1.14, 1.90, .95 places: one, one, none for sure.
    selector = make("haccs")
    assert selector.state.cluster.tolist() == [0, 0, 0, 1, 1, 2]
    see_all(selector, loss=[1, 1, 1, 2, 2, 5**0.5], latency=[5, 4, 6, 5, 3, 10])
    for _ in range(20):
        picked = selector.ask(k=4)
        assert {1, 4} <= set(picked.clients)  # the fastest of the first two
        weight = dict(zip(picked.clients.tolist(), picked.terms["weight"], strict=True))
        assert weight[1] == pytest.approx(0.3)
        assert weight[4] == pytest.approx(0.5)
    assert selector.ask([0, 2, 5], k=1).clients[0] in (0, 5)  # never 2: 0 is faster
    assert len(selector.ask(k=5)) == 5


def test_who_is_lost_is_no_longer_the_fastest():
    selector = make("haccs", speed=1.0)
    see_all(selector, loss=np.ones(6), latency=[5, 4, 6, 5, 3, 3])
    picked = selector.ask([0, 1, 2], k=1, deadline=8.0)
    assert picked.clients.tolist() == [1]
    selector.tell(picked, Feedback(outcome=[Outcome.DROPPED], latency=[np.nan]))
    assert selector.state.latency[1] == 16.0
    assert selector.ask([0, 1, 2], k=1).clients.tolist() == [0]


def test_a_round_of_fedlecc_by_hand():
    # Mean losses of the clusters: 2, 2.5, 0.5. Two clusters share three places, two each: 4 and 3 of {3, 4}, then the
    # highest loss of {0, 1, 2}, which is 1's.
    selector = make("fedlecc", clusters=2)
    see_all(selector, loss=[1.0, 4.0, 1.0, 2.0, 3.0, 0.5])
    picked = selector.ask(k=3)
    assert picked.clients.tolist() == [1, 3, 4]
    assert picked.terms["cluster_loss"].tolist() == [2.0, 2.5, 2.5]
    # Six places of three clusters, two each; {5} is alone, so the sixth is the next best of all: one of {0, 2}.
    selector = make("fedlecc", clusters=3)
    see_all(selector, loss=[1.0, 4.0, 1.1, 2.0, 3.0, 0.5])
    assert selector.ask(k=5).clients.tolist() == [1, 2, 3, 4, 5]
    assert selector.ask([0, 5], k=1).clients.tolist() == [0]


@pytest.mark.parametrize("name", ["haccs", "fedlecc"])
def test_who_joins_goes_to_the_nearest_cluster_or_a_new_one(name, tmp_path):
    selector = make(name, [[9, 1, 0], [8, 1, 0], [0, 9, 0]])
    selector.join(Clients(label_counts=[[7, 1, 0], [0, 0, 5], [0, 1, 9]]))
    assert selector.state.cluster.tolist() == [0, 0, 1, 0, 2, 2]
    selector.save(tmp_path)
    assert enlist.load(tmp_path).state.cluster.tolist() == [0, 0, 1, 0, 2, 2]


@pytest.mark.parametrize("name", ["haccs", "fedlecc", "divfl"])
def test_late_drop_outs_resume_and_workers_change_nothing(name, tmp_path):
    config = Config(
        data={"clients": 8, "partition": {"kind": "dirichlet", "alpha": 0.5, "min_size": 4}},
        model={"name": "logistic"},
        rounds={"rounds": 5, "k": 3, "over_commit": 1.4, "late": "merge", "deadline": {"kind": "percentile"}},
        devices={"kind": "phones"},
        failures={"crash": 0.2},
    )
    simulate(config, name, folder=tmp_path / "whole")
    for stop, workers in ((2, 2), (5, 0)):
        shorter = config.replace(f"rounds.rounds={stop}")
        simulate(shorter, name, folder=tmp_path / "cut", workers=workers, resume=stop > 2)
    for table in ("rounds.csv", "participations.csv"):
        assert (tmp_path / "whole" / table).read_bytes() == (tmp_path / "cut" / table).read_bytes()
