"""The oracle: tempo's objective with the truth of a simulation in place of estimates. A ceiling, not a selector.

It knows how long every client would take if it were asked now, whether it would finish, and whose labels are wrong.
Real federations have no such knowledge; on the ladder it shows how much there is left to learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits.lognormal import SHORTEST
from enlist.contract import Choice, Request
from enlist.errors import InputError
from enlist.selectors.tempo import Tempo

if TYPE_CHECKING:
    from enlist.simulation.round.clients import SimulatedClients
    from enlist.simulation.round.state import RunState

SURE = 1e-3
"""Deviation of the logarithm of a latency that never varies."""
WRONG = 1e-9
"""What a client whose labels are mostly wrong is worth, so that it comes after all others."""


class SimulatedTruth:
    """The true state of a simulation's clients at this moment, which a simulation gives to its oracle.

    >>> from enlist.simulation import Config, Simulation
    >>> simulation = Simulation(Config(data={"clients": 4}))
    >>> latency, finishes = SimulatedTruth(simulation.clients, simulation.state).replies(np.arange(4))
    >>> bool((latency > 0).all()), finishes
    (True, array([1., 1., 1., 1.]))
    """

    def __init__(self, clients: SimulatedClients, state: RunState) -> None:
        self.clients, self.state = clients, state

    def replies(self, clients: IntArray) -> tuple[FloatArray, FloatArray]:
        """Seconds that each needs if selected now, without the noise of the round, and the probability that it replies.

        Noise and crashes cannot be known beforehand; when a client goes offline can.
        """
        population, drift, now = self.clients.population, self.clients.drift, self.state.now
        when = (clients, self.state.round, now)
        everybody = population.work[drift.shards(np.arange(len(population)), *when[1:])]
        latency = population.devices.expected(everybody, self.clients.model_bytes).total[clients]
        latency = latency * drift.slowness(*when)
        stays = population.availability.until(clients, now) >= now + latency
        return latency, np.where(stays, 1.0 - self.clients.config.failures.crash, 0.0)

    def noise(self) -> float:
        """Deviation of the logarithm of a latency from round to round, at least `SURE`."""
        devices = self.clients.population.devices
        return max(devices.compute_noise, devices.bandwidth_noise, SURE)

    def right_labels(self, clients: IntArray) -> FloatArray:
        """Share of correct labels among the samples that each holds now."""
        held = self.clients.drift.shards(clients, self.state.round, self.state.now)
        return np.asarray(self.clients.population.quality[held])


@runtime_checkable
class Omniscient(Protocol):
    """A selector with an attribute for the truth, which the simulation sets.

    >>> isinstance(Oracle, Omniscient), isinstance(Tempo, Omniscient)
    (True, False)
    """

    truth: SimulatedTruth | None


class Oracle(Tempo):
    """Tempo that knows how long every client takes, when it goes offline, and whose labels are wrong.

    A client is worth what it is to `tempo`, times 2q - 1, where q is its share of correct labels; nothing if q <= 1/2.

    >>> from enlist.simulation import Config, simulate
    >>> len(simulate(Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}), Oracle).rounds)
    2
    """

    name = "oracle"
    truth: SimulatedTruth | None = None

    def choose(self, request: Request) -> Choice:
        if self.truth is None:
            raise InputError("the oracle only works in simulations; use 'tempo', which learns what the oracle is told.")
        return super().choose(request)

    def forecast(self, request: Request) -> tuple[FloatArray, FloatArray, FloatArray]:
        assert self.truth is not None
        latency, finishes = self.truth.replies(request.available)
        return np.log(np.maximum(latency, SHORTEST)), np.full(len(latency), self.truth.noise()), finishes

    def worth(self, request: Request) -> FloatArray:
        assert self.truth is not None
        right = self.truth.right_labels(request.available)
        return super().worth(request) * np.maximum(2.0 * right - 1.0, WRONG)
