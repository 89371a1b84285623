"""The training engine of one process: it trains clients one after another, or small dense models many at once.

Which of the two is a fixed function of the model, so that results never depend on the machine or on which process
trains.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pickle
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from enlist._internal.sending import packed
from enlist._internal.typing import AnyArray
from enlist.data.dataset import Samples
from enlist.errors import EnlistError
from enlist.streams import Streams
from enlist.training.aggregators import acceptable, too_long
from enlist.training.dense import DenseChain, sum_together, train_together
from enlist.training.flat import FlatModule, Layout, Vectors
from enlist.training.local import LocalTraining, Report, TrainingTask, batches
from enlist.training.memory import shared_copy
from enlist.training.own import OwnStep
from enlist.training.precision import Precision, check_precision, lowered

EVALUATION_BATCH = 500
"""Samples per forward pass of an evaluation; fixed, because sums in another order differ in the last bit."""


@dataclasses.dataclass(eq=False)
class SharedSamples:
    """Samples as tensors that worker processes share; images of a channels-last model are stored that way.

    >>> images = Samples(np.zeros((4, 3, 8, 8), np.float32), np.zeros(4, np.int64))
    >>> placed = SharedSamples.of(images, channels_last=True)
    >>> placed.x.shape, placed.inputs(torch.tensor([0, 2])).shape
    (torch.Size([4, 8, 8, 3]), torch.Size([2, 3, 8, 8]))
    """

    x: Tensor
    y: Tensor
    channels_last: bool

    @classmethod
    def of(cls, samples: Samples, channels_last: bool = False, shared: bool = False) -> SharedSamples:
        """The samples' arrays as tensors, in shared memory if asked for."""
        x, y = torch.from_numpy(np.ascontiguousarray(samples.x)), torch.from_numpy(np.ascontiguousarray(samples.y))
        channels_last = channels_last and x.dim() == 4
        if channels_last:
            x = x.permute(0, 2, 3, 1).contiguous()
        if shared:
            x, y = shared_copy(x), shared_copy(y)
        return cls(x, y, channels_last)

    def sent(self) -> tuple[AnyArray, AnyArray, bool]:
        """As arrays, which processes of another machine share there: see `received`."""
        return self.x.numpy(), self.y.numpy(), self.channels_last

    @classmethod
    def received(cls, x: AnyArray, y: AnyArray, channels_last: bool, shared: bool = False) -> SharedSamples:
        """Samples that were sent as arrays, which may be read-only, and are not copied unless workers share them.

        >>> placed = SharedSamples.of(Samples(np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])))
        >>> len(SharedSamples.received(*placed.sent()))
        4
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the arrays are read-only
            inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
        if shared:
            inputs, targets = shared_copy(inputs), shared_copy(targets)
        return cls(inputs, targets, channels_last)

    def inputs(self, index: Tensor | slice) -> Tensor:
        """Model inputs at these positions."""
        x = self.x[index] if isinstance(index, slice) else self.x.index_select(0, index)
        return x.permute(0, 3, 1, 2) if self.channels_last else x

    def __len__(self) -> int:
        return len(self.y)


@dataclasses.dataclass(eq=False)
class TrainingSetup:
    """All that a process needs to train: the module, the samples, how to train, and the seed of the streams.

    loss         of each sample of a batch, from outputs and targets; if not given, see `sample_losses`
    optimiser    makes an optimiser of parameters and lr; if not given, SGD
    precision    of the products in training

    >>> data = SharedSamples.of(Samples(np.zeros((6, 2), np.float32), np.zeros(6, np.int64)))
    >>> TrainingSetup(nn.Linear(2, 3), 3, LocalTraining(), {"train": data}, seed=1).classes
    3
    """

    module: nn.Module
    classes: int
    settings: LocalTraining
    data: dict[str, SharedSamples]
    seed: int
    measure: bool = False
    device: str = "cpu"
    loss: Callable[[Tensor, Tensor], Tensor] | None = None
    optimiser: Callable[..., Any] | None = None
    precision: Precision = "float32"

    def chain(self) -> DenseChain | None:
        """The module as a chain of dense layers, if it can be trained for many clients at once; gradients written out
        by hand support neither a loss nor an optimiser of the user's."""
        return DenseChain.of(self.module) if self.loss is None and self.optimiser is None else None

    def __reduce__(self) -> tuple[Any, ...]:
        """A model defined in a script or notebook travels to workers by value; samples stay in shared memory."""
        module = packed(self.module, {type(part) for part in self.module.modules()})
        return _received, (module, *(getattr(self, field.name) for field in dataclasses.fields(self)[1:]))


