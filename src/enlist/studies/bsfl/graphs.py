"""Experiments on the graphs of states: all of a small one (Fig. 3), and degrees at any size."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from enlist.bandits.maxmin import objective
from enlist.bandits.sampling import uniform
from enlist.streams import Streams
from enlist.studies.bsfl.solving import ALSA, SA, drawn, swaps
from enlist.studies.study import Settings
from enlist.typing import BoolArray, FloatArray, IntArray

SIMILAR = 0.1
"""Energies are similar if they differ by no more than this part of the range of energies."""


def graph(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """The states of a small instance, `clients` choose `k`, with their edges in SA and in ALSA.

    energy (states,), edges (edges, 2) between numbers of states, and of edges: kept (in ALSA, too), idle (both ends
    below the median energy, or with similar energies). Shares: `idle_extra` of the edges that ALSA leaves out,
    `idle_kept` of those it keeps, `low_...` and `similar_...` of either kind alone; `connected`: whether ALSA's graph
    is in one piece. Degrees: `degree` (states,) of ALSA.

    >>> found = graph({"clients": 8, "k": 4}, 1, Path())
    >>> found["energy"].shape, found["edges"].shape, found["connected"]
    ((70,), (560, 2), True)
    """
    clients, k = settings["clients"], settings["k"]
    keys, values = drawn(clients, k, Streams(seed).generator("instance"))
    states = [np.array(state) for state in itertools.combinations(range(clients), k)]
    energy = np.array([objective(keys, values, state) for state in states])
    edges, kept = _edges(keys, values, states)
    ends = energy[edges]
    low = (ends < np.median(energy)).all(axis=1)
    similar = np.abs(ends[:, 0] - ends[:, 1]) <= SIMILAR * np.ptp(energy)
    joined = coo_array((np.ones(int(kept.sum())), edges[kept].T), shape=(len(states), len(states)))
    shares = {
        f"{name}_{which}": float(share[mask].mean()) if mask.any() else 0.0
        for name, share in (("idle", low | similar), ("low", low), ("similar", similar))
        for which, mask in (("extra", ~kept), ("kept", kept))
    }
    return {
        "energy": energy,
        "edges": edges,
        "kept": kept,
        "idle": low | similar,
        "degree": np.bincount(edges[kept].ravel(), minlength=len(states)),
        "connected": bool(connected_components(joined, directed=False)[0] == 1),
        **shares,
    }


def _edges(keys: FloatArray, values: FloatArray, states: list[IntArray]) -> tuple[IntArray, BoolArray]:
    """Pairs of states that differ in one client, and whether each is an edge in ALSA."""
    number = {tuple(state.tolist()): position for position, state in enumerate(states)}
    edges, kept = [], []
    for position, state in enumerate(states):
        inside = np.zeros(len(keys), dtype=bool)
        inside[state] = True
        others = np.flatnonzero(~inside)
        allowed = swaps(keys, values, inside, ALSA)
        for (row, leaves), (column, enters) in itertools.product(enumerate(state), enumerate(others)):
            neighbour = number[tuple(sorted({*state.tolist(), int(enters)} - {int(leaves)}))]
            if position < neighbour:
                edges.append((position, neighbour))
                kept.append(bool(allowed[row, column]))
    return np.array(edges), np.array(kept)


def degrees(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Degrees of random states of one instance per size: `sizes` (sizes, 2), and (sizes,) `sa`, `mean`, `largest`.

    >>> found = degrees({"sizes": [[8, 4], [20, 5]], "states": 100}, 1, Path())
    >>> found["sa"], bool((found["mean"] <= found["largest"]).all())
    (array([16., 75.]), True)
    """
    sizes = [(int(clients), int(k)) for clients, k in settings["sizes"]]
    rows = []
    for position, (clients, k) in enumerate(sizes):
        rng = Streams(seed).generator("degrees", position)
        keys, values = drawn(clients, k, rng)
        found = []
        for _ in range(settings["states"]):
            inside = np.zeros(clients, dtype=bool)
            inside[uniform(clients, k, rng)] = True
            found.append(int(swaps(keys, values, inside, ALSA).sum()))
        rows.append((float(swaps(keys, values, inside, SA).sum()), float(np.mean(found)), float(max(found))))
    return {"sizes": np.array(sizes), **dict(zip(("sa", "mean", "largest"), np.array(rows).T, strict=True))}
