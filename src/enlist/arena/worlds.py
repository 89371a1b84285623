"""Worlds: what is true of every client, and the random events of each round. Selectors never see a `World`.

Every draw belongs to (purpose, round) and is made over all clients, so two selectors in the same world see the same
random events: differences between them are their own.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from scipy.special import ndtri

from enlist._internal import checks
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.arena.kinds import Batteries, Kinds
from enlist.clients import Clients
from enlist.errors import InputError

FEATURES = ("cpu flops", "cpu cores", "memory", "gpu flops", "bandwidth", "data size")
BLOCK = 65_536
PURPOSES = ("latency", "drop", "utility", "available", "accuracy")


@dataclasses.dataclass(frozen=True)
class Scenario:
    """The knobs of a world.

    about              a description in words
    latency            "mixture" (a slow minority, as in the BSFL experiments), "two-speeds" (the same, but all
                       fast clients alike, and all slow ones), "lognormal" or "equal"
    slow_share         share of slow clients in the mixture and of two speeds
    noise              spread of a client's latency from round to round, relative to its mean (all but the mixture)
    deadline           seconds; latencies scale with it
    reliability        chance of not dropping out: lowest and highest over clients
    utility            "spread" (uniform on [0, 1]) or "equal"
    utility_noise      standard deviation of an observed utility
    speed_utility      rank correlation between speed and utility
    sizes              "equal", or "lognormal" numbers of examples
    availability       "always", "bernoulli", "markov" or "diurnal"
    features           how well features predict speed and utility: 0 useless, 1 exact
    changes            how often, spread over the run, speeds and utilities are reshuffled
    profiled           the latencies known up front are the true means (else nothing is known)
    kinds              kinds of data that clients hold, some of them rare (`Kinds`); 0 if nothing is known about data
    battery            rounds that a full battery lasts; 0 if none runs on one

    >>> Scenario(latency="equal").availability
    'always'
    """

    about: str = ""
    latency: str = "mixture"
    slow_share: float = 0.1
    noise: float = 0.2
    deadline: float = 1.0
    reliability: tuple[float, float] = (1.0, 1.0)
    utility: str = "spread"
    utility_noise: float = 0.1
    speed_utility: float = 0.0
    sizes: str = "equal"
    availability: str = "always"
    features: float = 0.8
    changes: int = 0
    profiled: bool = False
    kinds: int = 0
    battery: float = 0.0

    def __post_init__(self) -> None:
        checks.one_of("latency", self.latency, ("mixture", "two-speeds", "lognormal", "equal"))
        checks.one_of("utility", self.utility, ("spread", "equal"))
        checks.one_of("sizes", self.sizes, ("equal", "lognormal"))
        checks.one_of("availability", self.availability, ("always", "bernoulli", "markov", "diurnal"))
        checks.finite("speed_utility", self.speed_utility, -1.0, 1.0)
        checks.finite("features", self.features, 0.0, 1.0)
        checks.whole("changes", self.changes, minimum=0)
        checks.whole("kinds", self.kinds, minimum=0)
        checks.finite("battery", self.battery, 0.0)
        checks.finite("slow_share", self.slow_share, 0.0, 1.0)
        checks.finite("noise", self.noise, 0.0)
        checks.finite("utility_noise", self.utility_noise, 0.0)
        checks.finite("deadline", self.deadline, 1e-9)
        if not isinstance(self.reliability, tuple) or len(self.reliability) != 2:
            raise InputError(f"reliability is {self.reliability!r}; give (lowest, highest) chance over clients.")
        checks.finite("lowest reliability", self.reliability[0], 0.0, 1.0)
        checks.finite("highest reliability", self.reliability[1], self.reliability[0], 1.0)


@dataclasses.dataclass(frozen=True)
class Truth:
    """What is true of every client in one round, (n,) each.

    latency       mean seconds
    spread        standard deviation
    speed         E[shortest / latency], latency clipped at the deadline, which also stands for a dropout
    validity      chance of finishing in time
    utility       mean utility in [0, 1]

    >>> world = World(Scenario(), clients=4, rounds=10, seed=1)
    >>> world.truth(1).validity
    array([1., 1., 1., 1.])
    """

    latency: FloatArray
    spread: FloatArray
    speed: FloatArray
    validity: FloatArray
    utility: FloatArray


class World:
    """A population of `clients` for a run of `rounds`, drawn from a scenario with a seed.

    >>> world = World(Scenario(availability="bernoulli"), clients=5, rounds=10, seed=3)
    >>> world.available(1, now=0.0).shape, world.latency(1).shape
    ((5,), (5,))
    """

    def __init__(self, scenario: Scenario, clients: int, rounds: int, seed: int) -> None:
        self.scenario = scenario
        self.count = checks.whole("clients", clients, minimum=1)
        self.rounds = checks.whole("rounds", rounds, minimum=1)
        self.seed = checks.whole("seed", seed, minimum=0)
        rng = np.random.default_rng((self.seed, 1))
        self.deadline = scenario.deadline
        self._latency, self._spread = _latencies(scenario, self.count, rng)
        self._utility = _utilities(scenario, self._latency, rng)
        low, high = scenario.reliability
        self.reliability = rng.uniform(low, high, self.count)
        lognormal = scenario.sizes == "lognormal"
        self.num_examples = np.ceil(rng.lognormal(4.0, 1.0, self.count)) if lognormal else np.full(self.count, 100.0)
        self.shortest = 0.05 * scenario.deadline
        self.uptime = rng.uniform(0.2, 1.0, self.count)
        self._phase = rng.uniform(size=self.count)
        self._features = self._feature_table(rng)
        self._deals = [np.arange(self.count), *(rng.permutation(self.count) for _ in range(scenario.changes))]
        self._blocks: dict[tuple[str, int], FloatArray] = {}
        self._markov: tuple[int, BoolArray] = (0, rng.uniform(size=self.count) < self.uptime)

    def clients(self) -> Clients:
        """What selectors may know up front."""
        kinds, batteries = self.kinds(), self.batteries()
        return Clients(
            num_examples=self.num_examples,
            features=self._features,
            feature_names=FEATURES,
            expected_latency=self.truth(1).latency if self.scenario.profiled else None,
            label_counts=None if kinds is None else kinds.label_counts(self.num_examples),
            battery=None if batteries is None else batteries.full,
        )

    def kinds(self) -> Kinds | None:
        """The kinds of data as they are before the first round."""
        return Kinds(self.scenario.kinds, self.num_examples, self.seed) if self.scenario.kinds else None

    def batteries(self) -> Batteries | None:
        """The batteries as they are before the first round."""
        return Batteries(self.scenario.battery, self.count, self.seed) if self.scenario.battery else None

    def deal(self, round: int) -> IntArray:
        """Whose speed and utility each client has in this round."""
        if len(self._deals) == 1:
            return self._deals[0]
        return self._deals[min((round - 1) * len(self._deals) // self.rounds, len(self._deals) - 1)]

    def truth(self, round: int) -> Truth:
        """What is true in this round."""
        if len(self._deals) == 1:
            return self._base
        deal = self.deal(round)
        return Truth(**{field.name: getattr(self._base, field.name)[deal] for field in dataclasses.fields(Truth)})

    @functools.cached_property
    def _base(self) -> Truth:
        # Means over evenly spaced quantiles of the noise. Monte Carlo would err by more than a good selector loses, and
        # its regret against such a genie would look linear.
        points = max(min(4096, 2**25 // self.count), 64)
        mean, square, speed, in_time = np.zeros((4, self.count))
        for quantile in ndtri((np.arange(points) + 0.5) / points):
            latency = self._shaped(np.full(self.count, quantile))
            speed += self.shortest / np.minimum(latency, self.deadline)
            in_time += latency <= self.deadline
            mean += latency
            square += latency**2
        spread = np.sqrt(np.maximum(square / points - (mean / points) ** 2, 0.0))
        # A client that drops out is scored at the deadline.
        speed = self.reliability * speed / points + (1.0 - self.reliability) * self.shortest / self.deadline
        return Truth(mean / points, spread, speed, self.reliability * in_time / points, self._utility)

    def latency(self, round: int) -> FloatArray:
        """The seconds that every client would take in this round."""
        return self._shaped(self._normal("latency", round))[self.deal(round)]

    def _shaped(self, normal: FloatArray) -> FloatArray:
        if self.scenario.latency in ("mixture", "two-speeds"):
            return np.clip(self._latency + self._spread * normal, 0.05 * self.deadline, self.deadline)
        relative = self._spread / self._latency
        return np.asarray(np.maximum(self._latency * np.exp(relative * normal - relative**2 / 2), self.shortest))

    def drops(self, round: int) -> BoolArray:
        """Who would drop out in this round."""
        if self.scenario.reliability == (1.0, 1.0):
            return np.zeros(self.count, dtype=bool)
        return np.asarray(self._normal("drop", round) > ndtri(self.reliability[self.deal(round)]))

    def utility(self, round: int) -> FloatArray:
        """The utility that would be observed for every client in this round."""
        noise = self.scenario.utility_noise * self._normal("utility", round)
        return np.clip(self._utility[self.deal(round)] + noise, 0.0, None)

    def accuracy_noise(self, round: int) -> float:
        """Noise of the server's evaluation, in units of accuracy."""
        return 0.003 * float(self._normal("accuracy", round)[0])

    def available(self, round: int, now: float) -> BoolArray:
        """Who is available when this round begins at time `now`."""
        kind = self.scenario.availability
        if kind == "always":
            return np.ones(self.count, dtype=bool)
        if kind == "diurnal":
            day = 100.0 * self.deadline
            return np.asarray((now / day + self._phase) % 1.0 < self.uptime)
        up = self._normal("available", round) < ndtri(self.uptime)
        if kind == "bernoulli":
            return np.asarray(up)
        last, state = self._markov
        if round != last + 1:
            raise InputError(f"a 'markov' world must be asked in order; round {round} does not follow round {last}.")
        # A tenth of the clients redraw their state each round: sessions of about ten rounds.
        redraw = np.random.default_rng((self.seed, 3, round)).uniform(size=self.count) < 0.1
        self._markov = (round, np.where(redraw, up, state))
        return self._markov[1]

    def _normal(self, purpose: str, round: int) -> FloatArray:
        """Standard normal draws of one purpose and round, over all clients."""
        size = max(BLOCK // self.count, 1)
        number, row = divmod(round - 1, size)
        if (purpose, number) not in self._blocks:
            for stale in [key for key in self._blocks if key[0] == purpose]:
                del self._blocks[stale]
            rng = np.random.default_rng((self.seed, 10 + PURPOSES.index(purpose), number))
            self._blocks[purpose, number] = rng.standard_normal((size, self.count))
        return np.asarray(self._blocks[purpose, number][row])

    def _feature_table(self, rng: np.random.Generator) -> FloatArray:
        """Three columns that predict speed and three that predict utility, correlated with them by about `features`."""
        quality = self.scenario.features
        speed, useful = _normal_scores(-self._latency, rng), _normal_scores(self._utility, rng)
        columns = []
        for signal in (speed, speed, useful, useful, speed, useful):
            blurred = quality * signal + np.sqrt(1.0 - quality**2) * rng.standard_normal(self.count)
            columns.append(np.exp(blurred))
        return np.column_stack(columns)


def _latencies(scenario: Scenario, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    if scenario.latency == "equal":
        mean = np.full(count, 0.5)
        return mean * scenario.deadline, scenario.noise * mean * scenario.deadline
    if scenario.latency == "lognormal":
        mean = np.exp(rng.normal(np.log(0.35), 0.8, count))
        return mean * scenario.deadline, scenario.noise * mean * scenario.deadline
    slow = np.zeros(count, dtype=bool)
    slow[rng.choice(count, round(scenario.slow_share * count), replace=False)] = True
    if scenario.latency == "two-speeds":
        mean = np.where(slow, 0.9, 0.06)
        return mean * scenario.deadline, scenario.noise * mean * scenario.deadline
    mean = np.where(slow, rng.uniform(0.85, 0.9, count), rng.uniform(0.05, 0.1, count))
    return mean * scenario.deadline, rng.uniform(0.0, 0.05, count) * scenario.deadline


def _utilities(scenario: Scenario, latency: FloatArray, rng: np.random.Generator) -> FloatArray:
    if scenario.utility == "equal":
        return np.full(len(latency), 0.5)
    rho = scenario.speed_utility
    blended = rho * _normal_scores(-latency, rng) + np.sqrt(1.0 - rho**2) * rng.standard_normal(len(latency))
    ranks = np.argsort(np.argsort(blended))
    return np.asarray((ranks + 0.5) / len(latency))


def _normal_scores(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Ranks mapped to a standard normal, ties at random."""
    order = rng.permutation(len(values))
    ranks = np.empty(len(values))
    ranks[order[np.argsort(values[order], kind="stable")]] = np.arange(len(values))
    return np.asarray(ndtri((ranks + 0.5) / len(values)))
