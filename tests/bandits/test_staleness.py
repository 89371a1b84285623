"""Weights of late updates, by hand and against the printed formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

from enlist.bandits.staleness import adaptive_target, adasgd, deviation, dynsgd, equal, refl_weights
from enlist.errors import InputError

NAN = float("nan")


def test_simple_rules() -> None:
    assert equal([0, 3, 9]).tolist() == [1.0, 1.0, 1.0]
    assert dynsgd([0, 1, 4]).tolist() == [1.0, 0.5, 0.2]
    np.testing.assert_allclose(adasgd([0, 2]), [math.exp(-1), math.exp(-3)])


def test_refl_by_hand() -> None:
    # tau 1, 3; L 1, 4: .65/2 + .35 (1 - e^-.25) = .325 + .35 * .2211992 = .4024197
    #                   .65/4 + .35 (1 - e^-1)   = .1625 + .35 * .6321206 = .3837422
    np.testing.assert_allclose(refl_weights([1, 3], [1.0, 4.0]), [0.4024197, 0.3837422], atol=1e-7)
    np.testing.assert_allclose(refl_weights([1, 3], [1.0, 4.0], beta=0.0), dynsgd([1, 3]))
    np.testing.assert_allclose(refl_weights([1, 3], [1.0, 4.0], beta=1.0), [0.2211992, 0.6321206], atol=1e-7)


def test_refl_edges() -> None:
    assert refl_weights([1, 1], [0.0, 0.0]).tolist() == [0.325, 0.325]  # largest deviation 0: no boost
    assert refl_weights([0, 1], [NAN, NAN]).tolist() == [0.65, 0.325]  # nothing fresh: damping alone
    assert refl_weights([], []).tolist() == []
    # a NaN beside a number does not spoil it
    np.testing.assert_allclose(refl_weights([1, 1], [NAN, 2.0]), [0.325, 0.325 + 0.35 * (1 - math.exp(-1))])


def test_deviation_by_hand() -> None:
    # f = (3, 4), |f|^2 = 25, n = 4, s = (8, 4): mean with s (20, 20)/5 = (4, 4), moved by (-1, 0): 1/25
    np.testing.assert_allclose(deviation([3.0, 4.0], [[8.0, 4.0]], 4), [0.04])


def test_deviation_is_the_printed_formula() -> None:
    rng = np.random.default_rng(0)
    fresh, stale, n = rng.normal(size=50), rng.normal(size=(7, 50)), 6
    printed = [np.sum((fresh - (s + n * fresh) / (n + 1)) ** 2) / np.sum(fresh**2) for s in stale]
    np.testing.assert_allclose(deviation(fresh, stale, n), printed)
    np.testing.assert_allclose(deviation(fresh.astype(np.float32), stale.astype(np.float32), n), printed, rtol=1e-5)


def test_deviation_edges() -> None:
    assert np.isnan(deviation([1.0], [[2.0], [3.0]], 0)).all()
    assert np.isnan(deviation([0.0, 0.0], [[2.0, 1.0]], 3)).all()
    assert deviation(np.ones(3), np.ones((0, 3)), 3).tolist() == []


def test_adaptive_target() -> None:
    assert [adaptive_target(10, due) for due in (0, 3, 9, 10, 99)] == [10, 7, 1, 1, 1]
    assert [adaptive_target(11, due, least_share=0.5) for due in (3, 8)] == [8, 6]
    assert adaptive_target(0, 2) == 0


@pytest.mark.parametrize("wrong", [[-1.0], [NAN], [math.inf], [[1.0]]])
def test_wrong_staleness(wrong: list[float]) -> None:
    for rule in (equal, dynsgd, adasgd):
        with pytest.raises(InputError):
            rule(wrong)


def test_wrong_deviation() -> None:
    for wrong in ([1.0], [-1.0, 0.0], [math.inf, 0.0]):
        with pytest.raises(InputError):
            refl_weights([1, 2], wrong)
    with pytest.raises(InputError):
        refl_weights([1], [1.0], beta=1.5)
    with pytest.raises(InputError):
        deviation([1.0, 2.0], [[1.0]], 2)
    with pytest.raises(InputError):
        deviation([1.0], [[1.0]], -1)
    with pytest.raises(InputError):
        adaptive_target(3, -1)
