"""`enlist profile`: what a batch size costs in time and memory, what it brings in accuracy, and which to take."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from enlist.cli.console import as_rich, needs_sim, new_folder, open_console, say_where, stopping
from enlist.cli.run import Changes, ConfigFile
from enlist.errors import InputError

if TYPE_CHECKING:
    import altair as alt

    from enlist.simulation.config import Config
    from enlist.simulation.profile import Profile

PARTS = ("time", "memory", "accuracy")
COLOURS = ("#0b6e99", "#e9a23b", "#6a4c93")
WIDTH, HEIGHT = 430, 280
RULE = (
    "The choice: time per sample, memory of a step and lack of accuracy are each brought to [0, 1] over the batch "
    "sizes, 0 for the best of them and 1 for the worst; the score is their weighted mean (--weights, here {weights}), "
    "and the batch size with the least score is taken, of equal ones the smallest."
)
MACHINE = (
    "Wall-clock times, measured on this machine ({machine}); they differ elsewhere. Every client trained alone. Its "
    "time is the median of its passes; light bars are one standard deviation to either side, over all passes of all "
    "clients."
)
MEMORY = (
    "The peak of all tensors that one training step makes (batch, activations, gradients), on top of the model and the "
    "client's samples. It is counted, not measured, and the same on every machine. It varies between clients because "
    "those with fewer samples than a mini-batch holds take smaller ones."
)
LEARNED = (
    "Each client's own model on its own samples, after {rounds} over them, always from the same model. Lines are means."
)
DEVIATIONS = "Of time, over all passes of all clients, as measured on this machine; of memory, over clients."
LATENCY = (
    "Latency is the virtual one of the simulated devices, median over clients, without noise: they are charged by "
    "sample, so that a batch size changes it only where training.steps is set."
)


def profile(
    config: ConfigFile,
    batch_sizes: Annotated[str, typer.Option(help="Batch sizes to try, with commas.")] = "8,16,32,64",
    rounds: Annotated[int, typer.Option(help="Passes of every client over its samples; all of them are timed.")] = 5,
    weights: Annotated[str, typer.Option(help="What time, memory and accuracy weigh in the choice.")] = "1,1,1",
    changes: Changes = None,
    output: Annotated[Path | None, typer.Option(help="A new folder for tables, charts and report.")] = None,
) -> None:
    """Measure time, memory and accuracy of mini-batches of several sizes, client by client, and choose one.

    Example: [bold]enlist profile examples/quickstart.toml --batch-sizes 8,16,32,64 --rounds 5[/]
    """
    needs_sim("profile")
    from enlist.simulation.config import load
    from enlist.simulation.profile import scores

    sizes = [int(number) for number in _numbers("--batch-sizes", batch_sizes, "8,16,32,64", whole=True)]
    weighed = _numbers("--weights", weights, "1,1,1")
    settings = load(config, changes or [])
    console = open_console(150)
    with new_folder(output, "profile") as folder:
        result = with_progress(console, settings, sizes, rounds, weighed)
        parts = scores(result.rows, result.weights)
        title = f"{settings.model.name} on {settings.data.dataset.name}, {whom(result)}, {_times(result.rounds)}"
        console.print(
            as_rich(table(result, parts), title, () if console.width >= 110 else ("latency", "ms / mini-batch"))
        )
        console.print(f"[bold]batch size {result.best}[/] is the choice: it has the least score.")
        rule = f"{RULE.format(weights=weights)} Times were measured on this machine, memory was counted."
        console.print(rule, style="dim", markup=False, highlight=False)
        say_where(console, publish(folder, settings, result, parts, title))


def with_progress(
    console: Console, config: Config, sizes: Sequence[int], rounds: int, weights: Sequence[float]
) -> Profile:
    """Measure under a progress bar, quiet in pipes."""
    from enlist.simulation import profile as profiling
    from enlist.simulation.population import build

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bar, stopping(console):
        task = bar.add_task("clients x batch sizes", total=None)
        people = build(config)
        bar.update(task, total=len(set(sizes)) * min(len(people), profiling.MOST))
        advance = lambda size, client: bar.advance(task)  # noqa: E731
        return profiling.profile(config, sizes, rounds=rounds, weights=weights, population=people, progress=advance)


def table(result: Profile, parts: Any) -> list[list[str]]:
    """Header and one row per batch size."""
    from enlist.runs.printing import duration

    regression = math.isnan(result.rows[0].accuracy)
    rows = [
        ["batch", "ms / sample", "ms / mini-batch", "memory", "loss" if regression else "accuracy", "latency", "score"]
    ]
    for row, score in zip(result.rows, parts.sum(axis=1), strict=True):
        learned = f"{row.loss:.3g} ± {row.loss_std:.2g}"
        if not regression:
            learned = f"{100 * row.accuracy:.1f} ± {100 * row.accuracy_std:.1f} %"
        rows.append(
            [
                f"{row.batch}{' ←' if row.batch == result.best else ''}",
                f"{_figure(1e3 * row.per_sample)} ± {_figure(1e3 * row.per_sample_std)}",
                f"{_figure(1e3 * row.per_batch)} ± {_figure(1e3 * row.per_batch_std)}",
                f"{_size(row.memory)} ± {_size(row.memory_std)}",
                learned,
                duration(row.latency),
                f"{score:.3f}",
            ]
        )
    return rows


def publish(folder: Path, config: Config, result: Profile, parts: Any, title: str) -> Path:
    """Write tables, charts and the report page; returns the page's path."""
    from enlist.report.charts import save
    from enlist.report.page import Section, write_page

    summary = [
        {**dataclasses.asdict(row), **dict(zip((f"{name}_score" for name in PARTS), part, strict=True))}
        for row, part in zip(result.rows, parts.tolist(), strict=True)
    ]
    _write_csv(folder / "profile.csv", summary)
    _write_csv(folder / "measurements.csv", [_measured(one) for one in result.measurements])
    (folder / "config.json").write_text(json.dumps(config.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
    drawn = charts(result, parts)
    (folder / "charts").mkdir()
    for name, chart in drawn.items():
        save(chart, folder / "charts" / name, (".png", ".svg"))
    first = Section(
        "Choice",
        f"Batch size {result.best} has the least score.",
        table(result, parts),
        [drawn["score"]],
        f"{RULE.format(weights=','.join(f'{weight:g}' for weight in result.weights))} {LATENCY}",
    )
    sections = [
        first,
        Section(
            "Time",
            MACHINE.format(machine=result.machine),
            charts=[drawn["time-per-sample"], drawn["time-per-batch"], drawn["time-per-client"]],
        ),
        Section("Memory", MEMORY, charts=[drawn["memory"]]),
        Section(
            "What clients learned", LEARNED.format(rounds=_times(result.rounds)), by_client(result), [drawn["accuracy"]]
        ),
        Section("Standard deviations", DEVIATIONS, charts=[drawn["time-deviation"], drawn["memory-deviation"]]),
    ]
    lead = f"{title}. Time, memory and accuracy of mini-batches of {len(summary)} sizes."
    return write_page(folder / "report.html", "Mini-batch profile", lead, sections)


def charts(result: Profile, parts: Any) -> dict[str, alt.TopLevelMixin]:
    """All charts of a profile, by the name of their file."""
    rows = [dataclasses.asdict(row) for row in result.rows]
    ones = [{**dataclasses.asdict(one), "seconds": one.seconds} for one in result.measurements]
    regression = math.isnan(rows[0]["accuracy"])
    unit, size = _unit(max(row["memory"] + row["memory_std"] for row in rows))
    learned, form = ("loss", ".3g") if regression else ("accuracy", ".0%")
    return {
        "score": score_chart(result, parts, "Score, the less the better"),
        "time-per-sample": spread_chart(rows, "per_sample", 1e3, "ms per sample", "Time per sample on this machine"),
        "time-per-batch": spread_chart(
            rows, "per_batch", 1e3, "ms per mini-batch", "Time per mini-batch on this machine"
        ),
        "time-per-client": client_chart(
            ones, "seconds", 1e3, "ms per pass", "Time per client on this machine", ",.4~g"
        ),
        "memory": spread_chart(rows, "memory", 1 / size, f"{unit} per step", "Peak memory of a training step"),
        "accuracy": dots_chart(ones, rows, learned, form, f"{learned.capitalize()} of each client on its own samples"),
        "time-deviation": bar_chart(rows, "per_batch_std", 1e3, "ms per mini-batch", "Standard deviation of time"),
        "memory-deviation": bar_chart(rows, "memory_std", 1 / size, f"{unit} per step", "Standard deviation of memory"),
    }


def spread_chart(rows: Sequence[dict[str, Any]], name: str, scale: float, axis: str, title: str) -> alt.LayerChart:
    """A value over batch sizes with one standard deviation to either side."""
    import altair as alt

    values = [
        {
            "batch": row["batch"],
            "value": row[name] * scale,
            "std": row[f"{name}_std"] * scale,
            "low": max(row[name] - row[f"{name}_std"], 0.0) * scale,
            "high": (row[name] + row[f"{name}_std"]) * scale,
        }
        for row in rows
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(x=_batch_axis())
    up = alt.Y("low:Q", title=axis, scale=alt.Scale(domainMin=0), axis=alt.Axis(tickCount=6))
    tooltip = [
        "batch:O",
        alt.Tooltip("value:Q", title=axis, format=".4~g"),
        alt.Tooltip("std:Q", title="±", format=".3~g"),
    ]
    band = base.mark_rule(strokeWidth=9, opacity=0.22, color=COLOURS[0]).encode(y=up, y2="high:Q")
    line = base.mark_line(strokeWidth=2, color=COLOURS[0]).encode(y="value:Q")
    dots = base.mark_circle(size=90, opacity=1, color=COLOURS[0]).encode(y="value:Q", tooltip=tooltip)
    layered: alt.LayerChart = (band + line + dots).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def bar_chart(rows: Sequence[dict[str, Any]], name: str, scale: float, axis: str, title: str) -> alt.Chart:
    """A bar per batch size."""
    import altair as alt

    values = [{"batch": row["batch"], "value": row[name] * scale} for row in rows]
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar(color=COLOURS[0], size=46)
        .encode(
            x=_batch_axis(),
            y=alt.Y("value:Q", title=axis, scale=alt.Scale(domainMin=0), axis=alt.Axis(tickCount=6)),
            tooltip=["batch:O", alt.Tooltip("value:Q", title=axis, format=".4~g")],
        )
        .properties(title=title, width=WIDTH, height=HEIGHT)
    )
    return chart


def client_chart(
    ones: Sequence[dict[str, Any]], name: str, scale: float, axis: str, title: str, form: str
) -> alt.Chart:
    """A dot per client and batch size, clients side by side."""
    import altair as alt

    values = [{"batch": one["batch"], "client": one["client"], "value": one[name] * scale} for one in ones]
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_circle(size=80, opacity=0.9)
        .encode(
            x=alt.X("client:O", axis=alt.Axis(labelAngle=0, grid=True, ticks=False)),
            y=alt.Y("value:Q", title=axis, axis=alt.Axis(tickCount=6)),
            color=alt.Color("batch:O", title="batch size", scale=alt.Scale(scheme="viridis")),
            tooltip=["client:O", "batch:O", alt.Tooltip("value:Q", title=axis, format=form)],
        )
        .properties(title=title, width=max(30 * len({one["client"] for one in ones}), 240), height=HEIGHT)
    )
    return chart


def dots_chart(
    ones: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], name: str, form: str, title: str
) -> alt.LayerChart:
    """A dot per client in a column per batch size, always at the same place, and a line at their mean."""
    import altair as alt

    values = [{"batch": one["batch"], "client": one["client"], "value": one[name]} for one in ones]
    means = [{"batch": row["batch"], "value": row[name]} for row in rows]
    scale = alt.Scale(zero=False, nice=True)
    up = alt.Y("value:Q", title=name, scale=scale, axis=alt.Axis(format=form, tickCount=6))
    tooltip = ["client:O", "batch:O", alt.Tooltip("value:Q", title=name, format=".1%" if "%" in form else form)]
    dots = (
        alt.Chart(alt.InlineData(values=values))
        .mark_circle(size=60, opacity=0.55, color=COLOURS[2])
        .encode(x=_batch_axis(), xOffset="client:O", y=up, tooltip=tooltip)
    )
    mean = (
        alt.Chart(alt.InlineData(values=means))
        .mark_tick(color="#e07a1f", thickness=3, size=90)
        .encode(x=_batch_axis(), y=up, tooltip=["batch:O", alt.Tooltip("value:Q", title="mean", format=form)])
    )
    layered: alt.LayerChart = (dots + mean).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def score_chart(result: Profile, parts: Any, title: str) -> alt.LayerChart:
    """What time, memory and accuracy add to the score of every batch size; the choice is marked."""
    import altair as alt

    values = [
        {"batch": row.batch, "part": name, "score": share, "order": order}
        for row, shares in zip(result.rows, parts.tolist(), strict=True)
        for order, (name, share) in enumerate(zip(PARTS, shares, strict=True))
    ]
    totals = [
        {"batch": row.batch, "score": total, "text": "chosen" if row.batch == result.best else ""}
        for row, total in zip(result.rows, parts.sum(axis=1).tolist(), strict=True)
    ]
    up = alt.Y("score:Q", title="score", axis=alt.Axis(tickCount=6))
    bars = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar(size=46)
        .encode(
            x=_batch_axis(),
            y=up,
            color=alt.Color(
                "part:N", title=None, sort=list(PARTS), scale=alt.Scale(domain=list(PARTS), range=list(COLOURS))
            ),
            order=alt.Order("order:Q"),
            tooltip=["batch:O", "part:N", alt.Tooltip("score:Q", format=".3f")],
        )
    )
    words = (
        alt.Chart(alt.InlineData(values=totals))
        .mark_text(dy=-9, fontSize=13, fontWeight="bold", color="#b85c0a")
        .encode(x=_batch_axis(), y=up, text="text:N")
    )
    layered: alt.LayerChart = (bars + words).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def by_client(result: Profile) -> list[list[str]]:
    """Header and one row per client: what it holds and what it learned with every batch size."""
    sizes = [row.batch for row in result.rows]
    found = {(one.client, one.batch): one for one in result.measurements}
    rows = [["client", "samples", *(f"batch {size}" for size in sizes)]]
    for client in result.clients:
        ones = [found[client, size] for size in sizes]
        cells = [f"{one.loss:.3g}" if math.isnan(one.accuracy) else f"{100 * one.accuracy:.1f} %" for one in ones]
        rows.append([str(client), f"{ones[0].samples:,}", *cells])
    return rows


