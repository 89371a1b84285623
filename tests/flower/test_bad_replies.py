"""Replies that are wrong on purpose or by accident: they are refused with a reason, and everybody else's count."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedAvgM

from enlist.flower.fake import FakeGrid, FakeReply
from enlist.flower.replies.reply import REASON
from enlist.runs.tables import read_run
from tests.flower.flower_helpers import behaving, model, node_of, reply, run, selecting, values

BAD = 13
"""The node that misbehaves."""

Spoil = Callable[[RecordDict], None]


def with_data(data: bytes, stype: str = "numpy.ndarray") -> Spoil:
    def spoil(content: RecordDict) -> None:
        content["arrays"]["0"] = Array("float64", (3,), stype, data)

    return spoil


def with_array(values: Any) -> Spoil:
    def spoil(content: RecordDict) -> None:
        content["arrays"]["0"] = Array(np.asarray(values))

    return spoil


def renamed(old: str, new: str) -> Spoil:
    def spoil(content: RecordDict) -> None:
        content[new] = content.pop(old)

    return spoil


def with_metrics(**metrics: Any) -> Spoil:
    def spoil(content: RecordDict) -> None:
        content["metrics"] = MetricRecord({**content["metrics"], **metrics})

    return spoil


def saved(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


RIGHT = Array(np.full(3, 99.0)).data

SPOILT: dict[str, tuple[Spoil, str]] = {
    "a torn zip": (with_data(b"PK\x03\x04 and nothing else"), "array '0' cannot be read"),
    "an npz": (with_data(saved(a=np.ones(3))), "array '0' cannot be read"),
    "a damaged header": (with_data(RIGHT.replace(b"(3,)", b"(3,(")), "array '0' cannot be read"),
    "another header": (with_data(RIGHT.replace(b"(3,), }", b"9**9**9")), "array '0' cannot be read"),
    "nothing": (with_data(b""), "array '0' cannot be read"),
    "a pickle": (with_data(b"\x80\x04N."), "array '0' cannot be read"),
    "another way to write arrays": (with_data(RIGHT, "x"), "array '0' cannot be read"),
    "complex numbers": (with_array(np.full(3, 1.0 + 1.0j)), "array '0' holds complex128, not float64"),
    "text": (with_array(["a", "b", "c"]), "array '0' holds <U1"),
    "another ArrayRecord": (renamed("arrays", "weights"), "the ArrayRecord is 'weights', that of most is 'arrays'"),
    "another MetricRecord": (renamed("metrics", "m"), "the MetricRecord is 'm', that of most is 'metrics'"),
    "an empty list": (with_metrics(x=[]), "the metrics are num-examples, x (0), those of most are num-examples, x"),
    "one more metric": (with_metrics(y=1.0), "the metrics are num-examples, x, y, those of most are num-examples, x"),
    "a line break in a key": (with_metrics(**{"a\rb\n\x00c\x1b[2J": 1.0}), "the metrics are a b c [2J, num-examples"),
    "a long key": (with_metrics(**{"k" * 100_000: 1.0}), "the metrics are " + "k" * 40),
    "a long name of an array": (
        lambda content: content["arrays"].update({"w\r" * 50_000: Array(np.ones(1))}),
        "array 'w w",
    ),
    "a long name of the record": (renamed("arrays", "r\r" * 50_000), "the ArrayRecord is 'r r"),
    "a list as weight": (with_metrics(**{"num-examples": [1.0] * 10_000}), "'num-examples' is [1.0, 1.0"),
}


def answer(content: RecordDict, node: int, spoil: Spoil) -> RecordDict:
    """A reply with a metric `x`; the bad node's is spoilt."""
    with_metrics(x=0.5)(content)
    if node == BAD:
        spoil(content)
    return content


