"""FedSUV's measures and rules, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from enlist.errors import UnknownNameError
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, UNTESTABLE, judge
from enlist.studies.fedsuv import STUDY
from enlist.studies.fedsuv.claims import CLAIMS, covered, somewhere
from enlist.studies.fedsuv.rules import (
    ABLE,
    ACCURACY_RATIO,
    EXPONENT,
    GONE,
    IN_CORNER,
    LOW_ROUNDS,
    MISJUDGED,
    STAY,
    VALUED,
    WRONGLY,
    OverWorst,
    all_covered,
    all_eliminated,
    below,
    little_regret,
    narrow,
)
from enlist.studies.fedsuv.settings import AVERAGING, FEDSUV, RIVALS, TASKS, YOGI
from enlist.studies.measures import ROUNDS_TO_TARGET, Measure
from enlist.studies.parts import Largest
from enlist.studies.results import Results
from enlist.studies.rules import Arm, Contrast
from tests.studies.fedsuv_example import changed, example_results, group, output, training

CLAIM = {claim.key: claim for claim in CLAIMS}


def value(measure: Measure, **found: Any) -> float:
    one = output(found)
    return measure.of(one, one).number


def test_who_is_asked_at_the_end() -> None:
    shares = np.array([0.0] * 8 + [0.5, 1.0])  # the last fifth: two rounds
    assert value(ABLE, able=shares) == 0.75
    assert value(ABLE, able=np.array([0.25])) == 0.25


def test_candidates_and_requests_by_hand() -> None:
    found = {
        "validity": np.array([0.1, 0.39, 0.4, 0.9]),
        "utility": np.array([0.9, 0.9, 0.9, 0.5]),
        "candidate": np.array([2, 4, 6, 10]),
        "selected": np.array([1, 1, 3, 5]),
        "valued": np.array([1.0] * 10),
        "best": 4.0,
    }
    assert value(LOW_ROUNDS, **found) == pytest.approx(0.3)  # (2 + 4) / 2 of 10 rounds
    assert value(STAY, **found) == pytest.approx(0.8 / 0.3)
    assert value(GONE, **found) == 1.0
    assert value(GONE, **{**found, "candidate": np.array([2, 10, 6, 10])}) == 0.5
    assert value(IN_CORNER, **found) == 0.5  # only the last client lies in it: 5 of 10 requests
    assert value(VALUED, **found) == 0.25


def test_removals_are_shares_of_those_removed() -> None:
    assert value(WRONGLY, eliminated=np.array([[3, 1], [1, 0]])) == 0.25
    assert value(MISJUDGED, pruned=np.array([[0, 0]])) == 0.0


@pytest.mark.parametrize(("power", "expected"), [(1.0, 1.0), (0.5, 0.5)])
def test_the_exponent_of_regret(power: float, expected: float) -> None:
    total = np.arange(0.0, 201.0) ** power
    assert value(EXPONENT, front=np.diff(total)) == pytest.approx(expected)


def test_theorem_5_1_counts_runs_in_which_it_says_something() -> None:
    runs = [np.array([[0, 0], [0, 0]]), np.array([[0, 0], [5, 5]]), np.array([[2, 2], [5, 4]])]
    assert [all_eliminated(output({"hopeless": each})) for each in runs] == [[], [True], [False]]
    rule = CLAIM["theorem-5-1"].rule
    idle = Results({"cut/fedsuv": group("cut/fedsuv", *[{"hopeless": runs[0]}] * 80)})
    assert rule(idle).kind == UNTESTABLE
    kinds = []
    for wrong in (0, 1, 8):  # of 80: lowest of Wilson's 0.954, 0.933, 0.814
        made = [{"hopeless": runs[2]}] * wrong + [{"hopeless": runs[1]}] * (80 - wrong)
        kinds.append(rule(Results({"cut/fedsuv": group("cut/fedsuv", *made)})).kind)
    assert kinds == [REPRODUCED, PARTLY, NOT]


def test_theorem_5_3_wants_everybody_in_every_round() -> None:
    good, bad = np.ones((3, 3)), np.array([[1.0, 1.0, 1.0], [1.0, 0.99, 0.99]])
    assert all_covered(output({"covered": good}))
    assert not all_covered(output({"covered": bad}))
    arm = Arm("process/0/fedsuv", "FedSUV")
    for missed, kind in ((0, REPRODUCED), (20, NOT)):
        made = [{"covered": bad}] * missed + [{"covered": good}] * (40 - missed)
        assert covered(arm)(Results({arm.key: group(arm.key, *made)})).kind == kind
    few = covered(arm)(Results({arm.key: group(arm.key, *[{"covered": good}] * 10)}))
    assert few.kind == UNTESTABLE


def test_bounds_count_where_they_say_something() -> None:
    assert below(np.array([9.0, 1.0]), np.array([8.0, 2.0]), np.array([5.0, 5.0])) == [True]
    assert below(np.array([9.0, 3.0]), np.array([8.0, 2.0]), np.array([5.0, 5.0])) == [False]
    assert narrow(output({"width": np.array([1.0]), "width_bound": np.array([1.5])})) == []  # above the diagonal
    assert narrow(output({"width": np.array([1.0]), "width_bound": np.array([1.4])})) == [True]
    # Regret 1, 2, 3 of at most 1, 2, 3: a bound of 2.5 says something in the third round only, and is exceeded there.
    assert little_regret(output({"front": np.ones(3), "regret_bound": np.full(3, 2.5)})) == [False]
    assert little_regret(output({"front": np.ones(3), "regret_bound": np.full(3, 1e6)})) == []


def flat(key: str, *levels: float) -> Any:
    return group(key, *({"accuracy": np.full(10, level), "end": np.arange(1.0, 11.0)} for level in levels))


def test_a_gain_is_over_the_worst_rival() -> None:
    arms = [Arm(name, name) for name in ("fedsuv", "first", "worst")]
    results = Results(
        {each.key: each for each in (flat("fedsuv", 0.88, 0.88), flat("first", 0.9, 0.9), flat("worst", 0.8, 0.8))}
    )
    rule = OverWorst(ACCURACY_RATIO, arms[0], arms[1:], 0.026)
    assert rule(results)[:2] == (REPRODUCED, "1.100 [1.100, 1.100] times against worst")
    assert OverWorst(ACCURACY_RATIO, arms[0], arms[1:], 0.2)(results).kind == PARTLY


def rising(key: str, *rounds: int | None) -> Any:
    """Runs of ten rounds whose accuracy jumps to 0.8 in this round, or stays at 0.1."""
    made = [np.where(np.arange(1, 11) >= (at or 99), 0.8, 0.1) for at in rounds]
    return group(key, *({"accuracy": each, "end": np.arange(1.0, 11.0)} for each in made))


def speed(name: str) -> Contrast:
    return Contrast(
        "greater", ROUNDS_TO_TARGET, Arm(f"{name}/fedsuv", "FedSUV"), [Arm(f"{name}/random", "random")], 0.05
    )


def test_the_largest_speed_up_counts_and_bounds_prove_nothing() -> None:
    # The mean of five evaluations is at nine tenths of 0.8 four rounds after the jump: 9 over 5 is 1.8.
    slow, fast = rising("one/random", 5, 5), rising("one/fedsuv", 1, 1)
    same = [rising("two/random", 5, 5), rising("two/fedsuv", 5, 5)]
    results = Results({each.key: each for each in (slow, fast, *same)})
    parts = {name: speed(name) for name in ("one", "two", "missing")}
    verdict = Largest(parts, 2.83)(results)
    assert verdict[:2] == (PARTLY, "1.80 [1.80, 1.80] times (one, of 2 settings)")
    assert Largest(parts, 1.7)(results).kind == REPRODUCED
    stuck = changed(results, rising("one/fedsuv", 1, None))
    assert Largest({"one": speed("one")}, 1.7)(stuck).kind == NOT
    with pytest.raises(UnknownNameError):
        Largest({"missing": speed("missing")}, 1.7)(results)


def test_the_printed_algorithm_decides_and_others_stand_beside_it() -> None:
    """The old rule made "partly" of a reading that the paper does not print."""
    start = "train/small-steps/averaging"
    levels = {"fedavg": 5.0, "fedsuv": 20.0, "late-0": 2.0, "default": 2.0}
    groups = [group(f"{start}/{name}", *[training(0.8, rise)] * 3) for name, rise in levels.items()]
    verdict = CLAIM["rounds-averaging"].rule(Results({each.key: each for each in groups}))
    assert verdict.kind == NOT
    assert "late clients count 0" in verdict.ours
    assert "(by the same rule: reproduced)" in verdict.ours


def test_claims_are_judged_where_they_were_run() -> None:
    results = example_results()
    kinds = {claim.key: judge(claim, results).verdict.kind for claim in CLAIMS}
    assert kinds["rounds-averaging"] == kinds["rounds-yogi"] == kinds["in-time"] == REPRODUCED
    assert kinds["how-fast"] == PARTLY
    averaging = Results({key: each for key, each in results.groups.items() if "yogi" not in key})
    assert judge(CLAIM["rounds-yogi"], averaging).verdict.kind == UNTESTABLE
    assert judge(CLAIM["rounds-averaging"], averaging).verdict.kind == REPRODUCED


def test_oort_is_as_printed_and_five_methods_are_compared() -> None:
    for aggregation in (AVERAGING, YOGI):
        rule: Any = CLAIM[f"accuracy-{aggregation}"].rule
        compared = rule.parts["small-steps"].rule
        assert [arm.key.rpartition("/")[2] for arm in compared.against] == list(RIVALS)
    settings = {each.key: each.settings for each in STUDY.experiments(STUDY.scale("laptop"))}
    assert settings["train/small-steps/averaging/oort"]["selector"] == "oort:paper"
    assert settings[f"process/0/{FEDSUV}"]["selector"] == "fedsuv:paper"


def test_words_come_from_the_values() -> None:
    assert "mean at least 1.05 times" in CLAIM["rounds-averaging"].rule.words()
    assert CLAIM["excluded"].rule.words().endswith("mean at least 0.7, and its interval with it")
    assert "mean at least 2.83 times" in somewhere(AVERAGING).words()
    assert all(task in somewhere(YOGI).words() for task in TASKS)
