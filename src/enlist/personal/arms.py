"""Arms: the combinations of workers that may train together for one target worker."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.errors import InputError, unknown

MOST_OTHERS = 15
"""Most other workers with which all combinations are listed: 2^15 of them."""

Worker = str | int
"""A worker by name or by position."""


@dataclasses.dataclass(frozen=True, eq=False)
class Arms:
    """Combinations of workers, each with the target in it.

    members    (arms, workers) which workers belong to each arm; no two rows are equal
    target     position of the target worker
    names      names of the workers

    >>> arms = Arms.pairs(["1", "2", "3", "4"], target="2")
    >>> [arms.code(arm) for arm in range(len(arms))]
    ['1100', '0110', '0101']
    >>> arms.label(1), arms.of(1)
    ('2+3', array([1, 2]))
    """

    members: BoolArray
    target: int
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        members: AnyArray = np.asarray(self.members)
        if members.dtype != bool or members.ndim != 2 or members.shape[1] != len(self.names) or not len(members):
            raise InputError(
                f"Arms.members is {members.dtype} of shape {members.shape}; it needs one row of booleans per "
                f"combination and one column for each of {len(self.names)} workers."
            )
        if not members[:, self.target].all():
            raise InputError(f"an arm leaves out the target '{self.names[self.target]}'; it belongs to every arm.")
        _, first = np.unique(members, axis=0, return_index=True)
        if len(first) < len(members):
            twice = np.setdiff1d(np.arange(len(members)), first)[0]
            names = [self.names[worker] for worker in np.flatnonzero(members[twice])]
            raise InputError(f"the combination {'+'.join(names)} is listed twice; list each once.")
        frozen = members.copy()
        frozen.setflags(write=False)
        object.__setattr__(self, "members", frozen)

    @classmethod
    def pairs(cls, names: Sequence[str], target: Worker, alone: bool = False) -> Arms:
        """The target with each other worker; with `alone`, also the target by itself, as the first arm."""
        workers, place = _workers(names, target)
        others = [(other,) for other in range(len(workers)) if other != place]
        return cls.listed(workers, place, [(), *others] if alone else others)

    @classmethod
    def every(cls, names: Sequence[str], target: Worker) -> Arms:
        """All 2^(workers-1) combinations, from the target alone to all workers (federated averaging)."""
        workers, place = _workers(names, target)
        others = [other for other in range(len(workers)) if other != place]
        if len(others) > MOST_OTHERS:
            raise InputError(
                f"all combinations with {len(others)} other workers are 2^{len(others)}; at most {MOST_OTHERS} others "
                "are allowed. Take pairs, a list, or the proposals from clustering."
            )
        sizes = range(len(others) + 1)
        return cls.listed(workers, place, [some for size in sizes for some in itertools.combinations(others, size)])

    @classmethod
    def listed(cls, names: Sequence[str], target: Worker, combinations: Iterable[Iterable[Worker]]) -> Arms:
        """The combinations of a list, each of names or positions; the target may be left out."""
        workers, place = _workers(names, target)
        return cls(_rows(workers, place, combinations), place, workers)

    @classmethod
    def coded(cls, names: Sequence[str], target: Worker, codes: Iterable[str]) -> Arms:
        """The combinations of codes such as "0110", as written by `code`."""
        workers, place = _workers(names, target)
        rows = [[letter == "1" for letter in code] for code in codes]
        for row, code in zip(rows, codes, strict=True):
            if len(row) != len(workers) or set(code) - {"0", "1"}:
                raise InputError(f"the code '{code}' must hold a 0 or a 1 for each of {len(workers)} workers.")
        return cls(np.array(rows, dtype=bool).reshape(len(rows), len(workers)), place, workers)

    def __len__(self) -> int:
        return len(self.members)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Arms):
            return NotImplemented
        same = (self.target, self.names) == (other.target, other.names)
        return same and np.array_equal(self.members, other.members)

    __hash__ = None  # type: ignore[assignment]

    @property
    def sizes(self) -> IntArray:
        """The number of workers of each arm, including the target."""
        return np.asarray(self.members.sum(axis=1))

    @property
    def alone(self) -> int | None:
        """The arm that is the target by itself, if there is one."""
        return self.position([self.target])

    @property
    def codes(self) -> tuple[str, ...]:
        """The code of every arm."""
        return tuple(self.code(arm) for arm in range(len(self)))

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of every arm."""
        return tuple(self.label(arm) for arm in range(len(self)))

    def of(self, arm: int) -> IntArray:
        """The workers of an arm, ascending."""
        return np.flatnonzero(self.members[arm])

    def label(self, arm: int) -> str:
        """The names of its workers, such as "2+3"."""
        return "+".join(self.names[worker] for worker in self.of(arm))

    def code(self, arm: int) -> str:
        """A 1 for each worker in the arm and a 0 for each that is not, as the thesis writes it."""
        return "".join("1" if inside else "0" for inside in self.members[arm])

    def position(self, workers: Iterable[Worker]) -> int | None:
        """The arm made of exactly these workers (and the target), or None."""
        row = _rows(self.names, self.target, [workers])[0]
        found = np.flatnonzero((self.members == row).all(axis=1))
        return int(found[0]) if len(found) else None

    def allowed(self, available: ArrayLike) -> BoolArray:
        """Arms all of whose workers are available."""
        present = np.asarray(available, dtype=bool)
        if present.shape != (len(self.names),):
            raise InputError(
                f"available has shape {present.shape}; it needs one value for each of {len(self.names)} workers."
            )
        return np.asarray(~(self.members & ~present).any(axis=1))

    def with_more(self, combinations: Iterable[Iterable[Worker]]) -> Arms:
        """These arms followed by further ones, without duplicates."""
        rows = _rows(self.names, self.target, combinations)
        new = [row for row in rows if not (self.members == row).all(axis=1).any()]
        more = np.array(new, dtype=bool).reshape(-1, len(self.names))
        return Arms(np.concatenate([self.members, more]), self.target, self.names)

    def matching(self, other: Arms, values: ArrayLike) -> FloatArray:
        """For each arm, the value of the same workers in `other`; NaN where they are not an arm there.

        `other` may have another target: the pair of a and b is an arm for both.
        """
        given = np.asarray(values, dtype=float)
        if given.shape != (len(other),):
            raise InputError(f"values has shape {given.shape}; it needs one number for each of {len(other)} arms.")
        known = {frozenset(other.names[worker] for worker in other.of(arm)): given[arm] for arm in range(len(other))}
        mine = [frozenset(self.names[worker] for worker in self.of(arm)) for arm in range(len(self))]
        return np.array([known.get(workers, np.nan) for workers in mine])


