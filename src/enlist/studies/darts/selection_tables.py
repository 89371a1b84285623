"""Tables of the setting, of UCB against random selection, and of what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enlist.statistics import Summary
from enlist.studies.claims import shown
from enlist.studies.darts import costs, scores
from enlist.studies.darts.bounded import shares
from enlist.studies.darts.rules import scaled
from enlist.studies.darts.selection_figures import REPORTED, shown_rounds
from enlist.studies.darts.settings import (
    ALPHA,
    BATCH,
    CLIENTS,
    LABELS,
    METHODS,
    RANDOM,
    ROTATION,
    SOURCES,
    K,
)
from enlist.studies.results import Results
from enlist.studies.study import Table


def setting(results: Results) -> Table:
    """What was run, beside what the report ran.

    >>> from enlist.studies.darts.example import example_results
    >>> setting(example_results()).rows[0]["here"][:32]
    'the 1,797 digits of scikit-learn'
    """
    config = results[RANDOM].settings["config"]
    source = next(each for each in SOURCES.values() if each.model == config["model"])
    model = config["model"]
    shape = {name: value for name, value in model.items() if name != "name"}
    network = f"{model['name']} {', '.join(f'{name} {value}' for name, value in shape.items())}".strip()
    training = config["training"]
    rows = [
        ("data", source.about, "CIFAR-10"),
        ("clients", f"{CLIENTS}, Dirichlet {ALPHA:g}, at least 10 samples each", f"{CLIENTS}, Dirichlet {ALPHA:g}"),
        ("per round", f"{K} clients, one epoch, SGD with learning rate {training['lr']:g}", f"{K} clients"),
        (
            "batch size",
            f"{BATCH} for selectors; {_sizes(results)} for the profile",
            f"{BATCH}; the others are not named",
        ),
        ("network", network, "not named"),
        ("rounds", str(config["rounds"]["rounds"]), "100, of which 20 are shown"),
        ("populations", str(len(results[RANDOM].seeds)), "1"),
        (
            "reward",
            "gain on validation samples that the server keeps (a tenth of all)",
            "gain in the server's validation accuracy",
        ),
        ("UCB as printed", "c = √2, ε = 0.1, 5 random rounds, reward (gain + 1) / 2", "the same, scaling not named"),
        ("UCB, our default", "c = 0.3, reward scaled between its 5 % and 95 % quantiles", "–"),
    ]
    return Table(
        "setting",
        "What was run",
        [{"what": name, "here": here, "in the report": there} for name, here, there in rows],
        highlight=True,
    )


def at_rounds(results: Results) -> Table:
    """Accuracy after some rounds, and the lead over random, beside the report's.

    >>> from enlist.studies.darts.example import example_results
    >>> [(row["round"], row["report, %"]) for row in at_rounds(example_results()).rows][:2]
    [(1, 77.81), (1, 89.81)]
    """
    rows = []
    for number in shown_rounds(results):
        single, several = scores.accuracy_at(number), scores.smoothed_at(number)
        for key, label in LABELS.items():
            reported = REPORTED.get(key, {}).get(number)
            rows.append(
                {
                    "round": number,
                    "selection": label,
                    "accuracy, %": _percent(scores.mean(results, key, single)),
                    "lead over random, points": _lead(results, key, single),
                    "report, %": reported and round(100 * reported, 2),
                    "over five rounds, %": _percent(scores.mean(results, key, several)),
                    "lead over five rounds, points": _lead(results, key, several),
                }
            )
    return Table(
        "rounds",
        "Accuracy after rounds 1, 10, 20 and 100 (Table 2)",
        rows,
        f"Test accuracy of the common model, with 95 % intervals over {len(results[RANDOM].seeds)} populations, paired "
        "for leads. Single rounds jump by several points: beside each stands the mean of the five rounds up to it. The "
        "result folder has all rounds (tables/curves.csv).",
        highlight=True,
    )


def methods(results: Results) -> Table:
    """Benefits and costs of each way to select.

    >>> from enlist.studies.darts.example import example_results
    >>> [row["selection"] for row in methods(example_results()).rows][:3]
    ['random', 'UCB as printed', 'UCB, our default']
    """
    others = {ROTATION: "rotation, no rewards", "further/oort": "Oort"}
    keys = {**LABELS, **{key: label for key, label in others.items() if key in results}}
    rows = []
    for key, label in keys.items():
        aims = [(own, scores.target(base)) for own, base in scores.pairs(results, key, RANDOM)]
        spent = [scores.spent(own, aim) for own, aim in aims]
        count = sum(scores.reached(own, aim) is not None for own, aim in aims)
        rounds, seconds, samples = (
            Summary.of([each[name] for each in spent]) for name in ("rounds", "seconds", "samples")
        )
        row: dict[str, Any] = {
            "selection": label,
            "final accuracy, %": _percent(scores.mean(results, key, scores.final)),
            "reached": f"{count} of {len(aims)}",
            "rounds": shown(rounds, 1),
            "speed-up in rounds": shown(scores.saving(results, key, "rounds"), 2),
            "virtual minutes": shown(scaled(seconds, 1 / 60), 0),
            "1,000 samples": shown(scaled(samples, 1 / 1_000), 1),
            "jump, points": _percent(scores.mean(results, key, scores.jump)),
            "Jain": shown(scores.mean(results, key, scores.evenness, 1.0), 2),
            "server ms": _server(results, key),
        }
        rows.append(row)
    return Table(
        "methods",
        "Benefits and costs",
        rows,
        f"Means with 95 % intervals over {len(results[RANDOM].seeds)} populations. Rounds, virtual time and samples: "
        "until the mean of five evaluations reaches nine tenths of random's final accuracy on the population (the "
        "whole run where it never does). Jump: mean change of accuracy from round to round. Jain: evenness of "
        "selection, 1 for all alike. The rotation is UCB with a bonus so wide that rewards have no say.",
        highlight=True,
    )


def server_cost(results: Results) -> Table:
    """Milliseconds of the server per round, by number of clients.

    >>> from enlist.studies.darts.example import example_results
    >>> list(server_cost(example_results()).rows[0])
    ['work', '12 clients', '1,000 clients']
    """
    group = results["server"]
    counts = [f"{count:,} clients" for count in group.settings["clients"]]
    rows = [
        {"work": f"choose and learn: {LABELS[key]}"}
        | {count: shown(scores.mean(results, "server", costs.choosing(name, at)), 2) for at, count in enumerate(counts)}
        for key, name in METHODS.items()
    ]
    evaluating = shown(scores.mean(results, "server", costs.evaluating), 2)
    rows.append({"work": "evaluate the model for the reward", **dict.fromkeys(counts, evaluating)})
    return Table(
        "server",
        "Milliseconds of the server per round",
        rows,
        f"Medians over rounds, means with 95 % intervals over {len(group.seeds)} populations; one core of this "
        "machine.",
    )


def curves(results: Results) -> Table:
    """The curves of Fig. 6 as numbers.

    >>> from enlist.studies.darts.example import example_results
    >>> len(curves(example_results()).rows)
    60
    """
    rows = [
        {"selection": LABELS[key], "round": row["at"], "accuracy": row["mean"], "low": row["low"], "high": row["high"]}
        for key in METHODS
        for row in shares(results[key].column("accuracy"))
    ]
    return Table("curves", "Accuracy over rounds (Fig. 6)", rows, on_page=False)


def _server(results: Results, key: str) -> str | None:
    if key not in METHODS or "server" not in results:
        return None
    choosing, rewarded = costs.choosing(METHODS[key]), key != RANDOM
    found = scores.mean(results, "server", lambda each: choosing(each) + (costs.evaluating(each) if rewarded else 0.0))
    return shown(found, 2)


def _lead(results: Results, key: str, score: scores.Score) -> str | None:
    return None if key == RANDOM else _percent(scores.gap(results, key, RANDOM, score), sign=True)


def _percent(found: Summary, sign: bool = False) -> str:
    return shown(scaled(found, 100.0), 1, sign)


def _sizes(results: Results) -> str:
    sizes: Sequence[int] = results["profile"].settings["sizes"]
    return ", ".join(map(str, sizes))
