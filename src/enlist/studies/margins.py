"""Margins: the smallest difference that matters, each with a reason that does not rest on our own results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence


class Margin(float):
    """A number of a rule, and why it is this one: what the work itself prints, or a rule that suits any study.

    >>> Margin(0.01, "one point of accuracy") + 0.01, Margin(0.01, "one point of accuracy").because
    (0.02, 'one point of accuracy')
    """

    because: str

    def __new__(cls, value: float, because: str) -> Margin:
        made = super().__new__(cls, value)
        made.because = because
        return made


POINT = Margin(0.01, "one point of accuracy")
TWO_POINTS = Margin(0.02, "two points of accuracy, about what another draw of the test samples can move")
PERCENT_5 = Margin(0.05, "five percent, one in twenty")
TENTH = Margin(0.1, "one in ten")
HALF = Margin(0.5, "most of them, more than half")
NINE_TENTHS = Margin(0.9, "nine in ten: nearly all")
ANY = Margin(0.0, "any difference, if it is certain")
NEAR = 0.8
"""Part of a paper's number that counts as about as much."""


def nearly(number: float, name: str = "") -> Margin:
    """Four fifths of a number that the paper prints; `name` is how it prints it.

    >>> nearly(3.0), nearly(0.1, "10 points").because
    (2.4, "four fifths of the paper's 10 points")
    """
    return Margin(float(f"{NEAR * number:.3g}"), f"four fifths of the paper's {name or format(number, 'g')}")


def beyond_one(ratio: Margin) -> Margin:
    """A ratio that is asked for, as the margin of a comparison of ratios: what is added to 1.

    >>> beyond_one(nearly(2.5)), beyond_one(nearly(2.5)).because
    (1.0, "four fifths of the paper's 2.5")
    """
    return Margin(ratio - 1.0, ratio.because)


def reasons(rule: object) -> list[str]:
    """The margins of a rule and of its parts, each with its reason.

    >>> from enlist.studies.measures import FINAL_ACCURACY
    >>> from enlist.studies.rules import Arm, Contrast
    >>> reasons(Contrast("greater", FINAL_ACCURACY, Arm("a", "A"), [Arm("b", "B")], POINT))
    ['1 point: one point of accuracy']
    """
    return list(dict.fromkeys(_reasons(rule)))


def _reasons(rule: object) -> Iterator[str]:
    for value in vars(rule).values() if dataclasses.is_dataclass(rule) else ():
        if isinstance(value, Margin):
            yield f"{_shown(rule, value)}: {value.because}"
        elif dataclasses.is_dataclass(value):
            yield from _reasons(value)
        elif isinstance(value, Mapping | Sequence) and not isinstance(value, str):
            for part in value.values() if isinstance(value, Mapping) else value:
                yield from _reasons(part)


def _shown(rule: object, value: float) -> str:
    """The number as the rule's own sentence has it: a comparison of ratios asks for 1 and so much more."""
    measure = getattr(rule, "measure", None)
    if measure is None:
        return f"{value:.3g}"
    said: str = measure.shown(1.0 + value if measure.ratio and hasattr(rule, "against") else value)
    return said
