"""Personalised learning: a model for one target worker, and the combination of workers that helps it.

The rules and rewards are those of the MAB-FL thesis; the loop is `Personalisation`. Needs the extra `sim`.
"""

from __future__ import annotations

from enlist._internal import aliases
from enlist.personal.arms import Arms
from enlist.personal.config import PersonalConfig, load, parse
from enlist.personal.decision import Decision, Play
from enlist.personal.metrics import Metric, auc
from enlist.personal.personalisation import Personalisation
from enlist.personal.recorder import complete, run_in
from enlist.personal.seeds import every_seed
from enlist.personal.tables import PERSONAL_TABLES, PersonalRecord
from enlist.personal.workers import Workers

__all__ = [
    "PERSONAL_TABLES",
    "Arms",
    "Decision",
    "Metric",
    "PersonalConfig",
    "PersonalRecord",
    "Personalisation",
    "Play",
    "Workers",
    "auc",
    "complete",
    "every_seed",
    "load",
    "parse",
    "run_in",
]

__getattr__ = aliases.former_names(__name__)
