"""SAFA: lag-tolerant distribution, first come first merge, a cache with bypass.

Wu, He, Lin, Mao, Maple, Jarvis: SAFA: a Semi-Asynchronous Protocol for Fast Federated Learning with Low Overhead, IEEE
Transactions on Computers 2021.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from torch import Tensor

from enlist._internal.typing import AnyArray, BoolArray, IntArray
from enlist.errors import InputError
from enlist.simulation.protocols.protocol import Arrivals, Memory, Merge, Protocol, Quota, RoundContext
from enlist.training.flat import Layout, Vectors

CACHE_BYTES = 8 * 2**30
"""The cache of one model per client may not grow beyond this."""
OWN = -1
"""In place of a version: the model is the client's own."""


@dataclasses.dataclass(frozen=True, eq=False)
class SafaMemory(Memory):
    """What SAFA knows of every client. Nothing in it is changed in place.

    Parameters
    ----------
    lag : array of shape (N,)
        Version of each client's model: the round in which it last finished.
    received : array of shape (N,)
        Version of the global model that is each client's local model; `OWN` if that is its own.
    cached : array of shape (N,)
        Version of the global model that is its cache entry; `OWN` if that is its own.
    picked : array of shape (N,)
        Clients whose updates were taken in the last round.
    own : mapping of int to Vectors
        Clients' models that are no version of the global model: local models and cache entries.

    >>> SafaMemory.of(3).entered([1], {1: None}, version=4).lag
    array([0, 4, 0])
    """

    lag: IntArray
    received: IntArray
    cached: IntArray
    picked: BoolArray
    own: Mapping[int, Vectors]

    @classmethod
    def of(cls, count: int) -> SafaMemory:
        """Every client holds the first model."""
        zeros = np.zeros(count, dtype=np.int64)
        return cls(zeros, zeros, zeros, np.zeros(count, dtype=bool), {})

    def cached_own(self, clients: Iterable[int], models: Mapping[int, Vectors]) -> SafaMemory:
        """A copy with models of these clients in the cache."""
        found = list(clients)
        own = {**self.own, **{client: models[client] for client in found}}
        return dataclasses.replace(self, own=own, cached=_with(self.cached, found, OWN))

    def entered(self, clients: Iterable[int], models: Mapping[int, Vectors], version: int) -> SafaMemory:
        """A copy with clients that have finished their models, now their local models and cache entries."""
        found = list(clients)
        there = self.cached_own(found, models)
        return dataclasses.replace(
            there, received=_with(there.received, found, OWN), lag=_with(there.lag, found, version)
        )

    def pruned(self) -> SafaMemory:
        """A copy without models that are no client's local model or cache entry any more."""
        owners = set(np.flatnonzero((self.received < 0) | (self.cached < 0)).tolist())
        own = {client: model for client, model in self.own.items() if client in owners}
        return dataclasses.replace(self, own=own)

    def state(self) -> tuple[dict[str, AnyArray], dict[str, Tensor]]:
        """The contents of a checkpoint."""
        arrays = {
            "safa/lag": self.lag,
            "safa/received": self.received,
            "safa/cached": self.cached,
            "safa/picked": self.picked,
        }
        tensors = {}
        for client, model in self.own.items():
            tensors[f"safa/{client}/parameters"] = model.parameters
            tensors[f"safa/{client}/buffers"] = model.buffers
            tensors[f"safa/{client}/counters"] = model.counters
        return arrays, tensors

    def restored(self, arrays: Mapping[str, AnyArray], tensors: Mapping[str, Tensor]) -> SafaMemory:
        """The memory that `state` was taken from."""
        clients = sorted({int(name.split("/")[1]) for name in tensors if name.startswith("safa/")})
        parts = ("parameters", "buffers", "counters")
        own = {client: Vectors(*(tensors[f"safa/{client}/{part}"] for part in parts)) for client in clients}
        names = ("lag", "received", "cached", "picked")
        return SafaMemory(**{name: arrays[f"safa/{name}"] for name in names}, own=own)


