"""Networks with batch norm, trained for several workers at once: weights are stacked, so one product serves all.

For a single such network, calls cost more than arithmetic. Gradients are coded by hand, as in training/dense.py;
workers with equal numbers of samples are stacked, and a batch norm treats each worker's neurons as separate channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from enlist.personal.chain import Chain, Norm
from enlist.streams import Streams
from enlist.training.engine import SharedSamples, sample_losses
from enlist.training.flat import TensorPlace, Vectors
from enlist.training.local import LocalTraining, Report, TrainingTask, batches

TOGETHER = 16
"""Most workers in a stack: the weights of more do not fit into the cache."""
EVERY = [True, True, True]


class Stacked:
    """The stacked models of some workers, (workers, ...) per tensor, and their training steps.

    The bias of a linear layer before a batch norm is cancelled by its mean: it has no gradient, and if nothing else
    changes it, it is only added to the running mean.

    >>> from torch import nn
    >>> from enlist.training.flat import Layout
    >>> module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))
    >>> models = Vectors.zeros(Layout.of(module), 5)
    >>> Stacked(Chain.of(module), models, LocalTraining(), 0.1).weights[0].shape
    torch.Size([5, 3, 2])
    """

    def __init__(self, chain: Chain, models: Vectors, settings: LocalTraining, rate: float) -> None:
        self.chain, self.settings, self.rate = chain, settings, rate
        self.count, self.last = len(models.parameters), len(chain.layers) - 1
        self.weights = [_copy(layer.weight, models.parameters) for layer in chain.layers]
        self.turned = [weight.transpose(1, 2) for weight in self.weights]
        self.biases = [_copy(layer.bias, models.parameters) for layer in chain.layers]
        self.still = not (settings.weight_decay or settings.prox)
        self.norms = [
            None if layer.norm is None else _StackedNorm(layer.norm, bias if self.still else 0 * bias, models)
            for layer, bias in zip(chain.layers, self.biases, strict=True)
        ]
        self.tensors = [*self.weights, *self.biases]
        for norm in self.norms:
            self.tensors += [] if norm is None else [norm.gain, norm.shift]
        self.plain = self.still and not settings.momentum
        self.base = [tensor.clone() for tensor in self.tensors] if settings.prox else []
        self.velocity = [torch.zeros_like(tensor) for tensor in self.tensors] if settings.momentum else []
        self.steps = 0

    def step(self, inputs: Tensor, aims: Tensor, classes: int) -> Tensor:
        """One step of every worker on inputs (workers, batch, in) and aims (workers, batch, out); its outputs."""
        values = self._forward(inputs)
        outputs = values[-1]
        error = torch.softmax(outputs, dim=2).sub_(aims) if classes else (outputs - aims).mul_(2.0)
        self._backward(values, error, 1.0 / inputs.shape[1])
        self.steps += 1
        return outputs

    def _forward(self, inputs: Tensor) -> list[Tensor]:
        """Inputs of every layer and the outputs, (workers, batch, ...)."""
        values = [inputs]
        for index, norm in enumerate(self.norms):
            if norm is not None and self.still:
                found = torch.bmm(values[-1], self.turned[index])
            else:
                found = torch.baddbmm(self.biases[index].unsqueeze(1), values[-1], self.turned[index])
            if norm is not None:
                found = norm.forward(found)
            values.append(found.relu_() if index < self.last else found)
        return values

    def _backward(self, values: list[Tensor], error: Tensor, factor: float) -> None:
        """Take one step; the derivative of the loss by the outputs is `error` times `factor`."""
        gradients: dict[int, Tensor] = {}
        for index in reversed(range(self.last + 1)):
            if index < self.last:
                error = torch.ops.aten.threshold_backward(error, values[index + 1], 0)
            norm = self.norms[index]
            if norm is not None:
                error, by_gain, by_shift = norm.backward(error)
                gradients[id(norm.gain)], gradients[id(norm.shift)] = by_gain, by_shift
            else:
                gradients[id(self.biases[index])] = error.sum(dim=1)
            below = torch.bmm(error, self.weights[index]) if index else error
            if self.plain:
                self.weights[index].baddbmm_(error.transpose(1, 2), values[index], alpha=-self.rate * factor)
            else:
                gradients[id(self.weights[index])] = torch.bmm(error.transpose(1, 2), values[index])
            error = below
        self._move(gradients, factor)

    def _move(self, gradients: dict[int, Tensor], factor: float) -> None:
        """w <- w - lr * (gradient + weight_decay * w + prox * (w - w_global)), through momentum if asked for."""
        decay, prox = self.settings.weight_decay, self.settings.prox
        for number, tensor in enumerate(self.tensors):
            gradient = gradients.get(id(tensor))
            if self.plain:
                if gradient is not None:
                    tensor.add_(gradient, alpha=-self.rate * factor)
                continue
            gradient = torch.zeros_like(tensor) if gradient is None else gradient.mul_(factor)
            if decay or prox:
                gradient.add_(tensor, alpha=decay + prox)
            if prox:
                gradient.add_(self.base[number], alpha=-prox)
            if self.velocity:
                gradient = self.velocity[number].mul_(self.settings.momentum).add_(gradient)
            tensor.add_(gradient, alpha=-self.rate)

    def write(self, models: Vectors) -> None:
        """Write the trained models into flat vectors, (workers, ...)."""
        for layer, weight, bias, norm in zip(self.chain.layers, self.weights, self.biases, self.norms, strict=True):
            layer.weight.view(models.parameters).copy_(weight)
            layer.bias.view(models.parameters).copy_(bias)
            if norm is not None:
                norm.write(models, self.steps)


class _StackedNorm:
    """The batch norm of one layer: the neurons of all workers are channels, (workers * neurons,) per tensor."""

    def __init__(self, norm: Norm, bias: Tensor, models: Vectors) -> None:
        self.norm, self.count, self.bias = norm, len(models.parameters), bias.view(-1)
        self.gain, self.shift = (
            _copy(norm.gain, models.parameters).view(-1),
            _copy(norm.shift, models.parameters).view(-1),
        )
        self.mean = _copy(norm.mean, models.buffers).view(-1).sub_(self.bias)
        self.variance = _copy(norm.variance, models.buffers).view(-1)
        self.seen = self.mean, self.mean, self.variance  # values, means and spreads of the last pass

    def forward(self, values: Tensor) -> Tensor:
        """Normalised values, (workers, batch, neurons)."""
        flat = values.transpose(0, 1).reshape(values.shape[1], -1)
        found, mean, spread = torch.native_batch_norm(
            flat, self.gain, self.shift, self.mean, self.variance, True, self.norm.momentum, self.norm.eps
        )
        self.seen = flat, mean, spread
        return found.view(len(flat), self.count, -1).transpose(0, 1)

    def backward(self, error: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The derivatives by the inputs, by the gain and by the shift."""
        flat, mean, spread = self.seen
        below, by_gain, by_shift = torch.ops.aten.native_batch_norm_backward(
            error.transpose(0, 1).reshape(len(flat), -1),
            flat, self.gain, self.mean, self.variance, mean, spread, True, self.norm.eps, EVERY,
        )  # fmt: skip
        return below.view(len(flat), self.count, -1).transpose(0, 1), by_gain, by_shift

    def write(self, models: Vectors, steps: int) -> None:
        """Write it into flat vectors."""
        norm = self.norm
        pairs = (
            (norm.gain.view(models.parameters), self.gain),
            (norm.shift.view(models.parameters), self.shift),
            (norm.mean.view(models.buffers), self.mean + self.bias),
            (norm.variance.view(models.buffers), self.variance),
        )
        for place, tensor in pairs:
            place.copy_(tensor.view(self.count, -1))
        norm.counter.view(models.counters).add_(steps)


