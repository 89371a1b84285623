"""Many runs on an engine; runs with the same clients share them.

A run whose process dies continues in another one, from its last checkpoint if it has a folder. If that happens three
times, it is reported, and the other runs continue.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist.engine import Engine, Task, TaskContext, Work, have_children, keep_freed_memory, local
from enlist.errors import EnlistError, FolderInUseError, StateFileError
from enlist.runs import trust
from enlist.runs.digests import check_finished
from enlist.runs.elsewhere import Contents, TaskFolder, contents, signed, write_back
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
from enlist.training.engine import SharedSamples
from enlist.training.models import initialise

Key = tuple[Any, ...]
"""What identifies a run: label and seed, in a sweep also the point."""
Tick = Callable[..., None]
"""Called with the parts of a run's key, and the run's status."""
Shared = tuple[Population, dict[str, SharedSamples]]
PULSE = 0.1
"""Seconds between two messages of a run about its progress."""
LOCKED = 60.0
"""Seconds that a run waits for a folder which a process of a lost node still holds."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A run to do: its key, its configuration, and the folder to keep it in, if any."""

    key: Key
    config: Config
    folder: Path | None = None

    @property
    def name(self) -> str:
        """Its name for trackers, also usable as the name of a folder.

        >>> Job(("k = 5", "oort", 3), Config()).name
        'k-=-5+oort+3'
        """
        return "+".join(UNSAFE.sub("-", str(part)) for part in self.key)

    @property
    def people(self) -> str:
        """What determines the clients: runs with the same value share them."""
        return json.dumps(self.config.model_dump(mode="json", exclude={"selector"}), sort_keys=True)


@dataclasses.dataclass(frozen=True)
class JobSettings:
    """Settings that all runs share.

    Parameters
    ----------
    workers : int, default 0
        Processes that train one run; 0 trains in the run's own process.
    device : str, default "cpu"
        Where to train.
    trackers : tuple of str
        "tensorboard", "mlflow", "wandb".
    accept_changes : bool, default False
        Continue with folders whose files were changed in the meantime.

    >>> JobSettings().workers
    0
    """

    workers: int = 0
    device: str = "cpu"
    trackers: tuple[str, ...] = ()
    accept_changes: bool = False


@dataclasses.dataclass
class JobResults:
    """How runs ended: results of finished runs, reasons of failed ones, and runs kept in memory.

    >>> JobResults({("random", 0): {"status": "finished"}}, {}).failed
    {}
    """

    finished: dict[Key, dict[str, Any]]
    failed: dict[Key, str]
    runs: dict[Key, Run] = dataclasses.field(default_factory=dict)
    first_error: BaseException | None = None

    def below(self, part: Any) -> JobResults:
        """The runs whose keys begin with this part, which is dropped: those of one point of a sweep."""
        finished = {key[1:]: result for key, result in self.finished.items() if key[0] == part}
        failed = {key[1:]: reason for key, reason in self.failed.items() if key[0] == part}
        runs = {key[1:]: run for key, run in self.runs.items() if key[0] == part}
        return JobResults(finished, failed, runs, self.first_error)


def perform(
    jobs: Sequence[Job], engine: Engine | None = None, tick: Tick | None = None, how: JobSettings | None = None
) -> JobResults:
    """Do the runs that are not finished yet, on an engine; without an engine, in this process.

    >>> ended = perform([Job(("random", 0), Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}))])
    >>> ended.finished["random", 0]["rounds"], ended.runs["random", 0].label
    (2, 'random')
    """
    tick, how, ended = tick or (lambda *state: None), how or JobSettings(), JobResults({}, {})
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


def _perform(missing: Sequence[Job], engine: Engine, tick: Tick, how: JobSettings, ended: JobResults) -> None:
    """Do these runs, and record how they ended."""
    by_key = {job.key: job for job in missing}
    configs = {job.people: job.config for job in missing}
    with contextlib.ExitStack() as stack:
        places = {} if engine.shares_memory else stack.enter_context(_places(missing))
        results = engine.run(
            WORK,
            [task_of(job, how, engine.separate, places.get(job.key)) for job in missing],
            share=lambda people: _built(configs[people], engine, how),
            progress=lambda key, state: tick(*key, state),
        )
        stack.enter_context(contextlib.closing(results))
        for key, value, error in results:
            if error is not None:
                if not engine.separate:
                    ended.first_error = ended.first_error or error.__cause__ or error
                ended.failed[key] = str(error)
                tick(*key, {"status": "failed"})
                continue
            ended.finished[key], run, sent = value
            if run is not None:
                run.config = by_key[key].config
                ended.runs[key] = run
            if key in places:
                _returned(by_key[key], sent)
            tick(*key, ended.finished[key])


