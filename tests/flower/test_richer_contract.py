"""What the contract has grown: weights, work and probabilities of a selection; updates, labels and energy."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message
from flwr.serverapp.strategy import FedAvg, FedMedian

from enlist import selectors
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import InputError, MissingColumnError
from enlist.flower import client
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.flower.federation import FlowerFederation
from enlist.flower.selector import SelectorSource
from tests.flower.flower_helpers import behaving, node_of, reply, run, values

NODES = range(11, 15)


class Weighing(Selector):
    """Chooses the first k, weighs them 0.1, 0.2, ..., and asks each for less work than the one before."""

    name = "weighing"

    def choose(self, request: Request) -> Choice:
        picked = request.pick(np.arange(min(request.k, len(request.available))))
        place = np.arange(1.0, len(picked.clients) + 1)
        return Choice(picked.clients, weights=0.1 * place, probabilities=0.2 * place, work=1.0 / place)


class Measuring(Selector):
    """Needs lengths and sketches of updates."""

    name = "measuring"
    needs = frozenset({"update", "update_norm"})

    def choose(self, request: Request) -> Choice:
        return request.pick(np.arange(min(request.k, len(request.available))))

    def learn(self, told: Observation) -> None:
        self.seen = told.column("update_norm"), told.feedback.update


class Labelled(Selector):
    """Needs label counts."""

    name = "labelled"
    needs = frozenset({"clients.label_counts"})

    def choose(self, request: Request) -> Choice:
        assert self.clients.label_counts is not None
        return request.pick(np.arange(min(request.k, len(request.available))))


def train(message: Message) -> FakeReply:
    return FakeReply(1.0, reply(message, float(node_of(message))))


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with open(folder / table) as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("mode", [{}, {"mode": "buffered", "concurrency": 3, "buffer": 3}])
def test_the_model_moves_by_the_weighted_sum_of_updates(mode: dict[str, Any], tmp_path: Path) -> None:
    grid = FakeGrid(NODES, behaving(train))
    wrapped = run(grid, 1, Weighing, k=3, folder=tmp_path / "run", **mode)
    expected = 0.1 * 11 + 0.2 * 12 + 0.3 * 13
    assert values(wrapped.result.arrays)[0] == pytest.approx([expected] * 3)  # type: ignore[attr-defined]
    found = rows(tmp_path / "run", "participations.csv")
    assert [float(row["weight"]) for row in found] == pytest.approx([0.1, 0.2, 0.3])
    reasons = rows(tmp_path / "run", "reasons.csv")
    assert [float(row["probability"]) for row in reasons] == pytest.approx([0.2, 0.4, 0.6])


def test_who_did_not_reply_does_not_count() -> None:
    def lossy(message: Message) -> FakeReply:
        return FakeReply(1.0, error=(2, "boom")) if node_of(message) == 12 else train(message)

    wrapped = run(FakeGrid(NODES, behaving(lossy)), 1, Weighing, k=3)
    assert values(wrapped.result.arrays)[0][0] == pytest.approx(0.1 * 11 + 0.3 * 13)  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", [{}, {"mode": "buffered", "concurrency": 3, "buffer": 3}])
def test_work_reaches_the_client(mode: dict[str, Any]) -> None:
    grid = FakeGrid(NODES, behaving(train))
    run(grid, 1, Weighing, k=3, **mode)
    shares = {node_of(message): client.work(message) for message in grid.sent[:3]}
    assert shares == pytest.approx({11: 1.0, 12: 0.5, 13: 1 / 3})
    plain = FakeGrid(NODES, behaving(train))
    run(plain, 1, "random", k=3)
    assert {client.work(message) for message in plain.sent} == {1.0}
    assert all("enlist" not in message.content for message in plain.sent)


def test_where_weights_cannot_be_used() -> None:
    with pytest.raises(InputError, match="FedMedian does not average by weight"):
        run(FakeGrid(NODES, behaving(train)), 1, Weighing, k=3, strategy=FedMedian(fraction_evaluate=0.0))
    with pytest.raises(InputError, match="late reply has no weight"):
        run(FakeGrid(NODES, behaving(train)), 1, Weighing, k=3, late="merge")


@pytest.mark.parametrize("mode", [{}, {"mode": "buffered", "concurrency": 4, "buffer": 4}])
def test_updates_are_measured_if_the_selector_needs_them(mode: dict[str, Any]) -> None:
    wrapped = run(FakeGrid(NODES, behaving(train)), 2, Measuring, k=4, **mode)
    norms, sketches = wrapped.selector.seen
    np.testing.assert_allclose(norms, [node * np.sqrt(7.0) for node in NODES])  # seven parameters, each moved by it
    assert sketches.shape == (4, 64)
    np.testing.assert_allclose(sketches / np.array(NODES)[:, None], np.tile(sketches[0] / 11.0, (4, 1)), atol=1e-9)


def test_the_size_of_a_sketch_is_a_setting(tmp_path: Path) -> None:
    for rounds in (1, 2):  # the second start continues the first
        wrapped = run(FakeGrid(NODES, behaving(train)), rounds, "divfl", k=2, sketch=100, folder=tmp_path / "run")
    assert wrapped.selector.state.values.shape == (4, 100)
    assert (wrapped.selector.state.values != 0).any()
    assert '"sketch": 100' in (tmp_path / "run" / "config.json").read_text()
    with pytest.raises(InputError, match="sketch is 0"):
        run(FakeGrid(NODES, behaving(train)), 1, "divfl", k=2, sketch=0)


def uneven(message: Message) -> FakeReply:
    """Of 12 nodes two are slower than a round, one fails, and one is lost."""
    node = node_of(message)
    if node in (13, 14):
        return FakeReply(1.0, error=(2, "boom") if node == 13 else (5, "Node Unavailable"))
    return FakeReply(14.0 if node in (15, 16) else 1.0, reply(message, float(node)))


MODES: list[dict[str, Any]] = [
    {"late": "drop"},
    {"late": "learn"},
    {"late": "merge"},
    {"shadow": True},
    {"mode": "buffered", "concurrency": 6, "buffer": 4},
]


@pytest.mark.parametrize(
    ("selector", "terms"),
    [*((Measuring, terms) for terms in MODES), *(("divfl", terms) for terms in MODES if terms.get("late") != "merge")],
)
def test_updates_are_measured_with_late_failing_and_lost_nodes(
    selector: Any, terms: dict[str, Any], tmp_path: Path
) -> None:
    """A late reply has an update, too; without one, the first of them ended the federation."""
    clock = None
    for rounds in (4, 9):  # the second start continues the first
        grid = FakeGrid(range(11, 23), behaving(uneven), clock)
        wrapped = run(grid, rounds, selector, k=6, deadline=10.0, folder=tmp_path / "run", most_often=None, **terms)
        clock = grid.clock
    assert wrapped.round == 9
    found = [row["outcome"] for row in rows(tmp_path / "run", "participations.csv")]
    assert {"completed", "failed", "dropped"} <= set(found)
    assert ("arrived" in found) == (terms.get("late") in ("learn", "merge"))


def test_the_update_of_a_late_reply_is_measured_against_the_model_that_it_was_sent() -> None:
    told: list[tuple[int, float]] = []

    class Listening(Measuring):
        name = "listening"

        def amend(self, told_late: Observation) -> None:
            told.extend(zip(told_late.clients.tolist(), told_late.column("update_norm").tolist(), strict=True))
            assert told_late.feedback.update is not None
            assert np.isfinite(told_late.feedback.update).all()

    run(FakeGrid(range(11, 17), behaving(uneven)), 5, Listening, k=6, deadline=10.0)
    assert sorted(set(told)) == [(client, pytest.approx((client + 11) * np.sqrt(7.0))) for client in (4, 5)]


def test_a_part_of_the_model_is_no_update_to_measure() -> None:
    def part(message: Message) -> FakeReply:
        content = reply(message, 1.0)
        content["arrays"] = ArrayRecord({"0": content["arrays"]["0"]})
        return FakeReply(1.0, content)

    with pytest.raises(MissingColumnError, match="none of the 4 replies of round 1 holds the arrays that were sent"):
        run(FakeGrid(NODES, behaving(part)), 1, "divfl", k=4)


def test_label_counts_and_energy_come_with_introductions() -> None:
    told = {"label_counts": [3, 0, 7], "energy_per_sample": 0.5, "energy_per_byte": 1e-6, "battery": 0.8}
    wrapped = run(FakeGrid(NODES, behaving(train, **told)), 1, Labelled, k=3)
    np.testing.assert_array_equal(wrapped.selector.clients.label_counts, [[3, 0, 7]] * 4)


def test_a_node_that_counts_other_labels_is_refused(tmp_path: Path) -> None:
    def answer(message: Message) -> FakeReply:
        if message.metadata.message_type == "query.enlist":
            counts = [1, 2] if node_of(message) == 14 else [1, 2, 3]
            return FakeReply(0.2, client.introduction(message, label_counts=counts).content)
        return train(message)

    wrapped = run(FakeGrid(NODES, answer), 1, Labelled, k=4, folder=tmp_path / "run", min_nodes=1)
    assert len(wrapped.selector.clients) == 3
    assert "it counts 2 labels, not 3" in (tmp_path / "run" / "events.csv").read_text()


def drained(message: Message) -> FakeReply:
    """Spends 100 joules times its node's number; only the odd ones say what is left to them."""
    node = node_of(message)
    left = {"battery_left": 900.0 if node == 11 else 100.0} if node % 2 else {}
    claims = {"client_id": f"phone-{node}", "loss_rms": 1.0, "energy": 100.0 * (node - 10), **left}
    return FakeReply(1.0, reply(message, float(node), **claims))


