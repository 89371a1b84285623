"""What the thesis claims, each with its rule and what is looked at next; the words are in claims.toml."""

from __future__ import annotations

from enlist.studies.further import looked_at
from enlist.studies.mabfl.comparisons import (
    ALWAYS,
    EXCHANGE,
    HALF_WAY,
    MATTERS,
    MOSTLY,
    OUTLYING,
    PRINTED_SHARE,
    ROUND,
    SLIGHT,
    better,
    changed,
    claim,
    combinations,
    epochs_rules,
    itself,
    leader,
    sweep,
    variants,
)
from enlist.studies.mabfl.rules import (
    ABOVE_CHANCE,
    ACCURACY,
    CLEARER,
    EARLY_LOSS,
    EARLY_RISE,
    FADING,
    KEPT_BEST,
    LATE_RISE,
    LATER,
    LEAD_LOST,
    LOWEST,
    MESSAGES,
    OUTLIERS,
    PAST_PEAK,
    PEAK,
    knowing,
    names_best,
    soon_best,
    tries_second,
)
from enlist.studies.mabfl.settings import (
    ALL,
    ALONE,
    AMOUNTS,
    BEST,
    CODES,
    DELAYED,
    EXPLORE,
    EXPLORE_BINARY,
    FINAL,
    POISONED,
    PREVIOUS,
    RELATIVE,
    SECOND,
    THOMPSON,
    THRESHOLDS,
    UCB,
    UCB_BINARY,
    explore_binary,
    fixed,
    together,
)
from enlist.studies.mabfl.tuning import COUNTS, QUANTILE, TUNING
from enlist.studies.margins import ANY, PERCENT_5
from enlist.studies.parts import Parts
from enlist.studies.rules import Arm, Contrast, Limit, Share

RIVALS = {"FedAvg": fixed(ALL), "target alone": fixed(ALONE)}
BASELINE = Arm(fixed(BEST).key, "0110 fixed")


LEAST, MOST = AMOUNTS[0], AMOUNTS[-1]
STRANGER = variants(
    "worker 4 of the drawn data is too unlike the target; with one of likeness 0.2 instead",
    "stranger",
    {
        "FedAvg, rounds 1 to 5": itself(EARLY_RISE, changed("stranger-1111"), MATTERS),
        "FedAvg, later": itself(LATE_RISE, changed("stranger-1111"), ANY),
        "best pair − FedAvg": better(changed("stranger-0110"), changed("stranger-1111"), MATTERS),
        "best pair − target alone": better(changed("stranger-0110"), changed("stranger-0100"), MATTERS),
    },
)
CROSSING = looked_at(
    "the lead changes with the amount of data",
    {
        f"target alone − best pair, {amount:g} times the data": better(sweep(amount, ALONE), sweep(amount, BEST))
        for amount in AMOUNTS
    },
)
COMBINATIONS = (
    claim(
        "personalisation-pays",
        Parts({name: better(fixed(BEST), arm, MATTERS) for name, arm in RIVALS.items()}),
        STRANGER,
    ),
    claim("best-pair", leader(fixed(BEST), [fixed(code) for code in CODES], MATTERS)),
    claim(
        "second-pair",
        leader(fixed(SECOND), [fixed(code) for code in CODES if code != BEST], MATTERS),
        variants(
            "worker 1 of the drawn data is not alike enough; with likeness 0.7 instead of 0.5",
            "closer",
            {"1100 − target alone": better(changed("closer-1100", "1100"), fixed(ALONE), MATTERS)},
        ),
    ),
    claim(
        "more-data",
        Parts(
            {
                "the pair no longer helps": Contrast(
                    "no worse", PEAK, sweep(MOST, ALONE), [sweep(MOST, BEST)], MATTERS
                ),
                "the target alone is the best": better(sweep(MOST, ALONE), sweep(MOST, BEST), ANY),
            }
        ),
        CROSSING,
        most=MOST,
    ),
    claim(
        "lead-shrinks",
        itself(
            LEAD_LOST,
            together("0110", *(sweep(amount, code) for amount in (LEAST, MOST) for code in (BEST, ALONE))),
            MATTERS,
        ),
        CROSSING,
    ),
    claim(
        "fedavg-bad-start",
        Parts({"early": itself(EARLY_LOSS, fixed(ALL), MATTERS), "late": itself(LATE_RISE, fixed(ALL), ANY)}),
        STRANGER,
    ),
    claim("best-from-start", itself(EARLY_RISE, fixed(BEST), MATTERS)),
    claim("told-apart", itself(ABOVE_CHANCE, combinations(), HALF_WAY)),
    claim("non-stationary", itself(FADING, fixed(BEST), MATTERS)),
    claim(
        "overfitting",
        itself(PAST_PEAK, fixed(SECOND), MATTERS),
        variants(
            "training ends before the peak is passed; with twice as many rounds",
            "long",
            {"1100": itself(PAST_PEAK, changed("long-1100", "1100"), MATTERS)},
        ),
    ),
    claim(
        "second-data-set",
        Parts(
            {
                fixed(code).name: better(
                    Arm(f"pictures/{BEST}", BEST), Arm(f"pictures/{code}", code), MATTERS, ACCURACY
                )
                for code in (ALL, ALONE)
            }
        ),
    ),
)

