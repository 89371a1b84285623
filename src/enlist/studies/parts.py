"""Rules of several parts, and what all rules can be asked for.

AsPrinted(rule, [our_default])               the printed algorithm decides, others stand beside it
Parts({"accuracy": rule, "time": other})     reproduced if all are
Everywhere({"mild": rule, "strong": same})   the same rule, wherever its experiments were run
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from enlist.errors import InputError, UnknownNameError
from enlist.studies.claims import ClaimRule, Verdict, as_printed, together
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
    """A claim of several parts: reproduced if all of them are, not reproduced if none is even partly.

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
    if isinstance(rule, Parts | AllSettings):
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
    if isinstance(rule, Parts | AllSettings):
        parts = {part: with_spreads(each, spreads, f"{name}/{part}") for part, each in rule.parts.items()}
        return dataclasses.replace(rule, parts=parts)
    return rule
