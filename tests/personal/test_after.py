"""What follows the rounds: stages in folders, baselines, retraining, fine-tuning, growing, every target in turn."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from enlist.errors import InputError
from enlist.personal import PersonalConfig, Personalisation, after, complete, load, run_in
from enlist.personal.after import every_target, fine_tuning, fixed, personalise
from enlist.personal.priors import learned
from enlist.simulation import Callback
from tests.personal.personal_helpers import config, run, task
from tests.simulation.simulation_helpers import Kill

FOUR = [1.0, 0.95, 0.3, -0.5]
EVERYTHING = {"retrain": True, "fine_tune": 4, "grow": 2}


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """A killed process does not lose what it wrote; waiting for the disk would only take time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def workers() -> Any:
    return task(FOUR, train=15)


def settings(**sections: Any) -> PersonalConfig:
    base = {"seed": 3, "rule": "extreme-explore", "rounds": {"rounds": 5, "epochs": 4, "pretrain": 2}}
    return config(**{**base, **sections})


def test_baselines_are_the_same_loop_with_a_fixed_combination(workers: Any) -> None:
    summary = personalise(settings(), workers=workers)
    assert summary["stages"] == ["personalised", "local", "fedavg"]
    for stage, combination in (("local", "alone"), ("fedavg", "all")):
        one, _ = run(settings(rule={"kind": "fixed", "combination": combination}), workers)
        assert summary[stage]["test"] == one.best_test
        assert summary[stage]["rounds"] == 5
    assert summary["local"]["communication"] == 0
    assert summary["fedavg"]["code"] == "1111"
    assert summary["combination"] == summary["personalised"]["combination"]


def test_gains_are_differences_of_test_scores_with_intervals(workers: Any) -> None:
    summary = personalise(settings(), workers=workers)
    final = summary[summary["model"]]["test"]
    for name in ("local", "fedavg"):
        told = summary[f"gain_over_{name}"]
        assert told["mean"] == pytest.approx(final - summary[name]["test"], abs=1e-9)
        assert told["low"] <= told["mean"] <= told["high"]


def test_training_anew_plays_the_learned_combination_from_the_same_beginning(workers: Any) -> None:
    summary = personalise(settings(after={"retrain": True, "baselines": False}), workers=workers)
    names = summary["combination"].split("+")
    again, _ = run(settings(rule={"kind": "fixed", "combination": names}), workers)
    assert summary["retrained"]["test"] == again.best_test
    assert summary["retrained"]["combination"] == summary["combination"]
    chosen = max(("personalised", "retrained"), key=lambda name: summary[name]["validation"])
    assert summary["model"] == chosen
    assert summary["total_communication"] == sum(
        summary[name]["communication"] for name in ("personalised", "retrained")
    )


def test_fine_tuning_goes_on_from_the_best_model_and_is_kept_only_if_it_helps(workers: Any) -> None:
    whole = settings(after={"fine_tune": 6, "baselines": False})
    first, _ = run(settings(after={}), workers)
    tuning = fine_tuning(whole)
    assert (tuning.rounds.rounds, tuning.rounds.epochs.epochs, tuning.rounds.pretrain) == (6, 1, 0)
    tuned, memory = run(tuning, workers, model=first.best)
    trained = first.federation.train([0], first.best, 1, 1)
    model = first.federation.aggregate(first.best, [trained[0]], [1.0])
    assert memory.rounds[0]["validation"] == first.federation.score(model, 0, "validation")
    summary = personalise(whole, workers=workers)
    assert summary["fine_tuned"]["validation"] == tuned.stopper.best
    better = tuned.stopper.best > first.stopper.best
    assert summary["model"] == ("fine_tuned" if better else "personalised")
    assert summary["fine_tuned"]["communication"] == 0


def test_a_larger_combination_grows_from_good_pairs() -> None:
    workers = task([1.0, 0.95, 0.95, -0.9], train=10)
    whole = config(
        seed=1, rule="extreme-explore", rounds={"rounds": 8, "epochs": 8}, after={"grow": 3, "baselines": False}
    )
    summary = personalise(whole, workers=workers)
    assert summary["grown_1"]["combination"] == "w0+w1+w2"
    assert "grown_2" not in summary, "there is nobody else worth adding"
    shrunk = task([1.0, -0.9, -0.9, -0.9], train=10)
    assert personalise(whole, workers=shrunk)["stages"] == ["personalised"]


def test_everything_in_a_folder_with_the_final_model(tmp_path: Path, workers: Any) -> None:
    whole = settings(after=EVERYTHING)
    summary = personalise(whole, tmp_path / "run", workers=workers)
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == summary
    for stage in summary["stages"]:
        place = tmp_path / "run" if stage == "personalised" else tmp_path / "run" / "after" / stage
        rows = (place / "rounds.csv").read_text().splitlines()
        assert rows[0].startswith("round,arm,code,extreme,epochs,local,validation,test")
        assert len(rows) == 1 + summary[stage]["rounds"]
    saved = safetensors.numpy.load_file(tmp_path / "run" / "model.safetensors")
    fresh = Personalisation(whole, workers=workers).federation
    fresh.layout.load_named({name: torch.from_numpy(values) for name, values in saved.items()}, fresh.initial)
    assert fresh.score(fresh.initial, 0, "test") == summary[summary["model"]]["test"]
    in_memory = personalise(whole, workers=workers)
    assert in_memory == summary


class Killer(Callback):
    """Ends everything in one round of one stage."""

    def on_round(self, simulation: Any, record: Any) -> None:
        if record.row["round"] == 2:
            raise Kill


