"""Regret without training: worlds, a genie that knows them, and matches between selectors."""

from __future__ import annotations

from enlist._internal.statistics import Summary
from enlist.arena.compare import Tournament, compare, paired_difference, summarise
from enlist.arena.genie import Genie, Regret, Reward, make
from enlist.arena.play import Match, MatchRecord, Rules, play
from enlist.arena.scenarios import SCENARIOS, scenario
from enlist.arena.worlds import Scenario, Truth, World

__all__ = [
    "SCENARIOS",
    "Genie",
    "Match",
    "MatchRecord",
    "Regret",
    "Reward",
    "Rules",
    "Scenario",
    "Summary",
    "Tournament",
    "Truth",
    "World",
    "compare",
    "make",
    "paired_difference",
    "play",
    "scenario",
    "summarise",
]
