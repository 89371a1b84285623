"""Buffered mode with a real SuperLink and SuperNodes: steps of the server, two nodes at work, nothing merged twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from enlist.flower import replay
from enlist.runs import read_run
from tests.flower.deployment.harness import TINY, Federation

STEPS = 5


@pytest.mark.verify
def test_buffered_mode_in_a_deployment(federation: Federation, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    run = federation.run(TINY, num_server_rounds=STEPS, deadline=600.0, folder=str(folder), mode="buffered")
    assert run.finish(limit=240.0) == "finished:completed"
    found = read_run(folder)
    assert found.rounds["round"].tolist() == list(range(1, STEPS + 1))
    assert found.rounds["completed"].tolist() == [1] * STEPS
    ended = found.participations
    assert (ended["outcome"] == "completed").sum() == STEPS
    stale = ended["round"] - ended["selected_in"]
    assert (stale > 0).any()  # two are sent the first model, and the server steps after one of them
    assert ((stale >= 0) & (stale <= 5)).all()
    assert ended["weight"].tolist() == pytest.approx((1.0 + stale) ** -0.5)  # every client has one example
    assert sum(len(chosen) for _, chosen in replay(folder)) >= STEPS
