"""Shapley values: the definition against all orders, and Monte Carlo against the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from enlist.training import shapley as module
from enlist.training.shapley import exact, sampled, shapley


def game(players: int, seed: int):
    """Losses as a server might measure them: the nearer the mean of some points is to a goal, the better."""
    rng = np.random.default_rng(seed)
    points, goal, weights = rng.normal(size=(players, 3)), rng.normal(size=3), rng.uniform(1.0, 5.0, players)

    def worth(some):
        if not some:
            return -float((goal**2).sum())
        chosen = list(some)
        return -float(((np.average(points[chosen], axis=0, weights=weights[chosen]) - goal) ** 2).sum())

    return worth


@pytest.mark.parametrize("seed", range(3))
def test_exact_values_of_six_are_means_over_all_orders(seed):
    worth, values = game(6, seed), np.zeros(6)
    for order in itertools.permutations(range(6)):
        for place, player in enumerate(order):
            values[player] += worth(tuple(sorted(order[: place + 1]))) - worth(tuple(sorted(order[:place])))
    np.testing.assert_allclose(exact(6, worth), values / 720, atol=1e-12)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.verify) for seed in (1, 2))])
def test_monte_carlo_for_six_is_near_exact(seed, monkeypatch):
    worth = game(6, seed)
    true = exact(6, worth)
    # Of one call, 50 orders at most: within 15 % of the largest value, on average over players.
    error = np.abs(sampled(6, worth, np.random.default_rng(seed)) - true).mean()
    assert error < 0.15 * np.abs(true).max()
    # It is unbiased but for truncation: the mean of many calls is the truth within 2 % of the largest value.
    calls = [sampled(6, worth, np.random.default_rng((seed, number))) for number in range(400)]
    np.testing.assert_allclose(np.mean(calls, axis=0), true, atol=0.02 * np.abs(true).max())


def test_what_all_bring_is_shared_out():
    worth = game(12, 5)
    monte_carlo = sampled(12, worth, np.random.default_rng(1))
    whole = worth(tuple(range(12))) - worth(())
    assert monte_carlo.sum() == pytest.approx(whole, abs=module.TRUNCATED * abs(whole))
    assert exact(7, game(7, 5)).sum() == pytest.approx(game(7, 5)(tuple(range(7))) - game(7, 5)(()))


def test_sets_are_looked_at_once_and_their_number_is_bounded():
    for players in (7, 30):
        seen = []
        worth = game(players, 1)

        def counted(some, worth=worth, seen=seen):
            seen.append(some)
            return worth(some)

        shapley(players, counted, np.random.default_rng(1))
        assert len(seen) == len(set(seen)) <= (2**7 if players == 7 else module.MOST * players + 2)


def test_nothing_gained_is_nothing_shared():
    assert shapley(9, lambda some: 1.0, np.random.default_rng(1)).tolist() == [0.0] * 9
    assert len(shapley(0, lambda some: 1.0, np.random.default_rng(1))) == 0
    np.testing.assert_allclose(shapley(2, lambda some: 2.0 * (0 in some), np.random.default_rng(1)), [2.0, 0.0])
