"""The tables of a run folder, read back: CSV as arrays, without a library for tables.

Cells hold values byte for byte. That includes names that begin with =, +, - or @, which a spreadsheet takes for
formulas: a quote before them would change names that other tables and programs look up, and numbers must stay
numbers. Import such columns as text when you open tables from strangers in a spreadsheet. Names are cleaned where they
are shown (`text.printable`).
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal import files
from enlist._internal.aliases import present_columns, present_config
from enlist._internal.text import printable
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.errors import InputError
from enlist.methods import Method
from enlist.runs.columns import NAMES, NEEDED, SCORED, SCORED_FEDERATION
from enlist.runs.kinds import held

Table = dict[str, AnyArray]
ReadTable = Callable[[Path, Collection[str] | None, Collection[str]], Table]
"""A reader of tables: path, the columns to read (None for all), and those that hold text."""

_BLOCK = 1_000  # rows held as text at a time; with more, most of the time is spent on collecting garbage


def read_table(path: Path | str, columns: Collection[str] | None = None, text: Collection[str] = ()) -> Table:
    """Columns of a CSV file, all or those named: numbers as float64 with NaN for an empty cell, others as strings.

    A column is numeric if every cell that is not empty can be read as a number, unless it is among `text`. A killed run
    may leave a last line without an end, perhaps in the middle of a number: it is ignored.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "some.csv"
    ...     _ = path.write_text("round,accuracy,outcome\\n1,,late\\n2,0.5,completed\\n3,0.")
    ...     read_table(path)
    {'round': array([1., 2.]), 'accuracy': array([nan, 0.5]), 'outcome': array(['late', 'completed'], dtype='<U9')}
    """
    path = Path(path)
    try:
        return _read(path, columns, frozenset(text))
    except FileNotFoundError:
        raise InputError(f"{path} is missing; name a folder that a run has written.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is damaged ({error}); run it again, or leave this run out.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None


def _read(path: Path, columns: Collection[str] | None, text: frozenset[str]) -> Table:
    """`text`: columns known to hold text; finding another one means starting again."""
    with files.open_text(path) as file:
        lines = csv.reader(_whole_lines(file))
        header = next(lines, None)
        if header is None:
            raise InputError(f"{path} is empty; run it again, or leave this run out.")
        header = present_columns(path.name, header)
        if len(set(header)) < len(header):
            raise InputError(f"{path} names a column twice: {', '.join(header)}; run it again, or leave this run out.")
        wanted = [index for index, name in enumerate(header) if columns is None or name in columns]
        parts: dict[str, list[AnyArray]] = {header[index]: [np.empty(0)] for index in wanted}
        while block := list(itertools.islice(lines, _BLOCK)):
            if set(map(len, block)) != {len(header)}:
                wrong = next(index for index, row in enumerate(block) if len(row) != len(header))
                raise InputError(
                    f"{path} is damaged: line {lines.line_num - len(block) + 1 + wrong} has {len(block[wrong])} cells "
                    f"under {len(header)} columns; run it again, or leave this run out."
                )
            cells = list(zip(*block, strict=True))
            for index in wanted:
                name = header[index]
                try:
                    parts[name].append(np.array(cells[index]) if name in text else numbers(cells[index]))
                except ValueError:
                    return _read(path, columns, text | {name})
    return {name: np.concatenate(part[len(part) > 1 :]) for name, part in parts.items()}


def numbers(cells: tuple[str, ...]) -> FloatArray:
    """Cells as float64, NaN for an empty one; a ValueError if one is not a number.

    >>> numbers(("1", "", "0.5"))
    array([1. , nan, 0.5])
    """
    if not any(cells):
        return np.full(len(cells), math.nan)
    known = map(float, cells) if "" not in cells else (float(cell) if cell else math.nan for cell in cells)
    return np.fromiter(known, dtype=float, count=len(cells))


def _whole_lines(file: Iterable[str]) -> Iterable[str]:
    return (line for line in file if line.endswith("\n"))


@dataclasses.dataclass(frozen=True, eq=False)
class RunTables:
    """What a run has left: its tables (column name to array), its configuration, and its result once it is finished.

    >>> from enlist.runs.example import example_run
    >>> run = example_run("oort", seed=2)
    >>> run.name, run.count, len(run.rounds["round"]), run.result["status"]
    ('oort, seed 2', 12, 8, 'finished')
    """

    selector: str
    seed: int
    config: Mapping[str, Any]
    rounds: Table
    participations: Table
    clients: Table
    result: Mapping[str, Any] | None = None
    folder: Path | None = None
    kept: Table | None = None
    """The reasons of a run in memory; those in a folder are read when needed."""

    @property
    def name(self) -> str:
        """Selector and seed."""
        return f"{self.selector}, seed {self.seed}"

    @property
    def count(self) -> int:
        """Number of clients in the population."""
        return len(self.clients["client"])

    @property
    def federation(self) -> bool:
        """Whether it is a real federation rather than a simulation: then it has a strategy."""
        return "strategy" in self.config

    @property
    def asynchronous(self) -> bool:
        """Whether clients were replaced as they finished: a round is a step of the server, and a row of participations
        later than its selection is the only one of that request, unless the server had given up on it."""
        if self.federation:
            return self.config.get("mode") == "buffered"
        rounds = self.config.get("rounds")
        return isinstance(rounds, Mapping) and rounds.get("protocol") in ("buffered", "async")

    @property
    def clock(self) -> str:
        """The unit of its seconds: "virtual time" of a simulation, "time" of a real federation."""
        return "time" if self.federation else "virtual time"

    @property
    def classes(self) -> list[str]:
        """The columns of the clients table that count samples of a class, in order."""
        return [name for name in self.clients if name.startswith("class_")]

    @property
    def names(self) -> AnyArray | None:
        """(clients,) names of clients, row by row of the clients table; None if they have none."""
        return next((self.clients[name] for name in NAMES if name in self.clients), None)

    @functools.cached_property
    def reasons(self) -> Table:
        """Why clients were selected: round, client and the terms of the choice; empty if reasons were not kept."""
        if self.kept is not None or self.folder is None:
            return dict(self.kept or {})
        return read_reasons(self.folder, self.rounds)

    @functools.cached_property
    def who(self) -> IntArray:
        """(participations,) row of the clients table of each participation."""
        known, asked = self.clients["client"], self.participations["client"]
        order = np.argsort(known)
        rows: IntArray = order[np.searchsorted(known[order], asked).clip(max=len(known) - 1)] if len(known) else order
        if len(asked) and (not len(known) or (known[rows] != asked).any()):
            stranger = str(asked[0] if not len(known) else asked[known[rows] != asked][0]).removesuffix(".0")
            raise InputError(
                f"{self.folder or self.name} is damaged: participations.csv names client {stranger}, clients.csv does "
                "not; run it again, or leave this run out."
            )
        return rows if len(asked) else np.empty(0, dtype=np.int64)


def read_run(folder: Path | str, columns: Collection[str] | None = None, read: ReadTable = read_table) -> RunTables:
    """The tables of one run folder; of a run in progress or killed, up to the last complete round.

    Selector and seed are those of the configuration; inside a comparison (`runs/<selector>/<seed>`) the place decides.
    `columns` are the columns of the participations to read: `SCORED` is enough for scores and reports, and a long table
    is read three times as fast. `read` reads a table; pass one that keeps what it has read to look at a run again and
    again.

    >>> import tempfile
    >>> from enlist.runs.example import example_run, write_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_run(write_run(example_run("oort", seed=2), Path(folder) / "mine")).name
    'oort, seed 2'
    """
    folder = Path(folder)
    rounds = _checked(folder / "rounds.csv", NEEDED["rounds.csv"], read=read)
    config = read_config(folder)
    text: tuple[str, ...] = ("outcome", *NAMES)
    if config is not None and "strategy" in config:
        columns, text = None if columns is None else (*columns, *SCORED_FEDERATION), (*text, "reason")
    participations = _checked(folder / "participations.csv", SCORED, columns, text, read)
    clients = _checked(folder / "clients.csv", NEEDED["clients.csv"], text=NAMES, read=read)
    numbers = rounds["round"]
    if (np.diff(numbers) <= 0).any():
        where = int(np.argmax(np.diff(numbers) <= 0)) + 1
        raise InputError(
            f"{folder / 'rounds.csv'} is damaged: round {numbers[where]:g} follows round {numbers[where - 1]:g}; "
            "run it again, or leave this run out."
        )
    told = participations["round"] <= (numbers[-1] if len(numbers) else -math.inf)
    participations = {name: column[told] for name, column in participations.items()}
    if config is None:
        raise InputError(f"{folder / 'config.json'} is missing; name a folder that a run has written.")
    selector, seed = identity(folder, config)
    return RunTables(
        selector, seed, config, rounds, participations, clients, read_json(folder / "result.json"), folder.absolute()
    )


def read_rounds(folder: Path | str, read: ReadTable = read_table) -> RunTables:
    """A run without its participations and clients, which an overview of many runs does not need.

    >>> import tempfile
    >>> from enlist.runs.example import example_run, write_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = read_rounds(write_run(example_run("oort", seed=2), Path(folder) / "mine"))
    >>> run.name, len(run.rounds["round"]), run.participations
    ('oort, seed 2', 8, {})
    """
    folder = Path(folder)
    config = read_config(folder)
    if config is None:
        raise InputError(f"{folder / 'config.json'} is missing; name a folder that a run has written.")
    rounds = _checked(folder / "rounds.csv", NEEDED["rounds.csv"], read=read)
    selector, seed = identity(folder, config)
    result = read_json(folder / "result.json")
    return RunTables(selector, seed, config, rounds, {}, {}, result, folder.absolute())


def read_reasons(folder: Path, rounds: Table, read: ReadTable = read_table) -> Table:
    """reasons.csv up to the last of the rounds; empty if there is none.

    >>> read_reasons(Path("no/such/run"), {})
    {}
    """
    path = folder / "reasons.csv"
    if not files.has_file(path):
        return {}
    table = _checked(path, ("round", "client"), read=read)
    for name, column in table.items():
        if column.dtype.kind != "f":
            raise InputError(f"{path} is damaged: column '{printable(name, 40)}' holds text; run it again.")
    told = table["round"] <= (rounds["round"][-1] if len(rounds["round"]) else -math.inf)
    return {name: column[told] for name, column in table.items()}


def find_runs(paths: Iterable[Path | str]) -> list[Path]:
    """Run folders among and below `paths` (run folders, comparison folders, or any folder above), each once.

    >>> import tempfile
    >>> from enlist.runs.example import example_run, write_run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for seed in (10, 9):
    ...         _ = write_run(example_run("oort", seed), Path(folder) / "runs" / "oort" / str(seed))
    ...     [str(path.relative_to(folder)) for path in find_runs([folder])]
    ['runs/oort/9', 'runs/oort/10']
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            state = "is a file" if path.exists() else "does not exist"
            raise InputError(f"{path} {state}; name a run folder, a comparison folder, or a folder above them.")
        below = sorted(_run_folders(path), key=natural)
        if not below:
            raise InputError(
                f"{path} holds no runs: neither it nor a folder below has a rounds.csv; name a run folder, a "
                "comparison folder, or a folder above them."
            )
        for run in below:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def _run_folders(path: Path) -> Iterable[Path]:
    for folder, inner, names in os.walk(path):
        if Path(folder) != path and held(Path(folder)):
            inner.clear()  # runs of a study have its own page
        elif "rounds.csv" in names:
            inner.clear()
            yield Path(folder)


