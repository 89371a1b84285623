"""Rules and measures of the Darts study, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.studies.claims import NOT, PARTLY, REPRODUCED, UNTESTABLE, judge, read_further
from enlist.studies.darts import DARTS, measures
from enlist.studies.darts.rules import (
    JUST_ABOVE,
    LARGEST,
    ONE_CLASS,
    SMALLEST,
    Trait,
    Typical,
    takes_sixteen,
    weightings,
)
from enlist.studies.darts.settings import DEFAULT, NO_EPSILON, NO_START, PRINTED, RANDOM, ROTATION, STRETCHED
from enlist.studies.measures import ROUNDS_TO_TARGET
from enlist.studies.results import Replicates, Results
from enlist.studies.rules import Arm
from tests.studies.darts_example import example_results, output, profile

CLAIMS = {claim.key: claim for claim in DARTS.claims}
ROUNDS = 20


def made(groups):
    """Results from outputs: arm or key -> one dictionary per seed."""
    named = {getattr(arm, "key", arm): outputs for arm, outputs in groups.items()}
    return Results(
        {
            key: Replicates(key, {}, {seed: output(**each) for seed, each in enumerate(outputs)})
            for key, outputs in named.items()
        }
    )


def late(*starts, level=0.5):
    """A population per start: accuracy 0 before that many rounds, then the level; four clients in turn."""
    who = np.arange(ROUNDS)[:, None] % 4
    return [
        {
            "accuracy": np.where(np.arange(ROUNDS) < start, 0.0, level),
            "end": np.arange(1.0, ROUNDS + 1),
            "who": who,
            "selected": np.bincount(who.ravel(), minlength=4),
            "samples": np.array([1.0, 2.0, 3.0, 4.0]),
        }
        for start in starts
    ]


def test_savings_compare_with_random_on_the_same_population():
    # Nine tenths of the level by a mean of five rounds: five rounds after the start. Random 15, printed 5; the samples
    # of 15 rounds are 3 · 10 + 6, of five 10 + 1.
    slow, fast = late(10, 10), late(0, 0)
    results = made({RANDOM: slow, PRINTED: fast, STRETCHED: slow, DEFAULT: slow, ROTATION: slow})
    faster = CLAIMS["faster"].rule(results)
    assert faster.kind == REPRODUCED
    assert faster.ours.startswith("as printed: 3.00 [3.00, 3.00] times; UCB with gains stretched: 1.00 [1.00, ")
    samples = measures.SAMPLES_TO_TARGET
    own, base = output(**fast[0]), output(**slow[0])
    assert (samples.of(base, base).number, samples.of(own, base).number) == (36, 11)
    assert "samples: as printed: 3.27 [3.27, 3.27] times" in CLAIMS["thriftier"].rule(results).ours


def test_who_never_gets_there_spends_the_whole_run_and_proves_nothing():
    never, base = output(**late(0, level=0.2)[0]), output(**late(0, level=0.9)[0])
    assert ROUNDS_TO_TARGET.of(never, base) == (20.0, True)
    assert measures.SAMPLES_TO_TARGET.of(never, base) == (50.0, True)


def test_rewards_are_judged_by_rounds_against_a_rotation_to_randoms_target():
    # The rotation ends higher, which must not raise the bar: 0.45 is met by the mean of five rounds as soon as three of
    # them have 0.9, in round 8; UCB meets it in round 5.
    groups = {RANDOM: late(10, 10), PRINTED: late(0, 0), ROTATION: late(5, 5, level=0.9)}
    verdict = CLAIMS["rewards"].rule(made(groups))
    assert (verdict.kind, verdict.ours) == (REPRODUCED, "as printed: 1.60 [1.60, 1.60] times")
    del groups[ROTATION]
    assert judge(CLAIMS["rewards"], made(groups)).verdict.kind == UNTESTABLE
    assert CLAIMS["faster"].rule(made(groups)).kind == REPRODUCED


def test_the_printed_algorithm_decides():
    groups = {RANDOM: [], PRINTED: [], DEFAULT: []}
    for base, printed, default in ((0.5, 0.5, 0.56), (0.6, 0.61, 0.66), (0.7, 0.7, 0.75)):
        for arm, level in zip(groups, (base, printed, default), strict=True):
            groups[arm] += late(0, level=level)
    verdict = CLAIMS["accuracy"].rule(made(groups))
    # Differences 0, 1, 0 points: 0.33 ± 4.303 · 0.577 / sqrt(3) = 1.43, which excludes two points.
    assert verdict.kind == NOT
    assert verdict.ours.startswith(
        "as printed: +0.3 [-1.1, +1.8] points; our default: +5.7 [+4.2, +7.1] points (by the"
    )
    assert CLAIMS["round-20"].rule(made(groups)).ours == verdict.ours


def test_the_lead_after_round_1_has_no_test():
    judged = judge(CLAIMS["round-1"], example_results())
    assert judged.verdict.kind == UNTESTABLE
    assert "0 by construction" in judged.verdict.why
    assert not judged.needs_further


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ([0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3], REPRODUCED),
        ([3, 3, 3, 3, 3, 3, 2, 2, 2, 1, 1, 0], PARTLY),  # uneven, but the wrong way round
        ([0, 1, 2, 3], NOT),
    ],
)
def test_adaptive_means_uneven_and_right(pattern, kind):
    worth = np.array([0.004, 0.003, 0.002, 0.001])

    def run(repeated):
        who = np.concatenate([np.arange(5) % 4, np.resize(repeated, 360)])
        return {"accuracy": np.cumsum(worth[who]), "who": who[:, None], "samples": np.ones(4)}

    base, own = [run([0, 1, 2, 3])] * 3, [run(pattern)] * 3
    assert CLAIMS["adaptive"].rule(made({RANDOM: base, PRINTED: own, DEFAULT: base})).kind == kind


def test_fairness_and_steadiness():
    base, uneven = late(0, 0), late(0, 0)
    for each, own in zip(base, uneven, strict=True):
        own["selected"] = np.array([20, 0, 0, 0])  # Jain 1/4, and 1 for all alike
        each["accuracy"] = 0.5 + 0.05 * (-1.0) ** np.arange(ROUNDS)  # ten points up and down
    results = made({RANDOM: base, PRINTED: uneven})
    assert CLAIMS["fairness"].rule(results)[:2] == (REPRODUCED, "as printed: +0.75 [+0.75, +0.75]")
    assert CLAIMS["steadier"].rule(results)[:2] == (REPRODUCED, "as printed: +10.0 [+10.0, +10.0] points")


def test_exploration_is_judged_against_its_ablations():
    groups = {
        RANDOM: late(0, 0),
        PRINTED: late(0, 0, level=0.53),
        NO_EPSILON: late(0, 0),
        NO_START: late(0, 0, level=0.52),
    }
    verdict = CLAIMS["exploration"].rule(made(groups))
    assert verdict.kind == PARTLY
    assert verdict.ours.startswith(
        "without ε: +3.0 [+3.0, +3.0] points; without random start: +1.0 [+1.0, +1.0] points"
    )


def test_the_server_evaluates_for_rewards():
    times = {"server/random": (0.1, 0.0), "server/printed": (0.3, 2.0), "server/default": (0.6, 2.0)}
    groups = {key: [{"choosing": [own, 9.0], "evaluation": more}] * 3 for key, (own, more) in times.items()}
    verdict = CLAIMS["server"].rule(made(groups))
    assert (verdict.kind, verdict.ours.partition(";")[0]) == (REPRODUCED, "as printed: +2.20 [+2.20, +2.20] ms")


def test_our_default_has_to_be_more_accurate_and_faster():
    for level, start, kind in ((0.53, 0, REPRODUCED), (0.53, 10, PARTLY), (0.48, 10, NOT)):
        groups = {RANDOM: late(10, 10), PRINTED: late(10, 10), DEFAULT: late(start, start, level=level)}
        assert CLAIMS["default"].rule(made(groups)).kind == kind


def test_single_mini_batches_give_time_and_deviation():
    columns = {
        "batch": np.array([8, 8, 16, 16]),
        "length": np.array([8, 4, 16, 8]),
        "seconds": np.array([1.0, 3.0, 4.0, 8.0]),
        "memory": np.array([[10.0, 30.0], [50.0, 50.0]]),
        "accuracy": np.array([[1.0, 0.5], [0.5, 0.5]]),
    }
    found = measures.by_size(output(**columns))
    assert (found["time"].tolist(), found["time deviation"].tolist()) == ([2.0, 6.0], [1.0, 2.0])
    assert found["per sample"].tolist() == [4 / 12, 12 / 24]
    assert (found["memory"].tolist(), found["memory deviation"].tolist()) == ([20.0, 50.0], [10.0, 0.0])
    one = output(**columns)
    assert (measures.TIME.of(one, one).number, measures.TIME_DEVIATION.of(one, one).number) == (3.0, 2.0)


def test_memory_steepens_if_a_further_sample_takes_more():
    sizes = np.repeat([8, 16, 32], 2)
    run = output(
        batch=sizes,
        length=sizes,
        seconds=np.ones(6),
        memory=np.array([[100.0], [180.0], [500.0]]),  # 10 bytes a sample, then 20
        accuracy=np.ones((3, 1)),
    )
    assert measures.STEEPENING.of(run, run).number == 2.0
    assert measures.MEMORY.of(run, run).number == 5.0


def test_a_profile_is_one_measurement_per_client_and_size():
    settings = {"sizes": [8, 16], "passes": 2}
    one = output(**profile(settings, np.random.default_rng(1)))
    found = measures.profile_of([one, one])
    assert (len(found.measurements), len(found.clients), found.rounds) == (48, 24, 2)
    first = found.measurements[0]
    assert (first.batch, first.samples, first.steps, first.memory) == (8, 20, 3, 82_000)
    own = (one["batch"] == 8) & (one["client"] == 0) & (one["passed"] == 1)
    assert first.passes[1] == pytest.approx(one["seconds"][own].sum())
    assert measures.pass_seconds(one, 16)[0] == pytest.approx(first_of(one, 16))


def first_of(one, size):
    own = (one["batch"] == size) & (one["client"] == 0)
    return one["seconds"][own].sum() / one["length"][own].sum()


def test_sixteen_is_a_share_of_populations_with_its_interval():
    results = example_results()
    assert all(takes_sixteen(each) for each in results["profile"].outputs.values())
    assert CLAIMS["sixteen"].rule(results).kind == UNTESTABLE  # three of three prove nothing
    text = weightings(results)
    assert "of 66 weightings" in text
    assert "without 8 it is 16, without 32 it is 16" in text


def test_traits_of_a_draw():
    counts = np.zeros((1, 4, 2), dtype=int)
    counts[0] = [[100, 0], [270, 3], [130, 130], [180, 187]]  # of 1,000: equal shares are 250
    assert [trait.of(counts).tolist() for trait in (LARGEST, SMALLEST)] == [[0.367], [0.1]]
    assert ONE_CLASS.of(counts).tolist() == [1.0]  # 270 of 273 are 98.9 %
    assert JUST_ABOVE.of(counts).tolist() == [2.0]  # 273 and 260 of up to 287


@pytest.mark.parametrize(
    ("rare", "least", "kind"),
    [(100, False, REPRODUCED), (25, False, PARTLY), (5, False, NOT), (0, True, REPRODUCED), (390, True, NOT)],
)
def test_typical_is_what_is_not_among_the_rare(rare, least, kind):
    # Of 400 draws `rare` have less than the report's 5, all others more: as extreme on the lower side are `rare`.
    sizes = np.where(np.arange(400) < rare, 4, 6)
    trait = Trait("size", lambda counts: counts[:, 0, 0].astype(float), 5, least)
    results = made({"draws": [{"counts": sizes[:, None, None]}]})
    assert Typical(trait, Arm("draws", "draws"))(results).kind == kind


def test_every_claim_says_its_rule_and_is_judged_and_has_a_reading():
    results = example_results()
    for claim in DARTS.claims:
        assert claim.rule.words()
        judged = read_further(judge(claim, results), results)
        assert judged.verdict.ours
        assert "missing" not in judged.verdict.why + judged.reading
    said = "UCB as printed − random: interval above 0, mean at least 2 points; the printed algorithm decides, UCB with "
    assert CLAIMS["accuracy"].rule.words().endswith(f"{said}gains stretched, our default stand beside it")
