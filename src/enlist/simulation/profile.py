"""The mini-batch profile: time, memory and accuracy of each batch size, and which one to use.

Clients train one at a time from the same model with the engine that runs use. Times are wall-clock times of this
machine, in one thread; memory is counted tensor by tensor and is the same everywhere.
"""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.errors import EnlistError, InputError
from enlist.simulation.config import Config
from enlist.simulation.population import Population, build
from enlist.simulation.setup import placed
from enlist.streams import Streams
from enlist.training.engine import ModuleTrainer, TrainingSetup
from enlist.training.flat import Vectors
from enlist.training.local import TrainingTask
from enlist.training.models import initialise
from enlist.training.peak_memory import PeakMemory
from enlist.training.workers import one_thread

MOST = 24
"""At most this many clients are trained; from a larger population, a random sample."""
ROUNDS = 5
WEIGHTS = (1.0, 1.0, 1.0)
"""Weights of time, memory and accuracy in the choice of a batch size."""

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One client trained with one batch size.

    samples    that the client holds
    steps      mini-batches of one pass over them
    passes     wall seconds of every pass
    memory     bytes of tensors that a training step holds at its peak, on top of the model
    accuracy   of the client's own model on its own samples after the last pass; NaN for a regression
    loss       likewise
    latency    virtual seconds of a round on the client's device, if the configuration had this batch size

    >>> Measurement(8, 0, samples=9, steps=2, passes=(0.3, 0.9, 0.4), memory=0, accuracy=1, loss=0, latency=9).seconds
    0.4
    """

    batch: int
    client: int
    samples: int
    steps: int
    passes: tuple[float, ...]
    memory: int
    accuracy: float
    loss: float
    latency: float

    @property
    def seconds(self) -> float:
        """Wall seconds of one pass: the median, so that a pass delayed by something else does not count."""
        return statistics.median(self.passes)


@dataclasses.dataclass(frozen=True)
class BatchRow:
    """One batch size over all clients that were trained with it.

    per_sample    wall seconds per sample: sum over clients of a pass / sum of their samples
    per_batch     wall seconds per mini-batch, likewise
    memory        bytes, mean over clients
    accuracy      mean over clients, as is the loss
    latency       virtual seconds, median over clients

    Names that end in _std are standard deviations: of times over all passes of all clients, weighted by samples or
    mini-batches as in the mean (otherwise clients with a sample or two would dominate); of anything else over
    clients.

    >>> one = Measurement(8, 0, samples=20, steps=2, passes=(0.4,), memory=10, accuracy=1.0, loss=0.1, latency=9.0)
    >>> row = BatchRow.of([one, dataclasses.replace(one, accuracy=0.5)])
    >>> row.per_sample, row.per_batch, row.accuracy, row.accuracy_std
    (0.02, 0.2, 0.75, 0.25)
    """

    batch: int
    per_sample: float
    per_sample_std: float
    per_batch: float
    per_batch_std: float
    memory: float
    memory_std: float
    accuracy: float
    accuracy_std: float
    loss: float
    loss_std: float
    latency: float

    @classmethod
    def of(cls, measured: Sequence[Measurement]) -> BatchRow:
        """The row of all measurements of one batch size."""
        seconds = sum(one.seconds for one in measured)
        memory, accuracy, loss, latency = (
            np.array([getattr(one, name) for one in measured], dtype=float)
            for name in ("memory", "accuracy", "loss", "latency")
        )
        return cls(
            batch=measured[0].batch,
            per_sample=seconds / sum(one.samples for one in measured),
            per_sample_std=_spread(measured, "samples"),
            per_batch=seconds / sum(one.steps for one in measured),
            per_batch_std=_spread(measured, "steps"),
            memory=float(memory.mean()),
            memory_std=float(memory.std()),
            accuracy=float(accuracy.mean()),
            accuracy_std=float(accuracy.std()),
            loss=float(loss.mean()),
            loss_std=float(loss.std()),
            latency=float(np.median(latency)),
        )


@dataclasses.dataclass(frozen=True)
class Profile:
    """The measurements, and the batch size to use.

    population     number of clients, of which `clients` were trained
    machine        where the times were measured

    >>> profile(Config(data={"clients": 3}, model="logistic"), [8, 32], rounds=1).rows[1].batch
    32
    """

    measurements: tuple[Measurement, ...]
    rounds: int
    weights: tuple[float, float, float]
    population: int
    machine: str

    @property
    def clients(self) -> list[int]:
        """The clients that were trained, by position."""
        return sorted({one.client for one in self.measurements})

    @property
    def rows(self) -> list[BatchRow]:
        """One row per batch size, the smallest first."""
        sizes = sorted({one.batch for one in self.measurements})
        return [BatchRow.of([one for one in self.measurements if one.batch == size]) for size in sizes]

    @property
    def best(self) -> int:
        """The batch size that `choose` returns."""
        return choose(self.rows, self.weights)


def scores(rows: Sequence[BatchRow], weights: Sequence[float] = WEIGHTS) -> FloatArray:
    """(batch sizes, 3): what time per sample, memory and lack of accuracy add to each score; lower is better.

    Each of the three is scaled to [0, 1] over the batch sizes, 0 for the best and 1 for the worst of them (all 0 if
    they are equal), and multiplied by its weight / sum of the weights. A regression uses the loss instead of accuracy.

    >>> one = Measurement(8, 0, samples=20, steps=2, passes=(0.4,), memory=10, accuracy=0.9, loss=0.1, latency=9.0)
    >>> other = dataclasses.replace(one, batch=16, passes=(0.2,), memory=20)
    >>> scores([BatchRow.of([one]), BatchRow.of([other])], weights=(1, 2, 1))
    array([[0.25, 0.  , 0.  ],
           [0.  , 0.5 , 0.  ]])
    """
    if not rows:
        raise InputError("there is no batch size to choose from; give at least one.")
    shares = np.array(_weights(weights))
    columns = np.array(
        [(row.per_sample, row.memory, row.loss if _is_regression(row) else -row.accuracy) for row in rows]
    )
    low, high = columns.min(axis=0), columns.max(axis=0)
    return np.asarray((columns - low) / np.where(high > low, high - low, 1.0) * shares / shares.sum())


def choose(rows: Sequence[BatchRow], weights: Sequence[float] = WEIGHTS) -> int:
    """The batch size with the lowest score, the sum of its `scores`; the smallest in a tie.

    >>> one = Measurement(8, 0, samples=20, steps=2, passes=(0.4,), memory=10, accuracy=0.9, loss=0.1, latency=9.0)
    >>> rows = [BatchRow.of([one]), BatchRow.of([dataclasses.replace(one, batch=16, passes=(0.2,), memory=20)])]
    >>> choose(rows), choose(rows, weights=(2, 1, 1))
    (8, 16)
    """
    totals = scores(rows, weights).sum(axis=1)
    # Sums in another order differ in the last bit; that must not change the choice.
    return min(row.batch for row, total in zip(rows, totals, strict=True) if total <= totals.min() + 1e-12)


def profile(
    config: Config,
    batch_sizes: Sequence[int],
    *,
    rounds: int = ROUNDS,
    weights: Sequence[float] = WEIGHTS,
    most: int = MOST,
    population: Population | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Train clients with every batch size, each from the same model, `rounds` passes over the client's samples.

    A pass is a round of local training as the configuration has it (learning rate, momentum, ...), but always one
    epoch, so that batch sizes do the same work. `progress` is called with batch size and client after each training.

    >>> result = profile(Config(data={"clients": 4}, model="logistic"), [4, 64], rounds=2)
    >>> [row.memory for row in result.rows][0] < [row.memory for row in result.rows][1]
    True
    """
    sizes = sorted({checks.whole("batch size", size, minimum=1) for size in batch_sizes})
    if not sizes:
        raise InputError("no batch sizes were given; name some, for example 8,16,32,64.")
    checks.whole("rounds", rounds, minimum=1)
    weighed = _weights(weights)
    people = build(config) if population is None else population
    clients = sampled(len(people), checks.whole("most", most, minimum=1), Streams(config.seed))
    engines = _engines(config, people, sizes)
    base = engines[sizes[0]].flat.vectors.clone()
    model_bytes = 4 * engines[sizes[0]].flat.layout.numbers
    latency = {
        size: people.devices.expected(engine.job.settings.work(people.sizes).astype(float), model_bytes).total
        for size, engine in engines.items()
    }
    memory = _Memory(base)
    measured = []
    with one_thread():
        # Batch sizes alternate for every client: if the machine is busy for a while, it affects all of them.
        for client in clients.tolist():
            start, stop = (int(people.offsets[client + after]) for after in (0, 1))
            for size, engine in engines.items():
                task = TrainingTask(
                    client, start, stop, math.ceil((stop - start) / size), round=1, model_slot=0, update_slot=0
                )
                peak = memory.of_step(engine, task)
                passes, loss, right = _trained(engine, task, base, rounds)
                accuracy = right / task.size if people.classes else math.nan
                measured.append(
                    Measurement(
                        size, client, task.size, task.steps, passes, peak, accuracy, loss / task.size,
                        float(latency[size][client]),
                    )
                )  # fmt: skip
                if progress is not None:
                    progress(size, client)
    return Profile(tuple(measured), rounds, weighed, len(people), machine())


