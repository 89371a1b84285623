"""E3CS: an adversarial bandit on who returns in time, with a fairness quota."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray
from enlist.bandits import capped_shares, in_time, systematic
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import InputError
from enlist.methods import WithSettings
from enlist.state import State, column

FAINTEST = -600.0
CAPPED = 1.0 - 1e-9


@dataclasses.dataclass(frozen=True)
class E3CSSettings:
    """Settings of `e3cs`.

    Parameters
    ----------
    eta : float, default 0.5
        Learning rate.
    quota : {"constant", "late"}, default "constant"
        The least chance of each client: `share` of k/n, or nothing in the first quarter of the run and then k/n.
    share : float, default 0.5
        The share of k/n of the constant quota.
    rounds : int or None, default None
        Length of the run; quota="late" needs it.

    >>> E3CSSettings().share
    0.5
    """

    eta: float = 0.5
    quota: str = "constant"
    share: float = 0.5
    rounds: int | None = None

    def __post_init__(self) -> None:
        checks.finite("eta", self.eta, 0.0)
        checks.one_of("quota", self.quota, ("constant", "late"))
        checks.finite("share", self.share, 0.0, 1.0)
        if self.rounds is not None:
            checks.whole("rounds", self.rounds, minimum=1)
        elif self.quota == "late":
            raise InputError("quota 'late' depends on the length of the run; pass rounds=..., or quota='constant'.")


@dataclasses.dataclass
class E3CSState(State):
    """Logarithms of the weights; the largest is 0 after every update.

    >>> E3CSState.create(2).log_weight
    array([0., 0.])
    """

    log_weight: FloatArray = column(0.0)


class E3CS(Selector[E3CSSettings, E3CSState]):
    """k clients drawn with probabilities  p_i = sigma + (k - n sigma) w_i / sum w,  capped at 1, and

    w_i <- w_i exp((k - n sigma) eta x_i / (n p_i))   for the chosen with p_i < 1; x_i = 1 if it returned in time

    n clients are available, sigma is the probability granted to each. Where p_i would exceed 1, the rest is shared
    among the others (water-filling). The draw is systematic, so i is included with probability exactly p_i.

    Reference: Huang et al., Stochastic Client Selection for Federated Learning With Volatile Clients, IEEE IoT-J 2022.
    Needs nothing but outcomes. O(n log n) per round; 8 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("e3cs", enlist.Clients(count=5), seed=1)
    >>> for _ in range(200):
    ...     picked = selector.ask(k=2)
    ...     lost = picked.clients == 0
    ...     selector.tell(picked, enlist.Feedback(outcome=np.where(lost, enlist.Outcome.DROPPED, 0)))
    >>> selector.counts.selected.argmin()
    np.int64(0)

    Differs from the paper: n counts the available clients, and only they have probabilities. A late client that arrives
    after all stays a failure, unless it was cut off early and arrives before its deadline. Clients that join later
    begin with the largest weight.
    """

    name = "e3cs"
    reference = "Huang et al. 2022"
    presets = {"paper": {"eta": 0.5, "quota": "constant", "share": 0.5}}
    Settings = E3CSSettings
    with_ = WithSettings(E3CSSettings)
    State = E3CSState

    def choose(self, request: Request) -> Choice:
        count, granted = len(request.available), self._granted(request)
        probability = self._probabilities(request.of(self.state.log_weight), request.k, granted)
        rate = np.full(count, request.k / count - granted)
        return request.pick(systematic(probability, self.rng), probability=probability, rate=rate)

    def learn(self, told: Observation) -> None:
        terms = told.selection.terms
        if not terms:  # all were chosen: p = 1
            return
        index = np.searchsorted(told.selection.clients, told.clients)
        probability, rate = terms["probability"][index], terms["rate"][index]
        learns = (in_time(told) > 0) & (probability < CAPPED)
        if learns.any():
            log_weight = self.state.log_weight
            log_weight[told.clients[learns]] += self.settings.eta * (rate / probability)[learns]
            log_weight -= log_weight.max()

    def amend(self, told: Observation) -> None:
        """A client that was cut off early and arrives before its deadline did return in time."""
        self.learn(told)

    def _granted(self, request: Request) -> float:
        share = self.settings.share
        if self.settings.quota == "late":
            assert self.settings.rounds is not None
            share = 0.0 if 4 * request.round <= self.settings.rounds else 1.0
        return share * request.k / len(request.available)

    @staticmethod
    def _probabilities(log_weight: FloatArray, k: int, granted: float) -> FloatArray:
        # A floor instead of a weight of zero: the probabilities must sum to k whatever was learned.
        weight = np.exp(np.maximum(log_weight - log_weight.max(), FAINTEST))
        above = capped_shares(weight, k - len(weight) * granted, cap=1.0 - granted)
        return np.minimum(granted + above, 1.0)

    def summary(self) -> dict[str, FloatArray]:
        return {"log_weight": self.state.log_weight}
