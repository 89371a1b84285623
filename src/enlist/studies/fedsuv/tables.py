"""Tables: what was run, rounds to target (2), final accuracy (3), every selector, the process, and the theorems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from enlist._internal.statistics import Summary
from enlist.studies.fedsuv import paper
from enlist.studies.fedsuv.measures import covered_runs, eliminated_share, growth, leaving, misjudged, staying, wrongly
from enlist.studies.fedsuv.measures import selected_mean as mean_of
from enlist.studies.fedsuv.methods import MAIN, PRINTED, RANDOM, title
from enlist.studies.fedsuv.process_causes import value
from enlist.studies.fedsuv.process_figures import called
from enlist.studies.fedsuv.scores import (
    JUDGED,
    LOWER,
    completed,
    finals,
    goal,
    methods,
    name_of,
    speed_up,
    tasks,
    ways,
)
from enlist.studies.fedsuv.settings import NOISES
from enlist.studies.fedsuv.theory import regret_bound, width_bound
from enlist.studies.fedsuv.training_causes import ablated_task
from enlist.studies.results import Group, Results
from enlist.studies.study import Table

PRINTED_AS = {RANDOM: "FedAvg", "safa": "SAFA", "oort": "Oort", "refl": "REFL", PRINTED: "FedSUV"}
"""Our methods that stand in the paper's tables."""
Rows = list[dict[str, Any]]


def setting(results: Results) -> Table:
    """What was run.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> setting(example_results()).rows[0]["clients per round"]
    4
    """
    rows: Rows = []
    for start in tasks(results):
        group = results[f"{start}/{RANDOM}"]
        config = group.settings["config"]
        deadline = config["rounds"]["deadline"]
        meets = f"met by {deadline['percentile']:g} % of the clients"
        rows.append(
            {
                "task": name_of(results, start),
                "clients": int(group.column("selected").shape[1]),
                "clients per round": config["rounds"]["k"],
                "rounds": config["rounds"]["rounds"],
                "learning rate": config["training"]["lr"],
                "epochs": config["training"]["epochs"],
                "batch": config["training"]["batch"],
                "deadline": meets if "percentile" in deadline else "100 s, and 5.5 s per megabyte of the model",
                "methods": len(methods(results, start)),
                "seeds": len(group.seeds),
            }
        )
    return Table(
        "setting",
        "What was run",
        rows,
        "The paper's: 3,500 clients, 20 per round, 100 s, see Table 1.",
    )


def rounds_to_target(results: Results) -> Table:
    """Table 2: rounds and virtual time to the target, and speed-ups over random selection.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> row = rounds_to_target(example_results()).rows[1]
    >>> row["method"], row["seeds"], row["paper: speed-up"]
    ('Oort', 2, 1.12)
    """
    return Table(
        "table-2-rounds",
        f"Rounds and virtual time to {JUDGED:.0%} of random selection's final accuracy (Table 2)",
        [_way(results, start, name, JUDGED) for start in tasks(results) for name in _shown(results, start)],
        "Means over seeds; where some seeds never reach the target ('reached'), their whole run counts, so rounds and "
        "seconds are bounds from below. Speed-ups: geometric mean over seeds against random selection. The paper's "
        "speed-up, in rounds, is the geometric mean of its five tasks.",
        highlight=True,
    )


def rounds_to_lower_target(results: Results) -> Table:
    """The same for a target that is reached sooner.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> rounds_to_lower_target(example_results()).name
    'table-2-lower-target'
    """
    return Table(
        "table-2-lower-target",
        f"Rounds and virtual time to {LOWER:.0%} of random selection's final accuracy",
        [_way(results, start, name, LOWER) for start in tasks(results) for name in _shown(results, start)],
        "As the table before.",
    )


