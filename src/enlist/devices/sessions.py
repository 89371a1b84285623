"""Generated sessions: a two-state Markov chain, and a daily rhythm. Both draw a table that repeats."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pydantic

from enlist._internal import checks
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.devices.availability import AvailabilityOptions
from enlist.devices.intervals import MOST_SESSIONS, Intervals
from enlist.errors import InputError
from enlist.streams import Streams

DAY = 86_400.0
HOUR = 3_600.0
BLOCK = 2**20


class Markov(AvailabilityOptions):
    """Sessions and pauses with exponential lengths, beginning in the stationary distribution.

    By default clients are online for 40 % of the time, like the one published client of FedScale's trace; the lengths
    themselves are an assumption. The table repeats after `period`: sessions on either side of the seam join.

    >>> Markov(mean_on=100.0, mean_off=300.0, period=40_000.0).draw(500, Streams(1)).uptime.mean().round(2)
    np.float64(0.25)
    """

    kind: Literal["markov"] = "markov"
    mean_on: float = pydantic.Field(3600.0, ge=0.001, description="Mean length of a session, seconds.")
    mean_off: float = pydantic.Field(5400.0, gt=0, description="Mean length of a pause, seconds.")
    period: float = pydantic.Field(7 * DAY, gt=0, description="Seconds after which the drawn sessions repeat.")

    def draw(self, count: int, streams: Streams) -> Intervals:
        """The availability of `count` clients."""
        count = checks.whole("clients", count, minimum=1)
        cycles = self.period / (self.mean_on + self.mean_off)
        if count * cycles > MOST_SESSIONS:
            raise InputError(
                f"markov: {count} clients with {cycles:.0f} sessions each; at most {MOST_SESSIONS} fit together. "
                "Shorten period, or lengthen mean_on and mean_off."
            )
        # The size of blocks is fixed, so that a client's sessions do not depend on the number of clients.
        columns = 2 * int(1.1 * cycles + 8)
        rows = max(BLOCK // columns, 1)
        parts = [
            self._block(number, min(rows, count - first), columns, streams)
            for number, first in enumerate(range(0, count, rows))
        ]
        clients = np.concatenate([part[0] + number * rows for number, part in enumerate(parts)])
        starts, ends = (np.concatenate([part[which] for part in parts]) for which in (1, 2))
        return Intervals(clients, starts, ends, np.full(count, self.period))

    def _block(self, number: int, rows: int, columns: int, streams: Streams) -> tuple[IntArray, FloatArray, FloatArray]:
        """Sessions of some clients: sojourns in turn, online in the even or in the odd columns."""
        stationary = self.mean_on / (self.mean_on + self.mean_off)
        begins_on: BoolArray = streams.generator("availability start", number).uniform(size=rows) < stationary
        mean_even = np.where(begins_on, self.mean_on, self.mean_off)[:, None]
        mean_odd = np.where(begins_on, self.mean_off, self.mean_on)[:, None]
        bounds = np.zeros((rows, 1))
        extension = 0
        while bounds[:, -1].min() < self.period:
            sojourns = streams.generator("availability", number, extension).exponential(size=(rows, columns))
            with np.errstate(over="ignore"):  # a sojourn beyond the largest number lasts to the end
                sojourns[:, 0::2] *= mean_even
                sojourns[:, 1::2] *= mean_odd
                bounds = np.concatenate([bounds, bounds[:, -1:] + np.cumsum(sojourns, axis=1)], axis=1)
            extension += 1
        even = np.arange(bounds.shape[1] - 1) % 2 == 0
        online = (even == begins_on[:, None]) & (bounds[:, :-1] < self.period)
        clients, column = np.nonzero(online)
        return clients, bounds[clients, column], np.minimum(bounds[clients, column + 1], self.period)


class Diurnal(AvailabilityOptions):
    """Days with a rhythm: short sessions, mostly around each client's own hour, and a long one every night.

    Client i has its hour h_i ~ N(hour_mean, hour_sd). Short sessions begin at a rate ∝ 1 + swing·cos(2π(h − h_i)/24)
    and have lognormal lengths; the night session begins around h_i. Virtual time 0 is midnight. Shape and hours follow
    reports on phones that charge; the number of sessions and the length of a night are assumptions.

    >>> nights = Diurnal(sessions_per_day=0.0).draw(1000, Streams(1))
    >>> [nights.online(hour * 3600.0).mean().round(1) for hour in (3, 15)]
    [np.float64(0.7), np.float64(0.0)]
    """

    kind: Literal["diurnal"] = "diurnal"
    sessions_per_day: float = pydantic.Field(4.0, ge=0, le=1000, description="Mean number of short sessions per day.")
    session_median: float = pydantic.Field(450.0, ge=0.001, description="Median length of a short session, seconds.")
    session_sigma: float = pydantic.Field(
        1.5, ge=0, le=5, description="Standard deviation of the logarithm of a short session's length."
    )
    night_median: float = pydantic.Field(
        6 * HOUR, ge=0, description="Median length of the night session, seconds; 0 for none."
    )
    night_sigma: float = pydantic.Field(
        0.3, ge=0, le=5, description="Standard deviation of the logarithm of the night session's length."
    )
    night_jitter: float = pydantic.Field(
        0.5, ge=0, le=24, description="Standard deviation of the night session's start around the client's hour, hours."
    )
    swing: float = pydantic.Field(0.8, ge=0, le=1, description="How much the rate of short sessions follows the day.")
    hour_mean: float = pydantic.Field(1.0, ge=-24, le=24, description="Mean of the clients' own hours, hour of day.")
    hour_sd: float = pydantic.Field(
        2.5, ge=0, le=24, description="Standard deviation of the clients' own hours, hours."
    )
    days: int = pydantic.Field(7, ge=1, le=366, description="Days after which the drawn sessions repeat.")

    @pydantic.model_validator(mode="after")
    def _somebody(self) -> Diurnal:
        if self.sessions_per_day == 0 and self.night_median == 0:
            raise ValueError(
                "sessions_per_day and night_median are 0, so that no client is ever online; raise one of them."
            )
        return self

    def draw(self, count: int, streams: Streams) -> Intervals:
        """The availability of `count` clients."""
        count = checks.whole("clients", count, minimum=1)
        sessions = count * self.days * (self.sessions_per_day + 1.0)
        if sessions > MOST_SESSIONS:
            raise InputError(
                f"diurnal: {count} clients have {sessions:.0f} sessions; at most {MOST_SESSIONS} fit together. "
                "Lower days or sessions_per_day."
            )
        own = HOUR * (self.hour_mean + self.hour_sd * streams.generator("availability hour").standard_normal(count))
        short, nights = self._short(own, streams), self._nights(own, streams)
        clients = np.concatenate([short[0], nights[0]])
        starts = np.mod(np.concatenate([short[1], nights[1]]), self.days * DAY)
        lengths = np.concatenate([short[2], nights[2]])
        return Intervals(clients, starts, starts + np.minimum(lengths, DAY), np.full(count, self.days * DAY))

    def _short(self, own: FloatArray, streams: Streams) -> tuple[IntArray, FloatArray, FloatArray]:
        number = streams.generator("session count").poisson(self.sessions_per_day * self.days, size=len(own))
        clients = np.repeat(np.arange(len(own)), number)
        day = streams.generator("session day").integers(self.days, size=len(clients))
        phase = np.linspace(-0.5, 0.5, 4097)
        passed = phase + 0.5 + self.swing * np.sin(2.0 * np.pi * phase) / (2.0 * np.pi)
        hour = np.interp(streams.generator("session hour").uniform(size=len(clients)), passed, phase)
        normal = streams.generator("session length").standard_normal(len(clients))
        return clients, own[clients] + DAY * (day + hour), self.session_median * np.exp(self.session_sigma * normal)

    def _nights(self, own: FloatArray, streams: Streams) -> tuple[IntArray, FloatArray, FloatArray]:
        shape = (len(own), self.days)
        clients = np.repeat(np.arange(len(own)), self.days)
        jitter = HOUR * self.night_jitter * streams.generator("night start").standard_normal(shape)
        normal = streams.generator("night length").standard_normal(shape)
        starts = own[:, None] + DAY * np.arange(self.days) + jitter
        return clients, starts.ravel(), (self.night_median * np.exp(self.night_sigma * normal)).ravel()
