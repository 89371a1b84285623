"""Figures of UCB against random selection: the whole curve (Fig. 6), who is asked, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import altair as alt
import numpy as np

from enlist.report.charts import Row
from enlist.studies.charts import Look, boxes, curves, intervals, lines, points, within
from enlist.studies.darts import costs, scores
from enlist.studies.darts.bonus import bonus_figure
from enlist.studies.darts.bounded import means, shares
from enlist.studies.darts.rules import scaled
from enlist.studies.darts.settings import DEFAULT, LABELS, METHODS, PRINTED, RANDOM
from enlist.studies.results import Results
from enlist.studies.study import Figure

COLOURS = {LABELS[RANDOM]: "#8d99ae", LABELS[PRINTED]: "#e07a1f", LABELS[DEFAULT]: "#0b6e99"}
ROUNDS = (1, 10, 20, 100)
REPORTED = {
    PRINTED: {1: 0.8981, 10: 0.53, 20: 0.6105},
    RANDOM: {1: 0.7781, 10: 0.7637, 20: 0.4938},
}
"""Accuracies of the report's Table 2."""


def shown_rounds(results: Results) -> list[int]:
    """The rounds whose accuracies are shown: 1, 10, 20 and 100, as far as there are, and the last.

    >>> from enlist.studies.darts.example import example_results
    >>> shown_rounds(example_results())
    [1, 10, 20]
    """
    last = len(results[RANDOM].each("accuracy")[0])
    return sorted({number for number in ROUNDS if number < last} | {last})


def curve_figures(results: Results) -> list[Figure]:
    """Accuracy over all rounds, and over the first 20 beside the report's numbers.

    >>> from enlist.studies.darts.example import example_results
    >>> [figure.name for figure in curve_figures(example_results())]
    ['ucb-against-random', 'first-rounds', 'differences', 'own-samples']
    """
    seeds = len(results[RANDOM].seeds)
    whole = [row for key in METHODS for row in shares(results[key].column("accuracy"), series=LABELS[key])]
    look = Look("round", "test accuracy", colours=COLOURS, width=640, height=320)
    return [
        Figure(
            "ucb-against-random",
            "UCB against random selection (Fig. 6, and beyond)",
            curves(whole, "UCB against random selection, 3 of 12 clients a round", look),
            f"Accuracy of the common model on the test set; mean and 95 % band over {seeds} populations.",
            highlight=True,
        ),
        _first_rounds(results),
        _differences(results),
        _own_samples(results),
    ]


def _first_rounds(results: Results) -> Figure:
    most = min(20, len(results[RANDOM].each("accuracy")[0]))
    names = {RANDOM: "random", PRINTED: "UCB as printed"}
    rows, thin = [], []
    for key, name in names.items():
        accuracy = results[key].column("accuracy")[:, :most]
        rows += means(accuracy, f"{name}, here")
        # Two lines are drawn of the same seed number; they must not be joined.
        thin += [{**row, "line": f"{name} {row['line']}"} for row in lines(accuracy, series=f"{name}, here")]
    reported = [
        {"series": f"{name}, report", "at": number, "mean": value}
        for key, name in names.items()
        for number, value in REPORTED[key].items()
        if number <= most
    ]
    here = {"random, here": "#8d99ae", "UCB as printed, here": "#e07a1f"}
    there = {"random, report": "#2b2d42", "UCB as printed, report": "#7a1f0b"}
    look = Look("round", "accuracy", colours=here, width=640, height=320)
    chart = curves(rows, "The first rounds, population by population", look, thin=thin)
    return Figure(
        "first-rounds",
        "The first 20 rounds, and the report's one run (Fig. 6 and Table 2)",
        alt.layer(cast(alt.LayerChart, chart), _dots(reported, there)).resolve_scale(color="independent"),
        f"Thin lines are single populations, thick ones the means of {len(results[RANDOM].seeds)}. Dots are all that "
        "the report gives in numbers: three rounds of one run each.",
        highlight=True,
    )


def _dots(rows: Sequence[Row], colours: dict[str, str]) -> alt.Chart:
    """Accuracies as single points, told apart by colour, in a layer over curves."""
    dots: alt.Chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_point(filled=True, size=120, opacity=1, shape="diamond")
        .encode(
            x="at:Q",
            y=alt.Y("mean:Q", scale=alt.Scale(domain=[0, 1])),
            color=Look(colours=colours).colour(list(colours), "diamond"),
            tooltip=["series:N", alt.Tooltip("at:Q", title="round"), alt.Tooltip("mean:Q", format=".4f")],
        )
    )
    return dots