def train_stacked(
    chain: Chain,
    data: SharedSamples,
    classes: int,
    settings: LocalTraining,
    streams: Streams,
    tasks: Sequence[TrainingTask],
    models: Vectors,
    updates: Vectors,
) -> list[Report]:
    """Train the workers of `tasks`, those of equal size together; each update goes into its slot.

    Batches, steps and updates are those of `training.engine.Engine.train`, up to rounding.

    >>> import numpy as np
    >>> from torch import nn
    >>> from enlist.data.dataset import Samples
    >>> from enlist.training.flat import Layout
    >>> module = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> data = SharedSamples.of(Samples(np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])))
    >>> tasks = [TrainingTask(worker, 0, 4, steps=2, round=1, model_slot=0, update_slot=worker) for worker in range(2)]
    >>> models, updates = (Vectors.zeros(Layout.of(module), count) for count in (1, 2))
    >>> settings = LocalTraining(batch=2, lr=0.1)
    >>> reports = train_stacked(Chain.of(module), data, 2, settings, Streams(1), tasks, models, updates)
    >>> [report.num_examples for report in reports]
    [4.0, 4.0]
    """
    reports: list[Report] = [Report()] * len(tasks)
    alike: dict[tuple[int, int, int], list[int]] = {}
    for index, task in enumerate(tasks):
        alike.setdefault((task.size, task.steps, task.round), []).append(index)
    for found in alike.values():
        for start in range(0, len(found), TOGETHER):
            group = found[start : start + TOGETHER]
            some = [tasks[index] for index in group]
            for index, report in zip(
                group, _train(chain, data, classes, settings, streams, some, models, updates), strict=True
            ):
                reports[index] = report
    return reports


