"""The paper's bounds: width of the rectangles (Theorem 5.4), regret (Theorem 5.5), and what goes into them."""

from __future__ import annotations

import math

import numpy as np

from enlist._internal.typing import FloatArray
from enlist.bandits.gaussian import ExactGP

DIAGONAL = math.sqrt(2.0)
"""No rectangle in the unit square is wider; a larger bound says nothing."""


def linear_factor(delta: float) -> float:
    """α = 1 + sqrt(ln(4/δ)/2), the factor on |x|_{H⁻¹} in the interval of validity.

    >>> round(linear_factor(0.1), 3)
    2.358
    """
    return 1.0 + math.sqrt(math.log(4.0 / delta) / 2.0)


def process_factor(round: int, clients: int, delta: float) -> float:
    """β_t = 2 ln(n π² t² / (3 δ)), whose root multiplies σ in the interval of utility.

    >>> import math
    >>> math.sqrt(process_factor(1, 3500, 0.1)), math.sqrt(process_factor(100, 3500, 0.1))
    (4.8..., 6.4...)
    """
    return 2.0 * math.log(clients * math.pi**2 * round**2 / (3.0 * delta))


def information(inputs: FloatArray, length: float, noise: float, rounds: int) -> FloatArray:
    """γ_t for t = 1 .. rounds: information that t observations can give at most, ½ Σ ln(1 + σ²_{t−1}(x_t)/noise).

    The most uncertain client is observed each time, which is within a factor 1 − 1/e of the best choice (Srinivas et
    al. 2010); the paper gives the order of γ_T only, (ln T)^(d+1).

    >>> information(np.array([[0.0], [9.0]]), length=1.0, noise=0.1, rounds=3).round(3)
    array([1.199, 2.398, 2.721])
    """
    process, total, gained = ExactGP.of(inputs, length, noise), 0.0, np.empty(rounds)
    for at in range(rounds):
        deviation = process.predict()[1]
        widest = int(np.argmax(deviation))
        total += 0.5 * math.log1p(deviation[widest] ** 2 / noise)
        gained[at] = total
        process.update(np.array([widest]), np.zeros(1))
    return gained


def complexity(
    gained: FloatArray, clients: int, dimension: int, noise: float, scale: float, delta: float
) -> FloatArray:
    """α² d C_T + β_T γ_T C s² for T = 1 .. : what both bounds are made of.

    C_T = 2 ln(1 + T/d), C = 2 / ln(1 + 1/noise); s is how many units of utility one of the Gaussian process has.

    >>> complexity(np.array([1.2]), clients=100, dimension=7, noise=0.1, scale=0.5, delta=0.1).round(2)
    array([14.45])
    """
    rounds = np.arange(1, len(gained) + 1)
    linear = linear_factor(delta) ** 2 * dimension * 2.0 * np.log1p(rounds / dimension)
    beta = np.array([process_factor(int(at), clients, delta) for at in rounds])
    return np.asarray(linear + beta * gained * 2.0 / math.log1p(1.0 / noise) * scale**2)


def width_bound(terms: FloatArray) -> FloatArray:
    """Theorem 5.4: w_T ≤ sqrt((α² d C_T + β_T γ_T C) / T), with the terms of `complexity`.

    Its proof takes α|x| for the width of an interval, which is twice that; with the factor the bound doubles.

    >>> width_bound(np.array([4.0, 8.0]))
    array([2., 2.])
    """
    return np.sqrt(terms / np.arange(1, len(terms) + 1))


def regret_bound(terms: FloatArray, k: int, gap: float) -> FloatArray:
    """Theorem 5.5: regret up to T ≤ 4 k (α² d C_T + β_T γ_T C) / ε², ε the smallest gap between a client and a better
    one.

    >>> regret_bound(np.array([2.0]), k=20, gap=0.1)
    array([16000.])
    """
    return np.asarray(4.0 * k * terms / gap**2)


def smallest_gap(validity: FloatArray, utility: FloatArray) -> float:
    """ε: over all pairs of which one is better in both, the smaller difference, at its smallest. O(n²).

    >>> smallest_gap(np.array([0.1, 0.5, 0.6]), np.array([0.2, 0.1, 0.9]))
    0.0999...
    """
    smallest = math.inf
    for own_validity, own_utility in zip(validity, utility, strict=True):
        lead = np.minimum(validity - own_validity, utility - own_utility)
        above = lead[lead > 0]
        smallest = min(smallest, float(above.min()) if len(above) else math.inf)
    return smallest
