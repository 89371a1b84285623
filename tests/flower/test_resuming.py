"""A server that is killed, wherever it may be, goes on with what it had learned; two servers never share a folder."""

from __future__ import annotations

import functools
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM

import enlist
from enlist import storage
from enlist.errors import InputError, StateFileError
from enlist.flower import Selecting, replay
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.runs import folder as folders
from enlist.runs import read_run
from tests.flower.flower_helpers import behaving, model, node_of, reply, run, selecting, values


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of Flower's strategies collect garbage at every reply, which takes long in a process full of tests."""
    monkeypatch.setattr("gc.collect", lambda *arguments: 0)


NODES = range(11, 21)


class Kill(BaseException):
    """The process ends here."""


def train(message: Message) -> FakeReply:
    node = node_of(message)
    if node == 13:
        return FakeReply(1.0, error=(2, "boom"))
    return FakeReply(0.1 * node, reply(message, 0.1 * node, client_id=f"phone-{node}", loss_rms=1.0 + node % 3))


def federation(folder: Path, rounds: int, grid: FakeGrid | None = None, **terms: Any) -> Selecting:
    grid = FakeGrid(NODES, behaving(train)) if grid is None else grid
    strategy = FedAdam(fraction_evaluate=1.0, min_available_nodes=1)
    return run(grid, rounds, "oort", strategy=strategy, k=4, folder=folder, seed=3, **terms)


def decisions(folder: Path) -> list[str]:
    """Who was selected in each round, and what became of it."""
    rows = (folder / "participations.csv").read_text().splitlines()[1:]
    return [",".join(row.split(",")[:4]) for row in rows]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("straight") / "run"


@pytest.fixture(scope="module")
def straight(reference: Path) -> Selecting:
    """The federation that nobody stopped, in the folder `reference`; tests only read it."""
    return federation(reference, 6)


