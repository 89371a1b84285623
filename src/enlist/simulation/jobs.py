"""Many runs on an engine, with the clients shared by runs that have the same ones.

A run whose process dies goes on in another one, from its last checkpoint if it has a folder; if that happens three
times it is reported, and the others go on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist.engine import Context, Engine, Task, Work, have_children, keep_freed_memory, local
from enlist.errors import EnlistError, StateFileError
from enlist.runs.digests import check_finished
from enlist.runs.folder import RunFolder
from enlist.runs.starting import outgrown
from enlist.simulation.callbacks import Callback, Recorder, tracker
from enlist.simulation.config import GROWING, Config
from enlist.simulation.header import read_table
from enlist.simulation.points import UNSAFE
from enlist.simulation.population import Population, build
from enlist.simulation.results import Run
from enlist.simulation.round.rows import RoundRecord
from enlist.simulation.running import in_memory
from enlist.simulation.setup import placed
from enlist.simulation.simulation import Simulation
from enlist.streams import Streams
from enlist.training.engine import Placed
from enlist.training.models import initialise

Key = tuple[Any, ...]
"""What tells a run from the others: its label and seed, in a sweep also its point."""
Tick = Callable[..., None]
"""Called with the key of a run, part by part, and how it stands."""
Shared = tuple[Population, dict[str, Placed]]
PULSE = 0.1
"""Seconds between two messages of a run about its progress."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A run that is to be done: its key, its configuration, and its folder, if it is to be kept in one.

    >>> Job(("random", 0), Config()).folder is None
    True
    """

    key: Key
    config: Config
    folder: Path | None = None

    @property
    def name(self) -> str:
        """What trackers call it, also as the name of a folder.

        >>> Job(("k = 5", "oort", 3), Config()).name
        'k-=-5+oort+3'
        """
        return "+".join(UNSAFE.sub("-", str(part)) for part in self.key)

    @property
    def people(self) -> str:
        """What decides on the clients: runs that are equal in this share them."""
        return json.dumps(self.config.model_dump(mode="json", exclude={"selector"}), sort_keys=True)


@dataclasses.dataclass(frozen=True)
class How:
    """How every run of many is done.

    Parameters
    ----------
    workers : int, default 0
        Processes that train one run; 0 trains where the run is.
    device : str, default "cpu"
        Where to train.
    trackers : tuple of str
        "tensorboard", "mlflow", "wandb".
    accept_changes : bool, default False
        Go on with folders whose files were changed in the meantime.

    >>> How().workers
    0
    """

    workers: int = 0
    device: str = "cpu"
    trackers: tuple[str, ...] = ()
    accept_changes: bool = False


@dataclasses.dataclass
class Ended:
    """How runs ended: results of those that are finished, reasons of those that failed, and those kept in memory.

    >>> Ended({("random", 0): {"status": "finished"}}, {}).failed
    {}
    """

    finished: dict[Key, dict[str, Any]]
    failed: dict[Key, str]
    runs: dict[Key, Run] = dataclasses.field(default_factory=dict)
    first_error: BaseException | None = None

    def below(self, part: Any) -> Ended:
        """Those whose keys begin with this part, which is left out: how the runs of one point of a sweep ended."""
        finished = {key[1:]: result for key, result in self.finished.items() if key[0] == part}
        failed = {key[1:]: reason for key, reason in self.failed.items() if key[0] == part}
        runs = {key[1:]: run for key, run in self.runs.items() if key[0] == part}
        return Ended(finished, failed, runs, self.first_error)


def perform(
    jobs: Sequence[Job], engine: Engine | None = None, tick: Tick | None = None, how: How | None = None
) -> Ended:
    """Do the runs that are not finished yet, on an engine; without one in this process.

    >>> ended = perform([Job(("random", 0), Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}))])
    >>> ended.finished["random", 0]["rounds"], ended.runs["random", 0].label
    (2, 'random')
    """
    tick, how, ended = tick or (lambda *state: None), how or How(), Ended({}, {})
    missing = []
    for job in jobs:
        try:
            result = None if job.folder is None else finished(job.folder, how.accept_changes, job.config)
        except StateFileError as error:
            ended.failed[job.key] = str(error)
            tick(*job.key, {"status": "failed"})
            continue
        if result is None:
            missing.append(job)
        else:
            ended.finished[job.key] = result
            tick(*job.key, result)
    if missing:
        _perform(missing, engine or local(), tick, how, ended)
    return ended


def _perform(missing: Sequence[Job], engine: Engine, tick: Tick, how: How, ended: Ended) -> None:
    """Do these runs, and note how they ended."""
    by_key = {job.key: job for job in missing}
    configs = {job.people: job.config for job in missing}
    shared = engine.separate or how.workers > 0
    results = engine.run(
        WORK,
        [task_of(job, how, engine.separate) for job in missing],
        share=lambda people: _built(configs[people], shared),
        progress=lambda key, state: tick(*key, state),
    )
    with contextlib.closing(results):
        for key, value, error in results:
            if error is not None:
                if not engine.separate:
                    ended.first_error = ended.first_error or error.__cause__ or error
                ended.failed[key] = str(error)
                tick(*key, {"status": "failed"})
                continue
            ended.finished[key], run = value
            if run is not None:
                run.config = by_key[key].config
                ended.runs[key] = run
            tick(*key, ended.finished[key])


def task_of(job: Job, how: How, separate: bool) -> Task:
    """A run as the task of an engine; samples do not travel with it, because the clients that it shares have them.

    >>> task_of(Job(("random", 0), Config()), How(), separate=True).key
    ('random', 0)
    """
    sent = dataclasses.replace(job, config=job.config.without_data()) if separate else job
    # A class of a notebook travels by value. None of it is ever written to disk.
    return Task(job.key, (sent, how), shares=job.people, kinds=tuple(sent.config.objects()))


def finished(folder: Path, accept_changes: bool = False, config: Config | None = None) -> dict[str, Any] | None:
    """The result of a run that is finished, and whose files are what they were then; None if it is not.

    If `config` wants more rounds than the run had, it is not finished.

    >>> finished(Path("no/such/run")) is None
    True
    """
    result = read_table(folder / "result.json")
    if result is None or "status" not in result:
        return None
    check_finished(folder, accept_changes)
    saved = read_table(folder / "config.json")
    if config is not None and saved is not None and outgrown(saved, config.model_dump(mode="json"), GROWING):
        return None
    return result


class Pulse(Callback):
    """Sends how a run stands, now and then.

    >>> Pulse(print).send.__name__
    'print'
    """

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self.send, self.sent = send, 0.0
        self.accuracy: float | None = None

    def on_round(self, simulation: Simulation, record: RoundRecord) -> None:
        """Send, if the last message is old enough."""
        row = record.row
        self.accuracy = row.get("accuracy", self.accuracy)
        now = time.monotonic()
        if now - self.sent >= PULSE:
            self.sent = now
            self.send({"rounds": row["round"], "time": row["end"], "accuracy": self.accuracy, "status": "running"})


def run_in(
    folder: Path,
    config: Config,
    callbacks: Sequence[Callback] = (),
    *,
    accept_changes: bool | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Run a configuration in a folder, from its last checkpoint on if there is one.

    `accept_changes` goes on with files that somebody changed in the meantime, which are refused otherwise.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     run_in(Path(place) / "run", Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}))["status"]
    'finished'
    """
    values, code = config.recorded().model_dump(mode="json"), config.code()
    options: dict[str, Any] = {"tables": config.tables(), "changed": config.not_default(), "growing": GROWING}
    with RunFolder.open(folder, values, resume=True, code=code, accept_changes=accept_changes, **options) as opened:
        recorder = Recorder(opened)
        simulation = Simulation(config, callbacks=(recorder, *callbacks), **settings)
        try:
            recorder.restore(simulation)
        except BaseException:
            simulation.trainer.close()
            raise
        return simulation.run()


