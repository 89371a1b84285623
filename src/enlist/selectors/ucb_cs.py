"""UCB-CS: a discounted bandit on the local loss."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import RecentValues, unseen_first
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.records import Selection
from enlist.state import State, column

WINDOW = 256
MOST_EXPONENT = 600.0


@dataclasses.dataclass(frozen=True)
class UCBCSSettings:
    """Settings of `ucb-cs`.

    Parameters
    ----------
    gamma : float, default 0.95
        Share of its weight that a round keeps in every later one.
    bonus_scale : float, default 0.3
        Multiplies the confidence width; 1 is the printed formula.

    >>> UCBCSSettings().gamma
    0.95
    """

    gamma: float = 0.95
    bonus_scale: float = 0.3

    def __post_init__(self) -> None:
        checks.finite("gamma", self.gamma, 1e-6, 1.0)
        checks.finite("bonus_scale", self.bonus_scale, 0.0)


@dataclasses.dataclass
class UCBCSState(State):
    """Discounted sums as of the round in which each client was last selected; they fade from there on.

    pulls    discounted number of selections
    mean     discounted mean of the losses that came back, with discounted number `weight`
    last     the round that pulls and weight refer to

    >>> UCBCSState.create(2, recent=RecentValues.of(8)).pulls
    array([0., 0.])
    """

    recent: RecentValues
    pulls: FloatArray = column(0.0)
    weight: FloatArray = column(0.0)
    mean: FloatArray = column(0.0)
    last: IntArray = column(0, int)


class UCBCS(Selector[UCBCSSettings, UCBCSState]):
    """The k clients with the largest  n_i/n (L_i/N_i + s sqrt(2 sigma^2 ln T / N_i)):  bandit on the local loss.

    L_i/N_i   mean loss and number of selections of client i, where a round counts gamma^age
    T         the same sum over all rounds so far, sum of gamma^age
    sigma     standard deviation of the last 256 losses reported
    n_i/n     share of the examples; equal if Clients.num_examples is not given

    Reference: Cho et al., Bandit-based Communication-Efficient Client Selection Strategies for Federated Learning,
    Asilomar 2020.
    Needs loss. O(n) per round; 32 bytes of state per client. Clients never selected come first.

    >>> import enlist
    >>> selector = enlist.create("ucb-cs", enlist.Clients(count=5), seed=1)
    >>> for _ in range(60):
    ...     picked = selector.ask(k=2)
    ...     selector.tell(picked, enlist.Feedback(loss=1.0 + picked.clients))
    >>> selector.counts.selected
    array([ 1,  2,  2, 57, 58])

    Differs from the paper (preset "paper" restores its gamma = 0.7 and full width): with n clients and k a round each
    is seen every n/k rounds, and at gamma = 0.7 the widths then grow so fast that it selects the clients that have
    waited longest; gamma is 0.95 and the width 0.3 of the printed one. Sigma comes from the losses of clients, because
    their spread within a client is not reported. Selections without a loss count in N_i but not in the mean, so a
    client that keeps failing is not tried again at once; one whose loss was never seen counts as the mean recent loss.
    """

    name = "ucb-cs"
    reference = "Cho et al. 2020"
    needs = frozenset({"loss"})
    presets = {"paper": {"gamma": 0.7, "bonus_scale": 1.0}}
    Settings = UCBCSSettings
    with_ = WithSettings(UCBCSSettings)
    State = UCBCSState

    def initial_state(self) -> UCBCSState:
        return UCBCSState.create(len(self.clients), recent=RecentValues.of(WINDOW))

    def choose(self, request: Request) -> Choice:
        loss, bonus = request.of(self._loss()), request.of(self._bonus(self.round))
        share = request.of(self._shares())
        unseen = request.of(self.counts.selected) == 0
        chosen = unseen_first(share * (loss + bonus), unseen, request.k, self.rng)
        return request.pick(chosen, loss=loss, bonus=bonus, share=share)

    def chosen(self, selection: Selection) -> None:
        state, clients = self.state, selection.clients
        kept = self.settings.gamma ** (selection.round - state.last[clients])
        state.pulls[clients] = state.pulls[clients] * kept + 1.0
        state.weight[clients] *= kept
        state.last[clients] = selection.round

    def learn(self, told: Observation) -> None:
        self._note(told)

    def amend(self, told: Observation) -> None:
        self._note(told)

    def _note(self, told: Observation) -> None:
        loss = told.column("loss")
        known = told.completed & ~np.isnan(loss)
        state, clients, loss = self.state, told.clients[known], loss[known]
        # The client may have been selected again before this reply came in.
        fresh = self.settings.gamma ** (state.last[clients] - told.selection.round)
        total = state.weight[clients] + fresh
        part = np.divide(fresh, total, out=np.zeros(len(total)), where=total > 0)
        state.weight[clients] = total
        state.mean[clients] += part * (loss - state.mean[clients])
        state.recent.add(loss)

    def _loss(self) -> FloatArray:
        recent = self.state.recent.credible()
        middle = float(recent.mean()) if len(recent) else 0.0
        return np.where(self.state.weight > 0, self.state.mean, middle)

    def _bonus(self, number: int) -> FloatArray:
        """The confidence widths for the choice of round `number`: the round before it has age 0."""
        gamma, past = self.settings.gamma, number - 1
        rounds = float(past) if gamma == 1.0 else (1.0 - gamma**past) / (1.0 - gamma)
        recent = self.state.recent.credible()
        sigma = float(recent.std()) if len(recent) else 0.0
        width = self.settings.bonus_scale * sigma * math.sqrt(2.0 * math.log(max(rounds, 1.0)))
        # 1/sqrt(N_i) by logarithms: after some thousand rounds N_i itself would be zero.
        state = self.state
        faded = -0.5 * (np.log(np.maximum(state.pulls, 1e-300)) + (past - state.last) * math.log(gamma))
        return np.asarray(width * np.exp(np.minimum(np.where(state.pulls > 0, faded, 0.0), MOST_EXPONENT)))

    def _shares(self) -> FloatArray:
        sizes, count = self.clients.num_examples, len(self.clients)
        if sizes is None or not sizes.any():
            return np.full(count, 1.0 / count)
        return np.asarray(sizes / sizes.sum())

    def summary(self) -> dict[str, FloatArray]:
        return {"loss": self._loss(), "bonus": self._bonus(self.round + 1)}
