"""Protocols: classes that answer the same few questions about a round.

`Synchronous` is FedAvg's round with a deadline and over-commitment, where late updates may still be used (REFL).
`Safa` lets all clients train and picks among arrivals; the model is the mean of a cache with one entry per client.

`Buffered` (FedBuff) and `Async` (FedAsync) replace a client as soon as it finishes, and answer other questions.
"""

from __future__ import annotations

from enlist.simulation.protocols.asynchronous import Async, AsynchronousProtocol, Buffered, Versions
from enlist.simulation.protocols.protocol import Arrivals, Memory, Merge, PendingClient, Protocol, Quota, RoundContext
from enlist.simulation.protocols.safa import Safa, SafaMemory
from enlist.simulation.protocols.synchronous import Synchronous
from enlist.simulation.sections import RoundsSection

PROTOCOLS: dict[str, type[Protocol]] = {"synchronous": Synchronous, "safa": Safa}
ASYNCHRONOUS: dict[str, type[AsynchronousProtocol]] = {"buffered": Buffered, "async": Async}


def protocol(settings: RoundsSection) -> Protocol | AsynchronousProtocol:
    """The protocol that a configuration names.

    >>> type(protocol(RoundsSection(protocol="safa"))).__name__
    'Safa'
    """
    if settings.asynchronous:
        return ASYNCHRONOUS[settings.protocol](settings)
    return PROTOCOLS[settings.protocol](settings)


__all__ = [
    "ASYNCHRONOUS",
    "PROTOCOLS",
    "Arrivals",
    "Async",
    "AsynchronousProtocol",
    "Buffered",
    "Memory",
    "Merge",
    "PendingClient",
    "Protocol",
    "Quota",
    "RoundContext",
    "Safa",
    "SafaMemory",
    "Synchronous",
    "Versions",
    "protocol",
]
