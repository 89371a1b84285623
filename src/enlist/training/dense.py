"""Small dense models, trained for many clients at once: their weights are stacked, and one product serves them all.

A single step of such a model costs more in calls than in arithmetic. Gradients are written out by hand:
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

from enlist._internal.typing import BoolArray, IntArray
from enlist.training.flat import Layout, TensorPlace, Vectors
from enlist.training.local import LocalTraining, Report, TrainingTask, batches

if TYPE_CHECKING:
    from enlist.training.engine import ModuleTrainer

_clip = torch.ops.aten.threshold_backward.grad_input


@dataclasses.dataclass(frozen=True)
class DenseChain:
    """Linear layers with ReLU between them, as (weight, bias) places in the flat vector.

    >>> DenseChain.of(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))).layers[1][0].shape
    (2, 3)
    >>> DenseChain.of(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)))
    """

    layers: tuple[tuple[TensorPlace, TensorPlace], ...]

    @classmethod
    def of(cls, module: nn.Module) -> DenseChain | None:
        """The module as a chain, or None if it is anything else: only a plain `nn.Sequential` qualifies."""
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
    """The weights of some clients, (clients, out, in) per layer, and how they are updated.

    The outputs of the last layer are kept as (clients, outputs, batch): a softmax over ten neighbours takes six times
    as long as one over ten rows.

    >>> chain = DenseChain.of(nn.Linear(2, 3))
    >>> stack = Stack(chain, torch.zeros(5, 32), LocalTraining(), 0.1)
    >>> stack.weights[0].shape, stack.forward(torch.ones(5, 4, 2)).shape
    (torch.Size([5, 3, 2]), torch.Size([5, 3, 4]))
    """

    def __init__(self, chain: DenseChain, models: Tensor, settings: LocalTraining, rate: float) -> None:
        self.settings, self.rate = settings, rate
        self.weights = [weight.view(models).clone() for weight, _ in chain.layers]
        self.biases = [bias.view(models).unsqueeze(1).clone() for _, bias in chain.layers]
        tensors = [*self.weights, *self.biases]
        self.base = [tensor.clone() for tensor in tensors] if settings.prox else tensors
        self.velocity = [torch.zeros_like(tensor) for tensor in tensors] if settings.momentum else []
        self.narrow(len(models))

    def narrow(self, active: int) -> None:
        """From now on only the first `active` clients take steps."""
        self._weights = [weight[:active] for weight in self.weights]
        self._turned = [weight.mT for weight in self._weights]
        self._biases = [bias[:active] for bias in self.biases]
        self._last = self._biases[-1].mT
        self._values: list[Tensor] = []

    def forward(self, inputs: Tensor, outputs: Tensor | None = None) -> Tensor:
        """The outputs, (clients, outputs, batch), for inputs (clients, batch, in) of the active clients."""
        self._values = [inputs]
        for weight, bias in zip(self._turned[:-1], self._biases, strict=False):
            self._values.append(torch.bmm(self._values[-1], weight).add_(bias).relu_())
        return torch.baddbmm(self._last, self._weights[-1], self._values[-1].mT, out=outputs)

    def backward(self, error: Tensor, factor: float) -> None:
        """Take one step; the derivative of the loss by the outputs is `error`, shaped like them, times `factor`."""
        turned, error = error, error.mT
        for index in reversed(range(len(self._weights))):
            values = self._values[index]
            below = error
            if index:
                below = torch.bmm(error, self._weights[index])
                _clip(below, values, 0, grad_input=below)
            summed = error.sum(dim=1, keepdim=True)
            self._move(index, self._weights[index], turned, values, factor)
            self._move(len(self._weights) + index, self._biases[index], summed, None, factor)
            turned, error = below.mT, below

    def _move(self, number: int, tensor: Tensor, left: Tensor, right: Tensor | None, factor: float) -> None:
        """Step on tensor `number`; its gradient is factor * left @ right for a weight, factor * left for a bias."""
        rate, decay, prox = self.rate, self.settings.weight_decay, self.settings.prox
        if not self.velocity:
            if decay or prox:
                base = self.base[number][: len(tensor)]
                tensor.mul_(1.0 - rate * (decay + prox)).add_(base, alpha=rate * prox)
            _add_product(tensor, left, right, -rate * factor)
            return
        velocity = self.velocity[number][: len(tensor)]
        velocity.mul_(self.settings.momentum)
        _add_product(velocity, left, right, factor)
        if decay or prox:
            base = self.base[number][: len(tensor)]
            velocity.add_(tensor, alpha=decay + prox).add_(base, alpha=-prox)
        tensor.add_(velocity, alpha=-rate)


@dataclasses.dataclass(eq=False)
class _TrainedStack:
    """A stack after training, most steps first: whose rows they are, where they started, and what they report."""

    stack: Stack
    order: list[int]
    bases: Tensor
    reports: list[Report]


def train_together(
    engine: ModuleTrainer, chain: DenseChain, tasks: Sequence[TrainingTask], models: Vectors, updates: Vectors
) -> list[Report]:
    """Train the clients of `tasks` side by side; those with fewer steps drop out of the stack when they are done.

    >>> import numpy as np
    >>> from enlist.data.dataset import Samples
    >>> from enlist.training.engine import ModuleTrainer, TrainingSetup, SharedSamples
    >>> from enlist.training.flat import Vectors
    >>> data = SharedSamples.of(Samples(np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])))
    >>> setup = TrainingSetup(nn.Linear(2, 2), 2, LocalTraining(batch=2, lr=0.1), {"train": data}, seed=1)
    >>> engine = ModuleTrainer(setup)
    >>> models = Vectors.zeros(engine.flat.layout, 1)
    >>> tasks = [TrainingTask(i, 0, 4, steps=1 + i, round=1, model_slot=0, update_slot=i) for i in range(2)]
    >>> updates = Vectors.zeros(engine.flat.layout, 2)
    >>> reports = train_together(engine, engine.chain, tasks, models, updates)
    >>> [report.num_examples for report in reports], bool(updates.parameters.abs().sum() > 0)
    ([2.0, 4.0], True)
    """
    trained = _trained(engine, chain, tasks, models)
    stack, bases = trained.stack, trained.bases
    for row, index in enumerate(trained.order):
        update = updates.parameters[tasks[index].update_slot]
        for layer, (weight, bias) in enumerate(chain.layers):
            torch.sub(stack.weights[layer][row], weight.view(bases[row]), out=weight.view(update))
            torch.sub(stack.biases[layer][row, 0], bias.view(bases[row]), out=bias.view(update))
    return trained.reports


def sum_together(
    engine: ModuleTrainer,
    chain: DenseChain,
    tasks: Sequence[TrainingTask],
    weights: Sequence[float],
    models: Vectors,
    total: Vectors,
) -> list[Report] | None:
    """The same, but the sum of all updates times `weights` goes into `total`; None if that is not finite.

    The sum of p_i (w_i - w) is taken as  sum p_i w_i - w sum p_i,  one product per layer, if all start from one w.

    >>> import numpy as np
    >>> from enlist.data.dataset import Samples
    >>> from enlist.training.engine import ModuleTrainer, TrainingSetup, SharedSamples
    >>> from enlist.training.flat import Vectors
    >>> data = SharedSamples.of(Samples(np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])))
    >>> setup = TrainingSetup(nn.Linear(2, 2), 2, LocalTraining(batch=2, lr=0.1), {"train": data}, seed=1)
    >>> engine = ModuleTrainer(setup)
    >>> models = Vectors.zeros(engine.flat.layout, 1)
    >>> tasks = [TrainingTask(i, 0, 4, steps=1 + i, round=1, model_slot=0, update_slot=i) for i in range(2)]
    >>> updates, total = Vectors.zeros(engine.flat.layout, 2), Vectors.zeros(engine.flat.layout)
    >>> _ = train_together(engine, engine.chain, tasks, models, updates)
    >>> _ = sum_together(engine, engine.chain, tasks, [1.0, 3.0], models, total)
    >>> bool(torch.allclose(total.parameters, updates.parameters[0] + 3.0 * updates.parameters[1]))
    True
    """
    if len({task.model_slot for task in tasks}) > 1:
        return None
    trained = _trained(engine, chain, tasks, models)
    factors = torch.tensor([[weights[index] for index in trained.order]])
    base, whole = trained.bases[0], float(sum(weights))
    for layer, places in enumerate(chain.layers):
        for place, stacked in zip(places, (trained.stack.weights[layer], trained.stack.biases[layer]), strict=True):
            row, changes = place.view(base).view(1, -1), place.view(total.parameters).view(1, -1)
            torch.addmm(row, factors, stacked.view(len(tasks), -1), beta=-whole, out=changes)
    return trained.reports if math.isfinite(float(total.parameters.sum())) else None


def _trained(engine: ModuleTrainer, chain: DenseChain, tasks: Sequence[TrainingTask], models: Vectors) -> _TrainedStack:
    settings = engine.job.settings
    order = sorted(range(len(tasks)), key=lambda index: -tasks[index].steps)  # stable: equal steps keep their order
    ranked = [tasks[index] for index in order]
    slots = [task.model_slot for task in ranked]
    one = len(set(slots)) == 1  # a view of one model costs nothing, gathering rows costs much
    bases = models.parameters[slots[0]].expand(len(tasks), -1) if one else models.parameters[slots]
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
            num_examples=task.num_examples(settings.batch),
        )
    return _TrainedStack(stack, order, bases, reports)


def _descend(stack: Stack, engine: ModuleTrainer, tasks: Sequence[TrainingTask]) -> list[tuple[float, float]]:
    """All steps of all clients; returns the mean and mean square of each one's losses in its first epoch."""
    job, data = engine.job, engine.data["train"]
    plan = _plan(engine, tasks)
    steps = np.array([task.steps for task in tasks])
    active = (steps[:, None] > np.arange(len(plan))).sum(axis=0).tolist()
    real = plan >= 0
    whole = [bool(real[step, : active[step]].all()) for step in range(len(plan))]
    if not real.all():  # gaps are filled with a client's own sample
        plan = np.where(real, plan, np.array([task.start for task in tasks])[None, :, None])
    per_epoch = max(math.ceil(task.size / plan.shape[2]) for task in tasks)
    now = len(tasks)
    with torch.no_grad():
        for begin in range(0, len(plan), per_epoch):  # one epoch's samples are fetched at a time
            part = plan[begin : begin + per_epoch]
            index = torch.from_numpy(part).flatten()
            inputs = data.x.index_select(0, index).view(*part.shape, -1)
            aims = _aims(data.y.index_select(0, index).view(part.shape), job.classes)
            outputs = torch.zeros_like(aims)  # of one epoch; losses are computed once, at its end
            whole_epoch = zip(inputs.unbind(), aims.unbind(), outputs.unbind(), strict=True)
            for step, (batch, aim, logits) in enumerate(whole_epoch, begin):
                if active[step] < now:
                    now = active[step]
                    stack.narrow(now)
                if now < len(tasks):
                    batch, aim, logits = batch[:now], aim[:now], logits[:now]
                stack.forward(batch, logits)
                error = torch.softmax(logits, 1).sub_(aim) if job.classes else (logits - aim).mul_(2.0)
                if not whole[step]:
                    counted = torch.from_numpy(real[step, :now])
                    error.mul_((counted / counted.sum(dim=1, keepdim=True)).unsqueeze(1))
                stack.backward(error, 1.0 / part.shape[2] if whole[step] else 1.0)
            if begin == 0:
                first = [math.ceil(task.size / job.settings.batch) for task in tasks]
                losses = _first_losses(outputs, aims, real, first, job.classes)
    return losses


