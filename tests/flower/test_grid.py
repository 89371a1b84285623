"""The post: which reply answers which message, how long it took, and how long anybody waits."""

from __future__ import annotations

import pytest
from flwr.app import RecordDict
from flwr.serverapp import Grid

from enlist.flower.fake import SUPERLINK, FakeGrid, FakeReply, instruction, model_reply
from enlist.flower.grid import BoundedGridView as BoundedView
from enlist.flower.grid import GridView as View
from enlist.flower.grid import Messenger as Post
from enlist.flower.grid import NoNodesError


def sent_to(post: Post, grid: FakeGrid, *nodes: int, kind: str = "train", number: int = 1) -> list:
    return post.send(grid, [instruction(node) for node in nodes], kind, number)


def test_replies_are_matched_by_the_message_that_they_answer() -> None:
    grid = FakeGrid([11, 12], lambda message: FakeReply(1.0, error=(5, "Node Unavailable")))
    post = Post(grid.clock)
    sent = sent_to(post, grid, 11, 12)
    found = post.wait(grid, sent, 10.0)
    assert [arrival.message.metadata.src_node_id for arrival in found] == [SUPERLINK, SUPERLINK]
    assert [arrival.sent.node for arrival in found] == [11, 12]
    assert not post.open
    assert not post.ignored


def test_replies_out_of_order() -> None:
    grid = FakeGrid([11, 12, 13], lambda message: FakeReply({11: 3.0, 12: 1.0, 13: 2.0}[message.metadata.dst_node_id]))
    post = Post(grid.clock)
    found = post.wait(grid, sent_to(post, grid, 11, 12, 13), 10.0)
    assert [arrival.sent.node for arrival in found] == [12, 13, 11]
    assert [round(arrival.latency, 3) for arrival in found] == [1.0, 2.0, 3.0]


def test_a_duplicate_is_ignored() -> None:
    grid = FakeGrid([11, 12], lambda message: FakeReply(1.0, copies=3 if message.metadata.dst_node_id == 11 else 1))
    post = Post(grid.clock)
    found = post.wait(grid, sent_to(post, grid, 11, 12), 10.0)
    assert [arrival.sent.node for arrival in found] == [11, 12]
    assert [node for node, _ in post.ignored] == [11, 11]


def test_the_reply_of_a_node_that_was_not_asked_is_ignored_and_the_message_stays_open() -> None:
    grid = FakeGrid([11, 12], lambda message: FakeReply(1.0, source=12))
    post = Post(grid.clock)
    assert post.wait(grid, sent_to(post, grid, 11), 5.0) == []
    assert post.ignored == [(12, "message-1")]
    assert post.busy == {11}


def test_a_reply_of_an_earlier_round_is_told_apart() -> None:
    grid = FakeGrid([11, 12], lambda message: FakeReply(8.0 if message.metadata.dst_node_id == 11 else 1.0))
    post = Post(grid.clock)
    assert [a.sent.node for a in post.wait(grid, sent_to(post, grid, 11, 12), 5.0)] == [12]
    found = post.wait(grid, sent_to(post, grid, 12, number=2), 5.0)
    assert [(a.sent.node, a.sent.round) for a in found] == [(12, 2)]
    grid.clock.sleep(5.0)
    [late] = post.poll(grid)
    assert (late.sent.node, late.sent.round, late.latency) == (11, 1, 8.0)


@pytest.mark.parametrize("skew", [-3600.0, -0.5, 0.0, 0.5, 3600.0])
def test_a_wrong_clock_moves_the_latency_by_no_more_than_the_pause_between_polls(skew: float) -> None:
    grid = FakeGrid([11], lambda message: FakeReply(7.3, skew=skew))
    post = Post(grid.clock)
    [found] = post.wait(grid, sent_to(post, grid, 11), 30.0)
    assert abs(found.latency - 7.3) <= 0.02 * 7.4
    if skew == 0.0:
        assert found.latency == pytest.approx(7.3, abs=1e-6)


def test_waits_are_bounded_and_the_last_look_is_at_the_end() -> None:
    grid = FakeGrid([11, 12], lambda message: FakeReply(20.0 if message.metadata.dst_node_id == 11 else None))
    post = Post(grid.clock, longest_poll=60.0)
    found = post.wait(grid, sent_to(post, grid, 11, 12), 20.0)
    assert [arrival.sent.node for arrival in found] == [11]
    assert grid.clock.now == pytest.approx(20.0)
    assert grid.polls < 250