EPOCH_CLAIMS = (
    claim("epochs-same-peak", *epochs_rules("same")),
    claim("epochs-sooner", *epochs_rules("sooner")),
    claim("epochs-separate", *epochs_rules("separate")),
    claim("epochs-spread", *epochs_rules("spread")),
    claim("residuals-normal", *epochs_rules("normal")),
    claim("residual-paths", *epochs_rules("paths")),
    claim("against-local", itself(CLEARER, combinations(), PERCENT_5)),
    claim("fewer-outliers", itself(OUTLIERS, combinations(data="one"), OUTLYING)),
)

BONUS = variants(
    "c = 0.05 is next to nothing for rewards of 0 and 1; binary UCB with larger bonuses against continuous UCB",
    "ucb-binary",
    {f"c = {c:g}": better(changed(f"ucb-binary-c{c:g}"), UCB) for c in (0.2, 0.5, 1.0)},
)
RULES = (
    claim("explore-best", leader(EXPLORE, [arm for arm in FINAL if arm.key != EXPLORE_BINARY.key]), "mean"),
    claim("thompson-worst", leader(THOMPSON, FINAL, SLIGHT, LOWEST), QUANTILE),
    claim("binary-ucb", Contrast("no worse", PEAK, UCB_BINARY, [UCB], SLIGHT), BONUS),
    claim(
        "continuous-explore",
        better(EXPLORE, together("mean over thresholds", *(explore_binary(t) for t in THRESHOLDS))),
        variants(
            "a model is chosen by this round's rewards; with delayed ones it is chosen by estimates",
            "delayed-binary",
            {"continuous − binary": better(DELAYED, changed("delayed-binary", "binary"))},
        ),
    ),
    claim(
        "rules-similar",
        Parts(
            {
                arm.name: Contrast("alike", PEAK, arm, [UCB], MATTERS)
                for arm in FINAL
                if arm.key not in (THOMPSON.key, UCB.key)
            }
        ),
        "mean",
    ),
    claim("rules-over-fedavg", Parts({arm.name: better(arm, fixed(ALL), MATTERS) for arm in FINAL}), "mean"),
    claim(
        "binary-slower",
        Parts(
            {
                name: itself(LATER, together("binary − continuous", binary, continuous), ROUND)
                for name, binary, continuous in (
                    ("UCB", UCB_BINARY, UCB),
                    ("Extreme Explore", EXPLORE_BINARY, EXPLORE),
                )
            }
        ),
    ),
    claim(
        "tries-second",
        Share(
            "the second-best pair on the same data is kept in at least two rounds",
            tries_second,
            knowing("experiments of binary UCB", UCB_BINARY),
            ALWAYS,
        ),
        BONUS,
    ),
    claim("chooses-best", Limit("at least", KEPT_BEST, knowing("Extreme Explore", EXPLORE), PRINTED_SHARE)),
    claim("mixing-helps", better(UCB_BINARY, fixed(BEST)), "mean"),
    claim(
        "soon-clear",
        Share(
            "the highest estimate after round 3 is that of the best pair on the same data",
            soon_best,
            knowing("experiments of Extreme Explore", EXPLORE),
            MOSTLY,
        ),
    ),
    claim(
        "right-pair-named",
        Parts(
            {
                arm.name: Share(
                    "the rule ends with the best pair on the same data", names_best, knowing("experiments", arm), MOSTLY
                )
                for arm in FINAL
            }
        ),
    ),
)

IDEAS = (
    claim("retraining", better(fixed(BEST), UCB), "mean"),
    claim("explore-cheaper", Contrast("greater", MESSAGES, DELAYED, [UCB], EXCHANGE, BASELINE)),
    claim("delay-harmless", Contrast("alike", PEAK, DELAYED, [EXPLORE], MATTERS), "mean"),
    claim("relative-worse", better(UCB, RELATIVE), "mean"),
    claim("previous-worse", better(UCB, PREVIOUS), "mean"),
    claim(
        "poison-avoided",
        Parts(
            {
                arm.name: Share(
                    "worker 3 is left out", lambda output: output["code"][2] == "0", Arm(arm.key, "experiments"), ALWAYS
                )
                for arm in POISONED.values()
            }
        ),
        variants(
            "flipped labels are a special poison; others in worker 1, with UCB",
            "poison",
            {
                name: Share(
                    "worker 1 is left out",
                    lambda output: output["code"][0] == "0",
                    changed(f"poison-{name}", "experiments"),
                    ALWAYS,
                )
                for name in ("sign-flip", "noise")
            },
        ),
    ),
)

CLAIMS = (*COMBINATIONS, *EPOCH_CLAIMS, *TUNING, *RULES, *IDEAS, *COUNTS)
