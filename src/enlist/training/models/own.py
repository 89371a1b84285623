"""A user's own model: any `nn.Module` that can be imported."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import pydantic
import torch
from torch import Tensor, nn

from enlist._internal.importing import full_name, imported, source_digest
from enlist.errors import InputError
from enlist.training.models.base import ModelOptions, outputs


class PythonModel(ModelOptions):
    """Your own module: a class, or a function that returns one, called with `options`.

    It is searched for on Python's path and in the current folder. It must return (n, classes) logits, or (n,) or
    (n, 1) predictions of a regression; a first batch of zeros checks that. Give it an attribute `memory_format =
    torch.channels_last` if that makes it faster, and `uses_randomness = True` if it draws random numbers other than in
    dropout layers.

    >>> options = {"in_features": 4, "out_features": 3}
    >>> PythonModel(factory="torch.nn:Linear", options=options).build((4,), 3)
    Linear(in_features=4, out_features=3, bias=True)
    """

    name: Literal["python"] = "python"
    factory: str = pydantic.Field(
        pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d][\w.<>]*$", description="Where it is: 'package.module:Name'."
    )
    options: dict[str, Any] = pydantic.Field({}, description="Keyword arguments of the call.")
    source: str | None = pydantic.Field(None, description="Digest of its source, if it was passed from Python.")
    _object: Any = pydantic.PrivateAttr(None)

    @classmethod
    def of(cls, factory: Any) -> PythonModel:
        """A class, or a function that returns a module, passed as an object.

        >>> PythonModel.of(nn.Identity).factory
        'torch.nn.modules.linear:Identity'
        """
        made = cls(factory=full_name(factory), source=source_digest(factory))
        made._object = factory
        return made

    def code(self) -> tuple[str, ...]:
        """The factory."""
        return (self.factory,)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Imports and calls the factory, and tries the module out."""
        factory = self._object or imported(self.factory, "model 'python'")
        try:
            inspect.signature(factory).bind(**self.options)
        except TypeError as error:
            given = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
            raise InputError(f"model 'python': {self.factory} cannot be called with ({given}): {error}.") from None
        module = factory(**self.options)
        if not isinstance(module, nn.Module):
            raise InputError(
                f"model 'python': {self.factory} gives a {type(module).__name__}; it must be, or return, an nn.Module."
            )
        self._try_out(module, shape, classes)
        return module

    def _try_out(self, module: nn.Module, shape: tuple[int, ...], classes: int) -> None:
        training = module.training
        module.eval()
        try:
            with torch.no_grad():
                found = module(torch.zeros(2, *shape))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise InputError(
                f"model 'python': {self.factory} fails on a batch of shape {(2, *shape)}: {error}"
            ) from error
        module.train(training)
        allowed = [(2, outputs(classes))] if classes else [(2,), (2, 1)]
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        if got not in allowed:
            raise InputError(
                f"model 'python': {self.factory} returns {got} for a batch of 2; "
                f"{f'{classes} classes need' if classes else 'a regression needs'} {allowed[-1]}."
            )
