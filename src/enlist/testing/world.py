"""A made-up world for the contract suite: clients with every column, replies that depend only on round and seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import needs
from enlist._internal.typing import BoolArray, FloatArray
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.records import Feedback, Outcome, RoundMetrics, Selection

SelectorType = type[Selector[Any, Any]]


def population(count: int, seed: int = 0, first_id: int = 0) -> Clients:
    """Clients that carry every column a selector may need.

    >>> len(population(5))
    5
    """
    rng = np.random.default_rng((seed, count, first_id))
    return Clients(
        ids=np.arange(first_id, first_id + count),
        num_examples=rng.integers(10, 500, count),
        features=rng.lognormal(size=(count, 3)),
        feature_names=["cpu flops", "bandwidth", "data size"],
        quality=rng.uniform(0.2, 1.0, count),
        expected_latency=rng.lognormal(1.0, 0.5, count),
        expected_upload=rng.uniform(0.05, 0.2, count),
        label_counts=rng.integers(0, 60, (count, 4)),
        energy_per_sample=rng.uniform(0.01, 0.1, count),
        energy_per_byte=rng.uniform(1e-7, 1e-6, count),
        battery=rng.uniform(5e3, 5e4, count),
    )


def context(selector: Selector[Any, Any], number: int, seed: int = 0) -> dict[str, FloatArray] | None:
    """What changes from ask to ask, if the selector needs it: one number per client and name, some of them NaN.

    >>> import enlist
    >>> context(enlist.create("random", population(3)), number=1) is None
    True
    """
    rng, count = np.random.default_rng((seed, 55, number)), len(selector.clients)
    found = {}
    for name in needs.fields(selector.needs, "context"):
        values = rng.uniform(size=count)
        if name == "battery" and selector.clients.battery is not None:
            values *= selector.clients.battery
        elif name == "charging":
            values = np.round(values)
        elif name == "bandwidth":
            values *= 1e6
        values[rng.uniform(size=count) < 0.1] = np.nan
        found[name] = values
    return found or None


def ask(selector: Selector[Any, Any], available: ArrayLike | None = None, k: int = 1, **terms: Any) -> Selection:
    """Ask a selector, with the context that it needs.

    >>> import enlist
    >>> len(ask(enlist.create("random", population(3)), k=2))
    2
    """
    told = context(selector, selector.round + 1)
    more: dict[str, Any] = {} if told is None else {"context": told}
    return selector.ask(available, k, **terms, **more)


def feedback(selection: Selection, seed: int = 0, troubled: bool = True) -> Feedback:
    """Replies to a selection that depend only on its round, its clients and the seed.

    With `troubled`, some clients are late (cut off, or past the deadline), dropped or failed, and some values are NaN.

    >>> feedback(Selection(1, np.array([3, 5]), deadline=10.0)).latency.shape
    (2,)
    """
    count = len(selection)
    rng = np.random.default_rng((seed, selection.round))
    latency = rng.uniform(0.5, 9.5, count) + 0.01 * (selection.clients % 7)
    outcome = np.full(count, Outcome.COMPLETED)
    censored = np.zeros(count, dtype=bool)
    columns = {
        "num_examples": rng.integers(10, 90, count).astype(float),
        "loss": rng.uniform(0.1, 3.0, count),
        "loss_rms": rng.uniform(0.1, 3.0, count),
        "accuracy": rng.uniform(0.1, 0.9, count),
        "accuracy_gain": rng.normal(0.02, 0.02, count),
        "upload_latency": 0.2 * latency,
        **_sketched(selection, seed),
    }
    if troubled:
        fate = rng.uniform(size=count)
        outcome[fate < 0.2] = Outcome.LATE
        outcome[(fate >= 0.2) & (fate < 0.3)] = Outcome.DROPPED
        outcome[(fate >= 0.3) & (fate < 0.35)] = Outcome.FAILED
        censored = outcome == Outcome.LATE
        latency[(fate >= 0.2) & (fate < 0.35)] = np.nan
        for values in columns.values():
            values[rng.uniform(size=count) < 0.1] = np.nan
    return Feedback(outcome=outcome, latency=latency, censored=censored, **columns)


def _sketched(selection: Selection, seed: int) -> dict[str, FloatArray]:
    """What is told about updates, from a separate stream: other columns stay as they are."""
    count, rng = len(selection), np.random.default_rng((seed, 91, selection.round))
    update = rng.normal(size=(count, 4))
    norm = np.sqrt((update**2).sum(axis=1))
    return {"update": update, "update_norm": norm, "contribution": rng.normal(size=count), "energy": 10.0 * norm}


def transcript(
    selector: Selector[Any, Any], rounds: int, k: int = 4, seed: int = 0, troubled: bool = True
) -> list[list[int]]:
    """Drive a selector for some rounds with uneven availability, late replies and amendments; returns who was selected.

    >>> import enlist
    >>> transcript(enlist.create("random", population(6), seed=1), rounds=2, k=2)
    [[2, 3], [0, 3]]
    """
    chosen = []
    for _ in range(rounds):
        number = selector.round + 1
        mask = available(len(selector.clients), number, seed)
        picked = ask(selector, mask, k, now=10.0 * number, deadline=10.0)
        chosen.append(picked.clients.tolist())
        report = feedback(picked, seed, troubled)
        metrics = RoundMetrics(accuracy=0.3 + 0.001 * number + 0.01 * math.sin(number), loss=1.0, duration=9.0)
        if troubled and number % 5 == 0:
            continue  # never told: it stays open until it expires
        selector.tell(picked, report, metrics)
        late = picked.clients[report.outcome == Outcome.LATE]
        if len(late) and number % 2:
            latency = np.full(len(late), 9.75)
            values = dict.fromkeys(("loss", "loss_rms", "accuracy", "accuracy_gain"), np.full(len(late), 0.5))
            arrived = Feedback(
                clients=late,
                outcome=np.full(len(late), Outcome.ARRIVED),
                latency=latency,
                rounds_late=np.ones(len(late)),
                upload_latency=0.1 * latency,
                **values,
                **{name: column[: len(late)] for name, column in _sketched(picked, seed).items()},
            )
            selector.tell(picked, arrived)
    return chosen


def available(count: int, number: int, seed: int) -> BoolArray:
    """Who is online in a round: about seven tenths.

    >>> available(4, number=1, seed=0)
    array([False,  True,  True,  True])
    """
    return np.random.default_rng((seed, 77, number)).uniform(size=count) < 0.7
