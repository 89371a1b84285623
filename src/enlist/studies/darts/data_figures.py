"""Figures and the table of who holds what: pies, bars, sizes (Figs. 1 and 2 and Table 1 of the report)."""

from __future__ import annotations

from typing import Any

import numpy as np

from enlist.data.describe import distance, label_entropy
from enlist.report.skew import class_bars, class_pies, size_histogram
from enlist.studies.darts.profile_rules import PURE
from enlist.studies.results import Results
from enlist.studies.study import Figure, Table

REPORTED = (
    (1, 4_607, "0 (60 %), 5 (21 %)", "several classes, one dominant"),
    (2, 4_632, "1 (88 %)", "one dominant class"),
    (3, 7_513, "6 (66 %), 2 (34 %)", "two classes"),
    (4, 240, "9 (48 %), 5 (33 %)", "the smallest client"),
    (7, 4_668, "7 (100 %)", "one class"),
    (9, 4_395, "8 (100 %)", "one class"),
)
"""Client, samples, dominant classes, pattern: the six clients of the report's Table 1."""


def data_figures(results: Results) -> list[Figure]:
    """Classes and sizes of the clients of the first population, and sizes over all populations.

    >>> from enlist.studies.darts.example import example_results
    >>> [figure.name for figure in data_figures(example_results())]
    ['class-pies', 'class-bars', 'size-histogram']
    """
    group = results["data"]
    seed, first = next(iter(group.outcomes.items()))
    counts, names = first["counts"], first["class_names"]
    where = f"The population of seed {seed}, as in all pictures of single clients."
    sizes = np.concatenate([outcome["counts"].sum(axis=1) for outcome in group.outcomes.values()])
    every = f"Clients of all {len(group.seeds)} populations; the report's Fig. 2 has one."
    return [
        Figure(
            "class-pies",
            "Classes of each client (Fig. 1a)",
            class_pies(counts, "Classes of each client, and its samples", names),
            where,
            highlight=True,
        ),
        Figure(
            "class-bars",
            "Classes and sizes of the clients (Fig. 1b)",
            class_bars(counts, "Samples of each client by class", names),
            where,
        ),
        Figure(
            "size-histogram",
            "How many samples clients hold (Fig. 2)",
            size_histogram(sizes, "Samples per client"),
            every,
        ),
    ]


def distribution(results: Results) -> Table:
    """Samples and dominant classes of the clients of the first population, and those that the report names.

    >>> from enlist.studies.darts.example import example_results
    >>> table = distribution(example_results())
    >>> table.rows[0]["client"], table.rows[0]["dominant classes"], table.rows[-1]["pattern"]
    (0, '0 (60 %), 5 (40 %)', 'one class')
    """
    group = results["data"]
    seed, first = next(iter(group.outcomes.items()))
    counts, names = first["counts"], first["class_names"]
    sizes = counts.sum(axis=1)
    entropy, apart = label_entropy(counts), distance(counts)
    rows: list[dict[str, Any]] = [
        {
            "where": "here",
            "client": client,
            "samples": int(sizes[client]),
            "share": float(sizes[client] / sizes.sum()),
            "dominant classes": _dominant(counts[client], names),
            "pattern": pattern(counts[client]),
            "entropy": float(entropy[client]),
            "distance to the whole": float(apart[client]),
        }
        for client in range(len(counts))
    ]
    for client, samples, classes, kind in REPORTED:
        given = {"client": client, "samples": samples, "share": samples / 50_000}
        rows.append(
            {"where": "report", **given, "dominant classes": classes, "pattern": kind}
            | {"entropy": None, "distance to the whole": None}
        )
    return Table(
        "distribution",
        "Who holds what (Table 1)",
        rows,
        f"The population of seed {seed}, and below it the six clients that the report names. Entropy of the labels: 0 "
        "one class, 1 all alike. Distance: share of its samples that a client would have to swap to be like the whole.",
    )


def pattern(counts: Any) -> str:
    """In words, how the labels of a client are distributed.

    >>> [pattern(np.array(counts)) for counts in ([5, 0, 0], [9, 1, 0], [50, 48, 2], [4, 3, 3])]
    ['one class', 'one dominant class', 'two classes', 'several classes']
    """
    falling = np.sort(counts)[::-1] / counts.sum()
    if falling[0] >= PURE:
        return "one class"
    if falling[0] >= 0.8:
        return "one dominant class"
    return "two classes" if falling[:2].sum() >= 0.95 else "several classes"


def _dominant(counts: Any, names: list[str]) -> str:
    """Classes with a fifth of the samples or more, the largest first."""
    part = counts / counts.sum()
    order = [label for label in np.argsort(-part, kind="stable") if part[label] >= 0.2]
    return ", ".join(f"{names[label]} ({part[label]:.0%})".replace("%", " %") for label in order)
