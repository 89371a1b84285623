"""A Gaussian process with covariance  X X^T + noise^2 I,  fitted to a few rounds, and the best clients to observe.

Everything is computed from X alone, one row of a few numbers per client; the covariance of all pairs is never formed.
"""

from __future__ import annotations

import numpy as np

from enlist._internal.typing import AnyArray, FloatArray, IntArray


def fit(values: AnyArray, weights: FloatArray, noise: float, dimension: int) -> FloatArray:
    """The X that makes some rounds of values most likely: probabilistic PCA (Tipping and Bishop 1999), in closed form.

    values    one row per client and a column per round; NaN where nothing is known, which counts as the client's mean
    weights   of the rounds

    >>> values = np.array([[1.0, -1.0], [1.0, -1.0], [0.0, 0.0]])
    >>> found = fit(values, np.ones(2), noise=0.1, dimension=1)
    >>> np.abs(found).round(3)
    array([[0.997],
           [0.997],
           [0.   ]])
    """
    known = ~np.isnan(values)
    total = known @ weights
    filled = np.where(known, values, 0.0).astype(float)
    mean = (filled @ weights) / np.where(total > 0, total, 1.0)
    centred = np.where(known, filled - mean[:, None], 0.0) * np.sqrt(weights / weights.sum())
    # The few rounds, not the many clients: the eigenvectors of one Gram matrix give those of the other.
    spread, rounds = np.linalg.eigh(centred.T @ centred)
    order = np.argsort(-spread)[:dimension]
    spread, rounds = spread[order], rounds[:, order]
    useful = spread > noise**2
    found = np.zeros((len(values), dimension))
    if useful.any():
        scale = np.sqrt((spread[useful] - noise**2) / spread[useful])
        found[:, np.flatnonzero(useful)] = (centred @ rounds[:, useful]) * scale
    return found


def pick(
    embedding: AnyArray, noise: float, weights: FloatArray, discount: FloatArray, available: IntArray, k: int
) -> tuple[IntArray, FloatArray]:
    """One by one, the client with the largest  a_k / sqrt(S_kk) sum_i w_i S_ik,  S conditioned on those before.

    Returns indices into `available` and the scores with which they were chosen. The sum is over all clients not yet
    chosen. Conditioning on k changes S_ij = x_i M x_j + noise^2 [i = j] of all others through M alone:
    M <- M - M x_k x_k^T M / (x_k M x_k + noise^2).

    >>> embedding = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> chosen, score = pick(embedding, 0.1, np.full(3, 1 / 3), np.ones(3), np.arange(3), 2)
    >>> chosen.tolist(), score.round(2).tolist()
    ([0, 2], [1.33, 0.33])
    """
    dimension = embedding.shape[1]
    rows = embedding[available].astype(float)
    share, favour = weights[available], discount[available]
    middle = np.eye(dimension)
    variance = (rows**2).sum(axis=1)
    goal = embedding.T.astype(float) @ weights  # the sum over all clients, before M is applied
    chosen, scores = np.zeros(k, dtype=np.int64), np.zeros(k)
    free = np.ones(len(available), dtype=bool)
    for turn in range(k):
        marginal = np.maximum(variance, 0.0) + noise**2
        score = favour / np.sqrt(marginal) * (rows @ (middle @ goal) + noise**2 * share)
        best = int(np.argmax(np.where(free, score, -np.inf)))
        chosen[turn], scores[turn] = best, score[best]
        free[best] = False
        row = middle @ rows[best]
        variance = variance - (rows @ row) ** 2 / marginal[best]
        middle = middle - np.outer(row, row) / marginal[best]
        goal = goal - share[best] * rows[best]
    return chosen, scores
