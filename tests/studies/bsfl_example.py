"""Results of the BSFL study for tests: small problems are solved, matches and trainings are made up."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from enlist.streams import Streams
from enlist.studies.bsfl import STUDY
from enlist.studies.bsfl.experiments import bold_cs_ucb, checkpoints, experiments, genies
from enlist.studies.further import AGAIN
from enlist.studies.results import Output, Replicates, Results
from enlist.studies.study import Experiment

SHAPES = {"ln n": np.log, "√n": np.sqrt, "n": lambda n: n}
LEVELS = {"bsfl": 0.8, "bsfl-default": 0.8, "cs-ucb": 0.78, "cs-ucb-q": 0.77, "oort": 0.785}


@functools.cache
def example_results(lead: float = 0.02, shape: str = "√n", extras: tuple[str, ...] = ()) -> Results:
    """Results of every key of the scale "smoke" and of what claims may add, at least two seeds of each.

    lead     how far BSFL is ahead in accuracy
    shape    how its regret grows; that of others is linear
    """
    scale = STUDY.scale("smoke", extras=extras)
    further = [each for claim in STUDY.claims for each in claim.further.experiments(scale)]
    found: dict[str, Replicates] = {}
    for each in (*experiments(scale), *bold_cs_ucb(scale), *genies(scale), *further):
        seeds = {each.seed, each.seed + 1} if "train/" in each.key else {each.seed}
        outputs = {seed: output(_found(each, seed, lead, shape)) for seed in seeds}
        known = found.get(each.key)
        found[each.key] = Replicates(each.key, each.settings, {**(known.outputs if known else {}), **outputs})
    return Results(found)


def output(found: Mapping[str, Any]) -> Output:
    """An output that holds this."""
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return Output({name: value for name, value in found.items() if name not in arrays}, arrays, 0.1)


def group(key: str, *found: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> Replicates:
    """A group of so many seeds."""
    return Replicates(key, settings or {}, {seed: output(one) for seed, one in enumerate(found)})


def grown(key: str, shape: str, rounds: int = 20_000, least: float = 0.5, times: float = 1.0) -> Replicates:
    """Two matches, 5 of 20 clients, whose regret is exactly a shape."""
    at = checkpoints(rounds)
    curve = times * SHAPES[shape](at.astype(float))
    one = {"rounds": at, "pseudo": curve, "counted": curve, "printed": curve, "least": least, "most": 2.8}
    return group(key, one, one, settings={"clients": 20, "k": 5, "rounds": rounds})


def changed(results: Results, *groups: Replicates) -> Results:
    """The results with some groups in place of others."""
    return Results({**results.groups, **{each.key: each for each in groups}})


def _found(each: Experiment, seed: int, lead: float, shape: str) -> dict[str, Any]:
    kind, *rest = each.key.removeprefix(AGAIN).split("/")
    rng = Streams(7).generator(each.key, seed)
    if kind in ("regret", "alpha"):
        return _match(each, shape, rng)
    return _training(rest[0], rest[2], lead, rng) if kind == "train" else dict(each.run(each.settings, seed, Path()))


def _match(each: Experiment, shape: str, rng: np.random.Generator) -> dict[str, Any]:
    clients, k, alpha = each.settings["clients"], each.settings["k"], each.settings["reward"].get("alpha", 1.0)
    rounds = checkpoints(each.settings["rounds"])
    ours = each.settings["selector"].startswith("bsfl")
    pseudo = rng.uniform(0.9, 1.1) * SHAPES[shape if ours else "n"](rounds.astype(float))
    late = np.sort(rng.uniform(0.0, 1.0, clients))[::-1]
    return {
        "rounds": rounds,
        "pseudo": pseudo,
        "counted": pseudo,
        "printed": pseudo + 0.2 * rounds,
        "late": late,
        "fastest": float(late[:k].sum() / late.sum()),
        "least": 1e-4,
        "most": 2.9,
        "round_time": 0.1 + 0.005 * alpha + rng.normal(0, 1e-3),
        "jain": 0.8 + 0.001 * alpha,
    }


def _training(task: str, method: str, lead: float, rng: np.random.Generator) -> dict[str, Any]:
    ahead = lead - 0.02 if method in ("bsfl", "bsfl-default") else 0.0
    level = LEVELS.get(method, 0.75) + ahead + rng.normal(0, 1e-3)
    end = 4.3 * np.arange(1.0, 61.0)
    accuracy = level - 0.5 * np.exp(-np.arange(60.0) / 5.0)
    return {
        "round": np.arange(1.0, 61.0),
        "end": end,
        "accuracy": accuracy if task != "linear" else np.full(60, np.nan),
        "loss": 1.5 - accuracy,
        "selected": np.arange(1, 41),
    }
