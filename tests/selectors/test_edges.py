"""The edges of what a selector may meet: one client, none heard from for long, no samples, no labels, no values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome, Selection

NAMES = (
    "fedcor",
    "clustered",
    "clustered:paper",
    "divfl",
    "divfl:paper",
    "haccs",
    "fedlecc",
    "optimal-sampling",
    "optimal-sampling:paper",
    "pyramidfl",
    "greedyfed",
    "eafl",
    "pisces",
)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def make(method: str, count: int = 6, samples: float = 10.0, labels: float = 5.0) -> Any:
    name, _, preset = method.partition(":")
    clients = Clients(
        num_examples=np.full(count, samples),
        label_counts=np.full((count, 3), labels) * (1 + np.arange(count) % 3)[:, None],
        battery=np.full(count, 100.0),
    )
    return enlist.create(name, clients, seed=1, preset=preset or None)


def replies(count: int, value: float = 1.0) -> dict[str, Any]:
    names = ("loss", "loss_rms", "update_norm", "contribution", "energy", "accuracy_gain")
    latency = np.full(count, 1.0 if np.isnan(value) else value)  # whoever replied has one
    return {name: np.full(count, value) for name in names} | {"update": np.full((count, 4), value), "latency": latency}


def sound(selector: Any, picked: Selection, most: int) -> None:
    """Distinct clients, at least one, and numbers that an aggregation can use."""
    assert 1 <= len(picked) <= most
    assert len(np.unique(picked.clients)) == len(picked)
    if picked.weights is not None:
        assert np.isfinite(picked.weights).all()
        assert picked.weights.min() >= 0
        assert picked.weights.sum() > 0
    for values in (picked.probabilities, picked.work):
        assert values is None or ((values > 0) & (values <= 1)).all()
    for values in selector.explain(picked).values():
        assert not np.isinf(np.asarray(values, dtype=float)).any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 2, 6])
def test_more_are_wanted_than_there_are(name: str, count: int) -> None:
    selector = make(name, count)
    for _ in range(20):
        picked = selector.ask(k=2 * count)
        sound(selector, picked, count)
        selector.tell(picked, Feedback(**replies(len(picked))))


@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_there(name: str) -> None:
    selector = make(name)
    assert len(selector.ask([], k=3)) == 0
    sound(selector, selector.ask([2], k=3), 1)


@pytest.mark.parametrize("name", NAMES)
def test_replies_without_a_single_value(name: str) -> None:
    selector = make(name)
    for _ in range(40):
        picked = selector.ask(k=3)
        sound(selector, picked, 3)
        selector.tell(picked, Feedback(**replies(len(picked), np.nan)))


@pytest.mark.parametrize("name", NAMES)
def test_replies_that_are_all_zero(name: str) -> None:
    selector = make(name)
    for _ in range(40):
        picked = selector.ask(k=3)
        sound(selector, picked, 3)
        selector.tell(picked, Feedback(**replies(len(picked), 0.0)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "outcome",
    [Outcome.DROPPED, *(pytest.param(each, marks=pytest.mark.verify) for each in (Outcome.FAILED, Outcome.LATE))],
)
def test_all_are_lost_for_hundreds_of_rounds(name: str, outcome: Outcome) -> None:
    selector = make(name)
    selector.tell(selector.ask(k=6), Feedback(**replies(6, 2.0)))
    for _ in range(1200):
        picked = selector.ask(k=3)
        selector.tell(picked, Feedback(outcome=np.full(len(picked), outcome)))
    sound(selector, selector.ask(k=3), 3)
    for path, leaf in selector.state.leaves():
        assert not np.isinf(np.asarray(leaf, dtype=float)).any(), path


@pytest.mark.parametrize("name", NAMES)
def test_nobody_has_samples_or_labels(name: str) -> None:
    selector = make(name, samples=0.0, labels=0.0)
    for _ in range(40):
        picked = selector.ask(k=3)
        sound(selector, picked, 3)
        selector.tell(picked, Feedback(**replies(len(picked)), num_examples=np.zeros(len(picked))))


@pytest.mark.parametrize("name", NAMES)
def test_one_at_a_time_while_the_others_are_busy(name: str) -> None:
    selector = make(name)
    open_ones: list[Selection] = []
    for step in range(60):
        busy = np.concatenate([each.clients for each in open_ones]) if open_ones else np.zeros(0, dtype=np.int64)
        picked = selector.ask(k=1, now=float(step), busy=busy, asynchronous=True)
        if len(picked):
            assert not np.isin(picked.clients, busy).any()
            open_ones.append(picked)
        if len(open_ones) == 6:
            assert len(selector.ask(k=1, now=step + 0.5, busy=np.arange(6), asynchronous=True)) == 0
            done = open_ones.pop(0)
            selector.tell(done, Feedback(**replies(1), rounds_late=[5.0]))


def test_without_a_deadline_the_lost_are_twice_as_slow_as_the_slowest_reply() -> None:
    selector = make("haccs")
    selector.tell(selector.ask(k=6), Feedback(loss=np.ones(6), latency=[1, 2, 3, 4, 5, 6]))
    for client in (0, 1, 0):
        selector.tell(selector.ask([client], k=1), Feedback(outcome=[Outcome.DROPPED]))
    assert selector.state.latency.tolist() == [12.0, 12.0, 3.0, 4.0, 5.0, 6.0]  # not 12 and 24
    selector.tell(selector.ask([0], k=1), Feedback(loss=[1.0], latency=[1.5]))
    assert selector.state.latency[0] == 1.5


def test_a_loss_told_late_does_not_undo_a_newer_reply() -> None:
    selector = make("haccs")
    old = selector.ask([0], k=1)
    selector.tell(selector.ask([0], k=1), Feedback(loss=[1.0], latency=[3.0]))
    selector.tell(old, Feedback(outcome=[Outcome.DROPPED]))
    assert selector.state.latency[0] == 3.0


def test_fedcor_can_be_fitted_after_a_long_silence() -> None:
    selector = enlist.create("fedcor", Clients(count=4), seed=1, warm_up=3, memory=0.01)
    for losses in ([9.0, 9.0, 9.0, 9.0], [6.0, 6.0, 9.0, 8.9], [5.0, 5.0, 8.9, 8.9]):
        selector.ask(k=1, fresh=Feedback(clients=range(4), loss=losses))
    for _ in range(400):  # 0.01^400 is nothing: so would be the weights of both rounds that were seen
        selector.ask(k=1)
    assert selector.state.fitted > 390
    assert np.isfinite(selector.state.embedding).all()
    assert np.abs(selector.state.embedding).max() > 0


def test_divfl_counts_all_the_same_if_nobody_has_samples() -> None:
    selector = enlist.create("divfl", Clients(num_examples=np.zeros(4)), seed=1, explore=1.0)
    selector.tell(selector.ask(k=4), Feedback(update=[[0.0, 1.0], [0.0, 1.1], [0.0, 1.2], [5.0, 0.0]]))
    assert selector.ask(k=2).weights.tolist() == [0.75, 0.25]
