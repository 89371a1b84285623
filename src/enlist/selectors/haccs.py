"""HACCS: clusters of clients with similar labels; the fastest of each, more from clusters with high loss."""

from __future__ import annotations

import dataclasses
from typing import Protocol, TypeVar

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.bandits import credible, hellinger
from enlist.bandits.clusters import clusters, joined, totals
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.records import Outcome
from enlist.state import State, column


@dataclasses.dataclass(frozen=True)
class HACCSSettings:
    """Settings of `haccs`.

    Parameters
    ----------
    speed : float, default 0.5
        Weight of a cluster's speed against its loss; the paper's rho.
    distance : float, default 0.25
        Hellinger distance below which the labels of two clients are alike.

    >>> HACCSSettings().speed
    0.5
    """

    speed: float = 0.5
    distance: float = 0.25

    def __post_init__(self) -> None:
        checks.finite("speed", self.speed, 0.0, 1.0)
        checks.finite("distance", self.distance, 0.0, 1.0)


@dataclasses.dataclass
class LabelClusters(State):
    """Which cluster each client is in, its last loss and latency (NaN: none yet), their round, and who was lost since.

    >>> LabelClusters.create(2).loss
    array([nan, nan])
    """

    cluster: AnyArray = column(0, np.int32)
    loss: FloatArray = column(np.nan)
    latency: FloatArray = column(np.nan)
    measured: AnyArray = column(0, np.int32)
    lost: AnyArray = column(False, np.bool_)

    @classmethod
    def of(cls, counts: FloatArray, distance: float, seed: int) -> LabelClusters:
        """Clusters of clients by their numbers of samples of each class."""
        found = clusters(hellinger(counts), distance, np.random.default_rng((seed, 0)))
        return cls.create(len(counts), cluster=found)

    def learn(self, told: Observation) -> None:
        """Record losses and latencies; a lost or late client counts as slow as it is known to be."""
        number, newest = told.selection.round, told.selection.round >= self.measured[told.clients]
        loss, latency = told.column("loss"), told.column("latency")
        known = told.completed & newest & ~np.isnan(loss)
        self.loss[told.clients[known]] = loss[known]
        timed = told.completed & newest & ~np.isnan(latency)
        self.latency[told.clients[timed]] = latency[timed]
        self.measured[told.clients[known | timed]] = number
        slow = newest & np.isin(told.outcome, (Outcome.LATE, Outcome.DROPPED, Outcome.FAILED))
        worst = told.selection.deadline
        if not np.isfinite(worst):
            # Of replies alone: penalties of lost clients would double with each further loss.
            heard = (self.measured > 0) & ~np.isnan(self.latency) & ~self.lost
            worst = float(np.max(credible(self.latency[heard]), initial=1.0))
        before = self.latency[told.clients[slow]]
        self.latency[told.clients[slow]] = np.fmax(before, 2.0 * worst)
        self.lost[told.clients[timed]] = False
        self.lost[told.clients[slow]] = True

    def filled(self, request: Request) -> tuple[FloatArray, FloatArray]:
        """Losses and latencies of the available clients; an unknown one counts as the mean of the known."""
        found = []
        for values in (self.loss, self.latency):
            known = credible(values[~np.isnan(values)])
            middle = float(known.mean()) if len(known) else 1.0
            mine = request.of(values)
            # An absurd value counts as the largest credible one, or it would dominate the mean of its cluster.
            found.append(np.minimum(np.where(np.isnan(mine), middle, mine), np.max(known, initial=middle)))
        return found[0], found[1]


class WithDistance(Protocol):
    """Settings that say how far apart the labels of clients in one cluster may be.

    >>> HACCSSettings().distance
    0.25
    """

    @property
    def distance(self) -> float:
        """Hellinger distance."""


DistanceT = TypeVar("DistanceT", bound=WithDistance)


