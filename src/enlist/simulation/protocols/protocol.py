"""What a protocol is: answers to a few questions about a round, each a pure function of what it is given.

A protocol decides how many clients to select, when to stop waiting, from which model a client trains, whose updates
are taken, how they are weighed, and what is kept. It never sees the simulation: `Simulation.step` asks, and carries out
the answers. What a protocol must remember from round to round is its `Memory`, a part of the state of the run.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.simulation.round.server import LateUpdate
from enlist.simulation.sections import RoundsSection
from enlist.training.flat import Layout, Vectors
from enlist.training.local import Report

NOBODY: IntArray = np.zeros(0, dtype=np.int64)


class Quota(NamedTuple):
    """How many clients to select, and how many replies end the round.

    >>> Quota(asked=13, replies=10).replies
    10
    """

    asked: int
    replies: int


class PendingClient(NamedTuple):
    """A client of an earlier round that has not replied yet; nobody knows whether it will.

    >>> PendingClient(client=4, asked_in=2, asked_at=60.0).asked_in
    2
    """

    client: int
    asked_in: int
    asked_at: float


class Memory:
    """What a protocol keeps from round to round; this one keeps nothing.

    >>> Memory().state()
    ({}, {})
    """

    def asked_in(self, number: int) -> int:
        """The round in which a selection was made: its own number, unless several are made in one round."""
        return number

    def state(self) -> tuple[dict[str, AnyArray], dict[str, Tensor]]:
        """The contents of a checkpoint: arrays and tensors by name."""
        return {}, {}

    def restored(self, arrays: Mapping[str, AnyArray], tensors: Mapping[str, Tensor]) -> Memory:
        """The memory that `state` was taken from."""
        return self


@dataclasses.dataclass(frozen=True, eq=False)
class RoundContext:
    """What a protocol may know when a round begins.

    Parameters
    ----------
    round : int
        1, 2, ...
    now : float
        Virtual seconds.
    members : int
        Clients that have joined so far.
    length : float
        Running mean of the durations of rounds; NaN before the first has ended.
    expected : array of shape (N,)
        Seconds that each client is expected to take.
    under_way : sequence of PendingClient
        Clients of earlier rounds that have not replied.
    joined : array
        Clients that joined in this round.
    memory : Memory
        What the protocol kept.

    >>> RoundContext(round=3, now=120.0, members=10, length=60.0, expected=np.ones(10)).latest
    2
    """

    round: int
    now: float
    members: int
    length: float
    expected: FloatArray
    under_way: Sequence[PendingClient] = ()
    joined: IntArray = dataclasses.field(default_factory=lambda: NOBODY)
    memory: Any = dataclasses.field(default_factory=Memory)

    @property
    def latest(self) -> int:
        """Latest version of the global model: the round that produced it."""
        return self.round - 1


@dataclasses.dataclass(frozen=True, eq=False)
class Arrivals:
    """What has arrived by the end of a round.

    Parameters
    ----------
    reports : mapping of int to Report
        Of clients that were selected in this round and replied in time; one with an error was refused.
    taken : array
        Clients whose updates the protocol takes.
    late : sequence of LateUpdate
        Updates of earlier rounds, including those that came before the round began.
    models : mapping of int to Vectors
        Models of clients whose updates came in during the round, if the protocol does not average updates: first of
        late ones, then of those in `reports`.
    merges_late : bool
        Whether late updates change the model; else they only teach the selector.
    given : mapping of int to float
        Weights that the selector gave the updates of this round; empty if it leaves that to the server.
    weight : callable
        Weight of an update with this many samples in the server's average, times a discount; None if not weighed.
    deviation : callable
        How far late updates are from the mean of this round's.
    model : callable
        The global model of a version that is kept.
    sizes : callable
        Samples that each member claims to hold.

    >>> Arrivals({}, NOBODY, [], {}).weight(20.0, 0.5)
    10.0
    """

    reports: dict[int, Report]
    taken: IntArray
    late: Sequence[LateUpdate]
    models: Mapping[int, Vectors]
    merges_late: bool = True
    given: Mapping[int, float] = dataclasses.field(default_factory=dict)
    weight: Callable[[float, float], float | None] = lambda samples, discount: discount * samples
    deviation: Callable[[Sequence[LateUpdate]], FloatArray] = lambda late: np.full(len(late), np.nan)
    model: Callable[[int], Vectors] = dict[int, Vectors]().__getitem__
    sizes: Callable[[], FloatArray] = lambda: np.zeros(0)

    @property
    def usable(self) -> list[LateUpdate]:
        """Late updates that change the model: those that were not refused; none if they only teach the selector."""
        return [entry for entry in self.late if self.merges_late and not entry.report.error]


@dataclasses.dataclass(frozen=True, eq=False)
class Merge:
    """How the updates of a round change the model.

    Parameters
    ----------
    memory : Memory
        What the protocol keeps.
    weights : mapping of int to float
        Weights of the updates of this round's clients, as shown in participations.csv.
    discounts : sequence of float
        Factor on the weight of each usable late update in the server's average.
    late_weights : mapping of int to float
        Weights of the late updates of clients; a client that is not named counted nothing.
    model : Vectors, optional
        The model to move to, in place of the server's average of updates.
    """

    memory: Memory
    weights: Mapping[int, float]
    discounts: Sequence[float] = ()
    late_weights: Mapping[int, float] = dataclasses.field(default_factory=dict)
    model: Vectors | None = None


class Protocol(abc.ABC):
    """Base of all protocols. Subclasses hold settings, and nothing else.

    >>> sorted(Protocol.__abstractmethods__)
    ['base', 'enough', 'merge', 'needed', 'taken', 'wanted']
    """

    averages: ClassVar[bool] = True
    """Whether the server averages updates, which it may then add up as they come; else clients' models are kept."""

    def __init__(self, settings: RoundsSection) -> None:
        self.settings = settings

    def memory(self, count: int, layout: Layout) -> Memory:
        """The memory before the first round, for this many clients and models of this layout."""
        return Memory()

    @abc.abstractmethod
    def wanted(self, context: RoundContext) -> Quota:
        """How many clients to select, and how many replies are wanted."""

    @abc.abstractmethod
    def enough(self, context: RoundContext, wanted: Quota, arrivals: Sequence[int], late: Sequence[int]) -> bool:
        """Whether the server stops waiting, given the replies so far, of this round and of earlier ones."""

    def begun(self, context: RoundContext, asked: IntArray, finished: Mapping[int, Vectors]) -> Memory:
        """The memory once these clients were selected; `finished` are models that clients completed before."""
        memory: Memory = context.memory
        return memory

    @abc.abstractmethod
    def base(self, memory: Any, client: int, asked_in: int) -> int | Vectors:
        """What a client trains from: a version of the global model, or a model of its own."""

    @abc.abstractmethod
    def taken(self, context: RoundContext, arrivals: IntArray, accept: Callable[[IntArray, int], IntArray]) -> IntArray:
        """Whose updates change the model now, of those that replied, in order; `accept` is the selector's choice."""

    @abc.abstractmethod
    def merge(self, context: RoundContext, received: Arrivals) -> Merge:
        """How the model changes, the weight of every update, and what is kept."""

    @abc.abstractmethod
    def needed(self, memory: Any, under_way: Collection[int]) -> set[int]:
        """Versions of the global model that must be kept; `under_way` are the rounds of clients yet to reply."""
