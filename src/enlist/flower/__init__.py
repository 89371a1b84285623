"""Enlist in a Flower federation: the user's strategy stays, the selector chooses the nodes. `docs/flower.md` explains.

    from enlist.flower import with_selector

    strategy = with_selector(FedAdam(), "tempo", k=20, deadline=60.0, folder="~/enlist-state")
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=50)

Importing it brings in neither PyTorch nor, before it is used, the server's side: a ClientApp starts a process for
every message, and `enlist.flower.client` is all that it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    import flwr.app  # noqa: F401
except ModuleNotFoundError:
    raise ImportError("enlist.flower needs Flower: pip install 'enlist[flower]'") from None

from enlist.flower import client

if TYPE_CHECKING:
    from enlist.flower.deadlines import MovingAverage, Percentile
    from enlist.flower.grid import NoNodesError
    from enlist.flower.progress import NoUpdateError
    from enlist.flower.replaying import replay
    from enlist.flower.strategy import Selecting
    from enlist.flower.telling import RoundResult
    from enlist.flower.wrapper import with_selector

_PLACES = {
    "MovingAverage": "deadlines",
    "NoNodesError": "grid",
    "NoUpdateError": "progress",
    "Percentile": "deadlines",
    "RoundResult": "telling",
    "Selecting": "strategy",
    "replay": "replaying",
    "with_selector": "wrapper",
}

__all__ = [
    "MovingAverage",
    "NoNodesError",
    "NoUpdateError",
    "Percentile",
    "RoundResult",
    "Selecting",
    "client",
    "replay",
    "with_selector",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'enlist.flower' has no attribute {name!r}")
    return getattr(importlib.import_module(f"enlist.flower.{_PLACES[name]}"), name)
