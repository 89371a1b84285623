"""What is learned: handwritten digits, a small network, and how one client trains it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from flwr.app import ArrayRecord
from torch import Tensor, nn

from enlist.data import Digits, DirichletLogNormal
from enlist.streams import Streams

STREAMS = Streams(0)
"""Every node splits the digits by itself; the same seed gives all of them the same parts."""


def partition(node: Mapping[str, object]) -> tuple[Tensor, Tensor]:
    """Images and labels of one node; some hold few digits, some many, and each prefers other ones."""
    number, partitions = int(str(node["partition-id"])), int(str(node["num-partitions"]))
    digits = Digits().load(STREAMS)
    shards = DirichletLogNormal(min_size=8).split(digits.train, digits.classes, partitions, STREAMS)
    part = digits.train.take(shards.held_by(number))
    return torch.from_numpy(part.x), torch.from_numpy(part.y)


def held_out() -> tuple[Tensor, Tensor]:
    """Images and labels that no node holds."""
    part = Digits().load(STREAMS).test
    return torch.from_numpy(part.x), torch.from_numpy(part.y)


def network(arrays: ArrayRecord | None = None) -> nn.Module:
    """(n, 1, 8, 8) images to (n, 10) logits; a new one, or that of a message."""
    layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    if arrays is not None:
        layers.load_state_dict(arrays.to_torch_state_dict())
    return layers


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int, learning_rate: float) -> Tensor:
    """Train in place by gradient descent; returns the loss of each sample before, (n,)."""
    with torch.no_grad():
        before = nn.functional.cross_entropy(model(images), labels, reduction="none")
    parameters = list(model.parameters())
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(labels)), 16):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            # torch.optim would do the same, but takes a second to import, in the process that every message gets.
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.data -= learning_rate * gradient
    return before


@torch.no_grad()
def evaluate(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[float, float]:
    """Mean loss and accuracy."""
    logits = model(images)
    loss = nn.functional.cross_entropy(logits, labels)
    return float(loss), float((logits.argmax(dim=1) == labels).float().mean())
