"""The clients of a simulation: who is online, how long they take, what they hold, what they send, what they claim.

All of it is a pure function of seed, round, client and virtual time, so there is nothing to save but the updates that
hostile clients replay. Nobody is told the future: `schedule` is only for the clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.devices import Energy, Latency
from enlist.devices.energy import ENERGETIC
from enlist.records import Selection
from enlist.simulation.config import Config
from enlist.simulation.drift import Drift
from enlist.simulation.hostile import HostileClients, Train
from enlist.simulation.population import Population
from enlist.simulation.round.waiting import Schedule
from enlist.streams import Streams
from enlist.training.flat import Layout, Vectors
from enlist.training.local import Report, TrainingTask


class SimulatedClients:
    """What clients do, whatever the server and the selector decide.

    model_bytes   size of the model that is sent both ways

    Methods take the round of a selection separately: it is not the selection's number if a round makes several.

    >>> from enlist.simulation.population import build
    >>> config = Config(data={"clients": 6})
    >>> clients = SimulatedClients(config, build(config), Streams(config.seed))
    >>> int(clients.online(round=1, now=0.0, members=6).sum())
    6
    """

    def __init__(self, config: Config, population: Population, streams: Streams, model_bytes: int = 0) -> None:
        self.config, self.population, self.streams, self.model_bytes = config, population, streams, model_bytes
        count = len(population)
        self.hostility = HostileClients(config.hostile, count, streams)
        self.drift = Drift(config.drift, count, streams)
        energy = config.energy
        if energy is None and config.selector.needs & ENERGETIC:
            energy = Energy()
        self.power = None if energy is None else energy.draw(config.devices.kind, count, streams)
        self.gone = [
            (leave.round, checks.positions("membership.leaves", list(leave.clients), count))
            for leave in config.membership.leaves
        ]

    def __len__(self) -> int:
        return len(self.population)

    def expected(self) -> FloatArray:
        """Seconds that each client is expected to take, (N,)."""
        return self.population.devices.expected(self.population.work, self.model_bytes).total

    def bandwidth(self, round: int, now: float) -> FloatArray:
        """Bytes per second that each client can receive on average, less where it has become slower, (N,)."""
        usual = np.minimum(125.0 * self.population.devices.bandwidth, checks.MOST)  # of kbit/s; infinite if it is free
        return usual / self.drift.slowness(np.arange(len(self)), round, now) if self.drift else usual

    def online(self, round: int, now: float, members: int) -> BoolArray:
        """Which members are online and have not left, (members,)."""
        online = self.population.availability.online(now)[:members].copy()
        for since, clients in self.gone:
            if round >= since:
                online[clients[clients < members]] = False
        return online

    def forecast(self, round: int, now: float, window: float) -> FloatArray | None:
        """Share of the window after next that each client is online, sometimes wrong; None if nothing is forecast."""
        accuracy = self.config.rounds.forecast
        if accuracy is None:
            return None
        truth = self.population.availability.share(now + window, now + 2 * window)
        generator = self.streams.generator("forecast", round)
        guess, wrong = generator.uniform(size=len(truth)), generator.uniform(size=len(truth)) >= accuracy
        return np.where(wrong, guess, truth)

    def schedule(self, picked: Selection, asked_in: int, left: FloatArray | None = None) -> Schedule:
        """The future of the selected clients, which nobody is told; `left` are the joules in all batteries."""
        clients, latency = picked.clients, self._latency(picked, asked_in)
        share = self._share(picked, asked_in, latency)
        online_until = self.population.availability.until(clients, picked.now)
        worked = Latency(latency.download, share * latency.compute, latency.upload)
        if self.power is not None and left is not None:
            online_until = np.minimum(online_until, picked.now + self.power.lasts(clients, worked, left[clients]))
        crashed, fraction = self.config.failures.crashes(picked.round, self.streams, len(self))
        schedule = Schedule.of(
            now=picked.now,
            download=latency.download,
            compute=latency.compute,
            upload=latency.upload,
            share=share,
            online_until=online_until,
            crashed=crashed[clients],
            fraction=fraction[clients],
        )
        if self.power is not None:
            schedule.energy = self.power.joules(clients, worked, schedule.times - picked.now)
        return schedule

    def spent(self, asked: Selection, asked_in: int, client: int) -> float:
        """The joules that a client of a selection needs; NaN if energy is not counted."""
        energy = self.schedule(asked, asked_in).energy
        return math.nan if energy is None else float(energy[np.searchsorted(asked.clients, client)])

    def share(self, asked: Selection, asked_in: int, client: int) -> float:
        """The share of its work that a client of a selection does."""
        position = int(np.searchsorted(asked.clients, client))
        return float(self._share(asked, asked_in, self._latency(asked, asked_in))[position])

    def tasks(
        self, clients: IntArray, asked: Selection, asked_in: int, shares: Sequence[float], model_slots: Sequence[int]
    ) -> list[TrainingTask]:
        """The training tasks of clients of a selection, each from the model in a slot."""
        spans = self.spans(clients, asked_in, asked.now)
        whole, number = self.config.training.steps_for, asked.round
        return [
            TrainingTask(client, start, stop, max(1, round_half(share * whole(stop - start))), number, slot, 0)
            for client, (start, stop), share, slot in zip(clients.tolist(), spans, shares, model_slots, strict=True)
        ]

    def spans(self, clients: IntArray, round: int, now: float) -> list[tuple[int, int]]:
        """The spans of the samples that clients hold if selected in this round, at this time."""
        held = self.drift.shards(clients, round, now)
        return self.population.spans(held, round)

    def sizes(self, clients: IntArray, round: int, now: float) -> Any:
        """How many samples these clients claim to hold."""
        held = self.drift.shards(clients, round, now)
        return self.claimed("num_examples", self.population.sizes[held], clients, round)

    def sent(
        self, tasks: Sequence[TrainingTask], train: Train, layout: Layout, asked_in: Callable[[int], int]
    ) -> Iterator[tuple[Report, Vectors]]:
        """What the server receives from the clients of these tasks; an update is valid until the next one is taken.

        `asked_in` maps the number of a selection to its round.
        """
        sent = self.hostility.sent(tasks, train, layout, asked_in) if self.hostility else train(tasks)
        return ((self.reported(task, report), update) for task, (report, update) in zip(tasks, sent, strict=True))

    def reported(self, task: TrainingTask, report: Report) -> Report:
        """What a client reports of its training; with local noise, not what it measured."""
        noise = self.config.local_noise
        return report if noise is None else noise.report(report, self.streams, task.round, task.client)

    def losses(self, truth: FloatArray, clients: IntArray, round: int) -> FloatArray:
        """The losses that clients report when asked before the selection."""
        said: FloatArray = self.claimed("loss", truth, clients, round)
        noise = self.config.local_noise
        return said if noise is None else noise.losses(said, self.streams, round, clients)

    def claimed(self, about: str, truth: Any, clients: IntArray, round: int) -> Any:
        """What clients selected in this round report for a value."""
        return self.hostility.told(about, truth, clients, round) if self.hostility else truth

    def _latency(self, asked: Selection, asked_in: int) -> Latency:
        when = (asked.clients, asked_in, asked.now)
        work = self.population.work[self.drift.shards(*when)]
        latency = self.population.devices.latency(asked.round, asked.clients, work, self.model_bytes)
        if not self.drift:
            return latency
        slow = self.drift.slowness(*when)
        return Latency(slow * latency.download, slow * latency.compute, slow * latency.upload)

    def _share(self, asked: Selection, asked_in: int, latency: Latency) -> FloatArray:
        """The share of its work that each client does.

        Less than 1 if the selector asks for less, or if that meets the deadline (FedProx).
        """
        training = self.config.training
        work = np.ones(len(asked)) if asked.work is None else asked.work
        if training.partial >= 1 or math.isinf(asked.deadline):
            return work
        held = self.drift.shards(asked.clients, asked_in, asked.now)
        steps = np.array([training.steps_for(size) for size in self.population.sizes[held].tolist()])
        left = (asked.deadline - (latency.download + latency.upload)) / np.maximum(latency.compute, 1e-12)
        possible = np.floor(steps * np.clip(left, 0.0, work))
        share = possible / steps
        return np.where((share >= training.partial * work) & (possible >= 1), share, work)


def round_half(value: float) -> int:
    """The nearest integer; shares of steps are exact up to rounding errors.

    >>> round_half(2.9999999)
    3
    """
    return math.floor(value + 0.5)
