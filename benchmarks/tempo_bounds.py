"""Tempo with another estimate of late clients, tried and not taken:

    enlist ladder --selectors benchmarks.tempo_bounds:SoftBounds,tempo --rungs deadline,refl --seeds 5 --alone

When a client is late, all that is seen is a bound: its latency is longer than the time waited. Tempo counts it as one
reply, of the length that is expected beyond the bound. That is too sure of itself: ten bounds say less than ten
latencies. Here a bound narrows the belief about a client by what it really tells (assumed-density filtering): for a
mean m ~ N(mu, V) and ln latency = m + noise, noise ~ N(0, W), with s^2 = V + W, z = (bound - mu) / s and the hazard
h = phi(z) / Phi(-z) of a standard normal,

    mu <- mu + V h / s,        V <- V (1 - V h (h - z) / s^2)

Its sets lose less to a genie's, and models take longer to learn: see docs/tempo.md.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import LogLatency
from enlist.bandits.lognormal import SHORTEST, beyond
from enlist.records import Outcome
from enlist.rounds import Observation
from enlist.selectors import Tempo
from enlist.selectors.tempo import TempoState

TRIED = (
    "“soft bounds” is an estimate that learns less from ten lower bounds than from ten latencies "
    "(benchmarks/tempo_bounds.py). Its sets are closer to the best ones, but a run with an end takes longer. On the "
    "rungs deadline "
    "and refl, the two on which clients are late, it is 0.93 [0.80, 1.09] times as fast as tempo with five development "
    "seeds (`enlist ladder --selectors benchmarks.tempo_bounds:SoftBounds,tempo --rungs deadline,refl --seeds 5 "
    "--alone`). Being too certain that a late client is slow costs regret in an endless run, but saves rounds in a "
    "run with an end. So tempo keeps its own estimate."
)
"""What the page says of it: numbers of that command."""
LEAST = 1e-9
"""A bound that is worth fewer replies than this tells nothing."""


class BoundedLatency(LogLatency):
    """Latencies of which a bound tells what a bound tells."""

    def learn(self, rows: FloatArray, told: Observation) -> FloatArray:
        """Replies as ever; bounds are credited with nothing, so that a true latency that comes later is a reply."""
        latency = np.log(np.maximum(told.column("latency"), SHORTEST))
        late = (told.outcome == Outcome.LATE) & ~np.isnan(latency)
        seen = np.where(told.completed, latency, np.nan)
        self.observe(rows, told.clients, seen)
        if late.any():
            self.outlast(rows[late], told.clients[late], latency[late])
        return seen

    def outlast(self, rows: FloatArray, clients: IntArray, bound: FloatArray) -> None:
        """Take in that ln latencies are above a bound."""
        if self.centre is None:
            self.centre = float(np.median(bound))
        known = self.weight[clients] > 0.0
        changed = self._changed(clients, beyond(bound, *self.predict(rows, clients)), known) & known
        self.weight[clients[changed]] = 0.0
        told, prior = self.centre + rows @ self.model.theta, self.within / self.between
        mean, deviation = self.predict(rows, clients)
        variance = deviation**2 - self.within
        above = (bound - mean) / deviation
        hazard = np.exp(-0.5 * above**2 - 0.5 * math.log(2.0 * math.pi) - log_ndtr(-above))
        mean = mean + variance / deviation * hazard
        variance = variance * (1.0 - variance / deviation**2 * hazard * (hazard - above))
        weight = np.minimum(self.within / variance - prior, self.memory + 1.0)
        told_something = weight - self.weight[clients] > LEAST
        clients, weight = clients[told_something], weight[told_something]
        self.mean[clients] = ((prior + weight) * mean[told_something] - prior * told[told_something]) / weight
        self.weight[clients] = weight


class SoftBounds(Tempo):
    """Tempo on latencies of which a bound tells what a bound tells."""

    def initial_state(self) -> TempoState:
        state = super().initial_state()
        state.latency = BoundedLatency.of(self.clients)
        return state
