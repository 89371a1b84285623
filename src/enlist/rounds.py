"""Within a round: the request, the choice, and what became of it. The hooks of a `Selector` receive these."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from enlist._internal import aliases, checks
from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.clients import Clients
from enlist.errors import (
    EnlistError,
    ExpiredSelectionError,
    FinishedSelectionError,
    InputError,
    TellError,
    UnknownSelectionError,
)
from enlist.records import ALIGNED, Feedback, Outcome, Selection
from enlist.state import State, column

PENDING = np.int8(-1)
LEAST = 1e-12
"""Probabilities and shares of work are at least this, so that quotients stay finite."""


@dataclasses.dataclass
class Counts(State):
    """The two counters of the contract, one row per client.

    selected   times chosen: the basis of fairness
    observed   times a usable reply came back: the basis of confidence widths

    >>> Counts.create(2).selected
    array([0, 0])
    """

    selected: IntArray = column(0, int)
    observed: IntArray = column(0, int)


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """One checked `ask`: what `choose` receives.

    available   sorted positions of the clients that may be chosen
    k           how many to choose; never more than are available
    enough      replies that end the round; never more than k, and fewer under over-commitment
    forecast    probability of being available in the next round window, for all clients, or None
    fresh       values of the candidates measured just now, or None
    context     what changes from round to round, for all clients, by name: battery (joules left), charging (0 or 1),
                bandwidth (bytes per second), or whatever your driver knows
    asynchronous   True if the server does not wait for the k clients as a set: each is replaced once it replies

    >>> request = Request(round=1, available=np.array([2, 5, 7]), k=2, population=9)
    >>> request.pick(np.array([2, 0]), score=np.array([0.1, 0.2, 0.3])).clients
    array([7, 2])
    """

    round: int
    available: IntArray
    k: int
    population: int
    now: float = 0.0
    deadline: float = math.inf
    forecast: FloatArray | None = None
    fresh: Feedback | None = None
    everybody_online: IntArray | None = None
    enough: int = checks.MOST_WHOLE
    context: Mapping[str, FloatArray] = dataclasses.field(default_factory=dict)
    asynchronous: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "enough", min(self.enough, self.k))

    @property
    def online(self) -> IntArray:
        """Sorted positions of all clients online, including those still busy with an earlier round."""
        return self.available if self.everybody_online is None else self.everybody_online

    def of(self, rows: AnyArray) -> AnyArray:
        """The rows of a per-client array that belong to the available clients (no copy if that is all)."""
        return rows if len(self.available) == self.population else rows[self.available]

    def pick(
        self,
        index: IntArray,
        *,
        weights: AnyArray | None = None,
        probabilities: AnyArray | None = None,
        work: AnyArray | None = None,
        **terms: AnyArray,
    ) -> Choice:
        """Choose `available[index]`; each term is an array over `available` that helped to decide.

        Weights, probabilities and work are also arrays over `available`; `Selection` says what they mean.
        """
        given = {"weights": weights, "probabilities": probabilities, "work": work}
        return Choice(
            self.available[index],
            {name: np.asarray(term[index], float) for name, term in terms.items()},
            **{name: None if array is None else np.asarray(array[index], float) for name, array in given.items()},
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """What `choose` returns: positions, the terms of each client's score, and what else a `Selection` holds.

    >>> Choice(np.array([3, 1])).clients
    array([3, 1])
    """

    clients: IntArray
    terms: Mapping[str, FloatArray] = dataclasses.field(default_factory=dict)
    weights: FloatArray | None = None
    probabilities: FloatArray | None = None
    work: FloatArray | None = None

    def __post_init__(self) -> None:
        for name, least, most in (("weights", 0.0, math.inf), ("probabilities", LEAST, 1.0), ("work", LEAST, 1.0)):
            values = getattr(self, name)
            if values is None:
                continue
            if values.shape != self.clients.shape:
                raise EnlistError(f"a choice of {len(self.clients)} clients has {name} of shape {values.shape}.")
            if not (np.isfinite(values) & (values >= least) & (values <= most)).all():
                allowed = "finite and not negative" if math.isinf(most) else "above 0 and at most 1"
                span = f"{values.min()} to {values.max()}"
                raise EnlistError(f"{name} of a choice go from {span}; they must be {allowed}.")

    def aligned(self, order: IntArray) -> dict[str, FloatArray | None]:
        """Weights, probabilities and work in another order."""
        return {name: None if (array := getattr(self, name)) is None else array[order] for name in ALIGNED}


@dataclasses.dataclass(frozen=True, eq=False)
class Observation:
    """Final outcomes of some clients of one selection: what `learn` and `amend` receive.

    `credited` is what `learn` returned for these clients when they were late (only in `amend`).

    >>> selection = Selection(round=1, clients=np.array([4, 6]), deadline=10.0)
    >>> feedback = Feedback(outcome=[Outcome.COMPLETED, Outcome.DROPPED], latency=[3.0, float("nan")])
    >>> told = Observation(selection, feedback.resolved(selection))
    >>> told.clients, told.completed, told.latency
    (array([4, 6]), array([ True, False]), array([ 3., 10.]))
    """

    selection: Selection
    feedback: Feedback
    credited: FloatArray | None = None

    @property
    def clients(self) -> IntArray:
        """Positions."""
        assert self.feedback.clients is not None
        return self.feedback.clients

    @property
    def outcome(self) -> AnyArray:
        """One `Outcome` per client."""
        assert self.feedback.outcome is not None
        return self.feedback.outcome

    @property
    def completed(self) -> BoolArray:
        """Whose reply is in: COMPLETED, or ARRIVED after all."""
        return np.asarray((self.outcome == Outcome.COMPLETED) | (self.outcome == Outcome.ARRIVED))

    @property
    def latency(self) -> FloatArray:
        """Latency as scored: at most the deadline, the deadline for a lost client, NaN if nothing is known."""
        latency = self.column("latency")
        if math.isinf(self.selection.deadline):
            return latency
        lost = (self.outcome == Outcome.DROPPED) | (self.outcome == Outcome.FAILED)
        known = np.where(lost | (np.isnan(latency) & ~self.cut_off), self.selection.deadline, latency)
        return np.minimum(known, self.selection.deadline)

    @property
    def cut_off(self) -> BoolArray:
        """Whose `latency` is only a lower bound below the deadline, or unknown: the server had enough replies."""
        assert self.feedback.censored is not None
        late = self.outcome == Outcome.LATE
        return np.asarray(late & self.feedback.censored & ~(self.column("latency") >= self.selection.deadline))

    def samples(self, clients: Clients) -> FloatArray:
        """Samples that each client trained on: as reported, else as declared up front, else 1."""
        trained = self.column("num_examples")
        held = 1.0 if clients.num_examples is None else clients.num_examples[self.clients]
        return np.where(np.isnan(trained), held, trained)

    def part(self, where: BoolArray, credited: FloatArray | None = None) -> Observation:
        """The same for some of the clients."""
        values: dict[str, Any] = {
            field.name: None
            if getattr(self.feedback, field.name) is None
            else getattr(self.feedback, field.name)[where]
            for field in dataclasses.fields(Feedback)
        }
        return Observation(self.selection, Feedback(**values), credited)

    def column(self, name: str) -> FloatArray:
        """A column of the feedback, NaN throughout if it was not given."""
        value = getattr(self.feedback, name)
        return np.full(len(self.clients), np.nan) if value is None else value


@dataclasses.dataclass(eq=False)
class OpenSelection:
    """A selection that still waits for outcomes; book-keeping inside `Selector`.

    >>> OpenSelection.of(Selection(round=1, clients=np.array([4, 6]))).pending
    array([4, 6])
    """

    selection: Selection
    outcome: AnyArray
    credited: FloatArray
    metrics_told: bool = False

    @classmethod
    def of(cls, selection: Selection) -> Self:
        """A selection about which nothing is known yet."""
        count = len(selection)
        return cls(selection, np.full(count, PENDING, dtype=np.int8), np.full(count, np.nan))

    @property
    def pending(self) -> IntArray:
        """Positions without an outcome."""
        return np.asarray(self.selection.clients[self.outcome == PENDING])

    def finished_after(self, outcome: AnyArray) -> bool:
        """Whether nothing is left to tell once the clients have the outcomes in `outcome`."""
        return not ((outcome == PENDING) | (outcome == Outcome.LATE)).any()

    def unheard(self) -> Observation | None:
        """What is learned if it closes now: clients without an outcome count as dropped; None if there are none."""
        pending = self.pending
        if not len(pending):
            return None
        dropped = np.full(len(pending), Outcome.DROPPED)
        return Observation(self.selection, Feedback(clients=pending, outcome=dropped).resolved(self.selection))

    def check_repeats(self, told: Observation, index: IntArray) -> None:
        """Refuse a second outcome for the clients at `index`: only LATE may be amended, by ARRIVED."""
        before = self.outcome[index]
        wrong = np.where(told.outcome == Outcome.ARRIVED, before != Outcome.LATE, before != PENDING)
        if wrong.any():
            where = int(np.flatnonzero(wrong)[0])
            was = "no outcome yet" if before[where] == PENDING else f"outcome {Outcome(before[where]).name}"
            raise TellError(
                f"client {told.clients[where]} of round {self.selection.round} has {was} and cannot become "
                f"{Outcome(told.outcome[where]).name}; one outcome is final, and only LATE may be amended, by ARRIVED."
            )


class OpenSelections(dict[int, OpenSelection]):
    """The selections that still wait for outcomes, by round.

    >>> OpenSelections().waiting(Selection(round=3, clients=np.array([4])), last=2, max_open=100)
    Traceback (most recent call last):
    ...
    enlist.errors.UnknownSelectionError: round 3 was never asked; this selector is at round 2.
    """

    def waiting(self, selection: Selection, last: int, max_open: int) -> OpenSelection:
        """The open entry of a selection; if there is none, the error says why. `last` is the selector's round."""
        number = selection.round
        opening = self.get(number)
        if opening is None:
            if not 1 <= number <= last:
                raise UnknownSelectionError(f"round {number} was never asked; this selector is at round {last}.")
            if number <= last - max_open:
                age = last - number
                raise ExpiredSelectionError(f"round {number} expired: it is {age} rounds old, max_open={max_open}.")
            raise FinishedSelectionError(f"round {number} is finished: each of its clients already has its outcome.")
        if not np.array_equal(selection.clients, opening.selection.clients):
            raise UnknownSelectionError(f"that selection of round {number} belongs to another selector; tell that one.")
        return opening

    def checked(self, selection: Selection, call: str, population: int) -> Selection:
        """The selection that was passed, if it can be one."""
        if not isinstance(selection, Selection):
            raise InputError(f"{call} got {type(selection).__name__}; pass the Selection that ask returned.")
        opening = self.get(selection.round) if isinstance(selection.round, int) else None
        if opening is not None and selection is opening.selection:
            return selection
        number = checks.whole("selection.round", selection.round, minimum=-checks.MOST_WHOLE)
        if selection.clients is None or not isinstance(selection.terms, Mapping):
            raise InputError(f"{call} got a selection of round {number} that was made up; pass what ask returned.")
        clients = checks.positions("selection.clients", selection.clients, population)
        return dataclasses.replace(selection, round=number, clients=clients)


