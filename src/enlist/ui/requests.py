"""What an address requests: its items, and the view made of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from enlist._internal.text import printable
from enlist.errors import EnlistError, InputError
from enlist.report.page import page_text
from enlist.report.personal import lead, personal_sections
from enlist.report.runs import report_text
from enlist.runs.personal import read_personal
from enlist.runs.tables import RunTables
from enlist.ui.catalogue import Catalogue
from enlist.ui.groups import GroupStatus, group_status
from enlist.ui.index import RUNS, Item
from enlist.ui.status import RunSummary
from enlist.ui.views.client import client_view, missing_client
from enlist.ui.views.compare import check_number, compare_view
from enlist.ui.views.federation import federation_view
from enlist.ui.views.ladder import ladder_report, ladder_view
from enlist.ui.views.model import NotFoundError, Part, View
from enlist.ui.views.personal import personal_view
from enlist.ui.views.run import run_view, state_of
from enlist.ui.views.study import study_report, study_view

VIEWS = {
    "run": ("run", "federation"),
    "federation": ("federation", "run"),
    "client": ("run", "federation"),
    "ladder": ("ladder",),
    "study": ("study",),
    "personal": ("personal",),
}
"""View of one item -> kinds of items that it shows."""
MOST_ASKED = 100
"""Most ids in an address."""
TROUBLE = (EnlistError, OSError, LookupError, TypeError, ValueError, ArithmeticError)
"""Errors that a damaged or edited folder can cause."""

Query = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class ViewRequest:
    """What an address requests.

    >>> ViewRequest("runs", ()).view
    'runs'
    """

    view: str
    items: tuple[Item, ...]
    query: Query = dataclasses.field(default_factory=dict)

    def one(self, name: str) -> str:
        """The last value of a name in the address."""
        return next(reversed(self.query.get(name, ())), "")


def view_request(catalogue: Catalogue, path: str, query: Query) -> ViewRequest:
    """Parse a path such as "run/ID" and a query; unknown ids raise NotFoundError."""
    view, _, id = path.partition("/")
    if view == "compare" and not id:
        ids = list(dict.fromkeys(query.get("of", ())))
        if not ids:
            raise NotFoundError("name the items to compare: /compare?of=ID&of=ID; the overview makes such addresses.")
        if len(ids) > MOST_ASKED:
            raise NotFoundError(f"{len(ids)} ids are more than the {MOST_ASKED} that an address may have.")
        items = tuple(catalogue.item(each) for each in ids)
        bad = next((item for item in items if item.kind in ("study", "personal")), None)
        if bad is not None:
            raise NotFoundError(f"{bad.id} is a {bad.kind}; runs, comparisons, sweeps and federations can be compared.")
        return ViewRequest(view, items, query)
    if view not in VIEWS or not id:
        raise NotFoundError(f"there is no view '{printable(view, 40)}'; there are {', '.join([*VIEWS, 'compare'])}.")
    return ViewRequest(view, (catalogue.item(id, VIEWS[view]),), query)


def make_view(catalogue: Catalogue, asked: ViewRequest) -> View:
    """The view; if a folder cannot be read, a view that says why."""
    try:
        return _make_view(catalogue, asked)
    except (NotFoundError, _BadQueryError):
        raise
    except TROUBLE as error:
        return damaged(catalogue, asked.items[0], error)


def damaged(catalogue: Catalogue, item: Item, error: BaseException) -> View:
    """A view that says what is wrong with a folder."""
    summary = catalogue.summary(item) if item.kind in RUNS else None
    why = message_of(error, item)
    state: dict[str, Any] = state_of(summary.status) if summary is not None else {"since": 0.0}
    waiting = summary is not None and summary.status.state in ("waiting", "running")
    text = summary.status.why if waiting and summary is not None else why
    state |= {"state": summary.status.state if waiting and summary is not None else "damaged", "why": text}
    heading = "Nothing to show yet" if waiting else "This folder cannot be shown"
    return View(item.kind, item.id, state=state, parts=lambda: [Part(heading, [text])], data={"id": item.id})


def message_of(error: BaseException, item: Item) -> str:
    """The message of an error, without paths of this machine."""
    text = str(error) if isinstance(error, EnlistError) else f"{type(error).__name__}: {error}"
    return printable(text.replace(f"{item.folder}/", "").replace(str(item.folder), item.id), 400)


class _BadQueryError(InputError):
    """An impossible value in a query."""


def _make_view(catalogue: Catalogue, asked: ViewRequest) -> View:
    item, tables = asked.items[0], catalogue.tables
    if asked.view == "compare":
        return _compared(catalogue, asked)
    if asked.view == "study":
        item.check()
        return study_view(item, catalogue.groups.get(item.id))
    if asked.view == "ladder":
        return _ladder(catalogue, item)
    summary = catalogue.summary(item)
    if asked.view == "personal":
        item.check()
        return personal_view(item, summary, read_personal(item.folder))
    round = whole(asked, "round")
    run = tables.run(item, reasons=True)
    if asked.view == "client":
        return client_view(item, summary, run, missing_client(item, {"client": asked.one("client")}), round)
    view = federation_view if item.kind == "federation" else run_view
    return view(item, summary, run, round)


def whole(asked: ViewRequest, name: str) -> int | None:
    """A whole number in a query; None if it is not given."""
    text = asked.one(name).strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise _BadQueryError(f"{name} is '{printable(text, 40)}'; give a whole number.")
    return int(text)


def target_of(asked: ViewRequest) -> float | None:
    """The target in a query; None if it is not given."""
    text = asked.one("target").strip()
    try:
        found = float(text) if text else None
    except ValueError:
        found = math.nan
    if found is not None and not (math.isfinite(found) and found >= 0):
        raise _BadQueryError(f"target is '{printable(text, 40)}'; give a number such as 0.8.")
    return found


def runs_of(
    catalogue: Catalogue, asked: ViewRequest
) -> tuple[list[tuple[Item, RunSummary, RunTables]], list[tuple[Item, str]]]:
    """The runs of the items, each once, and those that cannot be read, with the reason."""
    items = list({run.id: run for item in asked.items for run in catalogue.index.runs_of(item)}.values())
    items = [item for item in items if item.kind != "personal"]
    check_number(len(items))
    found, lost = [], []
    for item in items:
        try:
            found.append((item, catalogue.summary(item), catalogue.tables.run(item, reasons=True)))
        except TROUBLE as error:
            if catalogue.summary(item).status.state not in ("waiting", "running"):
                lost.append((item, message_of(error, item)))
    return found, lost


def _compared(catalogue: Catalogue, asked: ViewRequest) -> View:
    found, lost = runs_of(catalogue, asked)
    names = [item.id for item in asked.items]
    title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    methods = [name[:200] for name in asked.query.get("method", ())]
    failed = catalogue.missing(asked.items)
    now = _standing(catalogue, asked, lost) if not methods else None
    return compare_view(title, found, lost, methods, target_of(asked), now, failed)


def _standing(catalogue: Catalogue, asked: ViewRequest, lost: Sequence[tuple[Item, str]]) -> GroupStatus:
    """The status of the compared items: that of the overview, unless tables that it does not read are damaged."""
    known = catalogue.groups.get(asked.items[0].id) if len(asked.items) == 1 else None
    if known is not None and not lost:
        return known
    items = {run.id: run for item in asked.items for run in catalogue.index.runs_of(item)}
    broken = {item.id: why for item, why in lost}
    runs = []
    for item in items.values():
        summary = catalogue.summary(item)
        if item.id in broken:
            status = dataclasses.replace(summary.status, state="damaged", why=broken[item.id])
            summary = dataclasses.replace(summary, status=status)
        runs.append(summary)
    groups = [catalogue.groups[item.id] for item in asked.items if item.id in catalogue.groups]
    expected = sum(group.total for group in groups) + len(asked.items) - len(groups)
    return group_status(runs, list(catalogue.missing(asked.items).values()), expected)


def _ladder(catalogue: Catalogue, item: Item) -> View:
    return ladder_view(item, *_rungs(catalogue, item), catalogue.groups.get(item.id), catalogue.look)


def _rungs(catalogue: Catalogue, item: Item) -> tuple[list[Item], dict[str, list[tuple[RunSummary, RunTables | None]]]]:
    """The rungs of a ladder, and the runs of each by its id; with tables of finished ones, if needed."""
    item.check()
    rungs = catalogue.index.inside(item)
    done = (item.folder / "results.csv").is_file()
    runs: dict[str, list[tuple[RunSummary, RunTables | None]]] = {}
    for rung in rungs:
        for each in catalogue.index.runs_of(rung):
            summary, tables = catalogue.summary(each), None
            if not done and summary.status.state == "finished":
                try:
                    tables = catalogue.tables.run(each)
                except TROUBLE:
                    tables = None
            runs.setdefault(rung.id, []).append((summary, tables))
    return rungs, runs


def report(catalogue: Catalogue, asked: ViewRequest) -> str:
    """A page that opens offline, of runs, comparisons, sweeps, ladders, federations or personalised learning."""
    title = asked.items[0].id if len(asked.items) == 1 else f"{len(asked.items)} folders"
    if asked.items[0].kind == "personal":
        run = read_personal(asked.items[0].folder)
        return page_text(title, lead([run]), [section for section, _ in personal_sections([run])])
    if asked.items[0].kind == "ladder" and len(asked.items) == 1:
        return ladder_report(asked.items[0], *_rungs(catalogue, asked.items[0]))
    if asked.items[0].kind == "study":
        return study_report(asked.items[0])
    found, _ = runs_of(catalogue, asked)
    methods = asked.query.get("method", ())
    return report_text([run for _, _, run in found if not methods or run.selector in methods], title, target_of(asked))
