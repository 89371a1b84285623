"""A run: rounds of selection and real training under a virtual clock.

    simulation = Simulation(config)
    result = simulation.run()

`Simulation.step` is one round. Protocols are in protocols/, the parts of a round in round/, and what lasts from round
to round is `Simulation.state`. Steps of asynchronous servers are in asynchronous.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray, BoolArray, IntArray
from enlist.contract import Selector
from enlist.engine import Engine, one_core
from enlist.records import Outcome, Selection
from enlist.runs.checkpoints import snapshot
from enlist.runs.folder import Saves
from enlist.runs.reasons import reasons_of
from enlist.selectors import AnyMethod
from enlist.simulation.asynchronous import Asynchronous
from enlist.simulation.callbacks import Callback, Checkpoint
from enlist.simulation.config import Config
from enlist.simulation.evaluation import BestModel, Evaluator
from enlist.simulation.loop import do_rounds
from enlist.simulation.oracle import Omniscient, SimulatedTruth
from enlist.simulation.population import Population, build
from enlist.simulation.protocols import Arrivals, Merge, PendingClient, Protocol, RoundContext, protocol
from enlist.simulation.round.clients import SimulatedClients
from enlist.simulation.round.clock import Event, Kind
from enlist.simulation.round.driving import Driver
from enlist.simulation.round.evaluating import at_end, evaluate, finished, take_back
from enlist.simulation.round.exclusion import Exclusion
from enlist.simulation.round.models import Models
from enlist.simulation.round.rows import RoundRecord, Rows
from enlist.simulation.round.server import LateUpdate, Server
from enlist.simulation.round.state import RunState, Saved
from enlist.simulation.round.updates import Updates, weights
from enlist.simulation.round.waiting import IDLE, PATIENCE, Schedule, WaitResult, wait
from enlist.simulation.setup import check, make_job, make_selector, placed
from enlist.streams import Streams
from enlist.training.engine import SharedSamples
from enlist.training.flat import FlatModule, Vectors
from enlist.training.models import initialise
from enlist.training.workers import Trainer, one_thread


class Simulation:
    """One run of a configuration.

    selector     the selector, in place of the configuration's: any form of a method
    workers      processes that train; 0 trains in this process
    engine       whose actors the workers are; by default processes of this machine
    callbacks    observers, such as progress, run folder and TensorBoard
    population   replaces the one that the configuration describes
    data         the population's samples as tensors, if they are in shared memory already
    log          a new file for every ask and tell of the selector, one line of JSON each; `replay` plays it back

    >>> from enlist.simulation import Config
    >>> config = Config(data={"clients": 10}, rounds={"rounds": 3, "k": 4})
    >>> result = Simulation(config, "oort+penalty=1").run()
    >>> result["rounds"], result["status"], 0 < result["accuracy"] < 1
    (3, 'finished', True)
    """

    def __init__(
        self,
        config: Config,
        selector: AnyMethod | None = None,
        *,
        workers: int = 0,
        engine: Engine | None = None,
        callbacks: Sequence[Callback] = (),
        population: Population | None = None,
        data: dict[str, SharedSamples] | None = None,
        device: str = "cpu",
        log: str | PathLike[str] | None = None,
    ) -> None:
        self.config = config = config if selector is None else config.with_method(selector)
        self.callbacks, self.stopping = tuple(callbacks), False
        streams = Streams(config.seed)
        self.population = build(config) if population is None else population
        count, shape, classes = len(self.population), self.population.shape, self.population.classes
        module = initialise(config.model, shape, classes, streams)
        flat = FlatModule(module)
        self.clients = SimulatedClients(config, self.population, streams, 4 * flat.layout.numbers)
        self.expected = self.clients.expected()
        rule = protocol(config.rounds)
        self.state = RunState(
            selector=make_selector(config, self.population),
            server=Server(config.server, flat.layout, flat.vectors),
            models=Models(),
            memory=rule.memory(count, flat.layout),
            deadline=config.rounds.deadline.start(self.expected, self.clients.model_bytes),
            exclusion=Exclusion(count, config.server.exclude),
            hostility=self.clients.hostility,
            watch=BestModel(config.evaluation, regression=not classes),
            members=count - config.membership.joining,
            batteries=None if config.energy is None else config.energy.batteries(count, streams),
        )
        check(config, self.selector, classes, self.population.samples or data or {})
        if data is None:
            data = placed(self.population, module, shared=workers > 0 and (engine is None or engine.shares_memory))
        self.trainer = Trainer(make_job(config, self.selector, self.population, module, data, device), workers, engine)
        self.state.models.trainer = self.trainer
        self.evaluator = Evaluator(config.evaluation, self.trainer, self.population.held_out)
        self.updates = Updates(self.clients, self.trainer, rule, self.state)
        self.driver = Driver(self.clients, self.state, None if log is None else Path(log))
        self._rule = (
            rule if isinstance(rule, Protocol) else Asynchronous(rule, self.driver, self.updates, self.evaluator)
        )
        self._tell_truth()
        slot = self.state.models.put(0, self.server.model)
        try:  # errors in the user's metrics appear now
            _, self.state.client_accuracy = self.evaluator.measure(slot)
        except BaseException:
            self.trainer.close()
            raise

    @property
    def round(self) -> int:
        """Rounds that have begun; after `step`, rounds that have ended."""
        return self.state.round

    @property
    def now(self) -> float:
        """The virtual time, in seconds."""
        return self.state.now

    @property
    def accuracy(self) -> float:
        """On the test set, in the last evaluation; NaN before the first."""
        return self.state.accuracy

    @property
    def loss(self) -> float:
        """On the test set, in the last evaluation; NaN before the first."""
        return self.state.loss

    @property
    def selector(self) -> Selector[Any, Any]:
        """The selector of the run."""
        return self.state.selector

    @property
    def server(self) -> Server:
        """The server, which holds the global model."""
        return self.state.server

    def run(self) -> dict[str, Any]:
        """Run to the end, or until `stopping` is set; returns what result.json holds."""
        try:
            self.driver.check_log()
            with one_thread(), one_core():
                do_rounds(self, self.callbacks)
                result = self.result()
                self.trainer.catch_up()
                for callback in self.callbacks:
                    callback.on_finish(self, result)
        finally:
            self.close()
        return result

    def close(self) -> None:
        """End the worker processes and release what callbacks hold; `run` does so itself."""
        try:
            self.trainer.catch_up()
        finally:
            self.trainer.close()
            for callback in self.callbacks:
                callback.close()

    def meanwhile(self, errand: Callable[[], None]) -> None:
        """Do something that no later round depends on: while workers train clients, or now."""
        self.trainer.meanwhile(errand)

    def __enter__(self) -> Simulation:
        """Within the block, `step` uses a single thread, as `run` does, so both give the same bits."""
        self.threads = contextlib.ExitStack()
        for single in (one_thread(), one_core()):
            self.threads.enter_context(single)
        return self

    def __exit__(self, *failure: object) -> None:
        self.threads.close()
        self.close()

    @property
    def finished(self) -> bool:
        """Whether the last round, the end of the virtual time, or the target has been reached."""
        return finished(self.state, self.config)

    def step(self) -> RoundRecord:
        """One round; of an asynchronous run, one step of the server."""
        began = time.perf_counter()
        self.trainer.spent()  # earlier time belongs to no round
        record = self._round(self._rule) if isinstance(self._rule, Protocol) else self._rule.step()
        self.trainer.catch_up()  # only if no client was trained
        spent = self.trainer.spent()
        server = time.perf_counter() - began - spent.total
        return dataclasses.replace(record, spent=dataclasses.replace(spent, server=server))

    def _round(self, protocol: Protocol) -> RoundRecord:
        """One round: ask, wait, train the clients that are used, merge, evaluate, tell, and record what happened."""
        state, driver = self.state, self.driver
        state.round += 1
        joined = driver.join()
        available, late = self._somebody()
        context = self._context(joined)

        wanted = protocol.wanted(context)
        picked, candidates, choosing = driver.ask(available, wanted.asked, wanted.replies, self.updates.losses)
        schedule = driver.schedule(picked)  # for the clock alone
        waited = wait(state.queue, picked, schedule, state.now, functools.partial(protocol.enough, context, wanted))
        driver.give_up(waited.lost)

        taken = protocol.taken(context, waited.arrivals, driver.books.accept)
        state.memory = protocol.begun(context, picked.clients, _models(late))
        received = self._train(picked, schedule, waited, taken, late)
        merge = protocol.merge(dataclasses.replace(context, memory=state.memory), received)
        self._apply(merge, received)
        self._judge(picked, waited, received)

        start, state.now = state.now, waited.ended
        self._forget_old(protocol)
        state.models.put(state.round, self.server.model)
        measured = evaluate(state, self.config, self.trainer, self.evaluator, last=self.finished)
        learning = driver.tell(picked, schedule, waited, received.reports, measured)

        if self.config.energy is None:  # then it was for the selector alone
            schedule.energy = None
        rows = Rows(picked, schedule, waited, received.reports, received.late, self.population.users)
        down, up = len(picked) + candidates, len(received.reports) + len(received.late)
        row = rows.round(start, int(available.sum()), measured, self.clients.model_bytes, down, up)
        participations = rows.asked(merge.weights) + rows.arrived(merge.late_weights)
        reasons = reasons_of(picked) if self.config.evaluation.reasons else None
        return RoundRecord(picked, row, participations, reasons, choosing + learning)

    def result(self) -> dict[str, Any]:
        """The current status of the run."""
        state, status = self.state, "finished" if self.finished else "stopped"
        return {
            "status": "abandoned" if state.abandoned else status,
            "rounds": state.round,
            "time": state.now,
            "accuracy": None if math.isnan(state.accuracy) else state.accuracy,
            "loss": state.loss if math.isfinite(state.loss) else None,
            "target": self.config.evaluation.target,
            "rounds_to_target": state.reached_in or None,
            "time_to_target": None if math.isnan(state.reached_at) else state.reached_at,
            **state.watch.result(),
        }

    def columns(self) -> dict[str, AnyArray]:
        """The columns of clients.csv."""
        return self.population.columns(self.clients.model_bytes)

    def parts(self) -> dict[str, Saves]:
        """The parts that save themselves into a checkpoint, by name: the selector in its current state."""
        return {"selector": snapshot(self.selector)}

    def saved(self) -> Saved:
        """The contents of a checkpoint besides the selector: header, arrays, and weights by file, all copied."""
        return self.state.save()

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint, bit for bit as if the run had never stopped."""
        settings = self.config.selector.settings
        self.state.restore(checkpoint, {name: value for name, value in settings.items() if callable(value)})
        self.driver.go_on()
        self._tell_truth()

    def take_back_evaluation(self, rows: Callable[[], Sequence[Mapping[str, str]]]) -> list[str]:
        """Drop the evaluation of a round that is no longer the last; returns its columns of rounds.csv."""
        return [] if at_end(self.state, self.config) else take_back(self.state, self.config, rows)

    def _tell_truth(self) -> None:
        if isinstance(self.selector, Omniscient):
            self.selector.truth = SimulatedTruth(self.clients, self.state)

    def _somebody(self) -> tuple[BoolArray, list[LateUpdate]]:
        """Wait until clients are available; returns who they are, and late updates that came before then."""
        state = self.state
        late: list[LateUpdate] = []
        patience = state.now + PATIENCE
        while True:
            due = []
            while state.queue.next_time <= state.now:
                due.append(state.queue.pop())
            self.driver.give_up(event for event in due if event.kind != Kind.REPLY)
            late += self._arrived([event for event in due if event.kind == Kind.REPLY])
            online = self.clients.online(state.round, state.now, state.members)
            if (online & ~self.driver.books.busy).any() or state.now > patience:
                return online, late
            coming = self.population.availability.next_online(state.now)
            coming = coming if coming > state.now else state.now + IDLE
            later = min(coming, max(state.queue.next_time, state.now), patience + IDLE)
            # a minute after 30 billion years is the same time
            state.now = max(later, math.nextafter(state.now, math.inf))

    def _context(self, joined: IntArray) -> RoundContext:
        """What the protocol may know at the start of the round."""
        state, asked = self.state, self.driver.asked(self.state.queue)
        under_way = [
            PendingClient(event.client, event.round, asked[event.round].now)
            for event in state.queue
            if event.round in asked
        ]
        known = (state.round, state.now, state.members, state.length, self.expected)
        return RoundContext(*known, under_way, joined, state.memory)

    def _train(
        self, picked: Selection, schedule: Schedule, waited: WaitResult, taken: IntArray, before: Sequence[LateUpdate]
    ) -> Arrivals:
        """Train clients that replied in this round, then those of earlier ones."""
        state = self.state
        reports, models = self.updates.trained(picked, schedule, waited)
        during = self._arrived(waited.stale)
        return Arrivals(
            reports,
            taken,
            [*before, *during],
            {**_models(during), **models},
            merges_late=self.config.rounds.late_rule == "merge",
            given=weights(picked),
            weight=state.server.aggregator.weight,
            deviation=state.server.deviation,
            model=state.models.__getitem__,
            sizes=lambda: self.clients.sizes(np.arange(state.members), state.round, state.now),
        )

    def _arrived(self, events: Sequence[Event]) -> list[LateUpdate]:
        """Train clients that reply late, and tell the selector, except of bad updates."""
        if self.config.rounds.late_rule == "drop" or not events:
            return []
        asked = self.driver.asked(events)
        found = []
        for late in self.updates.late([event for event in events if event.round in asked], asked):
            found.append(late)
            self.driver.arrived(late, asked[late.round])
        return found

    def _apply(self, merge: Merge, received: Arrivals) -> None:
        """Change the model, and keep what the protocol keeps."""
        self.state.memory = merge.memory
        if merge.model is not None:
            self.server.move_to(merge.model)
        else:
            self.server.finish(received.usable, merge.discounts)

    def _judge(self, picked: Selection, waited: WaitResult, received: Arrivals) -> None:
        """Clients that the server distrusts have FAILED; late ones, already told to the selector, stay ARRIVED."""
        distrusted, reports = self.server.distrusted, received.reports
        if not distrusted and not self.state.exclusion.rounds:
            return
        for client in reports:
            if reason := distrusted.get((client, self.round)):
                reports[client] = reports[client]._replace(error=reason)
                waited.outcome[np.searchsorted(picked.clients, client)] = Outcome.FAILED
        came = [(entry.client, entry.round, entry.report) for entry in received.late]
        came += [(client, self.round, report) for client, report in reports.items()]
        self.state.exclusion.note(
            ((client, bool(report.error) or (client, round) in distrusted) for client, round, report in came),
            self.round,
        )

    def _forget_old(self, protocol: Protocol) -> None:
        """Drop what comes too late to count, and the models that no client trains from any more."""
        state, rounds = self.state, self.config.rounds
        oldest = state.round + 1 - rounds.max_lateness if rounds.late_rule != "drop" else math.inf
        self.driver.give_up(event for event in state.queue if event.round < oldest)
        state.queue.keep(event for event in state.queue if event.round >= oldest)
        state.models.keep(protocol.needed(state.memory, {event.round for event in state.queue}))


def _models(late: Sequence[LateUpdate]) -> dict[int, Vectors]:
    return {entry.client: entry.model for entry in late if entry.model is not None}
