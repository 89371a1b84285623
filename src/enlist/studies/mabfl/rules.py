"""What is measured in a session, and the two rules that compare no measure of two arms.

A measure of several keys takes the mean over them where it says nothing else. Where it depends on which pair is the
best on the same data, its arm ends with the three pairs held fixed (`knowing`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from scipy.special import ndtri

from enlist._internal.statistics import bootstrap
from enlist._internal.typing import FloatArray
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, UNTESTABLE, Verdict, greater, no_worse
from enlist.studies.mabfl.settings import PAIRS, fixed, together
from enlist.studies.measures import Measure, Value
from enlist.studies.results import Output, Results
from enlist.studies.rules import Arm

EARLY, LATE = 5, 10
"""Early increases are those of the first five rounds, late ones those after the tenth."""
UNTIL = 15
"""Rounds over which increases are told apart; later ones are past the peak in the thesis."""
KNOWN = 5
"""Estimates are compared from this round on."""


def number(name: str, about: str, digits: int = 3, unit: str = "") -> Measure:
    """A result of a session as it is.

    >>> number("peak", "highest").of(Output({"peak": [0.5, 0.7]}, {}, 1.0), Output({}, {}, 1.0)).number
    0.6
    """
    return Measure(about, lambda output, base: Value(float(np.mean(output[name]))), unit, digits=digits)


def measure(about: str, of: Callable[[Output], float], digits: int = 3, unit: str = "") -> Measure:
    """A number that is computed from a session, or from several that are looked at together.

    >>> measure("rounds", lambda output: len(output["test"])).of(Output({"test": [1, 2]}, {}, 1.0), None).number
    2.0
    """
    return Measure(about, lambda output, base: Value(float(of(output))), unit, digits=digits)


def increases(output: Output) -> FloatArray:
    """(rounds,) increases over the target's own model of the same round.

    >>> increases(Output({}, {"validation": np.array([0.75]), "local": np.array([0.5])}, 1.0))
    array([0.25])
    """
    found: FloatArray = np.asarray(output["validation"]) - np.asarray(output["local"])
    return found


def early(output: Output) -> float:
    """Mean increase of the first rounds."""
    return float(increases(output)[:EARLY].mean())


def late(output: Output) -> float:
    """Mean increase of the later rounds; of few rounds, of their second half."""
    found = increases(output)
    return float(found[min(LATE, len(found) // 2) :].mean())


def separation(output: Output, against: str = "local") -> float:
    """The chance that an increase of the first of several combinations is larger than one of another.

    One increase of each, from any two rounds; 0.5 is no separation at all, 1 a perfect one.

    >>> scores = {"validation": [np.array([0.5, 0.7]), np.array([0.6, 0.4])], "local": [np.zeros(2), np.zeros(2)]}
    >>> separation(Output(scores, {}, 1.0))  # 0.5 > 0.4 and 0.7 > both: three of four
    0.75
    """
    score, local = (np.asarray(output[name]) for name in ("validation", "local"))
    rises = (np.diff(score, axis=1) if against == "previous" else score - local)[:, :UNTIL]
    best, rest = rises[0][:, None], rises[1:, None, :]
    return float((best > rest).mean() + 0.5 * (best == rest).mean())


def rounds_to(curve: FloatArray, level: float) -> int:
    """The first round whose score reaches a level; one more than there are if none does.

    >>> rounds_to(np.array([0.5, 0.7]), 0.7), rounds_to(np.array([0.5, 0.6]), 0.7)
    (2, 3)
    """
    met = np.asarray(curve) >= level
    return int(met.argmax()) + 1 if met.any() else len(met) + 1


def rounds_later(output: Output) -> float:
    """Rounds that the first of two needs more than the second until 0.01 below the lower of both peaks.

    >>> rounds_later(Output({"validation": [np.array([0.5, 0.6, 0.7]), np.array([0.7, 0.7, 0.7])]}, {}, 1.0))
    2.0
    """
    first, second = (np.asarray(each) for each in output["validation"])
    level = min(first.max(), second.max()) - 0.01
    return float(rounds_to(first, level) - rounds_to(second, level))


def messages_to(output: Output, base: Output) -> Value:
    """Messages until a test score 0.02 below the baseline's highest; who never gets there pays for all rounds.

    >>> run = Output({}, {"test": np.array([0.6, 0.7]), "messages": np.array([6, 12])}, 1.0)
    >>> messages_to(run, Output({"peak": 0.72}, {}, 1.0)), messages_to(run, Output({"peak": 0.9}, {}, 1.0)).open
    (Value(number=12.0, open=False), True)
    """
    at = rounds_to(output["test"], base["peak"] - 0.02)
    rounds = len(output["test"])
    return Value(float(output["messages"][min(at, rounds) - 1]), at > rounds)


def changes(output: Output) -> FloatArray:
    """(..., rounds - 1) absolute changes of the test score from round to round.

    >>> changes(Output({}, {"test": np.array([0.5, 0.75, 0.5])}, 1.0))
    array([0.25, 0.25])
    """
    found: FloatArray = np.abs(np.diff(np.asarray(output["test"]), axis=-1))
    return found


def settling(output: Output) -> float:
    """Change per round in rounds 2 to 5, less that of later rounds."""
    moves = changes(output)
    first = min(EARLY - 1, moves.shape[-1] // 2)
    return float(moves[..., :first].mean() - moves[..., first:].mean())


def knowing(name: str, *arms: Arm) -> Arm:
    """Arms looked at together with the three pairs held fixed on the same data, which say what the best pair is.

    >>> knowing("UCB", Arm("ucb", "UCB")).keys
    ('ucb', 'drawn/1100-6', 'drawn/0110-6', 'drawn/0101-6')
    """
    return together(name, *arms, *(fixed(code) for code in PAIRS))


def ranked(output: Output) -> list[str]:
    """The pairs from the best to the worst on these data, by the mean test score of each held fixed.

    >>> ranked(Output({"mean": [0.9, 0.6, 0.7, 0.5]}, {}, 1.0))  # the first is no pair held fixed
    ['0110', '1100', '0101']
    """
    means = np.asarray(output["mean"])[-len(PAIRS) :]
    return [PAIRS[place] for place in np.argsort(-means, kind="stable")]


def kept_best(output: Output) -> float:
    """Share of rounds in which the model of the data's best pair was kept."""
    return float(np.mean(output["adopted"][0] == ranked(output)[0]))


