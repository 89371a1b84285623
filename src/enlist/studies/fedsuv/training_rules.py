"""Rules that judge what the paper says of training. Each was written before the run it judges."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from enlist._internal.statistics import Summary, paired_difference
from enlist.errors import unknown
from enlist.studies.claims import (
    NOT,
    PARTLY,
    REPRODUCED,
    Verdict,
    greater,
    leads,
    no_worse,
    shown,
    together,
)
from enlist.studies.fedsuv.measures import objective
from enlist.studies.fedsuv.methods import FEDSUV, FORMER, OURS, PRINTED, RANDOM, RIVALS, ZERO, title
from enlist.studies.fedsuv.paper import AVERAGING, TASKS, YOGI
from enlist.studies.fedsuv.scores import completed, finals, goal, methods, speed_up, tasks, ways
from enlist.studies.fedsuv.training_causes import ablated_task
from enlist.studies.results import Group, Results

FASTER = 1.05
"""A speed-up that matters: one round in twenty saved."""
POINTS = 0.005
"""A difference in accuracy that matters: half a percentage point."""
VALUED = 0.02
"""A difference in valid utility that matters, as a share of the best possible."""
SMALLEST_GAIN = 0.026
"""The smallest gain over the worst method that the paper reports with averaging."""

Rule = Callable[[Results], Verdict]


def readings(judge: Callable[[str], Verdict]) -> Verdict:
    """A verdict on the paper's FedSUV: reproduced if the printed rule does it; partly if it does when late clients
    count 0, on which the paper is silent, or if either does so partly; else not. Our default is said beside it.

    >>> kinds = {"fedsuv-printed": NOT, "fedsuv-zero": NOT, "fedsuv": REPRODUCED}
    >>> readings(lambda name: Verdict(kinds[name], "1", "so"))[:2]
    ('not', 'as printed: 1; late counts 0: 1; our default: 1 (by the same rule: reproduced)')
    """
    found = {name: judge(name) for name in FEDSUV}
    kinds = {found[name].kind for name in (PRINTED, ZERO)}
    kind = REPRODUCED if found[PRINTED].kind == REPRODUCED else PARTLY if kinds & {REPRODUCED, PARTLY} else NOT
    short = {name: title(name).removeprefix("FedSUV, ") for name in FEDSUV}
    ours = "; ".join(f"{short[name]}: {found[name].ours}" for name in FEDSUV)
    why = "; ".join(f"{short[name]}: {found[name].kind} ({found[name].why})" for name in (PRINTED, ZERO))
    others = "; ".join(f"{short[name]}: {found[name].kind}" for name in (ZERO, OURS))
    brief = f"{found[PRINTED].ours} ({others})"
    return Verdict(kind, f"{ours} (by the same rule: {found[OURS].kind})", why, brief)


def by_task(results: Results, aggregation: str, judge: Callable[[str], Verdict], name: str = PRINTED) -> Verdict:
    """A verdict over the tasks of an aggregation in which a method was run.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> by_task(example_results(), "yogi", lambda start: Verdict(NOT, start, "")).ours
    'mlp: mlp/yogi'
    """
    starts = [start for start in tasks(results, aggregation) if name in methods(results, start)]
    if not starts:
        raise unknown("finished experiment", f".../{aggregation}/{name}", results.keys("process"))
    found = {start.partition("/")[0]: judge(start) for start in starts}
    missing = [start.partition("/")[0] for start in tasks(results, aggregation) if start not in starts]
    kinds = [f"{task} {verdict.kind}" for task, verdict in found.items()]
    return together(found)._replace(why=", ".join([*kinds, *(f"not run on {task}" for task in missing)]))


def faster(results: Results, aggregation: str) -> Verdict:
    """FedSUV needs fewer rounds than random selection.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> faster(example_results(), "averaging").kind in (REPRODUCED, PARTLY, NOT)
    True
    """

    def of_task(name: str, start: str) -> Verdict:
        found = speed_up(results, start, name)
        if not found.pairs:
            return Verdict(NOT, "target never reached", "neither reaches the target with any seed")
        if not found.proves:
            return Verdict(NOT, found.shown(), "with some seed it never gets there, while random selection does")
        logs = Summary(*(math.log(each) for each in (found.summary.mean, found.summary.low, found.summary.high)))
        return greater(logs, math.log(FASTER))._replace(ours=found.shown())

    return readings(lambda name: by_task(results, aggregation, lambda start: of_task(name, start), name))


def fastest(results: Results) -> Verdict:
    """FedSUV needs the fewest rounds of the paper's five methods, with both aggregations.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> "against" in fastest(example_results()).ours
    True
    """

    def saved(start: str, name: str) -> dict[int, float]:
        """By seed, how many times as fast as the whole run, as a logarithm."""
        found = ways(results[f"{start}/{name}"], goal(results, start))
        return {seed: math.log(way.whole.rounds / way.rounds) for seed, way in found.items()}

    def of_task(name: str, start: str) -> Verdict:
        own = saved(start, name)
        others = {rival: saved(start, rival) for rival in RIVALS if rival in methods(results, start)}
        return _leads(name, own, others, math.log(FASTER), _times)

    def both(name: str) -> Verdict:
        return together(
            {
                aggregation: by_task(results, aggregation, lambda start: of_task(name, start), name)
                for aggregation in (AVERAGING, YOGI)
                if tasks(results, aggregation)
            }
        )

    return readings(both)


def as_fast_as_said(results: Results) -> Verdict:
    """The largest speed-up is about that of the paper: within 20 % of 3.54 (averaging) and 2.92 (YoGi).

    >>> from enlist.studies.fedsuv.example import example_results
    >>> as_fast_as_said(example_results()).kind in (REPRODUCED, PARTLY, NOT)
    True
    """

    def largest(name: str, aggregation: str) -> Verdict:
        starts = [start for start in tasks(results, aggregation) if name in methods(results, start)]
        found = [each for each in (speed_up(results, start, name) for start in starts) if each.pairs]
        printed = max(task.speed_up(aggregation) for task in TASKS.values())
        if not found:
            return Verdict(NOT, "target never reached", "no task reaches its target")
        best = max(found, key=lambda each: (each.proves, each.summary.mean))
        certain = best.proves and best.summary.low > 1
        if certain and best.summary.mean >= 0.8 * printed:
            return Verdict(REPRODUCED, best.shown(), f"it is at least 80 % of {printed}, and certainly above 1")
        if certain and best.summary.mean >= 1.5:
            return Verdict(PARTLY, best.shown(), f"it is at least 1.5, but below 80 % of {printed}")
        return Verdict(NOT, best.shown(), "it stays below 1.5, or may be 1")

    used = [aggregation for aggregation in (AVERAGING, YOGI) if tasks(results, aggregation)]
    return readings(lambda name: together({aggregation: largest(name, aggregation) for aggregation in used}))


def most_accurate(results: Results, aggregation: str) -> Verdict:
    """FedSUV has the highest final accuracy of the paper's five methods.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> most_accurate(example_results(), "averaging").kind
    'partly'
    """

    def of_task(name: str, start: str) -> Verdict:
        own = _by_seed(results[f"{start}/{name}"])
        others = {rival: _by_seed(results[f"{start}/{rival}"]) for rival in RIVALS if rival in methods(results, start)}
        return _leads(name, own, others, POINTS, lambda gap: shown(gap, sign=True))

    return readings(lambda name: by_task(results, aggregation, lambda start: of_task(name, start), name))


def gains(results: Results, rival: str | None) -> Verdict:
    """FedSUV's relative gain in final accuracy over the worst of the others, or over one of them.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> gains(example_results(), "oort").kind in (PARTLY, NOT)
    True
    """

    def of_task(name: str, start: str) -> Verdict:
        there = [each for each in RIVALS if each in methods(results, start)]
        worst = rival or min(there, key=lambda each: float(finals(results[f"{start}/{each}"]).mean()))
        own, other = _by_seed(results[f"{start}/{name}"]), _by_seed(results[f"{start}/{worst}"])
        shared = sorted(own.keys() & other.keys())
        gain = Summary.of([100.0 * (own[seed] / other[seed] - 1.0) for seed in shared]).within(-100.0, math.inf)
        verdict = greater(gain, 100.0 * (SMALLEST_GAIN if rival is None else POINTS), digits=1)
        return verdict._replace(ours=f"{verdict.ours} %")

    return readings(lambda name: by_task(results, AVERAGING, lambda start: of_task(name, start), name))


def in_time(results: Results) -> Verdict:
    """More of the clients that FedSUV asks are in time than of those asked at random.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> in_time(example_results()).kind in (PARTLY, NOT)
    True
    """

    def of_task(name: str, start: str) -> Verdict:
        return greater(_difference(results, f"{start}/{name}", f"{start}/{RANDOM}", completed), 0.05)

    return readings(lambda name: by_task(results, AVERAGING, lambda start: of_task(name, start), name))


def decoupled(results: Results) -> Verdict:
    """Two separate criteria do better than one score of both: in training and in the selection process.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> decoupled(example_results()).kind in (PARTLY, NOT)
    True
    """
    start = ablated_task(results)
    parts: dict[str, Verdict] = {}
    for other in ("added", "multiplied"):
        against = title(other)
        accuracy = _difference(results, f"{start}/{PRINTED}", f"{start}/{other}", finals)
        parts[f"accuracy, against {against}"] = greater(accuracy, POINTS)
        parts[f"valid utility, against {against}"] = greater(_worth(results, PRINTED, other), VALUED)
    return together(parts)


def elimination_helps(results: Results) -> Verdict:
    """Elimination makes FedSUV better: in training and in the selection process.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> elimination_helps(example_results()).kind in (PARTLY, NOT)
    True
    """
    return _step(results, "no-elimination", greater)


def pareto_is_free(results: Results) -> Verdict:
    """Leaving out clients that are certainly dominated costs nothing.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> pareto_is_free(example_results()).kind in (REPRODUCED, PARTLY, NOT)
    True
    """
    return _step(results, "no-pareto", no_worse)


def default_is_better(results: Results) -> Verdict:
    """What our default changes of the printed rule makes it better.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> default_is_better(example_results()).kind
    'partly'
    """
    parts = {
        f"accuracy, {start.partition('/')[0]}": greater(
            _difference(results, f"{start}/{OURS}", f"{start}/{PRINTED}", finals), POINTS
        )
        for start in tasks(results, AVERAGING)
    }
    return together({**parts, "valid utility": greater(_worth(results, OURS, PRINTED), VALUED)})


def one_score_is_better(results: Results) -> Verdict:
    """Our default, one score of both models where late clients count 0, is better than the former one.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> one_score_is_better(example_results()).kind in (REPRODUCED, PARTLY, NOT)
    True
    """
    start = ablated_task(results)
    accuracy = _difference(results, f"{start}/{OURS}", f"{start}/{FORMER}", finals)
    parts = {
        "accuracy": greater(accuracy, POINTS),
        "valid utility": greater(_worth(results, OURS, FORMER), VALUED),
    }
    return together(parts)


def _step(results: Results, without: str, rule: Callable[[Summary, float], Verdict]) -> Verdict:
    start = ablated_task(results)
    accuracy = _difference(results, f"{start}/{PRINTED}", f"{start}/{without}", finals)
    worth = _worth(results, PRINTED, without)
    found = together({"accuracy": rule(accuracy, POINTS), "valid utility": rule(worth, VALUED)})
    same = (accuracy.mean, accuracy.low, accuracy.high, worth.mean) == (0.0, 0.0, 0.0, 0.0)
    return found._replace(why=f"{found.why} (it never changed a choice)") if same else found


def _worth(results: Results, first: str, second: str) -> Summary:
    """Difference of two players in valid utility, as a share of the best possible, without noise."""
    one, other = (results[f"process/0/{name}"] for name in (first, second))
    shared = results.common([one.key, other.key])
    values = [objective(shared[key]) for key in (one.key, other.key)]
    return paired_difference(values[0].tolist(), values[1].tolist())


def _by_seed(group: Group) -> dict[int, float]:
    return dict(zip(group.seeds, finals(group).tolist(), strict=True))


def _difference(results: Results, first: str, second: str, score: Callable[[Group], np.ndarray]) -> Summary:
    shared = results.common([first, second])
    return paired_difference(score(shared[first]).tolist(), score(shared[second]).tolist())


def _leads(
    name: str,
    own: Mapping[int, float],
    others: Mapping[str, Mapping[int, float]],
    margin: float,
    words: Callable[[Summary], str],
) -> Verdict:
    """`leads` over rivals by their titles; what is ours says the place and the gap to the best rival."""
    gaps: dict[str, Summary] = {}
    for rival, values in others.items():
        seeds = sorted(own.keys() & values.keys())
        gaps[title(rival)] = paired_difference([own[seed] for seed in seeds], [values[seed] for seed in seeds])
    means = {title(rival): float(np.mean(list(values.values()))) for rival, values in others.items()}
    mean = float(np.mean(list(own.values())))
    best = max(means, key=lambda rival: means[rival])
    place = 1 + sum(each > mean for each in means.values())
    verdict = leads(title(name), {**means, title(name): mean}, gaps, margin)
    return verdict._replace(ours=f"place {place} of {len(means) + 1}, {words(gaps[best])} against {best}")


def _times(gap: Summary) -> str:
    """A difference of logarithms as a ratio."""
    span = "" if math.isnan(gap.low) else f" [{math.exp(gap.low):.2f}, {math.exp(gap.high):.2f}]"
    return f"×{math.exp(gap.mean):.2f}{span}"