def _workers(names: Sequence[str], target: Worker) -> tuple[tuple[str, ...], int]:
    workers = tuple(names)
    if len(set(workers)) < len(workers):
        twice = next(name for name in workers if workers.count(name) > 1)
        raise InputError(f"two workers are called '{twice}'; give each a unique name.")
    if len(workers) < 2:
        raise InputError(f"there are {len(workers)} workers; personalised learning needs the target and one other.")
    return workers, _place(workers, target)


def _place(names: tuple[str, ...], worker: Worker) -> int:
    if isinstance(worker, str):
        if worker not in names:
            raise unknown("worker", worker, names)
        return names.index(worker)
    place = checks.whole("worker", worker, minimum=0)
    if place >= len(names):
        raise InputError(f"worker {place} does not exist; there are workers 0 to {len(names) - 1}.")
    return place


def _rows(names: tuple[str, ...], target: int, combinations: Iterable[Iterable[Worker]]) -> BoolArray:
    rows = []
    for combination in combinations:
        if isinstance(combination, str):
            raise InputError(f"the combination '{combination}' is a single name; write a list of names.")
        row = np.zeros(len(names), dtype=bool)
        row[[target, *(_place(names, worker) for worker in combination)]] = True
        rows.append(row)
    return np.array(rows, dtype=bool).reshape(len(rows), len(names))
