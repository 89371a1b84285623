"""Extreme Explore: every arm is played in every round, and the best of the round is kept.

This is possible where playing an arm leaves the others playable, as in personalised learning: all workers train once,
and any number of combinations of their models can be averaged and tried.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.typing import IntArray
from enlist.bandits.rules import MeanRule, MeanSettings, Thompson
from enlist.errors import InputError


def winner(rewards: ArrayLike, *ties: ArrayLike) -> int:
    """Position of the largest reward; ties are broken by each of `ties` in turn, then by position.

    Unknown rewards (NaN) lose; if all are unknown, the first of `ties` that is known decides.

    >>> winner([0.0, 1.0, 1.0], [0.9, 0.2, 0.3])
    2
    """
    left = np.arange(len(np.atleast_1d(np.asarray(rewards))))
    if not len(left):
        raise InputError("rewards is empty; give at least one.")
    for given in (rewards, *ties):
        scores = np.asarray(given, dtype=float)[left]
        if not np.isnan(scores).all():
            left = left[scores == np.nanmax(scores)]
    return int(left[0])


class ExtremeExplore(MeanRule[MeanSettings]):
    """Plays all allowed arms, whatever was learned, and keeps a mean reward of each.

    Deterministic. `winner` decides which arm is kept: the best reward of the round or, when rewards come one round
    late, the best of the estimates before them.

    Reference: the MAB-FL thesis, rule "Extreme Explore".

    >>> rule = ExtremeExplore(3)
    >>> rule.choose(mask=[True, False, True])
    array([0, 2])
    >>> rule.update([0, 2], [0.1, 0.3])
    >>> rule.values()
    array([0.1 , 0.05, 0.3 ])
    """

    name = "extreme-explore"
    Settings = MeanSettings

    def choose(self, mask: ArrayLike | None = None, count: int | None = None) -> IntArray:
        """All arms that `mask` allows; `count` is ignored."""
        return checks.positions("mask", mask, self.arms)


class BayesianExtremeExplore(Thompson):
    """Extreme Explore with Beta posteriors: plays all arms, and the estimate of an arm is its posterior mean.

    Reference: the MAB-FL thesis, rule "Bayesian Extreme Explore".

    >>> rule = BayesianExtremeExplore(2)
    >>> rule.update([0, 1], [1.0, 0.0])
    >>> rule.choose(), rule.values()
    (array([0, 1]), array([0.66666667, 0.33333333]))
    """

    name = "bayesian-extreme-explore"

    def choose(self, mask: ArrayLike | None = None, count: int | None = None) -> IntArray:
        """All arms that `mask` allows; `count` is ignored."""
        return checks.positions("mask", mask, self.arms)
