"""What the ladder keeps of a run: one row, from which all scores are computed.

The target of a rung and seed is 97 % of the final accuracy of random. It is reached by the first three evaluations in a
row whose mean meets it. A run that never reaches it counts with the budget of the rung, in virtual seconds and rounds,
and at least with its own: so a method cannot gain by short rounds without progress.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal import files
from enlist.errors import InputError
from enlist.runs.scores import BASELINE, LAST, run_scores, time_to, total
from enlist.runs.tables import RunTables, read_table

SHARE = 0.97
"""The target, as a share of the final accuracy of random."""
COLUMNS = (
    "rung",
    "selector",
    "seed",
    "data",
    "target",
    "reached",
    "seconds",
    "rounds",
    "final",
    "wasted",
    "worst_tenth",
    "server_ms",
)
"""Columns of results.csv: one row per run.

target        accuracy to be reached with this seed
reached       1 if it was
seconds       virtual time until then; the budget if it never was
rounds        rounds until then
final         mean of the last three evaluations
wasted        share of selected clients whose update was never merged
worst_tenth   accuracy of the worst tenth of the clients, if it was measured
server_ms     processor time of the selector per round, in milliseconds
"""

Row = Mapping[str, Any]


def results(rung: str, runs: Iterable[RunTables]) -> list[dict[str, Any]]:
    """One row per run of a rung, without runs whose seed random was not run with.

    >>> from enlist.runs.example import example_run
    >>> rows = results("example", [example_run(name) for name in ("random", "fedcs")])
    >>> [(row["selector"], row["reached"], row["rounds"]) for row in rows]
    [('random', 1, 8), ('fedcs', 0, 8)]
    """
    known = list(runs)
    targets = {run.seed: SHARE * run_scores(run)["final"] for run in known if run.selector == BASELINE}
    return [_row(rung, run, targets[run.seed]) for run in known if run.seed in targets]


def _row(rung: str, run: RunTables, target: float) -> dict[str, Any]:
    scores = run_scores(run)
    reached, whole = time_to(run, target, window=LAST), total(run)
    seconds, rounds = (whole.seconds, whole.rounds) if reached is None else (reached.seconds, reached.rounds)
    if reached is None:
        budget = run.config.get("rounds")
        limits = budget if isinstance(budget, Mapping) else {}
        seconds, rounds = max(seconds, limits.get("seconds") or 0.0), max(rounds, limits.get("rounds") or 0)
    merged = scores["completed"] + (scores["arrived"] / scores["selected"] if scores["arrived"] > 0 else 0.0)
    return {
        "rung": rung,
        "selector": run.selector,
        "seed": run.seed,
        "data": _data(run),
        "target": target,
        "reached": int(reached is not None),
        "seconds": float(seconds),
        "rounds": int(rounds),
        "final": scores["final"],
        "wasted": max(1.0 - merged, 0.0),
        "worst_tenth": scores.get("accuracy_worst_tenth", math.nan),
        "server_ms": math.nan if run.folder is None else server_ms(run.folder),
    }


def _data(run: RunTables) -> str:
    section = run.config.get("data")
    found = section.get("dataset") if isinstance(section, Mapping) else None
    return str(found.get("name", "")) if isinstance(found, Mapping) else str(found or "")


def server_ms(folder: Path) -> float:
    """Processor time of the selector per round, in milliseconds; NaN where it was not recorded.

    >>> server_ms(Path("no/such/run"))
    nan
    """
    path = folder / "wall.csv"
    if not files.has_file(path):
        return math.nan
    lines = [line.split(",") for line in files.read(path).decode(errors="replace").splitlines()[1:]]
    seconds = [_number(cells[2]) for cells in lines if len(cells) == 3]
    known = [value for value in seconds if math.isfinite(value)]
    return 1000.0 * float(np.mean(known)) if known else math.nan


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def write_results(rows: Iterable[Row], path: Path, columns: Sequence[str] = COLUMNS, digits: int = 10) -> Path:
    """Write rows as CSV, by default with the columns of results.csv, from which a leaderboard can be rebuilt.

    Numbers are written with at most `digits` significant digits.

    >>> import tempfile
    >>> row = dict.fromkeys(COLUMNS, 0.5) | {"rung": "silos", "selector": "oort", "seed": 3, "data": "digits"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_results(write_results([row], Path(folder) / "results.csv"))[0]["seed"]
    3
    """
    lines = [",".join(columns), *(",".join(_cell(row[name], digits) for name in columns) for row in rows)]
    files.write(path, ("\n".join(lines) + "\n").encode())
    return path


def _cell(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.{digits}g}"
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\n') else text


def read_results(path: Path) -> list[dict[str, Any]]:
    """Read the rows written by `write_results`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_results([{"rung": "silos"}], Path(folder) / "results.csv", ["rung"])
    ...     read_results(path)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: .../results.csv has no column selector; it is not a results.csv of a ladder.
    """
    table = read_table(path, text=("rung", "selector", "data"))
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise InputError(f"{path} has no column {missing[0]}; it is not a results.csv of a ladder.")
    rows = [dict(zip(COLUMNS, cells, strict=True)) for cells in zip(*(table[name] for name in COLUMNS), strict=True)]
    return [_typed(row) for row in rows]


def _typed(row: Row) -> dict[str, Any]:
    kinds = {"rung": str, "selector": str, "data": str, "seed": int, "reached": int, "rounds": int}
    return {name: kinds.get(name, float)(value) for name, value in row.items()}
