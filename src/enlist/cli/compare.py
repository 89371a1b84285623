"""`enlist compare`: selectors x seeds, with one live view, a table and a report."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from enlist import checks
from enlist.cli.console import as_rich, numbered, open_console, say_where
from enlist.cli.run import Changes
from enlist.simulation.comparison import Comparison, Ended, compare
from enlist.simulation.config import load
from enlist.simulation.printing import comparison_table, duration, level
from enlist.simulation.scores import comparison_rows
from enlist.simulation.tables import read_run


def compare_command(
    config: Annotated[Path, typer.Argument(help="A TOML file; docs/configuration.md lists every key.")],
    selectors: Annotated[str, typer.Option(help="Names, or name:preset, with commas.")] = "random,oort,bsfl,fedsuv",
    seeds: Annotated[int, typer.Option(help="Runs per selector; every selector meets the same populations.")] = 3,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; 0 for one per core. Results do not depend on it.")] = 0,
    changes: Changes = None,
    target: Annotated[float | None, typer.Option(help="Accuracy whose time is compared.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder; if it holds this comparison already, only missing runs are run.")
    ] = None,
) -> None:
    """Compare selectors on the same populations: time to accuracy, with intervals over seeds, and a report.

    Example: [bold]enlist compare examples/quickstart.toml --selectors random,oort,bsfl --seeds 10[/]
    """
    names = tuple(dict.fromkeys(name.strip() for name in selectors.split(",") if name.strip()))
    comparison = Comparison(load(config, changes or []), names, seeds, first_seed)
    comparison.check()
    checks.whole("--jobs", jobs, minimum=0)
    console = open_console()
    folder = output or numbered("compare")
    again = f"enlist compare {config} --selectors {selectors} --seeds {seeds} --output {folder}"
    ended = with_view(console, comparison, folder, jobs, again)
    finish(console, comparison, ended, folder, target, f"{config.stem}: {len(names)} selectors")


def with_view(console: Console, comparison: Comparison, folder: Path, jobs: int, again: str) -> Ended:
    """Run under the live view; Ctrl-C says how to go on."""
    view = View(console, comparison)
    try:
        with view.progress:
            return compare(comparison, folder, jobs or os.cpu_count() or 1, view.tick)
    except KeyboardInterrupt:
        console.print(f"stopped; finished runs are kept. Go on with: {again}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None


class View:
    """One bar per selector over the rounds of all its seeds; quiet in pipes."""

    def __init__(self, console: Console, comparison: Comparison) -> None:
        self.comparison = comparison
        self.progress = Progress(
            TextColumn("{task.description}", style="bold"),
            BarColumn(bar_width=32),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        width = max(len(name) for name in comparison.selectors)
        total = comparison.seeds * comparison.config.rounds.rounds
        self.tasks = {
            name: self.progress.add_task(name.ljust(width), total=total, state="waiting")
            for name in comparison.selectors
        }
        self.states: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in comparison.selectors}

    def tick(self, selector: str, seed: int, state: dict[str, Any]) -> None:
        """Show how a run stands."""
        states = self.states[selector]
        states[seed] = state
        rounds = self.comparison.config.rounds.rounds
        done = sum(rounds if s["status"] in ("finished", "failed") else s["rounds"] for s in states.values())
        ended = sum(s["status"] == "finished" for s in states.values())
        failed = sum(s["status"] == "failed" for s in states.values())
        words = [f"{ended}/{self.comparison.seeds} seeds"]
        words += [f"[red]{failed} failed[/]"] if failed else []
        if state.get("accuracy") is not None:
            words += [f"accuracy {level(state['accuracy'])}", f"{duration(state['time'])} virtual"]
        self.progress.update(self.tasks[selector], completed=done, state=" · ".join(words))


def finish(
    console: Console, comparison: Comparison, ended: Ended, folder: Path, target: float | None, title: str
) -> None:
    """Table, files and report of a comparison; runs that failed are named."""
    for (selector, seed), reason in ended.failed.items():
        console.print(f"[bold red]failed:[/] {selector}, seed {seed}: {reason}", highlight=False, soft_wrap=True)
    kept = [comparison.folder(folder, key) for key in comparison.runs() if key in ended.finished]
    if not kept:
        console.print("no run was finished; nothing to compare.")
        raise typer.Exit(1)
    publish(console, kept, folder, target, title)
    if ended.failed:
        raise typer.Exit(1)


def publish(console: Console, runs: Sequence[Path], folder: Path, target: float | None, title: str) -> None:
    """Print the table; write it as JSON, and the report."""
    from enlist.report.runs import write_report

    tables = [read_run(path) for path in runs]
    rows = comparison_rows(tables, target)
    console.print(as_rich(comparison_table(rows), title))
    (folder / "scores.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    say_where(console, write_report(tables, folder, title, target))
