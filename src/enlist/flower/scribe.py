"""Writes down what happened in a round: a line in the log, rows in the tables, and what deserves attention."""

from __future__ import annotations

from typing import Any

from enlist.flower.federation import Federation
from enlist.flower.grid import Post
from enlist.flower.records import MOST_EVENTS, Happened, Row, participations, reasons, round_row, shadow_rows
from enlist.flower.round import Round
from enlist.flower.state import LOGGER, Keeper
from enlist.records import RoundMetrics

COUNTED = ("asked", "completed", "late", "dropped", "failed", "arrived")
TOLD = ("round", *COUNTED)


class Scribe:
    """The log and the tables of one federation.

    >>> from enlist.flower.choosers import Source
    >>> Scribe(Keeper(None), Federation(Source.of("random", None, None, seed=1)), shadow=False).noted
    set()
    """

    def __init__(self, keeper: Keeper, federation: Federation, shadow: bool, reasons: bool = True) -> None:
        self.keeper, self.federation, self.shadow, self.reasons = keeper, federation, shadow, reasons
        self.noted: set[tuple[str, int, str]] = set()

    def write(self, current: Round, happened: Happened, metrics: RoundMetrics, now: float, post: Post) -> Row:
        """Write down a round that is over; clients.csv comes first, because the other tables name its clients.

        Returns what the log was told.
        """
        measured: dict[str, Any] = {
            "accuracy": metrics.accuracy,
            "loss": metrics.loss,
            "bytes_down": current.bytes_down,
            "bytes_up": current.bytes_up,
            **current.evaluations,
        }
        row = round_row(happened, current.began, now, len(current.online), measured)
        told = {name: row[name] for name in TOLD}
        told["open"] = sum(sent.kind == "train" for sent in post.open.values())
        told |= {"waited": round(happened.waited, 2), "deadline": round(row["deadline"], 2)}
        LOGGER.info("enlist %s", " ".join(f"{name}={value}" for name, value in told.items()), extra={"enlist": told})
        events = self._events(current, post, now)
        if self.keeper.folder is None:
            return told
        self.keeper.describe(self.federation, current.number)
        self.keeper.append("events.csv", events)
        if self.shadow:
            reports = {report.client: report for report in current.reports}
            asked = {client: reports.get(client) for client in current.nodes.values()}
            self.keeper.append("shadow.csv", shadow_rows(current.number, self.federation, asked, current.wanted))
        if self.reasons and not self.shadow:  # whom the selector would have asked is in shadow.csv
            self.keeper.append("reasons.csv", reasons(happened, self.federation))
        self.keeper.append("participations.csv", participations(happened, self.federation))
        self.keeper.append("rounds.csv", [row])
        return told

    def _events(self, current: Round, post: Post, now: float) -> list[Row]:
        """What deserves attention, each thing once."""
        refused = [report for report in current.reports if report.said.reason.startswith("refused")]
        found = [("refused", report.node, report.said.reason) for report in refused]
        found += [("ignored", node, "a reply that answers nothing that was asked") for node, _ in post.ignored]
        found += self.federation.events
        post.ignored, self.federation.events = [], []
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
