"""The user's own code for training and evaluation: a loss, an optimiser of the clients, metrics."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import cloudpickle
import pydantic
import torch
from torch import Tensor, nn

from enlist._internal.importing import full_name, imported, source_digest
from enlist._internal.options import GrownOptions, Options
from enlist.errors import InputError
from enlist.training.local import LocalTraining
from enlist.training.precision import Precision

Loss = Callable[[Tensor, Tensor], Tensor]
"""(outputs, targets) of a batch -> the loss of each sample, (n,)."""


class Code(Options):
    """A class or function of yours: where it is, and with which keyword arguments it is called.

    In a file `"module:name"` is short for `{factory = "module:name"}`; from Python, pass the object itself. It is
    searched for on Python's path and in the current folder.

    >>> Code.of(nn.CrossEntropyLoss).name
    'CrossEntropyLoss'
    """

    factory: str = pydantic.Field(
        pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d][\w.<>]*$", description="Where it is: 'package.module:name'."
    )
    options: dict[str, Any] = pydantic.Field({}, description="Keyword arguments of the call.")
    source: str | None = pydantic.Field(
        None, description="Digest of its source, written by Enlist; a run continues only with the same."
    )
    _object: Any = pydantic.PrivateAttr(None)

    @classmethod
    def of(cls, given: Any, **options: Any) -> Code:
        """A class or function, passed as an object, with keyword arguments.

        >>> Code.of(nn.CrossEntropyLoss()).factory
        Traceback (most recent call last):
        ...
        enlist.errors.InputError: CrossEntropyLoss() is neither a class nor a function; pass one of these, with its ...
        """
        if not (isinstance(given, type) or inspect.isroutine(given)):
            raise InputError(
                f"{given!r:.80} is neither a class nor a function; pass one of these, with its arguments as "
                "Code.of(it, name=value): a run folder must be able to record what it was."
            )
        if given.__name__ == "<lambda>":
            raise InputError(f"{full_name(given)} is a lambda, which has no name to record; define a function.")
        made: Code = cls(factory=full_name(given), options=options)
        made._object = given
        return made

    @classmethod
    def taken(cls, given: Any) -> Any:
        """A configuration's value, or an object, as these options; anything else as it is."""
        if isinstance(given, str):
            return {"factory": given}
        return cls.of(given) if callable(given) and not isinstance(given, Options) else given

    @property
    def name(self) -> str:
        """Its name, without the module."""
        return self.factory.rpartition(":")[2].rpartition(".")[2]

    def found(self, owner: str) -> Any:
        """The class or function itself, which is imported; `owner` is the key that names it."""
        return self._object or imported(self.factory, owner)

    def recorded(self, owner: str) -> Code:
        """The same with the digest of its source, for a run folder."""
        return self.model_copy(update={"source": source_digest(self.found(owner))})

    def called(self, owner: str) -> Any:
        """A function with its options set; a class is called with them, and returns an object to call."""
        found = self.found(owner)
        try:
            return found(**self.options) if isinstance(found, type) else functools.partial(found, **self.options)
        except TypeError as error:
            raise InputError(f"{owner}: {self.factory} cannot be called with {self.options}: {error}.") from None