def _aims(targets: Tensor, classes: int) -> Tensor:
    """The target outputs, (steps, clients, outputs, batch)."""
    targets = targets.unsqueeze(2)
    if not classes:
        return targets
    steps, clients, _, batch = targets.shape
    return torch.zeros(steps, clients, classes, batch).scatter_(2, targets, 1.0)


def _first_losses(
    outputs: Tensor, aims: Tensor, real: BoolArray, steps: Sequence[int], classes: int
) -> list[tuple[float, float]]:
    """Mean and mean square of each client's losses over its first `steps` steps."""
    longest = min(max(steps), len(outputs))
    outputs, aims, real = outputs[:longest], aims[:longest], real[:longest]
    losses = torch.log_softmax(outputs, 2).mul_(-aims).sum(2) if classes else (outputs - aims).square_().squeeze(2)
    losses = losses.double()
    counts = [longest * real.shape[2]] * len(steps)
    if min(steps) < longest or not real.all():
        counted = torch.from_numpy(real & (np.arange(longest)[:, None] < np.array(steps))[:, :, None])
        losses, counts = losses.where(counted, 0.0), counted.sum(dim=(0, 2)).tolist()
    sums, squares = losses.sum(dim=(0, 2)).tolist(), losses.square().sum(dim=(0, 2)).tolist()
    return [(total / count, square / count) for total, square, count in zip(sums, squares, counts, strict=True)]


def _plan(engine: ModuleTrainer, tasks: Sequence[TrainingTask]) -> IntArray:
    """(steps, clients, batch) positions; -1 where a client has no sample."""
    plans = [batches(task, engine.job.settings, engine.streams) for task in tasks]
    shape = (max(len(plan) for plan in plans), len(tasks), max(plan.shape[1] for plan in plans))
    whole = np.full(shape, -1, dtype=np.int64)
    for row, plan in enumerate(plans):
        whole[: plan.shape[0], row, : plan.shape[1]] = plan
    return whole


def _loss(outputs: Tensor, targets: Tensor, classes: int) -> Tensor:
    """The loss of each sample: cross-entropy, or the squared error; (..., outputs) and (...) -> (...)."""
    if not classes:
        return (outputs.squeeze(-1) - targets).square()
    rows = functional.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")
    return rows.view(targets.shape)


def _accuracies(stack: Stack, engine: ModuleTrainer, tasks: Sequence[TrainingTask]) -> list[tuple[float, float]]:
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
