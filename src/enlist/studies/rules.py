"""Rules as data: what is measured, of whom, and by how much they must differ.

The sentence that a reader sees and the verdict come from the same values, so that they cannot say different things.

    Rule("greater", FINAL_ACCURACY, of=Arm("select/printed", "UCB"), against=RANDOM, margin=0.02)
    Limit("at most", DEGREE, of=Arm("degrees", "ALSA"), limit=1.0)      the number itself, against a fixed one
    AsPrinted(rule, {"our default": "select/default"})     the printed algorithm decides, others stand beside it
    Rule("greater", GROWTH, of=Arm("profile", "mini-batches"), against=[], margin=0.1)   the number itself, above 0 or 1
    Parts({"accuracy": rule, "time": other})               reproduced if all are
    Everywhere({"mild": rule, "strong": same})             the same rule, wherever its experiments were run
    Share("16 is chosen", case, of=POPULATIONS, least=0.5) a share of cases, with its interval
    Untestable("the first rounds are the same")            what cannot come out otherwise
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np

from enlist._internal.statistics import Summary, share, smallest_difference
from enlist._internal.typing import FloatArray
from enlist.errors import InputError, UnknownNameError
from enlist.studies.claims import (
    NOT,
    PARTLY,
    REPRODUCED,
    UNTESTABLE,
    Verdict,
    alike,
    as_printed,
    counted,
    greater,
    leads,
    no_worse,
    shown,
    together,
)
from enlist.studies.measures import Measure, Value
from enlist.studies.results import Outcome, Results

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


class Judging(Protocol):
    """A rule: it says what it asks for, and what the results come to.

    >>> hasattr(Rule, "words"), hasattr(Rule, "__call__")
    (True, True)
    """

    def words(self) -> str:
        """The rule as a sentence."""

    def __call__(self, results: Results) -> Verdict:
        """The verdict."""


class About(Judging, Protocol):
    """A rule about somebody: a dataclass with `of`, so that it can be asked of others as well.

    >>> {"of", "words"} <= set(dir(About))
    True
    """

    @property
    def of(self) -> Arm:
        """Whom the claim is about."""


@dataclasses.dataclass(frozen=True)
class Rule:
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
    >>> print(Rule("greater", FINAL_ACCURACY, ucb, [random], 0.02).words())
    mean test accuracy over the last tenth of the evaluations, UCB − random: interval above 0, mean at least 2 points
    >>> print(Rule("greater", ROUNDS_TO_TARGET, ucb, [random], 0.1).words().partition(", ")[2])
    random's over UCB's, geometric mean: interval above 1, mean at least 1.1 times
    >>> print(Rule("greater", FINAL_ACCURACY, ucb, [], 0.5).words().partition(", ")[2])
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
            return f"{self.measure.name}, {first}'s over {second}'s, geometric mean: {asked}"
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

    def compare(self, results: Results, one: Arm, other: Arm | None) -> Compared:
        """How two arms differ, paired by seed; without another, how one differs from 0 (a ratio: from 1)."""
        found, opens = self.differences(results, one, other)
        if self.measure.ratio:
            return Compared(Summary(*np.exp(dataclasses.astuple(Summary.of(found.tolist()))).tolist()), opens)
        return Compared(Summary.of((self.measure.scale * found).tolist()), opens)

    def differences(
        self, results: Results, one: Arm, other: Arm | None
    ) -> tuple[FloatArray, Sequence[tuple[bool, bool]]]:
        """(seeds,) the measure of one less that of the other (of logarithms, for a ratio), and whose are bounds."""
        base = self.baseline or next(iter(self.against), one)
        runs = {arm: results.outcomes(arm.keys) for arm in (one, base, other) if arm is not None}
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

    def _judged(self, compared: Compared) -> Verdict:
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

    def _weighed(self, verdict: Verdict, compared: Compared) -> Verdict:
        """Bounds prove nothing, and nor do seeds that could not have shown what is claimed."""
        if verdict.kind == REPRODUCED and compared.flattered:
            why = "but some runs never got there, so that the truth may be less"
            return verdict._replace(kind=PARTLY, why=f"{verdict.why}; {why}")
        return self._with_power(verdict, compared.seeds)

    def _with_power(self, verdict: Verdict, seeds: int) -> Verdict:
        if verdict.kind != PARTLY or self.spread is None:
            return verdict
        visible, wanted = self.visible(seeds), self.wanted()
        if visible <= wanted:
            return verdict
        effects = [self._effect(each) for each in (visible, wanted)]
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
        return self.measure.shown(round(math.exp(size), 2) if self.measure.ratio else float(f"{size:.2g}"))

    def _leads(self, results: Results) -> Verdict:
        shared = results.common([key for arm in (self.of, *self.against, self.baseline) if arm for key in arm.keys])
        found = {arm.name: self.compare(shared, self.of, arm).summary for arm in self.against}
        if self.measure.ratio:
            found = {name: Summary(*(math.log(each) for each in dataclasses.astuple(s))) for name, s in found.items()}
        means = {self.of.name: 0.0} | {name: -lead.mean for name, lead in found.items()}
        margin = math.log1p(self.margin) if self.measure.ratio else self.measure.scale * self.margin
        verdict = leads(self.of.name, means, found, margin)
        return self._with_power(verdict, len(shared.outcomes(self.of.keys)))


class Compared(NamedTuple):
    """A difference or ratio over seeds, and per seed whether either side is a bound.

    >>> Compared(Summary(1.5, 1.2, 1.8), [(True, False), (False, False)]).shown(2)
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

    >>> [ratio_reason("not", ratio, 1.1) for ratio in (Summary(1.05, 0.7, 1.08), Summary(0.8, 0.7, 0.9))]
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

    reproduced   the whole interval keeps to the limit
    partly       the mean does, the interval does not
    not          the mean does not

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
        outcomes = results.outcomes(self.of.keys).values()
        numbers = [self.measure.scale * self.measure.of(each, each).number for each in outcomes]
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
class AsPrinted:
    """The printed algorithm, which `rule` is about, decides; what others give by the same rule is said beside it.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Rule("alike", EVENNESS, Arm("select/printed", "UCB"), [Arm("select/random", "random")], 0.05)
    >>> AsPrinted(rule, [Arm("select/default", "our default")]).words().partition(": ")[2]
    'interval within -0.05 and 0.05; the printed algorithm decides, our default stands beside it'
    """

    rule: About
    beside: Sequence[Arm]

    def words(self) -> str:
        names = ", ".join(arm.name for arm in self.beside)
        verb = "stand" if len(self.beside) > 1 else "stands"
        return f"{self.rule.words()}; the printed algorithm decides, {names} {verb} beside it"

    def __call__(self, results: Results) -> Verdict:
        # One that failed is not shown, and decides nothing.
        there = [arm for arm in self.beside if all(key in results for key in arm.keys)]
        others = {arm.name: self._asked_of(arm)(results) for arm in there}
        return as_printed({"as printed": self.rule(results), **others})

    def _asked_of(self, arm: Arm) -> Judging:
        return cast(Judging, dataclasses.replace(cast(Any, self.rule), of=arm))


