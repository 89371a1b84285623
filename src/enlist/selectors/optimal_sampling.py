"""Optimal client sampling: the longer an update, the likelier its client; weights keep the aggregate unbiased."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray
from enlist.bandits import capped_shares, credible, largest_credible, systematic
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.state import State, column


@dataclasses.dataclass(frozen=True)
class OptimalSamplingSettings:
    """Settings of `optimal-sampling`.

    Parameters
    ----------
    floor : float, default 0.2
        Share of the slots that is distributed evenly, whatever the norms.

    >>> OptimalSamplingSettings().floor
    0.2
    """

    floor: float = 0.2

    def __post_init__(self) -> None:
        checks.finite("floor", self.floor, 0.0, 1.0)


@dataclasses.dataclass
class OptimalSamplingState(State):
    """Length of each client's last update (NaN: none yet), and the round it was asked in.

    >>> OptimalSamplingState.create(2).norm
    array([nan, nan])
    """

    norm: FloatArray = column(np.nan)
    measured: AnyArray = column(0, np.int32)


class OptimalSampling(Selector[OptimalSamplingSettings, OptimalSamplingState]):
    """Client i takes part with probability  p_i = min(1, c u_i),  sum p_i = k,  and its update weighs  w_i / p_i.

    u_i = w_i |g_i|, w_i its share of the samples, g_i its last update. These p_i minimise the variance of the
    aggregate, sum_i (1/p_i - 1) u_i^2, among all with sum k (in the paper's words, with u sorted and l the
    number of clients below 1:  p_i = (k + l - n) u_i / sum of the l smallest). The weights make it unbiased.

    Reference: Chen, Horvath and Richtarik, Optimal Client Sampling for Federated Learning, TMLR 2022.
    Needs update_norm; num_examples helps. O(n log n) per round; 12 bytes of state per client. It weights updates
    itself.

    >>> import enlist
    >>> selector = enlist.create("optimal-sampling", enlist.Clients(count=4), seed=1, floor=0.0)
    >>> selector.tell(selector.ask(k=4), enlist.Feedback(update_norm=[8.0, 1.0, 1.0, 2.0]))
    >>> picked = selector.ask(k=2)
    >>> picked.clients, picked.probabilities, picked.weights
    (array([0, 1]), array([1.  , 0.25]), array([0.25, 1.  ]))

    Differs from the paper (preset "paper" leaves out the floor): norms are those of the last participation, since
    clients that are not asked do not train; a client without one counts as the mean of the others. A fifth of the slots
    is distributed evenly, so that no client whose update was short once is forgotten, or weighs without bound. Exactly
    k clients are drawn (systematic sampling), not k on average. The weight of a lost client is not redistributed.
    """

    name = "optimal-sampling"
    reference = "Chen et al. 2022"
    presets = {"paper": {"floor": 0.0}}
    needs = frozenset({"update_norm"})
    may_choose_fewer = True
    Settings = OptimalSamplingSettings
    with_ = WithSettings(OptimalSamplingSettings)
    State = OptimalSamplingState

    def choose(self, request: Request) -> Choice:
        held = self.clients.num_examples
        share = np.ones(len(request.available)) if held is None else np.minimum(request.of(held), 1e12)
        share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1.0 / len(share))
        norm = self._norms(request.of(self.state.norm))
        importance = share * norm
        even = np.full(len(share), 1.0 / len(share))
        total = float(importance.sum())
        mixed = even if total <= 0 else (1.0 - self.settings.floor) * importance / total + self.settings.floor * even
        chance = capped_shares(mixed, request.k)
        drawn = systematic(chance, self.rng)[: request.k]
        safe = np.clip(chance, 1e-12, 1.0)
        return request.pick(drawn, weights=share / safe, probabilities=safe, norm=norm, share=share)

    def _norms(self, norm: FloatArray) -> FloatArray:
        """Norms, absurd ones clipped; a client without one counts as the mean of the others."""
        known = norm[~np.isnan(norm)]
        if not len(known):
            return np.ones(len(norm))
        usual = float(credible(known).mean())
        return np.minimum(np.where(np.isnan(norm), usual, norm), largest_credible(known))

    def learn(self, told: Observation) -> None:
        norm, number = told.column("update_norm"), told.selection.round
        usable = told.completed & ~np.isnan(norm) & (self.state.measured[told.clients] <= number)
        self.state.norm[told.clients[usable]] = norm[usable]
        self.state.measured[told.clients[usable]] = number

    def amend(self, told: Observation) -> None:
        self.learn(told)

    def summary(self) -> dict[str, FloatArray]:
        return {"norm": self.state.norm}
