"""Combinations proposed from updates or grown from good pairs, and weights within a combination."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist.errors import InputError
from enlist.personal.arms import Arms
from enlist.personal.proposals import clusters, grown, similarity_weights, size_weights, target_weights


def groups(sizes, parameters=200, noise=0.5, seed=0):
    """Updates of workers in groups that share a direction; lengths differ, as those of real updates do."""
    draw = np.random.default_rng(seed)
    directions = draw.normal(size=(len(sizes), parameters))
    updates = np.repeat(directions, sizes, axis=0) + noise * draw.normal(size=(sum(sizes), parameters))
    return updates * draw.uniform(0.1, 10.0, size=(sum(sizes), 1))


def test_fifty_workers_leave_the_targets_group():
    updates = groups([5] * 10)
    proposed = clusters(updates, target=12, size=5)
    assert proposed == ((10, 12), (11, 12), (12, 13), (12, 14), (10, 11, 12, 13, 14))
    assert len(clusters(updates, target=12, size=5, subsets="all")) == 2**4 - 1
    assert len(Arms.listed([str(number) for number in range(50)], 12, proposed)) == 5


def test_a_poisoned_update_is_not_proposed():
    updates = groups([6, 6])
    updates[[1, 2]] *= -1.0
    proposed = clusters(updates, target=0)
    assert {worker for combination in proposed for worker in combination} == {0, 3, 4, 5}


@given(st.integers(2, 12), st.integers(1, 8), st.integers(0, 100))
def test_proposals_hold_the_target_and_at_most_size_others(workers, size, seed):
    updates = np.random.default_rng(seed).normal(size=(workers, 3))
    target = seed % workers
    proposed = clusters(updates, target, size)
    everybody = {worker for combination in proposed for worker in combination} - {target}
    assert min(2, size, workers - 1) <= len(everybody) <= size
    assert all(target in combination for combination in proposed)
    assert len(set(proposed)) == len(proposed)


def test_a_lonely_target_gets_the_two_nearest():
    updates = np.array([[1.0, 0.0], [0.0, 1.0], [0.05, 1.0], [0.02, 1.0], [-1.0, 0.1], [-1.0, 0.0]])
    assert clusters(updates, target=0, size=2) == ((0, 2), (0, 3), (0, 2, 3))


def test_the_two_best_pairs_are_merged_and_then_the_next():
    arms = Arms.pairs(["1", "2", "3", "4", "5"], "2")  # 1+2, 2+3, 2+4, 2+5
    assert grown(arms, [0.02, 0.05, 0.04, -0.01]) == (1, 2, 3)
    more = arms.with_more([(1, 2, 3)])
    assert grown(more, [0.02, 0.05, 0.04, -0.01, 0.06]) == (0, 1, 2, 3)
    assert grown(more, [0.02, 0.05, 0.04, -0.01, 0.03]) is None  # tried, and no better than its parts
    assert grown(arms, [0.05, -0.01, -0.02, -0.01]) is None
    assert grown(arms, [0.05, 0.02, 0.01, 0.03], above=0.04) is None


def test_the_target_alone_is_not_merged():
    arms = Arms.pairs(["1", "2", "3"], "2", alone=True)
    assert grown(arms, [0.9, 0.01, 0.02], above=-1.0) == (0, 1, 2)


def test_weights_by_hand():
    assert size_weights([10, 20, 10]).tolist() == [0.25, 0.5, 0.25]
    assert target_weights([10, 20, 30], 1, 0.7) == pytest.approx([0.3 * 10 / 40, 0.7, 0.3 * 30 / 40])
    assert target_weights([10], 0, 0.7).tolist() == [1.0]
    assert target_weights([5, 5], 0, 0.7) == pytest.approx([0.7, 0.3])
    with pytest.raises(InputError, match="no worker has a sample"):
        size_weights([0, 0])
    with pytest.raises(InputError, match=r"share is 1\.5"):
        target_weights([1, 1], 0, 1.5)


def test_weights_by_similarity_by_hand():
    updates = [[2.0, 0.0], [3.0, 4.0], [0.0, -1.0], [-5.0, 0.0]]  # cosines 1, 0.6, 0, -1
    assert similarity_weights(updates, 0) == pytest.approx([1 / 1.6, 0.6 / 1.6, 0.0, 0.0])
    assert similarity_weights(updates, 0, sizes=[10, 50, 10, 10]) == pytest.approx([0.25, 0.75, 0.0, 0.0])
    soft = np.exp(np.array([1.0, 0.6, 0.0, -1.0]) / 0.5)
    assert similarity_weights(updates, 0, temperature=0.5) == pytest.approx(soft / soft.sum())
    assert similarity_weights([[0.0, 0.0], [1.0, 0.0]], 0).tolist() == [1.0, 0.0]


def test_what_cannot_be_right_is_refused():
    with pytest.raises(InputError, match="finite numbers"):
        clusters([[1.0, np.nan], [1.0, 2.0]], 0)
    with pytest.raises(InputError, match="target is 5 among 2"):
        clusters([[1.0], [2.0]], 5)
    with pytest.raises(InputError, match="at most 15"):
        clusters(np.ones((40, 2)), 0, size=20, subsets="all")
