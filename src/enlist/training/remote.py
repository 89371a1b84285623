"""Workers on other machines: actors of an engine that shares no memory with them.

Samples are placed once per node; a model travels once per node and round, and each worker copies it into a place of its
own. A worker sends back sums of its groups where sums suffice, else updates. Groups, and the order in which sums are
added, are those of workers on one machine: the results are the same, bit for bit, wherever workers are.
"""

from __future__ import annotations

import collections
import dataclasses
import pickle
import time
from collections.abc import Sequence
from typing import Any

import torch

from enlist._internal.typing import AnyArray
from enlist.engine import REPLACED, Actor, Engine, keep_freed_memory
from enlist.errors import EnlistError
from enlist.training.engine import ModuleTrainer as TrainingEngine
from enlist.training.engine import SharedSamples, TrainingSetup
from enlist.training.flat import Vectors
from enlist.training.local_workers import Request, WorkerGroup, answered

AHEAD = 2
"""Requests queued at a worker, so that it need not wait for the next one."""
STARTING = -1
"""Counts workers that were lost before they had begun."""
Arrays = tuple[AnyArray, ...]


class RemoteWorkers(WorkerGroup):
    """Workers of an engine's cluster that answer requests.

    A worker that is lost is replaced, and what it was doing is done again; a request that is lost three times is an
    error. A worker gets work once it has reported in: if a cluster that lost a node has no room for a worker, nobody
    waits for it. Any engine will do:

    >>> import numpy as np
    >>> from enlist.data.dataset import Samples
    >>> from enlist.engine import local
    >>> from enlist.training.flat import Layout
    >>> from enlist.training.local import LocalTraining
    >>> data = SharedSamples.of(Samples(np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])))
    >>> job = TrainingSetup(torch.nn.Linear(2, 2), 2, LocalTraining(), {"test": data}, seed=1)
    >>> places = Vectors.zeros(Layout.of(job.module), 1)
    >>> crew = RemoteWorkers(job, 1, local(), places, places)
    >>> crew.run([("evaluate", (0, "test", 0, 4)), ("evaluate", (0, "test", 0, 1))])[1][1]
    1
    >>> crew.close()
    """

    def __init__(self, job: TrainingSetup, count: int, engine: Engine, models: Vectors, updates: Vectors) -> None:
        super().__init__(models, updates)
        self.engine = engine
        self.content = pickle.dumps(dataclasses.replace(job, data={}))
        self.parts = tuple((name, placed.channels_last) for name, placed in job.data.items())
        self.data = [engine.put(array) for placed in job.data.values() for array in placed.sent()[:2]]
        self.versions: collections.Counter[int] = collections.Counter()
        self.placed: dict[int, Any] = {}
        self.starting: set[Actor] = set()
        self.hire(count)

    def changed(self, slot: int) -> None:
        """Called after a model was put into a slot."""
        self.versions[slot] += 1
        self.placed.pop(slot, None)

    def attach(self, models: Vectors, updates: Vectors) -> None:
        """Use larger memory for models and updates; workers have memory of their own."""
        self.models, self.updates = models, updates

    def run(self, requests: Sequence[Request]) -> list[Any]:
        """Answers in the order of the requests."""
        answers: dict[int, Any] = {}
        self.busy = 0.0
        lost: collections.Counter[int] = collections.Counter()
        waiting = collections.deque(range(len(requests)))
        given: dict[Actor, collections.deque[int]] = {worker: collections.deque() for worker in self.workers}
        while len(answers) < len(requests):
            for _ in range(AHEAD):
                for worker in self.workers:
                    if waiting and worker not in self.starting and len(given[worker]) < AHEAD:
                        given[worker].append(waiting.popleft())
                        self._ask(worker, requests[given[worker][-1]])
            if (trouble := self.meanwhile.attempt()) is not None:
                self._forget(given)
                raise trouble
            busy = [worker for worker in self.workers if given[worker] or worker in self.starting]
            for worker in self.engine.ready(busy):
                answer = worker.answer()
                if worker.dead:
                    lost.update(list(given[worker])[:1] or [STARTING])
                    waiting.extendleft(reversed(given.pop(worker)))
                    self.starting.discard(worker)
                    given[self.replaced(worker, max(lost.values()) > REPLACED)] = collections.deque()
                    continue
                if worker in self.starting:
                    self.starting.remove(worker)
                    continue
                number = given[worker].popleft()
                if isinstance(answer, Exception):
                    self._forget(given)
                    raise EnlistError(f"training failed in a worker process: {answer}") from answer
                answers[number] = self._taken(requests[number], answer)
        return [answers[number] for number in range(len(requests))]

    def close(self) -> None:
        """End the workers, and free what was placed for them."""
        for worker in self.workers:
            worker.end()
        self.workers, self.data = [], []
        self.starting.clear()
        self.placed.clear()

    def _ask(self, worker: Actor, request: Request) -> None:
        command, arguments = request
        slots = sorted({task.model_slot for task in arguments[0]}) if command in ("train", "reduce") else arguments[:1]
        for slot in slots:
            if slot not in self.placed:
                self.placed[slot] = self.engine.put(_arrays(self.models[slot]))
        known = tuple((slot, self.versions[slot]) for slot in slots)
        self.engine.ask([worker], "answer", request, known, *(self.placed[slot] for slot in slots))

    def _taken(self, request: Request, answer: tuple[Any, Arrays, float]) -> Any:
        """Put what a worker has sent where its master expects it; returns the rest of the answer."""
        found, arrays, seconds = answer
        self.busy += seconds
        command, arguments = request
        slots: list[int] = []
        if command == "train":
            slots = [task.update_slot for task in arguments[0]]
        elif command == "reduce":
            slots = [arguments[2]]
        for row, slot in enumerate(slots):
            for place, array in zip(_tensors(self.updates[slot]), arrays, strict=True):
                place.copy_(torch.tensor(array[row]))
        return found

    def hired(self) -> Actor:
        """An actor of the cluster, which gets work once it has reported in."""
        worker = self.engine.actor("a training worker", RemoteWorker, self.content, self.parts, *self.data)
        self.engine.ask([worker], "lives")
        self.starting.add(worker)
        return worker

    def _forget(self, given: dict[Actor, collections.deque[int]]) -> None:
        """Collect all outstanding answers, so that they are not taken for answers to later requests."""
        for worker, numbers in given.items():
            for _ in numbers:
                if not worker.dead:
                    worker.answer()


