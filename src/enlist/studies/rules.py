"""Rules as data: what is measured, of whom, and by how much they must differ.

The sentence that a reader sees and the verdict come from the same values, so that they cannot say different things;
parts.py puts rules together.

    Contrast("greater", FINAL_ACCURACY, of=Arm("select/printed", "UCB"), against=RANDOM, margin=0.02)
    Contrast("greater", GROWTH, of=PROFILE, against=[], margin=0.1)    the number itself, above 0 or 1
    Limit("at most", DEGREE, of=Arm("degrees", "ALSA"), limit=1.0)     the number itself, against a fixed one
    Share("16 is chosen", case, of=POPULATIONS, least=0.5)             a share of cases, with its interval
    Untestable("the first rounds are the same")                        what cannot come out otherwise
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from enlist._internal.statistics import Summary, share, smallest_difference
from enlist._internal.typing import FloatArray
from enlist.errors import InputError
from enlist.studies.claims import (
    NOT,
    PARTLY,
    REPRODUCED,
    UNTESTABLE,
    Verdict,
    alike,
    counted,
    greater,
    leads,
    no_worse,
    shown,
)
from enlist.studies.measures import Measure, Value
from enlist.studies.results import Output, Results

How = Literal["greater", "alike", "no worse", "leads"]


class Arm(NamedTuple):
    """One side of a comparison: the key of its experiments and its name in a sentence.

    `more` are further keys, which are looked at together with it: to a measure each of their results is a list.

    >>> Arm("mild/pow-6", "d = 6").name, Arm("ucb/c=1", "UCB, mean over c", ("ucb/c=2",)).keys
    ('d = 6', ('ucb/c=1', 'ucb/c=2'))
    """

    key: str
    name: str
    more: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The key, and those that are looked at with it."""
        return (self.key, *self.more)


