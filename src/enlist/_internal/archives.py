"""Reads .npz archives made by others: sizes are checked against the file before memory is allocated.

The header of an array may claim any shape, and NumPy allocates all of it before reading. Here a member is read only if
it is a plain .npy array, not encrypted, and no larger than the file can hold: deflate compresses at most 1032 times.
"""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from os import PathLike
from typing import IO

import numpy as np

from enlist._internal.typing import AnyArray

MOST_SHRUNK = 1032
"""The largest compression ratio of deflate."""


def read_arrays(source: str | PathLike[str] | IO[bytes]) -> dict[str, AnyArray]:
    """The arrays of an .npz file by name; anything wrong with it raises a short ValueError.

    >>> import io
    >>> buffer = io.BytesIO()
    >>> np.savez(buffer, x=np.arange(3))
    >>> read_arrays(buffer)
    {'x': array([0, 1, 2])}
    """
    if isinstance(source, str | PathLike) and not os.path.isfile(source):
        raise ValueError("it is not a plain file")
    try:
        with zipfile.ZipFile(source) as archive:
            arrays: dict[str, AnyArray] = {}
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise ValueError(f"it holds '{name:.60}' twice")
                arrays[name] = _array(archive, member)
            return arrays
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"it is not an .npz archive, or it is damaged ({error})") from None
    except (ArithmeticError, LookupError, SyntaxError, TypeError, UnicodeError, zlib.error) as error:
        raise ValueError(f"one of its arrays is damaged ({error})") from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> AnyArray:
    name = member.filename
    if member.flag_bits & 1:
        raise ValueError(f"'{name:.60}' is encrypted")
    if not name.endswith(".npy"):
        raise ValueError(f"'{name:.60}' is not an array")
    if member.file_size > MOST_SHRUNK * member.compress_size + 64:
        raise ValueError(f"'{name:.60}' claims {member.file_size} bytes in {member.compress_size}")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(file)
    if dtype.hasobject:
        raise ValueError(f"'{name:.60}' holds Python objects. Object arrays cannot be loaded")
    claimed = math.prod(shape) * dtype.itemsize
    if claimed > member.file_size:
        raise ValueError(f"'{name:.60}' claims {claimed} bytes, but holds {member.file_size}")
    with archive.open(member) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
