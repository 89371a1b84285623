"""Claims and how they are judged: an interval against a margin that was stated before the run."""

from __future__ import annotations

import dataclasses
import importlib.resources
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from enlist._internal.statistics import Summary
from enlist._internal.statistics import share as share_of
from enlist.errors import UnknownNameError
from enlist.studies.results import Results

if TYPE_CHECKING:
    from enlist.studies.study import Experiment, Scale

REPRODUCED, PARTLY, NOT, UNTESTABLE = "reproduced", "partly", "not reproduced", "not testable here"
KINDS = (REPRODUCED, PARTLY, NOT, UNTESTABLE)
DOES_NOT_COUNT = f"does not count: {UNTESTABLE}"
"""What is said of a part that is not testable, beside others that are."""


class Verdict(NamedTuple):
    """What a rule came to: the kind, our number with its interval, why, and, where that is long, our number in brief.

    >>> Verdict(REPRODUCED, "0.03 [0.02, 0.04]", "the interval lies above 0").kind
    'reproduced'
    """

    kind: str
    ours: str
    why: str
    brief: str = ""


class ClaimRule(Protocol):
    """A rule: it says what it asks for, and what the results come to.

    >>> from enlist.studies.example import COINS
    >>> COINS.claims[0].rule.words()
    'heads, the bent coin − the fair coin: interval above 0, mean at least 1'
    """

    def words(self) -> str:
        """The rule as a sentence."""

    def __call__(self, results: Results) -> Verdict:
        """The verdict."""


@dataclasses.dataclass(frozen=True)
class FollowUp:
    """A further experiment on the suspected cause, for a claim that was not reproduced.

    cause         what may explain it
    experiments   what is run to see (may be empty, if what was run already can tell)
    reading       what these experiments say, in a sentence with numbers

    >>> FollowUp("too few tosses", lambda scale: (), lambda results: "no news").cause
    'too few tosses'
    """

    cause: str
    experiments: Callable[[Scale], Sequence[Experiment]]
    reading: Callable[[Results], str]


@dataclasses.dataclass(frozen=True)
class Claim:
    """What the work says, and how that is judged.

    title     in a few words
    text      the claim in full
    source    where it stands
    paper     the paper's number, or what its picture shows
    rule      a pure function of the results, which says itself what it asks for (rules.py)
    further   the experiment that follows if the verdict is "partly" or "not reproduced"
    added     whether claim and rule were written after the results of a first run were known

    >>> from enlist.studies.example import COINS
    >>> COINS.claims[0].title
    'The bent coin shows more heads'
    """

    key: str
    title: str
    text: str
    source: str
    paper: str
    rule: ClaimRule
    further: FollowUp
    added: bool = False


class QuotedClaims:
    """What a work says, claim by claim: claims.toml in the folder of a study, a section for each key.

    title, text, source, paper   as in `Claim`; without a text the title says all
    added                        as in `Claim`

    >>> QuotedClaims("enlist.studies.mabfl").claim("best-pair", None, None).paper
    '0110 on top'
    """

    def __init__(self, package: str) -> None:
        text = importlib.resources.files(package).joinpath("claims.toml").read_text(encoding="utf-8")
        self.sections: dict[str, dict[str, Any]] = tomllib.loads(text)

    def claim(self, key: str, rule: ClaimRule, further: FollowUp, **facts: object) -> Claim:
        """The claim of this key, judged so; `facts` fill braces in its words, so that these follow the settings."""
        said: dict[str, Any] = {
            name: own.format(**facts) if isinstance(own, str) else own for name, own in self.sections[key].items()
        }
        said.setdefault("text", f"{said['title']}.")
        return Claim(key=key, rule=rule, further=further, **said)


class JudgedClaim(NamedTuple):
    """A claim with its verdict and, where it was needed, what the further experiment says.

    >>> from enlist.studies.example import COINS
    >>> JudgedClaim(COINS.claims[0], Verdict(NOT, "0", "no difference")).needs_further
    True
    """

    claim: Claim
    verdict: Verdict
    reading: str = ""
    planned: bool = False  # whether what the reading needs was among the experiments of the study anyway

    @property
    def needs_further(self) -> bool:
        """Whether the claim was not reproduced, or only partly."""
        return self.verdict.kind in (PARTLY, NOT)