def _received(module: bytes, *others: Any) -> TrainingSetup:
    return TrainingSetup(pickle.loads(module), *others)  # from a process of ours, through a pipe of ours


class ModuleTrainer:
    """Trains and evaluates; keeps one module, whatever the number of clients.

    >>> data = SharedSamples.of(Samples(np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])))
    >>> job = TrainingSetup(nn.Linear(2, 2), 2, LocalTraining(batch=2, lr=0.1), {"train": data}, seed=1)
    >>> engine = ModuleTrainer(job)
    >>> models, updates = Vectors.zeros(engine.flat.layout, 1), Vectors.zeros(engine.flat.layout, 1)
    >>> task = TrainingTask(0, 0, 4, steps=2, round=1, model_slot=0, update_slot=0)
    >>> report = engine.train([task], models, updates)[0]
    >>> round(report.loss, 2), report.num_examples
    (0.69, 4.0)
    """

    def __init__(self, job: TrainingSetup) -> None:
        self.job = job
        self.device = torch.device(job.device)
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise EnlistError(
                f"device is {job.device}, but PyTorch finds no CUDA device on {socket.gethostname()}; use the cpu."
            )
        self.data = {name: _moved(data, self.device) for name, data in job.data.items()}
        self.streams = Streams(job.seed)
        self.flat = FlatModule(job.module, None if self.device.type == "cpu" else self.device)
        self.parameters = [parameter for parameter in job.module.parameters() if parameter.requires_grad]
        self.chain = job.chain() if self.device.type == "cpu" else None
        self.own = job.loss is not None or job.optimiser is not None
        if isinstance(getattr(job.loss, "call", None), nn.Module):
            job.loss.call.to(self.device)  # type: ignore[union-attr]
        self.random = any("dropout" in type(part).__name__.lower() for part in job.module.modules())
        self.random |= getattr(job.module, "uses_randomness", False)
        self.lowered = job.precision != "float32"
        check_precision(job.precision, job.device, self.chain is not None)
        self.normalised = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in job.module.modules())

    def train(self, tasks: Sequence[TrainingTask], models: Vectors, updates: Vectors) -> list[Report]:
        """Train the clients of `tasks`; each update goes into its slot. A client that raises fails alone."""
        if self.chain is not None:
            return train_together(self, self.chain, tasks, models, updates)
        return [self._train_or_fail(task, models, updates) for task in tasks]

    def reduce(
        self, tasks: Sequence[TrainingTask], weights: Sequence[float], models: Vectors, total: Vectors
    ) -> list[Report]:
        """Train the clients of `tasks`; the sum of their updates times `weights` goes into `total`.

        Buffers are summed likewise; of counters, the largest is taken. An update that is not finite is left out, and
        its report says so.
        """
        if self.chain is not None:
            found = sum_together(self, self.chain, tasks, weights, models, total)
            if found is not None:
                return found
        updates = Vectors.zeros(self.flat.layout, len(tasks))
        placed = [task._replace(update_slot=slot) for slot, task in enumerate(tasks)]
        reports = self.train(placed, models, updates)
        total.clear()
        for slot, (report, weight) in enumerate(zip(reports, weights, strict=True)):
            reason = report.error or refused(updates[slot], self.flat.layout)
            if reason:
                reports[slot] = report._replace(error=reason)
            else:
                total.add(updates[slot], weight)
        return reports

    def evaluate(self, model: Vectors, part: str, start: int, stop: int) -> tuple[float, int]:
        """Sum of losses and number of correct predictions over samples start..stop of a part of the data."""
        self.flat.vectors.copy_(model)
        return self._measured(self.data[part], start, stop)

    def outputs(self, model: Vectors, part: str, start: int, stop: int) -> Tensor:
        """The outputs of a model for samples start..stop of a part of the data, (n, outputs)."""
        self.flat.vectors.copy_(model)
        self.job.module.eval()
        ends = [(first, min(first + EVALUATION_BATCH, stop)) for first in range(start, stop, EVALUATION_BATCH)]
        with torch.inference_mode():
            return torch.cat([self.job.module(self.data[part].inputs(slice(*span))) for span in ends]).cpu()

    def _train_or_fail(self, task: TrainingTask, models: Vectors, updates: Vectors) -> Report:
        try:
            return self._train(task, models[task.model_slot], updates[task.update_slot])
        except Exception as error:  # whatever a user's model raises, it is this client's failure
            return Report(error=f"{type(error).__name__}: {error}")

    def _train(self, task: TrainingTask, base: Vectors, update: Vectors) -> Report:
        data, weights = self.data["train"], self.flat.vectors.parameters
        self.flat.vectors.copy_(base)
        before = self._accuracy(task)
        losses = []
        self.job.module.train()
        with self._own_randomness(self.random or self.own, "masks", task.round, task.client):
            step = self._step(self.job.settings.rate(task.round))
            for inputs, targets in self._batches(task, data):
                with lowered(self.job.precision, self.job.device):
                    outputs = self.job.module(inputs)
                loss = self._losses(outputs.float() if self.lowered else outputs, targets)
                gradients = torch.autograd.grad(loss.mean(), self.parameters, allow_unused=True)
                step(gradients)
                losses.append(loss.detach())
        torch.sub(weights.cpu(), base.parameters, out=update.parameters)
        update.buffers.copy_(self.flat.vectors.buffers)
        update.counters.copy_(self.flat.vectors.counters)
        observed = torch.cat(losses[: self._first_epoch(task)] or [torch.full((1,), math.nan)]).double()
        after = self._accuracy(task)
        return Report(
            loss=float(observed.mean()),
            loss_rms=float(observed.square().mean().sqrt()),
            loss_after=after[0],
            accuracy=before[1],
            accuracy_gain=after[1] - before[1],
            num_examples=task.num_examples(self.job.settings.batch),
        )

    def _step(self, rate: float) -> SGDStep | OwnStep:
        if self.job.optimiser is not None:
            return OwnStep(self.job.optimiser, rate, self.job.settings.prox, self.parameters)
        return SGDStep(self.job.settings, rate, self.flat, self.parameters)

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.job.loss is None:
            return sample_losses(outputs, targets, self.job.classes)
        return self.job.loss(outputs if self.job.classes else outputs.reshape(targets.shape), targets)

    def _batches(self, task: TrainingTask, data: SharedSamples) -> Iterator[tuple[Tensor, Tensor]]:
        plan = batches(task, self.job.settings, self.streams)
        per_epoch = math.ceil(task.size / plan.shape[1])
        for first in range(0, len(plan), per_epoch):
            order = plan[first : first + per_epoch].ravel()
            index = torch.from_numpy(order[order >= 0]).to(self.device)
            inputs, targets = data.inputs(index), data.y.index_select(0, index)
            for start in range(0, len(index), plan.shape[1]):
                batch = slice(start, start + plan.shape[1])
                if self.normalised and len(targets[batch]) == 1:
                    continue  # a batch norm cannot learn from a single sample
                yield inputs[batch], targets[batch]

    def _first_epoch(self, task: TrainingTask) -> int:
        """Steps of the first epoch that are actually taken."""
        whole, rest = divmod(task.size, self.job.settings.batch)
        return whole + (rest > int(self.normalised))

    @contextlib.contextmanager
    def _own_randomness(self, needed: bool, purpose: str, *position: int) -> Iterator[None]:
        """Dropout layers and the user's code draw from a stream of the run, such as that of (round, client), and the
        global generator is left as it was."""
        if not needed:
            yield
            return
        with torch.random.fork_rng(devices=[] if self.device.type == "cpu" else [self.device]):
            torch.manual_seed(self.streams.number(purpose, *position))
            yield

    def _accuracy(self, task: TrainingTask) -> tuple[float, float]:
        if not self.job.measure:
            return math.nan, math.nan
        loss, right = self._measured(self.data["train"], task.start, task.stop)
        return loss / task.size, right / task.size if self.job.classes else math.nan

    def _measured(self, data: SharedSamples, start: int, stop: int) -> tuple[float, int]:
        self.job.module.eval()
        total, right = 0.0, 0
        with torch.inference_mode(), self._own_randomness(self.job.loss is not None, "judged", start):
            for first in range(start, stop, EVALUATION_BATCH):
                batch = slice(first, min(first + EVALUATION_BATCH, stop))
                outputs, targets = self.job.module(data.inputs(batch)), data.y[batch]
                total += float(self._losses(outputs, targets).sum())
                if self.job.classes:
                    right += int((outputs.argmax(dim=1) == targets).sum())
        return total, right


