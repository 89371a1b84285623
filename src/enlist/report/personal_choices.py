"""Charts of the choices of personalised learning: the combination kept in each round, partners early and late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from enlist.report.charts import PALETTE, Row
from enlist.report.kit import ANY, BLUE, NUMBER, WIDTH, domain, tile_layer
from enlist.runs.personal import PersonalTables, partner_scores

HEIGHT = 270
MOST = len(PALETTE)
OTHERS, POISONOUS = "others", "#c1121f"
GREY = "#b8bfc9"


def kind_colours(kinds: Sequence[str]) -> alt.Scale:
    """Blue for sound, red for poisonous workers, whatever a chart calls them.

    >>> kind_colours(["sound", "poisonous"]).range
    ['#0b6e99', '#c1121f']
    """
    return alt.Scale(domain=list(kinds), range=[BLUE if kind in ("sound", "without") else POISONOUS for kind in kinds])


def shown_arms(runs: Sequence[PersonalTables]) -> list[str]:
    """The arms that get a colour: all, in order, or, if many, those kept most often; the rest are "others".

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


def arm_colours(runs: Sequence[PersonalTables]) -> alt.Scale:
    """A colour for each shown arm, the same in all charts.

    >>> from enlist.runs.personal_example import example_personal
    >>> arm_colours([example_personal()]).domain
    ['1+2', '2+3', '2+4', 'others']
    """
    labels = shown_arms(runs)
    return alt.Scale(domain=[*labels, OTHERS], range=[*PALETTE[: len(labels)], GREY])


def poisonous(runs: Sequence[PersonalTables]) -> set[str]:
    """Names of the poisonous workers.

    >>> from enlist.runs.personal_example import example_personal
    >>> poisonous([example_personal()])
    {'4'}
    """
    table = runs[0].workers
    return {str(name) for name, kind in zip(table["worker"], table["poison"], strict=True) if kind}


def action_rows(runs: Sequence[PersonalTables]) -> list[dict[str, Any]]:
    """The combination kept in every round of every run, with the test score after that round.

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
    """A row of tiles per seed, a tile per round, coloured by the kept combination.

    >>> from enlist.runs.personal_example import example_personal
    >>> runs = [example_personal(seed) for seed in range(2)]
    >>> action_chart(action_rows(runs), "Kept", arm_colours(runs)).to_dict()["mark"]["type"]
    'rect'
    """
    present = {row["arm"] for row in rows}
    places = range(1, max(row["round"] for row in rows) + 1)
    legend = alt.Legend(
        title=None,
        orient="top",
        columns=4,
        labelLimit=150,
        symbolType="square",
        symbolStrokeWidth=0,
        values=[name for name in colours.domain if name in present],
    )
    seeds = sorted({row["seed"] for row in rows}, key=int)
    tiles = tile_layer(
        alt.Chart(alt.InlineData(values=list(rows))),
        places,
        "round",
        alt.Y("seed:N", title="seed", sort=seeds, axis=alt.Axis(ticks=False, domain=False)),
        alt.Color("arm:N", scale=colours, legend=legend),
        ["seed:N", "round:O", "arm:N", alt.Tooltip("test:Q", format=".3f")],
        WIDTH,
    )
    chart: alt.Chart = tiles.properties(title=title, width=WIDTH, height=alt.Step(22))
    return chart


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
    scale = alt.Scale(domain=domain([row["test"] for row in rows], limits), nice=False, zero=False)
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("round:Q", title="round", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickCount=7)),
        y=alt.Y("test:Q", title=up, scale=scale, axis=alt.Axis(tickCount=6, format=NUMBER)),
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

    Poisonous workers are red and labelled as such. If there are many workers, those kept most often and all poisonous
    ones are shown.

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
        color=alt.Color("kind:N", scale=kind_colours(kinds), legend=None),
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
