"""The validity model that FedSUV and CU-CS share: who will finish in time, by LinUCB on features."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from enlist._internal.typing import FloatArray
from enlist.bandits.linear import Ridge, Standardiser
from enlist.clients import Clients
from enlist.records import Outcome
from enlist.rounds import Observation
from enlist.state import State

LOGARITHMIC = ("flops", "memory", "size", "bandwidth", "examples", "samples", "speed", "cores", "count", "number")
"""Words in a feature's name that mark it as a magnitude or a count, whose logarithm is taken."""


@dataclasses.dataclass
class Validity(State):
    """Probability of finishing in time, linear in standardised features: theta.x +- a |x|_{H^-1}.

    A row x is (z, 1): logarithms of magnitudes and counts, standardised, and an intercept. The ridge is in units of
    observations: 1 is one observation along each axis, of a client one deviation from the mean. The width a =
    1 + sqrt(ln(4/delta)/2) assumes |theta| <= 1. For standardised columns that do not correlate this holds: if a share
    p of the clients is in time, the intercept is p and the slopes have |.|^2 <= p (1 - p), together at most p. Columns
    that say nearly the same with opposite signs can break it, and rows that are divided by something do: theta grows
    by what they are divided by.

    >>> clients = Clients(features=[[1.0], [3.0]], feature_names=["age"])
    >>> validity = Validity.of(clients, ridge=1.0)
    >>> validity.rows(clients.features)
    array([[-1.,  1.],
           [ 1.,  1.]])
    """

    scaler: Standardiser
    model: Ridge
    norm: float = 1.0
    """What rows are divided by: 1, but version 0.1 saved the length of the longest row, and its states still work."""

    @classmethod
    def of(cls, clients: Clients, ridge: float) -> Validity:
        """Nothing observed yet; the scaling is fitted to this population and kept."""
        assert clients.features is not None
        logarithmic = np.array([any(word in name.lower() for word in LOGARITHMIC) for name in clients.feature_names])
        scaler = Standardiser.fit(clients.features, logarithmic)
        return cls(scaler=scaler, model=Ridge.of(len(logarithmic) + 1, ridge))

    def rows(self, features: FloatArray) -> FloatArray:
        """Standardised features and an intercept, one row per client."""
        rows = np.empty((len(features), features.shape[1] + 1))
        rows[:, :-1] = self.scaler.apply(features)
        rows[:, -1] = 1.0
        rows /= self.norm
        return rows

    def interval(self, rows: FloatArray, delta: float) -> tuple[FloatArray, FloatArray]:
        """Centre theta.x and half width a |x|_{H^-1}, a = 1 + sqrt(ln(4/delta)/2), of each row."""
        mean, width = self.model.predict(rows)
        return mean, (1.0 + math.sqrt(math.log(4.0 / delta) / 2.0)) * width

    def learn(self, rows: FloatArray, told: Observation) -> FloatArray:
        """Record who finished by the deadline; for a client cut off early that is unknown, unless it arrives.

        Returns what was credited (NaN: nothing), for `amend`.
        """
        known, valid = ~told.cut_off, in_time(told)
        self.model.update(rows[known], valid[known])
        return np.where(known, valid, np.nan)

    def amend(self, rows: FloatArray, told: Observation) -> None:
        """Late clients have arrived: record those not yet credited, correct the others."""
        assert told.credited is not None
        new, valid = np.isnan(told.credited), in_time(told)
        self.model.update(rows[new], valid[new])
        self.model.moment = self.model.moment + rows[~new].T @ (valid - told.credited)[~new]


def in_time(told: Observation) -> FloatArray:
    """1 for a reply within the deadline, else 0.

    >>> from enlist.records import Feedback, Selection
    >>> selection = Selection(1, np.array([4, 7]), deadline=10.0)
    >>> feedback = Feedback(outcome=[Outcome.COMPLETED, Outcome.DROPPED], latency=[3.0, np.nan])
    >>> in_time(Observation(selection, feedback.resolved(selection)))
    array([1., 0.])
    """
    arrived_in_time = (told.outcome == Outcome.ARRIVED) & (told.column("latency") <= told.selection.deadline)
    return np.asarray((told.outcome == Outcome.COMPLETED) | arrived_in_time, dtype=float)
