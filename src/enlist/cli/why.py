"""`enlist why`: why clients were or were not selected in a round of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enlist.cli.console import as_rich, open_console, say
from enlist.errors import InputError

MOST = 40
"""Most rows to print."""


def why(
    run: Annotated[Path, typer.Argument(help="The folder of one run, finished or still running.")],
    round: Annotated[int, typer.Option(help="The round.", show_default=False)],
    client: Annotated[
        str | None,
        typer.Option(help="One client: its position, or its user id ('user:7' for an id that looks like a position)."),
    ] = None,
) -> None:
    """Show why clients were selected in a round: the terms of their scores, and what they mean.

    Example: [bold]enlist why runs/run-001 --round 41 --client 7[/]
    """
    from enlist.runs.personal import find_personal
    from enlist.runs.tables import find_runs, read_run
    from enlist.runs.why import why as explain

    if find_personal([run]):
        raise InputError(f"{run} holds personalised learning, which chooses combinations; `enlist report` shows them.")
    folders = find_runs([run])
    if len(folders) > 1:
        raise InputError(f"{run} holds {len(folders)} runs; name one of them, for example {folders[0]}.")
    found = explain(read_run(folders[0]), round, client)
    console = open_console(140)
    rows = found.rows()
    if len(rows) > 1:
        console.print(as_rich(rows[: MOST + 1], f"Round {found.round}"))
    if len(rows) > MOST + 1:
        say(console, f"{len(rows) - 1 - MOST:,} more clients are not shown; --client shows any of them.", style="dim")
    for sentence in found.sentences:
        say(console, sentence)
