"""Residual networks with a stem for small images (He et al., "Deep Residual Learning for Image Recognition", 2016)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import pydantic
import torch
from torch import Tensor, nn
from torch.nn import functional

from enlist.training.models.base import ModelOptions, he_normal, image, outputs

WIDTHS = (64, 128, 256, 512)


class Block(nn.Module):
    """Two 3x3 convolutions with a shortcut around them: relu(f(x) + x), or + a 1x1 convolution where shapes change.

    >>> Block(8, 16, 2, nn.BatchNorm2d)(torch.zeros(2, 8, 6, 6)).shape
    torch.Size([2, 16, 3, 3])
    """

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.first_norm = norm(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = norm(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, values: Tensor) -> Tensor:
        """(n, outputs, height / stride, width / stride)."""
        inner = functional.relu_(self.first_norm(self.first(values)))
        return functional.relu_(self.second_norm(self.second(inner)) + self.shortcut(values))


class ResNet(nn.Module):
    """A 3x3 stem without pooling, four groups of blocks (64 to 512 channels), global average, one linear layer.

    >>> ResNet(1, 10, (1, 1, 1, 1), nn.BatchNorm2d)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    memory_format = torch.channels_last

    def __init__(self, channels: int, outputs: int, depths: Sequence[int], norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, WIDTHS[0], 3, padding=1, bias=False)
        self.stem_norm = norm(WIDTHS[0])
        blocks: list[nn.Module] = []
        before = WIDTHS[0]
        for group, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
            for number in range(depth):
                blocks.append(Block(before, width, 2 if group and not number else 1, norm))
                before = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, outputs)
        he_normal(self)

    def forward(self, images: Tensor) -> Tensor:
        """(n, outputs) of images (n, channels, height, width)."""
        values = images.to(memory_format=torch.channels_last)
        values = self.blocks(functional.relu_(self.stem_norm(self.stem(values))))
        logits: Tensor = self.head(values.mean(dim=(2, 3)))
        return logits


class _ResNetOptions(ModelOptions):
    norm: Literal["batch", "group"] = pydantic.Field(
        "batch", description="Normalisation: 'batch', or 'group', which keeps no statistics and suits skewed clients."
    )
    groups: int = pydantic.Field(2, ge=1, description="Groups of channels of 'group'; a divisor of 64.")

    @pydantic.model_validator(mode="after")
    def _divides(self) -> _ResNetOptions:
        if WIDTHS[0] % self.groups:
            raise ValueError(f"groups = {self.groups}; it must divide {WIDTHS[0]}: 1, 2, 4, 8, 16, 32 or 64.")
        return self

    def _build(self, shape: tuple[int, ...], classes: int, depths: Sequence[int]) -> nn.Module:
        channels, _, _ = image(self.name, shape)
        return ResNet(channels, outputs(classes), depths, self._normal)

    def _normal(self, channels: int) -> nn.Module:
        return nn.BatchNorm2d(channels) if self.norm == "batch" else nn.GroupNorm(self.groups, channels)


class ResNet18(_ResNetOptions):
    """ResNet-18 for images of about 32 x 32: 11,173,962 parameters for 3 channels and 10 classes.

    >>> sum(parameter.numel() for parameter in ResNet18().build((3, 32, 32), 10).parameters())
    11173962
    """

    name: Literal["resnet18"] = "resnet18"

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The network with 2, 2, 2 and 2 blocks."""
        return self._build(shape, classes, (2, 2, 2, 2))


class ResNet34(_ResNetOptions):
    """ResNet-34 for images of about 32 x 32: 21,282,122 parameters for 3 channels and 10 classes.

    >>> ResNet34(groups=3)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: ResNet34: groups = 3; it must divide 64: 1, 2, 4, 8, 16, 32 or 64.
    """

    name: Literal["resnet34"] = "resnet34"

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The network with 3, 4, 6 and 3 blocks."""
        return self._build(shape, classes, (3, 4, 6, 3))
