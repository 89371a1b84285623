"""What the study runs.

On the problem of Eq. 13: `targets`, `exact`, `graph`, `degrees/<n>-<k>`, `energy/<temperature>/<walker>` and
`race/<temperature>/<walker>`. In the arena: `regret/<world>/<scenario>/<method>` and `alpha/<preset>/<value>`. In the
simulator: `train/<task>/<scenario>/<method>`.

A state of Eq. 13 is a set S of k clients, its energy min of ucb over S plus (alpha/k) times the sum of g (Eq. 17).
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.arena.genie import Reward, make
from enlist.arena.play import Match, Rules
from enlist.arena.scenarios import scenario as named
from enlist.arena.worlds import World
from enlist.bandits import argmax_min_plus_sum, capped_shares, exhaustive, proportional_shares
from enlist.bandits.maxmin import objective
from enlist.bandits.sampling import uniform
from enlist.streams import Streams
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

SA, ALSA, ONE_SIDED = "sa", "alsa", "one-sided"
PRINTED, CODE = "printed", "code"
"""Temperatures: of Theorem 2, and of code that carries the paper's experiments."""
GRAPH = (8, 4)
DEGREES = ((8, 4), (20, 5), (50, 10), (100, 50), (500, 25), (500, 250))
RACES = ((20, 5), (50, 10), (100, 20), (200, 100), (500, 25))
SOLVED = ((500, 25), (5_000, 100), (100_000, 1_000))
TARGETS = ((20, 5), (500, 25))
BETAS = (1, 2, 3, 5)
SIMILAR = 0.1
"""Energies are similar if they differ by no more than this part of the range of energies."""
POINTS = 120
RANDOM_ROUND = {SMALL: 44.0, LARGE: 86.0}
"""Virtual seconds of a round of random selection, as measured, with 5 of 20 and with 25 of 500 clients."""
LINEAR = {"name": "linear-regression", "features": 50, "samples": 400, "noise": 0.5}
"""20 samples per client and 50 inputs: nobody, and no five together, can do without the others."""


