"""Running many things through one interface: in this process, in a pool of local processes, or on Ray."""

from __future__ import annotations

from enlist._internal import aliases
from enlist.engine.children import Child, patience
from enlist.engine.choosing import AnyEngine, chosen, on_ray
from enlist.engine.interface import REPLACED, Actor, Engine, Result, Task, TaskContext, Work
from enlist.engine.leftovers import clean, temporary_folder
from enlist.engine.local import Pool, ThisProcess, local
from enlist.engine.starting import (
    context,
    have_children,
    keep_freed_memory,
    one_core,
    serve_parent,
    start_early,
    yield_to_parent,
)

__all__ = [
    "REPLACED",
    "Actor",
    "AnyEngine",
    "Child",
    "Engine",
    "Pool",
    "Result",
    "Task",
    "TaskContext",
    "ThisProcess",
    "Work",
    "chosen",
    "clean",
    "context",
    "have_children",
    "keep_freed_memory",
    "local",
    "on_ray",
    "one_core",
    "patience",
    "serve_parent",
    "start_early",
    "temporary_folder",
    "yield_to_parent",
]

__getattr__ = aliases.former_names(__name__)
