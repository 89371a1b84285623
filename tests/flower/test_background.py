"""Checkpoints are written while the next round goes on; a run that is killed meanwhile ends like one that was not."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

import enlist
from enlist import storage
from enlist.errors import StateFileError
from enlist.flower import Selecting
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.flower.saving import decisions as replaying
from enlist.runs import checkpoints
from enlist.runs import folder as folders
from enlist.runs.background import Background
from tests.flower.flower_helpers import behaving, listening, model, reply, run, selecting
from tests.flower.test_resuming import NODES, federation, same, train


class Disk:
    """A disk whose `step` waits, fails or kills in the round that was named, in whichever thread it is used."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, act: Callable[[], Any], step: str = "save_file") -> None:
        self.number, self.act, self.threads = number, act, set[int]()
        owner: Any = folders.safetensors.numpy if step == "save_file" else folders.os
        self.original = getattr(owner, step)
        patch.setattr(owner, step, self.used)

    def used(self, *arguments: Any, **named: Any) -> Any:
        path = next((Path(one) for one in arguments if isinstance(one, str | os.PathLike)), Path())
        if path.parts[-2:-1] == (f"{self.number:08d}.partial",) or path.name == f"{self.number:08d}.partial":
            self.threads.add(threading.get_ident())
            self.act()
        return self.original(*arguments, **named)


def rounds_on_disk(folder: Path) -> list[str]:
    return [path.name for path in checkpoints.written(folder / "checkpoints", partial=False)]


def test_the_next_round_does_not_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The disk is stuck with the checkpoint of round 2 until nodes were asked in round 3."""
    going = threading.Event()
    disk = Disk(monkeypatch, 2, lambda: going.wait(60.0) or pytest.fail("round 3 never began"))
    found: list[list[str]] = []

    def answer(message: Message) -> FakeReply:
        if int(message.content["config"]["server-round"]) == 3 and not going.is_set():  # type: ignore[arg-type]
            found.append(rounds_on_disk(tmp_path / "run"))
            going.set()
        return train(message)

    whole = federation(tmp_path / "run", 6, FakeGrid(NODES, behaving(answer)))
    assert found == [["00000001"]], "the checkpoint before stays until the new one is whole"
    assert disk.threads.isdisjoint({threading.get_ident()})
    assert rounds_on_disk(tmp_path / "run") == ["00000006"]
    same(whole, federation(tmp_path / "plain", 6), tmp_path / "run", tmp_path / "plain")


def test_a_slow_disk_is_waited_for_by_the_next_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Never two at a time, so that memory holds one model more at most; the last one is waited for."""
    busy, most = 0, 0

    def slow() -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        time.sleep(0.05)
        busy -= 1

    for number in range(1, 7):
        Disk(monkeypatch, number, slow)
    federation(tmp_path / "run", 6)
    assert (most, rounds_on_disk(tmp_path / "run")) == (1, ["00000006"])


def killed(act: Callable[[pytest.MonkeyPatch], Any], folder: Path, **terms: Any) -> None:
    """Run a federation in a process of its own, which is to die at once."""

    def play() -> None:
        with pytest.MonkeyPatch.context() as patch:
            act(patch)
            federation(folder, 6, **terms)

    process = multiprocessing.get_context("fork").Process(target=play)
    process.start()
    process.join(60.0)
    assert process.exitcode == 9


def die() -> None:
    os._exit(9)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Selecting, Path]:
    folder = tmp_path_factory.mktemp("straight") / "run"
    return federation(folder, 6), folder


