"""Federations that grow while somebody looks, which tests of the live page use."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from enlist.runs import read_run
from tests.flower.deployment.live import fake_federation, flower_simulation, rounds_in


def grows(folder: Path, limit: float) -> bool:
    known, end = rounds_in(folder), time.monotonic() + limit
    while rounds_in(folder) <= known and time.monotonic() < end:
        time.sleep(0.05)
    return rounds_in(folder) > known


def test_a_fake_federation_grows_in_real_time(tmp_path: Path) -> None:
    began = time.monotonic()
    with fake_federation(tmp_path / "run", rounds=1000, seconds=0.2) as folder:
        assert grows(folder, limit=30.0)
        assert not (folder / "result.json").exists()
    recorded = read_run(folder)
    took = time.monotonic() - began
    assert 0 < recorded.rounds["end"][-1] < took  # seconds of the clock on the wall
    assert set(recorded.participations["outcome"]) >= {"completed", "late"}


@pytest.mark.verify
def test_a_simulation_of_the_example_grows(tmp_path: Path) -> None:
    with flower_simulation(tmp_path / "lab", tmp_path / "run", rounds=500) as folder:
        assert grows(folder, limit=120.0)
    assert len(read_run(folder).rounds["round"]) >= 2
