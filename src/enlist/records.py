"""What passes between a selector and whoever drives it: clients, selections, feedback. Structs of arrays throughout."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from enlist.errors import InputError
from enlist.typing import AnyArray, BoolArray, FloatArray, IntArray

CLIENT_COLUMNS = ("num_examples", "quality", "expected_latency", "expected_upload")
"""Optional columns of `Clients` with one number per client; all of them must be finite and not negative."""

MOST_INT = np.iinfo(np.int64).max

FEEDBACK_COLUMNS = ("num_examples", "loss", "loss_rms", "accuracy", "accuracy_gain", "upload_latency")
"""Optional columns of `Feedback` besides outcome and latency; a missing value is NaN."""


class Outcome(enum.IntEnum):
    """How a selected client ended. `ARRIVED` amends an earlier `LATE`, once.

    >>> Outcome.LATE.name, int(Outcome.LATE)
    ('LATE', 1)
    """

    COMPLETED = 0
    LATE = 1
    DROPPED = 2
    FAILED = 3
    ARRIVED = 4


def _as_array(owner: str, name: str, values: ArrayLike, dtype: type | None) -> AnyArray:
    try:
        array: AnyArray = np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        kind = "values" if dtype is None else dtype.__name__ + " values"
        raise InputError(f"{owner}.{name} cannot be read as an array of {kind}: {error}") from None
    return array


def _number_column(owner: str, name: str, values: ArrayLike, count: int, *, missing: bool = False) -> FloatArray:
    array = _as_array(owner, name, values, float)
    if array.ndim != 1 or len(array) != count:
        raise InputError(f"{owner}.{name} has shape {array.shape}; it needs one number for each of {count} clients.")
    wrong = np.isinf(array) if missing else ~np.isfinite(array)
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        allowed = "finite numbers, or NaN where unknown" if missing else "finite numbers"
        raise InputError(f"{owner}.{name}[{where}] is {array[where]}; allowed are {allowed}.")
    return array


def _not_negative(owner: str, name: str, array: FloatArray) -> FloatArray:
    if (array < 0).any():
        where = int(np.flatnonzero(array < 0)[0])
        raise InputError(f"{owner}.{name}[{where}] is {array[where]}; it cannot be negative.")
    return array


def _frozen(array: AnyArray) -> AnyArray:
    """A copy that nobody can change behind our back."""
    copy = array.copy()
    copy.setflags(write=False)
    return copy


def _counted(count: int | None, columns: Mapping[str, Any]) -> int:
    given = {name: column for name, column in columns.items() if column is not None}
    if count is None:
        if not given:
            raise InputError("Clients got neither columns nor count; pass Clients(count=N) if nothing is known.")
        name, column = next(iter(given.items()))
        if not hasattr(column, "__len__"):
            raise InputError(f"Clients.{name} is {column!r}; it needs one value per client.")
        count = len(column)
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise InputError(f"Clients got count={count!r}; it must be a whole number.")
    if count < 1:
        raise InputError(f"Clients got count={count}; give at least one client.")
    return int(count)


def _feature_table(
    features: ArrayLike | None, names: Sequence[str], count: int
) -> tuple[FloatArray | None, tuple[str, ...]]:
    if features is None:
        if len(names):
            raise InputError("Clients got feature_names but no features; pass features of shape (clients, names).")
        return None, ()
    table = _as_array("Clients", "features", features, float)
    if table.ndim != 2 or len(table) != count:
        raise InputError(f"Clients.features has shape {table.shape}; it needs ({count}, number of features).")
    if not np.isfinite(table).all():
        raise InputError("Clients.features holds NaN or infinity; fill or drop those features first.")
    titles = tuple(str(name) for name in names) or tuple(f"x{i}" for i in range(table.shape[1]))
    if len(titles) != table.shape[1]:
        raise InputError(f"Clients got {len(titles)} feature_names for {table.shape[1]} features; give one each.")
    return table, titles


def _distinct_ids(values: ArrayLike, count: int) -> AnyArray:
    ids = _as_array("Clients", "ids", values, None)
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
    """What is known of every client up front. Clients are positions 0..N-1; `ids` are their stable names.

    Every column is optional, but at least one, or `count`, must say how many clients there are.

    num_examples       samples each client holds, (N,)
    features           what is known of device and data, (N, d), named by `feature_names`
    ids                distinct int or str names, (N,); the positions themselves if not given
    quality            data quality in [0, 1], (N,)
    expected_latency   a profile's estimate of one round in seconds, (N,)
    expected_upload    the part of it that is upload, (N,)

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
    ) -> None:
        numbers = {
            "num_examples": num_examples,
            "quality": quality,
            "expected_latency": expected_latency,
            "expected_upload": expected_upload,
        }
        count = _counted(count, {"ids": ids, "features": features, **numbers})
        for name, values in numbers.items():
            checked = None
            if values is not None:
                checked = _frozen(_not_negative("Clients", name, _number_column("Clients", name, values, count)))
            object.__setattr__(self, name, checked)
        if self.quality is not None and (self.quality > 1).any():
            raise InputError(f"Clients.quality goes up to {self.quality.max()}; it must lie in [0, 1].")
        table, names = _feature_table(features, feature_names, count)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "features", None if table is None else _frozen(table))
        object.__setattr__(self, "feature_names", names)
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
        names = (*CLIENT_COLUMNS, "features", "ids")
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
        """The clients at `positions` alone; positions that served as ids become real ids."""
        ids = self.names(positions)
        kept: dict[str, Any] = {name: value[positions] for name, value in self.columns().items() if name != "ids"}
        return Clients(count=len(positions), feature_names=self.feature_names, ids=ids, **kept)


