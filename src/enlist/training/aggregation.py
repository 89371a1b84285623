"""Aggregation: how the updates of a round become one. Robust kinds withstand a few clients that send anything at all.

A breakdown point is the share of the updates of a round below which hostile clients cannot move the aggregate
arbitrarily far. It is a share of the updates that were received, not of all clients: of ten clients drawn from a
population of which 30 % are hostile, five or more are hostile in one round out of eight.

These are the options; the aggregators themselves are in `aggregators.py` and `robust.py`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Annotated, Literal

import pydantic
import torch
from torch import Tensor

from enlist._internal.options import Options
from enlist.training.aggregators import (
    Aggregator,
    BufferMerge,
    ClippedToMedian,
    RunningMean,
    Trimmed,
    Weights,
    acceptable,
)
from enlist.training.robust import CentredClipping, Closest, QuantileClipped, Weiszfeld


class AggregationOptions(Options, abc.ABC):
    """Options of an aggregation: `start` returns an aggregator for the updates of one round.

    >>> sorted(AggregationOptions.model_fields)
    ['kind']
    """

    kind: str

    def memory(self, parameters: int) -> dict[str, Tensor]:
        """The memory before the first round; empty by default."""
        return {}

    @abc.abstractmethod
    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator for updates with this many parameters; it changes `memory` when the round ends."""


class Mean(AggregationOptions):
    """Weighted mean of the updates: by samples (FedAvg), or all alike. Breakdown point 0: one update decides.

    >>> Mean(weights="uniform").start(2).streaming
    True
    """

    kind: Literal["mean"] = "mean"
    weights: Weights = pydantic.Field("samples", description="What an update weighs: its samples, or all alike.")

    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator."""
        return RunningMean(parameters, self.weights)


class Median(AggregationOptions):
    """Median of every coordinate (Yin et al. 2018); of an even number of updates, the mean of the middle two.

    Breakdown point 1/2.

    >>> aggregator = Median().start(1)
    >>> for value in (1.0, 3.0, 1000.0):
    ...     aggregator.add(torch.tensor([value]), 1.0)
    >>> aggregator.result()
    tensor([3.])
    """

    kind: Literal["median"] = "median"

    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator."""
        return Trimmed(parameters, 0.5)


class TrimmedMean(AggregationOptions):
    """Mean of every coordinate without its smallest and largest values (Yin et al. 2018).

    Breakdown point `share`: with 0.2 of ten updates, three hostile ones are one too many.

    >>> TrimmedMean(share=0.1).start(1).streaming
    False
    """

    kind: Literal["trimmed-mean"] = "trimmed-mean"
    share: float = pydantic.Field(
        0.2, ge=0, lt=0.5, description="Share of the updates left out on either side, rounded down."
    )

    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator."""
        return Trimmed(parameters, self.share)


class ClippedMean(AggregationOptions):
    """Weighted mean; updates that are longer than `norm` (Euclidean length) are scaled down to it.

    One update moves the aggregate by its weight times `norm` at most, or with norm = 0 while more than half are honest.

    >>> ClippedMean(norm=1.0).start(2).streaming, ClippedMean().start(2).streaming
    (True, False)
    """

    kind: Literal["clipped-mean"] = "clipped-mean"
    norm: float = pydantic.Field(0.0, ge=0, description="Longest update; 0 means the median length of the round.")
    weights: Weights = pydantic.Field("samples", description="What an update weighs: its samples, or all alike.")

    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator."""
        return (
            RunningMean(parameters, self.weights, self.norm) if self.norm else ClippedToMedian(parameters, self.weights)
        )


class Krum(AggregationOptions):
    """The update with the nearest neighbours (Blanchard et al. 2017), and no other: robust, but wasteful.

    With n updates, f = share * n of them hostile, an update's score is the sum of the squared distances to its
    n - f - 2 nearest others; the lowest score wins. Holds while 2 f + 2 < n.

    >>> aggregator = Krum().start(1)
    >>> for value in (1.0, 1.2, 1.1, 9.0, -50.0):
    ...     aggregator.add(torch.tensor([value]), 1.0)
    >>> aggregator.result()
    tensor([1.1000])
    """

    kind: Literal["krum"] = "krum"
    share: float = pydantic.Field(0.3, ge=0, lt=0.5, description="Share of the updates that may be hostile.")

    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator."""
        return Closest(parameters, self.share, single=True)


class MultiKrum(AggregationOptions):
    """Mean of the n - f updates with the lowest scores of Krum (Blanchard et al. 2017). Holds while 2 f + 2 < n.

    >>> aggregator = MultiKrum(share=0.4).start(1)
    >>> for value in (1.0, 1.2, 1.1, 9.0, -50.0):
    ...     aggregator.add(torch.tensor([value]), 1.0)
    >>> aggregator.result()
    tensor([1.1000])
    """

    kind: Literal["multi-krum"] = "multi-krum"
    share: float = pydantic.Field(0.3, ge=0, lt=0.5, description="Share of the updates that may be hostile.")

    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator."""
        return Closest(parameters, self.share, single=False)


