"""Enlist in a Flower federation: you keep your strategy, and a selector chooses the nodes. See `docs/flower.md`.

    from enlist.flower import with_selector

    strategy = with_selector(FedAdam(), "tempo", k=20, deadline=60.0, folder="~/enlist-state")
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=50)

The modules, in reading order:

    wrapper       with_selector, the one line that changes in an app; terms: its arguments, including deadlines
    selecting     Selecting: Flower's loop, from the start to the result
    rounds/       training: choose, send, wait, aggregate, tell; buffered: the same without waiting for all;
                  round: the state of one round; evaluations: by clients
    federation    nodes as the selector's clients; nodes: which is which; selector: where the selector comes from
    grid          the open messages
    replies/      reply and arrays: what comes back; updates: what it changes, in time or late; trust: what to believe
    strategies    which strategies can be wrapped, and how; privacy: matching noise, secure aggregation
    saving/       folder: where a run is stored; checkpoint, decisions and tables: what it contains
    client, keys  the client's side; fake: a grid for tests
    legacy        the old API; personal: a model for one node

Importing this package loads neither PyTorch nor, until it is used, the server side: a ClientApp starts a process for
every message, and needs only `enlist.flower.client`.
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
    from enlist.flower.grid import NoNodesError
    from enlist.flower.rounds.round import NoUpdateError, RoundResult
    from enlist.flower.saving.decisions import replay
    from enlist.flower.selecting import Selecting
    from enlist.flower.terms import MovingAverage, Percentile
    from enlist.flower.wrapper import with_selector

_PLACES = {
    "MovingAverage": "terms",
    "NoNodesError": "grid",
    "NoUpdateError": "rounds.round",
    "Percentile": "terms",
    "RoundResult": "rounds.round",
    "Selecting": "selecting",
    "replay": "saving.decisions",
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
