"""The selection process: a selector plays the square, and what FedSUV believes is written down round by round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.arena.genie import Reward, make
from enlist.arena.play import Match, Rules
from enlist.bandits.gaussian import ExactGP
from enlist.bandits.pareto import best_subset, front, hypervolume
from enlist.contract import Selector
from enlist.selectors.fedsuv import FedSUV
from enlist.selectors.safa import SAFA
from enlist.studies.fedsuv.square import Square
from enlist.studies.fedsuv.theory import complexity, information, smallest_gap
from enlist.studies.study import Settings

BANDS = 5
"""Bands of validity in which candidates are counted: [0, 0.2), ..., [0.8, 1]."""
EXAMPLES = 24
"""Clients whose rectangles are kept."""
HALF = 0.5
"""Units of utility in one of the Gaussian process, if `full_utility` is given."""


class SAFALite(SAFA):
    """SAFA that chooses before training: those who were not chosen in the last round first, by expected duration.

    >>> SAFALite.trains_all
    False
    """

    trains_all = False


def played(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """One run: settings are selector ("name" or "name:preset"), options of it, clients, rounds, k, noise, marks (the
    rounds at which FedSUV's rectangles are kept) and bounds (whether what the theorems need is computed).

    Returned of every round: `valued`, the sum of validity times utility as they were drawn (the paper's objective),
    `regret`, the area that the best k clients cover more than the chosen ones (`front`: that the whole Pareto front
    covers more). Of every client: `validity`, `utility`, `selected`. `best` is the largest `valued` to be expected of a
    round. Of FedSUV see `Watch`.

    >>> settings = {"selector": "fedsuv:paper", "options": {}, "clients": 40, "rounds": 6, "k": 4, "noise": 0.0}
    >>> found = played({**settings, "marks": [3, 6], "bounds": False}, 1, Path())
    >>> found["valued"].shape, found["selected"].sum(), found["rectangles"].shape, found["candidate"].max()
    ((6,), np.int64(24), (2, 24, 4), np.int64(6))
    """
    rounds, k = settings["rounds"], settings["k"]
    world = Square(settings["clients"], rounds, seed, settings["noise"])
    validity, utility = world.validity, world.truth(1).utility
    selector = player(settings["selector"], world, seed, settings["options"])
    watch = Watch(selector, world, settings["marks"], settings["bounds"]) if isinstance(selector, FedSUV) else None
    match = Match(selector, world, Rules(k), Reward())
    areas = best_subset(validity, utility, k)[1], hypervolume(validity, utility)
    valued, regret, against_front = np.zeros(rounds), np.zeros(rounds), np.zeros(rounds)
    for at in range(rounds):
        before = match.selected.copy()
        if watch:
            watch.begin()
        match.step()
        chosen = np.flatnonzero(match.selected > before)
        if watch:
            watch.end(chosen)
        valued[at] = float((world.valid(at + 1) * world.drawn(at + 1))[chosen].sum())
        area = hypervolume(validity[chosen], utility[chosen])
        regret[at], against_front[at] = areas[0] - area, areas[1] - area
    return {
        "valued": valued,
        "regret": regret,
        "front": against_front,
        "best": float(np.sort(validity * utility)[-k:].sum()),
        "validity": validity,
        "utility": utility,
        "selected": match.selected,
        **(watch.found() if watch else {}),
    }


def player(name: str, world: Square, seed: int, options: Mapping[str, Any]) -> Selector[Any, Any]:
    """The selector of this name for a world; SAFA chooses before training, as all others do.

    >>> player("safa", Square(4, 2, 1, 0.0), 1, {}).trains_all
    False
    """
    if name == "safa":
        return SAFALite(world.clients(), seed=seed, **options)
    return make(name, world, Reward(), seed, **options)


class Watch:
    """What FedSUV believes and removes in each round, beside the truth. Call `begin` before a round and `end` after.

    candidate     (clients,) rounds in which a client was a candidate
    active        (rounds, bands) candidates by band of validity
    covered       (rounds, 3) share of clients whose true validity, utility, and both lie in their intervals
    width         (rounds,) the largest diagonal of a candidate's rectangle
    eliminated    (rounds, 3) removed by Eq. 7; of these, more valid than the client they were compared with; and on
                  the true Pareto front
    pruned        (rounds, 2) removed by the Pareto step; of these, on the true front
    hopeless      (rounds, 2) clients of whom Theorem 5.1 says that they are eliminated; of these, those who were
    rectangles    (marks, examples, 4) lowest and highest validity, lowest and highest utility; with `alive` (still a
                  candidate) and `chosen` (selected at the mark)
    terms, gap    what the bounds are made of, see theory.py; NaN if they are not asked for, or if the Gaussian process
                  is not over all clients

    >>> world = Square(clients=30, rounds=4, seed=1, noise=0.0)
    >>> watch = Watch(player("fedsuv:paper", world, 1, {"full_utility": 0.22}), world, [4], bounds=True)
    >>> sorted(watch.found())[:4]
    ['active', 'alive', 'candidate', 'chosen']
    """

    def __init__(self, selector: FedSUV, world: Square, marks: list[int], bounds: bool) -> None:
        self.selector, self.marks = selector, marks
        self.validity, self.utility = world.validity, world.truth(1).utility
        self.best = np.zeros(world.count, dtype=bool)
        self.best[front(self.validity, self.utility)] = True
        self.band = np.minimum((self.validity * BANDS).astype(np.int64), BANDS - 1)
        self.candidate = np.zeros(world.count, dtype=np.int64)
        self.rows: dict[str, list[Any]] = {}
        self.terms: FloatArray = np.full(world.rounds, np.nan)
        self.gap = math.nan
        if bounds and isinstance(selector.state.utility, ExactGP):
            self.terms = self._terms(selector.state.utility, world.rounds)
            self.gap = smallest_gap(self.validity, self.utility)
        self.before: BoolArray = selector.state.active.copy()
        self.mean: FloatArray = np.zeros(world.count)
        self.half: FloatArray = np.zeros(world.count)
        self.surest = 0

    def _terms(self, process: ExactGP, rounds: int) -> FloatArray:
        clients, dimension = self.selector.rows.shape
        gained = information(process.inputs, process.length, process.noise, rounds)
        return complexity(gained, clients, dimension, process.noise, HALF, self.selector.settings.delta)

    def begin(self) -> None:
        """Note who is a candidate, and how sure the validity model is, before a round."""
        state, settings = self.selector.state, self.selector.settings
        self.before = state.active.copy()
        self.mean, self.half = state.validity.interval(self.selector.rows, settings.delta)
        self.surest = int(np.argmax(np.where(self.before, self.mean - self.half, -np.inf)))

    def end(self, chosen: IntArray) -> None:
        """Note what the round has changed."""
        state = self.selector.state
        active = state.active
        self.candidate += active
        self._note("active", np.bincount(self.band[active], minlength=BANDS))
        inside = [
            (state.validity_low <= self.validity) & (self.validity <= state.validity_high),
            (state.utility_low <= self.utility) & (self.utility <= state.utility_high),
        ]
        self._note("covered", [float(mask.mean()) for mask in (*inside, inside[0] & inside[1])])
        self._note("width", float(self.selector.summary()["diagonal"][active].max()))
        self._removed(active)
        if self.selector.round in self.marks:
            corners = (state.validity_low, state.validity_high, state.utility_low, state.utility_high)
            self._note("rectangles", np.clip(np.column_stack(corners)[:EXAMPLES], 0.0, 1.0))
            self._note("alive", active[:EXAMPLES].copy())
            self._note("chosen", np.isin(np.arange(len(active))[:EXAMPLES], chosen))

    def _removed(self, active: BoolArray) -> None:
        lost = self.before & ~active
        rival, eliminable = self._eliminable()
        eliminated = lost & eliminable
        pruned = lost & ~eliminated
        wrong = eliminated & (self.validity > self.validity[rival])
        self._note("eliminated", [int(mask.sum()) for mask in (eliminated, wrong, eliminated & self.best)])
        self._note("pruned", [int(mask.sum()) for mask in (pruned, pruned & self.best)])
        limit = self.validity[self.surest] - 2.0 * (self.half[self.surest] + self.half)
        hopeless = self.before & (self.validity <= limit)
        self._note("hopeless", [int(hopeless.sum()), int((hopeless & lost).sum())])

    def _eliminable(self) -> tuple[int, BoolArray]:
        """The client with whom Eq. 7 compares, and whom it removes.

        As printed, all who are below it by their present bounds, while at least 1 − ρ of all are left; else by their
        rectangles, the least promising first, down to 1 − ρ of all.
        """
        state, settings = self.selector.state, self.selector.settings
        printed = settings.elimination == "hard"
        low = self.mean - self.half if printed else state.validity_low
        high = self.mean + self.half if printed else state.validity_high
        rival = int(np.argmax(np.where(self.before, low, -np.inf)))
        below = np.flatnonzero(self.before & (high <= low[rival]))
        left, share = int(self.before.sum()), math.ceil((1.0 - settings.rho) * len(high) - 1e-9)
        room = left - max(self.selector.last_k, share)
        if printed:
            room = len(below) if settings.rho > 0.0 and left >= share else 0
        mask = np.zeros(len(high), dtype=bool)
        mask[below[np.argsort(high[below], kind="stable")[: max(room, 0)]]] = True
        return rival, mask

    def _note(self, name: str, value: Any) -> None:
        self.rows.setdefault(name, []).append(value)

    def found(self) -> dict[str, AnyArray | float]:
        """All of it."""
        arrays = {name: np.array(self.rows.get(name, [])) for name in WATCHED}
        return {"candidate": self.candidate, **arrays, "terms": self.terms, "gap": self.gap}


WATCHED = ("active", "covered", "width", "eliminated", "pruned", "hopeless", "rectangles", "alive", "chosen")
