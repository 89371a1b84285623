"""Rounds of random, worked out by hand."""

from __future__ import annotations

import itertools

import enlist
from enlist import Clients


def test_random_is_uniform():
    # 6 subsets of 2 of 4, 6,000 rounds: 1,000 each, deviation 29
    selector = enlist.create("random", Clients(count=6), seed=1)
    counts = dict.fromkeys(itertools.combinations([0, 2, 3, 5], 2), 0)
    for _ in range(6000):
        counts[tuple(selector.ask([0, 2, 3, 5], k=2).clients.tolist())] += 1
    assert all(abs(count - 1000) < 150 for count in counts.values())
