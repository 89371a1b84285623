"""What the paper claims, as data: each with its number, its rule, and what is looked at if it does not come out so."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Literal

from enlist.studies.claims import Claim, Further
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
    Somewhere,
    all_covered,
    all_eliminated,
    little_regret,
    narrow,
)
from enlist.studies.fedsuv.settings import (
    AVERAGING,
    COUPLED,
    DEFAULT,
    DELTA,
    FEDSUV,
    LABELS,
    LATE_0,
    LOW,
    MAIN,
    NOISES,
    RANDOM,
    REGIMES,
    RIVALS,
    TASKS,
    YOGI,
    gains,
    largest,
    mean_speed_up,
    places,
    speed_ups,
)
from enlist.studies.further import looked_at
from enlist.studies.measures import FINAL_ACCURACY, ROUNDS_TO_TARGET, Measure
from enlist.studies.rules import About, Arm, AsPrinted, Everywhere, How, Judging, Limit, Parts, Rule, Share

Bound = Literal["at least", "at most"]
FASTER, POINTS, WORTH, IN_TIME = 0.05, 0.005, 0.02, 0.05
"""What matters: one round in twenty, half a point of accuracy, a fiftieth of the best possible valid utility, one
client in twenty."""
SUBLINEAR = 0.9
NEAR = 0.8
"""Part of the paper's largest speed-up that counts as about as large."""
SPREADS: Mapping[str, float] = {"rounds/averaging": 0.42, "accuracy/averaging/rivals": 0.03}
"""Deviations of paired differences (of rounds: of logarithms; the larger of random and Oort) on development
seeds 150 and 151, 150 rounds, a deadline that three quarters meet. What is not listed has not been measured."""


def trained(task: str, aggregation: str, method: str) -> Arm:
    """A method in a training."""
    return Arm(f"train/{task}/{aggregation}/{method}", LABELS[method])


def played(method: str, noise: float = 0.0) -> Arm:
    """A method in the selection process."""
    return Arm(f"process/{noise:g}/{method}", LABELS[method])


def everywhere(make: Callable[[str], About], aggregation: str) -> Everywhere:
    """A rule in every task: the printed algorithm decides, two others stand beside it."""
    beside = {task: [trained(task, aggregation, method) for method in (LATE_0, DEFAULT)] for task in TASKS}
    return Everywhere({task: AsPrinted(make(task), beside[task]) for task in TASKS})


def speed(task: str, aggregation: str) -> Rule:
    """FedSUV's speed-up in a task."""
    own, base = trained(task, aggregation, FEDSUV), trained(task, aggregation, RANDOM)
    claimed, spread = mean_speed_up(aggregation), SPREADS.get(f"rounds/{aggregation}")
    return Rule("greater", ROUNDS_TO_TARGET, own, [base], FASTER, claimed=claimed, spread=spread)


def first(measure: Measure, aggregation: str, margin: float) -> Everywhere:
    """FedSUV is the best of the five methods."""

    def rule(task: str) -> Rule:
        own, *rivals = (trained(task, aggregation, method) for method in (FEDSUV, *RIVALS))
        spread = SPREADS.get(f"{'rounds' if measure.ratio else 'accuracy'}/{aggregation}/rivals")
        return Rule("leads", measure, own, rivals, margin, baseline=rivals[0], spread=spread)

    return everywhere(rule, aggregation)


def ahead(measure: Measure, rival: str, margin: float, task: str) -> Rule:
    """FedSUV is ahead of one other method in a task, with averaging."""
    own, other = (trained(task, AVERAGING, method) for method in (FEDSUV, rival))
    return Rule("greater", measure, own, [other], margin, spread=SPREADS.get(f"{rival}/{AVERAGING}"))


def over_worst(task: str) -> OverWorst:
    """FedSUV's accuracy over that of the worst rival: at least the smallest gain of Table 3."""
    own, *rivals = (trained(task, AVERAGING, method) for method in (FEDSUV, *RIVALS))
    return OverWorst(ACCURACY_RATIO, own, rivals, round(gains(AVERAGING)[0] - 1.0, 3))


