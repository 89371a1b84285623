"""HACCS: a round by hand, who is lost, large populations, and clients that join."""

from __future__ import annotations

import numpy as np
import pytest

from enlist import Feedback, Outcome
from tests.resuming import UNEVEN, assert_resumes
from tests.selectors.labels import assert_newcomers_join_the_nearest_cluster_or_a_new_one, make, see_all


def test_large_populations_are_clustered_by_a_sample():
    labels = np.random.default_rng(0).integers(3, size=6000)
    counts = 90.0 * np.eye(3)[labels] + np.random.default_rng(1).integers(0, 4, (6000, 3))
    found = make("haccs", counts).state.cluster
    assert len(np.unique(found)) == 3
    for label in range(3):
        assert len(np.unique(found[labels == label])) == 1


def test_a_round_by_hand():
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


def test_who_joins_goes_to_the_nearest_cluster_or_a_new_one(tmp_path):
    assert_newcomers_join_the_nearest_cluster_or_a_new_one("haccs", tmp_path)


def test_late_drop_outs_resume_and_workers_change_nothing(tmp_path):
    assert_resumes(tmp_path, UNEVEN.with_method("haccs"), stops=[2])
