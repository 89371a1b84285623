"""Code of the user's: imported by "module:name", and told apart by its source."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from enlist.errors import InputError, did_you_mean


def imported(place: str, owner: str, what: str = "class or function") -> Any:
    """What stands at "module:name", looked for where Python looks and in the current folder.

    Parameters
    ----------
    place : str
        "package.module:Name"; the name may have dots.
    owner : str
        Who needs it, for errors, such as "model 'python'".
    what : str
        What is looked for, for errors.

    >>> imported("json:dumps", "an example")([1])
    '[1]'
    >>> imported("json:dump_s", "an example")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: an example: module 'json' has no class or function 'dump_s'. Did you mean 'dumps'?
    """
    module_name, _, name = place.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        # It stays: worker processes inherit the path, and need it to import the class when they receive an object.
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InputError(
            f"{owner}: there is no module '{module_name}', neither in {here} nor on Python's path; check the name, "
            "or run where it lies."
        ) from None
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        hint = did_you_mean(name, vars(module))
        raise InputError(f"{owner}: module '{module_name}' has no {what} '{name}'.{hint}")
    return found


def full_name(found: Any) -> str:
    """module:name of a class or function.

    >>> full_name(textwrap.dedent)
    'textwrap:dedent'
    """
    return f"{found.__module__}:{found.__qualname__}"


def source_digest(*found: Any) -> str:
    """A digest of the source of classes and functions, and of the classes of the user's that they inherit from or hold.

    It is that of the compiled code where there is no source, as in `python -c`. A class is read method by method:
    Python finds the source of a class by its name, and in a notebook or a script that defines it twice not the right
    one.

    >>> class Empty:
    ...     pass
    >>> len(source_digest(Empty))
    64
    """
    text = "\n".join(part for each in found for part in _parts(each, each.__module__.partition(".")[0], set()))
    return hashlib.sha256(text.encode()).hexdigest()


GENERATED = frozenset({
    "__annotations__", "__dict__", "__doc__", "__firstlineno__", "__match_args__", "__module__", "__parameters__",
    "__qualname__", "__static_attributes__", "__weakref__", "registered",
})  # fmt: skip
"""What Python or Enlist put into a class, and texts that change nothing."""


def _parts(found: Any, project: str, seen: set[Any]) -> Iterator[str]:
    if not isinstance(found, type):
        yield _source(found)
        return
    for kind in found.__mro__:
        if kind in seen or (kind is not found and kind.__module__.partition(".")[0] != project):
            continue
        seen.add(kind)
        # A class that was sent to another process keeps neither where it was defined nor the order of its attributes.
        yield f"class {kind.__name__}"
        for name, value in sorted(vars(kind).items()):
            if name not in GENERATED:
                yield from _attribute(name, value, project, seen)


def _attribute(name: str, value: Any, project: str, seen: set[Any]) -> Iterator[str]:
    inner = getattr(value, "__func__", getattr(value, "fget", getattr(value, "func", value)))
    if isinstance(value, type) and value.__module__.partition(".")[0] == project:
        yield from _parts(value, project, seen)
    elif isinstance(inner, types.FunctionType):
        if not (name.startswith("__") and inner.__code__.co_filename == "<string>"):  # what dataclasses write
            yield _source(inner)
    elif (plain := _plain(value)) is not None:
        yield f"{name} = {plain}"


def _plain(value: Any) -> str | None:
    """Numbers, text and collections of them, written the same way in every process."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, list | tuple | set | frozenset):
        items = [_plain(each) or "" for each in value]
        return repr(sorted(items) if isinstance(value, set | frozenset) else items)
    if isinstance(value, Mapping):
        return repr([(_plain(key), _plain(each)) for key, each in value.items()])
    return None


def _source(function: Any) -> str:
    with contextlib.suppress(OSError, TypeError, IndentationError):
        return textwrap.dedent(inspect.getsource(function))
    code = getattr(function, "__code__", None)
    return _compiled(code) if code is not None else type(function).__qualname__


def _compiled(code: types.CodeType) -> str:
    constants = [_compiled(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]
    return f"{code.co_name} {code.co_code.hex()} {code.co_names} {constants}"
