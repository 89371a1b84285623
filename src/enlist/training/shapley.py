"""The worth of each update of a round: Shapley values of what a server measures, exact or by truncated Monte Carlo."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from enlist._internal.typing import FloatArray

EXACT = 7
"""Up to this many players, there are fewer sets of them than the orders below evaluate."""
FEWEST, MOST = 20, 50
"""Minimum and maximum number of orders."""
SETTLED = 0.05
"""The values have settled if ten more orders moved them by less than this share of their mean size."""
TRUNCATED = 0.01
"""The rest of an order is skipped once no more than this share of the total worth is missing."""
NOTHING = 1e-4
"""If all players together are worth less than this, each of them is worth nothing."""

Worth = Callable[[tuple[int, ...]], float]
"""The worth of a set of players, in ascending order."""


def shapley(players: int, worth: Worth, rng: np.random.Generator) -> FloatArray:
    """The Shapley value of each player: exact for a few, else truncated Monte Carlo with guided orders.

    Guided: every player is the first of an order as often as any other, since what comes first counts most
    (GTG-Shapley, Liu et al. 2022); at most 50 orders, so at most 50 n sets are evaluated, each once.

    >>> shapley(3, lambda some: float(len(some) >= 2), np.random.default_rng(1))
    array([0.33333333, 0.33333333, 0.33333333])
    """
    known: dict[tuple[int, ...], float] = {}

    def remembered(some: tuple[int, ...]) -> float:
        if some not in known:
            known[some] = worth(some)
        return known[some]

    if not players:
        return np.zeros(0)
    nobody, everybody = remembered(()), remembered(tuple(range(players)))
    if not abs(everybody - nobody) >= NOTHING:
        return np.zeros(players)
    return exact(players, remembered) if players <= EXACT else sampled(players, remembered, rng)


def exact(players: int, worth: Worth) -> FloatArray:
    """Shapley values by their definition, over all sets.

    >>> exact(2, lambda some: 3.0 * (0 in some) + 1.0 * (1 in some))
    array([3., 1.])
    """
    values = np.zeros(players)
    for size in range(players):
        share = 1.0 / (players * math.comb(players - 1, size))
        for some in itertools.combinations(range(players), size):
            before = worth(some)
            for player in set(range(players)).difference(some):
                values[player] += share * (worth(tuple(sorted((*some, player)))) - before)
    return values


def sampled(players: int, worth: Worth, rng: np.random.Generator) -> FloatArray:
    """Shapley values from random orders; the last players of an order are skipped if they can add nothing more.

    >>> sampled(2, lambda some: 3.0 * (0 in some) + 1.0 * (1 in some), np.random.default_rng(1))
    array([3., 1.])
    """
    nobody, everybody = worth(()), worth(tuple(range(players)))
    enough = TRUNCATED * abs(everybody - nobody)
    sums, means = np.zeros(players), []
    first = rng.permutation(players)
    for number in range(MOST):
        leader = first[number % players]
        order = np.concatenate([[leader], rng.permutation(np.delete(np.arange(players), leader))])
        before, so_far = nobody, ()
        for player in order.tolist():
            if abs(everybody - before) <= enough:
                break
            so_far = tuple(sorted((*so_far, player)))
            after = worth(so_far)
            sums[player] += after - before
            before = after
        means.append(sums / (number + 1))
        if number + 1 >= FEWEST and _settled(means[-11], means[-1]):
            break
    return np.asarray(means[-1])


def _settled(before: FloatArray, after: FloatArray) -> bool:
    return bool(np.abs(after - before).mean() <= SETTLED * np.abs(after).mean())
