"""What may explain that a claim on data or mini-batches did not come out as said, and the experiment that tells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from enlist.runs.printing import percent
from enlist.statistics import Summary
from enlist.studies.claims import Further, shown
from enlist.studies.darts import plan, scores
from enlist.studies.darts.profile_rules import LARGE, SEVERAL, SMALL, extremes
from enlist.studies.darts.profiles import pooled
from enlist.studies.darts.rules import scaled
from enlist.studies.darts.settings import BATCH, RANDOM
from enlist.studies.darts.weightings import WEIGHTINGS, profile_rows, taken
from enlist.studies.results import Results


def draws(results: Results) -> str:
    """What the draws of many populations are like, criterion by criterion.

    >>> from enlist.studies.darts.example import example_results
    >>> draws(example_results()).startswith("in 6 more populations 11.0 [11.0, 11.0] clients have a single class")
    True
    """
    found = [extremes(outcome) for outcome in results["further/data"].outcomes.values()]
    pure, least, most = np.array(found).T
    counts = [outcome["counts"] for outcome in results["further/data"].outcomes.values()]
    dominance = Summary.of([float((each.max(axis=1) / each.sum(axis=1)).mean()) for each in counts])
    single, top = shown(Summary.of(pure.tolist()), 1), shown(scaled(dominance, 100.0), 0)
    several, small, large = (percent(met.mean()) for met in (pure >= SEVERAL, least < SMALL, most > LARGE))
    return (
        f"in {len(found)} more populations {single} clients have a single class, {SEVERAL} or more of them in "
        f"{several} of the populations; the smallest client is below 2 % of all samples in {small}, the largest above "
        f"14 % in {large}. A client's most frequent class makes up {top} % of its samples."
    )


def per_sample(results: Results) -> str:
    """What a sample costs, rather than a mini-batch.

    >>> from enlist.studies.darts.example import example_results
    >>> per_sample(example_results()).startswith("from batch size 8 to 32 a mini-batch goes from ")
    True
    """
    every = [pooled([outcome]).rows for outcome in results["profile"].outcomes.values()]
    first, last = every[0][0].batch, every[0][-1].batch

    def column(name: str, at: int, factor: float, digits: int) -> str:
        return shown(scaled(Summary.of([getattr(rows[at], name) for rows in every]), factor), digits)

    least, most = (
        shown(scaled(_ratio([rows[at].per_batch_std / rows[at].per_batch for rows in every]), 100), 0) for at in (0, -1)
    )
    return (
        f"from batch size {first} to {last} a mini-batch goes from {column('per_batch', 0, 1e3, 2)} to "
        f"{column('per_batch', -1, 1e3, 2)} ms, while a sample goes from {column('per_sample', 0, 1e6, 0)} to "
        f"{column('per_sample', -1, 1e6, 0)} µs; the standard deviation goes from {least} to {most} % of the mean "
        f"({len(every)} populations)."
    )


def linear_memory(results: Results) -> str:
    """Memory as a straight line over the batch size.

    >>> from enlist.studies.darts.example import example_results
    >>> "per further sample" in linear_memory(example_results())
    True
    """
    every = [pooled([outcome]).rows for outcome in results["profile"].outcomes.values()]
    sizes = [row.batch for row in every[0]]
    steps = []
    for at, (left, right) in enumerate(itertools.pairwise(sizes)):
        slopes = [(rows[at + 1].memory - rows[at].memory) / (right - left) for rows in every]
        steps.append(f"{shown(scaled(Summary.of(slopes), 1e-3), 1)} ({left} to {right})")
    doubling = [(rows[-1].memory - rows[-2].memory) / (rows[1].memory - rows[0].memory) for rows in every]
    return (
        f"a step takes so many kB more per further sample: {', '.join(steps)}. Memory grows in proportion, or less, "
        "because small clients do not fill large mini-batches; as batch sizes double from tick to tick of the picture, "
        f"its last step is {shown(_ratio(doubling), 1)} times the first ({len(every)} populations)."
    )


def weightings(results: Results) -> str:
    """Which batch sizes the rule takes if time, memory and accuracy weigh otherwise.

    >>> from enlist.studies.darts.example import example_results
    >>> "of 66 weightings" in weightings(example_results())
    True
    """
    words = ", ".join(f"{size} in {count}" for size, count in taken(profile_rows(results)).items())
    finals = {BATCH: RANDOM, **{int(key.split("/")[1]): key for key in results.keys("batch/")}}
    learned = ", ".join(
        f"{size}: {shown(scaled(scores.mean(results, key, scores.final), 100.0), 1)}"
        for size, key in sorted(finals.items())
    )
    fewest = min(len(results[key].seeds) for key in finals.values())
    return (
        f"of {len(WEIGHTINGS)} weightings in steps of a tenth, batch size {words}. Random selection ends with these "
        f"accuracies in per cent: {learned} ({fewest} population{'s' * (fewest != 1)} or more)."
    )


MORE_POPULATIONS = Further(
    "most clients keep a few samples of other classes, and a single class is luck", plan.populations, draws
)
PER_SAMPLE = Further("what is constant per mini-batch hides what grows with it", lambda scale: (), per_sample)
LINEAR = Further("memory grows in proportion to the samples of a mini-batch", lambda scale: (), linear_memory)
WEIGHTS = Further("the choice hangs on what time, memory and accuracy weigh", lambda scale: (), weightings)


def _ratio(values: Sequence[float]) -> Summary:
    """A ratio of positive quantities, with an interval that ends at 0."""
    return Summary.of(values).within(0.0, math.inf)
