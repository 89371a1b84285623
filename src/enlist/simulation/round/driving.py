"""Driving the selector of a simulation: who is asked, and what it is told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from enlist.books import Books
from enlist.records import Feedback, Outcome, RoundMetrics, Selection
from enlist.simulation.round.clients import SimulatedClients
from enlist.simulation.round.rows import NOTHING
from enlist.simulation.round.server import Late
from enlist.simulation.round.state import State
from enlist.simulation.round.waiting import IDLE, Schedule, Waited
from enlist.simulation.setup import tells_accuracy
from enlist.training.local import Report
from enlist.typing import BoolArray, IntArray

REPORTED = ("loss", "loss_rms", "accuracy", "accuracy_gain")
"""Values of a report that selectors are told."""
Losses = Callable[[IntArray], list[float]]
"""Mean losses of the present model on the samples of some clients."""


class Asked(NamedTuple):
    """Who was selected, how many clients the selector looked at before, and the seconds that it took to choose.

    >>> Asked(Selection(1, np.array([3, 8])), looked_at=0, seconds=0.01).looked_at
    0
    """

    selection: Selection
    looked_at: int
    seconds: float


class Driver:
    """Asks the selector of a run, and tells it what became of the clients.

    >>> from enlist.simulation import Config, Simulation
    >>> with Simulation(Config(data={"clients": 8})) as simulation:
    ...     asked = simulation.driver.ask(np.arange(8) < 5, wanted=3, replies=3, losses=None)
    >>> len(asked.selection), asked.looked_at
    (3, 0)
    """

    def __init__(self, clients: SimulatedClients, state: State) -> None:
        self.clients, self.state = clients, state
        self.rounds = clients.config.rounds
        self.begin()

    def begin(self) -> None:
        """Open the books of the selector, which may have been loaded."""
        self.books = Books(self.state.selector, late="await" if self.rounds.uses_late else "drop")

    def join(self) -> IntArray:
        """Let clients join that come in this round; returns who they are."""
        state, first = self.state, self.state.members
        for join in self.clients.config.membership.joins:
            if join.round == state.round:
                positions = np.arange(state.members, state.members + join.clients)
                self.books.join(self.clients.population.clients.kept(positions))
                state.members += join.clients
        return np.arange(first, state.members)

    @property
    def busy(self) -> BoolArray:
        """Clients of earlier rounds that are still under way; who has crashed or gone offline since is not."""
        busy = np.zeros(self.state.members, dtype=bool)
        busy[[event.client for event in self.state.queue]] = True
        return busy

    def ask(self, available: BoolArray, wanted: int, replies: int, losses: Losses | None) -> Asked:
        """Ask for so many clients, so many replies of which end the round.

        `losses` is for selectors that look before they choose; the time that it takes is the clients', not theirs.
        """
        state, busy = self.state, self.busy
        free = available & ~busy
        if not free.any():
            state.abandoned = True
        looked_at, looking = 0, 0.0

        def measure(clients: IntArray) -> Feedback:
            nonlocal looked_at, looking
            assert losses is not None
            start = time.thread_time()
            told = self.clients.claimed("loss", np.array(losses(clients), dtype=float), clients, state.round)
            looked_at, looking = len(clients), time.thread_time() - start
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
        )
        return Asked(picked, looked_at, time.thread_time() - began - looking)

    def _window(self) -> float:
        """Seconds that a round is expected to take."""
        seconds = self.state.deadline.seconds
        window = seconds if math.isfinite(seconds) else self.state.length
        return window if math.isfinite(window) else IDLE

    def arrived(self, late: Late, asked: Selection) -> None:
        """Tell of a late update that can be used."""
        report, client = late.report, np.array([late.client])
        values = {name: [getattr(report, name)] for name in REPORTED} | {"num_examples": [report.samples]}
        latency = self.clients.claimed("latency", np.array([late.latency]), client, late.round)
        self.books.arrived(asked, late.client, rounds_late=late.lateness, latency=latency, **values)

    def tell(
        self,
        picked: Selection,
        schedule: Schedule,
        waited: Waited,
        reports: Mapping[int, Report],
        measured: Mapping[str, float],
    ) -> float:
        """Tell what became of the clients that were asked; returns the seconds that the selector took to learn."""
        state, outcome = self.state, waited.outcome
        late, replied = outcome == Outcome.LATE, outcome == Outcome.COMPLETED
        claimed = self.clients.claimed("latency", schedule.latency, picked.clients, state.round)
        latency = np.where(late, waited.seconds, np.where(replied, claimed, np.nan))
        told = [reports.get(client, NOTHING) for client in picked.clients.tolist()]
        names = (*REPORTED, "samples")
        values = np.array([[getattr(report, name) for name in names] for report in told], dtype=float)
        known = np.where(replied[:, None], values.reshape(len(told), len(names)), np.nan)
        columns: dict[str, Any] = dict(zip((*REPORTED, "num_examples"), known.T, strict=True))
        columns["upload_latency"] = np.where(replied, schedule.upload, np.nan)
        feedback = Feedback(outcome=outcome, latency=latency, censored=late, **columns)
        began = time.thread_time()
        self.books.settle(picked, feedback, self._metrics(waited.seconds, measured))
        learning = time.thread_time() - began
        state.deadline.observe(claimed[replied])
        state.length = waited.seconds if math.isnan(state.length) else 0.75 * waited.seconds + 0.25 * state.length
        return learning

    def _metrics(self, duration: float, measured: Mapping[str, float]) -> RoundMetrics:
        asked = ("accuracy", "loss") if tells_accuracy(self.state.selector) else ()
        server = {name: measured.get(f"validation_{name}") for name in asked}
        finite = {name: value for name, value in server.items() if value is not None and math.isfinite(value)}
        return RoundMetrics(duration=duration, **finite)
