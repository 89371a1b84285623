"""Log-normal latencies, learned per client, from features where they are informative, and from cut-off replies.

    ln latency = m_i + noise,   noise ~ N(0, within),   m_i ~ N(theta.x_i, between)

theta is a ridge regression on standardised features over all clients; m_i is then shrunk towards it by how often the
client was timed. A reply that did not come in time says that the latency is longer than the time waited: it counts as
the mean of a normal truncated there.

Every reply counts alike, so that estimates become exact, until a client changes: then what it did before is forgotten.
It has changed if one reply is far off, or if the last few are off to the same side by more than chance allows:

    z_i = (ln latency - m_i) / deviation,   trend_i <- 0.8 trend_i + 0.2 z_i,   changed if |trend_i| > 3.3 sqrt(0.2/1.8)
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.bandits.linear import Ridge, Standardiser
from enlist.clients import Clients
from enlist.records import Outcome
from enlist.rounds import Observation
from enlist.state import State, column

SHORTEST = 1e-6
"""Seconds; shorter latencies count as this, so that they have a logarithm."""
FAR = 4.0
"""Deviations beyond which an observation moves shared estimates no further."""
WINDOW = 5000.0
"""Observations that the two variances remember."""
MEMORY = 1000.0
"""The most replies that the mean of a client rests on."""
KEPT = 0.8
"""What a trend keeps of earlier replies: it is a mean of about five."""
LEAST = 0.05
"""Deviation of ln latency below which nothing counts as a change."""
UNLIKELY = 3.3 * math.sqrt((1.0 - KEPT) / (1.0 + KEPT))
"""A trend beyond this occurs by chance once in a thousand replies."""
STEPS = 30
"""Bisections that find when a round ends: to a billionth of the range."""


@dataclasses.dataclass
class LogLatency(State):
    """Mean and deviation of the logarithm of each client's next latency.

    centre, model    what features predict: ln latency = centre + theta.x
    between, within  variance of clients around that, and of replies around their client; each with its weight
    mean, weight     per client: mean of what was seen, and how many replies it rests on, at most `memory` + 1
    trend            per client: by how many deviations its last replies were off, on average

    >>> latency = LogLatency.of(Clients(count=3))
    >>> rows = latency.rows(Clients(count=3))
    >>> latency.observe(rows[:2], np.array([0, 1]), np.log([2.0, 8.0]))
    >>> mean, deviation = latency.predict(rows)
    >>> np.exp(mean).round(1)
    array([2.1, 7.7, 4. ])
    >>> bool(deviation[2] > deviation[0])
    True
    """

    scaler: Standardiser
    model: Ridge
    centre: float | None = None
    between: float = 1.0
    between_weight: float = 1.0
    within: float = 0.04
    within_weight: float = 4.0
    memory: float = MEMORY
    mean: FloatArray = column(0.0)
    weight: FloatArray = column(0.0)
    trend: FloatArray = column(0.0)

    @classmethod
    def of(cls, clients: Clients) -> LogLatency:
        """Nothing timed yet; the scaling of features is fitted to this population and kept."""
        table = _table(clients)
        scaler = Standardiser.fit(table, np.asarray((table >= 0.0).all(axis=0)))
        return cls.create(len(clients), scaler=scaler, model=Ridge.of(table.shape[1] + 1))

    def rows(self, clients: Clients) -> FloatArray:
        """What is known up front about each client, standardised, and an intercept: (n, d)."""
        return np.column_stack([self.scaler.apply(_table(clients)), np.ones(len(clients))])

    def predict(self, rows: FloatArray, clients: IntArray | slice = slice(None)) -> tuple[FloatArray, FloatArray]:
        """Mean and deviation of ln latency of these clients' next replies; `rows` are theirs."""
        told, weight = (self.centre or 0.0) + rows @ self.model.theta, self.weight[clients]
        prior = self.within / self.between  # how many replies the features are worth
        mean = (prior * told + weight * self.mean[clients]) / (prior + weight)
        return mean, np.sqrt(self.within + self.within / (prior + weight))

    def learn(self, rows: FloatArray, told: Observation) -> FloatArray:
        """Add the latencies of told clients; returns ln latency as credited, NaN for nothing."""
        latency = np.log(np.maximum(told.column("latency"), SHORTEST))
        late = (told.outcome == Outcome.LATE) & ~np.isnan(latency)
        seen = np.where(told.completed | late, latency, np.nan)
        if late.any():
            mean, deviation = self.predict(rows[late], told.clients[late])
            seen[late] = beyond(latency[late], mean, deviation)
        self.observe(rows, told.clients, seen, late)
        return seen

    def amend(self, rows: FloatArray, told: Observation) -> None:
        """Replace what was credited to late clients with their true latencies."""
        assert told.credited is not None
        seen = np.log(np.maximum(told.column("latency"), SHORTEST))
        new = np.isnan(told.credited)
        self.observe(rows[new], told.clients[new], seen[new])
        again = told.clients[~new]
        self.mean[again] += (seen - told.credited)[~new] / np.maximum(self.weight[again], 1.0)

    def observe(self, rows: FloatArray, clients: IntArray, seen: FloatArray, guessed: AnyArray | None = None) -> None:
        """Add ln latencies, NaN for unknown; those `guessed` from a bound say nothing about the noise."""
        known = ~np.isnan(seen)
        if not known.any():
            return
        sure = known if guessed is None else known & ~guessed
        sure, rows, clients, seen = sure[known], rows[known], clients[known], seen[known]
        if self.centre is None:
            self.centre = float(np.median(seen))
        weight = self.weight[clients]
        fresh = weight == 0.0
        self._share(rows[fresh], seen[fresh])
        changed = self._changed(clients, seen, sure & ~fresh)  # before a change counts as noise
        deviations = (seen - self.mean[clients])[sure & ~fresh]
        held = weight[sure & ~fresh]
        # A mean of w replies and the next one differ by (1 + 1/w) times the noise.
        self._widen(np.minimum(deviations**2, 1.0) * held / (held + 1.0))
        kept = np.where(changed, 0.0, np.minimum(weight, self.memory))
        self.mean[clients] = (kept * self.mean[clients] + seen) / (kept + 1.0)
        self.weight[clients] = kept + 1.0

    def _changed(self, clients: IntArray, seen: FloatArray, timed: AnyArray) -> AnyArray:
        """Who has changed: one reply far off, or a trend; only clients `timed` before have one."""
        off, weight = seen - self.mean[clients], np.maximum(self.weight[clients], 1.0)
        noise = np.maximum(np.sqrt(self.within * (1.0 + 1.0 / weight)), LEAST)
        recent = KEPT * self.trend[clients] + (1.0 - KEPT) * np.clip(off / noise, -3.0, 3.0)
        trend = np.where(timed, recent, self.trend[clients])
        changed = (np.abs(off) > self._jump()) | (np.abs(trend) > UNLIKELY)
        self.trend[clients] = np.where(changed, 0.0, trend)
        return np.asarray(changed)

    def _jump(self) -> float:
        """A client that is further off than this has changed; what was known about it is forgotten."""
        return 3.0 * max(math.sqrt(2.0 * self.within), 0.15)

    def _share(self, rows: FloatArray, seen: FloatArray) -> None:
        """Learn about all clients from those timed for the first time."""
        if not len(seen):
            return
        most = FAR * math.sqrt(self.between + self.within)
        above = seen - (self.centre or 0.0)
        missed = np.clip(above - rows @ self.model.theta, -most, most)
        total = self.between * self.between_weight + float((missed**2).sum())
        self.between = max(total / (self.between_weight + len(seen)), 1e-3)
        self.between_weight = min(self.between_weight + len(seen), WINDOW)
        self.model.update(rows, rows @ self.model.theta + missed)

    def _widen(self, squares: FloatArray) -> None:
        total = self.within * self.within_weight + float(squares.sum())
        self.within = max(total / (self.within_weight + len(squares)), 1e-4)
        self.within_weight = min(self.within_weight + len(squares), WINDOW)


