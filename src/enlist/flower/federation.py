"""The federation as the selector sees it: nodes become clients, replies become feedback. Independent of Flower."""

from __future__ import annotations

import collections
import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.books import Books
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import InputError
from enlist.flower.nodes import NodeTable, matching, other_classes, without_ids
from enlist.flower.replies.reply import REASON, Introduction, Reply
from enlist.flower.replies.trust import COLUMNS, WINDOW, Claims, resting
from enlist.flower.selector import FunctionSelector, Needs, SelectorSource
from enlist.flower.terms import RECENT_ROUNDS
from enlist.records import Feedback, Outcome, RoundMetrics, Selection

ORPHANS = 100
"""Clients that no node can be again are forgotten once there are this many, and a quarter of all."""


class FlowerFederation:
    """Drives the selector: enrols nodes as clients, asks, and tells the outcomes.

    quantile     claims are clipped at this quantile of other clients' claims, see `trust`; None accepts them
    most_often   no client gets more than this many times an even share, see `trust`; None sets no limit
    events       noteworthy events that are not written yet, as (kind, node, text)

    >>> federation = FlowerFederation(SelectorSource.of("bsfl", None, None, seed=1))
    >>> federation.enrol([11, 12, 13], {})
    []
    >>> picked = federation.choose([11, 12, 13], busy={12}, k=2, now=0.0, deadline=60.0)
    >>> federation.nodes.at(picked.clients)
    [11, 13]
    >>> federation.settle(picked, [Reply(11, 1, 2.5, client=0)], waited=60.0, online={11, 12, 13})
    >>> federation.selector.speed().round(2)
    array([1.  , 0.  , 0.04])
    """

    def __init__(
        self,
        source: SelectorSource,
        *,
        clients: Clients | None = None,
        late: str = "learn",
        quantile: float | None = 0.9,
        most_often: float | None = 3.0,
        log: Path | None = None,
        asynchronous: bool = False,
    ) -> None:
        self.asynchronous = asynchronous
        self.source, self.late, self.log = source, late, log
        self.quantile, self.most_often = quantile, most_often
        self.asked: list[IntArray] = []
        self.step = 0
        self.nodes = NodeTable()
        self.claims = Claims.create(0)
        self.recent: list[FloatArray] = []
        self.events: list[tuple[str, int, str]] = []
        self.needs = Needs(source.name, source.needs)
        self.books: Books | None = None
        known = clients if source.given is None else source.given.clients
        if clients is not None and source.given is not None:
            raise InputError("clients were given with a configured selector, which has its own; pass only one of them.")
        if known is not None:
            names = [None] * len(known) if known.ids is None else [str(name) for name in known.ids.tolist()]
            self.nodes.add((None, name) for name in names)
            self._begin(source.create(without_ids(known) if source.given is None else known))

    @property
    def selector(self) -> Selector[Any, Any]:
        """The selector; it exists once the first node is enrolled."""
        if self.books is None:
            raise InputError("no node is enrolled yet, so there is no selector; start the strategy first.")
        return self.books.selector

    def _begin(self, selector: Selector[Any, Any]) -> None:
        if isinstance(selector, FunctionSelector):
            selector.naming = self._names
        if self.asynchronous:  # a node may be at work during any number of asks
            selector.max_open = checks.MOST_WHOLE
        self.books = Books(selector, late="drop" if self.late == "drop" else "learn", log=self.log)
        if len(self.claims.loss) < len(selector.clients):
            self.claims.grow(len(selector.clients) - len(self.claims.loss))

    def _names(self, positions: IntArray) -> AnyArray:
        return np.array([self.nodes.names[number] for number in self.nodes.numbers(positions)])

    def record_to(self, log: Path) -> None:
        """Append every decision to this file from now on."""
        self.log = log
        if self.books is not None:
            self.books.log = log

    @property
    def _context(self) -> dict[str, FloatArray] | None:
        return self.claims.context(self.source.needs)

    @property
    def wanted(self) -> set[str]:
        """Columns of `Clients` that the selector requires."""
        return {need.removeprefix("clients.") for need in self.source.needs if need.startswith("clients.")}

    def enrol(self, online: Sequence[int], introductions: Mapping[int, Introduction]) -> list[int]:
        """Turn new nodes into clients; returns those of which too little is known."""
        there, fresh, waiting = set(online), [], []
        new: set[str | None] = set()
        strangers = self.nodes.strangers(online)
        vacant = self.nodes.vacant()
        told = {node: introductions.get(node, Introduction()) for node in strangers}
        for node in sorted(strangers, key=lambda node: (told[node].name is None, told[node].name or "", node)):
            name = told[node].name
            number = None if name is None else self.nodes.named(name)
            if name in new or (number is not None and self.nodes.nodes[number] in there):
                self.events.append(("conflict", node, f"it says that it is {name}, which is another node"))
                name = number = None
            if number is None and vacant:
                number = vacant.pop(0)
            if number is not None:
                self.nodes.seat(node, number)
                if name is not None:
                    self.nodes.identify(node, name, there)
            elif all(getattr(told[node], column, None) is not None for column in self.wanted):
                fresh.append((node, name, told[node]))
                new |= set() if name is None else {name}
            else:
                waiting.append(node)
        return waiting + self._join(fresh)

    def _join(self, fresh: list[tuple[int, str | None, Introduction]]) -> list[int]:
        """Append clients; returns the nodes whose features or labels differ from those of the others."""
        titles = () if self.books is None else self.selector.clients.feature_names
        if "features" in self.wanted and not titles and fresh:
            titles = collections.Counter(told.feature_names for _, _, told in fresh).most_common(1)[0][0]
        odd = [node for node, _, told in fresh if told.features is not None and titles and told.feature_names != titles]
        for node in odd:
            self.events.append(("refused", node, f"its features are not {', '.join(titles):.{REASON}}"))
        counts = None if self.books is None else self.selector.clients.label_counts
        if "label_counts" in self.wanted:
            other = other_classes(counts, {node: told for node, _, told in fresh if node not in odd})
            self.events += [("refused", node, text) for node, text in other.items()]
            odd += other
        fresh = [entry for entry in fresh if entry[0] not in odd]
        if not fresh:
            return odd
        described = [told for _, _, told in fresh]
        self.nodes.add((node, name) for node, name, _ in fresh)
        if self.books is None:
            columns = {name: [getattr(told, name) for told in described] for name in self.wanted}
            more = Clients(count=len(fresh), feature_names=titles if "features" in self.wanted else (), **columns)
            self._begin(self.source.create(more))
        else:
            self.books.join(matching(self.selector.clients, described, self.nodes.names[-len(fresh) :]))
            self.claims.grow(len(fresh))
        return odd

    def choose(
        self,
        online: Sequence[int],
        busy: set[int],
        k: int,
        now: float,
        deadline: float,
        enough: int | None = None,
        step: tuple[int, int] | None = None,
    ) -> Selection:
        """Ask the selector for at most `k` of the nodes that are online and not busy; the round needs `enough` replies.

        `step` is given in buffered mode: the number of the server's step, and the updates per step. All clients
        selected in one step then count as selected together.
        """
        assert self.books is not None
        here = self.nodes.positions(online)
        left_alone = self._left_alone(here, busy, k if step is None else max(k, step[1]))
        terms: dict[str, Any] = {"deadline": deadline, "enough": enough, "asynchronous": step is not None}
        selection = self.books.ask(here, k, now=now, busy=left_alone, context=self._context, **terms)
        if step is not None and self.step == step[0] and self.asked:
            self.asked[-1] = np.concatenate([self.asked[-1], selection.clients])
        else:
            self.asked = [*self.asked, selection.clients][-WINDOW:]
        self.step = 0 if step is None else step[0]
        return selection

    def _left_alone(self, here: IntArray, busy: set[int], k: int) -> IntArray:
        """Positions of clients that are busy, or were selected too often."""
        occupied = self.nodes.positions(busy)
        if self.most_often is None:
            return occupied
        rest = resting(self.asked, here, occupied, k, self.most_often, len(self.nodes.order))
        return np.union1d(occupied, rest)

    def forced(self, nodes: Sequence[int], now: float, deadline: float, wanted: IntArray) -> Selection:
        """Make the selector select exactly these nodes, which Flower has sampled.

        The clients that it `wanted` itself count as selected from now on.
        """
        assert self.books is not None
        self.asked = [*self.asked, wanted][-WINDOW:]
        here = self.nodes.positions(nodes)
        nobody = np.zeros(0, dtype=np.int64)
        return self.books.ask(here, len(here), now=now, deadline=deadline, busy=nobody, context=self._context)

    def would_choose(self, online: Sequence[int], busy: set[int], k: int, now: float, deadline: float) -> IntArray:
        """What the selector would select; leaves its state unchanged."""
        here = self.nodes.positions(online)
        twin = copy.deepcopy(self.selector)
        left_alone = self._left_alone(here, busy, k)
        return twin.ask(here, k, now=now, deadline=deadline, busy=left_alone, context=self._context).clients

    def settle(
        self,
        selection: Selection,
        replies: Sequence[Reply],
        waited: float,
        online: set[int],
        metrics: RoundMetrics | None = None,
    ) -> None:
        """Tell the outcomes of a selection: a client that is not reported is late."""
        assert self.books is not None
        done = [reply for reply in replies if reply.completed]
        if done:
            clients, columns = self._believed(done, selection.deadline)
            self.needs.check_replies(done, selection.round)
            self.books.reply(selection, clients, Outcome.COMPLETED, **columns)
        for outcome in (Outcome.DROPPED, Outcome.FAILED):
            lost = [reply.client for reply in replies if reply.outcome == outcome]
            if lost:
                self.books.reply(selection, np.array(lost), outcome)
        self.needs.check_round(metrics, selection.round)
        self.books.close(selection, waited=waited, round=metrics)
        times = [reply.latency for reply in done if not math.isnan(reply.latency)]
        times += [waited] * (len(selection) - len(replies))
        self.recent = [*self.recent, np.array(times)][-RECENT_ROUNDS:]
        self._identify(replies, online)

    def ended(
        self, entries: Sequence[tuple[Selection, Reply]], step: int, online: set[int], metrics: RoundMetrics
    ) -> None:
        """Tell how participations ended in a step of the server; others of the same selections may still be open."""
        by_selection: dict[int, tuple[Selection, list[Reply]]] = {}
        for picked, reply in entries:
            by_selection.setdefault(picked.round, (picked, []))[1].append(reply)
        if done := [reply for _, reply in entries if reply.completed]:
            self.needs.check_replies(done, step)
        self.needs.check_round(metrics, step)
        for _, (picked, replies) in sorted(by_selection.items()):
            self._tell(picked, replies, step, metrics)
        self._identify([reply for _, reply in entries], online)
        timed = [reply.latency for _, reply in entries if reply.outcome in (Outcome.COMPLETED, Outcome.LATE)]
        self.recent = [*self.recent, np.array(timed, dtype=float)][-RECENT_ROUNDS:]

    def _tell(self, selection: Selection, replies: Sequence[Reply], step: int, metrics: RoundMetrics) -> None:
        """Tell the final outcomes of some clients of a selection."""
        assert self.books is not None
        opening = self.selector.openings.get(selection.round)
        if opening is None:
            return
        late = np.array([reply.outcome == Outcome.LATE for reply in replies])
        columns = {"latency": np.where(late, [reply.latency for reply in replies], np.nan)}
        places = np.array([place for place, reply in enumerate(replies) if reply.completed], dtype=np.int64)
        if len(places):
            _, believed = self._believed([replies[place] for place in places], selection.deadline)
            for name, values in believed.items():
                whole = columns.setdefault(name, np.full((len(replies), *values.shape[1:]), np.nan))
                whole[places] = values
        told = Feedback(
            clients=[reply.client for reply in replies],
            outcome=[reply.outcome for reply in replies],
            censored=[reply.outcome == Outcome.LATE and not reply.reason for reply in replies],
            rounds_late=[float(step - reply.round) for reply in replies],
            **columns,
        )
        last = len(replies) == len(opening.pending)
        self.books.tell(selection, told, metrics if last else None)

    def release(self) -> None:
        """Count clients that were selected over a lost connection as dropped."""
        for opening in [] if self.books is None else list(self.selector.openings.values()):
            lost = opening.pending
            if self.books is not None and len(lost):
                told = Feedback(clients=lost, outcome=np.full(len(lost), Outcome.DROPPED))
                self.books.tell(opening.selection, told)

    def arrived(self, number: int, replies: Sequence[Reply], rounds_late: float, online: set[int]) -> list[Reply]:
        """Tell late replies to the selector's round `number`; returns those that still count."""
        assert self.books is not None
        opening = self.selector.openings.get(number)
        done = [reply for reply in replies if reply.completed]
        if opening is not None and done:
            late = set(opening.selection.clients[opening.outcome == Outcome.LATE].tolist())
            done = [reply for reply in done if reply.client in late]
        if opening is None or not done:
            return []
        clients, columns = self._believed(done, math.inf)
        counts = self.books.arrived(opening.selection, clients, rounds_late=rounds_late, **columns)
        self._identify(done, online)
        return done if counts else []

    def _believed(self, done: Sequence[Reply], deadline: float) -> tuple[IntArray, dict[str, FloatArray]]:
        """Positions of clients, and the columns of their feedback, with clipped claims."""
        clients = np.array([reply.client for reply in done], dtype=np.int64)
        latency = np.array([reply.latency for reply in done])
        self.claims.note("latency", clients, latency)
        slowed = np.minimum(self.claims.cut("latency", latency, self.quantile), deadline)
        unmeasured = np.isnan(latency).any()
        columns = {} if unmeasured else {"latency": np.where(latency <= deadline, slowed, latency)}
        self.claims.note("battery_left", clients, np.array([reply.battery_left for reply in done]))
        for name in COLUMNS:
            values = np.array([reply.claims.get(name, math.nan) for reply in done])
            if np.isnan(values).all() and name not in self.source.needs:
                continue
            self.claims.note(name, clients, values)
            columns[name] = self.claims.cut(name, values, self.quantile)
        if "update_norm" in self.source.needs:
            columns["update_norm"] = np.array([reply.update_norm for reply in done])
        if "update" in self.source.needs:
            known = next((reply.sketch for reply in done if reply.sketch is not None), np.zeros(1))
            unknown = np.full_like(known, np.nan)  # for a late reply whose model is no longer kept
            columns["update"] = np.stack([unknown if reply.sketch is None else reply.sketch for reply in done])
        return clients, columns

    def _identify(self, replies: Sequence[Reply], online: set[int]) -> None:
        for reply in replies:
            if reply.name is not None and (wrong := self.nodes.identify(reply.node, reply.name, online)):
                self.events.append(("conflict", reply.node, wrong))
            self.events += [("doubted", reply.node, doubt) for doubt in reply.doubts]

    def tidy(self) -> bool:
        """Forget clients that no node can be again, once there are many; only between rounds. True if it did."""
        orphans = self.nodes.orphans()
        if self.books is None or len(orphans) < max(ORPHANS, len(self.nodes.order) / 4):
            return False
        kept = np.setdiff1d(np.arange(len(self.nodes.order)), orphans)
        self.books.compact(kept)
        self.nodes.keep(kept)
        self.claims.keep(kept)
        self.asked = []
        return True

    def state(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Everything except the selector, as values for JSON and arrays."""
        arrays: dict[str, AnyArray] = {f"claims/{path}": np.asarray(value) for path, value in self.claims.leaves()}
        arrays |= {f"nodes/{name}": values for name, values in self.nodes.state().items()}
        header: dict[str, Any] = {"seen": sorted(self.needs.seen)}
        for name, rounds in (("recent", self.recent), ("asked", self.asked)):
            arrays[name] = np.concatenate(rounds) if rounds else np.zeros(0)
            header[name] = [len(each) for each in rounds]
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], folder: Path | None) -> None:
        """Continue from what `state` returned, with the selector saved in `folder`."""
        own = {name.removeprefix("nodes/"): value for name, value in arrays.items() if name.startswith("nodes/")}
        self.nodes = NodeTable.restored(own)
        self.claims = Claims.create(len(self.nodes.order))
        saved = {name.removeprefix("claims/"): value for name, value in arrays.items()}
        self.claims.restore({**dict(self.claims.leaves()), **saved})  # an older version lacked some columns
        self.recent, self.asked = (
            np.split(arrays[name], np.cumsum(header[name])[:-1]) if header[name] else [] for name in ("recent", "asked")
        )
        self.needs.seen = set(header["seen"])
        self.books = None
        if folder is not None:
            self._begin(self.source.load(folder))
