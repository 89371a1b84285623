"""Asynchronous runs: clients are replaced as they finish, and a round is a step of the server.

`Asynchronous.step` is what `Simulation.step` is for rounds. What is particular to a protocol is in
protocols/asynchronous.py; state, clients, updates and driver are those of the simulation.
"""

from __future__ import annotations

import math

from enlist.errors import InputError
from enlist.records import Outcome, Selection
from enlist.runs.reasons import reasons_of
from enlist.simulation.evaluation import Evaluator
from enlist.simulation.protocols import AsynchronousProtocol, Versions
from enlist.simulation.round.clock import Event, Kind
from enlist.simulation.round.driving import Driver
from enlist.simulation.round.evaluating import evaluate, finished
from enlist.simulation.round.rows import RoundRecord
from enlist.simulation.round.steps import EndedParticipation, ServerStep, at_work, events
from enlist.simulation.round.updates import Updates, weights
from enlist.simulation.round.waiting import IDLE, PATIENCE, Schedule
from enlist.training.flat import Vectors

LOSSES = 10
"""A step ends without a full buffer once it has lost this many times as many clients as work at once."""
VERSION_BYTES = 8 * 2**30
"""Memory limit for old models that clients still train from."""
OUTCOMES = {Kind.ERROR: Outcome.FAILED, Kind.LOST: Outcome.DROPPED, Kind.DEADLINE: Outcome.LATE}


