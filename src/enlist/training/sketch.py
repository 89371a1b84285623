"""Sketches of updates: a few numbers whose inner products are, on average, those of the updates."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from enlist._internal.typing import FloatArray
from enlist.bandits.sketches import NUMBERS
from enlist.streams import Streams


class Sketch:
    """A random projection that costs one pass and five bytes per parameter (a count sketch).

    Every parameter has a sign and a place; a sketch holds the signed sums of the parameters in each place. For any two
    updates x and y, <Sx, Sy> has the mean <x, y> and a standard deviation of at most sqrt(2 / numbers) |x| |y|: 18 %
    with 64 numbers (Charikar, Chen and Farach-Colton 2002; Weinberger et al. 2009).

    >>> sketch = Sketch(1000, Streams(1))
    >>> update = torch.ones(1000)
    >>> sketch.of(update).shape, 0.6 < (sketch.of(update) ** 2).sum() / 1000 < 1.4
    ((64,), np.True_)
    """

    def __init__(self, parameters: int, streams: Streams, numbers: int = NUMBERS) -> None:
        generator = streams.generator("sketch")
        self.numbers = numbers
        self.places = torch.from_numpy(generator.integers(numbers, size=parameters, dtype=np.int32))
        self.signs = torch.from_numpy(generator.integers(2, size=parameters, dtype=np.int8)) * 2 - 1

    def of(self, update: Tensor) -> FloatArray:
        """The sketch of an update."""
        sums = torch.zeros(self.numbers, dtype=torch.float64)
        sums.index_add_(0, self.places, (update * self.signs).double())
        return sums.numpy()