def against(how: How, other: str, of: str = FEDSUV) -> dict[str, Judging]:
    """One variant of FedSUV against another: in training and in the selection process."""

    def accuracy(task: str) -> Rule:
        own, rival = (trained(task, AVERAGING, method) for method in (of, other))
        spread = SPREADS.get(f"accuracy/{AVERAGING}/ablations")
        return Rule(how, FINAL_ACCURACY, own, [rival], POINTS, spread=spread)

    valued = Rule(how, VALUED, played(of), [played(other)], WORTH)
    return {"training": Everywhere({task: accuracy(task) for task in TASKS}), "selection process": valued}


def regimes(method: str = FEDSUV, measure: Measure = ROUNDS_TO_TARGET, margin: float = FASTER) -> dict[str, Rule]:
    """The same against random selection, with one thing changed in the main task."""
    arms = {name: [Arm(f"regime/{name}/{each}", LABELS[each]) for each in (method, RANDOM)] for name in REGIMES}
    return {REGIMES[name][0]: Rule("greater", measure, own, [base], margin) for name, (own, base) in arms.items()}


def somewhere(aggregation: str) -> Somewhere:
    """The largest speed-up over tasks and, with averaging, regimes."""
    parts = {task: speed(task, aggregation) for task in TASKS} | (regimes() if aggregation == AVERAGING else {})
    return Somewhere(parts, round(NEAR * largest(aggregation), 2))


def by_noise(how: Bound, measure: Measure, limit: float) -> dict[str, Judging]:
    """The same of FedSUV as printed with noisy features."""
    return {f"noise {noise:g}": Limit(how, measure, played(FEDSUV, noise), limit) for noise in NOISES[1:]}


def worth(*methods: str) -> dict[str, Judging]:
    """Valid utility of some methods in the selection process."""
    return {LABELS[method]: Limit("at least", VALUED, played(method), 0.0) for method in methods}


def covered(arm: Arm) -> Share:
    """Theorem 5.3."""
    what = "every client's truth lies in its rectangle in every round"
    return Share(what, all_covered, Arm(arm.key, "runs"), 1.0 - DELTA)


def claim(key: str, title: str, text: str, source: str, paper: str, rule: Judging, further: Further) -> Claim:
    """A claim whose rule says itself what it asks for."""
    return Claim(key, title, text, source, paper, "", rule, further)


CHANGED = looked_at("the setting: one thing changed in the task of small steps", regimes())
LATE = looked_at(
    "late clients, which teach the printed algorithm nothing; the same if they count 0, with one thing changed",
    regimes(LATE_0),
)
PROCESS_ARM, LONG = played(FEDSUV), Arm(f"long/{FEDSUV}", LABELS[FEDSUV])
CUT, RUNS = Arm(f"cut/{FEDSUV}", "runs"), Arm(LONG.key, "runs")
BLUR = "how well features tell validity and utility"
NAMES = {AVERAGING: "averaging", YOGI: "YoGi"}

