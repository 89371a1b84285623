"""What all data set options share: the base classes, and how samples are drawn, split and scaled."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pydantic

from enlist._internal.options import Options
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.data.dataset import Dataset
from enlist.errors import InputError
from enlist.streams import Streams


class DatasetOptions(Options, abc.ABC):
    """Options of a data set: its part of a configuration, and `load`, which makes it.

    >>> class Coin(DatasetOptions):
    ...     name: str = "coin"
    ...     def load(self, streams):
    ...         part = Samples(x=[[0.0], [1.0]], y=[0, 1])
    ...         return Dataset("coin", train=part, test=part, classes=2)
    >>> from enlist.data.dataset import Samples
    >>> Coin().load(Streams(1)).shape
    (1,)
    """

    name: str

    def code(self) -> tuple[str, ...]:
        """The user's code that loading it imports, as "module:name"."""
        return ()

    @abc.abstractmethod
    def load(self, streams: Streams) -> Dataset:
        """Reads or draws the data; the same streams give the same data."""


MOST_NUMBERS = 10**10
"""Maximum size of a data set in numbers, by design: 40 GB of inputs."""


def check_numbers(name: str, samples: int, width: int) -> None:
    """Refuse a data set that is too large, before memory is allocated for it.

    >>> check_numbers("linear-regression", 10**12, 10)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: data set 'linear-regression' would hold 1,000,000,000,000 samples of 10 numbers, ...
    """
    if samples * width > MOST_NUMBERS:
        raise InputError(
            f"data set '{name}' would hold {samples:,} samples of {width:,} numbers, {4e-9 * samples * width:,.0f} GB; "
            f"at most {MOST_NUMBERS:,} numbers are allowed: ask for fewer."
        )


class FileOptions(DatasetOptions):
    """Options of a data set that is read from files.

    >>> FileOptions.model_fields["limit"].description
    'At most this many training samples, drawn at random; all of them if not given.'
    """

    limit: int | None = pydantic.Field(
        None, ge=1, description="At most this many training samples, drawn at random; all of them if not given."
    )

    def drawn(self, count: int, streams: Streams) -> IntArray:
        """Which of `count` training samples are used: all, or the first `limit` of a shuffle."""
        if self.limit is None or self.limit >= count:
            return np.arange(count)
        return streams.generator("data limit").permutation(count)[: self.limit]


class PublishedOptions(FileOptions):
    """Options of a data set that is published in files of a known name.

    >>> sorted(PublishedOptions.model_fields)
    ['download', 'folder', 'limit', 'mirror', 'name']
    """

    folder: Path | None = pydantic.Field(
        None, description="Folder with the files; if not given, the system's copy, else the download cache."
    )
    download: bool = pydantic.Field(True, description="Download the files if they are not on this machine.")
    mirror: str | None = pydantic.Field(
        None, description="Address to download from instead of the published one; checksums stay the same."
    )


def divided(
    groups: AnyArray, share: float, rng: np.random.Generator, what: str = "samples"
) -> tuple[IntArray, IntArray]:
    """Positions (rest, taken), both sorted: `share` of every group is taken at random, to within one sample.

    groups   (n,) label or user of each sample; all the same to ignore them
    what     what is divided, as errors call it

    >>> rest, taken = divided(np.array([0, 0, 0, 0, 1, 1]), 0.5, np.random.default_rng(1))
    >>> len(rest), len(taken), (taken < 4).sum()
    (3, 3, np.int64(2))
    """
    order = np.lexsort((rng.random(len(groups)), groups))
    steps = np.floor(share * np.arange(len(groups) + 1) + 0.5)
    taken, rest = np.sort(order[np.diff(steps) > 0]), np.sort(order[np.diff(steps) == 0])
    if not len(taken) or not len(rest):
        raise InputError(
            f"a share of {share} of {len(groups)} {what} leaves one side empty; give more {what} or another share."
        )
    return rest, taken


def standardised(values: AnyArray, mean: float | Sequence[float], spread: float | Sequence[float]) -> AnyArray:
    """(values − mean) / spread in float32, channel by channel if several are given; (n, channels, ...) inputs.

    >>> standardised(np.array([[[[1.0, 3.0]]]]), 2.0, 0.5)
    array([[[[-2.,  2.]]]], dtype=float32)
    """
    result: AnyArray = values.astype(np.float32)
    shape = (-1, *[1] * (result.ndim - 2))
    result -= _channels(mean).reshape(shape)
    result /= _channels(spread).reshape(shape)
    return result


def _channels(numbers: float | Sequence[float]) -> FloatArray:
    return np.atleast_1d(np.asarray(numbers, dtype=np.float32))


def spread_of(values: AnyArray) -> tuple[float, float]:
    """Mean and standard deviation of all values, the latter never 0.

    >>> spread_of(np.array([1.0, 3.0])), spread_of(np.array([2.0, 2.0]))
    ((2.0, 1.0), (2.0, 1.0))
    """
    return float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64)) or 1.0
