"""Tables of results in a terminal: columns that do not fit are named, and only what is shown is explained."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from enlist._internal.text import printable
from enlist.cli.console import CELL, as_rich
from enlist.runs.printing import plural

Legend = Sequence[tuple[tuple[str, ...], str]]
"""Patterns in column titles and in cells, and their explanations."""
COMPARED: Legend = (
    (("±",), "±: half a 95 % interval over seeds"),
    (("[",), "[ ]: 95 % interval over seeds"),
    (("speed-up",), "speed-up: the baseline's time to the target over the method's, paired by seed"),
    (("≥", "≤", "(0/"), "≥ ≤: bounds, because not all seeds reached the target (2/3: two of three did)"),
    (("final",), "final: mean of the last three evaluations"),
    (("seen",), "seen: share of clients with at least one update"),
    (("Jain",), "Jain: evenness of updates"),
)
DISPENSABLE = (
    "Jain",
    "seen",
    "round time",
    "sent",
    "late / dropped / failed",
    "rounds to",
    "messages of FedAvg",
    "seeds",
)
"""Parts of titles of columns that a narrow terminal leaves out, in this order; the report has them all."""


def show_table(
    console: Console,
    rows: Sequence[Sequence[str]],
    title: str,
    legend: Legend = COMPARED,
    dispensable: Sequence[str] = DISPENSABLE,
) -> None:
    """Print a table, the meaning of its marks and columns, and which columns did not fit.

    If it is too wide, long titles are split over two lines, and then dispensable columns are left out.
    """
    lines = clean = [[printable(cell, CELL) for cell in row] for row in rows]
    if left_out(lines, dispensable, console.width):
        lines = [[folded(name) for name in clean[0]], *clean[1:]]
    hidden = left_out(lines, dispensable, console.width)
    console.print(as_rich(lines, title, hidden))
    kept = [index for index, name in enumerate(lines[0]) if name not in hidden]
    found = [clean[0][index] for index in kept] + [row[index] for row in clean[1:] for index in kept[1:]]
    words = [said for marks, said in legend if any(mark in text for mark in marks for text in found)]
    for sentence in (" · ".join(words), not_shown(hidden)):
        if sentence:
            console.print(Text(sentence, "dim"))


def left_out(rows: Sequence[Sequence[str]], dispensable: Sequence[str], width: int) -> list[str]:
    """The columns to leave out, in order of dispensability, so that a table fits."""
    wide = {column[0]: 3 + max(_width(cell) for cell in column) for column in zip(*rows, strict=True)}
    hidden: list[str] = []
    for part in dispensable:
        if sum(size for name, size in wide.items() if name not in hidden) < width:
            break
        hidden += [name for name in wide if part in name.replace("\n", " ")]
    return hidden


def not_shown(hidden: Sequence[str]) -> str:
    """A sentence about columns that are left out, if any."""
    if not hidden:
        return ""
    names = ", ".join(name.replace("\n", " ") for name in hidden)
    return f"{plural(len(hidden), 'column')} not shown: {names}; see the report, or widen the terminal."


def folded(name: str) -> str:
    """Split a long title over two lines."""
    spaces = [index for index, letter in enumerate(name) if letter == " " and name[index + 1 : index + 2] != "%"]
    if len(name) <= 10 or not spaces:
        return name
    middle = min(spaces, key=lambda index: abs(index - len(name) // 2))
    return f"{name[:middle]}\n{name[middle + 1 :]}"


def _width(cell: str) -> int:
    return max(len(part) for part in cell.split("\n"))
