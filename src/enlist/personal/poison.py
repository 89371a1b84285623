"""Poisonous workers: they spoil their own samples or what they send, and a rule must learn to leave them out."""

from __future__ import annotations

import abc
from typing import Annotated, ClassVar, Literal

import numpy as np
import pydantic

from enlist.data import Samples, Shards, noisy_labels
from enlist.options import Options
from enlist.streams import Streams
from enlist.training.flat import Vectors


class PoisonOptions(Options, abc.ABC):
    """What some workers do wrong: to their training samples (`spoil`), or to the updates they send (`distort`).

    >>> sorted(PoisonOptions.model_fields)
    ['kind', 'workers']
    """

    most_number: ClassVar[float] = 1e100
    kind: str
    workers: tuple[str, ...] = pydantic.Field(min_length=1, description="Names of the workers that do it.")

    @pydantic.field_validator("workers", mode="before")
    @classmethod
    def _names(cls, given: object) -> object:
        if not isinstance(given, list | tuple):
            return given
        return [str(name) if isinstance(name, int) else name for name in given]

    def spoil(self, samples: Samples, worker: int, classes: int, streams: Streams) -> Samples:
        """The training samples of a worker after it; unchanged if it only distorts updates."""
        return samples

    def distort(self, update: Vectors) -> None:
        """Change an update in place before it is sent; nothing if it only spoils samples."""


class LabelFlip(PoisonOptions):
    """Wrong labels: of two classes the other one, of more any other; in a regression, noise on the targets.

    >>> flip = LabelFlip(workers=["3"], share=0.5)
    >>> flip.spoil(Samples(x=np.zeros((4, 1)), y=[0, 0, 0, 0]), 2, 2, Streams(1)).y.sum()
    np.int64(2)
    """

    kind: Literal["label-flip"] = "label-flip"
    share: float = pydantic.Field(1.0, gt=0, le=1, description="Share of their labels that is wrong.")

    def spoil(self, samples: Samples, worker: int, classes: int, streams: Streams) -> Samples:
        """The same inputs with wrong labels."""
        own = Streams(streams.number("label flips", worker))
        whole = Shards(order=np.arange(len(samples)), offsets=np.array([0, len(samples)]))
        return Samples(samples.x, noisy_labels(samples.y, whole, [self.share], classes, own), samples.users)


class NoiseFeatures(PoisonOptions):
    """Gaussian noise on every input, `scale` times as wide as that input varies in the worker's own samples.

    >>> noise = NoiseFeatures(workers=["3"], scale=2.0)
    >>> spoiled = noise.spoil(Samples(x=[[-1.0], [1.0]] * 500, y=[0, 1] * 500), 2, 2, Streams(1))
    >>> round(float(spoiled.x.std()), 1)  # sqrt(1 + 4)
    2.2
    """

    kind: Literal["noise-features"] = "noise-features"
    scale: float = pydantic.Field(3.0, gt=0, description="Width of the noise in standard deviations of the input.")

    def spoil(self, samples: Samples, worker: int, classes: int, streams: Streams) -> Samples:
        """The same labels with noisy inputs."""
        noise = streams.generator("feature noise", worker).standard_normal(samples.x.shape)
        return Samples(samples.x + self.scale * samples.x.std(axis=0, dtype=float) * noise, samples.y, samples.users)


class SignFlip(PoisonOptions):
    """Updates with the sign turned: the worker pushes the model away from what it learned.

    >>> import torch
    >>> update = Vectors(torch.ones(2), torch.zeros(0), torch.zeros(0))
    >>> SignFlip(workers=["3"], factor=2.0).distort(update)
    >>> update.parameters
    tensor([-2., -2.])
    """

    kind: Literal["sign-flip"] = "sign-flip"
    factor: float = pydantic.Field(1.0, gt=0, description="The update is multiplied by minus this.")

    def distort(self, update: Vectors) -> None:
        """Turn the parameters round; buffers stay."""
        update.parameters.mul_(-self.factor)


class Scaled(PoisonOptions):
    """Updates blown up: the worker wants more weight than it is given.

    >>> import torch
    >>> update = Vectors(torch.ones(2), torch.zeros(0), torch.zeros(0))
    >>> Scaled(workers=["3"]).distort(update)
    >>> update.parameters
    tensor([10., 10.])
    """

    kind: Literal["scaled"] = "scaled"
    factor: float = pydantic.Field(10.0, gt=0, description="The update is multiplied by this.")

    def distort(self, update: Vectors) -> None:
        """Multiply the parameters; buffers stay."""
        update.parameters.mul_(self.factor)


AnyPoison = Annotated[LabelFlip | NoiseFeatures | SignFlip | Scaled, pydantic.Field(discriminator="kind")]
"""Type of a field that holds any poison's options."""
