"""Comparisons: the same for any number of processes, the same world for all selectors, intervals as in the textbook."""

from __future__ import annotations

import concurrent.futures
import csv
import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import stats

from enlist.arena import BSFLReward, MatchRecord, Summary, Tournament, compare, paired_difference, scenario, summarise
from enlist.arena.compare import growth, rollout_regret, run, save
from enlist.errors import EnlistError, InputError, UnknownNameError

SETTINGS = Tournament(
    ("random", "bsfl", "thompson", "genie"),
    "uneven",
    clients=15,
    k=3,
    rounds=40,
    seeds=2,
    over_commit=1.4,
    late="learn",
)


def plain(results):
    return {
        key: (record.rounds, record.curves, record.selected.tolist(), record.scores) for key, record in results.items()
    }


def record_of(**scores):
    return MatchRecord(rounds=[1], curves={}, selected=np.zeros(1, int), scores=scores)


def test_results_do_not_depend_on_the_number_of_processes():
    ticks = {1: [], 2: []}
    alone = compare(SETTINGS, jobs=1, progress=lambda *key: ticks[1].append(key))
    together = compare(SETTINGS, jobs=2, progress=lambda *key: ticks[2].append(key))
    assert plain(alone) == plain(together)
    assert list(alone) == list(together) == SETTINGS.runs(), "in another order"
    assert sorted(ticks[1]) == sorted(ticks[2]) == sorted(SETTINGS.runs())


def test_a_run_depends_on_its_own_selector_and_seed_alone():
    alone = compare(SETTINGS)
    assert plain({("bsfl", 1): run(SETTINGS, "bsfl", 1)})["bsfl", 1] == plain(alone)["bsfl", 1]
    assert plain(alone)["random", 0] != plain(alone)["random", 1]
    later = compare(dataclasses.replace(SETTINGS, selectors=("random",), first_seed=1, seeds=1))
    assert plain(later)["random", 1] == plain(alone)["random", 1], "luck depends on the first seed, not on its own"


def test_every_selector_meets_the_same_world():
    settings = Tournament(("random", "bsfl"), "unreliable", clients=15, k=15, rounds=40, seeds=2)
    results = compare(settings)
    for seed in (0, 1):
        # Everybody takes part in every round: nothing is left to the selector.
        ours, theirs = results["random", seed].scores, results["bsfl", seed].scores
        for name in ("round_time", "utility", "completed", "late", "dropped", "accuracy_gain", "printed_regret"):
            assert ours[name] == theirs[name], name
        assert 0.0 < ours["dropped"] < 1.0
    assert results["random", 0].scores["utility"] != results["random", 1].scores["utility"]
    first, second = settings.world(1), settings.world(1)
    assert np.array_equal(first.latency(3), second.latency(3))
    assert first.scenario == scenario("unreliable")


