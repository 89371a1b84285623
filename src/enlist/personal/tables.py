"""The tables of a personalisation: their columns, and the rows of arms.csv."""

from __future__ import annotations

import math

from enlist.personal.decision import Decision, Play
from enlist.simulation.callbacks import Row
from enlist.typing import FloatArray

ROUNDS = (
    "round", "arm", "code", "extreme", "epochs", "local", "validation", "test", "best_validation", "best_test",
    "communication", "cumulative_communication", "available", "failed", "skipped",
)  # fmt: skip
ARMS = (
    "round", "arm", "code", "increase", "reward", "credited", "estimate", "lower", "upper", "count", "removed",
)  # fmt: skip
PERSONAL_TABLES = {"rounds.csv": ROUNDS, "arms.csv": ARMS}
"""Table -> columns. rounds.csv tells of the arm whose model was kept, arms.csv has a row for each arm and round."""
MOST_ROWS = 64
"""Arms beyond which arms.csv has rows only for those that were played."""


def arm_rows(decision: Decision, round: int, play: Play, rewards: FloatArray, increases: FloatArray) -> list[Row]:
    """What is known of every arm after a round; increase and reward are NaN for arms that were not played.

    >>> import numpy as np
    >>> from enlist.personal.arms import Arms
    >>> from enlist.personal.rules import UCBRule
    >>> decision = UCBRule().start(Arms.pairs("123", "2"), np.random.default_rng(1))
    >>> play, found = Play(np.array([1]), extreme=False), np.array([0.25])
    >>> decision.learn(play.arms, found, found)
    >>> [(row["arm"], row["increase"], row["count"]) for row in arm_rows(decision, 1, play, found, found)]
    [('1+2', nan, 0), ('2+3', 0.25, 1)]
    """
    arms = decision.arms
    place = {arm: index for index, arm in enumerate(play.arms.tolist())}
    lower, upper = decision.bounds()
    values, count = decision.values().tolist(), decision.count().tolist()
    found: list[Row] = []
    for arm in range(len(arms)) if len(arms) <= MOST_ROWS else place:
        index = place.get(arm)
        reward = math.nan if index is None else float(rewards[index])
        row = {
            "round": round,
            "arm": arms.label(arm),
            "code": arms.code(arm),
            "increase": math.nan if index is None else float(increases[index]),
            "reward": reward,
            "credited": not math.isnan(reward),
            "estimate": values[arm],
            "lower": float(lower[arm]),
            "upper": float(upper[arm]),
            "count": count[arm],
            "removed": bool(decision.removed[arm]),
        }
        found.append(row)
    return found
