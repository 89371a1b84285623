"""Training the clients of a round, and taking in what they send."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from enlist.records import Outcome, Selection
from enlist.simulation.protocols import Protocol
from enlist.simulation.round.clients import SimulatedClients
from enlist.simulation.round.clock import Event
from enlist.simulation.round.server import Late, Server
from enlist.simulation.round.state import State
from enlist.simulation.round.waiting import Schedule, Waited
from enlist.training.flat import Vectors
from enlist.training.local import Report, Task
from enlist.training.workers import Trainer


class Updates:
    """Trains clients from the models that the protocol names; a report with an error tells whose update is refused.

    >>> from enlist.simulation import Config, Simulation
    >>> with Simulation(Config(data={"clients": 8})) as simulation:
    ...     asked = simulation.selector.ask(k=2)
    ...     tasks = [simulation.clients.task(client, asked, 1.0, 0) for client in asked.clients.tolist()]
    ...     [report.error for report in simulation.updates.averaged(tasks).values()]
    ['', '']
    """

    def __init__(self, clients: SimulatedClients, trainer: Trainer, protocol: Protocol, state: State) -> None:
        self.clients, self.trainer, self.protocol, self.state = clients, trainer, protocol, state

    @property
    def server(self) -> Server:
        """Who judges updates and adds them up."""
        return self.state.server

    def trained(
        self, picked: Selection, schedule: Schedule, waited: Waited
    ) -> tuple[dict[int, Report], dict[int, Vectors]]:
        """Train those who replied, in client order; a bad update makes its client FAILED.

        Reports by client and, if the protocol does not average updates, the models of those whose update is good.
        """
        replied = np.flatnonzero(waited.outcome == Outcome.COMPLETED)
        shares = zip(picked.clients[replied].tolist(), schedule.share[replied].tolist(), strict=True)
        tasks = [self.clients.task(client, picked, share, self._slot(client, picked.round)) for client, share in shares]
        reports, models = (self.averaged(tasks), {}) if self.protocol.averages else self.kept(tasks)
        for client, report in reports.items():
            if report.error:
                waited.outcome[np.searchsorted(picked.clients, client)] = Outcome.FAILED
        return reports, models

    def late(self, events: Sequence[Event], asked: Mapping[int, Selection]) -> Iterator[Late]:
        """Train clients of earlier rounds from the models they were sent; `asked` are the selections by round."""
        tasks = []
        for event in events:
            share = self.clients.share(asked[event.round], event.client)
            slot = self._slot(event.client, event.round)
            tasks.append(self.clients.task(event.client, asked[event.round], share, slot))
        answers = self.server.examined_late(self._sent(tasks))
        for event, task, (report, update) in zip(events, tasks, answers, strict=True):
            model = None if self.protocol.averages or report.error else self._model(task, update)
            lateness, latency = self.state.round - event.round, event.time - asked[event.round].now
            yield Late(event.client, event.round, lateness, report, update.clone(), latency, model)

    def _slot(self, client: int, asked_in: int) -> int:
        """Where the model lies that a client of a round starts from."""
        base, models = self.protocol.base(self.state.memory, client, asked_in), self.state.models
        return models.lend(client, base) if isinstance(base, Vectors) else models.slot(base)

    def averaged(self, tasks: Sequence[Task]) -> dict[int, Report]:
        """Train, and let the server add up the updates: groups of them where it need not look at each."""
        batch = self.clients.config.training.batch
        weights = [self.server.aggregator.weight(task.samples(batch)) for task in tasks]
        if None in weights or self.clients.hostility or self.server.one_by_one:
            return self._one_by_one(tasks)
        reports: dict[int, Report] = {}
        lengths = []
        counted = {task.client: weight for task, weight in zip(tasks, weights, strict=True) if weight is not None}
        for group, answers, total in self.trainer.reduce(tasks, list(counted.values())):
            good = [task.client for task, report in zip(group, answers, strict=True) if not report.error]
            if good:
                weight = sum(counted[client] for client in good)
                self.server.add_sum(total, weight, len(good))
                lengths.append(math.sqrt(float(torch.dot(total.parameters, total.parameters))) / (weight or 1.0))
            reports |= {task.client: report for task, report in zip(group, answers, strict=True)}
        if self.server.looks_wrong(lengths):
            self.server.begin()
            return self._one_by_one(tasks)
        return reports

    def kept(self, tasks: Sequence[Task]) -> tuple[dict[int, Report], dict[int, Vectors]]:
        """Train; reports, and the models of clients whose updates are not refused."""
        reports, models = {}, {}
        for task, (report, update) in zip(tasks, self._received(tasks), strict=True):
            if not report.error:
                models[task.client] = self._model(task, update)
            reports[task.client] = report
        return reports, models

    def _model(self, task: Task, update: Vectors) -> Vectors:
        """The model of a client that sends this update."""
        model = self.trainer.models[task.model_slot].clone()
        model.parameters += update.parameters
        model.buffers.copy_(update.buffers)
        model.counters.copy_(update.counters)
        return model

    def _one_by_one(self, tasks: Sequence[Task]) -> dict[int, Report]:
        reports: dict[int, Report] = {}
        for task, (report, update) in zip(tasks, self._received(tasks), strict=True):
            reports[task.client] = report
            if not report.error:
                self.server.add((task.client, task.round), report, update)
        return reports

    def _received(self, tasks: Sequence[Task]) -> Iterator[tuple[Report, Vectors]]:
        return self.server.examined(self._sent(tasks))

    def _sent(self, tasks: Sequence[Task]) -> Iterator[tuple[Report, Vectors]]:
        return self.clients.sent(tasks, self.trainer.train, self.server.layout)
