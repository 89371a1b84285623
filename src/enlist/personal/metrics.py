"""Metrics of a model on the target: AUC for two classes, accuracy for more, the loss for a regression."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from enlist._internal.statistics import Summary, bootstrap
from enlist._internal.typing import AnyArray
from enlist.errors import InputError
from enlist.training.engine import sample_losses

MetricName = Literal["auto", "auc", "accuracy", "loss"]


def auc(scores: ArrayLike, labels: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a sample of class 1 has a larger score than one of class 0.

    Ties count half (Mann and Whitney): each score of class 1 is looked up among the sorted ones of class 0.

    >>> auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    >>> auc([1.0, 1.0, 2.0], [0, 1, 1])
    0.75
    """
    given, positive = np.asarray(scores), np.asarray(labels) == 1
    high, low = np.sort(given[positive]), np.sort(given[~positive])
    if not len(high) or not len(low):
        raise InputError(
            f"there are {len(high)} samples of class 1 and {len(low)} of the other; an AUC needs both. "
            'Give more samples, or set metric = "accuracy".'
        )
    if np.isnan(high[-1]) or np.isnan(low[-1]):
        raise InputError("a score is NaN, and NaN cannot be ranked; fill such scores first.")
    below = int(np.searchsorted(low, high, "left").sum()) + int(np.searchsorted(low, high, "right").sum())
    return below / (2 * len(high) * len(low))


class Metric:
    """One of auc, accuracy and loss, applied to a model's outputs.

    An output that is not finite counts as 0, no opinion: a diverged model is as good as guessing.

    >>> metric = Metric.of("auto", classes=2)
    >>> metric.name, metric.lower_is_better
    ('auc', False)
    >>> metric(torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 2.0]]), torch.tensor([0, 1, 1]))
    1.0
    """

    def __init__(self, name: Literal["auc", "accuracy", "loss"], classes: int) -> None:
        if name == "auc" and classes != 2:
            raise InputError(f'metric is "auc", and the data has {classes or "no"} classes; it needs 2: use "auto".')
        if name == "accuracy" and not classes:
            raise InputError('metric is "accuracy", and the data is a regression; use "loss" or "auto".')
        self.name, self.classes = name, classes

    @classmethod
    def of(cls, name: MetricName, classes: int) -> Metric:
        """The metric of this name; "auto" is AUC for two classes, accuracy for more, the loss for a regression."""
        if name == "auto":
            name = "auc" if classes == 2 else "accuracy" if classes else "loss"
        return cls(name, classes)

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower score is better."""
        return self.name == "loss"

    def defined(self, targets: Tensor) -> bool:
        """Whether these samples have a score at all: an AUC needs both classes."""
        return self.name != "auc" or 0 < int((targets == 1).sum()) < len(targets)

    @property
    def worst(self) -> float:
        """A score that every other score beats."""
        return np.inf if self.lower_is_better else -np.inf

    def better(self, score: float, than: float) -> bool:
        """Whether one score beats another."""
        return score < than if self.lower_is_better else score > than

    def __call__(self, outputs: Tensor, targets: Tensor) -> float:
        """The score of outputs (n, classes), or (n, 1) in a regression, against targets (n,)."""
        known = outputs if bool(torch.isfinite(outputs.sum())) else outputs.nan_to_num(0.0, 0.0, 0.0)
        if self.name == "auc":
            return auc((known[:, 1] - known[:, 0]).numpy(), targets.numpy())
        if self.name == "accuracy":
            return float((known.argmax(dim=1) == targets).double().mean())
        aims = targets if self.classes else targets.double()
        return float(sample_losses(known.double(), aims, self.classes).mean())


def gain(metric: Metric, outputs: Tensor, others: Tensor, targets: Tensor, resamples: int = 400) -> Summary:
    """How much better one model is than another on the same samples, with a 95 % bootstrap interval over them.

    A resample of a small set may lack a class, and then has no AUC: it is left out and not replaced. If more than half
    of them are left out, there is no interval.

    >>> targets = torch.tensor([0, 1] * 50)
    >>> good, none = targets[:, None] * torch.tensor([[0.0, 1.0]]), torch.zeros(100, 2)
    >>> gain(Metric.of("auc", 2), good, none, targets)
    Summary(mean=0.5, low=0.5, high=0.5)
    """
    sign = -1.0 if metric.lower_is_better else 1.0

    lacking = 0

    def difference(rows: AnyArray) -> float:
        nonlocal lacking
        index = torch.from_numpy(rows.astype(np.int64))
        if not metric.defined(targets.index_select(0, index)):
            lacking += 1
            return np.nan
        ours, theirs = (
            metric(found.index_select(0, index), targets.index_select(0, index)) for found in (outputs, others)
        )
        return sign * (ours - theirs)

    found = bootstrap(difference, np.arange(len(targets)), resamples=resamples)
    return Summary(found.mean, np.nan, np.nan) if 2 * lacking > resamples else found
