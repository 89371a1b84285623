"""What a run leaves behind: its folder with tables and checkpoints, and scores read from the tables.

>>> from enlist.runs.example import example_run
>>> len(example_run().rounds["round"]) > 0
True
"""

from __future__ import annotations

from enlist.runs.folder import Checkpoint, RunFolder
from enlist.runs.tables import RunTables, find_runs, read_run

__all__ = ["Checkpoint", "RunFolder", "RunTables", "find_runs", "read_run"]