class LabelClustered(Selector[DistanceT, LabelClusters]):
    """Base of selectors that choose by clusters of clients with similar labels; a new client joins the nearest one.

    >>> import enlist
    >>> selector = enlist.create("haccs", enlist.Clients(label_counts=[[9, 1], [8, 1], [0, 9]]))
    >>> joined = selector.join(enlist.Clients(label_counts=[[0, 7], [6, 1]]))
    >>> selector.state.cluster.tolist()
    [0, 0, 1, 1, 0]
    """

    State = LabelClusters

    def initial_state(self) -> LabelClusters:
        assert self.clients.label_counts is not None
        return LabelClusters.of(self.clients.label_counts, self.settings.distance, self.seed)

    def joined(self, before: int) -> None:
        assert self.clients.label_counts is not None
        rows = hellinger(self.clients.label_counts)
        self.state.cluster = joined(rows, self.state.cluster[:before], self.settings.distance)

    def learn(self, told: Observation) -> None:
        self.state.learn(told)

    def amend(self, told: Observation) -> None:
        self.state.learn(told)


class HACCS(LabelClustered[HACCSSettings]):
    """Clusters get slots in proportion to  rho (1 - T_c / max T) + (1 - rho) L_c / sum L;  the fastest fill them.

    Clients are in one cluster if their label distributions are less than `distance` apart (Hellinger), or linked by
    others that are. T_c is the mean latency of the cluster's available clients, L_c their mean squared loss. The whole
    part of a cluster's slots is certain, the rest is drawn. So every kind of data is represented, by fast clients.

    Reference: Wolfrath et al., HACCS: Heterogeneity-Aware Clustered Client Selection for Accelerated Federated
    Learning, IPDPS 2022. Needs clients.label_counts, loss and latency. O(n log n) per round; clusters are found once,
    O(n^2) for the first 2,000; 24 bytes of state per client.

    >>> import enlist
    >>> clients = enlist.Clients(label_counts=[[9, 1], [8, 1], [9, 0], [0, 9], [1, 8]])
    >>> selector = enlist.create("haccs", clients, seed=1)
    >>> selector.state.cluster
    array([0, 0, 0, 1, 1], dtype=int32)
    >>> selector.tell(selector.ask(k=5), enlist.Feedback(loss=[1, 1, 1, 2, 2], latency=[5, 4, 6, 5, 3]))
    >>> selector.ask(k=2).clients
    array([1, 4])

    Differs from the paper: loss and latency are those of a client's last reply; one that is late or lost counts twice
    the deadline until it replies. Unknown ones count as the mean. A cluster whose weight is 0 still gets a slot if no
    others are left. Distances are Hellinger's, as in the paper; the public code takes Euclidean ones. No noise is added
    to histograms here; the caller may add it.
    """

    name = "haccs"
    reference = "Wolfrath et al. 2022"
    presets = {"paper": {}}  # the default is the printed rule
    needs = frozenset({"clients.label_counts", "loss", "latency"})
    Settings = HACCSSettings
    with_ = WithSettings(HACCSSettings)

    def choose(self, request: Request) -> Choice:
        loss, latency = self.state.filled(request)
        cluster = request.of(self.state.cluster)
        _, place, mean_loss = totals(cluster, loss**2)
        _, _, mean_latency = totals(cluster, latency)
        fast = 1.0 - mean_latency / max(float(mean_latency.max()), 1e-12)
        lossy = mean_loss / max(float(mean_loss.sum()), 1e-12)
        weight = self.settings.speed * fast + (1.0 - self.settings.speed) * lossy
        order = self.rng.permutation(len(place))
        order = order[np.lexsort((latency[order], place[order]))]  # by cluster, the fastest first, ties at random
        counts = self._places(np.maximum(weight, 1e-12), np.bincount(place), request.k)
        first = np.searchsorted(place[order], np.arange(len(weight)))
        rank = np.arange(len(order)) - first[place[order]]
        chosen = order[rank < counts[place[order]]]
        terms = {"loss": loss, "latency": latency, "weight": weight[place]}
        return request.pick(chosen, cluster=cluster, **terms)

    def _places(self, weight: FloatArray, size: IntArray, k: int) -> IntArray:
        """How many clients each cluster sends: the whole part of its share, and draws for the rest."""
        share = k * weight / weight.sum()
        counts = np.minimum(np.floor(share + 1e-9).astype(np.int64), size)
        while (missing := k - int(counts.sum())) > 0:
            left = np.where(counts < size, weight, 0.0)
            drawn = self.rng.multinomial(missing, left / left.sum())
            counts = np.minimum(counts + drawn, size)
        return np.asarray(counts)

    def summary(self) -> dict[str, FloatArray]:
        return {"loss": self.state.loss, "latency": self.state.latency}
