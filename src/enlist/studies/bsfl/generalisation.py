"""The generalisation function g (Eqs. 3, 4, Fig. 2): its curve, and how far Eq. 4 leaves [-1, 1]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from enlist.arena.genie import Reward
from enlist.arena.scenarios import scenario
from enlist.arena.worlds import World
from enlist.bandits import capped_shares
from enlist.streams import Streams
from enlist.studies.bsfl.settings import NON_IID, SCENARIOS
from enlist.studies.study import Settings
from enlist.typing import FloatArray

BETAS = (1, 2, 3, 5)
STEPS = 100


def curve(clients: int, k: int, beta: float, normalised: bool = False) -> tuple[FloatArray, FloatArray]:
    """c/t and g, for a client that was selected in 0, 1, ..., STEPS of STEPS rounds.

    >>> shares, values = curve(20, 5, beta=1)
    >>> float(values[0]), float(values[-1]), float(shares[np.argmin(np.abs(values))])
    (0.25, -0.75, 0.25)
    """
    reward = Reward(beta=beta, normalised=normalised)
    counts = np.arange(STEPS + 1)
    values = [reward.generalisation(np.full(clients, c), STEPS, k, np.ones(clients))[0] for c in counts.tolist()]
    return counts / STEPS, np.array(values)


def targets(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Targets k·d/Σd of Eq. 4 in `populations` of uneven size, for every one of `sizes`.

    (sizes,): `above`, the share of populations in which a client's target, and with it g, exceeds 1; `largest` target;
    `capped`, the largest with water-filling. `steepest` is the largest |g| of Eq. 3, `falling` whether it never rises.

    >>> found = targets({"sizes": [[20, 5]], "populations": 10}, 1, Path())
    >>> found["above"].shape, found["capped"].max() <= 1, found["falling"]
    ((1,), np.True_, True)
    """
    above, largest, capped, steepest, falling = [], [], [], 0.0, True
    for clients, k in settings["sizes"]:
        first = seed * settings["populations"]
        worlds = [
            World(scenario(SCENARIOS[NON_IID]), clients, 1, first + number) for number in range(settings["populations"])
        ]
        sizes = np.array([world.num_examples for world in worlds])
        most = (k * sizes / sizes.sum(axis=1, keepdims=True)).max(axis=1)
        above.append(float((most > 1.0).mean()))
        largest.append(float(most.max()))
        capped.append(max(float(capped_shares(one, float(k)).max()) for one in sizes))
        for beta in BETAS:
            values = curve(clients, k, beta)[1]
            steepest = max(steepest, float(np.abs(values).max()))
            falling = falling and bool((np.diff(values) <= 0).all())
    return {
        "sizes": np.array(settings["sizes"]),
        "above": np.array(above),
        "largest": np.array(largest),
        "capped": np.array(capped),
        "steepest": steepest,
        "falling": falling,
    }


def spread(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Targets of Eq. 4 in `populations` whose sizes are lognormal with each of `sigmas`, for every one of `sizes`.

    (sizes, sigmas): `above`, the share of populations in which a client's target exceeds 1; `capped`, the largest
    target with water-filling.

    >>> found = spread({"sizes": [[20, 5]], "populations": 10, "sigmas": [0.0, 2.0]}, 1, Path())
    >>> found["above"].shape, float(found["above"][0, 0]), bool((found["capped"] <= 1.0).all())
    ((1, 2), 0.0, True)
    """
    rng = Streams(seed).generator("spread")
    shape = (len(settings["sizes"]), len(settings["sigmas"]))
    found = {name: np.empty(shape) for name in ("above", "capped")}
    for row, (clients, k) in enumerate(settings["sizes"]):
        for column, sigma in enumerate(settings["sigmas"]):
            sizes = rng.lognormal(0.0, sigma, (settings["populations"], clients))
            found["above"][row, column] = (k * sizes.max(axis=1) > sizes.sum(axis=1)).mean()
            found["capped"][row, column] = max(float(capped_shares(one, float(k)).max()) for one in sizes)
    return found
