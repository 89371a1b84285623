"""One client reports absurd numbers; the others must carry on as if nothing had happened."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray
from enlist.clients import CLIENT_COLUMNS, Clients
from enlist.contract import Selector
from enlist.records import FEEDBACK_COLUMNS, Feedback, Outcome, RoundMetrics, Selection
from enlist.testing.world import SelectorType, context, feedback, population

ABSURD = 7
"""The position of the client that reports nonsense."""
EXTREMES = (1.7e308, 1e15, 5e-324, -1.7e308)
NEVER_NEGATIVE = ("latency", "num_examples", "upload_latency", "loss_rms", "update_norm", "energy")
ROUNDS, CLIENTS, K = 50, 12, 3


def one_absurd_client(kind: SelectorType) -> None:
    """One client reports extreme values: the others stay selectable, their state finite, and nothing is raised.

    Every column that the selector needs, and all columns at once, for 50 rounds each, with values from the largest
    float to the smallest; and with a client that declares such numbers up front.

    >>> from enlist.selectors import get
    >>> one_absurd_client(get("random"))
    """
    clients = population(CLIENTS)
    needs = kind(clients).needs
    columns = [name for name in ("latency", *FEEDBACK_COLUMNS, "update") if name in needs]
    columns += sorted(name for name in needs if name.startswith("context."))
    rounds = {name.removeprefix("round.") for name in needs if name.startswith("round.")}
    usual = _endure(kind, clients, 1.0, set(), set(), least=0)
    for value in EXTREMES:
        for spoiled in [*({name} for name in columns), {"latency", *FEEDBACK_COLUMNS, "update"}]:
            _endure(kind, clients, value, spoiled, rounds, least=usual // 2)
        if value > 0:
            _endure(kind, _declared(clients, value), value, set(), set(), least=usual // 2)


def _endure(kind: SelectorType, clients: Clients, value: float, spoiled: set[str], rounds: set[str], least: int) -> int:
    """Fifty rounds; returns how many of the other clients are selected at all, which must be `least` or more."""
    said = f"client {ABSURD} says {value:g} for {', '.join(sorted(spoiled | rounds)) or 'its columns'}"
    selector = kind(clients, seed=3)
    before = {path: np.array(leaf) for path, leaf in selector.state.leaves() if _number(leaf)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for number in range(1, ROUNDS + 1):
            picked = selector.ask(k=K, now=10.0 * number, **_told(selector, number, value, spoiled))
            asked = len(picked)
            assert asked == K or (kind.may_choose_fewer and asked), f"{said}: round {number} selects {asked} of {K}"
            absurd = bool((picked.clients == ABSURD).any())
            metrics = dict.fromkeys(rounds, value if absurd else 0.3 + 0.001 * number)
            selector.tell(picked, _reply(picked, value, spoiled), RoundMetrics(**{"accuracy": 0.5, **metrics}))
        repr(selector)
    honest = np.delete(selector.counts.selected, ABSURD)
    different = int((honest > 0).sum())
    assert different >= least, f"{said}: only {different} others are selected at all"
    assert honest.sum() >= ROUNDS, f"{said}: the others have {honest.sum()} of {K * ROUNDS} slots"
    for path in _spoiled(selector, before):
        raise AssertionError(f"{said}: '{path}' of other clients is no longer finite")
    return different


def _told(selector: Selector[Any, Any], number: int, value: float, spoiled: set[str]) -> dict[str, Any]:
    """The context of an ask, if there is any."""
    told = context(selector, number) or {}
    for name in told:
        if f"context.{name}" in spoiled:
            told[name][ABSURD] = value
    return {"context": told} if told else {}


def _reply(picked: Selection, value: float, spoiled: set[str]) -> Feedback:
    reply = feedback(picked)
    columns: dict[str, Any] = {
        name: getattr(reply, name) for name in ("outcome", "latency", "censored", *FEEDBACK_COLUMNS, "update")
    }
    where = np.flatnonzero(picked.clients == ABSURD)
    columns["outcome"][where], columns["censored"][where] = Outcome.COMPLETED, False
    columns["latency"][where] = 5.0
    for name in spoiled & columns.keys():
        columns[name][where] = abs(value) if name in NEVER_NEGATIVE else value
    return Feedback(**columns)


def _declared(clients: Clients, value: float) -> Clients:
    """The same clients, one of which declares extreme numbers up front."""
    columns: dict[str, AnyArray] = {name: np.array(values) for name, values in clients.columns().items()}
    for name in (*CLIENT_COLUMNS, "features", "label_counts"):
        columns[name][ABSURD] = min(value, 1.0) if name == "quality" else value
    return Clients(feature_names=clients.feature_names, **columns)  # type: ignore[arg-type]


def _number(leaf: Any) -> bool:
    return np.asarray(leaf).dtype.kind == "f"


def _spoiled(selector: Selector[Any, Any], before: dict[str, AnyArray]) -> Iterator[str]:
    """Entries of the state that have become NaN or infinite; those unknown from the start do not count."""
    for path, leaf in selector.state.leaves():
        if not _number(leaf):
            continue
        now, was = np.array(leaf), before.get(path)
        wrong = ~np.isfinite(now)
        if was is not None and was.shape == now.shape:
            wrong &= ~((now == was) | (np.isnan(now) & np.isnan(was)))
        if now.ndim and len(now) == len(selector.clients):
            wrong[ABSURD] = False
        if wrong.any():
            yield path
