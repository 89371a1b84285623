"""What is told of a run: to the log in the lines that Flower itself would write, and to the app's own hook."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import Result


@dataclasses.dataclass(frozen=True, eq=False)
class RoundResult:
    """What `on_round` is given after every round.

    A run that is continued begins after its last checkpoint: rounds that came after it are run, and told, again. That
    of this round, if one is due, may still be on its way to the disk.

    number            of the round, counted over all starts
    arrays            the model after it
    updated           whether the strategy has made a new one in it
    train_metrics     aggregated metrics of the clients' training; None if there are none
    evaluate_metrics  aggregated metrics of the clients' evaluation; None if there are none
    server_metrics    what evaluate_fn returned; None if there is none
    counts            asked, completed, late, dropped, failed, arrived
    result            Flower's `Result` so far, with the metrics of all rounds

    >>> told = RoundResult(3, ArrayRecord(), True, MetricRecord({"loss": 0.5}), None, None, {"asked": 5}, Result())
    >>> told.train_metrics["loss"], told.counts["asked"]
    (0.5, 5)
    """

    number: int
    arrays: ArrayRecord
    updated: bool
    train_metrics: MetricRecord | None
    evaluate_metrics: MetricRecord | None
    server_metrics: MetricRecord | None
    counts: Mapping[str, int]
    result: Result

    @classmethod
    def of(cls, number: int, result: Result, updated: bool, counts: Mapping[str, Any]) -> RoundResult:
        """What there is to tell of a round that is over."""
        return cls(
            number,
            result.arrays,
            updated,
            result.train_metrics_clientapp.get(number),
            result.evaluate_metrics_clientapp.get(number),
            result.evaluate_metrics_serverapp.get(number),
            counts,
            result,
        )


Hook = Callable[[RoundResult], object]


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
    """What has come of it, in Flower's words.

    >>> result_lines(Result(), 12.5)[1:6]
    ['Strategy execution finished in 12.50s', '', 'Final results:', '', '\\tGlobal Arrays:']
    """
    told = [f"\t{line}" for line in str(result).splitlines()]
    return ["", f"Strategy execution finished in {seconds:.2f}s", "", "Final results:", "", *told, ""]
