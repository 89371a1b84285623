"""Clustered sampling: one client from each of k urns, by size or by similarity; unbiased."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import Sketches, absurd
from enlist.bandits.urns import Urns, by_cluster, by_size
from enlist.clients import Clients
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import PopulationError
from enlist.methods import WithSettings
from enlist.state import State

MOST = 2000
"""The most clients that are compared with each other."""


@dataclasses.dataclass(frozen=True)
class ClusteredSettings:
    """Settings of `clustered`.

    Parameters
    ----------
    by : {"size", "similarity"}, default "size"
        "size" fills the urns in order of size (Algorithm 1), "similarity" with clients whose last updates point the
        same way (Algorithm 2).

    >>> ClusteredSettings().by
    'size'
    """

    by: str = "size"

    def __post_init__(self) -> None:
        checks.one_of("by", self.by, ("size", "similarity"))


@dataclasses.dataclass
class ClusteredState(State):
    """Sketches of updates, if clients are compared by them."""

    sketches: Sketches | None


class Clustered(Selector[ClusteredSettings, ClusteredState]):
    """One draw from each of k urns;  client i is drawn from urn u with probability r_ui,  sum_u r_ui = k p_i.

    p_i is its share of the samples, and each draw weighs 1/k; so the expected aggregate is that of all clients, with
    less variance than k draws from one urn, and no client is less likely to take part than there.

    size          the clients, in order of size, fill one urn after the other (Algorithm 1)
    similarity    Ward's tree of the angles between their last updates is cut into branches of at most one urn; the k
                  heaviest get an urn each, and the others fill the remaining space (Algorithm 2)

    Reference: Fraboni et al., Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection in
    Federated Learning, ICML 2021. Needs clients.num_examples, and update if by similarity. By size, O(n log n) per
    round and no state; by similarity, O(n^2), for at most 2,000 clients, 260 bytes for each. It weights updates itself.

    >>> import enlist
    >>> selector = enlist.create("clustered", enlist.Clients(num_examples=[30, 10, 10, 10]), seed=1)
    >>> picked = selector.ask(k=2)
    >>> picked.clients[0], picked.weights, picked.probabilities.round(2)
    (np.int64(0), array([0.5, 0.5]), array([1.  , 0.33]))

    Differs from the paper: urns are filled with available clients only. A client drawn from two urns takes part once
    with twice the weight, so fewer than k may be selected. Clients without an update are alike and at right angles to
    all others (in the public code, where zero updates have no angle, they are near all others); the tree is that of the
    angles themselves. The weight of a lost client is not redistributed. An absurd number of samples counts as the mean;
    if no client has any, all count the same.
    """

    name = "clustered"
    reference = "Fraboni et al. 2021"
    presets = {"paper": {"by": "similarity"}}
    may_choose_fewer = True
    Settings = ClusteredSettings
    with_ = WithSettings(ClusteredSettings)
    State = ClusteredState

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        similar = frozenset({"update"}) if self.settings.by == "similarity" else frozenset()
        return similar | {"clients.num_examples"}

    def initial_state(self) -> ClusteredState:
        return ClusteredState(Sketches.create(len(self.clients)) if self.settings.by == "similarity" else None)

    def _check_population(self, clients: Clients) -> None:
        super()._check_population(clients)
        if self.settings.by == "similarity" and len(clients) > MOST:
            raise PopulationError(
                f"selector 'clustered' by similarity compares all pairs of at most {MOST} clients, not {len(clients)}; "
                "use by='size'."
            )

    def choose(self, request: Request) -> Choice:
        sizes = self._sizes(request)
        urns = self._urns(request, sizes)
        drawn, times = np.unique(urns.draw(self.rng), return_counts=True)
        weights = np.zeros(len(sizes))
        weights[drawn] = times / request.k
        chances = np.clip(urns.chances(len(sizes)), 1e-12, 1.0)
        return request.pick(drawn, weights=weights, probabilities=chances, share=sizes / sizes.sum())

    def _sizes(self, request: Request) -> FloatArray:
        assert self.clients.num_examples is not None
        sizes = request.of(self.clients.num_examples)
        wrong = absurd(sizes, sizes)
        if wrong.any():
            sizes = np.where(wrong, sizes[~wrong].mean(), sizes)
        return sizes if sizes.sum() > 0 else np.ones(len(sizes))

    def _urns(self, request: Request, sizes: FloatArray) -> Urns:
        sketches = self.state.sketches
        if sketches is None:
            return by_size(sizes, request.k)
        return by_cluster(sizes, request.k, angles(sketches, request.available), self.rng)

    def learn(self, told: Observation) -> None:
        if self.state.sketches is not None:
            self.state.sketches.learn(told)

    def amend(self, told: Observation) -> None:
        self.learn(told)


def angles(sketches: Sketches, clients: IntArray) -> FloatArray:
    """Angles between the updates of clients; those without one are alike, and at right angles to all others.

    >>> sketches = Sketches.create(3)
    >>> sketches.note(np.array([0, 1]), np.array([[1.0, 0.0], [1.0, 1.0]]), 1)
    >>> angles(sketches, np.arange(3)).round(3)
    array([[0.   , 0.785, 1.571],
           [0.785, 0.   , 1.571],
           [1.571, 1.571, 0.   ]])
    """
    rows, length = sketches.of(clients), sketches.lengths(clients)
    there = (length > 0) & sketches.known[clients]
    rows = rows / np.where(there, np.linalg.norm(rows, axis=1), 1.0)[:, None]
    found = np.arccos(np.clip(rows @ rows.T, -1.0, 1.0))
    found[np.ix_(~there, ~there)] = 0.0
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)