def names_best(output: Output) -> bool:
    """Whether the rule ends with the data's best pair."""
    return bool(output["code"][0] == ranked(output)[0])


def soon_best(output: Output) -> bool:
    """Whether after round 3 the highest estimate is that of the data's best pair."""
    estimates, codes = output["estimates"][0], output["codes"][0]
    return bool(codes[int(np.argmax(estimates[min(3, len(estimates)) - 1]))] == ranked(output)[0])


def tries_second(output: Output) -> bool:
    """Whether the data's second-best pair was kept in at least two rounds."""
    return int(np.sum(output["adopted"][0] == ranked(output)[1])) >= 2


def estimate_lead(output: Output) -> float:
    """By how much the estimate of the data's best pair exceeds the highest other, mean over rounds and settings.

    >>> ends = {"mean": [0, 0.6, 0.7, 0.5], "codes": [["1100", "0110", "0101"], [], [], []]}
    >>> estimates = [np.array([[0.25, 0.5, 0.0]]), None, None, None]
    >>> estimate_lead(Output({**ends, "estimates": estimates}, {}, 1.0))
    0.25
    """
    best, leads = ranked(output)[0], []
    settings = list(zip(output["estimates"], output["codes"], strict=True))[: -len(PAIRS)]
    for estimates, codes in settings:
        place = codes.index(best)
        lead = estimates[:, place] - np.delete(estimates, place, axis=1).max(axis=1)
        leads.append(np.nanmean(lead[min(KNOWN, len(lead)) - 1 :]))
    return float(np.mean(leads))


def outliers(output: Output) -> float:
    """Share of increases against the round before that are outliers, less that of increases against the local model.

    An outlier is beyond 1.5 interquartile ranges from the quartiles of the same session.
    """
    rises = increases(output), np.diff(np.asarray(output["validation"]), axis=1)
    local, previous = (np.mean([outlying(row) for row in rows]) for rows in rises)
    return float(previous - local)


