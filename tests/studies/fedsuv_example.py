"""Results of the FedSUV study for tests: small processes are played, trainings are made up."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from enlist.streams import Streams
from enlist.studies.fedsuv import STUDY
from enlist.studies.results import Output, Replicates, Results

LEVELS = {"fedavg": 0.80, "oort": 0.79, "fedsuv": 0.82, "default": 0.84}


def output(found: Mapping[str, Any]) -> Output:
    """An output that holds this."""
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return Output({name: value for name, value in found.items() if name not in arrays}, arrays, 0.1)


def group(key: str, *found: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> Replicates:
    """A group of so many seeds."""
    return Replicates(key, settings or {}, {seed: output(one) for seed, one in enumerate(found)})


def training(level: float, rise: float = 5.0, able: float = 0.7, rounds: int = 60) -> dict[str, Any]:
    """A training that rises to this accuracy, evaluated in every round of a hundred seconds."""
    at = np.arange(1.0, rounds + 1)
    return {
        "round": at,
        "end": 100.0 * at,
        "accuracy": level * (1.0 - np.exp(-at / rise)),
        "loss": np.full(rounds, 1.0 - level),
        "asked": np.full(rounds, 6.0),
        "completed": np.full(rounds, 4.0),
        "able": np.full(rounds, able),
        "selected": np.arange(1, 41),
    }


@functools.cache
def example_results() -> Results:
    """Results of every key of the scale "smoke", three seeds of each training."""
    found: dict[str, Replicates] = {}
    for each in STUDY.experiments(STUDY.scale("smoke")):
        if each.key.startswith(("train/", "regime/")):
            method = each.key.rpartition("/")[2]
            noise = Streams(7).generator(each.key).normal(0.0, 1e-3, 3)
            rise = 3.0 if method in ("fedsuv", "default") else 5.0
            made = [training(LEVELS.get(method, 0.78) + more, rise, 0.9 if rise < 5 else 0.7) for more in noise]
            found[each.key] = group(each.key, *made, settings=each.settings)
        elif each.key not in found:
            played = [dict(each.run(each.settings, seed, Path())) for seed in (each.seed, each.seed + 1)]
            found[each.key] = group(each.key, *played, settings=each.settings)
    return Results(found)


def changed(results: Results, *groups: Replicates) -> Results:
    """The results with some groups in place of others."""
    return Results({**results.groups, **{each.key: each for each in groups}})
