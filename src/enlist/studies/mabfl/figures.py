"""Pictures (the thesis's Figures 8 to 28) and tables, as functions of the results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from enlist._internal.typing import FloatArray
from enlist.report.charts import PALETTE
from enlist.studies.charts import GREY, ChartStyle, boxes, curves, intervals, lines, points, tiles
from enlist.studies.claims import shown
from enlist.studies.mabfl.comparisons import sweep
from enlist.studies.mabfl.counts import PRINTED
from enlist.studies.mabfl.rules import changes, increases, knowing, names_best, normal_quantiles, residuals
from enlist.studies.mabfl.settings import (
    ALL,
    ALONE,
    AMOUNTS,
    BEST,
    BEYOND,
    BONUSES,
    CODES,
    DELAYED,
    DISCOUNTS,
    EPSILONS,
    EXPLORE,
    EXPLORE_BINARY,
    FINAL,
    GREEDY,
    GRID,
    LABELS,
    PAIRS,
    RESIDUALS,
    SECOND,
    STEPS,
    THOMPSON,
    THRESHOLDS,
    UCB,
    UCB_BINARY,
    fixed,
    greedy,
    thompson,
    ucb,
)
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Results
from enlist.studies.rules import Arm
from enlist.studies.study import Figure, Table, possible

COLOURS = dict(zip((BEST, SECOND, "0101", ALONE, ALL), (*PALETTE[:3], GREY, PALETTE[4]), strict=True))
HELD = {LABELS[code]: colour for code, colour in COLOURS.items()}
ROUND, TEST = "round", "test AUC"
BAND = "Mean over experiments and its 95 % interval."
DOTS = "A dot per experiment and round."
ONE = "All experiments have the same data."
EACH = "Every experiment has data of its own."
GRIDS: dict[str, tuple[str, str, Sequence[Any], Sequence[Any], Callable[[Any, Any], Arm]]] = {
    "ε-greedy": ("16", "23 and 24", EPSILONS, STEPS, greedy),
    "UCB": ("17", "25 and 26", BONUSES, STEPS, ucb),
    "Thompson sampling": ("18", "27 and 28", THRESHOLDS, DISCOUNTS, thompson),
}
"""Rule -> its box plot, its curves and estimates, and the two settings that are varied."""


def over_rounds(values: FloatArray, series: str) -> list[dict[str, Any]]:
    """Rows of a curve over rounds."""
    return along(np.arange(1.0, values.shape[1] + 1), values, series)


def combinations(number: str, results: Results) -> Figure:
    """Figures 8 and 9: combinations held fixed on one data set, by epochs per round."""
    names = {"8": ("Learning curves", "validation AUC"), "9": ("Increases over the target's own model", "increase")}
    title, axis = names[number]
    panels = []
    for epochs in (4, 6):
        rows = []
        for code in CODES:
            group = results[fixed(code, epochs, "one").key]
            values = group.column("validation") - (group.column("local") if number == "9" else 0.0)
            rows += over_rounds(values, LABELS[code])
        panels.append(Panel(f"{epochs} epochs per round", rows, ROUND, axis))
    chart = side_by_side(panels, f"{title} of fixed combinations", HELD)
    return Figure(f"fig-{number.zfill(2)}", f"{title} (Fig. {number})", chart, f"{BAND} {ONE}", highlight=True)


def residual_dots(quantiles: bool, results: Results) -> Figure:
    """Figures 10 and 11, residuals by round, or 21 and 22, against normal quantiles; small multiples."""
    rows: list[dict[str, Any]] = []
    over: list[dict[str, Any]] = []
    for epochs in (4, 6):
        for code in CODES:
            left = residuals(results[fixed(code, epochs, "one").key].column("validation"))
            place, deviation = {"series": code, "panel": code, "row": f"{epochs} epochs"}, float(left.std())
            if quantiles:
                expected = normal_quantiles(left.size)
                pairs = zip(expected, np.sort(left.ravel()), strict=True)
                rows += [{**place, "at": float(x), "value": float(y)} for x, y in pairs]
                over += [{**place, "at": float(x), "mean": float(x * deviation)} for x in expected[[0, -1]]]
            else:
                rows += [{**row, "value": row["mean"]} for row in lines(left, **place)]
                span = {"mean": 0.0, "low": -1.96 * deviation, "high": 1.96 * deviation}
                over += [{**place, "at": at + 1, **span} for at in range(left.shape[1])]
    name, numbers = ("fig-21-22", "Figs. 21 and 22") if quantiles else ("fig-10-11", "Figs. 10 and 11")
    line = "On the line if residuals are normal." if quantiles else "The band holds 95 % if residuals are normal."
    look = ChartStyle("normal quantile" if quantiles else ROUND, "residual", 165, 120, COLOURS, named=False)
    title = f"Residuals of learning curves{' against normal quantiles' * quantiles}"
    return Figure(name, f"{title} ({numbers})", points(rows, title, look, over), f"{DOTS} {line} {ONE}")


def ways_to_measure(results: Results) -> Figure:
    """Figure 13: increases against the local model and against the round before."""
    rows: list[dict[str, Any]] = []
    over: list[dict[str, Any]] = []
    for code in (*PAIRS, ALL):
        group = results[fixed(code, 6, "one").key]
        score = group.column("validation")
        last = np.diff(score, prepend=np.nan)
        measured = {"against the local model": score - group.column("local"), "against the last round": last}
        for name, values in measured.items():
            place = {"series": code, "panel": code, "row": name}
            rows += [{**row, "value": row["mean"]} for row in lines(values, **place)]
            over += [{**row, **place} for row in over_rounds(values, code)]
    title = "Two ways to measure an increase"
    chart = points(rows, title, ChartStyle(ROUND, "increase", 200, 150, COLOURS, named=False), over)
    caption = f"{DOTS} The line is the mean with its 95 % interval. 6 epochs. {ONE}"
    return Figure("fig-13", f"{title} (Fig. 13)", chart, caption, highlight=True)


def peak(results: Results) -> Figure:
    """Figure 14: learning curves of 1100."""
    values = results[fixed(SECOND, 6, "one").key].column("test")
    look, title = ChartStyle(ROUND, TEST, 460, 260, COLOURS, named=False), "1100 held fixed"
    chart = curves(over_rounds(values, SECOND), title, look, thin=lines(values, series=SECOND))
    return Figure("fig-14", f"{title} (Fig. 14)", chart, f"A thin line per experiment. {BAND} 6 epochs. {ONE}")


def best_performances(rule: str, results: Results) -> Figure:
    """Figures 16 to 18: box plots of the highest scores."""
    number, _, across, down, arm = GRIDS[rule]
    pairs = [(one, other) for one in across for other in down]
    values = np.array(results.paired([arm(*pair).key for pair in pairs], "peak"))
    centred = values - values.mean(axis=0) + values.mean()
    rows = []
    for pair, row in zip(pairs, centred, strict=True):
        group, series = arm(*pair).name.split(", ")
        rows += [{"group": group, "series": series, "value": float(value)} for value in row]
    title = f"Best performance, {rule}"
    chart = boxes(rows, title, ChartStyle("", "highest test AUC (centred)", 560, 260))
    caption = f"A dot per experiment. {EACH} The mean over all settings on the same data is taken off."
    return Figure(f"fig-{number}", f"{title} (Fig. {number})", chart, caption, highlight=rule == "UCB")


def rules_compared(results: Results) -> Figure:
    """Figure 19: continuous and binary rewards, each beside the best pair and federated averaging."""
    groups = {
        "continuous rewards": (EXPLORE, UCB, GREEDY),
        "binary rewards": (EXPLORE_BINARY, UCB_BINARY, THOMPSON),
    }
    names = {arm.key: arm.name.removesuffix(", binary").partition(", threshold")[0] for arm in sum(groups.values(), ())}
    panels = []
    for title, arms in groups.items():
        shown_arms = [*((arm, names[arm.key]) for arm in arms), *((fixed(code), LABELS[code]) for code in (BEST, ALL))]
        rows = [row for arm, name in shown_arms for row in over_rounds(results[arm.key].column("test"), name)]
        panels.append(Panel(title, rows, ROUND, TEST))
    colours = dict(zip(dict.fromkeys(names.values()), (PALETTE[3], PALETTE[5], PALETTE[6], PALETTE[7]), strict=True))
    chart = side_by_side(panels, "The rules compared", {**colours, **HELD})
    return Figure("fig-19", "The rules compared (Fig. 19)", chart, f"{BAND} {EACH}", highlight=True)


def ranking(results: Results) -> Figure:
    """How close every rule comes to the best pair."""
    arms = [*FINAL, *(fixed(code) for code in (SECOND, ALONE, ALL))]
    rows = [{"name": a.name, "series": "", **vars(results.difference(a.key, fixed(BEST).key, "peak"))} for a in arms]
    rows.sort(key=lambda row: -row["mean"])
    title = "How close rules come to 0110 held fixed"
    chart = intervals(rows, title, ChartStyle("highest test AUC − that of 0110 held fixed", width=430), rule=0.0)
    return Figure("ranking", title, chart, f"Paired differences with 95 % intervals. {EACH}", highlight=True)


def executed(results: Results) -> Figure:
    """Figure 20: which combination was kept when."""
    rows = [
        {"panel": arm.name, "line": line, "at": at + 1, "series": str(code)}
        for arm in (UCB_BINARY, UCB, EXPLORE)
        for line, adopted in enumerate(results[arm.key].each("adopted")[:20])
        for at, code in enumerate(adopted)
    ]
    look = ChartStyle(ROUND, "experiment", 290, 260, {code: COLOURS[code] for code in (BEST, SECOND, "0101")})
    title = "Combination whose model was kept"
    caption = f"A row per experiment, of the first 20. {EACH}"
    return Figure("fig-20", f"{title} (Fig. 20)", tiles(rows, title, look), caption, highlight=True)


def grid_curves(rule: str, name: str, results: Results) -> Figure:
    """Figures 23 to 28: learning curves or estimates of every setting, as small multiples."""
    _, numbers, across, down, arm = GRIDS[rule]
    number = numbers.split(" and ")[name == "estimates"]
    title, axis = (f"Learning curves, {rule}", TEST) if name == "test" else (f"Estimates, {rule}", "estimate")
    panels = []
    for other in down:
        for one in across:
            group = results[arm(one, other).key]
            columns = {"mean of all experiments": group.column("test")}
            if name == "estimates":
                codes = group.each("codes")[0]
                columns = {code: group.column("estimates")[:, :, codes.index(code)] for code in PAIRS}
            rows = [row for series, values in columns.items() for row in over_rounds(values, series)]
            panels.append(Panel(arm(one, other).name, rows, ROUND, axis))
    chart = side_by_side(panels, title, COLOURS, columns=len(across), width=215, height=120)
    return Figure(f"fig-{number}", f"{title} (Fig. {number})", chart, f"{BAND} {EACH}")


def by_messages(results: Results) -> Figure:
    """What a score costs in messages."""
    arms = (EXPLORE, DELAYED, UCB, fixed(BEST), fixed(ALL))
    groups = {arm.name: results[arm.key] for arm in arms}
    rows = [
        row for name, g in groups.items() for row in along(g.column("messages").mean(axis=0), g.column("test"), name)
    ]
    chart = side_by_side([Panel("", rows, "messages since the start", TEST)], "Scores by messages", HELD, width=560)
    return Figure("messages", "Scores by messages", chart, f"{BAND} Every message counts 1. {EACH}")


def amounts(results: Results) -> Figure:
    """Where personalisation stops paying."""
    points_at, rows = np.array(AMOUNTS, dtype=float), []
    for code in (BEST, ALONE, ALL):
        columns = results.paired([sweep(amount, code).key for amount in AMOUNTS], "peak")
        rows += along(points_at, np.array(columns).T, LABELS[code])
    title = "Highest test AUC by amount of training data"
    panel = Panel("", rows, "times the share of Figure 8", "highest test AUC", steps=True)
    chart = side_by_side([panel], title, HELD, width=460)
    return Figure("data-amount", f"{title} (section 9)", chart, f"{BAND} {EACH}", highlight=True)


def pictures(results: Results) -> Figure:
    """The second data set."""
    arms = {arm.name: arm.key.replace("grid/", "pictures/") for arm in FINAL}
    arms |= {LABELS[code]: f"pictures/{code}" for code in CODES}
    rows = [{"name": name, "series": "", **vars(results[key].summary("peak"))} for name, key in arms.items()]
    rows.sort(key=lambda row: -row["mean"])
    title = "Pictures that workers see in their own ways"
    caption = (
        "Upside down, as they are (the target), moved by half a pixel, and named in reverse. Mean over experiments "
        "with its 95 % interval."
    )
    chart = intervals(rows, title, ChartStyle("highest test accuracy", width=430))
    return Figure("pictures", "A second, real data set", chart, caption, highlight=True)


def deviations(results: Results) -> Table:
    """Table 2."""
    rows = []
    for code in CODES:
        row: dict[str, Any] = {"combination": code}
        for epochs, said in zip((4, 6), RESIDUALS[code], strict=True):
            row[f"{epochs} epochs"] = float(
                residuals(results[fixed(code, epochs, "one").key].column("validation")).std()
            )
            row[f"{epochs} epochs, thesis"] = said
        rows.append(row)
    return Table("table-2", "Standard deviation of residuals (Table 2)", rows, ONE, highlight=True)


def settings_table(keys: Mapping[str, str], name: str, title: str, highlight: bool, results: Results) -> Table:
    """Scores of every setting: Table 3, and the rules that are compared in the end."""
    rows = []
    for said, key in keys.items():
        group = results[key]
        known = results.outputs(knowing("", Arm(key, "")).keys).values()
        rows.append(
            {
                "setting": said,
                "seeds": len(group.seeds),
                "peak": shown(group.summary("peak")),
                "against 0110 fixed": shown(results.difference(key, fixed(BEST).key, "peak"), sign=True),
                "kept": group.summary("kept").mean,
                "mean of rounds": group.summary("mean").mean,
                "rounds to peak": group.summary("peak_round").mean,
                "names the best pair": float(np.mean([names_best(each) for each in known])),
                "change per round": float(np.mean([changes(each).mean() for each in group.outputs.values()])),
                "messages": float(group.column("messages")[:, -1].mean()),
            }
        )
    caption = (
        "Peak: highest test AUC; kept: test AUC of the model that was best in validation; names the best pair: share "
        "of experiments that end with the best pair on their own data."
    )
    return Table(name, title, rows, caption, highlight)


def messages_table(results: Results) -> Table:
    """Messages per round."""
    rows = [{**row, "thesis": PRINTED.get(row["kind"])} for row in results["counts"].each("rows")[0]]
    return Table("messages", "Messages per round", rows, "Counted for 3 to 12 workers, and what the thesis prints.")


def early_and_late(results: Results) -> Table:
    """Learning and increases of combinations held fixed, at a few rounds."""
    rows = []
    for code in CODES:
        group = results[fixed(code).key]
        test, rise = group.column("test"), np.array([increases(each) for each in group.outputs.values()])
        at = [round for round in (1, 5, 10, 15, 20) if round <= test.shape[1]]
        row = {"combination": LABELS[code]} | {
            f"test AUC, round {each}": float(test[:, each - 1].mean()) for each in at
        }
        rows.append(row | {f"increase, round {each}": float(rise[:, each - 1].mean()) for each in at})
    return Table("rounds", "Combinations held fixed, round by round", rows, EACH, highlight=True)


FIGURES: list[Callable[[Results], Figure]] = [
    functools.partial(combinations, "8"),
    functools.partial(combinations, "9"),
    ways_to_measure,
    rules_compared,
    ranking,
    executed,
    amounts,
    pictures,
    *(functools.partial(best_performances, rule) for rule in GRIDS),
    peak,
    functools.partial(residual_dots, False),
    functools.partial(residual_dots, True),
    *(functools.partial(grid_curves, rule, name) for rule in GRIDS for name in ("test", "estimates")),
    by_messages,
]
RULES_SHOWN = {arm.name: arm.key for arm in (*FINAL, *(fixed(code) for code in CODES))} | {
    name: key for key, name in BEYOND.items()
}
TABLES: list[Callable[[Results], Table]] = [
    early_and_late,
    deviations,
    functools.partial(settings_table, RULES_SHOWN, "rules", "Rules with their best settings", True),
    functools.partial(settings_table, {key: key for key in GRID}, "table-3", "The grid of Table 3", False),
    messages_table,
]


def figures(results: Results) -> Sequence[Figure]:
    """Every figure whose experiments have been run; those of the appendix come last.

    >>> figures(Results({}))
    []
    """
    return possible(FIGURES, results)


def tables(results: Results) -> Sequence[Table]:
    """Every table whose experiments have been run.

    >>> tables(Results({}))
    []
    """
    return possible(TABLES, results)
