"""Strategies that apps bring along: their attributes, wrappers of their own, a hook for their loops, Flower's log."""

from __future__ import annotations

import collections
import logging
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp.strategy import FedAdam, FedAvg, FedXgbBagging, Strategy

from enlist.errors import InputError
from enlist.flower import RoundResult, with_selector
from enlist.flower import strategies as wrapping
from enlist.flower.fake import FakeGrid, FakeReply
from tests.flower.flower_helpers import behaving, listening, model, reply, run, selecting, values

NODES = range(11, 15)


class Own(FedAvg):
    """Keeps things in private attributes, some of which cannot be saved."""

    def __init__(self) -> None:
        super().__init__(fraction_evaluate=0.0, min_available_nodes=1)
        self._norms: list[float] = []
        self._average: Any = None
        self._lock, self._logger = threading.Lock(), logging.getLogger("own")
        self._session = object()

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        arrays, metrics = super().aggregate_train(server_round, replies)
        assert arrays is not None
        first = arrays["0"].numpy()
        self._average = first.copy() if self._average is None else 0.5 * (self._average + first)
        self._norms.append(float(np.linalg.norm(first)))
        return arrays, metrics

    def best(self) -> float:
        return max(self._norms)


def test_private_attributes_are_saved_or_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with listening(caplog) as lines:
        run(FakeGrid(NODES, behaving()), 2, k=4, strategy=Own(), folder=tmp_path / "run")
    told = [line for line in lines() if "cannot be saved" in line]
    assert told == ["enlist: Own._session cannot be saved, so a resumed run begins with a new one"]
    again = run(FakeGrid(NODES, behaving()), 5, k=4, strategy=Own(), folder=tmp_path / "run")
    whole = run(FakeGrid(NODES, behaving()), 5, k=4, strategy=Own())
    for name in ("_norms", "_average"):
        np.testing.assert_array_equal(getattr(again.strategy, name), getattr(whole.strategy, name))


def test_attributes_can_be_read_through_the_wrapper() -> None:
    wrapped: Any = run(FakeGrid(NODES, behaving()), 2, k=4, strategy=Own())
    assert wrapped.best() == max(wrapped._norms) == max(wrapped.strategy._norms)
    assert wrapped.fraction_evaluate == 0.0
    assert wrapped.round == 2, "the wrapper's own"
    with pytest.raises(AttributeError, match="neither Selecting nor its strategy has an attribute 'wurst'"):
        _ = wrapped.wurst
    held: Any = with_selector(Clipping(Own()), "random", k=3)
    assert (held.limit, held.weighted_by_key) == (5.0, "num-examples")


def test_attributes_can_be_set_through_the_wrapper() -> None:
    given = FedAvg(fraction_evaluate=0.0, min_available_nodes=1)
    grid = FakeGrid(range(11, 19), behaving())
    wrapped: Any = selecting(grid, strategy=given, k=2)
    wrapped.fraction_evaluate = 1.0
    wrapped.weighted_by_key = "num-examples"
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=2)
    kinds = [message.metadata.message_type for message in grid.sent]
    assert kinds.count("evaluate") == 16, "all eight nodes, in both rounds"
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=1)
    kinds = [message.metadata.message_type for message in grid.sent]
    assert kinds.count("evaluate") == 24, "also after a new start"
    assert (given.fraction_evaluate, wrapped.fraction_evaluate, wrapped.original.fraction_evaluate) == (0.0, 1.0, 1.0)
    held: Any = with_selector(Clipping(Own()), "random", k=3)
    held.limit, held._norms = 2.0, [7.0]
    assert (held.strategy.limit, held.strategy._base._norms) == (2.0, [7.0])
    held.mine = 3
    assert (vars(held)["mine"], hasattr(held.strategy, "mine")) == (3, False), "what nobody has is the wrapper's"


def test_a_floor_that_is_set_through_the_wrapper_holds(caplog: pytest.LogCaptureFixture) -> None:
    grid = FakeGrid(range(11, 19), behaving())
    wrapped: Any = selecting(grid, k=4, patience=60.0)
    wrapped.min_available_nodes = 9
    assert (wrapped.min_available_nodes, wrapped.strategy.min_available_nodes) == (9, 1)
    with listening(caplog) as lines:
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=1)
    assert [line for line in lines() if "continuing with 8 nodes that are connected, though 9 are needed" in line]
    wrapped.fraction_train = 0.0
    with pytest.raises(InputError, match="fraction_train=0"):
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=1)


