"""Figures of the selection process: who is a candidate how long, and the objective of the paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from enlist._internal.statistics import Summary
from enlist._internal.typing import FloatArray, IntArray
from enlist.errors import unknown
from enlist.report.charts import PALETTE
from enlist.studies.charts import GREY, Look, bands, curves, intervals, within
from enlist.studies.fedsuv.measures import CLEAN
from enlist.studies.fedsuv.methods import EVERYBODY, OURS, PRINTED
from enlist.studies.fedsuv.process import BANDS
from enlist.studies.fedsuv.settings import NOISES
from enlist.studies.results import Group, Results
from enlist.studies.study import Figure

Rows = list[dict[str, Any]]
SHOWN = ("random", "oort", "cu-cs", "multiplied", PRINTED, OURS)
COLOURS = {
    "random": GREY,
    "Oort": PALETTE[1],
    "CU-CS": PALETTE[3],
    "validity × utility": PALETTE[2],
    "FedSUV, as printed": PALETTE[5],
    "FedSUV, our default": PALETTE[0],
}


def called(name: str) -> str:
    """What a player is called.

    >>> called("oort"), called("e3cs"), called("fedsuv-zero")
    ('Oort', 'e3cs', 'FedSUV, late counts 0')
    """
    return {"oort": "Oort", "cu-cs": "CU-CS"}.get(name) or (EVERYBODY[name].title if name in _OURS else name)


_OURS = {name for name, method in EVERYBODY.items() if method.selector.startswith("fedsuv")}


def candidates(results: Results) -> Figure:
    """How many clients of each band of validity are still candidates.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> candidates(example_results()).name
    'candidates'
    """
    rows: Rows = []
    names = [f"{band / BANDS:.1f} to {(band + 1) / BANDS:.1f}" for band in range(BANDS)]
    for noise in NOISES:
        group = results[f"process/{noise:g}/{PRINTED}"]
        active = group.column("active")
        for band, name in enumerate(names):
            most = np.array([_sizes(outcome["validity"])[band] for outcome in group.outcomes.values()])
            left = active[:, :, band] / np.maximum(most, 1)[:, None]
            rows += within(bands(left, series=name, panel=f"noise {noise:g}"), 0.0, 1.0)
    ramp = ("#7f1d1d", "#d1495b", "#e8a33d", "#4f9dbf", "#0b4f6c")
    look = Look(
        "round", "share still candidates", 250, 220, dict(zip(names, ramp, strict=True)), zero=True, legend="validity"
    )
    return Figure(
        "candidates",
        "Who leaves the candidate set, and when",
        curves(rows, "Share of the clients of each validity that are still candidates", look),
        "FedSUV as printed. Elimination stops when 40 % of the clients are gone; who leaves later leaves by the Pareto "
        "step.",
    )


def objective(results: Results) -> Figure:
    """The paper's objective over rounds, as a share of its optimum.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> objective(example_results()).name
    'objective'
    """
    rows: Rows = []
    for noise in NOISES:
        for name in SHOWN:
            group = results[f"process/{noise:g}/{name}"]
            rows += within(bands(smoothed(shares(group)), series=called(name), panel=f"noise {noise:g}"), 0.0, 1.2)
    look = Look("round", "share of the optimum", 260, 220, COLOURS, zero=True, columns=6)
    return Figure(
        "objective",
        "Valid utility per round",
        curves(rows, "Sum of validity times utility in each round, as a share of the best possible", look, rule=1.0),
        "Mean over the last five rounds, with its 95 % interval over seeds. The best possible are the 20 clients with "
        "the largest validity times utility.",
        highlight=True,
    )


def objective_of_all(results: Results) -> Figure:
    """The objective of every selector over the whole run.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> objective_of_all(example_results()).name
    'objective-of-all'
    """
    names = [key.removeprefix(CLEAN) for key in results.keys(CLEAN)]
    names.sort(key=lambda name: -float(shares(results[f"{CLEAN}{name}"]).mean()))
    if not names:
        raise unknown("finished experiment", CLEAN, results.groups)
    rows: Rows = []
    for name in names:
        for noise in NOISES:
            key = f"process/{noise:g}/{name}"
            if key in results:
                summary = Summary.of(shares(results[key]).mean(axis=1).tolist())
                rows.append({"name": called(name), "series": f"noise {noise:g}", **_flat(summary)})
    look = Look(
        x="share of the optimum",
        width=430,
        colours={"noise 0": PALETTE[0], "noise 0.1": PALETTE[1], "noise 0.5": GREY},
        zero=True,
    )
    return Figure(
        "objective-of-all",
        "Cumulated valid utility of every selector",
        intervals(rows, "Valid utility over the whole run, as a share of the best possible", look),
        "Mean over seeds with its 95 % interval, best first. Selectors that try everybody once before they choose "
        "(BSFL, CS-UCB and others) do so to the end: there are fewer requests than clients.",
    )


def shares(group: Group) -> FloatArray:
    """(seeds, rounds) the objective of each round as a share of the best possible.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> shares(example_results()["process/0/oort"]).shape
    (1, 9)
    """
    return np.asarray(group.column("valued") / group.column("best")[:, None])


def smoothed(values: FloatArray, window: int = 5) -> FloatArray:
    """Means over the last `window` rounds, over fewer at the start.

    >>> smoothed(np.array([[0.0, 1.0, 2.0]]), window=2)
    array([[0. , 0.5, 1.5]])
    """
    sums = np.cumsum(values, axis=1)
    sums[:, window:] = sums[:, window:] - np.cumsum(values, axis=1)[:, :-window]
    return np.asarray(sums / np.minimum(np.arange(1, values.shape[1] + 1), window))


def _sizes(validity: FloatArray) -> IntArray:
    return np.bincount(np.minimum((validity * BANDS).astype(np.int64), BANDS - 1), minlength=BANDS)


def _flat(summary: Summary) -> dict[str, float]:
    low, high = (summary.mean, summary.mean) if math.isnan(summary.low) else (summary.low, summary.high)
    return {"mean": summary.mean, "low": low, "high": high}


FIGURES = (candidates, objective, objective_of_all)
"""In the order of the page."""
