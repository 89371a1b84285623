"""How much memory PyTorch's tensors take at once, to the byte."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class PeakMemory(TorchDispatchMode):
    """Counts the bytes of all tensors created inside the block, and how many there were at most at once.

    Exact and the same on every machine, also where a step takes less than the pages that an operating system counts.
    It sees tensors of forward and backward passes, but not what a kernel needs internally.

    >>> with PeakMemory() as memory:
    ...     for _ in range(3):
    ...         _ = torch.ones(100) + torch.ones(100)
    >>> memory.peak <= 4 * 4 * 100
    True
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._inside: set[int] = set()
        self._outside: dict[int, torch.UntypedStorage] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run one operation and count what it has created."""
        for storage in _storages((args, kwargs)):
            if id(storage) not in self._inside:
                self._outside[id(storage)] = storage  # held, so that no new one gets its id
        made = function(*args, **(kwargs or {}))
        for storage in _storages(made):
            if id(storage) not in self._inside and id(storage) not in self._outside:
                self._inside.add(id(storage))
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._freed, id(storage), storage.nbytes())
        return made

    def _freed(self, identity: int, size: int) -> None:
        self._inside.discard(identity)
        self.now -= size


def _storages(values: Any) -> list[torch.UntypedStorage]:
    if isinstance(values, torch.Tensor):
        return [values.untyped_storage()]
    if isinstance(values, Mapping):
        values = tuple(values.values())
    if isinstance(values, tuple | list):
        return [storage for value in values for storage in _storages(value)]
    return []
