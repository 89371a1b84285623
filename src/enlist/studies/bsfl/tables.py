"""Tables, as pure functions of the results: neighbours, solvers, regret, and where trainings ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from enlist._internal.statistics import Summary
from enlist.studies.bsfl.annealing import ALSA, DEGREES, ONE_SIDED
from enlist.studies.bsfl.experiments import train_key
from enlist.studies.bsfl.figures import BOTH, TEMPERATURES, WALKERS, ends
from enlist.studies.bsfl.rules import at, bound, doubling, horizon, least_loss, score, size_of
from enlist.studies.bsfl.settings import (
    COUNTED,
    IID,
    LARGE,
    METHODS,
    PAPERS,
    RIVALS,
    SMALL,
    TWO_SPEEDS,
)
from enlist.studies.claims import shown
from enlist.studies.measures import EVENNESS, SECONDS_TO_TARGET
from enlist.studies.results import Results
from enlist.studies.rules import Arm, Contrast
from enlist.studies.study import Table, possible


def neighbours(results: Results) -> Table:
    """Neighbours per state."""
    rows = []
    for clients, k in DEGREES:
        group = results[f"degrees/{clients}-{k}"]
        rows.append(
            {
                "K": clients,
                "m": k,
                "SA, m(K−m)": group.each("sa")[0],
                "4(K−m)": 4 * (clients - k),
                "ALSA, mean": shown(group.summary("mean"), 1),
                "ALSA, largest": max(group.each("largest")),
            }
        )
    return Table("degrees", "Neighbours per state", rows, "Random states of drawn instances.")


def solvers(results: Results) -> Table:
    """Races of SA against ALSA: wins, ties, losses, and how far both stay below the optimum."""
    rows = []
    for temperature, said in TEMPERATURES.items():
        for walker in (ALSA, ONE_SIDED):
            group = results[f"race/{temperature}/{walker}"]
            optimum = group.column("optimum")
            for first, last, sizes in ((0, 99, "below 100 clients"), (100, 10**9, "100 clients and more")):
                used = (group.each("sizes")[0][:, 0] >= first) & (group.each("sizes")[0][:, 0] <= last)
                wins, ties, losses = score(group, first, last)
                gaps = {
                    f"{name} below the optimum, %": float(
                        (100.0 * (optimum - group.column(column)) / np.abs(optimum))[:, used].mean()
                    )
                    for name, column in (("SA", "sa"), ("ALSA", "walker"))
                }
                row = {"walker": WALKERS[walker], "at the": said, "sizes": sizes}
                rows.append({**row, "wins": wins, "ties": ties, "losses": losses, **gaps})
    caption = "Best state within equally many steps; the optimum is exact."
    return Table("solvers", "ALSA against SA", rows, caption, highlight=True)


def regret_table(results: Results) -> Table:
    """Regret of everybody, how it grows, and how far the proof reaches."""
    rows = []
    for world in (SMALL, TWO_SPEEDS, LARGE):
        for scenario in BOTH:
            for key in PAPERS[scenario] if world != LARGE else PAPERS[scenario][:2]:
                group = results[f"regret/{world}/{scenario}/{key}"]
                size = size_of(group)
                gap, most = least_loss(group, "pseudo"), float(group.column("most").max())
                rows.append(
                    {
                        "world": f"{world}, {scenario}",
                        "method": METHODS[key].label,
                        "rounds": size[2],
                        "regret": float(at(group, "pseudo", 1.0).mean()),
                        "doubling": shown(doubling(group), 2),
                        f"doubling, losses ≥ {COUNTED:g}": shown(doubling(group, "counted"), 2),
                        "least loss": gap,
                        "horizon": horizon(*size, gap),
                        f"horizon, losses ≥ {COUNTED:g}": horizon(*size, COUNTED),
                        "bound": bound(*size, most, gap),
                        "n·Δmax": size[2] * most,
                    }
                )
    caption = (
        "Doubling is 1 for ln n, 1.41 for √n, 2 for n. The horizon is how many rounds may be lost by the proof of "
        "Theorem 1: beyond the rounds played it says nothing."
    )
    return Table("regret", "Regret, its growth, and how far the proof reaches", rows, caption, highlight=True)


def endings(results: Results) -> Table:
    """Where each training ended."""
    rows = []
    results[train_key("linear", IID, "bsfl")]  # without trainings there is no table
    baselines = {scenario: rivals[-1] for scenario, rivals in RIVALS.items()}
    for key in results.keys("train/"):
        _, task, scenario, method = key.split("/")
        if method not in METHODS:
            continue
        base = train_key(task, scenario, baselines[scenario])
        group, speed = results[key], None
        if task != "linear" and base in results:
            speed = Contrast("greater", SECONDS_TO_TARGET, Arm(key, ""), [Arm(base, "")], 0.1)(results).ours
        accuracy = ends(group, "accuracy") if task != "linear" else None
        rows.append(
            {
                "task": task,
                "data": scenario,
                "method": METHODS[method].label,
                "accuracy": None if accuracy is None else shown(Summary.of(accuracy.tolist()), 4),
                "loss": shown(Summary.of(ends(group, "loss").tolist()), 4),
                "as fast as the baseline": speed,
                "rounds": float(np.mean([len(each["end"]) for each in group.outputs.values()])),
                "Jain": float(np.mean([EVENNESS.of(each, each).number for each in group.outputs.values()])),
                "seeds": len(group.seeds),
            }
        )
    caption = "Means of the last three evaluations. Baselines: random (iid), size-proportional (non-iid)."
    return Table("endings", "After the same virtual time", rows, caption, highlight=True)


def tables(results: Results) -> Sequence[Table]:
    """Every table whose experiments have been run.

    >>> tables(Results({}))
    []
    """
    return possible([neighbours, solvers, regret_table, endings], results)
