"""`enlist sweep`: a comparison at each of several points of a configuration."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from enlist._internal import checks, files
from enlist.cli.compare import (
    Baseline,
    FirstSeed,
    Jobs,
    Selectors,
    Shard,
    Target,
    Workers,
    elsewhere,
    finish_shard,
    sharded,
    with_view,
)
from enlist.cli.console import needs_sim, numbered, open_console, say, say_where
from enlist.cli.report import WIDTH
from enlist.cli.run import (
    AcceptChanges,
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
from enlist.errors import InputError


def sweep(
    config: ConfigFile,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Sweep a key: --set rounds.k=5,10,20. Repeat for a grid. With one value, the key is simply changed.",
        ),
    ] = None,
    points: Annotated[
        Path | None, typer.Option(help="Instead of a grid, a CSV file: one column per key, one line per point.")
    ] = None,
    selectors: Selectors = "random,oort,bsfl,fedsuv",
    seeds: Annotated[int, typer.Option(help="Runs per point and method.")] = 5,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 0,
    target: Target = None,
    baseline: Baseline = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder; if it already holds this sweep, only missing runs are run.")
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
    """Compare methods at several points of a configuration: a table, sweep.csv with a row per run, and a report.

    CONFIG is a TOML file; docs/configuration.md lists every key.

    Example: [bold]enlist sweep examples/quickstart.toml --set rounds.k=5,10,20 --selectors random,oort --seeds 3[/]
    """
    needs_sim("sweep")
    from enlist.simulation.config import load
    from enlist.simulation.jobs import JobSettings
    from enlist.simulation.points import parted
    from enlist.simulation.sweep import Sweep

    fixed, swept = parted(changes or [])
    if points is not None and swept:
        raise InputError(f"--points names the points, and --set sweeps over {', '.join(swept)}; use only one of them.")
    if points is None and not swept:
        raise InputError("no key is swept; name one with its values, for example --set rounds.k=5,10,20.")
    plan = Sweep(load(config, fixed, trust=trust), points or swept, selectors, seeds, first_seed)
    plan.check()
    if baseline is not None:
        checks.one_of("--baseline", baseline, plan.labels)
    checks.whole("--jobs", jobs, minimum=0)
    console = open_console(WIDTH, quiet)
    folder = output or numbered("sweep")
    words = ["enlist", "sweep", str(config), *(word for change in changes or [] for word in ("--set", change))]
    words += [] if points is None else ["--points", str(points)]
    words += ["--selectors", selectors, "--seeds", str(seeds), "--first-seed", str(first_seed)]
    words += ["--output", str(folder)]
    for option, value in (("--target", target), ("--baseline", baseline)):
        words += [] if value is None else [option, str(value)]
    words += elsewhere(engine, shard)
    again = shlex.join([*words, "--trust"] if trust else words)
    how = JobSettings(workers, chosen_device(device, engine), trackers(tensorboard, mlflow, wandb), accept_changes)
    say(console, f"{plan.title}: {len(plan.runs()):,} runs")
    ended = with_view(console, sharded(plan, shard), folder, jobs, again, how, "runs", engine=engine)
    if shard is not None:
        finish_shard(console, ended, folder, shard)

    from enlist.report.groups import write_groups
    from enlist.runs.groups import group_rows
    from enlist.runs.printing import comparison_table
    from enlist.simulation.sweep import write_table

    for (point, method, seed), reason in ended.failed.items():
        say(console, ("failed:", "bold red"), f" {point}, {method}, seed {seed}: {reason}")
    groups = plan.groups(folder, ended)
    if not groups:
        say(console, "no run was finished; nothing to compare.")
        raise typer.Exit(1)
    title = f"{config.stem}: {plan.title}"
    rows = group_rows(groups, target, baseline=baseline)
    show_table(console, comparison_table(rows, plan.keys), title)
    say(console, f"table: {write_table(folder, groups, target, baseline)}")
    say_where(console, write_groups(groups, files.inside(folder, "report"), title, target, baseline=baseline))
    if ended.failed:
        raise typer.Exit(1)