def judge(claim: Claim, results: Results) -> JudgedClaim:
    """Apply the rule; without the experiments that it needs, the claim is not testable.

    >>> from enlist.studies.example import COINS
    >>> judge(COINS.claims[0], Results({})).verdict.kind
    'not testable here'
    """
    try:
        return JudgedClaim(claim, claim.rule(results))
    except UnknownNameError as error:
        missing = str(error).partition(". ")[0]
        return JudgedClaim(claim, Verdict(UNTESTABLE, "–", f"an experiment that it needs is missing: {missing}"))


def read_further(judged: JudgedClaim, results: Results, planned: bool = False) -> JudgedClaim:
    """Add what the further experiment says; `planned` if it needed none that was not run anyway.

    >>> from enlist.studies.example import COINS
    >>> read_further(JudgedClaim(COINS.claims[0], Verdict(NOT, "0", "no difference")), Results({})).reading
    "The further experiment is missing: no finished experiment is called 'bent-longer'. Known: none."
    """
    try:
        return judged._replace(reading=judged.claim.further.reading(results), planned=planned)
    except UnknownNameError as error:
        return judged._replace(reading=f"The further experiment is missing: {error}")


def shown(summary: Summary, digits: int = 3, sign: bool = False) -> str:
    """A number with its interval.

    >>> shown(Summary(0.0312, 0.01, 0.05), sign=True), shown(Summary(0.5, math.nan, math.nan), digits=1)
    ('+0.031 [+0.010, +0.050]', '0.5')
    """
    form = f"{{:{'+' if sign else ''}.{digits}f}}"
    mean = form.format(summary.mean)
    return mean if math.isnan(summary.low) else f"{mean} [{form.format(summary.low)}, {form.format(summary.high)}]"


def greater(difference: Summary, margin: float, digits: int = 3) -> Verdict:
    """The claim is that a difference is positive, and that it is one that matters: at least `margin`.

    reproduced       the interval lies above 0, and the mean is at least the margin
    partly           the interval lies above 0 but the mean below the margin; or the mean is positive, and the interval
                     contains 0 and the margin, so that neither can be ruled out
    not reproduced   anything else: a difference that matters is ruled out, or the mean is not positive

    >>> [greater(Summary(0.03, low, high), 0.01).kind for low, high in ((0.02, 0.04), (-0.02, 0.08))]
    ['reproduced', 'partly']
    >>> greater(Summary(0.001, -0.002, 0.004), 0.01).kind, greater(Summary(-0.01, -0.05, 0.03), 0.01).kind
    ('not reproduced', 'not reproduced')
    """
    low, high = _bounds(difference)
    ours, limit = shown(difference, digits, sign=True), f"{margin:.{digits}f}"
    if low > 0 and difference.mean >= margin:
        return Verdict(REPRODUCED, ours, f"the interval lies above 0, and the mean reaches the margin of {limit}")
    if low > 0:
        return Verdict(PARTLY, ours, f"the direction is certain, but the mean stays below the margin of {limit}")
    if difference.mean > 0 and high >= margin:
        return Verdict(PARTLY, ours, f"the mean is positive, but the interval contains 0 (and the margin of {limit})")
    if difference.mean > 0:
        return Verdict(NOT, ours, f"the interval contains 0 and excludes the margin of {limit}")
    if high < 0:
        return Verdict(NOT, ours, "the interval lies below 0: the opposite is the case")
    return Verdict(NOT, ours, "the mean is not positive")


def alike(difference: Summary, margin: float, digits: int = 3) -> Verdict:
    """The claim is that there is no difference that matters: none of `margin` or more, in either direction.

    reproduced       the interval lies within ± margin
    not reproduced   the interval lies beyond the margin on one side
    partly           anything else

    >>> [alike(Summary(0.0, -half, half), 0.01).kind for half in (0.005, 0.05)], alike(Summary(3, 2, 4), 0.01).kind
    (['reproduced', 'partly'], 'not reproduced')
    """
    low, high = _bounds(difference)
    ours, limit = shown(difference, digits, sign=True), f"± {margin:.{digits}f}"
    if -margin < low and high < margin:
        return Verdict(REPRODUCED, ours, f"the interval lies within {limit}")
    if low > margin or high < -margin:
        return Verdict(NOT, ours, f"the interval lies outside {limit}")
    return Verdict(PARTLY, ours, f"the interval reaches beyond {limit}, but does not exclude it")