def shared_population(config: Config, shared: bool) -> Shared:
    """The clients of a configuration, with their samples as tensors; in shared memory if other processes need them.

    >>> sorted(shared_population(Config(data={"clients": 5}), shared=False)[1])
    ['test', 'train', 'validation']
    """
    population = build(config)
    module = initialise(config.model, population.shape, population.classes, Streams(config.seed))
    data = placed(population, module, shared=shared)
    return dataclasses.replace(population, samples={}), data


def _built(config: Config, shared: bool) -> Shared:
    """The clients of a configuration; why there are none is a sentence."""
    try:
        return shared_population(config, shared)
    except EnlistError:
        raise
    except Exception as error:
        raise EnlistError(_reason(error)) from error


def _do(context: Context, job: Job, how: How) -> tuple[dict[str, Any], Run | None]:
    """One run; its result, and the run itself if it has no folder."""
    population, data = context.shared
    try:
        place = None if job.folder is None else files.inside(job.folder)
        trackers = [tracker(name, place, job.name) for name in how.trackers]
        callbacks: list[Callback] = [Pulse(context.report), *trackers]
        settings: dict[str, Any] = {"population": population, "data": data}
        settings |= {"device": how.device, "workers": how.workers}
        if job.folder is None:
            run = in_memory(job.config, callbacks, **settings)
            return dict(run.tables.result or {}), run
        return run_in(job.folder, job.config, callbacks, accept_changes=how.accept_changes, **settings), None
    except EnlistError:
        raise
    except Exception as error:  # told here, where the line of the user's code is known
        raise EnlistError(_reason(error)) from error


def _begin() -> None:
    keep_freed_memory()
    have_children()


def _reason(error: Exception) -> str:
    """What went wrong, and where in the user's code, if it was there."""
    if isinstance(error, EnlistError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    inside = str(Path(__file__).parents[1])
    own = [frame for frame in frames if not frame.filename.startswith(inside) and "site-packages" not in frame.filename]
    where = f" (line {own[-1].lineno} of {own[-1].filename}, in {own[-1].name})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


WORK = Work(
    _do,
    role="a process of the comparison",
    again="goes on with its run",
    preload="enlist.simulation.jobs",
    begin=_begin,
)
