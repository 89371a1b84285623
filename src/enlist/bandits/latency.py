"""Mean latency of each client, from replies that may be late, cut off or lost."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist.bandits.estimates import Estimates
from enlist.rounds import Told
from enlist.typing import FloatArray


@dataclasses.dataclass
class MeanLatency(Estimates):
    """Mean of the latencies as they are scored: the deadline for whoever missed it.

    A client cut off because enough others had replied was at least that slow: it cannot become faster by it, and is
    not scored as if it had needed the whole deadline.

    >>> from enlist.records import Feedback, Selection
    >>> latency = MeanLatency.create(3)
    >>> picked = Selection(1, np.array([0, 2]), deadline=10.0)
    >>> replies = Feedback(outcome=[0, 1], latency=[2.0, 4.0], censored=[False, True]).resolved(picked)
    >>> latency.learn(Told(picked, replies))
    array([2., 4.])
    """

    def learn(self, told: Told) -> FloatArray:
        """Take in the latencies of told clients; returns what was credited, for `amend`."""
        latency = told.latency
        seen = self.count[told.clients] > 0
        slower = np.maximum(latency, self.mean[told.clients])
        latency = np.where(told.cut_off & seen, slower, latency)
        known = ~np.isnan(latency)
        self.update(told.clients[known], latency[known])
        return latency

    def amend(self, told: Told) -> None:
        """Put the true latencies of late clients in the place of what was credited."""
        assert told.credited is not None
        latency = told.latency
        known = ~np.isnan(told.credited) & ~np.isnan(latency)
        self.revise(told.clients[known], told.credited[known], latency[known])
