"""What the study runs.

On the problem of Eq. 13: `targets`, `exact`, `graph`, `degrees/<n>-<k>`, `energy/<temperature>/<walker>` and
`race/<temperature>/<walker>`. In the arena: `regret/<world>/<scenario>/<method>` and `alpha/<preset>/<value>`. In the
simulator: `train/<task>/<scenario>/<method>`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.typing import IntArray
from enlist.arena.genie import BSFLReward, make
from enlist.arena.play import Match, Rules
from enlist.arena.scenarios import scenario as named
from enlist.arena.worlds import World
from enlist.studies.bsfl.annealing import (
    ALSA,
    CODE,
    DEGREES,
    GRAPH,
    ONE_SIDED,
    PRINTED,
    RACES,
    SA,
    degrees,
    energy,
    exact,
    graph,
    race,
    targets,
)
from enlist.studies.bsfl.settings import (
    ALPHAS,
    APPENDIX,
    CIFAR,
    COUNTED,
    DEADLINE,
    EXISTING,
    IID,
    LARGE,
    NON_IID,
    PAPERS,
    RIVALS,
    SMALL,
    TWO_SPEEDS,
    WORLDS,
    images_of,
    reward,
    seeds_of,
    text,
)
from enlist.studies.experiments import simulation
from enlist.studies.study import Experiment, Scale, Settings, over_seeds

RANDOM_ROUND = {SMALL: 44.0, LARGE: 86.0}
"""Virtual seconds of a round of random selection, as measured, with 5 of 20 and with 25 of 500 clients."""
LINEAR = {"name": "linear-regression", "features": 50, "samples": 400, "noise": 0.5}
"""20 samples per client and 50 inputs: nobody, and no five together, can do without the others."""


def played(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """A match: `selector` plays `rounds` in a `scenario` of `clients`, `k` a round, under a `reward`.

    (points,): `rounds`, cumulated `pseudo` and `printed` regret, and `counted`, that of rounds that lost at least
    COUNTED. (clients,): `late`, the share of the last tenth of the rounds that each took part in, fastest first.
    Numbers: `least` loss of a round that lost anything, `most` (Eq. 14's bound on any), `fastest` (share of the last
    tenth's picks that went to the k fastest), `round_time`, `jain`.

    >>> plan = {"scenario": "slow-minority", "clients": 20, "k": 5, "rounds": 50, "reward": {}}
    >>> found = played(plan | {"selector": "bsfl+alpha=3"}, 1, Path())
    >>> int(found["rounds"][-1]), bool(found["counted"][-1] <= found["pseudo"][-1]), len(found["late"])
    (50, True, 20)
    """
    rounds, k = settings["rounds"], settings["k"]
    world = _world(settings["scenario"], settings["clients"], rounds, seed)
    judge = BSFLReward(**settings["reward"])
    match = Match(make(settings["selector"], world, judge, seed), world, Rules(k), judge)
    losses, printed = np.empty(rounds), np.empty(rounds)
    tenth = max(rounds // 10, 1)
    before = np.zeros(world.count, dtype=np.int64)
    for number in range(rounds):
        if number == rounds - tenth:
            before = match.selected.copy()
        so_far = match.sums["pseudo"]
        match.step()
        losses[number], printed[number] = match.sums["pseudo"] - so_far, match.sums["printed"]
    losses[losses < 1e-9] = 0.0  # rounding
    speed = world.truth(1).speed
    late = (match.selected - before)[np.argsort(-speed, kind="stable")] / tenth
    lost = losses[losses > 0]
    at = checkpoints(rounds) - 1
    scores = match.scores()
    return {
        "rounds": at + 1,
        "pseudo": losses.cumsum()[at],
        "counted": np.where(losses >= COUNTED, losses, 0.0).cumsum()[at],
        "printed": printed[at],
        "late": late,
        "fastest": float(late[:k].sum() / late.sum()),
        "least": float(lost.min()) if len(lost) else COUNTED,
        "most": float(2.0 * judge.alpha + speed.max() - speed.min()),
        **{name: scores[name] for name in ("round_time", "jain")},
    }


@functools.lru_cache(maxsize=16)
def _world(name: str, clients: int, rounds: int, seed: int) -> World:
    """A world, kept for the next selector: its true means take longer than a short match."""
    return World(named(name), clients, rounds, seed)


def checkpoints(rounds: int) -> IntArray:
    """Rounds, evenly spaced on a logarithmic and on a linear axis, with a quarter and a half of all of them.

    >>> checkpoints(8)
    array([1, 2, 3, 4, 5, 6, 7, 8])
    """
    spaced = [np.geomspace(1, rounds, 80), np.linspace(1, rounds, 40)]
    return np.unique(np.concatenate([*spaced, [max(rounds // 4, 1), max(rounds // 2, 1), rounds]]).astype(int))


def config(task: str, scenario: str, part: Mapping[str, Any], images: str) -> dict[str, Any]:
    """A training for a given virtual time; sizes (lognormal) and labels (Dirichlet 0.3) differ if not iid.

    Who is selected in proportion to its size must not be weighted by it as well: in the non-iid scenario, where all
    methods of the paper go by size, every update weighs the same.

    >>> config("linear", IID, {"clients": 20, "k": 5, "rounds": 100, "every": 2}, "digits")["rounds"]["seconds"]
    4400.0
    """
    linear, clients = task == "linear", part["clients"]
    uneven: dict[str, Any] = {"kind": "dirichlet-lognormal", "alpha": 0.3, "sigma": 1.0}
    if linear:
        uneven = {"kind": "lognormal", "sigma": 1.0, "min_size": 2}
    even: dict[str, Any] = {"kind": "iid"} if linear else {"kind": "iid", "balanced": True}
    dataset = dict(LINEAR) if linear else {"name": CIFAR if task == CIFAR else images}
    noise = {"label_noise": {"share": 0.3, "low": 0.6, "high": 1.0}} if task == "quality" else {}
    seconds = part["rounds"] * RANDOM_ROUND[SMALL if linear else LARGE]
    return {
        "data": {
            "dataset": dataset,
            "clients": clients,
            "partition": even if scenario == IID else uneven,
            "validation": 0.0,
            **noise,
        },
        "devices": {"kind": "mixture", "scale": DEADLINE},
        **({"availability": {"kind": "bernoulli", "slot": 300.0}} if task == "part-time" else {}),
        "model": _model(task, part),
        "training": {"batch": 10, "lr": 0.01} if linear else {"batch": 20, "lr": 0.05},
        "server": {"aggregation": {"kind": "mean", "weights": "samples" if scenario == IID else "uniform"}},
        "rounds": {"rounds": 1_000_000, "deadline": DEADLINE, "k": part["k"], "seconds": seconds},
        "evaluation": {"every": part["every"]},
    }


def _model(task: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """A small CNN where channels are given, the paper's kind (with dropout) where they are not."""
    if task == "linear":
        return {"name": "linear"}
    if task not in ("cnn", "cnn-dropout", CIFAR):
        return {"name": "mlp", "hidden": [64]}
    sizes = {name: part[name] for name in ("channels", "kernel", "padding") if part.get(name)}
    plain = task != "cnn-dropout" and "channels" in sizes
    return {"name": "cnn" if plain else "cnn-dropout", **sizes}


def train_key(task: str, scenario: str, method: str) -> str:
    """The key of a training.

    >>> train_key("mlp", IID, "oort")
    'train/mlp/iid/oort'
    """
    return f"train/{task}/{scenario}/{method}"


def trained(
    scale: Scale, task: str, scenario: str, methods: Mapping[str, str] | Iterable[str], part: str = ""
) -> list[Experiment]:
    """Trainings seed by seed, because a seed is a population that the next can use; methods by key, or key -> text."""
    own = scale.settings[part or task]
    size = SMALL if task == "linear" else LARGE
    texts = methods if isinstance(methods, Mapping) else {each: text(each, size, scenario) for each in methods}
    settings = {"config": config(task, scenario, own, images_of(scale))}
    if "device" in scale.settings:
        settings["device"] = scale.settings["device"]
    cost = {"linear": 0.5, "cnn": 80.0, "cnn-dropout": 640.0, CIFAR: 85.0}.get(task, 5.0)
    seconds = 0.1 + cost * own["rounds"] / 50 * own["clients"] / (20 if task == "linear" else 500)
    return [
        Experiment(train_key(task, scenario, key), seed, {"selector": written, **settings}, simulation, seconds)
        for seed in seeds_of(scale, part or task)
        for key, written in texts.items()
    ]


def matched(
    scale: Scale, world: str, scenario: str, methods: Iterable[str], changed: Mapping[str, str] | None = None
) -> list[Experiment]:
    """Matches in the arena; `changed` names methods with other settings than theirs, by key."""
    own = scale.settings[world]
    texts = {each: text(each, world, scenario) if each != "genie" else each for each in methods} | dict(changed or {})
    seconds = 0.03 + own["rounds"] * (6.5e-4 + 4e-7 * own["clients"])
    return [
        each
        for key, written in texts.items()
        for each in over_seeds(
            f"regret/{world}/{scenario}/{key}",
            played,
            {
                "scenario": WORLDS[world, scenario],
                **{name: own[name] for name in ("clients", "k", "rounds")},
                "reward": reward(key, world, scenario),
                "selector": written,
            },
            seeds_of(scale, world),
            seconds,
        )
    ]


def _solved(scale: Scale) -> list[Experiment]:
    own, seeds = scale.settings, seeds_of(scale)
    races = {"sizes": [list(size) for size in RACES], "instances": own["instances"], "steps": own["steps"]}
    found = [
        *over_seeds("targets", targets, {"populations": own["populations"]}, seeds, 0.1),
        *over_seeds("exact", exact, {"brute": own["brute"]}, seeds, 0.3),
        *over_seeds("graph", graph, dict(zip(("clients", "k"), GRAPH, strict=True)), seeds, 0.1),
    ]
    for clients, k in DEGREES:
        settings = {"clients": clients, "k": k, "states": own["states"]}
        found += over_seeds(f"degrees/{clients}-{k}", degrees, settings, seeds, 5e-5 * own["states"])
    for temperature in (PRINTED, CODE):
        for walker in (SA, ALSA, ONE_SIDED):
            walking = {"temperature": temperature, "walker": walker}
            settings, seconds = {**own["energy"], **walking}, 8e-5 * own["energy"]["steps"]
            found += over_seeds(f"energy/{temperature}/{walker}", energy, settings, seeds, seconds)
            if walker != SA:
                seconds = 1e-4 * own["steps"] * own["instances"] * len(RACES)
                found += over_seeds(f"race/{temperature}/{walker}", race, {**races, **walking}, seeds, seconds)
    small = {
        "clients": GRAPH[0],
        "k": GRAPH[1],
        "steps": own["energy"]["steps"],
        "walker": ALSA,
        "temperature": PRINTED,
    }
    return [*found, *over_seeds("energy/small/alsa", energy, small, seeds, 8e-5 * small["steps"])]


def _alphas(scale: Scale) -> list[Experiment]:
    """What alpha trades, in the arena, at the large size and one at a time."""
    own = scale.settings["alpha"]
    found: list[Experiment] = []
    for preset, method in (("printed", "bsfl"), ("default", "bsfl-default")):
        for alpha in ALPHAS[preset]:
            settings = {
                "scenario": WORLDS[LARGE, IID],
                **{name: own[name] for name in ("clients", "k", "rounds")},
                "reward": reward(method, LARGE, IID) | {"alpha": alpha},
                "selector": text(method, LARGE, IID, alpha=alpha),
            }
            seconds = 0.03 + 8e-4 * own["rounds"]
            found += over_seeds(f"alpha/{preset}/{alpha:g}", played, settings, seeds_of(scale, "alpha"), seconds)
    return found


def experiments(scale: Scale) -> Sequence[Experiment]:
    """Everything that a scale runs.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> keys = dict.fromkeys(each.key for each in experiments(SCALES["laptop"]))
    >>> [key for key in keys if key.startswith("train/cnn/")][:2]
    ['train/cnn/non-iid/bsfl', 'train/cnn/non-iid/bsfl-default']
    """
    both = (IID, NON_IID)
    found = [*_solved(scale), *_alphas(scale)]
    for scenario in both:
        for world in (SMALL, TWO_SPEEDS):
            found += matched(scale, world, scenario, PAPERS[scenario])
        found += matched(scale, LARGE, scenario, PAPERS[scenario][:2])
    found += matched(scale, SMALL, IID, ["cs-ucb-default"])
    for scenario in both:
        found += trained(scale, "linear", scenario, PAPERS[scenario])
        everybody = dict.fromkeys((*PAPERS[scenario], *EXISTING[scenario], *APPENDIX))
        found += trained(scale, "mlp", scenario, tuple(everybody))
    alphas = {f"alpha={alpha:g}": text("bsfl", LARGE, NON_IID, alpha=alpha) for alpha in ALPHAS["printed"]}
    found += trained(scale, "mlp", NON_IID, alphas, part="curve")
    for scenario in both if scale.name == "paper" else (NON_IID,):
        found += trained(scale, "cnn", scenario, PAPERS[scenario])
        found += trained(scale, "cnn-dropout", scenario, ["bsfl", *RIVALS[scenario]])
    weighed = {each: text(each, LARGE, NON_IID) for each in ("bsfl", "bsfl-default")}
    found += trained(scale, "quality", IID, {**weighed, "bsfl-eq-3": text("bsfl", LARGE, IID)})
    found += trained(scale, "part-time", NON_IID, PAPERS[NON_IID])
    if scale.name == "paper" or CIFAR in scale.extras:
        for scenario in both:
            found += trained(scale, CIFAR, scenario, PAPERS[scenario])
    return found


def bold_cs_ucb(scale: Scale) -> Sequence[Experiment]:
    """Further: CS-UCB with a hundredth of its bonus, at the small size."""
    return matched(scale, SMALL, IID, [], {"cs-ucb-bold": text("cs-ucb", SMALL, IID, bonus_scale=0.01)})


def genies(scale: Scale) -> Sequence[Experiment]:
    """Further: the genie itself at the small size."""
    return matched(scale, SMALL, IID, ["genie"])