def whom(result: Profile) -> str:
    """How many clients were trained, of how many."""
    trained = len(result.clients)
    if trained == result.population:
        return f"{trained} client{'s' * (trained > 1)}"
    return f"{trained} of {result.population:,} clients, drawn by lot"


def _times(rounds: int) -> str:
    return f"{rounds} pass{'es' * (rounds > 1)}"


def _batch_axis() -> alt.X:
    import altair as alt

    return alt.X("batch:O", title="batch size", axis=alt.Axis(labelAngle=0, ticks=False))


def _numbers(option: str, text: str, example: str, whole: bool = False) -> list[float]:
    try:
        return [int(word) if whole else float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} is '{text}'; give {'whole ' if whole else ''}numbers with commas: {example}."
        ) from None


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _unit(size: float) -> tuple[str, float]:
    return next((unit for unit in (("GB", 1e9), ("MB", 1e6)) if size >= unit[1]), ("kB", 1e3))


def _size(size: float) -> str:
    unit, length = _unit(size)
    return f"{size / length:.3g} {unit}" if size else "0"


def _measured(one: Any) -> dict[str, Any]:
    row = dataclasses.asdict(one)
    del row["passes"]
    return {
        **row,
        "seconds": one.seconds,
        "per_sample": one.seconds / one.samples,
        "per_batch": one.seconds / one.steps,
    }


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([["" if value != value else value for value in row.values()] for row in rows])