class Safa(Protocol):
    """All clients train; the server picks among arrivals, and the model is the mean of a cache of clients' models.

    >>> from enlist.simulation.sections import RoundsSection
    >>> context = RoundContext(round=1, now=0.0, members=8, length=np.nan, expected=np.ones(8), memory=SafaMemory.of(8))
    >>> Safa(RoundsSection(k=3, protocol="safa")).wanted(context)
    Quota(asked=8, replies=3)
    """

    averages = False

    def memory(self, count: int, layout: Layout) -> SafaMemory:
        """The first model, in every entry of the cache."""
        size = 4 * layout.size * count
        if size > CACHE_BYTES:
            raise InputError(
                f"SAFA keeps a model for each of {count} clients, {size / 2**30:.1f} GiB here; at most "
                f"{CACHE_BYTES / 2**30:.0f} GiB are allowed. Use fewer clients, a smaller model, or another protocol."
            )
        return SafaMemory.of(count)

    def wanted(self, context: RoundContext) -> Quota:
        """All clients are selected."""
        return Quota(context.members, self.settings.k)

    def enough(self, context: RoundContext, wanted: Quota, arrivals: Sequence[int], late: Sequence[int]) -> bool:
        """Enough clients that were not picked in the last round have replied."""
        return int((~context.memory.picked[list(arrivals)]).sum()) >= wanted.replies

    def begun(self, context: RoundContext, asked: IntArray, finished: Mapping[int, Vectors]) -> SafaMemory:
        """Send the global model to clients that are up to date or too far behind; the others continue with their own.

        New clients begin with the latest model, also in the cache. Models in `finished` count for the previous round.
        """
        memory: SafaMemory = context.memory
        latest, tolerance = context.latest, self.settings.lag_tolerance
        lag, received, cached = (
            _with(values, context.joined, latest) for values in (memory.lag, memory.received, memory.cached)
        )
        memory = dataclasses.replace(memory, lag=lag, received=received, cached=cached)
        memory = memory.entered(finished, finished, latest)
        members = np.arange(context.members)
        behind = latest - memory.lag[asked]
        deprecated, synced = asked[behind > tolerance], asked[(behind == 0) | (behind > tolerance)]
        return dataclasses.replace(
            memory,
            cached=_with(memory.cached, members[latest - memory.lag[members] > tolerance], latest),
            received=_with(memory.received, synced, latest),
            lag=_with(memory.lag, deprecated, latest),
        )

    def base(self, memory: SafaMemory, client: int, asked_in: int) -> int | Vectors:
        """A client's local model."""
        received = int(memory.received[client])
        return received if received != OWN else memory.own[client]

    def taken(self, context: RoundContext, arrivals: IntArray, accept: Callable[[IntArray, int], IntArray]) -> IntArray:
        """The clients that the selector accepts; the others enter the cache later (bypass)."""
        return accept(arrivals, self.settings.k)

    def merge(self, context: RoundContext, received: Arrivals) -> Merge:
        """Picked clients enter the cache, the cache is averaged, then other clients that finished enter it (bypass)."""
        taken = set(received.taken.tolist())
        now = [client for client in received.models if client in taken]
        bypass = [client for client in received.models if client not in taken]
        memory = context.memory.cached_own(now, received.models)
        mean = self._mean(context.members, memory, received)
        memory = memory.entered([*now, *bypass], received.models, context.round)
        picked = _with(np.zeros_like(memory.picked), received.taken, True)
        weights = {client: report.num_examples * (client in taken) for client, report in received.reports.items()}
        return Merge(dataclasses.replace(memory.pruned(), picked=picked), weights, model=mean)

    def needed(self, memory: SafaMemory, under_way: Collection[int]) -> set[int]:
        """Versions that are a client's local model or cache entry."""
        held = (memory.received[memory.received != OWN], memory.cached[memory.cached != OWN])
        return {version for versions in held for version in versions.tolist()}

    def _mean(self, count: int, memory: SafaMemory, received: Arrivals) -> Vectors:
        """The mean of the cache, weighted by samples; entries that share a global model are added once."""
        sizes, cached = received.sizes(), memory.cached[:count]
        share = sizes / sizes.sum()
        versions = np.unique(cached[cached != OWN]).tolist()
        own = np.flatnonzero(cached == OWN).tolist()
        total = (received.model(versions[0]) if versions else memory.own[own[0]]).clone()
        total.clear()
        for version in versions:
            total.add(received.model(version), float(share[cached == version].sum()))
        for client in own:
            total.add(memory.own[client], float(share[client]))
        return total


def _with(values: AnyArray, clients: Sequence[int] | IntArray, value: object) -> AnyArray:
    """A copy with another value for some clients."""
    found = values.copy()
    found[np.asarray(clients, dtype=np.int64)] = value
    return found
