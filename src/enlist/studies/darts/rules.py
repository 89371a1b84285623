"""The odd rules, which are no comparison of a measure: how typical a table is, and which batch size is taken."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from enlist._internal.statistics import share
from enlist._internal.typing import FloatArray, IntArray
from enlist.studies.claims import Verdict, counted
from enlist.studies.darts.measures import profile_of
from enlist.studies.darts.settings import BATCH
from enlist.studies.results import Output, Results
from enlist.studies.rules import Arm

PURE = 0.99
"""Share of its samples that a client of one class has of it, at least."""
NEAR = 1.15
"""Just above an equal share: up to this many times it."""
WEIGHTINGS = tuple((time, memory, 10 - time - memory) for time in range(11) for memory in range(11 - time))
"""Tenths that time, memory and accuracy weigh: all 66 that add up to 1."""


class Trait(NamedTuple):
    """Something that the report says of its one draw.

    of        counts (draws, clients, classes) -> (draws,) the number
    reported  the report's
    least     whether the report's is a least value (it names some clients only), so that more is as good

    >>> LARGEST.reported
    0.15026
    """

    name: str
    of: Callable[[IntArray], FloatArray]
    reported: float
    least: bool = False


def _part(counts: IntArray) -> FloatArray:
    """(draws, clients) share of all samples."""
    sizes = counts.sum(axis=2)
    return np.asarray(sizes / sizes.sum(axis=1, keepdims=True))


def _pure(counts: IntArray) -> FloatArray:
    return np.asarray((counts.max(axis=2) >= PURE * counts.sum(axis=2)).sum(axis=1), dtype=float)


def _near(counts: IntArray) -> FloatArray:
    times = _part(counts) * counts.shape[1]
    return np.asarray(((times >= 1.0) & (times <= NEAR)).sum(axis=1), dtype=float)


LARGEST = Trait("share of the largest client", lambda counts: _part(counts).max(axis=1), 7_513 / 50_000)
SMALLEST = Trait("share of the smallest client", lambda counts: _part(counts).min(axis=1), 240 / 50_000)
ONE_CLASS = Trait(f"clients with {PURE:.0%} of one class".replace("%", " %"), _pure, 2, least=True)
JUST_ABOVE = Trait(f"clients with 1 to {NEAR:g} times an equal share", _near, 4, least=True)


@dataclasses.dataclass(frozen=True)
class Typical:
    """Whether what the report has is typical of the draws: not among the `rare` most extreme ones on either side.

    >>> Typical(ONE_CLASS, Arm("draws/plain", "draws")).words()
    'clients with 99 % of one class, 2 or more in the report: at least 0.05 of the draws have as many or more'
    """

    trait: Trait
    of: Arm
    rare: float = 0.05

    def words(self) -> str:
        name, _, reported, least = self.trait
        many = f"at least {self.rare:g} of the {self.of.name} have as"
        if least:
            return f"{name}, {reported:g} or more in the report: {many} many or more"
        return f"{name}, {reported:.3g} in the report: {many} much or more, and {many} much or less"

    def __call__(self, results: Results) -> Verdict:
        outputs = results[self.of.key].outputs.values()
        found = np.concatenate([self.trait.of(output["counts"]) for output in outputs])
        tails = [int((found >= self.trait.reported).sum())]
        if not self.trait.least:
            tails.append(int((found <= self.trait.reported).sum()))
        verdict = counted(share(min(tails), len(found)), self.rare, "are as extreme", trials=len(found))
        low, middle, high = np.quantile(found, (0.05, 0.5, 0.95))
        ours = f"{low:.3g} to {high:.3g} in nine of ten {self.of.name}, median {middle:.3g}; {verdict.ours}"
        return verdict._replace(ours=ours)


def takes_sixteen(output: Output) -> bool:
    """Whether the least mean of time, memory and lack of accuracy, each in 0..1 over the sizes, is that of 16.

    >>> steps = {"batch": [16, 16], "client": [0, 0], "passed": [0, 0], "seconds": [1.0, 3.0], "samples": [20]}
    >>> ends = {"memory": [[9.0]], "accuracy": [[1.0]], "loss": [[0.1]]}
    >>> takes_sixteen(Output({"machine": "mine"}, {name: np.array(own) for name, own in (steps | ends).items()}, 1.0))
    True
    """
    return profile_of([output]).best == BATCH


def weightings(results: Results) -> str:
    """Which batch sizes are taken if time, memory and accuracy weigh otherwise, and if a size is not offered.

    >>> weightings(Results({}))
    Traceback (most recent call last):
    ...
    enlist.errors.UnknownNameError: no finished experiment is called 'profile'. Known: none.
    """
    from enlist.simulation.profile import choose

    rows = profile_of(list(results["profile"].outputs.values())).rows
    counts = Counter(choose(rows, weights) for weights in WEIGHTINGS)
    words = ", ".join(f"{row.batch} in {counts[row.batch]}" for row in rows)
    ends = {rows[0].batch: rows[1:], rows[-1].batch: rows[:-1]}
    others = ", ".join(f"without {size} it is {choose(some)}" for size, some in ends.items() if some)
    return (
        f"over the clients of all populations, of {len(WEIGHTINGS)} weightings of time, memory and accuracy in steps "
        f"of a tenth, these take {words}. With equal weights it is {choose(rows)}; the parts are scaled over the sizes "
        f"offered: {others}."
    )
