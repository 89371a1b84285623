"""Claims on the settings of rules (the grid of Table 3), and on what is counted: their words are in claims.toml."""

from __future__ import annotations

from enlist.studies.further import looked_at
from enlist.studies.mabfl.comparisons import (
    ALWAYS,
    CALM,
    MATTERS,
    SLIGHT,
    better,
    by_bonus,
    by_epsilon,
    by_gamma,
    by_mean,
    by_memory,
    by_step,
    by_threshold,
    changed,
    claim,
    itself,
    lead_of,
    leader,
    variants,
)
from enlist.studies.mabfl.counts import (
    messages_counted,
    messages_played,
    pairs_evaluated,
    printed_overlap,
    right_overlap,
)
from enlist.studies.mabfl.rules import CHANGE, PEAK, SETTLING, EqualCounts, Resampled, mean_of, means_range, spread
from enlist.studies.mabfl.settings import (
    BONUSES,
    DELAYED,
    DISCOUNTS,
    EPSILONS,
    GREEDY,
    PAIRS,
    RECENT,
    STEPS,
    THOMPSON,
    THRESHOLDS,
    UCB,
    UCB_BINARY,
    greedy,
    thompson,
    together,
    ucb,
)
from enlist.studies.margins import PERCENT_5, TENTH
from enlist.studies.parts import Parts
from enlist.studies.rules import Arm, Contrast, Share

