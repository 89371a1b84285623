"""BSFL: fast clients by upper confidence bounds plus a generalisation term, solved exactly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import (
    annealing,
    argmax_min_plus_sum,
    capped_shares,
    check_sets,
    credible,
    credible_extent,
    exhaustive,
    proportional_shares,
    scored_latency,
)
from enlist.bandits.credible import APART, SMALL
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import InputError
from enlist.methods import WithSettings
from enlist.state import State, column

GENERALISATIONS = ("iid", "size-quality", "loss")
SOLVERS = ("exact", "alsa", "annealing", "exhaustive")


@dataclasses.dataclass(frozen=True)
class BSFLSettings:
    """Settings of `bsfl`.

    Parameters
    ----------
    alpha : float, default 1.0
        Weight of generalisation against speed.
    beta : float, default 1.0
        Power of a client's lag behind its share.
    bonus_scale : float, default 0.1
        Multiplies the confidence width; 1 is the printed formula.
    generalisation : {"iid", "size-quality", "loss"} or callable, default "iid"
        The share that a client should have: the same for all (Eq. 3), by samples and quality (Eq. 4), by local
        loss, or a function (selector, k) -> target share of every client.
    normalised : bool, default True
        Divide the lag by its target, so that alpha means the same for any n and k.
    capped : bool, default True
        Cap the targets of "size-quality" at 1 by water-filling, as no client can take part in more than all rounds;
        False is Eq. 4 as printed.
    solver : {"exact", "alsa", "annealing", "exhaustive"}, default "exact"
        How the best set is found.
    shortest : float or None, default None
        The shortest possible latency, in seconds, if known; None learns it.
    rates : {"round", "available"}, default "round"
        Whether selections are counted per round, or per round in which the client was available.
    steps : int, default 3500
        Steps of the annealing solvers.

    >>> BSFLSettings().alpha
    1.0
    """

    alpha: float = 1.0
    beta: float = 1.0
    bonus_scale: float = 0.1
    generalisation: str | Callable[..., FloatArray] = "iid"
    normalised: bool = True
    capped: bool = True
    solver: str = "exact"
    shortest: float | None = None
    rates: str = "round"
    steps: int = 3500

    def __post_init__(self) -> None:
        checks.finite("alpha", self.alpha, 0.0)
        checks.finite("beta", self.beta, 0.0)
        checks.finite("bonus_scale", self.bonus_scale, 0.0)
        if not callable(self.generalisation):
            checks.one_of("generalisation", self.generalisation, GENERALISATIONS)
        checks.one_of("solver", self.solver, SOLVERS)
        checks.one_of("rates", self.rates, ("round", "available"))
        checks.whole("steps", self.steps, minimum=1)
        checks.finite("steps", self.steps, 1, 10**8)
        if self.shortest is not None:
            checks.above_zero("shortest", self.shortest)


@dataclasses.dataclass
class BSFLState(State):
    """Sums of 1/latency, so that the shortest latency may change without invalidating history; last losses.

    >>> BSFLState.create(2).inverse_latency
    array([0., 0.])
    """

    pulls: IntArray = column(0, int)
    inverse_latency: FloatArray = column(0.0)
    loss: FloatArray = column(np.nan)
    rounds_available: FloatArray = column(0.0)
    shortest: float = np.inf
    longest: float = 0.0


class BSFL(Selector[BSFLSettings, BSFLState]):
    """The set S of k clients that maximises  min_S ucb_i + (alpha/k) sum_S g_i  (Eq. 13), found exactly.

    ucb_i      mean speed of client i + s sqrt((k+1) ln t / m_i), where speed = shortest latency / latency, in (0, 1]
               (Eqs. 8-12): an optimistic estimate; infinite if i was never selected
    g_i        |x_i|^beta sgn(x_i), where x_i = target_i - c_i / t: how far client i lags behind its share (Eqs. 3, 4)
    target_i   the share of rounds that i should take part in: k/n ("iid"); k d_i / sum d, where d = num_examples *
               quality ("size-quality"); or in proportion to its last local loss ("loss")
    t, n, k    the round, the number of clients, and how many of them are selected
    c_i, m_i   rounds in which client i was selected, and those whose outcome is known
    alpha, s   weight of the second term, and `bonus_scale`

    In words: a round takes as long as its slowest client, so the first term is the estimated speed of the slowest
    member of S. Estimates of rarely observed clients are raised, so that all are tried often enough. The second term
    favours clients that were selected less often than their share, so that the model learns from all data.

    Reference: Ben Ami, Cohen and Zhao, Client Selection for Generalization in Accelerated Federated Learning: A
    Multi-Armed Bandit Approach, 2023 (equation numbers are the paper's).
    Needs latency, and num_examples for "size-quality". O(n log n) per round; 32 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("bsfl", enlist.Clients(count=6), seed=1)
    >>> for _ in range(60):
    ...     picked = selector.ask(k=2, deadline=10.0)
    ...     selector.tell(picked, enlist.Feedback(latency=np.where(picked.clients == 0, 9.0, 1.0)))
    >>> selector.counts.selected[0] < selector.counts.selected[1:].min()
    np.True_

    Differs from the paper (preset "paper" restores the printed form): the bonus is scaled by 0.1, because speeds lie in
    [0, 1] and the printed one exceeds that range for thousands of rounds; the lag x is divided by its target and
    clipped to [-1, 1], so alpha means the same for any n and k; targets above 1 are capped by water-filling. The
    optimum is exact: the paper calls that infeasible and anneals (solver="annealing", "alsa"). A client that is late,
    lost or failed is scored at the deadline; one cut off early, at no better than its mean so far.
    """

    name = "bsfl"
    reference = "Ben Ami et al. 2023 (BSFL)"
    presets = {"paper": {"bonus_scale": 1.0, "normalised": False, "capped": False, "alpha": 1.0, "beta": 1.0}}
    Settings = BSFLSettings
    with_ = WithSettings(BSFLSettings)
    State = BSFLState

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        extra = {"size-quality": {"clients.num_examples"}, "loss": {"loss"}}
        kind = self.settings.generalisation
        return frozenset({"latency"} | (extra.get(kind, set()) if isinstance(kind, str) else set()))

    def validate(self, request: Request) -> None:
        if self.settings.solver == "exhaustive" and 0 < request.k < len(request.available):
            check_sets(len(request.available), request.k)
        if callable(self.settings.generalisation):
            self.targets(request.k)

    def begin_round(self, request: Request) -> None:
        self.state.rounds_available[request.online] += 1.0

    def choose(self, request: Request) -> Choice:
        speed, bonus = request.of(self.speed()), request.of(self.bonus(request.k))
        lag = request.of(self.generalisation(request.k))
        untried = request.of(self.state.pulls) == 0
        keys = np.where(untried & (request.of(self.counts.selected) == 0), np.inf, speed + bonus)
        chosen = self._solve(keys, self.settings.alpha / request.k * lag, request.k)
        return request.pick(chosen, speed=speed, bonus=bonus, generalisation=lag)

    def _solve(self, keys: FloatArray, values: FloatArray, k: int) -> IntArray:
        solver = self.settings.solver
        if solver == "exact":
            return argmax_min_plus_sum(keys, values, k, self.rng)
        if solver == "exhaustive":
            return exhaustive(keys, values, k, self.rng)
        return annealing(keys, values, k, self.rng, self.settings.steps, alsa=solver == "alsa")[0]

    def speed(self) -> FloatArray:
        """Mean of shortest latency / latency, per client."""
        shortest, pulls = self._shortest(), np.maximum(self.state.pulls, 1)
        if not np.isfinite(shortest):
            return np.zeros(len(self.clients))
        return np.minimum(shortest * self.state.inverse_latency / pulls, 1.0)

    def _shortest(self) -> float:
        """The latency without training: as set, else the shortest seen, unless that is absurd."""
        if self.settings.shortest is not None:
            return self.settings.shortest
        tried, shortest = self.state.pulls > 0, self.state.shortest
        if not np.isfinite(shortest) or shortest * APART * SMALL >= 1.0:
            return shortest
        speeds = self.state.inverse_latency[tried] / self.state.pulls[tried]
        fastest = credible_extent(1.0 / shortest, speeds)
        return shortest if fastest * shortest >= 1.0 - 1e-9 else 1.0 / fastest

    def bonus(self, k: int) -> FloatArray:
        """The confidence width of Eq. 12."""
        pulls = np.maximum(self.state.pulls, 1)
        return np.asarray(self.settings.bonus_scale * np.sqrt((k + 1) * np.log(max(self.round, 2)) / pulls))

    def generalisation(self, k: int) -> FloatArray:
        """How far each client lags behind its share (Eqs. 3, 4)."""
        target = self.targets(k)
        rounds: FloatArray | float = float(self.round)
        if self.settings.rates == "available":
            rounds = np.maximum(self.state.rounds_available, 1.0)
        lag = target - self.counts.selected / rounds
        if self.settings.normalised:
            lag = np.clip(lag / np.maximum(target, 1e-12), -1.0, 1.0)
        return np.asarray(np.abs(lag) ** self.settings.beta * np.sign(lag))

    def targets(self, k: int) -> FloatArray:
        """The share of rounds that each client should take part in; they sum to k. As printed, one may exceed 1."""
        count, kind = len(self.clients), self.settings.generalisation
        share = min(k / count, 1.0)
        if callable(kind):
            targets = np.asarray(kind(self, k), dtype=float)
            if targets.shape != (count,) or not np.isfinite(targets).all():
                raise InputError(f"generalisation returned shape {targets.shape}; give one finite target per client.")
            return targets
        if kind == "size-quality":
            assert self.clients.num_examples is not None
            quality = 1.0 if self.clients.quality is None else self.clients.quality
            shares = capped_shares if self.settings.capped else proportional_shares
            return shares(self.clients.num_examples * quality, float(k))
        if kind == "loss" and not np.isnan(self.state.loss).all():
            # Clients whose loss is unknown count as if they had the largest credible one.
            known = self.state.loss[~np.isnan(self.state.loss)]
            losses = np.where(np.isnan(self.state.loss), credible(known).max(), self.state.loss)
            return capped_shares(np.maximum(losses, 1e-12), float(k))
        return np.full(count, share)

    def learn(self, told: Observation) -> FloatArray | None:
        state, clients = self.state, told.clients
        self._note(told)
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = state.pulls[clients] / state.inverse_latency[clients]
        inverse = 1.0 / np.maximum(scored_latency(told, expected, state.longest), 1e-9)
        self._credit(clients, inverse)
        return inverse

    def _credit(self, clients: IntArray, inverse: FloatArray) -> None:
        known = ~np.isnan(inverse)
        self.state.pulls[clients[known]] += 1
        self.state.inverse_latency[clients[known]] += inverse[known]

    def amend(self, told: Observation) -> None:
        assert told.credited is not None
        true = 1.0 / np.maximum(told.latency, 1e-9)
        new, known = np.isnan(told.credited), ~np.isnan(true)
        self._credit(told.clients[new], true[new])
        again = ~new & known
        self.state.inverse_latency[told.clients[again]] += true[again] - told.credited[again]
        self._note(told)

    def _note(self, told: Observation) -> None:
        quickest = np.nanmin(told.column("latency")[told.completed], initial=np.inf)
        self.state.shortest = min(self.state.shortest, max(float(quickest), 1e-9))
        self.state.longest = max(self.state.longest, float(np.nanmax(told.latency, initial=0.0)))
        loss = told.column("loss")
        known = told.completed & ~np.isnan(loss)
        self.state.loss[told.clients[known]] = loss[known]

    def summary(self) -> dict[str, FloatArray]:
        return {"speed": self.speed(), "bonus": self.bonus(self.last_k)}