def _table(clients: Clients) -> FloatArray:
    """Everything known up front that may predict speed: (n, d), perhaps with no columns."""
    columns = [values for values in (clients.num_examples, clients.expected_latency) if values is not None]
    features = [] if clients.features is None else list(clients.features.T)
    return np.column_stack([*columns, *features]) if columns or features else np.zeros((len(clients), 0))


def beyond(bound: FloatArray, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """The expected value of a normal variable, given that it is above a bound.

    >>> beyond(np.array([0.0]), np.array([0.0]), np.array([1.0])).round(4)
    array([0.7979])
    """
    above = (bound - mean) / deviation
    hazard = np.exp(-0.5 * above**2 - 0.5 * math.log(2.0 * math.pi) - log_ndtr(-above))
    return np.maximum(mean + deviation * hazard, bound)


def round_end(mean: FloatArray, deviation: FloatArray, finishes: FloatArray) -> FloatArray:
    """Seconds until all clients of a set that finish are expected to have replied, one per set.

    Arguments are (sets, k): ln latencies and the probability of finishing at all. The last reply is expected when all
    but half a client of those that finish have replied.

    >>> sure = np.full((1, 3), 1e-3)
    >>> round_end(np.log([[1.0, 2.0, 4.0]]), sure, np.ones((1, 3))).round(2)
    array([4.])
    """
    wanted = finishes.sum(axis=1) * (1.0 - 0.5 / mean.shape[1])
    low, high = (mean - 4.0 * deviation).min(axis=1), (mean + 4.0 * deviation).max(axis=1)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        came = (finishes * ndtr((middle[:, None] - mean) / deviation)).sum(axis=1)
        low, high = np.where(came < wanted, middle, low), np.where(came < wanted, high, middle)
    return np.asarray(np.exp(high))
