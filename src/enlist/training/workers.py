"""The trainer: engines in worker processes, one per core with one thread each, or one engine in this process.

Models and updates lie in shared memory; only a few numbers per client pass through pipes. Which clients are trained
together is a fixed function of the tasks, so results are the same, bit for bit, for any number of workers.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from enlist._internal import checks
from enlist.engine import Actor
from enlist.engine import Engine as ProcessEngine
from enlist.training.engine import EVALUATION_BATCH, ModuleTrainer, TrainingSetup
from enlist.training.flat import Layout, Vectors
from enlist.training.idle import Errand
from enlist.training.local import Report, TrainingTask
from enlist.training.local_workers import LocalWorkers, Request, WorkerGroup, answered
from enlist.training.remote import RemoteWorkers
from enlist.training.times import TimeSpent

STACK_BYTES = 5 * 2**20
"""Weights trained side by side; beyond this they fall out of the cache and cost more than the calls they save."""
MOST_TOGETHER = 32
GROUPS = 4
"""A round is cut into at least this many groups, so that workers finish at about the same time."""
SLOT_BYTES = 512 * 2**20
"""Updates are collected in waves of at most this size."""
EVALUATION_PART = 4 * EVALUATION_BATCH
ROUND = operator.attrgetter("round")
MOST_WORKERS = 4096
"""More processes than any machine has cores; a mistake rather than a wish."""


class Trainer:
    """Trains clients and evaluates models.

    workers    processes; 0 trains in this process, which is also one of several if the model is small and dense
    engine     whose actors the workers are; by default processes of this machine

    A worker that dies, or is stopped for too long, is replaced, and what it was doing is done again; if that happens
    three times in a row, training fails with an error.

    `models` holds the models that tasks may start from, by slot; `train` yields each task's report and update in
    the order of the tasks.

    >>> import numpy as np
    >>> from enlist.data.dataset import Samples
    >>> from enlist.training.engine import SharedSamples
    >>> from enlist.training.local import LocalTraining
    >>> data = SharedSamples.of(Samples(np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])))
    >>> parts, settings = {"train": data, "test": data}, LocalTraining(batch=2, lr=0.1)
    >>> job = TrainingSetup(torch.nn.Linear(2, 2), 2, settings, parts, seed=1)
    >>> with Trainer(job) as trainer:
    ...     trainer.put(0, Vectors.zeros(trainer.layout))
    ...     for report, update in trainer.train([TrainingTask(0, 0, 4, steps=2, round=1, model_slot=0, update_slot=0)]):
    ...         print(round(report.loss, 2), update.parameters.abs().sum() > 0)
    ...     trainer.evaluate(0, "test")[1]
    0.69 tensor(True)
    0.5
    """

    def __init__(self, job: TrainingSetup, workers: int = 0, engine: ProcessEngine | None = None) -> None:
        checks.whole("workers", workers, minimum=0, maximum=MOST_WORKERS)
        self.job, self.layout = job, Layout.of(job.module)
        self.chain = job.chain()
        remote = engine if engine is not None and not engine.shares_memory else None
        self.shared = workers > 0 and remote is None
        self.models = Vectors.zeros(self.layout, 1, shared=self.shared)
        self.updates = Vectors.zeros(self.layout, 1, shared=self.shared)
        self.slots = [self.updates[0]]
        self.engine = ModuleTrainer(job) if workers == 0 else None
        self._spent = TimeSpent()
        self.crew: WorkerGroup | None = None
        if workers and remote is not None:
            self.crew = RemoteWorkers(job, workers, remote, self.models, self.updates)
        elif workers:
            self.crew = LocalWorkers(job, workers, self.models, self.updates)

    @property
    def workers(self) -> list[Actor]:
        """The processes that train."""
        return [] if self.crew is None else self.crew.workers

    def put(self, slot: int, model: Vectors) -> None:
        """Copy a model into a slot, from which tasks may then start."""
        if slot >= len(self.models.parameters):
            grown = Vectors.zeros(self.layout, 2 * slot, shared=self.shared)
            for old in range(len(self.models.parameters)):
                grown[old].copy_(self.models[old])
            self.models = grown
            self._attach()
        self.models[slot].copy_(model)
        if self.crew is not None:
            self.crew.changed(slot)

    def train(self, tasks: Sequence[TrainingTask]) -> Iterator[tuple[Report, Vectors]]:
        """Train all tasks; an update is valid until the next one is taken."""
        wave = self._wave()
        for start in range(0, len(tasks), wave):
            part = [_in_slot(task, slot) for slot, task in enumerate(tasks[start : start + wave])]
            self._make_room(len(part))
            reports: list[Report] = [Report()] * len(part)
            groups = grouped(part, self.chain is not None, self.layout)
            for group, answer in zip(groups, self._run([("train", (group,)) for group in groups]), strict=True):
                for task, report in zip(group, answer, strict=True):
                    reports[task.update_slot] = report
            for task in part:
                yield reports[task.update_slot], self.slots[task.update_slot]

    def reduce(
        self, tasks: Sequence[TrainingTask], weights: Sequence[float]
    ) -> Iterator[tuple[list[TrainingTask], list[Report], Vectors]]:
        """Train all tasks; yields, group by group, reports and the sum of the good updates times their weights.

        Summing updates where they are saves sending them; groups and their order do not depend on the workers.
        """
        numbered = [_in_slot(task, slot) for slot, task in enumerate(tasks)]
        groups = grouped(numbered, self.chain is not None, self.layout)
        wave = self._wave()
        for start in range(0, len(groups), wave):
            part = groups[start : start + wave]
            self._make_room(len(part))
            requests: list[Request] = [
                ("reduce", (group, [weights[task.update_slot] for task in group], slot))
                for slot, group in enumerate(part)
            ]
            for slot, (group, reports) in enumerate(zip(part, self._run(requests), strict=True)):
                yield group, reports, self.slots[slot]

    def _wave(self) -> int:
        return max(2, min(SLOT_BYTES // (4 * self.layout.size), 4096))

    def _make_room(self, slots: int) -> None:
        if slots > len(self.updates.parameters):
            self.updates = Vectors.zeros(self.layout, slots, shared=self.shared)
            self.slots = [self.updates[slot] for slot in range(slots)]
            self._attach()

    def evaluate(self, slot: int, part: str) -> tuple[float, float]:
        """Mean loss and accuracy (NaN for regression) of the model in a slot on a part of the data."""
        total = len(self.job.data[part])
        spans = [(start, min(start + EVALUATION_PART, total)) for start in range(0, total, EVALUATION_PART)]
        answers = self.spans(slot, part, spans)
        loss = sum(answer[0] for answer in answers) / total
        right = sum(answer[1] for answer in answers) / total
        return loss, right if self.job.classes else float("nan")

    def spans(self, slot: int, part: str, spans: Sequence[tuple[int, int]]) -> list[tuple[float, int]]:
        """Sum of losses and number of correct predictions on each span (start, stop) of a part of the data."""
        return self._run([("evaluate", (slot, part, *span)) for span in spans])

    def outputs(self, slot: int, part: str) -> torch.Tensor:
        """The outputs of the model in a slot for all samples of a part of the data, (n, outputs)."""
        total = len(self.job.data[part])
        spans = [(start, min(start + EVALUATION_PART, total)) for start in range(0, total, EVALUATION_PART)]
        answers = self._run([("outputs", (slot, part, *span)) for span in spans])
        return torch.from_numpy(np.concatenate(answers))

    def meanwhile(self, errand: Errand) -> None:
        """Do something that no later round depends on: while workers train or, if there are none, now."""
        if self.crew is None:
            errand()
        else:
            self.crew.meanwhile.add(errand)

    def catch_up(self) -> None:
        """Do the errands that are still waiting for workers to train."""
        if self.crew is not None:
            self.crew.meanwhile.run()

    def spent(self) -> TimeSpent:
        """How the time was spent since the last call."""
        found, self._spent = self._spent, TimeSpent()
        return found

    def close(self) -> None:
        """End the workers."""
        if self.crew is not None:
            self.crew.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _attach(self) -> None:
        if self.crew is not None:
            self.crew.attach(self.models, self.updates)

    def _run(self, requests: Sequence[Request]) -> list[Any]:
        """Answers in the order of the requests."""
        began, busy = time.perf_counter(), math.inf
        with one_thread():
            if self.crew is not None:
                answers = self.crew.run(requests)
                busy = self.crew.busy / self.crew.hands
            else:
                assert self.engine is not None
                answers = [answered(self.engine, self.models, self.updates, request) for request in requests]
        self._note(requests, time.perf_counter() - began, busy)
        return answers

    def _note(self, requests: Sequence[Request], seconds: float, busy: float) -> None:
        """Record how long requests took, and how long workers were busy with them, on average."""
        if requests and requests[0][0] in ("train", "reduce"):
            trained = min(busy, seconds)
            self._spent += TimeSpent(train=trained, wait=seconds - trained)
        else:
            self._spent += TimeSpent(evaluate=seconds)


def grouped(tasks: Sequence[TrainingTask], together: bool, layout: Layout) -> list[list[TrainingTask]]:
    """Tasks to train side by side, the most expensive group first; a fixed function of tasks and model.

    Clients with similar numbers of steps go together, in groups of about equal cost. Measured for the MLP 784-200-10,
    a step of a group costs 0.8 clients, plus one for each client in it.

    >>> from torch import nn
    >>> tasks = [TrainingTask(i, 0, 20, 1 + i % 2, 1, model_slot=0, update_slot=i) for i in range(12)]
    >>> [[task.client for task in group] for group in grouped(tasks, True, Layout.of(nn.Linear(2, 2)))]
    [[5, 7, 9], [1, 3], [11, 0, 2], [4, 6, 8, 10]]
    """
    if not together:
        return [[task] for task in sorted(tasks, key=lambda task: -task.steps)]
    most = max(1, min(MOST_TOGETHER, STACK_BYTES // (4 * layout.size)))
    groups: list[list[TrainingTask]] = []
    for _, of_round in itertools.groupby(sorted(tasks, key=lambda task: (task.round, -task.steps)), ROUND):
        ranked = list(of_round)
        share = sum(task.steps for task in ranked) / max(GROUPS, math.ceil(len(ranked) / most))
        spent, begun = 0, 0
        for task in ranked:
            if not begun or spent + task.steps / 2 > share * begun or len(groups[-1]) == most:
                groups.append([])
                begun += 1
            groups[-1].append(task)
            spent += task.steps
    return sorted(groups, key=lambda group: -(0.8 * group[0].steps + sum(task.steps for task in group)))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run PyTorch with one thread, then as before. Two threads are slower than one on models of this size.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    if before != 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if before != 1:
            torch.set_num_threads(before)


def _in_slot(task: TrainingTask, slot: int) -> TrainingTask:
    return TrainingTask(*task[:-1], slot)
