"""Small dense models, trained for many clients at once: their weights are stacked, and one product serves them all.

A step of such a model alone costs more in calls than in arithmetic. Gradients are written out by hand:
with z_l the input of layer l, h = relu, and d_L = softmax(z) - onehot (or 2 (z - y)),
    dW_l = d_l^T h_{l-1},   d_{l-1} = (d_l W_l) * [h_{l-1} > 0].
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from enlist.training.flat import Layout, Place, Vectors
from enlist.training.local import LocalTraining, Report, Task, batches
from enlist.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from enlist.training.engine import Engine


@dataclasses.dataclass(frozen=True)
class DenseChain:
    """Linear layers with ReLU between them, as (weight, bias) places in the flat vector.

    >>> DenseChain.of(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))).layers[1][0].shape
    (2, 3)
    >>> DenseChain.of(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)))
    """

    layers: tuple[tuple[Place, Place], ...]

    @classmethod
    def of(cls, module: nn.Module) -> DenseChain | None:
        """The chain that a module is, or None if it is anything else: only a plain `nn.Sequential` qualifies."""
        parts = list(module) if type(module) is nn.Sequential else [module]
        parts = parts[1:] if isinstance(parts[0], nn.Flatten) else parts
        linear, between = parts[0::2], parts[1::2]
        plain = all(type(part) is nn.Linear and part.bias is not None for part in linear)
        if not plain or not all(type(part) is nn.ReLU for part in between) or len(linear) != len(between) + 1:
            return None
        if not all(parameter.requires_grad for parameter in module.parameters()):
            return None
        places = Layout.of(module).parameters
        if len(places) != 2 * len(linear):
            return None  # layers that share their weights
        return cls(tuple(zip(places[0::2], places[1::2], strict=True)))


class Stack:
    """The weights of some clients, (clients, out, in) and (clients, 1, out) per layer, and how they move.

    >>> chain = DenseChain.of(nn.Linear(2, 3))
    >>> Stack(chain, torch.zeros(5, 32), LocalTraining(), 0.1).weights[0].shape
    torch.Size([5, 3, 2])
    """

    def __init__(self, chain: DenseChain, models: Tensor, settings: LocalTraining, rate: float) -> None:
        self.settings, self.rate = settings, rate
        self.weights = [weight.view(models).clone() for weight, _ in chain.layers]
        self.biases = [bias.view(models).unsqueeze(1).clone() for _, bias in chain.layers]
        tensors = [*self.weights, *self.biases]
        self.base = [tensor.clone() for tensor in tensors] if settings.prox else tensors
        self.velocity = [torch.zeros_like(tensor) for tensor in tensors] if settings.momentum else []

    def forward(self, inputs: Tensor, active: int) -> list[Tensor]:
        """Inputs of every layer and the outputs, for the first `active` clients."""
        values = [inputs]
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            out = torch.bmm(values[-1], _first(weight, active).transpose(1, 2)).add_(_first(bias, active))
            values.append(out.relu_() if index < len(self.weights) - 1 else out)
        return values

    def backward(self, values: Sequence[Tensor], error: Tensor, active: int, factor: float) -> None:
        """Take one step; the derivative of the loss by the outputs is `error` times `factor`."""
        for index in reversed(range(len(self.weights))):
            below = error
            if index:
                below = torch.bmm(error, _first(self.weights[index], active))
                below = torch.ops.aten.threshold_backward(below, values[index], 0)
            summed = error.sum(dim=1, keepdim=True)
            self._move(index, self.weights[index], error.transpose(1, 2), values[index], active, factor)
            self._move(len(self.weights) + index, self.biases[index], summed, None, active, factor)
            error = below

    def _move(self, number: int, whole: Tensor, left: Tensor, right: Tensor | None, active: int, factor: float) -> None:
        """Step on tensor `number`; its gradient is factor * left @ right for a weight, factor * left for a bias."""
        tensor, rate = _first(whole, active), self.rate
        decay, prox = self.settings.weight_decay, self.settings.prox
        if not self.velocity:
            if decay or prox:
                base = _first(self.base[number], active)
                tensor.mul_(1.0 - rate * (decay + prox)).add_(base, alpha=rate * prox)
            _add_product(tensor, left, right, -rate * factor)
            return
        velocity = _first(self.velocity[number], active)
        velocity.mul_(self.settings.momentum)
        _add_product(velocity, left, right, factor)
        if decay or prox:
            base = _first(self.base[number], active)
            velocity.add_(tensor, alpha=decay + prox).add_(base, alpha=-prox)
        tensor.add_(velocity, alpha=-rate)


@dataclasses.dataclass(eq=False)
class Trained:
    """A stack after training, most steps first: whose rows they are, where they started, and what they report.

    >>> Trained.__name__
    'Trained'
    """

    stack: Stack
    order: list[int]
    bases: Tensor
    reports: list[Report]


def train_together(
    engine: Engine, chain: DenseChain, tasks: Sequence[Task], models: Vectors, updates: Vectors
) -> list[Report]:
    """Train the clients of `tasks` side by side; those with fewer steps drop out of the stack when they are done.

    >>> train_together.__module__
    'enlist.training.dense'
    """
    trained = _trained(engine, chain, tasks, models)
    stack, bases = trained.stack, trained.bases
    for row, index in enumerate(trained.order):
        update = updates.parameters[tasks[index].slot]
        for layer, (weight, bias) in enumerate(chain.layers):
            torch.sub(stack.weights[layer][row], weight.view(bases[row]), out=weight.view(update))
            torch.sub(stack.biases[layer][row, 0], bias.view(bases[row]), out=bias.view(update))
    return trained.reports


def sum_together(
    engine: Engine, chain: DenseChain, tasks: Sequence[Task], weights: Sequence[float], models: Vectors, total: Vectors
) -> list[Report] | None:
    """The same, but the sum of all updates times `weights` goes into `total`; None if that is not finite.

    The sum of p_i (w_i - w) is taken as  sum p_i w_i - w sum p_i,  one product per layer, if all start from one w.

    >>> sum_together.__module__
    'enlist.training.dense'
    """
    if len({task.version for task in tasks}) > 1:
        return None
    trained = _trained(engine, chain, tasks, models)
    factors = torch.tensor([weights[index] for index in trained.order])
    base, whole = trained.bases[0], float(sum(weights))
    for layer, places in enumerate(chain.layers):
        for place, stacked in zip(places, (trained.stack.weights[layer], trained.stack.biases[layer]), strict=True):
            change = torch.mv(stacked.view(len(tasks), -1).t(), factors).view(place.shape)
            torch.sub(change, place.view(base), alpha=whole, out=place.view(total.parameters))
    return trained.reports if math.isfinite(float(total.parameters.sum())) else None


def _trained(engine: Engine, chain: DenseChain, tasks: Sequence[Task], models: Vectors) -> Trained:
    settings = engine.job.settings
    order = sorted(range(len(tasks)), key=lambda index: -tasks[index].steps)  # stable: equal steps keep their order
    ranked = [tasks[index] for index in order]
    versions = [task.version for task in ranked]
    one = len(set(versions)) == 1  # a view of one model costs nothing, gathering rows costs much
    bases = models.parameters[versions[0]].expand(len(tasks), -1) if one else models.parameters[versions]
    stack = Stack(chain, bases, settings, settings.rate(ranked[0].round))
    before = _accuracies(stack, engine, ranked)
    losses = _descend(stack, engine, ranked)
    after = _accuracies(stack, engine, ranked)
    reports: list[Report] = [Report()] * len(tasks)
    for row, task in enumerate(ranked):
        mean, mean_square = losses[row]
        reports[order[row]] = Report(
            loss=mean,
            loss_rms=math.sqrt(mean_square),
            loss_after=after[row][0],
            accuracy=before[row][1],
            accuracy_gain=after[row][1] - before[row][1],
            samples=task.samples(settings.batch),
        )
    return Trained(stack, order, bases, reports)


def _descend(stack: Stack, engine: Engine, tasks: Sequence[Task]) -> list[tuple[float, float]]:
    """All steps of all clients; returns the mean and mean square of each one's losses in its first epoch."""
    job, data = engine.job, engine.data["train"]
    plan = _plan(engine, tasks)
    steps = np.array([task.steps for task in tasks])
    active = (steps[:, None] > np.arange(len(plan))).sum(axis=0).tolist()
    real = plan >= 0
    starts = np.array([task.start for task in tasks])[None, :, None]  # gaps are filled with a client's own sample
    whole = [bool(real[step, : active[step]].all()) for step in range(len(plan))]
    per_epoch = max(math.ceil(task.size / plan.shape[2]) for task in tasks)
    outputs: list[Tensor] = []  # of the first epoch; losses are computed once, at the end
    with torch.no_grad():
        for begin in range(0, len(plan), per_epoch):  # one epoch's samples are fetched at a time
            part = slice(begin, begin + per_epoch)
            index = torch.from_numpy(np.where(real[part], plan[part], starts)).flatten()
            inputs = data.x.index_select(0, index).view(*plan[part].shape, -1)
            targets = data.y.index_select(0, index).view(plan[part].shape)
            aims = functional.one_hot(targets, job.classes).float() if job.classes else targets.unsqueeze(3)
            for step in range(begin, min(begin + per_epoch, len(plan))):
                now, row = active[step], step - begin
                values = stack.forward(_first(inputs[row], now), now)
                aim = _first(aims[row], now)
                if begin == 0:
                    outputs.append(values[-1])
                error = _error(values[-1], aim, job.classes)
                if not whole[step]:
                    counted = torch.from_numpy(real[step, :now])
                    error.mul_((counted / counted.sum(dim=1, keepdim=True)).unsqueeze(2))
                stack.backward(values, error, now, 1.0 / plan.shape[2] if whole[step] else 1.0)
            if begin == 0:
                losses = _losses(outputs, targets, job.classes)
    return _first_epochs(losses, real, [math.ceil(task.size / job.settings.batch) for task in tasks])


