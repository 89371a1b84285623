"""`enlist demo`: the main job on bundled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enlist.arena import Comparison
from enlist.cli.arena import (
    LEGEND,
    as_rich,
    describe,
    new_folder,
    open_console,
    publish,
    say_where,
    table,
    with_progress,
)

SELECTORS = ("bsfl", "cs-ucb", "random", "genie")


def demo(
    output: Annotated[Path | None, typer.Option(help="A new folder for tables, charts and report.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; 0 for one per core.")] = 0,
) -> None:
    """BSFL against CS-UCB, random and the genie: 5 of 20 clients as in the paper, and 25 of 500. About a minute.

    Example: [bold]enlist demo[/]
    """
    console = open_console()
    comparisons = [
        Comparison(SELECTORS, "slow-minority", clients=20, k=5, rounds=3000, seeds=10),
        Comparison(SELECTORS, "slow-minority", clients=500, k=25, rounds=1000, seeds=10),
    ]
    with new_folder(output, "demo") as folder:
        console.print("One client in ten is ten times slower than the others, and nobody knows which.")
        results = with_progress(console, comparisons, jobs)
        for settings, result in zip(comparisons, results, strict=True):
            console.print()
            console.print(as_rich(console, table(settings, result), describe(settings)))
        console.print(LEGEND, style="dim")
        parts = list(zip(comparisons, results, strict=True))
        say_where(console, publish(folder, "Who takes part in the next round?", parts))
