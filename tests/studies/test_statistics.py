"""Intervals over seeds: by hand, and that they cover what they should with as few seeds as studies have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from enlist._internal.statistics import (
    Summary,
    bootstrap,
    paired_difference,
    power_of,
    seeds_needed,
    share,
    smallest_difference,
)


def test_a_paired_difference_is_the_summary_of_differences() -> None:
    assert paired_difference([3.0, 5.0], [1.0, 2.0]) == Summary.of([2.0, 3.0])
    assert math.isnan(paired_difference([3.0], [1.0]).low)
    with pytest.raises(ValueError):
        paired_difference([1.0, 2.0], [1.0])


def test_a_bootstrap_keeps_pairs_together() -> None:
    first = np.array([1.0, 5.0, 9.0, 2.0])
    found = bootstrap(lambda a, b: float((a - b).mean()), first, first - 0.5)
    assert found == Summary(0.5, 0.5, 0.5)
    assert math.isnan(bootstrap(lambda a: float(a.mean()), [1.0]).high)


def test_a_bootstrap_takes_rows_of_any_shape_and_repeats_itself() -> None:
    rows = np.arange(12.0).reshape(4, 3)
    one, other = (bootstrap(lambda values: float(values.max()), rows) for _ in range(2))
    assert one == other
    assert one.mean == 11.0
    assert one.low < 11.0


def test_the_bootstrap_covers_as_it_should_with_ten_seeds() -> None:
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(300):
        found = bootstrap(lambda values: float(values.mean()), rng.normal(size=10), resamples=400)
        inside += found.low <= 0 <= found.high
    assert 0.92 <= inside / 300 <= 0.98  # plain percentiles cover 0.90


def test_a_share_is_wilsons_interval() -> None:
    z = 1.959963984540054
    middle, half = (0.9 + z**2 / 40) / (1 + z**2 / 20), z / (1 + z**2 / 20) * math.sqrt(0.9 * 0.1 / 20 + z**2 / 1600)
    found = share(18, 20)
    assert found.mean == 0.9
    assert found.low == pytest.approx(middle - half)
    assert found.high == pytest.approx(middle + half)
    assert share(0, 5).low == 0.0
    assert share(5, 5).high == 1.0


@pytest.mark.parametrize(("size", "seeds"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_the_seeds_that_are_needed_are_those_of_the_tables(size: float, seeds: int) -> None:
    # Cohen's small, medium and large effects, paired, two-sided 5 %, power 80 %: 199, 34 and 15 pairs (G*Power).
    assert seeds_needed(size, 1.0) == seeds
    assert seeds_needed(-3.0 * size, 3.0) == seeds
    assert power_of(size, 1.0, seeds) >= 0.8 > power_of(size, 1.0, seeds - 1)


def test_the_smallest_difference_is_where_the_power_is_reached() -> None:
    for seeds in (2, 3, 5, 10, 30):
        found = smallest_difference(0.4, seeds)
        assert power_of(found, 0.4, seeds) == pytest.approx(0.8, abs=1e-6)
    assert smallest_difference(0.4, 2, power=0.99) < math.inf
    # With many seeds t is normal: (1.95996 + .84162)/sqrt n deviations.
    assert smallest_difference(1.0, 10_000) == pytest.approx(0.0280158, rel=1e-3)
    # Twice the spread, twice the difference.
    assert smallest_difference(2.0, 5) == pytest.approx(2.0 * smallest_difference(1.0, 5))


def test_the_power_is_the_share_of_runs_that_show_it() -> None:
    # Of 4,000 comparisons with 5 seeds and this difference, 80 % have an interval that leaves out 0, give or take 2 %.
    rng = np.random.default_rng(7)
    true = smallest_difference(1.0, 5)
    seen = 0
    for _ in range(4_000):
        found = Summary.of(rng.normal(true, 1.0, 5).tolist())
        seen += found.low > 0 or found.high < 0
    assert seen / 4_000 == pytest.approx(0.8, abs=0.02)


def test_the_ends_of_power() -> None:
    assert power_of(1.0, 1.0, 1) == 0.0
    assert smallest_difference(1.0, 1) == math.inf
    assert power_of(0.0, 1.0, 10) == pytest.approx(0.05, abs=1e-6)
    assert (power_of(0.1, 0.0, 3), power_of(0.0, 0.0, 3)) == (1.0, 0.0)
    assert smallest_difference(0.0, 3) == 0.0
    assert power_of(1e9, 1.0, 5) == pytest.approx(1.0)
    assert seeds_needed(1e9, 1.0) == 2
    assert seeds_needed(1e-9, 1.0, most=100) is None
