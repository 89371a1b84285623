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
from torch import Tensor, nn

from enlist.training.flat import Layout, Place, Vectors
from enlist.training.local import LocalTraining, Report, Task, batches

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
            out = torch.baddbmm(bias[:active], values[-1], weight[:active].transpose(1, 2))
            values.append(out.relu_() if index < len(self.weights) - 1 else out)
        return values

    def backward(self, values: Sequence[Tensor], error: Tensor, active: int) -> None:
        """Take one step, given the derivative of the loss by the outputs."""
        for index in reversed(range(len(self.weights))):
            below = torch.bmm(error, self.weights[index][:active]).mul_(values[index] > 0) if index else error
            self._move(index, index, error.transpose(1, 2), values[index], active)
            self._move(len(self.weights) + index, index, error.sum(dim=1, keepdim=True), None, active)
            error = below

    def _move(self, number: int, layer: int, left: Tensor, right: Tensor | None, active: int) -> None:
        """Step on tensor `number`; its gradient is left @ right for a weight, left for a bias."""
        tensor = (self.weights[layer] if right is not None else self.biases[layer])[:active]
        decay, prox, rate, base = self.settings.weight_decay, self.settings.prox, self.rate, self.base[number][:active]
        if not self.velocity:
            if decay or prox:
                tensor.mul_(1.0 - rate * (decay + prox)).add_(base, alpha=rate * prox)
            _add_product(tensor, left, right, -rate)
            return
        velocity = self.velocity[number][:active]
        velocity.mul_(self.settings.momentum)
        _add_product(velocity, left, right, 1.0)
        if decay or prox:
            velocity.add_(tensor, alpha=decay + prox).add_(base, alpha=-prox)
        tensor.add_(velocity, alpha=-rate)


def train_together(
    engine: Engine, chain: DenseChain, tasks: Sequence[Task], models: Vectors, updates: Vectors
) -> list[Report]:
    """Train the clients of `tasks` side by side; those with fewer steps drop out of the stack when they are done.

    >>> train_together.__module__
    'enlist.training.dense'
    """
    job, data = engine.job, engine.data["train"]
    order = sorted(range(len(tasks)), key=lambda index: -tasks[index].steps)  # stable: equal steps keep their order
    ranked = [tasks[index] for index in order]
    plan = _plan(engine, ranked)
    steps = np.array([task.steps for task in ranked])
    bases = models.parameters[[task.version for task in ranked]]
    rates = {job.settings.rate(task.round) for task in ranked}
    assert len(rates) == 1, "tasks of one group belong to one round"
    stack = Stack(chain, bases, job.settings, rates.pop())
    before = _accuracies(stack, engine, ranked)
    losses = np.full((plan.shape[1], *plan.shape[::2]), np.nan, dtype=np.float32)
    with torch.no_grad():
        for step in range(plan.shape[1]):
            active = int((steps > step).sum())
            index = torch.from_numpy(plan[:active, step])
            real = index >= 0
            index = index.clamp_(min=0).flatten()
            inputs = data.x.index_select(0, index).view(*real.shape, -1)
            values = stack.forward(inputs, active)
            targets = data.y.index_select(0, index).view(real.shape)
            loss, error = _loss(values[-1], targets, job.classes)
            if not bool(real.all()):
                error.mul_((real / real.sum(dim=1, keepdim=True)).unsqueeze(2))
                loss[~real] = math.nan
            else:
                error.div_(real.shape[1])
            stack.backward(values, error, active)
            losses[step, :active] = loss.numpy()
    for row, task in enumerate(ranked):
        update = updates.parameters[task.slot]
        for layer, (weight, bias) in enumerate(chain.layers):
            torch.sub(stack.weights[layer][row], weight.view(bases[row]), out=weight.view(update))
            torch.sub(stack.biases[layer][row, 0], bias.view(bases[row]), out=bias.view(update))
    after = _accuracies(stack, engine, ranked)
    reports: list[Report] = [Report()] * len(tasks)
    for row, task in enumerate(ranked):
        first_epoch = math.ceil(task.size / job.settings.batch)
        observed = losses[:first_epoch, row].astype(float)
        observed = observed[~np.isnan(observed)] if task.size % job.settings.batch else observed.ravel()
        reports[order[row]] = Report(
            loss=float(observed.mean()) if len(observed) else math.nan,
            loss_rms=float(np.sqrt(np.square(observed).mean())) if len(observed) else math.nan,
            loss_after=after[row][0],
            accuracy=before[row][1],
            accuracy_gain=after[row][1] - before[row][1],
            samples=float(min(task.size, task.steps * job.settings.batch)),
        )
    return reports


def _plan(engine: Engine, tasks: Sequence[Task]) -> np.ndarray[tuple[int, int, int], np.dtype[np.int64]]:
    """(clients, steps, batch) positions; -1 where a client has no sample."""
    plans = [batches(task, engine.job.settings, engine.streams) for task in tasks]
    shape = (len(tasks), max(len(plan) for plan in plans), max(plan.shape[1] for plan in plans))
    whole = np.full(shape, -1, dtype=np.int64)
    for row, plan in enumerate(plans):
        whole[row, : plan.shape[0], : plan.shape[1]] = plan
    return whole


def _loss(outputs: Tensor, targets: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Loss of each sample, (clients, batch), and its derivative by the outputs, which are overwritten."""
    if not classes:
        difference = outputs.squeeze(2) - targets
        return difference.square(), (2.0 * difference).unsqueeze(2)
    logarithms = torch.log_softmax(outputs, dim=2)
    wanted = targets.unsqueeze(2)
    loss = -logarithms.gather(2, wanted).squeeze(2)
    error = logarithms.exp_()
    error.scatter_add_(2, wanted, torch.full_like(wanted, -1.0, dtype=error.dtype))
    return loss, error


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
            right = float((values.argmax(dim=1) == targets).float().mean()) if classes else math.nan
            loss, _ = _loss(values.unsqueeze(0), targets.unsqueeze(0), classes)
            found.append((float(loss.mean()), right))
    return found


def _add_product(tensor: Tensor, left: Tensor, right: Tensor | None, factor: float) -> None:
    if right is None:
        tensor.add_(left, alpha=factor)
    else:
        tensor.baddbmm_(left, right, alpha=factor)
