"""Label and quantity skew, each with its own knob."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pydantic

from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.data.dataset import Samples
from enlist.data.partitions.base import Partition, check_room, label_bins, log_gamma_draws, shares, sizes_by_weight
from enlist.data.partitions.quantity import lognormal_weights
from enlist.data.partitions.shards import Shards
from enlist.errors import InputError
from enlist.streams import Streams

MOST_SHARES = 2**28
"""Maximum number of class shares of all clients together: two gigabytes."""


class DirichletLogNormal(Partition):
    """Lognormal sizes, and for each client a label distribution q_i ~ Dirichlet(alpha * prior).

    The sizes are those of `lognormal` with the same sigma, min_size and seed, and hold exactly; the prior is the label
    distribution of the whole, as in Hsu, Qi & Brown 2019, "Measuring the effects of non-identical data distribution for
    federated visual classification". With C classes of equal size, alpha here is about as skewed as alpha / C
    in `dirichlet`. In a regression 10 quantile bins of the targets stand in for classes.

    Every sample is held by exactly one client, so a class can run short. Each client draws its wishes from q_i; where
    more samples of a class are wished for than there are, wishes picked at random are granted. The others are drawn
    again from q_i without the classes that are used up. Each turn uses up a class or grants everything, so there are at
    most C turns. Clients with open wishes drift from q_i towards the classes that are left, so an extreme alpha skews
    less than it would with unlimited data.

    >>> samples = Samples(x=np.zeros((60, 1)), y=np.arange(60) % 3)
    >>> shards = DirichletLogNormal(alpha=0.5, sigma=0.5).split(samples, classes=3, clients=4, streams=Streams(2))
    >>> [np.bincount(samples.y[shards.held_by(client)], minlength=3).tolist() for client in range(4)]
    [[0, 0, 8], [12, 0, 6], [6, 10, 0], [2, 10, 6]]
    """

    kind: Literal["dirichlet-lognormal"] = pydantic.Field(
        "dirichlet-lognormal", description="Lognormal sizes and Dirichlet labels."
    )
    alpha: float = pydantic.Field(
        3.0, ge=1e-4, le=1e6, description="Concentration of the labels, no unit: the smaller, the fewer classes each."
    )
    sigma: float = pydantic.Field(
        1.0, ge=0, le=20, description="Standard deviation of the logarithm of the sizes, no unit; 0 gives equal sizes."
    )
    min_size: int = pydantic.Field(1, ge=1, description="Least number of samples per client.")

    def split(self, samples: Samples, classes: int, clients: int, streams: Streams) -> Shards:
        """Sizes, label distributions, then wishes in turns."""
        count = len(samples)
        check_room(self.kind, count, clients, self.min_size, "min_size")
        labels, _ = label_bins(samples.y, classes)
        sizes = sizes_by_weight(lognormal_weights(self.sigma, clients, streams), count, self.min_size)
        present, labels, supply = np.unique(labels, return_inverse=True, return_counts=True)
        if clients * len(present) > MOST_SHARES:
            raise InputError(
                f"partition '{self.kind}' draws shares of {len(present)} classes for each of {clients} clients; "
                f"at most {MOST_SHARES:,} fit together. Use at most {MOST_SHARES // len(present)} clients."
            )
        rng = streams.generator("partition")
        tastes = log_gamma_draws(self.alpha * supply / count, (clients, len(present)), rng)
        shuffled = rng.permutation(count)
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        ends = np.cumsum(supply)
        wishing = np.repeat(np.arange(clients), sizes)
        owners = np.empty(count, dtype=np.int64)
        while len(wishing):
            wishing = rng.permutation(wishing)
            wishes = _wishes(tastes, supply > 0, wishing, rng)
            wishing, wishes = _by_class(wishing, wishes)
            starts = np.searchsorted(wishes, np.arange(len(supply)))
            place = np.arange(len(wishes)) - starts[wishes]
            granted = place < supply[wishes]
            owners[by_class[(ends - supply)[wishes[granted]] + place[granted]]] = wishing[granted]
            supply = supply - np.bincount(wishes[granted], minlength=len(supply))
            wishing = wishing[~granted]
        return Shards.from_owners(owners, clients)


def _by_class(wishing: IntArray, wishes: IntArray) -> tuple[IntArray, IntArray]:
    order = np.argsort(wishes, kind="stable")
    return wishing[order], wishes[order]


def _wishes(tastes: FloatArray, open_: BoolArray, wishing: IntArray, rng: np.random.Generator) -> IntArray:
    """A class for each wish, by the taste of the client that makes it, among the classes that are open."""
    clients, row = np.unique(wishing, return_inverse=True)
    classes = np.flatnonzero(open_)
    upto = np.cumsum(shares(tastes[np.ix_(clients, classes)]), axis=1)
    upto[:, -1] = 1.0
    # Row r spans (r, r + 1], so one search serves all clients.
    steps = (upto + np.arange(len(clients))[:, None]).ravel()
    found = np.searchsorted(steps, row + rng.random(len(row)), side="right")
    # Adding the row costs the last digits, so a draw next to 1 may land on the next row.
    chosen: IntArray = classes[np.minimum(found - row * len(classes), len(classes) - 1)]
    return chosen
