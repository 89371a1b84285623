"""Figures of what the theorems say: coverage (5.3), widths (5.4) and regret (5.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from enlist.report.charts import PALETTE
from enlist.studies.charts import GREY, Look, bands, curves, within
from enlist.studies.fedsuv.measures import CLEAN
from enlist.studies.fedsuv.methods import PRINTED
from enlist.studies.fedsuv.paper import DELTA
from enlist.studies.fedsuv.process_figures import COLOURS, SHOWN, called
from enlist.studies.fedsuv.settings import NOISES
from enlist.studies.fedsuv.theory import DIAGONAL, regret_bound, width_bound
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Results
from enlist.studies.study import Figure

Rows = list[dict[str, Any]]


def coverage(results: Results) -> Figure:
    """How many clients have their truth inside their rectangle (Theorem 5.3).

    >>> from enlist.studies.fedsuv.example import example_results
    >>> coverage(example_results()).name
    'coverage'
    """
    rows: Rows = []
    for noise in NOISES:
        covered = results[f"process/{noise:g}/{PRINTED}"].column("covered")
        for place, name in enumerate(("validity", "utility", "both")):
            rows += within(bands(covered[:, :, place], series=name, panel=f"noise {noise:g}"), 0.0, 1.0)
    look = Look(
        "round", "share of the clients", 260, 220, {"validity": PALETTE[0], "utility": PALETTE[1], "both": "#222"}
    )
    return Figure(
        "coverage",
        "Clients whose truth lies in their rectangle (Theorem 5.3)",
        curves(rows, "Share of the clients whose true value lies in its interval", look, rule=1.0),
        f"FedSUV as printed. The theorem wants all of them (dashed) in every round, in {1 - DELTA:.0%} of the runs.",
    )


def widths(results: Results) -> Figure:
    """The largest rectangle against the bound of Theorem 5.4.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> widths(example_results()).name
    'width'
    """
    group = results[f"{CLEAN}{PRINTED}"]
    bound = np.array([width_bound(terms) for terms in group.column("terms")])
    rows = bands(group.column("width"), series="widest candidate")
    rows += bands(bound, series="bound as printed") + bands(2.0 * bound, series="bound with both sides counted")
    rows += bands(np.full((1, bound.shape[1]), DIAGONAL), series="diagonal of the unit square")
    colours = {
        "widest candidate": PALETTE[5],
        "bound as printed": "#222",
        "bound with both sides counted": GREY,
        "diagonal of the unit square": PALETTE[3],
    }
    look = Look("round", "length of the diagonal", 430, 260, colours, zero=True, columns=2)
    return Figure(
        "width",
        "Width of the widest rectangle against its bound (Theorem 5.4)",
        curves(rows, "The widest rectangle and the bound on it", look),
        "A bound above the diagonal of the unit square says nothing: no rectangle can be wider. The proof takes half "
        "the width of an interval for the whole.",
    )


def regret(results: Results) -> Figure:
    """Cumulated hypervolume regret of several selectors.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> regret(example_results()).name
    'regret'
    """
    panels = []
    for noise in NOISES:
        rows: Rows = []
        for name in SHOWN:
            values = results[f"process/{noise:g}/{name}"].column("regret").cumsum(axis=1)
            rows += along(np.arange(1.0, values.shape[1] + 1), values, called(name))
        panels.append(Panel(f"noise {noise:g}", rows, "round", "cumulated regret"))
    return Figure(
        "regret",
        "Hypervolume regret",
        side_by_side(
            panels, "Area that the best 20 clients cover more than the chosen ones, cumulated", COLOURS, 3, 260, 220
        ),
        "Mean over seeds with its 95 % interval.",
    )


def against_bound(results: Results) -> Figure:
    """Regret against the bound of Theorem 5.5, on a logarithmic axis.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> against_bound(example_results()).name
    'regret-bound'
    """
    group = results[f"{CLEAN}{PRINTED}"]
    lost, k, gaps = group.column("front").cumsum(axis=1), group.settings["k"], group.column("gap")
    bound = np.array([regret_bound(terms, k, gap) for terms, gap in zip(group.column("terms"), gaps, strict=True)])
    most = np.arange(1.0, lost.shape[1] + 1)
    lines = {"FedSUV, as printed": lost, "largest possible regret": most[None], "bound of Theorem 5.5": bound}
    rows: Rows = []
    for name, values in lines.items():
        # Seeds differ by orders of magnitude in the smallest gap, so the median stands for all of them.
        rows += bands(np.log10(np.maximum(np.median(values, axis=0, keepdims=True), 1e-9)), series=name)
    colours = {"FedSUV, as printed": PALETTE[5], "largest possible regret": GREY, "bound of Theorem 5.5": "#222"}
    look = Look("round", "cumulated regret, power of ten", 430, 260, colours, columns=3)
    return Figure(
        "regret-bound",
        "Regret against the bound of Theorem 5.5",
        curves(rows, "Regret against the whole front, and the bound on it", look),
        "Median over seeds; 2 stands for 100. No policy can lose more than 1 per round. The bound divides by the "
        f"square of the smallest gap between a client and a better one, which is {float(np.median(gaps)):.1g} here.",
    )


FIGURES = (coverage, widths, regret, against_bound)
"""In the order of the page."""
