"""The partition that comes with the data: a client for each user."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pydantic

from enlist._internal import checks
from enlist.data.dataset import Samples
from enlist.data.partitions.base import Partition
from enlist.data.partitions.shards import Shards
from enlist.errors import InputError
from enlist.streams import Streams


class Natural(Partition):
    """A client for each user of the data set, in the order of their ids.

    Users with fewer than `min_samples` samples are left out, and no client holds their samples. clients = 0 takes all
    other users; a smaller number takes a random choice of them, and no client holds the rest either. The user
    of every client is `samples.users[shards.order[shards.offsets[:-1]]]`.

    >>> samples = Samples(x=np.zeros((6, 1)), y=[0, 1, 0, 1, 0, 1], users=["bob", "ann", "bob", "cid", "ann", "bob"])
    >>> shards = Natural(min_samples=2).split(samples, classes=2, clients=0, streams=Streams(1))
    >>> shards.sizes, samples.users[shards.order[shards.offsets[:-1]]]
    (array([2, 3]), array(['ann', 'bob'], dtype='<U3'))
    """

    kind: Literal["natural"] = pydantic.Field("natural", description="A client for each user of the data set.")
    min_samples: int = pydantic.Field(1, ge=1, description="Users with fewer samples are left out.")

    def split(self, samples: Samples, classes: int, clients: int, streams: Streams) -> Shards:
        """By user id; `clients` = 0 means all users."""
        checks.whole("clients", clients, minimum=0)
        if samples.users is None:
            raise InputError("partition 'natural' needs a data set with users; this one has none: use another kind.")
        _, user, sizes = np.unique(samples.users, return_inverse=True, return_counts=True)
        kept = np.flatnonzero(sizes >= self.min_samples)
        if clients > len(kept) or not len(kept):
            raise InputError(
                f"partition 'natural' is asked for {clients or 'all'} clients, but {len(kept)} of {len(sizes)} users "
                f"have {self.min_samples} or more samples (min_samples); lower min_samples, or ask for fewer clients."
            )
        if 0 < clients < len(kept):
            kept = np.sort(streams.generator("partition").choice(kept, clients, replace=False))
        client = np.full(len(sizes), -1)
        client[kept] = np.arange(len(kept))
        return Shards.from_owners(client[user], len(kept))
