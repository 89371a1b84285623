"""The points of a sweep: values of some keys of a configuration, as a grid, as a list, or from a CSV file."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from enlist import methods
from enlist._internal.importing import full_name
from enlist._internal.options import Options
from enlist.errors import InputError
from enlist.runs.digests import digest_of
from enlist.runs.groups import leaves
from enlist.runs.printing import titled, written
from enlist.simulation.config import Config
from enlist.simulation.keys import value_of

AnyPoints = Mapping[str, Any] | Iterable[Mapping[str, Any]] | str | PathLike[str]
"""A grid, a list of points, or the path of a CSV file with a column for each key."""
MOST_POINTS = 10_000
LONGEST = 120
"""Maximum length of a folder name, without its digest."""
UNSAFE = re.compile(r"[^A-Za-z0-9._=+-]+|^[.]+")
"""Characters of a label or a point that do not go into a folder name."""


@dataclasses.dataclass(frozen=True)
class Point:
    """A configuration of a sweep, with the values of the keys that are swept.

    >>> point = Point({"rounds.k": 5, "model.hidden": [32, 16]}, Config())
    >>> point.name, point.slug
    ('k = 5, hidden = [32, 16]', 'rounds.k=5+model.hidden=-32-16-44e73ad1')
    """

    values: Mapping[str, Any]
    config: Config

    @property
    def written(self) -> dict[str, Any]:
        """The values as a file can hold them: a Python object by its name."""
        return {key: _plain(value) for key, value in self.values.items()}

    @property
    def name(self) -> str:
        """Its name in tables and charts."""
        return titled(self.written)

    @property
    def slug(self) -> str:
        """Its folder name; with a digest where two points could have the same name."""
        text = "+".join(f"{key}={written(value)}" for key, value in self.written.items())
        short = UNSAFE.sub("-", text)[:LONGEST].rstrip("-")
        return short if short == text else f"{short}-{digest_of(json.dumps(self.written).encode())[:8]}"


def points_of(config: Config, given: AnyPoints) -> tuple[Point, ...]:
    """The points of a sweep, each checked like a file.

    >>> [point.name for point in points_of(Config(), {"rounds.k": [5, 10], "data.partition.alpha": [0.1, 1]})]
    ['k = 5, alpha = 0.1', 'k = 5, alpha = 1', 'k = 10, alpha = 0.1', 'k = 10, alpha = 1']
    >>> points_of(Config(), [{"rounds.k": 5}, {"rounds.k": -5}])
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: point k = -5: rounds.k = -5, but input should be greater than or equal to 1.
    """
    asked = _listed(given)
    keys = list(dict.fromkeys(key for values in asked for key in values))
    for key in keys:
        _check_key(key)
    found: dict[str, Point] = {}
    for values in asked:
        changed = config.changed([values], {}, f"point {titled({key: _plain(value) for key, value in values.items()})}")
        known = leaves(changed.model_dump(mode="json"))
        point = Point({key: known.get(key, values.get(key)) for key in keys}, changed)
        if point.slug in found:
            raise InputError(f"the point {point.name} is given twice; give each point once.")
        found[point.slug] = point
    return tuple(found.values())


def _listed(given: AnyPoints) -> list[dict[str, Any]]:
    """Points as dicts of dotted key to value; a key missing from a point keeps the configuration's value."""
    if isinstance(given, str | PathLike):
        return read_points(given)
    if isinstance(given, Mapping):
        axes = {key: _axis(key, values) for key, values in given.items()}
        if math.prod(map(len, axes.values())) > MOST_POINTS:
            raise InputError(
                f"the sweep has {math.prod(map(len, axes.values())):,} points; at most {MOST_POINTS:,} are possible."
            )
        found = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())] if axes else []
    else:
        found = [dict(point) if isinstance(point, Mapping) else _no_point(point) for point in given]
    if not any(found):
        raise InputError('no key is swept; name one with its values, for example {"rounds.k": [5, 10, 20]}.')
    return [{key: _own(value) for key, value in point.items()} for point in found]


def _axis(key: str, values: Any) -> list[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError(f"{key} is {values!r:.80} in a sweep; give a list of values, for example [5, 10, 20].")
    found = list(values)
    if not found:
        raise InputError(f"{key} has no values to sweep over; give at least one.")
    return found


def _no_point(given: Any) -> dict[str, Any]:
    raise InputError(f'a point is {given!r:.80}; it must be a dict of keys and values, such as {{"rounds.k": 5}}.')


def _own(value: Any) -> Any:
    """A NumPy value as a plain Python one."""
    return value.tolist() if type(value).__module__ == "numpy" else value


def _plain(value: Any) -> Any:
    if isinstance(value, Options):
        return value.model_dump(mode="json")
    return full_name(value) if callable(value) else value


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not key.strip():
        raise InputError(f"a key of a sweep is {key!r:.80}; it must be a string such as 'rounds.k'.")
    first = key.partition(".")[0]
    if first == "seed":
        raise InputError("seed cannot be swept: every point runs with the same seeds; set seeds and first_seed.")
    if first == "selector":
        raise InputError(
            f"{key} cannot be swept: the methods name the selectors; write them with their settings, for example "
            "oort+penalty=1,oort+penalty=3."
        )


def read_points(path: str | PathLike[str]) -> list[dict[str, Any]]:
    """Points from a CSV file with a column for each key; an empty cell keeps the configuration's value.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "points.csv"
    ...     _ = file.write_text("rounds.k,data.partition\\n5,iid\\n10,\\n")
    ...     read_points(file)
    [{'rounds.k': 5, 'data.partition': 'iid'}, {'rounds.k': 10}]
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            header, *lines = [line for line in csv.reader(file) if any(cell.strip() for cell in line)] or [[]]
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; name a CSV file with a column for each key."
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV file ({error}); give it a column for each key.") from None
    keys = [name.strip() for name in header]
    wrong = next((number for number, line in enumerate(lines, start=2) if len(line) != len(keys)), None)
    if not lines or not all(keys) or len(set(keys)) < len(keys) or wrong is not None:
        what = f"line {wrong} has {len(lines[wrong - 2])} cells and the first one {len(keys)}" if wrong else ""
        what = what or ("it has no points" if not lines else "its first line must name each key once")
        raise InputError(f"{path}: {what}; write for example 'rounds.k,data.partition.alpha', and a line per point.")
    if len(lines) > MOST_POINTS:
        raise InputError(f"{path} has {len(lines):,} points; at most {MOST_POINTS:,} are possible.")
    return [
        {key: value_of(key, cell.strip()) for key, cell in zip(keys, line, strict=True) if cell.strip()}
        for line in lines
    ]


def parted(changes: Sequence[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Split the changes of a command line: those with one value, unchanged, and the values of swept keys.

    >>> parted(["rounds.k=5,10", "model.hidden=[32,16],[64]", "rounds.rounds=20"])
    (['rounds.rounds=20'], {'rounds.k': [5, 10], 'model.hidden': [[32, 16], [64]]})
    """
    fixed, swept = [], {}
    for change in changes:
        key, equals, text = change.partition("=")
        values = methods.split(text)
        if not equals or len(values) < 2:
            fixed.append(change)
        else:
            swept[key.strip()] = [value_of(key, value) for value in values]
    return fixed, swept
