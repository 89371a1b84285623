"""Why clients were chosen: a round's record, what of it is kept, and what can be told from it later."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import enlist
from enlist.runs import columns
from enlist.runs.columns import PARTICIPATIONS, ROUNDS
from enlist.runs.tables import read_table
from enlist.simulation import Callback, Simulation, simulate
from tests.simulation.simulation_helpers import Kill, assert_same, config, continue_run


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def test_the_record_of_a_round_holds_together() -> None:
    settings = config(
        selector={"name": "oort"}, data={"clients": 20}, rounds={"k": 4, "late": "merge", "deadline": 0.5}
    )
    with Simulation(settings) as simulation:
        records = [simulation.step() for _ in range(3)]
    for number, record in enumerate(records, start=1):
        assert record.row["round"] == record.selection.round == number
        assert set(record.row) <= set(ROUNDS)
        asked = [row for row in record.participations if row["selected_in"] == number]
        assert [row["client"] for row in asked] == record.selection.clients.tolist()
        assert all(set(row) <= set(PARTICIPATIONS) for row in record.participations)
        assert record.reasons is not None
        assert list(record.reasons) == ["utility", "staleness", "speed", "score", "exploited"]
        assert all(values.shape == (4,) for values in record.reasons.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        records[0].row = {"round": 9}  # type: ignore[misc]
    assert np.isfinite(records[-1].row["end"])


@pytest.mark.parametrize("protocol", ["synchronous", "buffered"])
def test_probabilities_of_a_weighted_sampler_are_kept(protocol: str) -> None:
    """Privacy accounting needs them: as in a real federation, they stand beside the terms."""
    settings = config(
        selector={"name": "clustered"}, data={"clients": 20}, rounds={"k": 4, "rounds": 3, "protocol": protocol}
    )
    with Simulation(settings) as simulation:
        records = [simulation.step() for _ in range(3)]
    for record in records:
        assert record.reasons is not None
        assert list(record.reasons) == ["share", "probability"]
        drawn = record.selection.probabilities
        assert drawn is not None
        np.testing.assert_array_equal(record.reasons["probability"], drawn)
        assert ((drawn > 0) & (drawn <= 1)).all()
        rows = record.tables()["reasons.csv"]
        assert [float(row["probability"]) for row in rows] == pytest.approx(drawn.tolist(), rel=1e-5)


LATE: dict[str, Any] = {
    "selector": {"name": "oort"},
    "devices": {"kind": "phones"},
    "failures": {"crash": 0.1},
    "rounds": {"rounds": 4, "k": 4, "over_commit": 1.5, "late": "merge", "deadline": "percentile"},
}


class Killer(Callback):
    def __init__(self, round: int) -> None:
        self.round = round

    def on_round(self, simulation: Simulation, record: Any) -> None:
        if record.row["round"] == self.round:
            raise Kill


def test_reasons_of_a_killed_run_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    """Late updates, crashes, a kill before the first checkpoint and another after it, two workers."""
    settings = config(**LATE)
    continue_run(tmp_path / "whole", settings)
    for number, eager in ((1, False), (3, True)):
        with pytest.raises(Kill):
            continue_run(tmp_path / "killed", settings, Killer(number), eager=eager)
    continue_run(tmp_path / "killed", settings, workers=2)
    assert_same(tmp_path / "whole", tmp_path / "killed")
    kept = read_table(tmp_path / "killed" / "reasons.csv")
    asked = read_table(tmp_path / "killed" / "participations.csv")
    fresh = asked["round"] == asked["selected_in"]
    assert {"late", "arrived"} <= set(asked["outcome"]), "the run is to have late updates"
    assert list(kept) == ["round", "client", "utility", "staleness", "speed", "score", "exploited"]
    for name in ("round", "client"):
        assert kept[name].tolist() == asked[name][fresh].tolist()


def test_rounds_without_terms_leave_no_reasons(tmp_path: Path) -> None:
    """There is a file from the first round on that has terms."""
    run = simulate(config(), Later, folder=tmp_path / "later")
    assert set(read_table(tmp_path / "later" / "reasons.csv")["round"]) == {3.0, 4.0}
    assert run.reasons["share"].tolist() == simulate(config(), Later).reasons["share"].tolist(), "in memory the same"
    assert "without weighing them" in run.why(2).sentences[0]
    simulate(config(), "random", folder=tmp_path / "random")
    assert not (tmp_path / "random" / "reasons.csv").exists()


def test_reasons_can_be_switched_off_and_have_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(selector={"name": "cs-ucb"}, evaluation={"reasons": False})
    assert settings.model_dump()["evaluation"]["reasons"] is False
    assert "reasons" not in config().model_dump()["evaluation"], "what version 0.1 wrote says the same"
    simulate(settings, folder=tmp_path / "off")
    assert not (tmp_path / "off" / "reasons.csv").exists()
    monkeypatch.setitem(columns.LARGEST, "reasons.csv", 150)
    simulate(settings.replace("evaluation.reasons=true"), folder=tmp_path / "on")
    assert 150 <= (tmp_path / "on" / "reasons.csv").stat().st_size < 400
    assert set(read_table(tmp_path / "on" / "reasons.csv")["round"]) < {1.0, 2.0, 3.0, 4.0}


class Later(enlist.Selector):
    """It has terms from the third round on."""

    name = "later"

    def choose(self, request: Any) -> Any:
        terms = {"share": request.available / 3} if self.round > 2 else {}
        return request.pick(np.arange(request.k), **terms)


class Odd(enlist.Selector):
    """Its terms change, and have names that are hard to write down."""

    name = "odd"

    def choose(self, request: Any) -> Any:
        terms = {"client": request.available * 1.5, 'a, "b"\n c': request.available * 2.0}
        if self.round == 2:
            terms = {"new": request.available * 1.0, **terms}
        return request.pick(np.arange(request.k), **terms)


def test_terms_of_any_name_fit_into_the_table(tmp_path: Path) -> None:
    simulate(config(rounds={"rounds": 2, "k": 2}), Odd, folder=tmp_path / "run")
    table = read_table(tmp_path / "run" / "reasons.csv")
    assert list(table) == ["round", "client", "client_term", 'a, "b" c'], "the first round names the columns"
    assert table["client"].tolist() == [0, 1, 0, 1]
    assert table["client_term"].tolist() == [0, 1.5, 0, 1.5]


def test_darts_tells_its_rewards_and_when_it_explores() -> None:
    settings = config(
        selector={"name": "darts-ucb", "settings": {"initial_rounds": 2, "epsilon": 0.0}}, data={"validation": 0.1}
    )
    run = simulate(settings)
    explored = run.reasons.query("exploited == 0")
    assert set(explored["round"]) == {1, 2}
    assert "was drawn to explore, not for its score" in run.why(2).sentences[1]
    assert "was drawn to explore" not in " ".join(run.why(4).sentences)
    last = run.reasons.drop_duplicates("client", keep="last").set_index("client")["mean"]
    told = run.by_client.set_index("client")["reward"].dropna()
    assert told.to_dict() == last.to_dict()