def same(one: Selecting, other: Selecting, folder: Path, reference: Path) -> None:
    assert decisions(folder) == decisions(reference)
    kept = [(place / "reasons.csv").read_text().splitlines() for place in (folder, reference)]
    assert [line.split(",")[:2] for line in kept[0]] == [line.split(",")[:2] for line in kept[1]]
    assert values(one.result.arrays) == values(other.result.arrays)  # type: ignore[attr-defined]
    for (path, ours), (_, theirs) in zip(one.selector.state.leaves(), other.selector.state.leaves(), strict=True):
        if path != "duration":  # measured between polls, whose moments differ by what the killed server waited
            np.testing.assert_array_equal(ours, theirs)
    assert one.nodes.names == other.nodes.names
    rows = (folder / "rounds.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["round", "1", "2", "3", "4", "5", "6"]
    assert len(replay(folder)) == 6
    assert read_run(folder).result["status"] == "finished"  # type: ignore[index]


def counted(monkeypatch: pytest.MonkeyPatch, at: int) -> Callable[[], int]:
    """Kill the process at the n-th time that it talks to the grid or touches the disk."""
    steps = 0

    def breaking(original: Any) -> Any:
        def step(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == at:
                raise Kill
            return original(*arguments, **named)

        return step

    for owner, name in (
        (FakeGrid, "push_messages"),
        (FakeGrid, "get_node_ids"),
        (folders.RunFolder, "append"),
        (folders.RunFolder, "write_result"),
        (storage, "replace"),
        (folders.os, "rename"),
        (shutil, "rmtree"),
        (Selecting, "aggregate_train"),
        (Selecting, "aggregate_evaluate"),
        (Selecting, "_settle"),
        (Selecting, "_save"),
    ):
        monkeypatch.setattr(owner, name, breaking(getattr(owner, name)))
    return lambda: steps


def test_steps_at_which_it_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = counted(monkeypatch, at=-1)
    federation(tmp_path / "run", 6)
    assert 100 < steps() < 400


@pytest.mark.parametrize("start", range(8))
def test_killed_anywhere_it_ends_like_one_that_was_not(
    start: int, straight: Selecting, reference: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for at in range(1 + start * 5, 240, 41):
        folder = tmp_path / f"killed-{at}"
        with monkeypatch.context() as patches:
            counted(patches, at)
            try:
                federation(folder, 6)
            except Kill:
                pass
            else:
                continue
        again = federation(folder, 6)
        same(again, straight, folder, reference)


def test_killed_three_times(
    straight: Selecting, reference: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    for at in (45, 40, 35):
        with monkeypatch.context() as patches:
            counted(patches, at)
            with pytest.raises(Kill):
                federation(folder, 6)
    same(federation(folder, 6), straight, folder, reference)


def test_a_process_that_really_dies(straight: Selecting, reference: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.flower import test_resuming as t\n"
        "from pathlib import Path\n"
        "from enlist.flower import Selecting\n"
        "settle = Selecting._settle\n"
        "def dying(self, metrics):\n"
        "    settle(self, metrics)\n"
        "    if self.round == 4: os._exit(9)\n"
        "Selecting._settle = dying\n"
        f"t.federation(Path({str(tmp_path / 'run')!r}), 6)\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False, capture_output=True)
    assert done.returncode == 9, done.stderr
    assert len(decisions(tmp_path / "run")) > 0
    same(federation(tmp_path / "run", 6), straight, tmp_path / "run", reference)


def test_the_round_goes_on_where_flower_would_count_from_one(tmp_path: Path) -> None:
    numbers: list[int] = []
    evaluated: list[int] = []

    def look(message: Message) -> FakeReply:
        numbers.append(message.content["config"]["server-round"])
        return train(message)

    def evaluate(number: int, arrays: Any) -> MetricRecord:
        evaluated.append(number)
        return MetricRecord({"accuracy": 0.1 * number})

    for rounds in (2, 5):
        grid = FakeGrid(NODES, behaving(look))
        wrapped = selecting(grid, "random", k=2, folder=tmp_path / "run")
        result = wrapped.start(grid=grid, initial_arrays=model(), num_rounds=rounds, evaluate_fn=evaluate)
    assert sorted(set(numbers)) == [1, 2, 3, 4, 5]
    assert evaluated == [0, 1, 2, 3, 4, 5]
    assert sorted(result.evaluate_metrics_serverapp) == [0, 1, 2, 3, 4, 5]
    assert dict(result.evaluate_metrics_serverapp[2]) == {"accuracy": 0.2}
    assert result.evaluate_metrics_serverapp[5]["accuracy"] == 0.5
    accuracies = read_run(tmp_path / "run").rounds["accuracy"]
    assert accuracies.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])


MOMENTS: list[Any] = [
    lambda: FedAvg(fraction_evaluate=0.0),
    lambda: FedAdam(fraction_evaluate=0.0),
    lambda: flower.FedYogi(fraction_evaluate=0.0),
    lambda: flower.FedAdagrad(fraction_evaluate=0.0),
    lambda: FedAvgM(fraction_evaluate=0.0, server_momentum=0.9, server_learning_rate=0.5),
    lambda: flower.QFedAvg(client_learning_rate=0.1, train_loss_key="num-examples", fraction_evaluate=0.0),
    lambda: flower.FedTrimmedAvg(fraction_evaluate=0.0),
]


@pytest.mark.parametrize("make", MOMENTS)
def test_the_strategys_moments_survive(make: Any, tmp_path: Path) -> None:
    def go(folder: Path, *parts: int) -> Any:
        for rounds in parts:
            wrapped = run(FakeGrid(NODES, behaving(train)), rounds, "random", strategy=make(), k=4, folder=folder)
        return values(wrapped.result.arrays)  # type: ignore[attr-defined]

    assert go(tmp_path / "parts", 1, 3) == go(tmp_path / "whole", 3)


def test_a_wrapper_for_privacy_goes_on(tmp_path: Path) -> None:
    def go(*parts: int) -> Any:
        for rounds in parts:
            inner = FedAvgM(fraction_evaluate=0.0, server_momentum=0.9)
            strategy = flower.DifferentialPrivacyClientSideFixedClipping(inner, 0.0, 10.0, 4)
            grid = FakeGrid(NODES, behaving(train))
            wrapped = run(grid, rounds, "random", strategy=strategy, k=4, folder=tmp_path / f"run-{len(parts)}")
        return values(wrapped.result.arrays)  # type: ignore[attr-defined]

    assert go(2, 4) == go(4)


def test_what_of_a_strategy_cannot_be_saved_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Own(FedAvg):
        def __init__(self) -> None:
            super().__init__(fraction_evaluate=0.0)
            self.thing, self.pairs, self.plain = object(), {(1, 2): 3.0}, {1: 2.0}

    monitor = logging.getLogger("flwr.enlist")
    monitor.setLevel(logging.INFO)
    with caplog.at_level(logging.INFO, logger="flwr.enlist"):
        run(FakeGrid(NODES, behaving(train)), 3, "random", strategy=private(Own()), k=4, folder=tmp_path / "run")
    monitor.setLevel(logging.NOTSET)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    told = [text for text in told if "cannot be saved" in text]
    assert [text.split(" ")[1] for text in told] == ["Own.thing", "Own.pairs"]


def test_a_full_disk_is_told_in_words_that_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders.os, "rename", full)
    with pytest.raises(
        StateFileError, match="make room, then continue with --resume, or a Flower app by starting it again"
    ):
        federation(tmp_path / "run", 2)


def private(strategy: Any) -> Any:
    return flower.DifferentialPrivacyClientSideFixedClipping(strategy, 0.0, 1e9, 4)


def test_a_wrapper_for_privacy_is_not_left_out_on_the_way(tmp_path: Path) -> None:
    grid = FakeGrid(NODES, behaving(train))
    run(grid, 2, "random", strategy=private(FedAvg()), k=4, folder=tmp_path / "run")
    said = "saved with DifferentialPrivacyClientSideFixedClipping, which holds another strategy, and FedAvg holds none"
    with pytest.raises(InputError, match=said):
        run(grid, 4, "random", strategy=FedAvg(), k=4, folder=tmp_path / "run")
    assert run(grid, 4, "random", strategy=private(FedAvg()), k=4, folder=tmp_path / "run").round == 4


def test_a_wrapper_for_privacy_that_is_added_on_the_way_finds_the_moments(tmp_path: Path) -> None:
    grid = FakeGrid(NODES, behaving(train))
    first = run(grid, 2, "random", strategy=FedAdam(fraction_evaluate=0.0), k=4, folder=tmp_path / "run")
    again = selecting(grid, "random", strategy=private(FedAdam(fraction_evaluate=0.0)), k=4, folder=tmp_path / "run")
    inner: Any = []
    wrapped = again.strategy.configure_train

    def configure_train(*arguments: Any) -> Any:
        inner.append(again.strategy.strategy.m_t)  # type: ignore[attr-defined]
        return wrapped(*arguments)

    again.strategy.configure_train = configure_train  # type: ignore[method-assign]
    again.start(grid=grid, initial_arrays=model(), num_rounds=3)
    for name, moments in first.strategy.m_t.items():  # type: ignore[attr-defined]
        np.testing.assert_array_equal(inner[0][name], moments)


def test_attributes_of_a_strategy_of_ones_own(tmp_path: Path) -> None:
    class Own(FedAvg):
        def __init__(self) -> None:
            super().__init__(fraction_evaluate=0.0)
            self.seen: dict[int, int] = {}
            self.best, self.names, self.thing = 0.0, ["a"], object()
            self.eta = 0.5

        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            self.seen[server_round] = len(list(replies))
            self.best = float(server_round)
            self.names.append(str(server_round))
            return super().aggregate_train(server_round, replies)

    first = Own()
    run(FakeGrid(NODES, behaving(train)), 2, "random", strategy=first, k=4, folder=tmp_path / "run")
    second = Own()
    second.eta = 0.25
    wrapped = run(FakeGrid(NODES, behaving(train)), 3, "random", strategy=second, k=4, folder=tmp_path / "run")
    assert wrapped.strategy.seen == {1: 4, 2: 4, 3: 4}
    assert wrapped.strategy.best == 3.0
    assert wrapped.strategy.names[-3:] == ["1", "2", "3"]
    assert wrapped.strategy.eta == 0.25, "what the user changed is the user's"


def test_names_survive_though_every_node_id_is_new(tmp_path: Path) -> None:
    def named(message: Message) -> FakeReply:
        name = f"phone-{node_of(message) % 100}"
        if message.metadata.message_type == "query.enlist":
            from enlist.flower import client

            return FakeReply(0.5, client.introduction(message, client_id=name).content)
        return FakeReply(1.0, reply(message, client_id=name, loss_rms=1.0))

    folder = tmp_path / "run"
    first = run(FakeGrid(range(111, 121), named), 8, "oort", k=5, folder=folder)
    assert sorted(first.nodes.names) == sorted(f"phone-{place}" for place in range(11, 21))
    second = run(FakeGrid(range(911, 921), named), 12, "oort", k=5, folder=folder)
    assert second.nodes.names == first.nodes.names
    assert len(second.selector.clients) == 10
    assert second.selector.counts.selected.sum() == 60


def test_two_servers_never_share_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    inside = []

    def evaluate(number: int, arrays: Any) -> None:
        if number == 1:
            with pytest.raises(InputError, match="being written by another process"):
                federation(folder, 6)
            inside.append(number)

    grid = FakeGrid(NODES, behaving(train))
    wrapped = selecting(grid, "random", k=2, folder=folder)
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=2, evaluate_fn=evaluate)
    assert inside == [1]
    with pytest.raises(InputError, match=r"selector\.name = 'random', but 'oort' was asked for"):
        federation(folder, 6)


def test_a_finished_run_returns_its_result(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "run"
    first = federation(folder, 3)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for rounds in (3, 2):
        grid = FakeGrid(NODES, behaving(train))
        again = federation(folder, rounds, grid)
        assert values(again.result.arrays) == values(first.result.arrays)  # type: ignore[attr-defined]
        assert again.result.evaluate_metrics_clientapp == first.result.evaluate_metrics_clientapp  # type: ignore[attr-defined]
        assert not grid.sent
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert read_run(folder).result["rounds"] == 3  # type: ignore[index]
    assert federation(folder, 4).round == 4
    assert read_run(folder).result["rounds"] == 4  # type: ignore[index]


class Decaying(FedAvg):
    """Halves the learning rate every round, as apps do it: in the configuration that Flower hands on."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        config["lr"] = config["lr"] / 2
        config["key"] = bytes([server_round])
        config.pop("warm-up", None)
        return super().configure_train(server_round, arrays, config, grid)


def rates(folder: Path, *parts: int, **changes: Any) -> list[tuple[Any, ...]]:
    """The configuration that each round's clients were sent, of a run that is stopped and continued."""
    seen: dict[int, tuple[Any, ...]] = {}

    def note(message: Message) -> FakeReply:
        sent = message.content["config"]
        seen[int(sent["server-round"])] = (sent["lr"], sent["key"], sent.get("warm-up"), sent["epochs"])
        return train(message)

    for place, rounds in enumerate(parts):
        grid = FakeGrid(NODES, behaving(note))
        wrapped = selecting(grid, "random", strategy=Decaying(fraction_evaluate=0.0), k=4, folder=folder)
        given = {"lr": 8.0, "epochs": 1, "warm-up": True, **(changes if place else {})}
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=rounds, train_config=ConfigRecord(given))
    return [seen[number] for number in sorted(seen)]


def test_a_configuration_that_the_strategy_changes_goes_on(tmp_path: Path) -> None:
    straight = rates(tmp_path / "whole", 5)
    assert [lr for lr, *_ in straight] == [4.0, 2.0, 1.0, 0.5, 0.25]
    assert rates(tmp_path / "parts", 2, 3, 5) == straight
    assert [entry[-1] for entry in rates(tmp_path / "epochs", 2, 5, epochs=7)] == [1, 1, 7, 7, 7]
    assert [lr for lr, *_ in rates(tmp_path / "lr", 2, 4, lr=1.0)] == [4.0, 2.0, 0.5, 0.25], "the user's own change"


def test_another_model_is_refused(tmp_path: Path) -> None:
    federation(tmp_path / "run", 2)
    grid = FakeGrid(NODES, behaving(train))
    strategy = FedAdam(fraction_evaluate=1.0, min_available_nodes=1)
    wrapped = selecting(grid, "oort", strategy=strategy, k=4, folder=tmp_path / "run", seed=3)
    other = ArrayRecord([np.zeros(3), np.zeros((2, 5))])
    said = r"began with another model: of initial_arrays, array '1' has shape \(2, 5\), not \(2, 2\); pass the model"
    with pytest.raises(InputError, match=said):
        wrapped.start(grid=grid, initial_arrays=other, num_rounds=4)
    assert federation(tmp_path / "run", 4).round == 4


def test_a_run_whose_replies_hold_a_part_of_the_model_goes_on(tmp_path: Path) -> None:
    def part(message: Message) -> FakeReply:
        content = reply(message)
        content["arrays"] = ArrayRecord({"0": content["arrays"]["0"]})
        return FakeReply(1.0, content)

    for rounds in (1, 3):
        wrapped = run(FakeGrid(NODES, behaving(part)), rounds, k=4, folder=tmp_path / "run")
    assert list(wrapped.result.arrays) == ["0"]  # type: ignore[attr-defined]


def test_resume_may_be_insisted_on_or_forbidden(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run to resume"):
        federation(tmp_path / "run", 3, resume=True)
    federation(tmp_path / "run", 2, resume=False)
    with pytest.raises(InputError, match="already holds a run; leave resume out"):
        federation(tmp_path / "run", 3, resume=False)
    assert federation(tmp_path / "run", 3, resume=True).round == 3


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("dear")
    with pytest.raises(InputError, match="is not empty and holds no run"):
        federation(tmp_path, 2)
    assert (tmp_path / "thesis.tex").read_text() == "dear"


def test_some_terms_may_change_and_others_may_not(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    grid = FakeGrid(NODES, behaving(train))
    run(grid, 2, "oort", k=4, deadline=30.0, folder=folder, seed=3)
    changed = run(grid, 4, "oort", k=2, deadline=50.0, folder=folder, seed=3)
    assert changed.round == 4
    assert json.loads((folder / "config.json").read_text())["k"] == 4
    with pytest.raises(InputError, match="seed = 3, but 4 was asked for"):
        run(grid, 6, "oort", k=4, folder=folder, seed=4)
    with pytest.raises(InputError, match="penalty"):
        run(grid, 6, "oort", k=4, folder=folder, seed=3, settings={"penalty": 1.0})


def test_damage_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    federation(folder, 2)
    [checkpoint] = (folder / "checkpoints").iterdir()
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / checkpoint.relative_to(folder) / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(StateFileError, match=r"model\.safetensors is truncated or was altered"):
        federation(copy, 4)
    (folder / checkpoint.relative_to(folder) / "state" / "state.json").write_text("{}")
    with pytest.raises(StateFileError):
        federation(folder, 4)


def test_a_log_that_lost_its_end_does_not_stop_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    federation(folder, 3)
    [segment] = (folder / "decisions").iterdir()
    os.truncate(segment / "decisions.jsonl", 10)
    wrapped = federation(folder, 5)
    assert wrapped.round == 5
    shutil.rmtree(segment)
    assert len(replay(folder)) == 2


def test_a_configured_selector_goes_on_too(tmp_path: Path) -> None:
    def configured() -> Any:
        return enlist.create("bsfl", enlist.Clients(ids=[f"phone-{node}" for node in NODES]), seed=3)

    for rounds in (3, 6):
        grid = FakeGrid(NODES, behaving(train))
        wrapped = run(grid, rounds, configured(), k=4, folder=tmp_path / "run")
    assert wrapped.selector.round == 6
    assert wrapped.selector.counts.selected.sum() == 24


def test_functions_are_passed_again(tmp_path: Path) -> None:
    def least(table: Any, k: int) -> Any:
        return np.argsort(table["selected"], kind="stable")[:k]

    for rounds in (3, 6):
        wrapped = run(FakeGrid(NODES, behaving(train)), rounds, least, k=4, folder=tmp_path / "run")
    assert wrapped.selector.counts.selected.sum() == 24
    assert len(replay(tmp_path / "run", function=least)) == 6


class LeastAsked:
    """A function that is an object, without a name of its own."""

    def __call__(self, table: Any, k: int) -> Any:
        return np.argsort(table["selected"], kind="stable")[:k]


def last(table: Any, k: int, *, first: int) -> Any:
    return np.arange(len(table["selected"]))[-k - first :][:k]


@pytest.mark.parametrize("make", [LeastAsked, lambda: functools.partial(last, first=1)])
def test_functions_without_a_name_are_passed_again_too(make: Any, tmp_path: Path) -> None:
    for rounds in (3, 6):
        weighed = functools.partial(np.full_like, fill_value=0.5)
        terms = {"k": 4, "late": "merge", "staleness": weighed, "deadline": 1.5, "folder": tmp_path / "run"}
        wrapped = run(FakeGrid(NODES, behaving(train)), rounds, make(), **terms)
    assert wrapped.round == 6
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert saved["staleness"] == "partial"
    assert saved["selector"]["settings"] == {"function": type(make()).__name__}
    assert len(replay(tmp_path / "run", function=make())) == 6


def test_checkpoints_now_and_then(tmp_path: Path) -> None:
    class StopHereError(Exception):
        pass

    def evaluate(number: int, arrays: Any) -> None:
        if number == 8:
            raise StopHereError

    grid = FakeGrid(NODES, behaving(train))
    wrapped = selecting(grid, "random", k=2, folder=tmp_path / "run", save_every=3)
    with pytest.raises(StopHereError):
        wrapped.start(grid=grid, initial_arrays=model(), num_rounds=9, evaluate_fn=evaluate)
    again = selecting(grid, "random", k=2, folder=tmp_path / "run", save_every=3)
    seen: list[int] = []
    again.start(grid=grid, initial_arrays=model(), num_rounds=7, evaluate_fn=lambda number, arrays: seen.append(number))
    assert seen == [7]


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def test_disk_use_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from enlist.flower.saving import decisions as replaying

    monkeypatch.setattr(replaying, "LONGEST_SEGMENT", 5_000)
    folder = tmp_path / "run"
    sizes = []
    for rounds in (10, 30):
        federation(folder, rounds)
        others = [path for path in files(folder) if path.suffix != ".csv"]
        sizes.append(sum(path.stat().st_size for path in others))
        assert len(list((folder / "checkpoints").iterdir())) == 1
        assert len(list((folder / "decisions").iterdir())) <= 2
    assert sizes[1] < sizes[0] + 40_000
    assert 2 <= len(replay(folder)) < 30
    per_row = (folder / "participations.csv").stat().st_size / 120
    assert per_row < 150


def test_the_time_goes_on(tmp_path: Path) -> None:
    grid = FakeGrid(NODES, behaving(train))
    folder = tmp_path / "run"
    for rounds in (2, 4):
        federation(folder, rounds, grid)
        grid.clock.sleep(1000.0)
    starts = read_run(folder).rounds["start"]
    assert (np.diff(starts) > 0).all()
    assert starts[2] > 1000.0


def test_a_clock_that_is_set_back_does_not_turn_time_around(tmp_path: Path) -> None:
    grid = FakeGrid(NODES, behaving(train))
    wrapped = selecting(grid, "refl", k=2, folder=tmp_path / "run")
    honest = grid.clock.time
    grid.clock.time = lambda: honest() - (5000.0 if grid.clock.now > 5.0 else 0.0)  # type: ignore[method-assign]
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=8)
    assert (np.diff(read_run(tmp_path / "run").rounds["start"]) >= 0).all()


def large(kind: np.dtype[Any], size: int) -> ArrayRecord:
    return ArrayRecord({"weight": Array(np.linspace(0.0, 1.0, size).astype(kind))})


@pytest.mark.parametrize("make", MOMENTS)
def test_a_checkpoint_is_at_most_three_times_the_model(make: Any, tmp_path: Path) -> None:
    def noisy(message: Message) -> FakeReply:
        content = reply(message, 0.0)
        sent = message.content["arrays"]["weight"].numpy()
        step = (0.01 * node_of(message) * np.cos(np.arange(len(sent)))).astype(sent.dtype)
        content["arrays"] = ArrayRecord({"weight": Array(sent + step)})
        return FakeReply(1.0, content)

    def go(folder: Path, *parts: int) -> Any:
        for rounds in parts:
            grid = FakeGrid(NODES, behaving(noisy))
            wrapped = selecting(grid, "random", strategy=make(), k=4, folder=folder)
            result = wrapped.start(grid=grid, initial_arrays=large(np.dtype(np.float32), 100_000), num_rounds=rounds)
        return result.arrays

    first = go(tmp_path / "parts", 2, 4)
    [checkpoint] = (tmp_path / "parts" / "checkpoints").iterdir()
    size = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
    assert size < 3.1 * 4 * 100_000
    assert first["weight"].dtype == "float32", "the type that it began with"
    whole = go(tmp_path / "whole", 4)
    assert list(first) == list(whole)
    np.testing.assert_array_equal(first["weight"].numpy(), whole["weight"].numpy())


def test_a_model_of_double_precision_stays_one(tmp_path: Path) -> None:
    grid = FakeGrid(NODES, behaving(train))
    wrapped = run(grid, 2, "random", strategy=FedAdam(fraction_evaluate=0.0), k=4)
    assert {array.dtype for array in wrapped.result.arrays.values()} == {"float64"}  # type: ignore[attr-defined]


def test_a_model_sent_in_half_precision_learns_in_that_of_the_replies() -> None:
    def single(message: Message) -> FakeReply:
        content = reply(message, 0.0)
        sent = message.content["arrays"]["0"].numpy()
        content["arrays"] = ArrayRecord([sent.astype(np.float32) + np.float32(1e-4)])
        return FakeReply(1.0, content)

    grid = FakeGrid(NODES, behaving(single))
    wrapped = selecting(grid, k=4)
    half = ArrayRecord([np.ones(2, np.float16)])
    arrays = wrapped.start(grid=grid, initial_arrays=half, num_rounds=10).arrays
    assert arrays["0"].dtype == "float32"
    np.testing.assert_allclose(arrays["0"].numpy(), 1.001, rtol=1e-6)
