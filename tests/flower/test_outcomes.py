"""Everything that can become of a node that was asked, as the adapter sees and tells it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from flwr.serverapp.strategy import FedAvg

import enlist
from enlist.errors import MissingColumnError
from enlist.flower import NoNodesError
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.records import Outcome
from tests.flower.flower_helpers import behaving, listening, model, node_of, reply, run, selecting, values


class Spy(FedAvg):
    """FedAvg that remembers which replies it was given."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"fraction_evaluate": 0.0, "min_available_nodes": 1, **settings})
        self.seen: list[list[Message]] = []

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        self.seen.append(list(replies))
        return super().aggregate_train(server_round, self.seen[-1])


def told(wrapped: Any, number: int = 1) -> dict[int, str]:
    """Node -> outcome in participations, from the selector's own books of a round that is still open."""
    opening = wrapped.selector.openings[number]
    names = [Outcome(int(code)).name for code in opening.outcome]
    return dict(zip(wrapped.nodes.at(opening.selection.clients), names, strict=True))


FATES = {
    11: FakeReply(2.0),
    12: FakeReply(1.0, error=(2, "<class 'RuntimeError'>:<'boom'>")),
    13: FakeReply(20.0, error=(8, "ClientApp stopped responding")),
    14: FakeReply(9.0, error=(5, "Node Unavailable")),
    15: FakeReply(None),
    16: FakeReply(40.0),
}


def fated(message: Message) -> FakeReply:
    fate = FATES[node_of(message)]
    return fate if fate.error or fate.seconds is None else FakeReply(fate.seconds, reply(message, loss=1.0))


def test_every_outcome_of_the_facts() -> None:
    grid = FakeGrid(list(FATES), behaving(fated))
    strategy = Spy()
    wrapped = run(grid, 1, "cs-ucb", strategy=strategy, k=6, deadline=30.0)
    assert told(wrapped) == {
        11: "COMPLETED",
        12: "FAILED",
        13: "FAILED",
        14: "DROPPED",
        15: "LATE",
        16: "LATE",
    }
    assert grid.clock.now == pytest.approx(30.0, abs=0.1)
    seen = wrapped.strategy.seen[0]
    assert [message.metadata.src_node_id for message in seen if not message.has_error()] == [11]
    assert sorted(message.metadata.src_node_id for message in seen if message.has_error()) == [12, 13, 14]
    assert values(wrapped.result.arrays) == values(model(11.0))
    assert wrapped.training.messenger.busy == {15, 16}


def test_the_latency_that_is_told_is_the_measured_one() -> None:
    grid = FakeGrid([11, 12], behaving(lambda message: FakeReply(node_of(message) - 9.0, reply(message), skew=99.0)))
    wrapped = run(grid, 1, "cs-ucb", k=2)
    assert wrapped.selector.state.latency.mean.tolist() == pytest.approx([2.0, 3.0], abs=0.11)


def test_replies_in_any_order_and_twice_give_the_same() -> None:
    def play(copies: int, delays: list[float]) -> Any:
        grid = FakeGrid(
            [11, 12, 13],
            behaving(lambda message: FakeReply(delays[node_of(message) - 11], reply(message, loss=1.0), copies=copies)),
        )
        wrapped = run(grid, 1, "afl", k=3)
        return values(wrapped.result.arrays), wrapped.selector.counts.observed.tolist()

    assert play(1, [1.0, 2.0, 3.0]) == play(3, [3.0, 1.0, 2.0])


def test_a_reply_from_a_node_that_was_not_asked_changes_nothing() -> None:
    def train(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message), source=99 if node_of(message) == 12 else None)

    grid = FakeGrid([11, 12], behaving(train))
    wrapped = run(grid, 1, "cs-ucb", k=2, deadline=10.0)
    assert told(wrapped) == {11: "COMPLETED", 12: "LATE"}
    assert values(wrapped.result.arrays) == values(model(11.0))


def spoilt(message: Message) -> FakeReply:
    content = reply(message)
    arrays = content["arrays"]
    node = node_of(message)
    if node == 12:
        arrays["0"] = Array(np.array([1.0, np.nan, 2.0]))
    elif node == 13:
        arrays["1"] = Array(np.zeros((4, 4)))
    elif node == 14:
        del arrays["1"]
    elif node == 15:
        content["metrics"] = MetricRecord({"num-examples": 10, "extra": 1.0})
    elif node == 16:
        content["metrics"] = MetricRecord({"num-examples": -5})
    elif node == 17:
        content["more"] = ArrayRecord([np.zeros(1)])
    elif node == 18:
        arrays["0"] = Array("float64", (3,), "numpy.ndarray", b"nonsense")
    return FakeReply(1.0, content)


