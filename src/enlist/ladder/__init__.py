"""The ladder: a fixed set of federations, and a leaderboard of methods over all of them.

    board = ladder("mine:LossPerSecond", seeds=5, folder="runs/ladder")      # shows known results of other methods, too
    print(board)
    board.report("runs/ladder/report")

`enlist ladder` is the same on the command line. docs/simulation.md says how it is scored.
"""

from __future__ import annotations

from enlist.ladder.known import known_results
from enlist.ladder.leaderboard import Leaderboard, read
from enlist.ladder.rung import NAMES, VERSION, Rung, rungs
from enlist.ladder.running import Ladder, ladder

__all__ = ["NAMES", "VERSION", "Ladder", "Leaderboard", "Rung", "known_results", "ladder", "read", "rungs"]