def _way(results: Results, start: str, name: str, part: float) -> dict[str, Any]:
    target = goal(results, start, part)
    found = list(ways(results[f"{start}/{name}"], target).values())
    row: dict[str, Any] = {
        "task": name_of(results, start),
        "method": title(name),
        "target": target,
        "seeds": len(found),
        "reached": sum(way.reached is not None for way in found),
        "rounds": float(np.mean([way.rounds for way in found])),
        "seconds": float(np.mean([way.seconds for way in found])),
    }
    for unit in ("rounds", "seconds"):
        faster = speed_up(results, start, name, unit, part)
        row[f"speed-up, {unit}"] = faster.shown() if name != RANDOM else "1"
    aggregation, own = start.rpartition("/")[2], PRINTED_AS.get(name)
    ratios = [task.speed_up(aggregation, own) for task in paper.TASKS.values()] if own else []
    row["paper: speed-up"] = round(math.exp(float(np.mean(np.log(ratios)))), 2) if ratios else None
    return row


def final_accuracy(results: Results) -> Table:
    """Table 3: final accuracies, and relative gains over random selection.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> final_accuracy(example_results()).rows[0]["method"]
    'FedAvg (random)'
    """
    rows: Rows = []
    for start in tasks(results):
        base = float(finals(results[f"{start}/{RANDOM}"]).mean())
        for name in _shown(results, start):
            values = finals(results[f"{start}/{name}"])
            aggregation, own = start.rpartition("/")[2], PRINTED_AS.get(name)
            place = paper.METHODS.index(own) if own else 0
            printed = [task.accuracy[aggregation] for task in paper.TASKS.values()]
            gains = [100.0 * (each[place] / each[0] - 1.0) for each in printed]
            rows.append(
                {
                    "task": name_of(results, start),
                    "method": title(name),
                    **_flat("accuracy", Summary.of(values.tolist())),
                    "gain, %": 100.0 * (float(values.mean()) / base - 1.0),
                    "paper: mean gain, %": round(float(np.mean(gains)), 1) if own else None,
                    "share in time": float(completed(results[f"{start}/{name}"]).mean()),
                }
            )
    return Table(
        "table-3-accuracy",
        "Final accuracy (Table 3)",
        rows,
        "Mean of the last three evaluations, with its 95 % interval over seeds. Gains are relative, over random "
        "selection; the paper's is the mean of its five tasks.",
        highlight=True,
    )


def every_selector(results: Results) -> Table:
    """All methods in the task in which most were run.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> every_selector(example_results()).columns[:3]
    ['method', 'seeds', 'accuracy']
    """
    start = ablated_task(results)
    rows: Rows = []
    for name in methods(results, start):
        group = results[f"{start}/{name}"]
        asked = group.column("selected")
        rows.append(
            {
                "method": title(name),
                "seeds": len(group.seeds),
                **_flat("accuracy", Summary.of(finals(group).tolist())),
                "speed-up, rounds": speed_up(results, start, name).shown() if name != RANDOM else "1",
                "speed-up, time": speed_up(results, start, name, "seconds").shown() if name != RANDOM else "1",
                "share in time": float(completed(group).mean()),
                "clients ever asked": float((asked > 0).sum(axis=1).mean()),
                "most often asked": float(asked.max(axis=1).mean()),
            }
        )
    rows.sort(key=lambda row: -row["accuracy"])
    return Table(
        "selectors",
        f"Every method ({name_of(results, start)})",
        rows,
        "SAFA with everybody training ran for fewer rounds, as one of them costs as much as 175 of the others.",
    )


