"""Rounds: deadlines, over-commitment, busy nodes, late replies, and who is who over time."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg

import enlist
from enlist.errors import InputError
from enlist.flower import MovingAverage, Percentile, Selecting, client
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.flower.federation import ORPHANS
from enlist.flower.terms import deadline_seconds
from tests.flower.flower_helpers import behaving, model, node_of, reply, run, selecting, values


def taking(seconds: Any, **claims: Any) -> Any:
    return behaving(lambda message: FakeReply(seconds(node_of(message)), reply(message, **claims)))


def asked(grid: FakeGrid, number: int | None = None) -> list[int]:
    return sorted(
        node_of(message)
        for message in grid.sent
        if message.metadata.message_type == "train"
        and (number is None or message.content["config"]["server-round"] == number)
    )


def rounds_asked(grid: FakeGrid) -> list[list[int]]:
    """Who was selected, push by push (the config of a message is shared by all, so it cannot tell)."""
    found: dict[str, list[int]] = {}
    for message in grid.sent:
        if message.metadata.message_type == "train":
            found.setdefault(f"{message.metadata.created_at:.9f}", []).append(node_of(message))
    return list(found.values())


def test_overcommitment_stops_at_k_and_the_rest_is_late() -> None:
    grid = FakeGrid(range(11, 31), taking(lambda node: node - 10.0))
    wrapped = run(grid, 1, "cs-ucb", k=10, over_commit=1.5, deadline=100.0)
    assert len(asked(grid)) == 15
    outcome = wrapped.selector.openings[1].outcome
    assert (outcome == enlist.Outcome.COMPLETED).sum() == 10
    assert (outcome == enlist.Outcome.LATE).sum() == 5
    assert grid.clock.now < 17.0
    assert len(wrapped.training.messenger.busy) == 5


def test_a_failure_is_no_reply_to_stop_at() -> None:
    def train(message: Message) -> FakeReply:
        return FakeReply(1.0, error=(2, "boom")) if node_of(message) < 14 else FakeReply(5.0, reply(message))

    grid = FakeGrid(range(11, 17), behaving(train))
    wrapped = run(grid, 1, "random", k=3, over_commit=2.0)
    assert wrapped.selector.counts.observed.sum() == 3
    assert grid.clock.now == pytest.approx(5.0, abs=0.2)


def test_who_is_busy_is_left_alone_until_it_replies() -> None:
    grid = FakeGrid(range(11, 15), taking(lambda node: 25.0 if node == 11 else 1.0))
    run(grid, 12, "random", k=4, deadline=5.0, most_often=None)
    times = [float(message.metadata.created_at) for message in grid.sent if node_of(message) == 11]
    assert len(times) < 6
    assert len([message for message in grid.sent if node_of(message) == 12]) == 12


def test_late_replies_teach() -> None:
    grid = FakeGrid(range(11, 14), taking(lambda node: 12.0 if node == 11 else 1.0))
    learned = run(grid, 4, "cs-ucb", k=3, deadline=10.0, late="learn", most_often=None)
    assert learned.selector.counts.observed[0] >= 1
    grid = FakeGrid(range(11, 14), taking(lambda node: 12.0 if node == 11 else 1.0))
    dropped = run(grid, 4, "cs-ucb", k=3, deadline=10.0, late="drop", most_often=None)
    assert dropped.selector.counts.observed[0] == 0
    assert dropped.selector.counts.selected[0] == learned.selector.counts.selected[0] > 1, "free again, either way"


def test_a_late_reply_that_comes_during_the_evaluation_teaches_too() -> None:
    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "evaluate":
            return FakeReply(5.0, behaving()(message).content)
        return FakeReply(12.0 if node_of(message) == 11 else 1.0, reply(message))

    grid = FakeGrid(range(11, 14), answer)
    strategy = FedAvg(min_available_nodes=1)
    wrapped = run(grid, 3, "cs-ucb", strategy=strategy, k=3, deadline=10.0, most_often=None)
    assert wrapped.selector.counts.selected.tolist() == [3, 3, 3], "it is free again when the next round begins"
    assert wrapped.selector.counts.observed.tolist() == [2, 3, 3], "that of the last round is never looked at"


def late_run(**terms: Any) -> Any:
    """Node 11 gives +11 a round late; others give +1; round 1 asks all, round 2 all but the busy one."""

    def train(message: Message) -> FakeReply:
        slow = node_of(message) == 11
        return FakeReply(12.0 if slow else 3.0, reply(message, 11.0 if slow else 1.0))

    grid = FakeGrid(range(11, 14), behaving(train))
    return run(grid, 2, "cs-ucb", k=3, deadline=10.0, most_often=None, **terms), grid


def test_late_replies_are_merged_on_the_present_model_with_less_weight(tmp_path: Path) -> None:
    wrapped, _ = late_run(late="merge", folder=tmp_path / "run")
    # round 1: 0 -> 1. Round 2: two fresh at 1+1 with weight 10, one late at 1+11 with weight 10/2.
    assert values(wrapped.result.arrays)[0][0] == pytest.approx((2 * 10 * 2.0 + 5 * 12.0) / 25)
    rows = (tmp_path / "run" / "participations.csv").read_text().splitlines()
    [arrived] = [row.split(",") for row in rows if ",arrived," in row]
    assert arrived[:4] == ["2", "1", "0", "arrived"]
    assert arrived[15:17] == ["1", "5.0"]


@pytest.mark.parametrize("late", ["drop", "learn"])
def test_late_replies_are_not_merged_otherwise(late: str) -> None:
    wrapped, _ = late_run(late=late)
    assert values(wrapped.result.arrays)[0][0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("staleness", "weight"), [("equal", 1.0), ("adasgd", np.exp(-2.0)), (lambda rounds: 0.25 / rounds, 0.25)]
)
def test_weights_of_staleness(staleness: Any, weight: float) -> None:
    wrapped, _ = late_run(late="merge", staleness=staleness)
    expected = (2 * 10 * 2.0 + 10 * weight * 12.0) / (20 + 10 * weight)
    assert values(wrapped.result.arrays)[0][0] == pytest.approx(expected)


def test_the_weight_of_refl_looks_at_the_difference() -> None:
    wrapped, _ = late_run(late="merge", staleness="refl")
    weight = 0.65 / 2 + 0.35 * (1 - np.exp(-1.0))
    expected = (2 * 10 * 2.0 + 10 * weight * 12.0) / (20 + 10 * weight)
    assert values(wrapped.result.arrays)[0][0] == pytest.approx(expected)


def test_a_weight_of_nothing_merges_nothing_and_nonsense_is_refused() -> None:
    wrapped, _ = late_run(late="merge", staleness=lambda rounds: 0.0 * rounds)
    assert values(wrapped.result.arrays)[0][0] == pytest.approx(2.0)
    with pytest.raises(InputError, match="a finite weight >= 0 for each of 1 replies"):
        late_run(late="merge", staleness=lambda rounds: [-1.0])


def test_merging_keeps_few_models() -> None:
    grid = FakeGrid(range(11, 31), taking(lambda node: 1000.0 if node < 20 else 1.0))
    wrapped = run(grid, 20, "random", k=5, deadline=10.0, late="merge")
    assert len(wrapped.late_replies.models) <= 5
    assert len(wrapped.training.messenger.open) <= 9
    assert set(wrapped.late_replies.asked) <= {sent.round for sent in wrapped.training.messenger.open.values()}


def test_merging_with_a_server_optimiser() -> None:
    def train(message: Message) -> FakeReply:
        return FakeReply(12.0 if node_of(message) == 11 else 3.0, reply(message, 1.0))

    grid = FakeGrid(range(11, 14), behaving(train))
    wrapped = run(grid, 3, "random", strategy=FedAdam(fraction_evaluate=0.0), k=3, deadline=10.0, late="merge")
    assert np.isfinite(values(wrapped.result.arrays)[0]).all()


def test_a_late_reply_that_is_an_error_or_spoilt_is_written_down(tmp_path: Path) -> None:
    def train(message: Message) -> FakeReply:
        if node_of(message) == 11:
            return FakeReply(12.0, error=(5, "Node Unavailable"))
        if node_of(message) == 12:
            return FakeReply(12.0, reply(message, float("nan")))
        return FakeReply(3.0, reply(message, 1.0))

    grid = FakeGrid(range(11, 15), behaving(train))
    wrapped = run(grid, 2, "random", k=4, deadline=10.0, late="merge", folder=tmp_path / "run")
    rows = (tmp_path / "run" / "participations.csv").read_text()
    assert "2,1,0,dropped," in rows
    assert "2,1,1,failed," in rows
    assert np.isfinite(values(wrapped.result.arrays)[0]).all()


def test_the_deadline_never_exceeds_the_timeout() -> None:
    grid = FakeGrid(
        [11, 12], behaving(lambda message: FakeReply(None if node_of(message) == 12 else 1.0, reply(message)))
    )
    wrapped = selecting(grid, "random", k=2, deadline=500.0)
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=1, timeout=40.0)
    assert grid.clock.now == pytest.approx(40.0, abs=0.1)


def test_a_policy_learns_the_deadline() -> None:
    grid = FakeGrid(range(11, 31), taking(lambda node: node / 2.0))
    wrapped = run(grid, 15, "random", k=10, deadline=Percentile(percentile=90.0, factor=1.2, start=300.0))
    last = wrapped.selector.round
    assert last == 15
    assert len(wrapped.federation.recent) == 15
    now = deadline_seconds(wrapped.terms.deadline, 16, wrapped.federation.recent, 3600.0)
    assert 12.0 < now < 20.0


def test_a_deadline_that_is_too_short_grows() -> None:
    policy = Percentile(percentile=80.0, factor=1.5, start=2.0)
    grid = FakeGrid(range(11, 21), taking(lambda node: 8.0))
    wrapped = run(grid, 10, "random", k=5, deadline=policy, patience=100.0)
    assert wrapped.selector.counts.observed.sum() > 0
    assert policy(11, wrapped.federation.recent) > 2.0


def test_the_moving_average() -> None:
    policy = MovingAverage(factor=2.0, percentile=50.0, alpha=0.5, start=100.0)
    rounds = [np.array([10.0, 20.0, 30.0]), np.zeros(0), np.array([20.0])]
    assert policy(4, rounds) == 2.0 * (0.5 * (0.5 * 50 + 0.5 * 20) + 0.5 * 20)
    with pytest.raises(InputError, match="alpha"):
        MovingAverage(alpha=2.0)
    with pytest.raises(InputError, match="percentile"):
        Percentile(percentile=-1.0)


def test_a_function_as_deadline() -> None:
    grid = FakeGrid(range(11, 15), behaving(lambda message: FakeReply(None)))
    run(grid, 2, "random", k=2, deadline=lambda number, recent: 5.0 * number)
    assert grid.clock.now == pytest.approx(15.0, abs=0.2)
    for wrong in (0.0, float("nan"), "soon", None, True):
        with pytest.raises(InputError, match="the deadline policy gave"):
            run(FakeGrid([11], behaving()), 1, "random", k=1, deadline=lambda number, recent, wrong=wrong: wrong)


def changing(grid: FakeGrid, rounds: int, nodes: dict[int, list[int]], selector: str, **terms: Any) -> Selecting:
    """Run a federation in which other nodes are connected from the named rounds on."""
    wrapped = selecting(grid, selector, **terms)

    def evaluate(number: int, arrays: Any) -> None:
        grid.nodes = nodes.get(number + 1, grid.nodes)

    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=rounds, evaluate_fn=evaluate)
    return wrapped


def test_joining_leaving_and_coming_back() -> None:
    grid = FakeGrid([11, 12, 13], behaving())
    nodes = {3: [11, 12], 5: [11, 12, 14, 15], 8: [11, 12, 13, 14, 15]}
    wrapped = changing(grid, 14, nodes, "oort", k=2)
    assert len(wrapped.nodes) == 5
    assert wrapped.nodes.number(13) == 2
    assert wrapped.selector.counts.selected.min() >= 1


def test_a_client_that_comes_back_under_another_node_keeps_what_was_learned() -> None:
    def train(message: Message) -> FakeReply:
        return FakeReply(
            1.0, reply(message, client_id=f"clinic-{node_of(message) % 10}", loss_rms=float(node_of(message)))
        )

    grid = FakeGrid([11, 12, 13], train)
    wrapped = changing(grid, 6, {4: [12, 13, 21]}, "oort", k=3, identify="never")
    assert wrapped.nodes.names == ["clinic-1", "clinic-2", "clinic-3", "node-21"]
    assert wrapped.nodes.number(21) == 0
    assert wrapped.nodes.orphans() == [3]
    assert wrapped.selector.counts.selected.tolist()[0] > 3


def test_a_stranger_is_asked_who_it_is_if_somebody_is_missing() -> None:
    questions = []

    def answer(message: Message) -> FakeReply:
        name = f"clinic-{node_of(message) % 10}"
        if message.metadata.message_type == "query.enlist":
            questions.append(node_of(message))
            return FakeReply(2.0, client.introduction(message, client_id=name).content)
        return FakeReply(1.0, reply(message, client_id=name, loss_rms=1.0))

    grid = FakeGrid([11, 12, 13], answer)
    wrapped = changing(grid, 5, {4: [12, 13, 21]}, "oort", k=3)
    assert questions == [21], "nobody is missing in the first round"
    assert wrapped.nodes.number(21) == 0
    assert len(wrapped.nodes) == 3, "nothing had to be learned anew"


def test_who_cannot_answer_is_not_asked_again() -> None:
    questions = []

    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "query.enlist":
            questions.append(node_of(message))
            return FakeReply(1.0, error=(2, "No query function registered with name 'enlist'"))
        return FakeReply(1.0, reply(message, client_id=f"clinic-{node_of(message) % 10}"))

    grid = FakeGrid([11, 12, 13], answer)
    changing(grid, 8, {3: [12, 13, 21], 5: [12, 13, 31], 7: [12, 13, 41]}, "random", k=3)
    assert questions == [21]
    always = run(FakeGrid([11, 12], answer), 3, "random", k=2, identify="always")
    assert questions == [21, 11, 12]
    assert always.round == 3


def test_an_introduction_that_never_comes_is_not_waited_for_longer_than_agreed() -> None:
    def answer(message: Message) -> FakeReply:
        silent = message.metadata.message_type == "query.enlist" and node_of(message) == 12
        return FakeReply(None) if silent else behaving()(message)

    grid = FakeGrid([11, 12, 13], answer)
    wrapped = run(grid, 2, "random", k=3, identify="always")
    assert grid.clock.now == pytest.approx(122.0, abs=2.0)
    assert wrapped.selector.counts.selected.tolist() == [2, 2, 0] or wrapped.selector.counts.selected.sum() == 4
    assert wrapped.nodes.number(12) is not None


def test_a_lost_node_is_asked_again_who_it_is() -> None:
    times = []

    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "query.enlist" and node_of(message) == 12:
            times.append(node_of(message))
            if len(times) == 1:
                return FakeReply(1.0, error=(5, "Node Unavailable"))
        return behaving(num_examples=5)(message)

    grid = FakeGrid([11, 12], answer)
    wrapped = run(grid, 3, "size-proportional", k=1)
    assert len(times) == 2
    assert wrapped.nodes.names == ["phone-11", "phone-12"]


def test_two_nodes_with_one_name_are_both_used_and_it_is_written_down(tmp_path: Path) -> None:
    grid = FakeGrid([11, 12, 13], behaving(lambda message: FakeReply(1.0, reply(message, client_id="same"))))
    wrapped = run(grid, 4, "random", k=3, folder=tmp_path / "run")
    assert wrapped.nodes.names == ["same", "node-12", "node-13"]
    assert wrapped.selector.counts.selected.tolist() == [4, 4, 4]
    events = (tmp_path / "run" / "events.csv").read_text().splitlines()[1:]
    assert len(events) == 2, "each once, not every round"
    assert "conflict" in events[0]


def test_two_nodes_with_one_name_in_their_introductions() -> None:
    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "query.enlist":
            return FakeReply(0.2, client.introduction(message, client_id="same").content)
        return FakeReply(1.0, reply(message))

    wrapped = run(FakeGrid([11, 12], answer), 1, "random", k=2, identify="always")
    assert sorted(wrapped.nodes.names) == ["node-12", "same"]


def test_a_name_that_is_told_between_two_rounds_is_not_taken_from_a_node_that_is_online(tmp_path: Path) -> None:
    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "query.enlist":
            impostor = node_of(message) == 12  # and slower than the server waits for introductions
            return FakeReply(125.0 if impostor else 0.2, client.introduction(message, client_id="clinic").content)
        return FakeReply(1.0, reply(message))

    grid = FakeGrid([11, 12], answer)
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=1, min_train_nodes=1)
    wrapped = selecting(grid, "random", strategy=strategy, k=2, identify="always", folder=tmp_path / "run")
    wrapped.start(
        grid=grid, initial_arrays=model(), num_rounds=3, evaluate_fn=lambda number, arrays: grid.clock.sleep(60.0)
    )
    assert wrapped.nodes.names == ["clinic", "node-12"]
    assert (wrapped.nodes.number(11), wrapped.nodes.number(12)) == (0, 1)
    assert wrapped.selector.counts.selected.tolist() == [3, 2]
    assert "node 12 says that it is clinic, which is node 11" in (tmp_path / "run" / "events.csv").read_text()


def test_features_that_differ_are_refused() -> None:
    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "query.enlist":
            odd = node_of(message) == 13
            features = {"other": 1.0} if odd else {"cores": float(node_of(message))}
            return FakeReply(0.2, client.introduction(message, client_id=node_of(message), features=features).content)
        return FakeReply(1.0, reply(message, loss_rms=1.0, accuracy_gain=0.1))

    wrapped = run(FakeGrid([11, 12, 13], answer), 3, "fedsuv", k=2)
    assert wrapped.nodes.names == ["11", "12"]


def test_the_features_of_most_count_whatever_one_calls_itself(tmp_path: Path) -> None:
    def answer(message: Message) -> FakeReply:
        node = node_of(message)
        if message.metadata.message_type == "query.enlist":
            features = {"speed": 1.0} if node == 20 else {"cores": float(node), "bandwidth": 5.0}
            name = "0-odd" if node == 20 else f"phone-{node}"
            return FakeReply(0.2, client.introduction(message, client_id=name, features=features).content)
        return FakeReply(1.0, reply(message, loss_rms=1.0, accuracy_gain=0.1))

    wrapped = run(FakeGrid(range(11, 21), answer), 2, "fedsuv", k=3, folder=tmp_path / "run")
    assert wrapped.nodes.names == [f"phone-{node}" for node in range(11, 20)]
    assert wrapped.selector.clients.feature_names == ("cores", "bandwidth")
    events = (tmp_path / "run" / "events.csv").read_text().splitlines()[1:]
    assert [event.split(",")[2:4] for event in events] == [["refused", "20"]]


def test_clients_that_nobody_can_be_again_are_forgotten() -> None:
    def train(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message, client_id=f"clinic-{node_of(message) % 10}"))

    grid = FakeGrid([11, 12, 13], train)
    generations = {number: [10 * number + place for place in (1, 2, 3)] for number in range(2, ORPHANS)}
    wrapped = changing(grid, ORPHANS - 1, generations, "random", k=3, identify="never")
    assert len(wrapped.nodes) == 3 * (ORPHANS - 1)
    assert len(wrapped.selector.clients) < ORPHANS + 5
    assert wrapped.nodes.names[:3] == ["clinic-1", "clinic-2", "clinic-3"]
    assert {wrapped.nodes.number(node) for node in grid.nodes} == {0, 1, 2}
    assert wrapped.selector.counts.selected[0] == 1, "what was learned stays with them"


def test_one_line_per_round_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="flwr.enlist"):
        logging.getLogger("flwr.enlist").setLevel(logging.INFO)
        run(FakeGrid(range(11, 15), taking(lambda node: 40.0 if node == 11 else 1.0)), 2, "random", k=4)
    lines = [record for record in caplog.records if record.getMessage().startswith("enlist round=")]
    assert (
        lines[0]
        .getMessage()
        .startswith("enlist round=1 selected=4 completed=3 late=1 dropped=0 failed=0 arrived=0 open=1 waited=")
    )
    assert lines[1].enlist["round"] == 2  # type: ignore[attr-defined]
    logging.getLogger("flwr.enlist").setLevel(logging.NOTSET)


def test_evaluations_of_both_kinds_are_kept() -> None:
    grid = FakeGrid([11, 12], behaving())
    wrapped = selecting(grid, "random", strategy=FedAvg(min_available_nodes=1), k=2)
    seen = []

    def evaluate(number: int, arrays: Any) -> Any:
        seen.append(number)
        return None

    result = wrapped.start(grid=grid, initial_arrays=model(), num_rounds=2, evaluate_fn=evaluate)
    assert seen == [0, 1, 2]
    assert {number: dict(value) for number, value in result.evaluate_metrics_clientapp.items()} == {
        1: {"accuracy": 0.5, "loss": 1.5},
        2: {"accuracy": 0.5, "loss": 1.5},
    }
    assert result.evaluate_metrics_serverapp == {}


def test_an_evaluation_that_comes_a_round_too_late_does_not_count() -> None:
    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "train":
            return FakeReply(1.0, reply(message))
        late = node_of(message) == 11
        metrics = MetricRecord({"num-examples": 5, "accuracy": 0.0 if late else 1.0})
        return FakeReply(15.0 if late else 1.0, RecordDict({"metrics": metrics}))

    grid = FakeGrid(range(11, 15), answer)
    wrapped = run(grid, 4, "random", strategy=FedAvg(min_available_nodes=1), k=4, deadline=10.0, most_often=None)
    found = [value["accuracy"] for value in wrapped.result.evaluate_metrics_clientapp.values()]
    assert found == [1.0] * 4


def test_contents_of_introductions_are_small() -> None:
    seen: list[RecordDict] = []

    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "query.enlist":
            seen.append(message.content)
        return behaving()(message)

    run(FakeGrid([11], answer), 1, "random", k=1, identify="always")
    assert list(seen[0]) == ["enlist", "config"]
    assert dict(seen[0]["config"]) == {}, "for mods of the app, which look for it in every message"
