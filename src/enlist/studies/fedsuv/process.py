"""The paper's selection process (section 6.3): clients on the unit square, a selector that plays them, and what FedSUV
believes and removes in each round, beside the bounds of its theorems."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from enlist import selectors
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.arena.genie import BSFLReward, make
from enlist.arena.play import Match, Rules
from enlist.arena.worlds import Scenario, Truth, World
from enlist.bandits.gaussian import ExactGP
from enlist.bandits.pareto import front, hypervolume
from enlist.clients import Clients
from enlist.selectors.fedsuv import FedSUV
from enlist.streams import Streams
from enlist.studies.study import Settings

DEADLINE, DIMENSIONS = 100.0, 6
SPREAD = 0.5
"""Standard deviation of the logarithm of a client's latency from round to round."""
HALF_WIDTH = 0.1 * math.sqrt(3.0)
"""Of the uniform noise on an observed utility: its standard deviation is 0.1."""
QUANTILES = 128
OBSERVED = 0.22
"""RMS loss times gain of a client whose utility is 1 (see `enlist.arena.play.observed`): FedSUV's `full_utility`."""
HALF = 0.5
"""Units of utility in one of the Gaussian process, if `full_utility` is given."""
DIAGONAL = math.sqrt(2.0)
"""No two clients on the unit square lie farther apart: a wider bound on a rectangle says nothing."""
MARKS, EXAMPLES = (3, 10, 30, 100), 24
"""Rounds in which rectangles are kept, and of how many clients."""


class Square(World):
    """`clients` with (validity, utility) uniform on [0, 1]², known by features x = M (v, u) + noise, M fixed, 6 x 2.

    validity   P(latency ≤ deadline), with lognormal latency: deadline · exp(0.5 (z − Φ⁻¹(v))), z ~ N(0, 1)
    utility    its mean; what is observed is uniform around it, with standard deviation 0.1 (less at the edges of
               [0, 1], so that the mean stays where it is)
    noise      standard deviation of what is added to each feature

    FedSUV's utility is RMS loss times gain. What a client reports grows with the root of its utility in both, so
    their product is the utility.

    >>> world = Square(clients=4, rounds=10, seed=1, noise=0.0)
    >>> world.validity.round(2), world.clients().features.shape, int(world.valid(1).sum())
    (array([0.09, 0.91, 0.62, 0.33]), (4, 6), 3)
    """

    def __init__(self, clients: int, rounds: int, seed: int, noise: float) -> None:
        super().__init__(Scenario(latency="equal", deadline=DEADLINE), clients, rounds, seed)
        streams = Streams(seed)
        self.validity, self._utility = streams.generator("square").uniform(size=(2, clients))
        self.num_examples = np.ones(clients)
        # The map is the same for every seed; only the clients differ.
        matrix = Streams(0).generator("square map").standard_normal((2, DIMENSIONS))
        pairs = np.column_stack([self.validity, self._utility])
        blur = streams.generator("square noise").standard_normal((clients, DIMENSIONS))
        self._features = pairs @ matrix + noise * blur

    def clients(self) -> Clients:
        """What selectors may know up front."""
        return Clients(num_examples=self.num_examples, features=self._features)

    def _shaped(self, normal: FloatArray) -> FloatArray:
        latency = self.deadline * np.exp(SPREAD * (normal - ndtri(self.validity)))
        return np.asarray(np.maximum(latency, self.shortest))

    def truth(self, round: int) -> Truth:
        """What holds in every round."""
        return self._truth

    @functools.cached_property
    def _truth(self) -> Truth:
        mean = self.deadline * np.exp(SPREAD**2 / 2 - SPREAD * ndtri(self.validity))
        speed = np.zeros(self.count)
        for quantile in ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES):
            latency = self._shaped(np.full(self.count, quantile))
            speed += self.shortest / np.minimum(latency, self.deadline) / QUANTILES
        return Truth(mean, mean * np.sqrt(np.expm1(SPREAD**2)), speed, self.validity, self._utility)

    def valid(self, round: int) -> BoolArray:
        """Who would finish in time in this round."""
        return np.asarray(self.latency(round) <= self.deadline)

    def drawn(self, round: int) -> FloatArray:
        """The utility of every client in this round."""
        room = np.minimum(np.minimum(self._utility, 1.0 - self._utility), HALF_WIDTH)
        return np.asarray(self._utility + room * (2.0 * ndtr(self._normal("utility", round)) - 1.0))

    def utility(self, round: int) -> FloatArray:
        """The root of the utilities: what loss and gain of a client are proportional to."""
        return np.sqrt(self.drawn(round))


