"""Results for documentation and tests: small problems are solved, all else is made up."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np

from enlist.streams import Streams
from enlist.studies.bsfl.claims_annealing import ANNEALING
from enlist.studies.bsfl.claims_arena import ARENA
from enlist.studies.bsfl.claims_problem import PROBLEM
from enlist.studies.bsfl.claims_regret import REGRET
from enlist.studies.bsfl.claims_training import TRAINING
from enlist.studies.bsfl.fits import SHAPES
from enlist.studies.bsfl.plan import experiments
from enlist.studies.bsfl.regret import NOTICEABLE, checkpoints
from enlist.studies.bsfl.settings import SCALES
from enlist.studies.bsfl.training import GRID
from enlist.studies.further import AGAIN
from enlist.studies.results import Group, Outcome, Results
from enlist.studies.study import Experiment

CLAIMS = (*PROBLEM, *ANNEALING, *REGRET, *ARENA, *TRAINING)
MORE = tuple(dict.fromkeys(claim.further.experiments for claim in CLAIMS))
LEVELS = {"bsfl": 0.8, "cs-ucb": 0.78, "cs-ucb-q": 0.77, "random": 0.75, "size-proportional": 0.76, "oort": 0.785}


@functools.cache
def example_results(lead: float = 0.02, shape: str = "√n", extras: tuple[str, ...] = ()) -> Results:
    """Results of every key of the scale "smoke" and of what claims may add.

    lead     how far BSFL is ahead in accuracy
    shape    how its regret grows; the others' is linear

    >>> example_results().keys("energy")
    ['energy', 'energy/small']
    """
    scale = SCALES["smoke"].chosen(extras=extras)
    listed = [each for more in (experiments, *MORE) for each in more(scale)]
    listed += [dataclasses.replace(each, seed=each.seed + 1) for each in listed if "train/" in each.key]
    wanted = {(each.key, each.seed): each for each in listed}
    outcomes = {place: example_outcome(**_found(each, lead, shape)) for place, each in wanted.items()}
    return Results.of([(each.key, each.settings, each.seed) for each in wanted.values()], outcomes)


def example_outcome(**found: Any) -> Outcome:
    """An outcome that holds this.

    >>> example_outcome(loss=np.array([0.5]), status="finished")["status"]
    'finished'
    """
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return Outcome({name: value for name, value in found.items() if name not in arrays}, arrays, 0.1)


def grown(shape: str, rounds: int) -> Group:
    """Two matches whose regret is exactly a shape of fits.SHAPES.

    >>> grown("n", 100).column("pseudo")[0, -1]
    np.float64(100.0)
    """
    at = checkpoints(rounds)
    curve = SHAPES[shape](at.astype(float))
    return Group("grown", {}, {seed: example_outcome(rounds=at, pseudo=curve) for seed in (0, 1)})


def _found(each: Experiment, lead: float, shape: str) -> dict[str, Any]:
    kind, _, rest = each.key.removeprefix(AGAIN).partition("/")
    rng = Streams(7).generator(each.key, each.seed)
    if kind in ("regret", "sensitivity", "growth", "fastest"):
        return _match(each, shape, rng)
    return _training(rest, lead, rng) if kind == "train" else dict(each.run(each.settings, each.seed, Path()))


def _match(each: Experiment, shape: str, rng: np.random.Generator) -> dict[str, Any]:
    clients, alpha = each.settings["clients"], each.settings["options"].get("alpha", 1.0)
    rounds = checkpoints(each.settings["rounds"])
    ours = each.settings["selector"].startswith("bsfl")
    pseudo = rng.uniform(0.9, 1.1) * SHAPES[shape if ours else "n"](rounds.astype(float))
    shares = np.sort(rng.uniform(0.0, 1.0, clients))[::-1]
    return {
        "rounds": rounds,
        "pseudo": pseudo,
        "printed": pseudo + 0.2 * rounds,
        **{f"noticeable/{level:g}": np.log(rounds) for level in NOTICEABLE},
        "early": np.full(clients, each.settings["k"] / clients),
        "late": shares,
        "fastest": float(shares[: each.settings["k"]].sum() / shares.sum()),
        "least_gap": 1e-4,
        "largest_gap": 2.9,
        "round_time": 0.1 + 0.005 * alpha + rng.normal(0, 1e-3),
        "jain": 0.8 + 0.001 * alpha,
        "least_selected": 0.01,
        "share_error": 0.1,
        "coverage": 1.0,
    }


def _training(rest: str, lead: float, rng: np.random.Generator) -> dict[str, Any]:
    task, _, method = rest.split("/")
    base = method.removesuffix("-printed").removesuffix("-default")
    level = LEVELS.get(base, 0.76) + (lead - 0.02 if base == "bsfl" else 0.0) + rng.normal(0, 1e-3)
    time = np.arange(1.0, GRID + 1)
    accuracy = level - 0.5 * np.exp(-time / 10.0)
    known = task != "linear"
    return {
        "time": time,
        "rounds": 100,
        "accuracy": accuracy if known else np.full(GRID, np.nan),
        "loss": 1.5 - accuracy,
        "end_accuracy": level if known else float("nan"),
        "end_loss": 1.5 - level,
        "round_time": 20.0,
        "jain": 0.8,
        "selected": np.arange(40),
    }
