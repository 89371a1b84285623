"""ShuffleNetV2 for small images (Ma et al., "ShuffleNet V2: Practical Guidelines for Efficient CNN Design", 2018)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from enlist.training.models.base import ModelOptions, he_normal, image, outputs

STEM, GROUPS, LAST = 24, ((116, 4), (232, 8), (464, 4)), 1024
"""Channels of the stem; channels and units of each group (the paper's Table 5, width 1); channels before the head."""


class Unit(nn.Module):
    """One half of the channels passes through, the other through 1x1, depthwise 3x3 and 1x1; then both are shuffled.

    A unit that halves the image lets all channels into both branches, and filters the passing one as well.

    >>> Unit(8, 8, stride=1)(torch.zeros(2, 8, 4, 4)).shape, Unit(8, 12, stride=2)(torch.zeros(2, 8, 4, 4)).shape
    (torch.Size([2, 8, 4, 4]), torch.Size([2, 12, 2, 2]))
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.halves = stride > 1
        self.passing: nn.Module = nn.Identity()
        if self.halves:
            self.passing = nn.Sequential(*depthwise(inputs, stride), *pointwise(inputs, half))
        entering = inputs if self.halves else half
        self.filtered = nn.Sequential(*pointwise(entering, half), *depthwise(half, stride), *pointwise(half, half))

    def forward(self, values: Tensor) -> Tensor:
        """(n, outputs, height / stride, width / stride); channels of the two branches alternate."""
        left, right = (values, values) if self.halves else values.chunk(2, dim=1)
        branches = [self.passing(left).permute(0, 2, 3, 1), self.filtered(right).permute(0, 2, 3, 1)]
        return torch.stack(branches, dim=4).flatten(3).permute(0, 3, 1, 2)


class ShuffleNet(nn.Module):
    """A 3x3 stem, three groups of units, a 1x1 convolution to 1024 channels, global average, one linear layer.

    >>> ShuffleNet(1, 10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    memory_format = torch.channels_last

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        stem = nn.Conv2d(channels, STEM, 3, padding=1, bias=False)
        layers: list[nn.Module] = [stem, nn.BatchNorm2d(STEM), nn.ReLU(inplace=True)]
        before = STEM
        for width, depth in GROUPS:
            for number in range(depth):
                layers.append(Unit(before, width, 1 if number else 2))
                before = width
        self.layers = nn.Sequential(*layers, *pointwise(before, LAST))
        self.head = nn.Linear(LAST, outputs)
        he_normal(self)

    def forward(self, images: Tensor) -> Tensor:
        """(n, outputs) of images (n, channels, height, width)."""
        values = self.layers(images.to(memory_format=torch.channels_last))
        logits: Tensor = self.head(values.mean(dim=(2, 3)))
        return logits


class ShuffleNetV2(ModelOptions):
    """ShuffleNetV2 of width 1 for images of about 32 x 32: 1,263,854 parameters for 3 channels and 10 classes.

    The stem keeps the image's size and is not pooled (for 224 x 224 images it reduces them to a quarter).

    >>> sum(parameter.numel() for parameter in ShuffleNetV2().build((3, 32, 32), 10).parameters())
    1263854
    """

    name: Literal["shufflenet-v2"] = "shufflenet-v2"

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The network for images of this shape."""
        channels, _, _ = image(self.name, shape)
        return ShuffleNet(channels, outputs(classes))


def pointwise(inputs: int, outputs: int) -> list[nn.Module]:
    """1x1 convolution, batch norm, ReLU.

    >>> pointwise(4, 8)[0]
    Conv2d(4, 8, kernel_size=(1, 1), stride=(1, 1), bias=False)
    """
    return [nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def depthwise(channels: int, stride: int) -> list[nn.Module]:
    """3x3 convolution of each channel by itself, and batch norm.

    >>> depthwise(4, 2)[0].groups
    4
    """
    layer = nn.Conv2d(channels, channels, 3, stride, padding=1, groups=channels, bias=False)
    return [layer, nn.BatchNorm2d(channels)]