def no_worse(difference: Summary, margin: float, digits: int = 3) -> Verdict:
    """The claim is that something is at least as good as something else, to within `margin`.

    reproduced       the interval lies above −margin
    not reproduced   the interval lies below −margin, or the mean does
    partly           the mean lies above −margin, but the interval reaches below it

    >>> [no_worse(Summary(mean, mean - 0.01, mean + 0.01), 0.01).kind for mean in (0.005, -0.005, -0.03)]
    ['reproduced', 'partly', 'not reproduced']
    """
    low, _ = _bounds(difference)
    ours, limit = shown(difference, digits, sign=True), f"−{margin:.{digits}f}"
    if low > -margin:
        return Verdict(REPRODUCED, ours, f"the interval lies above {limit}")
    if difference.mean > -margin:
        return Verdict(PARTLY, ours, f"the mean lies above {limit}, but the interval reaches below it")
    return Verdict(NOT, ours, f"the mean lies below {limit}")


def leads(
    name: str,
    means: Mapping[str, float],
    differences: Mapping[str, Summary],
    margin: float,
    told: Mapping[str, str] | None = None,
    limit: str = "",
) -> Verdict:
    """The claim is that `name` is the best of several.

    means         mean of each, `name` among them
    differences   rival -> `name` − rival, paired, with its interval
    told          rival -> the difference in words, where it is not to be told as it is (a ratio, judged as a logarithm)
    limit         the margin in words

    reproduced       it has the highest mean, and its lead over the nearest rival is certain (the interval is above 0)
                     and one that matters: at least `margin` on average
    partly           no rival is certainly better by the margin or more: it leads by little or without certainty, or is
                     not far behind
    not reproduced   some rival is certainly better (interval below 0), on average by the margin or more

    >>> lead = {"b": Summary(0.02, 0.01, 0.03)}
    >>> leads("a", {"a": 0.72, "b": 0.70}, lead, 0.01).kind
    'reproduced'
    >>> leads("a", {"a": 0.70, "b": 0.72}, {"b": Summary(-0.02, -0.03, -0.01)}, 0.01).kind
    'not reproduced'
    """
    rival = max(differences, key=lambda other: means[other])
    lead = differences[rival]
    place = 1 + sum(means[other] > means[name] for other in differences)
    ours = f"{_ordinal(place)} of {len(means)}; {told[rival] if told else shown(lead, sign=True)} against {rival}"
    limit = limit or f"{margin:.3g}"
    better = [other for other, gap in differences.items() if gap.mean <= -margin and _bounds(gap)[1] < 0]
    if better:
        return Verdict(NOT, ours, f"certainly better, on average by {limit} or more: {', '.join(better)}")
    certain = _bounds(lead)[0] > 0
    if place == 1 and certain and lead.mean >= margin:
        return Verdict(REPRODUCED, ours, f"it comes first, and its lead over the next is certain and at least {limit}")
    small = f"its lead is certain, but below {limit}" if certain else "its lead may be luck"
    reason = f"it comes first, but {small}" if place == 1 else "others come first"
    return Verdict(PARTLY, ours, f"{reason}; none is certainly better, on average by {limit} or more")


