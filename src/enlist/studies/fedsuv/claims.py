"""What the paper claims, each with the rule that judges it and what is looked at next; the words are in claims.toml."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

from enlist.studies.claims import ClaimRule, FollowUp, QuotedClaims
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
    PLAYING,
    RANDOM,
    REGIMES,
    RIVALS,
    TASKS,
    YOGI,
    gains,
    largest,
    lead,
    mean_speed_up,
    places,
    speed_ups,
)
from enlist.studies.further import looked_at
from enlist.studies.margins import ANY, PERCENT_5, Margin, nearly
from enlist.studies.measures import FINAL_ACCURACY, ROUNDS_TO_TARGET, Measure
from enlist.studies.parts import About, AllSettings, AsPrinted, Largest, Parts
from enlist.studies.rules import Arm, Contrast, How, Limit, Share

Bound = Literal["at least", "at most"]
FASTER = WORTH = IN_TIME = PERCENT_5
POINTS = Margin(
    0.005, f"half a point of accuracy; Table 3 has a lead of {lead(AVERAGING):.2g} points in the median (averaging)"
)
GAIN = Margin(round(gains(AVERAGING)[0] - 1.0, 3), "the smallest gain over the worst method in Table 3")
EARLIEST, LATEST = (Margin(each, "the paper's 'about 30 of 100 rounds', give or take ten") for each in (0.2, 0.4))
HARMLESS = Margin(0.02, "two percent, less than half of what counts as a gain")
LONGER = Margin(1.5, "half as many rounds again; the paper has no number")
GONE_BY_THE_END = Margin(
    0.7, "the paper's own 30 of 100 rounds: whoever stays has 100, so at most three in ten can have stayed"
)
CORNER_SHARE = Margin(0.5, "most requests, and twice what chance gives: a quarter of the unit square")
WRONG, CERTAIN = Margin(DELTA, "the theorem's own δ"), Margin(1.0 - DELTA, "the theorem's own 1 − δ")
HALF_WRONG, HALF_CERTAIN = Margin(DELTA / 2, "its own δ/2"), Margin(1.0 - DELTA / 2, "the theorem's own 1 − δ/2")
SUBLINEAR = Margin(0.9, "an exponent of one tenth less than that of linear growth")


def trained(task: str, aggregation: str, method: str) -> Arm:
    """A method in a training."""
    return Arm(f"train/{task}/{aggregation}/{method}", LABELS[method])


def played(method: str, noise: float = 0.0) -> Arm:
    """A method in the selection process."""
    return Arm(f"process/{noise:g}/{method}", LABELS[method])


def everywhere(make: Callable[[str], About], aggregation: str) -> AllSettings:
    """A rule in every task: the printed algorithm decides, two others stand beside it."""
    beside = {task: [trained(task, aggregation, method) for method in (LATE_0, DEFAULT)] for task in TASKS}
    return AllSettings({task: AsPrinted(make(task), beside[task]) for task in TASKS})


def speed(task: str, aggregation: str) -> Contrast:
    """FedSUV's speed-up in a task."""
    own, base = trained(task, aggregation, FEDSUV), trained(task, aggregation, RANDOM)
    return Contrast("greater", ROUNDS_TO_TARGET, own, [base], FASTER, claimed=mean_speed_up(aggregation))


def first(measure: Measure, aggregation: str, margin: float) -> AllSettings:
    """FedSUV is the best of the five methods."""

    def rule(task: str) -> Contrast:
        own, *rivals = (trained(task, aggregation, method) for method in (FEDSUV, *RIVALS))
        return Contrast("leads", measure, own, rivals, margin, baseline=rivals[0])

    return everywhere(rule, aggregation)


def ahead(measure: Measure, rival: str, margin: float, task: str) -> Contrast:
    """FedSUV is ahead of one other method in a task, with averaging."""
    own, other = (trained(task, AVERAGING, method) for method in (FEDSUV, rival))
    return Contrast("greater", measure, own, [other], margin)


def over_worst(task: str) -> OverWorst:
    """FedSUV's accuracy over that of the worst rival: at least the smallest gain of Table 3."""
    own, *rivals = (trained(task, AVERAGING, method) for method in (FEDSUV, *RIVALS))
    return OverWorst(ACCURACY_RATIO, own, rivals, GAIN)


