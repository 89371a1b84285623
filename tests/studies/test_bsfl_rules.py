"""The BSFL study's rules by hand: growth and its horizon, the bound, races, targets, and who leads."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from enlist._internal.statistics import Summary
from enlist.studies.bsfl import STUDY
from enlist.studies.bsfl.measures import DISTANCE, JAIN, REMAINING, degree, solver_time
from enlist.studies.bsfl.rules import (
    Bounded,
    InRange,
    RegretGrowth,
    WalkerRaces,
    bound,
    doubling,
    horizon,
    linear,
    logarithmic,
)
from enlist.studies.bsfl.settings import ALPHA, IID, LARGE, METHODS, NON_IID
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, UNTESTABLE, Claim, Verdict, judge
from enlist.studies.parts import simple_rules
from enlist.studies.results import Replicates, Results
from enlist.studies.rules import Arm
from tests.studies.bsfl_example import changed, example_results, group, grown, output

BSFL = Arm("regret", "BSFL")


def claim(key: str) -> Claim:
    return next(one for one in STUDY.claims if one.key == key)


def kind(key: str, results: Results) -> str:
    return judge(claim(key), results).verdict.kind


@pytest.mark.parametrize(("shape", "ratio"), [("ln n", 1.0), ("√n", math.sqrt(2)), ("n", 2.0)])
def test_growth_is_told_apart(shape: str, ratio: float) -> None:
    assert doubling(grown("regret", shape)).mean == pytest.approx(ratio, abs=0.02)


def test_a_regret_that_has_stopped_counts_as_logarithmic() -> None:
    still = {"rounds": np.array([1, 250, 500, 1000]), "pseudo": np.full(4, 3.0)}
    assert doubling(group("still", still, still)).mean == 1.0


@pytest.mark.parametrize(
    ("low", "high", "log", "straight"),
    [(0.9, 1.1, REPRODUCED, NOT), (1.3, 1.5, PARTLY, NOT), (1.7, 1.95, NOT, PARTLY), (1.95, 2.05, NOT, REPRODUCED)],
)
def test_rules_of_growth(low: float, high: float, log: str, straight: str) -> None:
    growth = Summary((low + high) / 2, low, high)
    assert logarithmic(growth, "").kind == log
    assert linear(growth, "").kind == straight


def test_the_horizon_by_hand() -> None:
    # Each of 20 clients may be the least tried of a lost round in 4 · 6 · ln 20,000 / 0.5² = 950.7 of them.
    assert horizon(20, 5, 20_000, 0.5) == pytest.approx(20 * 24 * math.log(20_000) / 0.25)
    assert bound(2, 1, 10, most=1.0, gap=1.0) == pytest.approx(2 * (8 * math.log(10) + 1 + math.pi**2 / 3))


def test_beyond_the_horizon_nothing_is_judged() -> None:
    rule = RegretGrowth("as ln n", BSFL, within=True)
    assert rule(Results({"regret": grown("regret", "n", least=0.5)})).kind == NOT  # 19,015 of 20,000 rounds
    found = rule(Results({"regret": grown("regret", "n", least=0.4)}))  # 29,710 of them
    assert (found.kind, found.ours) == (UNTESTABLE, "doubling 2.00 [2.00, 2.00]")
    assert found.why.startswith("beyond the horizon: with losses of 0.4 the proof allows 3e+04 rounds to be lost")
    counted = dataclasses.replace(rule, curve="counted")  # from 0.5 on, however small others are
    assert counted(Results({"regret": grown("regret", "ln n", least=1e-6)})).kind == REPRODUCED
    assert "beyond the horizon" in rule.words()
    assert "beyond the horizon" not in RegretGrowth("as ln n", BSFL).words()


def test_the_bound_by_hand() -> None:
    rule = Bounded(BSFL, [Arm("idle", "random")])
    limit = bound(20, 5, 20_000, 2.8, 0.5)
    assert 53_000 < limit < 56_000

    def judged(shape: str, times: float = 1.0, idle: float = 2.8) -> Verdict:
        return rule(Results({"regret": grown("regret", shape, times=times), "idle": grown("idle", "n", times=idle)}))

    assert judged("ln n").kind == REPRODUCED  # random loses 56,000
    assert judged("n", times=2.8).kind == NOT
    # Below n·Δmax the bound was called kept, though with a regret of 1 a round even random selection keeps it.
    idle = judged("ln n", idle=1.0)
    assert (idle.kind, idle.why) == (UNTESTABLE, "beyond the horizon: who learns nothing keeps below the bound as well")
    assert "random 2e+04; bound 5." in idle.ours


def race(walker: list[list[float]], sa: list[list[float]]) -> Results:
    sizes = np.array([[20, 5], [100, 20]])
    return Results({"race": group("race", {"sizes": sizes, "walker": np.array(walker), "sa": np.array(sa)})})


def test_races_count_wins_ties_and_losses() -> None:
    results = race([[1.0, 2.0], [3.0, 3.0]], [[1.0, 3.0], [2.0, 2.0]])
    rule = WalkerRaces(Arm("race", "ALSA"), 0.983)
    assert rule(results).ours == "2 wins, 1 ties, 1 losses of 4: 0.50 [0.15, 0.85]"
    assert rule(results).kind == NOT
    large = dataclasses.replace(rule, from_clients=100)
    assert large(results).ours.startswith("2 wins, 0 ties, 0 losses of 2")
    assert large(results).kind == UNTESTABLE  # 2 of 2 prove nothing
    assert ", 100 clients and more," in large.words()


def test_the_authors_neighbourhood_stands_beside_the_printed_one() -> None:
    results = example_results()
    sizes = np.array([[500, 25]])
    won = group("race/printed/one-sided", {"sizes": sizes, "walker": np.ones((1, 300)), "sa": np.zeros((1, 300))})
    lost = group("race/printed/alsa", {"sizes": sizes, "walker": np.zeros((1, 300)), "sa": np.ones((1, 300))})
    found = judge(claim("alsa-wins"), changed(results, won, lost)).verdict
    assert found.kind == NOT
    assert found.ours.startswith("as printed: 0 wins, 0 ties, 300 losses of 300")
    assert found.ours.endswith("300 wins, 0 ties, 0 losses of 300: 1.00 [0.99, 1.00] (by the same rule: reproduced)")
    reading = claim("alsa-wins").further.reading(changed(results, won, lost))
    assert "the same, 100 clients and more: 300 wins" in reading


def test_targets_above_one_are_said() -> None:
    one = {"steepest": 0.95, "falling": True, "largest": np.array([[0.9, 1.5], [0.1, 0.2]])}
    rule = InRange(Arm("targets", "lognormal sizes"))
    found = rule(Results({"targets": group("targets", one)}))
    assert found.kind == PARTLY
    assert "Eq. 4: above 1 in 0.50 [0.09, 0.91] of populations with 5 of 20, 0.00" in found.ours
    small = {**one, "largest": np.array([[0.9, 1.0], [0.1, 0.2]])}
    assert rule(Results({"targets": group("targets", small)})).kind == REPRODUCED
    assert rule(Results({"targets": group("targets", {**one, "falling": False})})).kind == NOT


def test_measures_by_hand() -> None:
    walk = output({"energy": np.array([0.0, 0.5, 0.9]), "optimum": 1.0, "random": 0.2})
    assert DISTANCE.of(walk, walk).number == pytest.approx((1.0 + 0.5 + 0.1) / 3)
    assert REMAINING.of(walk, walk).number == pytest.approx(0.1 / 0.8)
    states = output({"mean": 24.0, "largest": 60})
    assert degree(20, 5).of(states, states).number == 24 / 60
    solved = {"wrong": 0, "seconds": np.array([0.002])}
    assert [solver_time(0).of(output(solved | {"wrong": wrong}), output({})).number for wrong in (0, 1)] == [
        0.002,
        3600,
    ]
    assert JAIN.of(output({"jain": 0.7}), output({})).number == 0.7


@pytest.mark.parametrize(("shape", "expected"), [("ln n", REPRODUCED), ("√n", PARTLY), ("n", NOT)])
def test_theorem_1_is_judged_where_the_proof_speaks(shape: str, expected: str) -> None:
    groups = [grown(f"regret/two-speeds/{scenario}/bsfl", shape) for scenario in (IID, NON_IID)]
    results = changed(example_results(), *groups)
    assert kind("theorem-1", results) == expected
    assert kind("logarithmic", results) == UNTESTABLE  # losses of 1e-4
    assert kind("logarithmic-large", results) == UNTESTABLE
    assert kind("rivals-linear", results) == REPRODUCED
    assert kind("printed-regret", results) == NOT  # a constant loss per round is linear


def test_only_the_printed_algorithm_decides() -> None:
    results = example_results(lead=0.1)
    assert kind("pictures-iid", results) == REPRODUCED
    weak = results["train/mlp/iid/random"]
    moved = Replicates("train/mlp/iid/bsfl", weak.settings, weak.outputs)
    found = judge(claim("pictures-iid"), changed(results, moved)).verdict
    assert found.kind == NOT
    assert "our default: 1st of 3" in found.ours
    default = Replicates("train/mlp/iid/bsfl-default", weak.settings, weak.outputs)
    assert kind("pictures-iid", changed(results, default)) == REPRODUCED


@pytest.mark.parametrize(("lead", "expected"), [(0.1, REPRODUCED), (-0.1, NOT)])
def test_trainings_are_judged_by_who_leads(lead: float, expected: str) -> None:
    results = example_results(lead=lead)
    for key in ("linear-iid", "linear-non-iid", "pictures-iid", "pictures-non-iid", "cnn", "part-time", "superior"):
        assert kind(key, results) == expected
    assert kind("overfitting", results) == expected


def test_rivals_are_as_printed_and_oort_is_one() -> None:
    rule = simple_rules(claim("superior").rule)["/iid, accuracy"]
    assert [METHODS[arm.key.rpartition("/")[2]].text for arm in rule.against] == ["cs-ucb:paper", "oort:paper"]
    papers = simple_rules(claim("pictures-non-iid").rule)["/non-iid, accuracy"]
    assert [arm.name for arm in papers.against] == ["CS-UCB-Q", "size-proportional"]


def test_alpha_is_called_our_choice_wherever_it_is_one() -> None:
    for key in ("pictures-iid", "cnn", "superior", "overfitting", "logarithmic-large"):
        assert f"BSFL as printed (alpha = {ALPHA[LARGE]:g}, our choice)" in claim(key).rule.words()
    assert all(len(each.rule.words()) > 40 for each in STUDY.claims)


def test_power_is_that_of_development_seeds() -> None:
    rule = simple_rules(claim("pictures-non-iid").rule)["/non-iid, accuracy"]
    assert rule.spread == 0.0168
    # (2.262 + 0.883) · 0.0168 / √10 = 0.0167: ten seeds show 1.7 points, and 1 is the margin.
    assert rule.visible(10) == pytest.approx(0.0167, abs=1e-4)
    assert rule.visible(10) > rule.wanted()
    assert simple_rules(claim("pictures-iid").rule)["/iid, accuracy"].visible(10) < rule.wanted()
