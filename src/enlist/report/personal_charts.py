"""Charts of the gains of personalised learning: test scores, estimates of combinations, and their certainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist.report.charts import PALETTE, Row
from enlist.report.kit import ANY, NUMBER, REFERENCE, WIDTH, band_chart, domain, interval_layers, summarised
from enlist.report.personal_choices import (
    HEIGHT,
    action_chart,
    action_rows,
    arm_colours,
    kind_colours,
    partner_chart,
    poisonous,
    shown_arms,
)
from enlist.runs.personal import BASELINES, PersonalTables, arm_scores
from enlist.runs.printing import percent

SERIES = {"personalised": PALETTE[0], "federated averaging": PALETTE[1], "local only": "#8d99ae"}


def score_rows(runs: Sequence[PersonalTables], along: str = "rounds") -> list[dict[str, Any]]:
    """Mean and 95 % interval over seeds of test scores, by round or by the number of messages sent so far.

    A series ends where its shortest run ends; messages are the mean over seeds.

    >>> from enlist.runs.personal_example import example_personal
    >>> rows = score_rows([example_personal(seed) for seed in range(3)], along="messages")
    >>> sorted({row["series"] for row in rows}), rows[0]["at"]
    (['federated averaging', 'personalised'], 11.0)
    """
    series = {"personalised": [(run.rounds["test"], run.rounds["cumulative_communication"]) for run in runs]}
    for name, title in BASELINES.items():
        tables = [run.baselines[name] for run in runs if name in run.baselines]
        if len(tables) == len(runs) and (along == "rounds" or name != "local"):
            series[title] = [(table["test"], table["cumulative_communication"]) for table in tables]
    found = []
    for title, pairs in series.items():
        length = min(len(values) for values, _ in pairs)
        values = np.array([_held(curve[:length]) for curve, _ in pairs]).reshape(len(pairs), length)
        spent = np.array([messages[:length] for _, messages in pairs]).reshape(len(pairs), length)
        for step in range(length):
            if not np.isnan(values[:, step]).any():
                at = step + 1.0 if along == "rounds" else float(spent[:, step].mean())
                found.append({"series": title, "at": at, **summarised(values[:, step].tolist(), possible(runs))})
    return found


def possible(runs: Sequence[PersonalTables]) -> tuple[float, float]:
    """The possible range of scores: 0 to 1 for AUC and accuracy.

    >>> from enlist.runs.personal_example import example_personal
    >>> possible([example_personal()])
    (0.0, 1.0)
    """
    return (0.0, math.inf) if runs[0].metric == "loss" else (0.0, 1.0)


def _held(curve: Any) -> Any:
    """Fill a round without a score with the previous one."""
    places = np.where(np.isnan(curve), 0, np.arange(len(curve)))
    return curve[np.maximum.accumulate(places)] if len(curve) else curve


def estimate_rows(runs: Sequence[PersonalTables]) -> list[dict[str, Any]]:
    """The rule's estimate of each shown arm after each round: mean and 95 % interval over seeds.

    >>> from enlist.runs.personal_example import example_personal
    >>> rows = estimate_rows([example_personal()])
    >>> len(rows), rows[-1]["series"]
    (45, '2+4')
    """
    found = []
    for label in shown_arms(runs):
        columns = [(run.arms["round"][run.arms["arm"] == label], run.arms["estimate"][run.arms["arm"] == label])
                   for run in runs]  # fmt: skip
        numbers = sorted({float(number) for rounds, _ in columns for number in rounds})
        for number in numbers:
            values = [float(estimate[rounds == number][0]) for rounds, estimate in columns if (rounds == number).any()]
            if len(values) == len(runs):
                found.append({"series": label, "at": number, **summarised(values)})
    return found


def series_chart(
    rows: Sequence[Row],
    title: str,
    across: str,
    up: str,
    colours: alt.Scale,
    numbers: str = ".3f",
    limits: tuple[float, float] = ANY,
) -> alt.LayerChart:
    """A line per series with its 95 % band, on an axis within `limits`; the legend highlights lines.

    >>> from enlist.runs.personal_example import example_personal
    >>> rows = score_rows([example_personal()])
    >>> type(series_chart(rows, "Test AUC", "round", "AUC", series_colours(rows))).__name__
    'LayerChart'
    """
    names = list(dict.fromkeys(row["series"] for row in rows))
    bounds = [bound for row in rows for bound in (row["low"], row["high"])]
    scale = alt.Scale(domain=domain(bounds, limits), nice=False, zero=False)
    legend = alt.Legend(title=None, orient="top", symbolType="stroke", columns=4, labelLimit=150, values=names)
    return band_chart(
        rows,
        title,
        alt.X("at:Q", title=across, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickCount=7)),
        alt.Y("mean:Q", title=up, scale=scale, axis=alt.Axis(tickCount=6, format=NUMBER)),
        alt.Color("series:N", scale=colours, sort=names, legend=legend),
        [alt.Tooltip("series:N", title=" "), alt.Tooltip("at:Q", title=across, format=",.0f")]
        + [alt.Tooltip(f"{name}:Q", format=numbers) for name in ("mean", "low", "high")],
        height=HEIGHT,
    )


def series_colours(rows: Sequence[Row]) -> alt.Scale:
    """Colours of models: that of the personalised one is always the same, and local-only is grey.

    >>> series_colours([{"series": "local only"}]).range
    ['#8d99ae']
    """
    names = list(dict.fromkeys(row["series"] for row in rows))
    return alt.Scale(domain=names, range=[SERIES[name] for name in names])


def increase_chart(runs: Sequence[PersonalTables], title: str) -> alt.LayerChart:
    """The mean increase of each arm with its 95 % interval and its probability of being the best; poisonous ones red.

    If there are many arms, only the most probable ones are shown.

    >>> from enlist.runs.personal_example import example_personal
    >>> type(increase_chart([example_personal()], "How sure?")).__name__
    'LayerChart'
    """
    scores = [row for row in arm_scores(runs) if math.isfinite(row["increase"])]
    scores = sorted(scores, key=lambda row: (-row["probability"], -row["increase"]))[:12]
    poisoned = poisonous(runs)
    rows = []
    for row in scores:
        known = math.isfinite(row["low"])
        bad = bool(poisoned & set(row["arm"].split("+")))
        rows.append(
            {
                "arm": row["arm"],
                "mean": row["increase"],
                "low": row["low"] if known else row["increase"],
                "high": row["high"] if known else row["increase"],
                "chance": f"best: {percent(row['probability'])}",
                "kind": "with a poisonous worker" if bad else "without",
            }
        )
    order = [row["arm"] for row in rows]
    kinds = [kind for kind in ("without", "with a poisonous worker") if any(row["kind"] == kind for row in rows)]
    scale = kind_colours(kinds)
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=0) if len(kinds) > 1 else None
    down = alt.Y("arm:N", sort=order, title=None, axis=alt.Axis(labelFontSize=13, ticks=False, domain=False))
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=down, color=alt.Color("kind:N", scale=scale, legend=legend))
    ends = [0.0, *(row[name] for row in rows for name in ("low", "high"))]
    x = alt.X(
        "mean:Q",
        title="mean increase over the target's local model",
        scale=alt.Scale(domain=domain(ends), nice=False),
        axis=alt.Axis(tickCount=6, format=NUMBER),
    )
    tooltip = ["arm:N", *(alt.Tooltip(f"{name}:Q", format=".4f") for name in ("mean", "low", "high"))]
    layers = [
        alt.Chart().mark_rule(**REFERENCE).encode(x=alt.datum(0.0)),
        *interval_layers(base, x, [*tooltip, alt.Tooltip("chance:N", title=" ")]),
        base.mark_text(dy=-13, fontSize=11).encode(x="mean:Q", text="chance:N", color=alt.value("#333")),
    ]
    layered: alt.LayerChart = alt.LayerChart(layer=layers).properties(title=title, width=WIDTH, height=alt.Step(44))
    return layered


def overview_chart(runs: Sequence[PersonalTables], up: str) -> alt.VConcatChart:
    """Four charts in one picture: scores, certainty, kept combinations, and partners early and late.

    >>> from enlist.runs.personal_example import example_personal
    >>> type(overview_chart([example_personal()], "test AUC")).__name__
    'VConcatChart'
    """
    scores = score_rows(runs)
    above = alt.hconcat(
        series_chart(scores, "What was gained", "round", up, series_colours(scores), limits=possible(runs)),
        increase_chart(runs, "How much better than the target's local model"),
        spacing=40,
    ).resolve_scale(color="independent")
    below = alt.hconcat(
        action_chart(action_rows(runs), "The combination kept in each round", arm_colours(runs)),
        partner_chart(runs, "Partners, early and late"),
        spacing=40,
    ).resolve_scale(color="independent")
    whole: alt.VConcatChart = alt.vconcat(above, below, spacing=30).resolve_scale(color="independent")
    return whole
