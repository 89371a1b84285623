"""`enlist list`: what is available."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, get_args

import typer
from rich import box
from rich.table import Table

from enlist.arena import SCENARIOS
from enlist.arena.evidence import EVIDENCE
from enlist.cli.console import LINE, needs_sim, open_console, shown
from enlist.errors import EnlistError, InputError, unknown
from enlist.privacy import Privacy
from enlist.selectors import get, names
from enlist.testing import population

OPTIONS = ("datasets", "models", "partitions", "devices", "availability", "deadlines", "servers", "aggregations")
KINDS = ("selectors", "scenarios", "studies", *OPTIONS)
SEEN = {
    "outcome": Privacy.OUTCOME,
    "secure-aggregation": Privacy.AGGREGATE,
    "individual": Privacy.INDIVIDUAL,
}
"""What the server sees of clients, by the names of the command line."""


def listing(
    what: Annotated[str, typer.Argument(help=", ".join(KINDS[:-1]) + f" or {KINDS[-1]}")] = "selectors",
    privacy: Annotated[
        str | None,
        typer.Option(help=f"Only selectors that work if the server sees no more of clients than: {', '.join(SEEN)}."),
    ] = None,
) -> None:
    """List what is available: selectors (paper, needs, when to use each), scenarios of the arena, studies, and what
    a configuration may name: datasets, models, partitions, devices, availability, deadlines, servers, aggregations.

    Example: [bold]enlist list selectors[/], or [bold]enlist list selectors --privacy secure-aggregation[/]
    """
    if privacy is not None and what != "selectors":
        raise InputError(f"--privacy is for selectors, not for {what}; run: enlist list selectors --privacy {privacy}")
    if privacy is not None and privacy not in SEEN:
        raise unknown("privacy", privacy, SEEN)
    if what not in KINDS:
        raise unknown("list", what, KINDS)
    if what in OPTIONS:
        needs_sim(f"list {what}")
        shown = alternatives(what)
    elif what == "selectors":
        shown = selectors(None if privacy is None else SEEN[privacy])
    else:
        shown = {"scenarios": scenarios, "studies": studies}[what]()
    open_console(width=150).print(shown)


def selectors(seen: Privacy | None = None) -> Table:
    """All selectors, or those that need no more than this: name, paper, what it needs, when to use it."""
    table = Table("selector", "paper", "needs", "use it when", header_style="dim", box=box.SIMPLE_HEAD)
    table.columns[0].style, table.columns[0].no_wrap = "bold", True
    table.columns[2].max_width = 30  # most of the width is for the sentences
    for name in names():
        try:
            kind = get(name)
            selector = kind(population(4))
            needs = ", ".join(sorted(selector.needs)) or "nothing"
            if seen is not None and selector.privacy > seen:
                continue
        except EnlistError as error:
            table.add_row(shown(name), "", "", shown(f"cannot be used: {error}", LINE))
            continue
        summary = (kind.__doc__ or "").strip().splitlines()[0] if kind.__doc__ else ""
        use = EVIDENCE[name].use if name in EVIDENCE else "you want the baseline" if name == "random" else summary
        table.add_row(shown(name), *(shown(cell, LINE) for cell in (kind.reference, needs, use)))
    return table


def scenarios() -> Table:
    """All scenarios, in words."""
    table = Table("scenario", "what is true there", header_style="dim", box=box.SIMPLE_HEAD)
    table.columns[0].style, table.columns[0].no_wrap = "bold", True
    for name, scenario in SCENARIOS.items():
        table.add_row(name, scenario.about)
    return table


def studies() -> Table:
    """All studies: the work that each reproduces, its claims, and its scales."""
    from enlist.studies import get, names

    table = Table("study", "reproduces", "claims", "scales", header_style="dim", box=box.SIMPLE_HEAD)
    table.columns[0].style, table.columns[0].no_wrap = "bold", True
    for name in names():
        study = get(name)
        scales = "\n".join(f"{scale.name}: {scale.about}" for scale in study.scales.values())
        table.add_row(shown(name), shown(study.reference, LINE), str(len(study.claims)), shown(scales, LINE))
    return table


def alternatives(what: str) -> Table:
    """All data sets, models, partitions, ... that a configuration may name: name and description."""
    section, tag, classes = _options(what)
    table = Table(f"{section}.{tag}", "what it is", header_style="dim", box=box.SIMPLE_HEAD)
    table.columns[0].style, table.columns[0].no_wrap = "bold", True
    for options in classes:
        about = " ".join((options.__doc__ or "").strip().partition("\n\n")[0].split())
        table.add_row(shown(options.model_fields[tag].default), shown(about, LINE))
    return table


def _options(what: str) -> tuple[str, str, Iterable[Any]]:
    """The place and key where a configuration names them, and the options class of each."""
    from enlist.data import DATASETS, PARTITIONS
    from enlist.devices import AnyAvailability, AnyDeadline, AnyDevices
    from enlist.training.aggregation import AnyAggregation
    from enlist.training.models import MODELS
    from enlist.training.server import AnyServer

    found: dict[str, tuple[str, str, Iterable[Any]]] = {
        "datasets": ("data.dataset", "name", DATASETS.values()),
        "models": ("model", "name", MODELS.values()),
        "partitions": ("data.partition", "kind", PARTITIONS.values()),
        "devices": ("devices", "kind", _members(AnyDevices)),
        "availability": ("availability", "kind", _members(AnyAvailability)),
        "deadlines": ("rounds.deadline", "kind", _members(AnyDeadline)),
        "servers": ("server.optimiser", "kind", _members(AnyServer)),
        "aggregations": ("server.aggregation", "kind", _members(AnyAggregation)),
    }
    return found[what]


def _members(annotated: Any) -> Iterable[Any]:
    """The classes of Annotated[A | B | ..., ...]."""
    return get_args(get_args(annotated)[0])
