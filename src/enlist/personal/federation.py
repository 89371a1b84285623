"""A federation of few workers: they train from the model they are sent, and any combination can be aggregated."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from enlist.personal.chain import Chain
from enlist.personal.metrics import Metric, MetricName
from enlist.personal.poison import PoisonOptions
from enlist.personal.stacked import train_stacked
from enlist.personal.workers import Workers
from enlist.streams import Streams
from enlist.training.aggregation import BufferMerge, Mean
from enlist.training.engine import ModuleTrainer, SharedSamples, TrainingSetup, refused
from enlist.training.flat import Vectors
from enlist.training.local import LocalTraining, Report, TrainingTask, check_work
from enlist.training.models import ModelOptions, initialise

LATE = "it did not reply"


@dataclasses.dataclass(eq=False)
class WorkerUpdate:
    """What a worker sends back: its update of the model it was sent, or why there is none.

    >>> WorkerUpdate(None, 0, "it did not reply").error
    'it did not reply'
    """

    update: Vectors | None
    epochs: int
    error: str = ""


class Federation:
    """Workers, one module, and the metric of the target.

    Training streams belong to (seed, round, worker): what a worker does with a given model in a round does not depend
    on what else is trained. Networks of linear layers with batch norm are trained together (stacked.py), others by the
    engine of the simulator.

    >>> from enlist.data import Telecom
    >>> from enlist.training.models import Thesis
    >>> workers = Workers.of(Telecom(rows=4000).load(Streams(1)), Streams(1))
    >>> federation = Federation(workers, Thesis(), LocalTraining(lr=0.1), seed=1)
    >>> trained = federation.sent(federation.train([1, 2], federation.initial, epochs=2, round=1))
    >>> model = federation.aggregate(federation.initial, [trained[1], trained[2]], [0.5, 0.5])
    >>> 0 < federation.score(model, 1, "test") < 1
    True
    """

    def __init__(
        self,
        workers: Workers,
        model: ModelOptions,
        training: LocalTraining,
        seed: int,
        *,
        poison: Sequence[PoisonOptions] = (),
        metric: MetricName = "auto",
    ) -> None:
        self.workers, self.training, self.streams = workers, training, Streams(seed)
        self.metric = Metric.of(metric, workers.classes)
        module = initialise(model, workers.shape, workers.classes, self.streams)
        self.data = {part: _placed(data, module) for part, data in workers.data.items()}
        self.engine = ModuleTrainer(TrainingSetup(module, workers.classes, training, self.data, seed))
        self.layout, self.chain = self.engine.flat.layout, Chain.of(module)
        self.initial = self.engine.flat.vectors.clone()
        self.poison: dict[int, list[PoisonOptions]] = {}
        for kind in poison:
            for name in kind.workers:
                self.poison.setdefault(workers.position(name), []).append(kind)

    def train(
        self,
        members: Sequence[int],
        model: Vectors,
        epochs: int,
        round: int,
        *,
        starts: Mapping[int, Vectors] | None = None,
        failing: Sequence[int] = (),
        tolerance: float | None = None,
    ) -> dict[int, WorkerUpdate]:
        """Each member trains the model for some epochs; updates are relative to `model`, and not distorted yet.

        round        0 is pre-training, before the first round
        starts       models that members start from instead; for all of them or none
        failing      members that do not reply
        tolerance    a member stops early when its loss falls by less than this share in an epoch
        """
        answering = [worker for worker in members if worker not in set(failing)]
        found = {worker: WorkerUpdate(None, 0, LATE) for worker in members}
        if not answering:
            return found
        begin = [model if starts is None else starts[worker] for worker in answering]
        if tolerance is None:
            local, reports, done = self._pass(answering, begin, epochs, round)
        else:
            local, reports, done = self._until_stable(answering, begin, epochs, round, tolerance)
        for row, worker in enumerate(answering):
            update = local[row]
            update.parameters.sub_(model.parameters)
            error = reports[row].error or refused(update, self.layout)
            found[worker] = WorkerUpdate(None if error else update, done[row], error)
        return found

    def sent(self, trained: Mapping[int, WorkerUpdate]) -> dict[int, WorkerUpdate]:
        """The updates as they arrive at the server: poisonous workers distort theirs."""
        found = dict(trained)
        for worker, answer in trained.items():
            if answer.update is not None and worker in self.poison:
                update = answer.update.clone()
                for kind in self.poison[worker]:
                    kind.distort(update)
                error = refused(update, self.layout)
                found[worker] = WorkerUpdate(None if error else update, answer.epochs, error)
        return found

    def aggregate(self, model: Vectors, trained: Sequence[WorkerUpdate], weights: Sequence[float]) -> Vectors:
        """The model plus the weighted mean of the updates; the same for batch-norm statistics."""
        mean = Mean().start(self.layout.size)
        merge = BufferMerge(self.layout.buffer_size, self.layout.counter_size)
        for answer, weight in zip(trained, weights, strict=True):
            if answer.update is not None:
                mean.add(answer.update.parameters, weight)
                merge.add(answer.update.buffers, answer.update.counters, weight)
        found = model.clone()
        total = mean.result()
        if total is not None:
            found.parameters.add_(total)
            merge.into(found.buffers, found.counters)
        return found

    def score(self, model: Vectors, worker: int, part: str) -> float:
        """The metric of a model on a part of a worker's samples."""
        start, stop = self.workers.span(part, worker)
        return self.metric(self.outputs(model, worker, part), self.data[part].y[start:stop])

    def scores(self, model: Vectors, members: Sequence[int], part: str) -> list[float]:
        """The metric of a model on the samples of each of these workers."""
        return [self.score(model, worker, part) for worker in members]

    def outputs(self, model: Vectors, worker: int, part: str) -> Tensor:
        """The outputs of a model for a part of a worker's samples, (n, outputs)."""
        start, stop = self.workers.span(part, worker)
        if self.chain is None:
            return self.engine.outputs(model, part, start, stop)
        with torch.inference_mode():
            return self.chain.outputs(model, self.data[part].x[start:stop])

    def _pass(
        self, members: Sequence[int], begin: Sequence[Vectors], epochs: int, round: int, epoch: int = 0
    ) -> tuple[Vectors, list[Report], list[int]]:
        """Train each member from its own start; returns the final models, (members, ...)."""
        models, places = _stack(begin)
        tasks = []
        for slot, worker in enumerate(members):
            start, stop = self.workers.span("train", worker)
            check_work("epochs", epochs, stop - start)
            steps = epochs * math.ceil((stop - start) / self.training.batch)
            stream = worker + epoch * len(self.workers)  # an epoch trained separately has its own stream
            # Rounds of the engine begin at 1, and pre-training is round 0.
            tasks.append(TrainingTask(stream, start, stop, steps, round + 1, places[slot], slot))
        updates = Vectors.zeros(self.layout, len(members))
        if self.chain is not None and self.chain.normed:
            data, classes = self.data["train"], self.workers.classes
            reports = train_stacked(self.chain, data, classes, self.training, self.streams, tasks, models, updates)
        else:
            reports = self.engine.train(tasks, models, updates)
        updates.parameters.add_(models.parameters[places])
        return updates, reports, [epochs] * len(members)

    def _until_stable(
        self, members: Sequence[int], begin: Sequence[Vectors], most: int, round: int, tolerance: float
    ) -> tuple[Vectors, list[Report], list[int]]:
        """Train epoch by epoch; a member stops when its loss falls by less than a share `tolerance`."""
        models = Vectors.zeros(self.layout, len(members))
        for row, model in enumerate(begin):
            models[row].copy_(model)
        reports, done, before = [Report()] * len(members), [0] * len(members), [math.inf] * len(members)
        going = list(range(len(members)))
        for epoch in range(most):
            if not going:
                break
            local, found, _ = self._pass(
                [members[row] for row in going], [models[row] for row in going], 1, round, epoch
            )
            for place, row in enumerate(going):
                models[row].copy_(local[place])
                reports[row], done[row] = found[place], epoch + 1
            falling = [row for row in going if reports[row].loss < before[row] * (1 - tolerance)]
            for row in going:
                before[row] = reports[row].loss
            going = falling
        return models, reports, done


