"""Server optimisers: how the mean update Δ of a round changes the global model. All work in place on flat vectors.

FedAvg (McMahan et al. 2017):     w <- w + η Δ
FedAvgM (Hsu et al. 2019):        b <- β b + Δ;   w <- w + η b
FedOpt (Reddi et al. 2021):       m <- β1 m + (1 - β1) Δ;   v as below;   w <- w + η m / (√v + τ)
    FedAdagrad  v <- v + Δ²
    FedAdam     v <- β2 v + (1 - β2) Δ²
    FedYogi     v <- v - (1 - β2) Δ² sgn(v - Δ²)

m and b start at 0, v at τ². A round without updates takes no step, so that nothing decays. Batch-norm statistics never
pass through here: they are averaged plainly (`enlist.training.aggregation.BufferMerge`).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Annotated, Literal

import pydantic
import torch
from torch import Tensor

from enlist._internal.options import Options
from enlist.errors import InputError


class ServerOptimiser:
    """A running optimiser: its memory, and the step that its options define.

    >>> optimiser = FedAvgM(lr=1.0, momentum=0.5).start(2)
    >>> weights = torch.zeros(2)
    >>> for _ in range(2):
    ...     optimiser.step(weights, torch.tensor([1.0, -2.0]))
    >>> weights, optimiser.state()["momentum"]
    (tensor([ 2.5000, -5.0000]), tensor([ 1.5000, -3.0000]))
    """

    def __init__(self, options: ServerOptions, memory: dict[str, Tensor]) -> None:
        self.options, self._memory = options, memory

    def step(self, weights: Tensor, delta: Tensor) -> None:
        """Change `weights` in place, given the mean update of a round, (parameters,) each."""
        self.options.change(weights, delta, self._memory)

    def state(self) -> dict[str, Tensor]:
        """A copy of the memory, for `restore`."""
        return {name: tensor.clone() for name, tensor in self._memory.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state; a state of another optimiser or another model is refused."""
        wanted = {name: tuple(tensor.shape) for name, tensor in self._memory.items()}
        given = {name: tuple(tensor.shape) for name, tensor in state.items()}
        if wanted != given:
            raise InputError(
                f"the saved server state holds {_listed(given)}; server optimiser '{self.options.kind}' needs "
                f"{_listed(wanted)}. Resume with the server settings and the model of the saved run."
            )
        for name, tensor in self._memory.items():
            tensor.copy_(state[name])


class ServerOptions(Options, abc.ABC):
    """Options of a server optimiser: its learning rate, its memory, and its step.

    >>> sorted(ServerOptions.model_fields)
    ['kind', 'lr']
    """

    kind: str
    lr: float = pydantic.Field(1.0, gt=0, description="Learning rate of the server (η).")

    def start(self, parameters: int) -> ServerOptimiser:
        """A fresh optimiser for a model with this many parameters."""
        return ServerOptimiser(self, self.memory(parameters))

    def memory(self, parameters: int) -> dict[str, Tensor]:
        """The memory before the first round; empty by default."""
        return {}

    @abc.abstractmethod
    def change(self, weights: Tensor, delta: Tensor, memory: dict[str, Tensor]) -> None:
        """One step: changes weights and memory in place."""


class FedAvg(ServerOptions):
    """Adds the mean update: w <- w + η Δ; η = 1 is federated averaging.

    >>> weights = torch.zeros(2)
    >>> FedAvg().start(2).step(weights, torch.tensor([1.0, -2.0]))
    >>> weights
    tensor([ 1., -2.])
    """

    kind: Literal["fedavg"] = "fedavg"

    def change(self, weights: Tensor, delta: Tensor, memory: dict[str, Tensor]) -> None:
        """One step."""
        weights.add_(delta, alpha=self.lr)


class FedAvgM(ServerOptions):
    """FedAvg with momentum: b <- β b + Δ;  w <- w + η b. With lr = 1 - momentum, steps are as long as FedAvg's.

    >>> sorted(FedAvgM().start(3).state())
    ['momentum']
    """

    kind: Literal["fedavgm"] = "fedavgm"
    momentum: float = pydantic.Field(0.9, ge=0, lt=1, description="Share of the last step that is kept (β).")

    def memory(self, parameters: int) -> dict[str, Tensor]:
        """The momentum, at 0."""
        return {"momentum": torch.zeros(parameters)}

    def change(self, weights: Tensor, delta: Tensor, memory: dict[str, Tensor]) -> None:
        """One step."""
        momentum = memory["momentum"].mul_(self.momentum).add_(delta)
        weights.add_(momentum, alpha=self.lr)


