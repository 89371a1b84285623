"""`enlist ladder`: methods on a fixed set of federations, with a leaderboard."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from enlist._internal import checks, files
from enlist.cli.compare import Selectors, with_view
from enlist.cli.console import needs_sim, numbered, open_console, say, say_where, writing_to
from enlist.cli.report import WIDTH
from enlist.cli.run import AcceptChanges, EngineName, Quiet
from enlist.cli.tables import Legend, show_table
from enlist.engine.choosing import LOCAL

LEGEND: Legend = (
    (
        ("speed-up",),
        "speed-up: random's virtual time to 97 % of its final accuracy over the method's, geometric mean over rungs",
    ),
    (("[",), "[ ]: 95 % interval over seeds"),
    (("reached",), "reached: share of runs that reached the target"),
    (("accuracy",), "accuracy: final accuracy minus random's, in points, mean over rungs, and on the worst rung"),
    (("worst tenth",), "worst tenth: accuracy of the worst tenth of the clients on their own samples"),
    (("wasted",), "wasted: share of selected clients whose update was never merged"),
)
DISPENSABLE = ("server ms", "wasted", "rungs", "in rounds", "worst tenth", "reached", "at worst")
"""Columns that a narrow terminal leaves out, in this order; the report has them all."""

if TYPE_CHECKING:
    from enlist.ladder import Ladder
    from enlist.simulation.jobs import JobResults


def ladder(
    selectors: Selectors = "all",
    seeds: Annotated[int | None, typer.Option(help="Seeds per rung; by default 5, or 10 with --published.")] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Use the published seeds instead of the development seeds.")
    ] = False,
    rungs: Annotated[str | None, typer.Option(help="Rungs, separated by commas; all by default.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; 0 for one per core. Results do not depend on it.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder; if it already holds this ladder, only missing runs are run.")
    ] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Leave out the known results of other methods.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only describe the rungs.")] = False,
    engine: EngineName = LOCAL,
    quiet: Quiet = False,
    accept_changes: AcceptChanges = False,
) -> None:
    """Measure methods on a fixed set of federations, the rungs of the ladder, and write a leaderboard.

    "all" means every registered selector; add your own class as module:Class. Random always runs. For
    methods that are not run, the package's known results are shown, marked with *.

    Example: [bold]enlist ladder --selectors mine:LossPerSecond --seeds 2 --rungs silos,users[/]
    """
    needs_sim("ladder")
    from enlist.ladder import Ladder
    from enlist.ladder.rung import VERSION
    from enlist.simulation.jobs import JobSettings

    console = open_console(WIDTH, quiet)
    climbed = Ladder(selectors, rungs, seeds, published)
    if show:
        say(console, f"The ladder, version {VERSION}", style="bold")
        for rung in climbed.rungs:
            say(console, (rung.name, "bold"), f" ({rung.data}): {rung.hard}")
        return
    climbed.check()
    checks.whole("--jobs", jobs, minimum=0)
    folder = output or numbered("ladder")
    words = ["enlist", "ladder", "--selectors", selectors, "--output", str(folder)]
    words += [] if seeds is None else ["--seeds", str(seeds)]
    words += ["--published"] if published else []
    words += [] if rungs is None else ["--rungs", rungs]
    words += ["--alone"] if alone else []
    words += [] if engine == LOCAL else ["--engine", engine]
    how = JobSettings(accept_changes=accept_changes)
    with writing_to(folder):
        ended = with_view(console, climbed, folder, jobs, shlex.join(words), how, "runs", engine=engine)
        finish(console, climbed, ended, folder, alone)


def finish(console: Console, climbed: Ladder, ended: JobResults, folder: Path, alone: bool = False) -> None:
    """Print and write table, files and report; failed runs are named. Without known results if `alone`."""
    for (rung, label, seed), reason in ended.failed.items():
        say(console, ("failed:", "bold red"), f" {rung}, {label}, seed {seed}: {reason}")
    if not ended.finished:
        say(console, "no run was finished; there is no leaderboard.")
        raise typer.Exit(1)
    board = climbed.leaderboard(ended, folder, known=not alone)
    show_table(console, board.lines(), board.title, LEGEND, DISPENSABLE)
    if board.footnote:
        console.print(board.footnote, style="dim")
    if board.notice:
        console.print(board.notice, style="yellow")
    say(console, f"scores: {board.write(folder)}")
    say_where(console, board.report(files.inside(folder, "report")))
    if ended.failed:
        raise typer.Exit(1)
