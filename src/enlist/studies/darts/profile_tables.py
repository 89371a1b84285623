"""Tables of the mini-batch profile, and of the most selected clients."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from enlist.studies.claims import shown
from enlist.studies.darts import costs, scores
from enlist.studies.darts.profile_rules import pooled_best
from enlist.studies.darts.profiles import pooled
from enlist.studies.darts.rules import scaled
from enlist.studies.darts.settings import BATCH, DEFAULT, LABELS, PRINTED, RANDOM
from enlist.studies.darts.weightings import WEIGHTINGS, offers, profile_rows, taken
from enlist.studies.results import Results
from enlist.studies.study import Table

SELECTED = (
    (11, 7, 0.8596, 0.6283, 0.1070),
    (6, 2, 0.8359, 0.5642, 0.0901),
    (4, 2, 0.7953, 0.8506, 0.1242),
    (8, 2, 0.7906, 1.0312, 0.0921),
    (10, 2, 0.7486, 1.5690, 0.0902),
)
"""Client, rounds, accuracy, loss and seconds: the slides' most selected clients at batch size 16."""


def batch_sizes(results: Results) -> Table:
    """The profile over the clients of all populations, with the score that decides.

    >>> from enlist.studies.darts.example import example_results
    >>> [row["chosen"] for row in batch_sizes(example_results()).rows]
    [False, True, False]
    """
    from enlist.simulation.profile import scores as parts_of

    outcomes = list(results["profile"].outcomes.values())
    every = pooled(outcomes)
    chosen = [pooled([outcome]).best for outcome in outcomes]
    rows: list[dict[str, Any]] = []
    for row, parts in zip(every.rows, parts_of(every.rows, every.weights).tolist(), strict=True):
        key = RANDOM if row.batch == BATCH else f"batch/{row.batch}"
        rows.append(
            {
                "batch size": row.batch,
                "ms per mini-batch": f"{1e3 * row.per_batch:.2f} ± {1e3 * row.per_batch_std:.2f}",
                "ms per sample": 1e3 * row.per_sample,
                "kB per step": f"{row.memory / 1e3:.1f} ± {row.memory_std / 1e3:.1f}",
                "accuracy, %": f"{100 * row.accuracy:.1f} ± {100 * row.accuracy_std:.1f}",
                "score": sum(parts),
                "chosen": row.batch == every.best,
                "in populations": f"{chosen.count(row.batch)} of {len(chosen)}",
                "random selection, %": _final(results, key) if key in results else None,
            }
        )
    return Table(
        "batch-sizes",
        "The mini-batch profile and the choice of a batch size",
        rows,
        "± are standard deviations over all clients of all populations. The score is the mean of time per "
        "sample, memory and lack of accuracy, each brought to 0..1 over the batch sizes offered; the least is "
        "taken. Its accuracy is that of each client alone on the samples that it trained on, which tends to fall as "
        "a pass has fewer steps; the last column, the common model's on the test set in the end (mean with 95 % "
        "interval), has no part in it. The result folder has all numbers (tables/profile.csv).",
        highlight=True,
    )


def weightings(results: Results) -> Table:
    """Which batch size is taken, by what is offered and by what weighs how much.

    >>> from enlist.studies.darts.example import example_results
    >>> weightings(example_results()).rows[1]["batch size 8"] is None
    True
    """
    from enlist.simulation.profile import choose

    every = profile_rows(results)
    rows = []
    for name, some in offers(every).items():
        counts = taken(some)
        rows.append(
            {"offered": name, "equal weights take": choose(some)}
            | {f"batch size {row.batch}": counts.get(row.batch) for row in every}
        )
    return Table(
        "weightings",
        "What the choice of a batch size hangs on",
        rows,
        f"In how many of the {len(WEIGHTINGS)} weightings of time, memory and accuracy, in steps of a tenth, each "
        "batch size has the least score. Each of the three is brought to 0..1 between the best and the worst of the "
        "sizes offered, so a size that nobody takes may still decide between two others.",
        highlight=True,
    )


def _final(results: Results, key: str) -> str:
    return shown(scaled(scores.mean(results, key, scores.final), 100.0), 1)


def profile(results: Results) -> Table:
    """The profile over the clients of all populations as numbers: seconds, bytes, shares.

    >>> from enlist.studies.darts.example import example_results
    >>> list(profile(example_results()).rows[0])[:3]
    ['batch', 'per_sample', 'per_sample_std']
    """
    rows = [dataclasses.asdict(row) for row in pooled(list(results["profile"].outcomes.values())).rows]
    return Table("profile", "The mini-batch profile in numbers", rows, on_page=False)


def by_client(results: Results) -> Table:
    """The profile of the clients of the first population: time and accuracy for every batch size.

    >>> from enlist.studies.darts.example import example_results
    >>> list(by_client(example_results()).rows[0])[:4]
    ['client', 'samples', 'ms, batch 8', 'accuracy, batch 8']
    """
    first = pooled([results["profile"].outcomes[results["profile"].seeds[0]]])
    rows = []
    for client in first.clients:
        own = [one for one in first.measurements if one.client == client]
        row: dict[str, Any] = {"client": client, "samples": own[0].samples}
        for one in own:
            row |= {f"ms, batch {one.batch}": 1e3 * one.seconds, f"accuracy, batch {one.batch}": one.accuracy}
        rows.append(row)
    return Table(
        "client-profile",
        "Training time and accuracy of each client",
        rows,
        "One pass over the client's samples on this machine, median; accuracy on its own samples after all passes.",
    )


def most_selected(results: Results, most: int = 5) -> Table:
    """The most selected clients of the first population, and the slides'.

    >>> from enlist.studies.darts.example import example_results
    >>> [row["selection"] for row in most_selected(example_results(), most=1).rows]
    ['slides, batch size 16', ..., 'random', 'UCB as printed', 'UCB, our default']
    """
    rows: list[dict[str, Any]] = [
        {"selection": "slides, batch size 16", "client": client, "rounds": rounds, "accuracy": accuracy, "loss": loss}
        | {"seconds, measured": seconds, "seconds, virtual": None}
        for client, rounds, accuracy, loss, seconds in SELECTED
    ]
    best = pooled_best(results)
    keys = {"random": RANDOM, LABELS[PRINTED]: PRINTED, LABELS[DEFAULT]: DEFAULT}
    if best != BATCH and f"batch/{best}" in results:
        keys = {f"random, batch size {best}": f"batch/{best}", **keys}
    for label, key in keys.items():
        seed, outcome = next(iter(results[key].outcomes.items()))
        size = best if key.startswith("batch/") else BATCH
        taken = costs.pass_seconds(results["profile"].outcomes[seed], size) * outcome["samples"]
        for client in np.argsort(-outcome["selected"], kind="stable")[:most].tolist():
            own = outcome["who"] == client
            rows.append(
                {
                    "selection": label,
                    "client": client,
                    "rounds": int(outcome["selected"][client]),
                    "accuracy": float(outcome["local_accuracy"][own].mean()),
                    "loss": float(outcome["local_loss"][own].mean()),
                    "seconds, measured": float(taken[client]),
                    "seconds, virtual": float(outcome["latency"][own].mean()),
                }
            )
    return Table(
        "most-selected",
        "The most selected clients (slides)",
        rows,
        "Accuracy on the client's own samples after training, loss while training, means over the rounds in which it "
        "took part; batch size 16 unless another is named. Measured: a pass on this machine, no transfer; virtual: "
        "a round on the simulated phone.",
    )