@pytest.mark.parametrize("mode", [{}, {"mode": "buffered", "concurrency": 4, "buffer": 4}])
def test_energy_and_what_is_left_come_with_replies(mode: dict[str, Any], tmp_path: Path) -> None:
    """EAFL on Flower; a run that is continued knows the batteries of before."""
    asked: list[dict[str, Any]] = []

    class Asked(selectors.get("eafl")):  # type: ignore[misc]
        name = "asked"

        def validate(self, request: Request) -> None:
            asked.append({name: column.copy() for name, column in request.context.items()})

    for rounds in (2, 3):
        grid = FakeGrid(NODES, behaving(drained, battery=1000.0))
        wrapped = run(grid, rounds, Asked, k=4, folder=tmp_path / "run", most_often=None, **mode)
    np.testing.assert_array_equal(asked[0]["battery"], [np.nan] * 4)
    np.testing.assert_array_equal(asked[-1]["battery"], [900.0, np.nan, 100.0, np.nan])
    np.testing.assert_array_equal(wrapped.selector.state.spent, [100.0, 200.0, 300.0, 400.0])
    np.testing.assert_array_equal(wrapped.selector.state.battery, [700.0, 400.0, 100.0, 0.0])


def test_without_energy_the_way_to_send_it_is_named() -> None:
    def silent(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message, 1.0, loss_rms=1.0))

    with pytest.raises(MissingColumnError, match=r"needs energy, .*reply\(\.\.\., energy=\.\.\.\)"):
        run(FakeGrid(NODES, behaving(silent, battery=1000.0)), 1, "eafl", k=4)


def test_what_flower_cannot_tell_with_every_ask_is_refused_at_once() -> None:
    class Charging(Labelled):
        name = "charging"
        needs = frozenset({"context.charging"})

    with pytest.raises(MissingColumnError, match=r"needs context\.charging with every ask"):
        run(FakeGrid(NODES, behaving(train)), 1, Charging, k=3)


def test_a_checkpoint_of_before_energy_was_told_is_read() -> None:
    federation = FlowerFederation(SelectorSource.of("random", None, None, seed=1))
    federation.enrol([11, 12], {})
    header, arrays = federation.state()
    for name in ("claims/energy", "claims/battery_left"):
        del arrays[name]
    federation.restore(header, arrays, None)
    np.testing.assert_array_equal(federation.claims.energy, [np.nan, np.nan])


def test_plain_strategies_are_left_as_they_are() -> None:
    """Without weights, work or measures nothing is rebased: what the strategy averages is what came."""
    one = run(FakeGrid(NODES, behaving(train)), 3, "random", k=3, strategy=FedAvg(fraction_evaluate=0.0))
    assert one.training.base is None
