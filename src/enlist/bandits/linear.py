"""Ridge posteriors: one shared linear model (LinUCB), and one small model per client."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy  # scipy.linalg is loaded when it is used

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.bandits.credible import APART, SMALL, absurd
from enlist.state import State

MOST_DEVIATIONS = 1e3
"""Beyond this a standardised feature says nothing: among a million clients, none can lie further from the mean unless
it was left out of it. One such row would outweigh all others in a regression."""


@dataclasses.dataclass
class Ridge(State):
    """Linear regression of a reward on features: H = ridge I + sum x x', b = sum r x, theta = H^-1 b.

    >>> ridge = Ridge.of(2, ridge=1.0)
    >>> ridge.update(np.array([[1.0, 0.0]]), np.array([1.0]))
    >>> mean, width = ridge.predict(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> mean, width
    (array([0.5, 0. ]), array([0.70710678, 1.        ]))
    """

    precision: AnyArray
    moment: AnyArray

    @classmethod
    def of(cls, dimension: int, ridge: float = 1.0) -> Ridge:
        """Nothing observed yet."""
        return cls(precision=ridge * np.eye(dimension), moment=np.zeros(dimension))

    def update(self, features: FloatArray, rewards: FloatArray) -> None:
        """Add one reward per row of `features`, (n, d) and (n,)."""
        self.precision = self.precision + features.T @ features
        self.moment = self.moment + features.T @ rewards

    @property
    def theta(self) -> FloatArray:
        """The coefficients."""
        return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(self.precision), self.moment))

    def predict(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean theta.x and width sqrt(x' H^-1 x) for each row, O(n d^2)."""
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(self.precision), np.eye(len(self.moment)))
        width = np.einsum("ij,ij->i", features @ inverse, features)
        return features @ self.theta, np.sqrt(np.maximum(width, 0.0))


@dataclasses.dataclass
class RidgePerClient(State):
    """One ridge regression per client in few dimensions; the inverses are kept and updated by rank one.

    >>> ridge = RidgePerClient.of(3, dimension=2, ridge=1.0)
    >>> ridge.update(np.array([1]), np.array([[2.0, 0.0]]), np.array([4.0]))
    >>> mean, width = ridge.predict(np.full((3, 2), [1.0, 0.0]))
    >>> mean
    array([0. , 1.6, 0. ])
    """

    inverse: FloatArray
    moment: FloatArray
    ridge: float = 1.0

    @classmethod
    def of(cls, count: int, dimension: int, ridge: float = 1.0) -> RidgePerClient:
        """No client observed yet."""
        state = cls(inverse=np.zeros((0, dimension, dimension)), moment=np.zeros((0, dimension)), ridge=ridge)
        state.grow(count)
        return state

    def grow(self, more: int) -> None:
        dimension = self.moment.shape[1]
        fresh = np.broadcast_to(np.eye(dimension) / self.ridge, (more, dimension, dimension))
        self.inverse = np.concatenate([self.inverse, fresh])
        self.moment = np.concatenate([self.moment, np.zeros((more, dimension))])

    def keep(self, positions: IntArray) -> None:
        self.inverse, self.moment = self.inverse[positions], self.moment[positions]

    def update(self, clients: IntArray, features: FloatArray, rewards: FloatArray) -> None:
        """Add one reward for each of the distinct `clients` (Sherman-Morrison)."""
        inverse = self.inverse[clients]
        gain = np.einsum("nij,nj->ni", inverse, features)
        scale = 1.0 + np.einsum("ni,ni->n", gain, features)
        self.inverse[clients] = inverse - np.einsum("ni,nj->nij", gain, gain) / scale[:, None, None]
        self.moment[clients] += rewards[:, None] * features

    def predict(self, features: FloatArray, clients: IntArray | slice = slice(None)) -> tuple[FloatArray, FloatArray]:
        """Mean and width of each of `clients` at its own row of `features`."""
        gain = np.einsum("nij,nj->ni", self.inverse[clients], features)
        mean = np.einsum("ni,ni->n", gain, self.moment[clients])
        width = np.einsum("ni,ni->n", gain, features)
        return mean, np.sqrt(np.maximum(width, 0.0))


@dataclasses.dataclass
class Standardiser(State):
    """Maps raw feature columns to comparable ones: log where asked, zero mean, unit deviation.

    Fitted once on the first population and kept, so that clients that join later are scaled alike.

    >>> scale = Standardiser.fit(np.array([[1.0], [3.0]]), np.array([False]))
    >>> scale.apply(np.array([[1.0], [5.0]]))
    array([[-1.],
           [ 3.]])
    """

    logarithmic: AnyArray
    centre: AnyArray
    spread: AnyArray

    @classmethod
    def fit(cls, features: FloatArray, logarithmic: np.ndarray) -> Standardiser:
        """Fit to the rows of `features`; columns marked `logarithmic` must not be negative.

        Absurd values (see `bandits.credible`) are left out: one would erase the differences between all others.
        """
        rows = np.where(logarithmic, np.log1p(np.maximum(features, 0.0)), features)
        centre, spread = rows.mean(axis=0), rows.std(axis=0)
        for place in np.flatnonzero(np.abs(features).max(axis=0, initial=0.0) > APART * SMALL):
            kept = rows[~absurd(features[:, place], features[:, place]), place]
            if len(kept) < len(rows):
                centre[place], spread[place] = kept.mean(), kept.std()
        return cls(logarithmic=logarithmic, centre=centre, spread=np.where(spread > 0, spread, 1.0))

    def apply(self, features: FloatArray) -> FloatArray:
        """Standardised rows; absurd values count as the mean. A row does not depend on the other rows."""
        rows = np.where(self.logarithmic, np.log1p(np.maximum(features, 0.0)), features)
        above = rows - self.centre
        deviations = np.asarray(above / self.spread)
        far = np.abs(deviations) > MOST_DEVIATIONS
        far |= self.logarithmic & (above > math.log(APART)) & (rows > math.log1p(APART * SMALL))
        return np.where(far, 0.0, deviations) if far.any() else deviations