TRAINING = (
    *(
        claim(
            f"rounds-{aggregation}",
            f"Fewer rounds than random selection, {name}",
            f"With {name}, FedSUV reaches the target accuracy in fewer rounds than random selection.",
            "section 6.2, Table 2",
            speed_ups(aggregation),
            everywhere(functools.partial(speed, aggregation=aggregation), aggregation),
            CHANGED,
        )
        for aggregation, name in NAMES.items()
    ),
    claim(
        "fastest",
        "Fewest rounds of the five methods",
        "FedSUV reaches the target accuracy before FedAvg, SAFA, Oort and REFL, with both aggregations.",
        "section 6.2, Table 2",
        "; ".join(f"{name}: {places(each, 'rounds')}" for each, name in NAMES.items()),
        Parts({name: first(ROUNDS_TO_TARGET, each, FASTER) for each, name in NAMES.items()}),
        LATE,
    ),
    claim(
        "how-fast",
        "Up to 3.54 (averaging) and 2.92 (YoGi) times faster",
        "The largest speed-up over random selection is 3.54 with averaging and 2.92 with YoGi.",
        "sections 1 and 6.2, Table 2",
        f"{largest(AVERAGING)} and {largest(YOGI)}, each on one of five tasks",
        Parts({name: somewhere(each) for each, name in NAMES.items()}),
        LATE,
    ),
    *(
        claim(
            f"accuracy-{aggregation}",
            f"Highest final accuracy, {name}",
            f"With {name}, FedSUV ends with the highest accuracy of the five methods.",
            "section 6.2, Table 3",
            places(aggregation, "accuracy"),
            first(FINAL_ACCURACY, aggregation, POINTS),
            CHANGED,
        )
        for aggregation, name in NAMES.items()
    ),
    claim(
        "gain",
        "A clear gain over the worst method",
        "With averaging, FedSUV's final accuracy exceeds that of the worst of the other four by 2.6 to 30.5 %.",
        "sections 1 and 6.2, Table 3",
        "{:.3f} to {:.3f} times that of the worst".format(*gains(AVERAGING)),
        everywhere(over_worst, AVERAGING),
        CHANGED,
    ),
    claim(
        "oort",
        "More accurate than Oort, which couples",
        "FedSUV is more accurate than Oort, because Oort multiplies validity and utility into one number.",
        "section 6.2",
        "up to 1.283 times, better in 10 of 10 columns",
        everywhere(functools.partial(ahead, ACCURACY_RATIO, "oort", POINTS), AVERAGING),
        looked_at("Oort at its best", {"our default of Oort": ahead(ACCURACY_RATIO, "oort-default", POINTS, MAIN)}),
    ),
    claim(
        "in-time",
        "Fewer clients are asked in vain",
        "FedSUV avoids clients that do not finish in time.",
        "sections 4.4 and 5.1",
        "no number",
        everywhere(functools.partial(ahead, ABLE, RANDOM, IN_TIME), AVERAGING),
        looked_at("the setting: one thing changed in the task of small steps", regimes(measure=ABLE, margin=IN_TIME)),
    ),
    claim(
        "decoupling",
        "Decoupling beats one combined score",
        "Adding or multiplying validity and utility into one score is worse than treating them apart.",
        "abstract, sections 1 and 6.2",
        "no experiment; Oort and CU-CS are said to suffer from it",
        Parts({f"{where}, {LABELS[other]}": r for other in COUPLED for where, r in against("greater", other).items()}),
        looked_at("after elimination it ranks by utility alone; valid utility of others", worth(*COUPLED, LATE_0)),
    ),
    claim(
        "elimination",
        "Elimination helps",
        "Removing clients of low validity from the candidates improves the selection.",
        "section 4.4",
        "no experiment",
        Parts(against("greater", "no-elimination")),
        looked_at("late clients, which teach nothing; valid utility", worth(FEDSUV, "no-elimination", LATE_0)),
    ),
    claim(
        "pareto",
        "The Pareto step costs nothing",
        "Clients that are classified as not Pareto-optimal need not be selected any more.",
        "section 4.4, Theorem 5.2",
        "no experiment",
        Parts(against("no worse", "no-pareto")),
        looked_at(f"{BLUR}; {MISJUDGED.name}", by_noise("at most", MISJUDGED, DELTA)),
    ),
    claim(
        "default",
        "Our default is better than the printed rule",
        "One score, late clients that count 0, narrower intervals and forgetting, as our default has them, help.",
        "our own documentation",
        "not in the paper",
        Parts(against("greater", FEDSUV, of=DEFAULT)),
        looked_at("which of the changes helps; valid utility", worth(LATE_0, *COUPLED)),
    ),
)

