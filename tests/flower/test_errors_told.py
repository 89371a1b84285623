"""Errors of evaluations and introductions are counted, told as Flower tells them, and written down."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from enlist.errors import MissingColumnError
from enlist.flower.fake import FakeGrid, FakeReply
from tests.flower.flower_helpers import behaving, listening, node_of, reply, run


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def evaluating(message: Message) -> FakeReply:
    """Two nodes evaluate; the others raise, are lost, or never reply."""
    if message.metadata.message_type != "evaluate":
        return behaving()(message)
    node = node_of(message)
    if node in (11, 12):
        return FakeReply(1.0, RecordDict({"metrics": MetricRecord({"num-examples": 5, "accuracy": 0.5})}))
    return {
        13: FakeReply(1.0, error=(2, "CUDA out\nof memory")),
        14: FakeReply(1.0, error=(5, "Node Unavailable")),
    }.get(node, FakeReply(None))


class Counting(FedAvg):
    """What a strategy of one's own sees."""

    def aggregate_evaluate(self, server_round: int, replies: Any) -> Any:
        found = list(replies)
        self.failures = [message.metadata.src_node_id for message in found if message.has_error()]
        return super().aggregate_evaluate(server_round, found)


@pytest.mark.parametrize("shadow", [False, True])
def test_errors_of_evaluations(shadow: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    strategy = Counting(fraction_evaluate=1.0, min_available_nodes=5)
    with listening(caplog) as lines:
        grid = FakeGrid(range(11, 16), evaluating)
        wrapped = run(grid, strategy=strategy, k=5, folder=tmp_path / "run", shadow=shadow, deadline=20.0)
    assert "aggregate_evaluate: Received 2 results and 2 failures" in lines()
    assert "\t> Received error in reply from node 13: CUDA out of memory" in lines()
    assert "\t> Received error in reply from node 14: Node Unavailable" in lines()
    assert sorted(wrapped.strategy.failures) == [13, 14]
    [row] = rows(tmp_path / "run" / "rounds.csv")
    told = [row[f"evaluate_{name}"] for name in ("selected", "completed", "failed")]
    assert told == ["5", "2", "2"]
    events = [(row["kind"], row["node"], row["text"]) for row in rows(tmp_path / "run" / "events.csv")]
    assert ("failed", "13", "evaluation: CUDA out of memory") in events
    assert ("failed", "14", "evaluation: Node Unavailable") in events


def test_without_evaluations_there_is_nothing_to_count(tmp_path: Path) -> None:
    run(FakeGrid(range(11, 16), behaving()), folder=tmp_path / "run")
    [row] = rows(tmp_path / "run" / "rounds.csv")
    assert row["evaluate_selected"] == row["evaluate_failed"] == ""


def silent(message: Message) -> FakeReply:
    """Nodes whose mod breaks on a question."""
    if message.metadata.message_type == "query.enlist":
        return FakeReply(0.5, error=(2, "<class 'KeyError'>:<'learning-rate'>"))
    return FakeReply(1.0, reply(message))


def test_errors_of_introductions_are_quoted(caplog: pytest.LogCaptureFixture) -> None:
    with listening(caplog) as lines:
        run(FakeGrid([11, 12, 13], silent), identify="always")
    told = [line for line in lines() if "answered with an error" in line]
    assert told == ["enlist: 3 of them answered with an error, node 11 first: <class 'KeyError'>:<'learning-rate'>"]
    with pytest.raises(
        MissingColumnError, match=r"none of 3 nodes reported it \(node 11 answered: .*learning-rate.*\); let the"
    ):
        run(FakeGrid([11, 12, 13], silent), selector="size-proportional")
