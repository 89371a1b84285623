"""Why clients were chosen: a round's record, what of it is kept, and what can be told from it later."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from simulation_helpers import config

from enlist.runs.columns import PARTICIPATIONS, ROUNDS
from enlist.simulation import Simulation


def test_the_record_of_a_round_holds_together() -> None:
    settings = config(selector={"name": "oort"}, rounds={"k": 4, "late": "use", "deadline": 0.5})
    with Simulation(settings) as simulation:
        records = [simulation.step() for _ in range(3)]
    for number, record in enumerate(records, start=1):
        assert record.row["round"] == record.selection.round == number
        assert set(record.row) <= set(ROUNDS)
        asked = [row for row in record.participations if row["selected_in"] == number]
        assert [row["client"] for row in asked] == record.selection.clients.tolist()
        assert all(set(row) <= set(PARTICIPATIONS) for row in record.participations)
        assert record.reasons is not None
        assert list(record.reasons) == ["utility", "staleness", "slowness", "score", "exploited"]
        assert all(values.shape == (4,) for values in record.reasons.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        records[0].row = {"round": 9}  # type: ignore[misc]
    assert np.isfinite(records[-1].row["end"])
