"""Training the clients of a round, and processing their updates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch

from enlist._internal.typing import IntArray
from enlist.records import Outcome, Selection
from enlist.simulation.protocols import AsynchronousProtocol, Protocol
from enlist.simulation.round.clients import SimulatedClients
from enlist.simulation.round.clock import Event
from enlist.simulation.round.contributions import Contributions
from enlist.simulation.round.server import LateUpdate, Sender, Server
from enlist.simulation.round.state import RunState
from enlist.simulation.round.waiting import Schedule, WaitResult
from enlist.training.aggregators import length
from enlist.training.flat import Vectors
from enlist.training.local import Report, TrainingTask
from enlist.training.sketch import Sketch
from enlist.training.workers import Trainer

SenderT = TypeVar("SenderT")


class Updates:
    """Trains clients from the models that the protocol names; a report with an error marks a refused update.

    >>> from enlist.simulation import Config, Simulation
    >>> with Simulation(Config(data={"clients": 8})) as simulation:
    ...     asked = simulation.selector.ask(k=2)
    ...     tasks = simulation.clients.tasks(asked.clients, asked, 1, [1.0, 1.0], [0, 0])
    ...     [report.error for report in simulation.updates.averaged(tasks).values()]
    ['', '']
    """

    def __init__(
        self, clients: SimulatedClients, trainer: Trainer, protocol: Protocol | AsynchronousProtocol, state: RunState
    ) -> None:
        self.clients, self.trainer, self.protocol, self.state = clients, trainer, protocol, state
        needs = state.selector.needs
        numbers = clients.config.server.sketch
        self.sketch = Sketch(self.server.layout.size, clients.streams, numbers) if "update" in needs else None
        self.described = bool(needs & {"update", "update_norm"})
        self.contributions = Contributions(trainer, state, clients.streams) if "contribution" in needs else None

    @property
    def server(self) -> Server:
        """The server, which checks updates and adds them up."""
        return self.state.server

    def losses(self, clients: IntArray) -> list[float]:
        """Mean losses of the current model on the samples of some clients."""
        spans = self.clients.spans(clients, self.state.round, self.state.now)
        answers = self.trainer.spans(self.state.models.slot(self.state.round - 1), "train", spans)
        return [loss / (stop - start) for (loss, _), (start, stop) in zip(answers, spans, strict=True)]

    def trained(
        self, picked: Selection, schedule: Schedule, waited: WaitResult
    ) -> tuple[dict[int, Report], dict[int, Vectors]]:
        """Train clients that replied, in client order; a bad update makes its client FAILED.

        Returns reports by client and, if the protocol does not average updates, the models behind good updates.
        """
        replied = np.flatnonzero(waited.outcome == Outcome.COMPLETED)
        clients = picked.clients[replied]
        slots = [self._slot(client, picked.round) for client in clients.tolist()]
        asked_in = self.state.memory.asked_in(picked.round)
        tasks = self.clients.tasks(clients, picked, asked_in, schedule.share[replied].tolist(), slots)
        models: dict[int, Vectors] = {}
        if self.protocol.averages:
            given = {(client, picked.round): weight for client, weight in weights(picked).items()}
            reports = {client: report for (client, _), report in self.averaged(tasks, given).items()}
        else:
            reports, models = self.kept(tasks)
        for client, report in reports.items():
            if report.error:
                waited.outcome[np.searchsorted(picked.clients, client)] = Outcome.FAILED
        return reports, models

    def late(self, events: Sequence[Event], asked: Mapping[int, Selection]) -> Iterator[LateUpdate]:
        """Train clients of earlier rounds from the models they were sent; `asked` are the selections by round."""
        tasks = []
        for event in events:
            when = (asked[event.round], self.state.memory.asked_in(event.round))
            share = self.clients.share(*when, event.client)
            slot = self._slot(event.client, event.round)
            tasks += self.clients.tasks(np.array([event.client]), *when, [share], [slot])
        answers = self.server.examined_late(self._sent(tasks))
        for event, task, (report, update) in zip(events, tasks, answers, strict=True):
            model = None if self.protocol.averages or report.error else self._model(task, update)
            lateness, latency = self.state.round - event.round, event.time - asked[event.round].now
            weight = weights(asked[event.round]).get(event.client)
            report = self._described(report, update)
            if self.contributions is not None and not report.error:
                (report,) = self.contributions.of([(report, 1.0, update)])  # alone: the others have been judged
            yield LateUpdate(event.client, event.round, lateness, report, update.clone(), latency, model, weight)

    def tasks(self, asked: Sequence[tuple[Selection, int, float]]) -> list[TrainingTask]:
        """Training tasks of clients in several selections; `asked` has (selection, client, share of its work) each."""
        tasks = []
        for picked, client, share in asked:
            asked_in, slot = self.state.memory.asked_in(picked.round), self._slot(client, picked.round)
            tasks += self.clients.tasks(np.array([client]), picked, asked_in, [share], [slot])
        return tasks

    def _slot(self, client: int, asked_in: int) -> int:
        """The slot of the model that a client of a round starts from."""
        base, models = self.protocol.base(self.state.memory, client, asked_in), self.state.models
        return models.lend(client, base) if isinstance(base, Vectors) else models.slot(base)

    def averaged(
        self,
        tasks: Sequence[TrainingTask],
        given: Mapping[Sender, float] | None = None,
        factors: Mapping[Sender, float] | None = None,
    ) -> dict[Sender, Report]:
        """Train, and let the server add up the updates: in groups where it need not check each one.

        `given` are the weights of a selector that weighs updates itself; `factors` make updates shorter.
        """
        batch, factors = self.clients.config.training.batch, factors or {}
        weigh = self.server.aggregator.weight
        weights = [weight for task in tasks if (weight := weigh(task.num_examples(batch))) is not None]
        looking = self.described or self.contributions is not None or self.server.one_by_one
        if len(weights) < len(tasks) or given or looking or self.clients.hostility:
            return self._one_by_one(tasks, given or {}, factors)
        reports: dict[Sender, Report] = {}
        lengths = []
        scaled = weights
        if factors:
            scaled = [factors.get(_sender(task), 1.0) * weight for task, weight in zip(tasks, weights, strict=True)]
        for group, answers, total in self.trainer.reduce(tasks, scaled):  # which numbers them by their slots
            good = [task.update_slot for task, report in zip(group, answers, strict=True) if not report.error]
            if good:
                weight, within = (sum([each[place] for place in good]) for each in (weights, scaled))
                self.server.add_sum(total, weight, len(good), within)
                lengths.append(math.sqrt(float(torch.dot(total.parameters, total.parameters))) / (within or 1.0))
            for task, report in zip(group, answers, strict=True):
                reports[_sender(task)] = self.clients.reported(task, report)
        if self.server.looks_wrong(lengths):
            self.server.begin()
            return self._one_by_one(tasks, {}, factors)
        return reports

    def kept(self, tasks: Sequence[TrainingTask]) -> tuple[dict[int, Report], dict[int, Vectors]]:
        """Train; reports, and the models of clients whose updates are not refused."""
        reports, models = {}, {}
        received: dict[int, tuple[Report, float, Vectors]] = {}
        for task, (report, update) in zip(tasks, self._received(tasks), strict=True):
            if not report.error:
                models[task.client] = self._model(task, update)
                if self.contributions is not None:
                    received[task.client] = report, report.num_examples, update.clone()
            reports[task.client] = report
        return reports | self._valued(received), models

    def _valued(self, received: Mapping[SenderT, tuple[Report, float, Vectors]]) -> dict[SenderT, Report]:
        """Reports with what updates are worth to the server, for updates that were kept to compute it."""
        if self.contributions is None:
            return {}
        return dict(zip(received, self.contributions.of(list(received.values())), strict=True))

    def _model(self, task: TrainingTask, update: Vectors) -> Vectors:
        """The model of a client that sends this update."""
        model = self.trainer.models[task.model_slot].clone()
        model.parameters += update.parameters
        model.buffers.copy_(update.buffers)
        model.counters.copy_(update.counters)
        return model

    def _one_by_one(
        self, tasks: Sequence[TrainingTask], given: Mapping[Sender, float], factors: Mapping[Sender, float]
    ) -> dict[Sender, Report]:
        reports: dict[Sender, Report] = {}
        received: dict[Sender, tuple[Report, float, Vectors]] = {}
        for task, (report, update) in zip(tasks, self._received(tasks), strict=True):
            sender = _sender(task)
            reports[sender] = report
            if not report.error:
                self.server.add(sender, report, update, given.get(sender), factors.get(sender, 1.0))
                if self.contributions is not None:
                    weight = given.get(sender, self.server.aggregator.weight(report.num_examples))
                    received[sender] = report, 1.0 if weight is None else weight, update.clone()
        return reports | self._valued(received)

    def _received(self, tasks: Sequence[TrainingTask]) -> Iterator[tuple[Report, Vectors]]:
        for report, update in self.server.examined(self._sent(tasks)):
            yield self._described(report, update), update

    def _described(self, report: Report, update: Vectors) -> Report:
        """With length and sketch of the update, if the selector needs them."""
        if not self.described or report.error:
            return report
        sketch = None if self.sketch is None else self.sketch.of(update.parameters)
        return report._replace(update_norm=length(update.parameters), sketch=sketch)

    def _sent(self, tasks: Sequence[TrainingTask]) -> Iterator[tuple[Report, Vectors]]:
        return self.clients.sent(tasks, self.trainer.train, self.server.layout, self.state.memory.asked_in)


def _sender(task: TrainingTask) -> Sender:
    return task.client, task.round


def weights(picked: Selection) -> dict[int, float]:
    """The selector's weight for the update of each client; empty if it leaves weights to the server.

    >>> weights(Selection(1, np.array([3, 8]), weights=np.array([0.25, 0.5])))
    {3: 0.25, 8: 0.5}
    """
    if picked.weights is None:
        return {}
    return dict(zip(picked.clients.tolist(), picked.weights.tolist(), strict=True))
