"""`enlist describe`: which client holds what, on which device, and when it is online; nothing is trained."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.table import Table
from rich.text import Text

from enlist._internal.text import printable
from enlist._internal.typing import AnyArray
from enlist.cli.console import (
    LINE,
    as_rich,
    needs_sim,
    new_folder,
    open_console,
    say_where,
    shown,
    stopping,
    warn,
    write_config,
)
from enlist.cli.run import Changes, ConfigFile, Quiet, Trust
from enlist.cli.tables import not_shown

if TYPE_CHECKING:
    import altair as alt

    from enlist.data.describe import Description
    from enlist.simulation.config import Config
    from enlist.simulation.population import Population

FEW = 24
"""Up to this many clients get a row of their own."""
MOMENTS = 97
"""Times of a day, a quarter of an hour apart, at which online clients are counted."""
DAY = 86_400.0
TENTHS = "tenths of all targets, the lowest first"
MEANING = (
    "The entropy of a client's labels is 0 if it holds only one class, and 1 if it holds equal shares of all. The "
    "distance to the whole is the share of its samples that it would have to exchange to match the labels of all "
    "clients."
)


def describe(
    config: ConfigFile,
    changes: Changes = None,
    output: Annotated[Path | None, typer.Option(help="New folder for table, charts and report.")] = None,
    quiet: Quiet = False,
    trust: Trust = False,
) -> None:
    """Show the federation: classes, sizes and skew of every client, its device, and when it is online.

    Example: [bold]enlist describe examples/quickstart.toml --set data.partition.alpha=0.05[/]
    """
    needs_sim("describe")
    from enlist.data.describe import table
    from enlist.simulation.config import load

    settings = load(config, changes or [], trust=trust, code=lambda config: config.data.dataset.code())
    console = open_console(quiet=quiet)
    with new_folder(output, "describe") as folder, stopping(console):
        people, columns, description = described(settings)
        title = heading(settings, people)
        console.print(_two_columns([*table(description), input_line(people)], title))
        if len(people) <= FEW:
            for part in client_tables(people, columns, console.width):
                console.print(part)
        console.print(_two_columns([*device_lines(columns), *online_lines(people)], "Devices and availability"))
        if settings.model.code():
            console.print(unknown_size(settings), style="dim", markup=False, highlight=False)
        warn(console, settings.no_choice(len(people)))
        say_where(console, publish(folder, settings, people, columns, description, title))


def described(config: Config) -> tuple[Population, dict[str, AnyArray], Description]:
    """The population, its columns of clients.csv, and its description."""
    from enlist.data import Shards
    from enlist.data.describe import describe as describe_partition
    from enlist.simulation.population import build
    from enlist.streams import Streams
    from enlist.training.flat import Layout
    from enlist.training.models import initialise

    people = build(config)
    size = 0  # unknown for a user's own model, because no user code is imported here
    if not config.model.code():
        module = initialise(config.model, people.shape, people.classes, Streams(config.seed))
        size = 4 * Layout.of(module).numbers
    labels = people.samples["train"].y[: people.offsets[-1]]  # without the spoiled copies of hostile clients
    shards = Shards(order=np.arange(len(labels)), offsets=people.offsets)
    columns = people.columns(size)
    return people, columns, describe_partition(labels, shards, people.classes)


def unknown_size(config: Config) -> str:
    """What expected latencies leave out if the model is the user's own."""
    names = ", ".join(config.model.code())
    return f"Expected latencies leave out the transfer of the model: its size is unknown, as {names} is not imported."


def heading(config: Config, people: Population) -> str:
    """A population in one line."""
    partition = config.data.partition
    options = partition.model_dump(exclude={"kind"})
    shown = ", ".join(f"{name} {value:g}" for name, value in options.items() if not isinstance(value, bool))
    return f"{people.name}, {partition.kind}{f' ({shown})' if shown else ''}, seed {config.seed}"


def input_line(people: Population) -> tuple[str, str]:
    """The number of inputs of a sample, and their names."""
    from enlist.data.describe import inputs

    return "inputs", inputs(people.shape, people.input_names)


def class_names(people: Population) -> list[str]:
    """Names of the classes; a regression has bins instead, numbered from 1."""
    first = 0 if people.classes else 1
    return list(map(printable, people.class_names)) or [str(number + first) for number in range(people.counts.shape[1])]


