"""What is sent to worker processes, including classes defined in a script or a notebook."""

from __future__ import annotations

import contextlib
import importlib.machinery
import pickle
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from enlist.errors import InputError


def packed(thing: Any, kinds: Iterable[Any] = ()) -> bytes:
    """An object as bytes for `pickle.loads` in one of our processes; classes it cannot import are sent by value.

    Parameters
    ----------
    thing : Any
        What to send. It is never written to disk.
    kinds : iterable
        The user's classes and functions that are part of it; anything else here is ignored.

    >>> class Own:
    ...     pass
    >>> pickle.loads(packed(Own)).__name__
    'Own'
    """
    own = [kind for kind in kinds if hasattr(kind, "__qualname__") and not _importable(kind)]
    try:
        import cloudpickle
    except ImportError:  # it comes with the extra "sim"; the arena works without it
        if own:
            raise InputError(
                f"{own[0].__qualname__} cannot be imported by other processes; pip install cloudpickle, so that it can "
                "be sent to them, or use jobs=1."
            ) from None
        return pickle.dumps(thing)
    with _by_value(own):
        found: bytes = cloudpickle.dumps(thing)
    return found


@contextlib.contextmanager
def _by_value(kinds: Iterable[Any]) -> Iterator[None]:
    """Send what is needed of modules that only this process can import, instead of naming them."""
    import cloudpickle

    names = {kind.__module__ for kind in kinds} & set(sys.modules) - {"__main__"}
    modules = [sys.modules[name] for name in names - set(cloudpickle.list_registry_pickle_by_value())]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _importable(kind: Any) -> bool:
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        return False
    path, package = None, ""
    for part in kind.__module__.split("."):
        package = f"{package}.{part}" if package else part
        try:
            found = importlib.machinery.PathFinder.find_spec(package, path)
            path = list(found.submodule_search_locations or []) if found else None
        except KeyError:  # part of a package without __init__.py that was not imported here
            return False
        if found is None:
            return package in sys.builtin_module_names
    return True
