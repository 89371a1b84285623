"""A study: its verdicts with their figures, from its folder, or its progress."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist.errors import EnlistError
from enlist.runs.kinds import PAGE
from enlist.runs.printing import duration
from enlist.runs.tables import Table, read_json, read_table
from enlist.ui.groups import GroupStatus, experiments, planned_experiments, standing, study_facts
from enlist.ui.index import Item
from enlist.ui.views.model import Cell, NotFoundError, Part, View, address, figure, link
from enlist.ui.views.run import state_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,120}")
LARGEST = 8_000_000
"""Size limit of a picture and of verdict.md, in bytes."""
LARGEST_REPORT = 60_000_000
"""Size limit of a report, which includes the chart library, in bytes."""
PNG = b"\x89PNG\r\n\x1a\n"


def study_view(item: Item, now: GroupStatus | None = None) -> View:
    """A study, finished or not; `now` is its status, by default that of its folder."""
    now = now or standing(item, [], [])
    facts, text = study_facts(item.folder), _verdict(item.folder)
    name, scale = _named(item, facts)
    title = text.splitlines()[0].lstrip("# ") if text else f"Study {name}"
    (done, failed), planned = experiments(item.folder), planned_experiments(facts)
    figures = [figure("scale", scale)] if scale else []
    figures += [figure("experiments kept", f"{done:,}")] if done or not text else []
    figures += [figure("experiments" if text else "planned", f"{planned:,}")] if planned else []
    figures += [figure("failed", f"{failed:,}", "failed")] if failed else []
    figures += [figure("took", duration(float(facts["wall_seconds"])))] if _is_number(facts.get("wall_seconds")) else []
    tables = _tables(item.folder)
    return View(
        "study",
        title,
        _lead(text),
        state=state_of(now),
        figures=lambda: figures,
        parts=lambda: _parts(item, text),
        tables={name: _reader(item.folder / "tables" / f"{name}.csv") for name in tables},
        links=[("Its report", address("report/study", item.id))] if _has_report(item.folder) else [],
        data={"id": item.id},
    )


def _named(item: Item, facts: Mapping[str, Any]) -> tuple[str, str]:
    """Name and scale, from the configuration, or from the settings of a published study."""
    try:
        config = read_json(item.folder / "config.json") or facts
    except EnlistError:
        config = facts
    return str(config.get("study", item.name)), str(config.get("scale", ""))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _has_report(folder: Path) -> bool:
    try:
        return files.has_file(folder / PAGE) and (folder / PAGE).stat().st_size <= LARGEST_REPORT
    except (OSError, EnlistError):
        return False


def study_report(item: Item) -> str:
    """The report page of a study.

    >>> study_report(Item("mine", "study", Path("no/such"), Path("no")))
    Traceback (most recent call last):
    ...
    enlist.ui.views.model.NotFoundError: mine has no report.html; a study writes it at the end.
    """
    if not _has_report(item.folder):
        raise NotFoundError(f"{item.id} has no {PAGE}; a study writes it at the end.")
    item.check()
    return files.read(item.folder / PAGE).decode(errors="replace")


def _verdict(folder: Path) -> str:
    try:
        if not files.has_file(folder / "verdict.md") or (folder / "verdict.md").stat().st_size > LARGEST:
            return ""
        return files.read(folder / "verdict.md").decode(errors="replace")
    except (OSError, EnlistError):
        return ""


def _lead(text: str) -> str:
    lines = [line for line in text.splitlines()[1:] if line.strip()]
    return lines[0].lstrip("> ") if lines and not lines[0].startswith(("#", "|")) else ""


def _parts(item: Item, text: str) -> list[Part]:
    if not text:
        return [Part("Verdicts", ["The study is not finished; verdicts come at the end."])]
    said = section(text)
    headline = said.splitlines()[0].lstrip("# ") if said else "Verdicts"
    table = [_verdict_second(row) for row in markdown_table(said or text)]
    drawings = _names(item.folder / "figures", ".svg")
    pictures = [
        {"to": address("figure", f"{item.id}/{name}"), "title": title, "name": name}
        | ({"svg": address("figure", f"{item.id}/{name}", kind="svg")} if name in drawings else {})
        for title, name in _pictures(item, text)
    ]
    found = [Part(headline, table=table, name="claims")] if table else [Part(headline)]
    found += [Part("Figures", pictures=pictures)] if pictures else []
    setting = markdown_table(text.partition("\n## ")[0])
    found += [Part("What was run", table=setting, folded=True)] if setting else []
    found += [Part(heading, body, folded=True) for heading, body in _claims(text)]
    names = _tables(item.folder)
    rows: list[list[Cell]] = [["table"]]
    rows += [[link(name, address(f"table/{name}/study", item.id))] for name in names]
    return [*found, *([Part("Tables as CSV", table=rows, folded=True)] if names else [])]


def _verdict_second(row: list[str]) -> list[str]:
    """On a phone, the last of four columns is far away."""
    return [row[0], row[-1], *row[1:-1]]


def section(text: str) -> str:
    """The part of a verdict.md that judges claims: from the first second-level heading to the next one.

    The table of what was run comes before it.

    >>> section("# Darts\\n\\n| data | digits |\\n\\n## 1 claim: 1 partly\\n\\n| claim |\\n\\n## Claim by claim\\n")
    '## 1 claim: 1 partly\\n\\n| claim |\\n'
    """
    found = re.search(r"^## .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found.group().rstrip("\n") + "\n" if found else ""


def markdown_table(text: str) -> list[list[str]]:
    """The first table of a Markdown text, with its header; empty if there is none.

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
    """Titles and names of the pictures in the verdicts; if there are none, all pictures."""
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


def picture(item: Item, name: str, kind: str = "png") -> bytes:
    """A picture of a study, if it is one of its figures; only PNG is shown on the page.

    >>> picture(Item("mine", "study", Path("mine"), Path("mine")), "../../secret")
    Traceback (most recent call last):
    ...
    enlist.ui.views.model.NotFoundError: mine has no such figure.
    """
    if kind not in ("png", "svg") or name not in _names(item.folder / "figures", f".{kind}"):
        raise NotFoundError(f"{item.id} has no such figure.")
    item.check()
    path = item.folder / "figures" / f"{name}.{kind}"
    found = files.read(path) if path.stat().st_size <= LARGEST else b""
    if not found.startswith(PNG if kind == "png" else b"<svg"):
        raise NotFoundError(f"{item.id} has a figure of that name, but not as {kind.upper()}.")
    return found
