"""Partitions with label skew: Dirichlet shares of every class, and shards of the samples sorted by label."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import pydantic

from enlist._internal.options import GrownOptions
from enlist._internal.typing import IntArray
from enlist.data.dataset import Samples
from enlist.data.partitions.base import Partition, check_room, label_bins, log_gamma_draws, shares
from enlist.data.partitions.shards import Shards
from enlist.streams import Streams


class Dirichlet(Partition, GrownOptions):
    """Label skew, and with it quantity skew: each class is divided over the clients by shares ~ Dirichlet(alpha).

    alpha = 0.05 leaves most clients with one or two classes; alpha = 100 is close to iid (Yurochkin et al. 2019,
    "Bayesian nonparametric federated learning of neural networks"; Li et al. 2022, "Federated learning on non-IID data
    silos"). Every sample is held by exactly one client. In a regression 10 quantile bins of the targets stand in for
    classes.

    With `balanced`, classes are divided one after the other, and a client that has its share, 1/clients of all samples,
    gets nothing of the classes that follow: the others' shares are scaled up. So no client holds more than its share
    plus one class, and for a small alpha sizes differ less. Much published code works this way (Li et al.'s, and
    Flower's `self_balancing`), usually without mention in the paper.

    Differs from the papers: they redraw until every client has `min_size` samples, which for a small alpha and many
    clients never happens. Here the draw is kept, and the richest give: as long as a client has fewer than `min_size`
    samples, the client with the most gives one away, picked at random, so it keeps its label distribution. Samples are
    handed on sorted by label, so clients that receive them stay as skewed as the rest.

    >>> samples = Samples(x=np.zeros((100, 1)), y=np.arange(100) % 2)
    >>> Dirichlet(alpha=0.1, min_size=10).split(samples, classes=2, clients=4, streams=Streams(1)).sizes
    array([10, 70, 10, 10])
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"balanced"})

    kind: Literal["dirichlet"] = pydantic.Field("dirichlet", description="Each class in Dirichlet shares.")
    alpha: float = pydantic.Field(
        0.3, ge=1e-4, le=1e6, description="Concentration of the shares, no unit: the smaller, the fewer classes each."
    )
    min_size: int = pydantic.Field(1, ge=1, description="Least number of samples per client.")
    balanced: bool = pydantic.Field(
        False, description="A client that has its share, 1/clients of all samples, gets nothing of further classes."
    )

    def split(self, samples: Samples, classes: int, clients: int, streams: Streams) -> Shards:
        """Divide class by class; then the richest give to clients below `min_size`."""
        check_room(self.kind, len(samples), clients, self.min_size, "min_size")
        labels, _ = label_bins(samples.y, classes)
        rng = streams.generator("partition")
        shuffled = rng.permutation(len(labels))
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        owners = np.empty(len(labels), dtype=np.int64)
        held = np.zeros(clients, dtype=np.int64)
        for members in np.split(by_class, np.flatnonzero(np.diff(labels[by_class])) + 1):
            weights = log_gamma_draws(self.alpha, (clients,), rng)
            if self.balanced:
                weights[held * clients >= len(labels)] = -np.inf
            cuts = np.rint(np.cumsum(shares(weights)) * len(members)).astype(np.int64)
            cuts[-1] = len(members)
            counts = np.diff(cuts, prepend=0)
            owners[members] = np.repeat(np.arange(clients), counts)
            held += counts
        return Shards.from_owners(_leveled(owners, labels, clients, self.min_size, rng), clients)


class LabelShards(Partition):
    """Label skew with equal sizes: samples sorted by label, cut in clients * per_client shards that are dealt out.

    A client sees at most about `per_client` classes (McMahan et al. 2017, "Communication-efficient learning of deep
    networks from decentralized data"). The shards differ in size by at most one, and all samples are used. In a
    regression 10 quantile bins of the targets stand in for classes.

    >>> samples = Samples(x=np.zeros((12, 1)), y=np.arange(12) // 3)
    >>> shards = LabelShards(per_client=2).split(samples, classes=4, clients=2, streams=Streams(1))
    >>> [sorted(samples.y[shards.held_by(client)].tolist()) for client in range(2)]
    [[0, 0, 0, 3, 3, 3], [1, 1, 1, 2, 2, 2]]
    """

    kind: Literal["shards"] = pydantic.Field("shards", description="Shards of the samples sorted by label.")
    per_client: int = pydantic.Field(2, ge=1, description="Shards that each client gets.")

    def split(self, samples: Samples, classes: int, clients: int, streams: Streams) -> Shards:
        """Sort, cut, deal."""
        check_room(self.kind, len(samples), clients, self.per_client, "per_client")
        labels, _ = label_bins(samples.y, classes)
        rng = streams.generator("partition")
        shuffled = rng.permutation(len(labels))
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        holders = rng.permutation(np.repeat(np.arange(clients), self.per_client))
        owners = np.empty(len(labels), dtype=np.int64)
        owners[by_class] = holders[np.arange(len(labels)) * len(holders) // len(labels)]
        return Shards.from_owners(owners, clients)


def _leveled(owners: IntArray, labels: IntArray, clients: int, least: int, rng: np.random.Generator) -> IntArray:
    """The owners after the richest gave, one sample at a time, to clients below `least`; all gifts at once.

    Always taking from the richest amounts to a ceiling: clients above it give all the excess, some at it keep one more.
    """
    sizes = np.bincount(owners, minlength=clients)
    missing = np.maximum(least - sizes, 0)
    lack = int(missing.sum())
    if lack == 0:
        return owners
    ceiling = _ceiling(sizes, lack)
    gifts = np.maximum(sizes - ceiling, 0)
    richer = np.flatnonzero(gifts)
    gifts[rng.permutation(richer)[: int(gifts.sum()) - lack]] -= 1
    shuffled = rng.permutation(len(owners))
    by_owner = shuffled[np.argsort(owners[shuffled], kind="stable")]
    place = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    given = by_owner[place < np.repeat(gifts, sizes)]
    given = given[np.argsort(labels[given], kind="stable")]
    poor = rng.permutation(np.flatnonzero(missing))
    result = owners.copy()
    result[given] = np.repeat(poor, missing[poor])
    return result


def _ceiling(sizes: IntArray, lack: int) -> int:
    """The highest ceiling above which there are at least `lack` samples."""
    falling = np.sort(sizes)[::-1]
    ranks = np.arange(1, len(falling) + 1)
    following = np.append(falling[1:], 0)
    above = np.cumsum(falling) - ranks * following
    # The first `rank` clients, lowered to the size of the next one, give enough.
    rank = int(np.argmax(above >= lack))
    return int((falling[: rank + 1].sum() - lack) // (rank + 1))
