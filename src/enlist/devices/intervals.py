"""Intervals: sessions in a table that repeats, queried over all clients at once.

Times are kept as whole ticks of 2⁻¹⁶ seconds (15 microseconds), rounded down, so that comparing and wrapping around are
exact: up to 2³⁷ seconds (4,000 years) of virtual time nothing else is rounded.
"""

from __future__ import annotations

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.devices.availability import Availability, moment
from enlist.errors import InputError

TICKS = 2.0**16
"""Ticks per second."""
MOST_SESSIONS = 100_000_000
"""Maximum number of sessions of all clients together: some gigabytes."""


class Intervals(Availability):
    """Sessions of N clients, from rows (client, start, end) in seconds; client i's table repeats after period[i].

    Rows may come in any order, overlap, touch, or run past the period (they continue at its beginning); rows without
    length are ignored. A session that touches the end of the period continues at its start.

    clients   (rows,) positions below N = len(period)
    starts    (rows,) seconds
    ends      (rows,) seconds, not before the starts
    period    (N,) seconds, above 0

    >>> intervals = Intervals(np.array([0, 0, 1]), np.array([10.0, 80.0, 0.0]), np.array([20.0, 105.0, 100.0]),
    ...                       period=np.array([100.0, 100.0, 100.0]))
    >>> intervals.online(110.0)
    array([ True,  True, False])
    >>> intervals.until(np.array([0, 0, 1, 2]), 190.0)
    array([205., 205.,  inf, 190.])
    >>> intervals.uptime
    array([0.35, 1.  , 0.  ])
    """

    def __init__(self, clients: IntArray, starts: FloatArray, ends: FloatArray, period: FloatArray) -> None:
        clients = np.asarray(clients, dtype=np.int64)
        starts, ends, period = (np.asarray(values, dtype=float) for values in (starts, ends, period))
        _check_rows(clients, starts, ends, period)
        self.periods = _ticks(period)
        self._period_seconds = self.periods / TICKS
        self._alike = bool((self.periods == self.periods[0]).all())
        self._width = int(self.periods.max()) + 1
        rows = _folded(clients, _ticks(starts), _ticks(ends), self.periods)
        # Adding client · width makes one sorted array of all clients' times. The row of -1 comes first, so a search
        # always lands on a row.
        self._starts, self._ends = _merged(*rows, self._width)
        self._offsets = np.searchsorted(self._starts, np.arange(len(self) + 1) * self._width)
        self._stride = 2 ** int(np.diff(self._offsets).max()).bit_length() // 2
        self._elapsed = np.zeros(0)

    def __len__(self) -> int:
        return len(self.periods)

    def online(self, now: float) -> BoolArray:
        """Which clients are online now, (N,)."""
        everybody = np.arange(len(self))
        _, keys = self._keys(everybody, moment(now))
        return np.asarray(keys < self._ends[self._row(everybody, keys)])

    def until(self, clients: IntArray, now: float) -> FloatArray:
        """When the current session of each of these clients ends: infinity if never, `now` if it is offline."""
        clients = np.asarray(clients, dtype=np.int64)
        begun, keys = self._keys(clients, moment(now))
        end = self._ends[self._row(clients, keys)]
        up = keys < end
        shift, period = clients * self._width, self.periods[clients]
        first = np.minimum(self._offsets[clients], len(self._starts) - 1)
        wraps = (end - shift == period) & (self._starts[first] == shift)
        whole = wraps & (self._ends[first] == end)
        end = end + np.where(wraps, self._ends[first] - shift, 0)
        seconds = np.where(whole, np.inf, begun + (end - shift) / TICKS)
        return np.where(up, seconds, now)

    def next_online(self, now: float) -> float:
        """The earliest time from now on at which any client is online; infinity if there is none."""
        if self.online(now).any():
            return now
        clients = np.flatnonzero(np.diff(self._offsets))
        if not len(clients):
            return np.inf
        begun, keys = self._keys(clients, now)
        row = self._row(clients, keys) + 1
        over = row >= self._offsets[clients + 1]
        row = np.where(over, self._offsets[clients], row)
        ticks = self._starts[row] - clients * self._width + np.where(over, self.periods[clients], 0)
        found = float((begun + ticks / TICKS).min())
        # Beyond 4,000 years the sum is rounded, and could fall just short of the start.
        return found if self.online(found).any() else float(np.nextafter(found, np.inf))

    @property
    def uptime(self) -> FloatArray:
        """The share of its period in which each client is online, (N,)."""
        return np.diff(self._before(self._offsets)) / self._period_seconds

    @property
    def sessions(self) -> IntArray:
        """How many sessions each client has in its period, (N,); one that wraps around counts twice."""
        return np.diff(self._offsets)

    def _seconds_online(self, start: float, end: float) -> FloatArray:
        everybody = np.arange(len(self))
        total = np.diff(self._before(self._offsets))
        seconds = [self._within(everybody, at) for at in (start, end)]
        periods = [np.floor_divide(at, self._period_seconds) for at in (start, end)]
        return np.asarray((periods[1] - periods[0]) * total + (seconds[1] - seconds[0]))

    def _within(self, clients: IntArray, now: float) -> FloatArray:
        """Seconds online since the current period of each client began."""
        begun, keys = self._keys(clients, now)
        row, first = self._row(clients, keys), self._offsets[clients]
        shift = clients * self._width
        current = np.minimum(now - begun, (self._ends[row] - shift) / TICKS) - (self._starts[row] - shift) / TICKS
        return np.where(row >= first, self._before(row) - self._before(first) + current, 0.0)

    def _before(self, rows: IntArray) -> FloatArray:
        """Seconds in all rows before these; summed up when first needed."""
        if not len(self._elapsed):
            self._elapsed = np.concatenate([[0], np.cumsum(self._ends - self._starts)]) / TICKS
        return np.asarray(self._elapsed[rows])

    def _keys(self, clients: IntArray, now: float) -> tuple[FloatArray, IntArray]:
        """When the current period of each client began, and the current moment as a key of the table."""
        period = self._period_seconds[:1] if self._alike else self._period_seconds[clients]
        since = np.fmod(now, period)
        keys = clients * self._width + np.floor(since * TICKS).astype(np.int64)
        return np.broadcast_to(now - since, keys.shape), keys

    def _row(self, clients: IntArray, keys: IntArray) -> IntArray:
        """The last row that starts at or before each key; it may belong to an earlier client, and has then ended.

        A binary search for all clients at once, each within its own rows: half the time of `searchsorted` over the
        whole table, which is too large for the cache. Steps past a client's rows find later starts and are not taken.
        """
        row = self._offsets[clients] - 1
        step = self._stride
        while step:
            ahead = row + step
            row = np.where(self._starts.take(ahead, mode="clip") <= keys, ahead, row)
            step //= 2
        return np.minimum(row, len(self._starts) - 1)