def test_what_is_set_during_a_run_is_saved_and_forgotten_by_a_new_start(tmp_path: Path) -> None:
    def decay(result: RoundResult) -> None:
        wrapped.eta *= 0.5

    for rounds in (2, 4):
        grid = FakeGrid(NODES, behaving())
        strategy = FedAdam(fraction_evaluate=0.0, min_available_nodes=1, eta=0.8)
        wrapped: Any = selecting(grid, strategy=strategy, k=4, folder=tmp_path / "run", on_round=decay)
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=rounds)
    assert wrapped.eta == 0.8 * 0.5**3, "on_round comes after the checkpoint, so what it did after round 2 is lost"
    wrapped = selecting(FakeGrid(NODES, behaving()), strategy=strategy, k=4, on_round=decay)
    for _ in range(2):
        wrapped.clock = (grid := FakeGrid(NODES, behaving())).clock
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=2)
        assert wrapped.eta == 0.2


class Tracking(FedAvg):
    """Holds data, an object of the user's, and a method of its own."""

    def __init__(self, tracker: Any) -> None:
        super().__init__(fraction_evaluate=0.0, min_available_nodes=1, train_metrics_aggr_fn=self.averaged)
        self.tracker, self.history = tracker, {"norms": [np.zeros(1)], "seen": collections.Counter({11: 1})}
        self.steps = 0

    def averaged(self, records: Any, key: str) -> MetricRecord:
        self.steps += 1
        self.history["norms"].append(np.ones(1))
        self.history["seen"].update([11, 12])
        self.tracker.append(self.steps)
        return MetricRecord({"steps": self.steps})


class Tracker(list[int]):
    """Like a handle of a tracking service: there is only one."""


def test_nothing_that_a_strategy_holds_is_changed() -> None:
    tracker = Tracker()
    given = Tracking(tracker)
    wrapped: Any = selecting(FakeGrid(NODES, behaving()), strategy=given, k=2)
    for _ in range(2):
        wrapped.clock = (grid := FakeGrid(NODES, behaving())).clock
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=2)
        assert (wrapped.steps, len(wrapped.history["norms"])) == (2, 3)
        assert wrapped.history["seen"] == {11: 3, 12: 2}
    assert (given.steps, given.history) == (0, {"norms": [np.zeros(1)], "seen": {11: 1}})
    assert tracker == [1, 2, 1, 2], "other objects are the user's own"


class Clipping(Strategy):
    """A wrapper by composition: whatever it does not do itself, the strategy inside does."""

    def __init__(self, base: Any, limit: float = 5.0) -> None:
        self._base, self.limit, self.clipped = base, limit, 0

    def configure_train(self, *arguments: Any) -> Any:
        return self._base.configure_train(*arguments)

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        self.clipped += 1
        return self._base.aggregate_train(server_round, replies)

    def configure_evaluate(self, *arguments: Any) -> Any:
        return self._base.configure_evaluate(*arguments)

    def aggregate_evaluate(self, *arguments: Any) -> Any:
        return self._base.aggregate_evaluate(*arguments)

    def summary(self) -> None:
        self._base.summary()


class Foreign:
    """The same, derived from nothing."""

    __init__ = Clipping.__init__
    configure_train, aggregate_train = Clipping.configure_train, Clipping.aggregate_train
    configure_evaluate, aggregate_evaluate = Clipping.configure_evaluate, Clipping.aggregate_evaluate
    summary = Clipping.summary


@pytest.mark.parametrize("wrapper", [Clipping, Foreign])
def test_wrappers_by_composition(wrapper: Any, tmp_path: Path) -> None:
    def adam() -> Any:
        return FedAdam(fraction_evaluate=0.0, fraction_train=0.5, min_available_nodes=1)

    given = wrapper(adam())
    grid = FakeGrid(range(11, 31), behaving())
    wrapped: Any = run(grid, 2, k=6, strategy=given, folder=tmp_path / "run")
    assert len(grid.sent) == 12
    assert (given.clipped, given._base.fraction_train, given._base.m_t) == (0, 0.5, None), "it is copied"
    again: Any = run(FakeGrid(range(11, 31), behaving()), 4, k=6, strategy=wrapper(adam()), folder=tmp_path / "run")
    assert again.strategy.clipped == 4
    whole = run(FakeGrid(range(11, 31), behaving()), 4, k=6, strategy=adam())
    assert values(again.result.arrays) == values(whole.result.arrays)  # type: ignore[attr-defined]
    assert (wrapped.min_train_nodes, wrapped.fraction_train) == (2, 0.5), "the user's, not those that ask everybody"
    with pytest.raises(InputError, match="does not average replies by weight"):
        with_selector(wrapper(adam()), "random", k=6, late="merge")
    with pytest.raises(InputError, match=f"{wrapper.__name__} has no fraction_train"):
        with_selector(wrapper([]), "random", k=6)


class Either(Clipping):
    """Holds two strategies, of which one is asked in even rounds."""

    def __init__(self, base: Any, other: Any) -> None:
        super().__init__(base)
        self._other = other


