"""A report page: one HTML file that opens offline, with text, tables and interactive charts."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from enlist._internal import files
from enlist.errors import InputError
from enlist.report.charts import save, specification
from enlist.report.document import document, escaped

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 "Helvetica Neue", Arial, sans-serif; color: #222; max-width: 1200px;
        margin: 48px auto; padding: 0 24px; }
h1 { font-size: 30px; margin-bottom: 4px; letter-spacing: -0.3px; }
h2 { font-size: 20px; margin-top: 44px; }
p { max-width: 760px; }
.lead { color: #555; font-size: 17px; }
table { border-collapse: collapse; margin: 18px 0; font-variant-numeric: tabular-nums; font-size: 15px; }
th, td { padding: 6px 14px 6px 0; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap; }
th { color: #666; font-weight: 600; font-size: 14px; border-bottom: 2px solid #ccc; }
th:first-child, td:first-child { text-align: left; font-weight: 600; }
.scroll { overflow-x: auto; }
.scroll:has(.sortable) { max-height: 560px; overflow: auto; }
.sortable { margin: 0; }
.sortable th { position: sticky; top: 0; background: white; }
.sortable button { all: unset; cursor: pointer; }
.sortable button:focus-visible { outline: 2px solid #0b6e99; }
.sortable [aria-sort=descending] button::after { content: " ▾"; }
.sortable [aria-sort=ascending] button::after { content: " ▴"; }
.worded th:last-child, .worded td:last-child { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.charts { display: flex; flex-wrap: wrap; gap: 24px; }
.charts > div, .charts .vega-embed { max-width: 100%; }
.charts svg { max-width: 100%; height: auto; }
@media (max-width: 760px) { body { margin: 20px auto; padding: 0 14px; } }
.facts th, .facts td { white-space: normal; text-align: left; overflow-wrap: anywhere; }
.facts td:first-child { white-space: nowrap; vertical-align: top; font-weight: normal; }
summary { cursor: pointer; color: #555; }
.note { color: #666; font-size: 14px; }
"""


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading with text, a table (first row is the header) and charts or their specifications, each optional.

    >>> Section("Results").table
    ()
    """

    heading: str
    text: str = ""
    table: Sequence[Sequence[str]] = ()
    charts: Sequence[alt.TopLevelMixin | Mapping[str, Any]] = ()
    note: str = ""
    sortable: bool = False
    """Whether a click on a heading sorts the table."""
    worded: bool = False
    """Whether the last column of such a table holds sentences."""
    folded: Sequence[Sequence[str]] = ()
    """A further, folded table; both tables then hold text rather than figures."""
    folded_title: str = "More"


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section]) -> Path:
    """Write the page and return its path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_page(Path(folder) / "report.html", "Title", "Lead", [Section("One", table=[["a"], ["1"]])])
    ...     "<h2>One</h2>" in page.read_text()
    True
    """
    text = page_text(title, lead, sections)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, text.encode())
    return path


def publish(
    place: Path | str,
    title: str,
    lead: str,
    sections: Sequence[Section],
    charts: Mapping[str, alt.TopLevelMixin],
    scores: Any = None,
    only_png: Mapping[str, alt.TopLevelMixin] | None = None,
) -> Path:
    r"""Write a report: the page, and next to it charts/ (PNG and SVG) and scores.json; returns the page's path.

    `place` is a folder, in which the page is named report.html, or the path of the page itself, ending in .html. Files
    of an earlier report are replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = publish(folder, "Title", "Lead", [Section("One")], {}, [{"final": float("nan")}])
    ...     sorted(path.name for path in page.parent.iterdir()), (page.parent / "scores.json").read_text()[:23]
    (['charts', 'report.html', 'scores.json'], '[\n {\n  "final": null\n }')
    """
    place = Path(place)
    page = place if place.suffix == ".html" else place / "report.html"
    try:
        folder = files.make_folder(page.parent, "charts")
        for name, chart in charts.items():
            save(chart, folder / name, (".png", ".svg"))
        for name, chart in (only_png or {}).items():
            save(chart, folder / name, (".png",))
        if scores is not None:
            content = json.dumps(_plain(scores), indent=1, allow_nan=False)
            files.write(page.parent / "scores.json", f"{content}\n".encode())
        return write_page(page, title, lead, sections)
    except OSError as error:
        raise InputError(f"{page.parent} cannot be written ({error.strerror}); name another folder.") from None


def _plain(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def page_text(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The page as text.

    >>> "<h2>One</h2>" in page_text("Title", "Lead", [Section("One")])
    True
    """
    body: list[str] = [f'<h1>{escaped(title)}</h1><p class="lead">{escaped(lead)}</p>']
    charts: list[Mapping[str, Any]] = []
    for section in sections:
        body.append(f"<h2>{escaped(section.heading)}</h2>")
        if section.text:
            body.append(f"<p>{escaped(section.text)}</p>")
        if section.table:
            kind = "sortable worded" if section.worded else "sortable"
            body.append(_table(section.table, kind if section.sortable else "facts" if section.folded else ""))
        if section.charts:
            body.append('<div class="charts">')
            for chart in section.charts:
                body.append(f'<div id="chart{len(charts)}"></div>')
                charts.append(chart if isinstance(chart, Mapping) else specification(chart))
            body.append("</div>")
        if section.folded:
            body.append(f"<details><summary>{escaped(section.folded_title)}</summary>")
            body.append(f"{_table(section.folded, 'facts')}</details>")
        if section.note:
            body.append(f'<p class="note">{escaped(section.note)}</p>')
    sortable = any(section.sortable for section in sections)
    return document(title, STYLE, "".join(body), charts, sortable)


def _table(rows: Sequence[Sequence[str]], kind: str = "") -> str:
    button = ('<button type="button">', "</button>") if kind.startswith("sortable") else ("", "")
    head = "".join(f"<th>{escaped(cell).join(button)}</th>" for cell in rows[0])
    lines = ("".join(f"<td>{escaped(cell)}</td>" for cell in row) for row in rows[1:])
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    opening = f'<table class="{kind}">' if kind else "<table>"
    table = f"{opening}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'