def reasons(folder: Path) -> dict[tuple[int, int], tuple[str, str]]:
    """(round in which it was asked, client) -> outcome and reason, as the tables say; they can all be read."""
    assert len(read_run(folder).rounds["round"]) == 2
    with (folder / "clients.csv").open(newline="") as file:
        nodes = {row["client"]: int(row["node"]) for row in csv.DictReader(file)}
    with (folder / "participations.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["outcome"] != "late"]
    return {(int(row["selected_in"]), nodes[row["client"]]): (row["outcome"], row["reason"]) for row in rows}


@pytest.mark.parametrize("name", SPOILT)
def test_a_reply_that_cannot_be_used_ends_nothing(name: str, tmp_path: Path) -> None:
    spoil, reason = SPOILT[name]
    grid = FakeGrid(
        [11, 12, 13], behaving(lambda message: FakeReply(1.0, answer(reply(message), node_of(message), spoil)))
    )
    wrapped = run(grid, 2, "cs-ucb", k=3, folder=tmp_path / "run")
    assert values(wrapped.result.arrays) == values(model(23.0))
    assert wrapped.selector.counts.observed.tolist() == [2, 2, 0]
    outcome, text = reasons(tmp_path / "run")[1, BAD]
    assert outcome == "failed"
    assert text.startswith(f"refused: {reason}")
    assert len(text) <= REASON
    assert text.isprintable()


@pytest.mark.parametrize("name", SPOILT)
def test_nor_does_a_late_one_that_would_be_merged(name: str, tmp_path: Path) -> None:
    spoil, reason = SPOILT[name]

    def train(message: Message) -> FakeReply:
        late = node_of(message) == BAD and message.content["config"]["server-round"] == 1
        return FakeReply(
            15.0 if late else 8.0, answer(reply(message), node_of(message), spoil if late else lambda _: None)
        )

    grid = FakeGrid([11, 12, 13], behaving(train))
    wrapped = run(grid, 2, "cs-ucb", k=3, deadline=10.0, late="merge", folder=tmp_path / "run")
    assert values(wrapped.result.arrays) == values(model(23.0))
    outcome, text = reasons(tmp_path / "run")[1, BAD]
    assert outcome == "failed"
    assert text.startswith(f"refused: {reason}")
    assert len(text) <= REASON
    assert text.isprintable()


@pytest.mark.parametrize("name", ["another MetricRecord", "an empty list", "one more metric", "a line break in a key"])
def test_nor_does_an_evaluation(name: str, tmp_path: Path) -> None:
    spoil, reason = SPOILT[name]

    def behave(message: Message) -> FakeReply:
        if message.metadata.message_type == "train":
            return FakeReply(1.0, reply(message))
        content = RecordDict({"metrics": MetricRecord({"num-examples": 5})})
        return FakeReply(1.0, answer(content, node_of(message), spoil))

    strategy = FedAvg(fraction_evaluate=1.0, min_available_nodes=3)
    wrapped = run(FakeGrid([11, 12, 13], behave), 2, "random", strategy=strategy, folder=tmp_path / "run")
    assert dict(wrapped.result.evaluate_metrics_clientapp[2]) == {"x": 0.5}
    assert len(read_run(tmp_path / "run").rounds["round"]) == 2
    events = (tmp_path / "run" / "events.csv").read_text()
    assert f"refused: evaluation: {reason}" in events.replace('"', "")


def test_arrays_in_another_order_are_the_same_arrays() -> None:
    def train(message: Message) -> FakeReply:
        content = reply(message)
        if node_of(message) == 11:
            content["arrays"] = ArrayRecord({name: content["arrays"][name] for name in ("1", "0")})
        return FakeReply(1.0, content)

    strategy = FedAvgM(fraction_evaluate=0.0, min_available_nodes=1)
    wrapped = run(FakeGrid([11, 12, 13], behaving(train)), 2, "random", strategy=strategy, k=3)
    assert list(wrapped.result.arrays) == ["0", "1"]
    assert values(wrapped.result.arrays) == values(model(24.0))


class Unmoved(FedAvg):
    """Averages what nodes send, a part of the model, and sends them the same model again."""

    def __init__(self) -> None:
        super().__init__(fraction_evaluate=0.0, min_available_nodes=1)
        self.means: list[Any] = []

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        arrays, metrics = super().aggregate_train(server_round, replies)
        self.means.append(None if arrays is None else values(arrays))
        return None, metrics


@pytest.mark.parametrize("late", [False, True])
def test_one_that_sends_the_whole_model_where_others_send_a_part(late: bool) -> None:
    def train(message: Message) -> FakeReply:
        number, content = message.content["config"]["server-round"], reply(message)
        bad = node_of(message) == BAD and number == 2
        if not bad:
            content["arrays"] = ArrayRecord({"adapter": Array(np.full(2, float(node_of(message))))})
        return FakeReply(15.0 if bad and late else 8.0, content)

    grid = FakeGrid([11, 12, 13], behaving(train))
    terms = {"late": "merge", "staleness": "refl"} if late else {}
    wrapped = run(grid, 3, "random", strategy=Unmoved(), k=3, deadline=10.0, **terms)
    last = [[11.5, 11.5]] if late else [[12.0, 12.0]]
    assert wrapped.strategy.means == [[[12.0, 12.0]], [[11.5, 11.5]], last]


@pytest.mark.parametrize("name", SPOILT)
def test_nor_do_late_ones_if_nobody_was_in_time(name: str, tmp_path: Path) -> None:
    spoil, reason = SPOILT[name]

    def train(message: Message) -> FakeReply:
        first = message.content["config"]["server-round"] == 1
        content = answer(reply(message), node_of(message), spoil if first else lambda _: None)
        return FakeReply(15.0, content) if first else FakeReply(1.0, error=(2, "boom"))

    grid = FakeGrid([11, 12, 13], behaving(train))
    wrapped = run(grid, 2, "cs-ucb", k=3, deadline=10.0, late="merge", folder=tmp_path / "run")
    assert values(wrapped.result.arrays) == values(model(11.5))
    outcome, text = reasons(tmp_path / "run")[1, BAD]
    assert outcome == "failed"
    assert text.startswith(f"refused: {reason}")


def test_late_replies_of_a_model_with_truth_values() -> None:
    def train(message: Message) -> FakeReply:
        late = node_of(message) == BAD and message.content["config"]["server-round"] == 1
        sent = message.content["arrays"]
        content = reply(message, 1.0)
        content["arrays"] = ArrayRecord({"mask": sent["mask"], "w": Array(sent["w"].numpy() + 1.0)})
        return FakeReply(15.0 if late else 8.0, content)

    grid = FakeGrid([11, 12, 13], behaving(train))
    wrapped = selecting(grid, "random", k=3, deadline=10.0, late="merge")
    arrays = ArrayRecord({"mask": Array(np.array([True, False])), "w": Array(np.zeros(1))})
    result = wrapped.start(grid=grid, initial_arrays=arrays, num_rounds=2)
    assert values(result.arrays) == [[1.0, 0.0], pytest.approx([2.0])]


HONEST, LIE = 0.0, 1000.0


def liars(late: bool) -> Callable[[Message], FakeReply]:
    """Twenty nodes of which the first claims a million millions of examples, in time or a round late."""

    def train(message: Message) -> FakeReply:
        liar, first = node_of(message) == 11, message.content["config"]["server-round"] == 1
        seconds = 15.0 if liar and late and first else 8.0
        return FakeReply(seconds, reply(message, LIE if liar and first else HONEST, examples=10**12 if liar else 10))

    return train


def test_a_liar_in_the_first_round_is_one_of_many(tmp_path: Path) -> None:
    wrapped = run(FakeGrid(range(11, 31), behaving(liars(late=False))), 2, k=20, folder=tmp_path / "run")
    assert values(wrapped.result.arrays)[0][0] == pytest.approx(LIE * 100 / 290)
    table = read_run(tmp_path / "run").participations
    assert sorted(table["weight"][table["round"] == 1].tolist()) == [10.0] * 19 + [100.0]


def test_a_liar_who_is_late_is_one_of_many(tmp_path: Path) -> None:
    grid = FakeGrid(range(11, 31), behaving(liars(late=True)))
    wrapped = run(grid, 2, k=20, deadline=10.0, late="merge", folder=tmp_path / "run")
    assert values(wrapped.result.arrays)[0][0] == pytest.approx(LIE * 50 / 240)
    table = read_run(tmp_path / "run").participations
    assert table["weight"][table["outcome"] == "arrived"].tolist() == [50.0]


def test_a_weight_that_is_cut_to_less_than_one_is_still_a_weight() -> None:
    def train(message: Message) -> FakeReply:
        number = message.content["config"]["server-round"]
        if number == 2 and node_of(message) != 11:
            return FakeReply(1.0, error=(2, "boom"))
        return FakeReply(1.0, reply(message, 1.0, examples=0.01 if number == 1 else 5))

    wrapped = run(FakeGrid(range(11, 31), behaving(train)), 2, k=20)
    assert values(wrapped.result.arrays)[0][0] == pytest.approx(2.0)


@pytest.mark.parametrize("clip", [0.9, None])
def test_who_trusts_everybody_may(clip: float | None) -> None:
    grid = FakeGrid(range(11, 31), behaving(liars(late=False)))
    found = values(run(grid, 1, k=20, clip=clip).result.arrays)[0][0]
    assert (found > 999.0) == (clip is None)


def evaluated(count: int, folder: Path, selector: str = "random", **lies: float) -> Any:
    """A run whose nodes evaluate with accuracy 0.5, except the first, which tells `lies`."""

    def behave(message: Message) -> FakeReply:
        if message.metadata.message_type == "train":
            return FakeReply(1.0, reply(message))
        metrics = {"num-examples": 5, "accuracy": 0.5, "loss": 2.0, **(lies if node_of(message) == 11 else {})}
        return FakeReply(1.0, RecordDict({"metrics": MetricRecord(metrics)}))

    strategy = FedAvg(fraction_evaluate=1.0, min_available_nodes=count)
    grid = FakeGrid(range(11, 11 + count), behave)
    return run(grid, 2, selector, strategy=strategy, k=count, folder=folder)


@pytest.mark.parametrize(
    ("lies", "accuracy", "loss"),
    [
        ({"num-examples": 10**12, "accuracy": 7.0}, 0.5, 2.0),
        ({"accuracy": 7.0}, 0.5, 2.0),
        ({"accuracy": float("nan")}, 0.5, 2.0),
        ({"loss": float("inf")}, 0.5, 2.0),
        ({"num-examples": 10**12, "accuracy": 1.0}, (95 * 0.5 + 100 * 1.0) / 195, 2.0),
    ],
)
def test_evaluations_are_claims(lies: dict[str, float], accuracy: float, loss: float, tmp_path: Path) -> None:
    wrapped = evaluated(20, tmp_path / "run", "darts-ucb", **lies)
    assert dict(wrapped.result.evaluate_metrics_clientapp[2]) == pytest.approx({"accuracy": accuracy, "loss": loss})
    rounds = read_run(tmp_path / "run").rounds
    assert rounds["accuracy"].tolist() == pytest.approx([accuracy] * 2)
    assert wrapped.selector.state.accuracy == pytest.approx(accuracy)


def test_an_app_that_counts_in_percent_keeps_its_metrics(tmp_path: Path) -> None:
    def behave(message: Message) -> FakeReply:
        if message.metadata.message_type == "train":
            return FakeReply(1.0, reply(message))
        metrics = {"num-examples": 5, "accuracy": 0.0 if node_of(message) == 11 else 60.0}
        return FakeReply(1.0, RecordDict({"metrics": MetricRecord(metrics)}))

    strategy = FedAvg(fraction_evaluate=1.0, min_available_nodes=3)
    wrapped = run(FakeGrid([11, 12, 13], behave), 2, strategy=strategy, k=3, folder=tmp_path / "run")
    assert dict(wrapped.result.evaluate_metrics_clientapp[2]) == pytest.approx({"accuracy": 40.0})
    assert np.isnan(read_run(tmp_path / "run").rounds["accuracy"]).all()
