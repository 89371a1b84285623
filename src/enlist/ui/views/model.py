"""The elements of a view: figures, parts with text, tables and charts. Charts and full tables are made on demand."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import altair as alt
import numpy as np

from enlist._internal.text import printable, slug
from enlist.errors import EnlistError, unknown
from enlist.report.document import cleaned
from enlist.runs.tables import Table
from enlist.ui.index import Item

Cell = str | Mapping[str, str]
"""Text, or text with the address that it links to."""
Chart = Callable[[], alt.TopLevelMixin | None]
ADDRESSES = ("to", "svg")
"""Keys of a cell or picture that hold an address, which is already quoted."""
LONGEST = 600
"""Most characters of a cell."""
MOST_ROWS = 200
"""Most rows of a table on the page; the CSV has all."""


class NotFoundError(EnlistError, LookupError):
    """There is nothing at an address.

    >>> raise NotFoundError("nothing is called x")
    Traceback (most recent call last):
    ...
    enlist.ui.views.model.NotFoundError: nothing is called x
    """


@dataclasses.dataclass(frozen=True)
class Part:
    """A heading with text, a table (first row is the header) and names of charts, each optional.

    `csv` names the table that a link offers; `folded` parts are closed at first.

    >>> Part("Rounds", table=[["round"], ["1"]]).as_json()["table"]["columns"]
    ['round']
    """

    heading: str
    text: Sequence[str] = ()
    table: Sequence[Sequence[Cell]] = ()
    csv: str = ""
    charts: Sequence[str] = ()
    note: str = ""
    folded: bool = False
    name: str = ""
    """The name of its table's CSV, if that is not the heading."""
    pictures: Sequence[Mapping[str, str]] = ()
    """Pictures from files: address, title and name, and possibly the address of the SVG."""

    def as_json(self) -> dict[str, Any]:
        """Its content, with all text cleaned."""
        found: dict[str, Any] = {"heading": printable(self.heading), "charts": list(self.charts)}
        found |= {"text": [printable(text, 4_000) for text in self.text if text], "note": printable(self.note, 4_000)}
        found |= {"folded": self.folded, "csv": self.csv, "pictures": [_clean(each) for each in self.pictures]}
        if self.table:
            head, *rows = self.table
            kept = rows[:MOST_ROWS]
            found["table"] = {"columns": [_clean(cell) for cell in head], "total": len(rows)}
            found["table"]["rows"] = [[_clean(cell) for cell in row] for row in kept]
        return found


