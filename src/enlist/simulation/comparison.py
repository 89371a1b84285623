"""A comparison: selectors x seeds, in parallel processes, that can be interrupted and continued.

Processes share nothing but the read-only samples. A run whose process dies goes on in another one, from its last
checkpoint; if that happens three times it is reported, and the others go on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import multiprocessing.connection
import re
import time
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from enlist import checks, files
from enlist.errors import EnlistError, InputError, StateFileError
from enlist.processes import REPLACED, Child, keep_freed_memory
from enlist.runs.digests import check_finished
from enlist.runs.folder import RunFolder
from enlist.simulation.callbacks import Callback, Recorder, Row
from enlist.simulation.config import Config, parse
from enlist.simulation.header import read_table, remember
from enlist.simulation.population import Population, build
from enlist.simulation.simulation import Simulation, placed
from enlist.streams import Streams
from enlist.training.engine import Placed
from enlist.training.models import initialise

Key = tuple[str, int]
Tick = Callable[[str, int, dict[str, Any]], None]
PULSE = 0.1
"""Seconds between two messages of a run about its progress."""
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+|^[.]+")
"""What of a selector's name does not become part of a folder's."""
ADVICE = "if memory is short, use fewer --jobs"
LOGGER = logging.getLogger("enlist")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Who is compared: every selector (`name` or `name:preset`) with every seed, on the same populations.

    >>> Comparison(Config(), ("random", "oort"), seeds=2).runs()
    [('random', 0), ('oort', 0), ('random', 1), ('oort', 1)]
    """

    config: Config
    selectors: tuple[str, ...]
    seeds: int = 3
    first_seed: int = 0

    def runs(self) -> list[Key]:
        """Every (selector, seed), seed by seed, because a seed is a population."""
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        return [(selector, seed) for seed in seeds for selector in self.selectors]

    def check(self) -> None:
        """Refuse bad names and numbers before anything runs."""
        if not self.selectors:
            raise InputError("no selectors were given; name at least one, for example 'oort,random'.")
        checks.whole("seeds", self.seeds, minimum=1)
        for selector in self.selectors:
            self.config.with_method(selector, self.first_seed)

    def folder(self, root: Path, key: Key) -> Path:
        """Where a run is kept."""
        selector, seed = key
        return files.inside(root, "runs", UNSAFE.sub("-", selector), str(seed))


@dataclasses.dataclass
class Ended:
    """How the runs of a comparison ended.

    >>> Ended({("random", 0): {"status": "finished"}}, {}).failed
    {}
    """

    finished: dict[Key, dict[str, Any]]
    failed: dict[Key, str]


def compare(
    comparison: Comparison,
    root: str | PathLike[str],
    jobs: int = 1,
    tick: Tick | None = None,
    *,
    accept_changes: bool = False,
) -> Ended:
    """Run what is missing in the folder `root`; `tick` is called with selector, seed and how that run stands.

    The results do not depend on `jobs`. Interrupted, it is called again with the same folder and goes on. A run whose
    files were changed in the meantime fails, unless `accept_changes` takes them as they are.

    >>> import tempfile
    >>> config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ended = compare(Comparison(config, ("random",), seeds=1), folder)
    >>> ended.finished["random", 0]["rounds"], ended.failed
    (2, {})
    """
    comparison.check()
    checks.whole("jobs", jobs, minimum=1)
    path = Path(root)
    remember(comparison, path, accept_changes)
    files.inside(path, "runs")
    tick = tick or (lambda selector, seed, state: None)
    ended = Ended({}, {})
    missing = []
    for key in comparison.runs():
        try:
            result = _finished(comparison.folder(path, key), accept_changes)
        except StateFileError as error:
            ended.failed[key] = str(error)
            tick(*key, {"status": "failed"})
            continue
        if result is None:
            missing.append(key)
        else:
            ended.finished[key] = result
            tick(*key, result)
    if missing:
        _Work(comparison, path, missing, tick, ended, accept_changes).done_by(min(jobs, len(missing)))
    return ended


def _finished(folder: Path, accept_changes: bool) -> dict[str, Any] | None:
    """The result of a run that is finished, and whose files are what they were then."""
    result = read_table(folder / "result.json")
    if result is None or "status" not in result:
        return None
    check_finished(folder, accept_changes)
    return result


class Pulse(Callback):
    """Sends how a run stands, now and then.

    >>> Pulse(print).send.__name__
    'print'
    """

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self.send, self.sent, self.accuracy = send, 0.0, None

    def on_round(self, simulation: Simulation, row: Row, participations: Sequence[Row]) -> None:
        """Send, if the last message is old enough."""
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
    values, code = config.model_dump(mode="json"), config.code()
    with RunFolder.open(folder, values, resume=True, code=code, accept_changes=accept_changes) as opened:
        recorder = Recorder(opened)
        simulation = Simulation(config, callbacks=(recorder, *callbacks), **settings)
        try:
            recorder.restore(simulation)
        except BaseException:
            simulation.trainer.close()
            raise
        return simulation.run()


