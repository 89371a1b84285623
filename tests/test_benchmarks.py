"""The benchmarks measure what they say: same decisions in the plain-Python Oort, every byte counted."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import enlist
import enlist.testing

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import chaos
from benchmarks.oort_reference import PlainOort
from benchmarks.selectors import footprint, measure, posterior_error


def test_plain_oort_scores_as_ours() -> None:
    count, rng = 40, np.random.default_rng(3)
    sizes, latency, loss = rng.integers(10, 500, count), rng.uniform(1, 9, count), rng.uniform(0.1, 3, count)
    ours = enlist.create("oort", enlist.Clients(num_examples=sizes), seed=1, cut_off=0.0)
    plain = PlainOort(sizes.astype(float).tolist(), seed=1)
    ours.tell(ours.ask(k=count, deadline=10.0), enlist.Feedback(latency=latency, loss_rms=loss))
    plain.ask(list(range(count)), 5)
    plain.tell(list(range(count)), latency.tolist(), loss.tolist())
    picked = ours.ask(k=count - 1, deadline=10.0)
    plain.round += 1
    preferred = sorted(latency)[int(0.3 * count)]
    expected = plain._scores(list(range(count)), preferred)
    assert picked.terms["score"] == pytest.approx([expected[i] for i in picked.clients.tolist()])


def test_plain_oort_chooses_k_distinct() -> None:
    plain = PlainOort([10.0] * 30, seed=1)
    for _ in range(20):
        chosen = plain.ask(list(range(30)), 7)
        assert len(set(chosen)) == 7
        plain.tell(chosen, [1.0 + i for i in chosen], [1.0 + i for i in chosen])


def test_footprint_counts_caches() -> None:
    clients = enlist.testing.population(50)
    selector = enlist.create("cu-cs", clients)
    assert footprint(selector) >= selector.rows.nbytes + selector.counts.nbytes + selector.state.nbytes


def test_measure_and_errors_give_numbers() -> None:
    median, largest, held = measure("random", 1000, rounds=2)
    assert 0 < median <= largest
    assert held == 16.0
    rows = posterior_error(count=300, batches=5, size=10)
    assert rows[0][0] == 0
    assert rows[-1][1] < 0.2 * rows[0][1]


@pytest.mark.parametrize("name", [name for name in chaos.TRIALS if not name.startswith("kill of")])
def test_trials_of_chaos_find_nothing(name: str) -> None:
    assert [chaos.attempt(name, number) for number in (11, 12, 13)] == ["", "", ""]


def test_a_trial_of_chaos_can_find_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enlist, "load", lambda folder: 1 / 0)
    assert chaos.attempt("damaged selector state", 11).endswith("ZeroDivisionError: division by zero")
