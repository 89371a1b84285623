"""Numbers of trained runs: final accuracy, rounds and time to a target, and speed-ups over random selection."""

from __future__ import annotations

import math

import numpy as np

from enlist._internal.statistics import Summary, geometric_mean
from enlist._internal.typing import FloatArray
from enlist.errors import unknown
from enlist.runs.scores import LAST, time_to, total
from enlist.runs.tables import RunTables
from enlist.studies.fedsuv.methods import RANDOM
from enlist.studies.fedsuv.paper import TASKS
from enlist.studies.results import Group, Results
from enlist.studies.speed_ups import SpeedUp, Way

JUDGED, LOWER = 0.95, 0.90
"""Targets as shares of random selection's final accuracy: by the first claims are judged. The paper's five are 79 to
98 % of it, 90 % in the mean."""
WINDOW = 3
"""Evaluations whose mean has to meet the target, so that a lucky one does not count."""
NAMES = {"averaging": "averaging", "yogi": "YoGi"}


def tasks(results: Results, aggregation: str | None = None) -> list[str]:
    """task/aggregation of all trained tasks, or those of an aggregation, without further experiments.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> tasks(example_results())
    ['mlp/averaging', 'mlp/yogi', 'cnn/averaging', 'users/averaging']
    """
    starts = [key.removesuffix(f"/{RANDOM}") for key in results.groups if key.endswith(f"/{RANDOM}")]
    found = [start for start in starts if start.count("/") == 1]
    if not found:
        raise unknown("finished experiment", f"task/aggregation/{RANDOM}", results.groups)
    return [start for start in found if aggregation in (None, start.partition("/")[2])]


def name_of(results: Results, start: str) -> str:
    """What a task is called.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> name_of(example_results(), "mlp/yogi")
    'digits, MLP, YoGi'
    """
    return f"{results[f'{start}/{RANDOM}'].settings['title']}, {NAMES[start.rpartition('/')[2]]}"


def methods(results: Results, start: str) -> list[str]:
    """Names of the methods that were run in a task.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> methods(example_results(), "users/averaging")
    ['fedavg', 'oort', 'fedsuv-printed', 'fedsuv']
    """
    return [key.removeprefix(f"{start}/") for key in results.keys(f"{start}/")]


def evaluated(group: Group) -> FloatArray:
    """(seeds, evaluations) accuracy.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> evaluated(example_results()["mlp/averaging/fedavg"]).shape
    (2, 3)
    """
    accuracy = group.column("accuracy")
    return accuracy[:, np.isfinite(accuracy).any(axis=0)]


def finals(group: Group) -> FloatArray:
    """(seeds,) mean accuracy of the last three evaluations.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> finals(example_results()["mlp/averaging/fedavg"]).shape
    (2,)
    """
    return np.asarray(evaluated(group)[:, -LAST:].mean(axis=1))


def goal(results: Results, start: str, part: float = JUDGED) -> float:
    """The target of a task: the paper's, if it is one of its tasks, else a part of random selection's mean final
    accuracy, rounded down to a whole percent.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> goal(example_results(), "mlp/averaging") > goal(example_results(), "mlp/averaging", 0.5)
    True
    """
    printed = TASKS.get(start.partition("/")[0])
    if printed is not None and part == JUDGED:
        return printed.target / 100.0
    return math.floor(100.0 * part * float(finals(results[f"{start}/{RANDOM}"]).mean()) + 1e-9) / 100.0


def completed(group: Group) -> FloatArray:
    """(seeds,) share of the clients asked whose update came in time.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> completed(example_results()["mlp/averaging/fedavg"]).round(2)
    array([0.75, 0.75])
    """
    return np.asarray(group.column("completed").sum(axis=1) / group.column("asked").sum(axis=1))


def runs_of(group: Group, title: str) -> list[RunTables]:
    """The runs of a group as tables, called `title`.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> runs_of(example_results()["mlp/averaging/oort"], "Oort")[0].name
    'Oort, seed 200'
    """
    return [
        RunTables(title, seed, {}, {name: outcome[name] for name in ("round", "end", "accuracy")}, {}, {})
        for seed, outcome in group.outcomes.items()
    ]


def ways(group: Group, target: float) -> dict[int, Way]:
    """The way of every seed to a target.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> ways(example_results()["mlp/averaging/fedavg"], 0.2)[200].reached is None
    False
    """
    window = min(WINDOW, evaluated(group).shape[1])
    return {run.seed: Way(time_to(run, target, window), total(run)) for run in runs_of(group, group.key)}


def speed_up(results: Results, start: str, method: str, unit: str = "rounds", part: float = JUDGED) -> SpeedUp:
    """Rounds (or seconds) of random selection to the target over those of a method, paired by seed.

    A run that does not get there counts with its whole length, so the ratio is a bound: "<=" if the method did not,
    ">=" if random selection did not. Pairs in which neither did are left out.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> speed_up(example_results(), "mlp/averaging", "oort").pairs
    2
    """
    target = goal(results, start, part)
    base, own = (ways(results[f"{start}/{name}"], target) for name in (RANDOM, method))
    ratios, bounds = [], set()
    for seed in sorted(base.keys() & own.keys()):
        if base[seed].reached is None and own[seed].reached is None:
            continue
        ratios.append(float(getattr(base[seed], unit)) / float(getattr(own[seed], unit)))
        bounds |= {">="} if base[seed].reached is None else {"<="} if own[seed].reached is None else set()
    summary = geometric_mean(ratios) if ratios else Summary(math.nan, math.nan, math.nan)
    return SpeedUp(summary, "?" if len(bounds) > 1 else "".join(bounds), len(ratios))
