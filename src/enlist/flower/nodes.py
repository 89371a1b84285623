"""Which node is which client: node ids come and go, what was learned belongs to clients.

A client is known by the name that it gives itself in a reply, or by its node id until it has given one. Its number
never changes and is what the tables of a run call `client`; its position is its place in the selector's arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from enlist._internal.typing import AnyArray, IntArray
from enlist.errors import StateFileError

LONGEST_NAME = 200


@dataclasses.dataclass(eq=False)
class NodeTable:
    """Clients by number: name, whether the client itself told it, and its node. `changes` counts what was changed.

    Only a client that has not told its name yet can be found to be one that is known already: a node that changes its
    name keeps the first, so a bad reputation cannot be shed under the same node id.

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
        """The client that has told this name."""
        return self._by_name.get(name)

    def position(self, node: int) -> int:
        """The place in the selector of the client whose node this is."""
        return self._position[self._by_node[node]]

    def positions(self, nodes: Iterable[int]) -> IntArray:
        """Sorted positions of the clients of these nodes; strangers are left out."""
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
        """Whether there is a client that once told its name and whose node is not online: a stranger may be it."""
        return any(told and node not in online for told, node in zip(self.told, self.nodes, strict=True))

    def add(self, clients: Iterable[tuple[int | None, str | None]]) -> None:
        """Append clients at new positions, as (node, name that it told)."""
        for node, name in clients:
            self.order.append(len(self.names))
            self.names.append(name if name is not None else _provisional(node))
            self.told.append(name is not None)
            self.nodes.append(node)
        self._index()

    def seat(self, node: int, number: int) -> None:
        """Give a client that has no node, or whose node is gone, this one."""
        self.nodes[number] = node
        if not self.told[number]:
            self.names[number] = _provisional(node)
        self._index()

    def identify(self, node: int, name: str, online: set[int]) -> str:
        """A node has told its name; returns what is wrong with it, or nothing."""
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
        """Numbers of clients that nobody has been yet: of a selector that was made for so many without naming them."""
        return [number for number, name in enumerate(self.names) if not name]

    def orphans(self) -> list[int]:
        """Positions of clients that never told a name and have no node any more: nobody can be them again."""
        gone = [self.nodes[number] is None and not self.told[number] for number in self.order]
        return [place for place, number in enumerate(self.order) if gone[place] and self.names[number]]

    def keep(self, positions: IntArray) -> None:
        """The selector has forgotten every client but those at these positions."""
        self.order = [self.order[position] for position in positions.tolist()]
        self._index()

    def state(self) -> dict[str, AnyArray]:
        """Everything, as arrays: JSON would be slow for many clients. Node 0 stands for none."""
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


def told_name(value: object) -> str | None:
    """A name as a client told it, or None if it is no name: text that can be printed, or a whole number.

    >>> told_name(3), told_name(" phone-3 "), told_name(""), told_name(0.5)
    ('3', 'phone-3', None, None)
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).strip()
    return text if 0 < len(text) <= LONGEST_NAME and text.isprintable() else None