def natural(path: Path) -> list[tuple[int, str]]:
    """A key to sort folders by: seed 10 comes after seed 9, and random, the baseline of the others, at the end.

    >>> [str(path) for path in sorted(map(Path, ["random/0", "oort/10", "oort/9"]), key=natural)]
    ['oort/9', 'oort/10', 'random/0']
    """
    return [
        (2, part) if part == "random" else (0, part.zfill(20)) if part.isdigit() else (1, part) for part in path.parts
    ]


def _checked(
    path: Path,
    needed: Iterable[str],
    columns: Collection[str] | None = None,
    text: Collection[str] = (),
    read: ReadTable = read_table,
) -> Table:
    table = read(path, None if columns is None else {*columns, *needed}, text)
    missing = [name for name in needed if name not in table]
    if missing:
        raise InputError(
            f"{path} has no column '{missing[0]}' (it has {', '.join(table)}); run it again, or leave this run out."
        )
    for name in needed:
        if name not in text and table[name].dtype.kind != "f":
            cell = next(cell for cell in table[name] if not _is_number(cell))
            raise InputError(f"{path} is damaged: {cell!s:.40} in column '{name}' is not a number; run it again.")
    return table


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def read_json(path: Path) -> dict[str, Any] | None:
    """The table in a JSON file; None if there is no such file.

    >>> read_json(Path("no/such/result.json")) is None
    True
    """
    try:
        content = json.loads(files.read(path))
    except FileNotFoundError:
        return None
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}); run it again, or leave this run out.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged: it holds no table; run it again, or leave this run out.")
    return content


