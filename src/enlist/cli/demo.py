"""`enlist demo`: the main job on bundled data."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from enlist.cli.compare import finish, with_view
from enlist.cli.console import needs_sim, numbered, open_console
from enlist.cli.report import WIDTH

SELECTORS = ("tempo", "random", "oort", "bsfl", "fedsuv", "darts-ucb")


def demo(
    output: Annotated[Path | None, typer.Option(help="Folder for runs, tables, charts and report.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; 0 for one per core.")] = 0,
    seeds: Annotated[int, typer.Option(help="Runs per selector.")] = 3,
) -> None:
    """Six selectors train the same uneven federation: handwritten digits on phones that come and go. Half a minute.

    Example: [bold]enlist demo[/]
    """
    needs_sim("demo")
    from enlist.simulation.comparison import Comparison
    from enlist.simulation.config import load

    console = open_console(WIDTH)
    config = load(str(files("enlist.cli") / "demo.toml"))
    comparison = Comparison(config, SELECTORS, seeds)
    comparison.check()
    folder = output or numbered("demo")
    rounds, data = config.rounds, config.data
    again = shlex.join(["enlist", "demo", "--seeds", str(seeds), "--output", str(folder)])
    lead = (
        f"{data.clients} phones hold handwritten digits, some of them many, others few. Their speeds differ "
        f"two-hundredfold, and they come and go with the time of day. Each of {rounds.rounds} rounds takes {rounds.k} "
        "of them. Which ones?"
    )
    ended = with_view(console, comparison, folder, jobs, again, lead=lead)
    finish(console, comparison, ended, folder, None, "Which clients take part in the next round?")
