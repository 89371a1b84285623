"""`enlist compare`: selectors x seeds, with one live view, a table and a report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from enlist._internal import checks, files
from enlist.cli.console import NOTHING, cores, needs_sim, numbered, open_console, say, say_where, warn
from enlist.cli.report import WIDTH
from enlist.cli.run import (
    AcceptChanges,
    Changes,
    ConfigFile,
    Device,
    EngineName,
    MLflow,
    Quiet,
    TensorBoard,
    Trust,
    Wandb,
    chosen_device,
    trackers,
)
from enlist.cli.tables import show_table
from enlist.engine.choosing import LOCAL
from enlist.runs.printing import plural

Selectors = Annotated[
    str,
    typer.Option(
        help="Methods, separated by commas: names, name:preset, name+setting=value, module:Class, optionally "
        "label=method."
    ),
]

FirstSeed = Annotated[int, typer.Option(help="The first seed.")]
Jobs = Annotated[int, typer.Option(help="Processes; 0 for one per core. Results do not depend on it.")]
Target = Annotated[float | None, typer.Option(help="Target accuracy; the times to reach it are compared.")]
Baseline = Annotated[str | None, typer.Option(help="Label of the method that speed-ups refer to; random by default.")]
Workers = Annotated[int, typer.Option(help="Processes that train each run; 0 to train in the run's own process.")]
Shard = Annotated[
    str | None,
    typer.Option(help="Run only a part, such as 3/16 (the third of sixteen), into the same folder; for job arrays."),
]

if TYPE_CHECKING:
    from enlist.simulation.comparison import Comparison
    from enlist.simulation.jobs import JobResults, JobSettings
    from enlist.simulation.plans import Plan


def compare(
    config: ConfigFile,
    selectors: Selectors = "random,oort,bsfl,fedsuv",
    seeds: Annotated[int, typer.Option(help="Runs per method; all methods meet the same populations.")] = 5,
    first_seed: FirstSeed = 0,
    protocols: Annotated[
        str,
        typer.Option(help="Run every method under each of these: synchronous,buffered,async. Default: as configured."),
    ] = "",
    jobs: Jobs = 0,
    changes: Changes = None,
    target: Target = None,
    baseline: Baseline = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder; if it already holds this comparison, only missing runs are run.")
    ] = None,
    workers: Workers = 0,
    device: Device = "cpu",
    tensorboard: TensorBoard = False,
    mlflow: MLflow = False,
    wandb: Wandb = False,
    engine: EngineName = LOCAL,
    shard: Shard = None,
    quiet: Quiet = False,
    trust: Trust = False,
    accept_changes: AcceptChanges = False,
) -> None:
    """Compare methods, optionally under several protocols, on the same populations: time to accuracy, with intervals
    over seeds, and a report.

    CONFIG is a TOML file; docs/configuration.md lists every key.

    Example: [bold]enlist compare examples/quickstart.toml --selectors random,oort,oort+penalty=1,mine:Own[/]
    """
    needs_sim("compare")
    from enlist.simulation.comparison import Comparison
    from enlist.simulation.config import load
    from enlist.simulation.jobs import JobSettings

    comparison = Comparison(load(config, changes or [], trust=trust), selectors, seeds, first_seed, protocols)
    comparison.check()
    if baseline is not None:
        checks.one_of("--baseline", baseline, comparison.labels)
    checks.whole("--jobs", jobs, minimum=0)
    console = open_console(WIDTH, quiet)
    folder = output or numbered("compare")
    words = ["enlist", "compare", str(config), "--selectors", selectors, "--seeds", str(seeds)]
    words += ["--first-seed", str(first_seed), "--output", str(folder)]
    words += [word for change in changes or [] for word in ("--set", change)]
    words += ["--protocols", protocols] if protocols else []
    words += [] if target is None else ["--target", str(target)]
    words += elsewhere(engine, shard)
    again = shlex.join([*words, "--trust"] if trust else words)
    how = JobSettings(workers, chosen_device(device, engine), trackers(tensorboard, mlflow, wandb), accept_changes)
    warn(console, comparison.config.no_choice())
    ended = with_view(console, sharded(comparison, shard), folder, jobs, again, how, engine=engine)
    if shard is not None:
        finish_shard(console, ended, folder, shard)
    title = f"{config.stem}: {plural(len(comparison.labels), 'method')}, {plural(seeds, 'seed')}"
    finish(console, comparison, ended, folder, target, title, baseline or comparison.reference)


def with_view(
    console: Console,
    plan: Plan,
    folder: Path,
    jobs: int,
    again: str,
    how: JobSettings | None = None,
    noun: str = "seeds",
    lead: str = "",
    engine: str = LOCAL,
) -> JobResults:
    """Run under the live view, whose bars count `noun`, after a `lead`; Ctrl-C prints how to continue."""
    from enlist.cli.live import ComparisonProgress
    from enlist.engine import chosen, on_ray

    view = ComparisonProgress(console, plan, noun)
    count = jobs if on_ray(engine) else jobs or cores()
    try:
        with chosen(engine, count, cpus=max(how.workers if how else 0, 1)) as where, view.progress:
            ready = lambda: console.print(lead) if lead else None  # noqa: E731
            return plan.run(folder, max(count, 1), view.tick, how, ready, where)
    except KeyboardInterrupt:
        kept = f"finished runs are kept. Continue with: {again}" if folder.exists() else NOTHING
        say(console, f"stopped; {kept}")
        raise typer.Exit(130) from None


def elsewhere(engine: str, shard: str | None) -> list[str]:
    """The options for the folder and the part."""
    return [*([] if engine == LOCAL else ["--engine", engine]), *([] if shard is None else ["--shard", shard])]


def sharded(plan: Plan, shard: str | None) -> Plan:
    """A part of a plan, or all of it."""
    from enlist.simulation.shards import part

    return plan if shard is None else part(plan, shard)


def finish_shard(console: Console, ended: JobResults, folder: Path, shard: str) -> None:
    """Print the result of a part, and how to see the whole; the command ends here."""
    for key, reason in ended.failed.items():
        say(console, ("failed:", "bold red"), f" {', '.join(map(str, key))}: {reason}")
    say(console, f"part {shard}: {plural(len(ended.finished), 'run')} finished in {folder}.")
    say(console, f"when all parts are done, see them with: enlist report {folder}")
    raise typer.Exit(1 if ended.failed else 0)


def finish(
    console: Console,
    comparison: Comparison,
    ended: JobResults,
    folder: Path,
    target: float | None,
    title: str,
    baseline: str | None = None,
) -> None:
    """Print and write table, files and report of a comparison; failed runs are named."""
    for (selector, seed), reason in ended.failed.items():
        say(console, ("failed:", "bold red"), f" {selector}, seed {seed}: {reason}")
    kept = [comparison.folder(folder, key) for key in comparison.runs() if key in ended.finished]
    if not kept:
        say(console, "no run was finished; nothing to compare.")
        raise typer.Exit(1)
    publish(console, kept, folder, target, title, baseline)
    if ended.failed:
        raise typer.Exit(1)


def publish(
    console: Console, runs: Sequence[Path], folder: Path, target: float | None, title: str, baseline: str | None = None
) -> None:
    """Print the table; write the report, with the scores as JSON next to it."""
    from enlist.report.runs import write_report
    from enlist.runs.columns import SCORED
    from enlist.runs.comparing import comparison_rows
    from enlist.runs.printing import comparison_table
    from enlist.runs.tables import read_run

    tables = [read_run(path, SCORED) for path in runs]
    rows = comparison_rows(tables, target, baseline=baseline)
    show_table(console, comparison_table(rows), title)
    place = files.inside(folder, "report")
    say_where(console, write_report(tables, place, title, target, baseline=baseline, rows=rows))
