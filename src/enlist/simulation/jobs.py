"""Many runs: in this process, or in several, with the clients shared by runs that have the same ones.

A run whose process dies goes on in another one, from its last checkpoint if it has a folder; if that happens three
times it is reported, and the others go on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import multiprocessing.connection
import pickle
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from enlist._internal import checks, files
from enlist.errors import EnlistError, StateFileError
from enlist.processes import REPLACED, Child, have_children, keep_freed_memory, packed
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
ADVICE = "if memory is short, use fewer --jobs"
LOGGER = logging.getLogger("enlist")


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


def perform(jobs: Sequence[Job], processes: int = 1, tick: Tick | None = None, how: How | None = None) -> Ended:
    """Do the runs that are not finished yet; with one process in this one, so that nothing need be importable.

    >>> ended = perform([Job(("random", 0), Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3}))])
    >>> ended.finished["random", 0]["rounds"], ended.runs["random", 0].label
    (2, 'random')
    """
    checks.whole("jobs", processes, minimum=1)
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
        kind = _Here if processes == 1 else _Elsewhere
        kind(missing, tick, ended, how).done_by(min(processes, len(missing)))
    return ended


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


def _do(job: Job, people: Shared, how: How, pulse: Pulse) -> tuple[dict[str, Any], Run | None]:
    """One run; its result, and the run itself if it has no folder."""
    population, data = people
    place = None if job.folder is None else files.inside(job.folder)
    callbacks: list[Callback] = [pulse, *(tracker(name, place, job.name) for name in how.trackers)]
    settings: dict[str, Any] = {"population": population, "data": data, "device": how.device, "workers": how.workers}
    if job.folder is None:
        run = in_memory(job.config, callbacks, **settings)
        return dict(run.tables.result or {}), run
    return run_in(job.folder, job.config, callbacks, accept_changes=how.accept_changes, **settings), None


def _reason(error: Exception) -> str:
    """What went wrong, and where in the user's code, if it was there."""
    if isinstance(error, EnlistError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    inside = str(Path(__file__).parents[1])
    own = [frame for frame in frames if not frame.filename.startswith(inside) and "site-packages" not in frame.filename]
    where = f" (line {own[-1].lineno} of {own[-1].filename}, in {own[-1].name})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


class _Here:
    """Runs in this process, one after the other."""

    def __init__(self, missing: Sequence[Job], tick: Tick, ended: Ended, how: How) -> None:
        self.waiting, self.tick, self.ended, self.how = list(missing), tick, ended, how

    def done_by(self, processes: int) -> None:
        """Do them all."""
        people, known = "", None
        for job in self.waiting:
            try:
                if job.people != people:
                    known, people = shared_population(job.config, shared=self.how.workers > 0), job.people
                assert known is not None
                pulse = Pulse(lambda state, key=job.key: self.tick(*key, state))  # type: ignore[misc]
                result, run = _do(job, known, self.how, pulse)
            except Exception as error:
                self.ended.first_error = self.ended.first_error or error
                self.ended.failed[job.key] = _reason(error)
                self.tick(*job.key, {"status": "failed"})
                continue
            self.ended.finished[job.key] = result
            if run is not None:
                self.ended.runs[job.key] = run
            self.tick(*job.key, result)


class _Runner(Child):
    """A process that does one run after another, as its master sees it."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.people: str | None = None
        super().__init__("a process of the comparison", _serve, preload="enlist.simulation.jobs")


class _Elsewhere:
    """Runs that wait, the clients that some of them share, and the processes that do them."""

    def __init__(self, missing: Sequence[Job], tick: Tick, ended: Ended, how: How) -> None:
        self.waiting, self.tick, self.ended, self.how = list(missing), tick, ended, how
        self.shared: dict[str, Shared] = {}
        self.runners: list[_Runner] = []
        self.deaths: dict[Key, int] = {}

    def done_by(self, processes: int) -> None:
        """Do all that waits in so many processes."""
        self.runners = [_Runner() for _ in range(processes)]
        try:
            for runner in self.runners:
                self.give(runner)
            while busy := [runner for runner in self.runners if runner.job is not None]:
                for runner, (kind, content) in _messages(busy):
                    self.hear(runner, kind, content)
        finally:
            for runner in self.runners:
                runner.end()

    def give(self, runner: _Runner) -> None:
        """Let a process begin with the next run, if there is one."""
        job = runner.job = self.take()
        if job is None:
            return
        fresh, runner.people = runner.people != job.people, job.people
        with contextlib.suppress(OSError):  # a process that is dead already is reported by `_messages`
            if fresh:
                runner.connection.send(("people", self.shared[job.people]))
            # A class of a notebook travels by value, and samples are there already. None of it is ever written to disk.
            sent = dataclasses.replace(job, config=job.config.without_data())
            runner.connection.send(("run", packed((sent, self.how), job.config.objects())))

    def take(self) -> Job | None:
        """The next run whose clients can be built; where they cannot, all runs with these clients fail."""
        while self.waiting:
            job = self.waiting.pop(0)
            reason = self.build(job)
            if not reason:
                return job
            for hopeless in [job, *(other for other in self.waiting if other.people == job.people)]:
                self.fail(hopeless.key, reason)
            self.waiting = [other for other in self.waiting if other.people != job.people]
        return None

    def build(self, job: Job) -> str:
        """Have the clients of a run, and no longer those that nobody needs; returns why not."""
        if job.people in self.shared:
            return ""
        try:
            self.shared[job.people] = shared_population(job.config, shared=True)
        except EnlistError as error:
            return str(error)
        needed = {job.people, *(runner.people for runner in self.runners), *(each.people for each in self.waiting)}
        self.shared = {people: built for people, built in self.shared.items() if people in needed}
        return ""

    def hear(self, runner: _Runner, kind: str, content: Any) -> None:
        """A message of a process: how its run stands, that it has ended, or that the process itself has."""
        assert runner.job is not None
        key = runner.job.key
        if kind == "state":
            self.tick(*key, content)
            return
        if kind == "died":
            self.bury(runner)
            return
        if kind == "finished":
            result, run = pickle.loads(content)  # of a process of ours, through a pipe of ours
            self.ended.finished[key] = result
            if run is not None:
                run.config = runner.job.config
                self.ended.runs[key] = run
            self.tick(*key, result)
        else:
            self.fail(key, content)
        self.give(runner)

    def bury(self, runner: _Runner) -> None:
        """Let another process go on with the run of a dead one; give the run up if that has been tried enough."""
        assert runner.job is not None
        key = runner.job.key
        self.deaths[key] = deaths = self.deaths.get(key, 0) + 1
        error = runner.died(ADVICE)
        self.runners.remove(runner)
        runner.end()
        if deaths > REPLACED or runner.hopeless:
            self.fail(key, str(error))
        else:
            LOGGER.warning("%s; another one takes its place and goes on with its run.", runner.fate())
            self.waiting.insert(0, runner.job)
        if self.waiting:
            self.runners.append(_Runner())
            self.give(self.runners[-1])

    def fail(self, key: Key, reason: str) -> None:
        """Note that a run failed."""
        self.ended.failed[key] = reason
        self.tick(*key, {"status": "failed"})


def _messages(runners: Sequence[_Runner]) -> Iterator[tuple[_Runner, tuple[str, Any]]]:
    ready = multiprocessing.connection.wait([runner.connection for runner in runners])
    for runner in runners:
        if runner.connection in ready:
            try:
                yield runner, runner.connection.recv()
            except (EOFError, OSError):
                yield runner, ("died", None)


def _serve(connection: Any) -> None:
    keep_freed_memory()
    have_children()
    people: Shared | None = None
    while True:
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):
            return
        if kind == "people":
            people = content
            continue
        try:
            job, how = pickle.loads(content)
            assert people is not None
            pulse = Pulse(lambda state: connection.send(("state", state)))
            connection.send(("finished", packed(_do(job, people, how, pulse), job.config.objects())))
        except Exception as error:
            connection.send(("failed", _reason(error)))
