"""Label noise: exactly as many wrong labels as the rate says, never the right one, the same by seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist.data.noise import LabelNoise, noisy_labels, quality
from enlist.data.partitions import Shards
from enlist.errors import InputError
from enlist.streams import Streams


def even(clients, size):
    return Shards(np.arange(clients * size), np.arange(clients + 1) * size)


@given(st.integers(1, 60), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_rates_affect_a_share_of_the_clients(clients, share, one, other, seed):
    low, high = sorted((one, other))
    noise = LabelNoise(share=share, low=low, high=high)
    rates = noise.rates(clients, Streams(seed))
    assert rates.shape == (clients,)
    affected = rates > 0
    assert affected.sum() <= int(share * clients + 0.5)
    if low > 0:
        assert affected.sum() == int(share * clients + 0.5)
    assert ((rates == 0) | ((rates >= low) & (rates <= high))).all()
    assert np.array_equal(rates, noise.rates(clients, Streams(seed)))


def test_a_larger_share_affects_the_same_clients_and_more():
    few = LabelNoise(share=0.3).rates(50, Streams(1))
    many = LabelNoise(share=0.6).rates(50, Streams(1))
    assert np.array_equal(few[few > 0], many[few > 0])
    assert (few > 0).sum() == 15
    assert (many > 0).sum() == 30


def test_there_is_no_noise_unless_asked_for():
    assert not LabelNoise().rates(10, Streams(1)).any()


@given(
    st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1)), min_size=1, max_size=12),
    st.integers(2, 6),
    st.integers(0, 5),
    st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_exactly_so_many_labels_are_wrong(clients, classes, unheld, seed):
    sizes = np.array([size for size, _ in clients])
    rates = np.array([rate for _, rate in clients])
    rng = np.random.default_rng(seed)
    total = int(sizes.sum())
    y = rng.integers(0, classes, total + unheld)
    shards = Shards(rng.permutation(total + unheld)[:total], np.concatenate([[0], np.cumsum(sizes)]))
    original = y.copy()
    noisy = noisy_labels(y, shards, rates, classes, Streams(seed))
    assert np.array_equal(y, original)
    assert noisy.dtype == y.dtype
    wrong = noisy != y
    for client in range(len(sizes)):
        assert wrong[shards.held_by(client)].sum() == np.floor(rates[client] * sizes[client] + 0.5)
    assert wrong.sum() == wrong[shards.order].sum()
    assert noisy.min(initial=0) >= 0
    assert noisy.max(initial=0) < classes
    assert np.array_equal(noisy, noisy_labels(y, shards, rates, classes, Streams(seed)))


def test_other_classes_are_equally_likely():
    y = np.full(90_000, 2)
    noisy = noisy_labels(y, even(9, 10_000), np.ones(9), 4, Streams(1))
    counts = np.bincount(noisy, minlength=4)
    assert counts[2] == 0
    # 30,000 each, standard deviation about 141.
    assert abs(counts[[0, 1, 3]] - 30_000).max() < 700


def test_which_samples_are_spoiled_is_random_and_grows_with_the_rate():
    y = np.zeros(1000, dtype=int)
    low = noisy_labels(y, even(1, 1000), [0.2], 3, Streams(1)) != y
    high = noisy_labels(y, even(1, 1000), [0.5], 3, Streams(1)) != y
    other = noisy_labels(y, even(1, 1000), [0.2], 3, Streams(2)) != y
    assert (high[low]).all()
    assert not np.array_equal(low, other)
    assert 350 < np.flatnonzero(low).mean() < 650


def test_the_global_generator_is_left_alone():
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    noisy_labels(np.zeros(100, dtype=int), even(10, 10), np.full(10, 0.5), 3, Streams(1))
    LabelNoise(share=0.5).rates(10, Streams(1))
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_targets_get_gaussian_noise_in_proportion():
    y = np.random.default_rng(1).normal(3.0, 2.0, 60_000).astype(np.float32)
    noisy = noisy_labels(y, even(3, 20_000), [0.0, 0.5, 1.0], 0, Streams(1))
    assert noisy.dtype == np.float32
    added = (noisy - y).reshape(3, 20_000)
    assert (added[0] == 0).all()
    assert added.mean(axis=1) == pytest.approx([0, 0, 0], abs=0.05)
    assert added.std(axis=1)[1:] == pytest.approx([1.0, 2.0], rel=0.03)


def test_quality_is_what_is_left():
    assert quality(np.array([0.0, 0.3, 1.0])).tolist() == [1.0, 0.7, 0.0]


def test_low_must_not_exceed_high():
    with pytest.raises(InputError, match=r"low = 0.6 is above high = 0.5; give low <= high"):
        LabelNoise(low=0.6)


@pytest.mark.parametrize(
    ("y", "rates", "classes", "message"),
    [
        ([0, 1], [0.5, 0.5], 2, "one number for each of 1 clients"),
        ([0, 1], [1.5], 2, "goes up to 1.5"),
        ([0, 1], [-0.5], 2, "cannot be negative"),
        ([0, 0], [0.5], 1, "needs another class"),
        ([0, 5], [0.5], 2, "allowed are 0 to 1"),
        ([0], [0.5], 2, "hold sample 1"),
        ([0, 1], [0.5], 0, "needs floats"),
    ],
)
def test_what_cannot_be_right_is_refused(y, rates, classes, message):
    with pytest.raises(InputError, match=message):
        noisy_labels(np.array(y), Shards([0, 1], [0, 2]), rates, classes, Streams(1))


def test_one_class_without_noise_is_fine():
    assert noisy_labels(np.zeros(2, dtype=int), Shards([0, 1], [0, 2]), [0.0], 1, Streams(1)).tolist() == [0, 0]
