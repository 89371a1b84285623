"""timing.csv: how the time of each round was spent. Like wall.csv, it is not bit-reproducible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from enlist._internal import files
from enlist._internal.typing import FloatArray
from enlist.runs.printing import percent
from enlist.runs.tables import read_table

FILE = "timing.csv"
PARTS = {
    "train": "workers train, on average over them",
    "wait": "workers wait for each other, and for messages, while clients are trained",
    "server": "everything else of a round: choosing, the clock, merging, telling the selector",
    "evaluate": "the model is tested",
    "write": "tables and checkpoints are written, unless that is hidden behind training, and other callbacks run",
}
"""Parts of a round, and what happens in each."""


def read_timing(folder: Path) -> dict[str, FloatArray]:
    """Part -> seconds in each round, the first rounds first; empty if the run was not timed.

    If a round was run again after a kill, the last reading counts.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     lines = ["round,train,wait,server,evaluate,write", "1,9,9,9,9,9", "1,2,0.5,1,0,0.5"]
    ...     _ = (Path(place) / FILE).write_text("".join(line + chr(10) for line in lines))
    ...     read_timing(Path(place))["train"]
    array([2.])
    """
    if not files.has_file(folder / FILE):
        return {}
    table = read_table(folder / FILE)
    if any(name not in table or table[name].dtype.kind != "f" for name in ("round", *PARTS)):
        return {}  # foreign or damaged: nothing is computed from it
    _, first = np.unique(table["round"][::-1], return_index=True)
    return {name: table[name][::-1][first] for name in PARTS}


def timing_table(spent: Mapping[str, FloatArray]) -> list[list[str]]:
    """Header and a row per part: total seconds, milliseconds in the median round, and the share of the whole.

    >>> timing_table({name: np.array([0.25, 0.75]) for name in PARTS})[1][:4]
    ['train', '1.00', '500.00', '20 %']
    """
    whole = sum(float(np.sum(values)) for values in spent.values())
    rows = [["part", "seconds", "ms a round (median)", "share", "what happens"]]
    for name, values in spent.items():
        seconds = float(np.sum(values))
        share = percent(seconds / whole) if whole else "–"
        rows.append([name, f"{seconds:.2f}", f"{1e3 * float(np.median(values)):.2f}", share, PARTS[name]])
    return rows


__all__: Sequence[str] = ["FILE", "PARTS", "read_timing", "timing_table"]
