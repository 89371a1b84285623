"""Where the time of rounds goes: measured by parts, noted in timing.csv, and in no way part of the run's bits."""

from __future__ import annotations

import filecmp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist.report.timing import timing_sections
from enlist.runs import RunFolder
from enlist.runs.digests import check_finished
from enlist.runs.tables import read_run
from enlist.runs.timing import FILE, PARTS, read_timing, timing_table
from enlist.simulation import Config, Recorder, Simulation
from enlist.simulation.callbacks import Timing

SMALL: dict[str, Any] = {"data": {"clients": 10}, "rounds": {"rounds": 6, "k": 4}, "evaluation": {"every": 2}}


def timed(place: Path, workers: int, timing: bool = True, **sections: Any) -> Path:
    config = Config(**SMALL | sections)
    with RunFolder.open(place, config.model_dump(mode="json"), resume=False, tables=config.tables()) as folder:
        along = [Recorder(folder), *([Timing(folder)] if timing else [])]
        Simulation(config, workers=workers, callbacks=along).run()
    return place


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("protocol", ["synchronous", "buffered"])
def test_parts_add_up_to_the_rounds(tmp_path: Path, workers: int, protocol: str) -> None:
    spent = read_timing(timed(tmp_path / "run", workers, rounds=SMALL["rounds"] | {"protocol": protocol}))
    assert set(spent) == set(PARTS)
    assert all(len(seconds) == 6 and (seconds >= 0).all() for seconds in spent.values())
    assert (spent["train"] > 0).all()
    assert (spent["wait"] > 0).all() == bool(workers)
    assert ((spent["evaluate"] > 0) == [False, True] * 3).all()
    wall = np.loadtxt(tmp_path / "run" / "wall.csv", delimiter=",", skiprows=1, usecols=1)
    assert sum(seconds.sum() for seconds in spent.values()) == pytest.approx(wall.sum(), rel=0.2)


def test_timing_changes_no_other_file(tmp_path: Path) -> None:
    one, other = timed(tmp_path / "one", 0), timed(tmp_path / "other", 0, timing=False)
    for name in ("rounds.csv", "participations.csv", "clients.csv", "result.json", "digests.json"):
        assert filecmp.cmp(one / name, other / name, shallow=False), name
    assert not (other / FILE).exists()
    (one / FILE).unlink()
    check_finished(one)  # nothing is missing


def test_the_last_reading_of_a_round_counts_and_the_report_shows_it(tmp_path: Path) -> None:
    folder = timed(tmp_path / "run", 0)
    with (folder / FILE).open("a") as file:
        file.write("3,5.0,0,0,0,0\n4,1.")  # round 3 was run again; a kill in the middle of a line
    assert read_timing(folder)["train"][2] == 5.0
    section = timing_sections([read_run(folder)])[0]
    assert section.table == timing_table(read_timing(folder))
    shares = [float(row[3].removesuffix(" %").removeprefix("<")) for row in section.table[1:]]
    assert sum(shares) == pytest.approx(100, abs=1)
    pair = timing_sections([read_run(folder), read_run(timed(tmp_path / "other", 0, seed=1))])[0]
    assert [row[0] for row in pair.table[1:]] == ["random, seed 0", "random, seed 1"]


def test_a_damaged_file_is_not_shown(tmp_path: Path) -> None:
    folder = timed(tmp_path / "run", 0)
    (folder / FILE).write_text("round,train\n1,x\n")
    assert read_timing(folder) == {}
    assert timing_sections([read_run(folder)]) == []
