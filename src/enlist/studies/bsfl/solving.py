"""The problem of Eq. 13 and walks on its states: instances, neighbourhoods, and annealing at any temperature.

A state is a set S of k clients, its energy min of ucb over S plus (alpha/k) times the sum of g over S (Eq. 17).
"""

from __future__ import annotations

import math

import numpy as np

from enlist.arena.genie import Reward, make
from enlist.arena.play import Match, Rules
from enlist.arena.scenarios import scenario
from enlist.arena.worlds import World
from enlist.bandits.maxmin import objective
from enlist.bandits.sampling import uniform
from enlist.typing import BoolArray, FloatArray

SA, ALSA, ONE_SIDED = "SA", "ALSA", "one-sided"
ALPHA = 1.0


def drawn(clients: int, k: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """ucb ~ U(0, 1) and (alpha/k) g with g ~ U(-1, 1) of every client; the paper does not print how it drew them.

    >>> keys, values = drawn(8, 4, np.random.default_rng(0))
    >>> keys.shape, bool(np.abs(values).max() <= 0.25)
    ((8,), True)
    """
    return rng.uniform(size=clients), ALPHA / k * rng.uniform(-1.0, 1.0, clients)


def met(clients: int, k: int, rounds: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """ucb and (alpha/k) g as BSFL, as printed, meets them after so many rounds with a slow minority.

    >>> keys, values = met(8, 4, 10, 1)
    >>> bool(np.isfinite(keys).all()), bool(np.abs(values).max() <= 0.25)
    (True, True)
    """
    world = World(scenario("slow-minority"), clients, rounds, seed)
    reward = Reward(ALPHA, normalised=False)
    selector = make("bsfl:paper", world, reward, seed)
    match = Match(selector, world, Rules(k), reward)
    for _ in range(rounds):
        match.step()
    bsfl: FloatArray = selector.speed() + selector.bonus(k)  # type: ignore[attr-defined]
    return bsfl, ALPHA / k * selector.generalisation(k)  # type: ignore[attr-defined]


def swaps(keys: FloatArray, values: FloatArray, inside: BoolArray, kind: str) -> BoolArray:
    """(k, n - k) which member may leave a state for which outsider.

    SA         any for any (Eq. 18)
    ALSA       the member of least ucb or least g for any, and any for an outsider that then has the least (Eq. 19)
    one-sided  only the former half of ALSA, so that neighbourhoods are not symmetric

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
    keys: FloatArray, values: FloatArray, k: int, rng: np.random.Generator, steps: int, kind: str, heat: float
) -> float:
    """The highest energy that annealing meets, with `heat` times the printed temperature (`bandits.annealing` has 1).

    >>> keys, values = np.array([0.9, 0.8, 0.5, 0.1]), np.array([-0.2, 0.1, 0.4, 0.45])
    >>> round(walk(keys, values, 2, np.random.default_rng(0), 200, ALSA, heat=0.01), 6)
    1.0
    """
    ranked = np.sort(values)
    spread = float(keys.max() - keys.min() + ranked[-k:].sum() - ranked[:k].sum())
    inside = np.zeros(len(keys), dtype=bool)
    inside[uniform(len(keys), k, rng)] = True
    energy = best = objective(keys, values, np.flatnonzero(inside))
    for step in range(steps):
        members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
        choices = np.flatnonzero(swaps(keys, values, inside, kind))
        leaves, enters = divmod(int(choices[rng.integers(len(choices))]), len(others))
        inside[members[leaves]], inside[others[enters]] = False, True
        fresh = objective(keys, values, np.flatnonzero(inside))
        temperature = max(heat * spread / math.log(step + 2), 1e-300)
        if fresh >= energy or rng.uniform() < math.exp((fresh - energy) / temperature):
            energy = fresh
            best = max(best, energy)
        else:
            inside[members[leaves]], inside[others[enters]] = True, False
    return best