def _losses(outputs: Sequence[Tensor], targets: Tensor, classes: int) -> FloatArray:
    """Loss of each sample, (steps, clients, batch); 0 where a client was done."""
    if len(outputs[-1]) == targets.shape[1]:
        return _loss(torch.stack(list(outputs)), targets[: len(outputs)], classes).numpy().astype(float)
    losses = np.zeros((len(outputs), *targets.shape[1:]))
    for step, logits in enumerate(outputs):
        losses[step, : len(logits)] = _loss(logits, targets[step, : len(logits)], classes).numpy()
    return losses


def _first_epochs(losses: FloatArray, real: BoolArray, steps: Sequence[int]) -> list[tuple[float, float]]:
    """Mean and mean square of each client's losses over its first so many steps."""
    longest = min(max(steps), len(losses))
    counted = real[:longest] & (np.arange(longest)[:, None] < np.array(steps))[:, :, None]
    if counted.all():
        means, squares = losses[:longest].mean(axis=(0, 2)), np.square(losses[:longest]).mean(axis=(0, 2))
        return list(zip(means.tolist(), squares.tolist(), strict=True))
    observed = np.where(counted, losses[:longest], 0.0)
    count = counted.sum(axis=(0, 2))
    means = observed.sum(axis=(0, 2)) / count
    squares = np.square(observed).sum(axis=(0, 2)) / count
    return list(zip(means.tolist(), squares.tolist(), strict=True))


