"""Which engine: by its name, as the command line and Python take it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from enlist.engine.interface import Engine
from enlist.engine.local import local
from enlist.errors import InputError

LOCAL, RAY, CLIENT = "local", "ray", "ray://"
AnyEngine = str | Engine | None
"""An engine, or its name: "local", "ray", or "ray://host:10001"."""


@contextlib.contextmanager
def chosen(given: AnyEngine, jobs: int = 1, cpus: float = 1.0) -> Iterator[Engine]:
    """The engine of a name; it is closed in the end, unless it was given as an object.

    jobs   local processes; on Ray, tasks at once, of which 0 and 1 are as many as there are processors for
    cpus   processors that a task on Ray takes

    >>> with chosen("local", jobs=2) as engine:
    ...     engine.separate
    True
    >>> with chosen("slurm") as engine:
    ...     pass
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: engine is 'slurm'; give 'local', 'ray' (a cluster that RAY_ADDRESS names, or this ...
    """
    if isinstance(given, Engine):
        yield given
        return
    with made(given, jobs, cpus) as engine:
        yield engine


def made(name: str | None, jobs: int, cpus: float = 1.0) -> Engine:
    """A new engine of this name.

    >>> made(None, 1).separate
    False
    """
    if name is None or name == LOCAL:
        return local(jobs)
    if not on_ray(name):
        raise InputError(
            f"engine is {name!r}; give 'local', 'ray' (a cluster that RAY_ADDRESS names, or this machine), or "
            "'ray://host:10001'."
        )
    from enlist.engine.ray import RayEngine

    return RayEngine(None if name == RAY else name, jobs=0 if jobs <= 1 else jobs, cpus=cpus)


def on_ray(name: AnyEngine) -> bool:
    """Whether this is the name of an engine on Ray.

    >>> on_ray("ray://head:10001"), on_ray("local"), on_ray(None)
    (True, False, False)
    """
    return isinstance(name, str) and (name == RAY or (name.startswith(CLIENT) and len(name) > len(CLIENT)))
