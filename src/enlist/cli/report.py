"""`enlist report`: tables and charts of runs, from the folders that they left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from enlist import files
from enlist.cli.console import CELL, LINE, as_rich, new_folder, open_console, say_where, shown
from enlist.errors import InputError
from enlist.text import printable

DISPENSABLE = (
    "Jain",
    "seen",
    "round time",
    "sent",
    "late / dropped / failed",
    "rounds to",
    "messages of FedAvg",
    "seeds",
)
WIDTH = 140
LEGEND = (
    "± and [ ]: 95 % intervals over seeds · speed-up: the baseline's virtual time to the target over the method's, "
    "paired by seed · ≥ ≤: bounds, as not all seeds reached the target (2/3: two of three did) · seen: share of "
    "clients with at least one update · Jain: evenness of updates"
)


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Run folders, folders of comparisons or sweeps, or folders above them.", show_default=False
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(help="Folder, or .html file, to write; by default the folder 'report' in the one given."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(help="The test accuracy whose time is compared, such as 0.8; for regression, a loss."),
    ] = None,
    window: Annotated[int, typer.Option(help="It is the mean of so many evaluations that has to meet the target.")] = 1,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    """Show what runs have left: scores here, and a page with charts.

    Runs that differ in keys of their configurations are shown in groups, by these keys.

    Example: [bold]enlist report runs/compare-001 --target 0.8[/]
    """
    from enlist.runs.personal import find_personal

    if personal := find_personal(runs):
        if target is not None or window != 1:
            raise InputError("--target and --window belong to simulations; personalised learning has neither.")
        page = output or (files.inside(runs[0], "report") if len(runs) == 1 else None)
        show_personal(open_console(WIDTH), personal, page, title)
        return
    from enlist.report import sentences
    from enlist.report.runs import write_report
    from enlist.runs.groups import group_rows, grouped, ordered
    from enlist.runs.printing import comparison_table
    from enlist.runs.tables import PARTICIPATIONS, find_runs, read_run

    console = open_console(WIDTH)
    tables = ordered([read_run(folder, PARTICIPATIONS) for folder in find_runs(runs)])
    begun = [run for run in tables if len(run.rounds["round"])]
    if not begun:
        raise InputError(f"no run in {', '.join(map(str, runs))} has finished a round yet; come back later.")
    groups = grouped(begun)
    rows = comparison_table(group_rows(groups, target, window), list(groups[0].values))
    console.print(fitting(console, rows, sentences.size(begun, len(groups)).removesuffix(".")))
    console.print(LEGEND, style="dim")
    if warning := sentences.unfinished(begun):
        console.print(shown(warning, LINE), style="yellow")
    name = title or (runs[0].resolve().name if len(runs) == 1 else "Runs")
    if output is not None or len(runs) == 1:
        say_where(console, write_report(begun, output or files.inside(runs[0], "report"), name, target, window))
        return
    with new_folder(None, "report") as folder:
        say_where(console, write_report(begun, folder, name, target, window))


def show_personal(console: Console, folders: Sequence[Path], place: Path | None, title: str | None) -> None:
    """The table and the page of personalised learning."""
    from enlist.report.personal import by_target, lead, personal_table, verdict, write_personal_report
    from enlist.runs.personal import read_personal

    tables = [read_personal(folder) for folder in folders]
    targets = by_target(tables)
    if not targets:
        raise InputError(f"no run in {', '.join(map(str, folders))} has finished a round yet; come back later.")
    console.print(fitting(console, personal_table(tables), lead(tables).removesuffix(".")))
    for own in targets.values():
        console.print(shown(verdict(own), LINE))
    name = title or "Personalised learning"
    if place is not None:
        say_where(console, write_personal_report(tables, place, name))
        return
    with new_folder(None, "report") as folder:
        say_where(console, write_personal_report(tables, folder, name))


def fitting(console: Console, rows: Sequence[Sequence[str]], title: str) -> Table:
    """The table for the terminal; a narrow one leaves out what the report has anyway."""
    clean = [[printable(cell, CELL) for cell in row] for row in rows]
    lines = [[folded(name) for name in clean[0]], *clean[1:]]
    hidden: list[str] = []
    for expendable in DISPENSABLE:
        columns = [column for column in zip(*lines, strict=True) if column[0] not in hidden]
        if (
            sum(max(len(part) for cell in column for part in cell.split("\n")) + 3 for column in columns)
            < console.width
        ):
            break
        hidden += [name for name in lines[0] if expendable in name.replace("\n", " ")]
    return as_rich(lines, title, hidden)


def folded(name: str) -> str:
    """A long title on two lines."""
    spaces = [index for index, letter in enumerate(name) if letter == " " and name[index + 1 : index + 2] != "%"]
    if len(name) <= 10 or not spaces:
        return name
    middle = min(spaces, key=lambda index: abs(index - len(name) // 2))
    return f"{name[:middle]}\n{name[middle + 1 :]}"
