"""Aggregators, which collect the updates of a round. Their options are in `enlist.training.aggregation`.

Means are summed in float32, in the order in which updates arrive (the simulator's order is fixed), and divided
once at the end: the same updates give the same bits, at the cost of one vector. A float64 sum would cost two more and
add nothing, as updates themselves are float32. A mean refuses an update that is longer than LONGEST, so that no sum
can overflow; kinds that withstand such an update keep the rest finite, in float64 where that is needed.
"""

from __future__ import annotations

import abc
import math
import statistics
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from enlist.errors import InputError

BLOCK = 2**22
"""Numbers that are sorted at a time: bounds the memory of robust kinds beyond the updates themselves."""

LONGEST = 1e18
"""The longest update that a mean takes: its square and its sum with others, weighed by samples, fit into float32."""

MOST_SAMPLES = 1e12
"""The largest number of samples that counts as the weight of an update."""

Weights = Literal["samples", "uniform"]


class Aggregator(abc.ABC):
    """Collects updates, (parameters,) each; `result` may be called at any time, and more updates added after it.

    >>> aggregator = RunningMean(2, "samples")
    >>> aggregator.result() is None
    True
    >>> aggregator.add(torch.tensor([1.0, 1.0]), 10.0)
    >>> aggregator.add(torch.tensor([4.0, 1.0]), 20.0)
    >>> aggregator.result(), aggregator.streaming
    (tensor([3., 1.]), True)
    """

    streaming = True
    """Whether memory does not grow with the number of updates."""

    def __init__(self, parameters: int) -> None:
        self.parameters = parameters

    def add(self, update: Tensor, samples: float, discount: float = 1.0) -> None:
        """Add one update, which may be overwritten afterwards.

        samples     what it was trained on; its weight, unless all updates have the same weight
        discount    factor relative to other updates, whatever the weights: below 1 for late updates
        """
        if update.shape != (self.parameters,):
            raise InputError(f"an update has shape {tuple(update.shape)}; the model needs ({self.parameters},).")
        for name, value in (("samples", samples), ("discount", discount)):
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} of an update is {value!r}; it must be a finite number of at least 0.")
        self.take(update, float(samples), float(discount))

    def weight(self, samples: float, discount: float = 1.0) -> float | None:
        """The weight of an update in a sum; None if updates must be added one by one."""
        return None

    def add_sum(self, total: Tensor, weight: float) -> None:
        """Add the sum of some updates, each multiplied by its `weight`, and the sum of these weights."""
        raise InputError(f"{type(self).__name__} needs updates one by one; call add for each.")

    @abc.abstractmethod
    def take(self, update: Tensor, samples: float, discount: float) -> None:
        """`add`, after its checks."""

    @abc.abstractmethod
    def result(self) -> Tensor | None:
        """The aggregate, a new vector; None if nothing with a weight was added."""

    def remember(self, result: Tensor) -> None:
        """End the round with this aggregate; kinds that learn from round to round change their memory."""
        return

    def distances(self, result: Tensor) -> list[float]:
        """How far each update lies from the aggregate, in order of arrival; empty if none were kept."""
        return []


class RunningMean(Aggregator):
    """Weighted mean Σ p u / Σ p in one pass; updates longer than `norm` are scaled down to it.

    >>> mean = RunningMean(2, "uniform", norm=5.0)
    >>> mean.add(torch.tensor([6.0, 8.0]), 1.0)  # of length 10
    >>> mean.result()
    tensor([3., 4.])
    """

    def __init__(self, parameters: int, weights: Weights, norm: float = math.inf) -> None:
        super().__init__(parameters)
        self.weights, self.norm = weights, norm
        self.sum, self.total = torch.zeros(parameters), 0.0

    def add(self, update: Tensor, samples: float, discount: float = 1.0) -> None:
        """Add one update; a plain mean refuses an update that would make the sum overflow."""
        if math.isinf(self.norm) and (reason := too_long(update)):
            raise InputError(f"{reason}; leave it out, or use an aggregation that withstands it, such as the median.")
        super().add(update, samples, discount)

    def weight(self, samples: float, discount: float = 1.0) -> float | None:
        """Its samples, or 1 if all count alike."""
        return discount * self._counts(samples) if math.isinf(self.norm) else None

    def add_sum(self, total: Tensor, weight: float) -> None:
        """Add to the sum."""
        self.sum.add_(total)
        self.total += weight

    def take(self, update: Tensor, samples: float, discount: float) -> None:
        """Add to the sum."""
        weight = discount * self._counts(samples)
        factor = 1.0 if math.isinf(self.norm) else shrinking(length(update), self.norm)
        self.sum.add_(update, alpha=weight * factor)
        self.total += weight

    def _counts(self, samples: float) -> float:
        return samples if self.weights == "samples" else 1.0

    def result(self) -> Tensor | None:
        """The mean so far."""
        return self.sum / self.total if self.total else None


