"""Choosing k of n."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist.bandits import (
    VirtualQueues,
    capped_shares,
    sets_by_time,
    systematic,
    top_k,
    uniform,
    unseen_first,
    weighted,
)

WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("ties", [False, True])
def test_top_k_against_sorting(ties):
    draw, rng = np.random.default_rng(0), np.random.default_rng(1)
    for _ in range(500):
        count = int(draw.integers(1, 30))
        scores = draw.integers(0, 4, count).astype(float) if ties else draw.normal(size=count)
        scores[draw.uniform(size=count) < 0.1] = -np.inf
        k = int(draw.integers(0, count + 2))
        chosen = top_k(scores, k, rng)
        assert len(set(chosen.tolist())) == len(chosen) == min(k, count)
        assert sorted(scores[chosen]) == sorted(scores)[count - min(k, count) :]


def test_top_k_draws_ties_fairly():
    # 1 is certain, 0 never, the four ties share two places: 1/2 each; 3,000 seeds, deviation 27
    scores = np.array([0.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    counts = np.zeros(6)
    for seed in range(3000):
        counts[top_k(scores, 3, np.random.default_rng(seed))] += 1
    assert counts[:2].tolist() == [0.0, 3000.0]
    assert (abs(counts[2:] - 1500) < 140).all()


def test_unseen_come_first_at_random_then_the_best():
    scores, unseen = np.array([9.0, 1.0, 5.0, 7.0, 0.0]), np.array([False, True, False, False, True])
    rng = np.random.default_rng(0)
    assert set(unseen_first(scores, unseen, 2, rng).tolist()) == {1, 4}
    assert set(unseen_first(scores, unseen, 3, rng).tolist()) == {0, 1, 4}
    assert set(unseen_first(scores, unseen, 4, rng).tolist()) == {0, 1, 3, 4}
    single = [int(unseen_first(scores, unseen, 1, np.random.default_rng(seed))[0]) for seed in range(200)]
    assert set(single) == {1, 4}
    assert 60 < single.count(1) < 140


def test_uniform_gives_every_subset_equally_often():
    counts = dict.fromkeys(itertools.combinations(range(4), 2), 0)
    rng = np.random.default_rng(0)
    for _ in range(6000):
        counts[tuple(sorted(uniform(4, 2, rng).tolist()))] += 1
    assert all(abs(count - 1000) < 150 for count in counts.values())  # deviation 29
    assert sorted(uniform(3, 8, rng).tolist()) == [0, 1, 2]


def plackett_luce(weights, k):
    """Probability of each subset under k successive draws."""
    result = {}
    for order in itertools.permutations(range(len(weights)), k):
        probability, left = 1.0, weights.sum()
        for client in order:
            probability *= weights[client] / left
            left -= weights[client]
        key = tuple(sorted(order))
        result[key] = result.get(key, 0.0) + probability
    return result


@pytest.mark.parametrize("k", [1, 2, 3])
def test_weighted_draws_are_plackett_luce(k):
    expected = plackett_luce(WEIGHTS, k)
    counts = dict.fromkeys(expected, 0)
    rng = np.random.default_rng(k)
    for _ in range(20_000):
        counts[tuple(weighted(WEIGHTS, k, rng).tolist())] += 1
    for subset, probability in expected.items():
        assert counts[subset] / 20_000 == pytest.approx(probability, abs=0.015)  # over four deviations


def test_weighted_never_draws_a_weight_of_zero():
    rng = np.random.default_rng(0)
    weights = np.array([0.0, 1.0, 0.0, 1e-9, 5.0])
    for _ in range(100):
        assert set(weighted(weights, 2, rng).tolist()) <= {1, 3, 4}
    assert weighted(weights, 5, rng).tolist() == [1, 3, 4]
    assert weighted(np.zeros(3), 2, rng).tolist() == []


@pytest.mark.parametrize(
    "inclusion", [[0.2, 0.4, 0.6, 0.8], [1.0, 0.5, 0.5, 0.0], [0.9, 0.9, 0.1, 0.1, 0.7, 0.3], [1.0, 1.0, 1.0]]
)
def test_systematic_draws_have_the_given_inclusion_probabilities(inclusion):
    inclusion = np.array(inclusion)
    rng = np.random.default_rng(0)
    counts = np.zeros(len(inclusion))
    for _ in range(10_000):
        chosen = systematic(inclusion, rng)
        assert len(set(chosen.tolist())) == len(chosen) == round(inclusion.sum())
        counts[chosen] += 1
    np.testing.assert_allclose(counts / 10_000, inclusion, atol=0.02)  # four deviations
    assert (counts[inclusion == 1.0] == 10_000).all()
    assert (counts[inclusion == 0.0] == 0).all()


def test_systematic_of_nothing():
    assert systematic(np.zeros(4), np.random.default_rng(0)).tolist() == []


weights_lists = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), min_size=1, max_size=20)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(weights_lists, st.one_of(st.just(0.0), st.floats(1e-3, 1.0)), st.sampled_from([1.0, 0.5, 0.25]))
def test_capped_shares(weights, part, cap):
    weights = np.array(weights)
    total = part * len(weights)
    shares = capped_shares(weights, total, cap)
    assert (shares >= 0).all()
    assert (shares <= cap * (1 + 1e-9)).all()
    assert (shares[weights == 0] == 0).all()
    reachable = cap * (weights > 0).sum()
    assert shares.sum() == pytest.approx(min(total, reachable), rel=1e-6, abs=1e-9)
    # below the cap the shares are proportional to the weights, and nobody overtakes a larger client
    free = (shares < cap * (1 - 1e-9)) & (weights > 0)
    if free.any():
        ratio = shares[free] / weights[free]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
        assert (ratio[0] * weights[~free & (weights > 0)] >= cap * (1 - 1e-6)).all()
    order = np.argsort(weights)
    assert (np.diff(shares[order]) >= -1e-9).all()


def test_capped_shares_by_hand():
    # 8 of 10 would get 1.6 of 2: it is capped at 1, and the others share the remaining 1
    np.testing.assert_allclose(capped_shares(np.array([8.0, 1.0, 1.0]), 2.0), [1.0, 0.5, 0.5])
    np.testing.assert_allclose(capped_shares(np.array([3.0, 2.0, 1.0]), 1.0), [0.5, 1 / 3, 1 / 6])
    np.testing.assert_allclose(capped_shares(np.array([3.0, 0.0, 1.0]), 3.0), [1.0, 0.0, 1.0])
    np.testing.assert_allclose(capped_shares(np.zeros(3), 2.0), [0.0, 0.0, 0.0])


def test_capped_shares_over_many_orders_of_magnitude():
    shares = capped_shares(np.array([1e12, 1.0, 1.0, 1.0, 1.0]), 3.0)
    np.testing.assert_allclose(shares, [1.0, 0.5, 0.5, 0.5, 0.5])


def test_virtual_queues_by_hand():
    queues = VirtualQueues.create(2)
    queues.advance(np.array([0.6, 0.5]))  # .6, .5
    queues.serve(np.array([0]))
    queues.advance(np.array([0.6, 0.5]))  # .6 + .6 - 1 = .2, 1.0
    np.testing.assert_allclose(queues.backlog, [0.2, 1.0])
    queues.serve(np.array([0, 1]))
    queues.advance(np.array([0.6, 0.5]))  # max(.2 + .6 - 1, 0) = 0, .5
    np.testing.assert_allclose(queues.backlog, [0.0, 0.5], atol=1e-12)
    queues.advance(0.25)  # nobody was served
    np.testing.assert_allclose(queues.backlog, [0.25, 0.75], atol=1e-12)


def best_ratio(times, scores, sets):
    return max(scores[list(chosen)].sum() / times[list(chosen)].max() for chosen in sets)


@pytest.mark.parametrize("ties", [False, True])
def test_sets_by_time_hold_the_best_ratio(ties):
    """The best sum of scores over the longest time, by brute force over all subsets, is among the sets."""
    draw, rng = np.random.default_rng(5), np.random.default_rng(6)
    for _ in range(150):
        count = int(draw.integers(1, 10))
        k = int(draw.integers(1, count + 1))
        times = draw.choice([1.0, 2.0, 3.0], count) if ties else draw.lognormal(size=count)
        scores = draw.integers(0, 3, count).astype(float) if ties else draw.uniform(size=count)
        sets = sets_by_time(times, scores, k, rng)
        assert all(len(set(row)) == k for row in sets.tolist())
        assert len(sets) <= count - k + 1
        best = best_ratio(times, scores, itertools.combinations(range(count), k))
        assert best_ratio(times, scores, sets.tolist()) == pytest.approx(best)


def test_sets_by_time_are_the_best_within_every_limit():
    draw = np.random.default_rng(7)
    times, scores = draw.uniform(size=40), draw.uniform(size=40)
    order = np.argsort(times)
    expected = [scores[order[:5]].sum()]
    for length in range(6, 41):
        held = np.sort(scores[order[:length]])[-5:].sum()
        if held > expected[-1]:  # one that changes nothing is left out
            expected.append(held)
    sets = sets_by_time(times, scores, 5, np.random.default_rng(0))
    np.testing.assert_allclose(scores[sets].sum(axis=1), expected)


def test_sets_by_time_tries_at_most_so_many_limits_and_always_the_last():
    draw = np.random.default_rng(8)
    times, scores = draw.uniform(size=5000), np.arange(5000.0)
    times[4990:] = 1.0 + draw.uniform(size=10)  # the best are the slowest
    sets = sets_by_time(times, scores, 10, np.random.default_rng(0), most=16)
    assert len(sets) <= 16
    assert sorted(sets[-1].tolist()) == list(range(4990, 5000))
    assert set(sets[0].tolist()) == set(np.argsort(times)[:10].tolist())


def test_sets_by_time_draw_ties_fairly():
    # All alike: one set, everybody in it equally often; 3,000 seeds, deviation 27.
    counts = np.zeros(4)
    for seed in range(3000):
        sets = sets_by_time(np.ones(4), np.ones(4), 2, np.random.default_rng(seed))
        assert len(sets) == 1
        counts[sets[0]] += 1
    assert (abs(counts - 1500) < 140).all()
