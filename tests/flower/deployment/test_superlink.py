"""A real SuperLink, TLS, node authentication: a node is killed and returns, a ServerApp is killed and resumed."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.errors import InputError
from enlist.flower import replay
from enlist.selectors import get
from tests.flower.deployment.harness import EXAMPLE, TINY, Federation

FIRST = 16.0
"""The model of the tiny app before round 1."""
ROUNDS = 7
LOST = 90.0
"""Seconds in which Flower notices that a node is gone: two heartbeats of 30 s, and a margin for a busy machine."""


@pytest.mark.verify
def test_nodes_and_servers_may_be_killed(federation: Federation, tmp_path: Path) -> None:
    story = a_node_is_killed_and_returns(federation, tmp_path)
    check_that_the_run_completed(story)
    check_that_the_loss_is_recorded(story)
    check_that_the_node_was_chosen_again(story)
    check_that_replay_makes_the_same_decisions(story)
    check_that_another_decision_would_be_noticed(story, tmp_path)
    check_that_a_second_writer_was_refused(story)
    check_that_the_example_ran(story)
    check_that_there_was_a_report(story)
    a_server_is_killed_and_resumed(federation, tmp_path / "resumed")


@dataclasses.dataclass(frozen=True)
class Story:
    """What happened: `victim` was killed in mid-round, and returned after its loss had been noticed."""

    folder: Path
    victim: int
    ids: tuple[int, int]
    status: str
    rival: tuple[str, str]
    example: tuple[str, Path]
    page: Result


def a_node_is_killed_and_returns(federation: Federation, place: Path) -> Story:
    """BSFL chooses two of three nodes; while one trains, it is killed. The wait for its loss is used for more."""
    folder = place / "state"
    run = federation.run(TINY, num_server_rounds=ROUNDS, deadline=LOST, folder=str(folder))
    victim = somebody_trains(federation, folder, after=1)
    before = federation.wait_for_node(victim)
    federation.kill(f"node{victim}")

    rival = federation.run(TINY, num_server_rounds=ROUNDS, deadline=LOST, folder=str(folder))
    example = federation.run(EXAMPLE, num_server_rounds=1, k=1, folder=str(place / "example"))
    page = CliRunner().invoke(app, ["report", str(folder), "--output", str(place / "report.html")])
    refused = rival.finish(limit=60.0), federation.text(rival.name)
    federation.until(
        f"the loss of node {victim} to be recorded",
        lambda: any(row["outcome"] == "dropped" for row in rows(folder, "participations.csv")),
        limit=LOST,
    )
    federation.start_node(victim)
    after = federation.wait_for_node(victim)
    status = run.finish(limit=240.0)
    ran = example.finish(limit=60.0), place / "example"
    return Story(folder, victim, (before, after), status, refused, ran, page)


def check_that_the_run_completed(story: Story) -> None:
    """All rounds, and the model is the mean of those who replied."""
    assert story.status == "finished:completed"
    assert rounds(story.folder) == list(range(1, ROUNDS + 1))
    assert recorded(story.folder) == pytest.approx(computed(story.folder))


def check_that_the_loss_is_recorded(story: Story) -> None:
    """Once, of the node that was killed, with Flower's reason."""
    lost = [row for row in rows(story.folder, "participations.csv") if row["outcome"] == "dropped"]
    assert [partitions(story.folder)[row["client"]] for row in lost] == [story.victim]
    assert "Node Unavailable" in lost[0]["reason"]
    told = next(row for row in rows(story.folder, "rounds.csv") if row["round"] == lost[0]["round"])
    assert (told["selected"], told["completed"], told["dropped"]) == ("2", "1", "1")


def check_that_the_node_was_chosen_again(story: Story) -> None:
    """Known by the same id, it took part after it had returned."""
    own = partitions(story.folder)
    ends = [row["outcome"] for row in rows(story.folder, "participations.csv") if own[row["client"]] == story.victim]
    assert "completed" in ends[ends.index("dropped") :]
    assert story.ids[0] == story.ids[1]


def check_that_replay_makes_the_same_decisions(story: Story) -> None:
    """The bare selector, told what was recorded, selects the nodes that the federation asked."""
    asked = [
        sorted(int(row["client"]) for row in rows(story.folder, "participations.csv") if int(row["round"]) == number)
        for number in rounds(story.folder)
    ]
    assert [selection.clients.tolist() for selection, _ in replay(story.folder)] == asked


