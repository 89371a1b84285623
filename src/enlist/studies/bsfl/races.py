"""Experiments on solvers of Eq. 13: SA and ALSA over steps (Fig. 4), who wins (98.3 %), and the exact solver."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from enlist.bandits import annealing, argmax_min_plus_sum, exhaustive
from enlist.bandits.maxmin import objective
from enlist.streams import Streams
from enlist.studies.bsfl.solving import ALSA, SA, drawn, met, walk
from enlist.studies.study import Settings
from enlist.typing import FloatArray

POINTS = 120
SMALL = 12
REPEATS = 3
WARM_UP = 4
"""Rounds of BSFL per client and place before an instance that it has met is taken."""


def energy(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """SA and ALSA on one drawn instance: energy of the state they are in, at some of the steps (Fig. 4).

    steps (points,), SA and ALSA (points,), `optimum`; `SA_best` and `ALSA_best` are the best they met, `SA_seconds`,
    `ALSA_seconds` and `exact_seconds` how long each took.

    >>> found = energy({"clients": 50, "k": 10, "steps": 100}, 1, Path())
    >>> found["SA"].shape, found["SA_best"] <= found["optimum"], found["ALSA_best"] <= found["optimum"]
    ((100,), True, True)
    """
    clients, k, steps = settings["clients"], settings["k"], settings["steps"]
    streams = Streams(seed)
    keys, values = drawn(clients, k, streams.generator("instance"))
    begun = time.perf_counter()
    chosen = argmax_min_plus_sum(keys, values, k, streams.generator("ties"))
    found: dict[str, Any] = {"exact_seconds": time.perf_counter() - begun}
    found["optimum"] = objective(keys, values, chosen)
    points = np.unique(np.linspace(0, steps - 1, min(POINTS, steps)).astype(int))
    found["steps"] = points + 1
    for name in (SA, ALSA):
        begun = time.perf_counter()
        best, trace = annealing(keys, values, k, streams.generator(name), steps, alsa=name == ALSA)
        found[f"{name}_seconds"] = time.perf_counter() - begun
        found[f"{name}_best"] = objective(keys, values, best)
        found[name] = trace[points]
    return found


def race(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """SA and ALSA on many instances of each size, as many steps for both.

    `source` says whether instances are "drawn" or "met" by BSFL; `heat` multiplies the temperature, `runner` is whom
    SA runs against, `head_start` how many steps SA has for each of the runner's. (sizes, instances): `sa`, `runner`
    (best energies) and `optimum`; `sizes` (sizes, 2).

    >>> found = race({"sizes": [[20, 5]], "instances": 3, "steps": 50, "source": "drawn"}, 1, Path())
    >>> found["sa"].shape, bool((found["runner"] <= found["optimum"] + 1e-12).all())
    ((1, 3), True)
    """
    sizes = [(int(clients), int(k)) for clients, k in settings["sizes"]]
    shape = (len(sizes), settings["instances"])
    found = {name: np.empty(shape) for name in ("sa", "runner", "optimum")}
    for row, (clients, k) in enumerate(sizes):
        for column in range(settings["instances"]):
            rng = Streams(seed).generator("race", row, column)
            if settings["source"] == "met":
                keys, values = met(clients, k, WARM_UP * -(-clients // k), int(rng.integers(2**31)))
            else:
                keys, values = drawn(clients, k, rng)
            found["optimum"][row, column] = objective(keys, values, argmax_min_plus_sum(keys, values, k, rng))
            for name, kind, times in (
                ("sa", SA, settings.get("head_start", 1)),
                ("runner", settings.get("runner", ALSA), 1),
            ):
                found[name][row, column] = _best(keys, values, k, rng, settings, kind, times * settings["steps"])
    return {"sizes": np.array(sizes), **found}


def _best(
    keys: FloatArray, values: FloatArray, k: int, rng: np.random.Generator, settings: Settings, kind: str, steps: int
) -> float:
    if "heat" in settings:
        return walk(keys, values, k, rng, steps, kind, settings["heat"])
    chosen = annealing(keys, values, k, rng, steps, alsa=kind == ALSA)[0]
    return objective(keys, values, chosen)


def exact(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """The exact solver: `wrong` of `instances` small ones against trying every set, and (sizes,) `seconds` at `sizes`.

    >>> found = exact({"instances": 5, "sizes": [[500, 25]]}, 1, Path())
    >>> found["wrong"], found["seconds"].shape
    (0, (1,))
    """
    rng = Streams(seed).generator("exact")
    wrong = 0
    for _ in range(settings["instances"]):
        clients = int(rng.integers(3, SMALL + 1))
        k = int(rng.integers(1, clients))
        keys, values = drawn(clients, k, rng)
        ours = objective(keys, values, argmax_min_plus_sum(keys, values, k, rng))
        wrong += abs(ours - objective(keys, values, exhaustive(keys, values, k))) > 1e-9
    seconds = []
    for clients, k in settings["sizes"]:
        keys, values = drawn(clients, k, rng)
        seconds.append(_swept(keys, values, k, rng))
    return {
        "wrong": int(wrong),
        "instances": settings["instances"],
        "sizes": np.array(settings["sizes"]),
        "seconds": np.array(seconds),
    }


def growing(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """How long trying every set takes, and how long the sweep, as instances grow.

    (small,): `every` and `sweep`, seconds at each of `small` sizes; (large,): `far`, the sweep's at `large` ones.

    >>> found = growing({"small": [[8, 4]], "large": [[500, 25]]}, 1, Path())
    >>> found["every"].shape, found["sweep"].shape, found["far"].shape
    ((1,), (1,), (1,))
    """
    rng = Streams(seed).generator("growing")
    small = [drawn(clients, k, rng) for clients, k in settings["small"]]
    large = [drawn(clients, k, rng) for clients, k in settings["large"]]
    ks, many = ([k for _, k in settings[name]] for name in ("small", "large"))
    return {
        "every": np.array([_tried(*one, k) for one, k in zip(small, ks, strict=True)]),
        "sweep": np.array([_swept(*one, k, rng) for one, k in zip(small, ks, strict=True)]),
        "far": np.array([_swept(*one, k, rng) for one, k in zip(large, many, strict=True)]),
    }


def _swept(keys: FloatArray, values: FloatArray, k: int, rng: np.random.Generator) -> float:
    return _timed(lambda: argmax_min_plus_sum(keys, values, k, rng))


def _tried(keys: FloatArray, values: FloatArray, k: int) -> float:
    return _timed(lambda: exhaustive(keys, values, k))


def _timed(work: Callable[[], object]) -> float:
    """Seconds of a call, the median of some."""
    taken = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken))
