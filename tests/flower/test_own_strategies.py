"""Strategies that apps bring along: their attributes, wrappers of their own, a hook for their loops, Flower's log."""

from __future__ import annotations

import logging
import re
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp.strategy import FedAdam, FedAvg, FedXgbBagging, Strategy

from enlist.errors import InputError
from enlist.flower import RoundResult, with_selector
from enlist.flower.fake import Answer, FakeGrid
from enlist.runs.folder import Checkpoint

sys.path.insert(0, str(Path(__file__).parent))
from flower_helpers import behaving, listening, model, reply, run, selecting, values

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
    assert told == ["enlist: Own._session cannot be saved, and a run that is continued begins with a new one"]
    again = run(FakeGrid(NODES, behaving()), 5, k=4, strategy=Own(), folder=tmp_path / "run")
    whole = run(FakeGrid(NODES, behaving()), 5, k=4, strategy=Own())
    for name in ("_norms", "_average"):
        np.testing.assert_array_equal(getattr(again.strategy, name), getattr(whole.strategy, name))


def test_attributes_can_be_read_through_the_wrapper() -> None:
    wrapped: Any = run(FakeGrid(NODES, behaving()), 2, k=4, strategy=Own())
    assert wrapped.best() == max(wrapped._norms) == max(wrapped.strategy._norms)
    assert wrapped.fraction_evaluate == 0.0
    assert wrapped.round == 2, "the wrapper's own"
    with pytest.raises(AttributeError, match="neither Selecting nor the strategy in it has an attribute 'wurst'"):
        _ = wrapped.wurst
    held: Any = with_selector(Clipping(Own()), "random", k=3)
    assert (held.limit, held.weighted_by_key) == (5.0, "num-examples")


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
    assert wrapped.min_train_nodes == 1
    with pytest.raises(InputError, match="does not average replies by weight"):
        with_selector(wrapper(adam()), "random", k=6, late="merge")
    with pytest.raises(InputError, match=f"{wrapper.__name__} has no fraction_train"):
        with_selector(wrapper([]), "random", k=6)


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
    def train(message: Message) -> Answer:
        number = int(message.content["config"]["server-round"])  # type: ignore[arg-type]
        content = reply(message)
        content["metrics"] = MetricRecord({"num-examples": 10, "train_loss": 1.0 / number})
        return Answer(1.0, content) if number != 2 else Answer(1.0, error=(2, "boom"))

    told: list[RoundResult] = []

    def on_round(result: RoundResult) -> None:
        [checkpoint] = (tmp_path / "run" / "checkpoints").iterdir()
        assert Checkpoint(checkpoint).round == result.number
        told.append(result)

    grid = FakeGrid(NODES, behaving(train))
    strategy = FedAvg(min_available_nodes=1)
    wrapped = selecting(grid, strategy=strategy, k=4, folder=tmp_path / "run", on_round=on_round)
    evaluate = {number: MetricRecord({"accuracy": 0.1 * number}) for number in range(4)}
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=3, evaluate_fn=lambda number, arrays: evaluate[number])
    assert [result.number for result in told] == [1, 2, 3]
    assert [result.updated for result in told] == [True, False, True]
    losses = [None if result.train_metrics is None else result.train_metrics["train_loss"] for result in told]
    assert losses == [1.0, None, pytest.approx(1.0 / 3.0)]
    assert [result.server_metrics for result in told] == [evaluate[1], evaluate[2], evaluate[3]]
    assert told[0].evaluate_metrics is not None
    assert told[1].counts == {"asked": 4, "completed": 0, "late": 0, "dropped": 0, "failed": 4, "arrived": 0}
    assert told[0].arrays is not told[2].arrays
    with pytest.raises(InputError, match="on_round is 3; pass a function"):
        with_selector(FedAvg(), "random", k=2, on_round=3)  # type: ignore[arg-type]


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
