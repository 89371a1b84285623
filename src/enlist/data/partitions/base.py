"""What partitions share: the base class, labels (or bins of targets), sizes by weight, Dirichlet draws."""

from __future__ import annotations

import abc

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.options import Options
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.data.dataset import Samples
from enlist.data.partitions.shards import Shards
from enlist.errors import InputError
from enlist.streams import Streams

BINS = 10
"""Quantile bins that stand in for classes in a regression."""


class Partition(Options, abc.ABC):
    """Base of the ways to split samples over clients; `kind` tells them apart.

    >>> from enlist.data.partitions import PARTITIONS
    >>> sorted(PARTITIONS)
    ['dirichlet', 'dirichlet-lognormal', 'iid', 'lognormal', 'natural', 'power-law', 'shards']
    """

    @abc.abstractmethod
    def split(self, samples: Samples, classes: int, clients: int, streams: Streams) -> Shards:
        """Who holds what: one client holds each sample, unless the class says that no client may.

        classes    number of classes; 0 for a regression, where 10 quantile bins of the targets replace classes
        clients    number of clients, each of which gets at least one sample
        """


def label_bins(y: AnyArray, classes: int) -> tuple[IntArray, int]:
    """Labels and how many there can be; in a regression (classes == 0) the quantile bin of each target, 10 bins.

    Equal targets share a bin, so with many ties some bins are empty.

    >>> label_bins(np.array([2, 0, 1]), classes=3)
    (array([2, 0, 1]), 3)
    >>> label_bins(np.arange(20.0), classes=0)
    (array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]), 10)
    """
    if checks.whole("classes", classes, minimum=0) == 0:
        targets = np.asarray(y, dtype=float)
        if not len(targets):
            return np.zeros(0, dtype=np.int64), BINS
        edges = np.quantile(targets, np.arange(1, BINS) / BINS)
        return np.searchsorted(edges, targets, side="right").astype(np.int64), BINS
    labels = np.asarray(y)
    if labels.dtype.kind not in "iu":
        raise InputError(f"the labels are {labels.dtype}; give whole numbers, or classes=0 for a regression.")
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        span = f"{labels.min()} to {labels.max()}"
        raise InputError(f"the labels go from {span}; with {classes} classes allowed are 0 to {classes - 1}.")
    return labels.astype(np.int64, copy=False), classes


def check_room(partition: str, samples: int, clients: int, least: int, setting: str) -> None:
    """Refuse a split that cannot give every client `least` samples; `setting` is what requires them.

    >>> check_room("dirichlet", samples=100, clients=30, least=4, setting="min_size")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: partition 'dirichlet' cannot give 30 clients 4 samples each (min_size): there are 100. ...
    """
    checks.whole("clients", clients, minimum=1)
    if clients * least > samples:
        advice = "" if least == 1 else f", or a smaller {setting}"
        raise InputError(
            f"partition '{partition}' cannot give {clients} clients {least} samples each ({setting}): there are "
            f"{samples}. Use at most {samples // least} clients{advice}."
        )


def sizes_by_weight(log_weights: FloatArray, total: int, least: int) -> IntArray:
    """Whole sizes that sum to `total`, in proportion to the weights but nowhere below `least`.

    s_i = max(least, c * w_i) with the one c for which they sum to `total`; rounded down, and the remainder goes to the
    largest fractions. So clients above the floor keep their proportions.

    >>> sizes_by_weight(np.log([0.0625, 0.0625, 1.0, 2.0]), total=40, least=5)
    array([ 5,  5, 10, 20])
    """
    weights = np.exp(log_weights - log_weights.max())
    count = len(weights)
    rising = np.sort(weights)
    lifted = np.arange(count)
    scales = (total - lifted * least) / np.cumsum(rising[::-1])[::-1]
    fits = scales * rising >= least
    # The largest alone always fits; rounding of the division may deny it.
    scale = scales[int(fits.argmax()) if fits.any() else count - 1]
    ideal = np.maximum(weights * scale, least)
    sizes: IntArray = np.floor(ideal).astype(np.int64)
    sizes[np.argsort(sizes - ideal, kind="stable")[: total - int(sizes.sum())]] += 1
    return sizes


def owners_by_size(sizes: IntArray, rng: np.random.Generator) -> IntArray:
    """The owner of each sample if clients draw their `sizes` from all samples, well shuffled.

    >>> np.bincount(owners_by_size(np.array([3, 1]), np.random.default_rng(0)))
    array([3, 1])
    """
    owners = np.repeat(np.arange(len(sizes)), sizes)
    return rng.permutation(owners)


def log_gamma_draws(alpha: ArrayLike, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Logarithms of Gamma(alpha, 1) draws; normalised by `shares` they are a Dirichlet draw.

    G(alpha) = G(alpha + 1) * U^(1/alpha) (Marsaglia & Tsang 2000, section 6). Without the logarithm all draws of a
    small alpha are 0 in double precision, and their shares are NaN.

    >>> bool(np.isfinite(log_gamma_draws(1e-4, (1000,), np.random.default_rng(0))).all())
    True
    """
    alpha = np.asarray(alpha, dtype=float)
    return np.asarray(np.log(rng.standard_gamma(alpha + 1.0, shape)) - rng.standard_exponential(shape) / alpha)


def shares(log_weights: FloatArray) -> FloatArray:
    """Weights, given by their logarithms, as shares that sum to 1 along the last axis.

    >>> shares(np.log([[1.0, 3.0], [2.0, 2.0]]))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
