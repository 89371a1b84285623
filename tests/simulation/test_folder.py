"""The run folder: one writer, nothing overwritten, torn and lost rows, full disks, damaged checkpoints."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import enlist
from enlist.errors import EnlistError, InputError, StateFileError
from enlist.runs import RunFolder, folder
from enlist.simulation import Recorder, Simulation
from tests.simulation.simulation_helpers import SAVING, Kill, break_at, checkpoint, config, continue_run

CONFIG = {"seed": 1, "rounds": {"k": 3, "deadline": {"kind": "none"}}}
ROW = {"round": 1, "start": 0.0, "accuracy": math.nan, "deadline": math.inf}


def opened(path: Path, resume: bool = False, **values: Any) -> RunFolder:
    return RunFolder.open(path, {**CONFIG, **values}, resume=resume)


def save(run: RunFolder, number: int, value: float = 1.0) -> None:
    selector = enlist.create("oort", enlist.Clients(count=4), seed=1)
    tensors = {"version/0/parameters": np.full(3, value, np.float32)}
    weights = {"model": {"weight": np.full((2, 2), value, np.float32)}, "tensors": tensors}
    run.save(number, {"now": value}, {"queue/time": np.arange(3.0)}, weights, {"selector": selector})


def test_a_new_folder_holds_configuration_and_environment(tmp_path: Path) -> None:
    with opened(tmp_path / "a" / "b") as run:
        run.append("rounds.csv", [ROW, {**ROW, "round": 2, "accuracy": 0.1 + 0.2}])
        run.append("participations.csv", [{"round": 1, "outcome": "late", "censored": True}])
        run.write_clients({"client": np.arange(2), "quality": np.array([0.5, math.nan])})
        run.note_wall(1, 0.25)
    path = tmp_path / "a" / "b"
    assert json.loads((path / "config.json").read_text()) == CONFIG
    assert {"torch", "numpy", "enlist"} <= set(json.loads((path / "environment.json").read_text())["packages"])
    lines = (path / "rounds.csv").read_text().splitlines()
    assert lines[0].startswith(
        "round,start,duration,end,available,selected,completed,late,dropped,failed,arrived,deadline,accuracy"
    )
    assert lines[1].split(",")[:2] == ["1", "0.0"]
    assert lines[1].split(",")[11:13] == ["inf", ""]
    assert float(lines[2].split(",")[12]) == 0.1 + 0.2
    assert (path / "participations.csv").read_text().splitlines()[1].startswith("1,,,late,,1,")
    assert (path / "clients.csv").read_text() == "client,quality\n0,0.5\n1,\n"
    assert (path / "wall.csv").read_text() == "round,seconds,selecting\n1,0.250000,\n"


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with (
        opened(tmp_path),
        pytest.raises(InputError, match="is being written by another process; wait for it, or end it"),
    ):
        opened(tmp_path, resume=True)
    opened(tmp_path, resume=True).close()


def test_a_folder_in_use_by_another_process_is_refused_until_it_ends(tmp_path: Path) -> None:
    script = (
        "import json, sys\nfrom enlist.runs.folder import RunFolder\n"
        "run = RunFolder.open(sys.argv[1], json.loads(sys.argv[2]), resume=True)\n"
        "print('open', flush=True)\nsys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path), json.dumps(CONFIG)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(InputError, match="another process"):
            opened(tmp_path, resume=True)
        other.kill()
        other.wait()
    opened(tmp_path, resume=True).close()


def test_foreign_folders_and_finished_runs_are_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(InputError, match="is not empty and holds no run; name a new folder"):
            opened(foreign, resume)
    assert (foreign / "thesis.txt").read_text() == "mine"
    opened(tmp_path / "run").close()
    with pytest.raises(InputError, match="already holds a run; continue it with --resume, or name a new folder"):
        opened(tmp_path / "run")
    empty = tmp_path / "empty"
    empty.mkdir()
    opened(empty).close()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": 2}, "holds a run with seed = 1, but 2 was asked for; resume it with its own configuration"),
        ({"rounds": {"k": 4, "deadline": {"kind": "none"}}}, r"rounds\.k = 3, but 4"),
        (
            {"rounds": {"k": 3, "deadline": {"kind": "fixed", "seconds": 1}}},
            r"rounds\.deadline\.kind = 'none', but 'fixed'",
        ),
        ({"rounds": {"k": 3}}, r"rounds\.deadline"),
        ({"more": [1, 2]}, r"more = None, but \[1, 2\]"),
    ],
)
def test_another_configuration_is_refused(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    opened(tmp_path).close()
    with pytest.raises(InputError, match=message):
        opened(tmp_path, resume=True, **values)


@pytest.mark.parametrize("step", ["environment.json", "config.json"])
def test_a_kill_while_the_folder_is_made_does_not_spoil_it(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    write = folder.write_document

    def interrupted(file: Path, document: Any) -> None:
        if file.name == step:
            raise Kill
        write(file, document)

    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_document", interrupted)
        with pytest.raises(Kill):
            opened(path)
    opened(path, resume=True).close()
    assert json.loads((path / "config.json").read_text()) == CONFIG


def test_rows_beyond_the_checkpoint_and_torn_lines_are_cut(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        assert run.load() is None
        run.append("rounds.csv", [ROW])
        run.append("participations.csv", [{"round": 1}])
        save(run, 1)
        kept = (tmp_path / "rounds.csv").read_bytes()
        run.append("rounds.csv", [{**ROW, "round": 2}])
    with open(tmp_path / "rounds.csv", "a") as file:
        file.write("3,17.25,0.0")
    with opened(tmp_path, resume=True) as run:
        found = run.load()
        assert found is not None
        assert found.header["round"] == 1
        assert (tmp_path / "rounds.csv").read_bytes() == kept
        run.append("rounds.csv", [{**ROW, "round": 2}])
    assert [line.split(",")[0] for line in (tmp_path / "rounds.csv").read_text().splitlines()] == ["round", "1", "2"]


def test_without_a_checkpoint_the_tables_begin_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.load()
        run.append("rounds.csv", [ROW, ROW])
    with opened(tmp_path, resume=True) as run:
        assert run.load() is None
        run.append("rounds.csv", [ROW])
    assert len((tmp_path / "rounds.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize("damage", ["shorter", "gone"])
def test_lost_rows_are_an_error(tmp_path: Path, damage: str) -> None:
    with opened(tmp_path) as run:
        run.load()
        run.append("rounds.csv", [ROW, ROW])
        run.append("participations.csv", [{"round": 1}])
        save(run, 2)
    table = tmp_path / "rounds.csv"
    if damage == "gone":
        table.unlink()
    else:
        os.truncate(table, table.stat().st_size - 5)
    with (
        opened(tmp_path, resume=True) as run,
        pytest.raises(StateFileError, match=r"rounds\.csv has \d+ bytes, .* rows were lost"),
    ):
        run.load()


def test_checkpoints_replace_each_other_and_load_what_was_saved(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.load()
        for number in (1, 2, 5, 5, 5):
            save(run, number, value=float(number))
            assert [path.name[:8] for path in (tmp_path / "checkpoints").iterdir()] == [f"{number:08d}"]
    with opened(tmp_path, resume=True) as run:
        found = run.load()
    assert found is not None
    assert (found.header["round"], found.header["now"]) == (5, 5.0)
    assert found.arrays["queue/time"].tolist() == [0.0, 1.0, 2.0]
    assert found.weights["model"]["weight"].tolist() == [[5.0, 5.0], [5.0, 5.0]]
    assert found.weights["tensors"]["version/0/parameters"].tolist() == [5.0] * 3
    assert enlist.load(found.folder / "selector").name == "oort"


@pytest.mark.parametrize("again", [False, True], ids=["next round", "same round"])
@pytest.mark.parametrize("step", SAVING)
def test_a_full_disk_leaves_a_good_checkpoint(
    tmp_path: Path, step: str, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the checkpoint of the last round is made again at the end of the run."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with opened(tmp_path) as run:
        run.load()
        save(run, 3, value=3.0)
        with monkeypatch.context() as patch:
            break_at(step, full, patch)
            with pytest.raises(StateFileError, match=r"No space left on device.*make room, then continue"):
                save(run, 3 if again else 4, value=4.0)
    with opened(tmp_path, resume=True) as run:
        found = run.load()
    assert found is not None, "the last good checkpoint is gone"
    assert found.weights["model"]["weight"][0, 0] == found.header["now"]
    assert found.header["now"] == (4.0 if step == "after rename" else 3.0)


def test_a_full_disk_while_a_table_is_written_is_a_clear_error(tmp_path: Path) -> None:
    """/dev/full answers every write with ENOSPC; the buffered rows fail again when the file is closed."""
    run = opened(tmp_path)
    run.tables["rounds.csv"]._file = open("/dev/full", "w")  # noqa: SIM115

    def record() -> None:
        with run:
            run.append("rounds.csv", [ROW])

    with pytest.raises(
        StateFileError, match=r"No space left on device\. The last good checkpoint is intact; make room"
    ):
        record()
    opened(tmp_path, resume=True).close()  # the lock was released


def test_a_run_on_a_full_disk_ends_with_a_clear_error_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config()
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    continue_run(whole, settings)
    append, calls = RunFolder.append, iter(range(100))

    def full(self: RunFolder, table: str, rows: Any) -> None:
        if next(calls) == 5:
            with self.writing():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, table, rows)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", full)
        with pytest.raises(StateFileError, match="make room, then continue with --resume"):
            continue_run(cut, settings)
    continue_run(cut, settings)
    assert (cut / "rounds.csv").read_bytes() == (whole / "rounds.csv").read_bytes()


def test_a_folder_that_cannot_be_made_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"cannot be written \(Not a directory\); name another folder"):
        opened(tmp_path / "file" / "run")
    with pytest.raises(InputError, match="cannot be written"):
        opened(tmp_path / "file")

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(InputError, match=r"cannot be written \(Permission denied\)"):
        opened(tmp_path / "run")


@pytest.mark.parametrize(
    "file", ["model.safetensors", "tensors.safetensors", "state/state.json", "selector/state.json", "state/arrays"]
)
@pytest.mark.parametrize("damage", ["cut", "altered", "altered at the end", "gone"])
def test_a_damaged_checkpoint_is_reported(tmp_path: Path, file: str, damage: str) -> None:
    settings = config()
    continue_run(tmp_path, settings)
    inner = checkpoint(tmp_path)
    (path,) = inner.glob("state/arrays*") if file == "state/arrays" else [inner / file]
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) - 6 if damage == "altered at the end" else 4
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])
    with pytest.raises(StateFileError, match=str(path.parent if "safetensors" in file else path.parent.name)):
        continue_run(tmp_path, settings)


def test_a_damaged_configuration_is_reported(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "config.json").write_text('{"seed": 1,')
    with pytest.raises(EnlistError, match=r"config\.json"):
        opened(tmp_path, resume=True)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    opened(tmp_path, resume=True).close()  # the lock is free again


def test_a_recorder_saves_the_end_and_says_so(tmp_path: Path) -> None:
    settings = config()
    with RunFolder.open(tmp_path, settings.model_dump(mode="json"), resume=False) as run:
        recorder = Recorder(run)
        simulation = Simulation(settings, callbacks=[recorder])
        assert recorder.restore(simulation) is False
        result = simulation.run()
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(json.dumps(result))
    assert result["status"] == "finished"
    assert checkpoint(tmp_path).name == "00000004"


def test_a_stopped_run_has_no_result_yet(tmp_path: Path) -> None:
    settings = config()
    with RunFolder.open(tmp_path, settings.model_dump(mode="json"), resume=False) as run:
        recorder = Recorder(run)
        simulation = Simulation(settings, callbacks=[recorder])
        recorder.restore(simulation)
        simulation.stopping = True
        assert simulation.run()["status"] == "stopped"
    assert not (tmp_path / "result.json").exists()
    continue_run(tmp_path, settings)
    assert json.loads((tmp_path / "result.json").read_text())["rounds"] == 4
