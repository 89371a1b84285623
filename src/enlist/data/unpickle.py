"""Reads pickles from others without running their code: plain values, and what the caller allows by name."""

from __future__ import annotations

import functools
import io
import os
import pickle
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from enlist.errors import InputError

Allowed = Mapping[tuple[str, str], Callable[..., Any]]
"""(module, name) as the pickle spells it -> its replacement here."""

NOTHING: Allowed = types.MappingProxyType({})


def load(path: str | os.PathLike[str], allowed: Allowed = NOTHING, encoding: str = "ASCII") -> Any:
    """The value in a pickle file: dict, list, tuple, set, int, float, str, bytes, bool, None, and `allowed` globals.

    A pickle names functions that reading it would call. Here a name is looked up only in `allowed`, so a hostile file
    can do no more than those functions do. `encoding` reads the strings that Python 2 wrote, as in
    `pickle.load`.

    >>> import pathlib, pickle, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "capacity.pkl")
    ...     _ = path.write_bytes(pickle.dumps({1: {"bandwidth": 2.5}}))
    ...     load(path)
    {1: {'bandwidth': 2.5}}
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{os.fspath(path)} cannot be read: {error.strerror or error}.") from None
    return loads(content, os.fspath(path), allowed, encoding)


def loads(content: bytes, source: str, allowed: Allowed = NOTHING, encoding: str = "ASCII") -> Any:
    """The value in the bytes of a pickle; errors begin with `source`.

    >>> loads(b"cposix\\nsystem\\n(S'ls'\\ntR.", "bad.pkl")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: bad.pkl asks for posix.system, which is not allowed (only plain values are); ...
    """
    reader = _Reader(io.BytesIO(content), encoding=encoding)
    reader.source, reader.allowed = source, allowed
    try:
        return reader.load()
    except InputError:
        raise
    except Exception as error:  # damaged bytes are wrong instructions: they can raise anything
        raise InputError(
            f"{source} is not a readable pickle ({type(error).__name__}: {error}); it may be truncated, or of another "
            "kind."
        ) from None


class _Reader(pickle.Unpickler):
    source: str
    allowed: Allowed

    def find_class(self, module: str, name: str) -> Any:
        found = self.allowed.get((module, name)) or _PLAIN.get((module, name))
        if found is None:
            others = ", ".join(f"{owner}.{word}" for owner, word in sorted(self.allowed))
            known = f"allowed: {others}" if others else "only plain values are"
            raise InputError(
                f"{self.source} asks for {module}.{name}, which is not allowed ({known}); "
                "use a file from a source that you trust."
            )
        # A pickle may also set attributes on what it names, so functions are wrapped for it.
        return functools.partial(found) if isinstance(found, types.FunctionType) else found

    def persistent_load(self, pid: Any) -> Any:
        raise InputError(f"{self.source} refers to the object {pid!r} outside the file; save it without such links.")


def _bytes(*parts: Any) -> bytes:
    """How Python 3 writes bytes for Python 2: `_codecs.encode(text, "latin1")`, or `bytes()` if empty."""
    if not parts:
        return b""
    if len(parts) == 2 and isinstance(parts[0], str) and parts[1] in ("latin1", b"latin1"):
        return parts[0].encode("latin1")
    raise ValueError("bytes are written in an unknown way")


def _set(items: Iterable[Any] = ()) -> set[Any]:
    return set(items)


def _frozenset(items: Iterable[Any] = ()) -> frozenset[Any]:
    return frozenset(items)


_PLAIN: Allowed = types.MappingProxyType(
    {
        ("_codecs", "encode"): _bytes,
        **{
            (module, name): maker
            for module in ("builtins", "__builtin__")
            for name, maker in (("set", _set), ("frozenset", _frozenset), ("bytes", _bytes))
        },
    }
)
