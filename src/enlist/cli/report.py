"""`enlist report`: tables and charts of runs, from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from enlist._internal import files
from enlist.cli.console import LINE, new_folder, open_console, say, say_where, shown
from enlist.cli.tables import Legend, show_table
from enlist.errors import InputError
from enlist.runs.kinds import FolderContent

WIDTH = 140
PERSONAL: Legend = (
    (("seeds",), "seeds: how many learned this combination"),
    (("probability",), "probability: of being the best combination"),
    (("±",), "±: half a 95 % interval over seeds"),
    (("[",), "[ ]: 95 % interval over seeds"),
)


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs, comparisons or sweeps, or folders above them.", show_default=False),
    ],
    output: Annotated[
        Path | None,
        typer.Option(help="Folder, or .html file, to write; by default the folder 'report' in the one given."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(help="Test accuracy whose times are compared, such as 0.8; for regression, a loss."),
    ] = None,
    window: Annotated[int, typer.Option(help="Number of evaluations whose mean must reach the target.")] = 1,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    """Report on runs: scores in the terminal, and a page with charts.

    Runs that differ in keys of their configurations are shown in groups, by these keys.

    Example: [bold]enlist report runs/compare-001 --target 0.8[/]
    """
    from enlist.runs.kinds import held
    from enlist.runs.personal import find_personal

    for folder in runs:
        if found := held(folder):
            point_to(open_console(WIDTH), folder, found, len(runs) > 1 or output is not None)
            return
    if personal := find_personal(runs):
        if target is not None or window != 1:
            raise InputError("--target and --window are for simulations; personalised learning has neither.")
        page = output or (files.inside(runs[0], "report") if len(runs) == 1 else None)
        show_personal(open_console(WIDTH), personal, page, title)
        return
    from enlist.report import sentences
    from enlist.report.federation import as_chosen, shadow, standing
    from enlist.report.runs import write_report
    from enlist.runs.columns import SCORED
    from enlist.runs.federation import state
    from enlist.runs.groups import group_rows, grouped, ordered
    from enlist.runs.printing import comparison_table
    from enlist.runs.tables import find_runs, read_run

    console = open_console(WIDTH)
    tables = ordered([read_run(folder, SCORED) for folder in find_runs(runs)])
    begun = [run for run in tables if len(run.rounds["round"])]
    if not begun:
        raise InputError(f"no run in {', '.join(map(str, runs))} has finished a round yet; try again later.")
    groups = grouped(as_chosen(begun))
    rows = comparison_table(group_rows(groups, target, window), list(groups[0].values))
    show_table(console, rows, sentences.size(begun, len(groups)).removesuffix("."))
    for run in begun:
        if run.federation and run.folder is not None:
            console.print(shown(f"{run.folder.name}: {standing(run, state(run))} {shadow(run)}".strip(), LINE))
    if warning := sentences.unfinished(begun):
        console.print(shown(warning, LINE), style="yellow")
    name = title or (runs[0].resolve().name if len(runs) == 1 else "Runs")
    if output is not None or len(runs) == 1:
        say_where(console, write_report(begun, output or files.inside(runs[0], "report"), name, target, window))
        return
    with new_folder(None, "report") as folder:
        say_where(console, write_report(begun, folder, name, target, window))


def point_to(console: Console, folder: Path, found: FolderContent, more: bool) -> None:
    """Say what a folder that is not a run holds, and where its page is; an error if `more` than that was requested."""
    if more:
        raise InputError(f"{folder} holds {found.what}, which has its own page; name it alone, without --output.")
    if found.page is None:
        way = f"; continue with: {found.again}" if found.again else " and has no page; make it again"
        raise InputError(f"{folder} holds {found.what} that is not finished{way}.")
    say(console, f"{folder} holds {found.what}, which has its own page.")
    say_where(console, found.page)


def show_personal(console: Console, folders: Sequence[Path], place: Path | None, title: str | None) -> None:
    """Print the table and write the page of personalised learning."""
    from enlist.report.personal import by_target, lead, personal_table, verdict, write_personal_report
    from enlist.runs.personal import read_personal

    tables = [read_personal(folder) for folder in folders]
    targets = by_target(tables)
    if not targets:
        raise InputError(f"no run in {', '.join(map(str, folders))} has finished a round yet; try again later.")
    show_table(console, personal_table(tables), lead(tables).removesuffix("."), PERSONAL)
    for own in targets.values():
        console.print(shown(verdict(own), LINE))
    name = title or "Personalised learning"
    if place is not None:
        say_where(console, write_personal_report(tables, place, name))
        return
    with new_folder(None, "report") as folder:
        say_where(console, write_personal_report(tables, folder, name))
