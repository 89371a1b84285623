"""What a federation leaves: tables that `enlist report` reads while it runs, shadow mode, and decisions to replay."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message
from flwr.serverapp.strategy import FedAdam, FedAvg
from typer.testing import CliRunner

import enlist
from enlist.cli.app import app
from enlist.errors import InputError
from enlist.flower import NoNodesError, replay
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.flower.saving.tables import FLOWER_TABLES
from enlist.report.flower import shadow_sections, shadow_table
from enlist.runs import read_run
from enlist.runs.scores import run_scores, times_selected
from enlist.runs.tables import read_table
from enlist.runs.why import why
from tests.flower.flower_helpers import behaving, model, node_of, reply, run, selecting

NODES = range(11, 41)


def train(message: Message) -> FakeReply:
    node = node_of(message)
    if node % 10 == 3:
        return FakeReply(2.0, error=(2, "<class 'ValueError'>:<'a, b'>"))
    if node % 10 == 4:
        return FakeReply(40.0, reply(message, client_id=f"phone-{node}", loss=1.0, loss_rms=1.0))
    if node % 10 == 5:
        return FakeReply(5.0, error=(5, "Node Unavailable"))
    claims = {"loss": 0.5, "loss_rms": 0.1 * (node % 10), "accuracy": 0.25, "accuracy_gain": 0.01, "seconds": 99.0}
    return FakeReply(0.1 * node, reply(message, examples=node, client_id=f"phone-{node}", **claims))


def federation(folder: Path, rounds: int = 8, selector: Any = "oort", **terms: Any) -> Any:
    strategy = FedAvg(fraction_evaluate=0.1, fraction_train=0.2, min_available_nodes=1)
    return run(FakeGrid(NODES, behaving(train)), rounds, selector, strategy=strategy, k=6, folder=folder, **terms)


def test_the_tables_are_those_of_a_simulation(tmp_path: Path) -> None:
    wrapped = federation(tmp_path / "run")
    for name, columns in FLOWER_TABLES.items():
        terms = ("utility", "staleness", "speed", "score", "exploited") if name == "reasons.csv" else ()
        assert (tmp_path / "run" / name).read_text().splitlines()[0] == ",".join((*columns, *terms))
    tables = read_run(tmp_path / "run")
    assert (tables.selector, tables.seed, tables.count) == ("oort", 0, 30)
    assert tables.result == {"status": "finished", "rounds": 8, "time": wrapped.elapsed}
    rounds = tables.rounds
    assert rounds["round"].tolist() == list(range(1, 9))
    assert (rounds["selected"] == 6).all()
    parts = rounds["completed"] + rounds["late"] + rounds["dropped"] + rounds["failed"]
    assert (parts == rounds["selected"]).all()
    assert (np.diff(rounds["start"]) > 0).all()
    assert np.allclose(rounds["end"] - rounds["start"], rounds["duration"])
    assert rounds["accuracy"].tolist() == pytest.approx([0.5] * 8)
    assert rounds["loss"].tolist() == pytest.approx([1.5] * 8)
    assert rounds["train_loss"].tolist() == pytest.approx([0.5] * 8)
    assert (rounds["bytes_down"] == 6 * rounds["bytes_up"] / rounds["completed"]).all()
    assert times_selected(tables).tolist() == wrapped.selector.counts.selected.tolist()
    scores = run_scores(tables)
    assert 0 < scores["late"] < 0.3 or rounds["late"].sum() == 0


def test_reasons_name_the_clients_that_were_asked(tmp_path: Path) -> None:
    federation(tmp_path / "run", rounds=2)
    federation(tmp_path / "run", rounds=4)  # started again
    kept = read_table(tmp_path / "run" / "reasons.csv")
    asked = read_table(tmp_path / "run" / "participations.csv")
    fresh = asked["round"] == asked["selected_in"]
    assert set(kept["round"]) == {1.0, 2.0, 3.0, 4.0}
    for name in ("round", "client"):
        assert kept[name].tolist() == asked[name][fresh].tolist()
    assert np.isfinite(kept["score"]).all()
    first = int(kept["client"][0])
    tables = read_run(tmp_path / "run")
    name = tables.names[first]
    found = why(tables, 1, client=name)
    assert found.columns["client"].tolist() == [first]
    assert found.sentences[1].startswith(f"Client {first} ({name}) was drawn to explore")
    federation(tmp_path / "shadow", rounds=2, shadow=True)
    federation(tmp_path / "without", rounds=2, reasons=False)
    assert not [name for name in ("shadow", "without") if (tmp_path / name / "reasons.csv").exists()]


def test_rows_of_participations(tmp_path: Path) -> None:
    wrapped = federation(tmp_path / "run", rounds=15)
    table = read_table(tmp_path / "run" / "participations.csv")
    outcomes = set(table["outcome"].tolist())
    assert {"completed", "failed", "dropped", "late"} <= outcomes
    done = table["outcome"] == "completed"
    assert (table["weight"][done] == table["num_examples"][done]).all()
    assert (table["compute"][done] <= table["latency"][done]).all(), "a claim of 99 s is cut to what it can have been"
    failed = np.flatnonzero(table["outcome"] == "failed")
    assert table["reason"][failed[0]] == "<class 'ValueError'>:<'a, b'>"
    assert (table["censored"] == (table["outcome"] == "late")).all()
    arrived = table["outcome"] == "arrived"
    assert arrived.sum() == len(table["latency"][arrived])
    assert (table["rounds_late"][arrived] >= 1).all()
    assert table["latency"][arrived] == pytest.approx(40.0, abs=1e-5)
    clients = read_table(tmp_path / "run" / "clients.csv")
    assert clients["client"].tolist() == list(range(30))
    heard = wrapped.selector.counts.observed > 0
    assert all(name.startswith("phone-") for name in clients["id"][heard].tolist())
    assert np.isfinite(clients["num_examples"][heard]).all()
    assert clients["node"].tolist() == list(map(float, NODES))


def test_the_report_works_while_it_runs(tmp_path: Path) -> None:
    folder, shown = tmp_path / "run", []

    def evaluate(number: int, arrays: Any) -> None:
        if number in (1, 3):
            done = CliRunner().invoke(app, ["report", str(folder), "--output", str(tmp_path / f"report-{number}")])
            shown.append((number, done.exit_code, f"{done.output}{done.exception}"))

    grid = FakeGrid(NODES, behaving(train))
    wrapped = selecting(grid, "oort", k=6, folder=folder)
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=4, evaluate_fn=evaluate)
    (first, code, text), (third, other, more) = shown
    assert (first, code) == (1, 1)
    assert "has finished a round yet" in text
    assert (third, other) == (3, 0), more
    assert "oort, seed 0: 30 clients" in more
    assert (tmp_path / "report-3" / "report.html").exists()


def test_the_report_of_a_finished_federation(tmp_path: Path) -> None:
    federation(tmp_path / "run")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--output", str(tmp_path / "report")])
    assert done.exit_code == 0, done.output
    assert "in shadow mode" not in (tmp_path / "report" / "report.html").read_text()
    assert "irtual time" not in (tmp_path / "report" / "report.html").read_text().partition("<script>")[0]


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(FakeGrid(NODES, behaving(train)), 3, "oort", k=6)
    assert list(tmp_path.iterdir()) == []


def test_in_the_shadow_flower_chooses_and_the_selector_watches(tmp_path: Path) -> None:
    grid = FakeGrid(NODES, behaving(train))
    strategy = FedAvg(fraction_evaluate=0.0, fraction_train=0.3, min_train_nodes=9)
    wrapped = run(grid, 6, "oort", strategy=strategy, k=6, folder=tmp_path / "run", shadow=True)
    assert len(grid.sent) == 54
    table = read_table(tmp_path / "run" / "shadow.csv")
    assert [int(table["selected"][table["round"] == number].sum()) for number in range(1, 7)] == [9] * 6
    assert [int(table["wanted"][table["round"] == number].sum()) for number in range(1, 7)] == [6] * 6
    assert wrapped.selector.counts.selected.sum() == 54, "it was told of all that Flower asked"
    asked = np.bincount(table["client"][table["selected"] == 1].astype(int), minlength=30)
    assert wrapped.selector.counts.selected.tolist() == asked.tolist()
    assert {"completed", "failed", "dropped"} <= set(table["outcome"].tolist())
    slow = (table["selected"] == 1) & (table["client"] % 10 == 3)
    assert table["latency"][slow] == pytest.approx(40.0, abs=1e-5), "Flower waits for them"
    durations = wrapped.selector.state.duration
    assert (durations[np.unique(table["client"][slow]).astype(int)] == 30.0).all(), "the selector would not have"


@pytest.mark.parametrize("make", [FedAvg, FedAdam])
def test_in_the_shadow_the_model_is_flowers(make: Any) -> None:
    def uneven(message: Message) -> FakeReply:
        node = node_of(message)
        content = reply(message, 0.0, examples=10_000 if node == 11 else node)
        sent = message.content["arrays"]["0"].numpy()
        content["arrays"] = ArrayRecord([sent + (0.01 * node * np.cos(np.arange(5))).astype(sent.dtype)])
        return FakeReply(1.0, content)

    found = []
    for shadow in (False, True):
        random.seed(3)
        grid = FakeGrid(NODES, behaving(uneven))
        plain = make(fraction_train=0.8, fraction_evaluate=0.0)
        strategy = selecting(grid, strategy=plain, k=4, shadow=True) if shadow else plain
        first = ArrayRecord([np.linspace(0.0, 1.0, 5, dtype=np.float32)])
        found.append(strategy.start(grid=grid, initial_arrays=first, num_rounds=5).arrays["0"])
    assert found[0].dtype == found[1].dtype
    np.testing.assert_allclose(found[0].numpy(), found[1].numpy(), atol=2e-6, err_msg="but for the order of sums")


def test_in_the_shadow_nobody_is_wanted_more_often_than_it_would_be_asked(tmp_path: Path) -> None:
    def first(table: Any, k: int) -> Any:
        return np.arange(k)

    def prompt(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message))

    found = {}
    for shadow, column in ((False, "selected"), (True, "wanted")):
        for rounds in (4, 12):  # a resumption on the way
            strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=1)
            terms = {"strategy": strategy, "k": 3, "folder": tmp_path / column, "shadow": shadow}
            run(FakeGrid(NODES, behaving(prompt)), rounds, first, **terms)
        table = read_table(tmp_path / column / ("shadow.csv" if shadow else "participations.csv"))
        rows = table["wanted"] == 1 if shadow else table["round"] > 0
        found[column] = [table["client"][rows & (table["round"] == number)].tolist() for number in range(1, 13)]
    assert len({tuple(clients) for clients in found["selected"]}) > 1
    assert found["wanted"] == found["selected"]


def test_watching_leaves_no_trace_in_what_is_chosen(tmp_path: Path) -> None:
    wrapped = run(FakeGrid(NODES, behaving(train)), 5, "oort", k=6)
    before = repr(wrapped.selector.rng.bit_generator.state), wrapped.selector.round
    for _ in range(3):
        first = wrapped.federation.would_choose(list(NODES), set(), 6, 1e6, 30.0)
    assert (repr(wrapped.selector.rng.bit_generator.state), wrapped.selector.round) == before
    assert first.tolist() == wrapped.federation.would_choose(list(NODES), set(), 6, 1e6, 30.0).tolist()


def test_the_report_shows_the_difference(tmp_path: Path) -> None:
    strategy = FedAvg(fraction_evaluate=0.0, fraction_train=0.3)
    grid = FakeGrid(NODES, behaving(train))
    run(grid, 20, "oort", strategy=strategy, k=6, folder=tmp_path / "run", shadow=True)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--output", str(tmp_path / "report")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "report" / "report.html").read_text()
    assert "oort in shadow mode" in text
    assert (tmp_path / "report" / "charts" / "shadow-0000-oort.png").exists()
    [(section, charts)] = shadow_sections([read_run(tmp_path / "run")])
    assert section.text.startswith("Of 180 requests that Flower's sampling made, oort would have made")
    assert "by chance" in section.text
    assert list(charts) == ["shadow-0000-oort"]


def test_a_shadow_that_was_cut_off(tmp_path: Path) -> None:
    strategy = FedAvg(fraction_evaluate=0.0, fraction_train=0.3)
    folder = tmp_path / "run"
    run(FakeGrid(NODES, behaving(train)), 3, "oort", strategy=strategy, k=6, folder=folder, shadow=True)
    lines = (folder / "rounds.csv").read_text().splitlines(keepends=True)
    (folder / "rounds.csv").write_text("".join(lines[:-1]))
    table = shadow_table(read_run(folder))
    assert table is not None
    assert table["round"].max() == 2
    (folder / "rounds.csv").write_text(lines[0])
    assert shadow_table(read_run(folder)) is None


def test_in_the_shadow_waiting_is_bounded_too() -> None:
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=50, min_available_nodes=50)
    grid = FakeGrid(NODES, behaving(train))
    grid.get_node_ids = lambda: (grid.clock.sleep(30.0), list(NODES))[1]  # type: ignore[method-assign]
    wrapped = selecting(grid, "random", strategy=strategy, k=6, shadow=True, patience=40.0)
    with pytest.raises(NoNodesError, match="the strategy needs more"):
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=1)


@pytest.mark.parametrize("late", ["drop", "learn", "merge"])
@pytest.mark.parametrize("selector", ["oort", "bsfl", "random", "cs-ucb-q", "refl", "safa", "e3cs", "rbcs-f"])
def test_a_recorded_federation_replayed_gives_the_same_selections(selector: str, late: str, tmp_path: Path) -> None:
    grid = FakeGrid(NODES, behaving(train, num_examples=10))
    folder = tmp_path / "run"
    wrapped = selecting(grid, selector, k=6, late=late, over_commit=1.3, folder=folder)
    coming = {2: range(11, 31), 5: range(15, 61), 8: NODES}
    wrapped.start(
        grid=grid,
        initial_arrays=model(),
        num_rounds=10,
        evaluate_fn=lambda number, arrays: setattr(grid, "nodes", list(coming.get(number, grid.nodes))),
    )
    replayed = replay(folder)
    assert len(replayed) == 10
    table = read_table(folder / "participations.csv")
    for number, (selection, recorded) in enumerate(replayed, start=1):
        assert selection.clients.tolist() == recorded.tolist()
        rows = (table["round"] == number) & (table["selected_in"] == number)
        assert sorted(table["client"][rows].tolist()) == recorded.tolist()


def test_a_replay_of_a_selector_that_needs_features(tmp_path: Path) -> None:
    grid = FakeGrid(NODES, behaving(train, num_examples=5, features={"cores": 2.0}))
    run(grid, 6, "fedsuv", k=5, folder=tmp_path / "run")
    assert len(replay(tmp_path / "run")) == 6


def test_a_replay_across_clients_that_were_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from enlist.flower import federation as module

    monkeypatch.setattr(module, "ORPHANS", 4)

    def moving(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message, client_id=f"clinic-{node_of(message) % 10}", loss_rms=1.0))

    grid = FakeGrid([11, 12, 13], moving)
    wrapped = selecting(grid, "oort", k=2, folder=tmp_path / "run", identify="never")
    wrapped.start(
        grid=grid,
        initial_arrays=model(),
        num_rounds=12,
        evaluate_fn=lambda number, arrays: setattr(grid, "nodes", [10 * number + 11 + place for place in range(3)]),
    )
    log = next((tmp_path / "run" / "decisions").iterdir()) / "decisions.jsonl"
    assert '"event": "compact"' in log.read_text()
    assert len(replay(tmp_path / "run")) == 12
    assert len(wrapped.selector.clients) < len(wrapped.nodes)
    assert read_run(tmp_path / "run").count == len(wrapped.nodes)


def test_a_replay_that_differs_is_an_error(tmp_path: Path) -> None:
    federation(tmp_path / "run")
    [segment] = (tmp_path / "run" / "decisions").iterdir()
    log = segment / "decisions.jsonl"
    lines = log.read_text().splitlines()
    place = [index for index, line in enumerate(lines) if '"event": "ask"' in line][3]
    lines[place] = lines[place].replace('"k": 6, "enough": 6', '"k": 5, "enough": 5')
    log.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match="the replay differs from the log from round 4 on"):
        replay(tmp_path / "run")


def test_a_replay_while_it_runs_and_after_a_torn_line(tmp_path: Path) -> None:
    federation(tmp_path / "run")
    [segment] = (tmp_path / "run" / "decisions").iterdir()
    with open(segment / "decisions.jsonl", "a") as file:
        file.write('{"event": "ask", "k"')
    assert len(replay(tmp_path / "run")) == 8


def test_replaying_a_class_of_ones_own(tmp_path: Path) -> None:
    class Mine(type(enlist.create("random", enlist.Clients(count=2)))):  # type: ignore[misc]
        name = "mine"

    run(FakeGrid(NODES, behaving(train)), 3, Mine(enlist.Clients(count=5), seed=1), k=4, folder=tmp_path / "run")
    assert len(replay(tmp_path / "run", kind=Mine)) == 3


def test_events_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from enlist.flower.saving import folder as state

    monkeypatch.setattr(state, "MOST_EVENTS", 5)

    def odd(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message, loss=math.nan, client_id=f"c{node_of(message)}"))

    run(FakeGrid(NODES, behaving(odd)), 6, "random", k=10, folder=tmp_path / "run")
    events = (tmp_path / "run" / "events.csv").read_text().splitlines()
    assert len(events) == 6
    assert events[1].endswith("loss is nan")
