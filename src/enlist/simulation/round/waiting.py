"""One round on the virtual clock: what becomes of each selected client, and when the server stops waiting.

The future of a client is computed when it is selected, because it is a pure function of round, client and time; the
server and the selector learn of it only as events come out of the queue.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.records import Outcome, Selection
from enlist.simulation.round.clock import Event, Kind, Queue

KINDS = tuple(Kind)
REPLY, LOST, DEADLINE = Kind.REPLY, Kind.LOST, Kind.DEADLINE
OUTCOMES = {Kind.REPLY: int(Outcome.COMPLETED), Kind.ERROR: int(Outcome.FAILED), Kind.LOST: int(Outcome.DROPPED)}
IDLE = 60.0
"""Virtual seconds that pass in a round for which no client was selected."""
PATIENCE = 30 * 86400.0
"""Virtual seconds in which no client is at work or can be selected, after which a run gives up."""


@dataclasses.dataclass(eq=False)
class Schedule:
    """What will become of the clients of a selection, aligned with it: parts of the latency, and how and when it ends.

    share    of its work that each client does
    energy   joules that each spends, whether its reply is waited for or not; None if energy is not counted

    >>> schedule = Schedule.of(
    ...     now=0.0, download=np.ones(3), compute=np.array([2.0, 5.0, 2.0]), upload=np.ones(3), share=np.ones(3),
    ...     online_until=np.array([9.0, 6.0, 9.0]), crashed=np.array([False, False, True]), fraction=np.full(3, 0.5))
    >>> [kind.name for kind in schedule.kinds], schedule.times
    (['REPLY', 'LOST', 'ERROR'], array([4., 6., 2.]))
    """

    download: FloatArray
    compute: FloatArray
    upload: FloatArray
    share: FloatArray
    times: FloatArray
    kinds: list[Kind]
    energy: FloatArray | None = None

    @classmethod
    def of(
        cls,
        now: float,
        download: FloatArray,
        compute: FloatArray,
        upload: FloatArray,
        share: FloatArray,
        online_until: FloatArray,
        crashed: BoolArray,
        fraction: FloatArray,
    ) -> Schedule:
        """A client replies when it is done, unless it crashes or goes offline before."""
        compute = share * compute
        total = download + compute + upload
        ends = np.stack([now + total, np.where(crashed, now + fraction * total, np.inf), online_until])
        first = ends.argmin(axis=0)  # a tie goes to the reply
        return cls(download, compute, upload, share, ends.min(axis=0), [KINDS[kind] for kind in first.tolist()])

    @property
    def latency(self) -> FloatArray:
        """Seconds from selection to the reply, if it comes."""
        return self.download + self.compute + self.upload


@dataclasses.dataclass(eq=False)
class WaitResult:
    """How the waiting ended: when, after how long, outcomes so far, and who replied, in order.

    `seconds` is the deadline itself if that ended it, not a difference of times. `stale` are replies to earlier rounds
    that have arrived meanwhile, `lost` are clients of earlier rounds that have crashed or gone offline.

    >>> WaitResult(12.0, 2.0, np.array([0, 1]), np.array([3]), [], []).ended
    12.0
    """

    ended: float
    seconds: float
    outcome: AnyArray
    arrivals: IntArray
    stale: list[Event]
    lost: list[Event]


def wait(
    queue: Queue, picked: Selection, schedule: Schedule, now: float, enough: Callable[[list[int], list[int]], bool]
) -> WaitResult:
    """Process events until enough clients have replied, nothing more can come, or the deadline has passed.

    A client that goes offline sends nothing: with a deadline the server waits for it in vain; without one it
    notices the broken connection. Replies of earlier rounds that arrive meanwhile are returned, too. `enough` is
    called with the clients of this round that have replied, and those of earlier ones.

    >>> queue, picked = Queue(), Selection(1, np.array([4, 7, 9]), deadline=5.0)
    >>> schedule = Schedule(*np.zeros((4, 3)), times=np.array([3.0, 8.0, 2.0]), kinds=[Kind.REPLY] * 3)
    >>> waited = wait(queue, picked, schedule, 0.0, enough=lambda arrivals, late: len(arrivals) == 3)
    >>> waited.ended, waited.outcome, waited.arrivals, len(queue)
    (5.0, array([0, 1, 0], dtype=int8), array([9, 4]), 1)
    """
    deadline = now + picked.deadline
    for client, time, kind, latency in zip(
        picked.clients.tolist(), schedule.times.tolist(), schedule.kinds, schedule.latency.tolist(), strict=True
    ):
        if kind is REPLY and latency > picked.deadline and time <= deadline:
            time = math.nextafter(deadline, math.inf)  # late by less than the clock resolves is late all the same
        queue.push(Event(time, kind, picked.round, client))
    queue.push(Event(deadline if len(picked) else min(deadline, now + IDLE), DEADLINE, picked.round, -1))
    outcomes: dict[int, int] = {}
    arrivals: list[int] = []
    stale: list[Event] = []
    lost: list[Event] = []
    earlier: list[int] = []
    outstanding = len(picked)
    while True:
        event = queue.pop()
        if event.round != picked.round:
            if event.kind is not REPLY:
                lost.append(event)
                continue
            stale.append(event)
            earlier.append(event.client)
        elif event.kind is DEADLINE:
            ended, seconds = event.time, picked.deadline if len(picked) else min(picked.deadline, IDLE)
            break
        else:
            outcomes[event.client] = OUTCOMES[event.kind]
            if event.kind is REPLY:
                arrivals.append(event.client)
            if event.kind is not LOST or math.isinf(deadline):
                outstanding -= 1
        if (len(picked) and outstanding == 0) or enough(arrivals, earlier):
            ended, seconds = event.time, event.time - now
            queue.keep(entry for entry in queue if not (entry.kind is DEADLINE and entry.round == picked.round))
            break
    late = int(Outcome.LATE)
    outcome = np.array([outcomes.get(client, late) for client in picked.clients.tolist()], dtype=np.int8)
    return WaitResult(ended, seconds, outcome, np.array(arrivals, dtype=np.int64), stale, lost)
