"""The rules that judge the claims on selection. Margins were set before any run of the scale "laptop".

`rewarding` and `default_is_better` came after the first such run; their margins are those of the other rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from enlist.statistics import Summary
from enlist.studies.claims import REPRODUCED, Verdict, as_printed, greater, shown, together
from enlist.studies.darts import costs, scores
from enlist.studies.darts.settings import DEFAULT, METHODS, PRINTED, RANDOM, ROTATION
from enlist.studies.results import Results

POINTS = 2.0
"""Least difference in accuracy that matters, in percentage points."""
STEADY = 1.0
"""Least difference in jumps from round to round that matters, in percentage points."""
SPEED = 0.1
"""Least saving that matters: a tenth."""
UNEVEN = 0.05
"""Least difference in Jain's index that matters."""
SPREAD = 0.1
"""Least difference in the coefficient of variation of picks that matters."""
RIGHT = 0.2
"""Least rank correlation that matters."""
SERVER = 1.0
"""Least milliseconds per round that matter."""
NAMES = {PRINTED: "as printed", DEFAULT: "our default", ROTATION: "a rotation that ignores rewards"}
"""What is judged, in verdicts."""


def scaled(summary: Summary, factor: float) -> Summary:
    """The summary of numbers in another unit.

    >>> scaled(Summary(0.5, 0.25, 0.75), 100)
    Summary(mean=50.0, low=25.0, high=75.0)
    """
    return Summary(factor * summary.mean, factor * summary.low, factor * summary.high)


def in_points(difference: Summary, margin: float) -> Verdict:
    """`greater` on a difference of shares, in percentage points.

    >>> in_points(Summary(0.031, 0.02, 0.04), 2.0).ours
    '+3.1 [+2.0, +4.0] points'
    """
    verdict = greater(scaled(difference, 100.0), margin, digits=1)
    return verdict._replace(ours=f"{verdict.ours} points")


def times(ratio: Summary, margin: float, digits: int = 2) -> Verdict:
    """`greater` on a ratio of positive quantities that should be above 1 by the margin; its interval ends at 0.

    >>> times(Summary(1.9, -1.1, 4.9), 0.1).ours
    '1.90 [0.00, 4.90] times'
    >>> times(Summary(1.3, 1.2, 1.4), 0.1).ours, times(Summary(1.05, 0.7, 1.08), 0.1).why
    ('1.30 [1.20, 1.40] times', 'the interval contains 1 and excludes 1.1')
    """
    ratio = ratio.within(0.0, math.inf)
    kind = greater(Summary(ratio.mean - 1.0, ratio.low - 1.0, ratio.high - 1.0), margin).kind
    limit = f"{1.0 + margin:g}"
    if kind == REPRODUCED:
        why = f"the interval lies above 1, and the mean reaches {limit}"
    elif ratio.low > 1:
        why = f"the direction is certain, but the mean stays below {limit}"
    elif ratio.high < 1:
        why = "the interval lies below 1: the opposite is the case"
    elif ratio.mean <= 1:
        why = "the mean is not above 1"
    elif ratio.high < 1 + margin:
        why = f"the interval contains 1 and excludes {limit}"
    else:
        why = f"the mean is above 1, but the interval contains 1 (and {limit})"
    return Verdict(kind, f"{shown(ratio, digits)} times", why)


def parted(verdicts: Mapping[str, Verdict]) -> Verdict:
    """`together`, with a reason that several parts share said once.

    >>> parted({"time": Verdict("not", "1", "so"), "samples": Verdict("not", "2", "so")}).why
    'time, samples: so'
    """
    return together(verdicts)._replace(why=_reasons(verdicts))


def by_printed(rule: Callable[[str], Verdict], *beside: str) -> Verdict:
    """The claim is about the printed algorithm, which decides; what our default and others give is said beside it.

    >>> by_printed(lambda key: Verdict("not" if key == PRINTED else "reproduced", "1", "so"))[1:3]
    ('as printed: 1; our default: 1 (by the same rule: reproduced)', 'as printed, our default: so')
    """
    verdicts = {NAMES[key]: rule(key) for key in (PRINTED, DEFAULT, *beside)}
    return as_printed(verdicts)._replace(why=_reasons(verdicts))


def faster(results: Results) -> Verdict:
    """Rounds that random takes to its target over rounds that UCB takes; beside it what a mere rotation takes.

    >>> from enlist.studies.darts.example import example_results
    >>> " times; our default" in faster(example_results()).ours
    True
    """
    return by_printed(lambda key: times(scores.saving(results, key, "rounds"), SPEED), *_rotation(results))


def rewarding(results: Results) -> Verdict:
    """Rounds that a rotation, in which rewards have no say, takes to random's target over rounds that UCB takes.

    >>> from enlist.studies.darts.example import example_results
    >>> " times; our default" in rewarding(example_results()).ours
    True
    """
    return by_printed(lambda key: times(scores.saving(results, key, "rounds", against=ROTATION), SPEED))