def test_which_strategy_a_wrapper_holds() -> None:
    assert wrapping.held_by(Clipping(FedAvg())) == "_base"
    assert wrapping.held_by(Either(FedAvg(), FedAvg())) is None, "it could be either"
    with pytest.raises(InputError, match="Either has no fraction_train"):
        with_selector(Either(FedAvg(), FedAvg()), "random", k=2)
    either: Any = Either(FedAvg(), FedAvg())
    either.strategy = either._other
    assert wrapping.held_by(either) == "strategy", "so Flower's own wrappers call it"
    sampling: Any = Clipping(FedAvg())
    sampling.fraction_train = 0.5
    assert wrapping.held_by(sampling) is None, "it samples itself"


def test_trees_raise_no_false_alarm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Bagging(FedXgbBagging):
        """With trees that need no library: they are put one behind the other."""

        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            assert self.current_bst is not None
            self.current_bst += b"x"
            return ArrayRecord([np.frombuffer(self.current_bst, dtype=np.uint8)]), MetricRecord()

    with listening(caplog) as lines:
        for rounds in (2, 3):
            grid = FakeGrid(NODES, behaving())
            wrapped = selecting(grid, strategy=Bagging(fraction_evaluate=0.0), k=3, folder=tmp_path / "run")
            result = wrapped.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(2, np.uint8)]), num_rounds=rounds)
    assert not [line for line in lines() if "cannot be saved" in line]
    assert result.arrays["0"].numpy().tobytes() == b"\0\0xxx"


def test_on_round_is_told_of_every_round(tmp_path: Path) -> None:
    def train(message: Message) -> FakeReply:
        number = int(message.content["config"]["server-round"])  # type: ignore[arg-type]
        content = reply(message)
        content["metrics"] = MetricRecord({"num-examples": 10, "train_loss": 1.0 / number})
        return FakeReply(1.0, content) if number != 2 else FakeReply(1.0, error=(2, "boom"))

    told: list[RoundResult] = []

    grid = FakeGrid(NODES, behaving(train))
    strategy = FedAvg(min_available_nodes=1)
    wrapped = selecting(grid, strategy=strategy, k=4, folder=tmp_path / "run", on_round=told.append)
    evaluate = {number: MetricRecord({"accuracy": 0.1 * number}) for number in range(4)}
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=3, evaluate_fn=lambda number, arrays: evaluate[number])
    assert [result.number for result in told] == [1, 2, 3]
    assert [result.updated for result in told] == [True, False, True]
    losses = [None if result.train_metrics is None else result.train_metrics["train_loss"] for result in told]
    assert losses == [1.0, None, pytest.approx(1.0 / 3.0)]
    assert [result.server_metrics for result in told] == [evaluate[1], evaluate[2], evaluate[3]]
    assert told[0].evaluate_metrics is not None
    assert told[1].counts == {"selected": 4, "completed": 0, "late": 0, "dropped": 0, "failed": 4, "arrived": 0}
    assert told[0].arrays is not told[2].arrays
    with pytest.raises(InputError, match="on_round is 3; pass a function"):
        with_selector(FedAvg(), "random", k=2, on_round=3)  # type: ignore[arg-type]


def test_on_round_is_told_again_of_rounds_after_the_last_checkpoint(tmp_path: Path) -> None:
    """With save_every=2 there is none after round 3."""
    told: list[int] = []

    def on_round(result: RoundResult) -> None:
        told.append(result.number)
        if len(told) == 3:
            raise KeyboardInterrupt

    terms: dict[str, Any] = {"k": 4, "folder": tmp_path / "run", "save_every": 2, "on_round": on_round}
    with pytest.raises(KeyboardInterrupt):
        run(FakeGrid(NODES, behaving()), 5, **terms)
    run(FakeGrid(NODES, behaving()), 5, **terms)
    assert told == [1, 2, 3, 3, 4, 5]


def test_the_log_is_flowers(caplog: pytest.LogCaptureFixture) -> None:
    """Every line that Flower's own loop writes is there, word for word, but for how long it took."""

    def evaluate(number: int, arrays: Any) -> MetricRecord:
        return MetricRecord({"accuracy": 0.25 * number})

    def lines_of(start: Any) -> list[str]:
        grid = FakeGrid(NODES, behaving())
        strategy = FedAvg(min_train_nodes=4, min_evaluate_nodes=4, min_available_nodes=4)
        config = {"lr": 0.5, "key": b"secret"}
        with listening(caplog) as lines:
            caplog.clear()
            start(grid, strategy)(
                grid, model(), num_rounds=2, train_config=ConfigRecord(config), evaluate_fn=evaluate
            )  # fmt: skip
            return [re.sub(r"[\d.]+s$", "", line) for line in lines()]

    theirs = lines_of(lambda grid, strategy: strategy.start)
    ours = lines_of(lambda grid, strategy: selecting(grid, strategy=strategy, k=4).start)
    assert "Initial global evaluation results: {'accuracy': 0.0}" in theirs
    assert [line for line in theirs if line not in ours] == []
    assert [line for line in ours if line in theirs] == theirs, "in the same order"
