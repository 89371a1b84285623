"""Descriptions against hand-computed and brute-force numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist.data.describe import class_counts, describe, distance, gini, label_entropy, table
from enlist.data.partitions import Dirichlet, Shards
from enlist.errors import InputError
from enlist.streams import Streams

TABLES = st.integers(1, 5).flatmap(
    lambda classes: st.lists(
        st.lists(st.integers(0, 50), min_size=classes, max_size=classes), min_size=1, max_size=8
    ).filter(lambda rows: sum(map(sum, rows)) > 0)
)


def test_class_counts_by_hand():
    y = np.array([2, 0, 1, 1, 2, 0])
    shards = Shards(order=[5, 1, 0, 3], offsets=[0, 3, 3, 4])
    assert class_counts(y, shards, 3).tolist() == [[2, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_class_counts_of_a_regression_are_over_ten_bins():
    shards = Shards(order=np.arange(100), offsets=[0, 50, 100])
    counts = class_counts(np.arange(100.0), shards, 0)
    assert counts.tolist() == [[10] * 5 + [0] * 5, [0] * 5 + [10] * 5]


def test_entropy_by_hand():
    # (1/2, 1/4, 1/4, 0): (1/2) log 2 + 2 (1/4) log 4 = 1.5 log 2, of log 4 = 2 log 2: 3/4.
    assert label_entropy([[4, 2, 2, 0], [1, 1, 1, 1], [7, 0, 0, 0]]).tolist() == pytest.approx([0.75, 1.0, 0.0])
    assert label_entropy([[7, 0, 0]])[0] == 0.0
    assert label_entropy([[5]]).tolist() == [0.0]
    assert np.isnan(label_entropy([[0, 0]])[0])


def test_distance_by_hand():
    # Together (6, 2, 2) / 10. First: (1, 0, 0): (0.4 + 0.2 + 0.2) / 2 = 0.4. Second: (1/3, 1/3, 1/3): 0.2667.
    assert distance([[4, 0, 0], [2, 2, 2]]).tolist() == pytest.approx([0.4, 4 / 15])
    assert distance([[3, 1], [6, 2]]).tolist() == pytest.approx([0, 0])
    assert np.isnan(distance([[0, 0], [1, 1]])[0])


def test_gini_by_hand():
    assert gini([4, 4, 4]) == 0
    # (1, 3): mean absolute difference over all pairs (0 + 2 + 2 + 0) / 4 = 1, over twice the mean 4: 1/4.
    assert gini([1, 3]) == pytest.approx(0.25)
    assert gini([0, 0, 0, 8]) == pytest.approx(0.75)
    assert gini([0, 0]) == 0


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20).filter(sum))
def test_gini_is_half_the_relative_mean_difference(sizes):
    values = np.array(sizes, dtype=float)
    pairs = abs(values[:, None] - values[None, :]).mean() / (2 * values.mean())
    assert gini(sizes) == pytest.approx(pairs)
    assert gini(sizes[::-1]) == pytest.approx(gini(sizes))


@given(TABLES)
@settings(max_examples=150, deadline=None)
def test_entropy_and_distance_against_plain_loops(rows):
    whole = [sum(column) for column in zip(*rows, strict=True)]
    total = sum(whole)
    for row, entropy, far in zip(rows, label_entropy(rows), distance(rows), strict=True):
        size = sum(row)
        if size == 0:
            assert math.isnan(entropy)
            assert math.isnan(far)
            continue
        most = math.log(len(row)) if len(row) > 1 else 1.0
        plain = -sum(n / size * math.log(n / size) for n in row if n) / most
        assert entropy == pytest.approx(plain, abs=1e-12)
        assert 0 <= entropy <= 1
        apart = sum(abs(n / size - g / total) for n, g in zip(row, whole, strict=True)) / 2
        assert far == pytest.approx(apart, abs=1e-12)
        assert 0 <= far <= 1


def test_description_by_hand():
    # Sizes 1, 1, 4 and an empty client; labels (1,0), (0,1), (3,1), together (4, 2) / 6.
    y = np.array([0, 1, 0, 0, 0, 1, 1])
    description = describe(y, Shards(order=[0, 1, 2, 3, 4, 5], offsets=[0, 1, 2, 6, 6]), 2)
    assert (description.clients, description.samples, description.unheld, description.classes) == (4, 6, 1, 2)
    assert description.sizes[0] == 0
    assert description.sizes[3] == 1
    assert description.sizes[-1] == 4
    assert description.mean_size == 1.5
    # Sorted 0, 1, 1, 4: (-3*0 - 1*1 + 1*1 + 3*4) / (4 * 6) = 1/2.
    assert description.gini == pytest.approx(0.5)
    assert description.distance == pytest.approx((1 / 3 + 2 / 3 + 1 / 12) / 3)
    third = -(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25))
    assert description.entropy == pytest.approx(third / 3)
    assert description.classes_per_client == pytest.approx(4 / 3)
    assert description.single_class == pytest.approx(2 / 3)
    assert description.dominance == pytest.approx((1 + 1 + 0.75) / 3)


def test_the_table_tells_what_the_description_holds():
    y = np.repeat(np.arange(10), 5000)
    rng = np.random.default_rng(1)
    shards = Shards(rng.permutation(50_000)[:49_000], [0, 20_000, 49_000])
    rows = dict(table(describe(y, shards, 10)))
    assert rows["clients"] == "2"
    assert rows["samples"] == "49,000, and 1,000 that no client holds"
    assert rows["samples per client"] == "mean 24,500, median 24,500, from 20,000 to 29,000"
    assert rows["classes per client"] == "mean 10 of 10"
    assert all("e+" not in value and "nan" not in value for value in rows.values())


def test_skew_shows():
    from enlist.data.dataset import Samples

    samples = Samples(x=np.zeros((10_000, 1)), y=np.arange(10_000) % 10)
    strong, weak = (
        describe(samples.y, Dirichlet(alpha=alpha).split(samples, 10, 40, Streams(1)), 10) for alpha in (0.05, 50.0)
    )
    assert strong.distance > 0.7 > 0.1 > weak.distance
    assert strong.entropy < 0.4 < 0.95 < weak.entropy
    assert strong.gini > 0.4 > 0.1 > weak.gini
    assert strong.classes_per_client < 6 < 9.9 < weak.classes_per_client


@pytest.mark.parametrize("counts", [[1, 2], [[1, -2]], [[float("nan")]], np.zeros((2, 0))])
def test_counts_that_cannot_be_right_are_refused(counts):
    with pytest.raises(InputError, match="counts"):
        label_entropy(counts)
    with pytest.raises(InputError, match="counts"):
        distance(counts)


def test_shards_of_other_data_are_refused():
    with pytest.raises(InputError, match="hold sample 7, but there are 2 labels"):
        class_counts(np.array([0, 1]), Shards([7], [0, 1]), 2)
    with pytest.raises(InputError, match="nothing to describe"):
        describe(np.array([0, 1]), Shards([], [0, 0]), 2)
