"""Memory that processes share: tensors of zeros that have no name, so that nothing is left behind.

On Linux they are anonymous (`memfd_create`), and the size of /dev/shm, 64 MB in a container, does not matter. Where a
sandbox forbids that, they lie in /dev/shm if it has room, else in an unnamed file in the temporary folder. The
numbers in them are the same everywhere.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import tempfile

import torch
from torch import Tensor

from enlist.errors import EnlistError

SHARED = "/dev/shm"
SPARE = 2**20
"""Bytes of /dev/shm that are left free for others."""

SAID: set[str] = set()
"""Folders whose use in place of shared memory has been reported: once is enough."""
LOGGER = logging.getLogger("enlist")


def shared_zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Zeros in memory that processes share: pickled to another process, they are the same numbers there.

    >>> numbers = shared_zeros(2, 3)
    >>> numbers.is_shared(), numbers.sum()
    (True, tensor(0.))
    """
    count = math.prod(shape)
    if sys.platform != "linux" or not count:
        return torch.zeros(*shape, dtype=dtype).share_memory_()  # type: ignore[no-untyped-call, no-any-return]
    descriptor = _reserved(count * dtype.itemsize)
    try:
        # As PyTorch itself rebuilds a tensor that another process has sent; it keeps a descriptor of its own.
        storage = torch.UntypedStorage._new_shared_fd_cpu(descriptor, count * dtype.itemsize)  # type: ignore[attr-defined]
    finally:
        os.close(descriptor)
    return torch.empty(0, dtype=dtype).set_(storage, 0, shape)  # type: ignore[call-overload, no-any-return]


def shared_copy(tensor: Tensor) -> Tensor:
    """The same numbers in memory that processes share.

    >>> shared_copy(torch.arange(3))
    tensor([0, 1, 2])
    """
    copy = shared_zeros(*tensor.shape, dtype=tensor.dtype)
    copy.copy_(tensor)
    return copy


def _reserved(size: int) -> int:
    """A file of this size without a name: writing into it cannot fail later."""
    for make in (_anonymous, _in_shared_memory, _on_disk):
        descriptor = make(size)
        if descriptor is None:
            continue
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            os.close(descriptor)
            continue
        return descriptor
    raise EnlistError(
        f"worker processes share {_megabytes(size)}, for which there is no room: {SHARED} has "
        f"{_megabytes(_free(SHARED))} left, {tempfile.gettempdir()} {_megabytes(_free(tempfile.gettempdir()))}. Make "
        "room (in Docker: docker run --shm-size=2g), name a larger folder in TMPDIR, or train in one process with "
        "--workers 0."
    )


def _anonymous(size: int) -> int | None:
    with contextlib.suppress(OSError, AttributeError):
        return os.memfd_create("enlist", os.MFD_CLOEXEC)
    return None


def _in_shared_memory(size: int) -> int | None:
    if _free(SHARED) < size + SPARE:
        return None
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=SHARED) as file:
        return os.dup(file.fileno())
    return None


def _on_disk(size: int) -> int | None:
    if _free(tempfile.gettempdir()) < size + SPARE:
        return None
    with contextlib.suppress(OSError), tempfile.TemporaryFile() as file:
        _say_so(_megabytes(size), _megabytes(_free(SHARED)), tempfile.gettempdir())
        return os.dup(file.fileno())
    return None


def _say_so(needed: str, left: str, folder: str) -> None:
    if folder in SAID:
        return
    SAID.add(folder)
    LOGGER.warning(
        "worker processes share %s, and %s has %s left: a file in %s takes its place, which may be slower; the results "
        "are the same. More shared memory avoids it (in Docker: docker run --shm-size=2g).",
        needed, SHARED, left, folder,
    )  # fmt: skip


def _free(folder: str) -> int:
    """Bytes that this user can still write there."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