def against(how: How, other: str, of: str = FEDSUV, worth: float = WORTH) -> dict[str, ClaimRule]:
    """One variant of FedSUV against another: in training and in the selection process."""

    def accuracy(task: str) -> Contrast:
        own, rival = (trained(task, AVERAGING, method) for method in (of, other))
        return Contrast(how, FINAL_ACCURACY, own, [rival], POINTS)

    valued = Contrast(how, VALUED, played(of), [played(other)], worth)
    return {"training": AllSettings({task: accuracy(task) for task in TASKS}), "selection process": valued}


def regimes(method: str = FEDSUV, measure: Measure = ROUNDS_TO_TARGET, margin: float = FASTER) -> dict[str, Contrast]:
    """The same against random selection, with one thing changed in the main task."""
    arms = {name: [Arm(f"regime/{name}/{each}", LABELS[each]) for each in (method, RANDOM)] for name in REGIMES}
    return {REGIMES[name][0]: Contrast("greater", measure, own, [base], margin) for name, (own, base) in arms.items()}


def somewhere(aggregation: str) -> Largest:
    """The largest speed-up over tasks and, with averaging, regimes."""
    parts = {task: speed(task, aggregation) for task in TASKS} | (regimes() if aggregation == AVERAGING else {})
    return Largest(parts, nearly(largest(aggregation)))


def by_noise(how: Bound, measure: Measure, limit: float) -> dict[str, ClaimRule]:
    """The same of FedSUV as printed with noisy features."""
    return {f"noise {noise:g}": Limit(how, measure, played(FEDSUV, noise), limit) for noise in NOISES[1:]}


def worth(*methods: str) -> dict[str, ClaimRule]:
    """Valid utility of some methods in the selection process."""
    return {LABELS[method]: Limit("at least", VALUED, played(method), ANY) for method in methods}


def covered(arm: Arm) -> Share:
    """Theorem 5.3."""
    what = "every client's truth lies in its rectangle in every round"
    return Share(what, all_covered, Arm(arm.key, "runs"), CERTAIN)


claim = QuotedClaims("enlist.studies.fedsuv").claim
SETTING = "the setting: one thing changed in the task of small steps"


def with_averaging(measure: Measure, margin: float) -> FollowUp:
    """What the same methods give without YoGi, against random selection."""
    parts = {task: ahead(measure, RANDOM, margin, task) for task in TASKS}
    return looked_at("YoGi: the same against random selection with averaging", {"averaging": AllSettings(parts)})


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
            everywhere(functools.partial(speed, aggregation=aggregation), aggregation),
            looked_at(SETTING, regimes()) if aggregation == AVERAGING else with_averaging(ROUNDS_TO_TARGET, FASTER),
            speed_ups=speed_ups(aggregation),
        )
        for aggregation in NAMES
    ),
    claim(
        "fastest",
        Parts({name: first(ROUNDS_TO_TARGET, each, FASTER) for each, name in NAMES.items()}),
        LATE,
        places="; ".join(f"{name}: {places(each, 'rounds')}" for each, name in NAMES.items()),
    ),
    claim(
        "how-fast",
        Parts({name: somewhere(each) for each, name in NAMES.items()}),
        LATE,
        averaging=largest(AVERAGING),
        yogi=largest(YOGI),
    ),
    *(
        claim(
            f"accuracy-{aggregation}",
            first(FINAL_ACCURACY, aggregation, POINTS),
            looked_at(f"{SETTING}; against random selection", regimes(measure=FINAL_ACCURACY, margin=POINTS))
            if aggregation == AVERAGING
            else with_averaging(FINAL_ACCURACY, POINTS),
            places=places(aggregation, "accuracy"),
        )
        for aggregation in NAMES
    ),
    claim(
        "gain",
        everywhere(over_worst, AVERAGING),
        looked_at(f"{SETTING}; against random selection", regimes(measure=ACCURACY_RATIO, margin=GAIN)),
        least=gains(AVERAGING)[0],
        most=gains(AVERAGING)[1],
    ),
    claim(
        "oort",
        everywhere(functools.partial(ahead, ACCURACY_RATIO, "oort", POINTS), AVERAGING),
        looked_at("Oort at its best", {"our default of Oort": ahead(ACCURACY_RATIO, "oort-default", POINTS, MAIN)}),
    ),
    claim(
        "in-time",
        everywhere(functools.partial(ahead, ABLE, RANDOM, IN_TIME), AVERAGING),
        looked_at(SETTING, regimes(measure=ABLE, margin=IN_TIME)),
    ),
    claim(
        "decoupling",
        Parts({f"{where}, {LABELS[other]}": r for other in COUPLED for where, r in against("greater", other).items()}),
        looked_at("after elimination it ranks by utility alone; valid utility of others", worth(*COUPLED, LATE_0)),
    ),
    claim(
        "elimination",
        Parts(against("greater", "no-elimination")),
        looked_at("late clients, which teach nothing; valid utility", worth(FEDSUV, "no-elimination", LATE_0)),
    ),
    claim(
        "pareto",
        Parts(against("no worse", "no-pareto", worth=HARMLESS)),
        looked_at(f"{BLUR}; {MISJUDGED.name}", by_noise("at most", MISJUDGED, WRONG)),
    ),
    claim(
        "default",
        Parts(against("greater", FEDSUV, of=DEFAULT)),
        looked_at("which of the changes helps; valid utility", worth(LATE_0, *COUPLED)),
    ),
)

