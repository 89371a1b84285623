"""The exact max-min solver: the k-subset S that maximises min(keys of S) + sum(values of S).

One routine serves BSFL (speed bound plus generalisation), its genie, and RBCS-F (latency bound plus queues).

Sort by key, best first. For a prefix of the order the best sum is that of its k largest values, and the key of its
last client bounds the minimum; the best prefix gives the optimum (proof in docs/selectors.md). Between two changes of
the k largest values only the first position matters, so a block of positions is bounded from above by its first key
and its final sum: blocks that cannot win are skipped, and a million clients cost little more than the sort.
"""

from __future__ import annotations

import heapq
import itertools

import numpy as np

from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits.sampling import top_k

SMALL = 512
PARTS = 16


def argmax_min_plus_sum(keys: FloatArray, values: FloatArray, k: int, rng: np.random.Generator) -> IntArray:
    """Indices of the optimal k-subset, O(n log n); ties are drawn by `rng`.

    A key of +inf is legal (a client never tried). With k or more of them the minimum is infinite for any choice among
    them, and the largest values decide.

    >>> keys, values = np.array([0.9, 0.8, 0.5, 0.1]), np.array([-0.2, 0.1, 0.4, 0.45])
    >>> argmax_min_plus_sum(keys, values, 2, np.random.default_rng(0)).tolist()
    [1, 2]
    """
    count = len(keys)
    if k >= count:
        return np.arange(count)
    if k <= 0:
        return np.zeros(0, dtype=np.int64)
    untried = np.flatnonzero(np.isposinf(keys))
    if len(untried) >= k:
        return np.sort(untried[top_k(values[untried], k, rng)])
    order = np.argsort(-keys, kind="stable")
    ranked = keys[order]
    length = _best_prefix(ranked, values[order], k)
    # Clients that tie with the last key may be included freely: the border falls behind them.
    length = int(np.searchsorted(-ranked, -ranked[length - 1], side="right"))
    prefix = order[:length]
    return np.sort(prefix[top_k(values[prefix], k, rng)])


def objective(keys: FloatArray, values: FloatArray, chosen: IntArray) -> float:
    """min(keys) + sum(values) of the chosen clients.

    >>> objective(np.array([0.9, 0.8, 0.5]), np.array([0.0, 0.1, 0.4]), np.array([1, 2]))
    1.0
    """
    return float(keys[chosen].min() + values[chosen].sum())


class _Sweep:
    """Branch and bound over prefixes; `best` and `length` are the best prefix found so far."""

    def __init__(self, keys: FloatArray, values: FloatArray, k: int) -> None:
        self.keys, self.values, self.k = keys, values, k
        self.length = k
        self.best = float(keys[k - 1] + values[:k].sum())
        self.largest_sum = float(np.partition(values, len(values) - k)[len(values) - k :].sum())

    def offer(self, length: int, total: float) -> None:
        value = float(self.keys[length - 1]) + total
        if value > self.best:
            self.best, self.length = value, length

    def search(self, start: int, stop: int, held: FloatArray) -> None:
        """Look at the prefixes that end in (start, stop]; `held` are the k largest values before `start`."""
        if stop - start <= SMALL:
            self.walk(start, stop, held)
            return
        blocks = []
        for left, right in _split(start, stop):
            if self.keys[left] + self.largest_sum <= self.best:
                break  # keys only fall from here on
            block = self.values[left:right]
            entering = block[block > held.min()]
            after = _largest(np.concatenate([held, entering]), self.k) if len(entering) else held
            total = float(after.sum())
            if len(entering):
                blocks.append((float(self.keys[left]) + total, left, right, held))
            self.offer(right, total)
            held = after
        for bound, left, right, before in sorted(blocks, key=lambda entry: -entry[0]):
            if bound > self.best:
                self.search(left, right, before)

    def walk(self, start: int, stop: int, held: FloatArray) -> None:
        """Position by position, with a heap of the k largest values."""
        heap = held.tolist()
        heapq.heapify(heap)
        total = float(held.sum())
        block = self.values[start:stop]
        for offset in np.flatnonzero(block > heap[0]).tolist():
            value = float(block[offset])
            if value > heap[0]:
                total += value - heapq.heapreplace(heap, value)
                self.offer(start + offset + 1, total)


def _best_prefix(keys: FloatArray, values: FloatArray, k: int) -> int:
    sweep = _Sweep(keys, values, k)
    sweep.search(k, len(keys), values[:k])
    return sweep.length


def _split(start: int, stop: int) -> list[tuple[int, int]]:
    borders = np.linspace(start, stop, PARTS + 1).astype(int).tolist()
    return list(itertools.pairwise(borders))


def _largest(values: FloatArray, k: int) -> FloatArray:
    return np.partition(values, len(values) - k)[len(values) - k :]
