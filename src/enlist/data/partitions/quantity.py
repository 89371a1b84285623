"""Partitions with the same label distribution everywhere: equal sizes, lognormal sizes, sizes by a power law."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pydantic

from enlist._internal.typing import FloatArray
from enlist.data.dataset import Samples
from enlist.data.partitions.base import Partition, check_room, label_bins, owners_by_size, sizes_by_weight
from enlist.data.partitions.shards import Shards
from enlist.streams import Streams


class IID(Partition):
    """All clients get the same number of samples, to within one: regardless of labels or, if balanced, of each class.

    Balanced, the numbers of any class differ by at most one between clients, and so do the sizes. In a regression 10
    quantile bins of the targets stand in for classes.

    >>> samples = Samples(x=np.zeros((6, 1)), y=[0, 1, 0, 1, 0, 1])
    >>> shards = IID(balanced=True).split(samples, classes=2, clients=3, streams=Streams(1))
    >>> [sorted(samples.y[shards.held_by(client)].tolist()) for client in range(3)]
    [[0, 1], [0, 1], [0, 1]]
    """

    kind: Literal["iid"] = pydantic.Field("iid", description="Equal sizes and the same labels everywhere.")
    balanced: bool = pydantic.Field(
        False, description="Give every client the same number of samples of each class, to within one."
    )

    def split(self, samples: Samples, classes: int, clients: int, streams: Streams) -> Shards:
        """Deal the samples like cards: shuffled, or shuffled within each class."""
        count = len(samples)
        check_room(self.kind, count, clients, least=1, setting="at least one")
        rng = streams.generator("partition")
        cards = rng.permutation(count)
        if self.balanced:
            labels, _ = label_bins(samples.y, classes)
            cards = cards[np.argsort(labels[cards], kind="stable")]
        owners = np.empty(count, dtype=np.int64)
        # One deal through all classes, so that neither a class nor the whole favours a client by more than one card.
        owners[cards] = rng.permutation(clients)[np.arange(count) % clients]
        return Shards.from_owners(owners, clients)


class LogNormal(Partition):
    """Quantity skew: sizes in proportion to exp(sigma * z) with z ~ Normal(0, 1), labels as in the whole.

    Sizes sum to all samples. Clients that would get fewer than `min_size` get that many, and the others less in
    proportion. sigma = 0 gives equal sizes; with sigma = 1 the largest of 100 clients has about 12 times the median.

    >>> samples = Samples(x=np.zeros((100, 1)), y=np.zeros(100, dtype=int))
    >>> LogNormal(sigma=1.0, min_size=5).split(samples, classes=1, clients=6, streams=Streams(1)).sizes
    array([19, 32, 13,  5, 10, 21])
    """

    kind: Literal["lognormal"] = pydantic.Field("lognormal", description="Lognormal sizes, the same labels everywhere.")
    sigma: float = pydantic.Field(
        1.0, ge=0, le=20, description="Standard deviation of the logarithm of the sizes, no unit; 0 gives equal sizes."
    )
    min_size: int = pydantic.Field(1, ge=1, description="Least number of samples per client.")

    def split(self, samples: Samples, classes: int, clients: int, streams: Streams) -> Shards:
        """Sizes first, then a shuffle."""
        check_room(self.kind, len(samples), clients, self.min_size, "min_size")
        sizes = sizes_by_weight(lognormal_weights(self.sigma, clients, streams), len(samples), self.min_size)
        return Shards.from_owners(owners_by_size(sizes, streams.generator("partition")), clients)


class PowerLaw(Partition):
    """Quantity skew: the client of rank r (1 is the largest) gets a size in proportion to r^-exponent.

    Ranks are dealt at random; labels are as in the whole. Sizes sum to all samples. Clients that would get fewer than
    `min_size` get that many, and the others less in proportion.

    >>> samples = Samples(x=np.zeros((100, 1)), y=np.zeros(100, dtype=int))
    >>> PowerLaw(exponent=1.0).split(samples, classes=1, clients=4, streams=Streams(1)).sizes
    array([16, 48, 12, 24])
    """

    kind: Literal["power-law"] = pydantic.Field(
        "power-law", description="Sizes by rank to a power, the same labels everywhere."
    )
    exponent: float = pydantic.Field(
        1.0, ge=0, le=20, description="Exponent of the rank, no unit; 0 gives equal sizes, 1 is Zipf's law."
    )
    min_size: int = pydantic.Field(1, ge=1, description="Least number of samples per client.")

    def split(self, samples: Samples, classes: int, clients: int, streams: Streams) -> Shards:
        """Sizes first, then a shuffle."""
        check_room(self.kind, len(samples), clients, self.min_size, "min_size")
        ranks = streams.generator("partition sizes").permutation(clients) + 1
        sizes = sizes_by_weight(-self.exponent * np.log(ranks), len(samples), self.min_size)
        return Shards.from_owners(owners_by_size(sizes, streams.generator("partition")), clients)


def lognormal_weights(sigma: float, clients: int, streams: Streams) -> FloatArray:
    """Logarithms of the sizes up to a constant; the same seed orders the clients alike for every sigma.

    >>> lognormal_weights(2.0, 3, Streams(1)) / lognormal_weights(1.0, 3, Streams(1))
    array([2., 2., 2.])
    """
    return sigma * streams.generator("partition sizes").standard_normal(clients)
