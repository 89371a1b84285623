"""Clients: what is known about them up front. A struct of arrays; a client is a position with a stable name."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.text import brief
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.errors import InputError

CLIENT_COLUMNS = (
    "num_examples",
    "quality",
    "expected_latency",
    "expected_upload",
    "energy_per_sample",
    "energy_per_byte",
    "battery",
)
"""Optional columns of `Clients` with one number per client; all of them must be finite and not negative."""

MOST_INT = np.iinfo(np.int64).max

MOST_CLIENTS = 10**8
"""The largest population, by design: state takes from 16 to a few hundred bytes per client."""


def _frozen(array: AnyArray) -> AnyArray:
    """A copy that callers cannot change."""
    copy = array.copy()
    copy.setflags(write=False)
    return copy


def _counted(count: int | None, columns: Mapping[str, Any]) -> int:
    given = {name: column for name, column in columns.items() if column is not None}
    if count is None:
        if not given:
            raise InputError("Clients got neither columns nor count; pass Clients(count=N) if nothing is known.")
        name, column = next(iter(given.items()))
        if not hasattr(column, "__len__") or (isinstance(column, np.ndarray) and not column.ndim):
            raise InputError(f"Clients.{name} is {brief(column)}; it needs one value per client.")
        count = len(column)
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise InputError(f"Clients got count={brief(count)}; it must be a whole number.")
    if count < 1:
        raise InputError(f"Clients got count={brief(count)}; give at least one client.")
    if count > MOST_CLIENTS:
        raise InputError(f"Clients got count={brief(count)}; at most {MOST_CLIENTS} clients are served.")
    return int(count)


def _feature_table(
    features: ArrayLike | None, names: Sequence[str], count: int
) -> tuple[FloatArray | None, tuple[str, ...]]:
    if features is None:
        if len(names):
            raise InputError("Clients got feature_names but no features; pass features of shape (clients, names).")
        return None, ()
    table = checks.as_array("Clients", "features", features, float)
    if table.ndim != 2 or len(table) != count:
        raise InputError(f"Clients.features has shape {table.shape}; it needs ({count}, number of features).")
    if not np.isfinite(table).all():
        raise InputError("Clients.features holds NaN or infinity; fill or drop those features first.")
    table = checks.bounded(table, checks.MOST_FEATURE)
    titles = tuple(str(name) for name in names) or tuple(f"x{i}" for i in range(table.shape[1]))
    if len(titles) != table.shape[1]:
        raise InputError(f"Clients got {len(titles)} feature_names for {table.shape[1]} features; give one each.")
    return table, titles


def _count_table(label_counts: ArrayLike, count: int) -> FloatArray:
    table = checks.as_array("Clients", "label_counts", label_counts, float)
    if table.ndim != 2 or len(table) != count or not table.shape[1]:
        raise InputError(f"Clients.label_counts has shape {table.shape}; it needs ({count}, number of classes).")
    if not np.isfinite(table).all():
        raise InputError("Clients.label_counts holds NaN or infinity; give 0 for a class that a client does not hold.")
    return checks.bounded(checks.not_negative("Clients", "label_counts", table))


def _distinct_ids(values: ArrayLike, count: int) -> AnyArray:
    ids = checks.as_array("Clients", "ids", values, None)
    if ids.shape != (count,) or ids.dtype.kind not in "iuU":
        raise InputError(f"Clients.ids is {ids.dtype} of shape {ids.shape}; give {count} distinct int or str ids.")
    if ids.dtype.kind in "iu":
        ids = ids.astype(np.uint64 if ids.dtype.kind == "u" and len(ids) and ids.max() > MOST_INT else np.int64)
    unique, repeats = np.unique(ids, return_counts=True)
    if len(unique) != count:
        raise InputError(f"Clients.ids repeats {unique[repeats > 1][0]!r}; every client needs its own id.")
    return ids


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Clients:
    """What is known about every client up front. Clients are positions 0..N-1; `ids` are their stable names.

    Every column is optional, but at least one, or `count`, must say how many clients there are. Numbers are clipped to
    1e15, features to 1e30 in magnitude.

    num_examples       samples each client holds, (N,)
    features           what is known about device and data, (N, d), named by `feature_names`
    ids                distinct int or str names, (N,); the positions themselves if not given
    quality            data quality in [0, 1], (N,)
    expected_latency   a profile's estimate of one round in seconds, (N,)
    expected_upload    the upload part of it, (N,)
    label_counts       samples of each class, (N, classes)
    energy_per_sample  joules to train on one sample once, (N,)
    energy_per_byte    joules to send or receive one byte, (N,)
    battery            joules that a full battery holds, (N,)

    >>> clients = Clients(num_examples=[10, 20, 30], ids=["ann", "bob", "cid"])
    >>> len(clients)
    3
    >>> clients.positions(["cid", "ann"])
    array([2, 0])
    """

    count: int
    num_examples: FloatArray | None
    features: FloatArray | None
    feature_names: tuple[str, ...]
    ids: AnyArray | None
    quality: FloatArray | None
    expected_latency: FloatArray | None
    expected_upload: FloatArray | None
    label_counts: FloatArray | None
    energy_per_sample: FloatArray | None
    energy_per_byte: FloatArray | None
    battery: FloatArray | None

    def __init__(
        self,
        *,
        count: int | None = None,
        num_examples: ArrayLike | None = None,
        features: ArrayLike | None = None,
        feature_names: Sequence[str] = (),
        ids: ArrayLike | None = None,
        quality: ArrayLike | None = None,
        expected_latency: ArrayLike | None = None,
        expected_upload: ArrayLike | None = None,
        label_counts: ArrayLike | None = None,
        energy_per_sample: ArrayLike | None = None,
        energy_per_byte: ArrayLike | None = None,
        battery: ArrayLike | None = None,
    ) -> None:
        numbers = {
            "num_examples": num_examples,
            "quality": quality,
            "expected_latency": expected_latency,
            "expected_upload": expected_upload,
            "energy_per_sample": energy_per_sample,
            "energy_per_byte": energy_per_byte,
            "battery": battery,
        }
        count = _counted(count, {"ids": ids, "features": features, "label_counts": label_counts, **numbers})
        for name, values in numbers.items():
            checked = None
            if values is not None:
                numbers_given = checks.number_column("Clients", name, values, count)
                checked = _frozen(checks.not_negative("Clients", name, numbers_given))
            object.__setattr__(self, name, checked)
        if self.quality is not None and (self.quality > 1).any():
            raise InputError(f"Clients.quality goes up to {self.quality.max()}; it must lie in [0, 1].")
        table, names = _feature_table(features, feature_names, count)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "features", None if table is None else _frozen(table))
        object.__setattr__(self, "feature_names", names)
        counts = None if label_counts is None else _frozen(_count_table(label_counts, count))
        object.__setattr__(self, "label_counts", counts)
        object.__setattr__(self, "ids", None if ids is None else _frozen(_distinct_ids(ids, count)))

    def __len__(self) -> int:
        return self.count

    @functools.cached_property
    def _id_order(self) -> IntArray:
        assert self.ids is not None
        return np.argsort(self.ids, kind="stable")

    def positions(self, ids: ArrayLike) -> IntArray:
        """The positions of the clients with these ids."""
        wanted = np.asarray(ids)
        if self.ids is None:
            known = np.isin(wanted, np.arange(len(self))) if wanted.dtype.kind in "iu" else np.zeros(len(wanted), bool)
            found = wanted
        else:
            index = np.minimum(np.searchsorted(self.ids, wanted, sorter=self._id_order), len(self) - 1)
            found = self._id_order[index]
            known = self.ids[found] == wanted
        if not known.all():
            raise InputError(f"no client has the id {wanted[~known][0]!r}; see Clients.ids for those that exist.")
        return found.astype(np.int64)

    def names(self, positions: IntArray) -> AnyArray:
        """The ids of the clients at these positions."""
        return positions if self.ids is None else self.ids[positions]

    def columns(self) -> dict[str, AnyArray]:
        """The columns that are present, by name."""
        names = (*CLIENT_COLUMNS, "features", "label_counts", "ids")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def joined(self, more: Clients) -> Clients:
        """These clients followed by `more`, which must carry the same columns."""
        ours, theirs = self.columns(), more.columns()
        if ours.keys() != theirs.keys() or self.feature_names != more.feature_names:
            raise InputError(
                f"the joining clients have columns {sorted(theirs)}, these have {sorted(ours)}; match them."
            )
        if self.ids is not None and more.ids is not None and self.ids.dtype.kind != more.ids.dtype.kind:
            raise InputError(f"the joining ids are {more.ids.dtype}, these are {self.ids.dtype}; use one kind.")
        both: dict[str, Any] = {name: np.concatenate([ours[name], theirs[name]]) for name in ours}
        return Clients(count=len(self) + len(more), feature_names=self.feature_names, **both)

    def kept(self, positions: IntArray) -> Clients:
        """Only the clients at `positions`; positions that served as ids become real ids."""
        ids = self.names(positions)
        kept: dict[str, Any] = {name: value[positions] for name, value in self.columns().items() if name != "ids"}
        return Clients(count=len(positions), feature_names=self.feature_names, ids=ids, **kept)