def outlying(values: FloatArray) -> float:
    """Share of values beyond 1.5 interquartile ranges from the quartiles.

    >>> outlying(np.array([0.0, 1.0, 2.0, 3.0, 99.0]))
    0.2
    """
    low, high = np.quantile(values, [0.25, 0.75])
    reach = 1.5 * (high - low)
    return float(((values < low - reach) | (values > high + reach)).mean())


PEAK = number("peak", "highest test AUC")
ACCURACY = number("peak", "highest test accuracy")
LOWEST = dataclasses.replace(number("peak", "highest test AUC (the lowest leads)"), less=True)
MEAN = number("mean", "mean test AUC over all rounds")
EARLY_RISE = measure(f"mean increase in rounds 1 to {EARLY}", early)
EARLY_LOSS = measure(f"mean loss against the local model in rounds 1 to {EARLY}", lambda output: -early(output))
LATE_RISE = measure(f"mean increase from round {LATE + 1} on", late)
FADING = measure(
    f"mean increase in rounds 1 to {EARLY}, less that from round {LATE + 1} on",
    lambda output: early(output) - late(output),
)
PAST_PEAK = measure(
    "test AUC in the round that is best in validation, less that of the last round",
    lambda output: output["kept"] - output["test"][-1],
)
ABOVE_CHANCE = measure(
    "chance that an increase of 0110 is larger than one of another combination, less 0.5",
    lambda output: separation(output) - 0.5,
    digits=2,
)
CLEARER = measure(
    "chance that an increase of 0110 is larger than one of another combination, against the local model less against "
    "the round before",
    lambda output: separation(output) - separation(output, "previous"),
    digits=2,
)
OUTLIERS = measure(
    "share of outliers (1.5 interquartile ranges), increases against the round before less against the local model",
    outliers,
)
LATER = measure("rounds until 0.01 below the lower of both peaks (validation)", rounds_later, 1, "rounds")
LEAD_LOST = measure(
    "lead in the highest test AUC over the target alone, with the least data less with the most",
    lambda output: float(np.dot([1, -1, -1, 1], output["peak"])),
)
CHANGE = measure("change of the test AUC from round to round", lambda output: float(changes(output).mean()), 4)
SETTLING = measure("change of the test AUC per round, rounds 2 to 5 less later ones", settling, 4)
ESTIMATE_LEAD = measure(
    f"estimate of the data's best pair less the highest other, from round {KNOWN} on", estimate_lead
)
KEPT_BEST = measure("share of rounds in which the data's best pair is kept", kept_best, 2)
MESSAGES = Measure("messages until 0.02 below the peak of 0110 fixed", messages_to, "messages", digits=0, less=True)


def residuals(curves: FloatArray) -> FloatArray:
    """(seeds, rounds) deviations of learning curves from their mean over seeds.

    >>> residuals(np.array([[0.5, 0.7], [0.7, 0.7]]))
    array([[-0.1,  0. ],
           [ 0.1,  0. ]])
    """
    found: FloatArray = curves - curves.mean(axis=0)
    return found


def straightness(values: FloatArray) -> float:
    """Correlation of ordered values with normal quantiles: 1 if their QQ plot is a straight line, NaN if all are equal.

    >>> round(straightness(normal_quantiles(50)), 3), straightness(np.eye(30)[0]) < 0.5
    (1.0, True)
    """
    ordered = np.sort(np.ravel(values))
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.corrcoef(ordered, normal_quantiles(len(ordered)))[0, 1])


@functools.lru_cache(maxsize=16)
def normal_quantiles(count: int) -> FloatArray:
    """Where the ordered values of so many normal draws are to be expected.

    >>> normal_quantiles(3).round(2)
    array([-0.97,  0.  ,  0.97])
    """
    found: FloatArray = ndtri((np.arange(count) + 0.5) / count)
    return found


def persistence(curves: FloatArray) -> float:
    """Correlation between the deviations of one round and the next: near 1 for paths, near 0 for noise.

    >>> paths = np.outer([1.0, -1.0, 2.0, -2.0], np.ones(5))
    >>> round(persistence(paths), 3)
    1.0
    """
    deviation = residuals(curves)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.corrcoef(deviation[:, :-1].ravel(), deviation[:, 1:].ravel())[0, 1])


