"""Dominance and hypervolume against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from enlist.bandits import best_subset, dominated, front, hypervolume


def slow_dominated(first_high, second_high, first_low, second_low):
    """Spec F.4, word by word: some other's pessimistic corner is at least as good twice, and better once."""
    count = len(first_high)
    result = np.zeros(count, bool)
    for i, j in itertools.permutations(range(count), 2):
        weak = first_low[j] >= first_high[i] and second_low[j] >= second_high[i]
        strict = first_low[j] > first_high[i] or second_low[j] > second_high[i]
        result[i] |= weak and strict
    return result


def union_area(first, second):
    """Counts the cells of the grid spanned by the corners."""
    first, second = np.maximum(first, 0.0), np.maximum(second, 0.0)
    xs, ys = np.unique(np.concatenate([[0.0], first])), np.unique(np.concatenate([[0.0], second]))
    area = 0.0
    for left, right in itertools.pairwise(xs):
        for low, high in itertools.pairwise(ys):
            if ((first >= right) & (second >= high)).any():
                area += (right - left) * (high - low)
    return area


def rectangles(draw, count, kind):
    if kind == "continuous":
        low, size = draw.uniform(size=(2, count)), 0.3 * draw.uniform(size=(2, count))
    elif kind == "points":
        low, size = draw.integers(0, 4, (2, count)) / 4, np.zeros((2, count))
    else:
        low, size = draw.integers(0, 4, (2, count)) / 4, draw.integers(0, 3, (2, count)) / 4
    return low[0] + size[0], low[1] + size[1], low[0], low[1]


@pytest.mark.parametrize("kind", ["continuous", "points", "ties"])
def test_dominated_against_brute_force(kind):
    draw = np.random.default_rng(0)
    some = 0
    for _ in range(500):
        corners = rectangles(draw, int(draw.integers(1, 13)), kind)
        expected = slow_dominated(*corners)
        np.testing.assert_array_equal(dominated(*corners), expected)
        some += expected.any()
    assert some > 100


def test_two_identical_clients_remove_neither():
    ones = np.array([0.5, 0.5])
    assert dominated(ones, ones, ones, ones).tolist() == [False, False]
    three = np.array([0.5, 0.5, 0.4])
    assert dominated(three, three, three, three).tolist() == [False, False, True]


def test_equal_in_one_coordinate_and_worse_in_the_other_is_dominated():
    first, second = np.array([0.5, 0.5, 0.2]), np.array([0.9, 0.3, 0.9])
    assert dominated(first, second, first, second).tolist() == [False, True, True]


def test_unbounded_rectangles_dominate_nobody():
    high, low = np.full(3, np.inf), np.full(3, -np.inf)
    assert not dominated(high, high, low, low).any()


def test_nobody_dominates_alone():
    one = np.array([0.5])
    assert dominated(one, one, one, one).tolist() == [False]
    assert dominated(one + 0.1, one, one, one - 0.2).tolist() == [False]


@pytest.mark.parametrize("ties", [False, True])
def test_front_against_brute_force(ties):
    draw = np.random.default_rng(1)
    for _ in range(300):
        count = int(draw.integers(1, 12))
        first, second = draw.integers(0, 5, (2, count)) / 4 if ties else draw.uniform(size=(2, count))
        lost = slow_dominated(first, second, first, second)
        found = front(first, second)
        assert not lost[found].any()
        points = {(first[i], second[i]) for i in range(count) if not lost[i]}
        assert {(first[i], second[i]) for i in found} == points
        assert len(found) == len(points)  # duplicates count once
        assert (np.diff(first[found]) < 0).all()


@pytest.mark.parametrize("kind", ["continuous", "ties", "signed"])
def test_hypervolume_against_the_union_of_cells(kind):
    draw = np.random.default_rng(2)
    for _ in range(300):
        count = int(draw.integers(0, 10))
        first, second = draw.uniform(size=(2, count))
        if kind == "ties":
            first, second = draw.integers(0, 4, (2, count)) / 4
        if kind == "signed":
            first, second = first - 0.4, second - 0.4
        assert hypervolume(first, second) == pytest.approx(union_area(first, second))


def test_hypervolume_by_inclusion_and_exclusion():
    # 2 x 1 and 1 x 3 overlap in 1 x 1: 2 + 3 - 1
    assert hypervolume(np.array([2.0, 1.0]), np.array([1.0, 3.0])) == pytest.approx(4.0)


@pytest.mark.parametrize("kind", ["continuous", "ties", "signed"])
def test_best_subset_against_all_subsets(kind):
    draw = np.random.default_rng(3)
    for _ in range(150):
        count = int(draw.integers(1, 9))
        first, second = draw.uniform(size=(2, count))
        if kind == "ties":
            first, second = draw.integers(0, 4, (2, count)) / 4
        if kind == "signed":
            first, second = first - 0.4, second - 0.4
        for k in range(1, count + 1):
            best = max(union_area(first[list(s)], second[list(s)]) for s in itertools.combinations(range(count), k))
            chosen, area = best_subset(first, second, k)
            assert area == pytest.approx(best)
            assert len(set(chosen.tolist())) == len(chosen) <= k
            assert union_area(first[chosen], second[chosen]) == pytest.approx(area)


def test_best_subset_along_a_long_front():
    angle = np.linspace(0.01, np.pi / 2 - 0.01, 60)
    first, second = np.cos(angle), np.sin(angle)
    areas = [best_subset(first, second, k)[1] for k in (1, 2, 5, 20, 60)]
    assert areas == sorted(areas)
    assert areas[0] == pytest.approx(0.5, abs=1e-3)  # the middle of the arc
    assert areas[-1] == pytest.approx(hypervolume(first, second))


def test_best_subset_of_none():
    chosen, area = best_subset(np.array([1.0, 2.0]), np.array([2.0, 1.0]), 0)
    assert len(chosen) == 0
    assert area == 0.0
