"""`enlist reproduce`: run a study, with an estimate, progress, verdicts and a report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from enlist._internal import checks
from enlist.cli.console import (
    LINE,
    NOTHING,
    cores,
    needs_sim,
    numbered,
    open_console,
    say,
    say_where,
    shown,
    to_resume,
    writing_to,
)
from enlist.cli.run import AcceptChanges, EngineName, Quiet
from enlist.engine import chosen as engine_of
from enlist.engine import on_ray
from enlist.engine.choosing import LOCAL

if TYPE_CHECKING:
    from enlist.studies.running import Reproduction
    from enlist.studies.study import Experiment

STYLES = {
    "no verdict": "dim",
    "reproduced": "green",
    "partly": "yellow",
    "not reproduced": "red",
    "not testable here": "dim",
}
WIDTH = 160
OVERHEAD = 10.0
"""Seconds for starting processes, drawing and writing."""


def reproduce(
    study: Annotated[str, typer.Argument(help="A study; `enlist list studies` shows them.", show_default=False)],
    scale: Annotated[
        str, typer.Option(help="smoke (seconds), laptop (minutes) or paper (the full setting).")
    ] = "laptop",
    seeds: Annotated[int | None, typer.Option(help="Experiments per setting; by default that of the scale.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; 0 for one per core. Results do not depend on it.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted study.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder for everything; by default a new one in runs/, or the last one there.")
    ] = None,
    extras: Annotated[
        list[str] | None, typer.Option("--with", help="An extra part of the study, such as cifar10; may be repeated.")
    ] = None,
    first_rounds: Annotated[
        int | None,
        typer.Option(help="Rehearse: run only this many rounds of one experiment of each kind, and save nothing."),
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option(help="Also copy verdicts, key figures and tables into this folder, under the study's name."),
    ] = None,
    engine: EngineName = LOCAL,
    quiet: Quiet = False,
    accept_changes: AcceptChanges = False,
) -> None:
    """Reproduce a published experiment: its figures and tables, and a verdict on each of its claims.

    STUDY is a name; `enlist list studies` shows them. Results are saved as they are computed: continue an interrupted
    study with --resume.

    Example: [bold]enlist reproduce mabfl --scale smoke[/]
    """
    needs_sim("reproduce")
    from enlist import studies
    from enlist.studies.running import Reproduction
    from enlist.studies.writing import publish as publish_study
    from enlist.studies.writing import write

    chosen = studies.get(study)
    plan = chosen.scale(scale, seeds, extras or [])
    processes = checks.whole("--jobs", jobs, minimum=0) or cores()
    console = open_console(WIDTH, quiet)
    if first_rounds is not None:
        _rehearse(console, chosen.experiments(plan), first_rounds, processes)
        return
    kind = f"{study}-{scale}"
    folder = to_resume(output, kind) if resume else output or numbered(kind)
    words = ["enlist", "reproduce", study, "--scale", scale, "--seeds", str(plan.seeds)]
    words += [word for extra in plan.extras for word in ("--with", extra)]
    command = shlex.join(words)
    again = shlex.join(
        [*words, "--output", str(folder), "--resume", *([] if engine == LOCAL else ["--engine", engine])]
    )
    try:
        with Reproduction.open(chosen, plan, folder, resume=resume, accept_changes=accept_changes) as work:
            console.print(shown(_outlook(work, processes), LINE), highlight=False)
            at_once = jobs if on_ray(engine) else processes
            with engine_of(engine, at_once) as where, _StudyProgress(console, work) as view:
                work.run(processes, view.tick, where)
            with writing_to(folder):
                page = write(work, command, processes)
            _show(console, work)
    except KeyboardInterrupt:
        kept = f"finished work is kept. Continue with: {again}" if folder.exists() else NOTHING
        say(console, f"stopped; {kept}")
        raise typer.Exit(130) from None
    if publish is not None:
        place = publish_study(folder, publish)[0].parent
        say(console, f"published: {place}")
    say_where(console, page)
    if work.failed:
        raise typer.Exit(1)


def _rehearse(console: Console, experiments: Sequence[Experiment], rounds: int, jobs: int) -> None:
    """Rehearse one experiment of each kind; exit status 1 if one failed."""
    from enlist.runs.printing import duration, plural
    from enlist.studies.rehearsal import kinds, rehearse

    names = {each.key: len(each.key) for each in kinds(experiments)}
    console.print(
        f"rehearsal: {plural(len(names), 'kind')} of experiments (of {plural(len(experiments), 'experiment')}), "
        f"{plural(rounds, 'round')} each; nothing is saved.",
        highlight=False,
    )
    failed = 0
    for one in rehearse(experiments, rounds, jobs):
        state, more = (("failed", "red"), one.reason) if one.reason else (("fine", "green"), duration(one.seconds))
        name = one.key.ljust(max(names.values()))
        say(console, "  ", (name, "bold"), f"  {one.what}  ", state, f"{':' if one.reason else ','} {more}")
        failed += bool(one.reason)
    if failed:
        console.print(f"{failed} of {len(names)} failed.", highlight=False)
        raise typer.Exit(1)
    console.print("all of them ran.", highlight=False)


def _outlook(work: Reproduction, jobs: int) -> str:
    from enlist.runs.printing import duration, plural

    missing, every = len(work.missing()), len(work.experiments)
    done = f", {every - missing} of them already done" if missing < every else ""
    return (
        f"{work.study.name}, scale {work.scale.name} ({work.scale.about}): {plural(every, 'experiment')}{done}; about "
        f"{duration(work.estimate(jobs) + OVERHEAD, units=1)} with {jobs} process{'es' if jobs > 1 else ''}, and with "
        f"what unclear verdicts may add, at most {duration(work.estimate(jobs, unclear=True) + OVERHEAD, units=1)}."
    )


class _StudyProgress:
    """A bar over experiments, weighted by their expected duration; quiet in pipes."""

    def __init__(self, console: Console, work: Reproduction) -> None:
        self.work = work
        self.progress = Progress(
            TextColumn("{task.description}", style="bold"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task("experiments", total=len(work.experiments), state="")

    def __enter__(self) -> _StudyProgress:
        self.progress.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.progress.stop()

    def tick(self, experiment: Experiment, state: str) -> None:
        """Count an experiment that ended."""
        failed = f"[red]{len(self.work.failed)} failed[/] · " if self.work.failed else ""
        total = len(self.work.experiments) + len(self.work.further)
        name = "further experiments" if self.work.further else "experiments"
        state = failed + shown(experiment.key)
        self.progress.update(self.task, advance=1, total=total, description=name, state=state)


def _show(console: Console, work: Reproduction) -> None:
    """Print the verdicts, and which experiments failed."""
    from rich import box

    from enlist.studies.verdicts import headline, verdict_rows

    for (key, seed), reason in work.failed.items():
        say(console, ("failed:", "bold red"), f" {key}, seed {seed}: {reason}")
    header, *rows = verdict_rows(work.judged, work.scale.name)
    table = Table(
        *header,
        title=headline(work.judged, work.scale.name),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    table.columns[0].style = "bold"
    for column, share in zip(table.columns, (4, 3, 5, 2), strict=True):
        column.ratio = share
    for *cells, kind in rows:
        table.add_row(*(shown(cell, LINE) for cell in cells), Text(kind, STYLES[kind]))
    console.print(table)
