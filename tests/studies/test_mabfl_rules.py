"""Measures and odd rules of the MAB-FL study, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.studies.claims import NOT, PARTLY, REPRODUCED, UNTESTABLE
from enlist.studies.mabfl import rules
from enlist.studies.mabfl.claims import CLAIMS
from enlist.studies.mabfl.comparisons import by_mean
from enlist.studies.mabfl.counts import printed_overlap, right_overlap
from enlist.studies.mabfl.experiments import overlap
from enlist.studies.mabfl.rules import EqualCounts, Resampled, mean_of, means_range, spread
from enlist.studies.results import Output, Replicates, Results
from enlist.studies.rules import Arm, Contrast, Limit, Share

CLAIM = {claim.key: claim for claim in CLAIMS}


def session(**values):
    return Output(
        {name: np.array(value) if isinstance(value, list) else value for name, value in values.items()}, {}, 1.0
    )


def results(**columns):
    """Key -> outputs, one per seed."""
    return Results({key: Replicates(key, {}, dict(enumerate(outputs))) for key, outputs in columns.items()})


def test_separation():
    def joined(*rises):
        rows = [np.array(rise) for rise in rises]
        return Output({"validation": rows, "local": [np.zeros(len(row)) for row in rows]}, {}, 1.0)

    assert rules.separation(joined([0.3] * 4, [0.1] * 4, [0.2] * 4)) == 1.0
    assert rules.separation(joined([0.1, 0.2], [0.1, 0.2])) == 0.5  # one larger, one smaller, two ties
    assert rules.separation(joined([0.2] * 4, [0.1] * 4, [0.3] * 4, [0.1, 0.1, 0.3, 0.3])) == 0.5  # (1 + 0 + 1/2) / 3
    # Against the round before: 0.2 and 0.1 for the first, 0 for the other.
    assert rules.separation(joined([0.1, 0.3, 0.4], [0.5, 0.5, 0.5]), "previous") == 1.0


def test_increases_early_and_late():
    rise = [0.04] * 5 + [0.02] * 5 + [0.01] * 10
    run = session(validation=(0.6 + np.array(rise)).tolist(), local=[0.6] * 20)
    assert rules.early(run) == pytest.approx(0.04)
    assert rules.late(run) == pytest.approx(0.01)
    assert rules.FADING.of(run, run).number == pytest.approx(0.03)
    assert rules.EARLY_LOSS.of(run, run).number == pytest.approx(-0.04)
    short = session(validation=[0.5, 0.7, 0.7, 0.7], local=[0.5] * 4)
    assert rules.late(short) == pytest.approx(0.2)  # of four rounds the last two


def test_rounds_and_messages_to_a_level():
    slow, fast = np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.5, 0.75, 0.75, 0.75])
    both = Output({"validation": [slow, fast]}, {}, 1.0)
    assert rules.rounds_later(both) == 2.0  # 0.74 is reached in rounds 4 and 2
    run = session(test=[0.6, 0.69, 0.7], messages=[10, 16, 22])
    assert rules.messages_to(run, session(peak=0.71)).number == 16.0  # 0.69 is enough
    never = rules.messages_to(run, session(peak=0.9))
    assert (never.number, never.open) == (22.0, True)


def test_who_never_gets_there_proves_nothing():
    rule = CLAIM["explore-cheaper"].rule
    curve = {"test": [0.6, 0.7], "messages": [6, 12], "peak": 0.7}
    found = results(
        **{
            rule.of.key: [session(**curve | {"messages": [3, 3]})] * 3,
            rule.against[0].key: [session(**curve | {"messages": [20, 30 + 2 * seed]}) for seed in range(3)],
            rule.baseline.key: [session(peak=0.72)] * 3,
        }
    )
    assert rule(found).kind == REPRODUCED  # 27, 29 and 31 messages less, 6 are enough
    lost = results(**{key: list(group.outputs.values()) for key, group in found.groups.items()})
    lost.groups[rule.of.key].outputs[0] = session(test=[0.5, 0.5], messages=[3, 3], peak=0.5)
    verdict = rule(lost)
    assert (verdict.kind, "never got there" in verdict.why) == (PARTLY, True)


def test_changes_and_settling():
    run = session(test=[0.5, 0.6, 0.5, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5])
    assert rules.changes(run).mean() == pytest.approx(0.05)
    assert rules.settling(run) == pytest.approx(0.1)  # four changes of 0.1, then none
    two = Output({"test": [np.array([0.5, 0.7]), np.array([0.5, 0.6])]}, {}, 1.0)
    assert rules.CHANGE.of(two, two).number == pytest.approx(0.15)


def knowing(**first):
    """A session of a rule, and three pairs held fixed of which 1100 is the best and 0101 the second best."""
    held = {
        "mean": [0.7, 0.6, 0.65],
        "adopted": [None] * 3,
        "code": ["x"] * 3,
        "codes": [[]] * 3,
        "estimates": [None] * 3,
    }
    return Output({name: [first.get(name), *rest] for name, rest in held.items()}, {}, 1.0)


def test_the_best_pair_is_that_of_the_same_data():
    run = knowing(
        mean=0.9,
        adopted=np.array(["1100", "1100", "1100", "0110"]),
        code="1100",
        codes=["1100", "0110", "0101"],
        estimates=np.array([[0.0, 0.3, 0.1], [0.0, 0.3, 0.1], [0.4, 0.3, 0.1]]),
    )
    assert rules.ranked(run) == ["1100", "0101", "0110"]
    assert rules.kept_best(run) == 0.75
    assert rules.names_best(run)
    assert rules.soon_best(run)  # 0.4 after round 3
    assert not rules.tries_second(run)  # 0101 was never played; 0110 is the worst
    assert rules.estimate_lead(run) == pytest.approx(0.1)  # of three rounds the last


def test_claims_on_the_best_pair_look_at_pairs_held_fixed():
    held = ("drawn/1100-6", "drawn/0110-6", "drawn/0101-6")
    for key in ("chooses-best", "soon-clear", "tries-second"):
        assert CLAIM[key].rule.of.keys[-3:] == held
    for part in CLAIM["right-pair-named"].rule.parts.values():
        assert isinstance(part, Share)
        assert part.of.keys[-3:] == held
    assert isinstance(CLAIM["chooses-best"].rule, Limit)


def test_outliers_and_residuals():
    calm = np.array([0.0, 1.0, 2.0, 3.0, 99.0])  # quartiles 1 and 3: beyond 6 is an outlier
    assert rules.outlying(calm) == 0.2
    assert rules.outlying(np.zeros(4)) == 0.0
    rng = np.random.default_rng(1)
    assert (
        rules.straightness(rng.normal(size=(10, 15))) > 0.98 > rules.straightness(rng.exponential(size=(10, 15)) ** 2)
    )
    assert abs(rules.persistence(rng.normal(size=(200, 20)))) < 0.1
    assert spread(np.array([[1.0], [3.0]])) == pytest.approx(0.0, abs=1e-6)  # deviation 1


def test_past_the_peak_and_the_lead_that_is_lost():
    assert rules.PAST_PEAK.of(session(kept=0.7, test=[0.7, 0.65]), None).number == pytest.approx(0.05)
    # With little data 0.70 against 0.66, with much 0.80 against 0.81.
    four = Output({"peak": [0.70, 0.66, 0.80, 0.81]}, {}, 1.0)
    assert rules.LEAD_LOST.of(four, four).number == pytest.approx(0.05)


def test_resampled_numbers():
    a, b, c = (Arm(name, name) for name in "abc")
    found = results(a=[session(peak=1.0)] * 4, b=[session(peak=3.0)] * 4, c=[session(peak=1.5)] * 4)
    wide = Resampled("greater", "range", means_range, [a, b], [a, c], "peak", 0.5)  # 2 - 0.5
    assert wide(found).kind == REPRODUCED
    assert wide(found).ours == "+1.500 [+1.500, +1.500]"
    narrow = Resampled("greater", "range", means_range, [a, c], [a, b], "peak", 0.5)
    assert narrow(found).kind == NOT
    assert Resampled("no worse", "mean", mean_of(np.mean), [a], [c], "peak", 0.6)(found).kind == REPRODUCED  # -0.5
    # Deviations around the mean of both: a and c stay 0.25 apart from it, whatever the data are worth.
    data = results(a=[session(peak=each) for each in (1.0, 9.0)], c=[session(peak=each + 0.5) for each in (1.0, 9.0)])
    alike = Resampled("no worse", "deviation", lambda column: float(column.std()), [a], [c], "peak", 0.1, centred=True)
    assert alike(data).ours == "+0.000 [+0.000, +0.000]"
    assert alike.words().startswith("deviation around the mean of all on the same data, a − c")
    single = results(a=[session(peak=1.0)], b=[session(peak=1.0)], c=[session(peak=1.0)])
    assert wide(single).kind == UNTESTABLE


def test_counts_against_the_print():
    def rule(*pairs):
        return EqualCounts("n", lambda output: dict(zip("abc", pairs, strict=False)), Arm("a", "a"))(
            results(a=[session()])
        )

    assert rule((6, 6), (8, 8)).kind == REPRODUCED
    assert rule((6, 6), (7, 8)).kind == PARTLY
    assert rule((6, 6), (7, 8)).ours == "1 of 2 agree; b: 7 (8 printed)"
    assert rule((5, 6)).kind == NOT


@pytest.mark.parametrize("others", range(1, 8))
def test_overlap_of_different_combinations(others):
    assert right_overlap(others) == pytest.approx(overlap(others))
    if others == 2:
        # 00 01 10 11: of 12 ordered pairs, only (01,11), (10,11) and their reverses share one worker
        assert overlap(2) == pytest.approx(4 / 12)
        assert printed_overlap(2) == pytest.approx(0.4375)


def test_the_mean_of_all_rounds_in_place_of_the_highest():
    rule = Contrast("greater", rules.PEAK, Arm("a", "A"), [Arm("b", "B")], 0.1)
    found = results(a=[session(peak=1.0, mean=0.5)] * 3, b=[session(peak=0.5, mean=0.5)] * 3)
    assert rule(found).kind == REPRODUCED
    assert by_mean(rule)(found).kind == NOT
    worst = by_mean(CLAIM["thompson-worst"].rule)
    assert (worst.measure.less, "mean test AUC" in worst.words()) == (True, True)
