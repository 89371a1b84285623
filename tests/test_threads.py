"""Several threads may share a selector, its books, or a rule."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import enlist
from enlist.bandits import UCB
from enlist.books import Books
from enlist.records import Feedback, RoundMetrics
from enlist.testing import feedback, population

THREADS, ROUNDS = 8, 200


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    """Threads take turns as often as they can, so that a gap in the lock is found."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], None]) -> None:
    """Run the work in many threads at once; what one of them raises is raised here."""
    raised: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("name", ["oort", "ucb", "safa"])
def test_no_round_is_given_twice_and_no_outcome_is_lost(name: str) -> None:
    selector = enlist.create(name, population(30), seed=1, max_open=THREADS * ROUNDS)
    numbers: list[list[int]] = [[] for _ in range(THREADS)]

    def work(thread: int) -> None:
        for _ in range(ROUNDS):
            picked = selector.ask(k=3, deadline=10.0)
            numbers[thread].append(picked.round)
            selector.tell(picked, feedback(picked, troubled=False), RoundMetrics(accuracy=0.5))

    together(work)
    assert sorted(number for part in numbers for number in part) == list(range(1, THREADS * ROUNDS + 1))
    assert selector.round == THREADS * ROUNDS
    assert selector.counts.selected.sum() == selector.counts.observed.sum() == 3 * THREADS * ROUNDS
    assert not selector.openings


def test_everything_at_once(tmp_path: Path) -> None:
    selector = enlist.create("safa", population(20), seed=1, max_open=10_000)

    def work(thread: int) -> None:
        for step in range(20):
            picked = selector.ask(k=3, deadline=10.0)
            selector.explain(picked)
            selector.tell(picked, feedback(picked, troubled=False), RoundMetrics(accuracy=0.5))
            selector.observe(None, now=float(step))
            selector.accept(picked.clients, k=2)
            repr(selector)
            if not step % 10:
                selector.join(population(2, first_id=1000 * (thread + 1) + 2 * step))
                selector.save(tmp_path / "state")

    together(work)
    assert len(selector.clients) == 20 + THREADS * 2 * 2
    assert len(selector.counts.selected) == len(selector.clients)
    assert enlist.load(tmp_path / "state").name == "safa"


def test_books_are_shared_together_with_their_selector() -> None:
    books = Books(enlist.create("cs-ucb", population(60), seed=1, max_open=THREADS * ROUNDS), late="learn")

    def work(thread: int) -> None:
        for _ in range(ROUNDS // 4):
            if thread % 2:
                picked = books.ask(k=2, deadline=10.0)
                books.reply(picked, picked.clients, latency=np.ones(len(picked)))
                books.close(picked, waited=2.0)
            else:
                picked = books.selector.ask(k=2, deadline=10.0)
                books.selector.tell(picked, Feedback(latency=np.ones(len(picked))))

    together(work)
    assert books.selector.round == THREADS * (ROUNDS // 4)
    assert not books.open
    assert books.selector.counts.selected.sum() == books.selector.counts.observed.sum()


def test_a_rule_counts_every_reward() -> None:
    rule = UCB(5, seed=1)
    together(lambda _: [rule.update(rule.choose(), [0.5]) for _ in range(ROUNDS)] and None)
    assert rule.state.plays == rule.state.estimates.count.sum() == THREADS * ROUNDS


@pytest.mark.parametrize("name", ["ucb", "fedsuv", "power-of-choice"])
def test_a_copy_and_what_another_process_gets_go_on_alike(name: str) -> None:
    selector = enlist.create(name, population(20), seed=3)
    picked = selector.ask(k=3, deadline=10.0)
    for other in (copy.deepcopy(selector), pickle.loads(pickle.dumps(selector))):
        assert other._lock is not selector._lock
        assert "_lock" not in other.__getstate__()
        other.tell(picked, feedback(picked), RoundMetrics(accuracy=0.5))
        assert other.ask(k=3, deadline=10.0).round == 2
    assert selector.round == 1
    books = pickle.loads(pickle.dumps(Books(selector)))
    assert books._lock is books.selector._lock
