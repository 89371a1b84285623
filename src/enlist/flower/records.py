"""The rows that a round of a federation leaves: the tables of a simulation, filled as far as a server can know."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from enlist.flower.federation import Federation, Report
from enlist.records import Outcome, Selection
from enlist.runs.columns import TABLES
from enlist.runs.reasons import reason_rows

EVENTS = ("round", "time", "kind", "node", "client", "text")
SHADOW = ("round", "client", "asked", "wanted", "outcome", "latency")
EVALUATIONS = ("evaluate_asked", "evaluate_completed", "evaluate_failed")
"""Columns of rounds.csv: nodes that were asked to evaluate, and what became of it; the rest did not reply in time."""
FLOWER_TABLES = {
    **TABLES,
    "rounds.csv": (*TABLES["rounds.csv"], *EVALUATIONS),
    "events.csv": EVENTS,
    "shadow.csv": SHADOW,
}
MOST_EVENTS = 10_000
"""Rows of events.csv; after that nothing more is noted there."""

Row = dict[str, Any]


@dataclasses.dataclass(eq=False)
class Happened:
    """What happened in a round: who was asked, who reported in time, and which late replies of earlier rounds came.

    weights   what each reply counted in the average, by node; `late_weights` the same for late replies

    >>> import numpy as np
    >>> Happened(1, Selection(1, np.array([0, 3])), [], [], waited=9.0).late_weights
    {}
    """

    number: int
    selection: Selection
    reports: Sequence[Report]
    late: Sequence[tuple[int, Report]]
    waited: float
    weights: Mapping[int, float] = dataclasses.field(default_factory=dict)
    late_weights: Mapping[int, float] = dataclasses.field(default_factory=dict)


def participations(happened: Happened, federation: Federation) -> list[Row]:
    """One row per client that was asked, and one for each late reply of an earlier round.

    A reply is written under the client that its node has turned out to be.

    >>> from enlist.flower.choosers import Source
    >>> from enlist.flower.replies import Said
    >>> federation = Federation(Source.of("random", None, None, seed=1))
    >>> _ = federation.enrol([11, 12], {})
    >>> picked = federation.choose([11, 12], set(), k=2, now=0.0, deadline=9.0)
    >>> reports = [Report(12, 1, Said(Outcome.FAILED, "boom"), 3.0)]
    >>> rows = participations(Happened(1, picked, reports, [], 9.0), federation)
    >>> [(row["client"], row["outcome"], row["latency"], row.get("reason")) for row in rows]
    [(0, 'late', 9.0, None), (1, 'failed', 3.0, 'boom')]
    """
    found: list[Row] = []
    reported = {report.client: report for report in happened.reports}
    for client in happened.selection.clients.tolist():
        report = reported.get(client)
        row: Row = {"round": happened.number, "selected_in": happened.number}
        row["client"] = federation.nodes.order[client] if report is None else _client(report, federation)
        if report is None:
            found.append({**row, "outcome": "late", "latency": happened.waited, "censored": True})
        else:
            weight = happened.weights.get(report.node, math.nan)
            found.append({**row, **_reported(report), "censored": False, "weight": weight})
    for number, report in happened.late:
        row = {"round": happened.number, "selected_in": number, "client": _client(report, federation)}
        row |= {**_reported(report), "censored": False, "rounds_late": happened.number - number}
        if report.said.outcome == Outcome.COMPLETED:
            row |= {"outcome": "arrived", "weight": happened.late_weights.get(report.node, 0.0)}
        found.append(row)
    return found


def reasons(happened: Happened, federation: Federation) -> list[Row]:
    """One row per client that was asked, with the terms by which it was chosen; none if there was nothing to choose by.

    >>> from enlist.flower.choosers import Source
    >>> federation = Federation(Source.of("cs-ucb", None, None, seed=1))
    >>> _ = federation.enrol([11, 12], {})
    >>> picked = federation.choose([11, 12], set(), k=1, now=0.0, deadline=9.0)
    >>> [list(row) for row in reasons(Happened(1, picked, [], [], 9.0), federation)]
    [['round', 'client', 'mean', 'bonus']]
    """
    reported = {report.client: report for report in happened.reports}
    clients = [
        _client(reported[client], federation) if client in reported else federation.nodes.order[client]
        for client in happened.selection.clients.tolist()
    ]
    return reason_rows(happened.number, clients, happened.selection.terms)


def _client(report: Report, federation: Federation) -> int:
    number = federation.nodes.number(report.node)
    return federation.nodes.order[report.client] if number is None else number


def _reported(report: Report) -> Row:
    said = report.said
    row: Row = {"outcome": said.outcome.name.lower(), "latency": report.latency, "reason": said.reason or None}
    names = {"num_examples": "samples"}
    row |= {names.get(name, name): value for name, value in said.claims.items()}
    return {**row, "compute": min(said.seconds, report.latency)}


def round_row(happened: Happened, start: float, end: float, available: int, measured: Mapping[str, Any]) -> Row:
    """The row of the round itself; times are seconds since the federation was started.

    >>> import numpy as np
    >>> picked = Selection(3, np.array([0, 1]), deadline=9.0)
    >>> row = round_row(Happened(3, picked, [], [], 9.0), 20.0, 29.5, 7, {"accuracy": 0.5})
    >>> row["asked"], row["late"], row["duration"], row["accuracy"]
    (2, 2, 9.5, 0.5)
    """
    outcomes = [report.said.outcome for report in happened.reports]
    done = [report.said for report in happened.reports if report.said.outcome == Outcome.COMPLETED]
    trained = [(said.claims.get("num_examples", 1.0), said.claims["loss"]) for said in done if "loss" in said.claims]
    samples = sum(count for count, _ in trained)
    return {
        "round": happened.number,
        "start": start,
        "duration": end - start,
        "end": end,
        "available": available,
        "asked": len(happened.selection),
        "completed": len(done),
        "late": len(happened.selection) - len(outcomes),
        "dropped": outcomes.count(Outcome.DROPPED),
        "failed": outcomes.count(Outcome.FAILED),
        "arrived": sum(report.said.outcome == Outcome.COMPLETED for _, report in happened.late),
        "deadline": happened.selection.deadline,
        "train_loss": sum(count * loss for count, loss in trained) / samples if samples else math.nan,
        **measured,
    }


def clients_table(federation: Federation) -> str:
    """clients.csv: every client that there has ever been, with its name, its node and what it last reported.

    `expected_latency` is the last latency that was measured, as the reports call it.

    >>> from enlist.flower.choosers import Source
    >>> federation = Federation(Source.of("random", None, None, seed=1))
    >>> _ = federation.enrol([11], {})
    >>> clients_table(federation).splitlines()
    ['client,samples,expected_latency,id,node', '0,,,node-11,11']
    """
    nodes, claims = federation.nodes, federation.claims
    told = [[""] * len(nodes), [""] * len(nodes)]
    for cells, values in zip(told, (claims.num_examples.tolist(), claims.latency.tolist()), strict=True):
        for number, value in zip(nodes.order, values, strict=True):
            if value == value:  # NaN is not
                cells[number] = repr(value)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("client", "samples", "expected_latency", "id", "node"))
    writer.writerows(zip(range(len(nodes)), *told, nodes.names, nodes.nodes, strict=True))
    return buffer.getvalue()


def shadow_rows(
    number: int, federation: Federation, asked: Mapping[int, Report | None], wanted: Sequence[int]
) -> list[Row]:
    """One row per client that Flower asked or the selector wanted; `asked` maps positions to what came of it.

    >>> from enlist.flower.choosers import Source
    >>> federation = Federation(Source.of("random", None, None, seed=1))
    >>> _ = federation.enrol([11, 12], {})
    >>> [(row["client"], row["asked"], row["wanted"]) for row in shadow_rows(1, federation, {0: None}, [1])]
    [(0, 1, 0), (1, 0, 1)]
    """
    rows: list[Row] = []
    for client in sorted({*asked, *wanted}):
        row: Row = {"round": number, "client": federation.nodes.order[client]}
        row |= {"asked": int(client in asked), "wanted": int(client in wanted)}
        if client in asked:
            report = asked[client]
            row["outcome"] = "late" if report is None else report.said.outcome.name.lower()
            row["latency"] = math.nan if report is None else report.latency
        rows.append(row)
    return rows