@dataclasses.dataclass(frozen=True)
class Contrast:
    """One comparison of a measure.

    how       greater (better by the margin), alike (within ± margin), no worse (by the margin), leads (best of all)
    of        whom the claim is about
    against   whom it is compared with; several for "leads"; nobody if the number itself is to be above 0 (a ratio: 1)
    margin    the smallest difference that matters, in the measure's own scale; for ratios what is added to 1
    baseline  whose runs set the targets of a measure that has one; the first of `against` if None
    claimed   what the paper's number is, as a difference or ratio, if it has one
    spread    deviation over development seeds of the paired difference (of logarithms, for a ratio): with too few
              seeds to see what is claimed, or the margin, the claim is not testable

    >>> from enlist.studies.measures import FINAL_ACCURACY, ROUNDS_TO_TARGET
    >>> ucb, random = Arm("ucb", "UCB"), Arm("random", "random")
    >>> print(Contrast("greater", FINAL_ACCURACY, ucb, [random], 0.02).words())
    mean test accuracy of the last 3 evaluations, UCB − random: interval above 0, mean at least 2 points
    >>> print(Contrast("greater", ROUNDS_TO_TARGET, ucb, [random], 0.1).words().partition(", ")[2])
    random over UCB, geometric mean: interval above 1, mean at least 1.1 times
    >>> print(Contrast("greater", FINAL_ACCURACY, ucb, [], 0.5).words().partition(", ")[2])
    UCB: interval above 0, mean at least 50 points
    """

    how: How
    measure: Measure
    of: Arm
    against: Sequence[Arm]
    margin: float
    baseline: Arm | None = None
    claimed: float | None = None
    spread: float | None = None

    def words(self) -> str:
        said = [arm.name for arm in self.against]
        names = ("; " if any("," in name for name in said) else " and ").join(said)
        first, second = (names, self.of.name) if self.measure.less else (self.of.name, names)
        asked = self._asked()
        if self.how == "leads":
            return f"{self.measure.name}, {self.of.name} against the best of {names}: {asked}"
        if not self.against:
            return f"{self.measure.name}, {self.of.name}{', geometric mean' * self.measure.ratio}: {asked}"
        if self.measure.ratio:
            return f"{self.measure.name}, {first} over {second}, geometric mean: {asked}"
        return f"{self.measure.name}, {first} − {second}: {asked}"

    def _asked(self) -> str:
        zero, limit = (1, 1.0 + self.margin) if self.measure.ratio else (0, self.margin)
        shown = self.measure.shown(limit)
        if self.how == "greater":
            return f"interval above {zero}, mean at least {shown}"
        if self.how == "leads":
            return f"first, with an interval above {zero} against the next and a mean lead of at least {shown}"
        low = self.measure.shown(1.0 / limit if self.measure.ratio else -limit)
        return f"interval above {low}" if self.how == "no worse" else f"interval within {low} and {shown}"

    def __call__(self, results: Results) -> Verdict:
        if self.how == "leads":
            return self._leads(results)
        compared = self.compare(results, self.of, self._rival)
        return self._weighed(self._judged(compared), compared)

    @property
    def _rival(self) -> Arm | None:
        if len(self.against) > 1:
            raise InputError(f"a rule that asks for '{self.how}' has several rivals; only 'leads' takes more than one.")
        return self.against[0] if self.against else None

    def compare(self, results: Results, one: Arm, other: Arm | None) -> PairedDifference:
        """How two arms differ, paired by seed; without another, how one differs from 0 (a ratio: from 1)."""
        found, opens = self.differences(results, one, other)
        if self.measure.ratio:
            return PairedDifference(Summary(*np.exp(dataclasses.astuple(Summary.of(found.tolist()))).tolist()), opens)
        return PairedDifference(Summary.of((self.measure.scale * found).tolist()), opens)

    def differences(
        self, results: Results, one: Arm, other: Arm | None
    ) -> tuple[FloatArray, Sequence[tuple[bool, bool]]]:
        """(seeds,) the measure of one less that of the other (of logarithms, for a ratio), and whose are bounds."""
        base = self.baseline or next(iter(self.against), one)
        runs = {arm: results.outputs(arm.keys) for arm in (one, base, other) if arm is not None}
        firsts, seconds, opens = [], [], []
        for seed in sorted(set.intersection(*map(set, runs.values()))):
            yardstick = runs[base][seed]
            own = self.measure.of(runs[one][seed], yardstick)
            theirs = Value(float(self.measure.ratio))
            if other is not None:
                theirs = self.measure.of(runs[other][seed], yardstick)
            first, second = (theirs, own) if self.measure.less else (own, theirs)
            firsts.append(first.number)
            seconds.append(second.number)
            opens.append((first.open, second.open))
        columns = np.log([firsts, seconds]) if self.measure.ratio else np.array([firsts, seconds])
        return columns[0] - columns[1], opens

    def spread_in(self, results: Results) -> float:
        """What `spread` would be by these results: the largest deviation of the paired differences over rivals."""
        rivals: Sequence[Arm | None] = self.against or [None]
        return max(float(np.std(self.differences(results, self.of, each)[0], ddof=1)) for each in rivals)

    def _judged(self, compared: PairedDifference) -> Verdict:
        margin, digits = self.measure.scale * self.margin, self.measure.digits
        judges: dict[str, Callable[[Summary, float, int], Verdict]]
        judges = {"greater": greater, "alike": alike, "no worse": no_worse}
        if self.measure.ratio:
            # Ratios are judged as logarithms, where 2 and 1/2 lie equally far from 1, and shown as they are.
            logs = Summary(*(math.log(each) for each in dataclasses.astuple(compared.summary)))
            kind = judges[self.how](logs, math.log1p(self.margin), digits).kind
            return Verdict(kind, compared.shown(digits), ratio_reason(kind, compared.summary, 1.0 + self.margin))
        verdict = judges[self.how](compared.summary, margin, digits)
        return verdict._replace(ours=f"{verdict.ours} {self.measure.unit}".rstrip())

    def _weighed(self, verdict: Verdict, compared: PairedDifference) -> Verdict:
        """Bounds prove nothing, and nor do seeds that could not have shown what is claimed."""
        if verdict.kind == REPRODUCED and compared.flattered:
            why = "but some runs never got there, so that the truth may be less"
            return verdict._replace(kind=PARTLY, why=f"{verdict.why}; {why}")
        high = compared.summary.high
        if not math.isnan(high):
            high = math.log(high) if self.measure.ratio else high / self.measure.scale
        return self.with_power(verdict, compared.seeds, high)

    def with_power(self, verdict: Verdict, seeds: int, high: float) -> Verdict:
        """An unclear verdict of seeds that could not have shown what is claimed is no test.

        It is unclear if it is "partly". Of something that should be greater the interval, which ends at `high` (of a
        ratio the logarithm), decides: "partly" and "not reproduced" are unclear if it contains what is claimed.
        """
        if seeds < 2:
            return verdict._replace(kind=UNTESTABLE, why="a single experiment has no interval")
        reaches = high >= self.wanted()
        unclear = reaches and verdict.kind in (PARTLY, NOT) if self.how == "greater" else verdict.kind == PARTLY
        # Of any difference at all (a margin of 0) no number of seeds could be asked for.
        if not unclear or self.spread is None or not 0.0 < self.wanted() < self.visible(seeds):
            return verdict
        effects = [self._effect(each) for each in (self.visible(seeds), self.wanted())]
        why = f"{seeds} seeds would show {effects[0]} or more, and {effects[1]} is what matters"
        return verdict._replace(kind=UNTESTABLE, why=why)

    def wanted(self) -> float:
        """The effect that has to be seen: what is claimed, else the margin; of a ratio the logarithm."""
        if self.measure.ratio:
            return math.log(self.claimed if self.claimed is not None else 1.0 + self.margin)
        return self.claimed if self.claimed is not None else self.margin

    def visible(self, seeds: int) -> float:
        """The smallest effect that so many seeds would show; infinite without a spread."""
        return math.inf if self.spread is None else smallest_difference(self.spread, seeds)

    def _effect(self, size: float) -> str:
        rounded = float(f"{math.expm1(size) if self.measure.ratio else size:.2g}")
        return self.measure.shown(1.0 + rounded if self.measure.ratio else rounded)

    def _leads(self, results: Results) -> Verdict:
        shared = results.common([key for arm in (self.of, *self.against, self.baseline) if arm for key in arm.keys])
        compared = {arm.name: self.compare(shared, self.of, arm) for arm in self.against}
        found, told = {name: each.summary for name, each in compared.items()}, {}
        margin, digits = self.measure.scale * self.margin, self.measure.digits
        if self.measure.ratio:
            told = {name: each.shown(digits) for name, each in compared.items()}
            found = {name: Summary(*(math.log(each) for each in dataclasses.astuple(s))) for name, s in found.items()}
            margin = math.log1p(self.margin)
        else:
            told = {n: f"{shown(each, digits, sign=True)} {self.measure.unit}".rstrip() for n, each in found.items()}
        means = {self.of.name: 0.0} | {name: -lead.mean for name, lead in found.items()}
        limit = self.measure.shown(1.0 + self.margin if self.measure.ratio else self.margin)
        verdict = leads(self.of.name, means, found, margin, told, limit)
        return self.with_power(verdict, len(shared.outputs(self.of.keys)), math.nan)


