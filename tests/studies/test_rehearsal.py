"""A rehearsal: one experiment of each kind, shortened, and nothing left behind."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from enlist import studies
from enlist.errors import InputError
from enlist.studies.rehearsal import kinds, rehearse, shortened
from enlist.studies.study import Experiment
from tests.studies.study_helpers import TRACED


def failing(settings: Any, seed: int, folder: Path) -> dict[str, Any]:
    raise InputError("no data here; fetch some.")


@pytest.mark.parametrize("name", studies.names())
def test_every_kind_of_the_paper_scale_is_short(name: str) -> None:
    study = studies.get(name)
    planned = study.experiments(study.scale("paper"))
    chosen = kinds(planned)
    assert {each.run for each in chosen} == {each.run for each in planned}
    for each in chosen:
        short = shortened(each, 2)
        assert (short.key, short.seed, short.run) == (each.key, each.seed, each.run)
        if "config" in each.settings:
            before, after = each.settings["config"], short.settings["config"]
            assert after["rounds"]["rounds"] == 2 < before["rounds"]["rounds"]  # and the settings were not touched
            assert {**after, "rounds": before["rounds"]} == before


def test_both_data_sets_of_personalised_learning_are_rehearsed() -> None:
    study = studies.get("mabfl")
    chosen = kinds(study.experiments(study.scale("paper")))
    names = [
        each.settings["workers"]["dataset"]["name"] for each in chosen if isinstance(each.settings["workers"], dict)
    ]
    assert sorted(names) == ["python", "telecom"]


def test_a_rehearsal_goes_on_after_a_failure_and_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    broken = Experiment("broken", 0, {"config": {"data": {"dataset": "femnist"}, "model": {"name": "cnn"}}}, failing)
    found = list(rehearse([broken, *TRACED.experiments(TRACED.scale("smoke"))], rounds=1))
    assert [(one.key, one.what) for one in found] == [("broken", "femnist, cnn"), ("low", "")]
    assert found[0].reason.startswith("no data here; fetch some.")
    assert found[1].seconds >= 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="rounds"):
        list(rehearse([broken], rounds=0))