PROCESS = (
    claim(
        "thirty-rounds",
        Parts(
            {
                "not earlier": Limit("at least", LOW_ROUNDS, PROCESS_ARM, EARLIEST),
                "not later": Limit("at most", LOW_ROUNDS, PROCESS_ARM, LATEST),
                "others stay": Limit("at least", STAY, PROCESS_ARM, LONGER),
            }
        ),
        looked_at(BLUR, by_noise("at most", LOW_ROUNDS, LATEST)),
        low=LOW,
    ),
    claim(
        "excluded",
        Limit("at least", GONE, PROCESS_ARM, GONE_BY_THE_END),
        looked_at(BLUR, by_noise("at least", GONE, GONE_BY_THE_END)),
    ),
    claim(
        "upper-right",
        Limit("at least", IN_CORNER, PROCESS_ARM, CORNER_SHARE),
        looked_at(BLUR, by_noise("at least", IN_CORNER, CORNER_SHARE)),
    ),
    claim(
        "objective",
        AsPrinted(
            Contrast("leads", VALUED, PROCESS_ARM, [played(each) for each in PLAYING], WORTH),
            [played(LATE_0), played(DEFAULT)],
        ),
        looked_at("validity counts only through elimination", worth("no-elimination", *COUPLED)),
    ),
    claim(
        "theorem-5-1",
        Share("everybody whom Eq. 13 names is eliminated", all_eliminated, CUT, HALF_CERTAIN),
        looked_at("rectangles that miss the truth", {"runs without": covered(CUT)}),
        share=HALF_CERTAIN,
        delta=DELTA,
    ),
    claim(
        "wrongly",
        Limit("at most", WRONGLY, PROCESS_ARM, HALF_WRONG),
        looked_at(BLUR, by_noise("at most", WRONGLY, HALF_WRONG)),
        share=HALF_WRONG,
        delta=DELTA,
    ),
    claim(
        "theorem-5-2",
        Limit("at most", MISJUDGED, PROCESS_ARM, WRONG),
        looked_at(BLUR, by_noise("at most", MISJUDGED, WRONG)),
    ),
    claim(
        "theorem-5-3",
        covered(PROCESS_ARM),
        looked_at(
            f"{BLUR}: with noise, validity is not linear in them",
            {f"noise {noise:g}": covered(played(FEDSUV, noise)) for noise in NOISES[1:]},
        ),
        share=CERTAIN,
        delta=DELTA,
    ),
    claim(
        "theorem-5-4",
        Share("that is so wherever the bound is below the unit square's diagonal", narrow, RUNS, CERTAIN),
        looked_at("rectangles that miss the truth", {"runs without": covered(RUNS)}),
        share=CERTAIN,
        delta=DELTA,
    ),
    claim(
        "theorem-5-5",
        Share("that is so wherever the bound is below what anybody can lose", little_regret, RUNS, CERTAIN),
        looked_at("the growth of regret", {"exponent": Limit("at most", EXPONENT, LONG, SUBLINEAR)}),
        share=CERTAIN,
        delta=DELTA,
    ),
    claim(
        "sublinear",
        Limit("at most", EXPONENT, LONG, SUBLINEAR),
        looked_at("fewer rounds of more clients", {"exponent": Limit("at most", EXPONENT, PROCESS_ARM, SUBLINEAR)}),
    ),
)

CLAIMS = (*TRAINING, *PROCESS)