@dataclasses.dataclass(frozen=True, eq=False)
class Selection:
    """Who takes part in a round: distinct, available, at most k positions in ascending order.

    `terms` holds the parts of each client's score, aligned with `clients`; `Selector.explain` shows them.

    >>> import enlist
    >>> picked = enlist.create("random", enlist.Clients(count=4), seed=1).ask(k=2)
    >>> picked.round, len(picked), picked.deadline
    (1, 2, inf)
    """

    round: int
    clients: IntArray
    deadline: float = math.inf
    now: float = 0.0
    terms: Mapping[str, FloatArray] = dataclasses.field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.clients)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundMetrics:
    """What the server measured after a round; every value is optional.

    >>> RoundMetrics(accuracy=0.61, loss=1.2, duration=87.0).accuracy
    0.61
    """

    accuracy: float | None = None
    loss: float | None = None
    duration: float | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if not isinstance(value, int | float | np.number) or not math.isfinite(number := float(value)):
                raise InputError(f"RoundMetrics.{field.name} is {value!r}; give a finite number, or None if unknown.")
            object.__setattr__(self, field.name, number)


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Feedback:
    """What became of the selected clients, or of some of them.

    outcome       one `Outcome` per client; all COMPLETED if not given
    latency       seconds from selection to reply; NaN only for clients that DROPPED or FAILED
    censored      True where `latency` is only a lower bound: the server stopped waiting then
    rounds_late   for ARRIVED: how many rounds after its own the reply came
    clients       positions; the whole selection, in its order, if not given
    num_examples     samples that the client trained on
    loss             mean loss over those samples in the first local epoch, before each step
    loss_rms         square root of the mean squared loss over the same samples
    accuracy         accuracy in [0, 1] of the model that was sent, on the client's data
    accuracy_gain    accuracy on the client's data after its training minus before
    upload_latency   the part of latency that was upload

    A column that nobody knows is None, a single unknown value NaN.

    >>> Feedback(outcome=[Outcome.COMPLETED, Outcome.DROPPED], latency=[3.5, float("nan")]).latency
    array([3.5, nan])
    """

    outcome: AnyArray | None
    latency: FloatArray | None
    censored: BoolArray | None
    rounds_late: FloatArray | None
    clients: IntArray | None
    num_examples: FloatArray | None
    loss: FloatArray | None
    loss_rms: FloatArray | None
    accuracy: FloatArray | None
    accuracy_gain: FloatArray | None
    upload_latency: FloatArray | None

    def __init__(
        self,
        *,
        outcome: ArrayLike | None = None,
        latency: ArrayLike | None = None,
        censored: ArrayLike | None = None,
        rounds_late: ArrayLike | None = None,
        clients: ArrayLike | None = None,
        num_examples: ArrayLike | None = None,
        loss: ArrayLike | None = None,
        loss_rms: ArrayLike | None = None,
        accuracy: ArrayLike | None = None,
        accuracy_gain: ArrayLike | None = None,
        upload_latency: ArrayLike | None = None,
    ) -> None:
        given = (
            ("outcome", outcome, None),
            ("latency", latency, float),
            ("censored", censored, bool),
            ("rounds_late", rounds_late, float),
            ("clients", clients, None),
            ("num_examples", num_examples, float),
            ("loss", loss, float),
            ("loss_rms", loss_rms, float),
            ("accuracy", accuracy, float),
            ("accuracy_gain", accuracy_gain, float),
            ("upload_latency", upload_latency, float),
        )
        for name, values, dtype in given:
            object.__setattr__(self, name, None if values is None else _as_array("Feedback", name, values, dtype))

    def resolved(self, selection: Selection) -> Feedback:
        """This feedback with clients, outcomes and censoring filled in, every value checked against `selection`."""
        clients = selection.clients if self.clients is None else self._checked_clients(selection)
        count = len(clients)
        outcome = self._checked_outcome(count)
        latency, censored = self._checked_latency(outcome)
        self._check_deadline(selection, outcome, latency)
        columns: dict[str, Any] = {}
        for name in FEEDBACK_COLUMNS:
            value = getattr(self, name)
            if value is not None:
                columns[name] = _number_column("Feedback", name, value, count, missing=True)
        for name in ("num_examples", "upload_latency", "loss_rms"):
            if name in columns:
                _not_negative("Feedback", name, columns[name])
        rounds_late = self.rounds_late
        if rounds_late is not None:
            rounds_late = _not_negative(
                "Feedback", "rounds_late", _number_column("Feedback", "rounds_late", rounds_late, count, missing=True)
            )
        return Feedback(
            clients=clients, outcome=outcome, latency=latency, censored=censored, rounds_late=rounds_late, **columns
        )

    def _checked_clients(self, selection: Selection) -> IntArray:
        clients = self.clients
        assert clients is not None
        if clients.ndim != 1 or (len(clients) and clients.dtype.kind not in "iu"):
            raise InputError(f"Feedback.clients is {clients.dtype} of shape {clients.shape}; give a list of positions.")
        if len(np.unique(clients)) != len(clients):
            raise InputError(f"Feedback.clients repeats a position in round {selection.round}; name each client once.")
        strangers = clients[~np.isin(clients, selection.clients)]
        if len(strangers):
            raise InputError(f"client {strangers[0]} was not selected in round {selection.round}; tell its own round.")
        return clients.astype(np.int64)

    def _checked_outcome(self, count: int) -> AnyArray:
        if self.outcome is None:
            return np.zeros(count, dtype=np.int8)
        outcome = self.outcome
        if outcome.ndim != 1 or len(outcome) != count:
            raise InputError(f"Feedback.outcome has shape {outcome.shape}; it needs one for each of {count} clients.")
        known = (
            np.isin(outcome, [int(code) for code in Outcome]) if outcome.dtype.kind in "iuf" else np.zeros(count, bool)
        )
        if not known.all():
            names = ", ".join(f"{o.name}={o.value}" for o in Outcome)
            raise InputError(f"Feedback.outcome holds {outcome[~known][0]!r}; allowed are {names}.")
        return outcome.astype(np.int8)

    def _checked_latency(self, outcome: AnyArray) -> tuple[FloatArray | None, BoolArray]:
        count = len(outcome)
        censored = np.zeros(count, dtype=bool) if self.censored is None else self.censored
        if censored.shape != (count,):
            raise InputError(f"Feedback.censored has shape {censored.shape}; it needs one for each of {count} clients.")
        if (censored & ((outcome == Outcome.COMPLETED) | (outcome == Outcome.ARRIVED))).any():
            raise InputError("Feedback.censored marks a client that replied; its latency is known, not a lower bound.")
        if self.latency is None:
            return None, censored
        latency = self.latency
        if latency.shape != (count,):
            raise InputError(f"Feedback.latency has shape {latency.shape}; it needs one for each of {count} clients.")
        lost = (outcome == Outcome.DROPPED) | (outcome == Outcome.FAILED)
        wrong = ~np.isfinite(latency) & ~(lost & np.isnan(latency))
        if wrong.any():
            where = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"Feedback.latency[{where}] is {latency[where]} for a client that is {Outcome(outcome[where]).name}; "
                "give finite seconds (a LATE client: the time waited, censored=True); NaN is for DROPPED and FAILED."
            )
        return _not_negative("Feedback", "latency", latency), censored

    def with_outcome(self, outcome: ArrayLike) -> Feedback:
        """The same with other outcomes."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Feedback(**{**values, "outcome": outcome})

    def _check_deadline(self, selection: Selection, outcome: AnyArray, latency: FloatArray | None) -> None:
        if latency is None:
            return
        tardy = (outcome == Outcome.COMPLETED) & (latency > selection.deadline)
        if tardy.any():
            where = int(np.flatnonzero(tardy)[0])
            raise InputError(
                f"Feedback.latency[{where}] is {latency[where]:g} for a client that is COMPLETED, after the deadline "
                f"of {selection.deadline:g}; tell it as LATE."
            )