def process(results: Results) -> Table:
    """The selection process of every player and noise.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> process(example_results()).columns[:3]
    ['noise', 'player', 'seeds']
    """
    rows: Rows = []
    for noise in NOISES:
        for key in results.keys(f"process/{noise:g}/"):
            group = results[key]
            rows.append(
                {
                    "noise": noise,
                    "player": called(key.rpartition("/")[2]),
                    "seeds": len(group.seeds),
                    **_flat("valid utility", value(results, key)),
                    "regret": float(group.column("regret").sum(axis=1).mean()),
                    "mean validity": mean_of(group, "validity").mean,
                    "mean utility": mean_of(group, "utility").mean,
                    "clients ever asked": float((group.column("selected") > 0).sum(axis=1).mean()),
                }
            )
    rows.sort(key=lambda row: (row["noise"], -row["valid utility"]))
    return Table(
        "process",
        "The selection process",
        rows,
        "Valid utility is the sum of validity times utility as drawn, over the whole run, as a share of the best "
        "possible, over the seeds of each player (comparisons use those that players share); regret is the area that "
        "the best clients cover more than the chosen ones, cumulated.",
    )


def theorems(results: Results) -> Table:
    """What the theorems say of the printed rule, and what holds, for each noise.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> theorems(example_results()).columns
    ['quantity', 'noise 0', 'noise 0.1', 'noise 0.5']
    """
    columns = {f"noise {noise:g}": _held(results[f"process/{noise:g}/{PRINTED}"]) for noise in NOISES}
    names = list(next(iter(columns.values())))
    return Table(
        "theorems",
        "The theorems and the printed rule",
        [{"quantity": name, **{noise: held[name] for noise, held in columns.items()}} for name in names],
        "Means over runs. The limit of elimination is 40 % of the clients; 'must' and 'optimal' are by the truth.",
        highlight=True,
    )


def _held(group: Group) -> dict[str, float]:
    terms, gap = group.column("terms"), group.column("gap")
    bound = [regret_bound(own, group.settings["k"], float(each))[-1] for own, each in zip(terms, gap, strict=True)]
    return {
        "clients": float(group.settings["clients"]),
        "runs": float(len(group.seeds)),
        "5.1: eliminated per run": float(group.column("eliminated")[:, :, 0].sum(axis=1).mean()),
        "5.1: share of those who must that is gone after the round": eliminated_share(group).mean,
        "5.1: share of the eliminated that is not less valid": wrongly(group).mean,
        "5.2: removed by the Pareto step per run": float(group.column("pruned")[:, :, 0].sum(axis=1).mean()),
        "5.2: share of these that is optimal": misjudged(group).mean,
        "5.3: share of runs with everybody covered throughout": covered_runs(group).mean,
        "5.3: share of clients covered in the last round": float(group.column("covered")[:, -1, 2].mean()),
        "5.4: widest rectangle in the last round": float(group.column("width")[:, -1].mean()),
        "5.4: bound on it (at most 1.41 is possible)": float(np.mean([width_bound(own)[-1] for own in terms])),
        "5.5: regret": float(group.column("front").sum(axis=1).mean()),
        "5.5: bound on it, median": float(np.median(bound)),
        "5.5: exponent of growth in the second half": growth(group).mean,
        "6.3: rounds as a candidate, validity below 0.4": leaving(group).mean,
        "6.3: rounds as a candidate, all others": staying(group).mean,
    }


def printed_numbers(results: Results) -> Table:
    """Tables 2 and 3 as the paper prints them.

    >>> len(printed_numbers(Results({})).rows)
    50
    """
    return Table(
        "paper-tables-2-3", "What the paper prints (Tables 2 and 3)", paper.numbers(), "Accuracies in percent."
    )


def printed_checks(results: Results) -> Table:
    """Whether the paper's text and tables agree.

    >>> sum(row["agrees"] for row in printed_checks(Results({})).rows)
    7
    """
    return Table(
        "paper-checks",
        "Does the paper agree with itself?",
        paper.checks(),
        "Statements in the text, checked against Tables 2 and 3.",
    )


def _shown(results: Results, start: str) -> list[str]:
    there = methods(results, start)
    return [name for name in MAIN if name in there]


def _flat(name: str, summary: Summary) -> dict[str, float]:
    return {name: summary.mean, f"{name}, low": summary.low, f"{name}, high": summary.high}
