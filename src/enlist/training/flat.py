"""A module as three flat vectors: parameters, float buffers (batch-norm statistics) and whole-number counters.

Loading, sending, adding and comparing models are then operations on vectors; the module's own tensors are views.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from enlist.errors import InputError
from enlist.training.memory import shared_zeros

ALIGNMENT = 16
"""Every tensor begins at a multiple of this many numbers, so that kernels find it aligned in every process alike."""


@dataclasses.dataclass(frozen=True)
class TensorPlace:
    """Where one named tensor lies in a flat vector; 4-D weights may be stored channels-last.

    >>> TensorPlace("weight", (2, 3), 0).view(torch.arange(16.0)).tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """

    name: str
    shape: tuple[int, ...]
    start: int
    channels_last: bool = False

    def view(self, vector: Tensor) -> Tensor:
        """This tensor as a view of `vector`, whose last dimension is the flat one."""
        part = vector[..., self.start : self.start + math.prod(self.shape)]
        leading = vector.shape[:-1]
        if not self.channels_last:
            return part.view((*leading, *self.shape))
        outputs, inputs, height, width = self.shape
        stored = part.view(*leading, outputs, height, width, inputs)
        return stored.movedim(-1, -3)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the tensors of a module lie in its three vectors.

    >>> layout = Layout.of(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    >>> layout.size, layout.buffer_size, layout.counter_size, layout.numbers
    (64, 32, 16, 16)
    """

    parameters: tuple[TensorPlace, ...]
    buffers: tuple[TensorPlace, ...]
    counters: tuple[TensorPlace, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """The layout of a module's parameters and buffers, in the order of its state dict."""
        channels_last = getattr(module, "memory_format", torch.contiguous_format) == torch.channels_last
        floating = [(name, buffer) for name, buffer in module.named_buffers() if buffer.is_floating_point()]
        counting = [(name, buffer) for name, buffer in module.named_buffers() if not buffer.is_floating_point()]
        parameters = list(module.named_parameters())
        for name, tensor in [*parameters, *floating]:
            if tensor.dtype != torch.float32:
                raise InputError(f"the model's '{name}' is {tensor.dtype}; parameters must be float32.")
        if not parameters:
            raise InputError("the model has no parameters; there is nothing to train.")
        return cls(_places(parameters, channels_last), _places(floating, False), _places(counting, False))

    @property
    def size(self) -> int:
        """Length of the parameter vector, gaps included."""
        return _end(self.parameters)

    @property
    def buffer_size(self) -> int:
        """Length of the vector of float buffers."""
        return _end(self.buffers)

    @property
    def counter_size(self) -> int:
        """Length of the vector of counters."""
        return _end(self.counters)

    @property
    def numbers(self) -> int:
        """How many numbers one message with this model carries."""
        return sum(math.prod(place.shape) for place in (*self.parameters, *self.buffers))

    def clear_gaps(self, model: Vectors) -> None:
        """Set the gaps between the tensors to zero: they belong to no tensor, and are not saved."""
        groups = (self.parameters, model.parameters), (self.buffers, model.buffers), (self.counters, model.counters)
        for places, vector in groups:
            end = 0
            for place in places:
                vector[..., end : place.start] = 0
                end = place.start + math.prod(place.shape)
            vector[..., end:] = 0

    def named(self, model: Vectors) -> dict[str, Tensor]:
        """A state dict, contiguous copies, as plain PyTorch loads it."""
        groups = (self.parameters, model.parameters), (self.buffers, model.buffers), (self.counters, model.counters)
        return {
            place.name: place.view(vector).clone(memory_format=torch.contiguous_format)
            for places, vector in groups
            for place in places
        }

    def load_named(self, tensors: Mapping[str, Tensor], model: Vectors) -> None:
        """Fill the vectors from a state dict; missing or misshapen tensors are refused."""
        groups = (self.parameters, model.parameters), (self.buffers, model.buffers), (self.counters, model.counters)
        for places, vector in groups:
            for place in places:
                if place.name not in tensors or tuple(tensors[place.name].shape) != place.shape:
                    given = tuple(tensors[place.name].shape) if place.name in tensors else "nothing"
                    raise InputError(f"the saved model has {given} as '{place.name}'; this model needs {place.shape}.")
                place.view(vector).copy_(tensors[place.name])


@dataclasses.dataclass(eq=False)
class Vectors:
    """A model, or an update of one, as three vectors; a leading dimension makes it a stack of them.

    >>> Vectors.zeros(Layout.of(nn.Linear(3, 2)), 5).parameters.shape
    torch.Size([5, 32])
    """

    parameters: Tensor
    buffers: Tensor
    counters: Tensor

    @classmethod
    def zeros(cls, layout: Layout, *leading: int, shared: bool = False) -> Vectors:
        """All zeros; `shared` puts them into shared memory."""
        make = shared_zeros if shared else torch.zeros
        return cls(
            make(*leading, layout.size),
            make(*leading, layout.buffer_size),
            make(*leading, layout.counter_size, dtype=torch.int64),
        )

    def __getitem__(self, index: int) -> Vectors:
        return Vectors(self.parameters[index], self.buffers[index], self.counters[index])

    def copy_(self, other: Vectors) -> None:
        """Copy the values of `other`."""
        self.parameters.copy_(other.parameters)
        self.buffers.copy_(other.buffers)
        self.counters.copy_(other.counters)

    def clear(self) -> None:
        """All zeros."""
        self.parameters.zero_()
        self.buffers.zero_()
        self.counters.zero_()

    def add(self, other: Vectors, weight: float) -> None:
        """Add `weight` times another; of counters, the larger ones are taken."""
        self.parameters.add_(other.parameters, alpha=weight)
        self.buffers.add_(other.buffers, alpha=weight)
        torch.maximum(self.counters, other.counters, out=self.counters)

    def to(self, device: torch.device) -> Vectors:
        """The same on another device."""
        return Vectors(self.parameters.to(device), self.buffers.to(device), self.counters.to(device))

    def clone(self) -> Vectors:
        """A copy that shares nothing."""
        return Vectors(self.parameters.clone(), self.buffers.clone(), self.counters.clone())


class FlatModule:
    """A module whose parameters and buffers are views of its `vectors`.

    >>> flat = FlatModule(nn.Linear(3, 2))
    >>> _ = flat.vectors.parameters.zero_()
    >>> flat.module.weight.sum().item()
    0.0
    """

    def __init__(self, module: nn.Module, device: torch.device | None = None) -> None:
        self.layout = Layout.of(module)
        self.module = module if device is None else module.to(device)
        self.vectors = Vectors.zeros(self.layout)
        if device is not None:
            self.vectors = self.vectors.to(device)
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        groups = (
            (self.layout.parameters, self.vectors.parameters),
            (self.layout.buffers, self.vectors.buffers),
            (self.layout.counters, self.vectors.counters),
        )
        with torch.no_grad():
            for places, vector in groups:
                for place in places:
                    view = place.view(vector)
                    view.copy_(state[place.name])
                    state[place.name].data = view


def _places(tensors: Iterable[tuple[str, Tensor]], channels_last: bool) -> tuple[TensorPlace, ...]:
    places: list[TensorPlace] = []
    for name, tensor in tensors:
        places.append(TensorPlace(name, tuple(tensor.shape), _end(places), channels_last and tensor.dim() == 4))
    return tuple(places)


def _end(places: Sequence[TensorPlace]) -> int:
    if not places:
        return 0
    return -(-(places[-1].start + math.prod(places[-1].shape)) // ALIGNMENT) * ALIGNMENT
