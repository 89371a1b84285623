"""Dense models: linear and logistic regression, the multilayer perceptron, and the network of the MAB-FL thesis.

The first three are plain `nn.Sequential` modules of linear layers and ReLU, which the engine can train many at once,
unless they have dropout.
"""

from __future__ import annotations

import itertools
from typing import Annotated, ClassVar, Literal

import pydantic
from torch import nn

from enlist._internal.options import GrownOptions
from enlist.errors import InputError
from enlist.training.models.base import ModelOptions, inputs, outputs

Width = Annotated[int, pydantic.Field(ge=1, le=10**9)]
"""Number of neurons of a layer."""


class Linear(ModelOptions):
    """One linear layer on the flattened input: linear regression, or its logits if there are classes.

    >>> Linear().build((30,), 0)
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=30, out_features=1, bias=True)
    )
    """

    name: Literal["linear"] = "linear"

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The layer, after a flattening one."""
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs(shape), outputs(classes)))


class Logistic(ModelOptions):
    """Softmax regression: one linear layer on the flattened input gives the logits.

    >>> Logistic().build((1, 8, 8), 10)[1]
    Linear(in_features=64, out_features=10, bias=True)
    >>> Logistic().build((30,), 0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: model 'logistic' predicts classes, but the data is a regression; use 'linear' or 'mlp'.
    """

    name: Literal["logistic"] = "logistic"

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The layer, after a flattening one."""
        if not classes:
            raise InputError("model 'logistic' predicts classes, but the data is a regression; use 'linear' or 'mlp'.")
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs(shape), classes))


class MLP(ModelOptions, GrownOptions):
    """Multilayer perceptron: linear layers with ReLU between them. The default is the 2NN's width of FedAvg's paper.

    >>> sum(parameter.numel() for parameter in MLP(hidden=(5,)).build((3,), 2).parameters())  # 3*5 + 5 + 5*2 + 2
    32
    >>> [type(layer).__name__ for layer in MLP(hidden=(5,), dropout=0.5).build((3,), 2)]
    ['Flatten', 'Linear', 'ReLU', 'Dropout', 'Linear']
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"dropout"})

    name: Literal["mlp"] = "mlp"
    hidden: tuple[Width, ...] = pydantic.Field((200,), description="Neurons of each hidden layer.")
    dropout: float = pydantic.Field(0.0, ge=0, lt=1, description="Share of values dropped after each hidden layer.")

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Flatten, then linear layers with ReLU between them, and dropout if asked for."""
        sizes = [inputs(shape), *self.hidden, outputs(classes)]
        layers: list[nn.Module] = [nn.Flatten()]
        for left, right in itertools.pairwise(sizes[:-1]):
            layers += [nn.Linear(left, right), nn.ReLU()]
            if self.dropout:
                layers.append(nn.Dropout(self.dropout))
        return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Thesis(ModelOptions):
    """The network of the MAB-FL thesis (section 8.5): four linear layers, three batch norms between them, ReLU.

    Weights and biases of the linear layers start from N(0, deviation²). The thesis gives neither the widths nor the
    deviation; the defaults are ours.

    >>> [type(layer).__name__ for layer in Thesis().build((153,), 2)][:4]
    ['Flatten', 'Linear', 'BatchNorm1d', 'ReLU']
    """

    name: Literal["thesis"] = "thesis"
    hidden: tuple[Width, Width, Width] = pydantic.Field((128, 64, 32), description="Neurons of the hidden layers.")
    deviation: float = pydantic.Field(0.1, gt=0, description="Standard deviation of the initial weights and biases.")

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Flatten, then linear layers, each but the last with batch norm and ReLU."""
        sizes = [inputs(shape), *self.hidden, outputs(classes)]
        layers: list[nn.Module] = [nn.Flatten()]
        for left, right in itertools.pairwise(sizes):
            linear = nn.Linear(left, right)
            nn.init.normal_(linear.weight, std=self.deviation)
            nn.init.normal_(linear.bias, std=self.deviation)
            layers += [linear, nn.BatchNorm1d(right), nn.ReLU()]
        return nn.Sequential(*layers[:-2])