def counted(share: Summary, least: float, unit: str = "", digits: int = 2, trials: int | None = None) -> Verdict:
    """The claim is that a share of cases is at least `least`.

    reproduced          the interval lies above it
    partly              the share reaches it, but its interval does not exclude less
    not reproduced      the share stays below it, or the interval lies below it
    not testable here   so few trials that even a share of 1 would not exclude less

    >>> [counted(Summary(mean, mean - 0.04, mean + 0.04), 0.9).kind for mean in (0.95, 0.92, 0.85, 0.5)]
    ['reproduced', 'partly', 'not reproduced', 'not reproduced']
    >>> counted(Summary(1.0, 0.72, 1.0), 0.9, trials=10).why
    'even 10 of 10 would not exclude a share below 0.9; 35 trials would'
    """
    ours = f"{shown(share.within(0.0, 1.0), digits)}{f' {unit}' if unit else ''}"
    low, high = _bounds(share)
    if trials is not None and (enough := trials_for(least)) > trials and high >= least:
        why = f"even {trials} of {trials} would not exclude a share below {least:g}; {enough} trials would"
        return Verdict(UNTESTABLE, ours, why)
    if low >= least:
        return Verdict(REPRODUCED, ours, f"the interval lies above {least:g}")
    if share.mean >= least:
        return Verdict(PARTLY, ours, f"the share reaches {least:g}, but its interval contains less")
    if high >= least:
        return Verdict(NOT, ours, f"the share stays below {least:g}, though its interval reaches it")
    return Verdict(NOT, ours, f"the interval lies below {least:g}")


def trials_for(least: float) -> int:
    """How many trials it takes until Wilson's interval of a share of 1 lies above `least`.

    >>> trials_for(0.9), trials_for(0.5)
    (35, 4)
    """
    return next(count for count in range(1, 100_000) if share_of(count, count).low >= least)


def together(verdicts: Mapping[str, Verdict]) -> Verdict:
    """One verdict on a claim of several parts. Parts that are not testable do not count, and are named.

    reproduced          all parts that count are
    not reproduced      none of them is even partly
    partly              anything else
    not testable here   no part counts

    >>> good, bad = Verdict(REPRODUCED, "1", "fine"), Verdict(NOT, "0", "wrong")
    >>> together({"first": good, "second": bad}).kind, together({"first": good, "second": bad}).ours
    ('partly', 'first: 1; second: 0')
    >>> together({"first": good, "second": Verdict(UNTESTABLE, "2", "too few seeds")})[:3:2]
    ('reproduced', 'first: fine; second (does not count: not testable here): too few seeds')
    """
    counts = {verdict.kind for verdict in verdicts.values()} - {UNTESTABLE}
    kind = counts.pop() if len(counts) == 1 else PARTLY if counts else UNTESTABLE
    names = {name: f"{name} ({DOES_NOT_COUNT})" if each.kind == UNTESTABLE else name for name, each in verdicts.items()}
    named = {names[name] if kind != UNTESTABLE else name: verdict for name, verdict in verdicts.items()}
    ours = "; ".join(f"{name}: {verdict.ours}" for name, verdict in verdicts.items())
    brief = "; ".join(f"{name}: {verdict.brief or verdict.ours}" for name, verdict in named.items())
    return Verdict(kind, ours, _reasons(named), brief)


def as_printed(verdicts: Mapping[str, Verdict]) -> Verdict:
    """A claim is about the printed algorithm: the first verdict decides. What others give is said beside it.

    >>> good, bad = Verdict(REPRODUCED, "1", "fine"), Verdict(NOT, "0", "wrong")
    >>> as_printed({"as printed": bad, "our default": good})[:2]
    ('not reproduced', 'as printed: 0; our default: 1 (by the same rule: reproduced)')
    """
    (first, decides), *others = verdicts.items()
    beside = [f"{name}: {verdict.ours} (by the same rule: {verdict.kind})" for name, verdict in others]
    ours = "; ".join([f"{first}: {decides.ours}", *beside])
    kinds = "; ".join(f"{name}: {verdict.kind}" for name, verdict in others)
    brief = f"{decides.ours} ({kinds})" if others else decides.ours
    return Verdict(decides.kind, ours, _reasons(verdicts), brief)


def _reasons(verdicts: Mapping[str, Verdict]) -> str:
    """Why each came out as it did; a reason that several share is said once."""
    names: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        names.setdefault(verdict.why, []).append(name)
    return "; ".join(f"{', '.join(some)}: {why}" for why, some in names.items())


def _bounds(summary: Summary) -> tuple[float, float]:
    """The interval; without one (a single seed) nothing is certain."""
    return (-math.inf, math.inf) if math.isnan(summary.low) else (summary.low, summary.high)


def _ordinal(place: int) -> str:
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"
