"""What passes between a selector and its driver: selections and feedback. Structs of arrays throughout."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.text import brief
from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.errors import InputError

FEEDBACK_COLUMNS = (
    "num_examples",
    "loss",
    "loss_rms",
    "accuracy",
    "accuracy_gain",
    "upload_latency",
    "update_norm",
    "contribution",
    "energy",
)
"""Optional columns of `Feedback` besides outcome and latency, one number per client; a missing value is NaN."""

ALIGNED = ("weights", "probabilities", "work")
"""Optional arrays of a `Selection` besides the terms, one number per selected client."""


class Outcome(enum.IntEnum):
    """What became of a selected client. `ARRIVED` amends an earlier `LATE`, once.

    >>> Outcome.LATE.name, int(Outcome.LATE)
    ('LATE', 1)
    """

    COMPLETED = 0
    LATE = 1
    DROPPED = 2
    FAILED = 3
    ARRIVED = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Selection:
    """Who takes part in a round: distinct, available, at most k positions in ascending order.

    Arrays are aligned with `clients`. `terms` holds the parts of each client's score; `Selector.explain` shows them.

    weights         weight of each update in the average, instead of the server's own weights; None for those
    probabilities   with which each client was drawn, for unbiased averages and privacy accounting; or None
    work            share of the local work that each is asked to do, in (0, 1]; None for all of it

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
    weights: FloatArray | None = dataclasses.field(default=None, repr=False)
    probabilities: FloatArray | None = dataclasses.field(default=None, repr=False)
    work: FloatArray | None = dataclasses.field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.clients)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundMetrics:
    """What the server measured after a round; every value is optional, and clipped to 1e15 in magnitude.

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
            try:
                known = isinstance(value, int | float | np.number) and not isinstance(value, bool)
                number = float(value) if known else math.nan
            except (OverflowError, TypeError):
                number = math.inf
            if not math.isfinite(number):
                raise InputError(
                    f"RoundMetrics.{field.name} is {brief(value)}; give a finite number, or None if unknown."
                )
            object.__setattr__(self, field.name, float(checks.bounded(np.array(number))))


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Feedback:
    """What became of the selected clients, or of some of them.

    outcome       one `Outcome` per client; all COMPLETED if not given
    latency       seconds from selection to reply; NaN only for clients that DROPPED or FAILED
    censored      True where `latency` is only a lower bound: the server stopped waiting then
    rounds_late   for ARRIVED: how many rounds late the reply came; in asynchronous rounds, for every reply: server
                  steps since the client was asked (staleness)
    clients       positions; the whole selection, in its order, if not given
    num_examples     samples that the client trained on
    loss             mean loss over those samples in the first local epoch, before each step
    loss_rms         square root of the mean squared loss over the same samples
    accuracy         accuracy in [0, 1] of the model that was sent, on the client's data
    accuracy_gain    accuracy on the client's data after its training minus before
    upload_latency   the part of latency that was upload
    update           a sketch of the update: a few numbers whose inner products are those of updates, (n, d)
    update_norm      length of the update
    contribution     what the update was worth, as measured by the server
    energy           joules that the client spent in the round

    An unknown column is None, a single unknown value NaN. Finite values of any size are accepted, so that one client
    cannot end a federation; beyond 1e15 in magnitude they are clipped to it, and closer to 0 than 1e-30 they become 0.

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
    update: FloatArray | None
    update_norm: FloatArray | None
    contribution: FloatArray | None
    energy: FloatArray | None

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
        update: ArrayLike | None = None,
        update_norm: ArrayLike | None = None,
        contribution: ArrayLike | None = None,
        energy: ArrayLike | None = None,
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
            ("update", update, float),
            ("update_norm", update_norm, float),
            ("contribution", contribution, float),
            ("energy", energy, float),
        )
        for name, values, dtype in given:
            array = None if values is None else checks.as_array("Feedback", name, values, dtype)
            object.__setattr__(self, name, array)

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
                columns[name] = checks.number_column("Feedback", name, value, count, missing=True)
        for name in ("num_examples", "upload_latency", "loss_rms", "update_norm", "energy"):
            if name in columns:
                checks.not_negative("Feedback", name, columns[name])
        if self.update is not None:
            columns["update"] = self._checked_update(count)
        rounds_late = self.rounds_late
        if rounds_late is not None:
            rounds_late = checks.not_negative(
                "Feedback",
                "rounds_late",
                checks.number_column("Feedback", "rounds_late", rounds_late, count, missing=True),
            )
        return Feedback(
            clients=clients, outcome=outcome, latency=latency, censored=censored, rounds_late=rounds_late, **columns
        )

    def _checked_clients(self, selection: Selection) -> IntArray:
        clients = self.clients
        assert clients is not None
        if clients is selection.clients:
            return clients
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
        known = np.zeros(count, dtype=bool)
        if outcome.dtype.kind in "iuf":
            known = (outcome >= 0) & (outcome < len(Outcome)) & (outcome % 1 == 0)
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
        return checks.bounded(checks.not_negative("Feedback", "latency", latency)), censored

    def _checked_update(self, count: int) -> FloatArray:
        update = self.update
        assert update is not None
        if not count and not update.size:
            return np.zeros((0, 0))  # no clients: a log records no shape for it
        if update.ndim != 2 or len(update) != count:
            raise InputError(f"Feedback.update has shape {update.shape}; it needs ({count}, numbers of a sketch).")
        if np.isinf(update).any():
            raise InputError("Feedback.update holds infinity; give NaN for a client whose update is unknown.")
        return checks.bounded(update)

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
