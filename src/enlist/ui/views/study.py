"""A study: its verdicts with their figures, as its folder holds them, or how far it has come."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist.errors import EnlistError
from enlist.runs.printing import duration
from enlist.runs.tables import Table, read_json, read_table
from enlist.ui.index import Item
from enlist.ui.status import written
from enlist.ui.views.model import Cell, NotFoundError, Part, View, address, figure, link

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,120}")
LARGEST = 8_000_000
"""Bytes of a picture, and of verdict.md."""
MOST_EXPERIMENTS = 100_000
PNG = b"\x89PNG\r\n\x1a\n"


def study_view(item: Item) -> View:
    """A study, finished or not."""
    config = read_json(item.folder / "config.json") or {}
    facts = _facts(item.folder)
    text = _verdict(item.folder)
    finished = bool(text)
    done, failed = _experiments(item.folder)
    running = files.is_claimed(item.folder / "lock")
    name, scale = str(config.get("study", item.name)), str(config.get("scale", "?"))
    title = text.splitlines()[0].lstrip("# ") if text else f"Study {name}"
    state = "running" if running else "finished" if finished else "stalled"
    planned = sum(len(each.get("seeds", ())) for each in facts.get("experiments", {}).values() if _is_table(each))
    figures = [figure("scale", scale), figure("experiments kept", f"{done:,}")]
    figures += [figure("planned", f"{planned:,}")] if planned else []
    figures += [figure("failed", f"{failed:,}", "failed")] if failed else []
    figures += [figure("took", duration(float(facts["wall_seconds"])))] if _is_number(facts.get("wall_seconds")) else []
    tables = _tables(item.folder)
    return View(
        "study",
        title,
        _lead(text),
        state={"state": state, "since": written(item.folder), "progress": 1.0 if finished else None, "why": ""},
        figures=lambda: figures,
        parts=lambda: _parts(item, text),
        tables={name: _reader(item.folder / "tables" / f"{name}.csv") for name in tables},
        data={"id": item.id},
    )


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _facts(folder: Path) -> dict[str, Any]:
    try:
        facts = read_json(folder / "settings.json") or {}
    except EnlistError:
        return {}
    return facts if isinstance(facts.get("experiments", {}), dict) else {}


def _verdict(folder: Path) -> str:
    try:
        if not files.has_file(folder / "verdict.md") or (folder / "verdict.md").stat().st_size > LARGEST:
            return ""
        return files.read(folder / "verdict.md").decode(errors="replace")
    except (OSError, EnlistError):
        return ""


def _experiments(folder: Path) -> tuple[int, int]:
    """Experiments that are kept, and those that failed."""
    done = failed = 0
    for _, inner, names in itertools.islice(os.walk(folder / "experiments"), MOST_EXPERIMENTS):
        if "state.json" in names:
            done += 1
            inner.clear()
        failed += "error.txt" in names
    return done, failed


def _lead(text: str) -> str:
    lines = [line for line in text.splitlines()[1:] if line.strip()]
    return lines[0] if lines and not lines[0].startswith(("#", "|")) else ""


def _parts(item: Item, text: str) -> list[Part]:
    if not text:
        return [Part("Verdicts", ["The study is not finished; verdicts come at its end."])]
    headline = next((line.lstrip("# ") for line in text.splitlines() if line.startswith("## ")), "Verdicts")
    table = markdown_table(text)
    pictures = [
        {"to": address("figure", f"{item.id}/{name}"), "title": title, "text": ""}
        for title, name in _pictures(item, text)
    ]
    found = [Part(headline, table=table, name="claims")] if table else [Part(headline)]
    found += [Part("Figures", pictures=pictures)] if pictures else []
    found += [Part(heading, body, folded=True) for heading, body in _claims(text)]
    names = _tables(item.folder)
    rows: list[list[Cell]] = [["table"]]
    rows += [[link(name, address(f"table/{name}/study", item.id))] for name in names]
    return [*found, *([Part("Tables as CSV", table=rows, folded=True)] if names else [])]


def markdown_table(text: str) -> list[list[str]]:
    """The first table of a text in Markdown, its header first; empty if there is none.

    >>> markdown_table("Some text\\n\\n| claim | verdict |\\n|---|---|\\n| a \\\\| b | not |\\n\\nMore")
    [['claim', 'verdict'], ['a | b', 'not']]
    """
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            rows += [] if all(re.fullmatch(r":?-+:?", cell) for cell in cells) else [cells]
        elif rows:
            break
    return [row for row in rows if len(row) == len(rows[0])]


def _claims(text: str) -> list[tuple[str, list[str]]]:
    """The claims one by one: heading and paragraphs."""
    found: list[tuple[str, list[str]]] = []
    for line in text.partition("## Claim by claim")[2].splitlines():
        if line.startswith("### "):
            found.append((line.removeprefix("### "), []))
        elif line.strip() and found:
            found[-1][1].append(line)
    return found


def _pictures(item: Item, text: str) -> list[tuple[str, str]]:
    """Titles and names of the pictures that the verdicts show; if they show none, all there are."""
    shown = re.findall(r"!\[([^\]]{0,300})\]\(figures/([^)/]{1,120})\.png\)", text)
    names = _names(item.folder / "figures", ".png")
    return [(title, name) for title, name in shown if name in names] or [(name, name) for name in names[:40]]


def _names(folder: Path, suffix: str) -> list[str]:
    try:
        if not files.has_folder(folder):
            return []
        return sorted(path.stem for path in folder.iterdir() if path.suffix == suffix and NAME.fullmatch(path.stem))
    except (OSError, EnlistError):
        return []


def _tables(folder: Path) -> Sequence[str]:
    return _names(folder / "tables", ".csv")[:60]


def _reader(path: Path) -> Any:
    def read() -> Table:
        if path.stat().st_size > LARGEST:
            raise NotFoundError(f"{path.name} has more than {LARGEST:,} bytes, and is not shown.")
        return read_table(path)

    return read


def picture(item: Item, name: str) -> bytes:
    """A picture of a study, if it is one of its figures and is a PNG.

    >>> picture(Item("mine", "study", Path("mine"), Path("mine")), "../../secret")
    Traceback (most recent call last):
    ...
    enlist.ui.views.model.NotFoundError: mine has no such figure.
    """
    if name not in _names(item.folder / "figures", ".png"):
        raise NotFoundError(f"{item.id} has no such figure.")
    item.check()
    path = item.folder / "figures" / f"{name}.png"
    found = files.read(path) if path.stat().st_size <= LARGEST else b""
    if not found.startswith(PNG):
        raise NotFoundError(f"{item.id} has a figure of that name, but it is no PNG.")
    return found
