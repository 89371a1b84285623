"""The world of the paper's selection process: clients whose validity and utility are uniform on the unit square."""

from __future__ import annotations

import functools

import numpy as np
from scipy.special import ndtr, ndtri

from enlist._internal.typing import BoolArray, FloatArray
from enlist.arena.worlds import Scenario, Truth, World
from enlist.clients import Clients
from enlist.streams import Streams

DIMENSIONS = 6
DEADLINE = 100.0
SPREAD = 0.5
"""Standard deviation of the logarithm of a client's latency from round to round."""
HALF_WIDTH = 0.1 * np.sqrt(3.0)
"""Of the uniform noise on an observed utility: its standard deviation is 0.1."""
QUANTILES = 128
"""Of the noise, over which mean speeds are taken."""
OBSERVED = 0.22
"""RMS loss times gain of a client whose utility is 1 (see `enlist.arena.play.observed`): FedSUV's `full_utility`."""


class Square(World):
    """`clients` with (validity, utility) uniform on [0, 1]², known by features x = M (v, u) + noise, M fixed, 6 x 2.

    validity   P(latency ≤ deadline), with lognormal latency: deadline · exp(0.5 (z − Φ⁻¹(v))), z ~ N(0, 1)
    utility    its mean; what is observed is uniform around it, with standard deviation 0.1 (less at the edges of
               [0, 1], so that the mean stays where it is)
    noise      standard deviation of what is added to each feature

    FedSUV's utility is RMS loss times gain. What a client reports grows with the root of its utility in both, so
    their product is the utility.

    >>> world = Square(clients=4, rounds=10, seed=1, noise=0.0)
    >>> world.validity.round(2), world.truth(1).validity.round(2)
    (array([0.09, 0.91, 0.62, 0.33]), array([0.09, 0.91, 0.62, 0.33]))
    >>> world.clients().features.shape, int(world.valid(1).sum())
    ((4, 6), 3)
    """

    def __init__(self, clients: int, rounds: int, seed: int, noise: float) -> None:
        super().__init__(Scenario(latency="equal", deadline=DEADLINE), clients, rounds, seed)
        streams = Streams(seed)
        self.validity, self._utility = streams.generator("square").uniform(size=(2, clients))
        self.num_examples = np.ones(clients)
        # The map is the same for every seed; only the clients differ.
        matrix = Streams(0).generator("square map").standard_normal((2, DIMENSIONS))
        pairs = np.column_stack([self.validity, self._utility])
        blur = streams.generator("square noise").standard_normal((clients, DIMENSIONS))
        self._features = pairs @ matrix + noise * blur

    def clients(self) -> Clients:
        """What selectors may know up front."""
        return Clients(num_examples=self.num_examples, features=self._features)

    def _shaped(self, normal: FloatArray) -> FloatArray:
        latency = self.deadline * np.exp(SPREAD * (normal - ndtri(self.validity)))
        return np.asarray(np.maximum(latency, self.shortest))

    def truth(self, round: int) -> Truth:
        """What holds in every round."""
        return self._truth

    @functools.cached_property
    def _truth(self) -> Truth:
        mean = self.deadline * np.exp(SPREAD**2 / 2 - SPREAD * ndtri(self.validity))
        speed = np.zeros(self.count)
        for quantile in ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES):
            latency = self._shaped(np.full(self.count, quantile))
            speed += self.shortest / np.minimum(latency, self.deadline) / QUANTILES
        return Truth(mean, mean * np.sqrt(np.expm1(SPREAD**2)), speed, self.validity, self._utility)

    def valid(self, round: int) -> BoolArray:
        """Who would finish in time in this round."""
        return np.asarray(self.latency(round) <= self.deadline)

    def drawn(self, round: int) -> FloatArray:
        """The utility of every client in this round."""
        room = np.minimum(np.minimum(self._utility, 1.0 - self._utility), HALF_WIDTH)
        return np.asarray(self._utility + room * (2.0 * ndtr(self._normal("utility", round)) - 1.0))

    def utility(self, round: int) -> FloatArray:
        """The root of the utilities: what loss and gain of a client are proportional to."""
        return np.sqrt(self.drawn(round))
