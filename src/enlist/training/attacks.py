"""Attacks: what hostile clients, or poisonous workers, do to their own samples or to the updates that they send.

Who does it, and from when on, is configured where attacks are used: `enlist.simulation.hostile`,
`enlist.personal.poison`.
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar, Literal

import numpy as np
import pydantic

from enlist._internal.options import Options
from enlist.data import Samples, Shards, noisy_labels
from enlist.streams import Streams
from enlist.training.flat import Vectors

HUGE = 3e38
"""About the largest number that float32 holds."""


class Attack(Options, abc.ABC):
    """A manipulation of training samples (`spoil`), or of the updates that are sent (`distort`).

    >>> sorted(Attack.model_fields)
    ['kind']
    """

    most_number: ClassVar[float] = 1e100
    kind: str

    def spoil(self, samples: Samples, client: int, classes: int, streams: Streams) -> Samples:
        """The training samples of a client after the attack; unchanged if it only distorts updates."""
        return samples

    def distort(self, update: Vectors) -> None:
        """Change an update in place before it is sent; nothing if it only spoils samples."""


class LabelFlipAttack(Attack):
    """Wrong labels: of two classes the other one, of more any other; in a regression, noise on the targets.

    >>> flip = LabelFlipAttack()
    >>> flip.spoil(Samples(x=np.zeros((4, 1)), y=[0, 0, 0, 0]), 2, 2, Streams(1)).y
    array([1, 1, 1, 1])
    """

    kind: Literal["label-flip"] = "label-flip"

    @property
    def wrong(self) -> float:
        """The share of the labels that are wrong."""
        return 1.0

    def spoil(self, samples: Samples, client: int, classes: int, streams: Streams) -> Samples:
        """The same inputs with wrong labels."""
        own = Streams(streams.number("label flips", client))
        whole = Shards(order=np.arange(len(samples)), offsets=np.array([0, len(samples)]))
        return Samples(samples.x, noisy_labels(samples.y, whole, [self.wrong], classes, own), samples.users)


class NoiseFeaturesAttack(Attack):
    """Gaussian noise on every input, `scale` times as wide as that input varies in the client's own samples.

    >>> noise = NoiseFeaturesAttack(scale=2.0)
    >>> spoiled = noise.spoil(Samples(x=[[-1.0], [1.0]] * 500, y=[0, 1] * 500), 2, 2, Streams(1))
    >>> round(float(spoiled.x.std()), 1)  # sqrt(1 + 4)
    2.2
    """

    kind: Literal["noise-features"] = "noise-features"
    scale: float = pydantic.Field(3.0, gt=0, description="Width of the noise in standard deviations of the input.")

    def spoil(self, samples: Samples, client: int, classes: int, streams: Streams) -> Samples:
        """The same labels with noisy inputs."""
        noise = streams.generator("feature noise", client).standard_normal(samples.x.shape)
        return Samples(samples.x + self.scale * samples.x.std(axis=0, dtype=float) * noise, samples.y, samples.users)


class SignFlipAttack(Attack):
    """Updates with the sign flipped: the client pushes the model away from what it learned.

    >>> import torch
    >>> update = Vectors(torch.ones(2), torch.zeros(0), torch.zeros(0))
    >>> SignFlipAttack(factor=2.0).distort(update)
    >>> update.parameters
    tensor([-2., -2.])
    """

    kind: Literal["sign-flip"] = "sign-flip"
    factor: float = pydantic.Field(1.0, gt=0, description="The update is multiplied by minus this.")

    def distort(self, update: Vectors) -> None:
        """Flip the sign of the parameters; buffers stay."""
        update.parameters.mul_(-self.factor)


class ScaledAttack(Attack):
    """Updates scaled up: the client takes more weight than it is given.

    >>> import torch
    >>> update = Vectors(torch.ones(2), torch.zeros(0), torch.zeros(0))
    >>> ScaledAttack().distort(update)
    >>> update.parameters
    tensor([10., 10.])
    """

    kind: Literal["scaled"] = "scaled"
    factor: float = pydantic.Field(10.0, gt=0, description="The update is multiplied by this.")

    def distort(self, update: Vectors) -> None:
        """Multiply the parameters; buffers stay."""
        update.parameters.mul_(self.factor)


class ConstantUpdate(Attack):
    """Updates in which every number is the same, buffers included.

    >>> import torch
    >>> update = Vectors(torch.ones(2), torch.ones(1), torch.zeros(0))
    >>> HugeAttack().distort(update)
    >>> update.parameters
    tensor([3.0000e+38, 3.0000e+38])
    """

    def distort(self, update: Vectors) -> None:
        """Fill parameters and buffers."""
        update.parameters.fill_(self.number)
        update.buffers.fill_(self.number)

    @property
    @abc.abstractmethod
    def number(self) -> float:
        """The value of every number."""


class NotANumberAttack(ConstantUpdate):
    """Updates of nothing but NaN.

    >>> NotANumberAttack().number
    nan
    """

    kind: Literal["nan"] = "nan"

    @property
    def number(self) -> float:
        """NaN."""
        return math.nan


class InfiniteAttack(ConstantUpdate):
    """Updates of nothing but infinities.

    >>> InfiniteAttack().number
    inf
    """

    kind: Literal["infinity"] = "infinity"

    @property
    def number(self) -> float:
        """Infinity."""
        return math.inf


class HugeAttack(ConstantUpdate):
    """Updates of finite numbers so large that a sum of them overflows.

    >>> HugeAttack(value=-1e30).number
    -1e+30
    """

    kind: Literal["huge"] = "huge"
    value: float = pydantic.Field(HUGE, ge=-HUGE, le=HUGE, description="Every number of the update.")

    @property
    def number(self) -> float:
        """The value."""
        return self.value
