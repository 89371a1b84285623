"""Robust aggregators that look at whole updates: Krum, the geometric median, and clipping that learns its bound.

All keep the updates of the round, and work on them in blocks or one at a time: beyond the updates themselves they need
a few vectors and a matrix of n x n numbers for n updates. Lengths and distances are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from enlist._internal.typing import FloatArray
from enlist.training import aggregators
from enlist.training.aggregators import Collected, Trimmed, Weights, length, shrinking, weighted_mean

CLOSE = 1e-6
"""Weiszfeld's algorithm ends when a step is shorter than this share of the mean distance to the updates."""


class Closest(Collected):
    """Krum: the update whose nearest neighbours are nearest; or the mean of the n - f best ones (multi-Krum).

    s(i) = sum of |u_i - u_j|² over the n - f - 2 nearest u_j, with f = share * n, rounded down.

    Blanchard, El Mhamdi, Guerraoui, Stainer: Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent,
    NeurIPS 2017. Updates weigh the same, except for discounts in the mean; the earlier one wins a tie of scores.

    >>> closest = Closest(1, share=0.25, single=True)
    >>> for value in (0.0, 1.0, 1.5, 100.0):
    ...     closest.add(torch.tensor([value]), 1.0)
    >>> closest.scores()  # one neighbour each: n - f - 2 = 1
    array([1.00000e+00, 2.50000e-01, 2.50000e-01, 9.70225e+03])
    >>> closest.result()
    tensor([1.])
    """

    def __init__(self, parameters: int, share: float, single: bool) -> None:
        super().__init__(parameters)
        self.share, self.single = share, single

    @property
    def hostile(self) -> int:
        """How many of the updates may be hostile: f."""
        return math.floor(self.share * len(self.updates) + 1e-9)

    def scores(self) -> FloatArray:
        """The score of every update, (n,)."""
        squares = squared_distances(self.updates)
        np.fill_diagonal(squares, np.inf)
        count = len(squares)
        nearest = max(1, min(count - self.hostile - 2, count - 1))
        return np.asarray(np.sort(squares, axis=1)[:, :nearest].sum(axis=1))

    def result(self) -> Tensor | None:
        """The best update, or the mean of the best."""
        if not self.updates:
            return None
        if len(self.updates) == 1:
            return self.updates[0].clone()
        ranked = np.argsort(self.scores(), kind="stable").tolist()
        best = sorted(ranked[: 1 if self.single else max(1, len(ranked) - self.hostile)])
        return weighted_mean([self.updates[index] for index in best], [self.discounts[index] for index in best])


class Weiszfeld(Collected):
    """The geometric median by Weiszfeld's algorithm, smoothed.

    z <- sum b_i u_i / sum b_i,  b_i = p_i / max(ν, |z - u_i|).

    Pillutla, Kakade, Harchaoui: Robust Aggregation for Federated Learning, IEEE Transactions on Signal Processing 2022.
    Differs from the paper: it does not begin at the mean, which a single update can move anywhere, but at the mean of
    the updates shortened around the median of every coordinate, and it ends early once it no longer moves.

    >>> median = Weiszfeld(1, "uniform", iterations=100, smoothing=1e-6)
    >>> for value in (1.0, 2.0, 1000.0):
    ...     median.add(torch.tensor([value]), 1.0)
    >>> round(median.result().item(), 4)
    2.0
    """

    def __init__(self, parameters: int, weights: Weights, iterations: int, smoothing: float) -> None:
        super().__init__(parameters)
        self.weights, self.iterations, self.smoothing = weights, iterations, smoothing

    def result(self) -> Tensor | None:
        """The geometric median so far."""
        parts = self.shares(self.weights)
        if not sum(parts):
            return None
        point = self._start(parts)
        for _ in range(self.iterations):
            far = self.distances(point)
            after = weighted_mean(
                self.updates, [part / max(self.smoothing, gap) for part, gap in zip(parts, far, strict=True)]
            )
            step, point = length(after - point), after
            if step <= CLOSE * float(np.median(far)):
                break
        return point

    def _start(self, parts: Sequence[float]) -> Tensor:
        """Not the median itself: that may be one of the updates, and Weiszfeld's algorithm leaves those only slowly."""
        medians = Trimmed(self.parameters, 0.5)
        medians.updates = self.updates
        middle = medians.result()
        assert middle is not None
        far = self.distances(middle)
        usual = float(np.median(far))
        factors = [part * shrinking(gap, usual) for part, gap in zip(parts, far, strict=True)]
        mean = weighted_mean(self.updates, factors, sum(parts))
        return mean.add_(middle, alpha=1.0 - sum(factors) / sum(parts))