def sampled(count: int, most: int, streams: Streams) -> IntArray:
    """All positions, or `most` of them drawn at random, in order.

    >>> sampled(3, 5, Streams(1)), len(sampled(100, 5, Streams(1)))
    (array([0, 1, 2]), 5)
    """
    if count <= most:
        return np.arange(count)
    return np.sort(streams.generator("profile").choice(count, most, replace=False))


class _Memory:
    """Peak of one training step; as only the number of samples in the step matters, each number is measured once."""

    def __init__(self, base: Vectors) -> None:
        self.base = base
        self.known: dict[int, int] = {}

    def of_step(self, engine: ModuleTrainer, task: TrainingTask) -> int:
        length = min(engine.job.settings.batch, task.size)
        if length not in self.known:
            models, updates = (Vectors.zeros(engine.flat.layout, 1) for _ in range(2))
            models[0].copy_(self.base)
            with PeakMemory() as memory:
                _checked(engine, task._replace(steps=1), models, updates)
            self.known[length] = memory.peak
        return self.known[length]


def _engines(config: Config, people: Population, sizes: Sequence[int]) -> dict[int, ModuleTrainer]:
    """An engine per batch size; all of them share the samples and begin with the same model."""
    engines, data = {}, None
    for size in sizes:
        module = initialise(config.model, people.shape, people.classes, Streams(config.seed))
        data = data or {"train": placed(people, module, shared=False)["train"]}
        settings = config.training.model_copy(update={"batch": size})
        own = settings.own(module, people.shape, people.classes)
        engines[size] = ModuleTrainer(TrainingSetup(module, people.classes, settings, data, config.seed, **own))
    return engines


