"""Rules as data: verdicts by hand, and sentences that follow the same values."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from enlist._internal.statistics import smallest_difference
from enlist.errors import InputError, UnknownNameError
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, UNTESTABLE, counted, trials_for
from enlist.studies.measures import (
    EVENNESS,
    FINAL_ACCURACY,
    FINAL_LOSS,
    ROUNDS_TO_TARGET,
    SECONDS_TO_TARGET,
    Measure,
    Value,
    final_accuracy,
)
from enlist.studies.parts import AllSettings, AsPrinted, Parts, simple_rules, with_spreads
from enlist.studies.results import Output, Replicates, Results
from enlist.studies.rules import Arm, Contrast, Limit, Share, Untestable

OURS, BASE, OTHER = Arm("ours", "ours"), Arm("base", "random"), Arm("other", "the other")
NUMBER = Measure("the number", lambda output, base: Value(output["number"], bool(output["open"])))
TIME = dataclasses.replace(NUMBER, name="the time", ratio=True, less=True)


def results(**columns):
    """Experiments of these keys, a number per seed; inf means that a run spent 100 and never got there."""
    groups = {}
    for key, numbers in columns.items():
        outputs = {
            seed: Output({"number": 100.0 if math.isinf(number) else number, "open": math.isinf(number)}, {}, 1.0)
            for seed, number in enumerate(numbers)
        }
        groups[key] = Replicates(key, {}, outputs)
    return Results(groups)


def test_a_difference_by_hand():
    # Differences 2, 3, 4: mean 3, deviation 1, t(2) = 4.303, half 4.303 / sqrt(3) = 2.484.
    found = results(ours=[3.0, 4.0, 5.0], base=[1.0, 1.0, 1.0])
    rule = Contrast("greater", NUMBER, OURS, [BASE], margin=3.0)
    verdict = rule(found)
    assert (verdict.kind, verdict.ours) == (REPRODUCED, "+3.00 [+0.52, +5.48]")
    assert dataclasses.replace(rule, margin=3.1)(found).kind == PARTLY
    assert dataclasses.replace(rule, margin=6.0)(results(ours=[1.0, 0.0, 2.0], base=[1.0, 1.0, 1.0])).kind == NOT


def test_seeds_are_paired_and_those_without_a_partner_are_left_out():
    found = results(ours=[3.0, 4.0, 5.0, 900.0], base=[1.0, 1.0, 1.0])
    assert Contrast("greater", NUMBER, OURS, [BASE], 3.0)(found).ours == "+3.00 [+0.52, +5.48]"


def test_a_ratio_is_the_time_of_the_other_over_ours():
    # Ratios 2, 4, 8: geometric mean 4; logarithms have deviation ln 2, half 4.303 ln 2 / sqrt(3) = 1.722.
    found = results(ours=[10.0, 10.0, 10.0], base=[20.0, 40.0, 80.0])
    verdict = Contrast("greater", TIME, OURS, [BASE], 0.1)(found)
    assert verdict.kind == PARTLY  # 4 / e^1.722 = 0.71
    assert verdict.ours == "4.00 [0.71, 22.38] times"
    sure = results(ours=[10.0, 10.0, 10.0], base=[20.0, 21.0, 22.0])
    assert Contrast("greater", TIME, OURS, [BASE], 0.1)(sure).kind == REPRODUCED
    assert (
        Contrast("greater", TIME, BASE, [OURS], 0.1)(sure).why == "the interval lies below 1: the opposite is the case"
    )


def test_a_run_that_never_got_there_makes_a_bound():
    never = results(ours=[10.0, 10.0, 10.0], base=[math.inf] * 3)
    verdict = Contrast("greater", TIME, OURS, [BASE], 0.1)(never)
    assert (verdict.kind, verdict.ours) == (REPRODUCED, "at least 10.00 [10.00, 10.00] times")
    # Ours never got there with one seed, so that what we have is a bound from above: it proves nothing.
    ours = results(ours=[10.0, 10.0, math.inf], base=[200.0, 210.0, 2000.0])
    verdict = Contrast("greater", TIME, OURS, [BASE], 0.1)(ours)
    assert verdict.kind == PARTLY
    assert verdict.ours.startswith("at most 20.")
    assert "never got there" in verdict.why


def test_alike_and_no_worse():
    found = results(ours=[1.0, 1.1, 0.9], base=[1.0, 1.0, 1.0])  # 0 ± 0.248
    for margin, alike in ((0.3, REPRODUCED), (0.2, PARTLY)):
        assert Contrast("alike", NUMBER, OURS, [BASE], margin)(found).kind == alike
        assert Contrast("no worse", NUMBER, OURS, [BASE], margin)(found).kind == alike
    assert Contrast("no worse", NUMBER, OURS, [BASE], 0.2)(results(ours=[0.1, 0.2], base=[1.0, 1.0])).kind == NOT


def test_a_lead_is_told_as_the_ratio_that_it_is():
    ratio = dataclasses.replace(NUMBER, ratio=True)
    found = results(ours=[2.2, 2.2, 2.2], base=[2.0, 2.0, 2.0], other=[1.0, 1.0, 1.0])
    lead = Contrast("leads", ratio, OURS, [BASE, OTHER], 0.05)(found)
    assert lead.ours == "1st of 3; 1.10 [1.10, 1.10] times against random"
    assert lead.why == "it comes first, and its lead over the next is certain and at least 1.05 times"
    behind = Contrast("leads", ratio, OTHER, [BASE, OURS], 0.05)(found)
    assert behind.why == "certainly better, on average by 1.05 times or more: random, ours"


def test_an_effect_that_is_certain_and_too_small_is_a_result_and_not_a_lack_of_seeds():
    weak = Contrast("greater", NUMBER, OURS, [BASE], 1.0, spread=100.0)
    found = results(ours=[1.5, 1.51, 1.52], base=[1.0, 1.0, 1.0])  # 0.51 ± 0.02, which excludes 1
    assert weak(found).kind == PARTLY


def test_a_small_ratio_is_told_with_all_that_it_has():
    small = Contrast("greater", dataclasses.replace(NUMBER, ratio=True), OURS, [BASE], 0.005, spread=0.02)
    verdict = small(results(ours=[1.0, 1.02, 1.0], base=[1.0, 1.0, 1.0]))
    assert verdict.kind == UNTESTABLE
    assert verdict.why.endswith("and 1.005 times is what matters")


def test_the_best_of_several_needs_its_margin():
    found = results(ours=[3.0, 3.1, 3.2], base=[2.9, 3.0, 3.1], other=[1.0, 1.1, 1.2])
    rule = Contrast("leads", NUMBER, OURS, [BASE, OTHER], 0.05)
    assert rule(found).kind == REPRODUCED
    assert rule(found).ours == "1st of 3; +0.10 [+0.10, +0.10] against random"
    small = dataclasses.replace(rule, margin=0.2)(found)
    assert (small.kind, small.why.partition(";")[0]) == (
        PARTLY,
        "it comes first, but its lead is certain, but below 0.2",
    )
    assert dataclasses.replace(rule, of=OTHER, against=[BASE, OURS])(found).kind == NOT


def test_less_is_better_for_the_best_of_several_too():
    found = results(ours=[10.0, 11.0, 12.0], base=[20.0, 22.5, 24.0], other=[30.0, 33.0, 37.0])
    assert Contrast("leads", TIME, OURS, [BASE, OTHER], 0.1)(found).kind == REPRODUCED
    assert Contrast("leads", TIME, OTHER, [BASE, OURS], 0.1)(found).kind == NOT


def test_seeds_that_could_not_have_shown_it_make_a_claim_not_testable():
    # By the noncentral t with three degrees of freedom; (t_0.975 + t_0.8) / sqrt(4) = 2.08 is near it.
    assert smallest_difference(1.0, 4) == pytest.approx(2.128, abs=1e-3)
    unclear = results(ours=[0.0, 4.0, 0.0, 4.0], base=[1.0, 1.0, 1.0, 1.0])
    rule = Contrast("greater", NUMBER, OURS, [BASE], 0.5, spread=2.0)
    assert dataclasses.replace(rule, spread=None)(unclear).kind == PARTLY
    verdict = rule(unclear)
    assert (verdict.kind, verdict.why) == (UNTESTABLE, "4 seeds would show 4.3 or more, and 0.5 is what matters")
    # What the paper claims is large enough to be seen: then the seeds count.
    assert dataclasses.replace(rule, claimed=5.0)(unclear).kind == PARTLY
    # A verdict that is clear stays, whatever was expected.
    assert rule(results(ours=[9.0, 9.1, 9.2, 9.1], base=[1.0] * 4)).kind == REPRODUCED


def test_the_printed_algorithm_decides():
    found = results(ours=[1.0, 1.1, 0.9], base=[1.0, 1.0, 1.0], other=[3.0, 3.1, 3.2])
    rule = AsPrinted(Contrast("greater", NUMBER, OURS, [BASE], 0.5), [OTHER])
    assert rule(found).kind == NOT
    assert "the other: +2.10" in rule(found).ours
    assert rule.words().endswith("the printed algorithm decides, the other stands beside it")


def test_parts_are_reproduced_if_all_are():
    found = results(ours=[3.0, 3.1, 3.2], base=[1.0, 1.0, 1.0], other=[3.0, 3.1, 3.2])
    good, bad = (Contrast("greater", NUMBER, OURS, [against], 0.5) for against in (BASE, OTHER))
    assert Parts({"one": good, "two": good})(found).kind == REPRODUCED
    assert Parts({"one": good, "two": bad})(found).kind == PARTLY
    assert Parts({"one": bad, "two": bad})(found).kind == NOT


@pytest.mark.parametrize("margin", [0.02, 0.035])
def test_the_sentence_has_the_margin_that_decides(margin):
    rule = Contrast("greater", FINAL_ACCURACY, OURS, [BASE], margin)
    assert rule.words().endswith(f"ours − random: interval above 0, mean at least {100 * margin:g} points")
    ratio = Contrast("greater", ROUNDS_TO_TARGET, OURS, [BASE], margin)
    assert ratio.words().endswith(
        f"random over ours, geometric mean: interval above 1, mean at least {1 + margin:g} times"
    )
    assert Contrast("no worse", EVENNESS, OURS, [BASE], margin).words().endswith(f"interval above -{margin:g}")


def test_the_target_is_set_by_the_baseline_of_the_same_seed():
    def run(last):
        return Output({}, {"accuracy": np.linspace(0.0, last, 11), "end": np.arange(1.0, 12.0)}, 1.0)

    fast, slow = run(1.0), run(0.5)
    assert final_accuracy(slow) == pytest.approx(0.45)  # of 0.4, 0.45 and 0.5
    # 0.405 is wanted as a mean of five: rounds 3 to 7 of the fast one have 0.4 (0.2 .. 0.6), rounds 4 to 8 have 0.5.
    assert ROUNDS_TO_TARGET.of(fast, slow) == Value(8.0)
    assert ROUNDS_TO_TARGET.of(slow, fast) == Value(11.0, open=True)


def test_a_share_is_judged_with_its_interval():
    assert trials_for(0.9) == 35  # n / (n + 1.96^2) >= 0.9
    from enlist._internal.statistics import share

    assert counted(share(40, 40), 0.9, trials=40).kind == REPRODUCED
    assert counted(share(38, 40), 0.9, trials=40).kind == PARTLY
    assert counted(share(30, 40), 0.9, trials=40).kind == NOT
    assert counted(share(10, 10), 0.9, trials=10).kind == UNTESTABLE
    assert counted(share(1, 10), 0.9, trials=10).kind == NOT


def test_a_number_without_a_rival_is_compared_with_0_and_a_ratio_with_1():
    # 2, 3, 4: mean 3 ± 2.484; as ratios 2, 4, 8: geometric mean 4, logarithms ± 1.722 as above.
    rule = Contrast("greater", NUMBER, OURS, [], margin=3.0)
    assert rule(results(ours=[2.0, 3.0, 4.0]))[:2] == (REPRODUCED, "+3.00 [+0.52, +5.48]")
    assert rule.words() == "the number, ours: interval above 0, mean at least 3"
    growth = Contrast("greater", dataclasses.replace(NUMBER, ratio=True), OURS, [], margin=0.1)
    assert growth(results(ours=[2.0, 4.0, 8.0]))[:2] == (PARTLY, "4.00 [0.71, 22.38] times")
    assert growth.words() == "the number, ours, geometric mean: interval above 1, mean at least 1.1 times"


def test_the_spread_is_the_deviation_of_paired_differences():
    found = results(ours=[3.0, 4.0, 5.0], base=[1.0, 1.0, 1.0], other=[1.0, 4.0, 7.0])
    assert Contrast("greater", NUMBER, OURS, [BASE], 1.0).spread_in(found) == pytest.approx(1.0)
    assert Contrast("leads", NUMBER, OURS, [BASE, OTHER], 1.0).spread_in(found) == pytest.approx(2.0)  # 2, 0, −2
    ratios = results(ours=[10.0, 10.0, 10.0], base=[20.0, 40.0, 80.0])
    assert Contrast("greater", TIME, OURS, [BASE], 0.1).spread_in(ratios) == pytest.approx(math.log(2))
    rule = Contrast("greater", FINAL_ACCURACY, OURS, [BASE], 0.02)
    assert simple_rules(Parts({"a": AsPrinted(rule, [OTHER]), "b": Untestable("so")}), "key") == {"key/a": rule}


def test_an_arm_beside_that_failed_is_left_out():
    found = results(ours=[3.0, 3.1, 3.2], base=[1.0, 1.0, 1.0])
    verdict = AsPrinted(Contrast("greater", NUMBER, OURS, [BASE], 0.5), [OTHER])(found)
    assert (verdict.kind, verdict.brief) == (REPRODUCED, "+2.10 [+1.85, +2.35]")


@pytest.mark.parametrize(
    ("heads", "kind"),
    [([1] * 40, REPRODUCED), ([1] * 38 + [0] * 2, PARTLY), ([1] * 30 + [0] * 10, NOT), ([1] * 10, UNTESTABLE)],
)
def test_a_share_of_cases(heads, kind):
    rule = Share("it is so", lambda output: output["number"] > 0, Arm("ours", "runs"), 0.9)
    assert rule(results(ours=heads)).kind == kind
    together = Results({"ours": Replicates("ours", {}, {0: Output({}, {"number": np.array(heads)}, 1.0)})})
    assert rule(together).ours == rule(results(ours=heads)).ours
    assert rule.words() == "share of the runs in which it is so, with Wilson's interval: at least 0.9"


def test_experiments_without_a_case_do_not_count_and_none_at_all_is_no_test():
    rule = Share("it is so", lambda output: output["cases"], Arm("ours", "cases"), 0.9)

    def of(*cases):
        return Results(
            {"ours": Replicates("ours", {}, {n: Output({"cases": each}, {}, 1.0) for n, each in enumerate(cases)})}
        )

    assert rule(of([True] * 40, [])).ours.endswith("of the 40 cases")
    assert rule(of([], []))[::2] == (UNTESTABLE, "there was no case of it")


def test_the_same_rule_wherever_it_was_run():
    found = results(ours=[3.0, 3.1, 3.2], base=[1.0, 1.0, 1.0])
    here = Contrast("greater", NUMBER, OURS, [BASE], 0.5)
    there = dataclasses.replace(here, of=Arm("there/ours", "ours"))
    assert AllSettings({"here": here, "there": there})(found).ours == "here: +2.10 [+1.85, +2.35]"
    assert list(simple_rules(AllSettings({"here": here, "there": there}), "faster")) == ["faster/here", "faster/there"]
    with pytest.raises(UnknownNameError, match="there/ours"):
        AllSettings({"there": there})(found)
    with pytest.raises(InputError, match="use Parts"):
        AllSettings({"here": here, "there": dataclasses.replace(here, margin=1.0)}).words()


def test_reasons_that_parts_share_are_said_once():
    found = results(ours=[3.0, 3.1, 3.2], base=[1.0, 1.0, 1.0])
    good = Contrast("greater", NUMBER, OURS, [BASE], 0.5)
    assert Parts({"one": good, "two": good})(found).why.startswith("one, two: the interval lies above 0")


def test_a_number_against_a_fixed_limit():
    # 3, 4, 5: mean 4, half 4.303 / sqrt(3) = 2.484.
    found = results(ours=[3.0, 4.0, 5.0])
    kinds = [Limit("at most", NUMBER, OURS, limit)(found).kind for limit in (6.5, 6.4, 3.9)]
    assert kinds == [REPRODUCED, PARTLY, NOT]
    assert [Limit("at least", NUMBER, OURS, limit)(found).kind for limit in (1.5, 1.6, 4.1)] == [
        REPRODUCED,
        PARTLY,
        NOT,
    ]
    assert Limit("at most", NUMBER, OURS, 6.5)(found).ours == "4.00 [1.52, 6.48]"
    assert Limit("at most", NUMBER, OURS, 6.5)(results(ours=[3.0])).kind == PARTLY  # one seed is never certain


def test_any_rule_about_somebody_can_be_asked_of_others():
    found = AsPrinted(Limit("at most", NUMBER, OURS, 6.5), [OTHER])(results(ours=[3.0, 4.0, 5.0], other=[9.0, 9.0]))
    assert (found.kind, found.ours.split("; ")[1]) == (
        REPRODUCED,
        "the other: 9.00 [9.00, 9.00] (by the same rule: not reproduced)",
    )


def test_parts_of_which_none_can_be_tested():
    weak = Contrast("greater", NUMBER, OURS, [BASE], 1.0, spread=100.0)
    found = results(ours=[3.0, 1.0, 2.5], base=[1.0, 1.0, 1.0])
    assert weak(found).kind == UNTESTABLE
    assert Parts({"one": weak, "two": weak})(found).kind == UNTESTABLE
    sure = Limit("at least", NUMBER, BASE, 1.0)
    assert Parts({"one": weak, "two": sure})(found).kind == REPRODUCED, "a part without power does not count"


def test_first_place_without_power_is_no_test():
    found = results(ours=[3.0, 1.0, 2.5], base=[1.0, 1.0, 1.0], other=[0.5, 0.5, 0.5])
    rule = Contrast("leads", NUMBER, OURS, [BASE, OTHER], 1.0)
    assert rule(found).kind == PARTLY  # +1.17 without certainty
    just = 1.0 / smallest_difference(1.0, 3)  # with this spread three seeds just show the margin
    assert dataclasses.replace(rule, spread=0.99 * just)(found).kind == PARTLY
    assert dataclasses.replace(rule, spread=1.01 * just)(found).kind == UNTESTABLE


def test_less_loss_is_better():
    curves = {"ours": [9.0, 0.25, 0.25, 0.25], "base": [9.0, 0.5, 0.5, 0.5]}
    groups = {
        key: Replicates(key, {}, {seed: Output({}, {"loss": np.array(curve)}, 1.0) for seed in (0, 1)})
        for key, curve in curves.items()
    }
    assert Contrast("greater", FINAL_LOSS, OURS, [BASE], 0.1)(Results(groups)).ours == "+0.250 [+0.250, +0.250]"


def test_keys_that_are_looked_at_together_are_one_outcome_per_common_seed():
    mean = Measure("mean of both", lambda output, base: Value(float(np.mean(output["number"]))))
    numbers = {"one": {0: 1.0, 1: 2.0, 2: 9.0}, "two": {0: 3.0, 1: 6.0}, "base": {0: 1.0, 1: 1.0, 2: 1.0}}
    found = Results(
        {
            key: Replicates(key, {}, {seed: Output({"number": number}, {}, 1.0) for seed, number in own.items()})
            for key, own in numbers.items()
        }
    )
    both = Arm("one", "both", ("two",))
    rule = Contrast("greater", mean, both, [Arm("base", "base")], 1.0)
    # Seed 0: (1 + 3) / 2 - 1 = 1; seed 1: (2 + 6) / 2 - 1 = 3; seed 2 has no second key.
    assert rule.differences(found, both, rule.against[0])[0].tolist() == [1.0, 3.0]
    assert Limit("at least", mean, both, 3.0)(found).ours.startswith("3.00")
    assert Share("it is large", lambda output: max(output["number"]) > 3, both, 0.5)(found).ours.endswith(
        "of the 2 both"
    )


def test_spreads_are_found_by_claim_and_part():
    plain = Contrast("greater", NUMBER, OURS, [BASE], 0.5)
    rule = with_spreads(Parts({"a": plain, "b": AsPrinted(plain, [])}), {"claim/a": 0.1, "claim/b": 0.2}, "claim")
    assert [each.spread for each in simple_rules(rule).values()] == [0.1, 0.2]
    assert with_spreads(Untestable("no"), {}, "claim") == Untestable("no")


def test_of_a_run_with_few_evaluations_the_mean_of_all_has_to_reach_the_target():
    """Twelve rounds, evaluated every third: four evaluations, where the window is of five."""
    accuracy = np.full(12, np.nan)
    accuracy[2::3] = [0.6, 0.9, 1.0, 1.0]
    run = Output({}, {"accuracy": accuracy, "end": 10.0 * np.arange(1, 13)}, 1.0)
    low = Output({}, {"accuracy": np.full(12, 0.9), "end": np.arange(12.0)}, 1.0)
    assert ROUNDS_TO_TARGET.of(run, low) == Value(12.0)  # the mean, 0.875, is nine tenths of 0.9 or more
    assert SECONDS_TO_TARGET.of(run, low) == Value(120.0)
    assert ROUNDS_TO_TARGET.of(run, run) == Value(12.0, open=True)
