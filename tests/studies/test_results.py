"""What experiments leave: kept whole or not at all, refused when their settings changed, paired by seed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from enlist import selectors
from enlist.errors import InputError, StateFileError, UnknownNameError
from enlist.studies.results import Output, Replicates, Results, keep, kept
from enlist.studies.study import Experiment, Scale, Study, over_seeds


def nothing(settings, seed, folder):
    return {}


def experiment(key: str = "a/b", seed: int = 0, **settings) -> Experiment:
    return Experiment(key, seed, settings, nothing)


def test_what_was_kept_is_read_back(tmp_path: Path) -> None:
    one = experiment(rounds=3, arms=("x", "y"))
    found = {"auc": np.float64(0.7), "arm": "0110", "curve": np.arange(3.0), "nan": float("nan"), "flag": True}
    keep(tmp_path, one, found, seconds=1.5)
    output = kept(tmp_path, one)
    assert output is not None
    assert output["auc"] == 0.7
    assert output["arm"] == "0110"
    assert output["flag"] is True
    assert np.isnan(output["nan"])
    assert output["curve"].tolist() == [0.0, 1.0, 2.0]
    assert output.seconds == 1.5
    with pytest.raises(UnknownNameError, match="Did you mean 'curve'"):
        output["curves"]


def test_another_seed_or_key_is_missing(tmp_path: Path) -> None:
    keep(tmp_path, experiment(), {}, 1.0)
    assert kept(tmp_path, experiment(seed=1)) is None
    assert kept(tmp_path, experiment("a")) is None


def test_changed_settings_are_refused_by_name(tmp_path: Path) -> None:
    keep(tmp_path, experiment(rounds=3, lr=0.1), {}, 1.0)
    with pytest.raises(InputError, match=r"rounds = 3, and is asked for with 4; name a new folder"):
        kept(tmp_path, experiment(rounds=4, lr=0.1))
    with pytest.raises(InputError, match=r"momentum = None, and is asked for with 0.9"):
        kept(tmp_path, experiment(rounds=3, lr=0.1, momentum=0.9))


def test_a_folder_in_the_words_of_its_time_is_read(tmp_path: Path) -> None:
    then, now = (experiment(config={"rounds": {"k": 3, "late": word}}) for word in ("use", "merge"))
    keep(tmp_path, then, {"value": 3}, 1.0)
    assert kept(tmp_path, now)["value"] == kept(tmp_path, then)["value"] == 3
    with pytest.raises(InputError, match="name a new folder"):
        kept(tmp_path, experiment(config={"rounds": {"k": 3, "late": "drop"}}))


def test_damage_is_an_error_and_half_a_file_counts_for_nothing(tmp_path: Path) -> None:
    one = experiment()
    keep(tmp_path, one, {"value": 3}, 1.0)
    file = tmp_path / "experiments" / "a" / "b" / "0" / "state.json"
    document = json.loads(file.read_text())
    document["content"]["values"]["value"] = 4
    file.write_text(json.dumps(document))
    with pytest.raises(StateFileError, match="altered"):
        kept(tmp_path, one)
    file.rename(file.with_name(".state.json.123"))  # what a process that was killed while it wrote leaves
    assert kept(tmp_path, one) is None


def test_a_result_is_not_kept_when_its_selectors_default_has_changed(tmp_path, monkeypatch) -> None:
    owner = selectors.get("darts-ucb")
    one, printed = experiment(selector="darts-ucb"), experiment("p", selector="darts-ucb:paper")
    for each in (one, printed):
        keep(tmp_path, each, {"value": 3}, 1.0)
    changed = dataclasses.make_dataclass("Changed", [("c", float, 0.7)], bases=(owner.Settings,), frozen=True)
    monkeypatch.setattr(owner, "Settings", changed)
    assert kept(tmp_path, printed) is not None
    with pytest.raises(InputError, match=r"'darts-ucb' meant c = 0.3, and is asked for with 0.7; remove it"):
        kept(tmp_path, one)


def output(**values) -> Output:
    return Output(values, {}, 1.0)


def test_pairs_are_formed_over_common_seeds() -> None:
    first = Replicates("a", {}, {0: output(x=1.0), 1: output(x=2.0), 2: output(x=4.0)})
    second = Replicates("b", {}, {2: output(x=1.0), 1: output(x=1.0), 5: output(x=9.0)})
    results = Results({"a": first, "b": second})
    one, other = results.paired(["a", "b"], "x")
    assert one.tolist() == [2.0, 4.0]
    assert other.tolist() == [1.0, 1.0]
    assert results.difference("a", "b", "x").mean == 2.0


def test_keys_are_checked_and_settings_must_be_json() -> None:
    for key in ("", "A", "a//b", "a/", "../a", "a b"):
        with pytest.raises(InputError, match="experiment key"):
            experiment(key)
    with pytest.raises(InputError, match="not JSON"):
        experiment(when=np.arange(2))
    with pytest.raises(InputError, match="not JSON"):
        experiment(when=float("nan"))


def test_claims_of_a_study_have_names_of_their_own() -> None:
    from enlist.studies.example import COINS

    with pytest.raises(InputError, match="two claims called more-heads"):
        Study(**{**vars(COINS), "claims": [*COINS.claims, *COINS.claims]})
    with pytest.raises(UnknownNameError, match=r"study 'coins' has no scale called 'latpop'\. Did you mean 'laptop'"):
        COINS.scale("latpop")
    with pytest.raises(UnknownNameError, match="has no extra called 'cifar10'"):
        COINS.scale("smoke", extras=["cifar10"])
    assert COINS.scale("smoke", seeds=7) == Scale("smoke", 7, {"tosses": 20}, "a check that it runs")
    assert len(over_seeds("k", nothing, {}, range(5, 8))) == 3
