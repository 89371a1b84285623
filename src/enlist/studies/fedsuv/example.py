"""Made-up results of the study, for documentation and tests: nothing is trained."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from enlist.streams import Streams
from enlist.studies.fedsuv.methods import FEDSUV
from enlist.studies.fedsuv.plan import experiments, trained_run
from enlist.studies.fedsuv.process import played
from enlist.studies.fedsuv.process_causes import PROCESS_CAUSES
from enlist.studies.fedsuv.settings import SCALES
from enlist.studies.fedsuv.training_causes import TRAINING_CAUSES
from enlist.studies.results import Outcome, Results
from enlist.studies.study import Experiment, Settings

LEVELS = {"fedavg": 0.80, "oort": 0.81, "fedsuv-printed": 0.6, "fedsuv": 0.79, "multiplied": 0.80}
"""Final accuracies; all others get 0.78."""


@functools.cache
def example_results() -> Results:
    """Results of every key of the scale "smoke", further ones included.

    >>> len(example_results().keys("process/0.1/"))
    27
    """
    scale = SCALES["smoke"]
    causes = (*TRAINING_CAUSES, *PROCESS_CAUSES)
    wanted = [*experiments(scale), *(each for cause in causes for each in cause.experiments(scale))]
    outcomes = {}
    for number, each in enumerate(wanted):
        rng, name = Streams(7).generator("example", number), each.key.rpartition("/")[2]
        outcomes[each.key, each.seed] = example_outcome(**_found(each, name, rng))
    return Results.of([(each.key, each.settings, each.seed) for each in wanted], outcomes)


def example_outcome(**found: Any) -> Outcome:
    """An outcome that holds this.

    >>> example_outcome(accuracy=np.array([0.5]), status="finished")["status"]
    'finished'
    """
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return Outcome({name: value for name, value in found.items() if name not in arrays}, arrays, 0.1)


def _found(experiment: Experiment, name: str, rng: np.random.Generator) -> dict[str, Any]:
    if experiment.run is trained_run:
        return _trained(name, rng)
    if experiment.run is played:
        return _played(name, experiment.settings, rng)
    return {"bound": np.full(3, 1.5)}


def _trained(name: str, rng: np.random.Generator) -> dict[str, Any]:
    numbers = np.arange(1.0, 7.0)
    accuracy = LEVELS.get(name, 0.78) * (1.0 - np.exp(-numbers)) + rng.normal(0, 0.01, 6)
    accuracy[::2] = np.nan
    came = 3.0 if name != "fedsuv-printed" else 1.0
    return {
        "round": numbers,
        "end": 5.0 * numbers,
        "accuracy": accuracy,
        "asked": np.full(6, 4.0),
        "completed": np.full(6, came),
        "late": np.full(6, 4.0 - came),
        "selected": rng.multinomial(24, np.full(40, 1 / 40)),
    }


def _played(name: str, settings: Settings, rng: np.random.Generator) -> dict[str, Any]:
    rounds, count, k = settings["rounds"], settings["clients"], settings["k"]
    validity, utility = rng.uniform(size=(2, count))
    weights = validity**4 * utility**4 if name in ("multiplied", "added", *FEDSUV) else np.ones(count)
    found = {
        "valued": float(np.average(validity * utility, weights=weights)) * k + rng.normal(0, 0.1, rounds),
        "regret": 0.3 / np.arange(1.0, rounds + 1) ** 2,
        "front": 0.3 / np.arange(1.0, rounds + 1) ** 2,
        "best": 0.9 * k,
        "validity": validity,
        "utility": utility,
        "selected": rng.multinomial(rounds * k, weights / weights.sum()),
    }
    watched = settings["selector"].startswith("fedsuv")
    return found | (_watched(settings, validity, utility) if watched else {})


def _watched(settings: Settings, validity: Any, utility: Any) -> dict[str, Any]:
    rounds, count, marks = settings["rounds"], settings["clients"], len(settings["marks"])
    along = np.arange(1.0, rounds + 1)
    stays = np.where(validity < 0.4, rounds // 3, rounds)
    examples = min(count, 24)
    half = 0.5 / np.arange(1.0, marks + 1)[:, None]
    centre = [np.broadcast_to(values[:examples], (marks, examples)) for values in (validity, utility)]
    corners = [np.clip(values + sign * half, 0.0, 1.0) for values in centre for sign in (-1.0, 1.0)]
    band = np.minimum((validity * 5).astype(int), 4)
    return {
        "candidate": stays,
        "active": np.array([np.bincount(band[stays >= at], minlength=5) for at in along]),
        "covered": np.tile([0.99, 1.0, 0.99], (rounds, 1)),
        "width": 1.4 / np.sqrt(along),
        "eliminated": np.tile([4, 0, 0], (rounds, 1)),
        "pruned": np.tile([1, 0], (rounds, 1)),
        "hopeless": np.tile([5, 3], (rounds, 1)),
        "rectangles": np.stack(corners, axis=2),
        "alive": np.tile(stays[:examples] > rounds // 2, (marks, 1)),
        "chosen": np.tile(np.arange(examples) < 4, (marks, 1)),
        "terms": 14.0 + np.log(along),
        "gap": 1e-3,
    }