class RemoteWorker:
    """A worker on another machine: an engine, and its own memory for models.

    >>> from enlist.training.local import LocalTraining
    >>> job = TrainingSetup(torch.nn.Linear(2, 2), 2, LocalTraining(), {}, seed=1)
    >>> RemoteWorker(pickle.dumps(job), []).models.parameters.shape
    torch.Size([1, 32])
    """

    def __init__(self, content: bytes, parts: Sequence[tuple[str, bool]], *arrays: AnyArray) -> None:
        torch.set_num_threads(1)
        keep_freed_memory()
        pairs = zip(arrays[::2], arrays[1::2], strict=True)
        data = {name: SharedSamples.received(*pair, last) for (name, last), pair in zip(parts, pairs, strict=True)}
        job: TrainingSetup = pickle.loads(content)  # from the driver, whose code runs here anyway
        self.engine = TrainingEngine(dataclasses.replace(job, data=data))
        self.layout = self.engine.flat.layout
        self.models = Vectors.zeros(self.layout, 1)
        self.held: dict[int, int] = {}

    def lives(self) -> bool:
        """Whether the worker is up: it answers once it is."""
        return True

    def answer(self, request: Request, known: Sequence[tuple[int, int]], *models: Arrays) -> tuple[Any, Arrays, float]:
        """The answer to a request, the updates or the sum that it leaves, and the seconds that it took."""
        began = time.perf_counter()
        for (slot, version), model in zip(known, models, strict=True):
            if self.held.get(slot) != version:
                self._hold(slot, model)
                self.held[slot] = version
        command, arguments = request
        if command not in ("train", "reduce"):
            return answered(self.engine, self.models, self.models, request), (), time.perf_counter() - began
        tasks = [task._replace(update_slot=slot) for slot, task in enumerate(arguments[0])]
        updates = Vectors.zeros(self.layout, len(tasks) if command == "train" else 1)
        moved: tuple[Any, ...] = (tasks,) if command == "train" else (tasks, arguments[1], 0)
        found = answered(self.engine, self.models, updates, (command, moved))
        return found, _arrays(updates), time.perf_counter() - began

    def _hold(self, slot: int, model: Arrays) -> None:
        if slot >= len(self.models.parameters):
            grown = Vectors.zeros(self.layout, slot + 1)
            for old in range(len(self.models.parameters)):
                grown[old].copy_(self.models[old])
            self.models = grown
        for place, array in zip(_tensors(self.models[slot]), model, strict=True):
            place.copy_(torch.tensor(array))


def _tensors(vectors: Vectors) -> tuple[torch.Tensor, ...]:
    return vectors.parameters, vectors.buffers, vectors.counters


def _arrays(vectors: Vectors) -> Arrays:
    return tuple(tensor.numpy() for tensor in _tensors(vectors))
