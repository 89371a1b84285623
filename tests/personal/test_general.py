"""The general model: harmful workers are left out, helpful ones are not, and a minority of liars decides nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from enlist.personal.general import GeneralModel
from tests.personal.personal_helpers import config, task

SIX = [1.0, 0.9, 0.85, 0.9, 0.95, 0.9]


def settings(**sections: Any) -> Any:
    return config(**{"rounds": {"rounds": 12, "epochs": 3}, **sections})


def small(likeness: list[float], seed: int = 0, **others: Any) -> Any:
    return task(likeness, seed, validation=300, test=200, **others)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["label-flip", "sign-flip", "scaled", "noise-features"])
def test_two_poisonous_workers_of_six_are_left_out(kind: str, seed: int) -> None:
    extra = {"scaled": {"factor": 30.0}, "noise-features": {"scale": 10.0}}.get(kind, {})
    whole = settings(seed=seed, poison=[{"kind": kind, "workers": ["w1", "w4"], **extra}])
    result = GeneralModel(whole, workers=small(SIX, seed, poison=whole.poison)).run()
    assert result["left_out"] == ["w1", "w4"]
    assert all(result["gains"][name]["mean"] > 0 for name in ("w1", "w4"))


def test_leaving_out_helps_everybody_else() -> None:
    whole = settings(poison=[{"kind": "label-flip", "workers": ["w1", "w4"]}])
    workers = small(SIX, poison=whole.poison)
    general = GeneralModel(whole, workers=workers)
    result = general.run()
    federation = general.federation
    model, best = federation.initial, dict.fromkeys(workers.names, 0.0)
    for number in range(1, 13):  # federated averaging, judged by its best round for each worker
        trained = federation.train(list(range(6)), model, 3, number)
        model = federation.aggregate(model, list(trained.values()), [1 / 6] * 6)
        scores = federation.scores(model, list(range(6)), "test")
        best = {name: max(before, score) for (name, before), score in zip(best.items(), scores, strict=True)}
    honest = ["w0", "w2", "w3", "w5"]
    assert np.mean([result["test"][name] - best[name] for name in honest]) > 0.0


def test_honest_workers_stay() -> None:
    result = GeneralModel(settings(), workers=small(SIX)).run()
    assert result["left_out"] == []
    assert all(told["mean"] < 0.005 for told in result["gains"].values())


def test_the_gain_of_a_round_by_hand() -> None:
    """With two workers the only subset of the others is the other one."""
    workers = task(SIX[:2])
    general = GeneralModel(settings(rounds={"rounds": 1, "epochs": 2}), workers=workers)
    row = general.step()
    federation = general.federation
    trained = federation.train([0, 1], federation.initial, 2, 1)

    def scores(members: list[int]) -> np.ndarray:
        answers, sizes = [trained[worker] for worker in members], workers.sizes[members].tolist()
        model = federation.aggregate(federation.initial, answers, sizes)
        return np.array([federation.score(model, worker, "validation") for worker in range(2)])

    both = scores([0, 1])
    expected = {"w0": np.median(scores([1]) - both), "w1": np.median(scores([0]) - both)}
    assert row["gains"] == pytest.approx(expected)
    kept = max(([0, 1], [0], [1]), key=lambda members: np.median(scores(members) - both))
    assert row["score"] == pytest.approx(scores(kept).mean())
    assert general.communication == 4 * 2


def test_away_and_failing_workers_are_no_obstacle() -> None:
    whole = settings(failures={"away": 0.4, "fail": 0.3}, rounds={"rounds": 6})
    result = GeneralModel(whole, workers=small(SIX)).run()
    assert result["rounds"] == 6
    assert all(0 < score < 1 for score in result["test"].values())
    nobody = GeneralModel(settings(failures={"away": 1.0, "target_away": 1.0}), workers=small(SIX))
    assert nobody.run()["communication"] == 0


def test_two_workers_always_stay() -> None:
    whole = settings(poison=[{"kind": "sign-flip", "workers": ["w1", "w2"]}])
    result = GeneralModel(whole, workers=small(SIX[:3])).run()
    assert len(result["left_out"]) <= 1
