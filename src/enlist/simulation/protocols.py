"""Protocols: whom the server asks, when it stops waiting, and what it does with updates.

`Synchronous` is FedAvg's round with a deadline and over-commitment, where late updates may still be used (REFL).
`Safa` lets everybody train and picks among arrivals; the model is the mean of a cache with one entry per client.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from enlist.bandits.staleness import adaptive_target
from enlist.errors import InputError
from enlist.records import Outcome, Selection
from enlist.simulation.clock import Event
from enlist.simulation.server import Late
from enlist.simulation.waiting import Waited
from enlist.training.flat import Vectors
from enlist.training.local import Report, Task
from enlist.typing import AnyArray, IntArray

if TYPE_CHECKING:
    from enlist.simulation.simulation import Simulation

CACHE_BYTES = 8 * 2**30
"""SAFA's cache of one model per client may not grow beyond this."""

Saved = tuple[dict[str, Any], dict[str, AnyArray], dict[str, Tensor]]


class Synchronous:
    """Ask k clients (or some more), go on with the first k replies, average.

    >>> from enlist.simulation import Config, Simulation
    >>> config = Config(data={"clients": 8}, rounds={"rounds": 1, "k": 3})
    >>> Simulation(config).protocol.asked()
    3
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.settings = simulation.config.rounds
        self.target = self.settings.k

    def joined(self, positions: IntArray) -> None:
        """Clients have joined."""

    def asked(self) -> int:
        """How many clients to ask; fewer if late ones are about to arrive and the target adapts (REFL)."""
        simulation = self.simulation
        if self.settings.adaptive_target:
            due = 0
            for event in simulation.queue:  # whatever will become of them: the server cannot know
                if event.round in simulation.selector.openings:
                    begun = simulation.selector.openings[event.round].selection.now
                    due += int(begun + simulation.expected[event.client] - simulation.now <= simulation.length)
            self.target = adaptive_target(self.settings.k, due)
        return self.settings.asked_for(self.target)

    def enough(self, arrivals: Sequence[int]) -> bool:
        """Whether the server stops waiting."""
        return len(arrivals) >= self.target

    def taken(self, picked: Selection, waited: Waited) -> IntArray:
        """Whose updates are used, in client order."""
        completed: IntArray = picked.clients[waited.outcome == Outcome.COMPLETED]
        return completed

    def version(self, client: int) -> int:
        """The slot of the model that a client of this round starts from."""
        return self.simulation.versions.slot(self.simulation.round - 1)

    def old_version(self, event: Event) -> int:
        """The slot of the model that a late client started from."""
        return self.simulation.versions.slot(event.round - 1)

    def collect(self, tasks: Sequence[Task]) -> dict[int, Report]:
        """Train and take in the updates; a report with an error tells whose update was refused."""
        simulation, server = self.simulation, self.simulation.server
        batch = simulation.config.training.batch
        weights = [server.aggregator.weight(task.samples(batch)) for task in tasks]
        if None in weights or simulation.hostility or server.one_by_one:
            return self._one_by_one(tasks)
        reports: dict[int, Report] = {}
        lengths = []
        counted = {task.client: weight for task, weight in zip(tasks, weights, strict=True) if weight is not None}
        for group, answers, total in simulation.trainer.reduce(tasks, list(counted.values())):
            good = [task.client for task, report in zip(group, answers, strict=True) if not report.error]
            if good:
                weight = sum(counted[client] for client in good)
                server.add_sum(total, weight, len(good))
                lengths.append(math.sqrt(float(torch.dot(total.parameters, total.parameters))) / (weight or 1.0))
            reports |= {task.client: report for task, report in zip(group, answers, strict=True)}
        if server.looks_wrong(lengths):
            server.begin()
            return self._one_by_one(tasks)
        return reports

    def _one_by_one(self, tasks: Sequence[Task]) -> dict[int, Report]:
        reports: dict[int, Report] = {}
        for task, (report, update) in zip(tasks, self.simulation.received(tasks), strict=True):
            reports[task.client] = report
            if not report.error:
                self.simulation.server.add((task.client, task.round), report, update)
        return reports

    def weight(self, client: int, report: Report, discount: float = 1.0) -> float:
        """What an update counted; NaN where updates are not weighed (medians)."""
        weight = self.simulation.server.aggregator.weight(report.samples, discount)
        return math.nan if weight is None else weight

    def late(self, late: Late, between_rounds: bool) -> None:
        """A late update has come, during a round or before the present one began."""

    def merge(self, late: Sequence[Late]) -> list[float]:
        """Change the model; returns what late updates counted."""
        discounts = self.simulation.server.finish(list(late), self.settings.staleness)
        return [self.weight(entry.client, entry.report, part) for entry, part in zip(late, discounts, strict=True)]

    def needed(self, versions: set[int]) -> set[int]:
        """Of which versions the models must be kept."""
        return versions

    def state(self) -> Saved:
        """What a checkpoint holds."""
        return {}, {}, {}

    def restore(self, header: dict[str, Any], arrays: dict[str, AnyArray], tensors: dict[str, Tensor]) -> None:
        """Continue from what `state` returned."""


class Safa(Synchronous):
    """SAFA: lag-tolerant distribution, first come first merge, a cache with bypass.

    lag        version of each client's model: the round in which it last finished
    received   version of the global model that is each client's local model; -1 if that is its own
    cached     version of the global model that is its cache entry; -1 if that is its own
    own        models of clients that are neither, shared by both

    >>> from enlist.simulation import Config, Simulation
    >>> config = Config(data={"clients": 8}, rounds={"k": 3, "protocol": "safa"}, selector={"name": "safa"})
    >>> simulation = Simulation(config)
    >>> simulation.step().row["asked"], simulation.protocol.lag.max()
    (8, np.int64(1))
    """

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        count = len(simulation.population)
        size = 4 * simulation.server.layout.size * count
        if size > CACHE_BYTES:
            raise InputError(
                f"SAFA keeps a model for each of {count} clients, {size / 2**30:.1f} GiB here; at most "
                f"{CACHE_BYTES / 2**30:.0f} GiB are allowed. Use fewer clients, a smaller model, or another protocol."
            )
        self.lag = np.zeros(count, dtype=np.int64)
        self.received = np.zeros(count, dtype=np.int64)
        self.cached = np.zeros(count, dtype=np.int64)
        self.picked_before = np.zeros(count, dtype=bool)
        self.own: dict[int, Vectors] = {}
        self.trained: dict[int, Vectors] = {}
        self.arrived: dict[int, Vectors] = {}
        self.chosen = np.zeros(0, dtype=np.int64)

    def asked(self) -> int:
        """Everybody."""
        return self.simulation.members

    def enough(self, arrivals: Sequence[int]) -> bool:
        """Enough clients that were not picked in the last round have arrived."""
        return int((~self.picked_before[list(arrivals)]).sum()) >= self.settings.k

    def taken(self, picked: Selection, waited: Waited) -> IntArray:
        """All that arrived are trained; `accept` says which of them the server merges now."""
        self._distribute(picked.clients)
        self.chosen = self.simulation.books.accept(waited.arrivals, self.settings.k)
        self.picked_before[:] = False
        self.picked_before[self.chosen] = True
        return super().taken(picked, waited)

    def _distribute(self, clients: IntArray) -> None:
        """Send the global model to clients that are up to date or too far behind; the others go on with their own."""
        latest = self.simulation.round - 1
        everybody = np.arange(self.simulation.members)
        self.cached[everybody[latest - self.lag[everybody] > self.settings.lag_tolerance]] = latest
        behind = latest - self.lag[clients]
        deprecated = clients[behind > self.settings.lag_tolerance]
        synced = clients[(behind == 0) | (behind > self.settings.lag_tolerance)]
        self.received[synced] = latest
        self.lag[deprecated] = latest

    def version(self, client: int) -> int:
        """The slot of a client's local model."""
        simulation, received = self.simulation, int(self.received[client])
        if received >= 0:
            return simulation.versions.slot(received)
        slot = simulation.versions.slot(-1 - client)
        simulation.trainer.put(slot, self.own[client])
        return slot

    def old_version(self, event: Event) -> int:
        """The slot of the model that a late client started from."""
        return self.version(event.client)

    def collect(self, tasks: Sequence[Task]) -> dict[int, Report]:
        """Train, and keep the clients' models for the cache."""
        reports = {}
        for task, (report, update) in zip(tasks, self.simulation.received(tasks), strict=True):
            if not report.error:
                self.trained[task.client] = self._model(task.client, update)
            reports[task.client] = report
        return reports

    def joined(self, positions: IntArray) -> None:
        """Newcomers begin with the present model, in the cache, too."""
        latest = self.simulation.round - 1
        self.lag[positions] = self.received[positions] = self.cached[positions] = latest

    def weight(self, client: int, report: Report, discount: float = 1.0) -> float:
        """Its samples if it was merged in this round, else nothing yet."""
        return report.samples if client in self.chosen else 0.0

    def late(self, late: Late, between_rounds: bool) -> None:
        """Who comes before a round begins has finished the last one; who comes during it takes effect after it."""
        model = self._model(late.client, late.update)
        if not between_rounds:
            self.arrived[late.client] = model
            return
        self.own[late.client], self.cached[late.client] = model, -1
        self.received[late.client], self.lag[late.client] = -1, self.simulation.round - 1

    def _model(self, client: int, update: Vectors) -> Vectors:
        model = self.simulation.trainer.models[self.version(client)].clone()
        model.parameters += update.parameters
        model.buffers.copy_(update.buffers)
        model.counters.copy_(update.counters)
        return model

    def merge(self, late: Sequence[Late]) -> list[float]:
        """Picked clients enter the cache, the cache is averaged, then the others that finished enter it (bypass)."""
        simulation = self.simulation
        picked = set(self.chosen.tolist())
        now = {client: model for client, model in self.trained.items() if client in picked}
        bypass = self.arrived | {client: model for client, model in self.trained.items() if client not in picked}
        for client, model in now.items():
            self.own[client], self.cached[client] = model, -1
        mean = self._mean()
        server = simulation.server
        server.optimiser.step(server.model.parameters, mean.parameters - server.model.parameters)
        server.model.buffers.copy_(mean.buffers)
        server.model.counters.copy_(mean.counters)
        for client, model in bypass.items():
            self.own[client], self.cached[client] = model, -1
        finished = np.array(sorted({*now, *bypass}), dtype=np.int64)
        self.received[finished], self.lag[finished] = -1, simulation.round
        self.trained, self.arrived = {}, {}
        return [0.0] * len(late)

    def _mean(self) -> Vectors:
        """The cache weighted by numbers of samples; entries that are one global model are added once."""
        simulation = self.simulation
        members = np.arange(simulation.members)
        held = simulation.drift.shards(members, simulation.round, simulation.now)
        sizes = simulation.claimed("num_examples", simulation.population.sizes[held], members)
        share = sizes / sizes.sum()
        total = Vectors.zeros(simulation.server.layout)
        for version in np.unique(self.cached[members][self.cached[members] >= 0]).tolist():
            model = simulation.trainer.models[simulation.versions.slot(version)]
            total.add(model, float(share[self.cached[members] == version].sum()))
        for client in members[self.cached[members] < 0].tolist():
            total.add(self.own[client], float(share[client]))
        return total

    def needed(self, versions: set[int]) -> set[int]:
        """Versions that are somebody's local model or cache entry."""
        held = set(self.received[self.received >= 0].tolist()) | set(self.cached[self.cached >= 0].tolist())
        owners = set(np.flatnonzero((self.received < 0) | (self.cached < 0)).tolist())
        self.own = {client: model for client, model in self.own.items() if client in owners}
        return held

    def state(self) -> Saved:
        """What a checkpoint holds."""
        arrays = {
            "safa/lag": self.lag,
            "safa/received": self.received,
            "safa/cached": self.cached,
            "safa/picked": self.picked_before,
        }
        tensors = {}
        for client, model in self.own.items():
            tensors[f"safa/{client}/parameters"] = model.parameters
            tensors[f"safa/{client}/buffers"] = model.buffers
            tensors[f"safa/{client}/counters"] = model.counters
        return {}, arrays, tensors

    def restore(self, header: dict[str, Any], arrays: dict[str, AnyArray], tensors: dict[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        self.lag, self.received = arrays["safa/lag"], arrays["safa/received"]
        self.cached, self.picked_before = arrays["safa/cached"], arrays["safa/picked"]
        for client in {int(name.split("/")[1]) for name in tensors if name.startswith("safa/")}:
            parts = (tensors[f"safa/{client}/{part}"] for part in ("parameters", "buffers", "counters"))
            self.own[client] = Vectors(*parts)


def protocol(simulation: Simulation) -> Synchronous:
    """The protocol that a configuration names.

    >>> from enlist.simulation import Config, Simulation
    >>> config = Config(data={"clients": 8}, rounds={"k": 3, "protocol": "safa"}, selector={"name": "safa"})
    >>> isinstance(protocol(Simulation(config)), Safa)
    True
    """
    return Safa(simulation) if simulation.config.rounds.protocol == "safa" else Synchronous(simulation)
