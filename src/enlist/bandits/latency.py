"""Latencies as scored, from replies that may be late, cut off or lost."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal.typing import FloatArray
from enlist.bandits.credible import APART, SMALL, credible_extent
from enlist.bandits.estimates import Estimates
from enlist.rounds import Observation


def scored_latency(told: Observation, expected: FloatArray, longest: float) -> FloatArray:
    """Seconds to learn from, NaN where nothing is known.

    A client that missed the deadline counts as the deadline, and one lost without a deadline as the longest latency
    seen. A client cut off because enough others had replied was at least that slow: it counts as its expected latency
    (`expected`, NaN if unknown), but no less than the time waited, and never as if it had needed the whole deadline.

    >>> from enlist.records import Feedback, Selection
    >>> picked = Selection(1, np.array([0, 2]), deadline=10.0)
    >>> replies = Feedback(outcome=[0, 1], latency=[2.0, 4.0], censored=[False, True]).resolved(picked)
    >>> scored_latency(Observation(picked, replies), np.array([np.nan, 7.0]), 9.0)
    array([2., 7.])
    """
    latency = np.where(told.cut_off, np.fmax(told.latency, expected), told.latency)
    return np.where(np.isnan(latency) & ~told.completed, longest if longest > 0 else np.nan, latency)


@dataclasses.dataclass
class MeanLatency(Estimates):
    """Mean of the latencies as scored, and the longest one seen.

    >>> from enlist.records import Feedback, Selection
    >>> latency = MeanLatency.create(3)
    >>> picked = Selection(1, np.array([0, 2]), deadline=10.0)
    >>> replies = Feedback(outcome=[0, 1], latency=[2.0, 4.0], censored=[False, True]).resolved(picked)
    >>> latency.learn(Observation(picked, replies))
    array([2., 4.])
    """

    longest: float = 0.0

    def slowest(self) -> float:
        """The longest latency seen, or, if that is absurd, the longest credible mean."""
        if self.longest <= APART * SMALL:
            return self.longest
        return credible_extent(self.longest, self.mean[self.count > 0])

    def learn(self, told: Observation) -> FloatArray:
        """Add the latencies of told clients; returns what was credited, for `amend`."""
        self.longest = max(self.longest, float(np.nanmax(told.latency, initial=0.0)))
        expected = np.where(self.count[told.clients] > 0, self.mean[told.clients], np.nan)
        latency = scored_latency(told, expected, self.slowest())
        known = ~np.isnan(latency)
        self.update(told.clients[known], latency[known])
        return latency

    def amend(self, told: Observation) -> None:
        """Replace what was credited to late clients with their true latencies."""
        assert told.credited is not None
        latency, new = told.latency, np.isnan(told.credited)
        self.longest = max(self.longest, float(np.nanmax(latency, initial=0.0)))
        known = ~np.isnan(latency)
        self.update(told.clients[new & known], latency[new & known])
        again = ~new & known
        self.revise(told.clients[again], told.credited[again], latency[again])
