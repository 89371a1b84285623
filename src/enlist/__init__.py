"""Enlist decides which clients take part in the next round of federated learning, and learns from every round.

>>> import enlist
>>> clients = enlist.Clients(num_examples=[120, 80, 200, 40])
>>> selector = enlist.create("oort", clients, seed=7)
>>> picked = selector.ask(available=[0, 1, 3], k=2, deadline=60.0)
>>> selector.tell(picked, enlist.Feedback(latency=[12.0, 40.0], loss_rms=[1.3, 0.7]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enlist import errors
from enlist._internal import aliases
from enlist.books import Books
from enlist.clients import Clients
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import EnlistError, MissingExtraError
from enlist.methods import Method, WithSettings
from enlist.records import Feedback, Outcome, RoundMetrics, Selection
from enlist.selectors import create, load, method, names, register
from enlist.state import State, column, nested

if TYPE_CHECKING:
    from enlist.runs.groups import frame

__version__ = "0.2.0"

__all__ = [
    "Books",
    "Choice",
    "Clients",
    "EnlistError",
    "Feedback",
    "Method",
    "Observation",
    "Outcome",
    "Request",
    "RoundMetrics",
    "Selection",
    "Selector",
    "State",
    "WithSettings",
    "column",
    "create",
    "errors",
    "frame",
    "load",
    "method",
    "names",
    "nested",
    "register",
]


_former = aliases.former_names(__name__)


def __getattr__(name: str) -> Any:
    """Import `frame`, and the code that reads run folders, on first use."""
    if name != "frame":
        return _former(name)
    try:
        from enlist.runs.groups import frame
    except ModuleNotFoundError:
        raise MissingExtraError("frame", "cli") from None
    return frame
