"""Convolutional networks for small images: convolutions with max-pooling, then dense layers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import pydantic
import torch
from torch import Tensor, nn
from torch.nn import functional

from enlist.errors import InputError
from enlist.training.models.base import ModelOptions, image, outputs
from enlist.training.models.dense import Width


class ConvNet(nn.Module):
    """Convolutions, each followed by 2x2 max-pooling and ReLU; then dense layers with ReLU between them.

    Pooling comes before the ReLU: they commute (both are monotone), and the ReLU has a quarter of the work. Images are
    kept channels-last, where pooling costs a tenth, and are flattened in that order, which needs no copy.

    dropout    share of values dropped after the convolutions, and after each hidden dense layer

    >>> net = ConvNet(convolutions=[nn.Conv2d(1, 2, 5, padding=2)], dense=[nn.Linear(2 * 4 * 4, 10)])
    >>> net(torch.zeros(3, 1, 8, 8)).shape
    torch.Size([3, 10])
    """

    memory_format = torch.channels_last

    def __init__(
        self, convolutions: Sequence[nn.Conv2d], dense: Sequence[nn.Linear], dropout: tuple[float, float] = (0.0, 0.0)
    ) -> None:
        super().__init__()
        self.convolutions, self.dense = nn.ModuleList(convolutions), nn.ModuleList(dense)
        self.dropout = nn.ModuleList([nn.Dropout(share) if share else nn.Identity() for share in dropout])

    def forward(self, images: Tensor) -> Tensor:
        """(n, outputs) of images (n, channels, height, width)."""
        values = images.to(memory_format=torch.channels_last)
        for convolution in self.convolutions:
            values = functional.relu_(functional.max_pool2d(convolution(values), 2))
        values = self.dropout[0](values.permute(0, 2, 3, 1).flatten(1))
        for layer in self.dense[:-1]:
            values = self.dropout[1](functional.relu_(layer(values)))
        logits: Tensor = self.dense[-1](values)
        return logits


class CNN(ModelOptions):
    """Two 5x5 convolutions with 2x2 max-pooling, then dense layers: the CNN of small federated benchmarks.

    >>> module = CNN().build((1, 28, 28), 10)
    >>> sum(parameter.numel() for parameter in module.parameters())  # 416 + 12,832 + 32*7*7*64 + 64 + 650
    114314
    >>> CNN(padding=0).build((1, 8, 8), 10)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: model 'cnn' leaves no pixel of 8 x 8 images after convolution 2; raise padding ...
    """

    name: Literal["cnn"] = "cnn"
    channels: tuple[Width, ...] = pydantic.Field((16, 32), min_length=1, description="Channels of each convolution.")
    kernel: int = pydantic.Field(5, ge=1, le=1000, description="Height and width of the convolutions, in pixels.")
    padding: int = pydantic.Field(
        2, ge=0, le=1000, description="Zeros around every image, in pixels; 2 keeps its size."
    )
    hidden: tuple[Width, ...] = pydantic.Field((64,), description="Neurons of each hidden dense layer.")

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The network for images of this shape."""
        return conv_net(self.name, self.channels, self.kernel, self.padding, self.hidden, shape, classes)


class CNNDropout(ModelOptions):
    """BSFL's network (section V): convolutions with max-pooling, dense layers and dropout, ReLU throughout.

    The paper gives no sizes; the defaults are ours.

    >>> CNNDropout().build((3, 32, 32), 10).dropout
    ModuleList(
      (0): Dropout(p=0.25, inplace=False)
      (1): Dropout(p=0.5, inplace=False)
    )
    """

    name: Literal["cnn-dropout"] = "cnn-dropout"
    channels: tuple[Width, ...] = pydantic.Field((32, 64), min_length=1, description="Channels of each convolution.")
    kernel: int = pydantic.Field(3, ge=1, le=1000, description="Height and width of the convolutions, in pixels.")
    padding: int = pydantic.Field(
        1, ge=0, le=1000, description="Zeros around every image, in pixels; 1 keeps its size."
    )
    hidden: tuple[Width, ...] = pydantic.Field((128,), description="Neurons of each hidden dense layer.")
    dropout: tuple[float, float] = pydantic.Field(
        (0.25, 0.5), description="Share of values dropped after the convolutions and after hidden dense layers."
    )

    @pydantic.field_validator("dropout")
    @classmethod
    def _shares(cls, dropout: tuple[float, float]) -> tuple[float, float]:
        if any(not 0 <= share < 1 for share in dropout):
            raise ValueError(f"{list(dropout)} are not valid shares; both must be at least 0 and below 1.")
        return dropout

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The network for images of this shape."""
        return conv_net(
            self.name, self.channels, self.kernel, self.padding, self.hidden, shape, classes, dropout=self.dropout
        )


def conv_net(
    name: str,
    channels: Sequence[int],
    kernel: int,
    padding: int,
    hidden: Sequence[int],
    shape: tuple[int, ...],
    classes: int,
    dropout: tuple[float, float] = (0.0, 0.0),
) -> ConvNet:
    """A `ConvNet` of these sizes; images that are too small for it are refused.

    >>> conv_net("cnn", (16, 32), 5, 2, (64,), (3, 32, 32), 10).dense[0]
    Linear(in_features=2048, out_features=64, bias=True)
    """
    first, height, width = image(name, shape)
    sides = (height, width)
    for number in range(len(channels)):
        sides = ((sides[0] + 2 * padding - kernel + 1) // 2, (sides[1] + 2 * padding - kernel + 1) // 2)
        if min(sides) < 1:
            raise InputError(
                f"model '{name}' leaves no pixel of {height} x {width} images after convolution {number + 1}; "
                f"raise padding (now {padding}), lower kernel (now {kernel}), or give fewer channels."
            )
    convolutions = [
        nn.Conv2d(left, right, kernel, padding=padding) for left, right in itertools.pairwise([first, *channels])
    ]
    sizes = [channels[-1] * sides[0] * sides[1], *hidden, outputs(classes)]
    dense = [nn.Linear(left, right) for left, right in itertools.pairwise(sizes)]
    return ConvNet(convolutions, dense, dropout)
