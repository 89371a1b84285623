"""What the choice of a batch size hangs on: what time, memory and accuracy weigh, and which sizes are offered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from enlist.statistics import Summary
from enlist.studies.darts.profiles import pooled
from enlist.studies.results import Results

if TYPE_CHECKING:
    from enlist.simulation.profile import BatchRow

WEIGHTINGS = tuple((time, memory, 10 - time - memory) for time in range(11) for memory in range(11 - time))
"""Tenths that time, memory and accuracy weigh: all 66 that add up to 1."""


def taken(rows: Sequence[BatchRow]) -> dict[int, int]:
    """Batch size -> in how many of the weightings it has the least score.

    >>> from enlist.studies.darts.example import example_results
    >>> sum(taken(profile_rows(example_results())).values())
    66
    """
    from enlist.simulation.profile import choose

    counts = Counter(choose(rows, weights) for weights in WEIGHTINGS)
    return {row.batch: counts[row.batch] for row in rows}


def offers(rows: Sequence[BatchRow]) -> dict[str, Sequence[BatchRow]]:
    """All batch sizes, and all but the smallest or the largest: the parts of the score are scaled over what is offered.

    >>> from enlist.studies.darts.example import example_results
    >>> {name: len(some) for name, some in offers(profile_rows(example_results())).items()}
    {'all sizes': 3, 'without 8': 2, 'without 32': 2}
    """
    found = {"all sizes": rows}
    if len(rows) > 1:
        found |= {f"without {rows[0].batch}": rows[1:], f"without {rows[-1].batch}": rows[:-1]}
    return found


def profile_rows(results: Results) -> list[BatchRow]:
    """The profile over the clients of all populations, a row per batch size.

    >>> from enlist.studies.darts.example import example_results
    >>> [row.batch for row in profile_rows(example_results())]
    [8, 16, 32]
    """
    return pooled(list(results["profile"].outcomes.values())).rows


def local_change(results: Results) -> Summary:
    """Accuracy of clients on their own samples with the largest batch size − with the smallest, over populations.

    >>> from enlist.studies.darts.example import example_results
    >>> round(local_change(example_results()).mean, 3)
    -0.008
    """
    rows = [pooled([outcome]).rows for outcome in results["profile"].outcomes.values()]
    return Summary.of([each[-1].accuracy - each[0].accuracy for each in rows])
