"""What a selector declares it needs, and the error if it is missing.

A need is a column of Feedback by its bare name, or `clients.`, `round.` or `context.NAME`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.typing import FloatArray
from enlist.errors import MissingColumnError


def fields(needs: Iterable[str], owner: str) -> Iterator[str]:
    """The needed columns of one owner, sorted; the owner of Feedback's columns is "".

    >>> list(fields({"loss", "clients.features", "latency"}, ""))
    ['latency', 'loss']
    """
    for need in sorted(needs):
        whose, _, name = need.rpartition(".")
        if whose == owner:
            yield name


def check_clients(selector: str, needs: Iterable[str], clients: Any) -> None:
    """Refuse a population without a column that is needed.

    >>> from enlist.clients import Clients
    >>> check_clients("fedcs", {"clients.expected_latency"}, Clients(count=3))
    Traceback (most recent call last):
    ...
    enlist.errors.MissingColumnError: selector 'fedcs' needs clients.expected_latency; pass ...
    """
    for name in fields(needs, "clients"):
        if getattr(clients, name) is None:
            raise MissingColumnError(f"selector '{selector}' needs clients.{name}; pass Clients({name}=...).")


def check_feedback(selector: str, needs: Iterable[str], feedback: Any) -> None:
    """Refuse feedback without a column that is needed.

    >>> from enlist.records import Feedback
    >>> check_feedback("oort", {"loss"}, Feedback(latency=[1.0]))
    Traceback (most recent call last):
    ...
    enlist.errors.MissingColumnError: selector 'oort' needs loss; pass Feedback(loss=...).
    """
    for name in fields(needs, ""):
        if getattr(feedback, name) is None:
            raise MissingColumnError(f"selector '{selector}' needs {name}; pass Feedback({name}=...).")


def checked_context(
    selector: str, needs: Iterable[str], context: Mapping[str, ArrayLike], population: int
) -> dict[str, FloatArray]:
    """The context of an ask as columns, one value per client; an error if a needed one is missing.

    >>> checked_context("eafl", {"context.battery"}, {"battery": [0.5, 1]}, 2)
    {'battery': array([0.5, 1. ])}
    """
    for name in fields(needs, "context"):
        if name not in context:
            hint = f"pass ask(context={{'{name}': ...}})."
            raise MissingColumnError(f"selector '{selector}' needs context.{name}; {hint}")
    return {
        name: checks.number_column("context", name, values, population, missing=True)
        for name, values in context.items()
    }


def refuse_without_round(selector: str, needs: Iterable[str]) -> None:
    """Refuse to end a round without the server's measurements, if they are needed.

    >>> refuse_without_round("tifl", {"round.accuracy"})
    Traceback (most recent call last):
    ...
    enlist.errors.MissingColumnError: selector 'tifl' needs round.accuracy; pass round=RoundMetrics(accuracy=...).
    """
    for name in fields(needs, "round"):
        hint = f"pass round=RoundMetrics({name}=...)."
        raise MissingColumnError(f"selector '{selector}' needs round.{name}; {hint}")
