"""Learned state: small dataclasses of arrays that can grow with the population, shrink, and be saved.

A selector (or a bandit rule) keeps everything it has learned in one `State`. Its fields are

* columns, one row per client, declared with `column`;
* other arrays of fixed shape, such as a ridge matrix;
* scalars: `int`, `float`, `bool`, `str` or `None`;
* other states, declared with `nested` or set by the owner.

From that declaration alone the library creates, grows, compacts, saves and loads it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from enlist._internal.typing import AnyArray, IntArray
from enlist.errors import StateFileError

Scalar = int | float | bool | str | None


def column(fill: float = 0.0, dtype: type = float, shape: tuple[int, ...] = ()) -> Any:
    """Declare a field with one row per client, filled with `fill` for a client about which nothing is known.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Pulls(State):
    ...     count: IntArray = column(0, int)
    >>> pulls = Pulls.create(3)
    >>> pulls.count
    array([0, 0, 0])
    """
    return dataclasses.field(kw_only=True, metadata={"column": (fill, dtype, shape)})


def nested(kind: type[State]) -> Any:
    """Declare a field that is itself a `State` over the same clients.

    >>> import dataclasses
    >>> from enlist.bandits import Estimates
    >>> @dataclasses.dataclass
    ... class Speeds(State):
    ...     speed: Estimates = nested(Estimates)
    >>> Speeds.create(2).speed.mean
    array([0., 0.])
    """
    return dataclasses.field(kw_only=True, metadata={"nested": kind})


@dataclasses.dataclass
class State:
    """Base of all learned state; subclass it as a dataclass.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Mean(State):
    ...     total: AnyArray = column(0.0)
    ...     rounds: int = 0
    >>> mean = Mean.create(2)
    >>> mean.total[1] = 5.0
    >>> mean.grow(1)
    >>> mean.total
    array([0., 5., 0.])
    >>> mean.keep(np.array([1, 2]))
    >>> mean.total
    array([5., 0.])
    """

    @classmethod
    def create(cls, count: int, **given: Any) -> Self:
        """Make the state of `count` clients about which nothing is known yet."""
        values = dict(given)
        for field in dataclasses.fields(cls):
            if field.name in values:
                continue
            if "column" in field.metadata:
                fill, dtype, shape = field.metadata["column"]
                values[field.name] = np.full((count, *shape), fill, dtype=dtype)
            elif "nested" in field.metadata:
                values[field.name] = field.metadata["nested"].create(count)
        return cls(**values)

    def grow(self, more: int) -> None:
        """Append `more` unknown clients."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if "column" in field.metadata:
                fill, dtype, shape = field.metadata["column"]
                setattr(self, field.name, np.concatenate([value, np.full((more, *shape), fill, dtype=dtype)]))
            elif isinstance(value, State):
                value.grow(more)

    def keep(self, positions: IntArray) -> None:
        """Forget every client but those at `positions`, in that order."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if "column" in field.metadata:
                setattr(self, field.name, value[positions])
            elif isinstance(value, State):
                value.keep(positions)

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, AnyArray | Scalar]]:
        """Every array and scalar below this state, with its path."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, State):
                yield from value.leaves(f"{prefix}{field.name}/")
            else:
                yield f"{prefix}{field.name}", value

    def restore(self, saved: dict[str, AnyArray | Scalar], prefix: str = "") -> None:
        """Fill this state from what `leaves` gave; shapes and kinds must be those of this state."""
        for field in dataclasses.fields(self):
            path = f"{prefix}{field.name}"
            value = getattr(self, field.name)
            if isinstance(value, State):
                value.restore(saved, f"{path}/")
                continue
            if path not in saved:
                raise StateFileError(f"the saved state has no entry '{path}'; it was written by another version.")
            setattr(self, field.name, _matching(path, value, saved[path]))

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays of this state."""
        return sum(value.nbytes for _, value in self.leaves() if isinstance(value, np.ndarray))


def _matching(path: str, present: AnyArray | Scalar, saved: AnyArray | Scalar) -> AnyArray | Scalar:
    if isinstance(present, np.ndarray):
        if not isinstance(saved, np.ndarray) or saved.shape != present.shape or saved.dtype != present.dtype:
            found = f"{saved.dtype} {saved.shape}" if isinstance(saved, np.ndarray) else repr(saved)
            raise StateFileError(f"the saved '{path}' is {found}, but must be {present.dtype} {present.shape}.")
        return saved.copy(order="K")  # in the same memory layout, or its products round differently
    if isinstance(saved, np.ndarray):
        raise StateFileError(f"the saved '{path}' is an array, but must be a single value.")
    plain = int | float | str if present is None else (str if isinstance(present, str) else int | float)
    if not (saved is None and present is None) and not isinstance(saved, plain):
        raise StateFileError(f"the saved '{path}' is a {type(saved).__name__}, but must be like {present!r}.")
    return saved


@dataclasses.dataclass
class NoState(State):
    """The state of a selector that learns nothing.

    >>> NoState.create(5).nbytes
    0
    """
