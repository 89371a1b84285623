"""REFL: the clients that will be hardest to reach soon come first. Its aggregation is in `bandits.staleness`."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.bandits import top_k
from enlist.bandits.credible import APART, SMALL
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.records import Outcome, RoundMetrics, Selection
from enlist.state import State, column


@dataclasses.dataclass(frozen=True)
class REFLSettings:
    """Settings of `refl`.

    Parameters
    ----------
    cooldown : int, default 5
        Rounds for which a chosen client is not chosen again.
    alpha : float, default 0.25
        Weight of the old estimate of a round's length.
    period : float, default 86400.0
        Seconds after which availability repeats.
    bins : int, default 24
        Number of bins in a period.
    fade : float, default 0.8
        Weight of an observation that is one period older than another.

    >>> REFLSettings().cooldown
    5
    """

    cooldown: int = 5
    alpha: float = 0.25
    period: float = 86400.0
    bins: int = 24
    fade: float = 0.8

    def __post_init__(self) -> None:
        checks.whole("cooldown", self.cooldown, minimum=0)
        checks.finite("alpha", self.alpha, 0.0, 1.0)
        checks.finite("period", self.period, 1e-9)
        checks.whole("bins", self.bins, minimum=1)
        checks.finite("bins", self.bins, 1, 10**4)
        checks.finite("fade", self.fade, 0.0, 1.0)


@dataclasses.dataclass
class DailyPattern(State):
    """How often each client was available at each time of day, recent days counting more; rows are bins of the day.

    p = (hits + 1) / (seen + 2),  where both are multiplied by `fade` for every day that has passed.

    >>> seasons = DailyPattern.of(2, bins=4, period=100.0, fade=0.8)
    >>> seasons.watch(np.array([1]), now=30.0)
    >>> seasons.watch(np.array([1]), now=130.0)
    >>> seasons.probability(slice(None), start=225.0, length=25.0).round(3)
    array([0.263, 0.737])
    """

    hits: AnyArray
    seen: AnyArray
    day: AnyArray
    period: float = 86400.0
    fade: float = 0.8

    @classmethod
    def of(cls, count: int, bins: int, period: float, fade: float) -> DailyPattern:
        """Nothing watched yet."""
        hits, seen = np.zeros((bins, count), np.float32), np.zeros((bins, count), np.float32)
        return cls(hits=hits, seen=seen, day=np.full(bins, -np.inf), period=period, fade=fade)

    def grow(self, more: int) -> None:
        fresh = np.zeros((len(self.day), more), np.float32)
        self.hits, self.seen = np.concatenate([self.hits, fresh], axis=1), np.concatenate([self.seen, fresh], axis=1)

    def keep(self, positions: IntArray) -> None:
        self.hits, self.seen = self.hits[:, positions], self.seen[:, positions]

    def watch(self, available: IntArray | slice, now: float) -> None:
        """Record who is available. Only the row of this bin fades, when it is first seen on another day."""
        row = self._bin(now)
        day = math.floor(now / self.period)
        if day > self.day[row]:
            factor = np.float32(self.fade ** (day - self.day[row]))
            self.hits[row] *= factor
            self.seen[row] *= factor
            self.day[row] = day
        self.hits[row, available] += 1.0
        self.seen[row] += 1.0

    def probability(self, clients: IntArray | slice, start: float, length: float) -> FloatArray:
        """Chance of being available in [start, start + length]: the mean over the bins, by how far they overlap it."""
        weights = self._overlap(start, length)
        total = np.zeros(self.hits[0, clients].shape)
        for row in np.flatnonzero(weights):
            total += weights[row] * (self.hits[row, clients] + 1.0) / (self.seen[row, clients] + 2.0)
        return total

    def _bin(self, now: float) -> int:
        return min(int(now % self.period / self.period * len(self.day)), len(self.day) - 1)

    def _overlap(self, start: float, length: float) -> FloatArray:
        bins = len(self.day)
        if length >= self.period:
            return np.full(bins, 1.0 / bins)
        left = np.arange(2 * bins) * (self.period / bins)
        first = start % self.period
        inside = np.minimum(first + length, left + self.period / bins) - np.maximum(first, left)
        overlap = np.maximum(inside, 0.0).reshape(2, bins).sum(axis=0)
        if not overlap.sum() > 0:
            overlap[self._bin(start)] = 1.0
        return np.asarray(overlap / overlap.sum())


@dataclasses.dataclass
class REFLState(State):
    """The forecaster, the round each client was last chosen in (0: never), the estimated length of a round, and what
    has been told about the present round's length since it began (seconds; None: nothing).

    >>> REFLState.create(2, seasons=DailyPattern.of(2, 24, 86400.0, 0.8)).last
    array([0, 0], dtype=int32)
    """

    seasons: DailyPattern
    last: AnyArray = column(0, np.int32)
    length: float | None = None
    duration: float | None = None
    waited: float | None = None


class REFL(Selector[REFLSettings, REFLState]):
    """The k clients with the least  P(available in [now + m, now + 2m]),  m the estimated length of a round.

    m <- (1-a) D + a m, D the length of the last round. A client that was chosen rests for `cooldown` rounds, unless
    fewer than k others are available. Ties are broken at random.

    Reference: Abdelmoniem et al., REFL: Resource-Efficient Federated Learning, EuroSys 2023.
    Needs nothing; pass `now`, and forecast= if you have a better forecast than its own. O(n) per round; 196 bytes of
    state per client (8 for each of the 24 bins).

    >>> import enlist
    >>> selector = enlist.create("refl", enlist.Clients(count=3), seed=1)
    >>> for hour in range(48):
    ...     selector.observe([0, 1] if hour % 24 < 12 else [0, 1, 2], now=3600.0 * hour)
    >>> selector.ask(k=1, now=3600.0 * 71, deadline=3600.0).clients
    array([2])

    Differs from the paper: there each client trains a forecaster of its own; here the server keeps, for each client
    and hour of the day, how often it was available, recent days counting more (`DailyPattern`). D is
    RoundMetrics.duration if told, else the longest time waited for a client that replied or was late. The published
    code takes only clients whose trace covers the next window but not the one after; the paper, as here, sorts by
    probability.
    """

    name = "refl"
    reference = "Abdelmoniem et al. 2023"
    presets = {"paper": {}}  # the default is the printed rule
    Settings = REFLSettings
    with_ = WithSettings(REFLSettings)
    State = REFLState

    def initial_state(self) -> REFLState:
        chosen = self.settings
        seasons = DailyPattern.of(len(self.clients), chosen.bins, chosen.period, chosen.fade)
        return REFLState.create(len(self.clients), seasons=seasons)

    def watch(self, available: IntArray, now: float) -> None:
        everybody = len(available) == len(self.clients)
        self.state.seasons.watch(slice(None) if everybody else available, now)

    def begin_round(self, request: Request) -> None:
        state, alpha = self.state, self.settings.alpha
        latest = state.waited if state.duration is None else state.duration
        if latest is not None and state.length is None:
            state.length = latest
        elif latest is not None and latest <= APART * max(state.length or 0.0, SMALL):  # else absurd: no news
            state.length = (1 - alpha) * latest + alpha * (state.length or 0.0)
        state.duration, state.waited = None, None

    def choose(self, request: Request) -> Choice:
        chance = self._chance(request)
        last = request.of(self.state.last)
        rested = np.flatnonzero((last == 0) | (self.round - last > self.settings.cooldown))
        if len(rested) < request.k:
            rested = np.arange(len(last))
        return request.pick(rested[top_k(-chance[rested], request.k, self.rng)], availability=chance)

    def _chance(self, request: Request) -> FloatArray:
        given = None if request.forecast is None else request.of(request.forecast)
        if given is not None and not np.isnan(given).any():
            return given
        length = self.window(request.deadline)
        everybody = len(request.available) == request.population
        clients = slice(None) if everybody else request.available
        own = self.state.seasons.probability(clients, request.now + length, length)
        return own if given is None else np.where(np.isnan(given), own, given)

    def window(self, deadline: float = math.inf) -> float:
        """Estimated seconds of a round; before the first one the deadline, and without that one bin."""
        if self.state.length is not None:
            return self.state.length
        return self.settings.period / self.settings.bins if math.isinf(deadline) else deadline

    def chosen(self, selection: Selection) -> None:
        self.state.last[selection.clients] = selection.round

    def learn(self, told: Observation) -> FloatArray | None:
        waited = told.latency[told.completed | (told.outcome == Outcome.LATE)]
        waited = waited[~np.isnan(waited)]
        if len(waited):
            self.state.waited = max(float(waited.max()), self.state.waited or 0.0)
        return None

    def learn_round(self, selection: Selection, completed: IntArray, metrics: RoundMetrics) -> None:
        if metrics.duration is not None:
            self.state.duration = max(metrics.duration, 0.0)

    def summary(self) -> dict[str, FloatArray]:
        seasons = self.state.seasons
        return {"available": (seasons.hits.sum(axis=0) + 1.0) / (seasons.seen.sum(axis=0) + 2.0)}
