"""The overview: every run, comparison, sweep, ladder, study and federation, filtered, sorted and grouped."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from enlist._internal.text import printable
from enlist.errors import InputError
from enlist.report.charts import Look
from enlist.runs.printing import written
from enlist.ui.catalogue import Catalogue
from enlist.ui.groups import GroupStatus
from enlist.ui.index import KINDS, MOST_ITEMS, RUNS, Item
from enlist.ui.status import STATES, RunSummary
from enlist.ui.views.model import address_of, as_json, columns_of

Row = Mapping[str, Any]

MOST = 600
"""Most rows sent at once."""
MOST_KEYS = 200
"""Most keys that the page offers to group by."""
SORTS = ("name", "kind", "state", "method", "seed", "data", "progress", "last", "final", "time_to", "since")


@dataclasses.dataclass(frozen=True)
class Question:
    """A request for a part of the overview.

    >>> Question.of({"q": "oort", "down": "1"}).words
    ('oort',)
    """

    words: tuple[str, ...] = ()
    kind: str = ""
    state: str = ""
    group: str = ""
    sort: str = "name"
    down: bool = False

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Question:
        """Parse the query of an address."""
        sort = query.get("sort", "name")
        if sort not in SORTS:
            raise InputError(f"sort is '{printable(sort, 40)}'; use one of {', '.join(SORTS)}.")
        words = tuple(query.get("q", "")[:200].lower().split())
        picked = {name: query.get(name, "")[:200] for name in ("kind", "state", "group")}
        return cls(words, **picked, sort=sort, down=query.get("down") == "1")


def overview(catalogue: Catalogue, asked: Question) -> dict[str, Any]:
    """The overview of all items: rows, keys to group by, and the number of items of each kind and state.

    >>> overview(Catalogue([]), Question())["total"]
    0
    """
    rows = all_rows(catalogue, asked.group)
    kept = [row for row in rows if _fits(row, asked)]
    if asked.sort != "name":
        kept.sort(key=lambda row: _rank(row, asked), reverse=asked.down)
    elif asked.down:
        kept = _backwards(kept)
    if asked.group:
        kept.sort(key=lambda row: _order(row["group"]))
    return {
        "rows": kept[:MOST],
        "shown": min(len(kept), MOST),
        "found": len(kept),
        "total": len(rows),
        "cut": catalogue.index.cut,
        "kinds": dict(Counter(row["kind"] for row in rows)),
        "states": dict(Counter(row["state"] for row in rows)),
        "keys": keys(catalogue.summaries.values()),
        "known": {"kinds": list(KINDS), "states": list(STATES), "sorts": list(SORTS)},
    }


def overview_json(catalogue: Catalogue, asked: Question) -> bytes:
    """The overview as JSON; unchanged rows are taken from the last time.

    >>> overview_json(Catalogue([]), Question())[:20]
    b'{"rows":[],"shown":0'
    """
    found = overview(catalogue, asked)
    rows = b",".join(_encoded(row) for row in found.pop("rows"))
    return b'{"rows":[' + rows + b"]," + as_json(found)[1:]


def _encoded(row: Row) -> bytes:
    if not isinstance(row, _RunRow):
        return as_json(row)
    if row.encoded is None:
        row.encoded = as_json(row)
    return row.encoded


class _RunRow(dict[str, Any]):
    """The row of a run, with its JSON once that was requested."""

    encoded: bytes | None = None


def all_rows(catalogue: Catalogue, group: str = "") -> list[Row]:
    """One row per item; the row of a group holds sums over its runs."""
    rows: list[Row] = []
    for item in catalogue.index.items.values():
        found, group_now = catalogue.summaries.get(item.id), catalogue.groups.get(item.id)
        if found is not None:
            rows.append(_run_row(found, catalogue.looks.get(found.method), group))
        elif group_now is not None:
            rows.append(_group_row(item, catalogue.members.get(item.id, []), group_now))
    return rows


def _base(item: Item) -> dict[str, Any]:
    return {"id": item.id, "kind": item.kind, "name": printable(item.id, 200), "to": address_of(item)}


@functools.lru_cache(maxsize=2 * MOST_ITEMS)
def _run_row(summary: RunSummary, look: Look | None, group: str) -> _RunRow:
    """The row of a summary, made once, because summaries never change."""
    now = summary.status
    value = summary.values.get(group) if group else None
    return _RunRow(
        {
            **_base(summary.item),
            "parent": summary.item.parent,
            "method": printable(summary.method, 80),
            "colour": look.colour if look else "",
            "dash": look.dash if look else 0,
            "seed": summary.seed,
            "data": printable(summary.data, 60),
            "state": now.state,
            "since": now.since,
            "why": now.why,
            "rounds": now.rounds,
            "of": now.of,
            "progress": now.progress,
            "left": now.left,
            "measure": printable(summary.measure, 20),
            "last": _finite(summary.last),
            "final": _finite(summary.final),
            "spark": list(summary.spark),
            "target": summary.target,
            "time_to": summary.time_to,
            "rounds_to": summary.rounds_to,
            "group": printable(written(value), 80) if group else "",
        }
    )


def _group_row(item: Item, inside: Sequence[RunSummary], now: GroupStatus) -> dict[str, Any]:
    return {
        **_base(item),
        "parent": item.parent,
        "method": "",
        "colour": "",
        "seed": None,
        "data": next((printable(summary.data, 60) for summary in inside if summary.data), ""),
        "state": now.state,
        "since": now.since,
        "why": now.why,
        "rounds": now.rounds,
        "of": None,
        "progress": now.progress,
        "left": now.left,
        "runs": len(inside),
        "done": now.done,
        "planned": now.total,
        "methods": len({summary.method for summary in inside}),
        "group": "",
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _fits(row: Mapping[str, Any], asked: Question) -> bool:
    if (asked.kind and row["kind"] != asked.kind) or (asked.state and row["state"] != asked.state):
        return False
    if asked.group and row["kind"] not in RUNS:
        return False
    text = f"{row['name']} {row['method']} {row['data']} {row['kind']} {row['state']}".lower()
    return all(word in text for word in asked.words)


def _rank(row: Mapping[str, Any], asked: Question) -> tuple[int, Any]:
    """Unknown values come last, whatever the direction."""
    value = row.get(asked.sort)
    if asked.sort == "state":
        value = STATES.index(row["state"])
    unknown = value is None or value == ""
    return int(unknown != asked.down), (0 if unknown else value)


def _backwards(rows: Sequence[Row]) -> list[Row]:
    """Reverse the order of names, but keep children below their rows."""
    place = {row["id"]: number for number, row in enumerate(rows)}
    parent = {row["id"]: row["parent"] for row in rows}

    def path(id: str) -> list[int]:
        return [*(path(parent[id]) if parent[id] in place else ()), -place[id]]

    return sorted(rows, key=lambda row: path(row["id"]))


def _order(text: str) -> tuple[int, float, str]:
    try:
        return 0, float(text), ""
    except ValueError:
        return 1, 0.0, text


def keys(summaries: Any) -> list[str]:
    """Keys of configurations, with those in which runs differ first."""
    found: dict[str, set[str]] = {}
    for summary in summaries:
        for key, value in summary.values.items():
            seen = found.setdefault(key, set())
            if len(seen) < 2:
                seen.add(written(value))
    apart = [key for key in found if len(found[key]) > 1 and key != "seed"]
    return [printable(key, 120) for key in [*apart, *(key for key in found if key not in apart)]][:MOST_KEYS]


def overview_columns(catalogue: Catalogue) -> dict[str, list[Any]]:
    """The overview as columns for CSV."""
    names = ["id", "kind", "method", "seed", "data", "state", "rounds", "of", "progress", "left", "last", "final"]
    names += ["target", "rounds_to", "time_to", "since"]
    rows = all_rows(catalogue)
    return columns_of([{name: row.get(name) for name in names} for row in rows]) if rows else {"id": []}
