"""A selector that has chosen before, and a strategy that is started a second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MetricRecord
from flwr.serverapp.strategy import FedAdam

import enlist
from enlist.flower import Selecting, replay
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.runs import read_run
from tests.flower.flower_helpers import behaving, model, node_of, reply, run, selecting, values

NODES = [11, 12, 13]


def slow(message: Message) -> FakeReply:
    """Node 11 takes 12 s, which is too late, the others one."""
    node = node_of(message)
    return FakeReply(12.0 if node == 11 else 1.0, reply(message, 1.0, client_id=f"phone-{node}"))


def warmed(rounds: int) -> Any:
    """A selector that has chosen in this many rounds before the federation begins."""
    selector = enlist.create("cs-ucb", enlist.Clients(ids=[f"phone-{node}" for node in NODES]), seed=1)
    for _ in range(rounds):
        picked = selector.ask(k=3)
        selector.tell(picked, enlist.Feedback(latency=np.ones(3)))
    return selector


def late_federation(grid: FakeGrid, rounds: int, selector: Any, **terms: Any) -> Selecting:
    return run(grid, rounds, selector, k=3, deadline=10.0, most_often=None, identify="always", **terms)


def learned(wrapped: Selecting, past: int) -> dict[str, list[float]]:
    """What this federation has added to what the selector knew."""
    counts = wrapped.selector.counts
    return {"selected": (counts.selected - past).tolist(), "observed": (counts.observed - past).tolist()}


@pytest.mark.parametrize("past", [1, 4])
def test_late_replies_are_told_to_the_round_that_asked_for_them(past: int) -> None:
    new = late_federation(FakeGrid(NODES, behaving(slow)), 6, warmed(0))
    old = late_federation(FakeGrid(NODES, behaving(slow)), 6, warmed(past))
    assert learned(new, 0)["observed"][0] >= 2, "late replies teach"
    assert learned(old, past) == learned(new, 0)
    assert old.selector.state.latency.mean[0] > 2.0


def test_late_replies_after_a_resumption_too(tmp_path: Path) -> None:
    for name, past in (("new", 0), ("old", 4)):
        for rounds in (2, 8):
            wrapped = late_federation(FakeGrid(NODES, behaving(slow)), rounds, warmed(past), folder=tmp_path / name)
        late = read_run(tmp_path / name).participations
        assert (late["outcome"] == "arrived").sum() >= 2
        assert wrapped.selector.round == 8 + past
        if not past:
            expected = learned(wrapped, 0)
    assert learned(wrapped, 4) == expected
    assert len(replay(tmp_path / "old")) == 8


class StopHereError(Exception):
    """Something of the user's fails."""


def failing_at(round: int) -> Any:
    """An evaluation that fails once, after this round was trained."""
    calls = []

    def evaluate(number: int, arrays: Any) -> MetricRecord:
        if number == round and not calls:
            calls.append(number)
            raise StopHereError
        return MetricRecord({"accuracy": 0.1 * number})

    return evaluate


def prompt(message: Message) -> FakeReply:
    node = node_of(message)
    return FakeReply(0.1 * node, reply(message, 0.1 * node, client_id=f"phone-{node}", loss_rms=1.0 + node % 3))


def federation(**terms: Any) -> tuple[Selecting, FakeGrid]:
    grid = FakeGrid(range(11, 21), behaving(prompt))
    strategy = FedAdam(fraction_evaluate=0.0, min_available_nodes=1)
    return selecting(grid, "oort", strategy=strategy, k=4, seed=3, **terms), grid


def rounds_run(grid: FakeGrid) -> int:
    return sum(message.metadata.message_type == "train" for message in grid.sent) // 4


def same(one: Selecting, other: Selecting) -> None:
    assert one.round == other.round == one.selector.round == other.selector.round
    np.testing.assert_array_equal(one.selector.counts.selected, other.selector.counts.selected)
    assert one.nodes.names == other.nodes.names


def started(wrapped: Selecting, grid: FakeGrid, rounds: int, **named: Any) -> Any:
    return values(wrapped.start(grid=grid, initial_arrays=model(), num_rounds=rounds, **named).arrays)


def test_without_a_folder_it_begins_anew() -> None:
    wrapped, grid = federation()
    first = started(wrapped, grid, 3)
    assert first != values(model())
    wrapped.start(grid=grid, initial_arrays=model(5.0), num_rounds=2)
    assert started(wrapped, grid, 3) == first
    assert rounds_run(grid) == 3 + 2 + 3
    straight, other = federation()
    started(straight, other, 3)
    same(wrapped, straight)


def test_the_configuration_goes_out_every_time() -> None:
    wrapped, grid = federation()
    for rate in (0.1, 0.2):
        started(wrapped, grid, 1, train_config=ConfigRecord({"lr": rate}))
        assert grid.sent[-1].content["config"]["lr"] == rate


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("failure", [0, 1, 3])
def test_after_a_failure_it_ends_like_one_that_had_none(failure: int, kept: bool, tmp_path: Path) -> None:
    straight, grid = federation(folder=tmp_path / "straight" if kept else None)
    expected = started(straight, grid, 6, evaluate_fn=failing_at(99))
    wrapped, grid = federation(folder=tmp_path / "run" if kept else None)
    evaluate = failing_at(failure)
    with pytest.raises(StopHereError):
        started(wrapped, grid, 6, evaluate_fn=evaluate)
    assert started(wrapped, grid, 6, evaluate_fn=evaluate) == expected
    same(wrapped, straight)
    assert rounds_run(grid) == 6 + failure - (max(failure - 1, 0) if kept else 0)
    if kept:
        one, other = (read_run(tmp_path / name) for name in ("run", "straight"))
        assert one.rounds["round"].tolist() == [1, 2, 3, 4, 5, 6]
        assert one.participations["client"].tolist() == other.participations["client"].tolist()
        assert len(replay(tmp_path / "run")) == 6


def test_a_configured_selector_keeps_what_it_has_learned() -> None:
    selector = warmed(0)
    grid = FakeGrid(NODES, behaving(slow))
    wrapped = selecting(grid, selector, k=3, deadline=10.0, most_often=None)
    with pytest.raises(StopHereError):
        started(wrapped, grid, 4, evaluate_fn=failing_at(3))
    before = selector.counts.observed.copy()
    assert started(wrapped, grid, 4) == values(model(4.0))
    assert wrapped.selector is selector
    assert (wrapped.round, selector.round) == (4, 7)
    assert (selector.counts.observed > before).all()
