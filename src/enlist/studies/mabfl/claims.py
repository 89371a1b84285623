"""What the thesis claims, as data, and what is looked at where a claim does not come out as said."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from enlist.studies.claims import Claim, Further
from enlist.studies.further import looked_at, nothing, replicated
from enlist.studies.mabfl.experiments import experiments, further
from enlist.studies.mabfl.rules import (
    ABOVE_CHANCE,
    ACCURACY,
    CHANGE,
    CLEARER,
    EARLY_LOSS,
    EARLY_RISE,
    ESTIMATE_LEAD,
    FADING,
    KEPT_BEST,
    LATE_RISE,
    LATER,
    LEAD_LOST,
    LOWEST,
    MEAN,
    MESSAGES,
    OUTLIERS,
    PAST_PEAK,
    PEAK,
    SETTLING,
    Equal,
    Resampled,
    knowing,
    mean_of,
    means_range,
    names_best,
    persistence,
    residuals,
    soon_best,
    spread,
    straightness,
    tries_second,
)
from enlist.studies.mabfl.settings import (
    ALL,
    ALONE,
    AMOUNTS,
    BEST,
    BONUSES,
    CODES,
    DELAYED,
    DISCOUNTS,
    EPSILONS,
    EXPLORE,
    EXPLORE_BINARY,
    FINAL,
    FURTHER,
    GREEDY,
    PAIRS,
    POISONED,
    PREVIOUS,
    RECENT,
    RELATIVE,
    SECOND,
    STEPS,
    THOMPSON,
    THRESHOLDS,
    UCB,
    UCB_BINARY,
    explore_binary,
    fixed,
    further_seeds,
    greedy,
    step_name,
    thompson,
    together,
    ucb,
)
from enlist.studies.measures import Measure
from enlist.studies.results import Outcome
from enlist.studies.rules import Arm, Judging, Limit, Parts, Rule, Share, arms_of, with_spreads
from enlist.studies.study import Experiment, Scale

SPREADS: Mapping[str, float] = {}
"""Claim and part -> deviation of paired differences, by `python -m enlist.studies.spreads mabfl`."""
MATTERS = 0.01
"""A difference in AUC between two models that is worth having."""
SLIGHT = 0.005
"""A difference in AUC between two settings of a rule that is worth tuning for."""
RIVALS = {"FedAvg": fixed(ALL), "target alone": fixed(ALONE)}
BASELINE = Arm(fixed(BEST).key, "0110 fixed")


def few(scale: Scale) -> Sequence[Experiment]:
    """What is run again with fresh seeds: as many as the grid has."""
    return [each for each in experiments(scale) if each.seed in further_seeds(scale)]


def again(rule: Judging) -> Further:
    """The same settings with fresh seeds."""
    return replicated(few, [key for arm in arms_of(rule) for key in arm.keys], rule)


def by_mean(rule: Judging) -> Judging:
    """The same rule on the mean score of all rounds instead of the highest.

    >>> by_mean(Rule("greater", PEAK, UCB, [GREEDY], 0.005)).words().partition(",")[0]
    'mean test AUC over all rounds'
    """
    if isinstance(rule, Parts):
        return Parts({name: by_mean(part) for name, part in rule.parts.items()})
    if isinstance(rule, Rule) and rule.measure.name in (PEAK.name, LOWEST.name):
        return dataclasses.replace(rule, measure=dataclasses.replace(MEAN, less=rule.measure.less))
    return dataclasses.replace(rule, column="mean") if isinstance(rule, Resampled) else rule


def forgiving(rule: Judging) -> Further:
    """What the mean over all rounds gives: the highest score of an experiment forgives detours."""
    return looked_at("the highest score forgives detours", {"by the mean test AUC of all rounds": by_mean(rule)})


def variants(cause: str, start: str, rules: Mapping[str, Judging]) -> Further:
    """Experiments of `FURTHER` whose keys begin so, read by these rules."""
    return looked_at(cause, rules, further(f"further/{start}"))


def changed(name: str, said: str = "") -> Arm:
    """An experiment of `FURTHER`.

    >>> changed("long-1100").key
    'further/long-1100'
    """
    key = f"further/{name}"
    return Arm(key, said or name) if key in FURTHER else fixed(name)


def better(one: Arm, other: Arm, margin: float = SLIGHT, measure: Measure = PEAK) -> Rule:
    """One arm is better than another."""
    return Rule("greater", measure, one, [other], margin)


def itself(measure: Measure, arm: Arm, margin: float) -> Rule:
    """The number itself is above 0."""
    return Rule("greater", measure, arm, [], margin)


def leader(one: Arm, others: Sequence[Arm], margin: float = SLIGHT, measure: Measure = PEAK) -> Rule:
    """One arm is the best of several."""
    return Rule("leads", measure, one, [arm for arm in others if arm.key != one.key], margin)


def combinations(epochs: int = 6, data: str = "drawn", prefix: str = "") -> Arm:
    """Combinations held fixed, the best pair first; without the target alone, whose increase is 0 by definition."""
    codes = [code for code in CODES if code != ALONE]
    arms = [Arm(f"{prefix}{fixed(code, epochs, data).key}", "") for code in codes]
    return together(f"{epochs} epochs", *arms)


def curves_of(epochs: int, prefix: str = "") -> list[Arm]:
    """Learning curves on one data set."""
    return [Arm(f"{prefix}{fixed(code, epochs, 'one').key}", f"{epochs} epochs") for code in CODES]


def by_step(step: float | None) -> Arm:
    """All settings of ε-greedy and UCB with one way to take means."""
    return together(step_name(step), *(greedy(e, step) for e in EPSILONS), *(ucb(c, step) for c in BONUSES))


def by_epsilon(epsilon: float) -> Arm:
    """ε-greedy with every way to take means."""
    return together(f"ε = {epsilon:g}", *(greedy(epsilon, step) for step in STEPS))


def by_bonus(c: float) -> Arm:
    """UCB with every way to take means."""
    return together(f"c = {c:g}", *(ucb(c, step) for step in STEPS))


def by_memory(step: float) -> Arm:
    """ε-greedy with ε = 0.1 and 0.2, and one way to take means."""
    return together(step_name(step), greedy(0.1, step), greedy(0.2, step))


def by_gamma(*gammas: float) -> Arm:
    """All thresholds of Thompson sampling with these discounts."""
    name = "γ = 1" if gammas == (1.0,) else "γ below 1"
    return together(name, *(thompson(t, g) for t in THRESHOLDS for g in gammas))


def by_threshold(threshold: float) -> Arm:
    """All discounts of Thompson sampling with one threshold."""
    return together(f"threshold {threshold:g}", *(thompson(threshold, g) for g in DISCOUNTS))


def lead_of(one: Arm, other: Arm, margin: float) -> Rule:
    """The lead of the best pair in the estimates is larger under one group of settings than under another."""
    return better(knowing(one.name, one), knowing(other.name, other), margin, ESTIMATE_LEAD)


def epochs_rule(few_epochs: int, many: int, prefix: str = "") -> dict[str, Judging]:
    """The claims on epochs per round, for any two numbers of them."""
    best = {n: Arm(f"{prefix}{fixed(BEST, n).key}", f"{n} epochs") for n in (few_epochs, many)}
    curves = {n: curves_of(n, prefix) for n in (few_epochs, many)}
    first, last = curves[few_epochs], curves[many]
    return {
        "same": Rule("alike", PEAK, best[many], [best[few_epochs]], MATTERS),
        "sooner": itself(LATER, together(f"{few_epochs} − {many} epochs", best[few_epochs], best[many]), 1.0),
        "separate": better(
            combinations(many, prefix=prefix), combinations(few_epochs, prefix=prefix), 0.02, ABOVE_CHANCE
        ),
        "spread": Resampled(
            "no worse", "mean log deviation of residuals", mean_of(spread), first, last, "validation", 0.1
        ),
        "normal": Resampled(
            "greater",
            "correlation of the residuals' QQ plot",
            mean_of(lambda curve: straightness(residuals(curve))),
            last,
            first,
            "validation",
            0.005,
        ),
        "paths": Resampled(
            "greater",
            "correlation between residuals of consecutive rounds",
            mean_of(persistence),
            first,
            last,
            "validation",
            0.1,
        ),
    }


def epochs_rules(name: str) -> tuple[Judging, Further]:
    """A rule on 4 and 6 epochs per round, and the same with 2 and 12."""
    wider = {"12 against 2 epochs": epochs_rule(2, 12, "further/")[name]}
    cause, more = "4 and 6 epochs are too close to each other", further("further/one", "further/drawn")
    return epochs_rule(4, 6)[name], looked_at(cause, wider, more)


def claim(name: str, text: str, where: str, rule: Judging, then: Further | str = "again") -> Claim:
    """A claim: "key: title", its text, "source: what the thesis has", the rule, and what follows if it is unclear.

    That is "again" (fresh seeds), "mean" (the mean of all rounds), or an experiment of its own.
    """
    (key, _, title), (source, _, paper) = name.partition(": "), where.partition(": ")
    known = with_spreads(rule, SPREADS, key)
    follow = {"again": again, "mean": forgiving}[then](known) if isinstance(then, str) else then
    return Claim(key, title, text, source, paper, "", known, follow)


def sweep(amount: float, code: str) -> Arm:
    """A combination with so many times the training data.

    >>> sweep(20, ALONE).key
    'sweep/x20-0100'
    """
    return Arm(f"sweep/x{amount:g}-{code}", fixed(code).name)


LEAST, MOST = AMOUNTS[0], AMOUNTS[-1]
STRANGER = variants(
    "worker 4 of the drawn data is too unlike the target; with one of likeness 0.2 instead",
    "stranger",
    {
        "FedAvg, rounds 1 to 5": itself(EARLY_RISE, changed("stranger-1111"), MATTERS),
        "FedAvg, later": itself(LATE_RISE, changed("stranger-1111"), 0.0),
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
        "personalisation-pays: The best pair beats FedAvg and the target alone",
        "With 1 % of the data to train on, the target and its best partner reach a better model for the target than "
        "federated averaging and than the target alone. (That the data have such a pair is our choice.)",
        "section 9, Figure 8: 0.72 against 0.63 (FedAvg)",
        Parts({name: better(fixed(BEST), arm, MATTERS) for name, arm in RIVALS.items()}),
        STRANGER,
    ),
    claim(
        "best-pair: 0110 is the best combination",
        "Of all combinations held fixed, worker 2 with worker 3 is the best. (The drawn data were made so that worker "
        "3 is the most like the target; whether that shows with 100 samples is the question.)",
        "section 8.2.1, Figure 8: 0110 on top",
        leader(fixed(BEST), [fixed(code) for code in CODES], MATTERS),
    ),
    claim(
        "second-pair: 1100 is the second best",
        "Worker 2 with worker 1 comes second, before the target alone, 0101 and federated averaging.",
        "Figure 20: 1100 second",
        leader(fixed(SECOND), [fixed(code) for code in CODES if code != BEST], MATTERS),
        variants(
            "worker 1 of the drawn data is not alike enough; with likeness 0.7 instead of 0.5",
            "closer",
            {"1100 − target alone": better(changed("closer-1100", "1100"), fixed(ALONE), MATTERS)},
        ),
    ),
    claim(
        "more-data: With more data the target alone is as good",
        "When the share of data to train on is raised, personalisation no longer succeeds: the model of the target "
        f"alone is then the best. Here with {MOST:g} times the data.",
        "section 9 (the experiments are not shown): the target alone is best",
        Rule("no worse", PEAK, sweep(MOST, ALONE), [sweep(MOST, BEST)], SLIGHT),
        CROSSING,
    ),
    claim(
        "lead-shrinks: The lead of the pair shrinks with more data",
        "The need for help is the greatest when the target has little data.",
        "section 9: yes",
        itself(
            LEAD_LOST,
            together("0110", *(sweep(amount, code) for amount in (LEAST, MOST) for code in (BEST, ALONE))),
            MATTERS,
        ),
        CROSSING,
    ),
    claim(
        "fedavg-bad-start: Federated averaging starts badly and recovers",
        "Federated averaging is the only combination that is worse than the target's own model for a while (around "
        "round 5); later it is better.",
        "Figure 9: below 0 early, above 0 late",
        Parts({"early": itself(EARLY_LOSS, fixed(ALL), SLIGHT), "late": itself(LATE_RISE, fixed(ALL), 0.0)}),
        STRANGER,
    ),
    claim(
        "best-from-start: The best pair gains from the start",
        "0110 is better than the target's own model from the first rounds on.",
        "Figure 9: above 0 from the start",
        itself(EARLY_RISE, fixed(BEST), SLIGHT),
    ),
    claim(
        "told-apart: Pairs can be told apart in few rounds",
        "The effects of combinations differ significantly for several rounds.",
        "sections 8.2.2 and 9, Figure 13: significant for several rounds",
        itself(ABOVE_CHANCE, combinations(), 0.25),
    ),
    claim(
        "non-stationary: Rewards are not stationary",
        "What a combination brings changes in the course of training.",
        "sections 8.4 and 9: signs of non-stationarity",
        itself(FADING, fixed(BEST), SLIGHT),
    ),
    claim(
        "overfitting: Past its peak the score falls",
        "After the round with the best performance the score goes down instead of settling (shown for 1100).",
        "section 8.3, Figure 14: goes down",
        itself(PAST_PEAK, fixed(SECOND), MATTERS),
        variants(
            "training ends before the peak is passed; with twice as many rounds",
            "long",
            {"1100": itself(PAST_PEAK, changed("long-1100", "1100"), MATTERS)},
        ),
    ),
    claim(
        "second-data-set: It pays on a second, real data set too",
        "The thesis asks for more data sets: pictures that four workers see or name in ways of their own.",
        "section 9 (asked for, not done): –",
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
    claim(
        "epochs-same-peak: 4 and 6 epochs reach the same peak",
        "The best performances are very similar for 4 and 6 epochs per round.",
        "section 8.2.1, Figure 8: very similar",
        *epochs_rules("same"),
    ),
    claim(
        "epochs-sooner: 6 epochs need fewer rounds",
        "With more epochs per round, training is finished after fewer rounds, which saves communication.",
        "section 8.2.1, Figure 8: fewer rounds",
        *epochs_rules("sooner"),
    ),
    claim(
        "epochs-separate: 6 epochs separate combinations better than 4",
        "The increases of the best combination stand out more from those of the others with 6 epochs per round.",
        "section 8.2.1, Figure 9: a wider gap",
        *epochs_rules("separate"),
    ),
    claim(
        "epochs-spread: More epochs do not widen the residuals",
        "The standard deviation of learning curves around their mean is the same or smaller with 6 epochs than with 4, "
        "for all combinations but one.",
        "Table 2: 0.013–0.020 against 0.013–0.023; 4 of 5",
        *epochs_rules("spread"),
    ),
    claim(
        "residuals-normal: Residuals are normal with 6 epochs, not with 4",
        "QQ plots of the residuals are straight with 6 epochs per round and not with 4.",
        "Figures 10, 11, 21, 22: reasonable with 6, not with 4",
        *epochs_rules("normal"),
    ),
    claim(
        "residual-paths: Residuals form paths with 4 epochs, noise with 6",
        "With 4 epochs single experiments stay above or below the mean for many rounds; with 6 they look like noise.",
        "Figures 10, 11: paths with 4, noise with 6",
        *epochs_rules("paths"),
    ),
    claim(
        "against-local: Comparing with the local model separates better",
        "Increases measured against the target's own model of the same round tell combinations apart better than those "
        "measured against the round before.",
        "section 8.2.2, Figure 13: much more distinguishable",
        itself(CLEARER, combinations(), 0.05),
    ),
    claim(
        "fewer-outliers: Comparing with the local model gives fewer outliers",
        "Measured against the round before, increases have many outliers.",
        "section 8.2.2, Figure 13: fewer outliers",
        itself(OUTLIERS, combinations(data="one"), MATTERS),
    ),
)

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
    claim(
        "greedy-recency: ε-greedy with ε = 0.2 gains from recency",
        "With ε = 0.2, assuming non-stationary rewards gives higher performances.",
        "Figure 16: α = 0.75 above stationary",
        better(greedy(0.2, 0.75), greedy(0.2, None)),
        "mean",
    ),
    claim(
        "greedy-setting: ε = 0.2 with α = 0.75 is ε-greedy's best setting",
        "Of the 12 settings of ε-greedy, ε = 0.2 with α = 0.75 reaches the highest performances.",
        "Figures 16, 19: ε = 0.2, α = 0.75",
        leader(greedy(0.2, 0.75), GREEDY_GRID),
        "mean",
    ),
    claim(
        "ucb-setting: c = 0.05 with α = 0.75 is UCB's best setting",
        "Of the 12 settings of UCB, c = 0.05 with α = 0.75 seems to be optimal.",
        "Figures 17, 19: c = 0.05, α = 0.75",
        leader(ucb(0.05, 0.75), UCB_GRID),
        "mean",
    ),
    claim(
        "recency-best: Recency 0.75 is best",
        "Over all settings of ε-greedy and UCB, estimates that give the latest reward a weight of 0.75 serve best.",
        "Figures 16, 17, 19: α = 0.75",
        leader(by_step(0.75), [by_step(step) for step in STEPS if step != 0.75]),
        SLOW,
    ),
    claim(
        "stationarity-little: Otherwise stationarity does not matter",
        "Except for ε = 0.2 and somewhat for c = 0.05, it often makes no difference whether rewards are assumed "
        "stationary.",
        "section 8.5: often no difference",
        Parts(
            {
                "ε-greedy": Rule(
                    "alike",
                    PEAK,
                    together("mean over α, ε = 0.1 and 0.5", *(greedy(e, step) for e in (0.1, 0.5) for step in RECENT)),
                    [together("stationary", *(greedy(e, None) for e in (0.1, 0.5)))],
                    MATTERS,
                ),
                "UCB": Rule(
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
        "stationary-spread: Stationary estimates spread more (ε-greedy)",
        "When rewards are assumed stationary, best performances vary more between experiments.",
        "Figure 16: larger boxes",
        Resampled(
            "greater",
            "log deviation of the highest test AUC",
            mean_of(spread),
            [Arm(greedy(e, None).key, "stationary") for e in EPSILONS],
            [Arm(greedy(e, step).key, "recent") for e in EPSILONS for step in RECENT],
            "peak",
            0.1,
            centred=True,
        ),
        "mean",
    ),
    claim(
        "c-over-alpha: c matters more than α (UCB)",
        "The bonus has a stronger effect on the best performance than the recency weight.",
        "Figure 17: c has the stronger effect",
        Resampled(
            "greater",
            "range of the means of the highest test AUC",
            means_range,
            [by_bonus(c)._replace(name="over c") for c in BONUSES],
            [together("over α", *(ucb(c, step) for c in BONUSES)) for step in STEPS],
            "peak",
            0.002,
        ),
        "mean",
    ),
    claim(
        "thompson-setting: γ = 0.75 with threshold 0.025 is Thompson's best setting",
        "Of the 9 settings of Thompson sampling, γ = 0.75 with a threshold of 0.025 has the highest median.",
        "Figures 18, 19: γ = 0.75, threshold 0.025",
        leader(thompson(0.025, 0.75), THOMPSON_GRID),
        QUANTILE,
    ),
    claim(
        "threshold-little: The threshold matters little (Thompson)",
        "Box plots are rather similar for the three thresholds.",
        "Figure 18: rather similar",
        Parts(
            {
                f"{other:g} and {one:g}": Rule("alike", PEAK, by_threshold(one), [by_threshold(other)], MATTERS)
                for other, one in ((0.01, 0.025), (0.025, 0.05), (0.01, 0.05))
            }
        ),
        QUANTILE,
    ),
    claim(
        "discount-blurs: Discounting blurs the best combination (Thompson)",
        "Under discounted Thompson sampling the estimates hardly tell the best combination from the others.",
        "section 8.5, Figure 28: hardly told apart",
        lead_of(by_gamma(1.0), by_gamma(0.5, 0.75), 0.05),
    ),
    claim(
        "high-threshold: A high threshold tells combinations apart (Thompson)",
        "With a threshold of 0.05 the best combination is easy to tell in the estimates.",
        "Figure 28: 0.05 is easy to tell",
        lead_of(by_threshold(0.05), by_threshold(0.01), 0.05),
        QUANTILE,
    ),
    claim(
        "recency-shows: α = 0.75 shows the best combination more clearly",
        "Estimates are all very close with α = 0.25 and the most distinguishable with 0.5 or 0.75.",
        "Figures 24, 26: 0.75 above 0.25",
        lead_of(by_step(0.75), by_step(0.25), SLIGHT),
    ),
    claim(
        "exploring-oscillates: More exploration makes scores oscillate more",
        "With higher ε and with higher c, scores change more from round to round.",
        "Figures 23, 25: more oscillation",
        Parts(
            {
                "ε": better(by_epsilon(0.5), by_epsilon(0.1), 0.002, CHANGE),
                "c": better(by_bonus(0.1), by_bonus(0.01), 0.002, CHANGE),
            }
        ),
    ),
    claim(
        "ucb-settles: With c = 0.01 oscillation stops after 5 rounds",
        "UCB with the smallest bonus settles on one combination early.",
        "Figure 25: stops after 5 rounds",
        itself(SETTLING, by_bonus(0.01), 0.002),
    ),
    claim(
        "memory-calms: Longer memory gives less variance",
        "For ε = 0.1 and 0.2 variance shrinks as α becomes smaller, and Thompson sampling varies least with γ = 1.",
        "Figures 23, 27: less variance",
        Parts(
            {
                "ε-greedy": better(by_memory(0.75), by_memory(0.25), 0.001, CHANGE),
                "Thompson": better(by_gamma(0.5, 0.75), by_gamma(1.0), 0.001, CHANGE),
            }
        ),
    ),
    claim(
        "optimism-tries-all: Initial values of 0.05 make a rule try every pair",
        "High initial values make sure that every combination is evaluated at least once.",
        "Figure 24: each at least once",
        Share(
            "every pair is kept at least once",
            lambda outcome: len(set(map(str, outcome["adopted"]))) == len(PAIRS),
            Arm(GREEDY.key, "experiments of ε-greedy"),
            0.9,
        ),
        variants(
            "initial values of 0.05 are not optimistic enough; with 0.25",
            "optimistic",
            {
                "share": Share(
                    "every pair is kept at least once",
                    lambda outcome: len(set(map(str, outcome["adopted"]))) == len(PAIRS),
                    changed("optimistic", "experiments"),
                    0.9,
                ),
                "change of the peak": better(changed("optimistic"), GREEDY),
            },
        ),
    ),
)

BONUS = variants(
    "c = 0.05 is next to nothing for rewards of 0 and 1; binary UCB with larger bonuses against continuous UCB",
    "ucb-binary",
    {f"c = {c:g}": better(changed(f"ucb-binary-c{c:g}"), UCB) for c in (0.2, 0.5, 1.0)},
)
RULES = (
    claim(
        "explore-best: Extreme Explore is the best rule",
        "Of all rules with their best settings, Extreme Explore performs best, as it sees the most. (Its twin with "
        "binary rewards is no rival.)",
        "section 8.5, Figure 19: among the two best",
        leader(EXPLORE, [arm for arm in FINAL if arm.key != EXPLORE_BINARY.key]),
        "mean",
    ),
    claim(
        "thompson-worst: Thompson sampling is the worst rule",
        "Of all rules with their best settings, (discounted) Thompson sampling performs worst.",
        "sections 8.5 and 9, Figure 19: worst",
        leader(THOMPSON, FINAL, SLIGHT, LOWEST),
        QUANTILE,
    ),
    claim(
        "binary-ucb: Binary UCB is at least as good as continuous UCB",
        "UCB with binary rewards performs, surprisingly, better than with continuous ones.",
        "section 8.5, Figure 19: better",
        Rule("no worse", PEAK, UCB_BINARY, [UCB], SLIGHT),
        BONUS,
    ),
    claim(
        "continuous-explore: Elsewhere continuous rewards are better",
        "Continuous rewards are mostly better than binary ones; here for Extreme Explore, over the three thresholds.",
        "section 9: mostly better",
        better(EXPLORE, together("mean over thresholds", *(explore_binary(t) for t in THRESHOLDS))),
        variants(
            "a model is chosen by this round's rewards; with delayed ones it is chosen by estimates",
            "delayed-binary",
            {"continuous − binary": better(DELAYED, changed("delayed-binary", "binary"))},
        ),
    ),
    claim(
        "rules-similar: Apart from Thompson sampling, rules are similar",
        "Most rules perform very similarly.",
        "section 9, Figure 19: very similar",
        Parts(
            {
                arm.name: Rule("alike", PEAK, arm, [UCB], 2 * MATTERS)
                for arm in FINAL
                if arm.key not in (THOMPSON.key, UCB.key)
            }
        ),
        "mean",
    ),
    claim(
        "rules-over-fedavg: Every rule beats federated averaging",
        "All rules reach higher performances than federated averaging.",
        "Figure 19: all above 0.63",
        Parts({arm.name: better(arm, fixed(ALL), MATTERS) for arm in FINAL}),
        "mean",
    ),
    claim(
        "binary-slower: Binary rewards need more rounds",
        "Binary rewards seem to make training take more time.",
        "Figure 19: more time",
        Parts(
            {
                name: itself(LATER, together("binary − continuous", binary, continuous), 1.0)
                for name, binary, continuous in (
                    ("UCB", UCB_BINARY, UCB),
                    ("Extreme Explore", EXPLORE_BINARY, EXPLORE),
                )
            }
        ),
    ),
    claim(
        "tries-second: Binary UCB plays the second-best pair for a while",
        "UCB with binary rewards plays the second-best pair for some rounds in all experiments.",
        "Figure 20: 10 of 10",
        Share(
            "the second-best pair on the same data is kept in at least two rounds",
            tries_second,
            knowing("experiments of binary UCB", UCB_BINARY),
            0.9,
        ),
        BONUS,
    ),
    claim(
        "chooses-best: Extreme Explore keeps the best pair in over 90 % of rounds",
        "Extreme Explore chooses the best combination nearly always; here the best on the same data.",
        "section 8.5: over 90 %",
        Limit("at least", KEPT_BEST, knowing("Extreme Explore", EXPLORE), 0.9),
    ),
    claim(
        "mixing-helps: A while with another pair helps",
        "Binary UCB reaches very high performances although it plays another pair for a while; other combinations may "
        "help out of local minima.",
        "section 8.5, Figure 20: beneficial",
        better(UCB_BINARY, fixed(BEST)),
        "mean",
    ),
    claim(
        "soon-clear: The best pair is clear within the first rounds",
        "Within the first few rounds one can already see which combination is the best.",
        "section 9: first few rounds",
        Share(
            "the highest estimate after round 3 is that of the best pair on the same data",
            soon_best,
            knowing("experiments of Extreme Explore", EXPLORE),
            0.8,
        ),
    ),
    claim(
        "right-pair-named: In the end every rule names the best pair",
        "The rule learns which combination helps the target the most: the best pair on the same data.",
        "sections 8.1 and 8.5: yes",
        Parts(
            {
                arm.name: Share(
                    "the rule ends with the best pair on the same data", names_best, knowing("experiments", arm), 0.8
                )
                for arm in FINAL
            }
        ),
    ),
)

IDEAS = (
    claim(
        "retraining: Training anew with the best pair fixed is better",
        "If the best combination is best in all rounds, a model trained with it alone should perform better.",
        "section 8.1: it should",
        better(fixed(BEST), UCB),
        "mean",
    ),
    claim(
        "explore-cheaper: Extreme Explore can be cheaper in the end",
        "Extreme Explore needs more messages per round, but is likely to reach a good model after fewer rounds.",
        "section 8.3.2: likely",
        Rule("greater", MESSAGES, DELAYED, [UCB], 6.0, BASELINE),
    ),
    claim(
        "delay-harmless: Delayed rewards do little harm",
        "Choosing by the estimates of the round before should not be much of a problem.",
        "section 8.3.2: not much of a problem",
        Rule("alike", PEAK, DELAYED, [EXPLORE], MATTERS),
        "mean",
    ),
    claim(
        "relative-worse: Relative gains are a worse reward",
        "Dividing increases by the score of the target's own model gives worse results, as it favours early rounds.",
        "section 8.4: worse results",
        better(UCB, RELATIVE),
        "mean",
    ),
    claim(
        "previous-worse: Rewards against the last round are worse",
        "How increases are measured is of utmost importance: against the target's own model of the same round.",
        "section 9: of utmost importance",
        better(UCB, PREVIOUS),
        "mean",
    ),
    claim(
        "poison-avoided: Poisonous workers are avoided",
        "A rule that finds the best combination also leaves out poisonous workers; here the labels of worker 3, else "
        "the best partner, are flipped.",
        "abstract, section 2 (not shown): avoided",
        Parts(
            {
                arm.name: Share(
                    "worker 3 is left out", lambda outcome: outcome["code"][2] == "0", Arm(arm.key, "experiments"), 0.9
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
                    lambda outcome: outcome["code"][0] == "0",
                    changed(f"poison-{name}", "experiments"),
                    0.9,
                )
                for name in ("sign-flip", "noise")
            },
        ),
    ),
)

PRINTED = {"pairs": "6", "all": "k + 3", "extreme-delayed": "2k"}


def printed_messages(kind: str, workers: int) -> int:
    """Messages per round that the thesis prints for a way of playing.

    >>> printed_messages("pairs", 4), printed_messages("all", 6), printed_messages("extreme-delayed", 6)
    (6, 9, 12)
    """
    return {"pairs": 6, "all": workers + 3, "extreme-delayed": 2 * workers}[kind]


def printed_overlap(others: int) -> float:
    """Equation 12 with k − 1 = `others`: (k−1)/4 − 4^−(k−1).

    >>> printed_overlap(3)
    0.734375
    """
    return float(others / 4 - 4.0**-others)


def right_overlap(others: int) -> float:
    """What conditioning on two different combinations gives: (n/4 − n/2^(n+1)) / (1 − 2^−n).

    >>> round(right_overlap(3), 4)
    0.6429
    """
    return float((others / 4 - others / 2.0 ** (others + 1)) / (1 - 2.0**-others))


def messages_counted(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """Messages per round, counted and printed."""
    rows = [row for row in outcome["rows"] if row["kind"] in PRINTED]
    said = {f"{row['kind']}, {row['workers']} workers": row for row in rows}
    return {name: (row["messages"], printed_messages(row["kind"], row["workers"])) for name, row in said.items()}


def messages_played(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """Messages per round after the first of UCB and of Extreme Explore with delayed rewards."""
    played = [float(np.diff(each).mean()) for each in outcome["messages"]]
    return dict(zip(("pairs", "Extreme Explore, delayed"), zip(played, (6.0, 8.0), strict=True), strict=True))


def pairs_evaluated(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """Pairs that Extreme Explore evaluates in a round with 6 workers, beyond one, and as a multiple of it."""
    tried = next(
        row["combinations"] for row in outcome["rows"] if row["kind"] == "extreme-delayed" and row["workers"] == 6
    )
    return {"more than one": (tried - 1, 5), "times as many": (tried, 5)}


COUNTED = Arm("counts", "counts")
COUNTS = (
    claim(
        "messages: 6, k + 3 and 2k messages per round",
        "A round takes 6 messages with pairs, k + 3 on average with all combinations, and 2k with Extreme Explore and "
        "delayed rewards.",
        "section 8.3.2: 6, k + 3, 2k",
        Parts(
            {
                "counted": Equal("messages per round with 3 to 12 workers", messages_counted, COUNTED),
                "played": Equal(
                    "messages per round of each session (6 and 8)", messages_played, together("", UCB_BINARY, DELAYED)
                ),
            }
        ),
    ),
    claim(
        "five-more: With 6 workers Extreme Explore evaluates 5 more pairs",
        "For twice the messages Extreme Explore evaluates 5 more combinations, five times as many.",
        "section 8.3.2: 5 more, five times",
        Equal("pairs evaluated per round", pairs_evaluated, COUNTED),
    ),
    claim(
        "overlap: Two random combinations share (k−1)/4 − 4^−(k−1) workers",
        "The expected overlap of two different random combinations, the target not counted.",
        "section 8.3.1, equation 12: (k−1)/4 − 4^−(k−1)",
        Equal(
            "expected overlap, by enumeration",
            lambda outcome: {
                f"k = {others + 1}": (found, printed_overlap(others))
                for others, found in enumerate(outcome["overlaps"], start=2)
            },
            COUNTED,
            within=0.005,
        ),
        looked_at(
            "it subtracts the case that both are alike instead of conditioning on it",
            {
                "(n/4 − n/2^(n+1)) / (1 − 2^−n), n = k − 1": Equal(
                    "expected overlap",
                    lambda outcome: {
                        f"k = {others + 1}": (found, right_overlap(others))
                        for others, found in enumerate(outcome["overlaps"], start=2)
                    },
                    COUNTED,
                    within=1e-9,
                )
            },
            nothing,
        ),
    ),
)

CLAIMS = (*COMBINATIONS, *EPOCH_CLAIMS, *TUNING, *RULES, *IDEAS, *COUNTS)