def drawn(clients: int, k: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """ucb ~ U(0, 1) and g/k with g ~ U(-1, 1) of every client (alpha = 1); the paper does not print how it drew them.

    >>> keys, values = drawn(8, 4, np.random.default_rng(0))
    >>> keys.shape, bool(np.abs(values).max() <= 0.25)
    ((8,), True)
    """
    return rng.uniform(size=clients), rng.uniform(-1.0, 1.0, clients) / k


def swaps(keys: FloatArray, values: FloatArray, inside: BoolArray, kind: str) -> BoolArray:
    """(k, n - k) which member may leave a state for which outsider.

    sa          any for any (Eq. 18)
    alsa        the member of least ucb or least g for any, and any for an outsider that then has the least (Eq. 19)
    one-sided   only the former half of that, as in the code: neighbourhoods are not symmetric

    >>> keys, values = np.array([0.9, 0.8, 0.5, 0.1]), np.array([0.3, 0.1, 0.4, 0.5])
    >>> inside = np.array([True, True, False, False])
    >>> [int(swaps(keys, values, inside, kind).sum()) for kind in (SA, ALSA, ONE_SIDED)]
    [4, 4, 2]
    """
    members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    if kind == SA:
        return np.ones((len(members), len(others)), dtype=bool)
    allowed = np.zeros((len(members), len(others)), dtype=bool)
    allowed[[keys[members].argmin(), values[members].argmin()]] = True
    if kind == ALSA:
        allowed[:, (keys[others] < keys[members].min()) | (values[others] < values[members].min())] = True
    return allowed


def walk(
    keys: FloatArray, values: FloatArray, k: int, rng: np.random.Generator, steps: int, kind: str, temperature: str
) -> FloatArray:
    """(steps,) energies of the states that annealing is in (Eq. 16), from a random one.

    printed   D / ln(i + 1), D the largest difference of energies that this instance allows (Theorem 2)
    code      1 - ((i + 1) / steps)^0.02, which falls to 0

    >>> keys, values = np.array([0.9, 0.8, 0.5, 0.1]), np.array([-0.2, 0.1, 0.4, 0.45])
    >>> round(walk(keys, values, 2, np.random.default_rng(0), 200, ALSA, CODE).max(), 6)
    np.float64(1.0)
    """
    ranked = np.sort(values)
    spread = float(keys.max() - keys.min() + ranked[-k:].sum() - ranked[:k].sum())
    inside = np.zeros(len(keys), dtype=bool)
    inside[uniform(len(keys), k, rng)] = True
    energy = objective(keys, values, np.flatnonzero(inside))
    trace = np.empty(steps)
    for step in range(steps):
        members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
        choices = np.flatnonzero(swaps(keys, values, inside, kind))
        leaves, enters = divmod(int(choices[rng.integers(len(choices))]), len(others))
        inside[members[leaves]], inside[others[enters]] = False, True
        fresh = objective(keys, values, np.flatnonzero(inside))
        heat = spread / math.log(step + 2) if temperature == PRINTED else 1.0 - ((step + 1) / steps) ** 0.02
        if fresh >= energy or rng.uniform() < math.exp((fresh - energy) / max(heat, 1e-300)):
            energy = fresh
        else:
            inside[members[leaves]], inside[others[enters]] = True, False
        trace[step] = energy
    return trace


def energy(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """One walk on a drawn instance: (points,) `steps` and `energy`, the `optimum`, and what a `random` state has.

    >>> found = energy({"clients": 50, "k": 10, "steps": 100, "walker": SA, "temperature": CODE}, 1, Path())
    >>> found["energy"].shape, bool(found["random"] < found["energy"].max() <= found["optimum"])
    ((100,), True)
    """
    clients, k, steps = settings["clients"], settings["k"], settings["steps"]
    streams = Streams(seed)
    keys, values = drawn(clients, k, streams.generator("instance"))
    some = streams.generator("states")
    states = [objective(keys, values, uniform(clients, k, some)) for _ in range(100)]
    trace = walk(keys, values, k, streams.generator("walk"), steps, settings["walker"], settings["temperature"])
    points = np.unique(np.linspace(0, steps - 1, min(POINTS, steps)).astype(int))
    return {
        "steps": points + 1,
        "energy": trace[points],
        "best": float(trace.max()),
        "optimum": objective(keys, values, argmax_min_plus_sum(keys, values, k, streams.generator("ties"))),
        "random": float(np.mean(states)),
    }


def race(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """SA and a `walker` on many instances of each size, as many steps for both, at the same temperature.

    (sizes, instances): `sa` and `walker`, the best energies that each met, and `optimum`; `sizes` (sizes, 2).

    >>> plan = {"sizes": [[20, 5]], "instances": 3, "steps": 50, "walker": ALSA, "temperature": PRINTED}
    >>> found = race(plan, 1, Path())
    >>> found["sa"].shape, bool((found["walker"] <= found["optimum"] + 1e-12).all())
    ((1, 3), True)
    """
    found = {name: np.empty((len(settings["sizes"]), settings["instances"])) for name in ("sa", "walker", "optimum")}
    for row, (clients, k) in enumerate(settings["sizes"]):
        for column in range(settings["instances"]):
            streams = Streams(seed)
            rng = streams.generator("race", row, column)
            keys, values = drawn(clients, k, rng)
            found["optimum"][row, column] = objective(keys, values, argmax_min_plus_sum(keys, values, k, rng))
            for name, kind in (("sa", SA), ("walker", settings["walker"])):
                own = streams.generator(kind, row, column)
                trace = walk(keys, values, k, own, settings["steps"], kind, settings["temperature"])
                found[name][row, column] = trace.max()
    return {"sizes": np.array(settings["sizes"]), **found}


def graph(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """All states of a small instance with their edges in SA and in ALSA (Fig. 3).

    energy (states,), edges (edges, 2), kept (edges,): in ALSA, too. Shares of edges that are idle, as the paper says it
    (both ends below the median energy, or with similar energies): `idle_extra` of those that ALSA leaves out,
    `idle_kept` of the others, and `low_...`, `similar_...` of either kind alone; `connected`: ALSA's graph is in one.

    >>> found = graph({"clients": 8, "k": 4}, 1, Path())
    >>> found["energy"].shape, found["edges"].shape, found["connected"]
    ((70,), (560, 2), True)
    """
    clients, k = settings["clients"], settings["k"]
    keys, values = drawn(clients, k, Streams(seed).generator("instance"))
    states = list(itertools.combinations(range(clients), k))
    number: dict[tuple[int, ...], int] = {state: place for place, state in enumerate(states)}
    levels = np.array([objective(keys, values, np.array(state)) for state in states])
    pairs: list[tuple[int, int, bool]] = []
    for place, state in enumerate(states):
        inside = np.isin(np.arange(clients), state)
        allowed = swaps(keys, values, inside, ALSA)
        for (row, leaves), (column, enters) in itertools.product(enumerate(state), enumerate(np.flatnonzero(~inside))):
            neighbour = number[tuple(sorted({*state, int(enters)} - {leaves}))]
            if place < neighbour:
                pairs.append((place, neighbour, bool(allowed[row, column])))
    table = np.array(pairs)
    edges, kept = table[:, :2], table[:, 2].astype(bool)
    ends = levels[edges]
    low = (ends < np.median(levels)).all(axis=1)
    similar = np.abs(ends[:, 0] - ends[:, 1]) <= SIMILAR * np.ptp(levels)
    joined = coo_array((np.ones(int(kept.sum())), edges[kept].T), shape=(len(states), len(states)))
    shares = {
        f"{name}_{which}": float(share[mask].mean()) if mask.any() else 0.0
        for name, share in (("idle", low | similar), ("low", low), ("similar", similar))
        for which, mask in (("extra", ~kept), ("kept", kept))
    }
    connected = bool(connected_components(joined, directed=False)[0] == 1)
    return {"energy": levels, "edges": edges, "kept": kept, "connected": connected, **shares}


def degrees(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Neighbours of random states of one instance: `sa`, and ALSA's `mean` and `largest`.

    >>> found = degrees({"clients": 20, "k": 5, "states": 100}, 1, Path())
    >>> found["sa"], found["mean"] <= found["largest"]
    (75, True)
    """
    clients, k = settings["clients"], settings["k"]
    rng = Streams(seed).generator("degrees")
    keys, values = drawn(clients, k, rng)
    found = []
    for _ in range(settings["states"]):
        inside = np.zeros(clients, dtype=bool)
        inside[uniform(clients, k, rng)] = True
        found.append(int(swaps(keys, values, inside, ALSA).sum()))
    return {"sa": k * (clients - k), "mean": float(np.mean(found)), "largest": max(found)}


def exact(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """The exact solver: `wrong` of `brute` small instances against trying every set, and (sizes,) `seconds` at SOLVED.

    >>> found = exact({"brute": 5}, 1, Path())
    >>> found["wrong"], found["seconds"].shape
    (0, (3,))
    """
    rng = Streams(seed).generator("exact")
    wrong, seconds = 0, []
    for _ in range(settings["brute"]):
        clients = int(rng.integers(3, 13))
        k = int(rng.integers(1, clients))
        keys, values = drawn(clients, k, rng)
        ours, theirs = argmax_min_plus_sum(keys, values, k, rng), exhaustive(keys, values, k)
        wrong += abs(objective(keys, values, ours) - objective(keys, values, theirs)) > 1e-9
    for clients, k in SOLVED:
        keys, values = drawn(clients, k, rng)
        begun = time.perf_counter()
        argmax_min_plus_sum(keys, values, k, rng)
        seconds.append(time.perf_counter() - begun)
    return {"wrong": int(wrong), "seconds": np.array(seconds)}


def curve(clients: int, k: int, beta: float, normalised: bool = False) -> tuple[FloatArray, FloatArray]:
    """c/t and g (Eq. 3), for a client that was selected in 0, 1, ..., 100 of 100 rounds.

    >>> shares, values = curve(20, 5, beta=1)
    >>> float(values[0]), float(values[-1]), float(shares[np.argmin(np.abs(values))])
    (0.25, -0.75, 0.25)
    """
    judge, counts = Reward(beta=beta, normalised=normalised), np.arange(101)
    values = [judge.generalisation(np.full(clients, c), 100, k, np.ones(clients))[0] for c in counts.tolist()]
    return counts / 100, np.array(values)


def targets(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Targets of Eq. 4 in `populations` of lognormal sizes (sigma 1), with 5 of 20 and with 25 of 500 clients.

    (2, populations): the `largest` target as printed, and `capped`, with water-filling; `steepest` is the largest |g|
    of Eq. 3, and `falling` says whether that never rises.

    >>> found = targets({"populations": 10}, 1, Path())
    >>> found["largest"].shape, bool(found["capped"].max() <= 1), found["falling"]
    ((2, 10), True, True)
    """
    rng = Streams(seed).generator("targets")
    found = {name: np.empty((len(TARGETS), settings["populations"])) for name in ("largest", "capped")}
    for row, (clients, k) in enumerate(TARGETS):
        for column, sizes in enumerate(rng.lognormal(4.0, 1.0, (settings["populations"], clients))):
            found["largest"][row, column] = proportional_shares(sizes, float(k)).max()
            found["capped"][row, column] = capped_shares(sizes, float(k)).max()
    curves = [curve(clients, k, beta)[1] for clients, k in TARGETS for beta in BETAS]
    return {
        **found,
        "steepest": max(float(np.abs(each).max()) for each in curves),
        "falling": all(bool((np.diff(each) <= 0).all()) for each in curves),
    }


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
    judge = Reward(**settings["reward"])
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
