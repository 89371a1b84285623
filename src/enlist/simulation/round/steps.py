"""A step of an asynchronous server: who was selected meanwhile, how participations ended, and their rows."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from enlist._internal.typing import AnyArray, FloatArray
from enlist.records import Outcome, Selection
from enlist.runs.columns import Participation, RoundRow
from enlist.simulation.round.clock import Event, Kind, Queue
from enlist.simulation.round.rows import NOTHING, reason, reported
from enlist.simulation.round.waiting import Schedule
from enlist.training.local import Report


@dataclasses.dataclass(eq=False)
class EndedParticipation:
    """How the participation of a client ended, which may have begun many steps ago.

    Parameters
    ----------
    asked : Selection
        The selection that asked it.
    client : int
        Its position.
    outcome : Outcome
        COMPLETED if its update counts, LATE if it came too late, DROPPED, or FAILED.
    staleness : int
        Steps of the server since it was asked.
    schedule : Schedule
        The schedule of the selection.
    why : str
        Why it failed, if that is known without looking at its update.
    report : Report
        What it measured; its error says why the update was refused.
    weight : float
        The weight of its update.

    >>> part = np.array([1.0, 2.0])
    >>> schedule = Schedule(part, 3.0 * part, part, np.ones(2), 5.0 * part, [Kind.REPLY, Kind.REPLY])
    >>> EndedParticipation(Selection(4, np.array([2, 7])), 7, Outcome.COMPLETED, 1, schedule).latency
    10.0
    """

    asked: Selection
    client: int
    outcome: Outcome
    staleness: int
    schedule: Schedule
    why: str = ""
    report: Report = NOTHING
    weight: float = math.nan

    @property
    def _place(self) -> int:
        return int(np.searchsorted(self.asked.clients, self.client))

    @property
    def censored(self) -> bool:
        """Whether the server stopped waiting for it."""
        return self.outcome is Outcome.LATE and self._seconds > self.asked.deadline

    @property
    def latency(self) -> float:
        """Seconds from selection to the reply, or to the deadline; NaN if it was lost."""
        if self.outcome in (Outcome.DROPPED, Outcome.FAILED):
            return math.nan
        return min(self._seconds, self.asked.deadline)

    @property
    def upload(self) -> float:
        """The part of the latency spent on the upload."""
        return float(self.schedule.upload[self._place])

    @property
    def share(self) -> float:
        """The share of its work that it was to do."""
        return float(self.schedule.share[self._place])

    @property
    def energy(self) -> float:
        """The joules that it spent; NaN if energy is not counted."""
        return math.nan if self.schedule.energy is None else float(self.schedule.energy[self._place])

    @property
    def _seconds(self) -> float:
        return float(self.schedule.latency[self._place])

    def row(self, step: int, selected_in: int, users: AnyArray | None, joules: bool = False) -> Participation:
        """Its row of participations.csv."""
        found: dict[str, Any] = {
            "round": step,
            "selected_in": selected_in,
            "client": self.client,
            "outcome": self.outcome.name.lower(),
            "censored": self.censored,
            "rounds_late": self.staleness,
        }
        if users is not None:
            found["user"] = str(users[self.client])
        if joules:
            found["energy"] = self.energy
        if self.outcome is Outcome.COMPLETED:
            place = self._place
            parts = {name: float(getattr(self.schedule, name)[place]) for name in ("download", "compute", "upload")}
            found |= {"latency": self.latency, **parts, **reported(self.report), "weight": self.weight}
        elif self.outcome is Outcome.LATE:
            found |= {"latency": self.latency, "reason": reason(self.why)}
        elif self.outcome is Outcome.FAILED:
            found["reason"] = reason(self.report.error or self.why)
        return cast("Participation", found)


@dataclasses.dataclass(eq=False)
class ServerStep:
    """What has happened since the last step of the server.

    Parameters
    ----------
    number : int
        1, 2, ...
    start : float
        Virtual seconds when it began.
    available : int
        Clients online at that time, including busy ones.
    deadline : float
        Seconds that a client was given at that time.
    asked : list of Selection
        Selections that were made, in order.
    ended : list of EndedParticipation
        Participations that ended, in order.
    candidates : int
        Clients that were measured before the selector chose.
    end : float
        When the server steps.

    >>> step = ServerStep(3, start=60.0, available=8, deadline=math.inf)
    >>> step.end = 75.0
    >>> step.seconds, step.updates
    (15.0, [])
    """

    number: int
    start: float
    available: int
    deadline: float
    asked: list[Selection] = dataclasses.field(default_factory=list)
    ended: list[EndedParticipation] = dataclasses.field(default_factory=list)
    candidates: int = 0
    choosing: float = 0.0
    end: float = math.nan

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start

    @property
    def updates(self) -> list[EndedParticipation]:
        """The buffer: participations whose update counts, in the order of arrival."""
        return [entry for entry in self.ended if entry.outcome is Outcome.COMPLETED]

    def by_selection(self) -> Iterator[tuple[Selection, list[EndedParticipation]]]:
        """The participations that ended, by the selection that asked them; empty selections too."""
        nobody = [(picked, list[EndedParticipation]()) for picked in self.asked if not len(picked)]
        ranked = sorted(self.ended, key=lambda entry: (entry.asked.round, entry.client))
        groups = [list(group) for _, group in itertools.groupby(ranked, lambda entry: entry.asked.round)]
        found = nobody + [(group[0].asked, group) for group in groups]
        return iter(sorted(found, key=lambda pair: pair[0].round))

    def selection(self) -> Selection:
        """All selected clients, as one selection; terms and probabilities are NaN for clients chosen without them."""
        names = dict.fromkeys(name for picked in self.asked for name in picked.terms)
        terms = {name: np.concatenate([_term(picked, name) for picked in self.asked]) for name in names}
        everybody = [np.zeros(0, dtype=np.int64), *(picked.clients for picked in self.asked)]
        drawn = [np.full(len(one), np.nan) if one.probabilities is None else one.probabilities for one in self.asked]
        known = any(picked.probabilities is not None for picked in self.asked)
        probabilities = np.concatenate(drawn) if known else None
        clients = np.concatenate(everybody)
        return Selection(self.number, clients, self.deadline, self.start, terms, probabilities=probabilities)

    def row(self, measured: Mapping[str, float], model_bytes: int, joules: bool = False) -> RoundRow:
        """The row of rounds.csv; joules are those of participations that ended in this step."""
        outcomes = [entry.outcome for entry in self.ended]
        good = [entry.report for entry in self.updates if not math.isnan(entry.report.loss)]
        samples = sum(report.num_examples for report in good)
        replies = sum(not math.isnan(entry.latency) and not entry.censored for entry in self.ended)
        refused = sum(bool(entry.report.error) for entry in self.ended)
        found = {
            "round": self.number,
            "start": self.start,
            "duration": self.seconds,
            "end": self.end,
            "available": self.available,
            "selected": sum(map(len, self.asked)),
            "completed": outcomes.count(Outcome.COMPLETED),
            "late": outcomes.count(Outcome.LATE),
            "dropped": outcomes.count(Outcome.DROPPED),
            "failed": outcomes.count(Outcome.FAILED),
            "arrived": 0,
            "deadline": self.deadline,
            "train_loss": sum(report.num_examples * report.loss for report in good) / samples if samples else math.nan,
            "bytes_down": model_bytes * (sum(map(len, self.asked)) + self.candidates),
            "bytes_up": model_bytes * (replies + refused),
            **measured,
        }
        if joules:
            found["energy"] = float(sum(entry.energy for entry in self.ended))
        return cast("RoundRow", found)


def events(picked: Selection, schedule: Schedule) -> Iterator[Event]:
    """The event of each client, and its time: after the deadline the server stops waiting.

    A client that goes offline sends nothing: with a deadline the server waits for it in vain; without one it
    notices the broken connection.

    >>> kinds = [Kind.REPLY, Kind.LOST, Kind.ERROR]
    >>> schedule = Schedule(*np.zeros((4, 3)), times=np.array([3.0, 8.0, 2.0]), kinds=kinds)
    >>> [(event.time, event.kind.name) for event in events(Selection(1, np.array([4, 7, 9]), deadline=5.0), schedule)]
    [(3.0, 'REPLY'), (5.0, 'LOST'), (2.0, 'ERROR')]
    """
    limit = picked.now + picked.deadline
    columns = (picked.clients.tolist(), schedule.times.tolist(), schedule.kinds, schedule.latency.tolist())
    for client, time, kind, latency in zip(*columns, strict=True):
        if kind == Kind.REPLY and latency > picked.deadline:
            time, kind = limit, Kind.DEADLINE
        elif kind == Kind.LOST and math.isfinite(limit):
            time = limit
        elif kind == Kind.ERROR and time > limit:
            time, kind = limit, Kind.DEADLINE
        yield Event(time, kind, picked.round, client)


def at_work(queue: Queue, members: int) -> AnyArray:
    """Mask of the clients with a pending event, (members,).

    >>> at_work(Queue([Event(5.0, Kind.REPLY, 1, 2)]), 4)
    array([False, False,  True, False])
    """
    found = np.zeros(members, dtype=bool)
    found[[event.client for event in queue]] = True
    return found


def _term(picked: Selection, name: str) -> FloatArray:
    return picked.terms[name] if name in picked.terms else np.full(len(picked), np.nan)


__all__: Sequence[str] = ["EndedParticipation", "ServerStep", "at_work", "events"]
