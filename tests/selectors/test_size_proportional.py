"""Rounds of size-proportional, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients


def inclusion(selector, available, k, rounds=12_000):
    counts = np.zeros(len(selector.clients))
    for _ in range(rounds):
        counts[selector.ask(available, k=k).clients] += 1
    return counts / rounds


def test_successive_draws_over_include_the_small():
    # sizes 1, 1, 2 and k = 2. Small client 0: first with 1/4; second after 1 with 1/4 * 1/3, after 2 with 1/2 * 1/2
    # = 1/4 + 1/12 + 1/4 = 7/12. Large client: 2 - 2 * 7/12 = 5/6
    selector = enlist.create("size-proportional", Clients(num_examples=[1, 1, 2]), seed=1)
    assert inclusion(selector, None, 2).tolist() == pytest.approx([7 / 12, 7 / 12, 5 / 6], abs=0.02)


@pytest.mark.verify
def test_fixed_inclusion_is_proportional_to_size():
    # sizes 1, 1, 2, k = 2: c = 1/2 gives 1/2, 1/2, 1
    clients = Clients(num_examples=[1, 1, 2])
    selector = enlist.create("size-proportional", clients, seed=1, variant="fixed-inclusion")
    assert inclusion(selector, None, 2, 4000).tolist() == pytest.approx([0.5, 0.5, 1.0], abs=0.035)
    # sizes 1, 2, 3, 4, k = 1: a tenth of the size; of the available 1, 3, 4 only: an eighth
    clients = Clients(num_examples=[1, 2, 3, 4])
    selector = enlist.create("size-proportional", clients, seed=1, variant="fixed-inclusion")
    assert inclusion(selector, None, 1).tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.02)
    assert inclusion(selector, [0, 2, 3], 1).tolist() == pytest.approx([1 / 8, 0, 3 / 8, 4 / 8], abs=0.02)


def test_fixed_inclusion_is_capped_at_one():
    # sizes 8, 1, 1, k = 2: the first would get 1.6; capped at 1, the others share 1
    clients = Clients(num_examples=[8, 1, 1])
    selector = enlist.create("size-proportional", clients, seed=1, variant="fixed-inclusion")
    picked = selector.ask(k=2)
    assert picked.terms["inclusion"].tolist() == [1.0, 0.5]
    assert inclusion(selector, None, 2, 4000).tolist() == pytest.approx([1.0, 0.5, 0.5], abs=0.035)


@pytest.mark.parametrize("variant", ["successive", "fixed-inclusion"])
def test_clients_without_examples_are_never_chosen(variant):
    clients = Clients(num_examples=[0, 5, 0, 1])
    selector = enlist.create("size-proportional", clients, seed=1, variant=variant)
    assert selector.ask(k=4).clients.tolist() == [1, 3]
    assert selector.ask(k=3).clients.tolist() == [1, 3]
    assert selector.ask([0, 2], k=1).clients.tolist() == []
    assert all(selector.ask([0, 1, 2], k=1).clients.tolist() == [1] for _ in range(20))
