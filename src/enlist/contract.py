"""The contract: `Selector` and its hooks. The whole library rests on this module.

    selector = enlist.create("oort", clients, seed=7)
    picked = selector.ask(available, k=20, now=clock, deadline=100.0)
    selector.tell(picked, enlist.Feedback(outcome=..., latency=..., loss_rms=...))

A selector of your own overrides `choose` and, if it learns, `learn`; see docs/write-a-selector.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from enlist import storage
from enlist._internal import aliases, checks, needs
from enlist._internal.importing import full_name
from enlist._internal.locks import Shared, exclusive
from enlist._internal.settings import NoSettings, build_settings
from enlist._internal.text import plain_table
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.clients import Clients
from enlist.errors import InputError, PopulationError, TellError
from enlist.methods import WithSettings
from enlist.privacy import Privacy, needed_for
from enlist.records import ALIGNED, Feedback, Outcome, RoundMetrics, Selection
from enlist.rounds import (
    PENDING,
    Choice,
    Counts,
    Observation,
    OpenSelection,
    OpenSelections,
    Request,
    as_selection,
    checked_enough,
)
from enlist.state import NoState, State

__all__ = ["Choice", "Observation", "Request", "Selector", "SettingsT", "StateT"]

if TYPE_CHECKING:  # so that a selector without settings or state can be `class Mine(Selector)`
    from typing_extensions import TypeVar as TypeVarWithDefault

    SettingsT = TypeVarWithDefault("SettingsT", default=NoSettings)
    StateT = TypeVarWithDefault("StateT", bound=State, default=NoState)
else:
    SettingsT = TypeVar("SettingsT")
    StateT = TypeVar("StateT", bound=State)


class Selector(Shared, Generic[SettingsT, StateT]):
    """Decides which clients take part in a round, and learns from every round.

    Subclasses set `name` and, if they have any, `Settings` (a frozen dataclass), `State` (a `State`), `needs` and
    `presets`; they override `choose` and, if they learn, any of `learn`, `amend`, `learn_round` and `watch`.

    Several threads may share a selector: `ask`, `tell`, `observe`, `join`, `compact`, `accept`, `explain` and `save`
    run one at a time, so no round number is used twice and no outcome is lost. The order of threads is up to chance:
    selections stay valid, but a second run may differ. Hooks run with the lock held.

    >>> import enlist
    >>> selector = enlist.create("cs-ucb", enlist.Clients(count=4), seed=1)
    >>> picked = selector.ask(k=2, deadline=10.0)
    >>> selector.tell(picked, enlist.Feedback(latency=[2.0, 8.0]))
    >>> selector.counts.observed.sum()
    np.int64(2)
    """

    name: ClassVar[str] = ""
    """Its name; by default module:Class."""
    registered: ClassVar[bool] = False
    """Whether `name` alone finds this class; `enlist.register` sets it."""
    reference: ClassVar[str] = ""
    needs: frozenset[str] = frozenset()
    """Columns it cannot do without: Feedback's by bare name, others as `clients.`, `round.` or `context.NAME`."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    may_choose_fewer: ClassVar[bool] = False
    """True if it may return fewer than min(k, available), as a deadline policy does."""
    trains_all: ClassVar[bool] = False
    """True if every available client trains and the server picks among arrivals with `accept` (SAFA)."""
    max_clients: ClassVar[int | None] = None

    Settings: type[SettingsT] = NoSettings  # type: ignore[assignment]
    State: type[StateT] = NoState  # type: ignore[assignment]
    with_: ClassVar[Any] = WithSettings(dict)
    """A method with other settings: `Oort.with_(penalty=1.0)`. Declare `with_ = WithSettings(MySettings)` beside
    `Settings`, and editors complete and check it."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.registered = False
        if not cls.__dict__.get("name"):
            cls.name = full_name(cls)

    def __init__(
        self, clients: Clients, *, seed: int = 0, preset: str | None = None, max_open: int = 100, **settings: Any
    ) -> None:
        if not isinstance(clients, Clients):
            raise InputError(f"a selector got {type(clients).__name__} as clients; pass enlist.Clients(...).")
        self.clients = clients
        self.seed = checks.whole("seed", seed, minimum=0)
        self.preset = preset
        self.max_open = checks.whole("max_open", max_open, minimum=1)
        self.settings: SettingsT = build_settings(type(self), preset, settings)
        self._check_population(clients)
        self.rng = np.random.default_rng(self.seed)
        self.round = 0
        self.last_k = 1
        self.counts = Counts.create(len(clients))
        self.openings = OpenSelections()
        self.state: StateT = self.initial_state()

    # What a selector overrides.

    @classmethod
    def needs_with(cls, preset: str | None = None, **settings: Any) -> frozenset[str]:
        """What it needs with these settings, before there are any clients."""
        selector = cls.__new__(cls)
        selector.settings = build_settings(cls, preset, settings)
        return selector.needs

    def initial_state(self) -> StateT:
        """The state before the first round."""
        return self.State.create(len(self.clients))

    def validate(self, request: Request) -> None:
        """Refuse a request that cannot be served, before anything changes; `request.k` is still as asked."""

    def watch(self, available: IntArray, now: float) -> None:
        """Learn from who is available; called by `observe` and before each choice."""

    def begin_round(self, request: Request) -> None:
        """Do the work of every round, even if there is nothing to choose from."""

    def choose(self, request: Request) -> Choice:
        """Choose `request.k` of `request.available`; called only if there is a real choice."""
        raise NotImplementedError(f"{type(self).__name__} must define choose(request)")

    def chosen(self, selection: Selection) -> None:
        """Note who was chosen; called after every choice, even an empty or forced one."""

    def learn(self, told: Observation) -> FloatArray | None:
        """Learn final outcomes. The return value comes back as `told.credited` if a late client arrives after all."""

    def amend(self, told: Observation) -> None:
        """Learn the true values of clients that were late (outcome ARRIVED)."""

    def learn_round(self, selection: Selection, completed: IntArray, metrics: RoundMetrics) -> None:
        """Learn what the server measured after a round in which the clients `completed` took part."""

    def candidates(self, available: ArrayLike | None = None, k: int = 1) -> IntArray:
        """Clients whose fresh values this selector wants to see before it chooses; pass them as `ask(fresh=...)`."""
        return np.zeros(0, dtype=np.int64)

    def accept(self, arrivals: ArrayLike, k: int) -> IntArray:
        """Of `arrivals`, in order of arrival, the clients that the server takes (if `trains_all`)."""
        raise InputError(f"selector '{self.name}' chooses before training; only one with trains_all=True can accept.")

    def summary(self) -> dict[str, FloatArray]:
        """Columns for `repr`, one row per client."""
        return {}

    # The contract.

    @exclusive
    def ask(
        self,
        available: ArrayLike | None = None,
        k: int = 1,
        *,
        now: float | None = None,
        deadline: float = math.inf,
        forecast: ArrayLike | None = None,
        fresh: Feedback | None = None,
        busy: ArrayLike | None = None,
        enough: int | None = None,
        context: Mapping[str, ArrayLike] | None = None,
        asynchronous: bool = False,
    ) -> Selection:
        """Choose at most `k` of the available clients for the next round.

        available   boolean mask over all clients, or their positions; None means all clients
        busy        mask or positions of clients that are available but still at work for an earlier round: not
                    chosen, but still seen by selectors that learn who is available
        now         the caller's clock in seconds; without it, time is counted in rounds
        deadline    seconds after which a reply is late; anything beyond 1e15 means none
        forecast    probability for each client of being available in the next round window
        fresh       values measured just now for the clients that `candidates` named
        enough      replies that end the round, if it does not wait for all k (over-commitment); k if not given
        context     what changes from round to round, one number per client and name: battery, charging, bandwidth
        asynchronous   True if clients are replaced as they finish: the server does not wait for these k as a set, and
                    each ask is one round of the selector
        """
        online = self.resolve_available(available)
        free = online
        if busy is not None:
            working = checks.positions("busy", busy, len(self.clients))
            free = np.setdiff1d(online, working, assume_unique=True) if len(working) else online
        k = checks.whole("k", k, minimum=0)
        request = Request(
            round=self.round + 1,
            available=free,
            everybody_online=online,
            k=k,
            enough=k if enough is None else checked_enough(enough, k),
            population=len(self.clients),
            now=float(self.round + 1) if now is None else checks.finite("now", now),
            deadline=checks.seconds("deadline", deadline),
            forecast=None if forecast is None else checks.probabilities("forecast", forecast, len(self.clients)),
            fresh=None if fresh is None else self._checked_fresh(fresh),
            context=needs.checked_context(self.name, self.needs, context or {}, len(self.clients)),
            asynchronous=bool(asynchronous),
        )
        self.validate(request)
        self._expire(before=request.round - self.max_open)
        self.round = request.round
        self.watch(request.online, request.now)
        request = dataclasses.replace(request, k=min(request.k, len(request.available)))
        self.last_k = max(request.k, 1)
        self.begin_round(request)
        selection = as_selection(self._choice(request), request, type(self).__name__)
        self.counts.selected[selection.clients] += 1
        self.chosen(selection)
        self.openings[selection.round] = OpenSelection.of(selection)
        return selection

    @exclusive
    def tell(self, selection: Selection, feedback: Feedback, round: RoundMetrics | None = None) -> None:
        """Report the outcomes of a selection, or of part of it; late or out-of-order reports are fine.

        Each selected client gets one final outcome; one that was LATE may be amended once by ARRIVED.
        `round` carries what the server measured, once per selection, ideally with its last outcomes.
        """
        opening = self.openings.waiting(self._checked(selection, "tell"), self.round, self.max_open)
        selection = opening.selection
        if not isinstance(feedback, Feedback):
            raise InputError(f"tell got {type(feedback).__name__} as feedback; pass enlist.Feedback(...).")
        if round is not None and not isinstance(round, RoundMetrics):
            raise InputError(f"tell got {type(round).__name__} as round; pass enlist.RoundMetrics(...).")
        feedback = feedback.resolved(selection)
        told = Observation(selection, feedback)
        index = np.searchsorted(selection.clients, told.clients)
        amending = told.outcome == Outcome.ARRIVED
        opening.check_repeats(told, index)
        after = opening.outcome.copy()
        after[index] = told.outcome
        finished = opening.finished_after(after)
        self._check_needs(told, opening, round, settled=not (after == PENDING).any())

        if amending.any():
            first, late = told.part(~amending), told.part(amending, opening.credited[index[amending]])
        else:
            first, late = told, None
        if len(first.clients):
            credited = self.learn(first)
            if credited is not None:
                opening.credited[index[~amending]] = credited
        if late is not None:
            self.amend(late)
        self.counts.observed[told.clients[told.completed]] += 1
        opening.outcome = after
        if round is not None:
            opening.metrics_told = True
            done = (after == Outcome.COMPLETED) | (after == Outcome.ARRIVED)
            self.learn_round(selection, selection.clients[done], round)
        if finished:
            del self.openings[selection.round]

    @exclusive
    def expire(self, selection: Selection) -> None:
        """Close a selection now, as happens after `max_open` rounds: clients without an outcome count as dropped, late
        ones stay late. Asynchronous drivers, whose clients may work through any number of asks, call it for late
        clients."""
        number = self._checked(selection, "expire").round
        if number in self.openings:
            self._close(number)

    @exclusive
    def observe(self, available: ArrayLike | None, now: float) -> None:
        """Say who is available without asking for a selection."""
        positions = self.resolve_available(available)
        self.watch(positions, checks.finite("now", now))

    @exclusive
    def join(self, more: Clients) -> IntArray:
        """Append clients, keep what was learned; returns the new positions. Clients leave by not being available."""
        if not isinstance(more, Clients):
            raise InputError(f"join got {type(more).__name__}; pass enlist.Clients(...).")
        clients = self.clients.joined(more)
        self._check_population(clients)
        before, self.clients = len(self.clients), clients
        self.counts.grow(len(more))
        self.state.grow(len(more))
        self.joined(before)
        return np.arange(before, len(clients))

    def joined(self, before: int) -> None:
        """Hook: the clients from position `before` on are new; `state` has already grown."""

    @exclusive
    def compact(self, keep: ArrayLike) -> IntArray:
        """Forget every client but those in `keep`; returns the old positions in their new order."""
        positions = checks.positions("keep", keep, len(self.clients))
        waiting = [number for number, opening in self.openings.items() if len(opening.pending)]
        if waiting:
            raise TellError(f"cannot compact: rounds {waiting} still wait for outcomes; tell them first.")
        if not len(positions):
            raise InputError("cannot compact to no clients at all; keep at least one.")
        self.openings.clear()
        self.clients = self.clients.kept(positions)
        self.counts.keep(positions)
        self.state.keep(positions)
        self.compacted(positions)
        return positions

    def compacted(self, kept: IntArray) -> None:
        """Hook: only the clients that were at positions `kept` are left; `state` has already shrunk."""

    def loaded(self) -> None:
        """Hook: `state` has just been read from a file; recompute whatever is derived from it."""

    @exclusive
    def explain(self, selection: Selection) -> dict[str, AnyArray]:
        """For each selected client its id, how often it was selected and observed, and the terms of its score."""
        selection = self._checked(selection, "explain")
        return {
            "client": self.clients.names(selection.clients),
            "selected": self.counts.selected[selection.clients],
            "observed": self.counts.observed[selection.clients],
            **selection.terms,
            **{name: values for name in ALIGNED if (values := getattr(selection, name)) is not None},
        }

    @property
    def privacy(self) -> Privacy:
        """What it must see of individual clients to do its work."""
        return needed_for(self.needs)

    @exclusive
    def save(self, folder: str | PathLike[str]) -> None:
        """Write everything (settings, clients, state, generator, open selections) as JSON and npz; atomic."""
        storage.save(self, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str], **functions: Callable[..., Any]) -> Self:
        """Read what `save` wrote and continue bit-exactly; settings that were functions must be passed again."""
        return storage.load(folder, cls, functions)

    def check_columns(self, feedback: Feedback) -> None:
        """Refuse feedback about clients that replied if it lacks a column that this selector needs."""
        outcome = feedback.outcome
        if outcome is None or not ((outcome == Outcome.COMPLETED) | (outcome == Outcome.ARRIVED)).any():
            return
        needs.check_feedback(self.name, self.needs, feedback)

    def resolve_available(self, available: ArrayLike | None) -> IntArray:
        """Sorted positions from a mask, a list of positions, or None for all."""
        return checks.positions("available", available, len(self.clients))

    @exclusive
    def __repr__(self) -> str:
        head = f"{type(self).__name__}({self.name!r}, clients={len(self.clients)}, round={self.round})"
        if not self.round:
            return head
        top = np.argsort(-self.counts.selected, kind="stable")[:5]
        columns = {"client": self.clients.names(top), "pulls": self.counts.selected[top]}
        columns |= {title: values[top] for title, values in self.summary().items()}
        return f"{head}\n{plain_table(columns)}"

    # Book-keeping.

    def _choice(self, request: Request) -> Choice:
        if request.k == 0:
            return Choice(np.zeros(0, dtype=np.int64))
        if request.k == len(request.available) and not self.may_choose_fewer:
            return Choice(request.available)
        return self.choose(request)

    def _checked(self, selection: Selection, call: str) -> Selection:
        return self.openings.checked(selection, call, len(self.clients))

    def _expire(self, before: int) -> None:
        for number in [number for number in self.openings if number <= before]:
            self._close(number)

    def _close(self, number: int) -> None:
        unheard = self.openings.pop(number).unheard()
        if unheard is not None:
            self.learn(unheard)

    def _check_needs(
        self, told: Observation, opening: OpenSelection, metrics: RoundMetrics | None, settled: bool
    ) -> None:
        if metrics is not None and opening.metrics_told:
            raise TellError(f"round {opening.selection.round} already has its RoundMetrics; tell them once.")
        self.check_columns(told.feedback)
        if metrics is None and settled and not opening.metrics_told and len(opening.selection):
            needs.refuse_without_round(self.name, self.needs)

    def _check_population(self, clients: Clients) -> None:
        needs.check_clients(self.name, self.needs, clients)
        if self.max_clients is not None and len(clients) > self.max_clients:
            raise PopulationError(
                f"selector '{self.name}' serves at most {self.max_clients} clients, not {len(clients)}; choose another."
            )

    def _checked_fresh(self, fresh: Feedback) -> Feedback:
        if not isinstance(fresh, Feedback) or fresh.clients is None:
            raise InputError("fresh names no clients; pass Feedback(clients=selector.candidates(...), loss=...).")
        everybody = Selection(self.round, checks.positions("fresh.clients", fresh.clients, len(self.clients)))
        return fresh.resolved(everybody)


__getattr__ = aliases.former_names(__name__)
