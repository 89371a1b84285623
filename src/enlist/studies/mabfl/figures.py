"""All figures: of combinations held fixed, of the rules (16 to 20, 23 to 28), and some that the thesis has in words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist.report.charts import PALETTE
from enlist.studies.charts import GREY, Look, boxes, curves, intervals, lines, points, splines, tiles
from enlist.studies.mabfl.combination_figures import COLOURS, ROUND, TEST, Rows, combination_figures
from enlist.studies.mabfl.keys import (
    ALL,
    ALONE,
    BASELINES,
    BEST,
    BONUSES,
    DISCOUNTS,
    EPSILONS,
    EXPLORE,
    FINAL,
    SECOND,
    STEPS,
    THRESHOLDS,
    UCB_BINARY,
    fixed,
    greedy,
    thompson,
    ucb,
)
from enlist.studies.mabfl.scores import peaks
from enlist.studies.results import Results
from enlist.studies.study import Figure, possible

FRAME = dict(zip([*FINAL, *BASELINES], [*PALETTE[:4], PALETTE[6], PALETTE[5], "#111111", "#7a4419", GREY], strict=True))
OF_PAIRS = {code: COLOURS[code] for code in (BEST, SECOND, "0101")}


def figures(results: Results) -> list[Figure]:
    """Every figure whose experiments have been run.

    >>> from enlist.studies.mabfl.example import example_results
    >>> [figure.name for figure in figures(example_results())][:3], figures(Results({}))
    (['08-learning-curves', '09-increases', '10-11-residuals'], [])
    """
    return [
        *combination_figures(results),
        *itertools.chain(*possible([_boxes], results)),
        *possible([_final, _ranking, _actions, _tiles], results),
        *itertools.chain(*possible([_multiples], results)),
        *possible([_messages, _sweep, _split], results),
    ]


def _centred(results: Results, keys: dict[tuple[str, str], str]) -> Rows:
    """Peaks around the mean of all settings of the same seed: data sets differ more than settings do."""
    values = peaks(results, list(keys.values()))
    centred = values - values.mean(axis=0) + values.mean()
    return [
        {"group": group, "series": series, "value": float(value)}
        for (group, series), row in zip(keys, centred, strict=True)
        for value in row
    ]


def _boxes(results: Results) -> list[Figure]:
    names = {step: "stationary" if step is None else f"{step:g}" for step in STEPS}
    described = (
        ("16-greedy", "ε-greedy", "α", {(f"ε = {e:g}", names[s]): greedy(e, s) for e in EPSILONS for s in STEPS}),
        (
            "17-ucb",
            "UCB, continuous rewards",
            "α",
            {(f"c = {c:g}", names[s]): ucb(c, s) for c in BONUSES for s in STEPS},
        ),
        (
            "18-thompson",
            "Thompson sampling",
            "γ",
            {(f"threshold {t:g}", f"{g:g}"): thompson(t, g) for t in THRESHOLDS for g in DISCOUNTS},
        ),
    )
    return [
        Figure(
            name,
            f"Best performance: {title}",
            boxes(
                _centred(results, keys),
                f"Best performance: {title}",
                Look("", "highest test AUC (centred)", width=560, height=260, legend=legend),
            ),
            f"As Figure {name[:2]}: a dot per experiment. Every experiment has its own data, so each is centred: the "
            "mean of all settings on the same data is taken off, and the overall mean added.",
            highlight=name == "17-ucb",
        )
        for name, title, legend, keys in described
    ]


def _final(results: Results) -> Figure:
    rows: Rows = []
    for name, key in {**FINAL, **BASELINES}.items():
        rows += splines(results[key].column("test"), series=name)
    look = Look(ROUND, TEST, width=560, height=330, colours=FRAME, columns=5)
    return Figure(
        "19-rules",
        "The rules compared",
        curves(rows, "Learning curves of the rules, smoothed", look),
        "As Figure 19: smoothing cubic splines through means over experiments, each with its own data.",
        highlight=True,
    )


def _ranking(results: Results) -> Figure:
    rows: Rows = []
    for name, key in {**FINAL, **BASELINES}.items():
        difference = results.difference(key, fixed(BEST), "peak")
        rows.append({"name": name, "series": "rule", **vars(difference)})
    rows.sort(key=lambda row: -row["mean"])
    look = Look("highest test AUC − that of the best pair held fixed", width=430)
    return Figure(
        "19-ranking",
        "How close rules come to the best pair",
        intervals(rows, "How close rules come to the best pair held fixed", look, rule=0.0),
        "Mean paired difference over experiments with its 95 % interval.",
        highlight=True,
    )


def _actions(results: Results) -> Figure:
    run = results[UCB_BINARY]
    rows: Rows = []
    for curve, adopted in zip(run.column("test"), run.each("adopted"), strict=True):
        rows += [
            {"at": at + 1, "value": float(score), "series": str(code)}
            for at, (score, code) in enumerate(zip(curve, adopted, strict=True))
        ]
    over = splines(run.column("test"), series=BEST)
    look = Look(ROUND, TEST, width=480, height=280, colours=OF_PAIRS)
    return Figure(
        "20-actions",
        "Executed actions and scores, binary UCB",
        points(rows, "Binary UCB: scores and executed combinations", look, over),
        "As Figure 20: a dot per experiment and round, coloured by the combination; the line is a smoothing spline.",
    )


def _tiles(results: Results) -> Figure:
    rows: Rows = []
    for name, key in (("UCB, binary", UCB_BINARY), ("UCB", FINAL["UCB"]), ("Extreme Explore", EXPLORE)):
        for line, adopted in enumerate(results[key].each("adopted")):
            rows += [
                {"panel": name, "line": line, "at": at + 1, "series": str(code)} for at, code in enumerate(adopted)
            ]
    look = Look(ROUND, "experiment", width=290, height=260, colours=OF_PAIRS)
    return Figure(
        "20-executed",
        "Which combination was kept when",
        tiles(rows, "Combination whose model was kept, by experiment and round", look),
        "A row per experiment.",
        highlight=True,
    )


def _multiples(results: Results) -> list[Figure]:
    described: tuple[tuple[str, str, str, Sequence[Any], str, Sequence[Any], Callable[..., str]], ...] = (
        ("23", "24", "ε-greedy", EPSILONS, "α", STEPS, greedy),
        ("25", "26", "UCB", BONUSES, "α", STEPS, ucb),
        ("27", "28", "Thompson sampling", THRESHOLDS, "γ", DISCOUNTS, thompson),
    )
    columns = {"ε-greedy": "ε", "UCB": "c", "Thompson sampling": "threshold"}
    found = []
    for learning, estimated, title, across, letter, down, key in described:
        scores: Rows = []
        smooth: Rows = []
        thin: Rows = []
        thick: Rows = []
        for one in across:
            for other in down:
                run = results[key(one, other)]
                place = {
                    "panel": f"{columns[title]} = {one:g}",
                    "row": "stationary" if other is None else f"{letter} = {other:g}",
                }
                test = run.column("test")
                thin += lines(test, series="experiment", **place)
                smooth += splines(test, series="experiment", **place)
                codes = run.each("codes")[0]
                for position, code in enumerate(codes):
                    values = run.column("estimates")[:, :, position]
                    scores += lines(values, series=code, **place)
                    thick += splines(values, series=code, **place)
        plain = Look(ROUND, TEST, width=200, height=110, colours={"experiment": PALETTE[0]}, named=False)
        found.append(
            Figure(
                f"{learning}-curves",
                f"Learning curves: {title}",
                curves(smooth, f"Learning curves: {title}", plain, thin=thin),
                f"As Figure {learning}: a thin line per experiment, a smoothing cubic spline through their means.",
            )
        )
        look = Look(ROUND, "estimate", width=200, height=110, colours=OF_PAIRS)
        found.append(
            Figure(
                f"{estimated}-estimates",
                f"Estimated rewards: {title}",
                curves(thick, f"Estimated rewards: {title}", look, thin=scores),
                f"As Figure {estimated}: a thin line per experiment, a smoothing cubic spline through their means.",
            )
        )
    return found


def _messages(results: Results) -> Figure:
    rows: Rows = []
    shown = {**FINAL, "Extreme Explore, delayed": "more/explore-delayed", "FedAvg": fixed(ALL)}
    for name, key in shown.items():
        run = results[key]
        spent = run.column("messages").mean(axis=0)
        for row in splines(run.column("test"), series=name):
            rows.append({**row, "at": float(np.interp(row["at"], np.arange(1, len(spent) + 1), spent))})
    look = Look("messages since the start", TEST, width=560, height=300, colours=FRAME, columns=4)
    return Figure(
        "messages",
        "Scores against messages",
        curves(rows, "Scores against messages, smoothed", look),
        "Every message between the server and a worker counts 1, pre-training included.",
    )


def _sweep(results: Results) -> Figure:
    rows: Rows = []
    names = {BEST: "best pair", ALONE: "local only", ALL: "FedAvg"}
    for key in results.keys("sweep/") or [results["sweep"].key]:
        share, _, code = key.removeprefix("sweep/").rpartition("-")
        summary = results[key].summary("peak")
        known = np.isfinite(summary.low)
        rows.append(
            {
                "series": names[code],
                "at": 100 * float(share),
                "mean": summary.mean,
                "low": summary.low if known else summary.mean,
                "high": summary.high if known else summary.mean,
            }
        )
    colours = {"best pair": COLOURS[BEST], "local only": COLOURS[ALONE], "FedAvg": COLOURS[ALL]}
    look = Look(
        "share of the data to train on (%)", "highest test AUC", width=460, height=280, colours=colours, log=True
    )
    return Figure(
        "data-amount",
        "Where personalisation stops paying",
        curves(rows, "Highest score by amount of training data", look),
        "Mean over experiments and 95 % interval; the thesis says this in words.",
        highlight=True,
    )


def _split(results: Results) -> Figure:
    rows: Rows = []
    shown = {**{name: key.replace("grid/", "split/") for name, key in FINAL.items()}}
    shown |= {"best pair fixed": f"split/{BEST}", "FedAvg": f"split/{ALL}", "local only": f"split/{ALONE}"}
    for name, key in shown.items():
        rows.append({"name": name, "series": "rule", **vars(results[key].summary("peak"))})
    rows.sort(key=lambda row: -row["mean"])
    chart: alt.TopLevelMixin = intervals(
        rows, "Pictures that workers see in their own ways", Look("highest test accuracy", width=430)
    )
    return Figure(
        "second-data-set",
        "A second, real data set",
        chart,
        "Four workers hold pictures: upside down, as they are (the target), moved by half a pixel, and named in "
        "reverse. Mean over experiments with its 95 % interval.",
        highlight=True,
    )
