"""The exact max-min solver against brute force, and the other solvers against it."""

from __future__ import annotations

import heapq
import itertools

import numpy as np
import pytest

from enlist.bandits import annealing, argmax_min_plus_sum, check_sets, exhaustive, objective
from enlist.errors import PopulationError

VECTOR_KEYS = np.array([0.9, 0.8, 0.5, 0.1])
VECTOR_VALUES = np.array([-0.2, 0.1, 0.4, 0.45])


def worth(keys, values, chosen):
    """What is compared: the objective, and behind an infinite one the sum (spec D.1)."""
    total = float(values[list(chosen)].sum())
    return (float(keys[list(chosen)].min()) + total, total if np.isposinf(keys[list(chosen)]).all() else 0.0)


def brute(keys, values, k):
    return max(worth(keys, values, chosen) for chosen in itertools.combinations(range(len(keys)), k))


def heap_sweep(keys, values, k):
    """The sweep of spec D.1, position by position."""
    order = np.argsort(-keys, kind="stable")
    heap, total, best = [], 0.0, -np.inf
    for index in order:
        heapq.heappush(heap, float(values[index]))
        total += float(values[index])
        if len(heap) > k:
            total -= heapq.heappop(heap)
        if len(heap) == k:
            best = max(best, float(keys[index]) + total)
    return best


def instance(draw):
    """Small, nasty: ties, infinities, any sign."""
    count = int(draw.integers(1, 9))
    kind = draw.integers(4)
    if kind == 0:  # heavy ties; quarters are exact in binary
        keys, values = draw.integers(0, 3, count) / 4.0, draw.integers(-2, 3, count) / 4.0
    elif kind == 1:
        keys, values = draw.normal(size=count), draw.normal(size=count)
    elif kind == 2:
        keys, values = draw.uniform(size=count), -50.0 * draw.uniform(size=count)
    else:
        keys, values = draw.normal(size=count), np.full(count, draw.choice([-1.0, 0.0, 2.0]))
    keys = np.where(draw.uniform(size=count) < draw.choice([0.0, 0.2, 0.6, 1.0]), np.inf, keys.astype(float))
    return keys, values.astype(float) * draw.choice([0.0, 0.1, 1.0, 50.0, -1.0]), int(draw.integers(1, count + 1))


def test_spec_vector():
    # m = 2, alpha = 2: prefix values .9-.2... = .7, 1.0, .95; the optimum is {1, 2} with F = 1.0
    chosen = argmax_min_plus_sum(VECTOR_KEYS, 2.0 / 2 * VECTOR_VALUES, 2, np.random.default_rng(0))
    assert chosen.tolist() == [1, 2]
    assert objective(VECTOR_KEYS, VECTOR_VALUES, chosen) == pytest.approx(1.0)
    assert exhaustive(VECTOR_KEYS, VECTOR_VALUES, 2).tolist() == [1, 2]


def test_exact_is_optimal_on_thousands_of_small_instances():
    draw, rng = np.random.default_rng(1), np.random.default_rng(2)
    some_untried = 0
    for _ in range(4000):
        keys, values, k = instance(draw)
        chosen = argmax_min_plus_sum(keys, values, k, rng)
        assert len(chosen) == k
        assert len(set(chosen.tolist())) == k
        best = brute(keys, values, k)
        assert worth(keys, values, chosen) == pytest.approx(best, abs=1e-9)
        assert worth(keys, values, exhaustive(keys, values, k)) == pytest.approx(best, abs=1e-9)
        some_untried += 0 < np.isposinf(keys).sum() < k
    assert some_untried > 100


def test_exact_is_optimal_with_twelve_clients():
    draw, rng = np.random.default_rng(3), np.random.default_rng(4)
    for _ in range(150):
        keys, values = draw.normal(size=12), draw.normal(size=12)
        for k in (1, 5, 11, 12):
            chosen = argmax_min_plus_sum(keys, values, k, rng)
            assert objective(keys, values, chosen) == pytest.approx(brute(keys, values, k)[0], abs=1e-9)


