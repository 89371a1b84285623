"""Tables: those of the report (Tables 1 and 2) and of the slides, the profile, and benefits and costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from enlist._internal.statistics import Summary
from enlist.studies.claims import shown
from enlist.studies.darts.experiments import batch_arm, server_arm
from enlist.studies.darts.figures import populations
from enlist.studies.darts.measures import JUMP, SAMPLES_TO_TARGET, accuracy_after, by_size, pass_seconds, profile_of
from enlist.studies.darts.rules import PURE
from enlist.studies.darts.settings import (
    AGAIN,
    BATCH,
    DEFAULT,
    METHODS,
    NEEDED,
    OORT,
    PRINTED,
    RANDOM,
    REPORT_SAMPLES,
    REPORTED,
    SHOWN,
    STRETCHED,
)
from enlist.studies.measures import EVENNESS, FINAL_ACCURACY, ROUNDS_TO_TARGET, SECONDS_TO_TARGET, Measure
from enlist.studies.results import Results
from enlist.studies.rules import Arm, Contrast, PairedDifference
from enlist.studies.study import Table, possible

LISTED = (
    (1, 4_607, "0 (60 %), 5 (21 %)"),
    (2, 4_632, "1 (88 %)"),
    (3, 7_513, "6 (66 %), 2 (34 %)"),
    (4, 240, "9 (48 %), 5 (33 %)"),
    (7, 4_668, "7 (100 %)"),
    (9, 4_395, "8 (100 %)"),
)
"""Client, samples and dominant classes: the report's Table 1."""
SELECTED = (
    (11, 7, 0.8596, 0.6283, 0.1070),
    (6, 2, 0.8359, 0.5642, 0.0901),
    (4, 2, 0.7953, 0.8506, 0.1242),
    (8, 2, 0.7906, 1.0312, 0.0921),
    (10, 2, 0.7486, 1.5690, 0.0902),
)
"""Client, rounds, accuracy, loss and seconds: the slides' most selected clients at batch size 16."""
SAVED = {"rounds": ROUNDS_TO_TARGET, "samples": SAMPLES_TO_TARGET, "virtual time": SECONDS_TO_TARGET}


def tables(results: Results) -> Sequence[Table]:
    """Every table whose experiments have been run.

    >>> tables(Results({}))
    []
    """
    return possible([_holdings, _batch_sizes, _rounds, _methods, _most_selected, _server], results)


def _holdings(results: Results) -> Table:
    """Samples and dominant classes of the clients of the first population, and those that the report lists."""
    seed, first = next(iter(results[RANDOM.key].outputs.items()))
    counts, names = first["counts"], first["class_names"]
    sizes = counts.sum(axis=1)
    rows: list[dict[str, Any]] = [
        {
            "where": "here",
            "client": client,
            "samples": int(sizes[client]),
            "share": float(sizes[client] / sizes.sum()),
            "dominant classes": _dominant(counts[client], names),
            "one class": bool(counts[client].max() >= PURE * sizes[client]),
        }
        for client in range(len(counts))
    ]
    rows += [
        {"where": "report", "client": client, "samples": samples, "share": samples / REPORT_SAMPLES}
        | {"dominant classes": classes, "one class": "100 %" in classes}
        for client, samples, classes in LISTED
    ]
    return Table("distribution", "Who holds what (Table 1)", rows, f"The population of seed {seed}, and the report's.")


def _batch_sizes(results: Results) -> Table:
    """The profile, the score that decides, and how accurate the common model becomes."""
    from enlist.simulation.profile import scores

    outputs = list(results["profile"].outputs.values())
    every, found = profile_of(outputs), [by_size(output) for output in outputs]
    chosen = [profile_of([output]).best for output in outputs]
    totals = scores(every.rows, every.weights).sum(axis=1)
    columns = {
        "ms per mini-batch": ("time", 1e3, 3),
        "its deviation": ("time deviation", 1e3, 3),
        "µs per sample": ("per sample", 1e6, 1),
        "kB per step": ("memory", 1e-3, 0),
        "own accuracy, %": ("accuracy", 100.0, 1),
    }
    rows = []
    for at, size in enumerate(found[0]["size"].astype(int).tolist()):
        row: dict[str, Any] = {"batch size": size}
        for title, (name, scale, digits) in columns.items():
            row[title] = shown(Summary.of([scale * float(each[name][at]) for each in found]), digits)
        row |= {"score": float(totals[at]), "chosen": size == every.best}
        row["in populations"] = f"{chosen.count(size)} of {len(chosen)}"
        for arm in (RANDOM, PRINTED):
            row[f"{arm.name}, final accuracy, %"] = _mean(results, FINAL_ACCURACY, batch_arm(arm, size))
        rows.append(row)
    return Table(
        "batch-sizes",
        "The mini-batch profile and the choice of a batch size",
        rows,
        f"Means with 95 % intervals over {populations(results, 'profile')}; the score is that of all clients together. "
        "Own accuracy: of each client alone on its own samples. Final accuracy: of the common model on the test set, "
        "which has no part in the score.",
        highlight=True,
    )


