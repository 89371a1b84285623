"""A run: rounds of selection and real training under a virtual clock.

    simulation = Simulation(config)
    result = simulation.run()

The loop is `Simulation.step`; what is particular to a protocol (whom to ask, when to stop waiting, what to do with
updates) is in protocols.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from enlist import checks
from enlist.books import Books
from enlist.devices import Latency
from enlist.errors import InputError
from enlist.processes import one_core
from enlist.records import Feedback, Outcome, RoundMetrics, Selection
from enlist.runs.columns import ROUNDS
from enlist.runs.folder import Saves
from enlist.selectors import AnyMethod
from enlist.simulation.callbacks import Callback, Checkpoint
from enlist.simulation.clock import Event, Kind, Queue
from enlist.simulation.config import Config
from enlist.simulation.drift import Drift
from enlist.simulation.evaluation import Evaluator, Watch, check_watch
from enlist.simulation.exclusion import Exclusion
from enlist.simulation.hostile import Hostility
from enlist.simulation.oracle import Omniscient, Truth
from enlist.simulation.population import Population, build
from enlist.simulation.protocols import protocol
from enlist.simulation.rows import NOTHING, RoundRecord, Seen
from enlist.simulation.server import Late, Server, Versions, under
from enlist.simulation.waiting import IDLE, Schedule, Waited, wait
from enlist.streams import Streams
from enlist.training.engine import Job, Placed
from enlist.training.flat import FlatModule, Vectors
from enlist.training.local import Report, Task
from enlist.training.models import initialise
from enlist.training.workers import Trainer, one_thread
from enlist.typing import AnyArray, BoolArray, IntArray

PATIENCE = 30 * 86400.0
"""Virtual seconds without any client that can be asked, after which a run gives up."""


class Simulation:
    """One run of a configuration.

    selector     who decides, in place of the configuration's: any form of a method
    workers      processes that train; 0 trains in this process
    callbacks    what goes along: progress, run folder, TensorBoard
    population   takes the place of the one that the configuration describes
    data         the population's samples as tensors, if they are in shared memory already

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
        callbacks: Sequence[Callback] = (),
        population: Population | None = None,
        data: dict[str, Placed] | None = None,
        device: str = "cpu",
    ) -> None:
        config = config if selector is None else config.with_method(selector)
        self.config, self.callbacks = config, tuple(callbacks)
        self.streams = Streams(config.seed)
        self.population = build(config) if population is None else population
        self.hostility = Hostility(config.hostile, len(self.population), self.streams)
        self.drift = Drift(config.drift, len(self.population), self.streams)
        self.exclusion = Exclusion(len(self.population), config.server.exclude)
        self.members = len(self.population) - config.membership.joining
        self.gone = self._leaving()
        known = self.population.clients
        self.selector = config.selector.kind()(
            known.kept(np.arange(self.members)) if config.membership.joins else known,
            seed=self.streams.number("selector") % 2**31,
            preset=config.selector.preset,
            max_open=config.rounds.max_lateness + 1 if config.rounds.uses_late else 100,
            **config.selector.settings,
        )
        self._tell_truth()
        if self._tells_accuracy and "validation" not in (self.population.samples or data or {}):
            raise InputError(
                f"selector '{config.selector.name}' learns from the server's accuracy, and data.validation is 0; "
                "set it, for example to 0.1."
            )
        check_watch(config.evaluation, self.population.samples or data or {})
        self.books = Books(self.selector, late="await" if config.rounds.uses_late else "drop")
        target = config.evaluation.target
        if self.population.classes and target is not None and target >= 1:
            raise InputError(f"evaluation.target is {target}; an accuracy lies between 0 and 1, for example 0.8.")
        module = initialise(config.model, self.population.shape, self.population.classes, self.streams)
        flat = FlatModule(module)
        self.server = Server(config.server, flat.layout, flat.vectors)
        self.model_bytes = 4 * self.server.layout.numbers
        expected = self.population.devices.expected(self.population.work, self.model_bytes)
        self.expected = expected.total
        self.deadline = config.rounds.deadline.start(self.expected, self.model_bytes)
        self.queue, self.versions = Queue(), Versions()
        self.round, self.now, self.length = 0, 0.0, math.nan
        self.accuracy, self.loss, self.reached = math.nan, math.nan, {"rounds": 0, "time": math.nan}
        self.stopping, self.abandoned, self.looked_at = False, False, 0
        self.selecting = 0.0
        self.protocol = protocol(self)
        self.watch = Watch(config.evaluation, regression=not self.population.classes)
        self.trainer = Trainer(self._job(module, data, workers, device), workers)
        self.trainer.put(self.versions.slot(0), self.server.model)
        self.evaluator = Evaluator(config.evaluation, self.trainer, self.population.held_out)
        try:
            self.evaluator.measure(self.versions.slot(0))  # what metrics of the user's cannot do is said now
        except BaseException:
            self.trainer.close()
            raise

    def run(self) -> dict[str, Any]:
        """Run to the end, or until `stopping` is set; returns what result.json holds."""
        try:
            with one_thread(), one_core():
                for callback in self.callbacks:
                    callback.on_start(self)
                while not self.finished and not self.stopping:
                    record = self.step()
                    for callback in self.callbacks:
                        callback.on_round(self, record)
                result = self.result()
                for callback in self.callbacks:
                    callback.on_finish(self, result)
        finally:
            self.close()
        return result

    def close(self) -> None:
        """End the worker processes and release what callbacks hold; `run` does it by itself."""
        self.trainer.close()
        for callback in self.callbacks:
            callback.close()

    def __enter__(self) -> Simulation:
        """Rounds done one by one, with `step`, get the single thread that `run` gives them: they give the same bits."""
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
        at_target = self.config.evaluation.stop_at_target and self.reached["rounds"] > 0
        return self._at_end or at_target or self.watch.exhausted

    @property
    def _at_end(self) -> bool:
        rounds = self.config.rounds
        out_of_time = rounds.seconds is not None and self.now >= rounds.seconds
        return self.round >= rounds.rounds or out_of_time or self.abandoned

    @property
    def _tells_accuracy(self) -> bool:
        return bool(self.selector.needs & {"round.accuracy", "round.loss"})

    def step(self) -> RoundRecord:
        """One round: ask, wait, train what came back, change the model, and tell."""
        self.round += 1
        self.selecting = 0.0
        self._welcome()
        available, late = self._somebody()
        picked = self._ask(available)
        schedule = self._schedule(picked)
        waited = wait(self.queue, picked, schedule, self.now, self.protocol.enough)
        used = self.protocol.taken(picked, waited)
        reports = self._train(picked, schedule, waited, used)
        late += self._arrived(waited.stale)
        good = [entry for entry in late if not entry.report.error]
        weights = dict(zip((entry.client for entry in good), self.protocol.merge(good), strict=True))
        self._judge(picked, waited, reports, late)
        start, self.now = self.now, waited.ended
        self._forget_old()
        self.trainer.put(self.versions.slot(self.round), self.server.model)
        measured = self._evaluate()
        self._tell(picked, schedule, waited, reports, measured)
        seen = Seen(self.round, picked, schedule, waited, reports, late, self.population.users)
        participations = seen.participations(self.protocol.weight) + seen.arrivals(weights)
        sent = (len(picked) + self.looked_at, len(reports) + len(late))
        row = seen.row(start, int(available.sum()), measured, self.model_bytes, *sent)
        return RoundRecord(picked, row, participations, picked.terms if self.config.evaluation.reasons else None)

    def result(self) -> dict[str, Any]:
        """How the run stands."""
        status = "finished" if self.finished else "stopped"
        return {
            "status": "abandoned" if self.abandoned else status,
            "rounds": self.round,
            "time": self.now,
            "accuracy": None if math.isnan(self.accuracy) else self.accuracy,
            "loss": self.loss if math.isfinite(self.loss) else None,
            "target": self.config.evaluation.target,
            "rounds_to_target": self.reached["rounds"] or None,
            "time_to_target": None if math.isnan(self.reached["time"]) else self.reached["time"],
            **self.watch.result(),
        }

    def _job(self, module: torch.nn.Module, data: dict[str, Placed] | None, workers: int, device: str) -> Job:
        measure = self.config.training.measure
        if measure is None:
            measure = bool(self.selector.needs & {"accuracy", "accuracy_gain"})
        if data is None:
            data = placed(self.population, module, shared=workers > 0)
        return Job(
            module,
            self.population.classes,
            self.config.training.without_code(),
            data,
            self.config.seed,
            measure=measure,
            device=device,
            **self.config.training.own(module, self.population.shape, self.population.classes),
        )

    def _tell_truth(self) -> None:
        if isinstance(self.selector, Omniscient):
            self.selector.truth = Truth(self)

    def _leaving(self) -> list[tuple[int, IntArray]]:
        count = len(self.population)
        leaves = self.config.membership.leaves
        return [(leave.round, checks.positions("membership.leaves", list(leave.clients), count)) for leave in leaves]

    def _welcome(self) -> None:
        for join in self.config.membership.joins:
            if join.round == self.round:
                positions = np.arange(self.members, self.members + join.clients)
                more = self.population.clients.kept(positions)
                self.protocol.joined(self.books.join(more))
                self.members += join.clients

    def _online(self) -> BoolArray:
        online = self.population.availability.online(self.now)[: self.members].copy()
        for since, clients in self.gone:
            if self.round >= since:
                online[clients[clients < self.members]] = False
        return online

    def _somebody(self) -> tuple[BoolArray, list[Late]]:
        """Who is available, once anybody is; late replies that have come before then."""
        late: list[Late] = []
        patience = self.now + PATIENCE
        while True:
            due = []
            while self.queue.next_time <= self.now:
                event = self.queue.pop()
                due += [event] if event.kind == Kind.REPLY else []
            late += self._arrived(due, between_rounds=True)
            online = self._online()
            if (online & ~self.busy).any() or self.now > patience:
                return online, late
            coming = self.population.availability.next_online(self.now)
            coming = coming if coming > self.now else self.now + IDLE
            later = min(coming, max(self.queue.next_time, self.now), patience + IDLE)
            self.now = max(
                later, math.nextafter(self.now, math.inf)
            )  # a minute after 30 billion years is the same time

    @property
    def busy(self) -> BoolArray:
        """Clients of earlier rounds that are still under way; who has crashed or gone offline since is not."""
        busy = np.zeros(self.members, dtype=bool)
        busy[[event.client for event in self.queue]] = True
        return busy

    def _ask(self, available: BoolArray) -> Selection:
        self.looked_at = 0
        busy = self.busy
        free = available & ~busy
        if not free.any():
            self.abandoned = True
        asked, began = self.protocol.asked(), time.thread_time()
        picked = self.books.ask(
            available,
            asked,
            now=self.now,
            deadline=self.deadline.seconds,
            forecast=self._forecast(),
            measure=self._measure,
            busy=busy | self.exclusion.now(free, self.round, self.config.rounds.k),
            enough=min(self.protocol.target, asked),
        )
        self.selecting += time.thread_time() - began
        return picked

    def _forecast(self) -> Any:
        accuracy = self.config.rounds.forecast
        if accuracy is None:
            return None
        window = self.deadline.seconds if math.isfinite(self.deadline.seconds) else self.length
        window = window if math.isfinite(window) else IDLE
        truth = self.population.availability.share(self.now + window, self.now + 2 * window)
        generator = self.streams.generator("forecast", self.round)
        guess, wrong = generator.uniform(size=len(truth)), generator.uniform(size=len(truth)) >= accuracy
        return np.where(wrong, guess, truth)[: self.members]

    def _measure(self, clients: IntArray) -> Feedback:
        """Losses of the present model on the samples of some clients, for selectors that look before they choose."""
        slot = self.versions.slot(self.round - 1)
        held = self.drift.shards(clients, self.round, self.now)
        spans = [self.population.span(shard, self.round) for shard in held.tolist()]
        self.looked_at = len(clients)
        began = time.thread_time()
        answers = self.trainer.spans(slot, "train", spans)
        self.selecting -= time.thread_time() - began  # it is the clients who look
        losses = [loss / (stop - start) for (loss, _), (start, stop) in zip(answers, spans, strict=True)]
        return Feedback(clients=clients, loss=self.claimed("loss", np.array(losses, dtype=float), clients))

    def _schedule(self, picked: Selection) -> Schedule:
        """The future of the selected clients, which nobody is told."""
        population, clients, latency = self.population, picked.clients, self._latency(picked)
        share = self._affordable(picked, latency.download + latency.upload, latency.compute)
        crashed, fraction = self.config.failures.crashes(self.round, self.streams, len(population))
        return Schedule.of(
            now=self.now,
            download=latency.download,
            compute=latency.compute,
            upload=latency.upload,
            share=share,
            online_until=population.availability.until(clients, self.now),
            crashed=crashed[clients],
            fraction=fraction[clients],
        )

    def _latency(self, picked: Selection) -> Latency:
        population, when = self.population, (picked.clients, picked.round, picked.now)
        work = population.work[self.drift.shards(*when)]
        latency = population.devices.latency(picked.round, picked.clients, work, self.model_bytes)
        if not self.drift:
            return latency
        slow = self.drift.slowness(*when)
        return Latency(slow * latency.download, slow * latency.compute, slow * latency.upload)

    def _affordable(self, picked: Selection, transfer: Any, compute: Any) -> Any:
        """The share of its work that each client does: less than all where that meets the deadline (FedProx)."""
        least = self.config.training.partial
        if least >= 1 or math.isinf(picked.deadline):
            return np.ones(len(picked))
        held = self.drift.shards(picked.clients, picked.round, picked.now)
        sizes = self.population.sizes[held].tolist()
        steps = np.array([self.config.training.steps_for(size) for size in sizes])
        possible = np.floor(steps * np.clip((picked.deadline - transfer) / np.maximum(compute, 1e-12), 0.0, 1.0))
        share = possible / steps
        return np.where((share >= least) & (possible >= 1), share, 1.0)

    def _task(self, client: int, asked: Selection, share: float, version: int) -> Task:
        [shard] = self.drift.shards(np.array([client]), asked.round, asked.now).tolist()
        start, stop = self.population.span(shard, asked.round)
        steps = max(1, round_half(share * self.config.training.steps_for(stop - start)))
        return Task(client, start, stop, steps, asked.round, version, 0)

    def _train(self, picked: Selection, schedule: Schedule, waited: Waited, used: IntArray) -> dict[int, Report]:
        """Train the clients whose updates are used, in client order; a bad update makes its client FAILED."""
        tasks = [
            self._task(client, picked, float(schedule.share[position]), self.protocol.version(client))
            for position, client in zip(np.searchsorted(picked.clients, used).tolist(), used.tolist(), strict=True)
        ]
        reports = self.protocol.collect(tasks)
        for client, report in reports.items():
            if report.error:
                waited.outcome[np.searchsorted(picked.clients, client)] = Outcome.FAILED
        return reports

    def received(self, tasks: Sequence[Task]) -> Iterator[tuple[Report, Vectors]]:
        """Train; reports as clients make them, with why the server refuses an update, and updates as clients send them.

        An update is valid until the next one is taken.
        """
        return self.server.examined(self._sent(tasks))

    def _sent(self, tasks: Sequence[Task]) -> Iterator[tuple[Report, Vectors]]:
        train = self.trainer.train
        return self.hostility.sent(tasks, train, self.server.layout) if self.hostility else train(tasks)

    def claimed(self, about: str, truth: Any, clients: IntArray) -> Any:
        """What clients that were asked in this round say of a value."""
        return self.hostility.told(about, truth, clients, self.round) if self.hostility else truth

    def _judge(self, picked: Selection, waited: Waited, reports: dict[int, Report], late: list[Late]) -> None:
        """Whoever the server distrusts has FAILED; late ones, of which the selector has heard already, stay ARRIVED."""
        distrusted = self.server.distrusted
        for client in reports:
            if reason := distrusted.get((client, self.round)):
                reports[client] = dataclasses.replace(reports[client], error=reason)
                waited.outcome[np.searchsorted(picked.clients, client)] = Outcome.FAILED
        came = [(entry.client, entry.round, entry.report) for entry in late]
        came += [(client, self.round, report) for client, report in reports.items()]
        self.exclusion.note(
            ((client, bool(report.error) or (client, round) in distrusted) for client, round, report in came),
            self.round,
        )

    def _shares(self, picked: Selection) -> Any:
        latency = self._latency(picked)
        return self._affordable(picked, latency.download + latency.upload, latency.compute)

    def _arrived(self, events: Sequence[Event], between_rounds: bool = False) -> list[Late]:
        """Train late clients from the model they were sent, and tell the selector; of bad updates it is not told."""
        if not self.config.rounds.uses_late or not events:
            return []
        openings = self.selector.openings
        events = [event for event in events if event.round in openings]
        tasks = []
        for event in events:
            selection = openings[event.round].selection
            position = int(np.searchsorted(selection.clients, event.client))
            share = float(self._shares(selection)[position])
            tasks.append(self._task(event.client, selection, share, self.protocol.old_version(event)))
        arrived = []
        for event, (report, update) in zip(events, self.server.examined_late(self._sent(tasks)), strict=True):
            selection = openings[event.round].selection
            lateness = self.round - event.round
            latency = event.time - selection.now
            late = Late(event.client, event.round, lateness, report, update.clone(), latency)
            arrived.append(late)
            if report.error:
                continue
            self.protocol.late(late, between_rounds)
            values = {name: [getattr(report, name)] for name in ("loss", "loss_rms", "accuracy", "accuracy_gain")}
            values["num_examples"] = [report.samples]
            told = self.hostility.told("latency", np.array([latency]), np.array([event.client]), event.round)
            self.books.arrived(selection, event.client, rounds_late=lateness, latency=told, **values)
        return arrived

    def _forget_old(self) -> None:
        """Drop what comes too late to count, and the models that nobody trains from any more."""
        oldest = self.round + 1 - self.config.rounds.max_lateness if self.config.rounds.uses_late else math.inf
        self.queue.keep(event for event in self.queue if event.round >= oldest)
        self.versions.keep(self.protocol.needed({event.round - 1 for event in self.queue}))

    def _evaluate(self) -> dict[str, float]:
        slot = self.versions.slot(self.round)
        measured: dict[str, float] = {}
        due = self.finished or self.round % self.config.evaluation.every == 0
        if self._tells_accuracy or (due and self.watch.needs_validation):
            loss, accuracy = self.trainer.evaluate(slot, "validation")
            measured |= {"validation_loss": loss, "validation_accuracy": accuracy}
        if due:
            loss, accuracy = self.trainer.evaluate(slot, "test")
            measured |= {"loss": loss, "accuracy": accuracy}
            self.accuracy, self.loss = accuracy, loss
            target = self.config.evaluation.target
            good = target is not None and (accuracy >= target if self.population.classes else loss <= target)
            if good and not self.reached["rounds"]:
                self.reached = {"rounds": self.round, "time": self.now}
            measured |= self.evaluator.measure(slot)
            self.watch.note(measured, self.round, self.server.model)
        return measured

    def take_back_evaluation(self, rows: Callable[[], Sequence[Mapping[str, str]]]) -> list[str]:
        """Forget the evaluation of a round that was the last and is not any more; returns its columns of rounds.csv.

        `rows` reads rounds.csv. A run that is extended then goes on as if it had been longer from the start.
        """
        every = self.config.evaluation.every
        if self.round % every == 0 or self._at_end:
            return []
        table = {int(row["round"]): row for row in rows()}
        names = ("accuracy", "loss", *self.config.tables()["rounds.csv"][len(ROUNDS) :])
        found = [name for name in names if table.get(self.round, {}).get(name)]
        if found and self.config.evaluation.watching:
            raise InputError(
                f"round {self.round} was evaluated because it was the last, and evaluation.keep_best or patience took "
                f"note of that; only a run whose rounds are a multiple of evaluation.every = {every} can be extended."
            )
        if found:
            before = table.get(self.round - self.round % every, {})
            self.accuracy, self.loss = (float(before.get(name) or "nan") for name in ("accuracy", "loss"))
            if self.reached["rounds"] == self.round:
                self.reached = {"rounds": 0, "time": math.nan}
        return found

    def _tell(
        self,
        picked: Selection,
        schedule: Schedule,
        waited: Waited,
        reports: dict[int, Report],
        measured: dict[str, float],
    ) -> None:
        duration, outcome = waited.seconds, waited.outcome
        late = outcome == Outcome.LATE
        lost = (outcome == Outcome.DROPPED) | (outcome == Outcome.FAILED)
        claimed = self.claimed("latency", schedule.latency, picked.clients)
        latency = np.where(lost, np.nan, np.where(late, duration, claimed))
        told = [reports.get(client, NOTHING) for client in picked.clients.tolist()]
        replied = outcome == Outcome.COMPLETED
        values = [
            (report.loss, report.loss_rms, report.accuracy, report.accuracy_gain, report.samples) for report in told
        ]
        known = np.where(replied[:, None], np.array(values, dtype=float).reshape(len(told), 5), np.nan)
        names = ("loss", "loss_rms", "accuracy", "accuracy_gain", "num_examples")
        columns: dict[str, Any] = dict(zip(names, known.T, strict=True))
        columns["upload_latency"] = np.where(replied, schedule.upload, np.nan)
        feedback = Feedback(outcome=outcome, latency=latency, censored=late, **columns)
        asked = ("accuracy", "loss") if self._tells_accuracy else ()
        server = {name: measured.get(f"validation_{name}") for name in asked}
        finite = {name: value for name, value in server.items() if value is not None and math.isfinite(value)}
        began = time.thread_time()
        self.books.settle(picked, feedback, RoundMetrics(duration=duration, **finite))
        self.selecting += time.thread_time() - began
        self.deadline.observe(claimed[replied])
        self.length = duration if math.isnan(self.length) else 0.75 * duration + 0.25 * self.length

    def columns(self) -> dict[str, AnyArray]:
        """What clients.csv holds of each client."""
        return self.population.columns(self.model_bytes)

    def parts(self) -> dict[str, Saves]:
        """What saves itself into a checkpoint, by name."""
        return {"selector": self.selector}

    def state(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
        """What a checkpoint holds besides the selector: header, arrays, and tensors and the model by name."""
        layout = self.server.layout
        bounds, tensors = self.server.state()
        tensors |= self.hostility.state()
        for version, slot in self.versions.slots.items():
            model = self.trainer.models[slot]
            tensors |= {
                f"version/{version}/parameters": model.parameters.clone(),
                f"version/{version}/buffers": model.buffers.clone(),
                f"version/{version}/counters": model.counters.clone(),
            }
        header = {
            "now": self.now,
            "length": None if math.isnan(self.length) else self.length,
            "accuracy": None if math.isnan(self.accuracy) else self.accuracy,
            "loss": self.loss if math.isfinite(self.loss) else None,
            "reached": [self.reached["rounds"], self.reached["time"] if self.reached["rounds"] else None],
            "members": self.members,
            "deadline": self.deadline.state(),
            "abandoned": self.abandoned,
            "bounds": bounds,
            **self.watch.state(),
        }
        arrays = {f"queue/{name}": values for name, values in self.queue.arrays().items()} | self.exclusion.state()
        if self.evaluator.accuracies is not None:
            arrays["client_accuracy"] = self.evaluator.accuracies
        own_header, own_arrays, own_tensors = self.protocol.state()
        header["protocol"] = own_header
        weights = {"model": layout.named(self.server.model), "tensors": tensors | own_tensors}
        if self.watch.model is not None:
            weights["best"] = layout.named(self.watch.model)
        return header, arrays | own_arrays, {file: _as_arrays(values) for file, values in weights.items()}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint, bit by bit as if nothing had happened."""
        header, arrays = checkpoint.header, checkpoint.arrays
        tensors, model = (_as_tensors(checkpoint.weights[file]) for file in ("tensors", "model"))
        functions = {name: value for name, value in self.config.selector.settings.items() if callable(value)}
        self.selector = type(self.selector).load(checkpoint.folder / "selector", **functions)
        self._tell_truth()
        self.books = Books(self.selector, late=self.books.late)
        self.server.layout.load_named(model, self.server.model)
        self.server.restore(header.get("bounds", {}), tensors)
        self.hostility.restore(tensors)
        self.exclusion.restore(arrays)
        self.round, self.now = header["round"], header["now"]
        self.length = math.nan if header["length"] is None else header["length"]
        self.accuracy = math.nan if header["accuracy"] is None else header["accuracy"]
        self.loss = math.nan if header["loss"] is None else header["loss"]
        rounds, time = header["reached"]
        self.reached = {"rounds": rounds, "time": math.nan if time is None else time}
        self.members, self.abandoned = header["members"], header["abandoned"]
        self.deadline.restore(header["deadline"])
        best = None
        if "best" in checkpoint.weights:
            best = self.server.model.clone()
            self.server.layout.load_named(_as_tensors(checkpoint.weights["best"]), best)
        self.watch.restore(header, best)
        self.evaluator.accuracies = arrays.get("client_accuracy")
        self.queue = Queue.of(under("queue/", arrays))
        self.versions = Versions()
        for version in sorted({int(name.split("/")[1]) for name in tensors if name.startswith("version/")}):
            old = self.server.model.clone()
            saved = under(f"version/{version}/", tensors)
            for part in ("parameters", "buffers", "counters"):
                getattr(old, part).copy_(saved[part])
            self.trainer.put(self.versions.slot(version), old)
        self.protocol = protocol(self)
        self.protocol.restore(header["protocol"], arrays, tensors)


def placed(population: Population, module: torch.nn.Module, shared: bool) -> dict[str, Placed]:
    """The samples of a population as tensors in the memory format that the model likes.

    >>> from enlist.simulation import Config
    >>> sorted(placed(build(Config(data={"clients": 5})), torch.nn.Linear(1, 1), shared=False))
    ['test', 'train', 'validation']
    """
    channels_last = getattr(module, "memory_format", torch.contiguous_format) == torch.channels_last
    return {name: Placed.of(samples, channels_last, shared) for name, samples in population.samples.items()}


def round_half(value: float) -> int:
    """The nearest whole number; shares of steps are exact up to rounding errors.

    >>> round_half(2.9999999)
    3
    """
    return math.floor(value + 0.5)


def _as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: tensor.contiguous().numpy() for name, tensor in tensors.items()}


def _as_tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(values) for name, values in arrays.items()}
