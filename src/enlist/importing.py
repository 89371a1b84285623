"""Code of the user's: imported by "module:name", and told apart by its source."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import sys
import textwrap
import types
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
            f"{owner}: there is no module '{module_name}', neither in {here} nor where Python looks; check the name, "
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


def source_digest(found: Any) -> str:
    """A digest of the source of a class or function, and of the classes of the user's that it inherits from.

    It is that of the compiled code where there is no source, as in `python -c`.

    >>> class Empty:
    ...     pass
    >>> len(source_digest(Empty))
    64
    """
    family = [found]
    if isinstance(found, type):
        base = full_name(found).partition(".")[0]
        family = [each for each in found.__mro__ if each is found or _same_project(each, base)]
    text = "\n".join(_source(each) for each in family)
    return hashlib.sha256(text.encode()).hexdigest()


def _same_project(kind: type, base: str) -> bool:
    return kind.__module__.partition(".")[0] == base.partition(":")[0] and kind.__module__ not in ("builtins", "abc")


def _source(found: Any) -> str:
    with contextlib.suppress(OSError, TypeError, IndentationError):
        return textwrap.dedent(inspect.getsource(found))
    parts = vars(found).values() if isinstance(found, type) else [found]
    codes = [getattr(getattr(part, "__func__", part), "__code__", None) for part in parts]
    return "\n".join(_compiled(code) for code in codes if code is not None)


def _compiled(code: types.CodeType) -> str:
    constants = [_compiled(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]
    return f"{code.co_name} {code.co_code.hex()} {code.co_names} {constants}"
