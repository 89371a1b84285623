"""Rules of several parts, and what all rules can be asked for.

AsPrinted(rule, [our_default])               the printed algorithm decides, others stand beside it
Parts({"accuracy": rule, "time": other})     reproduced if all are
AllSettings({"mild": rule, "strong": same})  the same rule, wherever its experiments were run
Largest({"mild": rule, "strong": same}, 2.4) the largest of them: what "up to three times" is
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from enlist.errors import InputError, UnknownNameError
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, ClaimRule, Verdict, as_printed, shown, together
from enlist.studies.measures import Measure
from enlist.studies.results import Results
from enlist.studies.rules import Arm, Contrast


class About(ClaimRule, Protocol):
    """A rule about somebody: a dataclass with `of`, so that it can be asked of others as well.

    >>> {"of", "words"} <= set(dir(About))
    True
    """

    @property
    def of(self) -> Arm:
        """Whom the claim is about."""


@dataclasses.dataclass(frozen=True)
class AsPrinted:
    """The printed algorithm, which `rule` is about, decides; what others give by the same rule is said beside it.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Contrast("alike", EVENNESS, Arm("select/printed", "UCB"), [Arm("select/random", "random")], 0.05)
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

    def _asked_of(self, arm: Arm) -> ClaimRule:
        return cast(ClaimRule, dataclasses.replace(cast(Any, self.rule), of=arm))


@dataclasses.dataclass(frozen=True)
class Parts:
    """A claim of several parts: reproduced if all that are testable are, not reproduced if none is even partly.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Contrast("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)
    >>> print(Parts({"mild": rule}).words())
    mild: Jain's index of how often clients were asked, A − B: interval within -0.05 and 0.05
    """

    parts: Mapping[str, ClaimRule]

    def words(self) -> str:
        return "; ".join(f"{name}: {rule.words()}" for name, rule in self.parts.items())

    def __call__(self, results: Results) -> Verdict:
        return together({name: rule(results) for name, rule in self.parts.items()})


@dataclasses.dataclass(frozen=True)
class AllSettings:
    """The same rule in several places, of which a scale runs some: reproduced if it is wherever it was run.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Contrast("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)
    >>> print(AllSettings({"mild": rule, "strong": rule}).words())
    wherever it was run, Jain's index of how often clients were asked, A − B: interval within -0.05 and 0.05
    """

    parts: Mapping[str, ClaimRule]

    def words(self) -> str:
        said = list(dict.fromkeys(rule.words() for rule in self.parts.values()))
        if len(said) > 1:
            raise InputError(f"AllSettings has rules that differ: {said}; use Parts.")
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
class Largest:
    """The largest of the same difference or ratio in several settings: what "up to three times" is.

    parts   comparisons of one measure with one rival each; those that were not run are left out
    least   how large it must be

    reproduced       it is at least `least` on average, and its interval lies above 0 (a ratio: above 1)
    partly           it is certainly above 0, but smaller
    not reproduced   it may be 0 wherever it was run; or runs that never got there make it a bound from above

    >>> from enlist.studies.measures import ROUNDS_TO_TARGET
    >>> rules = {f"d = {d}": Contrast("greater", ROUNDS_TO_TARGET, Arm(f"d={d}", f"d = {d}"), [Arm("r", "random")], 0.1)
    ...          for d in (6, 9)}
    >>> Largest(rules, 2.4).words().partition(", the ")[2]
    'largest of random over d = 6 or d = 9 (where it was run of: d = 6; d = 9), geometric mean: interval above 1, ...'
    """

    parts: Mapping[str, Contrast]
    least: float

    @property
    def measure(self) -> Measure:
        """What all parts measure."""
        return next(iter(self.parts.values())).measure

    def words(self) -> str:
        own = " or ".join(dict.fromkeys(rule.of.name for rule in self.parts.values()))
        rivals = " or ".join(dict.fromkeys(arm.name for rule in self.parts.values() for arm in rule.against))
        first, second = (rivals, own) if self.measure.less else (own, rivals)
        sign, mean, zero = ("over", ", geometric mean", 1) if self.measure.ratio else ("−", "", 0)
        return (
            f"{self.measure.name}, the largest of {first} {sign} {second} "
            f"(where it was run of: {'; '.join(self.parts)}){mean}: interval above {zero}, "
            f"mean at least {self.measure.shown(self.least)}"
        )

    def __call__(self, results: Results) -> Verdict:
        there = {name: rule for name, rule in self.parts.items() if rule.of.key in results} or self.parts
        found = {name: rule.compare(results, rule.of, rule.against[0]) for name, rule in there.items()}
        name = max(found, key=lambda each: (not found[each].flattered, found[each].summary.mean))
        largest, measure, zero = found[name], self.measure, float(self.measure.ratio)
        number = largest.shown(measure.digits) if measure.ratio else shown(largest.summary, measure.digits, sign=True)
        unit = "" if measure.ratio else f" {measure.unit}".rstrip()
        ours = f"{number}{unit} ({name}, of {len(found)} settings)"
        limit = measure.shown(self.least)
        if largest.flattered or not largest.summary.low > zero:
            high = math.log(largest.summary.high) if measure.ratio else largest.summary.high / measure.scale
            why = f"in no setting is it certainly above {zero:g}"
            return there[name].with_power(Verdict(NOT, ours, why), largest.seeds, high)
        if largest.summary.mean >= (1.0 if measure.ratio else measure.scale) * self.least:
            return Verdict(REPRODUCED, ours, f"the interval lies above {zero:g}, and the mean reaches {limit}")
        return Verdict(PARTLY, ours, f"it is certainly above {zero:g}, but the mean stays below {limit}")


def arms_of(rule: object) -> list[Arm]:
    """The arms that a rule speaks of, those of its parts included.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Contrast("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)
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


def simple_rules(rule: object, name: str = "") -> dict[str, Contrast]:
    """The comparisons that a rule is made of, by the names of its parts: those of which there is a spread.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Contrast("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)
    >>> list(simple_rules(Parts({"mild": rule, "strong": AsPrinted(rule, [])}), "even"))
    ['even/mild', 'even/strong']
    """
    if isinstance(rule, Contrast):
        return {name: rule}
    if isinstance(rule, AsPrinted):
        return simple_rules(rule.rule, name)
    if isinstance(rule, Parts | AllSettings | Largest):
        return {
            key: one for part, each in rule.parts.items() for key, one in simple_rules(each, f"{name}/{part}").items()
        }
    return {}


def with_spreads(rule: ClaimRule, spreads: Mapping[str, float], name: str) -> ClaimRule:
    """The rule with what `spreads` says of each of its comparisons, by the names of `simple_rules`.

    >>> from enlist.studies.measures import EVENNESS
    >>> rule = Parts({"mild": Contrast("alike", EVENNESS, Arm("a", "A"), [Arm("b", "B")], 0.05)})
    >>> simple_rules(with_spreads(rule, {"even/mild": 0.1}, "even"))["/mild"].spread
    0.1
    """
    if isinstance(rule, Contrast):
        return dataclasses.replace(rule, spread=spreads.get(name, rule.spread))
    if isinstance(rule, AsPrinted):
        return dataclasses.replace(rule, rule=cast(About, with_spreads(rule.rule, spreads, name)))
    if isinstance(rule, Parts | AllSettings | Largest):
        parts = {part: with_spreads(each, spreads, f"{name}/{part}") for part, each in rule.parts.items()}
        return cast(ClaimRule, dataclasses.replace(cast(Any, rule), parts=parts))
    return rule
