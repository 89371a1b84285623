"""The rules that judge the claims on data and mini-batches. Margins were set before any run of the scale "laptop"."""

from __future__ import annotations

import itertools

from enlist.statistics import Summary, share
from enlist.studies.claims import Verdict, counted, shown
from enlist.studies.darts import scores
from enlist.studies.darts.profiles import pooled
from enlist.studies.darts.rules import parted, scaled, times
from enlist.studies.darts.settings import BATCH, RANDOM
from enlist.studies.darts.weightings import WEIGHTINGS, local_change, offers, profile_rows, taken
from enlist.studies.results import Outcome, Results

GROWTH = 0.1
"""Least growth over batch sizes that matters: a tenth."""
PURE, SMALL, LARGE, SEVERAL = 0.99, 1_000 / 50_000, 7_000 / 50_000, 2
"""A client of one class has this share of it; sizes of the report as shares of CIFAR-10; how many are several."""
MOSTLY, MAJORITY = 0.9, 0.5


def skewed(results: Results) -> Verdict:
    """Labels and sizes as unequal as the report's, in nine of ten populations.

    >>> from enlist.studies.darts.example import example_results
    >>> skewed(example_results()).kind
    'reproduced'
    """
    held = [is_skewed(outcome) for outcome in results["data"].outcomes.values()]
    return counted(share(sum(held), len(held)), MOSTLY, "of the populations")


def is_skewed(outcome: Outcome) -> bool:
    """Whether a population has several clients of one class, small ones and large ones.

    >>> from enlist.studies.darts.example import example_results
    >>> is_skewed(example_results()["data"].outcomes[0])
    True
    """
    pure, least, most = extremes(outcome)
    return pure >= SEVERAL and least < SMALL and most > LARGE


def extremes(outcome: Outcome) -> tuple[int, float, float]:
    """Clients of one class in a population, and the shares of all samples that the smallest and the largest hold.

    >>> from enlist.studies.darts.example import example_results
    >>> extremes(example_results()["data"].outcomes[0])
    (11, 0.0141..., 0.2411...)
    """
    counts = outcome["counts"]
    sizes, top = counts.sum(axis=1), counts.max(axis=1)
    part = sizes / sizes.sum()
    return int((top / sizes >= PURE).sum()), float(part.min()), float(part.max())


def slower_and_looser(results: Results) -> Verdict:
    """Time per mini-batch, and its standard deviation, from the smallest to the largest batch size.

    >>> from enlist.studies.darts.example import example_results
    >>> slower_and_looser(example_results()).ours.startswith("time: ")
    True
    """
    return parted(
        {
            "time": times(_growth(results, "per_batch"), GROWTH),
            "standard deviation": times(_growth(results, "per_batch_std"), GROWTH),
        }
    )


def hungrier(results: Results) -> Verdict:
    """Memory from the smallest to the largest batch size, and whether a sample costs more in larger ones.

    >>> from enlist.studies.darts.example import example_results
    >>> hungrier(example_results()).kind
    'partly'
    """
    return parted(
        {
            "memory": times(_growth(results, "memory"), GROWTH),
            "bytes per further sample": times(steepening(results), GROWTH),
        }
    )


def steepening(results: Results) -> Summary:
    """Bytes that a further sample in the mini-batch costs: between the largest two sizes over between the smallest two.

    >>> from enlist.studies.darts.example import example_results
    >>> steepening(example_results()).mean < 1
    True
    """
    found = []
    for outcome in results["profile"].outcomes.values():
        rows = pooled([outcome]).rows
        slopes = [(right.memory - left.memory) / (right.batch - left.batch) for left, right in itertools.pairwise(rows)]
        found.append(slopes[-1] / slopes[0])
    return Summary.of(found)


def best_is_sixteen(results: Results) -> Verdict:
    """How often the explicit rule for time, memory and accuracy takes 16; and what the choice hangs on.

    >>> from enlist.studies.darts.example import example_results
    >>> best_is_sixteen(example_results()).kind
    'reproduced'
    """
    chosen = [pooled([outcome]).best for outcome in results["profile"].outcomes.values()]
    found = counted(share(chosen.count(BATCH), len(chosen)), MAJORITY, "of the populations")
    often = taken(profile_rows(results)).get(BATCH, 0)
    return found._replace(
        ours=f"{found.ours}; over all of them together {pooled_best(results)} is taken; {often} of {len(WEIGHTINGS)} "
        f"weightings take {BATCH}",
        why=f"{found.why}. {_reservations(results)}",
    )


def pooled_best(results: Results) -> int:
    """The batch size that the rule takes over the clients of all populations.

    >>> from enlist.studies.darts.example import example_results
    >>> pooled_best(example_results())
    16
    """
    return pooled(list(results["profile"].outcomes.values())).best


def _reservations(results: Results) -> str:
    """Whose accuracy the score has, and what other sizes to choose from would change."""
    from enlist.simulation.profile import choose

    rows = profile_rows(results)
    own = shown(scaled(local_change(results), 100.0), 1, sign=True)
    words = (
        f"The accuracy in the score is that of clients on the samples that they trained on, which changes by {own} "
        f"points from batch size {rows[0].batch} to {rows[-1].batch} ({_populations(len(results['profile'].seeds))})"
    )
    smallest, largest = (RANDOM if row.batch == BATCH else f"batch/{row.batch}" for row in (rows[0], rows[-1]))
    if smallest in results and largest in results:
        common = shown(scaled(scores.gap(results, largest, smallest, scores.final), 100.0), 1, sign=True)
        count = len(scores.pairs(results, largest, smallest))
        words += f"; that of the common model on the test set changes by {common} points ({_populations(count)})"
    others = ", ".join(f"{name} it is {choose(some)}" for name, some in list(offers(rows).items())[1:])
    return f"{words}. Its parts are scaled over the sizes offered, and other sizes may change the choice: {others}"


def _populations(count: int) -> str:
    return f"{count} population{'s' * (count != 1)}"


def _growth(results: Results, name: str) -> Summary:
    """Of a column of the profile: its value for the largest batch size over that for the smallest, over seeds."""
    found = []
    for outcome in results["profile"].outcomes.values():
        rows = pooled([outcome]).rows
        found.append(getattr(rows[-1], name) / getattr(rows[0], name))
    return Summary.of(found)