@dataclasses.dataclass(frozen=True)
class View:
    """The content of a page.

    figures   key figures: name, value, and possibly a state that colours it
    parts     makes the parts
    charts    name -> function that makes the chart
    tables    name -> function that makes the whole table, for CSV
    links     further addresses: text and address
    data      whatever else the page needs

    >>> View("run", "A run").as_json()["title"]
    'A run'
    """

    kind: str
    title: str
    lead: str = ""
    state: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    figures: Callable[[], Sequence[Mapping[str, Any]]] = list
    parts: Callable[[], Sequence[Part]] = list
    charts: Mapping[str, Chart] = dataclasses.field(default_factory=dict)
    tables: Mapping[str, Callable[[], Mapping[str, Any]]] = dataclasses.field(default_factory=dict)
    links: Sequence[tuple[str, str]] = ()
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Everything except charts and whole tables."""
        return {
            "kind": self.kind,
            "title": printable(self.title),
            "lead": printable(self.lead, 4_000),
            "state": dict(self.state),
            "figures": [_clean(figure) for figure in self.figures()],
            "parts": [{**part.as_json(), "csv": self._table_of(part)} for part in self.parts()],
            "tables": list(self.tables),
            "links": [{"text": printable(text), "to": to} for text, to in self.links],
            "data": dict(self.data),
        }

    def chart(self, name: str) -> alt.TopLevelMixin | None:
        """The chart of this name; None if there is nothing to draw yet."""
        if name not in self.charts:
            raise NotFoundError(str(unknown("chart", printable(name, 80), list(self.charts), owner="this view")))
        return self.charts[name]()

    def csv(self, name: str) -> str:
        """The table of this name as CSV."""
        if name in self.tables:
            return csv_text(self.tables[name]())
        shown = {self._table_of(part): part for part in self.parts() if part.table and not part.csv}
        if name not in shown:
            known = [*self.tables, *shown]
            raise NotFoundError(str(unknown("table", printable(name, 80), known, owner="this view")))
        return csv_text(of_lines(shown[name].table))

    def _table_of(self, part: Part) -> str:
        """The table that a part offers as CSV: the one it names, or the one it shows, by its heading."""
        return part.csv or (slug(part.name or part.heading, 60) or "table" if part.table else "")


def as_json(value: Any) -> bytes:
    """JSON with all text cleaned, and null for NaN and infinity.

    >>> as_json({"a": math.nan, "b": "bell\\x07"})
    b'{"a":null,"b":"bell\\\\\\\\x07"}'
    """
    return json.dumps(cleaned(value, None), allow_nan=False, separators=(",", ":")).encode()


def _clean(cell: Any) -> Any:
    if isinstance(cell, Mapping):
        return {name: value if name in ADDRESSES else _clean(value) for name, value in cell.items()}
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    return cell if isinstance(cell, int) or cell is None else printable(cell, LONGEST)


def link(text: object, to: str) -> dict[str, str]:
    """A cell with a link.

    >>> link(7, "/client/demo?client=7")
    {'text': '7', 'to': '/client/demo?client=7'}
    """
    return {"text": str(text), "to": to}


def address(view: str, id: str = "", **query: Any) -> str:
    """The address of a view; everything in it is quoted.

    >>> address("client", "demo/oort 1/0", client="ü", round=41)
    '/client/demo/oort%201/0?client=%C3%BC&round=41'
    >>> address("compare", of=["a", "b"])
    '/compare?of=a&of=b'
    """
    place = f"/{view}" + (f"/{quote(id, safe='/')}" if id else "")
    given = {name: value for name, value in query.items() if value not in (None, "", [])}
    return f"{place}?{urlencode(given, doseq=True)}" if given else place


def address_of(item: Item) -> str:
    """The address of an item's page.

    >>> from pathlib import Path
    >>> address_of(Item("demo", "comparison", Path("demo"), Path("demo")))
    '/compare?of=demo'
    """
    if item.kind in ("comparison", "sweep"):
        return address("compare", of=[item.id])
    return address(item.kind, item.id)


def csv_text(columns: Mapping[str, Any]) -> str:
    """Columns as CSV: numbers as they are, NaN as empty cells, and names byte for byte (`runs.tables` says why).

    >>> csv_text({"round": np.array([1.0, 2.0]), "accuracy": np.array([np.nan, 0.5]), "name": ["a,b", "c"]})
    'round,accuracy,name\\n1,,"a,b"\\n2,0.5,c\\n'
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    lists = [values.tolist() if isinstance(values, np.ndarray) else list(values) for values in columns.values()]
    writer.writerows([_written(value) for value in row] for row in zip(*lists, strict=True))
    return buffer.getvalue()


def _written(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return int(value) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return "" if value is None else value


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns; missing values are None.

    >>> columns_of([{"a": 1}, {"b": 2}])
    {'a': [1, None], 'b': [None, 2]}
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def of_lines(lines: Sequence[Sequence[Cell]]) -> dict[str, list[Any]]:
    """A table with its header as columns of text.

    >>> of_lines([["a"], ["1"]])
    {'a': ['1']}
    """
    cells = [[cell["text"] if isinstance(cell, Mapping) else cell for cell in line] for line in lines]
    return {str(name): [row[place] for row in cells[1:]] for place, name in enumerate(cells[0])}


def figure(name: str, value: object, state: str = "", to: str = "", note: str = "") -> dict[str, Any]:
    """A key figure.

    >>> figure("round", "41 of 100")["value"]
    '41 of 100'
    """
    return {"name": name, "value": str(value), "state": state, "to": to, "note": note}


def some(table: Table, places: Sequence[int]) -> Table:
    """Some rows of a table.

    >>> some({"a": np.array([1, 2, 3])}, [2])
    {'a': array([3])}
    """
    return {name: column[list(places)] for name, column in table.items()}
