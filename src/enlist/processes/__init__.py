"""Worker processes: how they are started, watched and replaced; nothing of them outlives whoever started them."""

from __future__ import annotations

from enlist.processes.children import REPLACED, Child, patience
from enlist.processes.leftovers import clean, temporary_folder
from enlist.processes.pool import in_processes
from enlist.processes.sending import packed
from enlist.processes.starting import context, have_children, keep_freed_memory, one_core, serve_parent, yield_to_parent

__all__ = [
    "REPLACED",
    "Child",
    "clean",
    "context",
    "have_children",
    "in_processes",
    "keep_freed_memory",
    "one_core",
    "packed",
    "patience",
    "serve_parent",
    "temporary_folder",
    "yield_to_parent",
]