def test_replies_that_cannot_be_used_are_refused_and_the_strategy_never_sees_them(tmp_path: Path) -> None:
    grid = FakeGrid(range(11, 21), behaving(spoilt))
    wrapped = run(grid, 1, "cs-ucb", strategy=Spy(), k=10, folder=tmp_path / "run")
    seen = wrapped.strategy.seen[0]
    assert sorted(message.metadata.src_node_id for message in seen if not message.has_error()) == [11, 19, 20]
    assert values(wrapped.result.arrays)[0] == pytest.approx([50 / 3] * 3)
    rows = (tmp_path / "run" / "participations.csv").read_text()
    for reason in ("holds NaN", "has shape (4, 4)", "'1' is missing", "metrics are", "'num-examples' is -5"):
        assert f"refused: {reason}" in rows or reason in rows, reason
    assert rows.count(",failed,") == 7
    events = (tmp_path / "run" / "events.csv").read_text()
    assert events.count(",refused,") == 7


def test_an_app_that_replies_with_other_arrays_than_it_was_sent() -> None:
    def train(message: Message) -> FakeReply:
        content = reply(message)
        content["arrays"] = ArrayRecord({"adapter": Array(np.full(2, float(node_of(message))))})
        if node_of(message) == 13:
            content["arrays"] = ArrayRecord({"other": Array(np.zeros(2))})
        return FakeReply(1.0, content)

    grid = FakeGrid([11, 12, 13], behaving(train))
    wrapped = run(grid, 2, "random", k=3)
    assert values(wrapped.result.arrays) == [[11.5, 11.5]]
    assert wrapped.selector.counts.observed.tolist() == [2, 2, 0]


def test_a_single_reply_with_wrong_shapes_is_refused() -> None:
    def train(message: Message) -> FakeReply:
        content = reply(message)
        content["arrays"] = ArrayRecord([np.zeros(7)])
        return FakeReply(1.0, content)

    wrapped = run(FakeGrid([11, 12], behaving(train)), 2, "random", k=1)
    assert values(wrapped.result.arrays) == values(model())
    assert wrapped.selector.counts.observed.tolist() == [0, 0]


def test_nobody_completes_and_the_model_stays() -> None:
    grid = FakeGrid([11, 12], behaving(lambda message: FakeReply(1.0, error=(2, "boom"))))
    wrapped = run(grid, 3, "oort", k=2)
    assert wrapped.round == 3
    assert values(wrapped.result.arrays) == values(model())


def test_an_absurd_number_of_examples_does_not_take_over_the_average() -> None:
    def train(message: Message) -> FakeReply:
        liar = node_of(message) == 11 and message.content["config"]["server-round"] > 1
        return FakeReply(1.0, reply(message, 100.0 if liar else 0.0, examples=10**11 if liar else 10))

    grid = FakeGrid(range(11, 31), behaving(train))
    wrapped = run(grid, 2, "random", k=20)
    # weight 100 of 290 at most, not all of it
    assert values(wrapped.result.arrays)[0][0] == pytest.approx(100.0 * 100 / 290)


def test_missing_values_do_not_end_the_run() -> None:
    def train(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message, loss_rms=1.0) if node_of(message) < 14 else reply(message))

    wrapped = run(FakeGrid(range(11, 17), behaving(train)), 5, "oort", k=6)
    assert np.isnan(wrapped.selector.state.utility).tolist() == [False] * 3 + [True] * 3


@pytest.mark.parametrize(
    ("selector", "key"), [("oort", "loss-rms"), ("ucb", "accuracy-gain"), ("afl", "loss"), ("tifl", "accuracy")]
)
def test_a_selector_that_needs_what_clients_do_not_send_says_which_key(selector: str, key: str) -> None:
    grid = FakeGrid([11, 12, 13], behaving(lambda message: FakeReply(1.0, reply(message))))
    column = key.replace("-", "_")
    with pytest.raises(MissingColumnError) as caught:
        run(grid, 5, selector, k=2)
    text = str(caught.value)
    assert text.startswith(f"selector '{selector}' needs {column}, and none of the 2 replies of round 1 carries it; ")
    assert f"send '{key}' in the ConfigRecord 'enlist'" in text
    assert f"keys={{'{column}': '...'}}" in text


def test_the_app_may_have_keys_of_its_own() -> None:
    def train(message: Message) -> FakeReply:
        content = reply(message)
        content["metrics"] = MetricRecord({"num-examples": 10, "train_loss": 0.5})
        return FakeReply(1.0, content)

    wrapped = run(FakeGrid([11, 12], behaving(train)), 1, "oort", k=2, keys={"loss_rms": "train_loss"})
    assert wrapped.selector.state.utility.tolist() == [5.0, 5.0]


