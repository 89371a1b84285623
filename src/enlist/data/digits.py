"""Digits: 1,797 handwritten digits of 8 x 8 pixels from scikit-learn, so that a first run needs no files."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from typing import Literal

import numpy as np
import pydantic

from enlist._internal.typing import FloatArray
from enlist.data.base import DatasetOptions, divided, standardised
from enlist.data.dataset import Dataset, Samples
from enlist.streams import Streams

MEAN, SPREAD = 4.8842, 6.0168
"""Over all pixels, on scikit-learn's scale from 0 to 16."""


class Digits(DatasetOptions):
    """Handwritten digits of scikit-learn, (1, 8, 8), scaled to mean 0 and standard deviation 1 over all pixels.

    Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits" (UCI, 1998), its test part.

    >>> dataset = Digits().load(Streams(1))
    >>> len(dataset.train), len(dataset.test), dataset.shape, dataset.classes
    (1438, 359, (1, 8, 8), 10)
    """

    name: Literal["digits"] = "digits"
    test_share: float = pydantic.Field(0.2, gt=0, lt=1, description="Share of each digit that is kept for testing.")

    def load(self, streams: Streams) -> Dataset:
        """The digits, split by the stream "data test"."""
        table = _table()
        labels = table[:, -1].astype(np.int64)
        samples = Samples(standardised(table[:, :-1].reshape(-1, 1, 8, 8), MEAN, SPREAD), labels)
        train, test = divided(labels, self.test_share, streams.generator("data test"))
        names = tuple(map(str, range(10)))
        return Dataset(self.name, samples.take(train), samples.take(test), classes=10, class_names=names)


def _table() -> FloatArray:
    """A row per digit: its 64 pixels and its label.

    Read from scikit-learn's file without importing scikit-learn: that would take as long as the whole first run of ten
    rounds. If a later version keeps the file elsewhere, scikit-learn's own function reads it.
    """
    found = importlib.util.find_spec("sklearn")
    for folder in (found and found.submodule_search_locations) or ():
        path = Path(folder, "datasets", "data", "digits.csv.gz")
        if path.is_file():
            with gzip.open(path, "rt", encoding="ascii") as file:
                return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    bundle = load_digits()
    return np.column_stack([bundle.data, bundle.target])
