"""The tables of personalised learning: their columns with meanings, a round's record, and the rows of arms.csv."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict

from enlist._internal.typing import FloatArray
from enlist.personal.decision import Decision, Play


class PersonalRow(TypedDict, total=False):
    """A row of rounds.csv: the arm whose model was kept. A value that is unknown is missing, or NaN.

    >>> list(PersonalRow.__annotations__)[:3]
    ['round', 'arm', 'code']
    """

    round: Required[int]
    """1, 2, ..."""
    arm: str
    """The combination whose aggregate became the model, as names."""
    code: str
    """The same as a code, with a 1 for each worker in it."""
    extreme: bool
    """Whether all arms were played."""
    epochs: int
    """Epochs that the target trained."""
    local: float
    """Validation score of the target's own model."""
    validation: float
    """Validation score of the model kept."""
    test: float
    """Test score of the model kept."""
    best_validation: float
    """The best validation score so far."""
    best_test: float
    """Test score of the model with the best validation score."""
    communication: int
    """Messages of this round."""
    cumulative_communication: int
    """Messages so far."""
    available: int
    """Workers that were available."""
    failed: str
    """Workers whose updates did not arrive or are unusable, joined by +."""
    skipped: str
    """Why the round was skipped; empty if it was not."""


class ArmRow(TypedDict):
    """A row of arms.csv: what is known about an arm after a round.

    >>> list(ArmRow.__annotations__)[:3]
    ['round', 'arm', 'code']
    """

    round: int
    """1, 2, ..."""
    arm: str
    """The combination, as names."""
    code: str
    """The same as a code, with a 1 for each worker in it."""
    increase: float
    """The aggregate's score minus the reference; NaN if it was not played."""
    reward: float
    """What the rule learned from; NaN if it was not played, or a worker did not reply."""
    credited: bool
    """Whether there was a reward."""
    estimate: float
    """The rule's estimate of its reward."""
    lower: float
    """Lower bound of its mean increase."""
    upper: float
    """Upper bound of its mean increase."""
    count: int
    """Rewards so far."""
    removed: bool
    """Whether it was eliminated."""


@dataclasses.dataclass(frozen=True, eq=False)
class PersonalRecord:
    """What `Personalisation.step` returns and callbacks get for a round: its rows of rounds.csv and arms.csv.

    >>> PersonalRecord({"round": 1}, []).tables()
    {'arms.csv': [], 'rounds.csv': [{'round': 1}]}
    """

    row: PersonalRow
    arms: Sequence[ArmRow]

    def tables(self) -> dict[str, Sequence[Mapping[str, Any]]]:
        """Table -> the rows that this round adds to it."""
        return {"arms.csv": self.arms, "rounds.csv": [self.row]}


PERSONAL_TABLES = {"rounds.csv": tuple(PersonalRow.__annotations__), "arms.csv": tuple(ArmRow.__annotations__)}
"""Table -> columns. rounds.csv describes the arm whose model was kept, arms.csv has a row for each arm and round."""
MOST_ROWS = 64
"""With more arms than this, arms.csv has rows only for played ones."""


def arm_rows(decision: Decision, round: int, play: Play, rewards: FloatArray, increases: FloatArray) -> list[ArmRow]:
    """What is known about every arm after a round; increase and reward are NaN for arms that were not played.

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
    found: list[ArmRow] = []
    for arm in range(len(arms)) if len(arms) <= MOST_ROWS else place:
        index = place.get(arm)
        reward = math.nan if index is None else float(rewards[index])
        row: ArmRow = {
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
