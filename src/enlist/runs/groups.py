"""Many runs as one table, and as groups of runs that differ in keys of their configurations."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from enlist._internal import checks, files
from enlist._internal.typing import AnyArray
from enlist.errors import unknown
from enlist.runs import frames
from enlist.runs.columns import SCORED
from enlist.runs.comparing import comparison_rows, default_target
from enlist.runs.frames import columns_of
from enlist.runs.printing import written
from enlist.runs.scores import BASELINE, OUTCOMES, run_summary
from enlist.runs.tables import RunTables, find_runs, read_run

TABLES = ("runs", "rounds", "participations", "clients")
SINGLED_OUT = ("selector", "seed")
"""Sections that distinguish runs within one group."""
NAMES = ("selector.name", "selector.label", "selector.preset", "selector.source", "seed")
"""Keys that the columns `method` and `seed` replace."""

Values = Mapping[str, Any]
"""Dotted key -> value."""


class Group(NamedTuple):
    """Runs whose configurations differ only in method and seed, and the keys in which other groups differ from it.

    >>> Group({"rounds.k": 5}, []).values
    {'rounds.k': 5}
    """

    values: Values
    runs: list[RunTables]


def leaves(config: Any, path: str = "") -> dict[str, Any]:
    """The keys of a configuration with dots, and their values; a list is a value.

    >>> leaves({"rounds": {"k": 5, "late": None}, "seed": 3})
    {'rounds.k': 5, 'rounds.late': None, 'seed': 3}
    """
    if not isinstance(config, Mapping) or (path and not config):
        return {path: config}
    inner = [leaves(value, f"{path}.{key}" if path else str(key)) for key, value in config.items()]
    return {key: value for part in inner for key, value in part.items()}


def differing(runs: Sequence[RunTables], apart: Collection[str] = SINGLED_OUT) -> list[str]:
    """The keys in which configurations of runs differ, without those in the sections `apart`, in their order.

    A key that only some runs have is left out where the other keys distinguish these runs already: of clients that hold
    their data by another rule, the rule says enough.

    >>> from enlist.runs.example import example_run
    >>> differing([example_run(), example_run("oort", seed=1), example_run(k=5)])
    ['k']
    """
    configs = [leaves(run.config) for run in runs]
    known = dict.fromkeys(key for config in configs for key in config)
    wanted = [key for key in known if not any(f"{key}.".startswith(f"{part}.") for part in apart)]
    found = [key for key in wanted if len({_cell(config.get(key)) for config in configs}) > 1]
    for key in [key for key in found if any(key not in config for config in configs)]:
        fewer = [other for other in found if other != key]
        if _parts(configs, fewer) == _parts(configs, found):
            found = fewer
    return found


def _parts(configs: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> int:
    return len({tuple(_cell(config.get(key)) for key in keys) for config in configs})


def grouped(runs: Sequence[RunTables]) -> list[Group]:
    """Runs by the keys in which they differ, besides method and seed; smaller values first.

    >>> from enlist.runs.example import example_run
    >>> runs = [example_run(k=10), example_run("oort", k=5), example_run(k=5)]
    >>> [(group.values, len(group.runs)) for group in grouped(runs)]
    [({'k': 5}, 2), ({'k': 10}, 1)]
    """
    keys = differing(runs)
    found: dict[tuple[str, ...], Group] = {}
    for run in runs:
        config = leaves(run.config)
        values = {key: config.get(key) for key in keys}
        found.setdefault(tuple(map(_cell, values.values())), Group(values, [])).runs.append(run)
    return sorted(found.values(), key=lambda group: [_rank(value) for value in group.values.values()])


def _cell(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _rank(value: Any) -> tuple[int, float, str]:
    """Numbers by size, then texts and lists, then what is missing."""
    if isinstance(value, int | float):
        return 0, float(value), ""
    return (2, 0.0, "") if value is None else (1, 0.0, str(value))


def ordered(runs: Sequence[RunTables]) -> list[RunTables]:
    """Runs by selector in order of appearance, random last, and by seed.

    >>> from enlist.runs.example import example_run
    >>> [run.name for run in ordered([example_run("random"), example_run("oort", 1), example_run("oort", 0)])]
    ['oort, seed 0', 'oort, seed 1', 'random, seed 0']
    """
    names = list(dict.fromkeys(run.selector for run in runs))
    return sorted(runs, key=lambda run: (run.selector == BASELINE, names.index(run.selector), run.seed))


def group_rows(
    groups: Sequence[Group], target: float | None = None, window: int = 1, baseline: str | None = None
) -> list[dict[str, Any]]:
    """One row per group and method: the group's values, then scores and speed-up within it, as in `comparison_rows`.

    >>> from enlist.runs.example import example_run
    >>> rows = group_rows(grouped([example_run(name, k=k) for k in (3, 5) for name in ("oort", "random")]))
    >>> [(row["k"], row["selector"], row["target"]) for row in rows]
    [(3, 'oort', 0.64), (3, 'random', 0.64), (5, 'oort', 0.75), (5, 'random', 0.75)]
    """
    names = list(dict.fromkeys(run.selector for group in groups for run in group.runs))
    if baseline is not None and baseline not in names:
        raise unknown("method", baseline, names, owner="the comparison")
    rows = []
    for group in groups:
        lost = baseline is not None and baseline not in {run.selector for run in group.runs}
        for row in comparison_rows(group.runs, target, window, None if lost else baseline):
            if lost:  # its runs failed here: there is no baseline
                row = {name: value for name, value in row.items() if not name.startswith(("speed_up", "pairs"))}
                row["baseline"] = None
            rows.append({**_plain(group.values), **row})
    return rows


def run_rows(group: Group, target: float | None = None, window: int = 1) -> list[dict[str, Any]]:
    """One row per run of a group: method, seed, the values of the group, and scores.

    >>> from enlist.runs.example import example_run
    >>> row = run_rows(Group({"rounds.k": 4}, [example_run()]))[0]
    >>> row["method"], row["seed"], row["rounds.k"], row["rounds"]
    ('random', 0, 4, 8)
    """
    rows = []
    for run in group.runs:
        scores = run_summary(run, target, window)
        named = {"method": scores.pop("method"), "seed": scores.pop("seed")}
        rows.append({**named, **_plain(group.values), **scores})
    return rows


def compared_rows(groups: Sequence[Group], target: float | None, baseline: str | None) -> list[dict[str, Any]]:
    """One row per run, with the time to the target by which the methods of its group are compared.

    >>> from enlist.runs.example import example_run
    >>> rows = compared_rows(grouped([example_run(k=3), example_run(k=5)]), None, None)
    >>> [(row["k"], row["target"], row["rounds_to_target"]) for row in rows]
    [(3, 0.64, 6), (5, 0.75, 6)]
    """
    rows = []
    for group in groups:
        goal = default_target(group.runs, baseline or BASELINE) if target is None else target
        rows += run_rows(group, goal if math.isfinite(goal) else None)
    return rows


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a CSV file with a column for every name among them; unknown values are empty.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_rows(Path(folder) / "some.csv", [{"seed": 0, "final": 0.5}, {"seed": 1, "final": math.nan}])
    ...     (Path(folder) / "some.csv").read_text()
    'seed,final\\n0,0.5\\n1,\\n'
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_known(row.get(name)) for name in names] for row in rows)
    files.write(path, text.getvalue().encode())


def _known(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


def run_frame(rows: Sequence[Mapping[str, Any]], library: str | None = None) -> Any:
    """Rows of runs as a data frame.

    >>> from enlist.runs.example import example_run
    >>> run_frame(run_rows(Group({}, [example_run()])), "arrays")["late"]
    array([0.0625])
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    return frames.frame(columns_of(rows, names), library, shares=OUTCOMES)