def information(inputs: FloatArray, length: float, noise: float, rounds: int) -> FloatArray:
    """γ_t for t = 1 .. rounds: information that t observations can give at most, ½ Σ ln(1 + σ²_{t−1}(x_t)/noise).

    The most uncertain client is observed each time, which is within a factor 1 − 1/e of the best choice (Srinivas et
    al. 2010); the paper gives the order of γ_T only, (ln T)^(d+1).

    >>> information(np.array([[0.0], [9.0]]), length=1.0, noise=0.1, rounds=3).round(3)
    array([1.199, 2.398, 2.721])
    """
    process, total, gained = ExactGP.of(inputs, length, noise), 0.0, np.empty(rounds)
    for at in range(rounds):
        deviation = process.predict()[1]
        widest = int(np.argmax(deviation))
        total += 0.5 * math.log1p(deviation[widest] ** 2 / noise)
        gained[at] = total
        process.update(np.array([widest]), np.zeros(1))
    return gained


def complexity(gained: FloatArray, clients: int, dimension: int, noise: float, delta: float) -> FloatArray:
    """α² d C_T + β_T γ_T C s² for T = 1 .. : what both bounds are made of.

    α = 1 + sqrt(ln(4/δ)/2), β_T = 2 ln(n π² T²/(3δ)), C_T = 2 ln(1 + T/d), C = 2 / ln(1 + 1/noise); s is how many
    units of utility one of the Gaussian process has.

    >>> complexity(np.array([1.2]), clients=100, dimension=7, noise=0.1, delta=0.1).round(2)
    array([14.45])
    """
    rounds = np.arange(1, len(gained) + 1)
    alpha = 1.0 + math.sqrt(math.log(4.0 / delta) / 2.0)
    beta = 2.0 * np.log(clients * math.pi**2 * rounds**2.0 / (3.0 * delta))
    utility = beta * gained * 2.0 / math.log1p(1.0 / noise) * HALF**2
    return np.asarray(alpha**2 * dimension * 2.0 * np.log1p(rounds / dimension) + utility)


def width_bound(terms: FloatArray) -> FloatArray:
    """Theorem 5.4: w_T ≤ sqrt((α² d C_T + β_T γ_T C) / T), with the terms of `complexity`.

    >>> width_bound(np.array([4.0, 8.0]))
    array([2., 2.])
    """
    return np.sqrt(terms / np.arange(1, len(terms) + 1))


def regret_bound(terms: FloatArray, k: int, gap: float) -> FloatArray:
    """Theorem 5.5: regret up to T ≤ 4 k (α² d C_T + β_T γ_T C) / ε², ε the smallest gap.

    >>> regret_bound(np.array([2.0]), k=20, gap=0.1)
    array([16000.])
    """
    return np.asarray(4.0 * k * terms / gap**2)


def smallest_gap(validity: FloatArray, utility: FloatArray) -> float:
    """ε: over all pairs of which one is better in both, the smaller difference, at its smallest. O(n²).

    >>> smallest_gap(np.array([0.1, 0.5, 0.6]), np.array([0.2, 0.1, 0.9]))
    0.0999...
    """
    smallest = math.inf
    for own_validity, own_utility in zip(validity, utility, strict=True):
        lead = np.minimum(validity - own_validity, utility - own_utility)
        smallest = min(smallest, float(np.min(lead, where=lead > 0, initial=math.inf)))
    return smallest