def thriftier(results: Results) -> Verdict:
    """Samples trained on, and virtual seconds, until the target: random's over UCB's, and over a rotation's.

    >>> from enlist.studies.darts.example import example_results
    >>> thriftier(example_results()).ours.startswith("as printed: samples: ")
    True
    """
    names = {"samples": "samples", "time": "seconds"}
    return by_printed(
        lambda key: parted({name: times(scores.saving(results, key, what), SPEED) for name, what in names.items()}),
        *_rotation(results),
    )


def more_accurate(results: Results) -> Verdict:
    """Accuracy over the last tenth of the rounds, UCB − random.

    >>> from enlist.studies.darts.example import example_results
    >>> more_accurate(example_results()).kind
    'partly'
    """
    return by_printed(lambda key: in_points(scores.gap(results, key, RANDOM, scores.final), POINTS))


def default_is_better(results: Results) -> Verdict:
    """Our default against the printed algorithm: accuracy over the last tenth of the rounds, and rounds to the target.

    >>> from enlist.studies.darts.example import example_results
    >>> default_is_better(example_results()).kind
    'partly'
    """
    return parted(
        {
            "final accuracy": in_points(scores.gap(results, DEFAULT, PRINTED, scores.final), POINTS),
            "rounds to the target": times(scores.saving(results, DEFAULT, "rounds", against=PRINTED), SPEED),
        }
    )


def adaptive(results: Results) -> Verdict:
    """Whether picks are less even than random's, and go to those who were worth more under random selection.

    >>> from enlist.studies.darts.example import example_results
    >>> "unevenness" in adaptive(example_results()).ours
    True
    """

    def rule(key: str) -> Verdict:
        uneven = greater(scores.gap(results, key, RANDOM, scores.variation), SPREAD, digits=2)
        right = greater(Summary.of(scores.agreement(results, key).tolist()).within(-1.0, 1.0), RIGHT, digits=2)
        return parted({"unevenness": uneven, "correlation with worth": right})

    return by_printed(rule)


def steadier(results: Results) -> Verdict:
    """Mean jump of the accuracy from round to round, random − UCB.

    >>> from enlist.studies.darts.example import example_results
    >>> steadier(example_results()).ours.count("points")
    2
    """
    return by_printed(lambda key: in_points(scores.gap(results, RANDOM, key, scores.jump), STEADY))


def ahead_at(number: int) -> Callable[[Results], Verdict]:
    """Accuracy after a round (or the last, if there are fewer), UCB − random; beside it, of the five rounds up to it.

    Single rounds jump by several points; only the one that is named decides, as the claim is about that round.

    >>> from enlist.studies.darts.example import example_results
    >>> ahead_at(20)(example_results()).ours.count("(rounds 16 to 20: ")
    2
    """

    def rule(results: Results) -> Verdict:
        last = min(number, len(results[RANDOM].each("accuracy")[0]))

        def at(key: str) -> Verdict:
            verdict = in_points(scores.gap(results, key, RANDOM, scores.accuracy_at(last)), POINTS)
            if last == 1:
                return verdict
            several = scaled(scores.gap(results, key, RANDOM, scores.smoothed_at(last)), 100.0)
            return verdict._replace(ours=f"{verdict.ours} ({scores.span(last)}: {shown(several, 1, sign=True)})")

        return by_printed(at)

    return rule


def dearer(results: Results) -> Verdict:
    """Milliseconds of the server per round, UCB − random, with the evaluation that gives the reward, and the parts.

    >>> from enlist.studies.darts.example import example_results
    >>> dearer(example_results()).kind
    'reproduced'
    """
    outcomes = results["server"].outcomes.values()
    evaluating = [costs.evaluating(outcome) for outcome in outcomes]

    def rule(key: str) -> Verdict:
        own, base = costs.choosing(METHODS[key]), costs.choosing(METHODS[RANDOM])
        choosing = [own(outcome) - base(outcome) for outcome in outcomes]
        both = [one + other for one, other in zip(choosing, evaluating, strict=True)]
        verdict = greater(Summary.of(both), SERVER, digits=2)
        first, second = (shown(Summary.of(part), 2, sign=True) for part in (evaluating, choosing))
        parts = f"evaluating the model {first}, choosing and learning {second}"
        return verdict._replace(ours=f"{verdict.ours} ms per round ({parts})")

    return by_printed(rule)


def less_fair(results: Results) -> Verdict:
    """Jain's index of how often clients were asked, random − UCB.

    >>> from enlist.studies.darts.example import example_results
    >>> less_fair(example_results()).kind
    'not'
    """

    def rule(key: str) -> Verdict:
        verdict = greater(scores.gap(results, RANDOM, key, scores.evenness), UNEVEN, digits=2)
        own, base = (shown(scores.mean(results, each, scores.evenness, 1.0), 2) for each in (key, RANDOM))
        return verdict._replace(ours=f"{verdict.ours} (Jain {own}, random {base})")

    return by_printed(rule)


def _reasons(verdicts: Mapping[str, Verdict]) -> str:
    names: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        names.setdefault(verdict.why, []).append(name)
    return "; ".join(f"{', '.join(some)}: {why}" for why, some in names.items())


def _rotation(results: Results) -> list[str]:
    """The rotation, unless its experiments failed: it is shown beside what others are judged by."""
    return [ROTATION] if ROTATION in results else []