@dataclasses.dataclass(frozen=True)
class Parts:
    """A claim of several parts: reproduced if all of them are, not reproduced if none is even partly.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Rule("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)
    >>> print(Parts({"mild": rule}).words())
    mild: Jain's index of how often clients were asked, A − B: interval within -0.05 and 0.05
    """

    parts: Mapping[str, Judging]

    def words(self) -> str:
        return "; ".join(f"{name}: {rule.words()}" for name, rule in self.parts.items())

    def __call__(self, results: Results) -> Verdict:
        return together({name: rule(results) for name, rule in self.parts.items()})


@dataclasses.dataclass(frozen=True)
class Everywhere:
    """The same rule in several places, of which a scale runs some: reproduced if it is wherever it was run.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Rule("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)
    >>> print(Everywhere({"mild": rule, "strong": rule}).words())
    wherever it was run, Jain's index of how often clients were asked, A − B: interval within -0.05 and 0.05
    """

    parts: Mapping[str, Judging]

    def words(self) -> str:
        said = list(dict.fromkeys(rule.words() for rule in self.parts.values()))
        if len(said) > 1:
            raise InputError(f"Everywhere has rules that differ: {said}; use Parts.")
        return f"wherever it was run, {said[0]}"

    def __call__(self, results: Results) -> Verdict:
        found, missing = {}, None
        for name, rule in self.parts.items():
            try:
                found[name] = rule(results)
            except UnknownNameError as error:
                missing = error
        if not found and missing is not None:
            raise missing
        return together(found)


