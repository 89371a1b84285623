"""Buffered mode: nodes are replaced as they reply, and the server steps after every so many updates."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    FedAdam,
    FedAvg,
    FedXgbBagging,
)

import enlist
from enlist.errors import InputError
from enlist.flower import NoNodesError, replay, with_selector
from enlist.flower.fake import FakeGrid, FakeReply
from tests.flower.flower_helpers import behaving, listening, model, node_of, reply, run, selecting, values

NODES = range(11, 31)


def taking(seconds: Callable[[int], float], step: float | None = None, **claims: Any) -> Callable[[Message], FakeReply]:
    """Nodes that take so long, and add `step` (their number if None) to the model that they were sent."""
    return behaving(lambda message: FakeReply(seconds(node_of(message)), reply(message, step, loss_rms=1.0, **claims)))


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with open(folder / table) as file:
        return list(csv.DictReader(file))


class Watched(FakeGrid):
    """A grid that notes how many nodes were at work at once."""

    most = 0

    def push_messages(self, messages: Any) -> Any:
        found = super().push_messages(messages)
        self.most = max(self.most, len(self._coming))
        return found


def test_concurrency_and_buffer_are_never_exceeded(tmp_path: Path) -> None:
    grid = Watched(NODES, taking(lambda node: node - 10.0))
    run(grid, 12, "random", mode="buffered", concurrency=7, buffer=3, deadline=100.0, folder=tmp_path / "run")
    assert grid.most == 7
    rounds = rows(tmp_path / "run", "rounds.csv")
    assert [row["completed"] for row in rounds] == ["3"] * 12
    assert len({message.metadata.message_id for message in grid.sent}) == len(grid.sent)
    assert sum(int(row["selected"]) for row in rounds) == len(grid.sent)
    assert int(rounds[0]["selected"]) >= 7


def test_a_schedule_computed_by_hand(tmp_path: Path) -> None:
    """Nodes 11, 12 and 13 take 2, 5.3 and 9.2 s, and add 1, 2 and 4 to the model; two updates make a step.

    All are asked at 0 in step 1; whoever replies is asked again at once, in the step that goes on then.

     2.0  11, asked in step 1
     4.0  11, asked in step 1      step 1: 11 and 11, nothing is stale
     5.3  12, asked in step 1
     6.0  11, asked in step 2      step 2: 11, and 12 stale by 1
     8.0  11, asked in step 3
     9.2  13, asked in step 1      step 3: 11, and 13 stale by 2
    10.0  11, asked in step 3
    10.6  12, asked in step 2      step 4: 11 stale by 1, 12 by 2
    12.0  11, asked in step 4
    14.0  11, asked in step 5      step 5: 11 stale by 1, and 11
    15.9  12, asked in step 5
    16.0  11, asked in step 6      step 6: 11, and 12 stale by 1

    An update stale by 1 counts 1 / sqrt(2) = 0.70711 of its length, one by 2 counts 1 / sqrt(3) = 0.57735; a step adds
    the mean of two.
    """
    change, seconds = {11: 1.0, 12: 2.0, 13: 4.0}, {11: 2.0, 12: 5.3, 13: 9.2}
    grid = FakeGrid(
        [11, 12, 13],
        behaving(lambda message: FakeReply(seconds[node_of(message)], reply(message, change[node_of(message)]))),
    )
    terms: dict[str, Any] = {"mode": "buffered", "concurrency": 3, "buffer": 2, "deadline": 100.0, "most_often": None}
    models: list[float] = []
    wrapped = selecting(
        grid, "random", folder=tmp_path / "run", on_round=lambda done: models.append(values(done.arrays)[0][0]), **terms
    )
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=6)
    done = rows(tmp_path / "run", "participations.csv")
    assert {row["outcome"] for row in done} == {"completed"}
    columns = ("round", "client", "selected_in", "rounds_late")
    assert sorted(tuple(int(row[name]) for name in columns) for row in done) == [
        (1, 0, 1, 0),
        (1, 0, 1, 0),
        (2, 0, 2, 0),
        (2, 1, 1, 1),
        (3, 0, 3, 0),
        (3, 2, 1, 2),
        (4, 0, 3, 1),
        (4, 1, 2, 2),
        (5, 0, 4, 1),
        (5, 0, 5, 0),
        (6, 0, 6, 0),
        (6, 1, 5, 1),
    ]
    weight = {"0": 10.0, "1": 7.0710678, "2": 5.7735027}  # ten examples each
    assert [float(row["weight"]) for row in done] == pytest.approx([weight[row["rounds_late"]] for row in done])
    assert models == pytest.approx([1.0, 2.2071068, 3.8618073, 4.7927110, 5.6462644, 6.8533711], abs=1e-6)


@pytest.mark.parametrize("strategy", [FedAvg, FedAdam])
def test_with_equal_nodes_it_is_synchronous_averaging_bit_for_bit(strategy: type[FedAvg]) -> None:
    def result(**terms: Any) -> Any:
        grid = FakeGrid(NODES, taking(lambda node: 3.0))
        chosen = strategy(fraction_evaluate=0.0, min_available_nodes=1)
        wrapped = run(grid, 8, "random", strategy=chosen, k=6, most_often=None, **terms)
        asked = [node_of(message) for message in grid.sent]
        steps = [sorted(asked[6 * step : 6 * step + 6]) for step in range(8)]
        return values(wrapped.result.arrays), steps  # type: ignore[attr-defined]

    plain, buffered = result(), result(mode="buffered", concurrency=6, buffer=6)
    assert plain == buffered


@pytest.mark.parametrize(
    ("staleness", "factor"),
    [
        (None, lambda steps: 1.0 / math.sqrt(1.0 + steps)),
        ("equal", lambda steps: 1.0),
        ("dynsgd", lambda steps: 1.0 / (1.0 + steps)),
        (lambda steps: 2.0 ** -np.asarray(steps), lambda steps: 2.0**-steps),
    ],
)
def test_staleness_weights(staleness: Any, factor: Callable[[int], float], tmp_path: Path) -> None:
    grid = FakeGrid(NODES, taking(lambda node: 2.0 if node < 28 else 31.0))
    terms = {"mode": "buffered", "concurrency": 20, "buffer": 4, "staleness": staleness, "deadline": 100.0}
    run(grid, 20, "random", folder=tmp_path / "run", **terms)
    done = [row for row in rows(tmp_path / "run", "participations.csv") if row["outcome"] == "completed"]
    steps = [int(float(row["rounds_late"])) for row in done]
    assert max(steps) > 3
    assert [float(row["weight"]) for row in done] == pytest.approx([10.0 * factor(late) for late in steps])


def test_an_update_of_a_version_that_is_gone_is_counted_and_never_merged(tmp_path: Path) -> None:
    def train(message: Message) -> FakeReply:
        slow = node_of(message) == 11
        return FakeReply(60.0 if slow else 2.0, reply(message, 1000.0 if slow else 1.0))

    grid = FakeGrid(range(11, 16), behaving(train))
    terms = {"mode": "buffered", "concurrency": 5, "buffer": 2, "max_staleness": 3, "deadline": 100.0}
    wrapped = run(grid, 80, "random", folder=tmp_path / "run", **terms)
    assert values(wrapped.result.arrays)[0][0] < 81.0  # type: ignore[attr-defined]
    stale = [row for row in rows(tmp_path / "run", "participations.csv") if row["outcome"] == "late"]
    assert stale
    assert {row["client"] for row in stale} == {"0"}
    assert all("stale: " in row["reason"] and "max_staleness is 3" in row["reason"] for row in stale)
    assert len(wrapped.training.versions) <= 4
    assert sum(int(row["late"]) for row in rows(tmp_path / "run", "rounds.csv")) == len(stale)


def test_nodes_that_are_lost_or_fail_are_replaced(tmp_path: Path) -> None:
    def train(message: Message) -> FakeReply:
        node = node_of(message)
        if node == 11:
            return FakeReply(1.0, error=(5, "Node Unavailable"))
        if node == 12:
            return FakeReply(1.0, error=(2, "boom"))
        if node == 13:
            return FakeReply(None)
        return FakeReply(2.0, reply(message, math.nan if node == 14 else 1.0))

    grid = FakeGrid(NODES, behaving(train))
    wrapped = run(
        grid, 15, "random", mode="buffered", concurrency=8, buffer=4, deadline=4.0, folder=tmp_path / "run", k=4
    )
    assert wrapped.round == 15
    ended = rows(tmp_path / "run", "participations.csv")
    outcomes = {(row["client"], row["outcome"]) for row in ended}
    assert {("0", "dropped"), ("1", "failed"), ("2", "late"), ("3", "failed")} <= outcomes
    assert all(row["censored"].lower() in ("1", "true") for row in ended if row["client"] == "2")
    assert np.isfinite(values(wrapped.result.arrays)[0]).all()  # type: ignore[attr-defined]
    assert wrapped.training.places + len(wrapped.training.at_work) == 8


def test_a_reply_after_it_was_given_up_is_counted_and_dropped(tmp_path: Path) -> None:
    grid = FakeGrid(range(11, 15), taking(lambda node: 12.0 if node == 11 else 2.0, step=1.0))
    run(grid, 30, "random", mode="buffered", concurrency=4, buffer=2, deadline=8.0, folder=tmp_path / "run")
    ended = [row for row in rows(tmp_path / "run", "participations.csv") if row["client"] == "0"]
    assert [row["outcome"] for row in ended[:2]] == ["late", "arrived"]
    assert {float(row["weight"]) for row in ended if row["outcome"] == "arrived"} == {0.0}


@pytest.mark.parametrize("name", ["tempo", "oort", "bsfl", "refl"])
def test_selectors_are_asked_for_a_few_while_others_are_busy(name: str, tmp_path: Path) -> None:
    grid = FakeGrid(NODES, taking(lambda node: float(node - 9), loss=0.5, accuracy=0.5, accuracy_gain=0.1))
    wrapped = run(grid, 15, name, mode="buffered", concurrency=8, buffer=3, deadline=60.0, folder=tmp_path / "run")
    assert wrapped.round == 15
    assert wrapped.selector.counts.observed.sum() == 45
    assert len(replay(tmp_path / "run")) == wrapped.selector.round


def test_the_selector_learns_who_is_quick() -> None:
    grid = FakeGrid(NODES, taking(lambda node: float(node - 9)))
    wrapped = run(grid, 60, "bsfl", mode="buffered", concurrency=4, buffer=2, deadline=60.0)
    counts = wrapped.selector.counts.observed
    assert counts[:10].sum() > 1.2 * counts[10:].sum()


def test_a_killed_server_goes_on_and_nothing_is_merged_twice(tmp_path: Path) -> None:
    class Kill(BaseException):
        pass

    def kill(result: Any) -> None:
        if result.number == 7:
            raise Kill

    terms = {"mode": "buffered", "concurrency": 8, "buffer": 3, "deadline": 60.0, "folder": tmp_path / "run"}
    grid = FakeGrid(NODES, taking(lambda node: float(node - 9)))
    with pytest.raises(Kill):
        run(grid, 12, "oort", on_round=kill, **terms)
    grid = FakeGrid(NODES, taking(lambda node: float(node - 9)))
    wrapped = run(grid, 12, "oort", **terms)
    assert wrapped.round == 12
    rounds = rows(tmp_path / "run", "rounds.csv")
    assert [row["round"] for row in rounds] == [str(number) for number in range(1, 13)]
    assert {row["completed"] for row in rounds} == {"3"}
    counts = wrapped.selector.counts
    assert counts.observed.sum() == 36
    assert len(replay(tmp_path / "run")) == wrapped.selector.round
    pending = sum(len(opening.pending) for opening in wrapped.selector.openings.values())
    assert pending == len(wrapped.training.at_work) + len(wrapped.training.buffer)
    assert run(FakeGrid(NODES), 12, "oort", **terms).round == 12  # a finished folder gives its result


def test_a_strategys_own_configuration_changes_once_per_step() -> None:
    class Decaying(FedAvg):
        def configure_train(self, server_round: int, arrays: Any, config: ConfigRecord, grid: Any) -> Any:
            config["lr"] = float(config["lr"]) * 0.5  # type: ignore[arg-type]
            return super().configure_train(server_round, arrays, config, grid)

    grid = FakeGrid(NODES, taking(lambda node: float(node - 9)))
    strategy = Decaying(fraction_evaluate=0.0, min_available_nodes=1)
    wrapped = selecting(grid, strategy=strategy, mode="buffered", concurrency=6, buffer=2, deadline=60.0)
    config = ConfigRecord({"lr": 1.0})
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=5, train_config=config)
    assert config["lr"] == 0.5**5


def test_evaluation_between_steps_loses_no_update(tmp_path: Path) -> None:
    grid = FakeGrid(NODES, taking(lambda node: 0.3 + 0.1 * (node - 10), loss=0.5))
    strategy = FedAvg(fraction_evaluate=0.5, min_available_nodes=1)
    wrapped = run(
        grid, 10, strategy=strategy, mode="buffered", concurrency=8, buffer=3, deadline=60.0, folder=tmp_path / "run"
    )
    ended = [row for row in rows(tmp_path / "run", "participations.csv") if row["outcome"] == "completed"]
    assert len(ended) == 30
    assert len(grid.sent) - sum(m.metadata.message_type == "evaluate" for m in grid.sent) == 30 + len(
        wrapped.training.at_work
    ) + len(wrapped.training.buffer)
    assert wrapped.result.evaluate_metrics_clientapp[10]["accuracy"] == pytest.approx(0.5)  # type: ignore[attr-defined]


def test_nodes_join_and_leave_while_others_work() -> None:
    grid = FakeGrid(range(11, 15), taking(lambda node: float(node - 9)))
    seen: list[int] = []

    def join(result: Any) -> None:
        seen.append(result.counts["completed"])
        grid.nodes = list(range(11 + result.number // 3, 17 + result.number))

    run(grid, 20, "tempo", mode="buffered", concurrency=6, buffer=2, deadline=60.0, on_round=join)
    assert seen == [2] * 20
    assert max(node_of(message) for message in grid.sent) > 25


def test_nobody_to_ask_ends_with_an_error() -> None:
    grid = FakeGrid([11, 12], behaving(lambda message: FakeReply(None)))
    with pytest.raises(NoNodesError):
        run(grid, 3, mode="buffered", concurrency=2, buffer=1, deadline=5.0, patience=30.0)

    def nobody(table: Any, k: int) -> list[int]:
        return []

    with pytest.raises(NoNodesError, match="has selected none for 30 s"):
        run(FakeGrid(NODES), 3, nobody, mode="buffered", concurrency=2, buffer=1, patience=30.0)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"concurrency": 5}, "belongs to mode='buffered'"),
        ({"mode": "bufferd"}, "Did you mean 'buffered'"),
        ({"mode": "buffered", "concurrency": 3, "buffer": 5}, "buffer is 5, and at most 3"),
        ({"mode": "buffered", "late": "merge"}, "cannot be combined with"),
        ({"mode": "buffered", "shadow": True}, "cannot be combined with"),
        ({"mode": "buffered", "staleness": "refl"}, "cannot be combined with"),
        ({"mode": "buffered", "max_staleness": -1}, "max_staleness"),
    ],
)
def test_what_is_refused(terms: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        with_selector(FedAvg(), "random", k=10, **terms)


def test_strategies_that_are_refused() -> None:
    with pytest.raises(InputError, match="merges trees"):
        with_selector(FedXgbBagging(), "random", mode="buffered")
    private = DifferentialPrivacyClientSideFixedClipping(FedAvg(), 0.5, 1.0, num_sampled_clients=10)
    with pytest.raises(InputError, match="updates of several"):
        with_selector(private, "random", k=10, mode="buffered")
    wrapped = with_selector(FedAvg(), "random", mode="buffered")
    with pytest.raises(InputError, match="run it with start"):
        list(wrapped.configure_train(1, model(), ConfigRecord(), FakeGrid(NODES)))


def test_the_log_says_how_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    with listening(caplog) as lines:
        run(FakeGrid(NODES, behaving()), 2, mode="buffered", concurrency=6, buffer=2)
    assert any("keeps 6 nodes at work, 2 updates make a step" in line for line in lines())
    assert enlist.Outcome.LATE.name == "LATE"
