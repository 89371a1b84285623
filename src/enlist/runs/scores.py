"""Scores of runs, as pure functions of their tables: how soon, how well, how evenly and at what cost.

The measure of a run is its accuracy on the test set or, where there is none (regression), its loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.errors import InputError
from enlist.runs.columns import ENERGY, FAIRNESS, METRIC
from enlist.runs.tables import RunTables

LAST = 3  # evaluations whose mean is the final accuracy, because a single one depends on the luck of its round
BASELINE = "random"
OUTCOMES = ("completed", "late", "dropped", "failed")


class Reached(NamedTuple):
    """When a run reached its target: after how many rounds, and after how many virtual seconds.

    >>> Reached(12, 340.5).rounds
    12
    """

    rounds: int
    seconds: float


class Evaluations(NamedTuple):
    """The evaluated rounds of a run: rounds completed by then, virtual seconds passed, and the values, of equal length.

    >>> from enlist.runs.example import example_run
    >>> evaluations(example_run()).rounds
    array([2, 4, 6, 8])
    """

    rounds: IntArray
    seconds: FloatArray
    values: FloatArray


def measure(runs: Sequence[RunTables]) -> str:
    """The measure of runs: 'accuracy' (higher is better), or 'loss' (lower is better) if no accuracy is known.

    >>> from enlist.runs.example import example_run
    >>> measure([example_run()])
    'accuracy'
    """
    known = {name: any(np.isfinite(run.rounds[name]).any() for run in runs) for name in ("accuracy", "loss")}
    return "loss" if known["loss"] and not known["accuracy"] else "accuracy"


def evaluations(tables: RunTables, by: str = "accuracy") -> Evaluations:
    """When a run was evaluated, and the results.

    >>> from enlist.runs.example import example_run
    >>> evaluations(example_run()).values.round(2)
    array([0.42, 0.64, 0.75, 0.8 ])
    """
    rows = np.flatnonzero(np.isfinite(tables.rounds[by]))
    return Evaluations(rows + 1, tables.rounds["end"][rows], tables.rounds[by][rows])


def time_to(tables: RunTables, target: float, window: int = 1, by: str = "accuracy") -> Reached | None:
    """Rounds and virtual seconds until the first evaluation that meets `target`; None if none does.

    Nothing is interpolated: the time is the end of an evaluated round. With `window` above 1, the mean of the last
    `window` evaluations must meet the target, so that one lucky evaluation does not count.

    >>> from enlist.runs.example import example_run
    >>> time_to(example_run(), 0.6)
    Reached(rounds=4, seconds=51.270151682150995)
    >>> time_to(example_run(), 0.99) is None
    True
    """
    checks.whole("window", window, minimum=1)
    seen = evaluations(tables, by)
    if len(seen.values) < window:
        return None
    means = np.lib.stride_tricks.sliding_window_view(seen.values, window).mean(axis=1)
    met = np.flatnonzero(means >= target if by == "accuracy" else means <= target)
    if not len(met):
        return None
    at = int(met[0]) + window - 1
    return Reached(int(seen.rounds[at]), float(seen.seconds[at]))


def total(tables: RunTables) -> Reached:
    """Rounds and virtual seconds of the whole run.

    >>> from enlist.runs.example import example_run
    >>> total(example_run())
    Reached(rounds=8, seconds=116.87868671417023)
    """
    ends = tables.rounds["end"]
    return Reached(len(ends), float(ends[-1]) if len(ends) else 0.0)


def counts_energy(tables: RunTables) -> bool:
    """Whether a run counts the joules that clients spend.

    >>> from enlist.runs.example import example_run
    >>> counts_energy(example_run())
    False
    """
    return ENERGY in tables.rounds and bool(np.isfinite(tables.rounds[ENERGY]).any())


def energy_until(tables: RunTables, rounds: int) -> float:
    """Joules that clients have spent in the first `rounds` rounds; NaN if energy is not counted.

    >>> from enlist.runs.example import example_run
    >>> energy_until(example_run(), 3)
    nan
    """
    return float(np.nansum(tables.rounds[ENERGY][:rounds])) if counts_energy(tables) else math.nan


def times_selected(tables: RunTables) -> IntArray:
    """(clients,) how often each was selected.

    >>> from enlist.runs.example import example_run
    >>> times_selected(example_run()).sum()
    np.int64(32)
    """
    return np.bincount((requests(tables) % tables.count).astype(np.int64), minlength=tables.count)


def requests(tables: RunTables) -> FloatArray:
    """Every request to a client that is known to have ended: its round times the number of clients, plus the client.

    >>> from enlist.runs.example import example_run
    >>> len(requests(example_run()))
    32
    """
    asked = tables.participations["selected_in"] * tables.count + tables.who
    return np.sort(asked[first_rows(tables)]) if tables.asynchronous else np.unique(asked)


def first_rows(tables: RunTables) -> BoolArray:
    """(participations,) rows that end a request; an update that came after the server gave up has a second row.

    >>> from enlist.runs.example import example_run
    >>> first_rows(example_run()).sum()
    np.int64(32)
    """
    told = tables.participations
    if not tables.asynchronous:
        return np.asarray(told["round"] == told["selected_in"])
    request, late = told["selected_in"] * tables.count + tables.who, told["outcome"] == "late"
    _, first, group = np.unique(request, return_index=True, return_inverse=True)
    given_up = np.full(len(first), len(request))  # a client may be selected twice in a step: only later rows are of it
    np.minimum.at(given_up, group[late], np.flatnonzero(late))
    in_time = np.arange(len(request)) < given_up[group]
    return np.asarray(late | (in_time & (told["outcome"] != "arrived")))


def times_completed(tables: RunTables) -> IntArray:
    """(clients,) number of updates of each that were merged, in time or later.

    >>> from enlist.runs.example import example_run
    >>> times_completed(example_run())
    array([4, 0, 2, 3, 7, 0, 4, 3, 3, 1, 0, 1])
    """
    return np.bincount(tables.who[was_merged(tables)], minlength=tables.count)


def was_merged(tables: RunTables) -> BoolArray:
    """(participations,) whether the update was merged, in time or later.

    In a real federation a late update may arrive for the selector alone, and a round may be skipped: there the
    weight decides.

    >>> from enlist.runs.example import example_run
    >>> was_merged(example_run()).sum()
    np.int64(28)
    """
    updates: BoolArray = np.isin(tables.participations["outcome"], ("completed", "arrived"))
    if not tables.federation or "weight" not in tables.participations:
        return updates
    nothing: BoolArray = tables.participations["weight"] == 0.0
    return updates & ~nothing


def jain(counts: Sequence[float] | IntArray) -> float:
    """Jain's index of evenness, (Σ x)² / (n Σ x²): 1 if all are equal, 1/n if one has everything.

    >>> jain([2, 2, 2]), jain([6, 0, 0])
    (1.0, 0.333...)
    """
    values = np.asarray(counts, dtype=float)
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else 1.0


def run_scores(tables: RunTables, by: str = "accuracy") -> dict[str, float]:
    """All scores of a run that need no target; NaN where the tables do not say.

    `final` is the mean of the last three evaluations, `last` the last of them, `best` the best of all; accuracies of
    clients and the user's metrics, if there are any, are means of the last three too. Shares of outcomes are shares of
    the selected clients; `coverage` is the share of clients with at least one merged update.

    >>> from enlist.runs.example import example_run
    >>> found = run_scores(example_run())
    >>> round(found["final"], 2), found["coverage"], found["late"]
    (0.73, 0.75, 0.0625)
    """
    rounds, seen = tables.rounds, evaluations(tables, by).values
    asked = float(np.nansum(rounds["selected"]))
    selected, completed = times_selected(tables), times_completed(tables)
    took = rounds["end"] - rounds["start"]
    best = np.max if by == "accuracy" else np.min
    found = {
        "rounds": float(total(tables).rounds),
        "time": total(tables).seconds,
        "final": final_mean(seen),
        "last": float(seen[-1]) if len(seen) else math.nan,
        "best": float(best(seen)) if len(seen) else math.nan,
        "round_time": float(took.mean()) if len(took) else math.nan,
        "selected": asked,
        "coverage": float((completed > 0).mean()),
        "jain": jain(completed),
        "jain_selected": jain(selected),
    }
    found |= {name: float(np.nansum(rounds[name])) / asked if asked else math.nan for name in OUTCOMES}
    for name in ("arrived", "bytes_down", "bytes_up"):
        found[name] = float(np.nansum(rounds[name])) if name in rounds else math.nan
    if counts_energy(tables):
        found[ENERGY] = float(np.nansum(rounds[ENERGY]))
    if tables.federation:  # there, late updates may also arrive only to teach the selector
        found["arrived"] = float((was_merged(tables) & (tables.participations["outcome"] == "arrived")).sum())
    return found | {name: final_mean(rounds[name][np.isfinite(rounds[name])]) for name in extra_columns([tables])}


def extra_columns(runs: Sequence[RunTables]) -> list[str]:
    """Columns about evaluations that only some runs have: accuracies of clients, and the user's metrics.

    >>> from enlist.runs.example import example_run
    >>> extra_columns([example_run()])
    []
    """
    names = dict.fromkeys(name for run in runs for name in run.rounds)
    return [name for name in names if name in FAIRNESS or name.startswith(METRIC)]


def final_mean(column: FloatArray) -> float:
    """Mean of the last three evaluations; NaN if nothing was evaluated. The one definition of a run's final score.

    >>> final_mean(np.array([0.1, np.nan, 0.5, 0.6, np.nan, 0.7]))
    0.6
    """
    known = column[~np.isnan(column)]
    return float(known[-LAST:].mean()) if len(known) else math.nan


def run_summary(tables: RunTables, target: float | None = None, window: int = 1) -> dict[str, Any]:
    """How a run ended: status, rounds, virtual seconds, accuracies, times to the target, shares of outcomes.

    `final` is the mean of the last three evaluations, `last` the last of them, `best` the best. The target is the
    configuration's, if none is given.

    >>> from enlist.runs.example import example_run
    >>> found = run_summary(example_run(), target=0.7)
    >>> found["status"], found["rounds"], found["rounds_to_target"], round(found["last"], 2)
    ('finished', 8, 6, 0.8)
    """
    by = measure([tables])
    scores, seen = run_scores(tables, by), evaluations(tables, by).values
    result = dict(tables.result or {})
    goal = {name: result.get(name) for name in ("target", "rounds_to_target", "time_to_target")}
    if target is not None:
        reached = time_to(tables, check_target(target, by), window, by)
        rounds, seconds = reached or (None, None)
        goal = {"target": float(target), "rounds_to_target": rounds, "time_to_target": seconds}
    if counts_energy(tables):
        there = goal["rounds_to_target"]
        goal["energy_to_target"] = None if there is None else energy_until(tables, there)
    found: dict[str, Any] = {
        "method": tables.selector,
        "seed": tables.seed,
        "status": result.get("status", "running"),
        "measure": by,
        "final": scores.pop("final"),
        "last": float(seen[-1]) if len(seen) else math.nan,
        "best": scores.pop("best"),
        **goal,
        **scores,
    }
    for name in ("rounds", "selected", "bytes_down", "bytes_up"):
        found[name] = int(found[name]) if math.isfinite(found[name]) else math.nan
    return found


def check_target(target: float, by: str = "accuracy") -> float:
    """The target itself, if it can be reached.

    >>> check_target(80)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: target is 80; accuracies lie between 0 and 1: perhaps 0.8 was meant.
    """
    if by == "accuracy" and 1 < target <= 100:
        raise InputError(f"target is {target:g}; accuracies lie between 0 and 1: perhaps {target / 100:g} was meant.")
    return checks.finite("target", target, 0.0, 1.0 if by == "accuracy" else math.inf)
