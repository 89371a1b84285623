"""A run folder that was received, edited or damaged ends as if untouched, or is refused; nothing else changes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist import storage
from enlist._internal import files
from enlist.errors import EnlistError, InputError, StateFileError
from enlist.runs import RunFolder, read_run
from enlist.simulation import Callback, Config, load, read, simulate
from enlist.simulation.comparison import Comparison
from enlist.simulation.jobs import JobSettings
from tests.simulation.simulation_helpers import Kill, checkpoint, config, contents, continue_run

SETTINGS = config(data={"clients": 8}, rounds={"rounds": 4, "k": 3}, selector="oort")
NUMBER = "00000002"
"""The checkpoint of the run that was killed."""
TOP = ("lock", "config.json", "environment.json", "clients.csv", "rounds.csv", "participations.csv", "wall.csv")
INNER = ("model.safetensors", "tensors.safetensors", "state/state.json", "state/arrays", "selector/state.json")
KEPT = ("config.json", "clients.csv", "rounds.csv", "participations.csv")
FINISHED = ("result.json", "digests.json", *TOP)


class Assassin(Callback):
    def on_round(self, simulation: Any, record: Any) -> None:
        if record.row["round"] == 2:
            raise Kill


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody touched."""
    path = tmp_path_factory.mktemp("whole") / "run"
    continue_run(path, SETTINGS)
    return path


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, killed after its second round."""
    path = tmp_path_factory.mktemp("half") / "run"
    with pytest.raises(Kill):
        continue_run(path, SETTINGS, Assassin())
    return path


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Whatever waits for a pipe fails instead."""

    def stop(*_: Any) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything in a folder, links as what they say."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def flipped(at: float) -> Callable[[Path, Path], None]:
    def flip(path: Path, outside: Path) -> None:
        content = bytearray(path.read_bytes())
        if content:
            content[min(int(at * len(content)), len(content) - 1)] ^= 0x01
        path.write_bytes(bytes(content))

    return flip


def linked(path: Path, outside: Path) -> None:
    """The file lies elsewhere, and a link to it is in its place: following it would work, and change the other."""
    (outside / "target").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(outside / "target")


def dangling(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside / "made by following")


def hard_linked(path: Path, outside: Path) -> None:
    os.link(path, outside / "target")


def truncated(path: Path, outside: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def row_deleted(path: Path, outside: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1] + lines[2:]))


def row_repeated(path: Path, outside: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *lines[-1:], *lines[2:]]))


