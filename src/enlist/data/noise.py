"""Label noise: wrong labels at a known rate per client, so that data quality can be set rather than guessed."""

from __future__ import annotations

import numpy as np
import pydantic
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.options import Options
from enlist._internal.typing import AnyArray, FloatArray
from enlist.data.partitions.base import label_bins
from enlist.data.partitions.shards import Shards
from enlist.errors import InputError
from enlist.streams import Streams


class LabelNoise(Options):
    """Which clients have wrong labels, and how many: a share of them, each at a rate uniform in [low, high].

    With the same seed a larger share affects the same clients at the same rates, and more.

    >>> LabelNoise(share=0.5, low=0.2, high=0.4).rates(4, Streams(1)).round(3)
    array([0.208, 0.   , 0.   , 0.388])
    """

    share: float = pydantic.Field(0.0, ge=0, le=1, description="Share of the clients that have wrong labels, 0 to 1.")
    low: float = pydantic.Field(0.2, ge=0, le=1, description="Lowest rate of wrong labels of such a client, 0 to 1.")
    high: float = pydantic.Field(0.5, ge=0, le=1, description="Highest rate of wrong labels of such a client, 0 to 1.")

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> LabelNoise:
        if self.low > self.high:
            raise ValueError(f"low = {self.low} is above high = {self.high}; give low <= high, equal for one rate.")
        return self

    def rates(self, clients: int, streams: Streams) -> FloatArray:
        """(N,) rate of wrong labels of every client; round(share * N) of them are affected, the others have 0."""
        checks.whole("clients", clients, minimum=1)
        rng = streams.generator("noise rates")
        affected = rng.permutation(clients)[: int(self.share * clients + 0.5)]
        drawn = rng.uniform(self.low, self.high, clients)
        rates = np.zeros(clients)
        rates[affected] = drawn[affected]
        return rates


def quality(rates: ArrayLike) -> FloatArray:
    """The data quality of every client, 1 - rate: the share of its labels that are correct.

    >>> quality([0.0, 0.25])
    array([1.  , 0.75])
    """
    return 1.0 - np.asarray(rates, dtype=float)


def noisy_labels(y: AnyArray, shards: Shards, rates: ArrayLike, classes: int, streams: Streams) -> AnyArray:
    """A copy of the labels `y` (n,) in which those of each client are wrong at its rate, (N,).

    Of the s samples of a client exactly s * rate, rounded, get a label drawn uniformly from the other classes; with
    the same seed a higher rate spoils the same samples, and more. In a regression (classes == 0) the targets of all
    its samples get Gaussian noise of standard deviation rate * std(y). Samples that no client holds stay as they are.

    >>> y = np.zeros(10, dtype=np.int64)
    >>> shards = Shards(order=np.arange(10), offsets=[0, 4, 10])
    >>> noisy_labels(y, shards, [0.0, 0.5], classes=3, streams=Streams(1))
    array([0, 0, 0, 0, 2, 1, 0, 0, 0, 2])
    """
    wrong = checks.not_negative("noise", "rates", checks.number_column("noise", "rates", rates, len(shards)))
    if wrong.size and wrong.max() > 1:
        raise InputError(f"noise.rates goes up to {wrong.max()}; a rate lies in [0, 1].")
    noisy = np.array(y)
    if len(shards.order) and shards.order.max() >= len(noisy):
        raise InputError(f"the shards hold sample {shards.order.max()}, but there are {len(noisy)} labels; match them.")
    rng = streams.generator("label noise")
    if classes == 0:
        if noisy.dtype.kind != "f":
            raise InputError(f"the targets are {noisy.dtype}; a regression (classes=0) needs floats.")
        spread = float(noisy.std(dtype=float)) if len(noisy) else 0.0
        noise = rng.standard_normal(len(shards.order)) * wrong[shards.owner] * spread
        noisy[shards.order] = noisy[shards.order] + noise
        return noisy
    label_bins(noisy, classes)
    if classes == 1 and wrong.any():
        raise InputError("label noise needs another class to confuse with, but there is 1 class; set the rates to 0.")
    spoiled = np.floor(wrong * shards.sizes + 0.5).astype(np.int64)
    shuffled = rng.permutation(len(shards.order))
    by_client = shuffled[np.argsort(shards.owner[shuffled], kind="stable")]
    place = np.arange(len(by_client)) - shards.offsets[:-1][shards.owner]
    chosen = shards.order[by_client]
    shift = rng.integers(1, max(classes, 2), len(by_client))
    hit = place < spoiled[shards.owner]
    noisy[chosen[hit]] = (noisy[chosen[hit]] + shift[hit]) % classes
    return noisy