@contextlib.contextmanager
def _places(jobs: Sequence[Job]) -> Iterator[dict[Key, TaskFolder]]:
    """The folders of runs that are kept, as processes on other machines find them."""
    folders = {job.key: Path(os.path.abspath(job.folder)) for job in jobs if job.folder is not None}
    if not folders:
        yield {}
        return
    with signed(list(folders.values())) as (sign, content):
        yield {key: TaskFolder(path, sign, content, contents(path)) for key, path in folders.items()}


def _returned(job: Job, sent: Contents) -> None:
    """Keep what a run on another machine returns; here it belongs to this user, whoever owned it there."""
    assert job.folder is not None
    if sent:
        write_back(job.folder, sent)
    if job.config.code():
        trust.vouch(job.folder, json.loads(json.dumps(job.config.recorded().model_dump(mode="json"))))


def task_of(job: Job, how: JobSettings, separate: bool, place: TaskFolder | None = None) -> Task:
    """A run as a task for an engine; it carries no samples, because the shared clients have them.

    >>> task_of(Job(("random", 0), Config()), JobSettings(), separate=True).key
    ('random', 0)
    """
    sent = dataclasses.replace(job, config=job.config.without_data()) if separate else job
    # A class of a notebook travels by value. None of it is ever written to disk.
    return Task(job.key, (sent, how, place), shares=job.people, kinds=tuple(sent.config.objects()))


def finished(folder: Path, accept_changes: bool = False, config: Config | None = None) -> dict[str, Any] | None:
    """The result of a finished run whose files have not changed since; None otherwise.

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


class StatusSender(Callback):
    """Sends the status of a run from time to time.

    >>> from enlist.simulation import simulate
    >>> sender = StatusSender(lambda status: print(status["rounds"], status["status"]))
    >>> _ = simulate(Config(data={"clients": 8}, rounds={"rounds": 1, "k": 3}), callbacks=[sender])
    1 running
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

    `accept_changes` accepts files that were changed in the meantime, which are refused otherwise.

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


def _built(config: Config, engine: Engine, how: JobSettings) -> tuple[Population, dict[str, Any]]:
    """The clients of a configuration, in the form that an engine takes; failures are reported in a sentence."""
    try:
        if engine.shares_memory:
            return shared_population(config, shared=engine.separate or how.workers > 0)
        population, data = shared_population(config, shared=False)
        return population, {name: placed.sent() for name, placed in data.items()}
    except EnlistError:
        raise
    except Exception as error:
        raise EnlistError(_reason(error)) from error


def _do(
    context: TaskContext, job: Job, how: JobSettings, place: TaskFolder | None = None
) -> tuple[dict[str, Any], Run | None, Contents]:
    """One run: its result; the run itself if it has no folder; its files if its folder is on another machine."""
    population, data = context.shared
    if any(isinstance(each, tuple) for each in data.values()):  # from an engine without shared memory
        data = {name: SharedSamples.received(x, y, last, how.workers > 0) for name, (x, y, last) in data.items()}
    settings: dict[str, Any] = {"population": population, "data": data, "device": how.device, "workers": how.workers}
    try:
        if job.folder is None:
            run = in_memory(job.config, _companions(job, None, how, context), **settings)
            return dict(run.tables.result or {}), run, {}
        settings["accept_changes"] = how.accept_changes
        if place is None:
            return _kept(job, job.folder, how, context, settings), None, {}
        with place.opened() as (folder, sent):
            result = _kept(job, folder, how, context, settings, patience=LOCKED)
        return result, None, sent
    except EnlistError:
        raise
    except Exception as error:  # reported here, where the line of the user's code is known
        raise EnlistError(_reason(error)) from error


def _kept(
    job: Job, folder: Path, how: JobSettings, context: TaskContext, settings: dict[str, Any], patience: float = 0.0
) -> dict[str, Any]:
    """A run in a folder; one that a process of a lost node still holds is free again when that process notices."""
    until = time.monotonic() + patience
    while True:
        try:
            return run_in(folder, job.config, _companions(job, folder, how, context), **settings)
        except FolderInUseError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def _companions(job: Job, folder: Path | None, how: JobSettings, context: TaskContext) -> list[Callback]:
    place = None if folder is None else files.inside(folder)
    return [StatusSender(context.report), *(tracker(name, place, job.name) for name in how.trackers)]


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
    again="continues its run",
    preload="enlist.simulation.jobs",
    begin=_begin,
)
