"""Flower's wrappers for differential privacy: the noise must fit the averaged updates, not the selected nodes.

A wrapper adds noise of deviation z C / n to the average of n updates that are clipped to norm C, where n is set once.
If fewer updates are averaged, each counts for more, and the noise is too small for the promised guarantee.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator
from typing import Any

from flwr.serverapp.strategy import Strategy

from enlist import selectors
from enlist.errors import EnlistError, InputError
from enlist.flower.grid import LOGGER, NoNodesError
from enlist.flower.selector import SelectorSource
from enlist.flower.strategies import UNWEIGHED, innermost, levels
from enlist.flower.terms import Terms
from enlist.privacy import Privacy, needed_for, privacy_of

SAMPLED = "num_sampled_clients"
UNEVEN = 1.01
"""An update may count this many times an even share before the log warns that the noise does not cover it."""


def wrappers(strategy: Any) -> list[Any]:
    """The strategies that add noise for a given number of clients.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> wrappers(FedAvg())
    []
    """
    return [level for level in levels(strategy) if getattr(level, SAMPLED, None) is not None]


def accounted(strategy: Any) -> bool:
    """Whether one of them accounts for the privacy spent, for exactly the number of clients that was set.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> accounted(FedAvg())
    False
    """
    return any(getattr(level, "accountant", None) is not None for level in wrappers(strategy))


def check(strategy: Any, terms: Terms) -> None:
    """Refuse terms under which the guarantee of a wrapper would not hold.

    >>> from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping as Private
    >>> from flwr.serverapp.strategy import FedAvg
    >>> check(Private(FedAvg(), 0.5, 1.0, num_sampled_clients=10), Terms(k=10, over_commit=1.3))
    >>> check(Private(FedAvg(), 0.5, 1.0, num_sampled_clients=13), Terms(k=10, over_commit=1.3))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: ...adds noise for num_sampled_clients=13 updates, but a round ends with k=10 of them...
    """
    for wrapper in wrappers(strategy):
        name, sampled = type(wrapper).__name__, getattr(wrapper, SAMPLED)
        if terms.buffered:
            raise InputError(
                f"{name} clips and adds noise to updates of one version of the model, and mode='buffered' averages "
                "updates of several; use mode='synchronous'."
            )
        if sampled != terms.k and not terms.shadow:  # in shadow mode Flower samples as usual
            raise InputError(
                f"{name} adds noise for {SAMPLED}={sampled} updates, but a round ends with k={terms.k} of them; make "
                f"{SAMPLED} and k equal."
            )
        if getattr(wrapper, "accountant", None) is None:
            continue
        if terms.number_to_ask != terms.k:
            raise InputError(
                f"{name} counts the privacy spent in its accountant, for exactly {sampled} updates of {sampled} "
                f"nodes, but {terms.number_to_ask} nodes would be asked; leave out over_commit=, or the accountant."
            )
        if terms.folder is not None:
            raise InputError(
                f"{name} counts the privacy spent in its accountant, which a folder cannot save, so a resumed run "
                "would spend too much; leave out folder=, or the accountant."
            )


def check_asked(strategy: Any, count: int) -> None:
    """Refuse a round with fewer nodes than its accountant expects, at which Flower would end the run.

    >>> from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping as Private
    >>> from flwr.serverapp.strategy import FedAvg
    >>> private = Private(FedAvg(), 0.5, 1.0, num_sampled_clients=10)
    >>> check_asked(private, 7)
    >>> private.accountant = object()
    >>> check_asked(private, 7)
    Traceback (most recent call last):
    ...
    enlist.flower.grid.NoNodesError: ...has an accountant for 10 nodes in every round, and 7 can be asked...
    """
    for wrapper in wrappers(strategy):
        wanted = getattr(wrapper, SAMPLED)
        if getattr(wrapper, "accountant", None) is not None and count != wanted:
            raise NoNodesError(
                f"{type(wrapper).__name__} has an accountant for {wanted} nodes in every round, and {count} can be "
                f"asked; make {SAMPLED} and k smaller, or wait longer: with_selector(..., patience=...)."
            )


@contextlib.contextmanager
def noise_for(strategy: Strategy, count: int) -> Iterator[None]:
    """Let wrappers add the noise that `count` updates need; one with an accountant skips a round of another number.

    >>> from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping as Private
    >>> from flwr.serverapp.strategy import FedAvg
    >>> strategy = Private(FedAvg(), 0.5, 1.0, num_sampled_clients=10)
    >>> with noise_for(strategy, 7):
    ...     print(strategy.num_sampled_clients)
    7
    >>> strategy.num_sampled_clients
    10
    """
    found = [] if accounted(strategy) or not count else wrappers(strategy)
    told = [getattr(wrapper, SAMPLED) for wrapper in found]
    for wrapper, before in zip(found, told, strict=True):
        if before != count:
            LOGGER.info("enlist: %s adds noise for %d updates, not %d", type(wrapper).__name__, count, before)
        setattr(wrapper, SAMPLED, count)
    try:
        yield
    finally:
        for wrapper, before in zip(found, told, strict=True):
            setattr(wrapper, SAMPLED, before)


def unevenness(strategy: Strategy, weights: Collection[float]) -> float:
    """How many times an even share the heaviest update counts, if noise is added as if all counted equally; else 1.

    >>> from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping as Private
    >>> from flwr.serverapp.strategy import FedAvg
    >>> unevenness(Private(FedAvg(), 0.5, 1.0, 2), [10.0, 30.0]), unevenness(FedAvg(), [10.0, 30.0])
    (1.5, 1.0)
    """
    if not wrappers(strategy) or isinstance(innermost(strategy), UNWEIGHED) or not weights or not sum(weights):
        return 1.0
    return max(weights) * len(weights) / sum(weights)


def check_secure(source: SelectorSource) -> None:
    """Refuse a selector that needs values of single clients, which secure aggregation hides.

    >>> check_secure(SelectorSource.of("tempo", None, None, seed=0))
    >>> check_secure(SelectorSource.of("oort", None, None, seed=0))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: selector 'oort' needs loss_rms of single clients, which secure aggregation hides from...
    """
    seen = sorted(column for column in source.needs if privacy_of(column) == Privacy.INDIVIDUAL)
    if seen:
        raise InputError(
            f"selector '{source.name}' needs {' and '.join(seen)} of single clients, which secure aggregation hides "
            f"from the server; choose one that does not need them: {', '.join(secure_names())}."
        )


@functools.cache
def secure_names() -> tuple[str, ...]:
    """Selectors that need nothing of single clients except the time of their reply.

    >>> "random" in secure_names(), "oort" in secure_names()
    (True, False)
    """
    found = []
    for name in selectors.names():
        with contextlib.suppress(EnlistError):
            if needed_for(SelectorSource.of(name, None, None, 0).needs) < Privacy.INDIVIDUAL:
                found.append(name)
    return tuple(found)
