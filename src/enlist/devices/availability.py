"""Availability: who is online when. Queries over all clients, without side effects: answers do not depend on order."""

from __future__ import annotations

import abc
from typing import Literal

import numpy as np
import pydantic

from enlist._internal import checks
from enlist._internal.options import Options
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.devices.draws import Recent
from enlist.errors import InputError
from enlist.streams import Streams

REMEMBERED = 2**25
"""Bytes of slots that `Slots` keeps; they can always be drawn again."""
SEARCHED = 2**25
"""Number of draws after which `Slots` stops searching for a client that is online, but not before 1000 slots."""
MOST_SLOTS = 2**16
"""Maximum number of slots that one query searches: a second or two."""
MOST_DRAWS = 2**31
"""Maximum number of draws for one query about the ends of sessions: clients times `lookahead`."""


class Availability(abc.ABC):
    """Who is online when. A session includes the moment it begins and excludes the moment it ends.

    >>> everybody = AlwaysOnline(3)
    >>> everybody.online(5.0), everybody.until(np.array([2]), 5.0), everybody.next_online(5.0)
    (array([ True,  True,  True]), array([inf]), 5.0)
    """

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of clients."""

    @abc.abstractmethod
    def online(self, now: float) -> BoolArray:
        """Which clients are online now, (N,)."""

    @abc.abstractmethod
    def until(self, clients: IntArray, now: float) -> FloatArray:
        """When the current session of each of these clients ends: infinity if never, `now` if it is offline."""

    @abc.abstractmethod
    def next_online(self, now: float) -> float:
        """The earliest time from now on at which any client is online; infinity if there is none."""

    @property
    @abc.abstractmethod
    def uptime(self) -> FloatArray:
        """The long-run share of time in which each client is online, (N,)."""

    def share(self, start: float, end: float) -> FloatArray:
        """The share of a window in which each client is online, (N,): the forecast of an oracle.

        For an empty window, it is 1 for clients online at that moment, else 0.
        """
        start, end = moment(start), moment(end)
        if end < start:
            raise InputError(f"the window goes from {start} to {end}; give start <= end.")
        if end == start:
            return self.online(start).astype(float)
        return np.clip(self._seconds_online(start, end) / (end - start), 0.0, 1.0)

    @abc.abstractmethod
    def _seconds_online(self, start: float, end: float) -> FloatArray:
        """Seconds that each client is online within a window that is not empty."""


class AvailabilityOptions(Options, abc.ABC):
    """Base of all kinds of availability.

    >>> Always().draw(2, Streams(1)).online(0.0)
    array([ True,  True])
    """

    model_config = pydantic.ConfigDict(allow_inf_nan=False)

    @abc.abstractmethod
    def draw(self, count: int, streams: Streams) -> Availability:
        """The availability of `count` clients."""


class AlwaysOnline(Availability):
    """All clients, always.

    >>> AlwaysOnline(2).uptime
    array([1., 1.])
    """

    def __init__(self, count: int) -> None:
        self.count = checks.whole("clients", count, minimum=1)

    def __len__(self) -> int:
        return self.count

    def online(self, now: float) -> BoolArray:
        """All clients, (N,)."""
        moment(now)
        return np.ones(self.count, dtype=bool)

    def until(self, clients: IntArray, now: float) -> FloatArray:
        """Infinity: no session ends."""
        moment(now)
        return np.full(len(clients), np.inf)

    def next_online(self, now: float) -> float:
        """Now."""
        return moment(now)

    @property
    def uptime(self) -> FloatArray:
        """1 for all clients, (N,)."""
        return np.ones(self.count)

    def _seconds_online(self, start: float, end: float) -> FloatArray:
        return np.full(self.count, end - start)


class Always(AvailabilityOptions):
    """All clients are always online.

    >>> Always().draw(2, Streams(1)).next_online(9.0)
    9.0
    """

    kind: Literal["always"] = "always"

    def draw(self, count: int, streams: Streams) -> AlwaysOnline:
        """The availability of `count` clients."""
        return AlwaysOnline(count)


class Slots(Availability):
    """Each client is online in each slot of `length` seconds with its own probability, independently of other slots.

    A slot is drawn for all clients when it is needed, from a stream of its own number.

    >>> slots = Slots(np.array([1.0, 0.5, 0.0]), length=10.0, lookahead=4, streams=Streams(9))
    >>> [slots.online(now).tolist() for now in (0.0, 19.9, 20.0)]
    [[True, False, False], [True, True, False], [True, True, False]]
    >>> slots.until(np.array([0, 1, 2]), 3.0)
    array([inf,  3.,  3.])
    """

    def __init__(self, chance: FloatArray, length: float, lookahead: int, streams: Streams) -> None:
        self.chance = chance
        self.length = length
        self.lookahead = lookahead
        self.streams = streams
        self._recent = Recent(max(min(REMEMBERED // len(chance), 4096), 8))

    def __len__(self) -> int:
        return len(self.chance)

    def online(self, now: float) -> BoolArray:
        """Which clients are online now, (N,)."""
        return self._slot(self._number(now)).copy()

    def until(self, clients: IntArray, now: float) -> FloatArray:
        """The beginning of the first slot in which each is offline; `now` if that is the current one.

        At most `lookahead` slots are searched, including the current one: a longer session is said to end there.
        """
        clients = np.asarray(clients, dtype=np.int64)
        first = self._number(now)
        end = np.full(len(clients), (first + self.lookahead) * self.length)
        end[self.chance[clients] >= 1.0] = np.inf
        open_ = np.flatnonzero(self.chance[clients] < 1.0)
        for number in range(first, first + self.lookahead):
            up = self._slot(number)[clients[open_]]
            end[open_[~up]] = number * self.length if number > first else now
            open_ = open_[up]
            if not len(open_):
                break
        return end

    def next_online(self, now: float) -> float:
        """The earliest time from now on at which any client is online; infinity if the search takes too long."""
        first = self._number(now)
        if not self.chance.any():
            return np.inf
        for number in range(first, first + min(max(SEARCHED // len(self), 1000), MOST_SLOTS)):
            if self._slot(number).any():
                return max(number * self.length, now)
        return np.inf

    @property
    def uptime(self) -> FloatArray:
        """The probability of each client, (N,)."""
        return self.chance.copy()

    def _seconds_online(self, start: float, end: float) -> FloatArray:
        seconds = np.zeros(len(self))
        first, last = self._number(start), self._number(end)
        if last - first > MOST_SLOTS:
            raise InputError(
                f"a window of {end - start:g} seconds has {last - first} slots of {self.length:g} seconds; at most "
                f"{MOST_SLOTS} are searched: lengthen availability.slot, or shorten the deadline."
            )
        for number in range(first, last + 1):
            within = min((number + 1) * self.length, end) - max(number * self.length, start)
            seconds += max(within, 0.0) * self._slot(number)
        return seconds

    def _number(self, now: float) -> int:
        """The slot of a moment. Slot s begins at the float s · length, which division alone would not reproduce."""
        if moment(now) / self.length >= 2.0**52:
            raise InputError(f"the virtual time is {now}; slots of {self.length} seconds cannot be counted that far.")
        number = int(now // self.length)
        while (number + 1) * self.length <= now:
            number += 1
        while number * self.length > now:
            number -= 1
        return number

    def _slot(self, number: int) -> BoolArray:
        return self._recent.get(number, self._drawn)

    def _drawn(self, number: int) -> BoolArray:
        up: BoolArray = self.streams.generator("availability", number).uniform(size=len(self)) < self.chance
        return up


class Bernoulli(AvailabilityOptions):
    """Each client is online with its own chance a_i ~ Beta(a, b), drawn again in every slot.

    The shape of the Beta is an assumption: by default the mean is 0.6, the standard deviation 0.2. A population without
    any client online for tens of thousands of slots is refused when it is drawn.

    >>> Bernoulli().draw(4, Streams(1)).uptime.round(2)
    array([0.39, 0.61, 0.51, 0.7 ])
    """

    kind: Literal["bernoulli"] = "bernoulli"
    a: float = pydantic.Field(3.0, gt=0, le=1e9, description="First shape of the Beta distribution of the chances.")
    b: float = pydantic.Field(2.0, gt=0, le=1e9, description="Second shape of the Beta distribution of the chances.")
    slot: float = pydantic.Field(600.0, ge=0.001, description="Seconds after which each client's state is drawn again.")
    lookahead: int = pydantic.Field(
        200,
        ge=1,
        le=100_000,
        description="Most slots that are looked ahead for the end of a session; a longer one is said to end there.",
    )

    def draw(self, count: int, streams: Streams) -> Slots:
        """The availability of `count` clients."""
        count = checks.whole("clients", count, minimum=1)
        chance = streams.generator("availability chance").beta(self.a, self.b, size=count)
        self._check(chance)
        return Slots(chance, self.slot, self.lookahead, streams)

    def _check(self, chance: FloatArray) -> None:
        with np.errstate(divide="ignore"):
            somebody = -float(np.expm1(np.log1p(-chance).sum()))
        if somebody * MOST_SLOTS < 1.0:
            often = f"but once in {1.0 / somebody:.2g} slots of {self.slot:g} seconds" if somebody else "at all times"
            raise InputError(
                f"bernoulli with a = {self.a:g} and b = {self.b:g}: all {len(chance)} clients are offline "
                f"{often}, so a run would search in vain; raise a, lower b, or use more clients."
            )
        if len(chance) * self.lookahead > MOST_DRAWS:
            raise InputError(
                f"bernoulli with lookahead = {self.lookahead} and {len(chance)} clients takes "
                f"{len(chance) * self.lookahead:.2g} draws to find where sessions end; at most {MOST_DRAWS:.2g} are "
                f"allowed: set lookahead to {MOST_DRAWS // len(chance)} or less."
            )


def moment(now: float) -> float:
    """A moment of virtual time, checked: finite seconds, not negative.

    >>> moment(-1.0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: the virtual time is -1.0; it must be a finite number of at least 0.0.
    """
    return checks.finite("the virtual time", now, 0.0)