@pytest.mark.parametrize("stage", ["personalised", "retrained", "fine_tuned", "local", "fedavg"])
def test_a_kill_in_any_stage_changes_nothing(stage: str, tmp_path: Path, workers: Any) -> None:
    whole = settings(after=EVERYTHING)
    path = tmp_path / "run"
    with pytest.raises(Kill):
        personalise(whole, path, workers=workers, callbacks=lambda name: [Killer()] if name == stage else [])
    summary = personalise(whole, path, workers=workers, resume=True)
    undisturbed = personalise(whole, tmp_path / "other", workers=workers)
    assert summary == undisturbed
    for file in ("result.json", "rounds.csv", "arms.csv", "model.safetensors", f"after/{'local'}/rounds.csv"):
        assert (path / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


class Stopper(Callback):
    """Asks a run to stop after its second round."""

    def on_round(self, simulation: Any, record: Any) -> None:
        simulation.stopping = record.row["round"] == 2


@pytest.mark.parametrize("stage", ["personalised", "fedavg"])
def test_a_run_that_is_stopped_goes_on_later(stage: str, tmp_path: Path, workers: Any) -> None:
    whole, path = settings(), tmp_path / "run"
    stopped = personalise(whole, path, workers=workers, callbacks=lambda name: [Stopper()] if name == stage else [])
    assert stopped["status"] == "stopped"
    assert not (path / "model.safetensors").exists()
    assert personalise(whole, path, workers=workers, resume=True) == personalise(whole, workers=workers)


def test_every_target_in_turn_begins_with_what_others_found(tmp_path: Path, workers: Any) -> None:
    whole = settings(rule={"kind": "epsilon-greedy", "epsilon": 0.0}, after={"baselines": False})
    seen: list[tuple[str, str]] = []
    found = every_target(
        whole, tmp_path / "all", workers=workers, callbacks=lambda target, stage: seen.append((target, stage)) or ()
    )
    assert list(found) == list(workers.names)
    assert [target for target, _ in seen] == list(workers.names)
    arms, values = learned(tmp_path / "all" / "0000-w0")
    second = complete(whole.model_copy(update={"target": "w1"}), workers=workers, priors=[(arms, values)])
    assert found["w1"]["combination"] == second.result()["combination"]
    assert found["w1"]["estimate"] == second.result()["estimate"]
    again = every_target(whole, tmp_path / "all", workers=workers, resume=True)
    assert again == found
    assert every_target(whole, workers=workers, targets=["w2"])["w2"]["target"] == "w2"


def test_estimates_are_read_from_a_folder(tmp_path: Path, workers: Any) -> None:
    result = run_in(tmp_path / "run", settings(rule="ucb", rounds={"rounds": 2}), workers=workers)
    arms, values = learned(tmp_path / "run")
    assert arms.labels == ("w0+w1", "w0+w2", "w0+w3")
    assert np.isnan(values).sum() == 1, "two rounds, two arms"
    assert result["estimate"] in values
    later = settings(rule="ucb", priors={"folder": str(tmp_path / "run"), "weight": 2})
    believed = Personalisation(later, workers=workers).decision.values()
    plain = Personalisation(settings(rule="ucb"), workers=workers).decision.values()
    assert (believed != plain).tolist() == (~np.isnan(values)).tolist()
    with pytest.raises(InputError, match="holds no checkpoint; name the folder of a run"):
        Personalisation(settings(priors={"folder": str(tmp_path)}), workers=workers).run()


def test_a_fixed_configuration_keeps_data_training_and_failures() -> None:
    whole = settings(failures={"away": 0.2}, explore={"probability": 0.5}, elimination={"confidence": 0.9})
    alone = fixed(whole, "alone")
    assert (alone.failures, alone.training, alone.rounds) == (whole.failures, whole.training, whole.rounds)
    assert alone.explore.probability == 0.0
    assert alone.elimination.confidence is None
    assert PersonalConfig.parse(alone.model_dump(mode="json"), "again") == alone


def test_configurations_come_from_files_with_changes(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(
        'target = 3\nrule = "ucb"\n[rounds]\nepochs = 4\n[workers.files]\nnorth = "n.npz"\n'
        '[[poison]]\nkind = "label-flip"\nworkers = ["1"]\n'
    )
    found = load(file, ["rule.c=0.1", "rounds.rounds=7", "seed=5"])
    assert (found.target, found.rule.c, found.rounds.rounds, found.seed) == ("3", 0.1, 7, 5)
    assert found.rounds.epochs.epochs == 4
    assert str(found.workers.files["north"].path) == "n.npz"
    (tmp_path / "config.json").write_text(json.dumps(found.model_dump(mode="json")))
    assert load(tmp_path / "config.json") == found
    (tmp_path / "bad.toml").write_text("= 3")
    with pytest.raises(InputError, match=r"bad\.toml is not valid TOML"):
        load(tmp_path / "bad.toml")


def test_a_small_test_set_with_a_rare_class_has_results_and_intervals(tmp_path: Path) -> None:
    few = task(FOUR, train=15, test=5)
    summary = personalise(settings(), tmp_path / "run", workers=few)
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written == summary
    assert summary["gain_over_local"]["mean"] == summary[summary["model"]]["test"] - summary["local"]["test"]


def test_results_are_written_before_intervals_are_computed(
    tmp_path: Path, workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> Any:
        raise InputError("no interval")

    monkeypatch.setattr(after, "gain", broken)
    with pytest.raises(InputError, match="no interval"):
        personalise(settings(), tmp_path / "run", workers=workers)
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["stages"] == ["personalised", "local", "fedavg"]
    assert (tmp_path / "run" / "model.safetensors").exists()
    monkeypatch.undo()
    summary = personalise(settings(), tmp_path / "run", workers=workers, resume=True)
    assert summary["gain_over_local"]["low"] is not None