def _train(
    chain: Chain,
    data: SharedSamples,
    classes: int,
    settings: LocalTraining,
    streams: Streams,
    tasks: Sequence[TrainingTask],
    models: Vectors,
    updates: Vectors,
) -> list[Report]:
    starts, slots = [task.model_slot for task in tasks], [task.update_slot for task in tasks]
    bases = Vectors(models.parameters[starts], models.buffers[starts], models.counters[starts])
    stack = Stacked(chain, bases, settings, settings.rate(tasks[0].round))
    plan = np.stack([batches(task, settings, streams) for task in tasks], axis=1)
    per_epoch = math.ceil(tasks[0].size / plan.shape[2])
    losses: list[Tensor] = []
    with torch.no_grad():
        for first in range(0, len(plan), per_epoch):
            index = torch.from_numpy(plan[first : first + per_epoch]).clamp(min=0)
            inputs = data.x.index_select(0, index.flatten()).view(*index.shape, -1)
            targets = data.y.index_select(0, index.flatten()).view(index.shape)
            aims = functional.one_hot(targets, classes).float() if classes else targets.unsqueeze(3)
            for step in range(len(index)):
                real = int((plan[first + step, 0] >= 0).sum())
                if real == 1 and chain.normed:
                    continue  # a batch norm cannot learn from a single sample
                outputs = stack.step(inputs[step, :, :real], aims[step, :, :real], classes)
                if first == 0:
                    losses.append(_losses(outputs, targets[step, :, :real], classes))
    after = Vectors(bases.parameters.clone(), bases.buffers.clone(), bases.counters.clone())
    stack.write(after)
    for row, slot in enumerate(slots):
        torch.sub(after.parameters[row], bases.parameters[row], out=updates.parameters[slot])
        updates.buffers[slot].copy_(after.buffers[row])
        updates.counters[slot].copy_(after.counters[row])
    first_epoch = torch.cat(losses, dim=1).double() if losses else torch.full((len(tasks), 1), math.nan).double()
    means, squares = first_epoch.mean(dim=1).tolist(), first_epoch.square().mean(dim=1).tolist()
    return [
        Report(loss=mean, loss_rms=math.sqrt(square), num_examples=task.num_examples(settings.batch))
        for task, mean, square in zip(tasks, means, squares, strict=True)
    ]


def _losses(outputs: Tensor, targets: Tensor, classes: int) -> Tensor:
    """Loss of each sample, (workers, batch)."""
    rows = sample_losses(outputs.flatten(0, 1), targets.flatten(), classes)
    return rows.view(targets.shape)


def _copy(place: TensorPlace, vectors: Tensor) -> Tensor:
    return place.view(vectors).clone(memory_format=torch.contiguous_format)
