"""Regret without training: worlds, a genie that knows them, and matches between selectors."""

from __future__ import annotations

from enlist._internal import aliases
from enlist._internal.statistics import Summary
from enlist.arena.compare import Tournament, compare, paired_difference, summarise
from enlist.arena.genie import BSFLReward, Genie, Regret, make
from enlist.arena.play import Match, MatchRecord, Rules, play
from enlist.arena.scenarios import SCENARIOS, scenario
from enlist.arena.worlds import Scenario, Truth, World

__all__ = [
    "SCENARIOS",
    "BSFLReward",
    "Genie",
    "Match",
    "MatchRecord",
    "Regret",
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

__getattr__ = aliases.former_names(__name__)
