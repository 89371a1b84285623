"""Everything at once in buffered mode: late, stale, lost and failing nodes, nodes that join and leave, two kills."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from flwr.app import Message
from flwr.serverapp.strategy import FedAvg

from enlist.flower import Selecting, replay
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.flower.rounds.buffered import BufferedTraining
from tests.flower.flower_helpers import behaving, model, node_of, reply, selecting, values

STEPS, CONCURRENCY, BUFFER, MAX_STALENESS, DEADLINE = 40, 9, 3, 3, 6.0
LATE, SILENT, LOST, FAILING, SPOILT, SLOW = (11, 17, 27), 12, 13, 14, 15, 16
CHANGES = {node: 0.01 * node for node in range(11, 60)}
"""What each node adds to the model that it was sent."""


class Kill(BaseException):
    """The process ends here."""


def train(message: Message) -> FakeReply:
    node, step = node_of(message), int(message.content["config"]["server-round"])  # type: ignore[arg-type]
    content = reply(message, CHANGES[node], client_id=f"clinic-{node}", loss_rms=1.0 + node % 5)
    if node in LATE:
        return FakeReply(DEADLINE + 3.0, content)
    if node == SILENT:
        return FakeReply(None)
    if node == LOST and step % 2:
        return FakeReply(3.0, error=(5, "Node Unavailable"))
    if node == FAILING:
        return FakeReply(1.0, error=(2, "boom"))
    if node == SPOILT:
        return FakeReply(2.0, reply(message, np.nan, client_id=f"clinic-{node}", loss_rms=1.0))
    if node == SLOW:
        return FakeReply(DEADLINE - 0.5, content)
    return FakeReply(2.0 + (node * 7 + step * 3) % 11 / 4, content)


def online(step: int) -> list[int]:
    """Who is connected after this step: two nodes join with every third, and one leaves with every sixth."""
    joined = range(11, 27 + 2 * (step // 3))
    left = range(20, 20 + step // 6)
    return [node for node in joined if node not in left]


class Death(NamedTuple):
    """The server dies in the n-th call of a method of the grid after this step."""

    step: int
    method: str
    call: int


def federation(folder: Path, after: int, clock: float, death: Death | None = None) -> Selecting:
    """Run what is left after this many steps, or until the server dies."""
    grid, done = FakeGrid(online(after), behaving(train)), [after]
    grid.clock.sleep(clock)
    if death is not None:
        calls, original = itertools.count(1), getattr(grid, death.method)

        def dying(*arguments: Any, **named: Any) -> Any:
            if done[-1] == death.step and next(calls) == death.call:
                raise Kill
            return original(*arguments, **named)

        setattr(grid, death.method, dying)

    def go_on(result: Any) -> None:
        done.append(result.number)
        grid.nodes = online(result.number)

    wrapped = selecting(
        grid,
        "oort",
        FedAvg(fraction_evaluate=0.3, min_available_nodes=1),
        mode="buffered",
        concurrency=CONCURRENCY,
        buffer=BUFFER,
        max_staleness=MAX_STALENESS,
        deadline=DEADLINE,
        folder=folder,
        seed=5,
        on_round=go_on,
    )
    wrapped.result = wrapped.start(grid=grid, initial_arrays=model(), num_rounds=STEPS)  # type: ignore[attr-defined]
    return wrapped


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with open(folder / table) as file:
        return list(csv.DictReader(file))


def steps_done(folder: Path) -> int:
    """The step of the last checkpoint: that is where a server goes on."""
    [checkpoint] = (folder / "checkpoints").iterdir()
    return int(checkpoint.name)


def killed_twice(folder: Path, deaths: Sequence[Death]) -> Selecting:
    """Two servers die, and a third finishes."""
    after, clock = 0, 0.0
    for death in deaths:
        with pytest.raises(Kill):
            federation(folder, after, clock, death)
        after = steps_done(folder)
        assert after == death.step
        clock += 1_000.0
    return federation(folder, after, clock)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Selecting, Path]:
    folder = tmp_path_factory.mktemp("buffered") / "run"
    return killed_twice(folder, [Death(13, "pull_messages", 4), Death(27, "push_messages", 1)]), folder


Ended = tuple[Selecting, Path]


def training(wrapped: Selecting) -> BufferedTraining:
    assert isinstance(wrapped.training, BufferedTraining)
    return wrapped.training


def test_everything_has_happened(ended: Ended) -> None:
    """Else the other tests would show little."""
    _, folder = ended
    found = rows(folder, "participations.csv")
    assert {row["outcome"] for row in found} == {"completed", "late", "dropped", "failed", "arrived"}
    assert any(row["reason"].startswith("stale: ") for row in found)
    assert any(row["reason"].startswith("refused: ") for row in found)
    assert {row["rounds_late"] for row in found if row["outcome"] == "completed"} > {"0", "1", "2"}
    took_part = {int(row["node"]) for row in rows(folder, "clients.csv")}
    assert max(took_part) > 40
    assert len(rows(folder, "rounds.csv")) == STEPS


def test_concurrency_buffer_and_staleness_hold(ended: Ended) -> None:
    wrapped, folder = ended
    assert {row["completed"] for row in rows(folder, "rounds.csv")} == {str(BUFFER)}
    for row in rows(folder, "participations.csv"):
        stale = int(row["round"]) - int(row["selected_in"])
        if row["outcome"] == "completed":
            assert 0 <= stale <= MAX_STALENESS
            assert float(row["weight"]) == pytest.approx(10.0 * (1.0 + stale) ** -0.5)
        elif row["weight"]:
            assert float(row["weight"]) == 0.0
    assert len(training(wrapped).at_work) <= CONCURRENCY


def test_the_model_is_the_sum_of_what_was_merged_each_once(ended: Ended) -> None:
    """Computed again from the tables alone: x + mean over the buffer of s(staleness) times the node's change."""
    wrapped, folder = ended
    nodes = {row["client"]: int(row["node"]) for row in rows(folder, "clients.csv")}
    value = 0.0
    for row in rows(folder, "participations.csv"):
        if row["outcome"] == "completed":
            stale = int(row["round"]) - int(row["selected_in"])
            value += (1.0 + stale) ** -0.5 * CHANGES[nodes[row["client"]]] / BUFFER
    assert values(wrapped.result.arrays)[0] == pytest.approx([value] * 3)  # type: ignore[attr-defined]


