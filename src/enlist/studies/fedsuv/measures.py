"""Numbers of the selection process, over seeds with their intervals: one function each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from enlist._internal.statistics import Summary, bootstrap
from enlist._internal.statistics import share as share_of
from enlist._internal.typing import FloatArray
from enlist.studies.results import Group

CLEAN = "process/0/"
"""Where the selection process without noise stands."""
LOW = 0.4
"""Validity below which the paper calls a client low."""
CANDIDATES = ("validity", "candidate")


def objective(group: Group) -> FloatArray:
    """(seeds,) valid utility over the whole run, the paper's objective, as a share of the best possible.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> objective(example_results()["process/0/fedsuv-printed"]).shape
    (2,)
    """
    return np.asarray(group.column("valued").mean(axis=1) / group.column("best"))


def leaving(group: Group) -> Summary:
    """Rounds as a candidate, in the mean over clients with validity below 0.4.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> leaving(example_results()["process/0/fedsuv-printed"]).mean
    3.0
    """
    return _over_seeds(group, lambda validity, rounds: float(rounds[validity < LOW].mean()), *CANDIDATES)


def staying(group: Group) -> Summary:
    """Rounds as a candidate, in the mean over all other clients.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> staying(example_results()["process/0/fedsuv-printed"]).mean
    9.0
    """
    return _over_seeds(group, lambda validity, rounds: float(rounds[validity >= LOW].mean()), *CANDIDATES)


def gone(group: Group) -> Summary:
    """Share of the clients with validity below 0.4 that were not candidates to the end.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> gone(example_results()["process/0/fedsuv-printed"]).mean
    1.0
    """
    last = group.settings["rounds"]
    return _over_seeds(group, lambda validity, rounds: float((rounds[validity < LOW] < last).mean()), *CANDIDATES)


def selected_mean(group: Group, of: str) -> Summary:
    """Mean true validity, or utility, of those selected.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> selected_mean(example_results()["process/0/fedsuv-printed"], "validity").mean > 0.7
    True
    """
    return _over_seeds(group, lambda values, counts: float((values * counts).sum() / counts.sum()), of, "selected")


def covered_runs(group: Group) -> Summary:
    """Share of the runs in which every client's truth lies in its rectangle in every round.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> covered_runs(example_results()["process/0/fedsuv-printed"]).mean
    0.0
    """
    covered = (group.column("covered")[:, :, 2] >= 1.0).all(axis=1)
    return share_of(int(covered.sum()), len(group.seeds))


def eliminated_share(group: Group) -> Summary:
    """Of those of whom Theorem 5.1 says that they are eliminated in a round, the share that is; NaN if there are none.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> eliminated_share(example_results()["process/0/fedsuv-printed"]).mean
    0.6
    """
    return _part(group, "hopeless", math.nan)


def wrongly(group: Group) -> Summary:
    """Of the eliminated, the share that is more valid than the client they were compared with.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> wrongly(example_results()["process/0/fedsuv-printed"]).mean
    0.0
    """
    return _part(group, "eliminated", 0.0)


def misjudged(group: Group) -> Summary:
    """Of those that the Pareto step removed, the share that is Pareto-optimal.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> misjudged(example_results()["process/0/fedsuv-printed"]).mean
    0.0
    """
    return _part(group, "pruned", 0.0)


def growth(group: Group) -> Summary:
    """Exponent e of regret (against the Pareto front) ~ rounds^e over the second half: 1 is linear, 0 is none.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> growth(example_results()["process/0/fedsuv-printed"]).mean < 0.3
    True
    """
    return _over_seeds(group, _exponent, "front")


def _part(group: Group, name: str, nobody: float) -> Summary:
    """Share of clients, over all rounds and seeds; seeds are resampled, as clients of one run are not independent."""
    of, hit = group.column(name).sum(axis=1).T[:2]
    if not of.any():
        return Summary(nobody, nobody, nobody)
    return bootstrap(lambda of, hit: hit.sum() / of.sum() if of.sum() else nobody, of, hit)


def _exponent(regret: FloatArray) -> float:
    total, half = np.cumsum(regret), len(regret) // 2
    return float(math.log(max(total[-1], 1e-12) / max(total[half - 1], 1e-12)) / math.log(len(regret) / half))


def _over_seeds(group: Group, measure: Callable[..., float], *names: str) -> Summary:
    columns = [group.column(name) for name in names]
    return Summary.of([measure(*values) for values in zip(*columns, strict=True)])