GREEDY_GRID = [greedy(e, step) for e in EPSILONS for step in STEPS]
UCB_GRID = [ucb(c, step) for c in BONUSES for step in STEPS]
THOMPSON_GRID = [thompson(t, g) for t in THRESHOLDS for g in DISCOUNTS]
SLOW = variants(
    "training is so quick that estimates hardly matter; with a fifth of the learning rate",
    "slow",
    {"UCB, α = 0.75 − stationary": better(changed("slow-recent"), changed("slow-stationary"))},
)
MEDIAN = changed("thompson-median", "the running median as threshold")
QUANTILE = variants(
    "fixed thresholds do not fit the size of increases here; the running median of all increases as threshold instead",
    "thompson-median",
    {
        "against 0.025": better(MEDIAN, THOMPSON),
        "the same by the mean of all rounds": by_mean(better(MEDIAN, THOMPSON)),
        "against UCB": better(MEDIAN, UCB),
    },
)
TUNING = (
    claim("greedy-recency", better(greedy(0.2, 0.75), greedy(0.2, None)), "mean"),
    claim("greedy-setting", leader(greedy(0.2, 0.75), GREEDY_GRID), "mean"),
    claim("ucb-setting", leader(ucb(0.05, 0.75), UCB_GRID), "mean"),
    claim("recency-best", leader(by_step(0.75), [by_step(step) for step in STEPS if step != 0.75]), SLOW),
    claim(
        "stationarity-little",
        Parts(
            {
                "ε-greedy": Contrast(
                    "alike",
                    PEAK,
                    together("mean over α, ε = 0.1 and 0.5", *(greedy(e, step) for e in (0.1, 0.5) for step in RECENT)),
                    [together("stationary", *(greedy(e, None) for e in (0.1, 0.5)))],
                    MATTERS,
                ),
                "UCB": Contrast(
                    "alike",
                    PEAK,
                    together("mean over α, c = 0.01 and 0.1", *(ucb(c, step) for c in (0.01, 0.1) for step in RECENT)),
                    [together("stationary", *(ucb(c, None) for c in (0.01, 0.1)))],
                    MATTERS,
                ),
            }
        ),
        SLOW,
    ),
    claim(
        "stationary-spread",
        Resampled(
            "greater",
            "log deviation of the highest test AUC",
            mean_of(spread),
            [Arm(greedy(e, None).key, "stationary") for e in EPSILONS],
            [Arm(greedy(e, step).key, "recent") for e in EPSILONS for step in RECENT],
            "peak",
            TENTH,
            centred=True,
        ),
        "mean",
    ),
    claim(
        "c-over-alpha",
        Resampled(
            "greater",
            "range of the means of the highest test AUC",
            means_range,
            [by_bonus(c)._replace(name="over c") for c in BONUSES],
            [together("over α", *(ucb(c, step) for c in BONUSES)) for step in STEPS],
            "peak",
            SLIGHT,
        ),
        "mean",
    ),
    claim("thompson-setting", leader(thompson(0.025, 0.75), THOMPSON_GRID), QUANTILE),
    claim(
        "threshold-little",
        Parts(
            {
                f"{other:g} and {one:g}": Contrast("alike", PEAK, by_threshold(one), [by_threshold(other)], MATTERS)
                for other, one in ((0.01, 0.025), (0.025, 0.05), (0.01, 0.05))
            }
        ),
        QUANTILE,
    ),
    claim("discount-blurs", lead_of(by_gamma(1.0), by_gamma(0.5, 0.75), PERCENT_5)),
    claim("high-threshold", lead_of(by_threshold(0.05), by_threshold(0.01), PERCENT_5), QUANTILE),
    claim("recency-shows", lead_of(by_step(0.75), by_step(0.25), SLIGHT)),
    claim(
        "exploring-oscillates",
        Parts(
            {
                "ε": better(by_epsilon(0.5), by_epsilon(0.1), CALM, CHANGE),
                "c": better(by_bonus(0.1), by_bonus(0.01), CALM, CHANGE),
            }
        ),
    ),
    claim("ucb-settles", itself(SETTLING, by_bonus(0.01), CALM)),
    claim(
        "memory-calms",
        Parts(
            {
                "ε-greedy": better(by_memory(0.75), by_memory(0.25), CALM, CHANGE),
                "Thompson": better(by_gamma(0.5, 0.75), by_gamma(1.0), CALM, CHANGE),
            }
        ),
    ),
    claim(
        "optimism-tries-all",
        Share(
            "every pair is kept at least once",
            lambda output: len(set(map(str, output["adopted"]))) == len(PAIRS),
            Arm(GREEDY.key, "experiments of ε-greedy"),
            ALWAYS,
        ),
        variants(
            "initial values of 0.05 are not optimistic enough; with 0.25",
            "optimistic",
            {
                "share": Share(
                    "every pair is kept at least once",
                    lambda output: len(set(map(str, output["adopted"]))) == len(PAIRS),
                    changed("optimistic", "experiments"),
                    ALWAYS,
                ),
                "change of the peak": better(changed("optimistic"), GREEDY),
            },
        ),
    ),
)

COUNTED = Arm("counts", "counts")
COUNTS = (
    claim(
        "messages",
        Parts(
            {
                "counted": EqualCounts("messages per round with 3 to 12 workers", messages_counted, COUNTED),
                "played": EqualCounts(
                    "messages per round of each session (6 and 8)", messages_played, together("", UCB_BINARY, DELAYED)
                ),
            }
        ),
    ),
    claim("five-more", EqualCounts("pairs evaluated per round", pairs_evaluated, COUNTED)),
    claim(
        "overlap",
        EqualCounts(
            "expected overlap, by enumeration",
            lambda output: {
                f"k = {others + 1}": (found, printed_overlap(others))
                for others, found in enumerate(output["overlaps"], start=2)
            },
            COUNTED,
            within=0.005,
        ),
        looked_at(
            "it subtracts the case that both are alike instead of conditioning on it",
            {
                "(n/4 − n/2^(n+1)) / (1 − 2^−n), n = k − 1": EqualCounts(
                    "expected overlap",
                    lambda output: {
                        f"k = {others + 1}": (found, right_overlap(others))
                        for others, found in enumerate(output["overlaps"], start=2)
                    },
                    COUNTED,
                    within=1e-9,
                )
            },
        ),
    ),
)
