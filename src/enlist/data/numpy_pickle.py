"""NumPy arrays of bytes in other people's pickles, without handing NumPy's own machinery to the file.

A pickled array names three globals of NumPy. Stand-ins replace them: they keep what the file says about the array and
build it only if it is a plain array of unsigned bytes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray
from enlist.data.unpickle import Allowed
from enlist.errors import InputError


class _Kind:
    """Stands in for `numpy.dtype`."""

    def __init__(self, code: Any = "", *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else str(code)

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, irrelevant for single bytes."""


class _Array:
    """Stands in for `numpy.ndarray`."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _reconstruct(*_: Any) -> _Array:
    return _Array()


NUMPY: Allowed = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
}
"""The names that `enlist.data.unpickle` may allow for a file with arrays of bytes; `values` then gives the arrays."""


def values(array: Any, source: str) -> AnyArray:
    """The array of unsigned bytes that a pickle held; errors begin with `source`.

    >>> import pickle
    >>> from enlist.data import unpickle
    >>> content = pickle.dumps(np.array([[1, 2], [3, 4]], np.uint8), protocol=2)
    >>> values(unpickle.loads(content, "batch", NUMPY), "batch")
    array([[1, 2],
           [3, 4]], dtype=uint8)
    """
    match array:
        case _Array(state=(_, tuple(shape), _Kind(code="u1"), columns_first, str() | bytes() as data)):
            content = data.encode("latin1", "replace") if isinstance(data, str) else data
            whole = all(isinstance(size, int) and size >= 0 for size in shape)
            if whole and math.prod(shape) == len(content):
                return np.frombuffer(content, np.uint8).reshape(shape, order="F" if columns_first else "C")
    raise InputError(f"{source} holds no plain array of unsigned bytes where one belongs; it is damaged.")