def check_that_another_decision_would_be_noticed(story: Story, place: Path) -> None:
    """Replay fails if the last selection was another one."""
    shutil.copytree(story.folder / "decisions", place / "altered" / "decisions")
    [log] = place.glob("altered/decisions/*/decisions.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    last = next(line for line in reversed(lines) if line["event"] == "ask")
    last["picked"] = [0, 1] if last["picked"] != [0, 1] else [1, 2]
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(InputError, match=f"round {ROUNDS}"):
        replay(place / "altered")


def check_that_a_second_writer_was_refused(story: Story) -> None:
    """A run in a folder that another one writes fails, and says why."""
    status, log = story.rival
    assert status == "finished:failed"
    assert f"{story.folder} is being written by another process" in log


def check_that_the_example_ran(story: Story) -> None:
    """One round of the PyTorch example, with the nodes that were left."""
    status, folder = story.example
    assert status == "finished:completed"
    assert rounds(folder) == [1]
    assert float(rows(folder, "rounds.csv")[0]["accuracy"]) > 0.0


def check_that_there_was_a_report(story: Story) -> None:
    """It was made while the federation ran, and after one round."""
    assert story.page.exit_code == 0, f"{story.page.output}\n{story.page.exception!r}"


def a_server_is_killed_and_resumed(federation: Federation, folder: Path) -> None:
    """The same `flwr run` again continues with round, model and estimates, and not with the model given anew."""
    killed = federation.run(TINY, num_server_rounds=3, folder=str(folder))
    somebody_trains(federation, folder, after=1)
    server = federation.process("flwr-serverapp")
    assert server is not None, federation.failed("there is no ServerApp")
    os.kill(server, signal.SIGKILL)
    assert rounds(folder) == [1]
    first = rows(folder, "participations.csv")

    resumed = federation.run(TINY, num_server_rounds=3, folder=str(folder), first=1000.0)
    assert resumed.finish(limit=180.0) == "finished:completed", federation.failed("the resumed run failed")
    assert rounds(folder) == [1, 2, 3]
    assert rows(folder, "participations.csv")[:2] == first
    assert recorded(folder) == pytest.approx(computed(folder))
    [saved] = folder.glob("checkpoints/*/selector")
    selector = get("bsfl").load(saved)
    assert (selector.round, selector.counts.selected.sum(), selector.state.pulls.sum()) == (3, 6, 6)
    assert len(replay(folder)) == 3
    assert killed.status != "finished:completed"


def somebody_trains(federation: Federation, folder: Path, after: int) -> int:
    """Wait until this many rounds are over and a node works for the next one; returns that node."""
    federation.until(f"{after} rounds", lambda: len(rounds(folder)) >= after, limit=120.0)
    before = received(federation)
    busy = federation.until(
        "a node to be given the next message",
        lambda: [node for node, count in enumerate(received(federation)) if count > before[node]],
        limit=60.0,
    )
    return busy[0]


def received(federation: Federation) -> list[int]:
    """How many messages each node has been given."""
    return [federation.text(f"node{node}").count("Received successfully") for node in range(federation.nodes)]


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    """The whole lines of a table that is perhaps being written."""
    try:
        lines = (folder / table).read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return list(csv.DictReader(line for line in lines if line.endswith("\n")))


def rounds(folder: Path) -> list[int]:
    """The numbers of the rounds recorded."""
    return [int(row["round"]) for row in rows(folder, "rounds.csv")]


def partitions(folder: Path) -> dict[str, int]:
    """The partition that each client of the tables has."""
    return {row["client"]: int(row["id"]) for row in rows(folder, "clients.csv")}


def recorded(folder: Path) -> list[float]:
    """The model after each round, as the server saw it."""
    return [float(row["loss"]) for row in rows(folder, "rounds.csv")]


def computed(folder: Path) -> list[float]:
    """The model after each round, by hand: the mean of those who replied, each halfway from it to its partition."""
    model, models, own = FIRST, [], partitions(folder)
    for number in rounds(folder):
        replies = [
            (model + own[row["client"]]) / 2.0
            for row in rows(folder, "participations.csv")
            if int(row["round"]) == number and row["outcome"] == "completed"
        ]
        model = sum(replies) / len(replies)
        models.append(model)
    return models
