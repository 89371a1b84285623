"""Experiments in the simulator: a selector trains for a given virtual time (Figs. 5 to 10)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from enlist.studies.bsfl.settings import IID, SCALE, Method
from enlist.studies.experiments import simulation
from enlist.studies.study import Settings
from enlist.typing import FloatArray

GRID = 60
"""Points in time, evenly spaced, at which curves are kept."""
LAST = 0.1
"""The end is the mean over the evaluations in this last part of the budget."""
RANDOM_ROUND = {5 / 20: 44.0, 25 / 500: 86.0}
"""Virtual seconds of a round of random selection, as measured, by share of clients."""
MANY = 1_000_000
LINEAR = {"name": "linear-regression", "features": 50, "samples": 400, "noise": 0.5}
"""20 samples per client and 50 inputs: nobody, and no five together, can do without the others."""
PLENTY = {**LINEAR, "samples": 8_000}


def train(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """A simulation that ends when config.rounds.seconds have passed.

    (GRID,): `time`, and `accuracy` and `loss` on the test set as last evaluated by then (NaN before the first time).
    Numbers: `end_accuracy` and `end_loss`, means over the evaluations in the last tenth of the time; `rounds`,
    `round_time`, `jain` of the times selected; `selected` (clients,).

    >>> import tempfile
    >>> rounds = {"rounds": 100, "seconds": 400.0, "k": 3}
    >>> config = {"data": {"clients": 8}, "devices": {"kind": "mixture"}, "rounds": rounds, "evaluation": {"every": 1}}
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = train({"selector": "random", "config": config}, 1, Path(place))
    >>> found["accuracy"].shape, found["rounds"] > 3, 0 < found["end_accuracy"] <= 1
    ((60,), True, True)
    """
    from enlist.runs.scores import jain

    found = simulation(settings, seed, folder)
    seconds = float(settings["config"]["rounds"]["seconds"])
    time = seconds * np.arange(1, GRID + 1) / GRID
    kept: dict[str, Any] = {"time": time, "rounds": found["rounds"], "selected": found["selected"]}
    for name in ("accuracy", "loss"):
        kept[name] = stepwise(found["end"], found[name], time)
        kept[f"end_{name}"] = ending(found["end"], found[name], seconds)
    kept["round_time"] = found["time"] / found["rounds"]
    kept["jain"] = jain(found["selected"])
    return kept


def stepwise(ends: FloatArray, values: FloatArray, time: FloatArray) -> FloatArray:
    """What was last known by each point in time; NaN before anything was.

    >>> stepwise(np.array([1.0, 2.0, 3.0]), np.array([0.5, np.nan, 0.7]), np.array([0.5, 2.5, 3.0]))
    array([nan, 0.5, 0.7])
    """
    known = np.isfinite(values)
    places = np.searchsorted(ends[known], time, side="right") - 1
    if not known.any():
        return np.full(len(time), np.nan)
    return np.where(places >= 0, values[known][np.maximum(places, 0)], np.nan)


def ending(ends: FloatArray, values: FloatArray, seconds: float) -> float:
    """Mean of the evaluations in the last tenth of the time, or the last one before that.

    A round that outlasts the budget by no more than a round counts, as it had begun before.

    >>> ending(np.array([50.0, 95.0, 104.0]), np.array([0.5, 0.6, 0.8]), 100.0)
    0.7
    """
    known = np.isfinite(values)
    if not known.any():
        return float("nan")
    late = known & (ends >= (1.0 - LAST) * seconds)
    return float(values[late].mean()) if late.any() else float(values[known][-1])


def linear_config(scenario: str, rounds: int, data: Mapping[str, Any] = LINEAR) -> dict[str, Any]:
    """Linear regression, 5 of 20 clients; in the non-iid scenario sizes are lognormal.

    >>> linear_config(IID, 100)["rounds"]["seconds"]
    4400.0
    """
    partition: Any = "iid" if scenario == IID else {"kind": "lognormal", "sigma": 1.0, "min_size": 2}
    return _config(
        scenario,
        {"dataset": dict(data), "clients": 20, "partition": partition},
        {"name": "linear"},
        {"batch": 10, "lr": 0.01},
        {"k": 5, "seconds": rounds * RANDOM_ROUND[5 / 20]},
        every=2,
    )


def image_config(part: Mapping[str, Any], dataset: str, model: Mapping[str, Any], scenario: str) -> dict[str, Any]:
    """Pictures with a model; in the non-iid scenario sizes are lognormal and labels Dirichlet(0.3).

    >>> from enlist.studies.bsfl.settings import NON_IID
    >>> part = {"clients": 500, "k": 25, "rounds": 50, "every": 5}
    >>> image_config(part, "digits", {"name": "mlp"}, NON_IID)["rounds"]["seconds"]
    4300.0
    """
    partition = {"kind": "iid", "balanced": True}
    if scenario != IID:
        partition = {"kind": "dirichlet-lognormal", "alpha": 0.3, "sigma": 1.0}
    return _config(
        scenario,
        {"dataset": {"name": dataset}, "clients": part["clients"], "partition": partition},
        dict(model),
        {"batch": 20, "lr": 0.05},
        {"k": part["k"], "seconds": part["rounds"] * RANDOM_ROUND[25 / 500]},
        part["every"],
    )


def settings_for(method: Method, scenario: str, config: Mapping[str, Any], device: str = "") -> dict[str, Any]:
    """Settings of `train` for a method.

    >>> from enlist.studies.bsfl.settings import METHODS, NON_IID
    >>> settings_for(METHODS["bsfl-printed"], NON_IID, linear_config(NON_IID, 9))["selector"]
    'bsfl:paper'
    """
    own = {"selector": method.selector, "config": {**config, "selector": method.section(scenario)}}
    return {**own, "device": device} if device else own


def _config(
    scenario: str,
    data: Mapping[str, Any],
    model: Mapping[str, Any],
    training: Mapping[str, Any],
    rounds: Mapping[str, Any],
    every: int,
) -> dict[str, Any]:
    """What all have in common: BSFL's latencies, the deadline, and how updates are averaged.

    Who is selected in proportion to its size must not be weighted by it as well: in the non-iid scenario, where all
    methods of the paper go by size, every update weighs the same.
    """
    weights = "samples" if scenario == IID else "uniform"
    return {
        "data": {**data, "validation": 0.0},
        "devices": {"kind": "mixture", "scale": SCALE},
        "model": model,
        "training": training,
        "server": {"aggregation": {"kind": "mean", "weights": weights}},
        "rounds": {"rounds": MANY, "deadline": SCALE, **rounds},
        "evaluation": {"every": every},
    }
