"""The rows that a round leaves in rounds.csv and participations.csv."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from enlist.records import Outcome, Selection
from enlist.simulation.server import Late
from enlist.simulation.waiting import Schedule, Waited
from enlist.training.local import Report

Row = Mapping[str, Any]
OUTCOMES, NOTHING = tuple(Outcome), Report()
REASON = 200
"""Longest reason of a failure that is written down, in characters."""


@dataclasses.dataclass(eq=False)
class Seen:
    """What happened in a round.

    >>> Seen.__name__
    'Seen'
    """

    round: int
    picked: Selection
    schedule: Schedule
    waited: Waited
    reports: dict[int, Report]
    late_updates: list[Late]


def participations(seen: Seen, weigh: Callable[[int, Report], float]) -> list[Row]:
    """One row per client that was asked.

    >>> participations.__name__
    'participations'
    """
    found: list[Row] = []
    schedule, waited = seen.schedule, seen.waited
    latency, download = schedule.latency.tolist(), schedule.download.tolist()
    compute, upload = schedule.compute.tolist(), schedule.upload.tolist()
    outcomes = waited.outcome.tolist()
    for position, client in enumerate(seen.picked.clients.tolist()):
        outcome = OUTCOMES[outcomes[position]]
        report = seen.reports.get(client, NOTHING)
        row: dict[str, Any] = {
            "round": seen.round,
            "selected_in": seen.picked.round,
            "client": client,
            "outcome": outcome.name.lower(),
            "censored": outcome is Outcome.LATE,
        }
        if outcome is Outcome.COMPLETED:
            parts = {"latency": latency[position], "download": download[position], "compute": compute[position]}
            row |= {**parts, "upload": upload[position], **_reported(report), "weight": weigh(client, report)}
        elif outcome is Outcome.LATE:
            row["latency"] = waited.seconds
        elif outcome is Outcome.FAILED:
            row["reason"] = _reason(report.error or "crashed")
        found.append(row)
    return found


def late(seen: Seen, weights: Mapping[int, float]) -> list[Row]:
    """One row per update of an earlier round that came in this one.

    >>> late.__name__
    'late'
    """
    return [
        {
            "round": seen.round,
            "selected_in": entry.round,
            "client": entry.client,
            "outcome": "failed" if entry.report.error else "arrived",
            "latency": entry.latency,
            "censored": False,
            "rounds_late": entry.lateness,
            **_reported(entry.report),
            "weight": weights.get(entry.client, 0.0),
            "reason": _reason(entry.report.error),
        }
        for entry in seen.late_updates
    ]


def round_row(
    seen: Seen,
    start: float,
    available: int,
    measured: Mapping[str, float],
    model_bytes: int,
    models_down: int,
    models_up: int,
) -> Row:
    """The row of the round itself.

    >>> round_row.__name__
    'round_row'
    """
    counts = np.bincount(seen.waited.outcome, minlength=len(Outcome))
    good = [report for report in seen.reports.values() if not report.error and not math.isnan(report.loss)]
    samples = sum(report.samples for report in good)
    return {
        "round": seen.round,
        "start": start,
        "duration": seen.waited.seconds,
        "end": seen.waited.ended,
        "available": available,
        "asked": len(seen.picked),
        "completed": int(counts[Outcome.COMPLETED]),
        "late": int(counts[Outcome.LATE]),
        "dropped": int(counts[Outcome.DROPPED]),
        "failed": int(counts[Outcome.FAILED]),
        "arrived": sum(not entry.report.error for entry in seen.late_updates),
        "deadline": seen.picked.deadline,
        "train_loss": sum(report.samples * report.loss for report in good) / samples if samples else math.nan,
        "bytes_down": model_bytes * models_down,
        "bytes_up": model_bytes * models_up,
        **measured,
    }


def _reported(report: Report) -> dict[str, Any]:
    names = ("samples", "loss", "loss_rms", "loss_after", "accuracy", "accuracy_gain")
    return {name: getattr(report, name) for name in names}


def _reason(text: str) -> str:
    return " ".join(text.split())[:REASON]
