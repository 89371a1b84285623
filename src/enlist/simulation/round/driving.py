"""Driving the selector of a simulation: what it is asked, and what it is told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.books import Books, cut
from enlist.errors import InputError
from enlist.records import Feedback, Outcome, RoundMetrics, Selection
from enlist.simulation.round.clients import SimulatedClients
from enlist.simulation.round.clock import Event
from enlist.simulation.round.rows import NOTHING
from enlist.simulation.round.server import LateUpdate
from enlist.simulation.round.state import RunState
from enlist.simulation.round.steps import EndedParticipation, ServerStep
from enlist.simulation.round.waiting import IDLE, Schedule, WaitResult
from enlist.simulation.setup import described, tells_accuracy
from enlist.training.local import Report

REPORTED = ("loss", "loss_rms", "accuracy", "accuracy_gain")
"""Values of a report that selectors are told."""
Losses = Callable[[IntArray], list[float]]
"""Mean losses of the current model on the samples of some clients."""
MEASURED = ("update_norm", "contribution")
"""What the server measures of updates, if the selector needs it."""


class TimedSelection(NamedTuple):
    """Who was selected, how many candidates were measured before, and how many seconds the choice took.

    >>> TimedSelection(Selection(1, np.array([3, 8])), candidates=0, seconds=0.01).candidates
    0
    """

    selection: Selection
    candidates: int
    seconds: float


class Driver:
    """Asks the selector of a run, and tells it what became of the clients.

    >>> from enlist.simulation import Config, Simulation
    >>> with Simulation(Config(data={"clients": 8})) as simulation:
    ...     asked = simulation.driver.ask(np.arange(8) < 5, wanted=3, replies=3, losses=None)
    >>> len(asked.selection), asked.candidates
    (3, 0)
    """

    def __init__(self, clients: SimulatedClients, state: RunState, log: Path | None = None) -> None:
        self.clients, self.state, self.log = clients, state, log
        self.rounds = clients.config.rounds
        self.begin()

    def begin(self) -> None:
        """Open the selector's books; the selector may have been loaded, and clients not under way are not awaited."""
        self.books = Books(self.state.selector, late=self.rounds.late_rule, log=self.log)
        under_way = {(event.round, event.client) for event in self.state.queue}
        for number, client in self.books.awaited:
            if (number, client) not in under_way:
                self.books.give_up(number, client)

    def go_on(self) -> None:
        """Continue with the selector of a checkpoint; the log is cut back to that checkpoint."""
        self.begin()
        if self.log is not None:
            cut(self.log, self.state.round, "step" if self.rounds.asynchronous else "tell")

    def check_log(self) -> None:
        """Refuse to mix the log of a new run with another."""
        if self.log is not None and not self.state.round and self.log.exists() and self.log.stat().st_size:
            raise InputError(f"{self.log} holds a log already; name a new file.")

    def give_up(self, events: Iterable[Event]) -> None:
        """Give up on these clients of earlier rounds."""
        for event in events:
            self.books.give_up(event.round, event.client)

    def join(self) -> IntArray:
        """Let the clients of this round join; returns their positions."""
        state, first = self.state, self.state.members
        for join in self.clients.config.membership.joins:
            if join.round == state.round:
                positions = np.arange(state.members, state.members + join.clients)
                self.books.join(described(self.clients.config, self.clients.population).kept(positions))
                state.members += join.clients
        return np.arange(first, state.members)

    def asked(self, events: Iterable[Event]) -> dict[int, Selection]:
        """Round -> its selection, for the rounds of these events that are still open."""
        found = {number: self.books.selection(number) for number in {event.round for event in events}}
        return {number: selection for number, selection in found.items() if selection is not None}

    def ask(
        self, available: BoolArray, wanted: int, replies: int, losses: Losses | None, at_work: BoolArray | None = None
    ) -> TimedSelection:
        """Ask the selector for `wanted` clients; `replies` replies end the round.

        `losses` is for selectors that measure before they choose; that time counts as the clients', not the selector's.
        `at_work` marks clients that cannot be selected in an asynchronous run.
        """
        state, busy = self.state, self.books.busy if at_work is None else at_work
        free = available & ~busy
        if not free.any():
            state.abandoned = True
        candidates, measuring = 0, 0.0

        def measure(clients: IntArray) -> Feedback:
            nonlocal candidates, measuring
            assert losses is not None
            start = time.thread_time()
            told = self.clients.losses(np.array(losses(clients), dtype=float), clients, state.round)
            candidates, measuring = len(clients), time.thread_time() - start
            return Feedback(clients=clients, loss=told)

        forecast = self.clients.forecast(state.round, state.now, self._window())
        began = time.thread_time()
        picked = self.books.ask(
            available,
            wanted,
            now=state.now,
            deadline=state.deadline.seconds,
            forecast=None if forecast is None else forecast[: state.members],
            measure=None if losses is None else measure,
            busy=busy | state.exclusion.now(free, state.round, self.rounds.k),
            enough=min(replies, wanted),
            asynchronous=at_work is not None,
            context=self._context(),
        )
        return TimedSelection(picked, candidates, time.thread_time() - began - measuring)

    def schedule(self, picked: Selection) -> Schedule:
        """What will become of clients that were just selected; their batteries are drained for it."""
        batteries = self.state.batteries
        left = None if batteries is None else batteries.at(picked.now)
        schedule = self.clients.schedule(picked, self.state.memory.asked_in(picked.round), left)
        if batteries is not None and schedule.energy is not None:
            batteries.spend(picked.clients, schedule.energy, picked.now)
        return schedule

    def scheduled(self, picked: Selection) -> Schedule:
        """The same schedule again, for clients still at work: nothing else has drained their batteries since then."""
        batteries = self.state.batteries
        left = None if batteries is None else batteries.before
        return self.clients.schedule(picked, self.state.memory.asked_in(picked.round), left)

    def _context(self) -> dict[str, FloatArray] | None:
        """The part of the changing context that the selector uses."""
        state, needs, found = self.state, self.state.selector.needs, {}
        if state.batteries is not None and needs & {"clients.battery", "context.battery"}:
            found["battery"] = state.batteries.at(state.now)
        if state.batteries is not None and "context.charging" in needs:
            found["charging"] = state.batteries.charging(state.now).astype(float)
        if "context.bandwidth" in needs:
            found["bandwidth"] = self.clients.bandwidth(state.round, state.now)
        return {name: values[: state.members] for name, values in found.items()} or None

    def _window(self) -> float:
        """Seconds that a round is expected to take."""
        seconds = self.state.deadline.seconds
        window = seconds if math.isfinite(seconds) else self.state.length
        return window if math.isfinite(window) else IDLE

    def arrived(self, late: LateUpdate, asked: Selection) -> None:
        """Tell the selector of a late update; a refused one is not told, and only frees its client."""
        report, client = late.report, np.array([late.client])
        if report.error:
            self.books.give_up(late.round, client)
            return
        values = _reported([report])
        if self.clients.power is not None:
            values["energy"] = np.array([self.clients.spent(asked, late.round, late.client)])
        latency = self.clients.claimed("latency", np.array([late.latency]), client, late.round)
        self.books.arrived(asked, late.client, rounds_late=late.lateness, latency=latency, **values)

    def tell(
        self,
        picked: Selection,
        schedule: Schedule,
        waited: WaitResult,
        reports: Mapping[int, Report],
        measured: Mapping[str, float],
    ) -> float:
        """Tell the selector what became of the selected clients; returns the seconds that it took to learn."""
        state, replied = self.state, waited.outcome == Outcome.COMPLETED
        claimed = self.clients.claimed("latency", schedule.latency, picked.clients, state.round)
        told = [
            reports[client] if good else NOTHING
            for client, good in zip(picked.clients.tolist(), replied.tolist(), strict=True)
        ]
        columns = {"latency": claimed, **_reported(told), "upload_latency": schedule.upload}
        if schedule.energy is not None:
            columns["energy"] = schedule.energy
        metrics = self._metrics(waited.seconds, measured)
        began = time.thread_time()
        self.books.conclude(picked, waited.outcome, columns, waited=waited.seconds, round=metrics)
        learning = time.thread_time() - began
        latency = claimed[replied]
        overdue = picked.clients[replied][latency > picked.deadline]  # they claim more time than they were given
        self.books.give_up(picked.round, overdue)
        state.deadline.observe(latency)
        state.length = waited.seconds if math.isnan(state.length) else 0.75 * waited.seconds + 0.25 * state.length
        return learning

    def tell_step(self, step: ServerStep, measured: Mapping[str, float]) -> float:
        """Tell the selector how participations ended in a step; returns the seconds that it took to learn."""
        state, metrics = self.state, self._metrics(step.seconds, measured)
        latencies = []
        learning = 0.0
        for asked, ended in step.by_selection():
            feedback = self._ended(asked, ended)
            assert feedback.outcome is not None
            assert feedback.latency is not None
            latencies += feedback.latency[feedback.outcome == Outcome.COMPLETED].tolist()
            opening = state.selector.openings[asked.round]
            last = len(ended) == len(opening.pending)
            began = time.thread_time()
            self.books.tell(asked, feedback, metrics if last else None)
            learning += time.thread_time() - began
        self.books.mark(state.round)
        state.deadline.observe(np.array(latencies))
        state.length = step.seconds if math.isnan(state.length) else 0.75 * step.seconds + 0.25 * state.length
        return learning

    def _ended(self, asked: Selection, ended: Sequence[EndedParticipation]) -> Feedback:
        """How participations of one selection ended, for the selector; clients with too long a latency are late."""
        clients = np.array([entry.client for entry in ended], dtype=np.int64)
        outcome = np.array([entry.outcome for entry in ended], dtype=np.int8)
        completed = outcome == Outcome.COMPLETED
        truth = np.array([entry.latency for entry in ended], dtype=float)
        latency = self.clients.claimed("latency", truth, clients, self.state.memory.asked_in(asked.round))
        overdue = completed & (latency > asked.deadline)
        outcome[overdue] = Outcome.LATE
        replied = [entry.report if good else NOTHING for entry, good in zip(ended, completed, strict=True)]
        values = _reported(replied)
        values["num_examples"] = np.where(completed, values["num_examples"], np.nan)
        values |= {"upload_latency": np.where(completed, [entry.upload for entry in ended], np.nan)}
        return Feedback(
            clients=clients,
            outcome=outcome,
            latency=np.where(np.isnan(truth), np.nan, latency),
            censored=[entry.censored for entry in ended],
            rounds_late=[entry.staleness for entry in ended],
            **values,
            **self._joules(ended, completed),
        )

    def _joules(self, ended: Sequence[EndedParticipation], completed: BoolArray) -> dict[str, AnyArray]:
        """The energy that clients spent whose replies are in, if energy is counted."""
        if self.clients.power is None:
            return {}
        return {"energy": np.where(completed, [entry.energy for entry in ended], np.nan)}

    def _metrics(self, duration: float, measured: Mapping[str, float]) -> RoundMetrics:
        asked = ("accuracy", "loss") if tells_accuracy(self.state.selector) else ()
        server = {name: measured.get(f"validation_{name}") for name in asked}
        finite = {name: value for name, value in server.items() if value is not None and math.isfinite(value)}
        return RoundMetrics(duration=duration, **finite)


def _reported(reports: Sequence[Report]) -> dict[str, AnyArray]:
    """What clients report, as selectors are told; also what the server measures of updates, where it does."""
    columns = dict(zip(Report._fields, zip(*reports, strict=True) if reports else repeat(()), strict=False))
    names = (*REPORTED, "num_examples", *MEASURED)
    values = np.array([columns[name] for name in names], dtype=float)  # one conversion for all columns
    told: dict[str, AnyArray] = dict(zip(names, values, strict=True))
    for name in MEASURED:
        if np.isnan(told[name]).all():
            del told[name]
    known = [sketch for sketch in columns["sketch"] if sketch is not None]
    if known:
        unknown = np.full_like(known[0], np.nan)
        told["update"] = np.stack([unknown if sketch is None else sketch for sketch in columns["sketch"]])
    return told
