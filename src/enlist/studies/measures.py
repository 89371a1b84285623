"""Measures: the numbers of a run that claims compare, each defined once.

A measure looks at one experiment and, where it needs a yardstick, at the baseline's experiment with the same seed: the
target of a run is set by what the baseline ends with on the same data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from enlist.runs.scores import LAST, Reached, final_mean, jain, time_to
from enlist.runs.tables import RunTables
from enlist.studies.results import Output


class Value(NamedTuple):
    """A number, and whether the truth may be larger: a run that never got there counts with all that it spent.

    >>> Value(0.8).open
    False
    """

    number: float
    open: bool = False


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number of an experiment, and how two of them are compared.

    name     as a sentence would have it
    of       (experiment, the baseline's with the same seed) -> its value
    unit     what follows the number
    scale    what the value is multiplied by to be in that unit
    digits   behind the point
    ratio    two are compared by their ratio (geometric mean over seeds), not by their difference
    less     less is better: the ratio, or the difference, is taken the other way round

    >>> FINAL_ACCURACY.of(Output({}, {"accuracy": np.array([0.25, 0.75])}, 1.0), Output({}, {}, 1.0)).number
    0.5
    """

    name: str
    of: Callable[[Output, Output], Value]
    unit: str = ""
    scale: float = 1.0
    digits: int = 2
    ratio: bool = False
    less: bool = False

    def shown(self, number: float) -> str:
        """A margin in the measure's unit.

        >>> FINAL_ACCURACY.shown(0.02), ROUNDS_TO_TARGET.shown(1.1)
        ('2 points', '1.1 times')
        """
        one = abs(number * self.scale) == 1.0 and len(self.unit) > 2  # "1 point", but "1 ms"
        unit = "times" if self.ratio else self.unit.removesuffix("s") if one else self.unit
        return f"{number * self.scale:g} {unit}".rstrip()


def evaluated(output: Output) -> RunTables:
    """The evaluations of an experiment, as the measures of runs want them.

    >>> evaluated(Output({}, {"accuracy": np.array([0.5]), "end": np.array([9.0])}, 1.0)).rounds["end"]
    array([9.])
    """
    rounds = {name: np.asarray(output[name], dtype=float) for name in ("accuracy", "end")}
    return RunTables("", 0, {}, rounds, {}, {})


def final_accuracy(output: Output) -> float:
    """Mean accuracy of the last three evaluations, as `compare` and reports have it.

    >>> final_accuracy(Output({}, {"accuracy": np.array([0.1, 0.25, np.nan, 0.5, 0.75])}, 1.0))
    0.5
    """
    return final(output, "accuracy")


def final(output: Output, name: str) -> float:
    """Mean of a column of rounds over the last three evaluations.

    >>> final(Output({}, {"loss": np.array([9.0, 2.0, np.nan, 0.5, 0.5])}, 1.0), "loss")
    1.0
    """
    return final_mean(np.asarray(output[name], dtype=float))


def to_target(share: float, window: int, what: str) -> Callable[[Output, Output], Value]:
    """Rounds or virtual seconds until the mean of `window` evaluations is `share` of the baseline's final accuracy.

    Of a run with fewer evaluations, it is the mean of all.

    >>> curve = {"accuracy": np.linspace(0.1, 1.0, 10), "end": np.arange(10.0)}
    >>> slow, fast = Output({}, curve, 1.0), Output({}, curve | {"accuracy": np.linspace(0.5, 1.0, 10)}, 1.0)
    >>> measure = to_target(0.7, 1, "rounds")
    >>> measure(slow, slow).number, measure(fast, slow).number, measure(slow, fast)
    (7.0, 4.0, Value(number=7.0, open=False))
    """

    def measured(output: Output, base: Output) -> Value:
        ends, curve = (np.asarray(output[name], dtype=float) for name in ("end", "accuracy"))
        evaluations = int((~np.isnan(curve)).sum())
        found = time_to(evaluated(output), share * final_accuracy(base), max(min(window, evaluations), 1))
        spent = found or Reached(len(ends), float(ends[-1]))
        return Value(float(getattr(spent, what)), found is None)

    return measured


FINAL_ACCURACY = Measure(
    f"mean test accuracy of the last {LAST} evaluations",
    lambda output, base: Value(final_accuracy(output)),
    unit="points",
    scale=100.0,
    digits=1,
)
FINAL_LOSS = Measure(
    f"mean test loss of the last {LAST} evaluations",
    lambda output, base: Value(final(output, "loss")),
    digits=3,
    less=True,
)
ROUNDS_TO_TARGET = Measure(
    "rounds until the mean of five evaluations reaches nine tenths of the baseline's final accuracy",
    to_target(0.9, 5, "rounds"),
    ratio=True,
    less=True,
)
SECONDS_TO_TARGET = Measure(
    "virtual seconds until the mean of five evaluations reaches nine tenths of the baseline's final accuracy",
    to_target(0.9, 5, "seconds"),
    ratio=True,
    less=True,
)
EVENNESS = Measure("Jain's index of how often clients were asked", lambda output, base: Value(jain(output["selected"])))
