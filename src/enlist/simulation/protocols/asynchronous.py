"""Asynchronous protocols: a client that finishes is replaced at once, and a round is a step of the server.

They answer fewer questions than `Protocol`, each a pure function of what it is given: how many clients to select, when
the server steps, from which version a client trains, whether that version is gone, and how much an update counts.
`enlist.simulation.asynchronous` asks these questions and carries out the answers.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from enlist._internal.typing import AnyArray
from enlist.simulation.protocols.protocol import Memory
from enlist.simulation.sections import RoundsSection
from enlist.training.flat import Layout, Vectors


@dataclasses.dataclass(frozen=True, eq=False)
class Versions(Memory):
    """Which version of the model the clients at work were sent, by the number of their selection.

    A version is the step of the server that produced it; 0 is the first model.

    >>> versions = Versions({}).asked(7, version=3).asked(9, version=4).kept({9})
    >>> versions.sent, versions.asked_in(9)
    ({9: 4}, 5)
    """

    sent: Mapping[int, int]

    def asked(self, number: int, version: int) -> Versions:
        """A copy with a selection whose clients were sent a version."""
        return Versions({**self.sent, number: version})

    def asked_in(self, number: int) -> int:
        """The step in which a selection was made: the one after the step that produced its version."""
        return self.sent[number] + 1

    def kept(self, numbers: Collection[int]) -> Versions:
        """A copy with these selections only."""
        return Versions({number: version for number, version in self.sent.items() if number in numbers})

    def state(self) -> tuple[dict[str, AnyArray], dict[str, Tensor]]:
        """The contents of a checkpoint."""
        numbers, versions = list(self.sent), list(self.sent.values())
        return {"sent/number": np.array(numbers, np.int64), "sent/version": np.array(versions, np.int64)}, {}

    def restored(self, arrays: Mapping[str, AnyArray], tensors: Mapping[str, Tensor]) -> Versions:
        """The memory that `state` was taken from."""
        columns = (arrays[f"sent/{name}"].tolist() for name in ("number", "version"))
        return Versions(dict(zip(*columns, strict=True)))


class AsynchronousProtocol(abc.ABC):
    """Base of asynchronous protocols. Subclasses hold settings, and nothing else.

    >>> settings = RoundsSection(protocol="buffered", concurrency=20, buffer=5, max_staleness=10)
    >>> rule = Buffered(settings)
    >>> rule.places(at_work=17), rule.full(4), rule.full(5), rule.gone(10), rule.gone(11), rule.counts(3)
    (3, False, True, False, True, 0.5)
    """

    averages: ClassVar[bool] = True
    """Whether the server averages updates; else the client's model is kept, and mixed into the global one."""

    def __init__(self, settings: RoundsSection) -> None:
        self.settings = settings

    def memory(self, count: int, layout: Layout) -> Versions:
        """The memory before the first step: no client is at work."""
        return Versions({})

    def places(self, at_work: int) -> int:
        """How many clients to select while this many are at work."""
        return self.settings.at_work - at_work

    def full(self, updates: int) -> bool:
        """Whether the server steps with this many updates."""
        return updates >= self.settings.per_step

    def base(self, memory: Any, client: int, number: int) -> int:
        """The version that a client of a selection trains from."""
        version: int = memory.sent[number]
        return version

    def gone(self, staleness: int) -> bool:
        """Whether a version is so stale that its updates are discarded."""
        limit = self.settings.max_staleness
        return limit is not None and staleness > limit

    def needed(self, memory: Versions, step: int) -> set[int]:
        """Versions that must be kept after this step of the server."""
        return {version for version in memory.sent.values() if not self.gone(step - version)}

    @abc.abstractmethod
    def counts(self, staleness: int) -> float:
        """The factor on an update of this staleness."""

    def mixed(self, present: Vectors, client: Vectors, staleness: int) -> Vectors:
        """The global model after that of a client has arrived, if the server does not average updates."""
        raise NotImplementedError(f"{type(self).__name__} averages updates.")


class Buffered(AsynchronousProtocol):
    """FedBuff: the server steps after every `buffer` updates, by the mean of s(staleness) times each of them.

        x <- x + lr * sum_i w_i s(tau_i) u_i / sum_i w_i,    s(tau) = 1 / sqrt(1 + tau) by default

    w_i are the weights of the server's aggregation, by default samples; the paper's are all 1, which
    `server.aggregation.weights = "uniform"` gives. Stale updates make the step shorter, not only count less.

    Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba: Federated Learning with Buffered Asynchronous Aggregation,
    AISTATS 2022.

    >>> Buffered(RoundsSection(protocol="buffered")).counts(0)
    1.0
    """

    def counts(self, staleness: int) -> float:
        """s(staleness)."""
        return self.settings.discount.of(staleness)


class Async(AsynchronousProtocol):
    """FedAsync: every update counts at once, the model moves towards the client's.

        x <- (1 - a_t) x + a_t x_client,    a_t = alpha s(staleness)

    The paper's clients train with a proximal term: set `training.prox`.

    Xie, Koyejo, Gupta: Asynchronous Federated Optimization, OPT 2020.

    >>> Async(RoundsSection(protocol="async", mixing=0.8)).counts(3)
    0.4
    """

    averages = False

    def counts(self, staleness: int) -> float:
        """alpha s(staleness)."""
        return self.settings.mixing * self.settings.discount.of(staleness)

    def mixed(self, present: Vectors, client: Vectors, staleness: int) -> Vectors:
        """A mixture of the two models."""
        share = self.counts(staleness)
        model = present.clone()
        model.parameters.lerp_(client.parameters, share)
        model.buffers.lerp_(client.buffers, share)
        model.counters.copy_(client.counters.maximum(present.counters))
        return model
