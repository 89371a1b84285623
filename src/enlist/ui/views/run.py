"""One simulation, also while it runs: learning curves, rounds, the clients it selected last, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from enlist.errors import EnlistError
from enlist.report import sentences
from enlist.report.charts import looks
from enlist.report.devices import (
    availability_chart,
    availability_rows,
    device_chart,
    device_rows,
    latency_chart,
    latency_rows,
)
from enlist.report.participation import (
    activity_chart,
    evenness_rows,
    lorenz_chart,
    outcome_chart,
    outcome_rows,
    selection_chart,
    selection_rows,
)
from enlist.report.reasons import term_chart, term_rows
from enlist.report.rounds import ENDINGS, ending_chart, ending_rows, round_outcome_chart, round_outcome_rows
from enlist.report.runs import ORDER_NAMES
from enlist.report.sizes import size_histogram
from enlist.report.skew import class_heatmap
from enlist.report.training import curve_chart, curve_rows
from enlist.runs.clients import by_client
from enlist.runs.comparing import comparison_rows, configured_target
from enlist.runs.groups import leaves
from enlist.runs.printing import UNKNOWN, duration, level, percent, plural, score, written
from enlist.runs.scores import measure, run_scores
from enlist.runs.tables import RunTables
from enlist.runs.why import why
from enlist.ui.index import Item
from enlist.ui.status import RunSummary, Status
from enlist.ui.views.model import Cell, Chart, NotFoundError, Part, View, address, figure, link

LAST_ROUNDS = 12
ROUND_COLUMNS = ("selected", "completed", "late", "dropped", "failed", "arrived")
MOST_CHOSEN = 30
"""Most clients of a round that are listed."""
WHOLE = 5_000_000
"""Most rows of a CSV."""


def run_view(item: Item, summary: RunSummary, run: RunTables, round: int | None = None) -> View:
    """A run; `round` is the one whose selection is explained, the last one by default.

    >>> from pathlib import Path
    >>> from enlist.runs.example import example_run
    >>> from enlist.ui.status import Status
    >>> item = Item("mine", "run", Path("mine"), Path("mine"))
    >>> view = run_view(item, RunSummary(item, Status("finished", 0.0)), example_run("oort"))
    >>> [part.heading for part in view.parts()][:3]
    ['Learning', 'Rounds', 'Clients selected in round 8, and why']
    """
    charts = run_charts([run])
    shown = shown_round(run, round)

    def parts() -> list[Part]:
        found = []
        if len(run.rounds["round"]):
            found = [
                learning_part(run, charts),
                rounds_part(item, run),
                choice_part(item, run, shown),
                *selected_parts([run], charts),
            ]
            found += [_clients(item, run)]
        return [*found, *_population(run, charts), configuration_part([run])]

    return View(
        "run",
        run.name,
        _lead(summary, run),
        state=state_of(summary.status),
        figures=lambda: run_figures(summary, run),
        parts=parts,
        charts=charts,
        tables={
            "rounds": lambda: run.rounds,
            "participations": lambda: run.participations,
            "clients": lambda: by_client(run),
            "population": lambda: run.clients,
            "reasons": lambda: run.reasons,
            "choice": lambda: why(run, shown).columns if shown is not None else {"client": []},
            "configuration": lambda: configuration([run]),
        },
        links=[("Compare with others", address("compare", of=[item.parent] if item.parent else [item.id]))],
        data={"id": item.id, "rounds": span(run), "round": shown},
    )


def state_of(now: Status) -> dict[str, Any]:
    """A status for the page, which computes what changes with the clock."""
    found = {"state": now.state, "since": now.since, "why": now.why, "rounds": now.rounds, "of": now.of}
    return found | {"progress": now.progress, "left": now.left}


def _lead(summary: RunSummary, run: RunTables) -> str:
    clients = plural(run.count, "client") if run.count else "no clients yet"
    return f"{summary.data}, {clients}." if summary.data else f"{clients}."


def run_figures(summary: RunSummary, run: RunTables) -> list[dict[str, Any]]:
    """The key figures of a run."""
    by, now = measure([run]), summary.status
    rounds = f"{now.rounds:,} of {now.of:,}" if now.of else f"{now.rounds:,}"
    found = [figure("rounds", rounds)]
    if not len(run.rounds["round"]):
        return found
    scores = run_scores(run, by)
    found += [figure(f"last {by}", score(scores["last"], by)), figure(f"best {by}", score(scores["best"], by))]
    target = configured_target([run])
    if target is not None:
        took = UNKNOWN if summary.time_to is None else duration(summary.time_to)
        found.append(figure(f"{run.clock} to {level(target, by)}", took))
    found.append(figure(run.clock, duration(scores["time"])))
    outcomes = ("completed", "late", "dropped", "failed")
    found += [figure(name, percent(scores[name]), name if scores[name] > 0 else "") for name in outcomes]
    return [*found, figure("clients seen", percent(scores["coverage"])), figure("Jain", f"{scores['jain']:.2f}")]


def run_charts(runs: Sequence[RunTables], target: float | None = None) -> dict[str, Chart]:
    """All charts of runs with one configuration, by name."""
    first, clock = runs[0], runs[0].clock

    def goal(by: str) -> float:
        if by != measure(runs):
            return math.nan
        found = configured_target(runs) if target is None else target
        return math.nan if found is None else found

    def curve(by: str, along: str) -> Chart:
        def made() -> Any:
            rows = curve_rows(runs, along, by)
            where = clock if along == "time" else "rounds"
            title = f"{by.capitalize()} over {where}"
            return curve_chart(rows, title, along, by, goal(by), clock) if rows else None

        return made

    def heat(order: str) -> Chart:
        return lambda: selection_chart(selection_rows(runs, order), f"Who was selected, by {ORDER_NAMES[order]}", order)

    def terms(name: str) -> Chart:
        def made() -> Any:
            rows = term_rows([run for run in runs if run.selector == name])
            look = dict(zip(names, looks(list(names)), strict=True))[name]
            return term_chart(rows, f"Terms of {name}", look.colour) if rows else None

        return made

    names = dict.fromkeys(run.selector for run in runs)
    charts: dict[str, Chart] = {
        f"{by}-{along}": curve(by, along) for by in ("accuracy", "loss") for along in ("time", "rounds")
    }
    charts |= {f"selected-by-{order}": heat(order) for order in orders(runs)}
    charts |= {
        "updates": lambda: activity_chart(evenness_rows(runs), "Updates per client"),
        "evenness": lambda: lorenz_chart(evenness_rows(runs), "How evenly clients took part"),
        "outcomes": lambda: outcome_chart(outcome_rows(runs), "Outcomes of selected clients"),
        "availability": lambda: availability_chart(availability_rows(runs), "Available clients", clock),
    }
    told = dict.fromkeys(run.selector for run in runs if run.reasons)
    charts |= {f"terms-{place}": terms(name) for place, name in enumerate(list(told)[:6], 1)}
    if len(runs) == 1:
        charts |= {
            "durations": lambda: ending_chart(ending_rows(first), "How long rounds took, and what ended them"),
            "round-outcomes": lambda: round_outcome_chart(round_outcome_rows(first), "Outcomes by round"),
        }
    return charts | _population_charts(first)


def _population_charts(run: RunTables) -> dict[str, Chart]:
    charts: dict[str, Chart] = {}
    if device_rows(run, most=1):
        charts["devices"] = lambda: device_chart(device_rows(run), "Devices")
    if latency_rows(run):
        charts["latency"] = lambda: latency_chart(latency_rows(run), "How long an update takes")
    samples = run.clients["num_examples"] if run.count else np.empty(0)
    told = samples[np.isfinite(samples)]
    if run.classes and run.count:
        counts = np.stack([run.clients[name] for name in run.classes], axis=1)
        classes = [name.removeprefix("class_") for name in run.classes]
        charts["classes"] = lambda: class_heatmap(counts, "Which classes clients hold", classes, run.names)
    if len(told):
        charts["sizes"] = lambda: size_histogram(told, "How much clients hold")
    return charts


def orders(runs: Sequence[RunTables]) -> list[str]:
    """How clients can be ordered: by speed if it is known for all, by size if they differ in it."""
    found = []
    if all(run.count and np.isfinite(run.clients.get("expected_latency", np.array([np.nan]))).all() for run in runs):
        found.append("speed")
    if not found or any(run.count and np.ptp(run.clients["num_examples"]) > 0 for run in runs):
        found.append("size")
    return found


def learning_part(run: RunTables, charts: dict[str, Chart]) -> Part:
    """Accuracy and loss, over time and rounds, as far as measured."""
    known = [by for by in ("accuracy", "loss") if np.isfinite(run.rounds[by]).any()]
    text = () if known else ("Nothing is evaluated yet.",)
    return Part("Learning", text, charts=[name for name in charts if name.rpartition("-")[0] in known])


def rounds_part(item: Item, run: RunTables) -> Part:
    """How long rounds took and what ended them, latest first."""
    table = run.rounds
    ends = ending_rows(run, most=WHOLE)
    names = [name for name in ROUND_COLUMNS if name in table]
    by = measure([run])
    limited = any(math.isfinite(row["deadline"]) for row in ends)
    rows: list[list[Cell]] = [["round", "duration", *(["deadline"] if limited else []), "ended by", *names, by]]
    for place in range(len(ends) - 1, max(len(ends) - 1 - LAST_ROUNDS, -1), -1):
        counts = [f"{np.nan_to_num(table[name][place]):.0f}" for name in names]
        number = ends[place]["round"]
        here = link(number, address(item.kind, item.id, round=number))
        value = score(float(table[by][place]), by)
        limit = ends[place]["deadline"]
        limits = [duration(limit) if math.isfinite(limit) else "none"] if limited else []
        rows.append([here, duration(ends[place]["duration"]), *limits, ends[place]["ended"], *counts, value])
    told = [sum(row["ended"] == name for row in ends) for name in ENDINGS]
    by_what = ", ".join(f"{name} ({count:,})" for name, count in zip(ENDINGS, told, strict=True) if count)
    text = f"What ended rounds: {by_what}." if ends else ""
    return Part("Rounds", [text], rows, "rounds", ["durations", "round-outcomes"])


def shown_round(run: RunTables, wanted: int | None) -> int | None:
    """The round to explain: the requested one, or the last one in which clients were selected."""
    known = run.rounds["round"]
    if wanted is not None and len(known):
        if wanted not in known:
            raise NotFoundError(f"round {wanted} is not in this run; it has rounds {known[0]:g} to {known[-1]:g}.")
        return wanted
    asked = known[np.nan_to_num(run.rounds["selected"]) > 0] if len(known) else known
    return int(asked[-1]) if len(asked) else int(known[-1]) if len(known) else None


def span(run: RunTables) -> list[int]:
    """The first and the last round."""
    known = run.rounds["round"]
    return [int(known[0]), int(known[-1])] if len(known) else []


def choice_part(item: Item, run: RunTables, number: int | None) -> Part:
    """The clients that a round selected, with the terms of their scores, and sentences."""
    heading = f"Clients selected in round {number}, and why"
    if number is None:
        return Part("Selected clients, and why", ["No round is finished yet."])
    try:
        found = why(run, number)
    except EnlistError as error:
        return Part(heading, [str(error).replace(str(run.folder), item.id)])
    lines = found.rows()
    rows: list[list[Cell]] = [list(lines[0])]
    rows += [
        [link(line[0], address("client", item.id, client=line[0], round=number)), *line[1:]]
        for line in lines[1 : MOST_CHOSEN + 1]
    ]
    more = len(lines) - 1 - MOST_CHOSEN
    note = f"{more:,} more are not shown; the CSV has all." if more > 0 else ""
    return Part(heading, found.sentences, rows if len(rows) > 1 else (), "choice", _terms(run), note)


def _terms(run: RunTables) -> list[str]:
    return ["terms-1"] if run.reasons else []


def selected_parts(runs: Sequence[RunTables], charts: dict[str, Chart]) -> list[Part]:
    """Which clients were selected, how evenly, and with what outcomes."""
    text = [sentences.preference(runs), sentences.evenness(runs)]
    names = [*(f"selected-by-{order}" for order in orders(runs)), "updates", "evenness"]
    found = [Part("Who was selected", text, charts=[name for name in names if name in charts])]
    further = ["outcomes"] if len(runs) > 1 else []
    if any(row["available"] < row["clients"] for row in availability_rows(runs)):
        further.append("availability")
    if further:
        text = [sentences.outcomes(comparison_rows(runs)), sentences.presence(runs)]
        found.append(Part("Outcomes and presence", text, charts=further))
    return found


def _clients(item: Item, run: RunTables) -> Part:
    table = by_client(run)
    order = np.argsort(-table["selected"], kind="stable")[:100].tolist()
    rows: list[list[Cell]] = [list(table)]
    for place in order:
        number = int(table["client"][place])
        cells = [_cell(table[name][place]) for name in table if name != "client"]
        rows.append([link(number, address("client", item.id, client=number)), *cells])
    note = f"The 100 of {run.count:,} clients that were selected most often." if run.count > 100 else ""
    return Part("Clients", table=rows, csv="clients", note=note, folded=True)


def _cell(value: Any) -> str:
    return number_cell(float(value)) if isinstance(value, float | np.floating) else str(value)


def number_cell(value: float) -> str:
    """Format a number of any size for tables.

    >>> number_cell(26_100.4), number_cell(3.86812), number_cell(math.nan)
    ('26,100', '3.868', '–')
    """
    if math.isnan(value):
        return UNKNOWN
    return f"{value:,.0f}" if 1_000 <= abs(value) < 1e15 else f"{value:.4g}"


def _population(run: RunTables, charts: dict[str, Chart]) -> list[Part]:
    names = [name for name in ("classes", "sizes", "devices", "latency") if name in charts]
    if not names:
        return []
    text = [sentences.data(run), sentences.devices(run)] if run.count else []
    return [Part("Data and devices", text, charts=names, csv="population", folded=True)]


def configuration_part(runs: Sequence[RunTables]) -> Part:
    """The configuration, key by key."""
    table = configuration(runs)
    rows = [["key", "value"], *([key, value] for key, value in zip(table["key"], table["value"], strict=True))]
    return Part("Configuration", table=rows, csv="configuration", folded=True)


def configuration(runs: Sequence[RunTables]) -> dict[str, list[str]]:
    """Keys of the configuration and their values."""
    found = leaves(runs[0].config)
    return {"key": list(found), "value": [written(value) for value in found.values()]}
