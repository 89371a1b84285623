"""Tables with one row per sample: the roles of columns, and columns as arrays. Shared by files and data frames."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import logging
import re
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from enlist._internal.text import brief, printable
from enlist._internal.typing import AnyArray
from enlist.errors import InputError

UNNAMED = "Unnamed: 0"
"""Pandas' name for the first column of a CSV file without a name: the index of the frame that was written."""
INDEX = re.compile(rf"__index_level_\d+__|{UNNAMED}")
"""Pandas' name for an index without a name, in a Parquet file, and where it has read one from a CSV file."""
LONGEST = 200
"""Maximum length of a label or user in characters: arrays of text are as wide as the longest."""
LOGGER = logging.getLogger("enlist.data")


@dataclasses.dataclass(frozen=True)
class Roles:
    """The roles of the columns of a table: labels, users, inputs.

    >>> Roles(label="kind", user="who", columns=None, drop=("note",)).inputs("mine.csv", ["a", "kind", "who", "note"])
    ['a']
    """

    label: str
    user: str | None
    columns: tuple[str, ...] | None
    drop: tuple[str, ...]

    def inputs(self, source: str, names: Sequence[str], index: Collection[str] = ()) -> list[str]:
        """The input columns among all columns; the index of a data frame is not one, and a notice says so."""
        twice = [name for place, name in enumerate(names) if name in names[:place]]
        if twice:
            raise InputError(f"{source} has two columns '{twice[0]}'; rename one of them.")
        wanted = [("label", self.label), *([("user", self.user)] if self.user is not None else [])]
        listed = [("columns", name) for name in self.columns or ()] + [("drop", name) for name in self.drop]
        for key, name in (*wanted, *listed):
            if name not in names:
                raise InputError(f"{source} has no column '{name}', which the key '{key}' names; {_known(name, names)}")
        for key, name in listed:
            if name in (self.label, self.user):
                raise InputError(f"{source}: column '{name}' holds labels or users; take it out of the key '{key}'.")
        if self.columns is not None:
            found = [name for name in self.columns if name not in self.drop]
        else:
            found = [name for name in names if name not in (self.label, self.user, *self.drop)]
            for name in [name for name in found if name in index or INDEX.fullmatch(name)]:
                _notice(source, name)
                found.remove(name)
        if not found:
            raise InputError(f"{source} has no columns of inputs besides '{self.label}'; add some.")
        return found


def numbers(source: str, name: str, values: AnyArray, kind: str) -> AnyArray:
    """A column of inputs, as float32; `kind` names its type in errors.

    >>> numbers("mine.csv", "a", np.array(["x"]), "text")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: mine.csv: column 'a' holds text, not numbers; turn it into numbers, or name it in drop.
    """
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"{source}: column '{name}' holds {kind}, not numbers; turn it into numbers, or name it in drop."
        )
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise InputError(f"{source}: column '{name}' has {values[row]} in row {row + 1}; fill or drop such rows first.")
    return found


def words(source: str, name: str, values: AnyArray) -> AnyArray:
    """A column of labels or users: numbers as they are, everything else as text.

    >>> words("mine.csv", "who", np.array(["ann", "bob"], dtype=object))
    array(['ann', 'bob'], dtype='<U3')
    """
    if values.dtype.kind in "biuf":
        return values
    texts = list(map(str, values.tolist()))
    check_length(source, name, texts)
    return np.array(texts, dtype=np.str_)


def check_length(source: str, name: str, texts: Iterable[str]) -> None:
    """Refuse labels and users that are too long.

    >>> check_length("mine.csv", "label", ["yes", "no"])
    """
    longest = max(texts, key=len, default="")
    if len(longest) > LONGEST:
        raise InputError(
            f"{source}: column '{name}' holds {brief(longest)}, {len(longest)} characters; labels and users have at "
            f"most {LONGEST}."
        )


@functools.lru_cache(maxsize=1000)
def _notice(source: str, name: str) -> None:
    """Log the notice once, not again for every seed."""
    LOGGER.warning(
        "%s: column '%s' is the index of a data frame, not an input, so it is left out; list the inputs in the key "
        "'columns' to use it.",
        source,
        printable(name),
    )


def _known(name: str, names: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{nearest[0]}'? It has " if nearest else "it has "
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"{hint}{', '.join(map(printable, names[:20]))}{more}."
