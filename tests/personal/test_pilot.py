"""The pilot run: its threshold is a quantile of increases that were really seen."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.personal.pilot import with_pilot_threshold
from tests.personal.personal_helpers import config, run, task


def test_the_threshold_is_the_quantile_of_the_increases_of_extreme_explore() -> None:
    workers = task([1.0, 0.9, 0.3, -0.5])
    settings = config(seed=3, rule="thompson", reward="binary")
    found = with_pilot_threshold(settings, rounds=4, q=0.75, workers=workers)
    _, memory = run(config(seed=3, rule="extreme-explore", rounds={"rounds": 4}), workers)
    expected = np.quantile([entry["increase"] for entry in memory.arms], 0.75)
    assert found.reward.threshold == pytest.approx(expected, abs=1e-12)
    assert (found.rule, found.rounds) == (settings.rule, settings.rounds)
    _, played = run(found, workers)
    assert {entry["reward"] for entry in played.arms if entry["credited"]} <= {0.0, 1.0}


def test_what_increases_are_measured_against_stays() -> None:
    workers = task([1.0, 0.9, 0.3, -0.5])
    settings = config(reward={"kind": "quantile", "against": "previous"}, rule="ucb")
    assert with_pilot_threshold(settings, rounds=1, workers=workers).reward.against == "previous"
