"""FedLECC: clusters of clients with similar labels; the highest losses from the clusters with the highest loss."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray
from enlist.bandits.clusters import totals
from enlist.contract import Choice, Request
from enlist.methods import WithSettings
from enlist.selectors.haccs import LabelClustered


@dataclasses.dataclass(frozen=True)
class FedLECCSettings:
    """Settings of `fedlecc`.

    Parameters
    ----------
    clusters : int, default 5
        Clusters that share the slots of a round.
    distance : float, default 0.25
        Hellinger distance below which the labels of two clients are alike.

    >>> FedLECCSettings().clusters
    5
    """

    clusters: int = 5
    distance: float = 0.25

    def __post_init__(self) -> None:
        checks.whole("clusters", self.clusters, minimum=1)
        checks.finite("distance", self.distance, 0.0, 1.0)


class FedLECC(LabelClustered[FedLECCSettings]):
    """From the J clusters with the highest mean loss, the k/J clients with the highest loss each.

    Clients are in one cluster if their label distributions are less than `distance` apart (Hellinger), or linked by
    others that are. Clusters keep the round diverse, losses make it informative. Slots that a small cluster cannot fill
    go to the next.

    Reference: Jimenez-Gutierrez et al., FedLECC: Cluster- and Loss-Guided Client Selection for Federated Learning under
    Non-IID Data, ICCN workshop at INFOCOM 2026. Needs clients.label_counts and loss. O(n log n) per round; clusters are
    found once, O(n^2) for the first 2,000; 24 bytes of state per client.

    >>> import enlist
    >>> clients = enlist.Clients(label_counts=[[9, 1], [8, 1], [9, 0], [0, 9], [1, 8]])
    >>> selector = enlist.create("fedlecc", clients, seed=1, clusters=2)
    >>> selector.tell(selector.ask(k=5), enlist.Feedback(loss=[1.0, 3.0, 1.0, 2.0, 2.5]))
    >>> selector.ask(k=2).clients, selector.ask(k=3).clients
    (array([1, 4]), array([1, 3, 4]))

    Only the paper's abstract and summaries could be read, and no public code was found: J = 5 is ours.

    Differs from the paper: how many clusters share a round is a setting, and clusters are those of one distance. Losses
    are those of a client's last reply; one that has not replied counts as the mean, so that it comes neither first nor
    never.
    """

    name = "fedlecc"
    reference = "Jimenez-Gutierrez et al. 2026"
    needs = frozenset({"clients.label_counts", "loss"})
    Settings = FedLECCSettings
    with_ = WithSettings(FedLECCSettings)

    def choose(self, request: Request) -> Choice:
        loss = self.state.filled(request)[0]
        cluster = request.of(self.state.cluster)
        _, place, mean = totals(cluster, loss)
        standing = np.empty(len(mean))
        standing[np.lexsort((self.rng.uniform(size=len(mean)), -mean))] = np.arange(len(mean))
        order = self.rng.permutation(len(place))
        order = order[np.lexsort((-loss[order], standing[place[order]]))]
        here = standing[place[order]]
        rank = np.arange(len(order)) - np.searchsorted(here, np.arange(len(mean)))[here.astype(np.int64)]
        places = -(-request.k // self.settings.clusters)
        # First the slots of the leading clusters, then those of the next, and finally all that are left.
        turn = np.where(rank < places, here, here + len(mean))
        chosen = order[np.argsort(turn, kind="stable")[: request.k]]
        return request.pick(chosen, loss=loss, cluster=cluster, cluster_loss=mean[place])

    def summary(self) -> dict[str, FloatArray]:
        return {"loss": self.state.loss}
