"""Who is compared with whom and by how much: margins with their reasons, groups of settings, and makers of rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from enlist.studies.claims import Claim, ClaimRule, FollowUp, QuotedClaims
from enlist.studies.further import looked_at, replicated
from enlist.studies.mabfl.experiments import experiments, further
from enlist.studies.mabfl.rules import (
    ABOVE_CHANCE,
    ESTIMATE_LEAD,
    LATER,
    LOWEST,
    MEAN,
    PEAK,
    Resampled,
    knowing,
    mean_of,
    persistence,
    residuals,
    spread,
    straightness,
)
from enlist.studies.mabfl.settings import (
    ALONE,
    BEST,
    BONUSES,
    CODES,
    DISCOUNTS,
    EPSILONS,
    FURTHER,
    STEPS,
    THRESHOLDS,
    fixed,
    further_seeds,
    greedy,
    step_name,
    thompson,
    together,
    ucb,
)
from enlist.studies.margins import PERCENT_5, TENTH, Margin
from enlist.studies.measures import Measure
from enlist.studies.parts import Parts, arms_of
from enlist.studies.rules import Arm, Contrast
from enlist.studies.study import Experiment, Scale

MATTERS = Margin(0.01, "a ninth of the 0.09 in AUC by which the thesis's best pair leads FedAvg (0.72 against 0.63)")
SLIGHT = Margin(0.005, "half of what matters between two models, as settings of one rule differ less than partners do")
ROUND = Margin(1.0, "one round, the smallest step")
OUTLYING = Margin(0.01, "more than the 0.7 percent of normal values that lie so far out")
CALM = Margin(0.002, "a tenth of the largest deviation of residuals in Table 2 with 6 epochs, 0.020")
HALF_WAY = Margin(0.25, "half way from chance, 0.5, to certainty")
STRAIGHT = Margin(0.01, "the correlation of a hundred normal values falls below 0.987 once in twenty times")
SMALL = Margin(0.1, "a small correlation by Cohen's convention")
EXCHANGE = Margin(6.0, "one round of a pair")
MOSTLY = Margin(0.8, "four in five; all of 20 experiments would show 0.84, and chance among three pairs gives a third")
ALWAYS = Margin(0.9, "'always' as far as 40 experiments can show it: all of them have an interval from 0.91 on")
PRINTED_SHARE = Margin(0.9, "the thesis's own 90 percent")


def few(scale: Scale) -> Sequence[Experiment]:
    """What is run again with fresh seeds: as many as the grid has."""
    return [each for each in experiments(scale) if each.seed in further_seeds(scale)]


def again(rule: ClaimRule) -> FollowUp:
    """The same settings with fresh seeds."""
    return replicated(few, [key for arm in arms_of(rule) for key in arm.keys], rule)


def by_mean(rule: ClaimRule) -> ClaimRule:
    """The same rule on the mean score of all rounds instead of the highest.

    >>> by_mean(better(Arm("a", "A"), Arm("b", "B"))).words().partition(",")[0]
    'mean test AUC over all rounds'
    """
    if isinstance(rule, Parts):
        return Parts({name: by_mean(part) for name, part in rule.parts.items()})
    if isinstance(rule, Contrast) and rule.measure.name in (PEAK.name, LOWEST.name):
        return dataclasses.replace(rule, measure=dataclasses.replace(MEAN, less=rule.measure.less))
    return dataclasses.replace(rule, column="mean") if isinstance(rule, Resampled) else rule


def forgiving(rule: ClaimRule) -> FollowUp:
    """What the mean over all rounds gives: the highest score of an experiment forgives detours."""
    return looked_at("the highest score forgives detours", {"by the mean test AUC of all rounds": by_mean(rule)})


def variants(cause: str, start: str, rules: Mapping[str, ClaimRule]) -> FollowUp:
    """Experiments of `FURTHER` whose keys begin so, read by these rules."""
    return looked_at(cause, rules, further(f"further/{start}"))


def changed(name: str, said: str = "") -> Arm:
    """An experiment of `FURTHER`.

    >>> changed("long-1100").key
    'further/long-1100'
    """
    key = f"further/{name}"
    return Arm(key, said or name) if key in FURTHER else fixed(name)


def better(one: Arm, other: Arm, margin: float = SLIGHT, measure: Measure = PEAK) -> Contrast:
    """One arm is better than another."""
    return Contrast("greater", measure, one, [other], margin)


def itself(measure: Measure, arm: Arm, margin: float) -> Contrast:
    """The number itself is above 0."""
    return Contrast("greater", measure, arm, [], margin)


def leader(one: Arm, others: Sequence[Arm], margin: float = SLIGHT, measure: Measure = PEAK) -> Contrast:
    """One arm is the best of several."""
    return Contrast("leads", measure, one, [arm for arm in others if arm.key != one.key], margin)


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


def lead_of(one: Arm, other: Arm, margin: float) -> Contrast:
    """The lead of the best pair in the estimates is larger under one group of settings than under another."""
    return better(knowing(one.name, one), knowing(other.name, other), margin, ESTIMATE_LEAD)


def epochs_rule(few_epochs: int, many: int, prefix: str = "") -> dict[str, ClaimRule]:
    """The claims on epochs per round, for any two numbers of them."""
    best = {n: Arm(f"{prefix}{fixed(BEST, n).key}", f"{n} epochs") for n in (few_epochs, many)}
    curves = {n: curves_of(n, prefix) for n in (few_epochs, many)}
    first, last = curves[few_epochs], curves[many]
    return {
        "same": Contrast("alike", PEAK, best[many], [best[few_epochs]], MATTERS),
        "sooner": itself(LATER, together(f"{few_epochs} − {many} epochs", best[few_epochs], best[many]), ROUND),
        "separate": better(
            combinations(many, prefix=prefix), combinations(few_epochs, prefix=prefix), PERCENT_5, ABOVE_CHANCE
        ),
        "spread": Resampled(
            "no worse", "mean log deviation of residuals", mean_of(spread), first, last, "validation", TENTH
        ),
        "normal": Resampled(
            "greater",
            "correlation of the residuals' QQ plot",
            mean_of(lambda curve: straightness(residuals(curve))),
            last,
            first,
            "validation",
            STRAIGHT,
        ),
        "paths": Resampled(
            "greater",
            "correlation between residuals of consecutive rounds",
            mean_of(persistence),
            first,
            last,
            "validation",
            SMALL,
        ),
    }


def epochs_rules(name: str) -> tuple[ClaimRule, FollowUp]:
    """A rule on 4 and 6 epochs per round, and the same with 2 and 12."""
    wider = {"12 against 2 epochs": epochs_rule(2, 12, "further/")[name]}
    cause, more = "4 and 6 epochs are too close to each other", further("further/one", "further/drawn")
    return epochs_rule(4, 6)[name], looked_at(cause, wider, more)


def sweep(amount: float, code: str) -> Arm:
    """A combination with this many times the training data.

    >>> sweep(20, ALONE).key
    'sweep/x20-0100'
    """
    return Arm(f"sweep/x{amount:g}-{code}", fixed(code).name)


QUOTED = QuotedClaims("enlist.studies.mabfl")


def claim(key: str, rule: ClaimRule, then: FollowUp | str = "again", **facts: object) -> Claim:
    """A claim; then, if it is unclear, "again" (fresh seeds), "mean" (of all rounds), or an experiment of its own."""
    follow = {"again": again, "mean": forgiving}[then](rule) if isinstance(then, str) else then
    return QUOTED.claim(key, rule, follow, **facts)