class _Runner(Child):
    """A process that runs one simulation after another, as its master sees it."""

    def __init__(self) -> None:
        self.key: Key | None = None
        self.seed: int | None = None
        super().__init__("a process of the comparison", _serve, preload="enlist.simulation.comparison")


class _Work:
    """What is left of a comparison: runs that wait, the clients that runs of a seed share, and processes that run."""

    def __init__(
        self,
        comparison: Comparison,
        path: Path,
        missing: Sequence[Key],
        tick: Tick,
        ended: Ended,
        accept_changes: bool = False,
    ) -> None:
        self.comparison, self.path, self.tick, self.ended = comparison, path, tick, ended
        self.accept_changes = accept_changes
        self.waiting = list(missing)
        self.shared: dict[int, tuple[Population, dict[str, Placed]]] = {}
        self.runners: list[_Runner] = []
        self.deaths: dict[Key, int] = {}

    def done_by(self, jobs: int) -> None:
        """Run all that waits in so many processes."""
        self.runners = [_Runner() for _ in range(jobs)]
        try:
            for runner in self.runners:
                self.give(runner)
            while busy := [runner for runner in self.runners if runner.key is not None]:
                for runner, (kind, content) in _messages(busy):
                    self.hear(runner, kind, content)
        finally:
            for runner in self.runners:
                runner.end()

    def give(self, runner: _Runner) -> None:
        """Let a process begin with the next run, if there is one."""
        key = runner.key = self.take()
        if key is None:
            return
        fresh, runner.seed = runner.seed != key[1], key[1]
        config = self.comparison.config.with_method(*key).model_dump(mode="json")
        with contextlib.suppress(OSError):  # a process that is dead already is reported by `_messages`
            if fresh:
                runner.connection.send(("population", self.shared[key[1]]))
            folder = str(self.comparison.folder(self.path, key))
            runner.connection.send(("run", (config, folder, self.accept_changes)))

    def take(self) -> Key | None:
        """The next run whose clients can be built; where they cannot, all runs of that seed fail."""
        while self.waiting:
            key = self.waiting.pop(0)
            reason = self.build(key[1])
            if not reason:
                return key
            for hopeless in [key, *(other for other in self.waiting if other[1] == key[1])]:
                self.fail(hopeless, reason)
            self.waiting = [other for other in self.waiting if other[1] != key[1]]
        return None

    def build(self, seed: int) -> str:
        """Have the clients of a seed, and no longer those of earlier ones that nobody runs; returns why not."""
        if seed in self.shared:
            return ""
        try:
            self.shared[seed] = _population(self.comparison, seed)
        except EnlistError as error:
            return str(error)
        running = {runner.seed for runner in self.runners}
        self.shared = {each: built for each, built in self.shared.items() if each >= seed or each in running}
        return ""

    def hear(self, runner: _Runner, kind: str, content: Any) -> None:
        """A message of a process: how its run stands, that it has ended, or that the process itself has."""
        assert runner.key is not None
        if kind == "state":
            self.tick(*runner.key, content)
            return
        if kind == "died":
            self.bury(runner)
            return
        if kind == "finished":
            self.ended.finished[runner.key] = content
            self.tick(*runner.key, content)
        else:
            self.fail(runner.key, content)
        self.give(runner)

    def bury(self, runner: _Runner) -> None:
        """Let another process go on with the run of a dead one; give the run up if that has been tried enough."""
        assert runner.key is not None
        self.deaths[runner.key] = deaths = self.deaths.get(runner.key, 0) + 1
        error = runner.died(ADVICE)
        self.runners.remove(runner)
        runner.end()
        if deaths > REPLACED or runner.hopeless:
            self.fail(runner.key, str(error))
        else:
            LOGGER.warning("%s; another one takes its place and goes on with its run.", runner.fate())
            self.waiting.insert(0, runner.key)
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


def _population(comparison: Comparison, seed: int) -> tuple[Population, dict[str, Placed]]:
    config = comparison.config.model_copy(update={"seed": seed})
    population = build(config)
    module = initialise(config.model, population.shape, population.classes, Streams(seed))
    data = placed(population, module, shared=True)
    return dataclasses.replace(population, samples={}), data


def _serve(connection: Any) -> None:
    keep_freed_memory()
    population: Population | None = None
    data: dict[str, Placed] = {}
    while True:
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):
            return
        if kind == "population":
            population, data = content
            continue
        values, folder, accept = content
        try:
            pulse = Pulse(lambda state: connection.send(("state", state)))
            config = parse(values, "config")
            result = run_in(Path(folder), config, (pulse,), accept_changes=accept, population=population, data=data)
            connection.send(("finished", result))
        except EnlistError as error:
            connection.send(("failed", str(error)))
        except Exception as error:
            connection.send(("failed", f"{type(error).__name__}: {error}"))


__all__ = ["Comparison", "Ended", "Key", "Pulse", "Tick", "compare", "remember", "run_in"]
