"""How a cumulated regret grows: doublings, exponents, two-parameter fits, and Theorem 1's bound."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from enlist.statistics import Summary, bootstrap
from enlist.studies.results import Group
from enlist.typing import FloatArray, IntArray

SHAPES: dict[str, Callable[[FloatArray], FloatArray]] = {"ln n": np.log, "√n": np.sqrt, "n": lambda n: n}
RESAMPLES = 500
SETTLED = 0.05
"""Fits leave out the first part of the rounds, in which every client is tried for the first time."""


def at(group: Group, name: str, share: float) -> FloatArray:
    """(seeds,) a cumulated curve after this share of the rounds, between two points of it in proportion.

    >>> from enlist.studies.bsfl.example import grown
    >>> at(grown("ln n", rounds=1000), "pseudo", 0.5).round(2)
    array([6.21, 6.21])
    """
    rounds = group.column("rounds")[0]
    return np.array([np.interp(share * rounds[-1], rounds, curve) for curve in group.column(name)])


def doubling(group: Group, name: str = "pseudo", until: float = 1.0) -> Summary:
    """[R(n) - R(n/2)] / [R(n/2) - R(n/4)]: 1 if R grows as ln n, 1.41 as √n, 2 as n; with its interval over seeds.

    It is the ratio of means, resampled over seeds, so that a seed without regret in between does no harm. n is the
    number of rounds, or the part `until` of it.

    >>> from enlist.studies.bsfl.example import grown
    >>> [round(doubling(grown(shape, rounds=1000)).mean, 2) for shape in ("ln n", "√n", "n")]
    [1.0, 1.41, 2.0]
    """
    quarter, half, whole = (at(group, name, until * share) for share in (0.25, 0.5, 1.0))

    def ratio(first: FloatArray, second: FloatArray) -> float:
        return float(second.mean() / first.mean()) if first.mean() > 0 else 1.0 if second.mean() <= 0 else math.inf

    return bootstrap(ratio, half - quarter, whole - half, resamples=RESAMPLES)


def exponent(group: Group, name: str = "pseudo") -> Summary:
    """log2 R(n)/R(n/2) of the means over seeds: 0 if R stands still, 0.5 if it grows as √n, 1 as n.

    >>> from enlist.studies.bsfl.example import grown
    >>> round(exponent(grown("n", rounds=1000)).mean, 2)
    1.0
    """

    def slope(half: FloatArray, whole: FloatArray) -> float:
        return math.log2(whole.mean() / half.mean()) if half.mean() > 0 else 0.0

    return bootstrap(slope, at(group, name, 0.5), at(group, name, 1.0), resamples=RESAMPLES)


def fit(rounds: IntArray, values: FloatArray, shape: str) -> tuple[float, float, float]:
    """a, b and R² of the least-squares fit values ≈ a + b·shape(rounds), without the first rounds.

    >>> rounds = np.arange(1, 101)
    >>> [round(number, 3) for number in fit(rounds, 3.0 + 2.0 * np.log(rounds), "ln n")]
    [3.0, 2.0, 1.0]
    """
    kept = rounds >= SETTLED * rounds[-1]
    inputs, wanted = SHAPES[shape](rounds[kept].astype(float)), values[kept]
    slope, intercept = np.polyfit(inputs, wanted, 1)
    rest = float(((wanted - intercept - slope * inputs) ** 2).sum())
    whole = float(((wanted - wanted.mean()) ** 2).sum())
    return float(intercept), float(slope), 1.0 - rest / whole if whole > 0 else 1.0


def best_fit(group: Group, name: str = "pseudo") -> dict[str, float]:
    """R² of each shape for the mean curve over seeds.

    >>> from enlist.studies.bsfl.example import grown
    >>> found = best_fit(grown("√n", rounds=1000))
    >>> max(found, key=found.get)
    '√n'
    """
    rounds, curve = group.column("rounds")[0], group.column(name).mean(axis=0)
    return {shape: fit(rounds, curve, shape)[2] for shape in SHAPES}


def width(clients: int, k: int, rounds: int) -> float:
    """The printed bonus, sqrt((m+1) ln n / c), of a client that was selected as often as everybody else (Eq. 12).

    >>> round(width(500, 25, 1000), 2)
    1.9
    """
    return math.sqrt((k + 1) * math.log(rounds) * clients / (rounds * k))


def bound(clients: int, k: int, rounds: int, largest: float, least: float) -> float:
    """Theorem 1: largest·K·(4(m+1) ln n / least² + 1 + π²/3) with the largest and least loss of a round.

    >>> round(bound(20, 5, 1000, largest=2.9, least=0.1))
    961808
    """
    return largest * clients * (4.0 * (k + 1) * math.log(rounds) / least**2 + 1.0 + math.pi**2 / 3.0)
