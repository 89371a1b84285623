"""The records of a federation: lines of the log, and the tables of a simulation as far as a server can fill them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp.strategy import Result

from enlist.flower.grid import LOGGER, Messenger
from enlist.flower.replies.reply import Reply
from enlist.flower.rounds.round import Round
from enlist.records import Outcome, RoundMetrics
from enlist.runs.columns import TABLES
from enlist.runs.reasons import reason_rows, reasons_of

if TYPE_CHECKING:
    from enlist.flower.federation import FlowerFederation
    from enlist.flower.saving.folder import FederationFolder

EVENTS = ("round", "time", "kind", "node", "client", "text")
SHADOW = ("round", "client", "selected", "wanted", "outcome", "latency")
EVALUATIONS = ("evaluate_selected", "evaluate_completed", "evaluate_failed")
"""Columns of rounds.csv: nodes selected to evaluate, and their outcomes; the rest did not reply in time."""
FLOWER_TABLES = {
    **TABLES,
    "rounds.csv": (*TABLES["rounds.csv"], *EVALUATIONS),
    "events.csv": EVENTS,
    "shadow.csv": SHADOW,
}
MOST_EVENTS = 10_000
"""Most rows of events.csv; further events are not written."""

COUNTED = ("selected", "completed", "late", "dropped", "failed", "arrived")
LOGGED = ("round", *COUNTED)
"""Columns of rounds.csv that are also logged."""

Row = dict[str, Any]


class TableWriter:
    """Records every finished round: a line of the log, rows of the tables, and noteworthy events.

    late      what happens to late replies; dropped ones have no rows
    reasons   whether to record why nodes were selected

    >>> from enlist.flower.federation import FlowerFederation
    >>> from enlist.flower.saving.folder import FederationFolder
    >>> from enlist.flower.selector import SelectorSource
    >>> federation = FlowerFederation(SelectorSource.of("random", None, None, seed=1))
    >>> TableWriter(FederationFolder(None), federation).noted
    set()
    """

    def __init__(
        self, folder: FederationFolder, federation: FlowerFederation, late: str = "learn", reasons: bool = True
    ) -> None:
        self.folder, self.federation, self.late, self.reasons = folder, federation, late, reasons
        self.noted: set[tuple[str, int, str]] = set()

    def write(self, current: Round, metrics: RoundMetrics, now: float, messenger: Messenger) -> Row:
        """Record a finished round; clients.csv comes first, because the other tables name its clients.

        Returns what was logged.
        """
        late = [] if self.late == "drop" else current.late
        measured: dict[str, Any] = {
            "accuracy": metrics.accuracy,
            "loss": metrics.loss,
            "bytes_down": current.bytes_down,
            "bytes_up": current.bytes_up,
            **current.evaluations,
        }
        row = round_row(current, late, now, measured)
        logged = {name: row[name] for name in LOGGED}
        logged["open"] = sum(sent.kind == "train" for sent in messenger.open.values())
        logged |= {"waited": round(current.waited or 0.0, 2), "deadline": round(row["deadline"], 2)}
        line = " ".join(f"{name}={value}" for name, value in logged.items())
        LOGGER.info("enlist %s", line, extra={"enlist": logged})
        events = self._events(current, messenger, now)
        if self.folder.run is None:
            return logged
        self.folder.describe(self.federation, current.number)
        self.folder.append("events.csv", events)
        if current.watching:
            self.folder.append("shadow.csv", shadow_rows(current, self.federation))
        elif self.reasons:  # in shadow mode, shadow.csv holds what the selector would have selected
            self.folder.append("reasons.csv", reasons(current, self.federation))
        self.folder.append("participations.csv", participations(current, late, self.federation))
        self.folder.append("rounds.csv", [row])
        return logged

    def _events(self, current: Round, messenger: Messenger, now: float) -> list[Row]:
        """Noteworthy events, each reported once."""
        refused = [reply for reply in current.reported if reply.reason.startswith("refused")]
        found = [("refused", reply.node, reply.reason) for reply in refused]
        found += [("ignored", node, "a reply that answers nothing that was asked") for node, _ in messenger.ignored]
        found += self.federation.events
        messenger.ignored, self.federation.events = [], []
        fresh = [entry for entry in dict.fromkeys(found) if entry not in self.noted]
        if len(self.noted) < MOST_EVENTS:
            self.noted |= set(fresh)
        for kind, node, text in fresh:
            LOGGER.warning("enlist %s: node %d: %s", kind, node, text)
        number = self.federation.nodes.number
        shared = {"round": current.number, "time": now}
        return [
            {**shared, "kind": kind, "node": node, "client": number(node), "text": text} for kind, node, text in fresh
        ]


def participations(current: Round, late: Sequence[Reply], federation: FlowerFederation) -> list[Row]:
    """One row per selected client, and one for each late reply of an earlier round.

    A reply is recorded under the client that its node turned out to be.

    >>> from enlist.flower.federation import FlowerFederation
    >>> from enlist.flower.selector import SelectorSource
    >>> federation = FlowerFederation(SelectorSource.of("random", None, None, seed=1))
    >>> _ = federation.enrol([11, 12], {})
    >>> picked = federation.choose([11, 12], set(), k=2, now=0.0, deadline=9.0)
    >>> current = Round(1, picked, {11: 0, 12: 1}, [], None, {11, 12}, 0.0, waited=9.0)
    >>> current.reported = [Reply(12, 1, 3.0, client=1, outcome=Outcome.FAILED, reason="boom")]
    >>> rows = participations(current, [], federation)
    >>> [(row["client"], row["outcome"], row["latency"], row.get("reason")) for row in rows]
    [(0, 'late', 9.0, None), (1, 'failed', 3.0, 'boom')]
    """
    found: list[Row] = []
    for client, reply in current.entries():
        row: Row = {"round": current.number, "selected_in": current.number if reply is None else reply.round}
        row["client"] = federation.nodes.order[client] if reply is None else _client(reply, federation)
        if reply is None:
            found.append({**row, "outcome": "late", "latency": current.waited, "censored": True})
            continue
        given_up = reply.outcome == Outcome.LATE and not reply.reason
        row |= {**_reported(reply), "censored": given_up, "weight": reply.weight}
        found.append(row | ({"rounds_late": current.number - reply.round} if current.stepping else {}))
    for reply in late:
        row = {"round": current.number, "selected_in": reply.round, "client": _client(reply, federation)}
        row |= {**_reported(reply), "censored": False, "rounds_late": current.number - reply.round}
        if reply.completed:
            row |= {"outcome": "arrived", "weight": 0.0 if math.isnan(reply.weight) else reply.weight}
        found.append(row)
    return found


def reasons(current: Round, federation: FlowerFederation) -> list[Row]:
    """One row per selected client, with the terms of its score; no rows if the selector gave no terms.

    >>> from enlist.flower.federation import FlowerFederation
    >>> from enlist.flower.selector import SelectorSource
    >>> federation = FlowerFederation(SelectorSource.of("cs-ucb", None, None, seed=1))
    >>> _ = federation.enrol([11, 12], {})
    >>> picked = federation.choose([11, 12], set(), k=1, now=0.0, deadline=9.0)
    >>> [list(row) for row in reasons(Round(1, picked, {11: 0}, [], None, {11, 12}, 0.0), federation)]
    [['round', 'client', 'mean', 'bonus']]
    """
    reported = {reply.client: reply for reply in current.reported}
    clients = [
        _client(reported[client], federation) if client in reported else federation.nodes.order[client]
        for client in current.selection.clients.tolist()
    ]
    return reason_rows(current.number, clients, reasons_of(current.selection))


def _client(reply: Reply, federation: FlowerFederation) -> int:
    number = federation.nodes.number(reply.node)
    return federation.nodes.order[reply.client] if number is None else number


def _reported(reply: Reply) -> Row:
    row: Row = {"outcome": reply.outcome.name.lower(), "latency": reply.latency, "reason": reply.reason or None}
    return {**row, **reply.claims, "compute": min(reply.seconds, reply.latency)}


def round_row(current: Round, late: Sequence[Reply], end: float, measured: Mapping[str, Any]) -> Row:
    """The row of the round itself; times are seconds since the federation was started.

    >>> import numpy as np
    >>> from enlist.records import Selection
    >>> picked = Selection(3, np.array([0, 1]), deadline=9.0)
    >>> row = round_row(Round(3, picked, {}, [], None, {11, 12}, 20.0), [], 29.5, {"accuracy": 0.5})
    >>> row["selected"], row["late"], row["duration"], row["accuracy"]
    (2, 2, 9.5, 0.5)
    """
    outcomes = [reply.outcome for reply in current.reported]
    done = [reply for reply in current.reported if reply.completed]
    trained = [(one.claims.get("num_examples", 1.0), one.claims["loss"]) for one in done if "loss" in one.claims]
    samples = sum(count for count, _ in trained)
    return {
        "round": current.number,
        "start": current.began,
        "duration": end - current.began,
        "end": end,
        "available": len(current.online),
        "selected": len(current.selection),
        "completed": len(done),
        "late": sum(reply is None or reply.outcome == Outcome.LATE for _, reply in current.entries()),
        "dropped": outcomes.count(Outcome.DROPPED),
        "failed": outcomes.count(Outcome.FAILED),
        "arrived": sum(reply.completed for reply in late),
        "deadline": current.selection.deadline,
        "train_loss": sum(count * loss for count, loss in trained) / samples if samples else math.nan,
        **measured,
    }


def clients_table(federation: FlowerFederation) -> str:
    """clients.csv: every client seen so far, with its name, its node and what it last reported.

    `expected_latency` is the last measured latency; the reports use this name.

    >>> from enlist.flower.federation import FlowerFederation
    >>> from enlist.flower.selector import SelectorSource
    >>> federation = FlowerFederation(SelectorSource.of("random", None, None, seed=1))
    >>> _ = federation.enrol([11], {})
    >>> clients_table(federation).splitlines()
    ['client,num_examples,expected_latency,id,node', '0,,,node-11,11']
    """
    nodes, claims = federation.nodes, federation.claims
    told = [[""] * len(nodes), [""] * len(nodes)]
    for cells, values in zip(told, (claims.num_examples.tolist(), claims.latency.tolist()), strict=True):
        for number, value in zip(nodes.order, values, strict=True):
            if value == value:  # NaN is not
                cells[number] = repr(value)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("client", "num_examples", "expected_latency", "id", "node"))
    writer.writerows(zip(range(len(nodes)), *told, nodes.names, nodes.nodes, strict=True))
    return buffer.getvalue()


def shadow_rows(current: Round, federation: FlowerFederation) -> list[Row]:
    """One row per client that Flower selected or the selector would have selected.

    >>> import numpy as np
    >>> from enlist.flower.federation import FlowerFederation
    >>> from enlist.flower.selector import SelectorSource
    >>> from enlist.records import Selection
    >>> federation = FlowerFederation(SelectorSource.of("random", None, None, seed=1))
    >>> _ = federation.enrol([11, 12], {})
    >>> current = Round(1, Selection(1, np.array([0])), {11: 0}, [], None, {11, 12}, 0.0, wanted=[1])
    >>> [(row["client"], row["selected"], row["wanted"]) for row in shadow_rows(current, federation)]
    [(0, 1, 0), (1, 0, 1)]
    """
    rows: list[Row] = []
    reported = {reply.client: reply for reply in current.reported}
    asked = set(current.nodes.values())
    for client in sorted({*asked, *current.wanted}):
        row: Row = {"round": current.number, "client": federation.nodes.order[client]}
        row |= {"selected": int(client in asked), "wanted": int(client in current.wanted)}
        if client in asked:
            reply = reported.get(client)
            row["outcome"] = "late" if reply is None else reply.outcome.name.lower()
            row["latency"] = math.nan if reply is None else reply.latency
        rows.append(row)
    return rows


def log(lines: Iterable[str]) -> None:
    """Write lines to the log.

    >>> log([])
    """
    for line in lines:
        LOGGER.info("%s", line)


def start_lines(name: str, rounds: int, arrays: ArrayRecord, train: ConfigRecord, evaluate: ConfigRecord) -> list[str]:
    """What is about to run, in Flower's words.

    >>> start_lines("FedAvg", 3, ArrayRecord(), ConfigRecord({"lr": 0.5}), ConfigRecord())[3:]
    ["\\t├── ConfigRecord (train): {'lr': 0.5}", '\\t├── ConfigRecord (evaluate): (empty!)']
    """
    size = sum(len(array.data) for array in arrays.values()) / 1024**2
    configs = {"train": train, "evaluate": evaluate}
    return [
        f"Starting {name} strategy:",
        f"\t├── Number of rounds: {rounds}",
        f"\t├── ArrayRecord ({size:.2f} MB)",
        *(f"\t├── ConfigRecord ({kind}): {_written(config)}" for kind, config in configs.items()),
    ]


def _written(config: ConfigRecord) -> str:
    shown = {key: "<bytes>" if isinstance(value, bytes) else value for key, value in config.items()}
    return "{" + ", ".join(f"'{key}': {value}" for key, value in shown.items()) + "}" if shown else "(empty!)"


def result_lines(result: Result, seconds: float) -> list[str]:
    """The result, in Flower's words.

    >>> result_lines(Result(), 12.5)[1:6]
    ['Strategy execution finished in 12.50s', '', 'Final results:', '', '\\tGlobal Arrays:']
    """
    told = [f"\t{line}" for line in str(result).splitlines()]
    return ["", f"Strategy execution finished in {seconds:.2f}s", "", "Final results:", "", *told, ""]
