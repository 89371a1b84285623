"""Samples and data sets: arrays of inputs and labels, and the parts that a simulation needs of them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.typing import AnyArray
from enlist.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """Inputs with their labels, and whose samples they are, if known.

    x        (n, ...) float32; images are (n, channels, height, width), already normalised
    y        (n,) int64 class labels, or float32 targets of a regression
    users    (n,) int or str id of the person or worker that each sample belongs to, or None

    Arrays of other number types are converted.

    >>> samples = Samples(x=[[0.5], [1.5], [2.5]], y=[0, 1, 0], users=["ann", "bob", "ann"])
    >>> len(samples), samples.x.dtype, samples.y.dtype
    (3, dtype('float32'), dtype('int64'))
    >>> samples.take([2, 0]).y
    array([0, 0])
    """

    x: AnyArray
    y: AnyArray
    users: AnyArray | None = None

    def __post_init__(self) -> None:
        inputs = checks.as_array("Samples", "x", self.x, None)
        labels = checks.as_array("Samples", "y", self.y, None)
        if inputs.dtype.kind not in "biuf" or labels.dtype.kind not in "biuf":
            raise InputError(f"Samples.x is {inputs.dtype} and Samples.y is {labels.dtype}; both must be numbers.")
        if inputs.ndim < 2 or labels.ndim != 1 or len(inputs) != len(labels):
            raise InputError(
                f"Samples.x has shape {inputs.shape} and Samples.y {labels.shape}; give (n, ...) inputs and n labels."
            )
        object.__setattr__(self, "x", inputs.astype(np.float32, copy=False))
        number = np.float32 if labels.dtype.kind == "f" else np.int64
        object.__setattr__(self, "y", labels.astype(number, copy=False))
        if self.users is None:
            return
        users = checks.as_array("Samples", "users", self.users, None)
        if users.dtype.kind not in "iuU" or users.shape != labels.shape:
            raise InputError(
                f"Samples.users is {users.dtype} of shape {users.shape}; give an int or str id for each of "
                f"{len(labels)} samples."
            )
        object.__setattr__(self, "users", users)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: ArrayLike) -> Samples:
        """The samples at these positions (or where this mask is true), in that order."""
        chosen = np.asarray(index)
        if chosen.size == 0:
            chosen = chosen.astype(np.int64)
        return Samples(self.x[chosen], self.y[chosen], None if self.users is None else self.users[chosen])


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Data to train on, to test with and, in some data sets, to validate with.

    name           as in the configuration
    train, test    samples; neither may be empty
    classes        number of classes; 0 for a regression
    validation     samples, or None
    class_names    one for each class, or ()
    input_names    one for each number of a sample, in order, or ()

    >>> part = Samples(x=[[0.5], [1.5]], y=[0, 1])
    >>> Dataset("mine", train=part, test=part, classes=2).shape
    (1,)
    >>> Dataset("mine", train=part, test=part, classes=1)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: data set 'mine': its train labels go from 0 to 1; with 1 classes allowed are 0 to 0.
    """

    name: str
    train: Samples
    test: Samples
    classes: int
    validation: Samples | None = None
    class_names: tuple[str, ...] = ()
    input_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.whole(f"classes of data set '{self.name}'", self.classes, minimum=0)
        if self.class_names and len(self.class_names) != self.classes:
            raise InputError(
                f"data set '{self.name}' names {len(self.class_names)} classes, but has {self.classes}; name each once."
            )
        if self.input_names and len(self.input_names) != math.prod(self.shape):
            raise InputError(
                f"data set '{self.name}' names {len(self.input_names)} inputs, but has {math.prod(self.shape)}; name "
                "each once."
            )
        for part, samples in self.parts.items():
            self._check(part, samples)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.train.x.shape[1:])

    @property
    def parts(self) -> dict[str, Samples]:
        """The parts that exist, by name."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: samples for name, samples in parts.items() if samples is not None}

    def _check(self, part: str, samples: Samples) -> None:
        what = f"data set '{self.name}': its {part}"
        if len(samples) == 0:
            raise InputError(f"{what} part is empty; give at least one sample.")
        if samples.x.shape[1:] != self.shape:
            raise InputError(f"{what} samples have shape {samples.x.shape[1:]}, the others {self.shape}; match them.")
        for title, array in (("inputs", samples.x), ("labels", samples.y)):
            with np.errstate(invalid="ignore"):
                total = array.sum(dtype=np.float64)
            if not np.isfinite(total):
                raise InputError(f"{what} {title} hold NaN or infinity; fill or drop those samples first.")
        if self.classes:
            if samples.y.dtype.kind != "i":
                raise InputError(f"{what} labels are {samples.y.dtype}; give whole numbers, or classes=0 (regression).")
            low, high = int(samples.y.min()), int(samples.y.max())
            if low < 0 or high >= self.classes:
                raise InputError(
                    f"{what} labels go from {low} to {high}; with {self.classes} classes allowed are 0 to "
                    f"{self.classes - 1}."
                )
        elif samples.y.dtype.kind != "f":
            raise InputError(f"{what} labels are {samples.y.dtype}; a regression (classes=0) needs float targets.")
