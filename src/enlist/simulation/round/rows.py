"""The record of a round, with its rows of rounds.csv and participations.csv."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from enlist._internal.typing import AnyArray, FloatArray
from enlist.records import Outcome, Selection
from enlist.runs.columns import Participation, RoundRow
from enlist.runs.reasons import reason_rows
from enlist.simulation.round.server import LateUpdate
from enlist.simulation.round.waiting import Schedule, WaitResult
from enlist.training.local import Report
from enlist.training.times import TimeSpent

NAMES, NOTHING = tuple(outcome.name.lower() for outcome in Outcome), Report()
COMPLETED, LATE, FAILED = int(Outcome.COMPLETED), int(Outcome.LATE), int(Outcome.FAILED)
REASON = 200
"""Maximum length of a recorded reason for a failure, in characters."""


@dataclasses.dataclass(frozen=True, eq=False)
class RoundRecord:
    """The record of a round: `Simulation.step` returns it, and every callback receives it.

    Parameters
    ----------
    selection : Selection
        The selected clients.
    row : RoundRow
        The round's row of rounds.csv.
    participations : sequence of Participation
        Its rows of participations.csv: selected clients, then late updates of earlier rounds.
    reasons : mapping of str to array, optional
        Why these clients: the terms that `Selector.explain` shows, and the probability of clients that were drawn,
        aligned with `selection.clients`; empty if there was nothing to choose by, None if reasons are not kept.
    selecting : float
        Processor seconds that the selector took to choose and to learn.
    spent : TimeSpent
        Where the wall-clock time of the round went.

    >>> from enlist.simulation import Config, Simulation
    >>> with Simulation(Config(data={"clients": 8}, rounds={"k": 3}, selector="cs-ucb")) as simulation:
    ...     record = simulation.step()
    >>> record.row["selected"], [row["outcome"] for row in record.participations], list(record.reasons)
    (3, ['completed', 'completed', 'completed'], ['mean', 'bonus'])
    """

    selection: Selection
    row: RoundRow
    participations: Sequence[Participation] = ()
    reasons: Mapping[str, FloatArray] | None = None
    selecting: float = math.nan
    spent: TimeSpent = TimeSpent()

    def tables(self) -> dict[str, Sequence[Mapping[str, Any]]]:
        """Table -> the rows that this round adds to it."""
        found: dict[str, Sequence[Mapping[str, Any]]] = {"participations.csv": self.participations}
        if self.reasons:
            found["reasons.csv"] = reason_rows(self.row["round"], self.selection.clients.tolist(), self.reasons)
        return {**found, "rounds.csv": [self.row]}


@dataclasses.dataclass(eq=False)
class Rows:
    """The rows that record what happened in a round.

    >>> ones = np.ones(2)
    >>> schedule = Schedule(ones, 2.0 * ones, ones, ones, 4.0 * ones, [])
    >>> waited = WaitResult(12.0, 9.0, np.array([Outcome.COMPLETED, Outcome.LATE]), np.array([0]), [], [])
    >>> rows = Rows(Selection(3, np.array([4, 7]), 9.0), schedule, waited, {4: Report(loss=0.5, num_examples=20.0)}, [])
    >>> [(row["client"], row["outcome"], row["latency"]) for row in rows.asked({4: 20.0})]
    [(4, 'completed', 4.0), (7, 'late', 9.0)]
    >>> row = rows.round(3.0, available=8, measured={"accuracy": 0.6}, model_bytes=100, models_down=2, models_up=1)
    >>> row["completed"], row["late"], row["train_loss"], row["bytes_down"], row["accuracy"]
    (1, 1, 0.5, 200, 0.6)
    """

    picked: Selection
    schedule: Schedule
    waited: WaitResult
    reports: Mapping[int, Report]
    late: Sequence[LateUpdate]
    users: AnyArray | None = None

    def asked(self, weights: Mapping[int, float]) -> list[Participation]:
        """One row per selected client; `weights` are those of the updates."""
        users = self.users
        found: list[dict[str, Any]] = []
        schedule, waited = self.schedule, self.waited
        latency, download = schedule.latency.tolist(), schedule.download.tolist()
        compute, upload = schedule.compute.tolist(), schedule.upload.tolist()
        outcomes = waited.outcome.tolist()
        energy = None if schedule.energy is None else schedule.energy.tolist()
        for position, client in enumerate(self.picked.clients.tolist()):
            outcome = outcomes[position]
            report = self.reports.get(client, NOTHING)
            row: dict[str, Any] = {
                "round": self.picked.round,
                "selected_in": self.picked.round,
                "client": client,
                "outcome": NAMES[outcome],
                "censored": outcome == LATE,
            }
            if users is not None:
                row["user"] = str(users[client])
            if energy is not None:
                row["energy"] = energy[position]
            if outcome == COMPLETED:
                row["latency"], row["download"] = latency[position], download[position]
                row["compute"], row["upload"] = compute[position], upload[position]
                row |= reported(report)
                row["weight"] = weights[client]
            elif outcome == LATE:
                row["latency"] = waited.seconds
            elif outcome == FAILED:
                row["reason"] = reason(report.error or "crashed")
            found.append(row)
        return cast("list[Participation]", found)

    def arrived(self, weights: Mapping[int, float]) -> list[Participation]:
        """One row per update of an earlier round that arrived in this one."""
        found: list[dict[str, Any]] = [
            {
                "round": self.picked.round,
                "selected_in": entry.round,
                "client": entry.client,
                "outcome": "failed" if entry.report.error else "arrived",
                "latency": entry.latency,
                "censored": False,
                "rounds_late": entry.lateness,
                **reported(entry.report),
                "weight": weights.get(entry.client, 0.0),
                "reason": reason(entry.report.error),
                **({} if self.users is None else {"user": str(self.users[entry.client])}),
            }
            for entry in self.late
        ]
        return cast("list[Participation]", found)

    def round(
        self,
        start: float,
        available: int,
        measured: Mapping[str, float],
        model_bytes: int,
        models_down: int,
        models_up: int,
    ) -> RoundRow:
        """The row of the round itself."""
        counts = np.bincount(self.waited.outcome, minlength=len(Outcome))
        good = [report for report in self.reports.values() if not report.error and not math.isnan(report.loss)]
        samples = sum(report.num_examples for report in good)
        found = {
            "round": self.picked.round,
            "start": start,
            "duration": self.waited.seconds,
            "end": self.waited.ended,
            "available": available,
            "selected": len(self.picked),
            "completed": int(counts[Outcome.COMPLETED]),
            "late": int(counts[Outcome.LATE]),
            "dropped": int(counts[Outcome.DROPPED]),
            "failed": int(counts[Outcome.FAILED]),
            "arrived": sum(not entry.report.error for entry in self.late),
            "deadline": self.picked.deadline,
            "train_loss": sum(report.num_examples * report.loss for report in good) / samples if samples else math.nan,
            "bytes_down": model_bytes * models_down,
            "bytes_up": model_bytes * models_up,
            **measured,
        }
        if self.schedule.energy is not None:
            found["energy"] = float(self.schedule.energy.sum())
        return cast("RoundRow", found)


def reported(report: Report) -> dict[str, Any]:
    """The columns of participations.csv that come from a report.

    >>> reported(Report(num_examples=20.0))["num_examples"]
    20.0
    """
    return {
        "num_examples": report.num_examples,
        "loss": report.loss,
        "loss_rms": report.loss_rms,
        "loss_after": report.loss_after,
        "accuracy": report.accuracy,
        "accuracy_gain": report.accuracy_gain,
    }


def reason(text: str) -> str:
    """Why something failed, in one line.

    >>> reason("no\\nmemory")
    'no memory'
    """
    return " ".join(text.split())[:REASON]
