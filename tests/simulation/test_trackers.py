"""Trackers go along with single runs and with those of a comparison."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from enlist.simulation import Config, compare

SMALL = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}, evaluation={"every": 1})


def test_a_comparison_logs_to_tensorboard_and_to_wandb_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true", "ERROR_REPORTING": "false"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    compare(SMALL, "random", seeds=1, folder=tmp_path / "out", trackers=("tensorboard", "wandb"))
    assert list((tmp_path / "out" / "runs" / "random" / "0" / "tensorboard").glob("events.*"))
    (log,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    for _ in range(300):  # its writer may flush a moment after the run has ended
        if b"accuracy" in (content := log.read_bytes()):
            break
        time.sleep(0.1)
    for part in (b"accuracy", b"bytes_up", b"partition", b"enlist"):
        assert part in content
    import wandb  # only here: it takes seconds to import, and every process collects all tests

    wandb.teardown()
