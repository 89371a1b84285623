"""The books between a selector and a federation: who is busy, who has replied, and what to tell when a round ends."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import aliases, checks
from enlist._internal.locks import Shared, exclusive
from enlist._internal.typing import AnyArray, BoolArray, IntArray
from enlist.books import log as logs
from enlist.books.replies import Replies
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import InputError, TellError, unknown
from enlist.records import FEEDBACK_COLUMNS, Feedback, Outcome, RoundMetrics, Selection
from enlist.rounds import PENDING, OpenSelection


class Books(Shared):
    """Drives one selector.

    late   "drop": a client that is late is free for the next round, and its reply is ignored (`arrived` does nothing);
           "learn": it stays busy until it arrives (`arrived`), is given up (`give_up`), or its selection expires, and
           the selector learns from it; "merge": the same, and the driver also merges its update
    log    a file to which every ask and tell is appended as one line of JSON; `replay` reads it

    Several threads may share the books. The lock is the selector's, so others may use the selector itself meanwhile.

    >>> import enlist
    >>> books = Books(enlist.create("cs-ucb", enlist.Clients(count=5), seed=1))
    >>> picked = books.ask(k=3, now=0.0, deadline=10.0)
    >>> books.reply(picked, picked.clients[:2], latency=[2.0, 3.5])
    >>> feedback = books.close(picked, waited=4.0)
    >>> [Outcome(code).name for code in feedback.outcome], feedback.latency
    (['COMPLETED', 'COMPLETED', 'LATE'], array([2. , 3.5, 4. ]))
    """

    def __init__(
        self, selector: Selector[Any, Any], *, late: str = "drop", log: str | PathLike[str] | None = None
    ) -> None:
        self.selector = selector
        self.late = aliases.late(late)
        self.log = None if log is None else Path(log)
        # An empty selection is also open until it is told.
        waiting = {
            number: opening
            for number, opening in selector.openings.items()
            if len(opening.pending) or not len(opening.selection)
        }
        self.open: dict[int, Replies] = {
            number: Replies.of(opening.selection, opening.outcome) for number, opening in waiting.items()
        }
        self.given_up: set[tuple[int, int]] = set()
        """(round, client) of late clients that are no longer awaited."""
        self._lock = selector._lock

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = self.selector._lock

    @property
    @exclusive
    def busy(self) -> BoolArray:
        """Clients that cannot be asked now: still working for an open round, or late and awaited."""
        busy = np.zeros(len(self.selector.clients), dtype=bool)
        for number in self.open:
            if number in self.selector.openings:
                busy[self.selector.openings[number].pending] = True
        if self.late != "drop":
            for opening in self.selector.openings.values():
                busy[self._awaited(opening)] = True
        return busy

    def _awaited(self, opening: OpenSelection) -> IntArray:
        """Clients of a selection that are late and awaited."""
        late: IntArray = opening.selection.clients[opening.outcome == Outcome.LATE]
        number = opening.selection.round
        return late[[(number, client) not in self.given_up for client in late.tolist()]] if self.given_up else late

    @property
    @exclusive
    def awaited(self) -> list[tuple[int, int]]:
        """(round, client) of all late clients that are awaited; none if late replies are dropped."""
        if self.late == "drop":
            return []
        return [
            (number, client)
            for number, opening in self.selector.openings.items()
            for client in self._awaited(opening).tolist()
        ]

    @exclusive
    def selection(self, number: int) -> Selection | None:
        """The selection of a round whose replies may still come; None if there is none."""
        opening = self.selector.openings.get(number)
        return None if opening is None else opening.selection

    @exclusive
    def ask(
        self,
        available: ArrayLike | None = None,
        k: int = 1,
        *,
        now: float | None = None,
        deadline: float = math.inf,
        forecast: ArrayLike | None = None,
        measure: Callable[[IntArray], Feedback] | None = None,
        busy: ArrayLike | None = None,
        enough: int | None = None,
        context: Mapping[str, ArrayLike] | None = None,
        asynchronous: bool = False,
    ) -> Selection:
        """Ask the selector for at most `k` of the available clients that are not busy.

        `busy` is a mask or positions, for drivers that know better than to treat all awaited clients as busy.
        `enough` is the number of replies that end the round; `k` if not given. `context` is what changes from round to
        round, as in `Selector.ask`, and `asynchronous` says that the server does not wait for these clients as a set.
        `measure` gives fresh values for the clients that the selector's `candidates` names; it is called only if there
        are any, and it costs traffic.
        """
        online = self.selector.resolve_available(available)
        if busy is not None:
            busy = checks.positions("busy", busy, len(self.selector.clients))
        elif self.open or self.late != "drop":
            busy = np.flatnonzero(self.busy)
        fresh = None
        if measure is not None:
            free = online if busy is None else np.setdiff1d(online, busy, assume_unique=True)
            candidates = self.selector.candidates(free, k)
            fresh = measure(candidates) if len(candidates) else None
        selection = self.selector.ask(
            online,
            k,
            now=now,
            deadline=deadline,
            forecast=forecast,
            fresh=fresh,
            busy=busy,
            enough=enough,
            context=context,
            **({"asynchronous": True} if asynchronous else {}),
        )
        self.open = {number: replies for number, replies in self.open.items() if number in self.selector.openings}
        self.given_up = {pair for pair in self.given_up if pair[0] in self.selector.openings}
        self.open[selection.round] = Replies.of(selection)
        if self.log is None:
            return selection
        self._note(
            "ask",
            k=k,
            enough=enough,
            now=now,
            deadline=deadline,
            available=logs.packed(online, len(self.selector.clients)),
            busy=None if busy is None else busy.tolist(),
            forecast=None if forecast is None else np.asarray(forecast, float).tolist(),
            fresh=None if fresh is None else logs.plain(fresh),
            context={name: np.asarray(values, float).tolist() for name, values in (context or {}).items()},
            **({"asynchronous": True} if asynchronous else {}),
            picked=selection.clients.tolist(),
        )
        return selection

    @exclusive
    def observe(self, available: ArrayLike | None, now: float) -> None:
        """Say who is available without asking."""
        self.selector.observe(available, now)
        online = self.selector.resolve_available(available)
        self._note("observe", available=logs.packed(online, len(self.selector.clients)), now=now)

    @exclusive
    def join(self, more: Clients) -> IntArray:
        """Append clients; returns their positions."""
        positions = self.selector.join(more)
        columns = {name: values.tolist() for name, values in more.columns().items()}
        self._note("join", count=len(more), feature_names=list(more.feature_names), columns=columns)
        return positions

    @exclusive
    def compact(self, keep: ArrayLike) -> IntArray:
        """Forget every client but those in `keep`; returns the old positions in their new order.

        No round may be open; late clients are no longer awaited.
        """
        positions = self.selector.compact(keep)
        self.open.clear()
        self.given_up.clear()
        self._note("compact", keep=positions.tolist())
        return positions

    @exclusive
    def accept(self, arrivals: ArrayLike, k: int) -> IntArray:
        """Of `arrivals`, in order of arrival, the clients that the server takes (if all clients train)."""
        arrivals = checks.as_array("accept", "arrivals", arrivals, None)
        taken = self.selector.accept(arrivals, k)
        self._note("accept", arrivals=np.asarray(arrivals).tolist(), k=k)
        return taken

    @exclusive
    def reply(
        self, selection: Selection, clients: ArrayLike, outcome: Outcome = Outcome.COMPLETED, **columns: ArrayLike
    ) -> None:
        """Note that these clients have replied (or DROPPED, or FAILED); told when the round closes.

        A reply that took longer than the deadline counts as LATE.
        """
        replies = self._replies(selection)
        selection = replies.selection
        if outcome not in (Outcome.COMPLETED, Outcome.DROPPED, Outcome.FAILED):
            raise InputError(
                f"reply got {Outcome(outcome).name}; clients that are silent when the round closes are LATE anyway."
            )
        part = _about(clients, outcome, columns)
        if outcome == Outcome.COMPLETED and part.latency is not None:
            part = part.with_outcome(np.where(part.latency > selection.deadline, Outcome.LATE, outcome))
        part = part.resolved(selection)
        self.selector.check_columns(part)
        replies.note(part)

    @exclusive
    def close(self, selection: Selection, *, waited: float, round: RoundMetrics | None = None) -> Feedback:
        """End the round `waited` seconds after it began: silent clients are LATE, censored at that time."""
        feedback = self._replies(selection).feedback(checks.finite("waited", waited, 0.0))
        self.settle(selection, feedback, round)
        return feedback

    @exclusive
    def conclude(
        self,
        selection: Selection,
        outcome: AnyArray,
        columns: Mapping[str, AnyArray],
        *,
        waited: float,
        round: RoundMetrics | None = None,
    ) -> Feedback:
        """End a round whose outcomes are known, as `reply` per outcome and `close` would, at a fraction of the cost.

        Parameters
        ----------
        selection : Selection
            The selection, of which no client has replied yet.
        outcome : array of shape (n,)
            The `Outcome` of each of its clients. A LATE client has not replied; a COMPLETED reply that took longer than
            the deadline counts as LATE.
        columns : mapping of str to array
            What the clients that replied report, (n, ...) each; the rows of others are ignored.
        waited : float
            Seconds after which the round ended: clients that have not replied are censored at that time.
        round : RoundMetrics, optional
            What the server measured.

        Returns
        -------
        Feedback
            What the selector was told.

        >>> import enlist
        >>> books = Books(enlist.create("random", enlist.Clients(count=3), seed=0))
        >>> picked = books.ask(k=3, deadline=5.0)
        >>> outcome = np.array([Outcome.COMPLETED, Outcome.LATE, Outcome.FAILED])
        >>> books.conclude(picked, outcome, {"latency": np.array([2.0, 8.0, 9.0])}, waited=4.0).latency
        array([ 2.,  4., nan])
        """
        replies = self._replies(selection)
        if (replies.outcome != PENDING).any():
            raise TellError(f"clients have already replied in round {selection.round}; end it with close.")
        replied = outcome == Outcome.COMPLETED
        masked = {
            name: np.where(replied.reshape(-1, *(1,) * (values.ndim - 1)), values, np.nan)
            for name, values in columns.items()
        }
        known = np.where(outcome == Outcome.LATE, PENDING, outcome)
        if "latency" in columns:
            known[replied & (columns["latency"] > replies.selection.deadline)] = Outcome.LATE
        told = dataclasses.replace(replies, outcome=known.astype(np.int8), columns=masked)
        feedback = told.feedback(checks.finite("waited", waited, 0.0))
        self.settle(selection, feedback, round)
        return feedback

    @exclusive
    def settle(self, selection: Selection, feedback: Feedback, round: RoundMetrics | None = None) -> None:
        """Tell the selector the outcomes of a whole selection at once."""
        opening = self.selector.openings.get(_number(selection))
        if not isinstance(feedback, Feedback):
            raise InputError(f"settle got {type(feedback).__name__} as feedback; pass enlist.Feedback(...).")
        whole = 0 if opening is None else len(opening.selection)
        told = whole if feedback.clients is None else feedback.clients.size
        if opening is not None and told < len(opening.pending):
            waiting = len(opening.pending)
            raise TellError(f"settle got {told} of {waiting} outcomes of round {selection.round}; use reply and close.")
        self.selector.tell(selection, feedback, round)
        self.open.pop(selection.round, None)
        self._log_tell(selection, feedback, round)

    @exclusive
    def tell(self, selection: Selection, feedback: Feedback, round: RoundMetrics | None = None) -> None:
        """Tell the selector final outcomes of some clients of a selection, while others go on (asynchronous rounds).

        `round` belongs to the last outcomes of the selection. Late clients are not awaited: the selection closes once
        none of its clients is at work.
        """
        self.selector.tell(selection, feedback, round)
        self._log_tell(selection, feedback, round)
        opening = self.selector.openings.get(selection.round)
        if opening is not None and not len(opening.pending):
            self.selector.expire(selection)
            self._note("expire", round=selection.round)
        if selection.round not in self.selector.openings:
            self.open.pop(selection.round, None)

    def mark(self, step: int) -> None:
        """Log that everything up to a step of an asynchronous server has been told; `cut` looks for it."""
        self._note("step", round=step)

    @exclusive
    def arrived(self, selection: Selection, clients: ArrayLike, *, rounds_late: float, **columns: ArrayLike) -> bool:
        """A late reply has come after all: tell the true values. False if it no longer counts (dropped or expired)."""
        if self.late == "drop" or _number(selection) not in self.selector.openings:
            return False
        positions = np.atleast_1d(checks.as_array("arrived", "clients", clients, None))
        late = np.full(positions.shape, checks.finite("rounds_late", rounds_late, 0.0))
        feedback = _about(clients, Outcome.ARRIVED, {**columns, "rounds_late": late})
        self.selector.tell(selection, feedback)
        self._log_tell(selection, feedback, None)
        return True

    @exclusive
    def give_up(self, number: int, clients: ArrayLike) -> None:
        """Stop waiting for late clients of a round, whose replies are lost or useless: they are free again.

        The selector keeps what it was told: they were late.
        """
        if self.late != "drop" and number in self.selector.openings:
            positions = checks.positions("clients", np.atleast_1d(clients), len(self.selector.clients))
            self.given_up |= {(number, client) for client in positions.tolist()}

    def _replies(self, selection: Selection) -> Replies:
        number = _number(selection)
        if number not in self.open:
            raise TellError(f"round {number} is not open in these books; it was closed or never asked here.")
        replies = self.open[number]
        if selection is not replies.selection and not _same(selection.clients, replies.selection.clients):
            raise TellError(f"that selection of round {number} is not the one that was asked here; pass that one.")
        return replies

    def _note(self, event: str, **entry: Any) -> None:
        if self.log is not None:
            logs.append(self.log, {"event": event, **entry})

    def _log_tell(self, selection: Selection, feedback: Feedback, metrics: RoundMetrics | None) -> None:
        if self.log is not None:
            measured = None if metrics is None else dataclasses.asdict(metrics)
            told = logs.plain(feedback.resolved(selection))
            self._note("tell", round=selection.round, feedback=told, metrics=measured)


def _about(clients: ArrayLike, outcome: Outcome, columns: Mapping[str, ArrayLike]) -> Feedback:
    positions = np.atleast_1d(checks.as_array("reply", "clients", clients, None))
    if positions.dtype == bool:
        raise InputError("clients is a mask; pass the positions of those who replied.")
    for name in columns:
        if name not in ("latency", "censored", "rounds_late", *FEEDBACK_COLUMNS, "update"):
            known = ("latency", "rounds_late", *FEEDBACK_COLUMNS, "update")
            raise unknown("column", name, known, owner="a reply")
    values: dict[str, Any] = {
        name: np.atleast_1d(checks.as_array("reply", name, column, None)) for name, column in columns.items()
    }
    return Feedback(clients=positions, outcome=np.full(positions.shape, outcome), **values)


def _number(selection: Selection) -> int:
    """The round of what should be a selection."""
    if not isinstance(selection, Selection):
        raise InputError(f"the books got {type(selection).__name__}; pass the Selection that ask returned.")
    return checks.whole("selection.round", selection.round, minimum=-checks.MOST_WHOLE)


def _same(clients: Any, others: IntArray) -> bool:
    try:
        return bool(np.array_equal(clients, others))
    except (TypeError, ValueError):
        return False
