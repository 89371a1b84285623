"""Intervals over seeds: by hand, and that they cover what they should with as few seeds as studies have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from enlist.statistics import Summary, bootstrap, paired_difference, share


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