def as_selection(choice: Choice, request: Request, owner: str) -> Selection:
    """Turn what `choose` returned into what `ask` returns: sorted and read-only; an invalid choice is refused.

    >>> request = Request(round=1, available=np.array([2, 5, 7]), k=2, population=9)
    >>> as_selection(Choice(np.array([7, 2])), request, "Mine").clients
    array([2, 7])
    """
    if not isinstance(choice, Choice):
        raise EnlistError(f"{owner}.choose returned {type(choice).__name__}; return request.pick(...).")
    order = np.argsort(choice.clients)
    clients = choice.clients[order]
    place = np.minimum(np.searchsorted(request.available, clients), max(len(request.available) - 1, 0))
    if len(clients) > request.k or (np.diff(clients) <= 0).any() or (request.available[place] != clients).any():
        raise EnlistError(
            f"{owner}.choose returned {choice.clients.tolist()}; it must return at most {request.k} "
            "distinct positions out of request.available."
        )
    terms = {name: values[order] for name, values in choice.terms.items()}
    aligned = choice.aligned(order)
    for array in (clients, *terms.values(), *aligned.values()):
        if array is not None:
            array.setflags(write=False)  # the selector relies on them, and so may the caller
    return Selection(request.round, clients, request.deadline, request.now, terms, **aligned)


def checked_enough(enough: int, k: int) -> int:
    """The number of replies that ends a round, if k clients can send that many.

    >>> checked_enough(3, 5)
    3
    """
    number = checks.whole("enough", enough, minimum=min(k, 1))
    if number > k:
        raise InputError(f"enough is {number}, but at most k={k} clients are asked; it must be a whole number up to k.")
    return number


__getattr__ = aliases.former_names(__name__)
