"""Plain text: text from outside made safe to show, values in messages, small tables, names of functions and files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray

HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Unicode categories that must not reach a terminal or a chart: controls, marks that reverse or hide text, private use,
lone surrogates, and line separators. Characters newer than this Python's tables may pass."""
JOINERS = "\u200c\u200d"
"""Formally such marks, but Persian needs one and emoji the other."""


def printable(text: object, most: int | None = 200, keep: str = "") -> str:
    """Text from outside (a name, a label, a reason), safe to show in a terminal, a chart, a page or a log.

    Characters that would move a cursor, ring a bell, reverse the text direction or end a line are escaped as in Python,
    so names that differ still look different. Stored data keep the original: clean text where it is shown.

    Parameters
    ----------
    text
        What to show; anything but a string is shown as `str` shows it.
    most
        Length of the result, in characters. Longer text keeps its beginning and end. None for no limit.
    keep
        Characters to leave as they are, such as a line feed in a text of several lines.

    >>> printable("ring\\x07 \\x1b[2J \\u202etxt.exe"), printable("Zürich 🚴")
    ('ring\\\\x07 \\\\x1b[2J \\\\u202etxt.exe', 'Zürich 🚴')
    >>> printable("a name that goes on and on", most=12)
    'a name t… on'
    """
    shown = _cut(str(text), most)
    if shown.isprintable():
        return shown
    return _cut("".join(letter if letter in keep else _visible(letter) for letter in shown), most)


def _cut(text: str, most: int | None) -> str:
    if most is None or len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def _visible(letter: str) -> str:
    code = ord(letter)
    never = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF  # noncharacters in Unicode
    if letter in JOINERS or not (never or unicodedata.category(letter) in HIDDEN):
        return letter
    return letter.encode("unicode_escape").decode("ascii")


def plain_table(columns: Mapping[str, AnyArray]) -> str:
    """Columns of equal length, right-aligned under their titles.

    >>> print(plain_table({"client": np.array([3, 12]), "mean": np.array([0.25, 1.5])}))
      client  mean
           3  0.25
          12   1.5
    """
    cells = [[title, *map(_cell, values)] for title, values in columns.items()]
    widths = [max(map(len, column)) for column in cells]
    rows = zip(*cells, strict=True)
    return "\n".join("  " + "  ".join(map(str.rjust, row, widths)) for row in rows)


def brief(value: Any, most: int = 80) -> str:
    """How a message shows a value: its repr, cut in the middle if long, and never an error.

    >>> brief(0.5), brief("x" * 1000, most=9), brief(10**5000)
    ('0.5', "'xx...xx'", 'a whole number of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > 8 * most:
        return f"a whole number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    if len(text) > most:
        kept = most // 2 - 1
        text = f"{text[:kept]}...{text[-kept:]}"
    return text


def brief_reason(error: BaseException) -> str:
    """What an error says, on one short line.

    >>> brief_reason(ValueError("  wrong  and long: " + "x" * 1000))[:25]
    'wrong and long: xxxxxxxxx'
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


def function_name(function: Callable[..., Any]) -> str:
    """A name for a function that is the same in every process; for a callable object, that of its type.

    >>> import functools
    >>> function_name(plain_table), function_name(functools.partial(plain_table))
    ('plain_table', 'partial')
    """
    return str(getattr(function, "__qualname__", type(function).__name__))


def slug(name: str, longest: int = 40) -> str:
    """A name as part of a file name: lower-case ASCII letters, digits and hyphens, "" if nothing is left.

    >>> slug("Sankt Pölten / North"), slug("../../escaped"), slug("東京")
    ('sankt-polten-north', 'escaped', '')
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain).strip("-")[:longest].rstrip("-")


def place_name(position: int, name: str) -> str:
    """A folder name for something with a user-chosen name: its position and the safe part of its name.

    >>> place_name(3, "Harbour"), place_name(12, "../..")
    ('0003-harbour', '0012')
    """
    return f"{position:04d}-{slug(name)}".rstrip("-")


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else printable(value)