class PairedDifference(NamedTuple):
    """A difference or ratio over seeds, and per seed whether either side is a bound.

    >>> PairedDifference(Summary(1.5, 1.2, 1.8), [(True, False), (False, False)]).shown(2)
    'at least 1.50 [1.20, 1.80] times'
    """

    summary: Summary
    opens: Sequence[tuple[bool, bool]]

    @property
    def seeds(self) -> int:
        """Pairs."""
        return len(self.opens)

    @property
    def flattered(self) -> bool:
        """Whether the truth may be smaller: a run that was divided by never got there."""
        return any(second and not first for first, second in self.opens)

    def shown(self, digits: int) -> str:
        """The ratio in words; a bound says so."""
        above, below = any(first for first, _ in self.opens), any(second for _, second in self.opens)
        bound = "about " if above and below else "at least " if above else "at most " if below else ""
        low, high = self.summary.low, self.summary.high
        span = "" if math.isnan(low) else f" [{low:.{digits}f}, {high:.{digits}f}]"
        return f"{bound}{self.summary.mean:.{digits}f}{span} times"


def ratio_reason(kind: str, ratio: Summary, limit: float) -> str:
    """Why a ratio that should be above 1 came to its verdict.

    >>> [ratio_reason("not reproduced", ratio, 1.1) for ratio in (Summary(1.05, 0.7, 1.08), Summary(0.8, 0.7, 0.9))]
    ['the interval contains 1 and excludes 1.1', 'the interval lies below 1: the opposite is the case']
    """
    if kind == REPRODUCED:
        return f"the interval lies above 1, and the mean reaches {limit:g}"
    if ratio.low > 1.0:
        return f"the direction is certain, but the mean stays below {limit:g}"
    if ratio.high < 1.0:
        return "the interval lies below 1: the opposite is the case"
    if ratio.mean <= 1.0:
        return "the mean is not above 1"
    if ratio.high < limit:
        return f"the interval contains 1 and excludes {limit:g}"
    return f"the mean is above 1, but the interval contains 1 (and {limit:g})"


