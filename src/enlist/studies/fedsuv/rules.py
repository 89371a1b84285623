"""The numbers that claims compare, and the one rule that is no plain comparison."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from enlist._internal.typing import FloatArray
from enlist.studies.claims import Verdict
from enlist.studies.fedsuv.process import DIAGONAL
from enlist.studies.fedsuv.settings import LOW
from enlist.studies.measures import FINAL_ACCURACY, Measure, Value, final_accuracy
from enlist.studies.results import Output, Results
from enlist.studies.rules import Arm, Contrast

LAST = 0.2
"""Part of the rounds, at the end, over which it is counted who would be in time."""
CORNER = 0.5
"""Validity and utility from which on a client lies in the upper right corner: a quarter of all do."""


def number(name: str, of: Callable[[Output], float], digits: int = 2) -> Measure:
    """A measure that needs no yardstick."""
    return Measure(name, lambda output, base: Value(of(output)), digits=digits)


def able(output: Output) -> float:
    """Share of those asked in the last rounds who would meet the deadline in a typical one."""
    shares = np.asarray(output["able"])
    return float(shares[-max(round(LAST * len(shares)), 1) :].mean())


def candidate(output: Output, low: bool) -> float:
    """Share of the rounds in which clients of low validity, or all others, were candidates, in their mean."""
    of = (output["validity"] < LOW) == low
    return float(output["candidate"][of].mean() / len(output["valued"]))


def gone(output: Output) -> float:
    """Share of the clients of low validity that were no candidates to the end."""
    return float((output["candidate"][output["validity"] < LOW] < len(output["valued"])).mean())


def corner(output: Output) -> float:
    """Share of the requests that went to clients whose validity and utility are both high."""
    high = (output["validity"] >= CORNER) & (output["utility"] >= CORNER)
    return float(output["selected"][high].sum() / output["selected"].sum())


def part(output: Output, name: str) -> float:
    """Of those that were counted in all rounds, the share of whom something holds; 0 if there were none."""
    of, holds = output[name].sum(axis=0)
    return float(holds / of) if of else 0.0


def exponent(output: Output) -> float:
    """e of regret (against the Pareto front) ~ rounds^e over the second half: 1 is linear, 0 is none."""
    total = np.maximum(np.cumsum(output["front"]), 1e-12)
    half = len(total) // 2
    return float(math.log(total[-1] / total[half - 1]) / math.log(len(total) / half))


def all_eliminated(output: Output) -> list[bool]:
    """Theorem 5.1 in a run: whether everybody was eliminated of whom it says so; no case if it says so of nobody."""
    named, removed = output["hopeless"].sum(axis=0)
    return [bool(named == removed)] if named else []


def all_covered(output: Output) -> bool:
    """Theorem 5.3 in a run: whether every client's truth lay in its rectangle in every round."""
    return bool((output["covered"][:, 2] >= 1.0).all())


def below(values: FloatArray, bound: FloatArray, most: FloatArray) -> list[bool]:
    """Whether values keep to a bound wherever it says something, that is, lies below what is possible at most."""
    says = bound < most
    return [bool((values <= bound)[says].all())] if says.any() else []


def narrow(output: Output) -> list[bool]:
    """Theorem 5.4 in a run, in rounds whose bound is below the diagonal of the unit square."""
    return below(output["width"], output["width_bound"], np.full(len(output["width"]), DIAGONAL))


def little_regret(output: Output) -> list[bool]:
    """Theorem 5.5 in a run, in rounds whose bound is below 1 a round, the most that anybody can lose."""
    lost = np.cumsum(output["front"])
    return below(lost, output["regret_bound"], np.arange(1.0, len(lost) + 1.0))


ACCURACY_RATIO = dataclasses.replace(number(FINAL_ACCURACY.name, final_accuracy, 3), ratio=True)
ABLE = number(
    f"share of those asked in the last {LAST:g} of the rounds who would meet a typical round's deadline", able
)
VALUED = number(
    "valid utility of all rounds, of the best possible", lambda one: float(np.mean(one["valued"]) / one["best"])
)
LOW_ROUNDS = number(
    f"share of the rounds in which clients of validity below {LOW:g} are candidates", lambda one: candidate(one, True)
)
STAY = number(
    f"rounds as candidates of all others over those of clients of validity below {LOW:g}",
    lambda one: candidate(one, False) / max(candidate(one, True), 1e-9),
)
GONE = number(f"share of the clients of validity below {LOW:g} that are gone by the last round", gone)
IN_CORNER = number(f"share of the requests that go to clients of validity and utility of {CORNER:g} or more", corner)
WRONGLY = number(
    "share of those eliminated who are more valid than the client they were compared with",
    lambda one: part(one, "eliminated"),
    4,
)
MISJUDGED = number(
    "share of those removed by the Pareto step who are Pareto-optimal", lambda one: part(one, "pruned"), 4
)
EXPONENT = number("exponent of the growth of regret over the second half of the rounds", exponent)


@dataclasses.dataclass(frozen=True)
class OverWorst:
    """A ratio to the worst of several, by its mean: what the paper's gains in accuracy are.

    >>> OverWorst(ACCURACY_RATIO, Arm("a", "A"), [Arm("b", "B"), Arm("c", "C")], 0.026).words().partition(", ")[2]
    'A over the worst of B and C, geometric mean: interval above 1, mean at least 1.026 times'
    """

    measure: Measure
    of: Arm
    against: Sequence[Arm]
    margin: float

    def words(self) -> str:
        names = " and ".join(arm.name for arm in self.against)
        asked = f"interval above 1, mean at least {self.measure.shown(1.0 + self.margin)}"
        return f"{self.measure.name}, {self.of.name} over the worst of {names}, geometric mean: {asked}"

    def __call__(self, results: Results) -> Verdict:
        def mean(arm: Arm) -> float:
            outputs = results[arm.key].outputs.values()
            return float(np.mean([self.measure.of(each, each).number for each in outputs]))

        worst = min(self.against, key=mean)
        verdict = Contrast("greater", self.measure, self.of, [worst], self.margin)(results)
        return verdict._replace(ours=f"{verdict.ours} against {worst.name}")