def digit_changed(path: Path, outside: Path) -> None:
    content = path.read_bytes()
    found = list(re.finditer(rb"[0-9]", content))
    if found:
        place = found[len(found) // 2].start()
        other = b"%d" % ((content[place] - ord("0") + 1) % 10)
        path.write_bytes(content[:place] + other + content[place + 1 :])


def key_changed(path: Path, outside: Path) -> None:
    with contextlib.suppress(ValueError):
        document = json.loads(path.read_bytes())
        name = sorted(document)[0]
        document[name] = None if isinstance(document[name], dict | str) else "other"
        path.write_text(json.dumps(document, indent=1) + "\n")


def reformatted(path: Path, outside: Path) -> None:
    with contextlib.suppress(ValueError):
        path.write_text(json.dumps(json.loads(path.read_bytes())))


def emptied(path: Path, outside: Path) -> None:
    path.write_bytes(b"")


def as_folder(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()


def as_pipe(path: Path, outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


MUTATIONS: dict[str, Callable[[Path, Path], None]] = {
    "link": linked,
    "dangling link": dangling,
    "hard link": hard_linked,
    "first byte": flipped(0.0),
    "some byte": flipped(0.37),
    "last byte": flipped(1.0),
    "truncated": truncated,
    "row deleted": row_deleted,
    "row repeated": row_repeated,
    "digit": digit_changed,
    "key": key_changed,
    "reformatted": reformatted,
    "empty": emptied,
    "folder": as_folder,
    "pipe": as_pipe,
}


def named(folder: Path, name: str) -> Path:
    if name not in INNER:
        return folder / name
    inner = checkpoint(folder)
    (path,) = inner.glob(f"{name}*") if name == "state/arrays" else [inner / name]
    return path


def check(folder: Path, outside: Path, whole: Path, resume: Callable[[], None]) -> str:
    """Resume: it ends like the whole run, or is refused; nothing outside changes. Returns what was said."""
    before, said = snapshot(outside), ""
    with limit(60):
        try:
            resume()
        except EnlistError as error:
            said = str(error)
    assert snapshot(outside) == before
    if not said:
        assert contents(folder) == contents(whole)
    return said


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("name", TOP + INNER)
def test_a_killed_run_that_was_tampered_with(name: str, mutation: str, half: Path, whole: Path, tmp_path: Path) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(half, folder)
    outside.mkdir()
    MUTATIONS[mutation](named(folder, name), outside)
    changed = snapshot(folder) != snapshot(half)
    said = check(folder, outside, whole, lambda: continue_run(folder, SETTINGS))
    if "link" in mutation and (mutation != "hard link" or name in ("rounds.csv", "participations.csv", "wall.csv")):
        assert Path(name).name.removesuffix("arrays") in said
        assert "link" in said
    if mutation in ("folder", "pipe"):
        assert said
    if (
        name in ("rounds.csv", "participations.csv", "clients.csv", "config.json")
        and changed
        and mutation != "row repeated"
    ):
        assert Path(name).name in said or "holds a run with" in said


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("name", FINISHED)
def test_a_finished_run_that_was_tampered_with(name: str, mutation: str, whole: Path, tmp_path: Path) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(whole, folder)
    outside.mkdir()
    MUTATIONS[mutation](folder / name, outside)

    def resume() -> None:
        """As `enlist run --resume` does it: a finished run is not run again."""
        with RunFolder.open(folder, SETTINGS.model_dump(mode="json"), resume=True) as opened:
            assert opened.finished()

    check(folder, outside, whole, resume)


def test_the_same_in_a_comparison(whole: Path, tmp_path: Path) -> None:
    comparison = Comparison(config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}), ("random",), seeds=1)
    folder = tmp_path / "comparison"
    assert not comparison.run(folder).failed
    run = folder / "runs" / "random" / "0"
    kept = (run / "rounds.csv").read_bytes()
    digit_changed(run / "rounds.csv", tmp_path)
    assert "rounds.csv was changed after the run was finished" in comparison.run(folder).failed["random", 0]
    (run / "rounds.csv").write_bytes(kept)
    assert not comparison.run(folder).failed
    header = json.loads((folder / "comparison.json").read_text())
    (folder / "comparison.json").write_text(json.dumps({**header, "seeds": 7}))
    with pytest.raises(StateFileError, match=r"comparison\.json was changed"):
        comparison.run(folder)
    assert not comparison.run(folder, how=JobSettings(accept_changes=True)).failed


@pytest.mark.parametrize("part", ["runs", "runs/random", "runs/random/0"])
def test_a_comparison_does_not_follow_links(part: str, tmp_path: Path) -> None:
    comparison = Comparison(config(data={"clients": 8}, rounds={"rounds": 1, "k": 3}), ("random",), seeds=1)
    folder, outside = tmp_path / "comparison", tmp_path / "outside"
    outside.mkdir()
    comparison.run(folder)
    shutil.rmtree(folder / part)
    (folder / part).symlink_to(outside, target_is_directory=True)
    with contextlib.suppress(StateFileError):
        assert "is a symbolic link" in comparison.run(folder).failed["random", 0]
    assert not list(outside.iterdir())


def test_pruning_removes_checkpoints_and_nothing_else(half: Path, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    places = folder / "checkpoints"
    for name in ("00000003-best", "00000099-best", "9", "00000099.old", "notes", "0000009٩"):
        shutil.copytree(places / NUMBER, places / name)
    (places / "00000001.partial").mkdir()
    (places / "thesis.txt").write_text("mine")
    continue_run(folder, SETTINGS)
    assert (folder / "rounds.csv").read_bytes() == (whole / "rounds.csv").read_bytes()
    left = {path.name for path in places.iterdir()}
    mine = {"00000003-best", "00000099-best", "9", "00000099.old", "notes", "0000009٩", "thesis.txt"}
    assert left == {"00000004", *mine}


@pytest.mark.parametrize("target", ["..", "../outside"])
def test_a_link_as_the_folder_of_checkpoints_deletes_nobody(target: str, half: Path, tmp_path: Path) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(half, folder)
    for name in ("00000001", "00000007"):
        (outside / name).mkdir(parents=True)
        (outside / name / "thesis.txt").write_text("mine")
        shutil.copytree(outside / name, tmp_path / name)
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoints").symlink_to(target, target_is_directory=True)
    before = snapshot(tmp_path)
    with pytest.raises(StateFileError, match="checkpoints is a symbolic link, where a folder belongs"):
        continue_run(folder, SETTINGS)
    assert {name: value for name, value in snapshot(tmp_path).items() if name in before} == before


@pytest.mark.parametrize("name", [NUMBER, "00000001", "00000009.partial", f"{NUMBER}/selector", f"{NUMBER}/more"])
def test_links_among_the_checkpoints_are_refused(name: str, half: Path, tmp_path: Path) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(half, folder)
    shutil.copytree(half / "checkpoints" / NUMBER, outside)
    path = folder / "checkpoints" / name
    if path.exists():
        shutil.rmtree(path)
    path.symlink_to(outside, target_is_directory=True)
    before = snapshot(outside)
    with pytest.raises(StateFileError, match=f"{name} is a symbolic link"):
        continue_run(folder, SETTINGS)
    assert snapshot(outside) == before


def test_the_folder_itself_may_be_reached_through_a_link(half: Path, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(half, tmp_path / "run")
    (tmp_path / "link").symlink_to("run", target_is_directory=True)
    continue_run(tmp_path / "link", SETTINGS)
    assert contents(tmp_path / "run") == contents(whole)


def test_temporary_names_are_not_followed(tmp_path: Path) -> None:
    """Somebody who guesses the process number puts a link where a file is written before it is renamed."""
    (tmp_path / "outside").write_text("mine")
    (tmp_path / f".result.json.{os.getpid()}").symlink_to("outside")
    storage.replace(tmp_path / "result.json", b"{}")
    assert (tmp_path / "outside").read_text() == "mine"
    assert (tmp_path / "result.json").read_text() == "{}"


def test_a_changed_configuration_is_named_by_its_key(half: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    values = json.loads((folder / "config.json").read_text())
    values["rounds"]["rounds"] = 5
    (folder / "config.json").write_text(json.dumps(values, indent=1) + "\n")
    with pytest.raises(StateFileError, match=r"config\.json was changed .*: rounds\.rounds is 5 and was 4; restore"):
        continue_run(folder, load(folder / "config.json"))
    with pytest.raises(InputError, match=r"rounds\.rounds = 5, but 4 was asked for"):
        continue_run(folder, SETTINGS)


def accepting(folder: Path, settings: Config) -> None:
    from enlist.simulation.jobs import run_in

    run_in(folder, settings, accept_changes=True)


def test_changes_can_be_accepted_on_purpose(half: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    values = json.loads((folder / "config.json").read_text())
    values["rounds"]["rounds"] = 5
    values["evaluation"]["every"] = 1  # more rounds alone would extend the run
    (folder / "config.json").write_text(json.dumps(values, indent=1) + "\n")
    row_deleted(folder / "rounds.csv", tmp_path)
    with open(folder / "participations.csv", "a") as file:
        file.write("3,3,1,completed\n3,3,2,com")
    digit_changed(folder / "clients.csv", tmp_path)
    clients = (folder / "clients.csv").read_bytes()
    accepting(folder, load(folder / "config.json"))
    told = caplog.text
    for part in ("rounds.rounds is 5 and was 4", "rounds.csv has", "clients.csv was changed", "accepted as it is"):
        assert part in told
    rounds = [line.split(",")[0] for line in (folder / "rounds.csv").read_text().splitlines()]
    assert rounds == ["round", "2", "3", "4", "5"]
    assert "com\n" not in (folder / "participations.csv").read_text()
    assert (folder / "clients.csv").read_bytes() == clients
    continue_run(folder, load(folder / "config.json"))  # what was accepted is not asked about again


def test_an_edited_table_keeps_its_whole_rows_when_that_is_accepted(half: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    text = (folder / "rounds.csv").read_text()
    longer = text.replace("\n1,0.0,", "\n1,0.000000000000,", 1)
    assert longer != text
    (folder / "rounds.csv").write_text(longer)
    accepting(folder, SETTINGS)
    lines = (folder / "rounds.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["round", "1", "2", "3", "4"]
    assert lines[1].startswith("1,0.000000000000,")


def test_a_checkpoint_of_version_0_1_is_still_read(half: Path, whole: Path, tmp_path: Path) -> None:
    """It has no digests; tables and configuration are taken as they are, as that version did."""
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    state = folder / "checkpoints" / NUMBER / "state"
    header, arrays = storage.read(state, "run")
    del header["folder"]
    storage.write(state, "run", header, arrays)
    continue_run(folder, SETTINGS)
    for name in ("rounds.csv", "participations.csv", "clients.csv", "result.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    (folder / "digests.json").unlink()
    with RunFolder.open(folder, SETTINGS.model_dump(mode="json"), resume=True) as opened:
        assert opened.finished()


@pytest.mark.parametrize("name", ["../../outside.safetensors", "/etc/hostname", "state/state.json", "none"])
def test_a_checkpoint_cannot_name_files_elsewhere(name: str, half: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    state = folder / "checkpoints" / NUMBER / "state"
    header, arrays = storage.read(state, "run")
    header["checksums"] = {name: "0" * 64}
    storage.write(state, "run", header, arrays)
    with pytest.raises(StateFileError, match="truncated or was altered"):
        continue_run(folder, SETTINGS)


@pytest.mark.parametrize("change", [{"round": None}, {"tables": {"rounds.csv": -1}}, {"tables": 3}, {"checksums": []}])
def test_a_checkpoint_that_says_nonsense_is_refused(change: Any, half: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    state = folder / "checkpoints" / NUMBER / "state"
    header, arrays = storage.read(state, "run")
    storage.write(state, "run", {**header, **change}, arrays)
    with pytest.raises(EnlistError):
        continue_run(folder, SETTINGS)


def test_a_report_reads_no_pipes_and_follows_no_links(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    as_pipe(folder / "rounds.csv", tmp_path)
    with limit(20), pytest.raises(StateFileError, match=r"rounds\.csv is a named pipe, where a plain file belongs"):
        read_run(folder)
    (folder / "rounds.csv").unlink()
    (folder / "rounds.csv").symlink_to(whole / "rounds.csv")
    with pytest.raises(StateFileError, match=r"rounds\.csv is a symbolic link"):
        read_run(folder)


@pytest.mark.parametrize("name", ["report", "report/charts", "report/report.html", "report/scores.json"])
def test_a_report_is_not_written_through_links(name: str, whole: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from enlist.cli.app import app

    folder, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(whole, folder)
    outside.mkdir()
    (outside / "file").write_text("mine")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(outside / "file" if "." in name else outside)
    before = snapshot(outside)
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert isinstance(done.exception, StateFileError)
    assert f"{name} is a symbolic link" in str(done.exception)
    assert snapshot(outside) == before


def test_what_a_folder_is_removed_by(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "thesis.txt").write_text("mine")
    (tmp_path / "link").symlink_to("outside", target_is_directory=True)
    with pytest.raises(StateFileError, match="link is a symbolic link"):
        files.remove_folder(tmp_path / "link")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "link").symlink_to("../outside", target_is_directory=True)
    files.remove_folder(tmp_path / "inner")
    assert (tmp_path / "outside" / "thesis.txt").read_text() == "mine"


def test_digests_are_of_what_the_tables_hold(tmp_path: Path) -> None:
    """Kept while rows are appended, not read back; equal to those of the files all the same."""
    import hashlib

    with RunFolder.open(tmp_path, {"seed": 1}, resume=False) as run:
        run.load()
        run.write_clients({"client": np.arange(3)})
        for number in range(1, 4):
            run.append("rounds.csv", [{"round": number, "accuracy": number / 7}])
            run.append("participations.csv", [{"round": number, "reason": 'quoted "ü", too\n'}] * 2)
            run.save(number, {}, {}, {}, {})
        found = run.load()
    assert found is not None
    assert set(found.digests) == {"config.json", "clients.csv", "rounds.csv", "participations.csv"}
    for name, digest in found.digests.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_model_is_read_from_plain_files_only(kind: str, tmp_path: Path) -> None:
    run = simulate(Config(data={"clients": 6}, rounds={"rounds": 1, "k": 2}), folder=tmp_path / "run")
    assert run.model is not None
    (weights,) = (tmp_path / "run" / "checkpoints").glob("*/model.safetensors")
    outside = tmp_path / "outside.safetensors"
    weights.rename(outside)
    if kind == "link":
        weights.symlink_to(outside)
    else:
        os.mkfifo(weights)
    with pytest.raises(StateFileError, match="a symbolic link" if kind == "link" else "a named pipe"):
        _ = read(tmp_path / "run").model
