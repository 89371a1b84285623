"""Made-up results of the study, for documentation and tests: nothing is trained."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from enlist.streams import Streams
from enlist.studies.darts.plan import experiments, further
from enlist.studies.darts.settings import CLIENTS, SCALES, K
from enlist.studies.results import Outcome, Results

LEVELS = {"select/random": 0.6, "select/printed": 0.62, "select/default": 0.65}


@functools.cache
def example_results(rounds: int = 20, seeds: int = 2) -> Results:
    """Results of every key of the scale "smoke", further ones included, as if UCB were a little better than random.

    >>> example_results().keys("select")
    ['select/random', 'select/printed', 'select/default']
    """
    scale = SCALES["smoke"].chosen(seeds=seeds)
    wanted = [*experiments(scale), *further(scale)]
    outcomes = {}
    for number, each in enumerate(wanted):
        rng = Streams(7).generator("example", number)
        alone = _ALONE.get(each.key.removeprefix("further/"))
        found = alone(each.settings, rng) if alone else _federation(each.key, rounds, rng)
        outcomes[each.key, each.seed] = example_outcome(**found)
    return Results.of([(each.key, each.settings, each.seed) for each in wanted], outcomes)


def example_outcome(**found: Any) -> Outcome:
    """An outcome that holds this.

    >>> example_outcome(accuracy=np.array([0.5]), status="finished")["status"]
    'finished'
    """
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return Outcome({name: value for name, value in found.items() if name not in arrays}, arrays, 0.1)


def _federation(key: str, rounds: int, rng: np.random.Generator) -> dict[str, Any]:
    level, numbers = LEVELS.get(key, 0.6), np.arange(rounds)
    who = np.array([rng.choice(CLIENTS, K, replace=False) for _ in numbers])
    if key == "select/printed":
        who = (K * numbers[:, None] + np.arange(K)) % CLIENTS
    return {
        "accuracy": level - 0.3 * np.exp(-numbers / 4.0) + rng.normal(0, 0.02, rounds),
        "end": 30.0 * (numbers + 1.0),
        "duration": rng.uniform(10, 50, rounds),
        "who": who,
        "selected": np.bincount(who.ravel(), minlength=CLIENTS),
        "local_accuracy": np.full((rounds, K), 0.9),
        "local_loss": np.full((rounds, K), 0.4),
        "latency": rng.uniform(5, 50, (rounds, K)),
        "samples": np.arange(1.0, CLIENTS + 1) * 20,
        "quality": np.where(np.arange(CLIENTS) < 4, 0.0, 1.0),
    }


def _data(settings: Any, rng: np.random.Generator) -> dict[str, Any]:
    counts = np.zeros((CLIENTS, 10), dtype=np.int64)
    counts[np.arange(CLIENTS), np.arange(CLIENTS) % 10] = np.array([12, *[100] * 9, 150, 340])
    counts[0, 5] = 8
    return {"counts": counts, "class_names": [str(label) for label in range(10)]}


def _profile(settings: Any, rng: np.random.Generator) -> dict[str, Any]:
    sizes = np.array(settings["sizes"])
    batch, client = np.tile(sizes, CLIENTS), np.repeat(np.arange(CLIENTS), len(sizes))
    samples = 20 * (client + 1)
    steps = -(-samples // batch)
    taken = (1e-3 * steps + 1e-5 * samples)[:, None] * rng.uniform(0.9, 1.1, (len(batch), settings["passes"]))
    return {
        "batch": batch,
        "client": client,
        "samples": samples,
        "steps": steps,
        "passes": taken,
        "memory": 4_000 * np.minimum(batch, samples),
        "accuracy": 0.95 - 0.001 * np.abs(batch - 16),
        "loss": 0.1 + 0.01 * batch,
        "latency": samples / 10.0,
        "machine": "a machine",
    }


def _minibatches(settings: Any, rng: np.random.Generator) -> dict[str, Any]:
    shape = (len(settings["sizes"]), CLIENTS, settings["steps"])
    return {"accuracy": np.broadcast_to(1.0 - 0.9 * np.exp(-np.arange(shape[2]) / 3.0), shape).copy()}


def _server(settings: Any, rng: np.random.Generator) -> dict[str, Any]:
    times = [0.1 * count**0.5 for count in settings["clients"]]
    return {"choosing": dict.fromkeys(settings["selectors"], times), "evaluation": 3.0 + rng.normal(0, 0.01)}


_ALONE = {"data": _data, "profile": _profile, "minibatches": _minibatches, "server": _server}
