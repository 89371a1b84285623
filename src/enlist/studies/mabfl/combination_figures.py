"""Figures of combinations held fixed: learning curves, increases, residuals, peaks (8 to 14, 21 and 22)."""

from __future__ import annotations

from typing import Any

import numpy as np

from enlist.report.charts import PALETTE
from enlist.studies.charts import GREY, Look, bands, curves, lines, points
from enlist.studies.mabfl.keys import ALL, ALONE, BEST, CODES, PAIRS, SECOND, fixed
from enlist.studies.mabfl.scores import increases, normal_quantiles, residuals
from enlist.studies.results import Results
from enlist.studies.study import Figure, possible

COLOURS = dict(zip((BEST, SECOND, "0101", ALONE, ALL), (*PALETTE[:3], GREY, PALETTE[4]), strict=True))
ROUND, TEST, RISE = "round", "test AUC", "increase of validation AUC"
Rows = list[dict[str, Any]]


def combination_figures(results: Results) -> list[Figure]:
    """Figures of combinations held fixed, those whose experiments have been run.

    >>> from enlist.studies.mabfl.example import example_results
    >>> [figure.name for figure in combination_figures(example_results())][:3]
    ['08-learning-curves', '09-increases', '10-11-residuals']
    """
    return possible([_learning, _increases, _residuals, _measures, _peak, _quantiles], results)


def _learning(results: Results) -> Figure:
    rows: Rows = []
    for epochs in (4, 6):
        for code in CODES:
            values = results[fixed(code, epochs, "one")].column("validation")
            rows += bands(values, series=code, panel=f"{epochs} epochs per round")
    look = Look(ROUND, "validation AUC", width=400, height=280, colours=COLOURS)
    return Figure(
        "08-learning-curves",
        "Learning curves of fixed combinations",
        curves(rows, "Learning curves of fixed combinations, one data set", look),
        "As Figure 8: mean over experiments and 95 % interval; 0100 is the target alone, 1111 federated averaging.",
        highlight=True,
    )


def _increases(results: Results) -> Figure:
    rows: Rows = []
    for epochs in (4, 6):
        for code in CODES:
            rows += bands(increases(results, code, epochs, "one"), series=code, panel=f"{epochs} epochs per round")
    look = Look(ROUND, RISE, width=400, height=280, colours=COLOURS)
    return Figure(
        "09-increases",
        "Increases over the target's own model",
        curves(rows, "Increases over the target's own model, one data set", look, rule=0.0),
        "As Figure 9: the aggregated model against the target's own of the same round, mean and 95 % interval.",
    )


def _residuals(results: Results) -> Figure:
    rows: Rows = []
    over: Rows = []
    for epochs in (4, 6):
        for code in CODES:
            left = residuals(results[fixed(code, epochs, "one")].column("validation"))
            place = {"series": code, "panel": code, "row": f"{epochs} epochs"}
            rows += [{**row, "value": row["mean"]} for row in lines(left, **place)]
            half = 1.96 * float(left.std())
            over += [{**place, "at": at + 1, "mean": 0.0, "low": -half, "high": half} for at in range(left.shape[1])]
    look = Look(ROUND, "residual", width=165, height=120, colours=COLOURS, named=False)
    return Figure(
        "10-11-residuals",
        "Residuals of learning curves",
        points(rows, "Residuals of learning curves around their mean, one data set", look, over),
        "As Figures 10 and 11: a dot per experiment and round; the band holds 95 % if residuals are normal.",
    )


def _quantiles(results: Results) -> Figure:
    rows: Rows = []
    over: Rows = []
    for epochs in (4, 6):
        for code in CODES:
            left = np.sort(residuals(results[fixed(code, epochs, "one")].column("validation")).ravel())
            expected = normal_quantiles(len(left))
            place = {"series": code, "panel": code, "row": f"{epochs} epochs"}
            rows += [{**place, "at": float(x), "value": float(y)} for x, y in zip(expected, left, strict=True)]
            over += [{**place, "at": float(x), "mean": float(x * left.std())} for x in (expected[0], expected[-1])]
    look = Look("normal quantile", "residual", width=165, height=120, colours=COLOURS, named=False)
    return Figure(
        "21-22-normal-quantiles",
        "QQ plots of the residuals",
        points(rows, "Residuals against normal quantiles, one data set", look, over),
        "As Figures 21 and 22: on the line if residuals are normal.",
    )


def _measures(results: Results) -> Figure:
    rows: Rows = []
    over: Rows = []
    shown = (*PAIRS, ALL)
    for against, name in (("local", "against the local model"), ("previous", "against the last round")):
        for code in shown:
            values = increases(results, code, 6, "one", against)
            place = {"series": code, "panel": code, "row": name}
            rows += [{**row, "value": row["mean"]} for row in lines(values, **place)]
            over += bands(values, **place)
    look = Look(ROUND, "increase", width=200, height=150, colours=COLOURS, named=False)
    return Figure(
        "13-measures",
        "Two ways to measure an increase",
        points(rows, "Two ways to measure an increase, 6 epochs, one data set", look, over),
        "As Figure 13: a dot per experiment and round, line and band the mean and its 95 % interval.",
        highlight=True,
    )


def _peak(results: Results) -> Figure:
    values = results[fixed(SECOND, 6, "one")].column("test")
    look = Look(ROUND, TEST, width=460, height=260, colours=COLOURS)
    rows = bands(values, series=SECOND)
    return Figure(
        "14-peak",
        "Peak and overfitting",
        curves(rows, "1100 held fixed, 6 epochs, one data set", look, thin=lines(values, series=SECOND)),
        "As Figure 14: a thin line per experiment, their mean and its 95 % interval.",
    )
