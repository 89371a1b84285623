"""Gaussian-process posteriors over clients whose inputs are fixed.

Because every input is known up front, the posterior over all clients is a mean and a covariance that each batch of
observations updates in one step (the Kalman form): exact, at a cost that does not depend on earlier observations.
Above a few thousand clients the same update runs in a feature space (Nystrom).

Utilities drift while a model trains. Each round may therefore forget a share q:
covariance <- (1-q) covariance + q prior, mean <- sqrt(1-q) mean, which leaves an unobserved client at the prior.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy  # scipy.linalg is loaded when it is used

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.state import State

ROWS_AT_ONCE = 65_536


def rbf(left: FloatArray, right: FloatArray, length: float) -> FloatArray:
    """Squared-exponential kernel exp(-|x - y|^2 / (2 length^2)).

    >>> rbf(np.array([[0.0], [1.0]]), np.array([[0.0]]), 1.0).round(4)
    array([[1.    ],
           [0.6065]])
    """
    distance = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2.0 * left @ right.T
    return np.asarray(np.exp(np.maximum(distance, 0.0) / (-2.0 * length**2)))


def median_distance(inputs: FloatArray, rng: np.random.Generator, pairs: int = 4096) -> float:
    """Median distance between random pairs of rows: the usual length scale.

    >>> median_distance(np.array([[0.0], [2.0]]), np.random.default_rng(0))
    2.0
    """
    left, right = rng.integers(len(inputs), size=(2, pairs))
    distance = np.linalg.norm(inputs[left] - inputs[right], axis=1)
    distance = distance[distance > 0]
    return float(np.median(distance)) if len(distance) else 1.0


@dataclasses.dataclass
class ExactGP(State):
    """Exact posterior over all clients: O(n^2 b) per batch of b observations, 8 n^2 bytes.

    What is kept is the mean and the *reduction*: prior covariance minus posterior covariance. Forgetting then only
    scales it, and the prior matrix itself is never stored.

    >>> gp = ExactGP.of(np.array([[0.0], [1.0], [9.0]]), length=1.0, noise=0.1)
    >>> gp.update(np.array([0]), np.array([1.0]))
    >>> mean, deviation = gp.predict()
    >>> mean.round(3), deviation.round(3)
    (array([0.909, 0.551, 0.   ]), array([0.302, 0.816, 1.   ]))
    """

    inputs: AnyArray
    mean: AnyArray
    reduction: AnyArray
    length: float
    noise: float
    scale: float = 1.0

    @classmethod
    def of(cls, inputs: FloatArray, length: float, noise: float) -> ExactGP:
        """The prior over clients at the rows of `inputs`."""
        count = len(inputs)
        return cls(inputs, np.zeros(count), np.zeros((count, count)), length, noise)

    def update(self, clients: IntArray, values: FloatArray, noise: FloatArray | None = None) -> None:
        """Add one value for each of the distinct `clients`, with its own noise if given."""
        rows = rbf(self.inputs[clients], self.inputs, self.length) - self.scale * self.reduction[clients]
        block = rows[:, clients] + np.diag(np.full(len(clients), self.noise) if noise is None else noise)
        gain = scipy.linalg.cho_solve(scipy.linalg.cho_factor(block), rows)
        self.mean = self.mean + gain.T @ (values - self.mean[clients])
        self.reduction += (gain.T / self.scale) @ rows

    def forget(self, share: float) -> None:
        """Drift by `share` towards the prior."""
        self.mean = self.mean * math.sqrt(1.0 - share)
        self.scale *= 1.0 - share
        if self.scale < 1e-6:
            self.reduction *= self.scale
            self.scale = 1.0

    def predict(self) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and deviation of every client."""
        variance = 1.0 - self.scale * self.reduction.diagonal()
        return self.mean, np.sqrt(np.maximum(variance, 1e-12))

    def extend(self, inputs: FloatArray) -> None:
        """Append clients: beliefs about them follow from beliefs about the others."""
        prior = rbf(self.inputs, self.inputs, self.length) + 1e-8 * np.eye(len(self.inputs))
        weights = scipy.linalg.cho_solve(scipy.linalg.cho_factor(prior), rbf(self.inputs, inputs, self.length))
        side = self.reduction @ weights
        corner = weights.T @ side
        self.reduction = np.block([[self.reduction, side], [side.T, corner]])
        self.mean = np.concatenate([self.mean, weights.T @ self.mean])
        self.inputs = np.concatenate([self.inputs, inputs])

    def grow(self, more: int) -> None:
        """Joining needs the new inputs: use `extend`."""

    def keep(self, positions: IntArray) -> None:
        self.inputs, self.mean = self.inputs[positions], self.mean[positions]
        self.reduction = self.reduction[np.ix_(positions, positions)]


def feature_count(clients: int) -> int:
    """How many Nystrom features a population of this size gets: the power of two that keeps a round affordable.

    >>> feature_count(10_000), feature_count(100_000), feature_count(1_000_000)
    (256, 128, 64)
    """
    affordable = math.sqrt(5.0e9 / clients)
    return int(2 ** np.clip(math.floor(math.log2(affordable)), 5, 8))


