"""SecAgg+ in Flower's simulation, with a selector: what works, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from enlist.runs import read_run
from enlist.runs.checkpoints import last

APP = Path(__file__).parent / "old_app"
QUIET = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

pytestmark = pytest.mark.verify


def simulated(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(APP / "secagg.py"), str(folder), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=QUIET, timeout=300)


def test_secure_aggregation(tmp_path: Path) -> None:
    """The model is the average of those that were chosen, though the server has seen none of their updates."""
    done = simulated(tmp_path / "run", "tempo", "seconds")
    assert done.returncode == 0, done.stderr[-2000:]
    found = read_run(tmp_path / "run")
    assert found.rounds["completed"].tolist() == [4, 4, 4]
    names = np.array([int(name) for name in found.clients["id"]])
    asked = names[found.participations["client"].astype(int)]
    np.testing.assert_array_equal(found.participations["latency"], 1.0 + asked)
    [model] = last(tmp_path / "run").weights["model"].values()
    assert model == pytest.approx(0.25 * (1 + asked).sum() / 4, abs=1e-3)


def test_a_selector_that_looks_at_single_clients_is_refused(tmp_path: Path) -> None:
    """Before it has learned anything: no round is written, and the selectors that would do are named."""
    done = simulated(tmp_path / "run", "oort", "seconds")
    assert done.returncode != 0
    assert "selector 'oort' needs loss_rms of single clients, which secure aggregation hides from the" in done.stderr
    assert "choose one that does not need them: tempo, random" in done.stderr
    assert "cs-ucb-q" not in done.stderr
    assert "completed" not in (tmp_path / "run" / "participations.csv").read_text()


def test_secure_aggregation_hides_latency(tmp_path: Path) -> None:
    done = simulated(tmp_path / "run", "tempo")
    assert done.returncode != 0
    assert "selector 'tempo' needs latency, which cannot be measured for a single client when a workflow" in done.stderr
    assert simulated(tmp_path / "other", "random").returncode == 0