class GeometricMedian(AggregationOptions):
    """The point with the least sum of distances to the updates (RFA, Pillutla et al. 2022). Breakdown point 1/2.

    >>> aggregator = GeometricMedian().start(2)
    >>> for value in ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1e6, 1e6]):
    ...     aggregator.add(torch.tensor(value), 1.0)
    >>> aggregator.result()  # of four corners, the crossing of the diagonals
    tensor([0.5000, 0.5000])
    """

    kind: Literal["geometric-median"] = "geometric-median"
    weights: Weights = pydantic.Field("uniform", description="What an update weighs: its samples, or all alike.")
    iterations: int = pydantic.Field(30, ge=1, description="Most steps of Weiszfeld's algorithm.")
    smoothing: float = pydantic.Field(1e-6, gt=0, description="Shorter distances count as this one (ν).")

    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator."""
        return Weiszfeld(parameters, self.weights, self.iterations, self.smoothing)


class BoundedMean(AggregationOptions):
    """Weighted mean; longer updates are scaled down to a bound that follows a quantile of lengths from round to round.

    The bound grows or shrinks by exp(-rate * (b - quantile)), b the share of the updates within it (Andrew et al.
    2021); it begins as the quantile of the first round. One round with many hostile clients moves it by little.

    >>> BoundedMean().memory(3)
    {'bound': tensor(0., dtype=torch.float64)}
    """

    kind: Literal["bounded-mean"] = "bounded-mean"
    quantile: float = pydantic.Field(0.5, gt=0, lt=1, description="Share of the updates that the bound leaves alone.")
    rate: float = pydantic.Field(0.2, gt=0, le=2, description="How fast the bound follows.")
    weights: Weights = pydantic.Field("samples", description="What an update weighs: its samples, or all alike.")

    def memory(self, parameters: int) -> dict[str, Tensor]:
        """The bound; 0 before the first round."""
        return {"bound": torch.zeros((), dtype=torch.float64)}

    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator."""
        known = self.memory(parameters) if memory is None else memory
        return QuantileClipped(parameters, self.weights, self.quantile, self.rate, known)


class CentredClip(AggregationOptions):
    """Centred clipping (Karimireddy et al. 2021): v <- v + mean of (u - v), each shortened to the radius, starting from
    the aggregate v of the last round. Breakdown point 1/2, and history exposes a hostile majority in a single round.

    The radius follows a quantile of the distances as the bound of "bounded-mean" does.

    >>> sorted(CentredClip().memory(3))
    ['bound', 'centre']
    """

    kind: Literal["centred-clipping"] = "centred-clipping"
    iterations: int = pydantic.Field(3, ge=1, description="Steps of v in a round.")
    quantile: float = pydantic.Field(0.5, gt=0, lt=1, description="Share of the updates within the radius.")
    rate: float = pydantic.Field(0.2, gt=0, le=2, description="How fast the radius follows.")
    weights: Weights = pydantic.Field("uniform", description="What an update weighs: its samples, or all alike.")

    def memory(self, parameters: int) -> dict[str, Tensor]:
        """The last aggregate, and the radius; 0 before the first round."""
        return {"centre": torch.zeros(parameters), "bound": torch.zeros((), dtype=torch.float64)}

    def start(self, parameters: int, memory: Mapping[str, Tensor] | None = None) -> Aggregator:
        """An empty aggregator."""
        known = self.memory(parameters) if memory is None else memory
        return CentredClipping(parameters, self.weights, self.iterations, self.quantile, self.rate, known)


AnyAggregation = Annotated[
    Mean | Median | TrimmedMean | ClippedMean | BoundedMean | CentredClip | GeometricMedian | Krum | MultiKrum,
    pydantic.Field(discriminator="kind"),
]
"""Type of a field that holds any aggregation's options."""

AGGREGATIONS: dict[str, type[AggregationOptions]] = {
    "mean": Mean,
    "median": Median,
    "trimmed-mean": TrimmedMean,
    "clipped-mean": ClippedMean,
    "bounded-mean": BoundedMean,
    "centred-clipping": CentredClip,
    "geometric-median": GeometricMedian,
    "krum": Krum,
    "multi-krum": MultiKrum,
}
"""Kind in a configuration -> options class."""

__all__ = ["AGGREGATIONS", "AggregationOptions", "Aggregator", "AnyAggregation", "BufferMerge", "acceptable"]
__all__ += ["BoundedMean", "CentredClip", "ClippedMean", "GeometricMedian", "Krum", "Mean", "Median", "MultiKrum"]
__all__ += ["TrimmedMean"]