class SGDStep:
    """One step of SGD on the flat parameters.

    >>> flat = FlatModule(nn.Linear(1, 1, bias=False))
    >>> _ = flat.vectors.parameters.fill_(1.0)
    >>> SGDStep(LocalTraining(), 0.5, flat, list(flat.module.parameters()))([torch.tensor([[2.0]])])
    >>> flat.module.weight.item()
    0.0
    """

    def __init__(self, settings: LocalTraining, rate: float, flat: FlatModule, parameters: Sequence[Tensor]) -> None:
        self.settings, self.rate, self.parameters = settings, rate, parameters
        self.weights = flat.vectors.parameters
        self.base = self.weights.clone() if settings.prox else self.weights
        self.velocity = torch.zeros_like(self.weights) if settings.momentum else None
        if self.velocity is not None:
            trained = {id(parameter) for parameter in parameters}
            places = zip(flat.layout.parameters, flat.module.parameters(), strict=True)
            self.velocities = [place.view(self.velocity) for place, tensor in places if id(tensor) in trained]
        frozen = [parameter for parameter in flat.module.parameters() if not parameter.requires_grad]
        self.frozen = [(parameter, parameter.clone()) for parameter in frozen]

    def __call__(self, gradients: Sequence[Tensor | None]) -> None:
        """Move the weights; a parameter that was not used has no gradient."""
        decay, prox, rate = self.settings.weight_decay, self.settings.prox, self.rate
        used = [index for index, gradient in enumerate(gradients) if gradient is not None]
        known = [gradient for gradient in gradients if gradient is not None]
        with torch.no_grad():
            if self.velocity is None:
                if decay or prox:
                    self.weights.mul_(1.0 - rate * (decay + prox)).add_(self.base, alpha=rate * prox)
                    self._thaw_nothing()
                torch._foreach_add_([self.parameters[index] for index in used], known, alpha=-rate)
                return
            self.velocity.mul_(self.settings.momentum)
            torch._foreach_add_([self.velocities[index] for index in used], known)
            if decay or prox:
                self.velocity.add_(self.weights, alpha=decay + prox).add_(self.base, alpha=-prox)
            self.weights.add_(self.velocity, alpha=-rate)
            self._thaw_nothing()

    def _thaw_nothing(self) -> None:
        """Weight decay changes all weights at once; this restores frozen ones."""
        for parameter, value in self.frozen:
            parameter.copy_(value)


def sample_losses(outputs: Tensor, targets: Tensor, classes: int) -> Tensor:
    """The loss of each sample: cross-entropy, or the squared error if there are no classes.

    >>> sample_losses(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]), classes=0)
    tensor([0., 4.])
    """
    if classes:
        return functional.cross_entropy(outputs, targets, reduction="none")
    return (outputs.reshape(targets.shape) - targets).square()


def _moved(data: SharedSamples, device: torch.device) -> SharedSamples:
    return data if device.type == "cpu" else SharedSamples(data.x.to(device), data.y.to(device), data.channels_last)


def refused(update: Vectors, layout: Layout) -> str:
    """Why an update cannot be used (wrong shape, NaN, infinity, or so long that sums overflow), or nothing.

    >>> layout = Layout.of(nn.Linear(3, 2))
    >>> refused(Vectors(torch.full((32,), 3e38), torch.zeros(0), torch.zeros(0)), layout)
    'an update is 1.7e+39 long; a mean takes up to 1e+18, so that no sum overflows'
    """
    parts = ((update.parameters, layout.size), (update.buffers, layout.buffer_size))
    for tensor, size in parts:
        if reason := acceptable(tensor, size) or too_long(tensor):
            return reason
    return ""