@pytest.mark.parametrize("step", ["save_file", "rename", "fsync", "replace", "remove"])
def test_killed_while_a_checkpoint_is_written(step: str, straight: tuple[Selecting, Path], tmp_path: Path) -> None:
    def act(patch: pytest.MonkeyPatch) -> None:
        if step in ("save_file", "rename"):
            Disk(patch, 4, die, step)
            return
        owner, name = {
            "fsync": (folders, "_sync"),
            "replace": (storage, "replace"),
            "remove": (folders.files, "remove_folder"),
        }[step]
        original, calls = getattr(owner, name), []

        def dying(*arguments: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                calls.append(arguments)
            return os._exit(9) if len(calls) == 11 else original(*arguments)

        patch.setattr(owner, name, dying)

    killed(act, tmp_path / "run")
    assert len(rounds_on_disk(tmp_path / "run")) >= 1
    again = federation(tmp_path / "run", 6)
    same(again, straight[0], tmp_path / "run", straight[1])


def test_killed_in_the_next_round_before_the_checkpoint_is_whole(
    straight: tuple[Selecting, Path], tmp_path: Path
) -> None:
    """Rows and decisions of rounds 4 and 5 are there, but the last checkpoint is that of round 3."""

    def act(patch: pytest.MonkeyPatch) -> None:
        Disk(patch, 4, lambda: time.sleep(60.0))
        settle = Selecting._settle

        def dying(self: Selecting, metrics: Any) -> Any:
            counted = settle(self, metrics)
            return die() if self.round == 5 else counted

        patch.setattr(Selecting, "_settle", dying)

    killed(act, tmp_path / "run")
    assert rounds_on_disk(tmp_path / "run") == ["00000003"]
    assert len((tmp_path / "run" / "rounds.csv").read_text().splitlines()) == 6
    again = federation(tmp_path / "run", 6)
    same(again, straight[0], tmp_path / "run", straight[1])


def test_decisions_that_the_last_whole_checkpoint_refers_to_are_kept(tmp_path: Path) -> None:
    """With a new segment after every round, of which only two are kept."""

    def act(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(replaying, "LONGEST_SEGMENT", 0)
        Disk(patch, 4, lambda: (threading.Timer(0.5, die).start(), time.sleep(60.0)))

    killed(act, tmp_path / "run")
    position = checkpoints.last(tmp_path / "run").header["decisions"]
    assert position["segment"] == "00000003"
    assert (tmp_path / "run" / "decisions" / position["segment"] / "decisions.jsonl").exists()


def full() -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("number", [2, 6])
def test_an_error_of_writing_ends_the_run(number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As soon as it is known, not only when the next checkpoint is due, and also that of the last round."""
    third, jobs = threading.Event(), list[Any]()
    begin = Background.run

    def begun(self: Background, job: Any) -> None:
        begin(self, job)
        jobs.append(self._job)

    def on_round(result: Any) -> None:
        if result.number == 3:
            third.set()
            assert not concurrent.futures.wait(jobs, 60.0).not_done

    with monkeypatch.context() as patch:
        patch.setattr(Background, "run", begun)
        Disk(patch, number, lambda: (third.wait(60.0), full()))
        with pytest.raises(StateFileError, match=r"No space left on device.* The last good checkpoint is intact"):
            federation(tmp_path / "run", 6, save_every=2, on_round=on_round)
    assert not (tmp_path / "run" / "result.json").exists()
    assert len((tmp_path / "run" / "rounds.csv").read_text().splitlines()) - 1 == (3 if number == 2 else 6)
    assert federation(tmp_path / "run", 6, save_every=2).round == 6


def test_an_error_of_writing_is_told_beside_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def on_round(result: Any) -> None:
        if result.number == 3:
            raise ValueError("of the app")

    Disk(monkeypatch, 3, full)
    with listening(caplog) as lines, pytest.raises(ValueError, match="of the app") as found:
        federation(tmp_path / "run", 6, on_round=on_round)
    assert "No space left" in "".join(found.value.__notes__)
    assert [line for line in lines() if "the last checkpoint is lost as well: cannot write" in line]
    assert rounds_on_disk(tmp_path / "run") == ["00000002"]


def test_a_run_that_ends_with_an_error_has_its_last_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def on_round(result: Any) -> None:
        if result.number == 3:
            raise ValueError("of the app")

    Disk(monkeypatch, 3, lambda: time.sleep(0.3))
    with pytest.raises(ValueError, match="of the app"):
        federation(tmp_path / "run", 6, on_round=on_round)
    assert rounds_on_disk(tmp_path / "run") == ["00000003"]


def test_a_checkpoint_is_of_the_moment_at_which_it_was_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What changes in place while it is written (claims, counts, moments) does not get into it."""
    going = threading.Event()
    Disk(monkeypatch, 1, lambda: going.wait(60.0) or None)
    held: dict[str, Any] = {}

    def on_round(result: Any) -> None:
        wrapped = held["wrapped"]
        held["counts"] = wrapped.selector.counts.selected.copy()
        wrapped.selector.counts.selected += 100
        wrapped.federation.claims.latency += 100.0
        held["latency"] = wrapped.federation.claims.latency - 100.0
        going.set()
        raise KeyboardInterrupt

    grid = FakeGrid(NODES, behaving(lambda message: FakeReply(1.0, reply(message, loss_rms=1.0))))
    held["wrapped"] = selecting(grid, "oort", k=4, folder=tmp_path / "run", on_round=on_round)
    with pytest.raises(KeyboardInterrupt):
        held["wrapped"].start(grid=grid, initial_arrays=model(), num_rounds=3)
    saved = checkpoints.last(tmp_path / "run")
    np.testing.assert_array_equal(enlist.load(saved.folder / "selector").counts.selected, held["counts"])
    np.testing.assert_array_equal(saved.arrays["claims/latency"], held["latency"])


def test_without_a_folder_there_is_no_thread() -> None:
    before = threading.active_count()
    run(FakeGrid(NODES, behaving(train)), 2, k=4)
    assert threading.active_count() == before