def _plan(engine: Engine, tasks: Sequence[Task]) -> IntArray:
    """(steps, clients, batch) positions; -1 where a client has no sample."""
    plans = [batches(task, engine.job.settings, engine.streams) for task in tasks]
    shape = (max(len(plan) for plan in plans), len(tasks), max(plan.shape[1] for plan in plans))
    whole = np.full(shape, -1, dtype=np.int64)
    for row, plan in enumerate(plans):
        whole[: plan.shape[0], row, : plan.shape[1]] = plan
    return whole


def _error(outputs: Tensor, aims: Tensor, classes: int) -> Tensor:
    """The derivative of each sample's loss by the outputs."""
    return torch.softmax(outputs, dim=2).sub_(aims) if classes else (outputs - aims).mul_(2.0)


def _loss(outputs: Tensor, targets: Tensor, classes: int) -> Tensor:
    """The loss of each sample: cross-entropy, or the squared error; (..., outputs) and (...) -> (...)."""
    if not classes:
        return (outputs.squeeze(-1) - targets).square()
    rows = functional.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")
    return rows.view(targets.shape)


def _accuracies(stack: Stack, engine: Engine, tasks: Sequence[Task]) -> list[tuple[float, float]]:
    if not engine.job.measure:
        return [(math.nan, math.nan)] * len(tasks)
    found = []
    data, classes = engine.data["train"], engine.job.classes
    with torch.no_grad():
        for row, task in enumerate(tasks):
            values = data.x[task.start : task.stop].flatten(1)
            for index, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
                values = torch.addmm(bias[row, 0], values, weight[row].t())
                values = values.relu_() if index < len(stack.weights) - 1 else values
            targets = data.y[task.start : task.stop]
            right = int((values.argmax(dim=1) == targets).sum()) / task.size if classes else math.nan
            found.append((float(_loss(values, targets, classes).double().mean()), right))
    return found


def _add_product(tensor: Tensor, left: Tensor, right: Tensor | None, factor: float) -> None:
    if right is None:
        tensor.add_(left, alpha=factor)
    else:
        tensor.baddbmm_(left, right, alpha=factor)


def _first(tensor: Tensor, count: int) -> Tensor:
    return tensor if count == len(tensor) else tensor[:count]
