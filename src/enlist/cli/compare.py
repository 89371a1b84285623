"""`enlist compare`: selectors x seeds, with one live view, a table and a report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from enlist import checks
from enlist.cli.console import cores, needs_sim, numbered, open_console, say, say_where
from enlist.cli.report import LEGEND, WIDTH, fitting
from enlist.cli.run import Changes, ConfigFile

if TYPE_CHECKING:
    from enlist.simulation.comparison import Comparison, Ended


def compare(
    config: ConfigFile,
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

    CONFIG is a TOML file; docs/configuration.md lists every key.

    Example: [bold]enlist compare examples/quickstart.toml --selectors random,oort,bsfl --seeds 10[/]
    """
    needs_sim("compare")
    from enlist.simulation.comparison import Comparison
    from enlist.simulation.config import load

    names = tuple(dict.fromkeys(name.strip() for name in selectors.split(",") if name.strip()))
    comparison = Comparison(load(config, changes or []), names, seeds, first_seed)
    comparison.check()
    checks.whole("--jobs", jobs, minimum=0)
    console = open_console(WIDTH)
    folder = output or numbered("compare")
    words = ["enlist", "compare", str(config), "--selectors", selectors, "--seeds", str(seeds)]
    words += ["--first-seed", str(first_seed), "--output", str(folder)]
    words += [word for change in changes or [] for word in ("--set", change)]
    words += [] if target is None else ["--target", str(target)]
    again = shlex.join(words)
    ended = with_view(console, comparison, folder, jobs, again)
    finish(console, comparison, ended, folder, target, f"{config.stem}: {len(names)} selectors, {seeds} seeds")


def with_view(console: Console, comparison: Comparison, folder: Path, jobs: int, again: str) -> Ended:
    """Run under the live view; Ctrl-C says how to go on."""
    from enlist.cli.live import View
    from enlist.simulation.comparison import compare as compare_all

    view = View(console, comparison)
    try:
        with view.progress:
            return compare_all(comparison, folder, jobs or cores(), view.tick)
    except KeyboardInterrupt:
        say(console, f"stopped; finished runs are kept. Go on with: {again}")
        raise typer.Exit(130) from None


def finish(
    console: Console, comparison: Comparison, ended: Ended, folder: Path, target: float | None, title: str
) -> None:
    """Table, files and report of a comparison; runs that failed are named."""
    for (selector, seed), reason in ended.failed.items():
        say(console, ("failed:", "bold red"), f" {selector}, seed {seed}: {reason}")
    kept = [comparison.folder(folder, key) for key in comparison.runs() if key in ended.finished]
    if not kept:
        say(console, "no run was finished; nothing to compare.")
        raise typer.Exit(1)
    publish(console, kept, folder, target, title)
    if ended.failed:
        raise typer.Exit(1)


def publish(console: Console, runs: Sequence[Path], folder: Path, target: float | None, title: str) -> None:
    """Print the table; write the report, with the scores as JSON beside it."""
    from enlist.report.runs import write_report
    from enlist.runs.printing import comparison_table
    from enlist.runs.scores import comparison_rows
    from enlist.runs.tables import PARTICIPATIONS, read_run

    tables = [read_run(path, PARTICIPATIONS) for path in runs]
    rows = comparison_rows(tables, target)
    console.print(fitting(console, comparison_table(rows), title))
    console.print(LEGEND, style="dim")
    say_where(console, write_report(tables, folder / "report", title, target))
