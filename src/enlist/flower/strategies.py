"""Which strategies can be wrapped, and how they are made to sample every node that they can see."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import random
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    Bulyan,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    Krum,
    MultiKrum,
    QFedAvg,
    Strategy,
)

from enlist.errors import InputError
from enlist.flower.terms import Terms

SAMPLING = {"fraction_train": 1.0, "min_train_nodes": 1, "min_available_nodes": 1}
"""With these, FedAvg and similar strategies sample every node of the grid that they get."""

DATA = (ArrayRecord, ConfigRecord, MetricRecord, RecordDict, bytearray, random.Random, np.random.Generator)
DATA_MODULES = ("builtins", "collections")

METHODS = ("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate", "summary")

UNWEIGHED = (FedMedian, FedTrimmedAvg, Krum, MultiKrum, Bulyan, QFedAvg, FedXgbBagging, FedXgbCyclic)
"""Strategies whose result is not a weighted average, so a late reply cannot be merged with less weight."""


class Forwarding:
    """A wrapper that forwards attributes to its strategies for reading and setting, unless it has them itself.

    >>> class Wrapper(Forwarding):
    ...     def __init__(self, strategy):
    ...         self.strategy, self._made = strategy, True
    ...
    ...     def _holders(self, name):
    ...         return [self.strategy] if hasattr(self.strategy, name) else []
    >>> from flwr.serverapp.strategy import FedAvg
    >>> wrapper = Wrapper(FedAvg())
    >>> wrapper.fraction_train = 0.5
    >>> wrapper.strategy.fraction_train, wrapper.fraction_train
    (0.5, 0.5)
    """

    _made = False
    """Whether all attributes of the wrapper itself are set."""

    def _holders(self, name: str) -> list[Any]:
        """The strategies that have an attribute."""
        raise NotImplementedError

    def _changed(self, name: str) -> None:
        """An attribute of the strategies was set."""

    if not TYPE_CHECKING:  # else a misspelt name would go unnoticed

        def __getattr__(self, name: str) -> Any:
            """Read from the strategies what the wrapper does not have."""
            for holder in self._holders(name) if self._made and not name.startswith("__") else ():
                return getattr(holder, name)
            raise AttributeError(f"neither {type(self).__name__} nor its strategy has an attribute {name!r}")

        def __setattr__(self, name: str, value: Any) -> None:
            """Set attributes that the wrapper does not have in the strategies that have them."""
            own = not self._made or name in vars(self) or hasattr(type(self), name)
            holders = [] if own or name.startswith("__") else self._holders(name)
            for holder in holders:
                setattr(holder, name, value)
            if holders:
                self._changed(name)
            else:
                super().__setattr__(name, value)


def is_strategy(value: object) -> bool:
    """Whether an object has the methods of a strategy, whatever it is derived from; classes do not count.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> is_strategy(FedAvg()), is_strategy(FedAvg), is_strategy(None)
    (True, False, False)
    """
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in METHODS)


def held_by(strategy: Any) -> str | None:
    """The attribute in which a strategy holds the one that samples nodes for it; None if it samples itself.

    Flower's wrappers call it `strategy`. Other wrappers are recognised by what they hold: a single strategy, and no
    sampling attributes of their own.

    >>> from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping as Private
    >>> from flwr.serverapp.strategy import FedAvg
    >>> held_by(Private(FedAvg(), 0.5, 1.0, 10)), held_by(FedAvg())
    ('strategy', None)
    """
    own = vars(strategy) if hasattr(strategy, "__dict__") else {}
    if is_strategy(own.get("strategy")):
        return "strategy"
    if any(name in own or hasattr(type(strategy), name) for name in SAMPLING):
        return None
    found = [name for name, value in own.items() if is_strategy(value)]
    return found[0] if len(found) == 1 else None


def levels(strategy: Any) -> list[Any]:
    """The strategy and those nested in it, from the outermost to the one that samples nodes.

    >>> from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping as Private
    >>> from flwr.serverapp.strategy import FedAvg
    >>> [type(level).__name__ for level in levels(Private(FedAvg(), 0.5, 1.0, 10))]
    ['DifferentialPrivacyClientSideFixedClipping', 'FedAvg']
    """
    name = held_by(strategy)
    return [strategy] if name is None else [strategy, *levels(getattr(strategy, name))]


def innermost(strategy: Any) -> Any:
    """The strategy that samples nodes, inside wrappers such as Flower's for privacy.

    >>> from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping as Private
    >>> from flwr.serverapp.strategy import FedAvg
    >>> type(innermost(Private(FedAvg(), 0.5, 1.0, 10))).__name__
    'FedAvg'
    """
    return levels(strategy)[-1]


def copied(strategy: Strategy) -> Strategy:
    """A copy, including nested strategies and the data that they hold, so that the user's own is not changed.

    Functions and other objects, such as a tracker or a lock, are shared; a method of the strategy itself becomes that
    of the copy.

    >>> from flwr.serverapp.strategy import FedAdam
    >>> strategy = FedAdam()
    >>> strategy.m_t = {"w": np.ones(2)}
    >>> twin = copied(strategy)
    >>> twin is strategy, twin.m_t is strategy.m_t, twin.m_t["w"] is strategy.m_t["w"]
    (False, False, False)
    """
    twin: Strategy = _copied(strategy, {})
    return twin


def _copied(value: Any, known: dict[int, Any]) -> Any:
    """A copy of data and strategies; `known` maps the ids of copied objects to their copies."""
    twin: Any
    if id(value) in known:
        return known[id(value)]
    if is_strategy(value) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        known[id(value)] = twin = copy.copy(value)
        for name, own in (vars(value) if hasattr(value, "__dict__") else {}).items():
            object.__setattr__(twin, name, _copied(own, known))
        return twin
    if isinstance(value, types.MethodType):
        return types.MethodType(value.__func__, known.get(id(value.__self__), value.__self__))
    if isinstance(value, dict | list | set | collections.deque) and type(value).__module__ in DATA_MODULES:
        known[id(value)] = twin = copy.copy(value)
        for key, own in value.items() if isinstance(value, dict) else ():
            twin[key] = _copied(own, known)
        if isinstance(value, list | collections.deque):  # the elements of a set are immutable
            twin.clear()
            twin.extend(_copied(own, known) for own in value)
        return twin
    if type(value) is tuple:
        return tuple(_copied(own, known) for own in value)
    if isinstance(value, DATA) or hasattr(value, "__array__"):  # NumPy's, PyTorch's and the like
        with contextlib.suppress(RuntimeError, TypeError):  # PyTorch copies no tensor that is part of a graph
            known[id(value)] = copy.deepcopy(value)
    return known.get(id(value), value)


def prepared(strategy: Strategy) -> Strategy:
    """A copy that samples every node that it can see.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> prepared(FedAvg(fraction_train=0.1, min_train_nodes=5)).min_train_nodes
    1
    """
    twin = copied(strategy)
    vars(innermost(twin)).update(SAMPLING)
    return twin


@contextlib.contextmanager
def fewer_evaluators(strategy: Strategy, count: int) -> Iterator[None]:
    """Temporarily lower a strategy's minimum number of nodes for an evaluation to `count`.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> strategy = FedAvg(min_evaluate_nodes=5)
    >>> with fewer_evaluators(strategy, 3):
    ...     print(strategy.min_evaluate_nodes)
    3
    >>> strategy.min_evaluate_nodes
    5
    """
    base = innermost(strategy)
    wanted = getattr(base, "min_evaluate_nodes", None)
    if wanted is None or wanted <= count:
        yield
        return
    base.min_evaluate_nodes = count
    try:
        yield
    finally:
        base.min_evaluate_nodes = wanted


def weight_key(strategy: Strategy) -> str:
    """The key by which the strategy weights replies.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> weight_key(FedAvg(weighted_by_key="n"))
    'n'
    """
    return str(getattr(innermost(strategy), "weighted_by_key", "num-examples"))


def any_shape(strategy: Strategy) -> bool:
    """Whether arrays of replies naturally differ in shape, as trees do.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> any_shape(FedXgbBagging()), any_shape(FedAvg())
    (True, False)
    """
    return isinstance(innermost(strategy), FedXgbBagging | FedXgbCyclic)


def check(strategy: Any, terms: Terms) -> None:
    """Refuse a strategy that cannot be wrapped, with the reason in one sentence.

    >>> check(FedXgbCyclic(), Terms(k=3))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: FedXgbCyclic trains one node per round, so it takes a selector with k=1, not k=3.
    """
    name = type(strategy).__name__
    if not is_strategy(strategy):
        raise InputError(f"strategy is {strategy!r}; pass a strategy of flwr.serverapp.strategy, such as FedAvg().")
    if getattr(type(strategy), "start", Strategy.start) is not Strategy.start:
        own = "has a selector already" if hasattr(strategy, "federation") else "has a start() of its own"
        raise InputError(
            f"{name} {own}, and with_selector brings its own start(); move that code into on_round=, evaluate_fn or "
            "the methods that aggregate, and wrap the result."
        )
    base = innermost(strategy)
    missing = [attribute for attribute in SAMPLING if not hasattr(base, attribute)]
    if missing:
        raise InputError(
            f"{type(base).__name__} has no {missing[0]}, which is needed to make it ask exactly the selected nodes; "
            "derive it from FedAvg, or add that attribute and respect it."
        )
    if base.fraction_train == 0:
        raise InputError(f"{name} has fraction_train=0, so no node can be selected for training; set it above 0.")
    if terms.buffered and any_shape(strategy):
        raise InputError(f"{name} merges trees, which have no differences to add up; use mode='synchronous'.")
    if isinstance(base, FedXgbCyclic) and terms.number_to_ask != 1:
        raise InputError(f"{name} trains one node per round, so it takes a selector with k=1, not k={terms.k}.")
    if terms.late == "merge" and (isinstance(base, UNWEIGHED) or base is not strategy):
        raise InputError(
            f"{name} does not average replies by weight, so a late reply cannot be merged with less weight; use "
            "late='learn' or late='drop'."
        )


def undercut(strategy: Strategy, terms: Terms) -> list[tuple[str, str, int]]:
    """Floors of the strategy that the terms undercut: (attribute, what applies instead, its value).

    >>> from flwr.serverapp.strategy import FedAvg
    >>> undercut(FedAvg(min_train_nodes=5), Terms(k=3))
    [('min_train_nodes', 'k=3', 5)]
    """
    base, found = innermost(strategy), []
    if terms.shadow:
        return []
    if base.min_train_nodes > terms.number_to_ask and not isinstance(base, FedXgbCyclic):
        found.append(("min_train_nodes", f"k={terms.k}", int(base.min_train_nodes)))
    if terms.min_nodes is not None and terms.min_nodes < base.min_available_nodes:
        found.append(("min_available_nodes", f"min_nodes={terms.min_nodes}", int(base.min_available_nodes)))
    return found


def check_weighable(strategy: Strategy, name: str, late: str) -> None:
    """Refuse a selector's weights if the strategy does not average by weight, or also averages late replies.

    >>> from flwr.serverapp.strategy import FedMedian
    >>> check_weighable(FedMedian(), "clustered", "learn")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: selector 'clustered' weighs updates itself, and FedMedian does not average by weight...
    """
    base = innermost(strategy)
    if isinstance(base, UNWEIGHED) or base is not strategy:
        raise InputError(
            f"selector '{name}' weighs updates itself, and {type(strategy).__name__} does not average by weight; use "
            "FedAvg or a similar strategy, or another selector."
        )
    if late == "merge":
        raise InputError(
            f"selector '{name}' weighs updates itself, so a late reply has no weight to be merged with; use "
            "late='learn' or late='drop'."
        )
