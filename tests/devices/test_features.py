"""Feature tables and matching: exact at the ends of the knobs, in proportion between."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from enlist._internal.typing import FloatArray
from enlist.devices import FEATURES, FeatureKnobs, Mixture, Phones, feature_table, matched_order
from enlist.devices.features import SPEED_FEATURES, UTILITY_FEATURES
from enlist.errors import InputError
from enlist.streams import Streams


def truths(count: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(3)
    devices = Phones().draw(count, Streams(3))
    return devices.speed, rng.uniform(size=count), np.ceil(rng.lognormal(3, 1, count)), devices.bandwidth


@pytest.mark.parametrize("knob", [0.0, 0.3, 0.8])
def test_columns_are_correlated_as_the_knobs_say(knob: float) -> None:
    speed, utility, sizes, bandwidth = truths(20_000)
    expected = 6 / math.pi * math.asin(knob / 2)
    for knobs in (FeatureKnobs(speed=knob, utility=0.0), FeatureKnobs(speed=0.0, utility=knob)):
        table, names = feature_table(speed, utility, sizes, bandwidth, knobs, Streams(1))
        assert names == FEATURES
        assert table.shape == (20_000, 7)
        assert (table[:, 5] == sizes).all()
        assert (table[:, 6] == bandwidth).all()
        for name in SPEED_FEATURES + UTILITY_FEATURES:
            column = table[:, names.index(name)]
            tells_speed = name in SPEED_FEATURES and knobs.speed > 0
            tells_utility = name in UTILITY_FEATURES and knobs.utility > 0
            assert spearmanr(column, speed).statistic == pytest.approx(expected if tells_speed else 0, abs=0.025)
            assert spearmanr(column, utility).statistic == pytest.approx(expected if tells_utility else 0, abs=0.025)


@given(st.lists(st.integers(1, 5).map(float), min_size=1, max_size=40), st.integers(0, 1000))
def test_ranks_are_exact_at_1_ties_included(values: list[float], seed: int) -> None:
    speed = np.array(values)
    utility = speed[::-1].copy()
    knobs = FeatureKnobs(speed=1.0, utility=1.0)
    table, names = feature_table(speed, utility, np.ones(len(speed)), np.ones(len(speed)), knobs, Streams(seed))
    for name in SPEED_FEATURES:
        assert (rankdata(table[:, names.index(name)]) == rankdata(speed)).all()
    for name in UTILITY_FEATURES:
        assert (rankdata(table[:, names.index(name)]) == rankdata(utility)).all()


def test_columns_have_noise_of_their_own() -> None:
    table, _ = feature_table(*truths(5000), FeatureKnobs(speed=0.0, utility=0.0), Streams(1))
    between = np.corrcoef(np.log(table[:, :5]).T)
    assert np.abs(between - np.eye(5)).max() < 0.06


def test_devices_without_transfers_have_a_finite_table() -> None:
    speed, utility, sizes, _ = truths(10)
    table, _ = feature_table(
        speed, utility, sizes, Mixture().draw(10, Streams(1)).bandwidth, FeatureKnobs(), Streams(1)
    )
    assert np.isfinite(table).all()
    assert (table[:, 6] == 0).all()
    bandwidth = np.array([3.0, math.inf] * 5)
    assert (feature_table(speed, utility, sizes, bandwidth, FeatureKnobs(), Streams(1))[0][:, 6] == 3.0).all()


@pytest.mark.parametrize("correlation", [-0.9, -0.4, 0.0, 0.3, 0.8])
def test_matching_has_the_rank_correlation_asked_for(correlation: float) -> None:
    speed, _, sizes, _ = truths(20_000)
    order = matched_order(speed, sizes, correlation, Streams(2))
    assert spearmanr(speed[order], sizes).statistic == pytest.approx(correlation, abs=0.025)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=40),
    st.sampled_from([-1.0, 1.0]),
    st.integers(0, 1000),
)
def test_matching_is_exact_at_the_ends(pairs: list[tuple[int, int]], correlation: float, seed: int) -> None:
    speed, sizes = np.array(pairs, dtype=float).T
    order = matched_order(speed, sizes, correlation, Streams(seed))
    assert sorted(order) == list(range(len(pairs)))
    by_size = speed[order][np.argsort(sizes, kind="stable")]
    groups = [sorted(by_size[np.sort(sizes) == size]) for size in np.unique(sizes)]
    assert np.concatenate(groups).tolist() == sorted(speed) or correlation == -1.0
    falling = [sorted(by_size[np.sort(sizes) == size], reverse=True) for size in np.unique(sizes)]
    assert np.concatenate(falling).tolist() == sorted(speed, reverse=True) or correlation == 1.0


def test_matched_devices_carry_the_correlation() -> None:
    devices = Phones().draw(1000, Streams(1))
    sizes = np.arange(1000.0)
    slow = devices.matched(matched_order(devices.speed, sizes, -1.0, Streams(1)))
    assert (np.diff(slow.compute) >= 0).all()
    again = matched_order(devices.speed, sizes, 0.5, Streams(1))
    assert (again == matched_order(devices.speed, sizes, 0.5, Streams(1))).all()
    assert (again != matched_order(devices.speed, sizes, 0.5, Streams(2))).any()


def test_mistakes_are_named() -> None:
    speed, utility, sizes, bandwidth = truths(5)
    with pytest.raises(InputError, match=r"speed = 1.5"):
        FeatureKnobs(speed=1.5)
    with pytest.raises(InputError, match="sizes has shape"):
        feature_table(speed, utility, sizes[:4], bandwidth, FeatureKnobs(), Streams(1))
    with pytest.raises(InputError, match=r"utility has shape .* with 5 NaN"):
        feature_table(speed, utility * np.nan, sizes, bandwidth, FeatureKnobs(), Streams(1))
    with pytest.raises(InputError, match="correlation is 2"):
        matched_order(speed, sizes, 2.0, Streams(1))
    with pytest.raises(InputError, match="one number per client"):
        matched_order(speed, sizes[:2], 0.0, Streams(1))
