"""`enlist personalise`: a model for one worker, and the combination of workers that helps it, over several seeds."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from enlist._internal import checks, files
from enlist.cli.console import NOTHING, needs_sim, new_folder, open_console, say, to_resume
from enlist.cli.report import WIDTH, show_personal
from enlist.cli.run import AcceptChanges, EngineName, Quiet, Trust
from enlist.engine.choosing import LOCAL

if TYPE_CHECKING:
    from enlist.cli.personal_live import PersonalBar
    from enlist.personal.config import PersonalConfig

ALL = "all"


def personalise(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A TOML file; docs/personalisation.md lists the keys.")
    ],
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a key: --set rounds.rounds=30. Repeat as needed.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder; by default a new one under runs/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the interrupted run in --output.")] = False,
    target: Annotated[
        str | None, typer.Option(help="The worker that gets the model; 'all' takes each in turn.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Repetitions; intervals are computed over them.")] = 5,
    engine: EngineName = LOCAL,
    quiet: Quiet = False,
    trust: Trust = False,
    accept_changes: AcceptChanges = False,
) -> None:
    """Learn a model for one worker, and which other workers help.

    CONFIG is a TOML file; docs/personalisation.md explains it, docs/personalisation-keys.md lists every key.

    Example: [bold]enlist personalise examples/personal/telecom.toml[/]
    """
    needs_sim("personalise")
    from enlist.personal.config import load

    settings = load(config, changes or [], trust=trust)
    checks.whole("--seeds", seeds, minimum=1)
    console = open_console(WIDTH, quiet)
    words = ["enlist", "personalise", str(config), "--seeds", str(seeds)]
    words += [] if target is None else ["--target", target]
    words += [word for change in changes or [] for word in ("--set", change)]
    words += ["--trust"] if trust else []
    words += [] if engine == LOCAL else ["--engine", engine]
    if resume:
        folder = to_resume(output, "personalise", "seed-*")
        learn(
            console, settings, target, seeds, folder, words, resume=True, accept_changes=accept_changes, engine=engine
        )
    else:
        with new_folder(output, "personalise") as folder:
            learn(console, settings, target, seeds, folder, words, resume=False, engine=engine)


def learn(
    console: Console,
    settings: PersonalConfig,
    target: str | None,
    seeds: int,
    folder: Path,
    words: Sequence[str],
    resume: bool,
    accept_changes: bool = False,
    engine: str = LOCAL,
) -> None:
    """Run all seeds under a bar, then show what was learned; Ctrl-C prints how to continue."""
    from enlist.cli.live import stopping_after_round
    from enlist.cli.personal_live import PersonalBar
    from enlist.personal.after import every_target
    from enlist.runs.personal import find_personal

    again = shlex.join([*words, "--output", str(folder), "--resume"])
    targets = None if target == ALL else [settings.target if target is None else target]
    if engine != LOCAL:
        along: dict[str, Any] = {"targets": targets, "resume": resume, "accept_changes": accept_changes}
        _on_engine(console, settings, folder, seeds, engine, again, along, PersonalBar(console, settings, seeds))
        show_personal(console, find_personal([folder]), files.inside(folder, "report"), None)
        return
    bar = PersonalBar(console, settings, seeds)
    workers = None
    try:
        with bar.progress, stopping_after_round(console, bar):
            for number in range(seeds):
                own = settings.model_copy(update={"seed": settings.seed + number})
                if workers is None or settings.data_seed is None:
                    workers = own.load_workers()
                for name in targets or ():
                    workers.position(name)  # an unknown name is an error before anything is written
                bar.begin(number, len(workers) if targets is None else len(targets))
                every_target(
                    own,
                    files.inside(folder, f"seed-{own.seed}"),
                    targets=targets,
                    workers=workers,
                    callbacks=bar.companions,
                    resume=resume,
                    accept_changes=accept_changes,
                )
                if bar.stopping:
                    break
    except KeyboardInterrupt:
        bar.stopping = True
    if bar.stopping:
        kept = f"finished work is kept. Continue with: {again}" if any(folder.glob("seed-*")) else NOTHING
        say(console, f"stopped; {kept}")
        raise typer.Exit(130)
    show_personal(console, find_personal([folder]), files.inside(folder, "report"), None)


def _on_engine(
    console: Console,
    settings: PersonalConfig,
    folder: Path,
    seeds: int,
    engine: str,
    again: str,
    along: dict[str, Any],
    bar: PersonalBar,
) -> None:
    """All seeds at once, as far as the engine allows, under the same bar; a line for each that ends."""
    from enlist.personal.seeds import every_seed

    failed = 0
    show = lambda seed, state: bar.show(seed - settings.seed, state)  # noqa: E731
    try:
        with (
            bar.progress,
            contextlib.closing(every_seed(settings, folder, seeds, engine, progress=show, **along)) as ends,
        ):
            for seed, error in ends:
                bar.end(seed - settings.seed)
                say(console, f"seed {seed}: {'finished' if error is None else f'failed: {error}'}")
                failed += error is not None
    except KeyboardInterrupt:
        kept = f"finished work is kept. Continue with: {again}" if any(folder.glob("seed-*")) else NOTHING
        say(console, f"stopped; {kept}")
        raise typer.Exit(130) from None
    if failed:
        say(console, f"{failed} of {seeds} seeds failed. Continue with: {again}")
        raise typer.Exit(1)
