"""Other solvers of the max-min problem, kept for fidelity to the BSFL paper: exhaustive, annealing, and ALSA.

None of them beats the exact solver; they exist so that the paper's own method can be run and judged.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits.maxmin import objective
from enlist.bandits.sampling import uniform
from enlist.errors import PopulationError

MOST_SETS = 2_000_000


def exhaustive(keys: FloatArray, values: FloatArray, k: int, rng: np.random.Generator | None = None) -> IntArray:
    """Try every k-subset; refused above two million of them. Ties are drawn by `rng`.

    >>> exhaustive(np.array([0.9, 0.8, 0.5, 0.1]), np.array([-0.2, 0.1, 0.4, 0.45]), 2)
    array([1, 2])
    """
    sets = check_sets(len(keys), k)
    index = np.fromiter(itertools.chain.from_iterable(itertools.combinations(range(len(keys)), k)), dtype=np.int64)
    index = index.reshape(sets, k)
    smallest, sums = keys[index].min(axis=1), values[index].sum(axis=1)
    # If the minimum is infinite for several sets, the sums decide.
    scores = np.where(np.isposinf(smallest), np.inf, smallest + sums)
    best = np.flatnonzero(scores == scores.max())
    best = best[sums[best] == sums[best].max()]
    return np.asarray(index[best[0] if rng is None else rng.choice(best)])


def check_sets(clients: int, k: int) -> int:
    """The number of k-subsets, refused above two million.

    >>> check_sets(8, 4)
    70
    """
    sets = math.comb(clients, k)
    if sets > MOST_SETS:
        raise PopulationError(
            f"solver 'exhaustive' would try {sets} sets of {k} of {clients} clients, at most {MOST_SETS} are allowed; "
            "solver='exact' finds the same optimum."
        )
    return sets


def annealing(
    keys: FloatArray, values: FloatArray, k: int, rng: np.random.Generator, steps: int = 3500, alsa: bool = False
) -> tuple[IntArray, FloatArray]:
    """Simulated annealing on k-subsets, from a random one; returns the best seen and the energy after each step.

    Temperature D / ln(i + 1) with D the largest possible difference of energies (Eq. 14, for this instance).
    Neighbours swap one client (Eq. 18); with `alsa`, only swaps that touch the smallest key or value (Eq. 19).

    >>> keys, values = np.array([0.9, 0.8, 0.5, 0.1]), np.array([-0.2, 0.1, 0.4, 0.45])
    >>> annealing(keys, values, 2, np.random.default_rng(0), steps=200)[0]
    array([1, 2])
    """
    finite = keys[np.isfinite(keys)]
    ceiling = float(finite.max()) + 1.0 if len(finite) else 1.0
    keys = np.where(np.isposinf(keys), ceiling, keys)
    ranked = np.sort(values)
    spread = float(keys.max() - keys.min() + ranked[-k:].sum() - ranked[:k].sum())
    inside = np.zeros(len(keys), dtype=bool)
    inside[uniform(len(keys), k, rng)] = True
    propose = _alsa_swap if alsa else _any_swap
    chosen = np.flatnonzero(inside)
    energy = objective(keys, values, chosen)
    best, best_energy = chosen, energy
    trace = np.empty(steps)
    for step in range(steps):
        leaves, enters = propose(keys, values, inside, rng)
        inside[leaves], inside[enters] = False, True
        candidate = np.flatnonzero(inside)
        fresh = objective(keys, values, candidate)
        temperature = spread / math.log(step + 2)
        if fresh >= energy or rng.uniform() < math.exp((fresh - energy) / max(temperature, 1e-300)):
            energy = fresh
            if energy > best_energy:
                best, best_energy = candidate, energy
        else:
            inside[leaves], inside[enters] = True, False
        trace[step] = energy
    return best, trace


def _any_swap(keys: FloatArray, values: FloatArray, inside: np.ndarray, rng: np.random.Generator) -> tuple[int, int]:
    members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    return int(members[rng.integers(len(members))]), int(others[rng.integers(len(others))])


def _alsa_swap(keys: FloatArray, values: FloatArray, inside: np.ndarray, rng: np.random.Generator) -> tuple[int, int]:
    """Uniform over outgoing edges (drop the smallest key or value) and incoming ones (add a new smallest)."""
    members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    droppable = {int(members[np.argmin(keys[members])]), int(members[np.argmin(values[members])])}
    low = others[(keys[others] < keys[members].min()) | (values[others] < values[members].min())]
    outgoing, incoming = len(droppable) * len(others), len(members) * len(low)
    if rng.integers(outgoing + incoming) < outgoing:
        choices = sorted(droppable)
        return choices[int(rng.integers(len(choices)))], int(others[rng.integers(len(others))])
    return int(members[rng.integers(len(members))]), int(low[rng.integers(len(low))])
