"""Rounds of Algorithm 7: each step against what is computed here by hand from the same federation."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from enlist.errors import EnlistError, InputError
from enlist.personal import Arms, PersonalConfig, Personalisation
from enlist.personal.federation import Federation
from enlist.personal.tables import PERSONAL_TABLES
from enlist.training.flat import Vectors
from tests.personal.personal_helpers import Memory, config, run, task

FOUR = [1.0, 0.9, 0.3, -0.5]


@pytest.fixture(scope="module")
def workers() -> Any:
    return task(FOUR)


def make(settings: PersonalConfig, workers: Any) -> Federation:
    return Federation(workers, settings.model, settings.training, settings.seed)


def mean(federation: Federation, model: Vectors, trained: Any, members: list[int]) -> Vectors:
    sizes = federation.workers.sizes[members]
    return federation.aggregate(model, [trained[worker] for worker in members], (sizes / sizes.sum()).tolist())


def test_two_rounds_of_extreme_explore_by_hand(workers: Any) -> None:
    settings = config(seed=5, rule="extreme-explore", rounds={"rounds": 2, "pretrain": 0})
    personalisation, memory = run(settings, workers)
    federation, model = make(settings, workers), make(settings, workers).initial
    for number, row in enumerate(memory.rounds, start=1):
        trained = federation.train([0, 1, 2, 3], model, 2, number)
        local = federation.score(mean(federation, model, trained, [0]), 0, "validation")
        models = [mean(federation, model, trained, [0, other]) for other in (1, 2, 3)]
        scores = [federation.score(one, 0, "validation") for one in models]
        assert row["local"] == local
        increases = [entry["increase"] for entry in memory.arms if entry["round"] == number]
        assert increases == [score - local for score in scores]
        best = int(np.argmax(scores))
        assert row["arm"] == f"w0+w{best + 1}"
        assert row["validation"] == scores[best]
        model = models[best]
        assert row["test"] == federation.score(model, 0, "test")
        assert row["communication"] == 2 * 4 + 2
    assert torch.equal(personalisation.model.parameters, model.parameters)


def test_a_rule_trains_and_sees_only_its_arm(workers: Any) -> None:
    settings = config(seed=2, rule="ucb", rounds={"rounds": 3, "pretrain": 0})
    _, memory = run(settings, workers)
    federation, model = make(settings, workers), make(settings, workers).initial
    for number, row in enumerate(memory.rounds, start=1):
        (played,) = [entry for entry in memory.arms if entry["round"] == number and entry["credited"]]
        assert played["arm"] == row["arm"]
        members = [0, int(row["arm"][-1])]
        trained = federation.train(members, model, 2, number)
        local = federation.score(mean(federation, model, trained, [0]), 0, "validation")
        model = mean(federation, model, trained, members)
        assert played["increase"] == federation.score(model, 0, "validation") - local
        assert row["communication"] == 6
    assert {row["arm"] for row in memory.rounds} == {"w0+w1", "w0+w2", "w0+w3"}, "every arm once first"


def test_pretraining_lets_the_first_round_go_on_from_each_workers_own_model(workers: Any) -> None:
    settings = config(seed=1, rule={"kind": "fixed", "combination": ["w2"]}, rounds={"rounds": 2, "pretrain": 3})
    personalisation, memory = run(settings, workers)
    federation = make(settings, workers)
    initial = federation.initial
    before = federation.train([0, 2], initial, 3, 0)
    own = {worker: federation.aggregate(initial, [before[worker]], [1.0]) for worker in (0, 2)}
    first = federation.train([0, 2], initial, 2, 1, starts=own)
    model = mean(federation, initial, first, [0, 2])
    assert memory.rounds[0]["validation"] == federation.score(model, 0, "validation")
    second = federation.train([0, 2], model, 2, 2)
    model = mean(federation, model, second, [0, 2])
    assert torch.equal(personalisation.model.parameters, model.parameters)
    assert memory.rounds[0]["cumulative_communication"] == 6 + 2
    assert memory.rounds[1]["cumulative_communication"] == 12 + 2


@pytest.mark.parametrize(("start", "members", "messages"), [("average", [0, 1], 4), ("target", [0], 2)])
def test_pretraining_may_end_in_one_model(workers: Any, start: str, members: list[int], messages: int) -> None:
    settings = config(rule={"kind": "fixed", "combination": ["w1"]}, rounds={"rounds": 1, "start": start})
    _, memory = run(settings, workers)
    federation = make(settings, workers)
    before = federation.train([0, 1], federation.initial, 2, 0)
    model = mean(federation, federation.initial, before, members)
    trained = federation.train([0, 1], model, 2, 1)
    expected = federation.score(mean(federation, model, trained, [0, 1]), 0, "validation")
    assert memory.rounds[0]["validation"] == expected
    assert memory.rounds[0]["cumulative_communication"] == 6 + messages


def test_local_only_meets_nobody(workers: Any) -> None:
    other = task([1.0, -1.0, -1.0, -1.0])  # the same target, other partners
    assert torch.equal(workers.data["train"].y[:40], other.data["train"].y[:40])
    alone = config(rule={"kind": "fixed", "combination": "alone"})
    first, second = (run(alone, some)[0] for some in (workers, other))
    assert torch.equal(first.model.parameters, second.model.parameters)
    everybody = config(rule={"kind": "fixed", "combination": "all"})
    third, fourth = (run(everybody, some)[0] for some in (workers, other))
    assert not torch.equal(third.model.parameters, fourth.model.parameters)


def test_the_target_alone_is_worth_exactly_nothing(workers: Any) -> None:
    _, memory = run(config(rule="extreme-explore", arms={"kind": "pairs", "alone": True}), workers)
    alone = [entry["increase"] for entry in memory.arms if entry["code"] == "1000"]
    assert alone == [0.0] * 5


def test_common_random_numbers(workers: Any) -> None:
    """Two rules on the same seed have the same initial model, pre-training and batches."""
    ucb, greedy = (Personalisation(config(seed=4, rule=rule), workers=workers) for rule in ("ucb", "epsilon-greedy"))
    assert torch.equal(ucb.model.parameters, greedy.model.parameters)
    for worker in range(4):
        one, other = (each.pretraining.trained[worker].update for each in (ucb, greedy))
        assert torch.equal(one.parameters, other.parameters)
    extreme, fixed = (
        run(config(seed=4, rule=rule, rounds={"rounds": 1}), workers)[1]
        for rule in ("extreme-explore", {"kind": "fixed", "combination": ["w1"]})
    )
    assert extreme.rounds[0]["local"] == pytest.approx(fixed.rounds[0]["local"], abs=1e-6)
    (pair,) = [entry for entry in extreme.arms if entry["arm"] == "w0+w1"]
    assert pair["increase"] == pytest.approx(fixed.arms[0]["increase"], abs=1e-5)


def test_rewards_against_the_round_before(workers: Any) -> None:
    settings = config(rule="ucb", reward={"kind": "increment", "against": "previous"}, rounds={"rounds": 4})
    personalisation, memory = run(settings, workers)
    start = personalisation.federation.score(personalisation.federation.initial, 0, "validation")
    before = [start, *(row["validation"] for row in memory.rounds)]
    played = [entry["increase"] for entry in memory.arms if entry["credited"]]
    assert played == [after - reference for reference, after in pairwise(before)]


def test_binary_rewards_and_thompson(workers: Any) -> None:
    settings = config(rule="thompson", reward={"kind": "binary", "threshold": 0.0}, rounds={"rounds": 6})
    _, memory = run(settings, workers)
    played = [entry for entry in memory.arms if entry["credited"]]
    assert [entry["reward"] for entry in played] == [float(entry["increase"] > 0) for entry in played]
    with pytest.raises(InputError, match=r"rule 'thompson' needs rewards that are 0 or 1.*set reward = \"binary\""):
        config(rule="thompson")


def test_delayed_extreme_explore_keeps_models_by_the_estimates_before() -> None:
    workers = task([1.0, 0.6, 0.6, 0.6])
    settings = config(seed=6, rule={"kind": "extreme-explore", "delayed": True}, rounds={"rounds": 6})
    _, memory = run(settings, workers)
    for before, row in pairwise(memory.rounds):
        known = {entry["arm"]: entry["estimate"] for entry in memory.arms if entry["round"] == before["round"]}
        assert row["arm"] == max(known, key=known.__getitem__)
        assert row["communication"] == 8
    adopted = {row["round"]: row["arm"] for row in memory.rounds}
    best = {
        number: max((entry for entry in memory.arms if entry["round"] == number), key=lambda entry: entry["reward"])
        for number in adopted
    }
    assert any(best[number]["arm"] != arm for number, arm in adopted.items()), "the round's best is not known yet"


def test_the_best_model_by_validation_is_kept_and_its_test_score_told() -> None:
    settings = config(rounds={"rounds": 12, "epochs": 6}, training={"lr": 1.5})
    personalisation, memory = run(settings, task(FOUR, train=15))
    scores = [row["validation"] for row in memory.rounds]
    best = int(np.argmax(scores))
    assert best < 11, "the test wants a run that passes its peak"
    federation = personalisation.federation
    assert federation.score(personalisation.best, 0, "validation") == scores[best]
    result = personalisation.result()
    assert (result["validation"], result["best_round"]) == (scores[best], best + 1)
    assert result["test"] == memory.rounds[best]["test"] == memory.rounds[-1]["best_test"]
    assert [row["best_validation"] for row in memory.rounds] == list(np.maximum.accumulate(scores))
    assert not torch.equal(personalisation.best.parameters, personalisation.model.parameters)


def test_patience_stops_the_run(workers: Any) -> None:
    settings = config(rounds={"rounds": 60}, stopping={"kind": "patience", "rounds": 2}, training={"lr": 1.5})
    personalisation, memory = run(settings, workers)
    scores = [row["validation"] for row in memory.rounds]
    assert len(scores) < 60
    assert len(scores) - int(np.argmax(scores)) == 3
    assert personalisation.result()["status"] == "finished"


def test_a_run_that_is_told_to_stop_says_so(workers: Any) -> None:
    class Stop(Memory):
        def on_round(self, simulation: Any, record: Any) -> None:
            simulation.stopping = record.row["round"] == 2

    personalisation = Personalisation(config(), workers=workers, callbacks=[Stop()])
    result = personalisation.run()
    assert (result["status"], result["rounds"]) == ("stopped", 2)


@pytest.mark.parametrize("kind", ["samples", "target", "similarity"])
def test_weights(kind: str) -> None:
    workers = task(FOUR, train=[20, 60, 40, 40])
    settings = config(rule={"kind": "fixed", "combination": ["w1"]}, weights=kind, rounds={"rounds": 1, "pretrain": 0})
    _, memory = run(settings, workers)
    federation = make(settings, workers)
    trained = federation.train([0, 1], federation.initial, 2, 1)
    one, other = (trained[worker].update.parameters.double() for worker in (0, 1))
    cosine = float(one @ other / (one.norm() * other.norm()))
    weights = {"samples": [0.25, 0.75], "target": [0.7, 0.3], "similarity": [20.0, 60.0 * max(cosine, 0.0)]}[kind]
    model = federation.aggregate(federation.initial, [trained[0], trained[1]], weights)
    assert memory.rounds[0]["validation"] == pytest.approx(federation.score(model, 0, "validation"), abs=1e-4)


def test_a_regression_is_scored_by_its_loss_where_less_is_better() -> None:
    workers = task(FOUR, classes=0)
    settings = config(model={"name": "linear"}, training={"lr": 0.02}, rule="extreme-explore", rounds={"rounds": 6})
    personalisation, memory = run(settings, workers)
    result = personalisation.result()
    assert (result["metric"], result["lower_is_better"]) == ("loss", True)
    for number, row in enumerate(memory.rounds, start=1):
        entries = [entry for entry in memory.arms if entry["round"] == number]
        chosen = max(entries, key=lambda entry: entry["increase"])
        assert chosen["arm"] == row["arm"]
        assert chosen["increase"] == row["local"] - row["validation"]
    assert result["validation"] == min(row["validation"] for row in memory.rounds)
    assert result["combination"] == "w0+w1"


def test_clearly_worse_arms_are_removed_and_messages_saved() -> None:
    workers = task([1.0, 0.95, -0.9, -0.95])
    settings = config(rule="extreme-explore", elimination={"confidence": 0.9}, rounds={"rounds": 12})
    personalisation, memory = run(settings, workers)
    removed = personalisation.result()["removed"]
    assert {"w0+w2", "w0+w3"} & set(removed)
    assert "w0+w1" not in removed
    last = [entry for entry in memory.arms if entry["round"] == 12]
    assert all(math.isnan(entry["increase"]) for entry in last if entry["arm"] in removed)
    assert memory.rounds[-1]["communication"] == 10 - 2 * len(removed)


def test_the_union_of_good_arms_becomes_an_arm() -> None:
    workers = task([1.0, 0.95, 0.95, -0.9], train=10)
    settings = config(rule="extreme-explore", arms={"grow": 3}, rounds={"rounds": 10, "epochs": 8}, seed=1)
    personalisation, memory = run(settings, workers)
    labels = personalisation.decision.arms.labels
    assert labels[:3] == ("w0+w1", "w0+w2", "w0+w3")
    assert "w0+w1+w2" in labels
    assert any(row["arm"] == "w0+w1+w2" for row in memory.rounds)


def test_fifty_workers_are_feasible_when_updates_propose_arms() -> None:
    likeness = [1.0] + [0.95 if worker % 7 == 0 else -0.4 for worker in range(1, 50)]
    workers = task(likeness, train=80, validation=200, test=100)
    rounds = {"rounds": 10, "epochs": 4, "pretrain": 8}
    settings = config(rule="ucb", arms={"kind": "clusters", "size": 4}, rounds=rounds)
    personalisation, memory = run(settings, workers)
    arms = personalisation.decision.arms
    assert len(arms) <= 5
    friends = [worker for worker in range(1, 50) if worker % 7 == 0]
    proposed = set(np.flatnonzero(arms.members.any(axis=0)).tolist()) - {0}
    assert proposed <= set(friends)
    assert memory.rounds[0]["cumulative_communication"] - memory.rounds[0]["communication"] == 100
    assert len(memory.arms) == 10 * len(arms)
    with pytest.raises(InputError, match=r"clusters.*rounds\.pretrain is 0"):
        config(arms="clusters", rounds={"pretrain": 0})


def test_with_many_arms_only_those_that_were_played_are_told() -> None:
    workers = task([1.0] + [0.5] * 9, train=10, validation=50, test=50)
    _, memory = run(config(arms="all", rounds={"rounds": 3}), workers)
    assert len(memory.arms) == 3


def test_estimates_of_an_earlier_run_come_first(workers: Any) -> None:
    arms = Arms.pairs(["w0", "w1", "w2", "w3"], "w0")
    prior = (arms, np.array([0.1, np.nan, -0.1]))
    settings = config(rule={"kind": "epsilon-greedy", "epsilon": 0.0, "initial": 0.0}, rounds={"rounds": 1})
    _, memory = run(settings, workers, priors=[prior])
    assert memory.rounds[0]["arm"] == "w0+w1"
    believed, fresh = (Personalisation(settings, workers=workers, priors=some) for some in ([prior], []))
    assert fresh.decision.values().tolist() == [0.0, 0.0, 0.0]
    assert believed.decision.values()[2] < -0.05
    assert believed.decision.values()[1] == 0.0


def test_estimates_of_another_target_are_used_by_symmetry(workers: Any) -> None:
    earlier = (Arms.pairs(["w0", "w1", "w2", "w3"], "w2"), np.array([0.3, 0.1, 0.1]))
    personalisation = Personalisation(config(), workers=workers, priors=[earlier])
    values = personalisation.decision.values()
    assert values[1] == pytest.approx(0.3, abs=0.08)
    assert values[0] == values[2] == 0.05


def test_fewer_epochs_as_gains_shrink(workers: Any) -> None:
    settings = config(
        rule={"kind": "fixed", "combination": ["w1"]},
        rounds={"rounds": 12, "epochs": {"kind": "shrinking", "epochs": 6, "least": 1, "window": 2}},
    )
    _, memory = run(settings, workers)
    epochs = [row["epochs"] for row in memory.rounds]
    assert epochs[:2] == [6, 6]
    assert min(epochs) < 6


def test_epochs_until_the_loss_stands_still(workers: Any) -> None:
    settings = config(rounds={"rounds": 4, "epochs": {"kind": "stable", "epochs": 9, "tolerance": 0.1}})
    _, memory = run(settings, workers)
    assert all(2 <= row["epochs"] <= 9 for row in memory.rounds)


def test_rows_have_the_columns_of_the_tables(workers: Any) -> None:
    _, memory = run(config(), workers)
    assert set(memory.rounds[0]) == set(PERSONAL_TABLES["rounds.csv"])
    assert tuple(memory.arms[0]) == PERSONAL_TABLES["arms.csv"]


def test_an_unknown_target_is_refused(workers: Any) -> None:
    with pytest.raises(EnlistError, match="no worker is called 'w9'"):
        Personalisation(config(target="w9"), workers=workers)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rul": "ucb"}, "Did you mean 'rule'"),
        ({"rule": "ubc"}, r"rule\.kind = 'ubc' is not known\. Did you mean 'ucb'"),
        ({"training": {"epochs": 3}}, r"epochs = 3 is not used here; set rounds\.epochs"),
        ({"training": {"partial": 0.5}}, "are for simulations with deadlines"),
        ({"arms": {"kind": "list"}}, "a list needs them"),
        ({"arms": {"kind": "pairs", "combinations": [["1"]]}}, "others have none"),
        ({"rounds": {"epochs": {"kind": "shrinking", "epochs": 2, "least": 3}}}, "least <= epochs"),
        ({"poison": [{"kind": "bribe", "workers": ["1"]}]}, "kind = 'bribe' is not known"),
    ],
)
def test_wrong_configurations_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PersonalConfig(**values)
