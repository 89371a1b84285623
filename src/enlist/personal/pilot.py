"""A pilot run: thresholds for binary rewards are hard to guess, so they are taken from observed increases."""

from __future__ import annotations

from enlist.personal.config import Elimination, PersonalConfig
from enlist.personal.decision import ExploreRounds
from enlist.personal.personalisation import PersonalCallback, Personalisation
from enlist.personal.rewards import Binary, Increment, pilot_threshold
from enlist.personal.rules import ExtremeExploreRule
from enlist.personal.tables import PersonalRecord
from enlist.personal.workers import Workers


def with_pilot_threshold(
    config: PersonalConfig, *, rounds: int = 5, q: float = 0.5, workers: Workers | None = None
) -> PersonalConfig:
    """The same configuration with a binary reward whose threshold is the q-quantile of the increases of a pilot run.

    The pilot plays all arms in each of its few rounds with continuous rewards; its model is discarded.

    >>> small = {"dataset": {"name": "telecom", "rows": 4000}}
    >>> config = with_pilot_threshold(PersonalConfig(workers=small, rule="ucb"), rounds=2)
    >>> config.reward.kind, -0.5 < config.reward.threshold < 0.5
    ('binary', True)
    """
    seen = _Increases()
    changes = {
        "rule": ExtremeExploreRule(),
        "reward": Increment(against=config.reward.against),
        "explore": ExploreRounds(),
        "elimination": Elimination(),
        "rounds": config.rounds.model_copy(update={"rounds": rounds}),
    }
    Personalisation(config.model_copy(update=changes), workers=workers, callbacks=(seen,)).run()
    reward = Binary(threshold=pilot_threshold(seen.increases, q), against=config.reward.against)
    return config.model_copy(update={"reward": reward})


class _Increases(PersonalCallback):
    """Keeps every increase."""

    def __init__(self) -> None:
        self.increases: list[float] = []

    def on_round(self, simulation: Personalisation, record: PersonalRecord) -> None:
        self.increases += [entry["increase"] for entry in record.arms]