@dataclasses.dataclass(frozen=True)
class Limit:
    """A measure of one arm against a fixed number, which it is to reach or not to exceed.

    reproduced       the whole interval keeps to the limit
    partly           the mean does, the interval does not
    not reproduced   the mean does not

    >>> from enlist.studies.measures import EVENNESS
    >>> Limit("at least", EVENNESS, Arm("a", "A"), 0.9).words()
    "Jain's index of how often clients were asked, A: mean at least 0.9, and its interval with it"
    """

    how: Literal["at least", "at most"]
    measure: Measure
    of: Arm
    limit: float

    def words(self) -> str:
        limit = self.measure.shown(self.limit)
        return f"{self.measure.name}, {self.of.name}: mean {self.how} {limit}, and its interval with it"

    def __call__(self, results: Results) -> Verdict:
        outputs = results.outputs(self.of.keys).values()
        numbers = [self.measure.scale * self.measure.of(each, each).number for each in outputs]
        found, limit = Summary.of(numbers), self.measure.scale * self.limit
        ours = f"{shown(found, self.measure.digits)} {self.measure.unit}".rstrip()
        nearest = found.low if self.how == "at least" else found.high
        kept = [each >= limit if self.how == "at least" else each <= limit for each in (found.mean, nearest)]
        said = f"{self.how} {self.measure.shown(self.limit)}"
        if all(kept):
            return Verdict(REPRODUCED, ours, f"the interval is {said}")
        if kept[0]:
            return Verdict(PARTLY, ours, f"the mean is {said}, but not the whole interval")
        return Verdict(NOT, ours, f"the mean is not {said}")


@dataclasses.dataclass(frozen=True)
class Share:
    """A share of cases, which is to be at least so large, judged with Wilson's interval.

    what    what is the case, as a sentence would have it
    case    of one experiment whether it is, or for each of its cases whether it is; one without a case does not count
    of      whose experiments, and what a case is called
    least   the share

    >>> rule = Share("heads lie on top", lambda output: output["heads"], Arm("coins", "tosses"), 0.5)
    >>> rule.words()
    "share of the tosses in which heads lie on top, with Wilson's interval: at least 0.5"
    >>> from enlist.studies.results import Replicates
    >>> tosses = Replicates("coins", {}, {0: Output({"heads": [True, True, True, True, False]}, {}, 1.0)})
    >>> rule(Results({"coins": tosses})).ours
    '0.80 [0.38, 0.96] of the 5 tosses'
    """

    what: str
    case: Callable[[Output], bool | Sequence[bool]]
    of: Arm
    least: float

    def words(self) -> str:
        return f"share of the {self.of.name} in which {self.what}, with Wilson's interval: at least {self.least:g}"

    def __call__(self, results: Results) -> Verdict:
        """The verdict; so few cases that even all of them would prove nothing are no test."""
        outputs = results.outputs(self.of.keys).values()
        held = np.concatenate([np.atleast_1d(self.case(output)) for output in outputs]).astype(bool)
        if not len(held):
            return Verdict(UNTESTABLE, "–", "there was no case of it")
        found = share(int(held.sum()), len(held))
        return counted(found, self.least, f"of the {len(held)} {self.of.name}", trials=len(held))


@dataclasses.dataclass(frozen=True)
class Untestable:
    """A claim that no run of these experiments can test, and the reason.

    >>> Untestable("both begin alike")(Results({})).kind
    'not testable here'
    """

    reason: str

    def words(self) -> str:
        return "none"

    def __call__(self, results: Results) -> Verdict:
        return Verdict(UNTESTABLE, "–", self.reason)
