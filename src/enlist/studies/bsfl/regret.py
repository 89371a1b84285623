"""Experiments in the arena: a selector with its settings against the genie, round by round."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from enlist.arena.genie import Reward, make
from enlist.arena.play import Match, Rules
from enlist.arena.scenarios import scenario
from enlist.arena.worlds import World
from enlist.studies.study import Settings
from enlist.typing import FloatArray, IntArray

POINTS = 80
NOTICEABLE = (0.01, 0.03, 0.1)
"""Losses of a round from which on they are counted apart."""
NOTHING = 1e-9
"""Losses below are rounding."""


def played(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """A match: `selector` with `options` plays `rounds` in a `scenario` of `clients`, `k` a round, under a `reward`.

    Of checkpoints (points,): `rounds`, cumulated `pseudo` and `printed` regret, and `noticeable/x`, the pseudo-regret
    of rounds that lost at least x. (clients,), fastest first: `early` and `late`, the share of rounds that each took
    part in, in the first and the last tenth. Numbers: `least_gap` (the least loss of a round that lost anything),
    `largest_gap` (Eq. 14's bound on any loss), `fastest` (share of the last tenth's picks that went to the k fastest),
    `round_time`, `jain`, `least_selected`, `share_error`, `coverage`.

    >>> settings = {"scenario": "slow-minority", "clients": 20, "k": 5, "rounds": 50, "reward": {}, "selector": "bsfl"}
    >>> found = played({**settings, "options": {"alpha": 3.0}}, 1, Path())
    >>> int(found["rounds"][-1]), bool(found["noticeable/0.1"][-1] <= found["pseudo"][-1]), len(found["late"])
    (50, True, 20)
    """
    rounds, k = settings["rounds"], settings["k"]
    world = _world(settings["scenario"], settings["clients"], rounds, seed)
    reward = Reward(**settings["reward"])
    player = make(settings["selector"], world, reward, seed, **settings.get("options", {}))
    match = Match(player, world, Rules(k), reward)
    gaps, printed = np.empty(rounds), np.empty(rounds)
    tenth = max(rounds // 10, 1)
    seen: dict[int, IntArray] = {}
    for number in range(rounds):
        before = match.sums["pseudo"]
        match.step()
        gaps[number] = match.sums["pseudo"] - before
        printed[number] = match.sums["printed"]
        if number + 1 in (tenth, rounds - tenth, rounds):
            seen[number + 1] = match.selected.copy()
    gaps[gaps < NOTHING] = 0.0
    speed = world.truth(1).speed
    order = np.argsort(-speed, kind="stable")
    late = (seen[rounds] - seen.get(rounds - tenth, np.zeros_like(seen[rounds])))[order] / tenth
    lost = gaps[gaps > 0]
    at = checkpoints(rounds) - 1
    scores = match.scores()
    return {
        "rounds": at + 1,
        "pseudo": gaps.cumsum()[at],
        "printed": printed[at],
        **{f"noticeable/{level:g}": np.where(gaps >= level, gaps, 0.0).cumsum()[at] for level in NOTICEABLE},
        "early": seen[tenth][order] / tenth,
        "late": late,
        "fastest": float(late[:k].sum() / late.sum()),
        "least_gap": float(lost.min()) if len(lost) else float("nan"),
        "largest_gap": float(2.0 * reward.alpha + speed.max() - speed.min()),
        **{name: scores[name] for name in ("round_time", "jain", "least_selected", "share_error", "coverage")},
    }


@functools.lru_cache(maxsize=16)
def _world(name: str, clients: int, rounds: int, seed: int) -> World:
    """A world, kept for the next selector: its true means take longer than a short match."""
    return World(scenario(name), clients, rounds, seed)


def checkpoints(rounds: int) -> IntArray:
    """Rounds, evenly spaced on a logarithmic axis, with a quarter and a half of all of them.

    >>> checkpoints(8)
    array([1, 2, 3, 4, 5, 6, 7, 8])
    """
    even: FloatArray = np.geomspace(1, rounds, POINTS)
    steps = np.linspace(1, rounds, POINTS // 2)
    return np.unique(np.concatenate([even, steps, [max(rounds // 4, 1), max(rounds // 2, 1), rounds]]).astype(int))
