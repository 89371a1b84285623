"""The workers that train: actors with an engine each, which share memory with their master.

Models and updates lie in shared memory; only a few numbers per client pass through pipes. For small dense models the
master is one of the workers: their rounds are so short that waking a process up for a share of one costs as much.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from enlist.engine import REPLACED, Actor, keep_freed_memory, local, yield_to_parent
from enlist.errors import EnlistError
from enlist.training.engine import ModuleTrainer, TrainingSetup
from enlist.training.flat import Vectors
from enlist.training.idle import IdleTasks
from enlist.training.tickets import Tickets

PRELOAD = "enlist.training.local_workers"
ADVICE = "if memory is short, use fewer workers (--workers). The last checkpoint is intact"
ENDING = 2.0
"""Seconds that workers have to exit by themselves."""
LOGGER = logging.getLogger("enlist")

Request = tuple[str, tuple[Any, ...]]
"""A command with its arguments: see `answered`."""


def answered(engine: ModuleTrainer, models: Vectors, updates: Vectors, request: Request) -> Any:
    """An engine's answer to a request.

    >>> from enlist.data.dataset import Samples
    >>> from enlist.training.engine import SharedSamples
    >>> from enlist.training.local import LocalTraining
    >>> import numpy as np
    >>> data = SharedSamples.of(Samples(np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])))
    >>> engine = ModuleTrainer(TrainingSetup(torch.nn.Linear(2, 2), 2, LocalTraining(), {"test": data}, seed=1))
    >>> models = Vectors.zeros(engine.flat.layout, 1)
    >>> answered(engine, models, models, ("evaluate", (0, "test", 0, 4)))[1]
    2
    """
    command, arguments = request
    if command == "train":
        return engine.train(arguments[0], models, updates)
    if command == "reduce":
        tasks, weights, slot = arguments
        return engine.reduce(tasks, weights, models, updates[slot])
    slot, part, start, stop = arguments
    if command == "outputs":
        return engine.outputs(models[slot], part, start, stop).numpy()
    return engine.evaluate(models[slot], part, start, stop)


class WorkerGroup(abc.ABC):
    """What workers on this machine and on others have in common: hiring them, and replacing dead ones.

    >>> sorted(WorkerGroup.__abstractmethods__)
    ['attach', 'changed', 'close', 'hired', 'run']
    """

    def __init__(self, models: Vectors, updates: Vectors) -> None:
        self.models, self.updates = models, updates
        self.workers: list[Actor] = []
        self.meanwhile = IdleTasks()
        self.busy = 0.0
        """Seconds that all workers together were busy with the requests of the last `run`."""

    @property
    def hands(self) -> int:
        """How many processes train."""
        return len(self.workers)

    def hire(self, count: int) -> None:
        """Start this many workers, or none if one of them cannot be started."""
        try:
            for _ in range(count):
                self.workers.append(self.hired())
        except BaseException:
            self.close()
            raise

    def replaced(self, worker: Actor, hopeless: bool = False) -> Actor:
        """End a dead worker and hire another one in its place, unless that is hopeless."""
        if worker.hopeless or hopeless:
            raise worker.died(ADVICE)
        worker.end()
        LOGGER.warning("%s; another one takes its place and trains its clients again.", worker.fate())
        place = self.workers.index(worker)
        self.workers[place] = self.hired()
        return self.workers[place]

    @abc.abstractmethod
    def hired(self) -> Actor:
        """A new worker."""

    @abc.abstractmethod
    def changed(self, slot: int) -> None:
        """Called after a model was put into a slot."""

    @abc.abstractmethod
    def attach(self, models: Vectors, updates: Vectors) -> None:
        """Use larger memory for models and updates."""

    @abc.abstractmethod
    def run(self, requests: Sequence[Request]) -> list[Any]:
        """Answers in the order of the requests."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the workers."""


