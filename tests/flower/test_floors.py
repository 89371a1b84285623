"""Floors hold: too few nodes, too few replies, rounds without an update, deadlines that nobody can meet."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from flwr.serverapp.strategy import FedAvg

from enlist.errors import InputError
from enlist.flower import NoUpdateError, with_selector
from enlist.flower.fake import FakeGrid, FakeReply
from tests.flower.flower_helpers import behaving, listening, model, node_of, reply, run, selecting, values


def averaging(**floors: int) -> FedAvg:
    return FedAvg(**{"fraction_evaluate": 0.0, "min_available_nodes": 1, **floors})  # type: ignore[arg-type]


def after(seconds: dict[int, float | None]) -> Any:
    """Nodes that train so long, a second if it is not said."""
    return behaving(lambda message: FakeReply(seconds.get(node_of(message), 1.0), reply(message)))


def test_a_round_waits_for_as_many_free_nodes_as_the_strategy_wants(caplog: pytest.LogCaptureFixture) -> None:
    slow = dict.fromkeys((11, 12, 13, 14), 50.0)
    asked: list[tuple[int, int]] = []

    def answer(message: Message) -> FakeReply:
        asked.append((message.content["config"]["server-round"], node_of(message)))  # type: ignore[arg-type]
        return FakeReply(slow.get(node_of(message), 1.0), reply(message))

    grid = FakeGrid(range(11, 17), behaving(answer))
    with listening(caplog) as lines:
        run(grid, 2, strategy=averaging(min_train_nodes=4), k=6, deadline=10.0)
    assert len([node for number, node in asked if number == 2]) >= 4, "only two were free when the first round ended"
    assert not [line for line in lines() if "continuing with" in line]
    assert grid.clock.now > 50.0


def test_after_the_patience_it_goes_on_and_says_so_every_round(caplog: pytest.LogCaptureFixture) -> None:
    grid = FakeGrid(range(11, 15), after({11: None, 12: None, 13: None}))
    with listening(caplog) as lines:
        wrapped = run(grid, 4, strategy=averaging(min_train_nodes=3), k=4, deadline=10.0, patience=60.0)
    assert wrapped.round == 4
    told = [line for line in lines() if "continuing with 1 nodes that are free, though 3 are needed" in line]
    assert len(told) == 3
    assert "min_train_nodes" in told[0]
    assert 70.0 < grid.clock.now < 80.0, "it waits once"


def test_nodes_that_leave_are_waited_for_again_once_enough_were_there(caplog: pytest.LogCaptureFixture) -> None:
    grid = FakeGrid([11, 12], behaving())
    wrapped = selecting(grid, strategy=averaging(min_available_nodes=4), k=2, patience=50.0)
    begun: list[float] = []

    def evaluate(number: int, arrays: Any) -> None:
        begun.append(grid.clock.now)
        grid.nodes = [11, 12, 13, 14] if number == 2 else [11, 12]

    with listening(caplog) as lines:
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=4, evaluate_fn=evaluate)
    waits = [later - earlier > 40.0 for earlier, later in itertools.pairwise(begun)]
    assert waits == [True, False, False, True]
    told = [line for line in lines() if "continuing with 2 nodes that are connected, though 4 are needed" in line]
    assert len(told) == 3


def test_what_undercuts_a_floor_on_purpose_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with listening(caplog) as lines:
        run(FakeGrid(range(11, 15), behaving()), strategy=averaging(min_train_nodes=3), k=1)
        run(FakeGrid(range(11, 15), behaving()), strategy=averaging(min_available_nodes=9), k=3, min_nodes=2)
    assert "enlist: k=1 applies, which is less than the strategy's min_train_nodes=3" in lines()
    assert "enlist: min_nodes=2 applies, which is less than the strategy's min_available_nodes=9" in lines()


def test_a_function_that_chooses_too_few(caplog: pytest.LogCaptureFixture) -> None:
    with listening(caplog) as lines:
        run(FakeGrid(range(11, 15), behaving()), 1, lambda table, k: [0], strategy=averaging(), k=3)
    assert [line for line in lines() if "selected 1 nodes, fewer than the 2 that min_train_nodes requires" in line]


def test_too_few_replies_leave_the_model_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grid = FakeGrid(range(11, 15), after({11: 40.0, 12: 40.0}))
    with listening(caplog) as lines:
        wrapped = run(grid, 1, k=4, deadline=10.0, min_replies=3, folder=tmp_path / "run")
    assert values(wrapped.result.arrays) == values(model())  # type: ignore[attr-defined]
    assert "enlist: 2 usable replies are fewer than min_replies=3, so the model stays as it is" in lines()
    with (tmp_path / "run" / "participations.csv").open() as file:
        weights = [row["weight"] for row in csv.DictReader(file) if row["outcome"] == "completed"]
    assert weights == ["0.0", "0.0"]
    assert wrapped.selector.counts.observed.sum() == 2, "the selector learns from them all the same"
    enough = run(FakeGrid(range(11, 15), after({11: 40.0})), 1, k=4, deadline=10.0, min_replies=3)
    assert values(enough.result.arrays) != values(model())  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="min_replies is 5, and 4 nodes are asked in a round; lower it, or ask more"):
        with_selector(FedAvg(), "random", k=4, min_replies=5)


def failing(message: Message) -> FakeReply:
    return FakeReply(1.0, error=(2, "CUDA out of memory"))


def test_rounds_without_an_update_are_said(caplog: pytest.LogCaptureFixture) -> None:
    with listening(caplog) as lines:
        run(FakeGrid(range(11, 15), behaving(failing)), 7, k=3)
    told = [line for line in lines() if "no update of the model" in line]
    why = "failed (most often: CUDA out of memory)"
    assert told == [
        f"enlist: no update of the model in the last 3 rounds; of 9 requests: 9 {why}",
        f"enlist: no update of the model in the last 6 rounds; of 18 requests: 18 {why}",
    ]


def test_rounds_without_an_update_may_end_the_run(tmp_path: Path) -> None:
    grid = FakeGrid(range(11, 15), behaving(failing))
    said = "no update of the model in the last 2 rounds; .* stop_without_update=2 ends the run"
    with pytest.raises(NoUpdateError, match=said):
        run(grid, 9, k=3, stop_without_update=2, folder=tmp_path / "run", save_every=5)
    mended = run(FakeGrid(range(11, 15), behaving()), 4, k=3, stop_without_update=2, folder=tmp_path / "run")
    assert mended.round == 4
    with (tmp_path / "run" / "rounds.csv").open() as file:
        assert [row["completed"] for row in csv.DictReader(file)] == ["0", "0", "3", "3"]


def test_one_update_is_enough_to_go_on() -> None:
    def every_third(message: Message) -> FakeReply:
        good = int(message.content["config"]["server-round"]) % 3 == 0  # type: ignore[arg-type]
        return FakeReply(1.0, reply(message)) if good else failing(message)

    assert run(FakeGrid(range(11, 15), behaving(every_third)), 9, k=3, stop_without_update=3).round == 9


def test_a_deadline_shorter_than_any_training_is_said(caplog: pytest.LogCaptureFixture) -> None:
    grid = FakeGrid(range(11, 21), after({node: float(node) for node in range(11, 21)}))
    with listening(caplog) as lines:
        run(grid, 6, k=2, deadline=5.0)
    told = [line for line in lines() if "deadline of" in line]
    assert told[0] == "enlist: none of 2 nodes replied within the deadline of 5 s"
    assert "the deadline of 5 s is shorter than any training so far; the fastest took 1" in told[1]
    assert len(told) == 2
    with listening(caplog) as lines:
        caplog.clear()
        run(FakeGrid(range(11, 21), after({11: 30.0})), 6, k=4, deadline=5.0)
    assert not [line for line in lines() if "deadline of" in line]


def test_a_deadline_that_has_grown_beyond_a_training_is_not_called_too_short(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody has met a deadline yet, but somebody would have met the present one."""

    def train(message: Message) -> FakeReply:
        first = int(message.content["config"]["server-round"]) == 1  # type: ignore[arg-type]
        return FakeReply(11.0 if first else 1000.0, reply(message))

    with listening(caplog) as lines:
        run(FakeGrid(range(11, 21), behaving(train)), 2, k=2, deadline=lambda number, recent: [5.0, 50.0][number - 1])
    told = [line for line in lines() if "deadline of" in line]
    assert told == ["enlist: none of 2 nodes replied within the deadline of 5 s"]
