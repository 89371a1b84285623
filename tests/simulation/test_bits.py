"""A refactoring changes no bits: short runs still decide as recorded, whoever trains.

What is recorded does not depend on the processor: who was selected and how it ended, chosen by a selector that does not
look at losses. Models are compared between workers, and between commits by `python -m benchmarks.hashes`.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path
from typing import Any

import pytest

from benchmarks import hashes
from enlist.simulation import Config, simulate

ROOT = Path(__file__).parents[2]
DECIDED = ("round", "selected_in", "client", "outcome", "rounds_late")
RUNS: dict[str, dict[str, Any]] = {
    "synchronous": {
        "k": 4,
        "over_commit": 1.5,
        "late": "merge",
        "deadline": {"kind": "percentile", "percentile": 70.0},
    },
    "buffered": {"protocol": "buffered", "concurrency": 8, "buffer": 3},
}
RECORDED = {"synchronous": "0ca4bd1cb1a12833", "buffered": "23498b09eb0ecf94"}


def config(name: str) -> Config:
    return Config(
        selector="random",
        data={"clients": 20, "partition": {"kind": "lognormal", "sigma": 1.0}},
        devices={"kind": "phones"},
        failures={"crash": 0.1},
        hostile=[{"kind": "sign-flip", "share": 0.2}],
        drift=[{"kind": "speed", "factor": 0.3, "share": 0.5, "from_round": 3}],
        rounds={"rounds": 6, **RUNS[name]},
    )


def decided(folder: Path) -> str:
    with (folder / "participations.csv").open(newline="") as file:
        rows = [tuple(row[name] for name in DECIDED) for row in csv.DictReader(file)]
    assert len({row[3] for row in rows}) > 1, "the run is to hold several kinds of outcome"
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", RUNS)
def test_a_short_run_decides_as_recorded_with_any_number_of_workers(name: str, tmp_path: Path) -> None:
    for workers in (0, 2):
        simulate(config(name), folder=tmp_path / str(workers), workers=workers)
    one, two = (hashes.digests(tmp_path / workers) for workers in "02")
    assert one == two
    assert {*one} == {*hashes.PARTS}
    assert decided(tmp_path / "0") == RECORDED[name], (
        "a run decides otherwise than before; if that is intended, record what it is now, and say so in CHANGELOG.md"
    )


def test_every_example_is_compared_between_commits() -> None:
    shipped = {path.relative_to(ROOT / "examples").as_posix() for path in ROOT.glob("examples/**/*.toml")}
    assert {case.example for case in hashes.CASES} == {path for path in shipped if "flower" not in path}
    titles = [case.title for case in hashes.CASES]
    assert len(titles) == len(set(titles))
    assert set(hashes.INTENDED) <= set(titles)


def test_a_changed_column_is_found(tmp_path: Path) -> None:
    for name in ("before", "after"):
        simulate(config("synchronous").replace({"rounds.rounds": 2}), folder=tmp_path / name)
    before = hashes.digests(tmp_path / "before")
    assert hashes.compared(before, hashes.digests(tmp_path / "after"))[1] == []
    path = tmp_path / "after" / "rounds.csv"
    header, first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([header.replace("selected", "asked"), "9" + first, *rest]) + "\n")
    assert hashes.compared(before, hashes.digests(tmp_path / "after"))[1] == ["rounds: rounds: round"]