class Asynchronous:
    """The steps of a run whose protocol is asynchronous.

    driver      asks and tells the selector; its clients and its state are those of the run
    updates     trains clients
    evaluator   measures the model

    >>> from enlist.simulation import Config, Simulation
    >>> config = Config(data={"clients": 9}, rounds={"protocol": "buffered", "concurrency": 5, "buffer": 2})
    >>> with Simulation(config) as simulation:
    ...     rows = [simulation.step().row for _ in range(3)]
    >>> [(row["selected"], row["completed"]) for row in rows]
    [(6, 2), (2, 2), (2, 2)]
    """

    def __init__(self, protocol: AsynchronousProtocol, driver: Driver, updates: Updates, evaluator: Evaluator) -> None:
        self.protocol, self.driver, self.updates, self.evaluator = protocol, driver, updates, evaluator
        self.state, self.clients = driver.state, driver.clients
        self.schedules: dict[int, tuple[Selection, Schedule]] = {}
        """Schedules of selections with clients at work; not part of the state, as they can be recomputed."""

    @property
    def versions(self) -> Versions:
        """The model versions that clients at work were sent."""
        assert isinstance(self.state.memory, Versions)
        return self.state.memory

    def step(self) -> RoundRecord:
        """One step: fill free places, wait until the buffer is full, train, merge, evaluate, tell, and record."""
        state, driver, config = self.state, self.driver, self.clients.config
        state.round += 1
        driver.join()
        online = self.clients.online(state.round, state.now, state.members)
        step = ServerStep(state.round, state.now, int(online.sum()), state.deadline.seconds)

        self._gather(step)
        step.end = state.now

        self._train(step)
        self._judge(step)

        self._forget_old()
        state.models.put(state.round, state.server.model)
        measured = evaluate(state, config, self.updates.trainer, self.evaluator, last=finished(state, config))
        learning = driver.tell_step(step, measured)

        users, joules = self.clients.population.users, config.energy is not None
        participations = [
            entry.row(step.number, self.versions.asked_in(entry.asked.round), users, joules) for entry in step.ended
        ]
        row = step.row(measured, self.clients.model_bytes, joules)
        state.memory = self.versions.kept({event.round for event in state.queue})
        selection = step.selection()
        reasons = reasons_of(selection) if config.evaluation.reasons else None
        return RoundRecord(selection, row, participations, reasons, step.choosing + learning)

    def _gather(self, step: ServerStep) -> None:
        """Process events, one instant at a time, until the buffer is full; fill free places after each instant."""
        state, queue = self.state, self.state.queue
        patience = state.now + PATIENCE
        while not self.protocol.full(len(step.updates)) and not self._hopeless(step):
            if queue.next_time > state.now:
                again = self._fill(step)
                later = min(queue.next_time, again)
                if not len(queue) and later > patience:
                    state.now, state.abandoned = patience, True
                    return
                state.now = max(later, math.nextafter(state.now, math.inf))
                if queue.next_time > state.now:
                    continue
            self._take(queue.pop(), step)
            patience = state.now + PATIENCE

    def _fill(self, step: ServerStep) -> float:
        """Select clients for all free places; returns when to try again if some places stay free."""
        state = self.state
        places = self.protocol.places(len(state.queue))
        if places <= 0:
            return math.inf
        online, busy = self.clients.online(state.round, state.now, state.members), at_work(state.queue, state.members)
        free = int((online & ~busy).sum())
        if free:
            picked, candidates, choosing = self.driver.ask(online, places, places, self.updates.losses, busy)
            step.asked.append(picked)
            step.candidates += candidates
            step.choosing += choosing
            state.memory = self.versions.asked(picked.round, state.round - 1)
            self.schedules[picked.round] = picked, self.driver.schedule(picked)
            for event in events(picked, self._schedule(picked.round)):
                state.queue.push(event)
            if len(picked) == places:
                return math.inf
            if len(picked) < free:  # the selector wants no more clients now
                return state.now + IDLE
        coming = self.clients.population.availability.next_online(state.now)
        return coming if coming > state.now else state.now + IDLE

    def _take(self, event: Event, step: ServerStep) -> None:
        """A participation has ended: buffer its update, unless the model version it trained from is gone."""
        self.state.now = event.time
        asked = self.driver.books.selection(event.round)
        assert asked is not None
        staleness = self.state.round - 1 - self.versions.sent[event.round]
        ended = EndedParticipation(
            asked, event.client, OUTCOMES.get(event.kind, Outcome.COMPLETED), staleness, self._schedule(event.round)
        )
        if event.kind == Kind.ERROR:
            ended.why = "crashed"
        elif event.kind == Kind.REPLY and self.protocol.gone(staleness):
            ended.outcome = Outcome.LATE
            limit = self.protocol.settings.max_staleness
            ended.why = f"stale: {staleness} steps old, and rounds.max_staleness is {limit}"
        step.ended.append(ended)

    def _hopeless(self, step: ServerStep) -> bool:
        """Whether so many clients were lost that the server steps with what it has."""
        return len(step.ended) - len(step.updates) >= LOSSES * self.protocol.settings.at_work

    def _train(self, step: ServerStep) -> None:
        """Train the clients whose updates are in the buffer, in client order, and change the model."""
        server = self.state.server
        buffer = sorted(step.updates, key=lambda entry: (entry.client, entry.asked.round))
        tasks = self.updates.tasks([(entry.asked, entry.client, entry.share) for entry in buffer])
        if self.protocol.averages:
            factors = {_sender(entry): self.protocol.counts(entry.staleness) for entry in buffer}
            given = _given(buffer)
            reports = self.updates.averaged(tasks, given, factors)
            for entry in buffer:
                entry.report = reports[_sender(entry)]
                weight = given.get(_sender(entry), server.aggregator.weight(entry.report.num_examples))
                entry.weight = math.nan if weight is None else factors[_sender(entry)] * weight
            server.finish()
            return
        found, models = self.updates.kept(tasks)
        for entry in buffer:
            entry.report, entry.weight = found[entry.client], self.protocol.counts(entry.staleness)
            if entry.client in models:
                self._mix(entry, models[entry.client])

    def _mix(self, entry: EndedParticipation, model: Vectors) -> None:
        """Move the global model towards the model of a client."""
        server = self.state.server
        if entry.asked.weights is not None:
            raise InputError(
                f"selector '{self.state.selector.name}' weighs updates itself, and rounds.protocol is 'async', which "
                "mixes models one by one; use 'buffered'."
            )
        server.move_to(self.protocol.mixed(server.model, model, entry.staleness))

    def _judge(self, step: ServerStep) -> None:
        """A client whose update was refused or distrusted has FAILED."""
        distrusted = self.state.server.distrusted if self.protocol.averages else {}
        buffer = step.updates
        for entry in buffer:
            if reason := distrusted.get(_sender(entry)):
                entry.report = entry.report._replace(error=reason)
            if entry.report.error:
                entry.outcome = Outcome.FAILED
        self.state.exclusion.note(((entry.client, bool(entry.report.error)) for entry in buffer), self.state.round)

    def _forget_old(self) -> None:
        """Drop versions that no client trains from any more; raise if the others take too much memory."""
        state, at_work = self.state, {event.round for event in self.state.queue}
        kept = self.protocol.needed(self.versions.kept(at_work), state.round)
        state.models.keep(kept)
        self.schedules = {number: known for number, known in self.schedules.items() if number in at_work}
        size = self.clients.model_bytes * len(kept)
        if size > VERSION_BYTES:
            raise InputError(
                f"clients at work train from {len(kept)} versions of the model, {size / 2**30:.1f} GiB; at most "
                f"{VERSION_BYTES / 2**30:.0f} GiB are kept. Set rounds.max_staleness below {len(kept)}, or a smaller "
                "rounds.concurrency."
            )

    def _schedule(self, number: int) -> Schedule:
        """The schedule of a selection with clients at work."""
        picked = self.driver.books.selection(number)
        assert picked is not None
        if number not in self.schedules or self.schedules[number][0] is not picked:
            self.schedules[number] = picked, self.driver.scheduled(picked)
        return self.schedules[number][1]


def _sender(entry: EndedParticipation) -> tuple[int, int]:
    return entry.client, entry.asked.round


def _given(buffer: list[EndedParticipation]) -> dict[tuple[int, int], float]:
    """Weights of a selector that weighs updates itself: each selection counts by its share of the buffer."""
    return {
        _sender(entry): weights(entry.asked)[entry.client] * len(entry.asked) / len(buffer)
        for entry in buffer
        if entry.asked.weights is not None
    }