def _trained(
    engine: ModuleTrainer, task: TrainingTask, base: Vectors, rounds: int
) -> tuple[tuple[float, ...], float, int]:
    """Seconds of every pass; then the sum of losses and the number of correct predictions on the client's samples."""
    models, updates = (Vectors.zeros(engine.flat.layout, 1) for _ in range(2))
    models[0].copy_(base)
    passes = []
    for number in range(1, rounds + 1):
        begin = time.perf_counter()
        _checked(engine, task._replace(round=number), models, updates)
        passes.append(time.perf_counter() - begin)
        models.parameters.add_(updates.parameters)
        models.buffers.copy_(updates.buffers)
        models.counters.copy_(updates.counters)
    return (tuple(passes), *engine.evaluate(models[0], "train", task.start, task.stop))


def _checked(engine: ModuleTrainer, task: TrainingTask, models: Vectors, updates: Vectors) -> None:
    report = engine.train([task], models, updates)[0]
    if report.error:
        size = engine.job.settings.batch
        raise EnlistError(f"client {task.client} cannot train with batch size {size}: {report.error}")


def _spread(measured: Sequence[Measurement], per: str) -> float:
    """Standard deviation of the seconds per sample or per mini-batch."""
    units = np.array([getattr(one, per) for one in measured for _ in one.passes], dtype=float)
    rates = np.array([taken for one in measured for taken in one.passes]) / units
    mean = np.average(rates, weights=units)
    return math.sqrt(np.average((rates - mean) ** 2, weights=units))


def _weights(weights: Sequence[float]) -> tuple[float, float, float]:
    if len(weights) != 3:
        raise InputError(f"weights has {len(weights)} numbers; give three, for time, memory and accuracy: 1,1,1.")
    time_, memory, accuracy = (checks.finite("weights", weight, 0.0) for weight in weights)
    if not time_ + memory + accuracy > 0:
        raise InputError("weights are all 0; give at least one of time, memory and accuracy a weight above 0.")
    return time_, memory, accuracy


def _is_regression(row: BatchRow) -> bool:
    return math.isnan(row.accuracy)


def machine() -> str:
    """The machine that times are measured on.

    >>> machine().endswith("one thread")
    True
    """
    cores = os.cpu_count() or 1
    return f"{platform.machine()} with {cores} core{'s' * (cores > 1)}, PyTorch {torch.__version__}, one thread"
