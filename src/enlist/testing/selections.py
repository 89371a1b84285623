"""What a selection carries besides its clients, and selections for a server that does not wait for them as a set."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from enlist._internal.typing import FloatArray
from enlist.books import Books
from enlist.contract import Selector
from enlist.records import ALIGNED, FEEDBACK_COLUMNS, Feedback, Outcome, RoundMetrics, Selection
from enlist.testing.world import SelectorType, ask, available, context, feedback, population

CLIENTS, K, DRAWS = 20, 5, 300
STEPS, STOP = 60, 30
DEVIATIONS, SLACK = 6.0, 0.05
"""How far a mean over draws may be off: in standard errors, and as a share."""


def weights_probabilities_and_work(kind: SelectorType) -> None:
    """If a selection has them, there is one per client, in its range, and those of a sampler add up.

    If clients are drawn with probability p_i, the sum of 1 / p_i over those drawn is, on average, the number that could
    be drawn; the weights of an unbiased sampler, which gives both, add up to 1 on average.

    >>> from enlist.selectors import get
    >>> weights_probabilities_and_work(get("clustered"))
    """
    selector = kind(population(CLIENTS), seed=9)
    drawn, weighed = [], []
    for number in range(1, DRAWS + 1):
        picked = ask(selector, k=K, now=float(number), deadline=10.0)
        for name in ALIGNED:
            values = getattr(picked, name)
            if values is None:
                continue
            assert values.shape == picked.clients.shape, f"round {number}: {values.shape} {name} of {len(picked)}"
            assert np.isfinite(values).all(), f"round {number}: {name} are {values}"
            inside = (values >= 0) if name == "weights" else (values > 0) & (values <= 1)
            assert inside.all(), f"round {number}: {name} are {values}, outside their range"
        if picked.probabilities is not None:
            drawn.append(float((1.0 / picked.probabilities).sum()))
            if picked.weights is not None:
                weighed.append(float(picked.weights.sum()))
        if number <= DRAWS // 2:  # it learns first, and then draws repeatedly from what it knows
            selector.tell(picked, feedback(picked), RoundMetrics(accuracy=0.5))
    _close("the sums of 1 / probability", np.array(drawn), float(CLIENTS))
    _close("the sums of the weights", np.array(weighed), 1.0)


def _close(what: str, sums: FloatArray, expected: float) -> None:
    if not len(sums):
        return
    mean, error = float(sums.mean()), float(sums.std()) / np.sqrt(len(sums))
    assert abs(mean - expected) <= DEVIATIONS * error + SLACK * expected, (
        f"{what} are {mean:.3g} on average over {len(sums)} draws, not {expected:g}"
    )


def replaced_as_they_finish(kind: SelectorType) -> None:
    """An asynchronous server asks for one to three clients at a time while others are at work, and tells in parts.

    No client at work is asked again, replies come in any order, stale or late, no finished selection stays open, and a
    selector saved with clients at work continues bit-exactly. One that lets all clients train is skipped.

    >>> from enlist.selectors import get
    >>> replaced_as_they_finish(get("random"))
    """
    if kind.trains_all:
        return
    whole = _Server(kind(population(CLIENTS), seed=8, max_open=10**6))
    asked = [whole.step() for _ in range(STEPS)]
    again = _Server(kind(population(CLIENTS), seed=8, max_open=10**6))
    first = [again.step() for _ in range(STOP)]
    with tempfile.TemporaryDirectory() as folder:
        again.books.selector.save(folder)
        again.books = Books(kind.load(folder), late="drop")
    rest = [again.step() for _ in range(STEPS - STOP)]
    assert first + rest == asked, "saved with clients at work, it continued differently"
    selector = whole.books.selector
    whole.end(list(whole.at_work))
    assert not selector.openings, f"rounds {list(selector.openings)} stay open, though all of their clients have ended"
    assert selector.counts.observed.sum() == whole.completed, "a reply was not counted, or counted twice"


class _Server:
    """Replaces clients as they finish; what happens depends only on the number of the step."""

    def __init__(self, selector: Selector[Any, Any]) -> None:
        self.books = Books(selector, late="drop")
        self.at_work: dict[int, int] = {}
        """Client -> the round in which it was asked."""
        self.number = self.completed = 0

    def step(self) -> list[int]:
        """Ask for a few clients, and let about a third of those at work end; returns who was asked."""
        self.number += 1
        mask, k = available(CLIENTS, self.number, 5), 1 + self.number % 3
        free = mask.copy()
        free[list(self.at_work)] = False
        selector, now = self.books.selector, 10.0 * self.number
        told = context(selector, self.number)
        picked = self.books.ask(mask, k, now=now, deadline=100.0, context=told, asynchronous=True)
        clients: list[int] = picked.clients.tolist()
        assert free[clients].all(), f"step {self.number}: {clients} include clients at work, or not available"
        most = min(k, int(free.sum()))
        enough = len(clients) == most or (selector.may_choose_fewer and len(clients) <= most)
        assert enough, f"step {self.number}: chose {len(clients)} of {most}"
        self.at_work |= dict.fromkeys(clients, picked.round)
        order = np.random.default_rng((88, self.number)).permutation(sorted(self.at_work)).tolist()
        self.end(order[: len(order) // 3])
        return clients

    def end(self, clients: list[int]) -> None:
        """Tell how these clients ended, selection by selection, the newest first."""
        for number in sorted({self.at_work[client] for client in clients}, reverse=True):
            opening = self.books.selector.openings[number]
            ended = [client for client in clients if self.at_work.get(client) == number]
            last = len(ended) == len(opening.pending)
            self.books.tell(
                opening.selection, self._part(opening.selection, ended), RoundMetrics(accuracy=0.5) if last else None
            )
            for client in ended:
                del self.at_work[client]

    def _part(self, selection: Selection, clients: list[int]) -> Feedback:
        report = feedback(selection)
        rows = np.searchsorted(selection.clients, clients)
        names = ("outcome", "latency", "censored", *FEEDBACK_COLUMNS, "update")
        columns: dict[str, Any] = {name: getattr(report, name)[rows] for name in names}
        self.completed += int((columns["outcome"] == Outcome.COMPLETED).sum())
        stale = np.full(len(clients), float(self.number - selection.now / 10.0))
        return Feedback(clients=clients, rounds_late=stale, **columns)
