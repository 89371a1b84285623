"""DivFL: clients whose updates represent those of all, by facility location."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist.bandits import Sketches, distances, facility_location, uniform
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings

MOST = 500
"""The most clients considered, and the most represented; beyond that, a random sample."""


@dataclasses.dataclass(frozen=True)
class DivFLSettings:
    """Settings of `divfl`.

    Parameters
    ----------
    explore : float, default 0.5
        Share of the slots that goes to clients never heard from, as long as there are any.
    weights : {"represented", "server"}, default "represented"
        "represented" weights a client by the samples of those it represents; "server" leaves weights to the server.

    >>> DivFLSettings().explore
    0.5
    """

    explore: float = 0.5
    weights: str = "represented"

    def __post_init__(self) -> None:
        checks.finite("explore", self.explore, 0.0, 1.0)
        checks.one_of("weights", self.weights, ("represented", "server"))


class DivFL(Selector[DivFLSettings, Sketches]):
    """The set S of k clients with the smallest  sum_j n_j min_{i in S} |g_j - g_i|,  g_i the last update of client i.

    Facility location: every client is represented by the one in S whose update is nearest, and the distances bound how
    far the aggregate of S is from that of all, if each weighs as much as those it represents. The set is found by lazy
    greedy search. Updates are sketches, which preserve distances to within 9 % (one standard deviation, with sketches
    of 64 numbers).

    Reference: Balakrishnan et al., Diverse Client Selection for Federated Learning via Submodular Maximization, ICLR
    2022. Needs update; num_examples helps. O(n) per round, O(m^2) for m clients considered, at most 500; 260 bytes of
    state per client.

    >>> import enlist
    >>> selector = enlist.create("divfl", enlist.Clients(count=5), seed=1, explore=1.0)
    >>> updates = [[0.0, 1.0], [0.0, 1.1], [0.0, 1.2], [5.0, 0.0], [5.1, 0.0]]
    >>> selector.tell(selector.ask(k=5), enlist.Feedback(update=updates))
    >>> picked = selector.ask(k=2)
    >>> picked.clients[0] == 1, picked.weights
    (np.True_, array([0.6, 0.4]))

    Differs from the paper (preset "paper" restores both): updates of all clients are not collected before the first
    round; until a client has been heard from, it waits for one of the slots reserved for such clients, half of them. A
    client weighs as much as those it represents, as in the paper's bound; the paper's Algorithm 1 takes the plain mean.
    Distances are weighted by num_examples. With more than 500 clients, 500 are drawn each round, for the set and for
    those it represents.
    """

    name = "divfl"
    reference = "Balakrishnan et al. 2022"
    presets = {"paper": {"explore": 1.0, "weights": "server"}}
    needs = frozenset({"update"})
    Settings = DivFLSettings
    with_ = WithSettings(DivFLSettings)
    State = Sketches

    def choose(self, request: Request) -> Choice:
        known = request.of(self.state.known)
        new, heard = np.flatnonzero(~known), np.flatnonzero(known)
        places = min(int(np.ceil(self.settings.explore * request.k - 1e-9)), len(new))
        places = max(places, request.k - len(heard))
        explored = new[uniform(len(new), places, self.rng)]
        pool = self.rng.permutation(heard)[: max(MOST, request.k)]
        held = np.ones(len(self.clients)) if self.clients.num_examples is None else self.clients.num_examples
        samples = np.minimum(request.of(held), 1e12)
        if not samples.any():
            samples = np.ones(len(samples))  # no client says how much it holds: all count the same
        rows = self.state.of(request.available[pool])
        stood_for = rows[:MOST]
        gap = distances(stood_for, rows)
        order, stands = facility_location(gap, request.k - places, samples[pool[:MOST]])
        chosen = pool[order]
        stood = np.zeros(len(request.available))
        stood[explored] = samples[explored]
        if len(order):
            # Clients not considered are represented by the same clients, in the same shares.
            mass = np.bincount(stands, weights=samples[pool[:MOST]], minlength=len(order))
            rest = float(samples.sum() - samples[explored].sum())
            stood[chosen] = rest * mass / max(float(mass.sum()), 1e-12)
        weights = None if self.settings.weights == "server" else stood / max(float(stood.sum()), 1e-12)
        both = np.concatenate([chosen, explored])
        return request.pick(both, weights=weights, stands_for=stood)

    def learn(self, told: Observation) -> None:
        self.state.learn(told)

    def amend(self, told: Observation) -> None:
        self.state.learn(told)
