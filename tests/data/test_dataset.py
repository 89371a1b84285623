"""Samples and data sets: conversions and checks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from enlist.data import Dataset, Samples
from enlist.data.base import divided, standardised
from enlist.errors import InputError


def part(labels=(0, 1), **columns):
    return Samples(np.zeros((len(labels), 3)), np.asarray(labels), **columns)


def test_numbers_are_converted_and_right_ones_are_not_copied():
    samples = Samples([[1, 2]], [True], users=[7])
    assert (samples.x.dtype, samples.y.dtype) == (np.float32, np.int64)
    assert Samples([[1.0]], [0.5]).y.dtype == np.float32
    x = np.zeros((2, 3), np.float32)
    assert Samples(x, [0, 1]).x is x


@pytest.mark.parametrize(
    ("x", "y", "users", "words"),
    [
        ([1.0, 2.0], [0, 1], None, "shape"),
        ([[1.0], [2.0]], [0], None, "n labels"),
        ([[1.0], [2.0]], [[0], [1]], None, "n labels"),
        ([["a"]], [0], None, "numbers"),
        ([[1.0]], ["a"], None, "numbers"),
        ([[1.0], [2.0]], [0, 1], ["a"], "each of 2 samples"),
        ([[1.0], [2.0]], [0, 1], [0.5, 1.5], "int or str"),
        ([[1.0], [2.0, 3.0]], [0, 1], None, "Samples.x"),
    ],
)
def test_samples_refuse_what_does_not_fit(x, y, users, words):
    with pytest.raises(InputError, match=words):
        Samples(x, y, users)


def test_take_by_positions_mask_and_nothing():
    samples = Samples(np.arange(8.0).reshape(4, 2), [0, 1, 2, 3], users=np.array(["a", "b", "c", "d"]))
    taken = samples.take([3, 1])
    assert_array_equal(taken.y, [3, 1])
    assert_array_equal(taken.users, ["d", "b"])
    assert_array_equal(taken.x, [[6, 7], [2, 3]])
    assert_array_equal(samples.take(samples.y > 1).y, [2, 3])
    assert len(samples.take([])) == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": 1}, "its train labels go from 0 to 1; with 1 classes"),
        ({"test": part([0, 2])}, "its test labels go from 0 to 2"),
        ({"train": part([-1, 0])}, "from -1 to 0"),
        ({"test": part([])}, "its test part is empty"),
        ({"validation": Samples(np.zeros((1, 4)), [0])}, r"validation samples have shape \(4,\)"),
        ({"train": Samples([[np.nan] * 3], [0])}, "train inputs hold NaN"),
        ({"train": Samples([[np.inf] * 3, [-np.inf] * 3], [0, 1])}, "train inputs hold NaN"),
        ({"train": part([0.5])}, "labels are float32"),
        ({"classes": 0}, "a regression"),
        ({"class_names": ("a",)}, "names 1 classes, but has 2"),
        ({"classes": -1}, "classes of data set 'mine' is -1"),
    ],
)
def test_a_data_set_refuses_what_does_not_fit(changes, words):
    good = {"name": "mine", "train": part(), "test": part(), "classes": 2}
    Dataset(**good)
    with pytest.raises(InputError, match=words):
        Dataset(**{**good, **changes})


def test_a_regression_needs_finite_targets():
    x = np.zeros((2, 3))
    assert Dataset("r", Samples(x, [0.5, 1.0]), Samples(x, [0.5, 1.0]), classes=0).shape == (3,)
    with pytest.raises(InputError, match="train labels hold NaN"):
        Dataset("r", Samples(x, [np.nan, 1.0]), Samples(x, [0.5, 1.0]), classes=0)


@given(
    groups=st.lists(st.integers(0, 4), min_size=4, max_size=80),
    share=st.floats(0.2, 0.8),
    seed=st.integers(0, 100),
)
def test_divided_takes_its_share_of_every_group(groups, share, seed):
    labels = np.array(groups)
    rest, taken = divided(labels, share, np.random.default_rng(seed))
    assert_array_equal(np.sort(np.concatenate([rest, taken])), np.arange(len(labels)))
    assert abs(len(taken) - share * len(labels)) <= 0.5 + 1e-9
    for group in np.unique(labels):
        assert abs((labels[taken] == group).sum() - share * (labels == group).sum()) < 1 + 1e-9


def test_divided_is_random_and_repeatable():
    labels = np.repeat([0, 1], 50)
    first, again, other = (divided(labels, 0.3, np.random.default_rng(seed))[1] for seed in (1, 1, 2))
    assert_array_equal(first, again)
    assert set(first) != set(other)


def test_divided_never_leaves_a_side_empty():
    with pytest.raises(InputError, match="leaves one side empty"):
        divided(np.zeros(3), 0.01, np.random.default_rng(1))


def test_standardised_goes_channel_by_channel():
    images = np.array([[[[10, 20]], [[30, 50]]]], dtype=np.uint8)
    assert_array_equal(standardised(images, [10, 40], [10, 5]), [[[[0, 1]], [[-2, 2]]]])
    assert images.dtype == np.uint8