def test_everybody_who_was_asked_has_one_end_or_is_at_work(ended: Ended) -> None:
    wrapped, folder = ended
    counts, own = wrapped.selector.counts, training(wrapped)
    pending = sum(len(opening.pending) for opening in wrapped.selector.openings.values())
    assert pending == len(own.at_work) + len(own.buffer)
    final = [row for row in rows(folder, "participations.csv") if row["outcome"] != "arrived"]
    assert int(counts.selected.sum()) == sum(int(row["selected"]) for row in rows(folder, "rounds.csv"))
    lost_with_a_server = int(counts.selected.sum()) - pending - len(final)
    assert 0 < lost_with_a_server <= 2 * (CONCURRENCY + BUFFER)
    assert len(replay(folder)) == wrapped.selector.round


def test_wherever_the_servers_die_it_ends_the_same(ended: Ended, tmp_path: Path) -> None:
    """In another call, but after the same steps: the same rows, model and selector, bit for bit."""
    wrapped, folder = ended
    other = killed_twice(tmp_path / "run", [Death(13, "pull_messages", 1), Death(27, "get_node_ids", 2)])
    for table in ("rounds.csv", "participations.csv", "reasons.csv", "clients.csv", "events.csv"):
        assert (tmp_path / "run" / table).read_bytes() == (folder / table).read_bytes(), table
    assert values(other.result.arrays) == values(wrapped.result.arrays)  # type: ignore[attr-defined]
    for (path, ours), (_, theirs) in zip(other.selector.state.leaves(), wrapped.selector.state.leaves(), strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=path)
