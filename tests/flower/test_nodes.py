"""Who is who: names, nodes that come and go, and two that say they are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist.errors import StateFileError
from enlist.flower.nodes import NodeTable
from enlist.flower.replies.reply import told_name


def table() -> NodeTable:
    found = NodeTable()
    found.add([(11, None), (12, "a"), (13, None)])
    return found


def test_a_node_is_a_client_until_it_tells_its_name() -> None:
    nodes = table()
    assert nodes.names == ["node-11", "a", "node-13"]
    assert nodes.identify(11, "b", online={11}) == ""
    assert (nodes.names[0], nodes.named("b"), nodes.number(11), nodes.position(11)) == ("b", 0, 0, 0)
    assert nodes.orphans() == []


def test_telling_the_same_name_again_changes_nothing() -> None:
    nodes = table()
    before = nodes.changes
    assert nodes.identify(12, "a", online={12}) == ""
    assert nodes.changes == before


def test_a_client_that_comes_back_as_another_node_is_what_it_was() -> None:
    nodes = table()
    assert nodes.identify(13, "a", online={11, 13}) == ""
    assert nodes.number(13) == 1
    assert nodes.number(12) is None
    assert nodes.positions([11, 12, 13]).tolist() == [0, 1]
    assert nodes.orphans() == [2]
    assert nodes.strangers([12, 13]) == [12]


def test_two_nodes_with_one_name_the_first_that_is_online_keeps_it() -> None:
    nodes = table()
    assert nodes.identify(13, "a", online={12, 13}) == "node 13 says that it is a, which is node 12"
    assert nodes.number(13) == 2
    assert nodes.number(12) == 1


def test_a_node_cannot_change_its_name() -> None:
    nodes = table()
    assert nodes.identify(12, "fresh", online={12}) == "node 12 says that it is fresh, but it was a"
    assert nodes.names[1] == "a"
    nodes.identify(13, "c", online=set())
    assert "but it was c" in nodes.identify(13, "a", online=set())


def test_a_name_like_a_provisional_one_is_no_way_in() -> None:
    nodes = table()
    assert nodes.identify(13, "node-11", online={11, 13}) == ""
    assert nodes.number(11) == 0
    assert nodes.number(13) == 2


def test_strangers_are_left_out() -> None:
    nodes = table()
    assert nodes.positions([99, 13, 11]).tolist() == [0, 2]
    assert nodes.identify(99, "z", online={99}) == ""
    assert nodes.number(99) is None


def test_missing_clients() -> None:
    nodes = table()
    assert nodes.missing(online={11, 13})
    assert not nodes.missing(online={12})


def test_seats_for_nobody_in_particular() -> None:
    nodes = NodeTable()
    nodes.add([(None, None), (None, "a"), (None, None)])
    assert nodes.vacant() == [0, 2]
    assert nodes.orphans() == []
    nodes.seat(11, 0)
    nodes.seat(12, 1)
    assert nodes.names == ["node-11", "a", ""]
    assert nodes.vacant() == [2]


def test_compacting_keeps_numbers() -> None:
    nodes = table()
    nodes.identify(13, "a", online={13})
    nodes.keep(np.array([0, 1]))
    assert nodes.numbers([0, 1]) == [0, 1]
    nodes.add([(14, None)])
    assert nodes.numbers([2]) == [3]
    assert nodes.position(14) == 2
    assert nodes.at(np.array([0, 2])) == [11, 14]


def test_saved_and_restored() -> None:
    nodes = NodeTable()
    nodes.add([(2**64 - 1, "ü"), (None, None), (12, None)])
    again = NodeTable.restored(nodes.state())
    assert (again.names, again.told, again.nodes, again.order) == (nodes.names, nodes.told, nodes.nodes, nodes.order)
    assert again.number(2**64 - 1) == 0
    with pytest.raises(StateFileError, match="lacks 'told'"):
        NodeTable.restored({name: value for name, value in nodes.state().items() if name != "told"})


@pytest.mark.parametrize("value", ["", "   ", "x" * 201, "a\nb", "\x00", None, 0.5, True, ["a"], b"a"])
def test_what_is_no_name(value: object) -> None:
    assert told_name(value) is None


@given(st.lists(st.tuples(st.sampled_from(["tell", "leave"]), st.integers(1, 6), st.sampled_from("abcd")), max_size=30))
def test_a_name_belongs_to_one_client_and_a_node_to_one(steps: list[tuple[str, int, str]]) -> None:
    nodes, online = NodeTable(), set(range(1, 7))
    nodes.add((node, None) for node in sorted(online))
    for action, node, name in steps:
        if action == "leave":
            online ^= {node}
        elif node in online:
            if nodes.strangers([node]):
                nodes.add([(node, None)])
            nodes.identify(node, name, online)
        told = [name for name, known in zip(nodes.names, nodes.told, strict=True) if known]
        assert len(set(told)) == len(told)
        seated = [node for node in nodes.nodes if node is not None]
        assert len(set(seated)) == len(seated)
        assert all(nodes.nodes[nodes.number(node)] == node for node in seated)
        again = NodeTable.restored(nodes.state())
        assert [again.number(node) for node in range(1, 7)] == [nodes.number(node) for node in range(1, 7)]
