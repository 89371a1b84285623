"""Results that come with the package, so that a method of one's own stands beside everybody after a few minutes.

The folder known/ holds development.csv and published.csv in the form of results.csv, and ladder.json with the version
of the ladder that they are of. `python -m benchmarks.ladder` writes them.

A known result is measured by the random that was run with it, what was run here by the random run here. Where both
randoms are the same, as they are meant to be, this makes no difference; where another processor or version of PyTorch
lets them differ, no time is divided by one that belongs to another target.
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
"""Relative difference from which on two runs of random are said to differ; above that of the digits."""

Row = Mapping[str, Any]


def known_file(published: bool, folder: Path | None = None) -> Path:
    """Where the known results of published or of development seeds are.

    >>> known_file(published=True).name
    'published.csv'
    """
    return (folder or FOLDER) / ("published.csv" if published else "development.csv")


def known_results(published: bool = False, folder: Path | None = None) -> list[dict[str, Any]]:
    """The known results of this version of the ladder, one row per run; none if there are none.

    >>> known_results(folder=Path("no/such/folder"))
    []
    """
    file = known_file(published, folder)
    if version_of(file.parent) != VERSION or not files.has_file(file) or not file.stat().st_size:
        return []
    return read_results(file)


def version_of(folder: Path) -> int | None:
    """The version of the ladder that a folder is of, as its ladder.json says; None if it does not say.

    >>> version_of(FOLDER), version_of(Path("no/such/folder"))
    (1, None)
    """
    version = (_header(folder) or {}).get("version")
    return version if isinstance(version, int) else None


def own_rungs(folder: Path) -> list[str]:
    """The rungs of a folder that are not the package's, as its ladder.json says.

    >>> own_rungs(Path("no/such/folder"))
    []
    """
    names = (_header(folder) or {}).get("own", [])
    return [str(name) for name in names] if isinstance(names, list) else []


def _header(folder: Path) -> dict[str, Any] | None:
    path = folder / "ladder.json"
    return read_table(path) if files.has_file(path) else None


def comparable(results: Sequence[Row], known: Iterable[Row]) -> list[Row]:
    """The known results that can stand beside some results, random's among them.

    They are of a rung, seed and data set with which random was run both here and there, and of methods that were not
    run here.

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
    """Whether two rows are of the same run, up to rounding; the processor time of the selector does not count.

    >>> row = {"data": "digits", "target": 0.7, "reached": 1, "seconds": 90.0, "rounds": 9, "final": 0.72}
    >>> same_run(row, row | {"seconds": 90.0001}), same_run(row, row | {"seconds": 91.0})
    (True, False)
    """
    return all(one[name] == other[name] for name in ("data", "reached", "rounds")) and all(
        math.isclose(one[name], other[name], rel_tol=TOLERANCE) for name in ("target", "seconds", "final")
    )