@dataclasses.dataclass(frozen=True)
class Share:
    """A share of cases, which is to be at least so large, judged with Wilson's interval.

    what    what is the case, as a sentence would have it
    case    of one experiment whether it is, or for each of its cases whether it is; one without a case does not count
    of      whose experiments, and what a case is called
    least   the share

    >>> rule = Share("heads lie on top", lambda outcome: outcome["heads"], Arm("coins", "tosses"), 0.5)
    >>> rule.words()
    "share of the tosses in which heads lie on top, with Wilson's interval: at least 0.5"
    >>> from enlist.studies.results import Group
    >>> tosses = Group("coins", {}, {0: Outcome({"heads": [True, True, True, True, False]}, {}, 1.0)})
    >>> rule(Results({"coins": tosses})).ours
    '0.80 [0.38, 0.96] of the 5 tosses'
    """

    what: str
    case: Callable[[Outcome], bool | Sequence[bool]]
    of: Arm
    least: float

    def words(self) -> str:
        return f"share of the {self.of.name} in which {self.what}, with Wilson's interval: at least {self.least:g}"

    def __call__(self, results: Results) -> Verdict:
        """The verdict; so few cases that even all of them would prove nothing are no test."""
        outcomes = results.outcomes(self.of.keys).values()
        held = np.concatenate([np.atleast_1d(self.case(outcome)) for outcome in outcomes]).astype(bool)
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


def arms_of(rule: object) -> list[Arm]:
    """The arms that a rule speaks of, those of its parts included.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Rule("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)
    >>> [arm.key for arm in arms_of(Parts({"mild": rule, "strong": AsPrinted(rule, [Arm("c", "C")])}))]
    ['a', 'b', 'a', 'b', 'c']
    """
    found: list[Arm] = []
    for name in ("rule", "parts", "of", "against", "baseline", "beside"):
        value = getattr(rule, name, None)
        if isinstance(value, Arm):
            found.append(value)
        elif isinstance(value, Mapping):
            found += [arm for part in value.values() for arm in arms_of(part)]
        elif isinstance(value, Sequence):
            found += value
        elif value is not None:
            found += arms_of(value)
    return found


def simple_rules(rule: object, name: str = "") -> dict[str, Rule]:
    """The comparisons that a rule is made of, by the names of its parts: those of which there is a spread.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Rule("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)
    >>> list(simple_rules(Parts({"mild": rule, "strong": AsPrinted(rule, [])}), "even"))
    ['even/mild', 'even/strong']
    """
    if isinstance(rule, Rule):
        return {name: rule}
    if isinstance(rule, AsPrinted):
        return simple_rules(rule.rule, name)
    if isinstance(rule, Parts | Everywhere):
        return {
            key: one for part, each in rule.parts.items() for key, one in simple_rules(each, f"{name}/{part}").items()
        }
    return {}


def with_spreads(rule: Judging, spreads: Mapping[str, float], name: str) -> Judging:
    """The rule with what `spreads` says of each of its comparisons, by the names of `simple_rules`.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Parts({"mild": Rule("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)})
    >>> simple_rules(with_spreads(rule, {"even/mild": 0.1}, "even"))["/mild"].spread
    0.1
    """
    if isinstance(rule, Rule):
        return dataclasses.replace(rule, spread=spreads.get(name, rule.spread))
    if isinstance(rule, AsPrinted):
        return dataclasses.replace(rule, rule=cast(About, with_spreads(rule.rule, spreads, name)))
    if isinstance(rule, Parts):
        return Parts({part: with_spreads(each, spreads, f"{name}/{part}") for part, each in rule.parts.items()})
    return rule
