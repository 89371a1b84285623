"""The problem of Eq. 13: annealing by SA and ALSA, graphs of their neighbourhoods, an exact solver, targets of Eq. 4.

A state is a set S of k clients, its energy min of ucb over S plus (alpha/k) times the sum of g (Eq. 17).
"""

from __future__ import annotations

import itertools
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from enlist._internal.typing import BoolArray, FloatArray
from enlist.arena.genie import BSFLReward
from enlist.bandits import argmax_min_plus_sum, capped_shares, exhaustive, proportional_shares
from enlist.bandits.maxmin import objective
from enlist.bandits.sampling import uniform
from enlist.streams import Streams
from enlist.studies.study import Settings

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
    judge, counts = BSFLReward(beta=beta, normalised=normalised), np.arange(101)
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
