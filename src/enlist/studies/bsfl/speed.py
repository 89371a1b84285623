"""How much sooner a method gets as far as the baseline of its scenario does, in virtual time."""

from __future__ import annotations

import numpy as np

from enlist.runs.scores import time_to, total
from enlist.runs.tables import RunTables
from enlist.statistics import geometric_mean
from enlist.studies.bsfl.plan import train_key
from enlist.studies.bsfl.settings import IID, NON_IID
from enlist.studies.bsfl.training import GRID, LAST
from enlist.studies.results import Outcome, Results
from enlist.studies.speed_ups import SpeedUp, Way
from enlist.typing import FloatArray

BASELINES = {IID: "random", NON_IID: "size-proportional"}
WINDOW = round(LAST * GRID)
"""Points of a curve whose mean has to meet the target, which is the mean of as many at the end of the baseline's."""
ROUNDING = 1e-12


def speed_up(results: Results, task: str, scenario: str, method: str) -> SpeedUp:
    """Virtual time of the baseline to the accuracy that it ends with, over that of a method, paired by seed.

    Both curves are smoothed alike, so that the baseline takes once as long as itself. A run that does not get there
    counts with its whole length, and the ratio is a bound.

    >>> from enlist.studies.bsfl.example import example_results
    >>> [speed_up(example_results(), "mlp", IID, name).shown() for name in ("random", "bsfl-default")]
    ['×1.00 [1.00, 1.00]', '×2.31 [2.31, 2.31]']
    """
    keys = [train_key(task, scenario, name) for name in (BASELINES[scenario], method)]
    shared = results.common(keys)
    ratios, never = [], False
    for seed, baseline in shared[keys[0]].outcomes.items():
        target = smoothed(baseline["accuracy"])[-1] - ROUNDING
        base, own = (_way(outcome, target) for outcome in (baseline, shared[keys[1]].outcomes[seed]))
        ratios.append(base.seconds / own.seconds)
        never |= own.reached is None
    return SpeedUp(geometric_mean(ratios), "<=" if never else "", len(ratios))


def smoothed(curve: FloatArray) -> FloatArray:
    """Means of the last tenth of the time, as far as a curve is known.

    >>> smoothed(np.array([np.nan, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 7.0]))
    array([1., 2.])
    """
    known = curve[np.isfinite(curve)]
    width = min(WINDOW, max(len(known), 1))
    parts = np.lib.stride_tricks.sliding_window_view(known if len(known) else curve[-1:], width)
    return np.asarray(parts.mean(axis=1))


def _way(outcome: Outcome, target: float) -> Way:
    run = RunTables("", 0, {}, {"end": outcome["time"], "accuracy": outcome["accuracy"]}, {}, {})
    return Way(time_to(run, target, WINDOW), total(run))