def test_a_selector_that_needs_the_accuracy_says_where_it_comes_from() -> None:
    grid = FakeGrid([11, 12], behaving())
    with pytest.raises(
        MissingColumnError, match=r"needs the accuracy after every round, and the evaluation of round 1"
    ):
        run(grid, 2, "darts-ucb", k=1)
    evaluating = run(grid, 2, "darts-ucb", k=1, strategy=FedAvg(fraction_evaluate=1.0, min_available_nodes=1))
    assert evaluating.selector.state.accuracy == 0.5
    wrapped = selecting(grid, "darts-ucb", k=1)
    wrapped.start(
        grid=grid,
        initial_arrays=model(),
        num_rounds=2,
        evaluate_fn=lambda number, arrays: MetricRecord({"accuracy": 0.1 * number}),
    )
    assert wrapped.selector.state.accuracy == pytest.approx(0.2)


@pytest.mark.parametrize("selector", ["fedsuv", "cu-cs", "size-proportional"])
def test_a_selector_that_needs_to_know_its_clients_asks_them(selector: str) -> None:
    silent = FakeGrid([11, 12], lambda message: FakeReply(1.0, error=(2, "No query function registered")))
    with pytest.raises(MissingColumnError, match=r'let the ClientApp answer with @app.query\("enlist"\)'):
        run(silent, 1, selector, k=1)
    train = behaving(
        lambda message: FakeReply(1.0, reply(message, loss_rms=1.0, accuracy_gain=0.1)),
        num_examples=20,
        features={"cores": 4.0, "bandwidth": 2.0},
    )
    wrapped = run(FakeGrid([11, 12, 13], train), 4, selector, k=2)
    assert wrapped.nodes.names == ["phone-11", "phone-12", "phone-13"]
    if selector != "fedsuv":
        assert wrapped.selector.clients.num_examples.tolist() == [20.0] * 3
    if selector != "size-proportional":
        assert wrapped.selector.clients.feature_names == ("cores", "bandwidth")


def test_strangers_of_whom_too_little_is_known_are_not_waited_for_as_if_they_were_busy() -> None:
    silent = FakeGrid([11, 12], lambda message: FakeReply(1.0, error=(2, "No query function registered")))
    known = enlist.Clients(ids=["phone-99"], num_examples=[10])
    with pytest.raises(MissingColumnError, match="needs num_examples of clients before it can select any"):
        run(silent, 1, "size-proportional", k=1, clients=known, patience=30.0)


def test_nobody_is_there() -> None:
    grid = FakeGrid([])
    with pytest.raises(NoNodesError, match="no node is connected after 50 s; start SuperNodes"):
        run(grid, 1, patience=50.0)
    assert grid.clock.now == pytest.approx(50.0, abs=1.5)


def test_patience_ends_whenever_it_began() -> None:
    """What is left of it must never be too short to make a clock go on that has come to here."""

    class Watched(FakeGrid):
        looks = 0

        def get_node_ids(self) -> Iterable[int]:
            self.looks += 1
            assert self.looks < 200, "it waits for ever"
            return super().get_node_ids()

    for began in np.random.default_rng(1).uniform(0.0, 500.0, 60).tolist():
        grid = Watched([])
        grid.clock.now = began
        with pytest.raises(NoNodesError, match="no node is connected after 100 s"):
            run(grid, 1, patience=100.0)


def test_everybody_is_busy() -> None:
    grid = FakeGrid([11, 12], behaving(lambda message: FakeReply(None)))
    with pytest.raises(NoNodesError, match="all 2 connected nodes are still busy with earlier rounds after 60 s"):
        run(grid, 5, k=2, deadline=10.0, patience=60.0)
    assert grid.clock.now == pytest.approx(70.0, abs=2.5)


def test_fewer_nodes_than_k() -> None:
    wrapped = run(FakeGrid([11, 12], behaving()), 3, "oort", k=20)
    assert wrapped.selector.counts.selected.tolist() == [3, 3]


def test_waiting_for_enough_nodes_is_bounded_and_happens_once() -> None:
    grid = FakeGrid([11, 12], behaving())
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=5)
    wrapped = run(grid, 3, "random", strategy=strategy, k=2, patience=100.0)
    assert wrapped.round == 3
    assert 100.0 <= grid.clock.now < 110.0


