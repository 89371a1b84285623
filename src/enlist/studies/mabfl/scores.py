"""What the study compares, one number per experiment, from the curves of sessions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from enlist._internal.statistics import Summary, paired_difference
from enlist._internal.typing import FloatArray
from enlist.studies.mabfl.keys import ALONE, BEST, CODES, fixed
from enlist.studies.results import Group, Results

UNTIL = 15
"""Rounds over which increases are compared; later ones are past the peak in the thesis."""


def increases(results: Results, code: str, epochs: int, group: str, against: str = "local") -> FloatArray:
    """(seeds, rounds) increases of a combination held fixed, against the target's own model or the round before.

    >>> from enlist.studies.mabfl.example import example_results
    >>> increases(example_results(), "0110", 6, "one").shape
    (3, 8)
    >>> increases(example_results(), "0110", 6, "one", "previous").shape
    (3, 7)
    """
    run = results[fixed(code, epochs, group)]
    validation = run.column("validation")
    found: FloatArray = np.diff(validation, axis=1) if against == "previous" else validation - run.column("local")
    return found


def separations(results: Results, epochs: int, group: str, against: str = "local") -> FloatArray:
    """(seeds,) how well the best pair is told from the others: the chance that its increase is the larger one.

    One increase of the best pair and one of another combination, from any two rounds of the same seed; 0.5 is no
    separation at all, 1 a perfect one. The target alone, whose increase is 0 by definition, is left out.

    >>> from enlist.studies.mabfl.example import example_results
    >>> bool((separations(example_results(), 6, "drawn") > 0.8).all())
    True
    """
    keys = [fixed(code, epochs, group) for code in CODES if code != ALONE]
    scores, locals_ = results.paired(keys, "validation"), results.paired(keys, "local")
    rises = [
        (np.diff(score, axis=1) if against == "previous" else score - local)[:, :UNTIL]
        for score, local in zip(scores, locals_, strict=True)
    ]
    best, rest = rises[0], rises[1:]
    larger = [(best[:, :, None] > other[:, None, :]).mean(axis=(1, 2)) for other in rest]
    ties = [(best[:, :, None] == other[:, None, :]).mean(axis=(1, 2)) for other in rest]
    found: FloatArray = np.mean(larger, axis=0) + 0.5 * np.mean(ties, axis=0)
    return found


def outliers(values: FloatArray) -> FloatArray:
    """(seeds,) share of values (seeds, rounds) beyond 1.5 interquartile ranges from the quartiles of all.

    >>> outliers(np.array([[0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 99.0]]))
    array([0.  , 0.25])
    """
    low, high = np.quantile(values, [0.25, 0.75])
    reach = 1.5 * (high - low)
    share: FloatArray = ((values < low - reach) | (values > high + reach)).mean(axis=1)
    return share


def residuals(curves: FloatArray) -> FloatArray:
    """(seeds, rounds) deviations of learning curves from their mean over seeds.

    >>> residuals(np.array([[0.5, 0.7], [0.7, 0.7]]))
    array([[-0.1,  0. ],
           [ 0.1,  0. ]])
    """
    found: FloatArray = curves - curves.mean(axis=0)
    return found


def straightness(values: FloatArray) -> float:
    """Correlation of ordered values with normal quantiles: 1 if their QQ plot is a straight line, NaN if all are equal.

    >>> round(straightness(normal_quantiles(50)), 3), straightness(np.eye(30)[0]) < 0.5
    (1.0, True)
    """
    ordered = np.sort(np.ravel(values))
    with np.errstate(invalid="ignore"):
        return float(np.corrcoef(ordered, normal_quantiles(len(ordered)))[0, 1])


@functools.lru_cache(maxsize=16)
def normal_quantiles(count: int) -> FloatArray:
    """Where the ordered values of so many normal draws are to be expected.

    >>> normal_quantiles(3).round(2)
    array([-0.97,  0.  ,  0.97])
    """
    found: FloatArray = ndtri((np.arange(count) + 0.5) / count)
    return found


def persistence(curves: FloatArray) -> float:
    """Correlation between the deviations of one round and the next: near 1 for paths, near 0 for noise.

    >>> paths = np.outer([1.0, -1.0, 2.0, -2.0], np.ones(5))
    >>> round(persistence(paths), 3)
    1.0
    """
    deviation = residuals(curves)
    with np.errstate(invalid="ignore"):
        return float(np.corrcoef(deviation[:, :-1].ravel(), deviation[:, 1:].ravel())[0, 1])


def oscillation(curves: FloatArray) -> FloatArray:
    """(seeds,) mean absolute change of a score from one round to the next.

    >>> oscillation(np.array([[0.5, 0.7, 0.6]]))
    array([0.15])
    """
    found: FloatArray = np.abs(np.diff(curves, axis=1)).mean(axis=1)
    return found


def rounds_to(curves: FloatArray, levels: FloatArray) -> FloatArray:
    """(seeds,) the first round whose score reaches the level of its seed; one more than there are if none does.

    >>> rounds_to(np.array([[0.5, 0.7], [0.5, 0.6]]), np.array([0.7, 0.7]))
    array([2., 3.])
    """
    met = curves >= levels[:, None]
    found: FloatArray = np.where(met.any(axis=1), met.argmax(axis=1) + 1.0, curves.shape[1] + 1.0)
    return found


def gaps(results: Results, key: str, first: int = 5) -> FloatArray:
    """(seeds,) by how much the estimate of the best pair exceeds the highest other, on average from a round on.

    >>> from enlist.studies.mabfl.example import example_results
    >>> bool(gaps(example_results(), "grid/explore").mean() > 0.02)
    True
    """
    found = []
    for outcome in results[key].outcomes.values():
        estimates, best = outcome["estimates"], outcome["codes"].index(BEST)
        rest = np.delete(estimates, best, axis=1).max(axis=1)
        found.append(np.nanmean((estimates[:, best] - rest)[min(first, len(rest)) - 1 :]))
    return np.array(found)


def shares(results: Results, key: str, code: str) -> FloatArray:
    """(seeds,) share of rounds in which a combination's model was kept.

    >>> from enlist.studies.mabfl.example import example_results
    >>> bool(0 < shares(example_results(), "grid/explore", "0110").mean() < 1)
    True
    """
    return np.array([np.mean(adopted == code) for adopted in results[key].each("adopted")])


def peaks(results: Results, keys: Sequence[str]) -> FloatArray:
    """(keys, seeds) highest test scores at the seeds that all keys have.

    >>> from enlist.studies.mabfl.example import example_results
    >>> peaks(example_results(), ["grid/explore", "drawn/0110-6"]).shape
    (2, 3)
    """
    return np.array(results.paired(keys, "peak"))


def by_mean(results: Results) -> Results:
    """The same results with the mean test score of all rounds in the place of the highest.

    >>> from enlist.studies.mabfl.example import example_results
    >>> results = example_results()
    >>> by_mean(results)["grid/explore"].each("peak") == results["grid/explore"].each("mean")
    True
    """
    groups = {}
    for key, group in results.groups.items():
        outcomes = {
            seed: dataclasses.replace(outcome, values={**outcome.values, "peak": outcome.values.get("mean")})
            for seed, outcome in group.outcomes.items()
        }
        groups[key] = Group(key, group.settings, outcomes)
    return Results(groups)


def contrast(first: FloatArray, second: FloatArray) -> Summary:
    """Mean of first − second over seeds with its interval.

    >>> contrast(np.array([3.0, 4.0]), np.array([1.0, 2.0])).mean
    2.0
    """
    return paired_difference(first.tolist(), second.tolist())
