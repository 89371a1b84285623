"""`enlist profile`: what a batch size costs in time and memory, what accuracy it gives, and which one to use."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from enlist.cli.console import needs_sim, new_folder, open_console, say_where, stopping, write_config
from enlist.cli.run import Changes, ConfigFile, Quiet, Trust
from enlist.cli.tables import Legend, show_table
from enlist.errors import InputError

if TYPE_CHECKING:
    from enlist.simulation.config import Config
    from enlist.simulation.profile import Profile

RULE = (
    "The choice: time per sample, memory of a step and lack of accuracy are each scaled to [0, 1] over the batch "
    "sizes, 0 for the best and 1 for the worst; the score is their weighted mean (--weights, here {weights}). "
    "The batch size with the lowest score wins, and among equal ones the smallest."
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
DEVIATIONS = "Times vary over all passes of all clients, as measured on this machine; memory varies over clients."
SPREAD = "one standard deviation: of times over all passes of all clients, of the rest over clients"
LEGEND: Legend = ((("±",), f"±: {SPREAD}"),)
LATENCY = (
    "Latency is the virtual latency of the simulated devices, median over clients, without noise. They are charged by "
    "sample, so a batch size changes it only if training.steps is set."
)


def profile(
    config: ConfigFile,
    batch_sizes: Annotated[str, typer.Option(help="Batch sizes to try, separated by commas.")] = "8,16,32,64",
    rounds: Annotated[int, typer.Option(help="Timed passes of every client over its samples.")] = 5,
    weights: Annotated[str, typer.Option(help="Weights of time, memory and accuracy in the choice.")] = "1,1,1",
    changes: Changes = None,
    output: Annotated[Path | None, typer.Option(help="New folder for tables, charts and report.")] = None,
    quiet: Quiet = False,
    trust: Trust = False,
) -> None:
    """Measure time, memory and accuracy of mini-batches of several sizes, client by client, and choose one.

    Example: [bold]enlist profile examples/quickstart.toml --batch-sizes 8,16,32,64 --rounds 5[/]
    """
    needs_sim("profile")
    from enlist.simulation.config import load
    from enlist.simulation.profile import scores

    sizes = [int(number) for number in _numbers("--batch-sizes", batch_sizes, "8,16,32,64", whole=True)]
    weighed = _numbers("--weights", weights, "1,1,1")
    settings = load(config, changes or [], trust=trust)
    console = open_console(150, quiet)
    with new_folder(output, "profile") as folder:
        result = with_progress(console, settings, sizes, rounds, weighed)
        parts = scores(result.rows, result.weights)
        title = f"{settings.model.name} on {settings.data.dataset.name}, {whom(result)}, {_times(result.rounds)}"
        show_table(console, table(result, parts), title, LEGEND, ("latency", "ms / mini-batch", "memory"))
        console.print(f"[bold]batch size {result.best}[/] is chosen: it has the lowest score.")
        rule = f"{RULE.format(weights=weights)} Times were measured on this machine; memory was computed."
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
    from enlist.report.charts import save, unchecked
    from enlist.report.page import Section, write_page
    from enlist.report.profile import PARTS, profile_charts

    summary = [
        {**dataclasses.asdict(row), **dict(zip((f"{name}_score" for name in PARTS), part, strict=True))}
        for row, part in zip(result.rows, parts.tolist(), strict=True)
    ]
    _write_csv(folder / "profile.csv", summary)
    _write_csv(folder / "measurements.csv", [_measured(one) for one in result.measurements])
    write_config(folder, config, ran=True)
    (folder / "charts").mkdir()
    with unchecked():
        drawn = profile_charts(result, parts)
        for name, chart in drawn.items():
            save(chart, folder / "charts" / name, (".png", ".svg"))
    first = Section(
        "Choice",
        f"Batch size {result.best} has the lowest score.",
        table(result, parts),
        [drawn["score"]],
        f"± is {SPREAD}. {RULE.format(weights=','.join(f'{weight:g}' for weight in result.weights))} {LATENCY}",
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


def by_client(result: Profile) -> list[list[str]]:
    """Header and one row per client: what it holds, and what it learned with every batch size."""
    sizes = [row.batch for row in result.rows]
    found = {(one.client, one.batch): one for one in result.measurements}
    rows = [["client", "samples", *(f"batch {size}" for size in sizes)]]
    for client in result.clients:
        ones = [found[client, size] for size in sizes]
        cells = [f"{one.loss:.3g}" if math.isnan(one.accuracy) else f"{100 * one.accuracy:.1f} %" for one in ones]
        rows.append([str(client), f"{ones[0].samples:,}", *cells])
    return rows


def whom(result: Profile) -> str:
    """How many of the clients were trained."""
    trained = len(result.clients)
    if trained == result.population:
        return f"{trained} client{'s' * (trained > 1)}"
    return f"{trained} of {result.population:,} clients, drawn at random"


def _times(rounds: int) -> str:
    return f"{rounds} pass{'es' * (rounds > 1)}"


def _numbers(option: str, text: str, example: str, whole: bool = False) -> list[float]:
    try:
        return [int(word) if whole else float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} is '{text}'; give {'whole ' if whole else ''}numbers separated by commas: {example}."
        ) from None


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _size(size: float) -> str:
    from enlist.report.profile import memory_unit

    unit, length = memory_unit(size)
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
