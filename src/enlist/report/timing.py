"""The section on where the wall-clock time of rounds went, for runs that recorded it (`enlist run --timing`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from enlist.report.page import Section
from enlist.runs.printing import percent, plural
from enlist.runs.tables import RunTables
from enlist.runs.timing import PARTS, read_timing, timing_table


def timing_sections(runs: Sequence[RunTables]) -> list[Section]:
    """One section if any run was timed, else none; if several, each gets a row.

    >>> from enlist.runs.example import example_run
    >>> timing_sections([example_run()])
    []
    """
    found = {run.name: spent for run in runs if run.folder is not None and (spent := read_timing(run.folder))}
    if not found:
        return []
    text = "Seconds on the simulating machine, not virtual time; they differ from run to run."
    if len(found) == 1:
        spent = next(iter(found.values()))
        note = f"Of {plural(len(spent['train']), 'round')}."
        return [Section("Where the time went", text, table=timing_table(spent), note=note)]
    table = [["run", "ms a round (median)", *PARTS]]
    for name, spent in found.items():
        rounds = np.sum(list(spent.values()), axis=0)
        whole = max(float(rounds.sum()), 1e-12)
        shares = [percent(float(spent[part].sum()) / whole) for part in PARTS]
        table.append([name, f"{1e3 * float(np.median(rounds)):.1f}", *shares])
    note = " ".join(f"{part.capitalize()}: {meaning}." for part, meaning in PARTS.items())
    return [Section("Where the time went", text, table=table, note=note)]