def spread(values: FloatArray) -> float:
    """Logarithm of the standard deviation around the means over seeds."""
    return float(np.log(residuals(values).std() + 1e-9))


def means_range(*columns: FloatArray) -> float:
    """Highest mean over seeds less the lowest.

    >>> means_range(np.array([1.0, 3.0]), np.array([5.0, 5.0]))
    3.0
    """
    return float(np.ptp([column.mean() for column in columns]))


@dataclasses.dataclass(frozen=True)
class Resampled:
    """A number that all seeds give together (a spread, a correlation, a range), with its bootstrap interval over seeds.

    what        its name in a sentence
    statistic   of the columns of `of` (arms, seeds, ...) less that of the columns of `against`
    column      the result that columns hold
    centred     the mean of all arms on the same data is taken off first

    >>> rule = Resampled("greater", "range of means", means_range, [Arm("a", "c")], [Arm("b", "α")], "peak", 0.002)
    >>> rule.words()
    'range of means, c − α, bootstrap over seeds: interval above 0, mean at least 0.002'
    """

    how: Literal["greater", "no worse"]
    what: str
    statistic: Callable[..., float]
    of: Sequence[Arm]
    against: Sequence[Arm]
    column: str
    margin: float
    centred: bool = False

    def words(self) -> str:
        what = f"{self.what}{' around the mean of all on the same data' * self.centred}"
        asked = f"above 0, mean at least {self.margin:g}" if self.how == "greater" else f"above −{self.margin:g}"
        return f"{what}, {_names(self.of)} − {_names(self.against)}, bootstrap over seeds: interval {asked}"

    def __call__(self, results: Results) -> Verdict:
        arms = [*self.of, *self.against]
        shared = results.common([key for arm in arms for key in arm.keys])
        columns = np.array([np.mean([shared[key].column(self.column) for key in arm.keys], axis=0) for arm in arms])
        columns = columns - columns.mean(axis=0) if self.centred else columns
        if len(columns[0]) < 2:
            return Verdict(UNTESTABLE, "–", "a single experiment has no spread")

        def lead(*drawn: FloatArray) -> float:
            return self.statistic(*drawn[: len(self.of)]) - self.statistic(*drawn[len(self.of) :])

        judged = greater if self.how == "greater" else no_worse
        return judged(bootstrap(lead, *columns, resamples=500), self.margin)


def _names(arms: Sequence[Arm]) -> str:
    return " and ".join(dict.fromkeys(arm.name for arm in arms))


def mean_of(statistic: Callable[[FloatArray], float]) -> Callable[..., float]:
    """The statistic of each column, averaged.

    >>> mean_of(np.max)(np.array([1.0, 2.0]), np.array([4.0]))
    3.0
    """
    return lambda *columns: float(np.mean([statistic(column) for column in columns]))


@dataclasses.dataclass(frozen=True)
class EqualCounts:
    """What is counted against what is printed: reproduced if all agree, not if none does.

    >>> EqualCounts("messages", lambda output: {"pairs": (6, 6)}, Arm("counts", "messages")).words()
    'messages: every count equals the printed one'
    """

    what: str
    pairs: Callable[[Output], Mapping[str, tuple[float, float]]]
    of: Arm
    within: float = 0.0

    def words(self) -> str:
        return f"{self.what}: every count {f'within {self.within:g} of' if self.within else 'equals'} the printed one"

    def __call__(self, results: Results) -> Verdict:
        found = [pair for output in results.outputs(self.of.keys).values() for pair in self.pairs(output).items()]
        wrong = {
            name: f"{name}: {ours:.4g} ({said:.4g} printed)"
            for name, (ours, said) in found
            if abs(ours - said) > self.within
        }
        agree = len(found) - sum(name in wrong for name, _ in found)
        ours = "; ".join([f"{agree} of {len(found)} agree", *wrong.values()])
        kind = REPRODUCED if not wrong else PARTLY if agree else NOT
        return Verdict(kind, ours, "counted one by one")