def _plain(values: Values) -> dict[str, Any]:
    """Values as cells: anything that is neither a number nor text is written as text."""
    simple = (int, float, str, type(None))
    return {key: value if isinstance(value, simple) else written(value) for key, value in values.items()}


def frame(
    folders: str | PathLike[str] | Iterable[str | PathLike[str]],
    table: str = "runs",
    *,
    target: float | None = None,
    window: int = 1,
    library: str | None = None,
) -> Any:
    """Many run folders as one tidy table; exported as `enlist.frame`.

    Parameters
    ----------
    folders : path or sequence of paths
        Run folders, folders of comparisons or sweeps, or folders above them.
    table : {"runs", "rounds", "participations", "clients"}, default "runs"
        "runs" has one row per run with its scores; the others are the tables of all runs, one below the other.
    target : float, optional
        The accuracy (of a regression, the loss) whose time is scored; by default each configuration's own.
    window : int, default 1
        Evaluations whose mean must meet the target.
    library : {"pandas", "polars", "arrays"}, optional
        By default pandas if it is installed, else plain arrays.

    Returns
    -------
    data frame
        First folder, method and seed, then a column for every key in which the configurations differ, by its dotted
        name, then scores or the columns of the table.

    >>> import tempfile
    >>> from enlist.runs.example import example_run, write_run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     for k in (3, 5):
    ...         _ = write_run(example_run(k=k), Path(place) / str(k))
    ...     list(frame(place)["k"]), len(frame([place], "rounds"))
    ([3, 5], 16)
    """
    checks.one_of("table", table, TABLES)
    paths = [folders] if isinstance(folders, str | PathLike) else list(folders)
    found = find_runs([Path(path) for path in paths])
    runs = [read_run(path, None if table == "participations" else SCORED) for path in found]
    keys = differing(runs, NAMES)
    groups = []
    for run in runs:
        config = leaves(run.config)
        groups.append(Group({key: config.get(key) for key in keys}, [run]))
    if table == "runs":
        rows = [row for group in groups for row in run_rows(group, target, window)]
        return run_frame([{"folder": str(path), **row} for path, row in zip(found, rows, strict=True)], library)
    heads = [
        {"folder": str(path), "method": run.selector, "seed": run.seed, **_plain(group.values)}
        for path, run, group in zip(found, runs, groups, strict=True)
    ]
    tables = [getattr(run, table) for run in runs]
    lengths = [len(next(iter(each.values()))) for each in tables]
    columns = columns_of(heads, list(heads[0]))
    stacked = {name: np.repeat(column, lengths) for name, column in columns.items()}
    for name in dict.fromkeys(name for each in tables for name in each):
        stacked[name] = _stacked([each.get(name) for each in tables], lengths)
    return frames.frame(stacked, library)


def _stacked(parts: Sequence[AnyArray | None], lengths: Sequence[int]) -> AnyArray:
    """One column from those of several tables; values are missing where a table lacks it."""
    text = any(part is not None and part.dtype.kind in "UO" for part in parts)
    gap = "" if text else np.nan
    return np.concatenate(
        [np.full(length, gap) if part is None else part for part, length in zip(parts, lengths, strict=True)]
    )
