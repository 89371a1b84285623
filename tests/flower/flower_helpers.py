"""What the tests of the adapter share: nodes that do as they are told, and a strategy on their clock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, Strategy

from enlist.flower import Selecting, client, with_selector
from enlist.flower.fake import FakeGrid, FakeReply, model_reply

logging.getLogger("flwr").setLevel(logging.ERROR)

SHAPES = [(3,), (2, 2)]


def model(value: float = 0.0) -> ArrayRecord:
    return ArrayRecord([np.full(shape, value) for shape in SHAPES])


def values(arrays: ArrayRecord) -> list[Any]:
    return [array.numpy().tolist() for array in arrays.values()]


def node_of(message: Message) -> int:
    return message.metadata.dst_node_id


def reply(message: Message, value: float | None = None, examples: float = 10, **claims: Any) -> RecordDict:
    """A reply whose model is what was sent plus `value` (the node's number if not given)."""
    content = model_reply(message, examples=examples, **claims)
    step = float(node_of(message)) if value is None else value
    sent = next(iter(message.content.array_records.values()))
    moved = {name: array.numpy() + step for name, array in sent.items()}
    content["arrays"] = ArrayRecord({name: Array(np.asarray(value)) for name, value in moved.items()})
    return content


def behaving(train: Callable[[Message], FakeReply] | None = None, **named: Any) -> Callable[[Message], FakeReply]:
    """Nodes that tell their names, evaluate with accuracy 0.5, and train as `train` says (after 1 s if it does not)."""

    def answer(message: Message) -> FakeReply:
        kind = message.metadata.message_type
        if kind == "query.enlist":
            return FakeReply(0.2, client.introduction(message, client_id=f"phone-{node_of(message)}", **named).content)
        if kind == "evaluate":
            return FakeReply(
                0.5, RecordDict({"metrics": MetricRecord({"num-examples": 5, "accuracy": 0.5, "loss": 1.5})})
            )
        if train is not None:
            return train(message)
        return FakeReply(1.0, reply(message, client_id=f"phone-{node_of(message)}", loss=0.5, loss_rms=0.6))

    return answer


def selecting(grid: FakeGrid, selector: Any = "random", strategy: Strategy | None = None, **terms: Any) -> Selecting:
    """A strategy with a selector, on the grid's clock."""
    chosen = FedAvg(fraction_evaluate=0.0, min_available_nodes=1) if strategy is None else strategy
    wrapped = with_selector(chosen, selector, **{"k": 3, "deadline": 30.0, **terms})
    wrapped.clock = grid.clock
    return wrapped


def run(grid: FakeGrid, rounds: int = 1, selector: Any = "random", **terms: Any) -> Selecting:
    """Run a federation; the result is kept as `.result`."""
    wrapped = selecting(grid, selector, **terms)
    wrapped.result = wrapped.start(grid=grid, initial_arrays=model(), num_rounds=rounds)  # type: ignore[attr-defined]
    return wrapped


@contextmanager
def listening(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """Lines of the log, Flower's own and ours, which are switched off otherwise."""
    loggers = [logging.getLogger(name) for name in ("flwr", "flwr.enlist")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.addHandler(caplog.handler)
    try:
        yield lambda: [record.getMessage() for record in dict.fromkeys(caplog.records)]
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeHandler(caplog.handler)
            logger.setLevel(level)
