"""`enlist list`: what there is."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer
from rich.table import Table

from enlist.arena import SCENARIOS, Scenario
from enlist.cli.arena import open_console
from enlist.errors import unknown
from enlist.selectors import get, names
from enlist.testing import population


def listing(what: Annotated[str, typer.Argument(help="selectors or scenarios")] = "selectors") -> None:
    """List the selectors (with what each needs) or the scenarios of the arena.

    Example: [bold]enlist list selectors[/]
    """
    tables = {"selectors": selectors, "scenarios": scenarios}
    if what not in tables:
        raise unknown("list", what, tables)
    open_console().print(tables[what]())


def selectors() -> Table:
    """Every selector: name, reference, presets, needs, first line of its documentation."""
    table = Table(header_style="dim")
    for title in ("selector", "paper", "presets", "needs"):
        table.add_column(title, style="bold" if title == "selector" else "", no_wrap=title == "selector")
    for name in names():
        kind = get(name)
        needs = ", ".join(sorted(kind(population(4)).needs)) or "nothing"
        table.add_row(name, kind.reference, ", ".join(kind.presets), needs)
    return table


def scenarios() -> Table:
    """Every scenario: what differs from the default one."""
    table = Table(header_style="dim")
    table.add_column("scenario", style="bold", no_wrap=True)
    table.add_column("what differs from a slow minority of one in ten")
    default = Scenario()
    for name, scenario in SCENARIOS.items():
        fields = (field.name for field in dataclasses.fields(Scenario))
        changed = [
            f"{field}={getattr(scenario, field)}"
            for field in fields
            if getattr(scenario, field) != getattr(default, field)
        ]
        table.add_row(name, ", ".join(changed) or "nothing: this is it")
    return table
