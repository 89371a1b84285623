"""Regret without training: worlds, a genie that knows them, and matches between selectors."""

from __future__ import annotations

from enlist._internal.statistics import Summary
from enlist.arena.compare import Comparison, compare, paired_difference, summarise
from enlist.arena.genie import Genie, Regret, Reward, make
from enlist.arena.play import Match, Record, Rules, play
from enlist.arena.scenarios import SCENARIOS, scenario
from enlist.arena.worlds import Scenario, Truth, World

__all__ = [
    "SCENARIOS",
    "Comparison",
    "Genie",
    "Match",
    "Record",
    "Regret",
    "Reward",
    "Rules",
    "Scenario",
    "Summary",
    "Truth",
    "World",
    "compare",
    "make",
    "paired_difference",
    "play",
    "scenario",
    "summarise",
]