class Training(GrownOptions, LocalTraining):
    """How clients train: SGD on cross-entropy or the squared error, or a loss and an optimiser of yours.

    >>> Training(loss="mine:focal").loss.factory
    'mine:focal'
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"loss", "optimiser", "precision"})

    loss: Code | None = pydantic.Field(
        None,
        description="Your own loss, 'module:name' or a table, called with outputs and targets of a batch; it gives "
        "one loss per sample. If not given, cross-entropy, in a regression the squared error.",
    )
    optimiser: Code | None = pydantic.Field(
        None,
        description="Your own optimiser, such as 'torch.optim:Adam', or a table, called with the parameters and lr; "
        "every client starts afresh in every round. If not given, SGD.",
    )

    precision: Precision = pydantic.Field(
        "float32",
        description="'bf16' computes convolutions and products of training in bfloat16, which is faster where the "
        "processor has instructions for it; weights, sums and evaluations stay float32. Results differ from float32's.",
    )

    @pydantic.field_validator("loss", "optimiser", mode="before")
    @classmethod
    def _code(cls, given: Any) -> Any:
        return Code.taken(given)

    @pydantic.model_validator(mode="after")
    def _one_optimiser(self) -> Training:
        for key in ("momentum", "weight_decay"):
            if self.optimiser is not None and getattr(self, key):
                raise ValueError(
                    f"{key} belongs to SGD, but optimiser is {self.optimiser.factory}; set it in optimiser.options."
                )
        return self

    def code(self) -> tuple[str, ...]:
        """The user's code that training imports, as "module:name"."""
        return tuple(code.factory for code in (self.loss, self.optimiser) if code is not None)

    def without_code(self) -> Training:
        """A copy without the user's loss and optimiser: a training job gets these separately, by value if necessary."""
        return self.model_copy(update={"loss": None, "optimiser": None})

    def own(self, module: nn.Module, shape: Sequence[int], classes: int) -> dict[str, Any]:
        """The user's loss and optimiser, tried out on two samples of zeros, as a training job takes them."""
        found: dict[str, Any] = {}
        if self.loss is not None:
            loss = self.loss.called("training.loss")
            _try_loss(loss, self.loss, module, shape, classes)
            found["loss"] = ByValue(loss)
        if self.optimiser is not None:
            made = functools.partial(self.optimiser.found("training.optimiser"), **self.optimiser.options)
            _try_optimiser(made, self.optimiser)
            found["optimiser"] = ByValue(made)
        return found


class ByValue:
    """A callable that other processes get by value if they cannot import it; it is never written to disk.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(ByValue(lambda x: x + 1)))(2)
    3
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.call(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (cloudpickle.dumps(self.call),)


def _received(content: bytes) -> ByValue:
    return ByValue(cloudpickle.loads(content))


class OwnStep:
    """One step of the user's optimiser, which starts afresh for every client and round.

    >>> weight = nn.Parameter(torch.ones(1))
    >>> OwnStep(torch.optim.SGD, 0.5, 0.0, [weight])([torch.tensor([2.0])])
    >>> weight.item()
    0.0
    """

    def __init__(self, make: Callable[..., Any], rate: float, prox: float, parameters: Sequence[Tensor]) -> None:
        self.parameters, self.prox = list(parameters), prox
        self.base = [parameter.detach().clone() for parameter in self.parameters] if prox else self.parameters
        self.optimiser = make(self.parameters, lr=rate)

    def __call__(self, gradients: Sequence[Tensor | None]) -> None:
        """Move the weights; a parameter that was not used has no gradient."""
        for parameter, gradient, base in zip(self.parameters, gradients, self.base, strict=True):
            parameter.grad = gradient
            if self.prox and gradient is not None:
                parameter.grad = gradient.add(parameter.detach() - base, alpha=self.prox)
        self.optimiser.step()
        for parameter in self.parameters:
            parameter.grad = None


def _try_loss(loss: Loss, code: Code, module: nn.Module, shape: Sequence[int], classes: int) -> None:
    training = module.training
    module.eval()
    with torch.no_grad():
        outputs = module(torch.zeros(2, *shape))
    module.train(training)
    targets = torch.zeros(2, dtype=torch.int64 if classes else torch.float32)
    outputs = outputs if classes else outputs.reshape(targets.shape)
    try:
        with torch.random.fork_rng(devices=[]):
            found = loss(outputs.requires_grad_(), targets)
    except Exception as error:  # whatever the user's code raises
        raise InputError(
            f"training.loss: {code.factory} fails on outputs {tuple(outputs.shape)} and 2 targets: {error}"
        ) from error
    got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if got != (2,):
        raise InputError(
            f"training.loss: {code.factory} gives {got} for a batch of 2; it must give one loss per sample, (2,). "
            "PyTorch's losses do so with reduction = 'none'."
        )
    if not found.requires_grad:
        raise InputError(f"training.loss: {code.factory} gives a loss without a gradient; compute it with PyTorch.")


def _try_optimiser(make: Callable[..., Any], code: Code) -> None:
    parameter = nn.Parameter(torch.zeros(2))
    try:
        OwnStep(make, 0.1, 0.0, [parameter])([torch.ones(2)])
    except Exception as error:  # whatever the user's code raises
        raise InputError(
            f"training.optimiser: {code.factory} fails on its first step: {error}. It is called with the parameters "
            "and lr, and must return an object whose step() changes them."
        ) from error