class AdaptiveOptions(ServerOptions):
    """What FedAdagrad, FedAdam and FedYogi share: w <- w + η m / (√v + τ).

    >>> FedYogi(tau=0.1).start(1).state()["second"]  # τ²
    tensor([0.0100])
    """

    beta1: float = pydantic.Field(0.9, ge=0, lt=1, description="Share of the first moment that is kept (β1).")
    tau: float = pydantic.Field(1e-3, gt=0, description="Added to √v: the larger, the less adaptive (τ).")
    v0: float | None = pydantic.Field(None, ge=0, description="Second moment before the first round; τ² if not given.")

    def memory(self, parameters: int) -> dict[str, Tensor]:
        """First and second moment."""
        second = self.tau**2 if self.v0 is None else self.v0
        return {"first": torch.zeros(parameters), "second": torch.full((parameters,), second)}

    def change(self, weights: Tensor, delta: Tensor, memory: dict[str, Tensor]) -> None:
        """One step."""
        first = memory["first"].mul_(self.beta1).add_(delta, alpha=1 - self.beta1)
        self.follow(memory["second"], delta.square())
        weights.addcdiv_(first, memory["second"].sqrt().add_(self.tau), value=self.rate(memory))

    @abc.abstractmethod
    def follow(self, second: Tensor, square: Tensor) -> None:
        """Update the second moment in place with Δ², which may be overwritten."""

    def rate(self, memory: dict[str, Tensor]) -> float:
        """The learning rate of this step."""
        return self.lr


class FedAdagrad(AdaptiveOptions):
    """FedAdagrad: v <- v + Δ². The paper sets β1 = 0 for it.

    >>> weights = torch.zeros(1)
    >>> FedAdagrad(lr=0.1, tau=1.0).start(1).step(weights, torch.tensor([4.0]))  # 0.1 * 4 / (√17 + 1)
    >>> weights
    tensor([0.0781])
    """

    kind: Literal["fedadagrad"] = "fedadagrad"
    lr: float = pydantic.Field(0.1, gt=0, description="Learning rate of the server (η).")
    beta1: float = pydantic.Field(0.0, ge=0, lt=1, description="Share of the first moment that is kept (β1).")

    def follow(self, second: Tensor, square: Tensor) -> None:
        """Add up."""
        second.add_(square)


class FedAdam(AdaptiveOptions):
    """FedAdam: v <- β2 v + (1 - β2) Δ².

    With `bias_correction` the rate of the t-th step is η √(1 - β2^t) / (1 - β1^t), as in Kingma & Ba 2015; the FedOpt
    paper has none.

    >>> FedAdam(bias_correction=True).start(1).state()["steps"]
    tensor(0)
    """

    kind: Literal["fedadam"] = "fedadam"
    lr: float = pydantic.Field(0.01, gt=0, description="Learning rate of the server (η).")
    beta2: float = pydantic.Field(0.99, ge=0, lt=1, description="Share of the second moment that is kept (β2).")
    bias_correction: bool = pydantic.Field(False, description="Correct for moments that start at zero.")

    def memory(self, parameters: int) -> dict[str, Tensor]:
        """Moments, and how many steps were taken."""
        return super().memory(parameters) | {"steps": torch.zeros((), dtype=torch.int64)}

    def follow(self, second: Tensor, square: Tensor) -> None:
        """Exponential mean."""
        second.mul_(self.beta2).add_(square, alpha=1 - self.beta2)

    def rate(self, memory: dict[str, Tensor]) -> float:
        """Counts the step, and corrects the rate if asked for."""
        steps = int(memory["steps"].add_(1))
        if not self.bias_correction:
            return self.lr
        return self.lr * math.sqrt(1 - self.beta2**steps) / (1 - self.beta1**steps)


class FedYogi(AdaptiveOptions):
    """FedYogi: v <- v - (1 - β2) Δ² sgn(v - Δ²), which lets v fall only slowly.

    >>> optimiser = FedYogi(beta2=0.9, v0=1.0).start(1)
    >>> optimiser.step(torch.zeros(1), torch.tensor([2.0]))
    >>> optimiser.state()["second"]  # 1 + 0.1 * 4
    tensor([1.4000])
    """

    kind: Literal["fedyogi"] = "fedyogi"
    lr: float = pydantic.Field(0.01, gt=0, description="Learning rate of the server (η).")
    beta2: float = pydantic.Field(0.99, ge=0, lt=1, description="Weight of the past in the second moment (β2).")

    def follow(self, second: Tensor, square: Tensor) -> None:
        """Move towards Δ² by a share of Δ²."""
        second.addcmul_(square, torch.sign(second - square), value=-(1 - self.beta2))


AnyServer = Annotated[FedAvg | FedAvgM | FedAdagrad | FedAdam | FedYogi, pydantic.Field(discriminator="kind")]
"""Type of a field that holds any server optimiser's options."""

SERVERS: dict[str, type[ServerOptions]] = {
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "fedadagrad": FedAdagrad,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
}
"""Kind in a configuration -> options class."""


def _listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in sorted(shapes.items())) or "nothing"