def _rounds(results: Results) -> Table:
    """Accuracy after some rounds, and the lead over random, beside the report's (Table 2)."""
    last = results[RANDOM.key].column("accuracy").shape[1]
    rows = [
        {
            "round": number,
            "selection": arm.name,
            "accuracy, %": _mean(results, accuracy_after(number), arm),
            "lead over random, points": _lead(results, accuracy_after(number), arm),
            "report, %": (found := REPORTED.get(arm, {}).get(number)) and round(100 * found, 2),
        }
        for number in sorted({each for each in (1, 10, 20) if each < last} | {last})
        for arm in (RANDOM, PRINTED, STRETCHED, DEFAULT, AGAIN)
        if arm.key in results
    ]
    return Table(
        "rounds",
        "Accuracy after some rounds (Table 2)",
        rows,
        f"Test accuracy of the common model, with 95 % intervals over {populations(results, RANDOM.key)}, paired for "
        "leads. The first rounds of UCB are random, with random's draws.",
        highlight=True,
    )


def _methods(results: Results) -> Table:
    """Benefits and costs of each way to select."""
    rows = []
    for arm in [*METHODS, *NEEDED, *SHOWN, OORT]:
        if arm.key not in results:
            continue
        compared = {name: _against_random(results, measure, arm) for name, measure in SAVED.items()}
        reached = [not opens[1] for opens in compared["rounds"].opens]
        rows.append(
            {
                "selection": arm.name,
                "final accuracy, %": _mean(results, FINAL_ACCURACY, arm),
                "target reached": f"{sum(reached)} of {len(reached)}",
                **{f"{name}, random's over its": each.shown(2) for name, each in compared.items()},
                "jump, points": _mean(results, JUMP, arm),
                "Jain": _mean(results, EVENNESS, arm),
            }
        )
    return Table(
        "methods",
        "Benefits and costs",
        rows,
        f"Means with 95 % intervals over {populations(results, RANDOM.key)}. Rounds, samples and virtual time until "
        "the mean of five evaluations reaches nine tenths of random's final accuracy on the population. Jump: mean "
        "change of accuracy from round to round. Jain: evenness of selection, 1 for all alike.",
        highlight=True,
    )


def _most_selected(results: Results, most: int = 5) -> Table:
    """The most selected clients of the first population, and the slides'."""
    names = ("client", "rounds", "accuracy", "loss", "seconds")
    rows: list[dict[str, Any]] = [{"selection": "slides", **dict(zip(names, row, strict=True))} for row in SELECTED]
    for arm in (RANDOM, PRINTED):
        shared = results.common([arm.key, "profile"])
        seed, output = next(iter(shared[arm.key].outputs.items()))
        seconds = pass_seconds(shared["profile"].outputs[seed], BATCH) * output["samples"]
        for client in np.argsort(-output["selected"], kind="stable")[:most].tolist():
            own = output["who"] == client
            accuracy, loss = (float(output[name][own].mean()) for name in ("local_accuracy", "local_loss"))
            values = (client, int(output["selected"][client]), accuracy, loss, float(seconds[client]))
            rows.append({"selection": arm.name, **dict(zip(names, values, strict=True))})
    return Table(
        "most-selected",
        f"The most selected clients at batch size {BATCH} (slides)",
        rows,
        "Accuracy on the client's own samples after training, loss while training, means over the rounds in which it "
        "took part; seconds of a pass over its samples on this machine. The slides do not name the selection.",
        highlight=True,
    )


def _server(results: Results) -> Table:
    """Milliseconds of the server per round, by number of clients."""
    rows = []
    for arm in (RANDOM, PRINTED, DEFAULT):
        group = results[server_arm(arm).key]
        choosing = group.column("choosing")
        counts = [f"{count:,} clients" for count in group.settings["clients"]]
        columns = {name: shown(Summary.of(choosing[:, at].tolist()), 3) for at, name in enumerate(counts)}
        rows.append({"selection": arm.name, **columns, "evaluation": shown(group.summary("evaluation"), 2)})
    return Table(
        "server",
        "Milliseconds of the server per round",
        rows,
        "To choose and learn, by the number of clients, and to evaluate the model for the reward; medians over rounds, "
        f"means with 95 % intervals over {populations(results, server_arm(RANDOM).key)}.",
    )


def _against_random(results: Results, measure: Measure, arm: Arm) -> PairedDifference:
    return Contrast("greater", measure, arm, [RANDOM], 0.0).compare(results, arm, RANDOM)


def _lead(results: Results, measure: Measure, arm: Arm) -> str | None:
    found = _against_random(results, measure, arm).summary
    return None if arm is RANDOM else shown(found, measure.digits, sign=True)


def _mean(results: Results, measure: Measure, arm: Arm) -> str | None:
    if arm.key not in results:
        return None
    values = [measure.scale * measure.of(each, each).number for each in results[arm.key].outputs.values()]
    return shown(Summary.of(values), measure.digits)


def _dominant(counts: Any, names: Sequence[str]) -> str:
    """Classes with a fifth of the samples or more, the largest first."""
    part = counts / counts.sum()
    order = [label for label in np.argsort(-part, kind="stable") if part[label] >= 0.2]
    return ", ".join(f"{names[label]} ({part[label]:.0%})".replace("%", " %") for label in order)