def client_tables(people: Population, columns: Mapping[str, AnyArray], width: int) -> list[Any]:
    """A table of client x class, with numbers for long names; if too wide, the most frequent classes instead."""
    names = class_names(people)
    numbers = [str(number) for number in range(len(names))]
    for heads in (names, numbers):
        rows = [[*_who(people), "samples", *heads, "entropy", "distance"]]
        for client in range(len(people)):
            counts = [f"{count:,}" if count else "·" for count in people.counts[client].tolist()]
            skew = [f"{columns[name][client]:.2f}" for name in ("entropy", "distance")]
            rows.append([*_who(people, client), f"{people.sizes[client]:,}", *counts, *skew])
        hidden = too_wide(rows, ("distance", "entropy"), width)
        if hidden is not None:
            title = "Samples of each class" if people.classes else f"Samples of each class: {TENTHS}"
            legend = " · ".join(f"{number} {name}" for number, name in enumerate(names)) if heads != names else ""
            words = [legend, not_shown(hidden)]
            return [as_rich(rows, title, hidden), *(Text(part, "dim") for part in words if part)]
    rows = dominant(people, columns)
    dispensable = ("online", "expected latency", "distance", "entropy")
    hidden = too_wide(rows, dispensable, width)
    hidden = dispensable if hidden is None else hidden
    return [as_rich(rows, "Clients", hidden), *([Text(not_shown(hidden), "dim")] if hidden else [])]


def _who(people: Population, client: int | None = None) -> list[str]:
    """The first cells of a client's row, or of the header: its position, and its user id if it has one."""
    if people.users is None:
        return ["client" if client is None else str(client)]
    return ["client", "user"] if client is None else [str(client), printable(people.users[client], 24)]


def too_wide(rows: Sequence[Sequence[str]], dispensable: Sequence[str], width: int) -> tuple[str, ...] | None:
    """Columns to leave out, in order of dispensability, so that a table fits; None if it cannot."""
    wide = {name: max(len(row[index]) for row in rows) + 3 for index, name in enumerate(rows[0])}
    for count in range(len(dispensable) + 1):
        hidden = tuple(dispensable[:count])
        if sum(size for name, size in wide.items() if name not in hidden) < width:
            return hidden
    return None


def dominant(people: Population, columns: Mapping[str, AnyArray]) -> list[list[str]]:
    """Header and one row per client: its size, its most frequent classes, its skew, and its device."""
    from enlist.runs.printing import duration, percent

    names = class_names(people)
    heads = ("samples", "most frequent classes", "entropy", "distance", "expected latency", "online")
    rows = [[*_who(people), *heads]]
    for client in range(len(people)):
        shares = people.counts[client] / people.sizes[client]
        top = [label for label in np.argsort(-shares, kind="stable")[:3] if shares[label] >= 0.1]
        rows.append(
            [
                *_who(people, client),
                f"{people.sizes[client]:,}",
                ", ".join(f"{names[label]} ({percent(float(shares[label]))})" for label in top) or "none above 10 %",
                f"{columns['entropy'][client]:.2f}",
                f"{columns['distance'][client]:.2f}",
                duration(float(columns["expected_latency"][client])),
                percent(float(columns["uptime"][client])),
            ]
        )
    return rows


def device_lines(columns: Mapping[str, AnyArray]) -> list[tuple[str, str]]:
    """Speed of the devices in a few lines: median and the middle 90 %."""
    from enlist.runs.printing import duration

    rows = []
    for title, name, show in (
        ("expected latency", "expected_latency", duration),
        ("compute per sample", "compute_ms", lambda value: f"{value:.3g} ms"),
        ("bandwidth", "bandwidth_kbps", _rate),
    ):
        low, middle, high = (show(float(level)) for level in np.quantile(columns[name], (0.05, 0.5, 0.95)))
        same = columns[name].min() == columns[name].max()
        rows.append((title, f"{middle} for all" if same else f"median {middle}, middle 90 % {low} to {high}"))
    return rows


def online_shares(people: Population) -> tuple[AnyArray, AnyArray]:
    """Times of the first day in seconds, and the share of clients online at each."""
    moments = np.linspace(0.0, DAY, MOMENTS)
    return moments, np.array([people.availability.online(float(now)).mean() for now in moments])


def online_lines(people: Population) -> list[tuple[str, str]]:
    """The clients online over the first day, in two lines."""
    from enlist.runs.printing import percent

    moments, shares = online_shares(people)
    if shares.min() == 1.0:
        return [("online", "all clients, all day")]
    low, high = int(shares.argmin()), int(shares.argmax())
    over = (
        f"mean {percent(float(shares[:-1].mean()))}, from {percent(float(shares[low]))} at {_clock(moments[low])} to "
    )
    uptime = np.quantile(people.availability.uptime, (0.05, 0.5, 0.95))
    each = [percent(float(level)) for level in uptime]
    return [
        ("online over a day", f"{over}{percent(float(shares[high]))} at {_clock(moments[high])}"),
        ("a client's share online", f"median {each[1]}, middle 90 % {each[0]} to {each[2]}"),
    ]


