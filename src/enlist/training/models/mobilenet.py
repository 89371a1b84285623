"""MobileNetV2 for small images (Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from enlist.training.models.base import ModelOptions, he_normal, image, outputs

GROUPS = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and stride of each group: the paper's Table 2 with stride 1 in the group of 24."""
STEM, LAST = 32, 1280


class Bottleneck(nn.Module):
    """Inverted residual: expand by 1x1, filter each channel by 3x3, project by 1x1; plus the input if shapes agree.

    >>> Bottleneck(8, 8, expansion=6, stride=1)(torch.zeros(2, 8, 4, 4)).shape
    torch.Size([2, 8, 4, 4])
    """

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        inner = inputs * expansion
        expand = [] if expansion == 1 else convolution(inputs, inner, 1)
        filtered = convolution(inner, inner, 3, stride, groups=inner)
        project = [nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*expand, *filtered, *project)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, values: Tensor) -> Tensor:
        """(n, outputs, height / stride, width / stride)."""
        changed: Tensor = self.layers(values)
        return values + changed if self.residual else changed


class MobileNet(nn.Module):
    """A 3x3 stem, 17 bottlenecks, a 1x1 convolution to 1280 channels, global average, one linear layer.

    >>> MobileNet(1, 10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    memory_format = torch.channels_last

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        layers = convolution(channels, STEM, 3)
        before = STEM
        for expansion, width, depth, stride in GROUPS:
            for number in range(depth):
                layers.append(Bottleneck(before, width, expansion, 1 if number else stride))
                before = width
        self.layers = nn.Sequential(*layers, *convolution(before, LAST, 1))
        self.head = nn.Linear(LAST, outputs)
        he_normal(self)

    def forward(self, images: Tensor) -> Tensor:
        """(n, outputs) of images (n, channels, height, width)."""
        values = self.layers(images.to(memory_format=torch.channels_last))
        logits: Tensor = self.head(values.mean(dim=(2, 3)))
        return logits


class MobileNetV2(ModelOptions):
    """MobileNetV2 of width 1 for images of about 32 x 32: 2,236,682 parameters for 3 channels and 10 classes.

    The stem and the group of 24 channels keep the image's size (their stride is 2 for 224 x 224 images).

    >>> sum(parameter.numel() for parameter in MobileNetV2().build((3, 32, 32), 10).parameters())
    2236682
    """

    name: Literal["mobilenet-v2"] = "mobilenet-v2"

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The network for images of this shape."""
        channels, _, _ = image(self.name, shape)
        return MobileNet(channels, outputs(classes))


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Convolution that keeps the size, batch norm, and ReLU cut at 6.

    >>> [type(layer).__name__ for layer in convolution(3, 8, 3)]
    ['Conv2d', 'BatchNorm2d', 'ReLU6']
    """
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True)]
