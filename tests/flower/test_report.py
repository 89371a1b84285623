"""The report of a real federation: how it stands, who is in trouble, and nothing that only a simulation has."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.report.federation import client_rows, evaluations, shadow, standing
from enlist.runs import read_run
from enlist.runs.federation import by_client, events, starts, state
from enlist.runs.scores import run_scores
from tests.flower.flower_helpers import behaving, model, node_of, reply, run, selecting

NODES = range(11, 21)


def train(message: Message) -> FakeReply:
    """One node is slow, one raises, one is lost every other round, one sends what cannot be used."""
    node, number = node_of(message), int(message.content["config"]["server-round"])  # type: ignore[arg-type]
    told = {"client_id": f"clinic-{node}", "loss_rms": 1.0}
    if node == 14:
        return FakeReply(3.0, error=(2, "CUDA out of memory"))
    if node == 15 and number % 2:
        return FakeReply(5.0, error=(5, "Node Unavailable"))
    return FakeReply(40.0 if node == 13 else 2.0, reply(message, float("nan") if node == 16 else None, **told))


def federation(folder: Path, rounds: int = 6, **terms: Any) -> Any:
    strategy = FedAvg(fraction_evaluate=0.5, min_available_nodes=1, min_train_nodes=1)
    terms = {"strategy": strategy, "k": 10, "deadline": 30.0, "most_often": None, **terms}
    return run(FakeGrid(NODES, behaving(train)), rounds, "random", folder=folder, **terms)


def report(folder: Path, *options: str) -> tuple[str, str]:
    """What the terminal and the page show."""
    place = folder.parent / f"{folder.name}-report"
    done = CliRunner().invoke(app, ["report", str(folder), "--output", str(place), *options])
    assert done.exit_code == 0, done.output
    return done.output, html.unescape((place / "report.html").read_text().partition("<script>")[0])


def test_the_table_of_clients_comes_first(tmp_path: Path) -> None:
    federation(tmp_path / "run")
    table = by_client(read_run(tmp_path / "run"))
    told = {name: [table[key][place] for key in table if key != "client"] for place, name in enumerate(table["name"])}
    assert told["clinic-11"][:6] == ["clinic-11", 6, 6, 0, 0, 0]
    assert told["clinic-13"][3] == told["clinic-13"][1] >= 2, "it is asked again once its reply has come"
    assert told["node-14"][4:] == [6, 0, told["node-14"][6], "CUDA out of memory (6x)"]
    assert told["clinic-15"][5] == 3
    assert told["clinic-15"][7] == "Node Unavailable (3x)"
    assert re.fullmatch(r"refused: array '\d' holds NaN or infinity \(6x\)", told["node-16"][7])
    rows = client_rows(read_run(tmp_path / "run"), state(read_run(tmp_path / "run")))
    assert rows[0] == ["client", "selected", "completed", "late", "failed", "dropped", "last seen", "reasons"]
    assert {rows[1][0], rows[2][0]} == {"node-14", "node-16"}
    assert rows[1][6].startswith("2023-11-14 22:1")
    _, page = report(tmp_path / "run")
    assert page.index("<h2>The federation</h2>") < page.index("<h2>Results</h2>")
    assert re.search(r"<td>clinic-15</td><td>6</td><td>3</td><td>0</td><td>0</td><td>3</td>", page)


def test_a_client_that_was_never_heard_of(tmp_path: Path) -> None:
    def silent(message: Message) -> FakeReply:
        return FakeReply(None) if node_of(message) == 11 else FakeReply(1.0, reply(message))

    run(FakeGrid([11, 12, 13], behaving(silent)), 2, k=3, folder=tmp_path / "run")
    tables = read_run(tmp_path / "run")
    rows = {row[0]: row for row in client_rows(tables, state(tables))}
    assert rows["node-11"][1:] == ["1", "0", "1", "0", "0", "–", ""]


def test_running_stopped_killed_finished(tmp_path: Path) -> None:
    folder, seen = tmp_path / "run", []

    def evaluate(number: int, arrays: Any) -> None:
        if number == 3:
            seen.append(state(read_run(folder)))
            raise RuntimeError("the cellar is\nunder water")

    grid = FakeGrid(NODES, behaving(train))
    wrapped = selecting(grid, "random", k=4, folder=folder)
    with pytest.raises(RuntimeError, match="cellar"):
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=6, evaluate_fn=evaluate)
    assert (seen[0].status, seen[0].restarts) == ("running", 0)
    stopped = state(read_run(folder))
    assert (stopped.status, stopped.why) == ("stopped", "RuntimeError: the cellar is\\nunder water")
    text = standing(read_run(folder), stopped)
    assert text.startswith("It is not running: it was stopped after round 2 (RuntimeError: the cellar is")
    lines = (folder / "starts.csv").read_text().splitlines(keepends=True)
    (folder / "starts.csv").write_text("".join(lines[:-1]))  # as if there had been no time to write that
    assert state(read_run(folder)).status == "killed"
    assert "It is not running: it ended unexpectedly after round 2." in report(folder)[1]

    for rounds in (4, 6):
        later = FakeGrid(NODES, behaving(train))
        later.clock.now = 86_400.0 + rounds
        again = selecting(later, "random", k=4, folder=folder)
        again.start(grid=later, initial_arrays=model(), num_rounds=rounds)
    assert [row.what for row in starts(read_run(folder))] == [
        "started", "continued", "finished", "continued", "finished",
    ]  # fmt: skip
    terminal, page = report(folder)
    told = (
        "It is finished after 6 rounds. It began on 2023-11-14 22:13 UTC, and its last round ended on 2023-11-15 22:1"
    )
    assert told in page
    assert "It was continued 2 times after a stop." in page
    assert "It is finished after 6 rounds." in " ".join(terminal.split())


def test_events_are_listed_with_names_and_dates(tmp_path: Path) -> None:
    federation(tmp_path / "run")
    told = events(read_run(tmp_path / "run"))
    assert {row["kind"] for row in told} == {"refused"}
    _, page = report(tmp_path / "run")
    assert f"Events ({len(told)})" in page
    row = r"<td>2023-11-14 22:1\d UTC</td><td>1</td><td>refused</td><td>node-16</td><td>refused: array '\d' holds NaN"
    assert re.search(row, page)


@pytest.mark.parametrize("late", ["drop", "learn", "merge"])
def test_late_updates_that_were_merged_are_counted_and_no_others(late: str, tmp_path: Path) -> None:
    federation(tmp_path / "run", late=late)
    tables = read_run(tmp_path / "run")
    arrived = int((tables.participations["outcome"] == "arrived").sum())
    assert (arrived > 0) == (late != "drop")
    assert run_scores(tables)["arrived"] == (arrived if late == "merge" else 0)
    _, page = report(tmp_path / "run")
    assert ("Late updates that were merged afterwards" in page) == (late == "merge")
    seen = run_scores(tables)["coverage"]
    assert seen == pytest.approx(0.8 if late == "merge" else 0.7), "the slow one is merged late or never"


def test_evaluations_that_failed_are_told(tmp_path: Path) -> None:
    def evaluating(message: Message) -> FakeReply:
        if message.metadata.message_type != "evaluate":
            return behaving()(message)
        metrics = MetricRecord({"accuracy": 0.5, "num-examples": 10})
        lost = {13: FakeReply(error=(1, "CUDA out of memory")), 14: FakeReply(seconds=None)}
        return lost.get(node_of(message), FakeReply(content=RecordDict({"metrics": metrics})))

    strategy = FedAvg(fraction_evaluate=1.0, min_available_nodes=5)
    run(FakeGrid(range(11, 16), evaluating), strategy=strategy, k=5, folder=tmp_path / "run", deadline=20.0)
    said = "5 times: 3 of these evaluations were used, 1 failed or gave impossible values, 1 did not arrive in time."
    assert evaluations(read_run(tmp_path / "run")) == f"Clients were asked to evaluate the model {said}"
    assert said in report(tmp_path / "run")[1]


def test_nothing_to_be_reached_is_invented(tmp_path: Path) -> None:
    federation(tmp_path / "run")
    terminal, page = report(tmp_path / "run")
    for text in (terminal, page):
        assert "50.0 %" in text
        assert "target" not in text
        assert "rounds to" not in text
        assert "irtual" not in text
        assert "mark bounds" not in text
    _, page = report(tmp_path / "run", "--target", "0.4")
    assert "The target is 40 %" in page


def test_the_shadow_says_whose_accuracy_it_is(tmp_path: Path) -> None:
    federation(tmp_path / "run", shadow=True)
    terminal, page = report(tmp_path / "run")
    for text in (" ".join(terminal.split()), page):
        assert "random only watched (shadow mode): Flower's sampling selected the clients, so accuracy" in text
        assert "Flower's sampling, random watching" in text
    federation(tmp_path / "run", 9)
    partly = shadow(read_run(tmp_path / "run"))
    assert partly.startswith("In 6 rounds of 9 random only watched (shadow mode)")
    assert "random watching" not in report(tmp_path / "run")[1]


def test_folders_of_version_0_1(tmp_path: Path) -> None:
    saved = read_run(Path(__file__).parents[1] / "saved" / "0.1" / "federation")
    assert starts(saved) == []
    now = state(saved)
    assert now.began is None
    assert "It began" not in standing(saved, now)
    assert client_rows(saved, now)[1][6].startswith("after ")


def test_two_federations_are_told_apart(tmp_path: Path) -> None:
    federation(tmp_path / "live")
    federation(tmp_path / "watched", shadow=True)
    place = tmp_path / "both"
    folders = [str(tmp_path / "live"), str(tmp_path / "watched")]
    done = CliRunner().invoke(app, ["report", *folders, "--output", str(place)])
    assert done.exit_code == 0, done.output
    page = html.unescape((place / "report.html").read_text().partition("<script>")[0])
    order = [
        page.index(f"<h2>{name}</h2>") for name in ("The federation in live", "The federation in watched", "Results")
    ]
    assert order == sorted(order)
    assert "Flower's sampling, random watching" in page
    assert "watched: It is finished after 6 rounds." in " ".join(done.output.split())
    for text in (done.output.replace(str(tmp_path), ""), page):
        assert "If no target was set" not in text
        assert "counts as reached" not in text
