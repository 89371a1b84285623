"""How much a late update still counts, next to fresh updates of weight 1, and how many clients to ask then.

Weights are not normalised: divide by the number of fresh updates plus the sum of the stale weights.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.typing import FloatArray
from enlist.errors import InputError


def equal(staleness: ArrayLike) -> FloatArray:
    """Weight 1, however late.

    >>> equal([1, 4])
    array([1., 1.])
    """
    return np.ones(len(_rounds(staleness)))


def dynsgd(staleness: ArrayLike) -> FloatArray:
    """1 / (tau + 1) for an update that is tau rounds late (Jiang et al. 2017).

    >>> dynsgd([0, 1, 3])
    array([1.  , 0.5 , 0.25])
    """
    return np.asarray(1.0 / (_rounds(staleness) + 1.0))


def adasgd(staleness: ArrayLike) -> FloatArray:
    """exp(-(tau + 1)) for an update that is tau rounds late (Damaskinos et al. 2020).

    >>> adasgd([0, 1]).round(4)
    array([0.3679, 0.1353])
    """
    return np.exp(-(_rounds(staleness) + 1.0))


def polynomial(staleness: ArrayLike, exponent: float = 0.5) -> FloatArray:
    """(1 + tau)^-exponent for an update that is tau steps old: 1 / sqrt(1 + tau) as in FedBuff (Nguyen et al. 2022).

    >>> polynomial([0, 3])
    array([1. , 0.5])
    """
    return np.asarray((1.0 + _rounds(staleness)) ** -checks.finite("exponent", exponent, 0.0))


def refl_weights(staleness: ArrayLike, deviation: ArrayLike, beta: float = 0.35) -> FloatArray:
    """(1-beta) / (tau + 1) + beta (1 - exp(-L / max L)): damped by lateness, boosted by being different (REFL).

    `deviation` L comes from the function of that name. Where it is NaN, because there was nothing fresh to compare
    with, there is no boost; nor is there any if max L = 0.

    >>> refl_weights([1, 1], [0.0, 2.0]).round(4)
    array([0.325 , 0.5462])
    """
    rounds = _rounds(staleness)
    beta = checks.finite("beta", beta, 0.0, 1.0)
    different = np.asarray(deviation, dtype=float)
    if different.shape != rounds.shape or (different < 0).any() or np.isinf(different).any():
        raise InputError(f"deviation {deviation!r} must be a finite number >= 0 (or NaN) for each of {len(rounds)}.")
    largest = float(np.nanmax(different, initial=0.0))
    relative = np.nan_to_num(different, nan=0.0) / (largest if largest > 0 else 1.0)
    return np.asarray((1.0 - beta) / (rounds + 1.0) + beta * -np.expm1(-relative))


def deviation(fresh_mean: ArrayLike, stale: ArrayLike, fresh_count: int) -> FloatArray:
    """|| f - (s + n f) / (n + 1) ||^2 / || f ||^2 for each stale update s, f the mean of the n fresh ones.

    How far one more update would move the mean, (m, d) -> (m,). NaN if there is nothing fresh, or f = 0.

    >>> deviation([1.0, 0.0], [[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], fresh_count=1)
    array([0.  , 0.25, 1.  ])
    """
    count = checks.whole("fresh_count", fresh_count, minimum=0)
    fresh, rows = np.asarray(fresh_mean), np.asarray(stale)
    if fresh.ndim != 1 or rows.ndim != 2 or rows.shape[1] != len(fresh):
        raise InputError(
            f"stale updates of shape {rows.shape} and a fresh mean of {fresh.shape}; give (m, d) and (d,)."
        )
    size = float(np.square(fresh, dtype=float).sum())
    if count == 0 or size == 0:
        return np.full(len(rows), np.nan)
    moved = np.zeros(len(rows))
    for index, row in enumerate(rows):  # one at a time: m updates of a large model would be copied otherwise
        difference = np.subtract(fresh, row, dtype=float)
        moved[index] = np.square(difference, out=difference).sum()  # a dot product would wake threads
    return moved / (count + 1.0) ** 2 / size


def adaptive_target(k: int, stragglers_due: int, least_share: float = 0.0) -> int:
    """max(1, k - B): how many clients to ask when B stragglers will arrive within the round (REFL).

    `least_share` 0.5 gives the published code's max(k/2, k - B).

    >>> adaptive_target(10, 3), adaptive_target(10, 12), adaptive_target(10, 12, least_share=0.5)
    (7, 1, 5)
    """
    k = checks.whole("k", k, minimum=0)
    due = checks.whole("stragglers_due", stragglers_due, minimum=0)
    share = checks.finite("least_share", least_share, 0.0, 1.0)
    return min(k, max(1, math.ceil(share * k - 1e-9), k - due))


def _rounds(staleness: ArrayLike) -> FloatArray:
    rounds = np.asarray(staleness, dtype=float)
    if rounds.ndim != 1 or not np.isfinite(rounds).all() or (rounds < 0).any():
        raise InputError(f"staleness {staleness!r} must be a list of finite numbers of rounds, none below 0.")
    return rounds
