"""The virtual clock: one queue of events in the order of time, with ties broken the same way everywhere."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from enlist._internal.typing import AnyArray


class Kind(enum.IntEnum):
    """Kinds of events; at equal times in this order, so that a reply exactly at the deadline counts.

    >>> Kind.REPLY < Kind.DEADLINE
    True
    """

    REPLY = 0
    ERROR = 1
    LOST = 2
    DEADLINE = 3


class Event(NamedTuple):
    """Something that happens at some time to a client that was selected in a round.

    >>> Event(3.0, Kind.REPLY, 1, 7) < Event(3.0, Kind.REPLY, 1, 8) < Event(3.0, Kind.DEADLINE, 1, -1)
    True
    """

    time: float
    kind: Kind
    round: int
    client: int


class Queue:
    """Pending events.

    >>> queue = Queue([Event(5.0, Kind.REPLY, 1, 0), Event(2.0, Kind.LOST, 1, 4)])
    >>> queue.pop().client, len(queue)
    (4, 1)
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._heap = list(events)
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Event]:
        return iter(sorted(self._heap))

    def push(self, event: Event) -> None:
        """Add an event."""
        heapq.heappush(self._heap, event)

    def pop(self) -> Event:
        """Take the next event."""
        return heapq.heappop(self._heap)

    @property
    def next_time(self) -> float:
        """When the next event happens; infinity if none does."""
        return self._heap[0].time if self._heap else float("inf")

    def keep(self, events: Iterable[Event]) -> None:
        """Keep only these events."""
        self._heap = list(events)
        heapq.heapify(self._heap)

    def arrays(self) -> dict[str, AnyArray]:
        """The events as columns, to be saved."""
        events = list(self)
        return {
            "time": np.array([event.time for event in events], dtype=float),
            "kind": np.array([event.kind for event in events], dtype=np.int8),
            "round": np.array([event.round for event in events], dtype=np.int64),
            "client": np.array([event.client for event in events], dtype=np.int64),
        }

    @classmethod
    def of(cls, arrays: dict[str, AnyArray]) -> Queue:
        """The queue that `arrays` was taken from."""
        columns = (arrays[name].tolist() for name in ("time", "kind", "round", "client"))
        rows = zip(*columns, strict=True)
        return cls(Event(time, Kind(kind), round, client) for time, kind, round, client in rows)
