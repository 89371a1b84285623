"""Training the clients of a round, and taking in what they send."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from enlist.records import Outcome, Selection
from enlist.simulation.protocols import AsynchronousProtocol, Protocol
from enlist.simulation.round.clients import SimulatedClients
from enlist.simulation.round.clock import Event
from enlist.simulation.round.server import Late, Sender, Server
from enlist.simulation.round.state import RunState
from enlist.simulation.round.waiting import Schedule, Waited
from enlist.training.aggregators import length
from enlist.training.flat import Vectors
from enlist.training.local import Report, Task
from enlist.training.sketch import Sketch
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

    def __init__(
        self, clients: SimulatedClients, trainer: Trainer, protocol: Protocol | AsynchronousProtocol, state: RunState
    ) -> None:
        self.clients, self.trainer, self.protocol, self.state = clients, trainer, protocol, state
        needs = state.selector.needs
        self.sketch = Sketch(self.server.layout.size, clients.streams) if "update" in needs else None
        self.described = bool(needs & {"update", "update_norm"})

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
            weight = weights(asked[event.round]).get(event.client)
            report = self._described(report, update)
            yield Late(event.client, event.round, lateness, report, update.clone(), latency, model, weight)

    def tasks(self, asked: Sequence[tuple[Selection, int, float]]) -> list[Task]:
        """What clients of several selections train: (selection, client, share of its work) each."""
        return [
            self.clients.task(client, picked, share, self._slot(client, picked.round))
            for picked, client, share in asked
        ]

    def _slot(self, client: int, asked_in: int) -> int:
        """Where the model lies that a client of a round starts from."""
        base, models = self.protocol.base(self.state.memory, client, asked_in), self.state.models
        return models.lend(client, base) if isinstance(base, Vectors) else models.slot(base)

    def averaged(
        self,
        tasks: Sequence[Task],
        given: Mapping[Sender, float] | None = None,
        factors: Mapping[Sender, float] | None = None,
    ) -> dict[Sender, Report]:
        """Train, and let the server add up the updates: groups of them where it need not look at each.

        `given` are the weights of a selector that weighs updates itself; `factors` make updates shorter.
        """
        batch, factors = self.clients.config.training.batch, factors or {}
        weights = [self.server.aggregator.weight(task.samples(batch)) for task in tasks]
        if None in weights or given or self.described or self.clients.hostility or self.server.one_by_one:
            return self._one_by_one(tasks, given or {}, factors)
        reports: dict[Sender, Report] = {}
        lengths = []
        counted = {_sender(task): weight for task, weight in zip(tasks, weights, strict=True) if weight is not None}
        scaled = {sender: factors.get(sender, 1.0) * weight for sender, weight in counted.items()}
        for group, answers, total in self.trainer.reduce(tasks, list(scaled.values())):
            good = [_sender(task) for task, report in zip(group, answers, strict=True) if not report.error]
            if good:
                weight, within = (sum(each[sender] for sender in good) for each in (counted, scaled))
                self.server.add_sum(total, weight, len(good), within)
                lengths.append(math.sqrt(float(torch.dot(total.parameters, total.parameters))) / (within or 1.0))
            reports |= {_sender(task): report for task, report in zip(group, answers, strict=True)}
        if self.server.looks_wrong(lengths):
            self.server.begin()
            return self._one_by_one(tasks, {}, factors)
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

    def _one_by_one(
        self, tasks: Sequence[Task], given: Mapping[Sender, float], factors: Mapping[Sender, float]
    ) -> dict[Sender, Report]:
        reports: dict[Sender, Report] = {}
        for task, (report, update) in zip(tasks, self._received(tasks), strict=True):
            sender = _sender(task)
            reports[sender] = report
            if not report.error:
                self.server.add(sender, report, update, given.get(sender), factors.get(sender, 1.0))
        return reports

    def _received(self, tasks: Sequence[Task]) -> Iterator[tuple[Report, Vectors]]:
        for report, update in self.server.examined(self._sent(tasks)):
            yield self._described(report, update), update

    def _described(self, report: Report, update: Vectors) -> Report:
        """With length and sketch of the update, if the selector needs them."""
        if not self.described or report.error:
            return report
        sketch = None if self.sketch is None else self.sketch.of(update.parameters)
        return dataclasses.replace(report, update_norm=length(update.parameters), sketch=sketch)

    def _sent(self, tasks: Sequence[Task]) -> Iterator[tuple[Report, Vectors]]:
        return self.clients.sent(tasks, self.trainer.train, self.server.layout)


def _sender(task: Task) -> Sender:
    return task.client, task.round


def weights(picked: Selection) -> dict[int, float]:
    """What the selector gave the update of each client to weigh; nothing if it leaves that to the server.

    >>> weights(Selection(1, np.array([3, 8]), weights=np.array([0.25, 0.5])))
    {3: 0.25, 8: 0.5}
    """
    if picked.weights is None:
        return {}
    return dict(zip(picked.clients.tolist(), picked.weights.tolist(), strict=True))
