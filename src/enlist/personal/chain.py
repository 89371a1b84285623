"""Dense networks with batch norm: their layers, and their evaluation in as few passes as possible.

In evaluation a batch norm  y = g (z - m) / sqrt(v + e) + c  is a fixed scaling, so it is folded into the linear layer
before it, with s = g / sqrt(v + e):  W' = s W,  b' = s (b - m) + c.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from enlist.training.flat import Layout, TensorPlace, Vectors

ROWS = 1000
"""Samples per pass of an evaluation; fixed, because sums in another order differ in the last bit."""


FOLLOWS: dict[type[nn.Module], tuple[type[nn.Module], ...]] = {
    nn.Linear: (nn.BatchNorm1d, nn.ReLU),
    nn.BatchNorm1d: (nn.ReLU,),
    nn.ReLU: (nn.Linear,),
}
"""Which layer may follow which."""


@dataclasses.dataclass(frozen=True)
class Norm:
    """The place of a batch norm in the flat vectors, and its two constants.

    >>> chain = Chain.of(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2)))
    >>> chain.layers[0].norm.gain.shape, chain.layers[1].norm
    ((3,), None)
    """

    gain: TensorPlace
    shift: TensorPlace
    mean: TensorPlace
    variance: TensorPlace
    counter: TensorPlace
    momentum: float
    eps: float


@dataclasses.dataclass(frozen=True)
class Layer:
    """A linear layer, and the batch norm that follows it, if any.

    >>> Chain.of(nn.Linear(4, 3)).layers[0].weight.shape
    (3, 4)
    """

    weight: TensorPlace
    bias: TensorPlace
    norm: Norm | None


@dataclasses.dataclass(frozen=True)
class Chain:
    """Linear layers, each except the last followed by an optional batch norm and ReLU.

    >>> chain = Chain.of(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2)))
    >>> len(chain.layers), chain.normed
    (2, True)
    >>> Chain.of(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)))
    """

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Chain | None:
        """The chain of a module, or None if it is something else: only a plain `nn.Sequential` qualifies."""
        parts = list(module) if type(module) is nn.Sequential else [module]
        parts = parts[1:] if isinstance(parts[0], nn.Flatten) else parts
        kinds = [type(part) for part in parts]
        if not kinds or kinds[0] is not nn.Linear or kinds[-1] is not nn.Linear:
            return None
        known = all(after in FOLLOWS.get(before, ()) for before, after in itertools.pairwise(kinds))
        if (
            not known
            or not all(_complete(part) for part in parts)
            or not all(parameter.requires_grad for parameter in module.parameters())
        ):
            return None
        layout = Layout.of(module)
        if len(layout.parameters) != 2 * sum(kind is not nn.ReLU for kind in kinds):
            return None  # layers that share their weights
        return cls(_layers(parts, layout))

    @property
    def normed(self) -> bool:
        """Whether it contains a batch norm."""
        return any(layer.norm is not None for layer in self.layers)

    def folded(self, model: Vectors) -> list[tuple[Tensor, Tensor]]:
        """(weight, bias) of each layer with its batch norm folded in, as used in evaluation."""
        found = []
        for layer in self.layers:
            weight, bias = layer.weight.view(model.parameters), layer.bias.view(model.parameters)
            if layer.norm is not None:
                norm = layer.norm
                scale = torch.rsqrt(norm.variance.view(model.buffers) + norm.eps)
                scale = scale.mul_(norm.gain.view(model.parameters))
                bias = (bias - norm.mean.view(model.buffers)).mul_(scale).add_(norm.shift.view(model.parameters))
                weight = weight * scale.unsqueeze(1)
            found.append((weight, bias))
        return found

    def outputs(self, model: Vectors, inputs: Tensor) -> Tensor:
        """Outputs (n, outputs) of a model in evaluation, for inputs (n, ...)."""
        layers = [(weight.t(), bias) for weight, bias in self.folded(model)]
        found = []
        for values in torch.split(inputs.flatten(1), ROWS):
            for weight, bias in layers[:-1]:
                values = torch.addmm(bias, values, weight).relu_()
            found.append(torch.addmm(layers[-1][1], values, layers[-1][0]))
        return torch.cat(found)


def _complete(part: nn.Module) -> bool:
    if isinstance(part, nn.Linear):
        return part.bias is not None
    if isinstance(part, nn.BatchNorm1d):
        return part.affine and part.track_running_stats and part.momentum is not None
    return True


def _layers(parts: Sequence[nn.Module], layout: Layout) -> tuple[Layer, ...]:
    parameters, buffers, counters = iter(layout.parameters), iter(layout.buffers), iter(layout.counters)
    layers: list[Layer] = []
    for part in parts:
        if isinstance(part, nn.Linear):
            layers.append(Layer(next(parameters), next(parameters), None))
        elif isinstance(part, nn.BatchNorm1d):
            places = next(parameters), next(parameters), next(buffers), next(buffers), next(counters)
            layers[-1] = dataclasses.replace(layers[-1], norm=Norm(*places, part.momentum or 0.0, part.eps))
    return tuple(layers)
