"""`enlist list`: what there is."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.table import Table

from enlist.arena import SCENARIOS
from enlist.arena.evidence import EVIDENCE
from enlist.cli.console import open_console
from enlist.errors import EnlistError, unknown
from enlist.selectors import get, names
from enlist.testing import population


def listing(what: Annotated[str, typer.Argument(help="selectors or scenarios")] = "selectors") -> None:
    """List the selectors (paper, what each needs, when to use it) or the scenarios of the arena.

    Example: [bold]enlist list selectors[/]
    """
    tables = {"selectors": selectors, "scenarios": scenarios}
    if what not in tables:
        raise unknown("list", what, tables)
    open_console(width=150).print(tables[what]())


def selectors() -> Table:
    """Every selector: name, paper, what it needs, when to use it."""
    table = Table("selector", "paper", "needs", "use it when", header_style="dim", box=box.SIMPLE_HEAD)
    table.columns[0].style, table.columns[0].no_wrap = "bold", True
    for name in names():
        try:
            kind = get(name)
            needs = ", ".join(sorted(kind(population(4)).needs)) or "nothing"
        except EnlistError as error:
            table.add_row(name, "", "", f"cannot be used: {error}")
            continue
        summary = (kind.__doc__ or "").strip().splitlines()[0] if kind.__doc__ else ""
        use = EVIDENCE[name].use if name in EVIDENCE else "you want the baseline" if name == "random" else summary
        table.add_row(name, kind.reference, needs, use)
    return table


def scenarios() -> Table:
    """Every scenario, in words."""
    table = Table("scenario", "what is true there", header_style="dim", box=box.SIMPLE_HEAD)
    table.columns[0].style, table.columns[0].no_wrap = "bold", True
    for name, scenario in SCENARIOS.items():
        table.add_row(name, scenario.about)
    return table