def test_seeds_count_from_the_first():
    settings = Tournament(("random",), "alike", clients=5, k=2, rounds=3, seeds=2, first_seed=7)
    assert settings.runs() == [("random", 7), ("random", 8)]
    assert settings.world(7).seed == 7


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"selectors": ("random", "bsfk")}, "Did you mean 'bsfl'"),
        ({"selectors": ("random", "bsfl:papr")}, "no preset called 'papr'"),
        ({"scenario": "diurnall"}, "Did you mean 'diurnal'"),
        ({"selectors": ()}, "no methods were given"),
        ({"k": 0}, "k is 0"),
        ({"rounds": 0}, "rounds is 0"),
        ({"clients": 0}, "clients is 0"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": -2}, "seeds is -2"),
        ({"late": "maybe"}, "late"),
        ({"over_commit": 0.5}, "over_commit is 0.5"),
        ({"alpha": math.nan}, "alpha is nan"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_refused_before_anything_is_played(wrong, message, jobs, monkeypatch):
    def no_pool(*args, **kwargs):
        raise AssertionError("a process was started")

    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", no_pool)
    played = []
    base = {"selectors": ("random",), "scenario": "alike", "clients": 5, "k": 2, "rounds": 3, "seeds": 1}

    def attempt():
        settings = {"reward": BSFLReward(**wrong)} if "alpha" in wrong else wrong
        compare(Tournament(**{**base, **settings}), jobs, lambda *key: played.append(key))

    with pytest.raises(EnlistError, match=message):
        attempt()
    assert played == [], "runs were played before the error"


def test_errors_are_of_our_own_kind():
    with pytest.raises(UnknownNameError):
        compare(Tournament(("nobody",), "alike", clients=5, k=2, rounds=3, seeds=1))
    with pytest.raises(InputError):
        compare(Tournament((), "alike", clients=5, k=2, rounds=3, seeds=1))


# Intervals


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [0.3, -5.0], list(np.random.default_rng(0).normal(3, 2, 10))])
def test_the_interval_is_student_s(values):
    summary = Summary.of(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert (summary.mean, summary.low, summary.high) == pytest.approx((np.mean(values), low, high))


def test_the_interval_covers_the_truth_nineteen_times_in_twenty():
    draws = np.random.default_rng(1).normal(2.0, 3.0, (2000, 5))
    covered = [(summary := Summary.of(row)).low <= 2.0 <= summary.high for row in draws]
    # Standard error sqrt(0.95 * 0.05 / 2000) = 0.005.
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def test_a_single_seed_has_no_interval():
    summary = Summary.of([4.0])
    assert summary.mean == 4.0
    assert math.isnan(summary.low)
    assert math.isnan(summary.high)


def test_summaries_and_paired_differences_by_hand():
    results = {
        ("a", 0): record_of(time=1.0),
        ("b", 0): record_of(time=4.0),
        ("a", 1): record_of(time=3.0),
        ("b", 1): record_of(time=5.0),
        ("a", 2): record_of(time=8.0),
        ("b", 2): record_of(time=12.0),
    }
    assert summarise(results, "time")["a"] == Summary.of([1.0, 3.0, 8.0])
    assert list(summarise(results, "time")) == ["a", "b"]
    found = paired_difference(results, "time", "a", against="b")
    test = stats.ttest_rel([1.0, 3.0, 8.0], [4.0, 5.0, 12.0]).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx((-3.0, test.low, test.high))
    assert found.high < 0 < summarise(results, "time")["a"].high - summarise(results, "time")["b"].low


def test_rollout_regret_is_what_the_genie_gained_more():
    rewards = {"a": [1.0, 3.0, 8.0], "genie": [4.0, 5.0, 12.0]}
    results = {
        (name, seed): record_of(expected_reward=v) for name, row in rewards.items() for seed, v in enumerate(row)
    }
    assert rollout_regret(results, "a") == Summary.of([3.0, 2.0, 4.0])


def test_growth_by_hand():
    def climbing(*regret):
        rounds = list(range(1, len(regret) + 1))
        return MatchRecord(rounds, {"pseudo": list(regret), "printed": [2.0 * r for r in rounds]}, np.zeros(1, int), {})

    results = {
        ("linear", 0): climbing(1.0, 2.0, 3.0, 4.0),
        ("flat", 0): climbing(2.0, 2.0, 2.0, 2.5),
        ("flat", 1): climbing(2.0, 4.0, 4.0, 4.0),
        ("none", 0): climbing(0.0, 0.0, 0.0, 0.0),
        ("squared", 0): climbing(1.0, 4.0, 9.0, 16.0),
    }
    found = {name: summary.mean for name, summary in growth(results).items()}
    assert found == pytest.approx({"linear": 1.0, "flat": 0.125, "none": 0.0, "squared": 3.0})
    assert growth(results, "printed")["flat"].mean == pytest.approx(1.0)


def test_growth_of_a_single_round_is_no_accident():
    results = compare(Tournament(("random", "genie"), "slow-minority", clients=10, k=2, rounds=1, seeds=2))
    for summary in growth(results).values():
        assert math.isnan(summary.mean) or summary.mean == 0.0


def test_regret_that_grows_linearly_and_regret_that_flattens():
    settings = Tournament(("random", "bsfl"), "slow-minority", clients=20, k=5, rounds=600, seeds=3)
    found = growth(compare(settings))
    assert found["random"].mean == pytest.approx(0.9, abs=0.2)
    assert found["bsfl"].mean < 0.75


# Files


def test_what_is_saved_can_be_read_and_is_what_was_found(tmp_path):
    results = compare(SETTINGS)
    save(tmp_path / "deep" / "folder", SETTINGS, results)
    folder = tmp_path / "deep" / "folder"
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["selectors"] == list(SETTINGS.selectors)
    assert (settings["clients"], settings["k"], settings["rounds"], settings["seeds"]) == (15, 3, 40, 2)
    assert settings["reward"] == {"alpha": 1.0, "beta": 1.0, "normalised": True, "by_size": False, "capped": True}
    assert settings["world"]["latency"] == scenario("uneven").latency
    with open(folder / "scores.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["selector"], int(row["seed"])) for row in rows] == SETTINGS.runs()
    for row in rows:
        record = results[row["selector"], int(row["seed"])]
        assert {name: float(row[name]) for name in record.scores} == record.scores
        assert len(row) == 2 + len(record.scores)
    with open(folder / "curves.csv", newline="") as file:
        curves = list(csv.DictReader(file))
    assert len(curves) == sum(len(record.rounds) for record in results.values())
    for key, record in results.items():
        mine = [row for row in curves if (row["selector"], int(row["seed"])) == key]
        assert [int(row["round"]) for row in mine] == record.rounds
        for name, values in record.curves.items():
            assert [float(row[name]) for row in mine] == values, (key, name)
        assert float(mine[-1]["pseudo"]) == record.scores["pseudo_regret"]
        assert float(mine[-1]["time"]) / record.rounds[-1] == pytest.approx(record.scores["round_time"])
