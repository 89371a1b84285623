"""Measures: the numbers of walks, graphs, matches and solvers that the claims compare."""

from __future__ import annotations

import numpy as np

from enlist.studies.measures import EVENNESS, Measure, Value
from enlist.studies.results import Output


def number(name: str, about: str, digits: int = 2, less: bool = False, unit: str = "", scale: float = 1.0) -> Measure:
    """A result of an experiment as it is.

    >>> number("jain", "evenness").of(Output({"jain": 0.5}, {}, 1.0), Output({}, {}, 1.0)).number
    0.5
    """
    return Measure(about, lambda output, base: Value(float(output[name])), unit, scale, digits, less=less)


def degree(clients: int, k: int, which: str = "mean") -> Measure:
    """Neighbours of a state, in units of the paper's bound."""
    return Measure(
        f"{which} number of neighbours over 4(K−m)",
        lambda output, base: Value(float(output[which]) / (4.0 * (clients - k))),
    )


def solver_time(place: int) -> Measure:
    """Milliseconds of an exact solver; one that was ever wrong is not a solver, and counts as an hour."""
    return Measure(
        "time of an exact solver (an hour if it ever differs from brute force)",
        lambda output, base: Value(3600.0 if output["wrong"] else float(output["seconds"][place])),
        unit="ms",
        scale=1e3,
    )


def remaining(output: Output, base: Output) -> Value:
    """What is left, in the last tenth of a walk, of the distance that a random state has to the optimum."""
    trace = np.asarray(output["energy"])
    last = float(trace[-max(len(trace) // 10, 1) :].mean())
    return Value((output["optimum"] - last) / (output["optimum"] - output["random"]))


EXCESS = Measure(
    "share of idle edges (both ends below the median energy, or energies within 10 % of the range) among those that "
    "ALSA leaves out, less their share among those that it keeps",
    lambda output, base: Value(output["idle_extra"] - output["idle_kept"]),
)
IDLE = number("idle_extra", "share of idle edges among those that ALSA leaves out")
DISTANCE = Measure(
    "mean distance to the optimum along the walk",
    lambda output, base: Value(max(float(output["optimum"] - np.mean(output["energy"])), 1e-9)),
    ratio=True,
    less=True,
)
REMAINING = Measure("distance to the optimum in the last tenth of the walk, over that of a random state", remaining)
CONNECTED = number("connected", "share of graphs in one piece")
FASTEST = number("fastest", "share of the picks in the last tenth of the rounds that goes to the m fastest")
ROUND_TIME = number("round_time", "mean length of a round, of the deadline", digits=3)
JAIN = number("jain", EVENNESS.name, digits=3)