class LocalWorkers(WorkerGroup):
    """Workers of this machine that answer requests.

    A worker that dies, or is stopped for too long, is replaced, and what it was doing is done again; if that happens
    three times in a row, it is an error.

    >>> from enlist.training.flat import Layout
    >>> from enlist.training.local import LocalTraining
    >>> job = TrainingSetup(torch.nn.Linear(2, 2), 2, LocalTraining(), {}, seed=1)
    >>> places = Vectors.zeros(Layout.of(job.module), 1, shared=True)
    >>> crew = LocalWorkers(job, 1, places, places)
    >>> crew.run([])
    []
    >>> crew.close()
    """

    def __init__(self, job: TrainingSetup, count: int, models: Vectors, updates: Vectors) -> None:
        super().__init__(models, updates)
        self.job, self.engine, self.turns = job, local(), Tickets(PRELOAD)
        # Training such models runs no code of the user's that could take this process down.
        joins = count > 1 and job.chain() is not None
        self.own = TaskTaker(_copied(job), models, updates, self.turns) if joins else None
        self.hire(count - joins)

    @property
    def hands(self) -> int:
        """How many processes train, including this one if it does."""
        return len(self.workers) + (self.own is not None)

    def changed(self, slot: int) -> None:
        """A model was put into a slot: workers see it there."""

    def attach(self, models: Vectors, updates: Vectors) -> None:
        """Give workers larger memory for models and updates."""
        self.models, self.updates = models, updates
        if self.own is not None:
            self.own.attach(models, updates)
        for worker in self.workers:
            worker.tell("attach", models, updates)

    def run(self, requests: Sequence[Request]) -> list[Any]:
        """Answers in the order of the requests."""
        answers: dict[int, Any] = {}
        missing = list(range(len(requests)))
        self.busy = 0.0
        for _ in range(REPLACED + 1):
            for worker in [each for each in self.workers if each.dead]:  # asking the system would take time
                self.replaced(worker)
            for place, answer in self._shared_out([requests[number] for number in missing]):
                answers[missing[place]] = answer
            missing = [number for number in missing if number not in answers]
            if not missing:
                return [answers[number] for number in range(len(requests))]
        raise next(worker for worker in self.workers if worker.dead).died(ADVICE)

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:
            worker.ask_to_end()
        patience = time.monotonic() + ENDING
        for worker in self.workers:
            worker.end(max(0.0, patience - time.monotonic()))
        self.workers = []
        self.turns.close()

    def _shared_out(self, requests: Sequence[Request]) -> list[tuple[int, Any]]:
        """The answers of all workers; those of a worker that dies are missing.

        Every worker gets the whole list and takes the next request that is not taken yet: the load is balanced,
        and this process, unless it is one of them, wakes only when a worker has found the list empty.
        """
        each = self.turns.deal(len(requests))
        waiting = self.engine.ask(self.workers, "work", requests, each)
        found: list[tuple[int, Any]] = []
        failure: Exception | None = None
        trouble = self.meanwhile.attempt()  # raised once all answers are in
        for answers in self._answers(requests, each, waiting):
            if isinstance(answers, Exception):
                failure = failure or answers
                self.turns.drop()  # no worker needs to start anything else
            elif answers is not None:  # those of a dead worker are missing
                found += answers[0]
                self.busy += answers[1]
        if failure is not None:
            raise EnlistError(f"training failed: {failure}") from failure
        if trouble is not None:
            raise trouble
        return found

    def _answers(self, requests: Sequence[Request], each: int, waiting: list[Actor]) -> Iterator[Any]:
        """The answers of this process, and of the workers that owe one, as they arrive."""
        if self.own is not None:
            yield self.own.attempt(requests, each)
        while waiting:
            for worker in self.engine.ready(waiting) if len(waiting) > 1 else list(waiting):
                waiting.remove(worker)
                yield worker.answer()  # waits for it if there is no other

    def hired(self) -> Actor:
        """A process that shares models and updates with this one."""
        given = (self.job, self.models, self.updates, self.turns)
        return self.engine.actor("a training worker", SharingWorker, *given, preload=PRELOAD)


class TaskTaker:
    """An engine on models and updates that several processes share; it answers requests that no other has taken.

    >>> from enlist.training.flat import Layout
    >>> from enlist.training.local import LocalTraining
    >>> job = TrainingSetup(torch.nn.Linear(2, 2), 2, LocalTraining(), {}, seed=1)
    >>> places, turns = Vectors.zeros(Layout.of(job.module), 1), Tickets()
    >>> taker = TaskTaker(job, places, places, turns)
    >>> taker.work([], turns.deal(0))[0]
    []
    >>> taker.attempt([("evaluate", (0, "test", 0, 4))], turns.deal(1))
    EnlistError("KeyError: 'test'")
    >>> turns.close()
    """

    def __init__(self, job: TrainingSetup, models: Vectors, updates: Vectors, turns: Tickets) -> None:
        self.engine, self.turns = ModuleTrainer(job), turns
        self.attach(models, updates)

    def attach(self, models: Vectors, updates: Vectors) -> None:
        """Use larger memory for models and updates."""
        self.models, self.updates = models, updates

    def work(self, requests: Sequence[Request], each: int) -> tuple[list[tuple[int, Any]], float]:
        """Answer the requests that no other process has taken; returns answers by number, and seconds taken."""
        began = time.perf_counter()
        taken = self.turns.taken(len(requests), each)
        found = [(number, answered(self.engine, self.models, self.updates, requests[number])) for number in taken]
        return found, time.perf_counter() - began

    def attempt(self, requests: Sequence[Request], each: int) -> tuple[list[tuple[int, Any]], float] | EnlistError:
        """The same, but return an error, for a caller that must collect answers before raising it."""
        try:
            return self.work(requests, each)
        except Exception as error:
            return EnlistError(f"{type(error).__name__}: {error}")


class SharingWorker(TaskTaker):
    """A worker on this machine, in a process of its own.

    >>> sorted(name for name in vars(SharingWorker) if not name.startswith("_"))
    []
    """

    def __init__(self, job: TrainingSetup, models: Vectors, updates: Vectors, turns: Tickets) -> None:
        yield_to_parent()
        torch.set_num_threads(1)
        keep_freed_memory()
        super().__init__(job, models, updates, turns)


def _copied(job: TrainingSetup) -> TrainingSetup:
    """A copy with a module of its own: the caller's stays as it is."""
    return dataclasses.replace(job, module=copy.deepcopy(job.module))