def charts(people: Population, columns: Mapping[str, AnyArray]) -> dict[str, dict[str, alt.TopLevelMixin]]:
    """All charts by section and by the name of their file."""
    from enlist.report import devices, sizes, skew
    from enlist.runs.tables import RunTables

    names = class_names(people)
    labels: dict[str, alt.TopLevelMixin] = {}
    if len(people) <= FEW:
        labels["class-bars"] = skew.class_bars(people.counts, "Samples of each class", names, people.users)
        labels["class-pies"] = skew.class_pies(people.counts, "Classes of each client", names, people.users)
    labels["class-heatmap"] = skew.class_heatmap(people.counts, "Which classes clients hold", names, people.users)
    spread: dict[str, alt.TopLevelMixin] = {
        "sizes": sizes.size_histogram(people.sizes, "How much clients hold"),
        "distance": sizes.skew_scatter(people.sizes, columns["distance"], "Size and distance to the whole"),
        "entropy": sizes.skew_scatter(
            people.sizes, columns["entropy"], "Size and evenness of the labels", "entropy of the labels"
        ),
    }
    tables = RunTables("", 0, {}, {}, {}, dict(columns))
    there: dict[str, alt.TopLevelMixin] = {}
    if dots := devices.device_rows(tables):
        shown = f"Devices ({len(dots):,} of {len(people):,})" if len(dots) < len(people) else "Devices"
        there["devices"] = devices.device_chart(dots, shown)
    if bars := devices.latency_rows(tables, bins=int(np.clip(3 * len(people) ** (1 / 3), 8, 36))):
        there["latency"] = devices.latency_chart(bars, "How long an update takes")
    moments, shares = online_shares(people)
    if shares.min() < 1.0:
        rows = [
            {"seed": 0, "start": float(now), "available": round(float(share * len(people))), "clients": len(people)}
            for now, share in zip(moments, shares, strict=True)
        ]
        there["availability"] = devices.availability_chart(rows, "Clients online over a day")
    return {"Classes": labels, "Sizes and skew": spread, "Devices and availability": there}


def publish(
    folder: Path,
    config: Config,
    people: Population,
    columns: Mapping[str, AnyArray],
    description: Description,
    title: str,
) -> Path:
    """Write clients.csv, the configuration, charts and the report page; returns the page's path."""
    from enlist.data.describe import table
    from enlist.report.charts import save, unchecked
    from enlist.report.page import Section, write_page

    _write_csv(folder / "clients.csv", columns)
    write_config(folder, config, ran=False)  # its code was not cleared to run
    (folder / "charts").mkdir()
    with unchecked():
        drawn = charts(people, columns)
        for group in drawn.values():
            for name, chart in group.items():
                save(chart, folder / "charts" / name, (".png", ".svg"))
    labels, spread, there = ([*group.values()] for group in drawn.values())
    numbers = [*table(description), input_line(people)]
    sections = [
        Section("In numbers", "", [["what", "value"], *map(list, numbers)], note=MEANING),
        Section("Classes", "" if people.classes else f"Classes are {TENTHS}.", charts=labels),
        Section("Sizes and skew", "", charts=spread),
    ]
    if len(people) <= FEW:
        sections.append(Section("Clients", "", dominant(people, columns)))
    lines = [*device_lines(columns), *online_lines(people)]
    words = "Expected latency is download, training and upload of one round, without noise."
    words += f" {unknown_size(config)}" if config.model.code() else ""
    sections.append(Section("Devices and availability", words, [["what", "value"], *map(list, lines)], there))
    return write_page(folder / "report.html", "Clients and their data", f"{title}.", sections)


def _two_columns(rows: Sequence[tuple[str, str]], title: str) -> Table:
    table = Table(
        title=shown(title, LINE), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_header=False
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in rows:
        table.add_row(shown(name), shown(value, LINE))
    return table


def _rate(kilobits: float) -> str:
    return f"{kilobits / 1000:.3g} Mbit/s" if kilobits >= 1000 else f"{kilobits:.3g} kbit/s"


def _clock(seconds: float) -> str:
    return f"{int(seconds // 3600) % 24:02d}:{int(seconds % 3600 // 60):02d}"


def _write_csv(path: Path, columns: Mapping[str, AnyArray]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        lines = zip(*(values.tolist() for values in columns.values()), strict=True)
        writer.writerows([["" if cell != cell else cell for cell in line] for line in lines])
