"""The rules that judge the claims on selection. Margins were set before any run of the scale "laptop"."""

from __future__ import annotations

from collections.abc import Callable

from enlist.statistics import Summary
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, Verdict, as_printed, greater, shown, together
from enlist.studies.darts import scores
from enlist.studies.darts.settings import DEFAULT, LABELS, METHODS, PRINTED, RANDOM
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
    """`greater` on a ratio that should be above 1 by the margin.

    >>> times(Summary(1.3, 1.2, 1.4), 0.1).ours, times(Summary(1.05, 0.7, 1.08), 0.1).kind
    ('1.30 [1.20, 1.40] times', 'not')
    """
    kind = greater(Summary(ratio.mean - 1.0, ratio.low - 1.0, ratio.high - 1.0), margin).kind
    limit = f"{1.0 + margin:g}"
    why = {
        REPRODUCED: f"the interval lies above 1, and the mean reaches {limit}",
        PARTLY: f"the mean is above 1, but the interval contains 1, or the mean stays below {limit}",
        NOT: f"the mean is not above 1, or {limit} is excluded",
    }
    return Verdict(kind, f"{shown(ratio, digits)} times", why[kind])


def by_printed(rule: Callable[[str], Verdict]) -> Verdict:
    """The claim is about the printed algorithm, which decides; what our default gives is said beside it.

    >>> by_printed(lambda key: Verdict("not" if key == PRINTED else "reproduced", "1", "so")).ours
    'UCB as printed: 1; UCB, our default: 1 (by the same rule: reproduced)'
    """
    return as_printed({LABELS[key]: rule(key) for key in (PRINTED, DEFAULT)})


def faster(results: Results) -> Verdict:
    """Rounds that random takes to its target over rounds that UCB takes.

    >>> from enlist.studies.darts.example import example_results
    >>> " times; UCB, our default" in faster(example_results()).ours
    True
    """
    return by_printed(lambda key: times(scores.saving(results, key, "rounds"), SPEED))


def thriftier(results: Results) -> Verdict:
    """Samples trained on, and virtual seconds, until the target: random's over UCB's.

    >>> from enlist.studies.darts.example import example_results
    >>> "samples trained on" in thriftier(example_results()).ours
    True
    """
    names = {"samples trained on": "samples", "virtual time": "seconds"}
    return by_printed(
        lambda key: together({name: times(scores.saving(results, key, what), SPEED) for name, what in names.items()})
    )


def more_accurate(results: Results) -> Verdict:
    """Accuracy over the last tenth of the rounds, UCB − random.

    >>> from enlist.studies.darts.example import example_results
    >>> more_accurate(example_results()).kind
    'partly'
    """
    return by_printed(lambda key: in_points(scores.gap(results, key, RANDOM, scores.final), POINTS))


def adaptive(results: Results) -> Verdict:
    """Whether picks are less even than random's, and go to those who were worth more under random selection.

    >>> from enlist.studies.darts.example import example_results
    >>> "unevenness" in adaptive(example_results()).ours
    True
    """

    def rule(key: str) -> Verdict:
        uneven = greater(scores.gap(results, key, RANDOM, scores.variation), SPREAD, digits=2)
        right = greater(Summary.of(scores.agreement(results, key).tolist()), RIGHT, digits=2)
        return together({"unevenness beyond random": uneven, "correlation with worth": right})

    return by_printed(rule)


def steadier(results: Results) -> Verdict:
    """Mean jump of the accuracy from round to round, random − UCB.

    >>> from enlist.studies.darts.example import example_results
    >>> steadier(example_results()).ours.count("points")
    2
    """
    return by_printed(lambda key: in_points(scores.gap(results, RANDOM, key, scores.jump), STEADY))


def ahead_at(number: int) -> Callable[[Results], Verdict]:
    """Accuracy after a round (or the last, if there are fewer), UCB − random.

    >>> from enlist.studies.darts.example import example_results
    >>> ahead_at(20)(example_results()).ours.count("points")
    2
    """

    def rule(results: Results) -> Verdict:
        last = min(number, len(results[RANDOM].each("accuracy")[0]))
        return by_printed(lambda key: in_points(scores.gap(results, key, RANDOM, scores.accuracy_at(last)), POINTS))

    return rule


def dearer(results: Results) -> Verdict:
    """Milliseconds of the server per round, UCB − random, with the evaluation that gives the reward.

    >>> from enlist.studies.darts.example import example_results
    >>> dearer(example_results()).kind
    'reproduced'
    """

    def rule(key: str) -> Verdict:
        extra = [
            scores.server_cost(outcome, METHODS[key], True) - scores.server_cost(outcome, METHODS[RANDOM], False)
            for outcome in results["server"].outcomes.values()
        ]
        verdict = greater(Summary.of(extra), SERVER, digits=2)
        return verdict._replace(ours=f"{verdict.ours} ms per round")

    return by_printed(rule)


def less_fair(results: Results) -> Verdict:
    """Jain's index of how often clients were asked, random − UCB.

    >>> from enlist.studies.darts.example import example_results
    >>> less_fair(example_results()).kind
    'not'
    """

    def rule(key: str) -> Verdict:
        verdict = greater(scores.gap(results, RANDOM, key, scores.evenness), UNEVEN, digits=2)
        own, base = (scores.mean(results, each, scores.evenness).mean for each in (key, RANDOM))
        return verdict._replace(ours=f"{verdict.ours} (Jain {own:.2f}, random {base:.2f})")

    return by_printed(rule)
