"""A user's own model: any `nn.Module` that can be imported."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any, Literal

import pydantic
import torch
from torch import Tensor, nn

from enlist.errors import InputError
from enlist.training.models.base import ModelOptions, outputs


class PythonModel(ModelOptions):
    """Your own module: a class, or a function that returns one, called with `options`.

    It is looked for where Python looks and in the current folder. It must return (n, classes) logits, or (n,) or
    (n, 1) predictions of a regression; a first batch of zeros checks that. Give it an attribute `memory_format =
    torch.channels_last` if it is faster so, and `uses_randomness = True` if it draws numbers in ways other than
    dropout layers.

    >>> options = {"in_features": 4, "out_features": 3}
    >>> PythonModel(factory="torch.nn:Linear", options=options).build((4,), 3)
    Linear(in_features=4, out_features=3, bias=True)
    """

    name: Literal["python"] = "python"
    factory: str = pydantic.Field(
        pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$", description="Where it is: 'package.module:Name'."
    )
    options: dict[str, Any] = pydantic.Field({}, description="Keyword arguments of the call.")

    def code(self) -> tuple[str, ...]:
        """The factory."""
        return (self.factory,)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Imports and calls the factory, and tries the module out."""
        factory = self._factory()
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

    def _factory(self) -> Any:
        module_name, _, name = self.factory.partition(":")
        here = str(Path.cwd())
        if here not in sys.path:
            # It stays: worker processes inherit the path, and need it to import the class when they receive a module.
            sys.path.append(here)
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise
            raise InputError(
                f"model 'python': there is no module '{module_name}', neither in {here} nor where Python looks; "
                "check the name, or run where it lies."
            ) from None
        factory = getattr(module, name, None)
        if not callable(factory):
            nearest = difflib.get_close_matches(name, vars(module), n=1, cutoff=0.5)
            hint = f" Did you mean '{nearest[0]}'?" if nearest and nearest[0] != name else ""
            raise InputError(f"model 'python': module '{module_name}' has no class or function '{name}'.{hint}")
        return factory

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
