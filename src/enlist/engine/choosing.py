"""Choosing an engine by its name, for the command line and Python."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import urllib.parse
from collections.abc import Iterator

from enlist.engine.interface import Engine
from enlist.engine.local import local
from enlist.errors import InputError

LOCAL, RAY, CLIENT = "local", "ray", "ray://"
AnyEngine = str | Engine | None
"""An engine, or its name: "local", "ray", or "ray://host:10001", perhaps with options: "ray?gpus=0.25"."""


@contextlib.contextmanager
def chosen(given: AnyEngine, jobs: int = 1, cpus: float = 1.0) -> Iterator[Engine]:
    """The engine of a name; it is closed at the end, unless it was given as an object.

    jobs   local processes; on Ray, tasks at once, where 0 and 1 mean as many as there are processors for
    cpus   processors that a task on Ray takes, unless the name says so

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
    wanted = ray_options(name)
    if wanted is None:
        raise InputError(
            f"engine is {name!r}; give 'local', 'ray' (a cluster that RAY_ADDRESS names, or this machine), or "
            "'ray://host:10001'."
        )
    from enlist.engine.ray import RayEngine

    return RayEngine(
        wanted.address,
        jobs=0 if jobs <= 1 else jobs,
        cpus=cpus if wanted.cpus is None else wanted.cpus,
        gpus=wanted.gpus,
        working_dir=wanted.working_dir,
    )


@dataclasses.dataclass(frozen=True)
class RayOptions:
    """The parts of the name of an engine on Ray: where the cluster is, what a task takes, and the folder that travels.

    >>> RayOptions(None).gpus
    0.0
    """

    address: str | None
    cpus: float | None = None
    gpus: float = 0.0
    working_dir: str | None = None


def ray_options(name: AnyEngine) -> RayOptions | None:
    """The options in the name of an engine on Ray; None if it is another engine.

    >>> ray_options("ray://head:10001?gpus=0.25&working_dir=.")
    RayOptions(address='ray://head:10001', cpus=None, gpus=0.25, working_dir='.')
    >>> ray_options("local") is None
    True
    >>> ray_options("ray?gpu=1")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: engine is 'ray?gpu=1'; its options are cpus, gpus and working_dir, as in 'ray?gpus=0.25'.
    """
    if not isinstance(name, str):
        return None
    start, _, query = name.partition("?")
    if start != RAY and not (start.startswith(CLIENT) and len(start) > len(CLIENT)):
        return None
    given = urllib.parse.parse_qsl(query, keep_blank_values=True)
    options = dict(given)
    if set(options) - {"cpus", "gpus", "working_dir"} or len(options) < len(given) or (query and not given):
        raise InputError(
            f"engine is {name!r}; its options are cpus, gpus and working_dir, as in '{start}?gpus=0.25'."
        )  # fmt: skip
    folder = options.get("working_dir")
    if folder is not None and not os.path.isdir(folder):
        raise InputError(f"engine is {name!r}; working_dir must be a folder, but {folder!r} is not one.")
    cpus = None if "cpus" not in options else _amount(name, "cpus", options["cpus"])
    gpus = 0.0 if "gpus" not in options else _amount(name, "gpus", options["gpus"])
    return RayOptions(None if start == RAY else start, cpus, gpus, folder)


def _amount(name: str, option: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf or (found > 1 and found != int(found)):
        raise InputError(
            f"engine is {name!r}; {option} must be a fraction such as 0.25, or a whole number, but is {text!r}."
        )
    return found


def on_ray(name: AnyEngine) -> bool:
    """Whether this is the name of an engine on Ray.

    >>> on_ray("ray://head:10001"), on_ray("ray?cpus=2"), on_ray("local"), on_ray(None)
    (True, True, False, False)
    """
    return ray_options(name) is not None