@dataclasses.dataclass
class FeatureGP(State):
    """Posterior in a Nystrom feature space of M landmarks: O(n M^2) per round, 4 n M bytes.

    The part of the prior variance that the features miss is kept as independent noise (FITC), so deviations of
    clients far from every landmark stay honest.

    >>> gp = FeatureGP.of(np.array([[0.0], [1.0], [9.0]]), 1.0, 0.1, 3, np.random.default_rng(0))
    >>> gp.update(np.array([0]), np.array([1.0]))
    >>> mean, deviation = gp.predict()
    >>> mean.round(3) + 0.0, deviation.round(3)
    (array([0.909, 0.551, 0.   ]), array([0.302, 0.816, 1.   ]))
    """

    landmarks: AnyArray
    projection: AnyArray
    features: AnyArray
    weights: AnyArray
    reduction: AnyArray
    length: float
    noise: float

    @classmethod
    def of(cls, inputs: FloatArray, length: float, noise: float, count: int, rng: np.random.Generator) -> FeatureGP:
        """The prior over clients at the rows of `inputs`, with `count` landmarks spread over them."""
        landmarks = spread_out(inputs, count, rng)
        values, vectors = scipy.linalg.eigh(rbf(landmarks, landmarks, length))
        projection = vectors / np.sqrt(np.maximum(values, 1e-6))
        size = len(landmarks)
        gp = cls(
            landmarks,
            projection,
            np.zeros((0, size), np.float32),
            np.zeros(size),
            np.zeros((size, size)),
            length,
            noise,
        )
        gp.extend(inputs)
        return gp

    def update(self, clients: IntArray, values: FloatArray, noise: FloatArray | None = None) -> None:
        """Add one value for each of the distinct `clients`, with its own noise if given."""
        features = self.features[clients].astype(float)
        rows = features - features @ self.reduction
        missed = np.maximum(1.0 - (features**2).sum(1), 0.0)
        blur = missed + (self.noise if noise is None else noise)
        if len(clients) > len(self.weights):
            self._update_many(features, values, blur)
            return
        block = rows @ features.T + np.diag(blur)
        gain = scipy.linalg.cho_solve(scipy.linalg.cho_factor(block), rows)
        self.weights = self.weights + gain.T @ (values - features @ self.weights)
        self.reduction = self.reduction + gain.T @ rows

    def _update_many(self, features: FloatArray, values: FloatArray, blur: FloatArray) -> None:
        """The same in information form, for more observations than features."""
        identity = np.eye(len(self.weights))
        before = scipy.linalg.cho_solve(scipy.linalg.cho_factor(identity - self.reduction), identity)
        covariance = scipy.linalg.cho_solve(scipy.linalg.cho_factor(before + (features.T / blur) @ features), identity)
        self.weights = covariance @ (before @ self.weights + features.T @ (values / blur))
        self.reduction = identity - covariance

    def forget(self, share: float) -> None:
        """Drift by `share` towards the prior."""
        self.weights = self.weights * math.sqrt(1.0 - share)
        self.reduction = self.reduction * (1.0 - share)

    def predict(self) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and deviation of every client."""
        count = len(self.features)
        mean, variance = np.empty(count), np.empty(count)
        reduction, weights = self.reduction.astype(np.float32), self.weights.astype(np.float32)
        for start in range(0, count, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            features = self.features[part]
            mean[part] = features @ weights
            variance[part] = 1.0 - np.einsum("ij,ij->i", features @ reduction, features)
        return mean, np.sqrt(np.maximum(variance, 1e-12))

    def extend(self, inputs: FloatArray) -> None:
        """Append clients at the rows of `inputs`."""
        rows = [self.features]
        for start in range(0, len(inputs), ROWS_AT_ONCE):
            kernel = rbf(inputs[start : start + ROWS_AT_ONCE], self.landmarks, self.length)
            rows.append((kernel @ self.projection).astype(np.float32))
        self.features = np.concatenate(rows)

    def grow(self, more: int) -> None:
        """Joining needs the new inputs: use `extend`."""

    def keep(self, positions: IntArray) -> None:
        self.features = self.features[positions]


def best_length(inputs: FloatArray, values: FloatArray, noise: FloatArray, length: float) -> float:
    """The length, among half, equal to and twice the present one, with the largest marginal likelihood (ML-II).

    >>> inputs = np.linspace(0.0, 6.0, 40)[:, None]
    >>> best_length(inputs, np.sin(inputs[:, 0]), np.full(40, 0.01), 0.7)
    1.4
    """

    def evidence(candidate: float) -> float:
        factor = scipy.linalg.cho_factor(rbf(inputs, inputs, candidate) + np.diag(noise), lower=True)
        return float(-0.5 * values @ scipy.linalg.cho_solve(factor, values) - np.log(np.diag(factor[0])).sum())

    return max((length, 0.5 * length, 2.0 * length), key=evidence)


def spread_out(inputs: FloatArray, count: int, rng: np.random.Generator, pool: int = 4096) -> FloatArray:
    """`count` rows that lie far apart: greedy farthest points in a random pool.

    >>> spread_out(np.array([[0.0], [0.1], [5.0]]), 2, np.random.default_rng(0)).tolist()
    [[0.1], [5.0]]
    """
    candidates = inputs[rng.choice(len(inputs), min(pool, len(inputs)), replace=False)]
    count = min(count, len(candidates))
    chosen = [int(np.argmin(((candidates - candidates.mean(0)) ** 2).sum(1)))]
    distance = ((candidates - candidates[chosen[0]]) ** 2).sum(1)
    for _ in range(count - 1):
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, ((candidates - candidates[chosen[-1]]) ** 2).sum(1))
    return np.asarray(candidates[np.array(chosen)])