class QuantileClipped(Collected):
    """Weighted mean of updates, longer ones scaled down to a bound C that follows a quantile over the rounds.

    C <- C exp(-rate (b - quantile)),  b the share of the round's updates that are no longer than C.

    Andrew, Thakkar, McMahan, Ramaswamy: Differentially Private Learning with Adaptive Clipping, NeurIPS 2021, without
    the noise. Differs from the paper: C begins as the quantile of the first round, not as 0.1.

    >>> memory = {"bound": torch.tensor(4.0, dtype=torch.float64)}
    >>> clipped = QuantileClipped(1, "uniform", quantile=0.5, rate=0.2, memory=memory)
    >>> for value in (1.0, 3.0, 1000.0, 2.0):
    ...     clipped.add(torch.tensor([value]), 1.0)
    >>> clipped.result()  # (1 + 3 + 4 + 2) / 4
    tensor([2.5000])
    >>> clipped.remember(clipped.result())
    >>> memory["bound"]  # 4 exp(-0.2 (0.75 - 0.5))
    tensor(3.8049, dtype=torch.float64)
    """

    def __init__(
        self, parameters: int, weights: Weights, quantile: float, rate: float, memory: Mapping[str, Tensor]
    ) -> None:
        super().__init__(parameters)
        self.weights, self.quantile, self.rate, self.memory = weights, quantile, rate, memory

    def lengths(self) -> list[float]:
        """What is compared with the bound."""
        return [length(update) for update in self.updates]

    def bound(self, lengths: Sequence[float]) -> float:
        """The bound of this round."""
        return float(self.memory["bound"]) or float(np.quantile(lengths, self.quantile, method="lower"))

    def result(self) -> Tensor | None:
        """The mean so far."""
        parts = self.shares(self.weights)
        if not sum(parts):
            return None
        lengths = self.lengths()
        bound = self.bound(lengths)
        factors = [part * shrinking(given, bound) for part, given in zip(parts, lengths, strict=True)]
        return weighted_mean(self.updates, factors, sum(parts))

    def remember(self, result: Tensor) -> None:
        """Let the bound follow the lengths of this round."""
        lengths = self.lengths()
        bound = self.bound(lengths)
        within = float(np.mean([given <= bound for given in lengths]))
        known = float(self.memory["bound"])
        self.memory["bound"].fill_(bound * math.exp(-self.rate * (within - self.quantile)) if known else bound)


class CentredClipping(QuantileClipped):
    """v <- v + sum p_i (u_i - v) min(1, τ / |u_i - v|) / sum p_i, several times, starting from the last aggregate.

    Karimireddy, He, Jaggi: Learning from History for Byzantine Robust Optimization, ICML 2021. Differs from the paper:
    updates of whole rounds take the place of gradients with momentum, and the radius τ follows a quantile of the
    distances |u_i - v| to the last aggregate, because updates shrink as the model learns.

    >>> memory = {"centre": torch.tensor([1.0]), "bound": torch.tensor(2.0, dtype=torch.float64)}
    >>> clipping = CentredClipping(1, "uniform", iterations=1, quantile=0.5, rate=0.2, memory=memory)
    >>> for value in (2.0, 1000.0):
    ...     clipping.add(torch.tensor([value]), 1.0)
    >>> clipping.result()  # 1 + (1 + 2) / 2
    tensor([2.5000])
    """

    def __init__(
        self,
        parameters: int,
        weights: Weights,
        iterations: int,
        quantile: float,
        rate: float,
        memory: Mapping[str, Tensor],
    ) -> None:
        super().__init__(parameters, weights, quantile, rate, memory)
        self.iterations = iterations

    def lengths(self) -> list[float]:
        """Distances from the last aggregate."""
        return self.distances(self.memory["centre"])

    def result(self) -> Tensor | None:
        """The aggregate so far."""
        parts = self.shares(self.weights)
        if not sum(parts):
            return None
        far = self.lengths()
        radius = self.bound(far)
        centre = self.memory["centre"]
        for _ in range(self.iterations):
            factors = [part * shrinking(gap, radius) for part, gap in zip(parts, far, strict=True)]
            moved = weighted_mean(self.updates, factors, sum(parts))
            centre = moved.add_(centre, alpha=1.0 - sum(factors) / sum(parts))  # sum f (u - v) / P + v
            far = self.distances(centre)
        return centre

    def remember(self, result: Tensor) -> None:
        """Let the radius follow, and keep the aggregate."""
        super().remember(result)
        self.memory["centre"].copy_(result)


def squared_distances(updates: Sequence[Tensor]) -> FloatArray:
    """|u_i - u_j|² of all pairs, (n, n), in blocks of coordinates.

    >>> squared_distances([torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0])])
    array([[ 0., 25.],
           [25.,  0.]])
    """
    count, size = len(updates), len(updates[0])
    products = np.zeros((count, count))
    width = max(1, aggregators.BLOCK // count)
    for start in range(0, size, width):
        part = torch.stack([update[start : start + width] for update in updates]).double()
        products += (part @ part.T).numpy()
    own = products.diagonal()
    return np.maximum(own[:, None] + own[None, :] - 2.0 * products, 0.0)
