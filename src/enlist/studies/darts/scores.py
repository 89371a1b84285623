"""What the study compares, one number per experiment, from curves and participations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import spearmanr

from enlist.runs.scores import Reached, jain, time_to
from enlist.runs.tables import RunTables
from enlist.statistics import Summary, geometric_mean, paired_difference
from enlist.studies.darts.settings import INITIAL, RANDOM
from enlist.studies.results import Outcome, Results
from enlist.typing import FloatArray, IntArray

WINDOW = 5
"""Rounds over whose mean the target has to be reached: single rounds jump by ten points."""
SHARE = 0.9
"""The target of a population, as a share of random's final accuracy on it."""

Score = Callable[[Outcome], float]


def final(outcome: Outcome) -> float:
    """Mean test accuracy over the last tenth of the rounds.

    >>> from enlist.studies.darts.example import example_results
    >>> 0.5 < final(example_results()["select/random"].outcomes[0]) < 0.8
    True
    """
    curve = outcome["accuracy"]
    return float(curve[-max(len(curve) // 10, 1) :].mean())


def accuracy_at(number: int) -> Score:
    """Test accuracy after a round, the first being 1.

    >>> from enlist.studies.darts.example import example_results
    >>> outcome = example_results()["select/random"].outcomes[0]
    >>> accuracy_at(1)(outcome) == float(outcome["accuracy"][0])
    True
    """
    return lambda outcome: float(outcome["accuracy"][number - 1])


def smoothed_at(number: int) -> Score:
    """Mean test accuracy over the five rounds up to this one, or as many as there are.

    >>> outcome = Outcome({}, {"accuracy": np.array([0.0, 0.5, 0.6, 0.7, 0.6, 0.6])}, 1.0)
    >>> round(smoothed_at(6)(outcome), 3), smoothed_at(2)(outcome)
    (0.6, 0.25)
    """
    return lambda outcome: float(outcome["accuracy"][max(number - WINDOW, 0) : number].mean())


def span(number: int) -> str:
    """The rounds of `smoothed_at` in words.

    >>> span(20), span(3)
    ('rounds 16 to 20', 'rounds 1 to 3')
    """
    return f"rounds {max(number - WINDOW, 0) + 1} to {number}"


def local_at(number: int) -> Score:
    """Mean accuracy, after a round, of those who took part in it, on their own samples.

    >>> from enlist.studies.darts.example import example_results
    >>> local_at(1)(example_results()["select/random"].outcomes[0])
    0.9
    """
    return lambda outcome: float(outcome["local_accuracy"][number - 1].mean())


def jump(outcome: Outcome) -> float:
    """Mean change of the test accuracy from round to round, in either direction.

    >>> jump(Outcome({}, {"accuracy": np.array([0.5, 0.75, 0.5])}, 1.0))
    0.25
    """
    return float(np.abs(np.diff(outcome["accuracy"])).mean())


def evenness(outcome: Outcome) -> float:
    """Jain's index of how often each client was asked.

    >>> evenness(Outcome({}, {"selected": np.array([3, 3, 0, 0])}, 1.0))
    0.5
    """
    return jain(outcome["selected"])


def picks(outcome: Outcome) -> IntArray:
    """(clients,) how often each was asked after the initial rounds, which are random.

    >>> who = np.array([[0, 1]] * 5 + [[1, 2]])
    >>> picks(Outcome({}, {"who": who, "samples": np.ones(4)}, 1.0))
    array([0, 1, 1, 0])
    """
    return np.bincount(outcome["who"][INITIAL:].ravel().astype(np.int64), minlength=len(outcome["samples"]))


def variation(outcome: Outcome) -> float:
    """Coefficient of variation of `picks`: 0 if everybody was asked as often as everybody else.

    >>> who = np.array([[0, 1]] * 5 + [[0, 1], [2, 3]])
    >>> variation(Outcome({}, {"who": who, "samples": np.ones(4)}, 1.0))
    0.0
    """
    counts = picks(outcome)
    return float(counts.std() / max(counts.mean(), 1e-12))


def worth(outcome: Outcome) -> FloatArray:
    """(clients,) mean change of the test accuracy over the rounds in which a client took part; NaN if in none.

    >>> who, accuracy = np.array([[0], [1], [0]]), np.array([0.2, 0.5, 0.4])
    >>> worth(Outcome({}, {"who": who, "accuracy": accuracy, "samples": np.ones(3)}, 1.0)).round(2)
    array([-0.1,  0.3,  nan])
    """
    gains, who = np.diff(outcome["accuracy"]), outcome["who"][1:]
    rows = [gains[(who == client).any(axis=1)] for client in range(len(outcome["samples"]))]
    return np.array([row.mean() if len(row) else math.nan for row in rows])


def agreement(results: Results, key: str) -> FloatArray:
    """(seeds,) rank correlation of how often a selector asked clients with what they were worth under random selection.

    Under random selection nobody's reward depends on the selector, so this worth is a measurement of its own. For a
    selector that asks everybody equally often the correlation is 0.

    >>> from enlist.studies.darts.example import example_results
    >>> agreement(example_results(), "select/default").shape
    (2,)
    """
    found = []
    for own, base in pairs(results, key, RANDOM):
        counts, values = picks(own), worth(base)
        known = np.isfinite(values)
        level = len(set(counts[known].tolist())) < 2 or len(set(values[known].tolist())) < 2
        found.append(0.0 if level else float(spearmanr(counts[known], values[known]).statistic))
    return np.array(found)


def pairs(results: Results, first: str, second: str) -> list[tuple[Outcome, Outcome]]:
    """Outcomes of two keys with the same seed.

    >>> from enlist.studies.darts.example import example_results
    >>> len(pairs(example_results(), "select/printed", "select/random"))
    2
    """
    one, other = results[first].outcomes, results[second].outcomes
    return [(one[seed], other[seed]) for seed in one if seed in other]


def gap(results: Results, first: str, second: str, score: Score) -> Summary:
    """Mean of first − second over common seeds with its 95 % interval.

    >>> from enlist.studies.darts.example import example_results
    >>> gap(example_results(), "select/printed", "select/printed", final).mean
    0.0
    """
    both = pairs(results, first, second)
    return paired_difference([score(one) for one, _ in both], [score(other) for _, other in both])


def mean(results: Results, key: str, score: Score, most: float = math.inf) -> Summary:
    """Mean of a score, which is not negative and at most `most`, over seeds with its 95 % interval.

    >>> from enlist.studies.darts.example import example_results
    >>> 0.5 < mean(example_results(), "select/random", evenness).mean <= 1
    True
    """
    return Summary.of([score(outcome) for outcome in results[key].outcomes.values()]).within(0.0, most)


def target(base: Outcome) -> float:
    """The accuracy to be reached on a population: nine tenths of what random ends with there.

    >>> target(Outcome({}, {"accuracy": np.full(10, 0.5)}, 1.0))
    0.45
    """
    return SHARE * final(base)


def reached(outcome: Outcome, aim: float) -> Reached | None:
    """Rounds and virtual seconds until the mean of the last five evaluations meets the aim; None if it never does.

    >>> curve = {"accuracy": np.linspace(0.1, 1.0, 10), "end": np.arange(10.0)}
    >>> reached(Outcome({}, curve, 1.0), 0.5)
    Reached(rounds=7, seconds=6.0)
    """
    rounds = {name: outcome[name] for name in ("accuracy", "end")}
    return time_to(RunTables("", 0, {}, rounds, {}, {}), aim, min(WINDOW, len(rounds["end"])))


def spent(outcome: Outcome, aim: float) -> dict[str, float]:
    """What it took to reach the aim (the whole run, if that did not do): rounds, virtual seconds, samples trained on.

    >>> curve = {"accuracy": np.full(9, 0.4), "end": np.arange(1.0, 10.0), "who": np.zeros((9, 1)), "samples": [7.0]}
    >>> spent(Outcome({"samples": np.array([7.0])}, {**curve}, 1.0), 0.5)["rounds"]
    9.0
    """
    found = reached(outcome, aim) or Reached(len(outcome["end"]), float(outcome["end"][-1]))
    asked = np.asarray(outcome["who"][: found.rounds], dtype=np.int64)
    samples = float(np.asarray(outcome["samples"])[asked].sum())
    return {"rounds": float(found.rounds), "seconds": found.seconds, "samples": samples}


def saving(results: Results, key: str, what: str, against: str = RANDOM) -> Summary:
    """How many times as much another (random) spent until random's target as this selector: geometric mean over seeds.

    >>> from enlist.studies.darts.example import example_results
    >>> saving(example_results(), "select/random", "rounds").mean
    1.0
    """
    keys = (key, against, RANDOM)
    shared = results.common(keys)
    ratios = []
    for seed in shared[key].seeds:
        own, other, base = (shared[name].outcomes[seed] for name in keys)
        aim = target(base)
        ratios.append(spent(other, aim)[what] / spent(own, aim)[what])
    return geometric_mean(ratios)


def favour(outcome: Outcome) -> float:
    """How many times as often as the client that was asked least the most asked one was, after the initial rounds.

    >>> who = np.array([[0, 1]] * 5 + [[0, 1], [0, 2], [0, 3]])
    >>> favour(Outcome({}, {"who": who, "samples": np.ones(4)}, 1.0))
    3.0
    """
    counts = picks(outcome)
    return float(counts.max() / max(counts.min(), 1))


def per_round(outcome: Outcome) -> float:
    """Samples that a round trains on, on average.

    >>> who = np.array([[0, 1], [1, 1]])
    >>> per_round(Outcome({}, {"who": who, "samples": np.array([10.0, 20.0])}, 1.0))
    35.0
    """
    asked = np.asarray(outcome["who"], dtype=np.int64)
    return float(np.asarray(outcome["samples"])[asked].sum(axis=1).mean())


def clean_share(outcome: Outcome) -> float:
    """Share of the picks after the initial rounds that went to clients whose labels are right.

    >>> who = np.array([[0]] * 5 + [[1], [0]])
    >>> clean_share(Outcome({}, {"who": who, "samples": np.ones(2), "quality": np.array([1.0, 0.0])}, 1.0))
    0.5
    """
    counts = picks(outcome)
    return float(counts[outcome["quality"] > 0.5].sum() / max(counts.sum(), 1))


def at_seeds(results: Results, key: str, seeds: Sequence[int], name: str) -> FloatArray:
    """(seeds, ...) an array of the outcomes with these seeds.

    >>> from enlist.studies.darts.example import example_results
    >>> at_seeds(example_results(), "select/random", [1], "accuracy").shape
    (1, 20)
    """
    return np.array([results[key].outcomes[seed][name] for seed in seeds], dtype=float)
