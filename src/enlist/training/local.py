"""Local training: what a client does with the model it is sent, and what it reports."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import pydantic

from enlist._internal.options import Options
from enlist._internal.typing import FloatArray, IntArray
from enlist.errors import InputError
from enlist.streams import Streams

MOST_EPOCHS = 10**6
"""Maximum number of passes over the samples of a client in a round."""
MOST_WORK = 10**9
"""Maximum number of samples that one client processes in a round: a plan of 8 GB."""


class LocalTraining(Options):
    """How clients train: plain SGD on their own samples, reshuffled in every epoch.

    w <- w - lr * (gradient + weight_decay * w + prox * (w - w_global)),  the gradient through momentum if asked for.

    >>> LocalTraining(batch=16, epochs=2).steps_for(40)
    6
    """

    most_number: ClassVar[float] = 1e30
    batch: int = pydantic.Field(20, ge=1, description="Samples per step.")
    epochs: int = pydantic.Field(1, ge=1, le=MOST_EPOCHS, description="Passes over a client's samples per round.")
    steps: int | None = pydantic.Field(None, ge=1, description="Steps per round instead of epochs, for every client.")
    lr: float = pydantic.Field(0.05, gt=0, description="Learning rate of the clients.")
    lr_decay: float = pydantic.Field(1.0, gt=0, le=1, description="Factor on the learning rate from round to round.")
    momentum: float = pydantic.Field(0.0, ge=0, lt=1, description="Momentum, which starts from zero in every round.")
    weight_decay: float = pydantic.Field(0.0, ge=0, description="Weight decay, added to the gradient.")
    prox: float = pydantic.Field(0.0, ge=0, description="FedProx: pull towards the model that was sent (mu).")
    partial: float = pydantic.Field(
        1.0,
        gt=0,
        le=1,
        description="Least share of the work that a client may hand in to meet the deadline; 1 means all or nothing.",
    )
    measure: bool | None = pydantic.Field(
        None,
        description="Measure accuracy and loss on each client's samples before and after training; "
        "if not given, only when the selector needs them, as it costs two more passes.",
    )

    def steps_for(self, samples: int) -> int:
        """Steps that a client with this many samples takes in one round."""
        return self.steps if self.steps is not None else self.epochs * math.ceil(samples / self.batch)

    def work(self, sizes: IntArray) -> IntArray:
        """Samples that clients of these sizes process in one round, (n,)."""
        largest = int(sizes.max(initial=0))
        if self.steps is None:
            check_work("epochs", self.epochs, largest)
            return self.epochs * sizes
        check_work("steps", self.steps, min(self.batch, largest))
        per_epoch = -(-sizes // self.batch)
        whole, rest = np.divmod(self.steps, per_epoch)
        return np.asarray(whole * sizes + np.minimum(rest * min(self.batch, largest), sizes))

    def rate(self, round: int) -> float:
        """The learning rate in this round (the first is 1)."""
        return float(self.lr * self.lr_decay ** (round - 1))


def check_work(name: str, times: int, samples: int) -> None:
    """Refuse rounds in which a client processes more samples than can be planned.

    >>> check_work("epochs", 10**8, 500)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: epochs = 100000000 of 500 samples are 50000000000 in a round, a plan of 400 GB; ...
    """
    if times * samples > MOST_WORK:
        raise InputError(
            f"{name} = {times} of {samples} samples are {times * samples} in a round, a plan of "
            f"{8e-9 * times * samples:.0f} GB; at most {MOST_WORK} are allowed."
        )


class TrainingTask(NamedTuple):
    """One participation: a client trains a model for some steps.

    start, stop   where its samples lie in the shared arrays
    round         the round it was selected in, which with the client names its random stream
    model_slot    slot of the model that it starts from, among the trainer's models
    update_slot   slot for its update, among the trainer's updates

    >>> TrainingTask(client=3, start=0, stop=40, steps=2, round=1, model_slot=0, update_slot=0).size
    40
    """

    client: int
    start: int
    stop: int
    steps: int
    round: int
    model_slot: int
    update_slot: int

    @property
    def size(self) -> int:
        """Samples the client holds."""
        return self.stop - self.start

    def num_examples(self, batch: int) -> float:
        """Samples it trains on."""
        size, most = self.stop - self.start, self.steps * batch
        return float(size if size < most else most)


class Report(NamedTuple):
    """What a client measured; a value that was not measured is NaN.

    loss, loss_rms    mean and root mean square over the samples of the first epoch, before each step
    loss_after        mean over its samples after training
    accuracy          of the model it was sent, on its samples
    accuracy_gain     after training minus before
    num_examples      samples it trained on
    update_norm       length of its update, and `sketch`, a few numbers of it: measured by the server if needed
    contribution      what its update is worth to the server, which measures it if needed
    error             why it failed, or empty

    >>> Report(num_examples=20.0).error
    ''
    """

    loss: float = math.nan
    loss_rms: float = math.nan
    loss_after: float = math.nan
    accuracy: float = math.nan
    accuracy_gain: float = math.nan
    num_examples: float = 0.0
    error: str = ""
    update_norm: float = math.nan
    sketch: FloatArray | None = None
    contribution: float = math.nan


def batches(task: TrainingTask, settings: LocalTraining, streams: Streams) -> IntArray:
    """Positions of the samples of every step, (steps, batch), -1 where the last batch of an epoch is not full.

    >>> task = TrainingTask(0, 10, 15, steps=3, round=1, model_slot=0, update_slot=0)
    >>> batches(task, LocalTraining(batch=3), Streams(1)).shape
    (3, 3)
    """
    size, batch = task.size, min(settings.batch, task.size)
    per_epoch = math.ceil(size / batch)
    epochs = math.ceil(task.steps / per_epoch)
    generator = streams.rewound("batches", task.round, task.client)
    plan = np.full((epochs, per_epoch * batch), -1, dtype=np.int64)
    for epoch in range(epochs):
        plan[epoch, :size] = generator.permutation(size)
        plan[epoch, :size] += task.start
    return plan.reshape(epochs * per_epoch, batch)[: task.steps]