class Collected(Aggregator):
    """Keeps a copy of every update, for kinds that need all of them at once."""

    streaming = False

    def __init__(self, parameters: int) -> None:
        super().__init__(parameters)
        self.updates: list[Tensor] = []
        self.samples: list[float] = []
        self.discounts: list[float] = []

    def distances(self, result: Tensor) -> list[float]:
        """Euclidean distances of the updates from the aggregate."""
        return [length(update - result) for update in self.updates]

    def shares(self, weights: Weights) -> list[float]:
        """The weight of each update, including discounts."""
        counts = self.samples if weights == "samples" else [1.0] * len(self.samples)
        return [count * discount for count, discount in zip(counts, self.discounts, strict=True)]

    def take(self, update: Tensor, samples: float, discount: float) -> None:
        """Keep a copy."""
        if discount:
            self.updates.append(update.clone())
            self.samples.append(samples)
            self.discounts.append(discount)


class Trimmed(Collected):
    """In every coordinate, the mean without the smallest and the largest values: `share` of them on either side.

    At least one value is left, or two if their number is even: a share of 0.5 gives the median. Values weigh alike.

    >>> trimmed = Trimmed(1, share=0.25)
    >>> for value in (1.0, 2.0, 6.0, 1000.0):
    ...     trimmed.add(torch.tensor([value]), 1.0)
    >>> trimmed.result()
    tensor([4.])
    """

    def __init__(self, parameters: int, share: float) -> None:
        super().__init__(parameters)
        self.share = share

    def result(self) -> Tensor | None:
        """The trimmed mean so far."""
        count = len(self.updates)
        if not count:
            return None
        cut = min(math.floor(self.share * count + 1e-9), (count - 1) // 2)
        found = torch.empty(self.parameters)
        width = max(1, BLOCK // count)
        for start in range(0, self.parameters, width):
            part = torch.stack([update[start : start + width] for update in self.updates], dim=1)
            part.numpy().sort(axis=1)  # in place; many times faster than PyTorch's
            kept = part[:, cut : count - cut]
            found[start : start + width] = kept.mean(dim=1)
            if not math.isfinite(float(found[start : start + width].sum())):  # finite numbers whose sum is not
                found[start : start + width] = kept.double().mean(dim=1)
        return found


class ClippedToMedian(Collected):
    """Weighted mean of updates, those longer than the median length scaled down to it.

    >>> clipped = ClippedToMedian(1, "uniform")
    >>> for value in (1.0, 2.0, 1000.0):
    ...     clipped.add(torch.tensor([value]), 1.0)
    >>> clipped.result()  # (1 + 2 + 2) / 3
    tensor([1.6667])
    """

    def __init__(self, parameters: int, weights: Weights) -> None:
        super().__init__(parameters)
        self.weights = weights

    def result(self) -> Tensor | None:
        """The mean so far, with the median length so far."""
        if not self.updates:
            return None
        mean = RunningMean(self.parameters, self.weights, statistics.median(map(length, self.updates)))
        for update, samples, discount in zip(self.updates, self.samples, self.discounts, strict=True):
            mean.take(update, samples, discount)
        found = mean.result()
        if found is None or math.isfinite(float(found.sum())):
            return found
        parts = self.shares(self.weights)  # more than half are so long that their sum overflows
        factors = [part * shrinking(length(one), mean.norm) for part, one in zip(parts, self.updates, strict=True)]
        return weighted_mean(self.updates, factors, sum(parts))


class BufferMerge:
    """Buffers of the updates of a round: float buffers (batch-norm statistics) by weighted mean, counters by maximum.

    robust    use the median of every number instead of the mean, for robust aggregations: otherwise a hostile client
              could spoil the model through its buffers

    >>> merge = BufferMerge(buffers=1, counters=1)
    >>> merge.add(torch.tensor([1.0]), torch.tensor([7]), 10.0)
    >>> merge.add(torch.tensor([4.0]), torch.tensor([5]), 20.0)
    >>> buffers, counters = torch.zeros(1), torch.tensor([2])
    >>> merge.into(buffers, counters)
    >>> buffers, counters
    (tensor([3.]), tensor([7]))
    """

    def __init__(self, buffers: int, counters: int, robust: bool = False) -> None:
        self.sum, self.total = torch.zeros(buffers), 0.0
        self.middle = Trimmed(buffers, 0.5) if robust and buffers else None
        self.counters: Tensor | None = None
        self.shapes = (buffers,), (counters,)

    def add(self, buffers: Tensor, counters: Tensor, weight: float) -> None:
        """Add the buffers of one update; a weight of 0 counts for counters only."""
        given = tuple(buffers.shape), tuple(counters.shape)
        if given != self.shapes:
            raise InputError(f"an update has buffers and counters of shapes {given}; the model needs {self.shapes}.")
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(f"the weight of an update is {weight!r}; it must be a finite number of at least 0.")
        if self.middle is not None:
            self.middle.take(buffers, 1.0, weight)
        else:
            self.sum.add_(buffers, alpha=weight)
        self.total += weight
        self.counters = counters.clone() if self.counters is None else torch.maximum(self.counters, counters)

    def add_sum(self, buffers: Tensor, counters: Tensor, weight: float) -> None:
        """Add a sum of buffers times their weights, the largest counters, and the sum of the weights."""
        self.sum.add_(buffers)
        self.total += weight
        self.counters = counters.clone() if self.counters is None else torch.maximum(self.counters, counters)

    def into(self, buffers: Tensor, counters: Tensor) -> None:
        """Overwrite the model's own with the result; if nothing had a weight, float buffers stay as they are."""
        middle = None if self.middle is None else self.middle.result()
        if middle is not None:
            buffers.copy_(middle)
        elif self.total:
            torch.div(self.sum, self.total, out=buffers)
        if self.counters is not None:
            counters.copy_(torch.maximum(counters, self.counters))


def acceptable(update: Tensor, parameters: int) -> str | None:
    """Why an update cannot be used, or None if it can: it needs `parameters` numbers, all of them finite.

    >>> acceptable(torch.zeros(3), 3)
    >>> acceptable(torch.zeros(4), 3)
    'the update has shape (4,); the model needs (3,)'
    >>> acceptable(torch.tensor([0.0, float("nan"), float("inf")]), 3)
    'the update holds 2 of 3 numbers that are not finite (1 of them NaN)'
    """
    if update.shape != (parameters,):
        return f"the update has shape {tuple(update.shape)}; the model needs ({parameters},)"
    if not update.is_floating_point():
        return f"the update holds {update.dtype}; the model needs {torch.float32}"
    if math.isfinite(float(update.sum())):
        return None
    # A sum of finite numbers may overflow, so the slow check decides.
    wrong = parameters - int(torch.isfinite(update).sum())
    if not wrong:
        return None
    unknown = int(update.isnan().sum())
    return f"the update holds {wrong} of {parameters} numbers that are not finite ({unknown} of them NaN)"


def weighted_mean(updates: Sequence[Tensor], factors: Sequence[float], whole: float | None = None) -> Tensor:
    """Sum of updates times factors, divided by `whole`, or by the sum of the factors; no sum overflows.

    >>> weighted_mean([torch.tensor([3e38]), torch.tensor([1e38])], [30.0, 10.0])
    tensor([2.5000e+38])
    """
    total = sum(factors) if whole is None else whole
    mean = torch.zeros_like(updates[0])
    for update, factor in zip(updates, factors, strict=True):
        mean.add_(update, alpha=factor / total)
    return mean


def too_long(update: Tensor) -> str | None:
    """Why an update of finite numbers cannot be summed, or None if it can.

    >>> too_long(torch.tensor([3.0, 4.0]))
    >>> too_long(torch.tensor([3e38, 0.0]))
    'an update is 3e+38 long; a mean takes up to 1e+18, so that no sum overflows'
    """
    if float(torch.dot(update, update)) <= LONGEST**2:  # infinite if squares overflow, and NaN is not smaller
        return None
    most = length(update)
    if most <= LONGEST:
        return None
    return f"an update is {most:.3g} long; a mean takes up to {LONGEST:g}, so that no sum overflows"


def length(update: Tensor) -> float:
    """Euclidean length, in float64, where squares of float32 numbers do not overflow.

    >>> f"{length(torch.tensor([3e30, 4e30])):.4g}"
    '5e+30'
    """
    return float(torch.linalg.vector_norm(update, dtype=torch.float64))


def shrinking(given: float, most: float) -> float:
    """Factor that brings a length down to `most`; 1 if it is no longer than that.

    >>> shrinking(10.0, 5.0), shrinking(1.0, 5.0)
    (0.5, 1.0)
    """
    return most / given if given > most else 1.0