def read_config(folder: Path) -> dict[str, Any] | None:
    """The configuration of a run, in current terms; None if there is no such file.

    >>> read_config(Path("no/such/run")) is None
    True
    """
    found = read_json(folder / "config.json")
    return None if found is None else present_config(found)


def identity(folder: Path, config: Mapping[str, Any]) -> tuple[str, int]:
    """Label and seed; in a comparison the folder distinguishes methods, and the configuration says how they are spelt.

    >>> identity(Path("mine"), {"selector": {"name": "oort"}, "seed": 3})
    ('oort', 3)
    """
    place, section, seed = folder.absolute(), config.get("selector"), config.get("seed")
    label = _label(section) if isinstance(section, Mapping) else str(section or place.name)
    if len(place.parents) > 2 and (place.parents[2] / "comparison.json").exists():
        told_apart = re.sub(r"\W+", "-", place.parent.name) != re.sub(r"\W+", "-", label)
        label = place.parent.name if told_apart else label
        seed = int(place.name) if place.name.isdigit() else seed
    return label, seed if isinstance(seed, int) else 0


def _label(section: Mapping[str, Any]) -> str:
    """The label of a method in a configuration."""
    settings = section.get("settings")
    method: Method[Any] = Method(
        str(section.get("name")),
        preset=section.get("preset") or None,
        settings=settings if isinstance(settings, Mapping) else {},
    )
    return str(section.get("label") or method.label)