def _check_rows(clients: IntArray, starts: FloatArray, ends: FloatArray, period: FloatArray) -> None:
    count = checks.whole("clients", len(period), minimum=1)
    if not np.isfinite(period).all() or period.min() < 1.0 / TICKS:
        raise InputError(f"a period is {period.min()} seconds; it must be finite and above 0.")
    if count * (period.max() + 1.0) >= 2.0**62 / TICKS:
        raise InputError(f"{count} clients with periods up to {period.max()} seconds; shorten the period.")
    if not clients.shape == starts.shape == ends.shape:
        raise InputError(f"{clients.shape} clients, {starts.shape} starts, {ends.shape} ends; give one each per row.")
    if not len(clients):
        return
    if clients.min() < 0 or clients.max() >= count:
        raise InputError(f"sessions name clients {clients.min()} to {clients.max()}; allowed are 0 to {count - 1}.")
    wrong = ~((starts >= 0) & (ends >= starts) & np.isfinite(ends))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"row {row} is a session from {starts[row]} to {ends[row]}; give finite 0 <= start <= end.")
    if ends.max() * TICKS >= 2.0**62:
        raise InputError(f"a session ends at {ends.max()} seconds; times must stay below {2.0**46:.0f}.")


def _ticks(seconds: FloatArray) -> IntArray:
    return np.floor(seconds * TICKS).astype(np.int64)


def _folded(
    clients: IntArray, starts: IntArray, ends: IntArray, periods: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Rows within [0, period]: those that run past its end are cut there, and continue at its beginning."""
    if (starts >= ends).any():
        kept = starts < ends
        clients, starts, ends = clients[kept], starts[kept], ends[kept]
    period = periods[clients]
    if (ends <= period).all():
        return clients, starts, ends
    lengths = np.minimum(ends - starts, period)
    starts = starts % period
    ends = starts + lengths
    over = ends > period
    return (
        np.concatenate([clients, clients[over]]),
        np.concatenate([starts, np.zeros(int(over.sum()), dtype=np.int64)]),
        np.concatenate([np.minimum(ends, period), (ends - period)[over]]),
    )


def _merged(clients: IntArray, starts: IntArray, ends: IntArray, width: int) -> tuple[IntArray, IntArray]:
    """Keys of starts and ends, sorted, with overlapping and touching rows merged, after a first row of -1."""
    shift = clients * width
    starts, ends = starts + shift, ends + shift
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    fresh = np.ones(len(starts), dtype=bool)
    # A client's last end lies below the next client's first start, so rows of two clients never touch.
    fresh[1:] = starts[1:] > reached[:-1]
    last = np.append(np.flatnonzero(fresh)[1:] - 1, len(starts) - 1) if len(starts) else np.zeros(0, dtype=np.int64)
    return np.concatenate([[-1], starts[fresh]]), np.concatenate([[-1], reached[last]])
