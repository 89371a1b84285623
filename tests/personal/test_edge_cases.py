"""Workers that are away or fail: what is played, what is kept, what is credited and what it costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from enlist.personal import Personalisation
from enlist.personal.sections import WorkerFailures
from enlist.streams import Streams
from tests.personal.personal_helpers import config, run, scripted, task

FOUR = [1.0, 0.9, 0.3, -0.5]
FIXED = {"kind": "fixed", "combination": ["w1"]}


@pytest.fixture(scope="module")
def workers() -> Any:
    return task(FOUR)


def test_arms_with_somebody_away_are_not_played(workers: Any) -> None:
    settings = scripted(config(rule="extreme-explore"), gone={2: [1], 3: [1, 3]})
    _, memory = run(settings, workers)
    played = {
        number: [entry["arm"] for entry in memory.arms if entry["round"] == number and entry["credited"]]
        for number in range(1, 6)
    }
    assert played[1] == ["w0+w1", "w0+w2", "w0+w3"]
    assert played[2] == ["w0+w2", "w0+w3"]
    assert played[3] == ["w0+w2"]
    assert [row["available"] for row in memory.rounds] == [4, 3, 2, 4, 4]
    assert [row["communication"] for row in memory.rounds] == [10, 8, 6, 10, 10]


def test_with_everybody_away_the_target_plays_alone_and_nothing_is_learned(workers: Any) -> None:
    settings = scripted(config(rule="ucb", rounds={"rounds": 3}), gone={2: [1, 2, 3]})
    personalisation, memory = run(settings, workers)
    row = memory.rounds[1]
    assert (row["arm"], row["code"], row["skipped"]) == ("w0", "1000", "")
    assert row["validation"] == row["local"]
    assert not any(entry["credited"] for entry in memory.arms if entry["round"] == 2)
    assert personalisation.decision.count().sum() == 2
    assert row["communication"] == 4


def test_without_the_target_a_round_is_skipped(workers: Any) -> None:
    settings = scripted(config(rule="ucb"), gone={2: [0], 3: [0, 1]})
    personalisation, memory = run(settings, workers)
    assert [row["skipped"] for row in memory.rounds] == ["", "target away", "target away", "", ""]
    for row in memory.rounds[1:3]:
        assert "validation" not in row
        assert "arm" not in row
        assert row["communication"] == 0
        assert row["best_validation"] == memory.rounds[0]["best_validation"]
    assert personalisation.decision.count().sum() == 3
    assert [entry["count"] for entry in memory.arms if entry["round"] == 3] == [
        entry["count"] for entry in memory.arms if entry["round"] == 1
    ]


def test_a_skipped_round_leaves_the_model_and_the_rules_luck_as_they_were(workers: Any) -> None:
    """The rule is not even asked: whatever it draws, it draws in the next round."""
    plain, skipping = (
        Personalisation(settings, workers=workers)
        for settings in (config(rule="ucb"), scripted(config(rule="ucb"), gone={2: [0]}))
    )
    for personalisation in (plain, skipping):
        personalisation.step()
    model = skipping.model.parameters.clone()
    skipping.step()
    assert torch.equal(skipping.model.parameters, model)
    assert skipping.decision.rng.bit_generator.state == plain.decision.rng.bit_generator.state


def test_a_target_that_fails_teaches_nothing(workers: Any) -> None:
    settings = scripted(config(rule="extreme-explore"), failed={2: [0], 3: [0, 2]})
    personalisation, memory = run(settings, workers)
    assert [row["skipped"] for row in memory.rounds] == ["", "target failed", "target failed", "", ""]
    assert memory.rounds[1]["failed"] == "w0"
    assert memory.rounds[1]["communication"] == 10 - 1, "all but its reply were sent"
    assert personalisation.decision.count().tolist() == [3, 3, 3]
    assert math.isnan(personalisation.stopper.scores[1])
    assert personalisation.result()["best_round"] in (1, 4, 5)


def test_a_partner_that_fails_is_left_out_of_the_aggregate_and_its_arm_not_credited(workers: Any) -> None:
    settings = scripted(
        config(rule={"kind": "fixed", "combination": "all"}, rounds={"rounds": 2, "pretrain": 0}), failed={1: [2]}
    )
    personalisation, memory = run(settings, workers)
    federation = personalisation.federation
    trained = federation.train([0, 1, 3], federation.initial, 2, 1)
    answers = [trained[worker] for worker in (0, 1, 3)]
    model = federation.aggregate(federation.initial, answers, [1 / 3] * 3)
    first, second = memory.rounds
    assert first["validation"] == pytest.approx(federation.score(model, 0, "validation"), abs=1e-4)
    assert (first["failed"], second["failed"]) == ("w2", "")
    assert [entry["credited"] for entry in memory.arms] == [False, True]
    assert math.isnan(memory.arms[0]["increase"])
    assert personalisation.decision.count().tolist() == [1]
    assert first["communication"] == second["communication"] - 1


def test_a_failing_partner_does_not_win_a_round_of_extreme_explore(workers: Any) -> None:
    settings = scripted(config(rule="extreme-explore"), failed={number: [1] for number in range(1, 6)})
    _, memory = run(settings, workers)
    assert all(row["arm"] != "w0+w1" for row in memory.rounds)
    assert not any(entry["credited"] for entry in memory.arms if entry["arm"] == "w0+w1")
    assert all(entry["count"] == 0 for entry in memory.arms if entry["arm"] == "w0+w1")


def test_if_all_partners_fail_the_targets_own_model_goes_on(workers: Any) -> None:
    settings = scripted(config(rule="extreme-explore"), failed={2: [1, 2, 3]})
    personalisation, memory = run(settings, workers)
    row = memory.rounds[1]
    assert row["validation"] == row["local"]
    assert personalisation.decision.count().tolist() == [4, 4, 4]
    assert row["failed"] == "w1+w2+w3"


def test_a_fixed_combination_goes_on_with_whoever_is_there(workers: Any) -> None:
    settings = scripted(config(rule={"kind": "fixed", "combination": "all"}), gone={2: [3]})
    _, memory = run(settings, workers)
    assert memory.rounds[1]["arm"] == "w0+w1+w2+w3"
    assert memory.rounds[1]["validation"] != memory.rounds[1]["local"]
    assert [entry["credited"] for entry in memory.arms] == [True, False, True, True, True]
    assert memory.rounds[1]["communication"] == memory.rounds[0]["communication"] - 2


def test_the_first_round_that_is_really_played_goes_on_from_pretraining(workers: Any) -> None:
    late = scripted(config(rule=FIXED, rounds={"rounds": 3}), gone={1: [0]}, failed={2: [0]})
    personalisation, memory = run(late, workers)
    federation = personalisation.federation
    before = federation.train([0, 1], federation.initial, 2, 0)
    own = {worker: federation.aggregate(federation.initial, [before[worker]], [1.0]) for worker in (0, 1)}
    trained = federation.train([0, 1], federation.initial, 2, 3, starts=own)
    model = federation.aggregate(federation.initial, [trained[0], trained[1]], [0.5, 0.5])
    assert memory.rounds[2]["validation"] == federation.score(model, 0, "validation")
    assert [row["cumulative_communication"] for row in memory.rounds] == [0, 5, 5 + 6 + 2]


def test_a_run_in_which_nothing_happens_has_a_result(workers: Any) -> None:
    settings = scripted(config(rounds={"rounds": 2}), gone={1: [0], 2: [0]})
    personalisation, _ = run(settings, workers)
    result = personalisation.result()
    assert (result["status"], result["rounds"], result["validation"], result["test"]) == ("finished", 2, None, None)
    assert (result["count"], result["communication"]) == (0, 0)
    assert torch.equal(personalisation.best.parameters, personalisation.federation.initial.parameters)


def test_a_model_that_raises_makes_its_worker_fail(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    personalisation = Personalisation(
        config(rule="extreme-explore", model={"name": "mlp", "hidden": [4]}, rounds={"pretrain": 0}), workers=workers
    )
    engine = personalisation.federation.engine
    engine.chain = None  # trains one by one
    train = engine._train

    def touchy(task: Any, *others: Any) -> Any:
        if task.client == 2:
            raise RuntimeError("I do not like these samples")
        return train(task, *others)

    monkeypatch.setattr(engine, "_train", touchy)
    record = personalisation.step()
    assert record.row["failed"] == "w2"
    assert [entry["credited"] for entry in record.arms] == [True, False, True]


def test_chances_of_failures_are_kept_and_belong_to_round_and_worker() -> None:
    failures, streams = WorkerFailures(away=0.3, fail=0.2, target_away=0.1, target_fail=0.0), Streams(1)
    there = np.array([failures.available(number, 5, 2, streams) for number in range(2000)])
    assert there.mean(axis=0) == pytest.approx([0.7, 0.7, 0.9, 0.7, 0.7], abs=0.04)
    failing = np.array([failures.failing(number, 5, 2, streams) for number in range(2000)])
    assert failing.mean(axis=0) == pytest.approx([0.2, 0.2, 0.0, 0.2, 0.2], abs=0.04)
    again = failures.available(7, 5, 2, Streams(1))
    assert (again == there[7]).all()
