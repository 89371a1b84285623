"""Which node is which client, waiting for nodes, and asking them who they are.

Node ids come and go; what was learned belongs to clients.

A client is known by the name that it reports, and until then by its node id. Its number never changes and is `client`
in the tables of a run; its position is its index in the selector's arrays.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.clients import CLIENT_COLUMNS, Clients
from enlist.errors import MissingColumnError, StateFileError
from enlist.flower import keys
from enlist.flower.grid import LOGGER, Messenger, NoNodesError
from enlist.flower.replies.reply import LOST, Introduction, Reply, error_text, introduced
from enlist.flower.terms import Terms

if TYPE_CHECKING:
    from enlist.flower.federation import FlowerFederation

LONGEST_INTRODUCTION = 120.0
"""Seconds to wait for nodes to say who they are."""

QUERY = "query"


@dataclasses.dataclass(eq=False)
class NodeTable:
    """Clients by number: name, whether the client itself reported it, and its node. `changes` counts modifications.

    Only a client that has not reported a name yet can turn out to be a known one. A node that changes its name keeps
    the first, so it cannot shed a bad reputation under the same node id.

    >>> table = NodeTable()
    >>> table.add([(11, None), (12, "phone-3")])
    >>> table.names, table.positions([12])
    (['node-11', 'phone-3'], array([1]))
    >>> table.identify(11, "phone-3", online={11, 12})
    'node 11 says that it is phone-3, which is node 12'
    >>> table.identify(11, "phone-3", online={11}), table.number(11)
    ('', 1)
    """

    names: list[str] = dataclasses.field(default_factory=list)
    told: list[bool] = dataclasses.field(default_factory=list)
    nodes: list[int | None] = dataclasses.field(default_factory=list)
    order: list[int] = dataclasses.field(default_factory=list)
    """Number of the client at each position."""

    def __post_init__(self) -> None:
        self.changes = 0
        self._index()

    def _index(self) -> None:
        self.changes += 1
        self._by_node = {node: number for number, node in enumerate(self.nodes) if node is not None}
        self._by_name = {name: number for number, name in enumerate(self.names) if self.told[number]}
        self._position = {number: position for position, number in enumerate(self.order)}

    def __len__(self) -> int:
        return len(self.names)

    def number(self, node: int) -> int | None:
        """The client whose node this is."""
        return self._by_node.get(node)

    def named(self, name: str) -> int | None:
        """The client that reported this name."""
        return self._by_name.get(name)

    def position(self, node: int) -> int:
        """The position in the selector of the client whose node this is."""
        return self._position[self._by_node[node]]

    def positions(self, nodes: Iterable[int]) -> IntArray:
        """Sorted positions of the clients of these nodes, without unknown nodes."""
        known = [self._position[self._by_node[node]] for node in nodes if node in self._by_node]
        return np.array(sorted(known), dtype=np.int64)

    def at(self, positions: IntArray) -> list[int]:
        """The nodes of the clients at these positions, all of which have one."""
        found = [self.nodes[self.order[position]] for position in positions.tolist()]
        return [node for node in found if node is not None]

    def numbers(self, positions: Sequence[int] | IntArray) -> list[int]:
        """The numbers of the clients at these positions."""
        return [self.order[position] for position in positions]

    def strangers(self, nodes: Iterable[int]) -> list[int]:
        """The nodes that belong to no client yet."""
        return [node for node in nodes if node not in self._by_node]

    def missing(self, online: set[int]) -> bool:
        """Whether a client with a reported name has no node online: an unknown node may be that client."""
        return any(told and node not in online for told, node in zip(self.told, self.nodes, strict=True))

    def add(self, clients: Iterable[tuple[int | None, str | None]]) -> None:
        """Append clients at new positions, as (node, reported name)."""
        for node, name in clients:
            self.order.append(len(self.names))
            self.names.append(name if name is not None else _provisional(node))
            self.told.append(name is not None)
            self.nodes.append(node)
        self._index()

    def seat(self, node: int, number: int) -> None:
        """Assign this node to a client that has none, or whose node is gone."""
        self.nodes[number] = node
        if not self.told[number]:
            self.names[number] = _provisional(node)
        self._index()

    def identify(self, node: int, name: str, online: set[int]) -> str:
        """Record the name that a node reported; returns what is wrong with it, or ""."""
        number = self._by_node.get(node)
        if number is None or (self.told[number] and self.names[number] == name):
            return ""
        if self.told[number]:
            return f"node {node} says that it is {name}, but it was {self.names[number]}"
        other = self._by_name.get(name)
        self.changes += 1
        if other is None:
            self.names[number], self.told[number], self._by_name[name] = name, True, number
            return ""
        former = self.nodes[other]
        if former in online:
            return f"node {node} says that it is {name}, which is node {former}"
        if former is not None:
            del self._by_node[former]
        self.nodes[number], self.nodes[other], self._by_node[node] = None, node, other
        return ""

    def vacant(self) -> list[int]:
        """Numbers of unassigned clients, of a selector that was created for unnamed clients."""
        return [number for number, name in enumerate(self.names) if not name]

    def orphans(self) -> list[int]:
        """Positions of clients that never reported a name and have lost their node: no node can be them again."""
        gone = [self.nodes[number] is None and not self.told[number] for number in self.order]
        return [place for place, number in enumerate(self.order) if gone[place] and self.names[number]]

    def keep(self, positions: IntArray) -> None:
        """Drop the positions of all other clients, which the selector has forgotten."""
        self.order = [self.order[position] for position in positions.tolist()]
        self._index()

    def state(self) -> dict[str, AnyArray]:
        """Everything as arrays, because JSON would be slow for many clients. Node 0 means none."""
        return {
            "names": np.array(self.names, dtype=np.str_),
            "told": np.array(self.told, dtype=bool),
            "nodes": np.array([node or 0 for node in self.nodes], dtype=np.uint64),
            "order": np.array(self.order, dtype=np.int64),
        }

    @classmethod
    def restored(cls, state: Mapping[str, AnyArray]) -> NodeTable:
        """A table from what `state` returned."""
        try:
            nodes = [node or None for node in state["nodes"].tolist()]
            return cls(state["names"].tolist(), state["told"].tolist(), nodes, state["order"].tolist())
        except KeyError as error:
            raise StateFileError(f"the saved table of nodes lacks {error}; restore the folder from a copy.") from None


def _provisional(node: int | None) -> str:
    return "" if node is None else f"node-{node}"


def without_ids(clients: Clients) -> Clients:
    """Clients without their names, which are in the table of nodes.

    >>> without_ids(Clients(ids=["a", "b"])).ids is None
    True
    """
    columns: dict[str, Any] = {name: value for name, value in clients.columns().items() if name != "ids"}
    return Clients(count=len(clients), feature_names=clients.feature_names, **columns)


def matching(known: Clients, described: Sequence[Introduction], names: Sequence[str]) -> Clients:
    """New clients with the columns of the known ones; values that they did not report are the median of the known ones.

    >>> matching(Clients(num_examples=[10, 30]), [Introduction("c")], ["c"]).num_examples
    array([20.])
    """
    columns: dict[str, Any] = {}
    for name in known.columns():
        if name == "ids":
            assert known.ids is not None
            numbered = known.ids.dtype.kind in "iu"
            columns[name] = (
                [int(known.ids.max()) + 1 + place for place in range(len(names))] if numbered else list(names)
            )
        elif name == "features":
            middle = tuple(np.median(known.features, axis=0)) if known.features is not None else ()
            columns[name] = [told.features or middle for told in described]
        elif name == "label_counts":
            usual = tuple(np.median(known.label_counts, axis=0)) if known.label_counts is not None else ()
            columns[name] = [told.label_counts or usual for told in described]
        elif name in CLIENT_COLUMNS:
            middle_value = float(np.median(getattr(known, name)))
            values = [getattr(told, name, None) for told in described]
            columns[name] = [middle_value if value is None else value for value in values]
    return Clients(count=len(described), feature_names=known.feature_names, **columns)


def other_classes(known: FloatArray | None, told: Mapping[int, Introduction]) -> dict[int, str]:
    """Nodes whose number of labels differs from that of `known` clients, or of most new ones: node -> the difference.

    >>> other_classes(None, {11: Introduction(label_counts=(1, 2)), 12: Introduction(label_counts=(1, 2, 3))})
    {12: 'it counts 3 labels, not 2'}
    """
    sizes = {node: len(one.label_counts) for node, one in told.items() if one.label_counts is not None}
    if not sizes:
        return {}
    usual = collections.Counter(sizes.values()).most_common(1)[0][0] if known is None else known.shape[1]
    return {node: f"it counts {size} labels, not {usual}" for node, size in sizes.items() if size != usual}


class NodeManager:
    """Waits for nodes and turns them into clients.

    needed    nodes that must be connected before a round begins
    least     nodes that must be free then
    undercut  which of the two were not reached within `patience` seconds: "connected", "free"
    online    nodes that were connected at the last check
    errors    node -> why it could not say who it is

    >>> from enlist.flower.federation import FlowerFederation
    >>> from enlist.flower.selector import SelectorSource
    >>> from enlist.flower.fake import FakeGrid
    >>> grid = FakeGrid([11, 12])
    >>> manager = NodeManager(FlowerFederation(SelectorSource.of("random", None, None, seed=1)), Terms(k=1), needed=2)
    >>> manager.wait_for_nodes(grid, Messenger(grid.clock), 1, lambda replies: None)
    [11, 12]
    """

    def __init__(self, federation: FlowerFederation, terms: Terms, needed: int, least: int = 1) -> None:
        self.federation, self.terms, self.needed, self.least = federation, terms, needed, least
        self.undercut: set[str] = set()
        self.online: set[int] = set()
        self.introductions: dict[int, Introduction] = {}
        self.errors: dict[int, str] = {}
        self.nameless = False
        """Whether no node reported a name when asked: then nodes are not asked again unless necessary."""

    def wait_for_nodes(
        self, grid: Grid, messenger: Messenger, number: int, sort: Callable[[list[Reply]], object]
    ) -> list[int]:
        """The connected nodes, as soon as there are enough, and enough of them are free.

        After `patience` seconds the nodes that are there must do, with a warning, and later rounds do not wait again
        until enough were there once. If no node is free then, it is an error. `sort` gets the replies that arrive
        meanwhile: a late one makes its node free again.
        """
        began, patience = messenger.clock.monotonic(), self.terms.patience
        while True:
            online = list(dict.fromkeys(grid.get_node_ids()))
            self.online = set(online)
            sort(messenger.poll(grid))
            waited = messenger.clock.monotonic() - began
            over = waited >= patience - 1e-6  # so that the rest is never too short to move the clock
            if online and (len(online) >= self.needed or over or "connected" in self.undercut):
                strangers = self.enrol(grid, messenger, number, online, sort)
                free = set(online) - messenger.busy - set(strangers)
                few_will_do = over or "free" in self.undercut
                if self.terms.shadow or len(free) >= (1 if few_will_do else self.least):
                    self._look_at_floors(len(online), len(free), waited)
                    return online
                if over and set(strangers) >= set(online):
                    raise MissingColumnError(self._unknown(len(strangers)))
            if over:
                raise NoNodesError(self._nobody(len(online), patience))
            if waited < 0.1:
                LOGGER.info("enlist: waiting for nodes: %d connected, %d needed", len(online), self.needed)
            messenger.clock.sleep(min(1.0, patience - waited))

    def _look_at_floors(self, online: int, free: int, waited: float) -> None:
        """Warn if a round begins with fewer nodes than needed."""
        least = 0 if self.terms.shadow else self.least
        for name, count, wanted in (("connected", online, self.needed), ("free", free, least)):
            if count >= wanted:
                self.undercut.discard(name)
                continue
            self.undercut.add(name)
            floor = (
                "min_train_nodes" if name == "free" else "min_nodes" if self.terms.min_nodes else "min_available_nodes"
            )
            text = "enlist: continuing with %d nodes that are %s, though %d are needed (%s), after %.0f s"
            LOGGER.warning(text, count, name, wanted, floor, waited)

    def _nobody(self, connected: int, patience: float) -> str:
        if not connected:
            return (
                f"no node is connected after {patience:g} s; start SuperNodes and check that they reach the SuperLink, "
                "or wait longer: with_selector(..., patience=...)."
            )
        return (
            f"all {connected} connected nodes are still busy with earlier rounds after {patience:g} s; give rounds a "
            "longer deadline, or wait longer: with_selector(..., patience=...)."
        )

    def enrol(
        self,
        grid: Grid,
        messenger: Messenger,
        number: int,
        online: Sequence[int],
        sort: Callable[[list[Reply]], object],
    ) -> list[int]:
        """Turn unknown nodes into clients, after asking them who they are if that matters; returns those left out."""
        unknown = [node for node in self.federation.nodes.strangers(online) if node not in self.introductions]
        unknown = [node for node in unknown if node not in messenger.busy]
        if unknown and self._matters(set(online)):
            self._ask(grid, messenger, number, unknown, sort)
        left_out = self.federation.enrol(online, self.introductions)
        if self.federation.books is None and left_out:
            raise MissingColumnError(self._unknown(len(left_out)))
        return left_out

    def _matters(self, online: set[int]) -> bool:
        if self.terms.identify != "auto":
            return self.terms.identify == "always"
        return bool(self.federation.wanted) or (not self.nameless and self.federation.nodes.missing(online))

    def _ask(
        self, grid: Grid, messenger: Messenger, number: int, nodes: list[int], sort: Callable[[list[Reply]], object]
    ) -> None:
        question = RecordDict({keys.RECORD: ConfigRecord({"question": "who are you?"})})
        question["config"] = ConfigRecord()  # mods of the app may expect one in every message
        messages = [Message(content=question, dst_node_id=node, message_type=keys.INTRODUCTION) for node in nodes]
        sent = messenger.send(grid, messages, QUERY, number)
        sort(messenger.wait(grid, sent, min(LONGEST_INTRODUCTION, self.terms.patience)))
        answers = [self.introductions[node] for node in nodes if node in self.introductions]
        named = sum(answer.name is not None for answer in answers)
        LOGGER.info("enlist: %d of %d new nodes said who they are", named, len(nodes))
        for reason, failed in self._reasons(nodes).items():
            text = "enlist: %d of them answered with an error, node %d first: %s"
            LOGGER.warning(text, len(failed), failed[0], reason)
        self.nameless = bool(answers) and not named

    def _reasons(self, nodes: Sequence[int]) -> dict[str, list[int]]:
        """Why nodes could not say who they are -> those nodes."""
        found: dict[str, list[int]] = {}
        for node in nodes:
            if node in self.errors:
                found.setdefault(self.errors[node], []).append(node)
        return found

    def introduce(self, reply: Reply) -> None:
        """Record a node's introduction, or its error; a node that was lost is asked again when it is back."""
        node, message = reply.node, reply.message
        assert message is not None
        self.errors.pop(node, None)
        if message.has_error():
            self.errors[node] = error_text(message)
            if message.error.code in LOST:
                return
        self.introductions[node] = told = introduced(message)
        if told.name is not None and (wrong := self.federation.nodes.identify(node, told.name, self.online)):
            self.federation.events.append(("conflict", node, wrong))

    def _unknown(self, count: int) -> str:
        names = " and ".join(sorted(self.federation.wanted))
        given = ", ".join(f"{name}=..." for name in sorted(self.federation.wanted))
        quoted = next((f" (node {node} answered: {reason})" for node, reason in self.errors.items()), "")
        return (
            f"selector '{self.federation.source.name}' needs {names} of clients before it can select any, and "
            f'none of {count} nodes reported it{quoted}; let the ClientApp answer with @app.query("enlist") and '
            f"enlist.flower.client.introduction(message, context, {given}), or pass what is known of clients: "
            f"with_selector(..., clients=enlist.Clients(ids=..., {given}))."
        )