def _stack(begin: Sequence[Vectors]) -> tuple[Vectors, list[int]]:
    """Distinct models, stacked, and which of them each member starts from."""
    distinct: list[Vectors] = []
    for model in begin:
        if not any(model is other for other in distinct):
            distinct.append(model)
    places = [next(index for index, other in enumerate(distinct) if model is other) for model in begin]
    parts = ("parameters", "buffers", "counters")
    return Vectors(*(torch.stack([getattr(model, part) for model in distinct]) for part in parts)), places


def _placed(data: SharedSamples, module: torch.nn.Module) -> SharedSamples:
    """Images in the memory format that suits the model."""
    likes = getattr(module, "memory_format", torch.contiguous_format) == torch.channels_last
    if not likes or data.x.dim() != 4 or data.channels_last:
        return data
    return SharedSamples(data.x.permute(0, 2, 3, 1).contiguous(), data.y, channels_last=True)


def rows(trained: Sequence[WorkerUpdate]) -> np.ndarray:
    """Updates as rows, (workers, parameters).

    >>> from torch import ones
    >>> rows([WorkerUpdate(Vectors(ones(2), ones(0), ones(0)), 1)])
    array([[1., 1.]], dtype=float32)
    """
    return np.stack([answer.update.parameters.numpy() for answer in trained if answer.update is not None])