def test_waiting_stops_at_enough() -> None:
    grid = FakeGrid(range(11, 31), lambda message: FakeReply(float(message.metadata.dst_node_id)))
    post = Post(grid.clock)
    found = post.wait(grid, sent_to(post, grid, *range(11, 31)), 60.0, lambda found: len(found) >= 5)
    assert [arrival.sent.node for arrival in found] == [11, 12, 13, 14, 15]
    assert 15.0 <= grid.clock.now < 16.0


def test_waiting_does_not_wait_for_messages_of_others() -> None:
    grid = FakeGrid([11, 12], lambda message: FakeReply(50.0 if message.metadata.dst_node_id == 11 else 1.0))
    post = Post(grid.clock)
    sent_to(post, grid, 11)
    post.wait(grid, sent_to(post, grid, 12, number=2), 30.0)
    assert grid.clock.now < 2.0


def test_nothing_sent_means_nothing_asked() -> None:
    grid = FakeGrid([11])
    post = Post(grid.clock)
    assert post.send(grid, [], "train", 1) == []
    assert post.wait(grid, [], 30.0) == []
    assert post.poll(grid) == []
    assert grid.polls == 0


def test_messages_that_the_superlink_does_not_take_are_not_open() -> None:
    grid = FakeGrid([11, 12], push=lambda message: message.metadata.dst_node_id == 12)
    post = Post(grid.clock)
    assert [sent.node for sent in sent_to(post, grid, 11, 12)] == [12]
    assert post.busy == {12}


def test_one_open_message_of_a_kind_per_node() -> None:
    grid = FakeGrid([11], lambda message: FakeReply(None))
    post = Post(grid.clock)
    for number in range(50):
        sent_to(post, grid, 11, number=number)
        sent_to(post, grid, 11, kind="evaluate", number=number)
    assert len(post.open) == 2
    assert {sent.round for sent in post.open.values()} == {49}


def test_open_messages_hold_no_model() -> None:
    grid = FakeGrid([11], lambda message: FakeReply(None))
    message = instruction(11, content=RecordDict(model_reply(instruction(11))))
    post = Post(grid.clock)
    [sent] = post.send(grid, [message], "train", 1)
    assert not sent.message.content
    assert message.content
    assert sent.message.metadata.message_id == message.metadata.message_id


def test_a_failure_says_which_node_failed() -> None:
    grid = FakeGrid([11], lambda message: FakeReply(1.0, error=(5, "Node Unavailable")))
    post = Post(grid.clock)
    [found] = post.wait(grid, sent_to(post, grid, 11), 5.0)
    failure = found.sent.failure(5, "Node Unavailable")
    assert failure.metadata.src_node_id == 11
    assert failure.metadata.reply_to_message_id == "message-1"
    assert failure.error.code == 5


def test_a_view_shows_only_its_nodes_and_passes_on_the_rest() -> None:
    grid = FakeGrid([11, 12, 13])
    view = View(grid, [12])
    assert list(view.get_node_ids()) == [12]
    if hasattr(Grid, "get_nodes"):  # not in the oldest versions
        assert [node.node_id for node in view.get_nodes()] == [12]
        assert [node.node_id for node in View(grid).get_nodes()] == [11, 12, 13]
    [identity] = view.push_messages([instruction(12)])
    grid.clock.sleep(2.0)
    assert len(list(view.pull_messages([identity]))) == 1
    assert len(list(view.send_and_receive([instruction(12)], timeout=9.0))) == 1
    assert view.create_message(RecordDict(), "train", 12, "").metadata.dst_node_id == 12
    view.set_run(None)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        _ = view.run


def test_flowers_own_sampling_is_not_asked_for_ever() -> None:
    grid = FakeGrid([11])
    view = BoundedView(grid, grid.clock, patience=10.0)
    assert list(view.get_node_ids()) == [11]
    grid.clock.sleep(10.5)
    with pytest.raises(NoNodesError, match="1 node connected after 10 s"):
        view.get_node_ids()
