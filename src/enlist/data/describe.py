"""How skewed a partition is: labels per client, how even and how typical they are, and how unequal the sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from enlist._internal import checks
from enlist._internal.text import printable
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.data.partitions.base import label_bins
from enlist.data.partitions.shards import Shards
from enlist.errors import InputError

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""The quantiles of the sizes in a description."""


def class_counts(y: AnyArray, shards: Shards, classes: int) -> IntArray:
    """(N, C) samples of each class that each client holds; in a regression C = 10 quantile bins of all targets.

    >>> class_counts(np.array([0, 1, 1, 2]), Shards(order=[0, 1, 2], offsets=[0, 1, 3]), classes=3)
    array([[1, 0, 0],
           [0, 2, 0]])
    """
    labels, count = label_bins(y, classes)
    if len(shards.order) and shards.order.max() >= len(labels):
        raise InputError(
            f"the shards hold sample {shards.order.max()}, but there are {len(labels)} labels; match them."
        )
    cells = shards.owner * count + labels[shards.order]
    return np.bincount(cells, minlength=len(shards) * count).reshape(len(shards), count)


def label_entropy(counts: ArrayLike) -> FloatArray:
    """(N,) entropy of each client's labels as a share of its maximum, log C: 0 one class, 1 all equally frequent.

    H_i = -sum_c p_ic log p_ic / log C, with p_ic the share of class c. With one class it is 0; without samples, NaN.

    >>> label_entropy([[5, 5], [10, 0], [0, 0]])
    array([ 1.,  0., nan])
    """
    table, totals = _table(counts)
    most = np.log(table.shape[1]) if table.shape[1] > 1 else 1.0
    entropy = entr(_divided(table, totals[:, None])).sum(axis=1) / most
    # Rounding may leave an even distribution a hair above 1.
    return np.asarray(np.minimum(entropy, 1.0))


def distance(counts: ArrayLike) -> FloatArray:
    """(N,) total variation distance between each client's label distribution p_i and that of all clients together, g.

    d_i = 1/2 sum_c |p_ic - g_c|: the share of its samples that a client would have to swap to look like the whole. 0
    means the same distribution, 1 no class in common. Without samples, NaN.

    >>> distance([[4, 0], [2, 2], [0, 0]])
    array([0.25, 0.25,  nan])
    """
    table, totals = _table(counts)
    whole = table.sum(axis=0) / max(totals.sum(), 1.0)
    return np.asarray(0.5 * np.abs(_divided(table, totals[:, None]) - whole).sum(axis=1))


def gini(sizes: ArrayLike) -> float:
    """The Gini coefficient of the sizes: 0 if all are equal, close to 1 if one client holds everything.

    G = sum_i (2 i - n - 1) x_i / (n sum_i x_i), x in ascending order, i from 1.

    >>> gini([5, 5, 5]), gini([0, 0, 6])
    (0.0, 0.6666666666666666)
    """
    rising = np.sort(np.asarray(sizes, dtype=float))
    total, count = rising.sum(), len(rising)
    if total == 0:
        return 0.0
    return float(((2 * np.arange(1, count + 1) - count - 1) * rising).sum() / (count * total))


@dataclasses.dataclass(frozen=True)
class Description:
    """A partition in numbers.

    clients, samples      numbers of both; samples that no client holds do not count
    unheld                samples that no client holds
    classes               number of classes, or of bins in a regression
    sizes                 quantiles of the sizes: least, 5 %, 25 %, median, 75 %, 95 %, most
    mean_size             samples per client
    gini                  Gini coefficient of the sizes, see `gini`
    entropy               mean over clients of `label_entropy`
    distance              mean over clients of `distance`
    classes_per_client    mean number of classes that a client holds
    single_class          share of the clients with one class only
    dominance             mean over clients of the share of its most frequent class

    Means over clients are over those with samples.

    >>> describe(np.array([0, 0, 1, 1]), Shards(order=[0, 1, 2, 3], offsets=[0, 2, 4]), classes=2).single_class
    1.0
    """

    clients: int
    samples: int
    unheld: int
    classes: int
    sizes: tuple[float, ...]
    mean_size: float
    gini: float
    entropy: float
    distance: float
    classes_per_client: float
    single_class: float
    dominance: float


