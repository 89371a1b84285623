"""TiFL: tiers of clients with similar speed; one tier each round, the less accurate ones more often."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.bandits import MeanLatency, uniform
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.state import State, column, nested


@dataclasses.dataclass(frozen=True)
class TiFLSettings:
    """Settings of `tifl`.

    Parameters
    ----------
    tiers : int, default 5
        Number of tiers.
    interval : int, default 10
        Rounds between new tiers and new probabilities.
    credits : int or None, default None
        Rounds for which each tier may be drawn; None for any number.
    stalled_only : bool, default False
        Update probabilities only if the tier drawn last has not become more accurate since the last interval.

    >>> TiFLSettings().tiers
    5
    """

    tiers: int = 5
    interval: int = 10
    credits: int | None = None
    stalled_only: bool = False

    def __post_init__(self) -> None:
        checks.whole("tiers", self.tiers, minimum=1)
        checks.finite("tiers", self.tiers, 1, 127)
        checks.whole("interval", self.interval, minimum=1)
        if self.credits is not None:
            checks.whole("credits", self.credits, minimum=1)


@dataclasses.dataclass
class TiFLState(State):
    """Tier (-1: none yet) and mean latency of each client; per tier its probability, credits, accuracy as of the last
    interval (NaN: unknown), and the sum and number of the accuracies told since; the tier drawn last (-1: none).

    >>> TiFLState.of(3, tiers=2, credits=None).probability
    array([0.5, 0.5])
    """

    probability: AnyArray
    credits: AnyArray
    accuracy: AnyArray
    total: AnyArray
    reports: AnyArray
    drawn: int = -1
    tier: AnyArray = column(-1, np.int8)
    latency: MeanLatency = nested(MeanLatency)

    @classmethod
    def of(cls, count: int, tiers: int, credits: int | None) -> TiFLState:
        """Nothing known yet; every tier equally likely."""
        return cls.create(
            count,
            probability=np.full(tiers, 1.0 / tiers),
            credits=np.full(tiers, np.inf if credits is None else credits),
            accuracy=np.full(tiers, np.nan),
            total=np.zeros(tiers),
            reports=np.zeros(tiers),
        )


class TiFL(Selector[TiFLSettings, TiFLState]):
    """k clients uniformly from one tier, drawn with probability  (n - r) / (n(n+1)/2).

    Tiers are equal parts of the clients sorted by latency; r = 0, 1, ... is the rank of a tier by ascending accuracy
    among the n tiers with credits left, updated every `interval` rounds. A draw costs its tier one credit.

    Reference: Chai et al., TiFL: A Tier-based Federated Learning System, HPDC 2020 (adaptive mode).
    Needs latency and accuracy. O(n) per round, O(n log n) each interval; 17 bytes of state per client.

    >>> import enlist
    >>> clients = enlist.Clients(expected_latency=[5.0, 1.0, 6.0, 2.0])
    >>> selector = enlist.create("tifl", clients, seed=1, tiers=2)
    >>> picked = selector.ask(k=2)
    >>> selector.state.tier, picked.clients
    (array([1, 0, 1, 0], dtype=int8), array([1, 3]))

    Differs from the paper: without a profile (clients.expected_latency) the mean observed latency decides, updated
    every interval, and a client not yet observed is in a random tier, because profiling 10^6 clients first would take
    too long. The accuracy of a tier is the mean that its clients reported since the last interval; a tier without any
    comes first. Probabilities change every interval, not only when accuracy stalls (preset "paper"). A tier with fewer
    than k available clients is filled from its neighbours, slower before faster. When no tier with credits has any
    client available, all credits are refilled: the published loop would never end.
    """

    name = "tifl"
    reference = "Chai et al. 2020"
    needs = frozenset({"latency", "accuracy"})
    presets = {"paper": {"stalled_only": True}}
    Settings = TiFLSettings
    with_ = WithSettings(TiFLSettings)
    State = TiFLState

    def initial_state(self) -> TiFLState:
        return TiFLState.of(len(self.clients), self.settings.tiers, self.settings.credits)

    def begin_round(self, request: Request) -> None:
        due = (self.round - 1) % self.settings.interval == 0
        if due or (self.state.tier < 0).any():
            self._sort_into_tiers()
        if due and self.round > 1:
            self._close_interval()

    def choose(self, request: Request) -> Choice:
        tiers = request.of(self.state.tier)
        drawn = self._draw(np.bincount(tiers, minlength=self.settings.tiers))
        nearest = sorted(range(self.settings.tiers), key=lambda tier: (abs(tier - drawn), tier < drawn))
        parts: list[IntArray] = []
        missing = request.k
        for tier in nearest:
            rows = np.flatnonzero(tiers == tier)
            parts.append(rows[uniform(len(rows), missing, self.rng)])
            missing -= len(parts[-1])
            if not missing:
                break
        return request.pick(np.concatenate(parts), tier=tiers, probability=self.state.probability[tiers])

    def _draw(self, available: IntArray) -> int:
        state = self.state
        possible = (available > 0) & (state.credits > 0)
        if not possible.any():
            state.credits[:] = np.inf if self.settings.credits is None else self.settings.credits
            self._rank()
            possible = available > 0
        weights = np.where(possible, state.probability, 0.0)
        state.drawn = int(self.rng.choice(len(weights), p=weights / weights.sum()))
        state.credits[state.drawn] -= 1
        return state.drawn

    def _sort_into_tiers(self) -> None:
        state, tiers = self.state, self.settings.tiers
        latency = self.clients.expected_latency
        if latency is None:
            latency = np.where(state.latency.count > 0, state.latency.mean, np.nan)
        unknown = np.isnan(latency)
        new = np.flatnonzero(unknown & (state.tier < 0))
        state.tier[new] = self.rng.integers(tiers, size=len(new))
        known = self.rng.permutation(np.flatnonzero(~unknown))
        known = known[np.argsort(latency[known], kind="stable")]
        state.tier[known] = np.arange(len(known)) * tiers // max(len(known), 1)

    def _close_interval(self) -> None:
        state = self.state
        before = state.accuracy.copy()
        told = state.reports > 0
        state.accuracy[told] = state.total[told] / state.reports[told]
        state.total[:], state.reports[:] = 0.0, 0.0
        risen = state.drawn >= 0 and state.accuracy[state.drawn] > before[state.drawn]
        if not (self.settings.stalled_only and risen):
            self._rank()

    def _rank(self) -> None:
        state = self.state
        ranked = self.rng.permutation(np.flatnonzero(state.credits > 0))
        accuracy = np.where(np.isnan(state.accuracy), -np.inf, state.accuracy)
        ranked = ranked[np.argsort(accuracy[ranked], kind="stable")]
        n = len(ranked)
        state.probability[:] = 0.0
        state.probability[ranked] = (n - np.arange(n)) / max(n * (n + 1) / 2, 1)

    def learn(self, told: Observation) -> FloatArray | None:
        self._learn_accuracy(told)
        return self.state.latency.learn(told)

    def amend(self, told: Observation) -> None:
        self._learn_accuracy(told)
        self.state.latency.amend(told)

    def _learn_accuracy(self, told: Observation) -> None:
        accuracy = told.column("accuracy")
        known = told.completed & ~np.isnan(accuracy)
        tiers = self.state.tier[told.clients[known]]
        np.add.at(self.state.total, tiers, accuracy[known])
        np.add.at(self.state.reports, tiers, 1.0)

    def summary(self) -> dict[str, FloatArray]:
        return {"tier": self.state.tier, "latency": self.state.latency.mean}
