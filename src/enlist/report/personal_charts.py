"""Charts of personalised learning: scores, estimates, combinations kept, and partners early and late."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist._internal.statistics import Summary
from enlist.report.charts import PALETTE, Row
from enlist.runs.personal import BASELINES, PersonalTables, arm_scores, partner_scores
from enlist.runs.printing import percent

WIDTH, HEIGHT = 430, 270
MOST = len(PALETTE)
OTHERS, POISONOUS, PLAIN = "others", "#c1121f", "#0b6e99"
GREY = "#b8bfc9"
ANY = (-math.inf, math.inf)
SERIES = {"personalised": PALETTE[0], "federated averaging": PALETTE[1], "local only": "#8d99ae"}


def shown_arms(runs: Sequence[PersonalTables]) -> list[str]:
    """The arms that get a colour: all in their order, or, of many, those kept most often; the rest are "others".

    >>> from enlist.runs.personal_example import example_personal
    >>> shown_arms([example_personal()])
    ['1+2', '2+3', '2+4']
    """
    labels = list(dict.fromkeys(label for run in runs for label in (*run.labels, *kept(run))))
    if len(labels) <= MOST:
        return labels
    counts = {label: sum(each == label for run in runs for each in kept(run)) for label in labels}
    ranked = sorted(labels, key=lambda label: -counts[label])[: MOST - 1]
    return [label for label in labels if label in ranked]


def kept(run: PersonalTables) -> list[str]:
    """The combination kept in each round that was played.

    >>> from enlist.runs.personal_example import example_personal
    >>> kept(example_personal())[:4]
    ['1+2', '2+3', '2+4', '2+3']
    """
    return [str(label) for label in run.rounds["arm"][run.played].tolist()]


def _colours(labels: Sequence[str]) -> alt.Scale:
    return alt.Scale(domain=[*labels, OTHERS], range=[*PALETTE[: len(labels)], GREY])


def score_rows(runs: Sequence[PersonalTables], along: str = "rounds") -> list[dict[str, Any]]:
    """Mean and 95 % interval over seeds of test scores, after each round or over the messages sent by then.

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
                found.append({"series": title, "at": at, **_span(values[:, step].tolist(), possible(runs))})
    return found


def possible(runs: Sequence[PersonalTables]) -> tuple[float, float]:
    """Between what the scores of runs can lie: AUC and accuracy between 0 and 1.

    >>> from enlist.runs.personal_example import example_personal
    >>> possible([example_personal()])
    (0.0, 1.0)
    """
    return (0.0, math.inf) if runs[0].metric == "loss" else (0.0, 1.0)


def _axis(values: Sequence[float], limits: tuple[float, float]) -> alt.Scale:
    """An axis a little longer than the values, which shows nothing impossible."""
    margin = 0.05 * (max(values) - min(values)) or 0.05
    domain = [max(min(values) - margin, limits[0]), min(max(values) + margin, limits[1])]
    return alt.Scale(domain=domain, nice=False, zero=False)


def _held(curve: Any) -> Any:
    """A round without a score keeps the one before."""
    places = np.where(np.isnan(curve), 0, np.arange(len(curve)))
    return curve[np.maximum.accumulate(places)] if len(curve) else curve


def _span(values: Sequence[float], limits: tuple[float, float] = ANY) -> dict[str, float]:
    summary = Summary.of(values).within(*limits)
    known = not math.isnan(summary.low)
    low, high = (summary.low, summary.high) if known else (summary.mean, summary.mean)
    return {"mean": summary.mean, "low": low, "high": high}


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
                found.append({"series": label, "at": number, **_span(values)})
    return found


def band_chart(
    rows: Sequence[Row],
    title: str,
    across: str,
    up: str,
    colours: alt.Scale,
    numbers: str = ".3f",
    limits: tuple[float, float] = ANY,
) -> alt.LayerChart:
    """A line per series with its 95 % band, on an axis within `limits`; the legend singles out lines.

    >>> from enlist.runs.personal_example import example_personal
    >>> rows = score_rows([example_personal()])
    >>> type(band_chart(rows, "Test AUC", "round", "AUC", series_colours(rows))).__name__
    'LayerChart'
    """
    names = list(dict.fromkeys(row["series"] for row in rows))
    bounds = [bound for row in rows for bound in (row["low"], row["high"])]
    scale = _axis(bounds, limits)
    pick = alt.selection_point(fields=["series"], bind="legend")
    legend = alt.Legend(title=None, orient="top", symbolType="stroke", columns=4, labelLimit=150, values=names)
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("at:Q", title=across, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickCount=7)),
        color=alt.Color("series:N", scale=colours, sort=names, legend=legend),
    )
    band = base.mark_area(clip=True).encode(
        y=alt.Y("low:Q", title=up, scale=scale, axis=alt.Axis(tickCount=6, format="~g")),
        y2="high:Q",
        opacity=alt.condition(pick, alt.value(0.16), alt.value(0.02)),
    )
    line = base.mark_line(strokeWidth=2.4, clip=True, strokeJoin="round").encode(
        y="mean:Q",
        opacity=alt.condition(pick, alt.value(1.0), alt.value(0.08)),
        tooltip=[
            alt.Tooltip("series:N", title=" "),
            alt.Tooltip("at:Q", title=across, format=",.0f"),
            *(alt.Tooltip(f"{name}:Q", format=numbers) for name in ("mean", "low", "high")),
        ],
    )
    layered: alt.LayerChart = (
        alt.LayerChart(layer=[band, line]).add_params(pick).properties(title=title, width=WIDTH, height=HEIGHT)
    )
    return layered