LARGE = {
    "independent": lambda draw, n: (draw.normal(size=n), draw.normal(size=n)),
    "opposed": lambda draw, n: (np.linspace(1, 0, n), np.linspace(0, 1, n) / 7),
    "opposed and noisy": lambda draw, n: (np.linspace(1, 0, n), np.linspace(0, 1, n) / 7 + 0.01 * draw.normal(size=n)),
    # every position replaces a member of the k largest, and the objective stays nearly flat: nothing can be skipped
    "flat": lambda draw, n: (
        -np.cumsum(np.full(n, 1e-3)),
        np.cumsum(np.full(n, 1e-3)) / 7 + 1e-6 * draw.normal(size=n),
    ),
    "aligned": lambda draw, n: (np.linspace(0, 1, n), np.linspace(0, 1, n)),
    "ties": lambda draw, n: (draw.integers(0, 4, n) / 4, draw.integers(-2, 3, n) / 4),
    "negative": lambda draw, n: (draw.uniform(size=n), -draw.uniform(size=n)),
    "constant": lambda draw, n: (np.full(n, 0.5), np.full(n, -0.25)),
    "one late jewel": lambda draw, n: (np.linspace(1, 0, n), np.where(np.arange(n) == n - 1, 5.0, 0.0)),
    "heavy tails": lambda draw, n: (draw.standard_cauchy(size=n), draw.standard_cauchy(size=n)),
}


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("count", [513, 700, 5000, 9001])
def test_branch_and_bound_equals_the_sweep(kind, count):
    draw = np.random.default_rng(count)
    rng = np.random.default_rng(0)
    for k in (1, 2, 7, 50, 511, count - 1, count):
        keys, values = (np.asarray(column, float) for column in LARGE[kind](draw, count))
        shuffle = draw.permutation(count)
        keys, values = keys[shuffle], values[shuffle] / k
        few = draw.choice(count, size=min(k - 1, 5), replace=False)  # fewer than k untried
        keys[few] = np.inf
        chosen = argmax_min_plus_sum(keys, values, k, rng)
        assert len(np.unique(chosen)) == k
        expected = heap_sweep(keys, values, k)
        assert objective(keys, values, chosen) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_untried_clients_win_by_their_values_in_large_populations():
    draw = np.random.default_rng(5)
    keys, values = draw.normal(size=2000), draw.normal(size=2000)
    untried = draw.choice(2000, 40, replace=False)
    keys[untried] = np.inf
    chosen = argmax_min_plus_sum(keys, values, 25, np.random.default_rng(0))
    best = untried[np.argsort(-values[untried])[:25]]
    assert chosen.tolist() == sorted(best.tolist())


def test_k_of_zero_and_k_of_everybody():
    rng = np.random.default_rng(0)
    assert argmax_min_plus_sum(VECTOR_KEYS, VECTOR_VALUES, 0, rng).tolist() == []
    assert argmax_min_plus_sum(VECTOR_KEYS, VECTOR_VALUES, 4, rng).tolist() == [0, 1, 2, 3]
    assert argmax_min_plus_sum(VECTOR_KEYS, VECTOR_VALUES, 9, rng).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("alsa", [False, True], ids=["annealing", "alsa"])
def test_annealing_never_beats_exact_and_finds_the_optimum_of_small_instances(alsa):
    draw, rng = np.random.default_rng(6), np.random.default_rng(7)
    found = 0
    for _ in range(30):
        count = int(draw.integers(3, 15))
        keys, values, k = draw.normal(size=count), draw.normal(size=count), int(draw.integers(1, count))
        best = objective(keys, values, argmax_min_plus_sum(keys, values, k, rng))
        chosen, trace = annealing(keys, values, k, rng, steps=300, alsa=alsa)
        assert len(np.unique(chosen)) == k
        reached = objective(keys, values, chosen)
        assert reached <= best + 1e-9
        assert trace.shape == (300,)
        assert trace.max() <= reached + 1e-9  # the best seen is returned, not the last
        found += reached >= best - 1e-9
    assert found >= 20


@pytest.mark.parametrize("alsa", [False, True], ids=["annealing", "alsa"])
def test_annealing_never_beats_exact_in_a_larger_population(alsa):
    draw, rng = np.random.default_rng(8), np.random.default_rng(9)
    keys, values = draw.uniform(size=600), draw.normal(size=600) / 25
    best = objective(keys, values, argmax_min_plus_sum(keys, values, 25, rng))
    chosen, _ = annealing(keys, values, 25, rng, steps=400, alsa=alsa)
    assert objective(keys, values, chosen) <= best + 1e-9


def test_annealing_takes_infinite_keys():
    keys = np.array([np.inf, 0.2, np.inf, 0.9])
    chosen, trace = annealing(keys, np.zeros(4), 2, np.random.default_rng(0), steps=200)
    assert chosen.tolist() == [0, 2]
    assert np.isfinite(trace).all()


@pytest.mark.parametrize("keys", [np.zeros(8), np.full(8, np.inf)], ids=["finite", "untried"])
def test_ties_are_drawn_by_the_generator(keys):
    # 2,000 seeds, each client chosen with probability 3/8: 750 expected, deviation 21.7; five of them are allowed
    counts = np.zeros(8)
    for seed in range(2000):
        counts[argmax_min_plus_sum(keys, np.zeros(8), 3, np.random.default_rng(seed))] += 1
    assert (abs(counts - 750) < 110).all()


def test_ties_are_fair_above_the_small_size_too():
    counts = np.zeros(600)
    for seed in range(400):
        counts[argmax_min_plus_sum(np.zeros(600), np.zeros(600), 300, np.random.default_rng(seed))] += 1
    assert (abs(counts - 200) < 60).all()  # deviation 10


def test_ties_at_the_border_key_are_fair():
    # client 0 is certain; 1..4 tie in key and value and share the second place
    keys, values = np.array([1.0, 0.5, 0.5, 0.5, 0.5]), np.array([0.5, 0.1, 0.1, 0.1, 0.1])
    counts = np.zeros(5)
    for seed in range(1000):
        counts[argmax_min_plus_sum(keys, values, 2, np.random.default_rng(seed))] += 1
    assert counts[0] == 1000
    assert (abs(counts[1:] - 250) < 70).all()  # deviation 13.7


def test_exhaustive_is_refused_above_two_million_sets():
    assert check_sets(8, 4) == 70
    with pytest.raises(PopulationError, match="solver='exact' finds the same optimum"):
        exhaustive(np.zeros(60), np.zeros(60), 20)
