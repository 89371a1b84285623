"""CS-UCB and CS-UCB-Q: fast clients by upper confidence bounds, with and without fairness queues."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import MeanLatency, VirtualQueues, capped_shares, top_k, unseen_first
from enlist.clients import Clients
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import InputError, MissingColumnError
from enlist.methods import WithSettings
from enlist.records import Selection
from enlist.state import State, column, nested


@dataclasses.dataclass
class CSUCBState(State):
    """Mean latency of each client, and the last deadline (0: none yet).

    >>> CSUCBState.create(2).deadline
    0.0
    """

    latency: MeanLatency = nested(MeanLatency)
    deadline: float = 0.0


SettingsT = TypeVar("SettingsT")
CSStateT = TypeVar("CSStateT", bound=CSUCBState)


class _LatencyReward(Selector[SettingsT, CSStateT]):
    """What both share: reward 1 - latency/deadline, 0 for a client that missed the deadline or was lost."""

    needs = frozenset({"latency"})

    def rewards(self) -> FloatArray:
        """Mean reward of every client; without a deadline, the longest latency seen stands in."""
        latency = self.state.latency
        scale = self.state.deadline or latency.slowest() or 1.0
        return np.where(latency.count > 0, 1.0 - np.minimum(latency.mean / scale, 1.0), 0.0)

    def begin_round(self, request: Request) -> None:
        if np.isfinite(request.deadline):
            self.state.deadline = request.deadline

    def learn(self, told: Observation) -> FloatArray | None:
        return self.state.latency.learn(told)

    def amend(self, told: Observation) -> None:
        self.state.latency.amend(told)


@dataclasses.dataclass(frozen=True)
class CSUCBSettings:
    """Settings of `cs-ucb`.

    Parameters
    ----------
    bonus_scale : float, default 0.1
        Multiplies the confidence width; 1 is the printed formula.

    >>> CSUCBSettings().bonus_scale
    0.1
    """

    bonus_scale: float = 0.1

    def __post_init__(self) -> None:
        checks.finite("bonus_scale", self.bonus_scale, 0.0)


class CSUCB(_LatencyReward[CSUCBSettings, CSUCBState]):
    """The k clients with the largest  y_i + s sqrt((k+1) ln t / z_i):  y mean reward, z observations, t round.

    Reference: Xia et al., Multi-Armed Bandit-Based Client Scheduling for Federated Learning, IEEE TWC 2020.
    Reward r = 1 - latency/deadline in [0, 1]; 0 for a client that is late or lost. Clients never tried come first.
    Needs latency. O(n) per round; 16 bytes of state per client. Without a deadline, the longest latency seen stands in.

    >>> import enlist
    >>> selector = enlist.create("cs-ucb", enlist.Clients(count=3), seed=1)
    >>> for _ in range(9):
    ...     picked = selector.ask(k=1, deadline=10.0)
    ...     selector.tell(picked, enlist.Feedback(latency=1.0 + 4.0 * picked.clients))
    >>> selector.counts.selected
    array([7, 1, 1])

    Differs from the paper: bonus_scale is 0.1 by default, because the printed bonus (preset "paper") swamps rewards
    in [0, 1] for thousands of rounds; the first pass is random instead of round-robin; ln(max(t, 2)).
    """

    name = "cs-ucb"
    reference = "Xia et al. 2020"
    presets = {"paper": {"bonus_scale": 1.0}}
    Settings = CSUCBSettings
    with_ = WithSettings(CSUCBSettings)
    State = CSUCBState

    def choose(self, request: Request) -> Choice:
        mean = request.of(self.rewards())
        bonus = request.of(self._bonus(request.k))
        unseen = request.of(self.counts.selected) == 0
        return request.pick(unseen_first(mean + bonus, unseen, request.k, self.rng), mean=mean, bonus=bonus)

    def _bonus(self, k: int) -> FloatArray:
        pulls = np.maximum(self.state.latency.count, 1)
        return np.asarray(self.settings.bonus_scale * np.sqrt((k + 1) * np.log(max(self.round, 2)) / pulls))

    def summary(self) -> dict[str, FloatArray]:
        return {"mean": self.rewards(), "bonus": self._bonus(self.last_k)}


@dataclasses.dataclass(frozen=True)
class CSUCBQSettings:
    """Settings of `cs-ucb-q`.

    Parameters
    ----------
    beta : float, default 0.5
        Weight of the queues against rewards.
    share : float, default 0.5
        Fraction of rounds that a client is owed, as a share of k n_i / sum n.
    fractions : array of float or None, default None
        The fractions themselves, one per client, instead of `share`.
    bonus_scale : float, default 1.0
        Multiplies the confidence width; 1 is the printed formula.

    >>> CSUCBQSettings().beta
    0.5
    """

    beta: float = 0.5
    share: float = 0.5
    fractions: FloatArray | None = None
    bonus_scale: float = 1.0

    def __post_init__(self) -> None:
        checks.finite("beta", self.beta, 0.0, 1.0)
        checks.finite("share", self.share, 0.0, 1.0)
        checks.finite("bonus_scale", self.bonus_scale, 0.0)
        if self.fractions is not None:
            given = checks.as_array("cs-ucb-q", "fractions", self.fractions, float)
            object.__setattr__(self, "fractions", checks.probabilities("fractions", given, given.size))


@dataclasses.dataclass
class CSUCBQState(CSUCBState):
    """Mean rewards, what each client is owed, how often it was available, and its given fraction (NaN: by size).

    >>> CSUCBQState.create(2).queues.backlog
    array([0., 0.])
    """

    queues: VirtualQueues = nested(VirtualQueues)
    seen_available: FloatArray = column(0.0)
    joined_after: IntArray = column(0, int)
    fraction: FloatArray = column(np.nan)


class CSUCBQ(_LatencyReward[CSUCBQSettings, CSUCBQState]):
    """The k clients with the largest  (1-beta) min(y_i + sqrt(2 ln t / z_i), 1) + beta D_i.

    D_i is a virtual queue, D <- max(D + c_i - b_i(t-1), 0), that makes sure client i is chosen in a fraction c_i of
    the rounds; b_i says whether it was chosen in the last one.

    Reference: Xia et al., Multi-Armed Bandit-Based Client Scheduling for Federated Learning, IEEE TWC 2020.
    Needs latency, and num_examples unless `fractions` are given. O(n log n) per round; 49 bytes of state per client.
    With a small beta it is a plain UCB for the first (1-beta)/(beta c_i) rounds.

    >>> import enlist
    >>> selector = enlist.create("cs-ucb-q", enlist.Clients(count=3), seed=1, fractions=[0.6, 0.5, 0.4])
    >>> for _ in range(200):
    ...     picked = selector.ask(k=2, deadline=10.0)
    ...     selector.tell(picked, enlist.Feedback(latency=1.0 + 4.0 * picked.clients))
    >>> (selector.counts.selected / 200 >= [0.6, 0.5, 0.39]).all()
    np.True_

    Differs from the paper: infeasible fractions would let the queues grow without bound, so c_i is capped at how often
    client i has been available, and fractions that sum to more than k are refused.
    """

    name = "cs-ucb-q"
    reference = "Xia et al. 2020"
    presets = {"paper": {"bonus_scale": 1.0}}
    Settings = CSUCBQSettings
    with_ = WithSettings(CSUCBQSettings)
    State = CSUCBQState

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        by_size = frozenset({"clients.num_examples"}) if self.settings.fractions is None else frozenset()
        return by_size | {"latency"}

    def _check_population(self, clients: Clients) -> None:
        if self.settings.fractions is None and clients.num_examples is None:
            raise MissingColumnError(
                "selector 'cs-ucb-q' needs clients.num_examples or fractions=[...], one per client."
            )
        super()._check_population(clients)

    def initial_state(self) -> CSUCBQState:
        state = super().initial_state()
        fractions = self.settings.fractions
        if fractions is not None:
            if len(fractions) > len(self.clients):
                given = len(fractions)
                raise InputError(f"fractions has {given} values for {len(self.clients)} clients; give one each.")
            state.fraction[: len(fractions)] = fractions
        return state

    def joined(self, before: int) -> None:
        self.state.joined_after[before:] = self.round

    def compacted(self, kept: IntArray) -> None:
        if self.settings.fractions is not None:
            given = self.settings.fractions[kept[kept < len(self.settings.fractions)]]
            self.settings = dataclasses.replace(self.settings, fractions=given)

    def validate(self, request: Request) -> None:
        owed = float(np.nansum(self.state.fraction))
        if request.k and owed > request.k + 1e-9:
            raise InputError(f"fractions sum to {owed:g}, more than k={request.k} can serve; lower them or raise k.")

    def begin_round(self, request: Request) -> None:
        super().begin_round(request)
        state = self.state
        state.seen_available[request.online] += 1.0
        state.queues.advance(
            np.minimum(self._required(request.k), state.seen_available / (self.round - state.joined_after))
        )

    def choose(self, request: Request) -> Choice:
        state, beta = self.state, self.settings.beta
        seen = request.of(state.latency.count)
        pulls = np.maximum(seen, 1)
        mean = request.of(self.rewards())
        width = self.settings.bonus_scale * np.sqrt(2.0 * np.log(max(self.round, 2)) / pulls)
        speed = np.where(seen == 0, 1.0, np.minimum(mean + width, 1.0))
        queue = request.of(state.queues.backlog)
        return request.pick(
            top_k((1 - beta) * speed + beta * queue, request.k, self.rng), mean=mean, speed=speed, queue=queue
        )

    def chosen(self, selection: Selection) -> None:
        self.state.queues.serve(selection.clients)

    def _required(self, k: int) -> FloatArray:
        given = self.state.fraction
        if self.clients.num_examples is None:
            return np.nan_to_num(given, nan=0.0)
        by_size = self.settings.share * capped_shares(self.clients.num_examples, float(k))
        return np.where(np.isnan(given), by_size, given)

    def summary(self) -> dict[str, FloatArray]:
        return {"mean": self.rewards(), "queue": self.state.queues.backlog}