PROCESS = (
    claim(
        "thirty-rounds",
        "Low validity leaves after about 30 rounds",
        f"Clients with validity below {LOW:g} are candidates in about 30 of the first 100 rounds only.",
        "section 6.3, Fig. 6(a)",
        "about 30 of 100 rounds",
        Parts(
            {
                "not earlier": Limit("at least", LOW_ROUNDS, PROCESS_ARM, 0.2),
                "not later": Limit("at most", LOW_ROUNDS, PROCESS_ARM, 0.4),
                "others stay": Limit("at least", STAY, PROCESS_ARM, 1.5),
            }
        ),
        looked_at(BLUR, by_noise("at most", LOW_ROUNDS, 0.4)),
    ),
    claim(
        "excluded",
        "Low validity is excluded",
        "Elimination systematically excludes clients of low validity.",
        "sections 5 and 6.3",
        "no number; the left of Fig. 6(a) is dark",
        Limit("at least", GONE, PROCESS_ARM, 0.9),
        looked_at(BLUR, by_noise("at least", GONE, 0.9)),
    ),
    claim(
        "upper-right",
        "The upper right corner is selected",
        "FedSUV mostly selects clients whose validity and utility are both high.",
        "section 6.3, Fig. 6(b)",
        "no number; the upper right corner of Fig. 6(b) is bright",
        Limit("at least", IN_CORNER, PROCESS_ARM, 0.5),
        looked_at(BLUR, by_noise("at least", IN_CORNER, 0.5)),
    ),
    claim(
        "objective",
        "Most valid utility",
        "FedSUV collects more utility of valid clients, its own objective, than methods that couple or ignore both.",
        "section 3 (OPT)",
        "no comparison",
        AsPrinted(
            Rule("leads", VALUED, PROCESS_ARM, [played(each) for each in (RANDOM, "oort", "cu-cs")], WORTH),
            [played(LATE_0), played(DEFAULT)],
        ),
        looked_at("validity counts only through elimination", worth("no-elimination", *COUPLED)),
    ),
    claim(
        "theorem-5-1",
        "Theorem 5.1: clearly less valid clients are eliminated",
        "A client whose validity is lower by twice both widths is eliminated with probability 1 − δ/2. With the "
        "paper's 20 of 2,500 Eq. 7 has removed nearly all of these before; here half of the clients are asked in two "
        "random rounds, so that the first elimination meets many.",
        "Theorem 5.1",
        f"at least {1 - DELTA / 2:g} for δ = {DELTA:g}",
        Share("everybody whom Eq. 13 names is eliminated", all_eliminated, CUT, 1.0 - DELTA / 2),
        looked_at("rectangles that miss the truth", {"runs without": covered(CUT)}),
    ),
    claim(
        "wrongly",
        "Nobody is eliminated wrongly",
        "Who is eliminated is less valid than the client it was compared with.",
        "section 5.1",
        f"at most {DELTA / 2:g} for δ = {DELTA:g}",
        Limit("at most", WRONGLY, PROCESS_ARM, DELTA / 2),
        looked_at(BLUR, by_noise("at most", WRONGLY, DELTA / 2)),
    ),
    claim(
        "theorem-5-2",
        "Theorem 5.2: who is pruned is dominated",
        "A client that is classified as not Pareto-optimal is dominated by another one.",
        "Theorem 5.2",
        "always, if the rectangles hold the truth",
        Limit("at most", MISJUDGED, PROCESS_ARM, DELTA),
        looked_at(BLUR, by_noise("at most", MISJUDGED, DELTA)),
    ),
    claim(
        "theorem-5-3",
        "Theorem 5.3: rectangles hold the truth",
        "With probability 1 − δ, the true pair of every client lies in its rectangle in every round.",
        "Theorem 5.3",
        f"at least {1 - DELTA:g} of the runs for δ = {DELTA:g}",
        covered(PROCESS_ARM),
        looked_at(
            f"{BLUR}: with noise, validity is not linear in them",
            {f"noise {noise:g}": covered(played(FEDSUV, noise)) for noise in NOISES[1:]},
        ),
    ),
    claim(
        "theorem-5-4",
        "Theorem 5.4: the widest rectangle stays below its bound",
        "The largest diagonal is at most the root of (d α² C_T + β_T γ_T C) / T.",
        "Theorem 5.4",
        f"at least {1 - DELTA:g} of the runs for δ = {DELTA:g}",
        Share("that is so wherever the bound is below the unit square's diagonal", narrow, RUNS, 1.0 - DELTA),
        looked_at("rectangles that miss the truth", {"runs without": covered(RUNS)}),
    ),
    claim(
        "theorem-5-5",
        "Theorem 5.5: regret stays below its bound",
        "Regret against the Pareto front is at most 4 K (α² d C_T + β_T γ_T C) / ε², ε the smallest gap.",
        "Theorem 5.5",
        f"at least {1 - DELTA:g} of the runs for δ = {DELTA:g}",
        Share("that is so wherever the bound is below what anybody can lose", little_regret, RUNS, 1.0 - DELTA),
        looked_at("the growth of regret", {"exponent": Limit("at most", EXPONENT, LONG, SUBLINEAR)}),
    ),
    claim(
        "sublinear",
        "Regret grows sublinearly",
        "Regret against the Pareto front grows more slowly than the number of rounds.",
        "sections 1 and 5.3",
        "polylogarithmic",
        Limit("at most", EXPONENT, LONG, SUBLINEAR),
        looked_at("fewer rounds of more clients", {"exponent": Limit("at most", EXPONENT, PROCESS_ARM, SUBLINEAR)}),
    ),
)

CLAIMS = (*TRAINING, *PROCESS)