def describe(y: AnyArray, shards: Shards, classes: int) -> Description:
    """Describe a partition of the samples with labels `y` (n,); classes = 0 for a regression.

    >>> description = describe(np.array([0, 1, 1, 1]), Shards(order=[0, 1, 2, 3], offsets=[0, 1, 4]), classes=2)
    >>> description.mean_size, description.gini, description.distance
    (2.0, 0.25, 0.5)
    """
    counts = class_counts(y, shards, classes)
    if not len(shards.order):
        raise InputError("no client holds a sample; there is nothing to describe.")
    held = counts[shards.sizes > 0]
    totals = held.sum(axis=1)
    kinds = (held > 0).sum(axis=1)
    return Description(
        clients=len(shards),
        samples=len(shards.order),
        unheld=len(y) - len(shards.order),
        classes=counts.shape[1],
        sizes=tuple(float(size) for size in np.quantile(shards.sizes, QUANTILES)),
        mean_size=float(shards.sizes.mean()),
        gini=gini(shards.sizes),
        entropy=float(label_entropy(held).mean()),
        distance=float(distance(held).mean()),
        classes_per_client=float(kinds.mean()),
        single_class=float((kinds == 1).mean()),
        dominance=float((held.max(axis=1) / totals).mean()),
    )


def table(description: Description) -> list[tuple[str, str]]:
    """Rows to print: a quantity, and its value in words.

    >>> shards = Shards(order=[0, 1, 2, 3], offsets=[0, 1, 4])
    >>> for name, value in table(describe(np.array([0, 1, 1, 1]), shards, classes=2))[:4]:
    ...     print(f"{name}: {value}")
    clients: 2
    samples: 4
    samples per client: mean 2, median 2, from 1 to 3
    middle half of the sizes: 1.5 to 2.5
    """
    least, low, quarter, median, upper, high, most = (_number(size) for size in description.sizes)
    samples = f"{description.samples:,}"
    if description.unheld:
        samples += f", and {description.unheld:,} that no client holds"
    return [
        ("clients", f"{description.clients:,}"),
        ("samples", samples),
        ("samples per client", f"mean {_number(description.mean_size)}, median {median}, from {least} to {most}"),
        ("middle half of the sizes", f"{quarter} to {upper}"),
        ("middle 90 % of the sizes", f"{low} to {high}"),
        ("inequality of the sizes", f"Gini {description.gini:.3f} (0 equal, 1 one has all)"),
        ("evenness of the labels", f"mean entropy {description.entropy:.3f} (0 one class, 1 all alike)"),
        ("distance to the whole", f"mean {description.distance:.3f} (0 same labels, 1 none in common)"),
        ("classes per client", f"mean {description.classes_per_client:.3g} of {description.classes}"),
        ("most frequent class", f"{description.dominance:.1%} of a client's samples on average"),
        ("clients with one class only", f"{description.single_class:.1%}"),
    ]


def inputs(shape: Sequence[int], names: Sequence[str], most: int = 12) -> str:
    """The number of inputs of a sample, and their names; of many names only the first ones.

    >>> inputs((3,), ["age", "height", "weight"]), inputs((1, 8, 8), [])
    ('3 (age, height, weight)', '64 (1 x 8 x 8)')
    """
    count = math.prod(shape)
    if not names:
        return f"{count:,}" + (f" ({' x '.join(map(str, shape))})" if len(shape) > 1 else "")
    more = f" and {count - most:,} more" if count > most else ""
    return f"{count:,} ({', '.join(printable(name, 40) for name in names[:most])}{more})"


def _number(size: float) -> str:
    return f"{size:,.0f}" if size >= 1000 else f"{size:.4g}"


def _table(counts: ArrayLike) -> tuple[FloatArray, FloatArray]:
    array = checks.as_array("description", "counts", counts, float)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"counts has shape {array.shape}; it needs (clients, classes).")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InputError("counts holds negative numbers, NaN or infinity; it needs samples per client and class.")
    return array, np.asarray(array.sum(axis=1))


def _divided(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The quotient; NaN where the denominator is 0."""
    return np.asarray(numerator / np.where(denominator > 0, denominator, np.nan))
