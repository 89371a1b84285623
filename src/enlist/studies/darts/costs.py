"""What a round costs: milliseconds of the server, and seconds in which clients train on this machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from enlist.studies.darts.scores import Score
from enlist.studies.results import Outcome, Results
from enlist.typing import FloatArray


def choosing(selector: str, at: int = 0) -> Score:
    """Milliseconds in which the server chooses and learns, with the study's own clients, or with more of them.

    >>> choosing("random")(Outcome({"choosing": {"random": [0.1, 5.0]}}, {}, 1.0))
    0.1
    """
    return lambda outcome: float(outcome["choosing"][selector][at])


def evaluating(outcome: Outcome) -> float:
    """Milliseconds in which the server evaluates the model for the reward.

    >>> evaluating(Outcome({"evaluation": 2.0}, {}, 1.0))
    2.0
    """
    return float(outcome["evaluation"])


def pass_seconds(outcome: Outcome, batch: int) -> FloatArray:
    """(clients,) seconds per sample of a pass with this batch size, as the profile has measured it.

    >>> from enlist.studies.darts.example import example_results
    >>> pass_seconds(example_results()["profile"].outcomes[0], 16).shape
    (12,)
    """
    rows = outcome["batch"] == batch
    order = np.argsort(outcome["client"][rows])
    return np.asarray((np.median(outcome["passes"][rows], axis=1) / outcome["samples"][rows])[order])


def training_times(results: Results, key: str, batch: int, seeds: Sequence[int]) -> FloatArray:
    """(seeds, rounds) seconds in which those who took part train, one after the other, on this machine.

    >>> from enlist.studies.darts.example import example_results
    >>> training_times(example_results(), "select/random", 16, [0, 1]).shape
    (2, 20)
    """
    found = []
    for seed in seeds:
        outcome, measured = results[key].outcomes[seed], results["profile"].outcomes[seed]
        taken = pass_seconds(measured, batch) * outcome["samples"]
        found.append(taken[outcome["who"].astype(np.int64)].sum(axis=1))
    return np.array(found)
