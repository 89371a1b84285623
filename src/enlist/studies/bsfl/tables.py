"""Tables: degrees, solvers, regret with fits and bounds, endings of trainings, sensitivity, default against print."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from enlist.statistics import Summary
from enlist.studies.bsfl.claims_annealing import missed, wins
from enlist.studies.bsfl.claims_regret import limits
from enlist.studies.bsfl.claims_training import better
from enlist.studies.bsfl.figures_training import TASKS, data_of, methods_of
from enlist.studies.bsfl.fits import at, best_fit, doubling, exponent, fit
from enlist.studies.bsfl.further import HEAD_START
from enlist.studies.bsfl.growth import NOTED, PRESETS, noticeable, read, sizes
from enlist.studies.bsfl.plan import regret_key, train_key
from enlist.studies.bsfl.settings import CIFAR, IID, METHODS, NON_IID, OURS, REGRET_RIVALS, SENSITIVITY, own
from enlist.studies.bsfl.speed import speed_up
from enlist.studies.claims import shown
from enlist.studies.results import Group, Results
from enlist.studies.study import Table


def degrees(results: Results) -> Table:
    """Neighbours per state.

    >>> from enlist.studies.bsfl.example import example_results
    >>> degrees(example_results()).rows[0]["SA, m(K−m)"]
    16
    """
    group = results["degrees"]
    rows = []
    for place, (clients, k) in enumerate(group.each("sizes")[0].tolist()):
        mean = Summary.of(group.column("mean")[:, place].tolist())
        rows.append(
            {
                "K": clients,
                "m": k,
                "SA, m(K−m)": int(group.column("sa")[0, place]),
                "4(K−m)": 4 * (clients - k),
                "ALSA, mean": shown(mean, 1),
                "ALSA, largest": int(group.column("largest")[:, place].max()),
            }
        )
    caption = "Random states of drawn instances. Only the mean is bounded by 4(K−m), not the largest."
    return Table("degrees", "Neighbours per state", rows, caption, highlight=True)


def edges(results: Results) -> Table:
    """What kind of edges SA has beyond ALSA's.

    >>> from enlist.studies.bsfl.example import example_results
    >>> [row["edges"] for row in edges(example_results()).rows]
    ['both ends below the median energy', 'energies within 10 % of the range', 'either']
    """
    group = results["graph"]
    names = {
        "low": "both ends below the median energy",
        "similar": "energies within 10 % of the range",
        "idle": "either",
    }
    rows = [
        {
            "edges": label,
            "share of SA's extra edges": shown(group.summary(f"{name}_extra"), 2),
            "share of ALSA's edges": shown(group.summary(f"{name}_kept"), 2),
        }
        for name, label in names.items()
    ]
    k, clients, kept = (
        group.settings["k"],
        group.settings["clients"],
        np.mean([one.mean() for one in group.each("kept")]),
    )
    caption = (
        f"All states of {k} of {clients} clients, over drawn instances; ALSA keeps {100 * kept:.0f} % of SA's edges."
    )
    return Table("edges", "Edges that ALSA leaves out", rows, caption)


def solvers(results: Results) -> Table:
    """How often ALSA beats SA, and how far both stay below the optimum.

    >>> from enlist.studies.bsfl.example import example_results
    >>> solvers(example_results()).rows[0]["race"]
    'race'
    """
    first = results["race"].key
    rows = [
        {
            "race": key,
            "ALSA beats SA": shown(wins(results[key]), 3),
            "SA below optimum, %": shown(missed(results[key], "sa"), 1),
            "ALSA below optimum, %": shown(missed(results[key], "runner"), 1),
            "instances": int(results[key].column("sa").size),
            "steps": results[key].settings["steps"],
        }
        for key in (first, "race/time", "race/met", "race/cold", "race/one-sided")
        if key in results
    ]
    caption = (
        f"Best state within equally many steps; in race/time SA has {HEAD_START} for one of ALSA's, as it has in equal "
        "time. The optimum is exact."
    )
    return Table("solvers", "SA against ALSA", rows, caption)


def regrets(results: Results) -> Table:
    """Regret of everybody, and how it grows.

    >>> from enlist.studies.bsfl.example import example_results
    >>> [row["best fit"] for row in regrets(example_results()).rows[:2]]
    ['√n', 'n']
    """
    rows: list[dict[str, Any]] = []
    for size in sizes(results):
        for (scenario, reward), rivals in REGRET_RIVALS.items():
            for key in (own(reward), *rivals):
                group = results[regret_key(size, scenario, reward, key)]
                rows.append({"clients": read(size), "data": scenario, "reward": PRESETS[reward], **_regret(group, key)})
    caption = (
        "Doubling is 1 for ln n, 1.41 for √n, 2 for n. Fits have two parameters and leave out the first twentieth."
    )
    return Table("regret", "Regret and its growth", rows, caption)


def _regret(group: Group, key: str) -> dict[str, Any]:
    fits = best_fit(group)
    return {
        "method": METHODS[key].label,
        "rounds": group.settings["rounds"],
        "regret": Summary.of(at(group, "pseudo", 1.0).tolist()).mean,
        "doubling": shown(doubling(group), 2),
        "exponent": shown(exponent(group), 2),
        **{f"R² {shape}": round(value, 4) for shape, value in fits.items()},
        "best fit": max(fits, key=fits.__getitem__),
        "round time": group.summary("round_time").mean,
        "Jain": group.summary("jain").mean,
    }


def theorem(results: Results) -> Table:
    """BSFL's regret beside the logarithmic fit, the noticeable part, and Theorem 1's bound.

    >>> from enlist.studies.bsfl.example import example_results
    >>> theorem(example_results()).rows[0]["regret"] < theorem(example_results()).rows[0]["bound"]
    True
    """
    rows = []
    for size in sizes(results):
        for scenario, reward in REGRET_RIVALS:
            group = results[regret_key(size, scenario, reward, own(reward))]
            intercept, slope, quality = fit(group.column("rounds")[0], group.column("pseudo").mean(axis=0), "ln n")
            limit, trivial = limits(group)
            rows.append(
                {
                    "clients": read(size),
                    "data": scenario,
                    "BSFL": PRESETS[reward],
                    "rounds": group.settings["rounds"],
                    "regret": float(at(group, "pseudo", 1.0).mean()),
                    "fit a + b ln n": f"{intercept:.4g} + {slope:.4g} ln n",
                    "R²": quality,
                    "counted from": NOTED[reward],
                    "doubling of these": shown(noticeable(results, size, scenario, reward), 2),
                    "least loss": float(np.nanmin(group.column("least_gap"))),
                    "bound": limit,
                    "n·Δmax": trivial,
                }
            )
    caption = "The bound takes the least loss of a round for Δmin; n·Δmax is what no policy can exceed."
    return Table("theorem-1", "Theorem 1 against what was measured", rows, caption, highlight=True)


def ending(task: str, results: Results) -> Table:
    """Where each training of a task ended.

    >>> from enlist.studies.bsfl.example import example_results
    >>> ending("cnn", example_results()).rows[0]["method"]
    'BSFL as printed'
    """
    trained = {scenario: methods_of(results, task, scenario) for scenario in (IID, NON_IID)}
    first = next((scenario for scenario, methods in trained.items() if methods), NON_IID)
    rows = [_ending(results, task, scenario, key) for scenario, methods in trained.items() for key in methods]
    caption = "Means over the last tenth of the time, with 95 % intervals" + (
        "; noise alone gives 0.25."
        if task == "linear"
        else ". Speed-up: virtual time of random (iid) or size-proportional selection (non-iid) to the accuracy that "
        "it ends with, over that of the method, paired by seed, both smoothed over a tenth of the time. 'At most': "
        "some seed never gets there, and counts with its whole time."
    )
    model = "cnn" if task == CIFAR else task
    title = f"After the same virtual time: {model} on {data_of(results, task, first)}"
    return Table(task, title, rows, caption, highlight=True)


def _ending(results: Results, task: str, scenario: str, key: str) -> dict[str, Any]:
    group = results[train_key(task, scenario, key)]
    row: dict[str, Any] = {"data": scenario, "method": METHODS[key].label}
    if task != "linear":
        row["accuracy"] = shown(group.summary("end_accuracy"), 4)
    row["loss"] = shown(group.summary("end_loss"), 4)
    if task != "linear":
        row["speed-up"] = speed_up(results, task, scenario, key).shown()
    row |= {"rounds": round(group.summary("rounds").mean), "Jain": group.summary("jain").mean}
    return row


def sensitivity(results: Results) -> Table:
    """What alpha, beta and the bonus scale do.

    >>> from enlist.studies.bsfl.example import example_results
    >>> sensitivity(example_results()).rows[0]["parameter"]
    'alpha'
    """
    rows = []
    for preset, parameters in SENSITIVITY.items():
        for name, values in parameters.items():
            for value in values:
                group = results[f"sensitivity/{preset}/{name.replace('_', '-')}={value:g}"]
                rows.append(
                    {
                        "preset": PRESETS[preset],
                        "parameter": name,
                        "value": value,
                        "round time / deadline": shown(group.summary("round_time")),
                        "Jain": shown(group.summary("jain")),
                        "least selected": group.summary("least_selected").mean,
                        "coverage": group.summary("coverage").mean,
                    }
                )
    return Table("sensitivity", "Sensitivity", rows, "One parameter at a time, the others as in the preset.")


def defaults(results: Results) -> Table:
    """Our default against the print, on seeds that no default was chosen on.

    >>> from enlist.studies.bsfl.example import example_results
    >>> defaults(example_results()).rows[0]["task"]
    'linear, iid, loss'
    """
    rows = [_default(results, "linear", scenario, "loss") for scenario in (IID, NON_IID)]
    for task in TASKS:
        for scenario in (IID, NON_IID):
            if all(train_key(task, scenario, key) in results for key in OURS):
                rows += [_default(results, task, scenario, name) for name in ("accuracy", "loss")]
    caption = (
        "Paired by seed, so that more is better (a loss with its sign turned). Nothing was tuned on seeds from 600 on."
    )
    return Table("defaults", "Our default against BSFL as printed", rows, caption, highlight=True)


def _default(results: Results, task: str, scenario: str, name: str) -> dict[str, Any]:
    printed, default = OURS
    gain = better(results, task, scenario, default, printed, name)
    certain = gain.low > 0 or gain.high < 0
    winner = ("default" if gain.mean > 0 else "printed") if certain else "undecided"
    return {"task": f"{task}, {scenario}, {name}", "gain of the default": shown(gain, 4, sign=True), "better": winner}


ENDINGS = [functools.partial(ending, task) for task in ("linear", *TASKS)]
