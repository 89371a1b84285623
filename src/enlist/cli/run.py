"""`enlist run`: one run with progress, which can be killed and resumed."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from enlist._internal import checks, files
from enlist.cli.console import NOTHING, cores, needs_sim, numbered, open_console, say, to_resume, warn
from enlist.cli.tables import Legend, show_table
from enlist.engine import start_early
from enlist.engine.choosing import LOCAL, on_ray, ray_options
from enlist.errors import InputError

Changes = Annotated[list[str] | None, typer.Option("--set", help="Change a key: --set rounds.k=20. Repeat as needed.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Run the code named in the config.json of a received folder; see docs/trust.md.")
]
AcceptChanges = Annotated[
    bool, typer.Option("--accept-changes", help="Continue even if files of the folder were changed in the meantime.")
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        help="Where to run: 'local', 'ray' (the cluster at RAY_ADDRESS), or 'ray://host:10001', with options as in "
        "'ray?gpus=0.25'; see docs/scaling.md.",
    ),
]
TRAINING = "enlist.training.local_workers"
"""What training workers import; importing it here would import PyTorch."""
Device = Annotated[str, typer.Option(help="'cpu', 'cuda', or 'auto': CUDA where it exists.")]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Also write curves for TensorBoard.")]
MLflow = Annotated[bool, typer.Option("--mlflow", help="Also log to MLflow.")]
Wandb = Annotated[bool, typer.Option("--wandb", help="Also log to Weights & Biases.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only errors.")]
LEGEND: Legend = (
    (("final",), "final: mean of the last three evaluations"),
    (("last",), "last and best: single evaluations"),
)
ConfigFile = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="A TOML file; docs/configuration.md lists every key.")
]


def run(
    config: ConfigFile,
    changes: Changes = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the run; by default a new one under runs/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run in --output.")] = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes that train; 0 for this one. One per core by default.")
    ] = None,
    device: Device = "auto",
    tensorboard: TensorBoard = False,
    mlflow: MLflow = False,
    wandb: Wandb = False,
    log: Annotated[
        Path | None,
        typer.Option(help="Log all asks and tells to this file; see 'Replaying' in docs/simulation.md."),
    ] = None,
    timing: Annotated[
        bool, typer.Option("--timing", help="Show where the time of each round went, and write it to timing.csv.")
    ] = False,
    engine: EngineName = LOCAL,
    quiet: Quiet = False,
    trust: Trust = False,
    accept_changes: AcceptChanges = False,
) -> None:
    """Train one federation under a virtual clock.

    CONFIG is a TOML file; docs/configuration.md lists every key.

    Example: [bold]enlist run examples/quickstart.toml --set selector.name=bsfl[/]
    """
    needs_sim("run")
    if engine == LOCAL and workers != 0 and (device == "cpu" or not Path("/dev/nvidiactl").exists()):
        start_early(TRAINING)  # so that workers and this process import PyTorch at the same time
    from enlist.books import cut
    from enlist.cli.live import Bar, stopping_after_round
    from enlist.data.describe import inputs
    from enlist.engine import chosen as engine_of
    from enlist.runs import RunFolder
    from enlist.runs.printing import plural
    from enlist.runs.timing import read_timing, timing_table
    from enlist.simulation import Recorder, Simulation, load
    from enlist.simulation.callbacks import Callback, Timing, tracker
    from enlist.simulation.config import GROWING

    settings = load(config, changes or [], trust=trust)
    console = open_console(quiet=quiet)
    folder = to_resume(output, "run") if resume else output or numbered("run")
    chosen = chosen_device(device, engine)
    if chosen != "cpu" and workers and not on_ray(engine):
        raise InputError(f"--workers is {workers}, but on CUDA one process trains; leave it out, or use --device cpu.")
    if chosen != "cpu" and workers == 0 and on_ray(engine):
        raise InputError("--workers is 0, but GPUs of the Ray cluster train; leave it out, or use --device cpu.")
    place = files.inside(folder) if os.path.lexists(folder) else folder
    names = trackers(tensorboard, mlflow, wandb)
    callbacks = [tracker(name, place, settings.selector.title) for name in names]
    values, code = settings.recorded().model_dump(mode="json"), settings.code()
    words = ["enlist", "run", str(folder / "config.json"), "--output", str(folder), "--resume"]
    words += ["--timing"] if timing else []
    words += [] if log is None else ["--log", str(log)]
    words += [] if engine == LOCAL else ["--engine", engine]
    again = shlex.join([*words, "--trust"] if trust else words)
    going_on: dict[str, Any] = {"resume": resume, "accept_changes": accept_changes, "growing": GROWING}
    going_on |= {"changed": settings.not_default(), "tables": settings.tables()}
    try:
        with contextlib.ExitStack() as stack, RunFolder.open(folder, values, code=code, **going_on) as opened:
            if opened.finished():
                say(console, f"{folder} is already finished; see it with: enlist report {folder}")
                return
            recorder, bar = Recorder(opened), Bar(console, settings)
            where = stack.enter_context(engine_of(engine, cores()))
            default = cores() if where.shares_memory else where.slots()
            one = chosen != "cpu" and where.shares_memory
            count = 0 if one else default if workers is None else workers
            along: list[Callback] = [recorder, bar, *callbacks, *([Timing(opened)] if timing else [])]
            options: dict[str, Any] = {"workers": count, "engine": where, "device": chosen, "log": log}
            with Simulation(settings, callbacks=along, **options) as simulation:
                population = simulation.population
                say(console, f"inputs: {inputs(population.shape, population.input_names)}")
                warn(console, settings.no_choice(len(simulation.population)))
                if resume and recorder.restore(simulation):
                    say(console, f"resuming after round {simulation.round}")
                elif resume and log is not None and log.exists():
                    cut(log, 0)  # from a run that was killed before its first checkpoint
                with bar, stopping_after_round(console, simulation):
                    result = simulation.run()
    except KeyboardInterrupt:
        kept = f"the last checkpoint is kept. Continue with: {again}" if folder.exists() else NOTHING
        say(console, f"stopped at once; {kept}")
        raise typer.Exit(130) from None
    show_table(console, summary(folder, result), f"{settings.selector.title}, seed {settings.seed}", LEGEND)
    if timing:
        show_table(console, timing_table(read_timing(folder)), "Where the time of rounds went", (), ("what happens",))
    if result.get("stopped_early"):
        times = plural(settings.evaluation.patience or 0, "evaluation")
        say(
            console,
            f"stopped early: {times} in a row without improvement; the best was in round {result['best_round']}",
        )
    if result["status"] == "abandoned":
        console.print(
            "no client was available for 30 virtual days; the run ends here. See [availability] and deadlines.",
            markup=False,
        )
    if result["status"] != "stopped":
        say(console, f"run: {folder}\nsee it with: enlist report {folder}")
        return
    say(console, f"stopped after round {result['rounds']}. Continue with: {again}")
    raise typer.Exit(130)


def summary(folder: Path, result: dict[str, Any]) -> list[list[str]]:
    """Header and one row: the state of a run, with the figures of its report."""
    from enlist.runs.columns import SCORED
    from enlist.runs.printing import duration, score, target_name
    from enlist.runs.scores import measure, run_scores
    from enlist.runs.tables import read_run

    tables = read_run(folder, SCORED)
    by = measure([tables])
    found = run_scores(tables, by)
    header = ["rounds", "virtual time", f"final {by}", "last", "best"]
    row = [str(result["rounds"]), duration(result["time"])]
    row += [score(found[name], by) for name in ("final", "last", "best")]
    if result["target"] is not None:
        reached, target = result["time_to_target"], target_name({"target": result["target"], "measure": by})
        header += [f"rounds to {target}", f"time to {target}"]
        row += [str(result["rounds_to_target"] or "never"), "never" if reached is None else duration(reached)]
    return [header, row]


def trackers(tensorboard: bool, mlflow: bool, wandb: bool) -> tuple[str, ...]:
    """The names of the requested trackers."""
    wanted = {"mlflow": mlflow, "tensorboard": tensorboard, "wandb": wandb}
    return tuple(name for name, asked in wanted.items() if asked)


def chosen_device(wanted: str, engine: str = LOCAL) -> str:
    """The device to train on; on Ray it belongs to the nodes, not to this machine."""
    import torch

    checks.one_of("--device", wanted, ("auto", "cpu", "cuda"))
    options = ray_options(engine)
    if options is not None:
        if wanted == "cuda" and not options.gpus:
            raise InputError(
                "--device is cuda, but no task on the Ray cluster gets a GPU; say what share of one each task takes: "
                f"--engine '{engine}{'&' if '?' in engine else '?'}gpus=0.25'."
            )
        return "cuda" if options.gpus and wanted != "cpu" else "cpu"
    present = torch.cuda.is_available()
    if wanted == "cuda" and not present:
        raise InputError("--device is cuda, but PyTorch finds no CUDA device here; use --device cpu.")
    return "cuda" if present and wanted != "cpu" else "cpu"