def test_nodes_that_connect_later_are_waited_for() -> None:
    grid = FakeGrid([], behaving())
    sleep = grid.clock.sleep

    def arriving(seconds: float) -> None:
        sleep(seconds)
        grid.nodes = [11, 12, 13] if grid.clock.now > 20 else [11] if grid.clock.now > 10 else []

    grid.clock.sleep = arriving  # type: ignore[method-assign]
    wrapped = run(grid, 1, "random", strategy=FedAvg(fraction_evaluate=0.0, min_available_nodes=3), k=3)
    assert wrapped.selector.counts.selected.tolist() == [1, 1, 1]


def test_messages_that_could_not_be_sent() -> None:
    grid = FakeGrid([11, 12, 13], behaving(), push=lambda message: node_of(message) != 12)
    wrapped = run(grid, 1, "cs-ucb", k=3)
    assert wrapped.selector.counts.observed.tolist() == [1, 0, 1]
    assert not wrapped.training.messenger.open
    with pytest.raises(NoNodesError, match="accepted none of 3 messages"):
        run(FakeGrid([11, 12, 13], behaving(), push=lambda message: False), 1, "cs-ucb", k=3)


def test_evaluation_leaves_busy_nodes_alone_and_survives_odd_replies() -> None:
    asked: list[int] = []

    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "train":
            return FakeReply(None if node_of(message) == 11 else 1.0, reply(message))
        asked.append(node_of(message))
        metrics = {"num-examples": 5, "eval_acc": 0.25} if node_of(message) != 14 else {"num-examples": 5}
        content = reply(message)
        content["metrics"] = MetricRecord(metrics)
        return FakeReply(1.0, content) if node_of(message) != 15 else FakeReply(1.0, error=(2, "boom"))

    grid = FakeGrid(range(11, 17), answer)
    strategy = FedAvg(fraction_evaluate=1.0, min_evaluate_nodes=6, min_available_nodes=6)
    wrapped = run(grid, 1, "random", strategy=strategy, k=6, deadline=10.0)
    assert sorted(asked) == [12, 13, 14, 15, 16]
    assert dict(wrapped.result.evaluate_metrics_clientapp[1]) == {"eval_acc": 0.25}
    assert grid.clock.now < 12.0


def test_an_evaluation_that_nobody_answers_ends_at_the_deadline() -> None:
    def answer(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message)) if message.metadata.message_type == "train" else FakeReply(None)

    grid = FakeGrid([11, 12], answer)
    wrapped = run(grid, 1, "random", strategy=FedAvg(min_available_nodes=1), k=2, deadline=20.0)
    assert wrapped.result.evaluate_metrics_clientapp == {}
    assert math.isclose(grid.clock.now, 21.0, abs_tol=0.5)


def test_both_evaluations_busy_means_nobody_evaluates() -> None:
    grid = FakeGrid([11, 12], behaving(lambda message: FakeReply(200.0, reply(message))))
    wrapped = run(grid, 1, "random", strategy=FedAvg(min_available_nodes=1), k=2, deadline=20.0)
    assert wrapped.result.evaluate_metrics_clientapp == {}


class Timed(logging.Handler):
    """Notes when something was logged, by the clock of the grid."""

    def __init__(self, grid: FakeGrid) -> None:
        super().__init__()
        self.grid = grid
        self.lines: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((self.grid.clock.now, record.getMessage()))


def test_keys_that_are_missing_are_named_with_the_first_reply(caplog: pytest.LogCaptureFixture) -> None:
    def stock(message: Message) -> FakeReply:
        content = reply(message)
        del content["enlist"]
        return FakeReply(2.0 if node_of(message) == 11 else 500.0, content)

    grid = FakeGrid([11, 12, 13], behaving(stock))
    timed = Timed(grid)
    logger = logging.getLogger("flwr.enlist")
    logger.addHandler(timed)
    try:
        with listening(caplog), pytest.raises(MissingColumnError, match="none of the 3 replies of round 1 carries it"):
            run(grid, 1, "oort", k=3, deadline=900.0)
    finally:
        logger.removeHandler(timed)
    assert grid.clock.now > 499.0
    when, line = next((when, line) for when, line in timed.lines if "the first reply" in line)
    assert when < 3.0
    assert (
        "from node 11, lacks what selector 'oort' needs: loss_rms; send 'loss-rms' in the ConfigRecord 'enlist'" in line
    )


def test_a_first_reply_that_says_less_than_others_is_no_reason_to_fail(caplog: pytest.LogCaptureFixture) -> None:
    def train(message: Message) -> FakeReply:
        node = node_of(message)
        return FakeReply(1.0, reply(message)) if node == 11 else FakeReply(5.0, reply(message, loss_rms=1.0))

    with listening(caplog) as lines:
        wrapped = run(FakeGrid([11, 12, 13], behaving(train)), 3, "oort", k=3)
    assert wrapped.round == 3
    assert len([line for line in lines() if "the first reply" in line]) == 1
