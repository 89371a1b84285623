"""What all model options share: the base class, shapes of inputs and outputs, and initialisation from a stream."""

from __future__ import annotations

import abc
import math

import torch
from torch import nn

from enlist._internal.options import Options
from enlist.errors import InputError
from enlist.streams import Streams

MOST_PARAMETERS = 2**31
"""Maximum number of parameters of a model, by design: 8 GB of weights, of which a round keeps several copies."""


class ModelOptions(Options, abc.ABC):
    """Options of a model: what a configuration says of it, and `build`, which makes the module.

    A module takes a batch (n, *shape) and returns (n, classes) logits, or (n, 1) for a regression (`classes` = 0). Its
    attribute `memory_format`, if there is one, says which layout of its inputs is the fastest.

    >>> class Constant(ModelOptions):
    ...     name: str = "constant"
    ...     def build(self, shape, classes):
    ...         return nn.Sequential(nn.Flatten(), nn.Linear(inputs(shape), outputs(classes)))
    >>> Constant().build((1, 2, 2), 3)(torch.zeros(5, 1, 2, 2)).shape
    torch.Size([5, 3])
    """

    name: str

    def code(self) -> tuple[str, ...]:
        """The user's code that building it imports, as "module:name"."""
        return ()

    @abc.abstractmethod
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A new module for samples of this shape; its weights come from PyTorch's global generator."""


def initialise(options: ModelOptions, shape: tuple[int, ...], classes: int, streams: Streams) -> nn.Module:
    """A module whose weights come from the stream "model" alone; PyTorch's global generator is left as it was.

    >>> from enlist.training.models.dense import MLP
    >>> first, second = (initialise(MLP(hidden=(4,)), (3,), 2, Streams(1)) for _ in range(2))
    >>> all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters()))
    True
    """
    if options.name != "python":  # the user's own module is built once, and only once
        check_size(options, shape, classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(streams.number("model"))
        return options.build(tuple(shape), classes)


def check_size(options: ModelOptions, shape: tuple[int, ...], classes: int) -> None:
    """Refuse a model that is too large, before memory is allocated for it: it is built without any.

    >>> from enlist.training.models.dense import MLP
    >>> check_size(MLP(hidden=(10**9,)), (784,), 10)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: model 'mlp' would have 795,000,000,010 parameters (3180.0 GB); at most ...
    """
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            parameters = sum(part.numel() for part in options.build(tuple(shape), classes).parameters())
    except InputError:
        raise
    except (RuntimeError, OverflowError, TypeError) as error:
        if "overflow" not in str(error).lower():
            raise
        raise InputError(f"model '{options.name}' is too large to be counted; lower its sizes.") from None
    if parameters > MOST_PARAMETERS:
        raise InputError(
            f"model '{options.name}' would have {parameters:,} parameters ({4e-9 * parameters:.1f} GB); at most "
            f"{MOST_PARAMETERS:,} are allowed: lower its sizes, or those of the samples."
        )


def inputs(shape: tuple[int, ...]) -> int:
    """How many numbers one sample has.

    >>> inputs((1, 28, 28))
    784
    """
    return math.prod(shape)


def outputs(classes: int) -> int:
    """Width of the last layer: one number per class, or the prediction of a regression.

    >>> outputs(10), outputs(0)
    (10, 1)
    """
    return classes or 1


def image(name: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width of one sample, for models that need images.

    >>> image("cnn", (153,))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: model 'cnn' needs images (channels, height, width), but samples have shape (153,); ...
    """
    if len(shape) != 3:
        raise InputError(
            f"model '{name}' needs images (channels, height, width), but samples have shape {tuple(shape)}; "
            "use 'mlp' or 'logistic', or image data."
        )
    channels, height, width = shape
    return channels, height, width


def he_normal(module: nn.Module) -> None:
    """Draw convolutions from a normal distribution of variance 2 / fan-out (He et al. 2015), as residual nets need.

    >>> convolution = nn.Conv2d(64, 128, 3)
    >>> he_normal(convolution)
    >>> round(float(convolution.weight.detach().std() * (128 * 9 / 2) ** 0.5), 1)
    1.0
    """
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
