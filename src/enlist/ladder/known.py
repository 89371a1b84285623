"""Results that come with the package, so that you can compare your own method with all others after a few minutes.

The folder known/ holds development.csv and published.csv in the form of results.csv, and ladder.json with their version
of the ladder. `python -m benchmarks.ladder` writes them.

A known result is compared with the runs of random that were made with it, and a result from here with those from here.
If both runs of random are the same, as they should be, this makes no difference. If another processor or version of
PyTorch makes them differ, no time is divided by one that belongs to another target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist.ladder.results import read_results
from enlist.ladder.rung import VERSION
from enlist.runs.scores import BASELINE
from enlist.simulation.header import read_table

FOLDER = Path(__file__).parent / "known"
DIGITS = 6
"""Significant digits of the numbers in the folder."""
TOLERANCE = 1e-4
"""Relative difference above which two runs of random count as different; larger than the rounding."""

Row = Mapping[str, Any]


def known_file(published: bool, folder: Path | None = None) -> Path:
    """The file of known results of published or development seeds.

    >>> known_file(published=True).name
    'published.csv'
    """
    return (folder or FOLDER) / ("published.csv" if published else "development.csv")


def known_results(published: bool = False, folder: Path | None = None) -> list[dict[str, Any]]:
    """The known results of this version of the ladder, one row per run; empty if there are none.

    >>> known_results(folder=Path("no/such/folder"))
    []
    """
    file = known_file(published, folder)
    if version_of(file.parent) != VERSION or not files.has_file(file) or not file.stat().st_size:
        return []
    return read_results(file)


def version_of(folder: Path) -> int | None:
    """The version of the ladder of a folder, according to its ladder.json; None if it is missing.

    >>> version_of(FOLDER), version_of(Path("no/such/folder"))
    (1, None)
    """
    version = (_header(folder) or {}).get("version")
    return version if isinstance(version, int) else None


def own_rungs(folder: Path) -> list[str]:
    """The rungs of a folder that are not the package's, according to its ladder.json.

    >>> own_rungs(Path("no/such/folder"))
    []
    """
    names = (_header(folder) or {}).get("own", [])
    return [str(name) for name in names] if isinstance(names, list) else []


def _header(folder: Path) -> dict[str, Any] | None:
    path = folder / "ladder.json"
    return read_table(path) if files.has_file(path) else None


def comparable(results: Sequence[Row], known: Iterable[Row]) -> list[Row]:
    """The known results that are comparable with some results, including those of random.

    They are from rungs, seeds and data sets with which random was run both here and there, and of methods that were
    not run here.

    >>> here = {"rung": "silos", "seed": 0, "data": "digits", "selector": "random"}
    >>> known = [here, here | {"selector": "oort"}, here | {"selector": "bsfl", "seed": 1}]
    >>> [row["selector"] for row in comparable([here, here | {"selector": "mine"}], known)]
    ['random', 'oort']
    """
    candidates = list(known)
    ran = {row["selector"] for row in results} - {BASELINE}
    shared = _populations(results) & _populations(candidates)
    return [row for row in candidates if _population(row) in shared and row["selector"] not in ran]


def _population(row: Row) -> tuple[str, int, str]:
    return row["rung"], row["seed"], row["data"]


def _populations(rows: Iterable[Row]) -> set[tuple[str, int, str]]:
    return {_population(row) for row in rows if row["selector"] == BASELINE}


def same_run(one: Row, other: Row) -> bool:
    """Whether two rows come from the same run, up to rounding; the processor time of the selector is ignored.

    >>> row = {"data": "digits", "target": 0.7, "reached": 1, "seconds": 90.0, "rounds": 9, "final": 0.72}
    >>> same_run(row, row | {"seconds": 90.0001}), same_run(row, row | {"seconds": 91.0})
    (True, False)
    """
    return all(one[name] == other[name] for name in ("data", "reached", "rounds")) and all(
        math.isclose(one[name], other[name], rel_tol=TOLERANCE) for name in ("target", "seconds", "final")
    )
