"""FedCor: a Gaussian process over the loss changes of all clients, and the clients most informative about them."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.bandits import absurd, uniform
from enlist.bandits.factors import fit, pick
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import InputError
from enlist.methods import WithSettings
from enlist.records import Selection
from enlist.state import State, column

HISTORY, DIMENSION = 32, 15
"""Rounds of loss changes kept, and numbers in an embedding (the public code's `dimension`)."""
POOL = 20_000
"""The most available clients considered; beyond that, a random sample."""


@dataclasses.dataclass(frozen=True)
class FedCorSettings:
    """Settings of `fedcor`.

    Parameters
    ----------
    warm_up : int, default 15
        Random rounds before the first fit.
    interval : int, default 10
        One round in this many is random, and the process is refitted after it.
    discount : float, default 0.95
        Factor by which a client counts less each time it is chosen, until the next fit; the paper's beta.
    memory : float, default 0.95
        Factor by which a loss change counts less for each round since.
    noise : float, default 0.01
        Standard deviation of the part of a loss change that no other client shares.

    >>> FedCorSettings().interval
    10
    """

    warm_up: int = 15
    interval: int = 10
    discount: float = 0.95
    memory: float = 0.95
    noise: float = 0.01

    def __post_init__(self) -> None:
        checks.whole("warm_up", self.warm_up, minimum=1)
        checks.whole("interval", self.interval, minimum=2)
        checks.finite("discount", self.discount, 0.0, 1.0)
        checks.finite("memory", self.memory, 1e-6, 1.0)
        checks.finite("noise", self.noise, 1e-9)


@dataclasses.dataclass
class FedCorState(State):
    """Last losses, the loss changes of the last rounds, and what was fitted to them.

    >>> FedCorState.create(2, when=np.zeros(HISTORY, np.int64)).discount
    array([1., 1.])
    """

    when: AnyArray
    samples: int = 0
    told: bool = False
    fitted: int = 0
    loss: FloatArray = column(np.nan)
    measured: AnyArray = column(0, np.int32)
    change: AnyArray = column(np.nan, np.float32, (HISTORY,))
    embedding: AnyArray = column(0.0, np.float32, (DIMENSION,))
    discount: FloatArray = column(1.0)


class FedCor(Selector[FedCorSettings, FedCorState]):
    """Selects clients one by one, each time the one with the largest  a_k / sqrt(S_kk) * sum_i p_i S_ik.

    S     covariance of the clients' loss changes in a random round,  X X^T + noise^2 I,  X one embedding per client;
          once k is chosen, it is conditioned on k:  S <- S - S_k S_k^T / S_kk
    p_i   share of the samples that client i holds; clients already chosen no longer count
    a_k   1, times `discount` for each time that k was chosen since the last fit

    So it selects clients whose progress is correlated with that of many others, then those that add something new.
    X maximises the likelihood of the loss changes seen in random rounds: the first `warm_up` rounds, then one every
    `interval` rounds. Before and after such a round it wants fresh losses of all available clients (`candidates`).

    Reference: Tang et al., FedCor: Correlation-Based Active Client Selection Strategy for Heterogeneous Federated
    Learning, CVPR 2022. Needs loss; num_examples helps. O(n) per round and O(n k) for the first 20,000 available
    clients; 200 bytes of state per client. Pair it with an unweighted mean.

    >>> import enlist
    >>> selector = enlist.create("fedcor", enlist.Clients(count=4), seed=1, warm_up=3)
    >>> for losses in ([9, 9, 9, 9], [6, 6, 9, 8.9], [5, 5, 8.9, 8.9], [1, 1, 9, 9]):
    ...     picked = selector.ask(k=1, fresh=enlist.Feedback(clients=range(4), loss=losses))
    >>> selector.state.fitted, int(picked.clients[0]) < 2
    (4, True)

    Differs from the paper: the likelihood's maximum over X is computed in closed form (probabilistic PCA: the
    covariance is linear in the embeddings, as in the public code's runs), not approached by gradient steps. Losses for
    the refits come from real random rounds; the paper trains a trial model and discards it. Without fresh losses,
    participants' own losses are used: their changes since the last time, divided by the square root of the rounds
    between, replace the measured ones. With more than 20,000 available clients, 20,000 are drawn. An absurd loss change
    counts as unknown, an unknown one as the client's mean.
    """

    name = "fedcor"
    reference = "Tang et al. 2022"
    presets = {"paper": {}, "cifar-10": {"warm_up": 20, "interval": 50, "discount": 0.9, "memory": 0.99}}
    needs = frozenset({"loss"})
    Settings = FedCorSettings
    with_ = WithSettings(FedCorSettings)
    State = FedCorState

    def initial_state(self) -> FedCorState:
        return FedCorState.create(len(self.clients), when=np.zeros(HISTORY, np.int64))

    def candidates(self, available: ArrayLike | None = None, k: int = 1) -> IntArray:
        """All available clients before and after a random round; otherwise none."""
        number = self.round + 1
        if self._random(number) or self._random(number - 1):
            return self.resolve_available(available)
        return np.zeros(0, dtype=np.int64)

    def _random(self, number: int) -> bool:
        """Whether a round is random, to learn how losses change together."""
        beyond = number - self.settings.warm_up - 1
        return 1 <= number <= self.settings.warm_up or (beyond > 0 and beyond % self.settings.interval == 0)

    def validate(self, request: Request) -> None:
        if request.fresh is not None and request.fresh.loss is None:
            raise InputError("selector 'fedcor' got fresh without loss; pass Feedback(clients=..., loss=...).")

    def begin_round(self, request: Request) -> None:
        state, fresh = self.state, request.fresh
        if fresh is not None and fresh.clients is not None and fresh.loss is not None:
            last = state.measured[fresh.clients] == self.round - 1
            if self._random(self.round - 1):
                self._sample(fresh.clients[last], fresh.loss[last] - state.loss[fresh.clients[last]])
            state.told = True
            self._note(fresh.clients, fresh.loss, self.round)
        if self.round > self.settings.warm_up and self._random(self.round - 1) and state.samples > 1:
            self._fit()

    def choose(self, request: Request) -> Choice:
        if self._random(self.round) or not self.state.fitted:
            return request.pick(uniform(len(request.available), request.k, self.rng))
        pool = self.rng.permutation(len(request.available))[: max(POOL, request.k)]
        weights = self.clients.num_examples
        weights = np.ones(len(self.clients)) if weights is None else np.minimum(weights, 1e12)
        weights = weights / max(float(weights.sum()), 1e-12)
        chosen, score = pick(
            self.state.embedding,
            self.settings.noise,
            weights,
            self.state.discount,
            request.available[pool],
            request.k,
        )
        return Choice(
            request.available[pool[chosen]],
            {"score": score, "discount": self.state.discount[request.available[pool[chosen]]]},
        )

    def chosen(self, selection: Selection) -> None:
        if not self._random(self.round):
            self.state.discount[selection.clients] *= self.settings.discount

    def _fit(self) -> None:
        state, held = self.state, min(self.state.samples, HISTORY)
        age = state.when[:held].max() - state.when[:held]  # only ratios count, and a long pause must not make all 0
        state.embedding[:] = fit(state.change[:, :held], self.settings.memory**age, self.settings.noise, DIMENSION)
        state.fitted = self.round
        state.discount[:] = 1.0

    def _sample(self, clients: IntArray, change: FloatArray) -> None:
        """Keep one more row of loss changes, in place of the oldest."""
        usable = ~np.isnan(change) & ~absurd(change, change)
        if usable.sum() < 2:
            return  # one client alone says nothing about how losses change together
        state, place = self.state, self.state.samples % HISTORY
        state.change[:, place] = np.nan
        state.change[clients[usable], place] = change[usable]
        state.when[place] = self.round
        state.samples += 1

    def _note(self, clients: IntArray, loss: FloatArray, number: int) -> None:
        newer: BoolArray = ~np.isnan(loss) & (self.state.measured[clients] <= number)
        self.state.loss[clients[newer]] = loss[newer]
        self.state.measured[clients[newer]] = number

    def learn(self, told: Observation) -> None:
        done, number = told.completed, told.selection.round
        clients, loss = told.clients[done], told.column("loss")[done]
        if self.state.told:
            return  # measured losses are better: those of all clients, with the same model
        before = self.state.measured[clients]
        again = (before > 0) & (before < number)
        span = np.sqrt(number - before[again])
        self._sample(clients[again], (loss[again] - self.state.loss[clients[again]]) / span)
        self._note(clients, loss, number)

    def amend(self, told: Observation) -> None:
        self.learn(told)

    def summary(self) -> dict[str, FloatArray]:
        return {"loss": self.state.loss, "discount": self.state.discount}