def played(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """One run: settings are selector (a method), clients, rounds, k and noise; FedSUV is told how large a utility can
    be. With "bounds", those of the theorems are computed, too.

    Returned of every round: `valued`, the sum of validity times utility as they were drawn (the paper's objective), and
    `front`, the area that the whole Pareto front covers more than the chosen clients. Of every client: `validity`,
    `utility`, `selected`. `best` is the largest `valued` to be expected of a round. Of FedSUV see `BeliefMonitor`.

    >>> settings = {"selector": "fedsuv:paper", "clients": 40, "rounds": 6, "k": 4, "noise": 0.0}
    >>> found = played(settings, 1, Path())
    >>> found["valued"].shape, found["selected"].sum(), found["rectangles"].shape, found["candidate"].max()
    ((6,), np.int64(24), (1, 24, 4), np.int64(6))
    """
    rounds, k = settings["rounds"], settings["k"]
    world = Square(settings["clients"], rounds, seed, settings["noise"])
    validity, utility = world.validity, world.truth(1).utility
    own = {"full_utility": OBSERVED} if selectors.method(settings["selector"]).name == FedSUV.name else {}
    selector = make(settings["selector"], world, BSFLReward(), seed, **own)
    watch = BeliefMonitor(selector, world) if isinstance(selector, FedSUV) else None
    match, whole = Match(selector, world, Rules(k), BSFLReward()), hypervolume(validity, utility)
    valued, lost = np.zeros(rounds), np.zeros(rounds)
    for at in range(rounds):
        before = match.selected.copy()
        if watch:
            watch.begin()
        match.step()
        chosen = np.flatnonzero(match.selected > before)
        if watch:
            watch.end(chosen)
        valued[at] = float((world.valid(at + 1) * world.drawn(at + 1))[chosen].sum())
        lost[at] = whole - hypervolume(validity[chosen], utility[chosen])
    found = {"validity": validity, "utility": utility, "selected": match.selected, "valued": valued, "front": lost}
    found |= watch.found() if watch else {}
    found |= watch.bounds(rounds, k) if watch and settings.get("bounds") else {}
    return {**found, "best": float(np.sort(validity * utility)[-k:].sum())}


class BeliefMonitor:
    """What FedSUV believes and removes in each round, beside the truth. Call `begin` before a round and `end` after.

    candidate     (clients,) rounds in which a client was a candidate
    covered       (rounds, 3) share of clients whose true validity, utility, and both lie in their intervals
    width         (rounds,) the largest diagonal of a candidate's rectangle
    eliminated    (rounds, 2) removed by Eq. 7; of these, more valid than the client they were compared with
    pruned        (rounds, 2) removed by the Pareto step; of these, on the true front
    hopeless      (rounds, 2) candidates of whom Theorem 5.1 says that they are eliminated, in rounds in which the step
                  runs; of these, those who were
    rectangles    (marks, examples, 4) lowest and highest validity, lowest and highest utility; with `alive` (still a
                  candidate) and `chosen` (selected at the mark)

    >>> world = Square(clients=30, rounds=4, seed=1, noise=0.0)
    >>> selector = make("fedsuv:paper+full_utility=0.22", world, BSFLReward(), 1)
    >>> sorted(BeliefMonitor(selector, world).bounds(4, 2))
    ['regret_bound', 'width_bound']
    """

    def __init__(self, selector: FedSUV, world: Square) -> None:
        self.selector, self.validity, self.utility = selector, world.validity, world.truth(1).utility
        self.best = np.zeros(world.count, dtype=bool)
        self.best[front(self.validity, self.utility)] = True
        self.candidate = np.zeros(world.count, dtype=np.int64)
        self.rows: dict[str, list[Any]] = {name: [] for name in WATCHED}
        self.begin()

    def begin(self) -> None:
        """Note who is a candidate, and how sure the validity model is, before a round."""
        state, settings = self.selector.state, self.selector.settings
        self.before: BoolArray = state.active.copy()
        self.mean, self.half = state.validity.interval(self.selector.rows, settings.delta)
        self.rival = int(np.argmax(np.where(self.before, self.mean - self.half, -np.inf)))  # m_t of Eq. 12

    def end(self, chosen: IntArray) -> None:
        """Note what the round has changed."""
        state = self.selector.state
        active = state.active
        self.candidate += active
        inside = [
            (state.validity_low <= self.validity) & (self.validity <= state.validity_high),
            (state.utility_low <= self.utility) & (self.utility <= state.utility_high),
        ]
        self.rows["covered"].append([float(mask.mean()) for mask in (*inside, inside[0] & inside[1])])
        self.rows["width"].append(float(self.selector.summary()["diagonal"][active].max()))
        self._removed(self.before & ~active)
        if self.selector.round in MARKS:
            corners = (state.validity_low, state.validity_high, state.utility_low, state.utility_high)
            self.rows["rectangles"].append(np.clip(np.column_stack(corners)[:EXAMPLES], 0.0, 1.0))
            self.rows["alive"].append(active[:EXAMPLES].copy())
            self.rows["chosen"].append(np.isin(np.arange(len(active))[:EXAMPLES], chosen))

    def _removed(self, lost: BoolArray) -> None:
        eliminable = self.mean + self.half <= (self.mean - self.half)[self.rival]  # Eq. 7
        eliminated = lost & eliminable & self._step_runs()
        pruned = lost & ~eliminated
        wrong = eliminated & (self.validity > self.validity[self.rival])
        limit = self.validity[self.rival] - 2.0 * (self.half[self.rival] + self.half)  # Eq. 13
        hopeless = self.before & (self.validity <= limit) & self._step_runs()
        pairs = {"eliminated": (eliminated, wrong), "pruned": (pruned, pruned & self.best)}
        for name, masks in (pairs | {"hopeless": (hopeless, hopeless & lost)}).items():
            self.rows[name].append([int(mask.sum()) for mask in masks])

    def _step_runs(self) -> bool:
        """Whether Eq. 7 was applied: no random round, and at least 1 − ρ of all clients were left."""
        settings = self.selector.settings
        if settings.coupling != "none" or self.selector.round <= settings.initial_rounds or settings.rho == 0.0:
            return False
        return bool(self.before.sum() >= (1.0 - settings.rho) * len(self.before) - 1e-9)

    def found(self) -> dict[str, Any]:
        """All of it."""
        return {"candidate": self.candidate, **{name: np.array(rows) for name, rows in self.rows.items()}}

    def bounds(self, rounds: int, k: int) -> dict[str, FloatArray]:
        """The bounds of Theorems 5.4 and 5.5 after each round."""
        process = self.selector.state.utility
        assert isinstance(process, ExactGP)
        clients, dimension = self.selector.rows.shape
        gained = information(process.inputs, process.length, process.noise, rounds)
        terms = complexity(gained, clients, dimension, process.noise, self.selector.settings.delta)
        gap = smallest_gap(self.validity, self.utility)
        return {"width_bound": width_bound(terms), "regret_bound": regret_bound(terms, k, gap)}


WATCHED = ("covered", "width", "eliminated", "pruned", "hopeless", "rectangles", "alive", "chosen")