def series_colours(rows: Sequence[Row]) -> alt.Scale:
    """Colours of models: the personalised one always has the same, and local-only is grey.

    >>> series_colours([{"series": "local only"}]).range
    ['#8d99ae']
    """
    names = list(dict.fromkeys(row["series"] for row in rows))
    return alt.Scale(domain=names, range=[SERIES[name] for name in names])


def arm_colours(runs: Sequence[PersonalTables]) -> alt.Scale:
    """A colour for each shown arm, the same in all charts.

    >>> from enlist.runs.personal_example import example_personal
    >>> arm_colours([example_personal()]).domain
    ['1+2', '2+3', '2+4', 'others']
    """
    return _colours(shown_arms(runs))


def increase_chart(runs: Sequence[PersonalTables], title: str) -> alt.LayerChart:
    """The mean increase of each arm with its 95 % interval and how probably it is the best; poisonous ones are red.

    Of many arms, the most probable ones.

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
                "increase": row["increase"],
                "low": row["low"] if known else row["increase"],
                "high": row["high"] if known else row["increase"],
                "chance": f"best: {percent(row['probability'])}",
                "kind": "with a poisonous worker" if bad else "without",
            }
        )
    order = [row["arm"] for row in rows]
    kinds = [kind for kind in ("without", "with a poisonous worker") if any(row["kind"] == kind for row in rows)]
    scale = alt.Scale(domain=kinds, range=[{"without": PLAIN}.get(kind, POISONOUS) for kind in kinds])
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=0) if len(kinds) > 1 else None
    down = alt.Y("arm:N", sort=order, title=None, axis=alt.Axis(labelFontSize=13, ticks=False, domain=False))
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=down, color=alt.Color("kind:N", scale=scale, legend=legend))
    # White space on the right for the words beside each interval.
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    margin = 0.04 * (high - low) or 0.01
    across = alt.Scale(domain=[min(low, 0.0) - margin, max(high, 0.0) + margin], nice=False)
    axis = alt.Axis(tickCount=6, format="~g")
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0.0}])).mark_rule(color="#999", strokeDash=[4, 3])
    layers = [
        zero.encode(x=alt.X("zero:Q", scale=across)),
        base.mark_rule(strokeWidth=3).encode(
            x=alt.X("low:Q", title="mean increase over the target's local model", scale=across, axis=axis), x2="high:Q"
        ),
        base.mark_circle(size=90, opacity=1).encode(
            x="increase:Q",
            tooltip=["arm:N", alt.Tooltip("increase:Q", format=".4f"), alt.Tooltip("low:Q", format=".4f"),
                     alt.Tooltip("high:Q", format=".4f"), alt.Tooltip("chance:N", title=" ")],
        ),
        base.mark_text(dy=-13, fontSize=11).encode(x="increase:Q", text="chance:N", color=alt.value("#333")),
    ]  # fmt: skip
    layered: alt.LayerChart = alt.LayerChart(layer=layers).properties(title=title, width=WIDTH, height=alt.Step(44))
    return layered


def poisonous(runs: Sequence[PersonalTables]) -> set[str]:
    """Names of the workers that poison was put into.

    >>> from enlist.runs.personal_example import example_personal
    >>> poisonous([example_personal()])
    {'4'}
    """
    table = runs[0].workers
    return {str(name) for name, kind in zip(table["worker"], table["poison"], strict=True) if kind}


def action_rows(runs: Sequence[PersonalTables]) -> list[dict[str, Any]]:
    """The combination kept in every round of every run, with the test score after it.

    >>> from enlist.runs.personal_example import example_personal
    >>> action_rows([example_personal()])[0]["arm"]
    '1+2'
    """
    shown, rows = shown_arms(runs), []
    for run in runs:
        table, played = run.rounds, run.played
        columns = (table["round"][played], table["arm"][played], table["test"][played])
        for number, label, test in zip(*columns, strict=True):
            arm = str(label) if label in shown else OTHERS
            rows.append({"round": int(number), "seed": str(run.seed), "arm": arm, "test": float(test)})
    return rows


def action_chart(rows: Sequence[Row], title: str, colours: alt.Scale) -> alt.Chart:
    """A row of tiles for each seed, a tile for each round, coloured by the combination that was kept.

    >>> from enlist.runs.personal_example import example_personal
    >>> runs = [example_personal(seed) for seed in range(2)]
    >>> action_chart(action_rows(runs), "Kept", arm_colours(runs)).to_dict()["mark"]["type"]
    'rect'
    """
    present = {row["arm"] for row in rows}
    last = max(row["round"] for row in rows)
    gap = 1 if last <= 20 else 5 if last <= 100 else 20 * (last // 200 + 1)
    ticks = [number for number in range(1, last + 1) if gap == 1 or number == 1 or number % gap == 0]
    legend = alt.Legend(
        title=None,
        orient="top",
        columns=4,
        labelLimit=150,
        symbolType="square",
        symbolStrokeWidth=0,
        values=[name for name in colours.domain if name in present],
    )
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("round:O", title="round", axis=alt.Axis(labelAngle=0, values=ticks, ticks=False)),
            y=alt.Y("seed:N", title="seed", sort=_seeds(rows), axis=alt.Axis(ticks=False, domain=False)),
            color=alt.Color("arm:N", scale=colours, legend=legend),
            tooltip=["seed:N", "round:O", "arm:N", alt.Tooltip("test:Q", format=".3f")],
        )
        .properties(title=title, width=WIDTH, height=alt.Step(22))
    )
    return chart


def _seeds(rows: Sequence[Row]) -> list[str]:
    return sorted({row["seed"] for row in rows}, key=int)


def journey_chart(
    rows: Sequence[Row], title: str, up: str, colours: alt.Scale, limits: tuple[float, float] = ANY
) -> alt.LayerChart:
    """Test scores of all seeds after each round, coloured by the combination kept, over their mean.

    Reference: Figure 20 of the MAB-FL thesis.

    >>> from enlist.runs.personal_example import example_personal
    >>> runs = [example_personal(seed) for seed in range(2)]
    >>> type(journey_chart(action_rows(runs), "Scores", "AUC", arm_colours(runs))).__name__
    'LayerChart'
    """
    scale = _axis([row["test"] for row in rows], limits)
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("round:Q", title="round", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickCount=7)),
        y=alt.Y("test:Q", title=up, scale=scale, axis=alt.Axis(tickCount=6, format="~g")),
    )
    layers = [
        base.mark_line(color="#222", strokeWidth=1.6).encode(y="mean(test):Q"),
        base.mark_circle(size=42, opacity=0.85).encode(
            color=alt.Color("arm:N", scale=colours, legend=None),
            tooltip=["seed:N", "round:Q", "arm:N", alt.Tooltip("test:Q", format=".3f")],
        ),
    ]
    layered: alt.LayerChart = alt.LayerChart(layer=layers).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def partner_chart(runs: Sequence[PersonalTables], title: str) -> alt.LayerChart:
    """How often each other worker was in the kept combination: in the first third of the rounds, and in the last.

    Poisonous workers are red and named so. Of many workers, those kept most often and all poisonous ones.

    >>> from enlist.runs.personal_example import example_personal
    >>> type(partner_chart([example_personal()], "Partners")).__name__
    'LayerChart'
    """
    found = partner_scores(runs)
    ranked = sorted(found, key=lambda row: (not row["poison"], -(row["early"] + row["late"])))[:16]
    rows = [
        {
            "worker": row["worker"] + (f" ({row['poison']})" if row["poison"] else ""),
            "kind": "poisonous" if row["poison"] else "sound",
            "phase": phase,
            "share": row[phase],
        }
        for row in found
        if row in ranked
        for phase in ("early", "late")
    ]
    kinds = [kind for kind in ("sound", "poisonous") if any(row["kind"] == kind for row in rows)]
    scale = alt.Scale(domain=kinds, range=[{"sound": PLAIN}.get(kind, POISONOUS) for kind in kinds])
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y(
            "worker:N",
            title=None,
            sort=list(dict.fromkeys(row["worker"] for row in rows)),
            axis=alt.Axis(labelFontSize=13, labelLimit=170, ticks=False, domain=False),
        ),
        yOffset=alt.YOffset("phase:N", sort=["early", "late"], scale=alt.Scale(paddingInner=0.15)),
        x=alt.X(
            "share:Q",
            title="share of rounds in whose kept combination it was",
            scale=alt.Scale(domain=[0, 1.12], nice=False),
            axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
        ),
        color=alt.Color("kind:N", scale=scale, legend=None),
    )
    layers = [
        base.mark_bar().encode(
            opacity=alt.Opacity("phase:N", scale=alt.Scale(domain=["early", "late"], range=[0.4, 1.0]), legend=None),
            tooltip=["worker:N", "phase:N", alt.Tooltip("share:Q", format=".0%")],
        ),
        base.transform_calculate(text="datum.phase + ' ' + format(datum.share, '.0%')")
        .mark_text(align="left", dx=4, fontSize=11)
        .encode(text="text:N", color=alt.value("#333")),
    ]
    layered: alt.LayerChart = alt.LayerChart(layer=layers).properties(title=title, width=WIDTH, height=alt.Step(18))
    return layered


def overview_chart(runs: Sequence[PersonalTables], up: str) -> alt.VConcatChart:
    """Four charts in one picture: scores, how sure, who was kept, and partners early and late.

    >>> from enlist.runs.personal_example import example_personal
    >>> type(overview_chart([example_personal()], "test AUC")).__name__
    'VConcatChart'
    """
    scores = score_rows(runs)
    above = alt.hconcat(
        band_chart(scores, "What was gained", "round", up, series_colours(scores), limits=possible(runs)),
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