def _differences(results: Results) -> Figure:
    rows = []
    for number in shown_rounds(results):
        spans = {f"round {number}": scores.accuracy_at(number)}
        if number > 1:
            spans[scores.span(number)] = scores.smoothed_at(number)
        for name, score in spans.items():
            for key in (PRINTED, DEFAULT):
                found = scaled(scores.gap(results, key, RANDOM, score), 100.0)
                rows.append({"name": name, "series": LABELS[key], **vars(found)})
        if number in REPORTED[PRINTED]:
            lead = 100 * (REPORTED[PRINTED][number] - REPORTED[RANDOM][number])
            rows.append(
                {"name": f"round {number}", "series": "report, one run", "mean": lead, "low": lead, "high": lead}
            )
    colours = {**{label: COLOURS[label] for label in (LABELS[PRINTED], LABELS[DEFAULT])}, "report, one run": "#2b2d42"}
    return Figure(
        "differences",
        "Lead over random after some rounds (Table 2)",
        intervals(
            rows, "Lead over random selection", Look(x="points of accuracy", colours=colours, width=520), rule=0.0
        ),
        f"Paired differences with 95 % intervals over {len(results[RANDOM].seeds)} populations; the report's have "
        "none, as each is of one run. Single rounds jump by several points, so the mean of the five rounds up to each "
        "stands below it.",
    )


def _own_samples(results: Results) -> Figure:
    group = results[RANDOM]
    rows = shares(group.column("local_accuracy").mean(axis=2), series="clients of the round on their own samples")
    rows += shares(group.column("accuracy"), series="common model on the test set")
    look = Look("round", "accuracy", width=520, columns=2)
    return Figure(
        "own-samples",
        "Two accuracies of the same runs",
        curves(rows, "Random selection: whose accuracy is it?", look),
        "The report's first rounds have 78 % and 90 %: accuracies of single clients may be meant.",
    )


def picking_figures(results: Results) -> list[Figure]:
    """How evenly clients are asked, and whether those who are worth more are asked more often.

    >>> from enlist.studies.darts.example import example_results
    >>> [figure.name for figure in picking_figures(example_results())]
    ['times-asked', 'worth']
    """
    ranks, worth = [], []
    for key in METHODS:
        for own, base in scores.pairs(results, key, RANDOM):
            falling = np.sort(own["selected"])[::-1]
            ranks += [
                {"group": str(rank + 1), "series": LABELS[key], "value": float(times)}
                for rank, times in enumerate(falling)
            ]
            if key != RANDOM:
                values, counts = scores.worth(base), scores.picks(own)
                worth += [
                    {"at": 100 * float(value), "value": float(count), "series": LABELS[key], "panel": LABELS[key]}
                    for value, count in zip(values, counts, strict=True)
                    if np.isfinite(value)
                ]
    look = Look("clients, the most asked first", "times asked", colours=COLOURS, width=640, zero=True)
    scatter = Look("worth, points of accuracy per round", "times asked", colours=COLOURS, width=300, named=False)
    return [
        Figure(
            "times-asked",
            "How often clients are asked",
            boxes(ranks, "How often clients are asked", look),
            "A box for every rank over populations. A rotation is flat; whoever has favourites is steep.",
            highlight=True,
        ),
        Figure(
            "worth",
            "Are those asked who are worth it?",
            points(worth, "Times asked against worth", scatter),
            "A dot per client and population, after the initial rounds. Worth: the mean change of the test accuracy in "
            "the rounds of random selection in which the client took part.",
        ),
    ]


def cost_figures(results: Results) -> list[Figure]:
    """What the width of the bonus changes, and what the server does.

    >>> from enlist.studies.darts.example import example_results
    >>> [figure.name for figure in cost_figures(example_results())]
    ['bonus', 'server']
    """
    return [bonus_figure(results), _server(results)]


def _server(results: Results) -> Figure:
    work = {f"choose and learn: {LABELS[key]}": costs.choosing(name) for key, name in METHODS.items()}
    work["evaluate the model for the reward"] = costs.evaluating
    rows = [
        {"name": name, "series": "ms", **vars(scores.mean(results, "server", score))} for name, score in work.items()
    ]
    return Figure(
        "server",
        "What the server does in a round",
        intervals(
            within(rows, 0.0), "Work of the server", Look(x="ms per round, 12 clients, one core", width=460, zero=True)
        ),
        f"Medians over rounds; means with 95 % intervals over {len(results['server'].seeds)} populations. Random "
        "selection needs no evaluation.",
    )
