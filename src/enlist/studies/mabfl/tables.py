"""Tables of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from enlist._internal.statistics import Summary
from enlist.studies.mabfl.counts import PRINTED
from enlist.studies.mabfl.keys import BASELINES, BEST, CODES, FINAL, fixed, grid, others
from enlist.studies.mabfl.scores import gaps, oscillation, residuals, shares
from enlist.studies.results import Results
from enlist.studies.study import Table, possible

PAPER_SPREAD = {"0100": (0.013, 0.013), "0101": (0.020, 0.013), "0110": (0.018, 0.020), "1100": (0.023, 0.019)} | {
    "1111": (0.020, 0.014)
}
"""Table 2 of the thesis: standard deviation of residuals with 4 and 6 epochs per round."""


def tables(results: Results) -> list[Table]:
    """Every table whose experiments have been run.

    >>> from enlist.studies.mabfl.example import example_results
    >>> [table.name for table in tables(example_results())]
    ['02-residuals', '03-grid', 'rules', 'messages', 'data-amount', 'second-data-set', 'curves']
    >>> tables(Results({}))
    []
    """
    made = possible([_spread, _grid, _rules, _messages, _sweep, _split, _curves], results)
    return [table for table in made if table.rows]


def _spread(results: Results) -> Table:
    rows = []
    for code in CODES:
        row: dict[str, Any] = {"combination": code}
        for place, epochs in enumerate((4, 6)):
            curves = results[fixed(code, epochs, "one")].column("validation")
            row[f"{epochs} epochs"] = float(residuals(curves).std())
            row[f"{epochs} epochs, thesis"] = PAPER_SPREAD[code][place]
        rows.append(row)
    return Table(
        "02-residuals", "Standard deviation of residuals (Table 2)", rows, "On one data set, as in the thesis.", True
    )


def _grid(results: Results) -> Table:
    rows = [
        {
            "setting": key.removeprefix("grid/"),
            "seeds": len(results[key].seeds),
            **_interval("peak", results[key].summary("peak")),
            "kept": results[key].summary("kept").mean,
            "mean of rounds": results[key].summary("mean").mean,
            "median peak": float(np.median(results[key].column("peak"))),
            "rounds to peak": results[key].summary("peak_round").mean,
            "share of 0110": float(shares(results, key, BEST).mean()),
            "names 0110": float(np.mean([code == BEST for code in results[key].each("code")])),
            "lead of 0110 in estimates": float(gaps(results, key).mean()),
            "change per round": float(oscillation(results[key].column("test")).mean()),
        }
        for key in grid()
    ]
    caption = (
        "Peak: highest test AUC, mean and 95 % interval; kept: test AUC of the model that was best in validation; "
        "names 0110: share of experiments that end with this combination."
    )
    return Table("03-grid", "The grid of Table 3", rows, caption)


def _rules(results: Results) -> Table:
    chosen = {**FINAL, **BASELINES, **{key.removeprefix("more/"): key for key in others() if "target-3" not in key}}
    rows = [
        {
            "rule": name,
            "seeds": len(results[key].seeds),
            **_interval("peak", results[key].summary("peak")),
            **_interval("against the best pair", results.difference(key, fixed(BEST), "peak")),
            "kept": results[key].summary("kept").mean,
            "mean of rounds": results[key].summary("mean").mean,
            "rounds to peak": results[key].summary("peak_round").mean,
            "messages": float(results[key].column("messages")[:, -1].mean()),
        }
        for name, key in chosen.items()
    ]
    return Table("rules", "Rules with their best settings", rows, "Differences are paired over experiments.", True)


def _messages(results: Results) -> Table:
    counted = results["counts/messages"].each("rows")[0]
    rows = [{**row, "thesis": PRINTED.get(row["kind"])} for row in counted]
    return Table("messages", "Messages per round", rows, "Counted for 3 to 12 workers, and what the thesis prints.")


def _sweep(results: Results) -> Table:
    rows = []
    for key in results.keys("sweep/"):
        share, _, code = key.removeprefix("sweep/").rpartition("-")
        summary = results[key].summary("peak")
        rows.append({"share": float(share), "combination": code, **_interval("peak", summary)})
    return Table("data-amount", "Highest test AUC by amount of training data", rows)


def _split(results: Results) -> Table:
    rows = [
        {"setting": key.removeprefix("split/"), **_interval("peak", results[key].summary("peak"))}
        | {"names 0110": float(np.mean([code == BEST for code in results[key].each("code")]))}
        for key in results.keys("split/")
    ]
    return Table("second-data-set", "Pictures that workers see in their own ways", rows, "Highest test accuracy.")


def _curves(results: Results) -> Table:
    """Mean learning curves of everything, for those who draw their own figures."""
    rows: list[Mapping[str, Any]] = []
    for key in [key for key in results.groups if not key.startswith("counts/")]:
        columns: Sequence[Any] = [results[key].column(name) for name in ("validation", "test", "local")]
        means = [column.mean(axis=0) for column in columns]
        rows += [
            {"key": key, "round": at + 1}
            | {name: float(mean[at]) for name, mean in zip(("validation", "test", "local"), means, strict=True)}
            | {"seeds": len(results[key].seeds)}
            for at in range(len(means[0]))
        ]
    return Table("curves", "Mean learning curves", rows, on_page=False)


def _interval(name: str, summary: Summary) -> dict[str, float]:
    return {name: summary.mean, f"{name}, low": summary.low, f"{name}, high": summary.high}
