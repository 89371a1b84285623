"""Personalised learning in a federation: the nodes that help one of them are found, whatever goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.errors import InputError
from enlist.flower import NoNodesError, client
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.flower.personal import Personalising
from enlist.flower.replies.updates import record_of
from enlist.personal.rewards import Binary, Increment
from enlist.personal.rules import ExtremeExploreRule, FixedRule, ThompsonRule, UCBRule
from enlist.personal.stopping import Patience
from enlist.runs.tables import read_table
from tests.flower.flower_helpers import node_of

NAMES = {11: "a", 12: "b", 13: "c", 14: "d"}
WISHES = {"a": 1.0, "b": -3.0, "c": 1.4, "d": 4.0}
"""What each silo's data pull the model to; the target's validation data want 1.2."""


def model(value: float = 0.0) -> ArrayRecord:
    return ArrayRecord([np.full(2, value)])


def value_of(arrays: ArrayRecord) -> float:
    return float(next(iter(arrays.values())).numpy()[0])


def answer(message: Message) -> FakeReply:
    name, kind = NAMES[node_of(message) % 100], message.metadata.message_type
    if kind == "query.enlist":
        return FakeReply(0.2, client.introduction(message, client_id=name, num_examples=10).content)
    held = value_of(message.content["arrays"])
    if kind == "evaluate":
        scores = {"accuracy": 1.0 - 0.1 * abs(held - 1.2), "test-accuracy": 1.0 - 0.1 * abs(held - 1.25)}
        return FakeReply(0.3, RecordDict({"metrics": MetricRecord({"num-examples": 5, **scores})}))
    arrays = model(held + 0.5 * (WISHES[name] - held))
    return FakeReply(1.0, RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 10})}))


def play(grid: FakeGrid, rounds: int = 12, rule: Any = None, **terms: Any) -> Personalising:
    strategy = Personalising(
        "a", UCBRule(c=0.01) if rule is None else rule, **{"min_nodes": 4, "deadline": 30.0, **terms}
    )
    strategy.clock = grid.clock
    strategy.result = strategy.start(grid=grid, initial_arrays=model(), num_rounds=rounds)  # type: ignore[attr-defined]
    return strategy


def test_the_partner_that_helps_is_found() -> None:
    strategy = play(FakeGrid(list(NAMES), answer), 20)
    assert strategy.combination == "a+c"
    assert value_of(strategy.result.arrays) == pytest.approx(1.2, abs=0.1)
    assert strategy.decision is not None
    assert strategy.decision.arms.codes == ("1100", "1010", "1001")


@pytest.mark.parametrize(
    ("rule", "reward"),
    [(ExtremeExploreRule(), None), (ThompsonRule(), Binary(threshold=0.0)), (FixedRule(combination=("c",)), None)],
)
def test_other_rules(rule: Any, reward: Any) -> None:
    strategy = play(FakeGrid(list(NAMES), answer), 15, rule, reward=reward)
    assert strategy.combination == "a+c"


def test_all_combinations_and_a_list() -> None:
    every = play(FakeGrid(list(NAMES), answer), 10, ExtremeExploreRule(), arms="all")
    assert every.decision is not None
    assert len(every.decision.arms) == 8
    listed = play(FakeGrid(list(NAMES), answer), 6, arms=[["c"], ["b", "d"]])
    assert listed.decision is not None
    assert listed.decision.arms.labels == ("a+c", "a+b+d")


def test_only_the_combination_is_asked() -> None:
    grid = FakeGrid(list(NAMES), answer)
    strategy = play(grid, 5)
    trained = [node_of(message) for message in grid.sent if message.metadata.message_type == "train"]
    assert len(trained) == 10
    assert trained.count(11) == 5
    assert strategy.communication == 30, "six messages for a pair, as the thesis counts"


def test_a_partner_that_is_away_is_not_played_and_one_that_fails_is_not_credited(tmp_path: Path) -> None:
    def failing(message: Message) -> FakeReply:
        if node_of(message) == 13 and message.metadata.message_type == "train":
            return FakeReply(1.0, error=(2, "boom"))
        return answer(message)

    strategy = play(FakeGrid(list(NAMES), failing), 9, folder=tmp_path / "failing")
    assert strategy.decision is not None
    assert strategy.decision.count()[1] == 0
    table = read_table(tmp_path / "failing" / "rounds.csv")
    assert "c" in set(table["failed"].tolist())
    grid = FakeGrid(list(NAMES), answer)
    away = Personalising("a", UCBRule(), workers=["a", "b", "c", "d"], min_nodes=3, patience=50.0)
    away.clock = grid.clock
    away.start(grid=grid, initial_arrays=model(), num_rounds=1)
    grid.nodes = [11, 12, 14]
    away.start(grid=grid, initial_arrays=model(), num_rounds=7)
    assert away.decision is not None
    assert away.decision.count()[1] <= 1


def test_the_target_away_or_failing_teaches_nothing() -> None:
    grid = FakeGrid(list(NAMES), answer)
    strategy = Personalising("a", UCBRule(), min_nodes=1, patience=20.0)
    strategy.clock = grid.clock
    strategy.start(grid=grid, initial_arrays=model(), num_rounds=2)
    grid.nodes = [12, 13, 14]
    before = value_of(strategy.start(grid=grid, initial_arrays=model(), num_rounds=4).arrays)
    assert strategy.decision is not None
    assert strategy.decision.count().sum() == 2
    assert np.isfinite(before)

    def failing(message: Message) -> FakeReply:
        broken = node_of(message) == 11 and message.metadata.message_type == "train"
        return FakeReply(1.0, error=(2, "boom")) if broken else answer(message)

    broken = play(FakeGrid(list(NAMES), failing), 3)
    assert broken.decision is not None
    assert broken.decision.count().sum() == 0
    assert value_of(broken.result.arrays) == 0.0


def test_all_partners_away_and_the_target_trains_alone() -> None:
    grid = FakeGrid(list(NAMES), answer)
    strategy = Personalising("a", UCBRule(), min_nodes=1, patience=20.0)
    strategy.clock = grid.clock
    strategy.start(grid=grid, initial_arrays=model(), num_rounds=1)
    grid.nodes = [11]
    strategy.start(grid=grid, initial_arrays=model(), num_rounds=5)
    assert strategy.decision is not None
    assert strategy.decision.count().sum() == 1
    assert value_of(record_of(strategy.model)) == pytest.approx(1.0, abs=0.3)


def test_spoilt_models_are_refused() -> None:
    def spoilt(message: Message) -> FakeReply:
        if node_of(message) == 13 and message.metadata.message_type == "train":
            content = RecordDict({"arrays": model(float("nan")), "metrics": MetricRecord({"num-examples": 10})})
            return FakeReply(1.0, content)
        return answer(message)

    strategy = play(FakeGrid(list(NAMES), spoilt), 6)
    assert np.isfinite(value_of(strategy.result.arrays))
    assert strategy.decision is not None
    assert strategy.decision.count()[1] == 0


def test_an_evaluation_that_does_not_come() -> None:
    def mute(message: Message) -> FakeReply:
        return FakeReply(None) if message.metadata.message_type == "evaluate" else answer(message)

    strategy = play(FakeGrid(list(NAMES), mute), 2, patience=40.0)
    assert strategy.decision is not None
    assert strategy.decision.count().sum() == 0
    with pytest.raises(NoNodesError, match="no node is connected"):
        play(FakeGrid([], mute), 3, patience=40.0)


def test_killed_and_resumed_with_new_node_ids(tmp_path: Path) -> None:
    straight = play(FakeGrid(list(NAMES), answer), 8, folder=tmp_path / "straight")
    parts = play(FakeGrid(list(NAMES), answer), 3, folder=tmp_path / "parts")
    assert parts.round == 3
    again = play(FakeGrid([100 + node for node in NAMES], answer), 8, folder=tmp_path / "parts")
    assert again.combination == straight.combination
    assert value_of(again.result.arrays) == value_of(straight.result.arrays)
    one, other = (read_table(tmp_path / name / "arms.csv") for name in ("parts", "straight"))
    assert one["arm"].tolist() == other["arm"].tolist()
    np.testing.assert_array_equal(one["estimate"], other["estimate"])
    with pytest.raises(InputError, match="target"):
        Personalising("b", UCBRule(c=0.01), folder=tmp_path / "parts").start(FakeGrid(list(NAMES), answer), model())


def test_its_report(tmp_path: Path) -> None:
    play(FakeGrid(list(NAMES), answer), 12, folder=tmp_path / "run")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--output", str(tmp_path / "report")])
    assert done.exit_code == 0, f"{done.output}{done.exception!r}"
    assert "a+c" in done.output


def test_stopping_and_removing() -> None:
    strategy = play(FakeGrid(list(NAMES), answer), 60, ExtremeExploreRule(), stopping=Patience(rounds=4), eliminate=0.9)
    assert strategy.round < 60
    assert strategy.decision is not None
    assert strategy.decision.removed.any()


def test_what_has_stopped_early_stays_so(tmp_path: Path) -> None:
    ended = []
    for _ in range(3):
        grid = FakeGrid(list(NAMES), answer)
        strategy = play(grid, 60, folder=tmp_path / "run", stopping=Patience(rounds=2))
        result = json.loads((tmp_path / "run" / "result.json").read_text())
        ended.append((strategy.round, result["status"], value_of(strategy.result.arrays)))
    assert ended[0][0] < 60
    assert ended[0][1] == "stopped early"
    assert ended[1:] == ended[:1] * 2
    assert grid.sent == []
    assert len(read_table(tmp_path / "run" / "rounds.csv")["round"]) == ended[0][0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rule": ThompsonRule()}, "needs rewards of 0 and 1"),
        ({"reward": Increment(against="previous")}, "against='local'"),
        ({"arms": "triples"}, "arms is 'triples'"),
    ],
)
def test_what_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Personalising("a", **{"rule": UCBRule(), **given})


def test_a_target_that_nobody_is() -> None:
    grid = FakeGrid(list(NAMES), answer)
    strategy = Personalising("z", UCBRule())
    strategy.clock = grid.clock
    with pytest.raises(InputError, match="no node says that it is 'z'"):
        strategy.start(grid=grid, initial_arrays=model())
    with pytest.raises(InputError, match="nothing has been tried yet"):
        assert strategy.combination
