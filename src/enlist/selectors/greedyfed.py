"""GreedyFed: every client once, then those whose updates improved the server's validation loss most."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray
from enlist.bandits import largest_credible, rest, top_k
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.state import State, column


@dataclasses.dataclass(frozen=True)
class GreedyFedSettings:
    """Settings of `greedyfed`.

    Parameters
    ----------
    memory : float or None, default None
        Weight of earlier values against a new one, at most 0.999; None for the mean of all values.
    """

    memory: float | None = None

    def __post_init__(self) -> None:
        if self.memory is not None:
            checks.finite("memory", self.memory, 0.0, 0.999)


@dataclasses.dataclass
class GreedyFedState(State):
    """Mean Shapley value of each client, 0 before the first, and how many rounds it covers.

    >>> GreedyFedState.create(2).value
    array([0., 0.])
    """

    value: FloatArray = column(0.0)
    rounds: FloatArray = column(0.0)


class GreedyFed(Selector[GreedyFedSettings, GreedyFedState]):
    """Asks every client once, then the k clients with the largest  V_i,  the mean of their Shapley values.

    The Shapley value of client i in a round with the clients S is the mean, over all orders of S, of what its update
    adds to the utility of the updates before it; the utility of some updates is minus the server's validation loss of
    the model with their average. It comes as Feedback.contribution: the simulator computes it exactly for up to seven
    updates, else by truncated Monte Carlo (enlist.training.shapley). With `memory` = m,  V_i = m V_i + (1 - m) value,
    which begins at 0; by default V_i is the mean.

    Reference: Singhal, Pandey and Popovski, Greedy Shapley Client Selection for Communication-Efficient Federated
    Learning, IEEE Networking Letters 2024; Liu et al., GTG-Shapley, ACM TIST 2022. Implemented from the authors' code
    (github.com/pringlesinghal/GreedyFed) and the abstract, so without equation numbers.
    Needs contribution. O(n) per round; 16 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("greedyfed", enlist.Clients(count=4), seed=1)
    >>> selector.tell(selector.ask(k=4), enlist.Feedback(contribution=[0.1, 0.4, -0.2, 0.3]))
    >>> selector.ask(k=2).clients
    array([1, 3])

    Differs from the code: the first pass goes over clients that are available and were never asked, in random order
    (the code goes by number), and slots left in its last round go to the best so far (there: to any client). A client
    whose first update is lost keeps the value 0. Absurd values are clipped. Up to seven updates the values are exact;
    an order is cut short at 1 % of what all bring (there: at a loss of 0.0001), and at most 50 orders are tried (there:
    50 n). As published, it never explores again: a client whose value was low once comes back only if the others' means
    fall below it, or if they are not available.
    """

    name = "greedyfed"
    reference = "Singhal et al. 2024"
    presets = {"paper": {}}
    needs = frozenset({"contribution"})
    Settings = GreedyFedSettings
    with_ = WithSettings(GreedyFedSettings)
    State = GreedyFedState

    def choose(self, request: Request) -> Choice:
        value = request.of(self.state.value)
        first = np.flatnonzero(request.of(self.counts.selected) == 0)
        first = first[top_k(np.zeros(len(first)), request.k, self.rng)]
        others = rest(len(value), first)
        best = others[top_k(value[others], request.k - len(first), self.rng)]
        new = np.zeros(len(value))
        new[first] = 1.0
        return request.pick(np.concatenate([first, best]), value=value, new=new)

    def learn(self, told: Observation) -> None:
        state, value = self.state, told.column("contribution")
        usable = told.completed & ~np.isnan(value)
        clients = told.clients[usable]
        bound = largest_credible(np.concatenate([value[usable], state.value[state.rounds > 0]]))
        state.rounds[clients] += 1.0
        memory = self.settings.memory
        kept = 1.0 - 1.0 / state.rounds[clients] if memory is None else memory
        new = np.clip(value[usable], -bound, bound)
        state.value[clients] = kept * state.value[clients] + (1.0 - kept) * new

    def amend(self, told: Observation) -> None:
        self.learn(told)

    def summary(self) -> dict[str, FloatArray]:
        return {"value": self.state.value}
