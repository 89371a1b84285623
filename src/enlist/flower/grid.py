"""Views of a Flower Grid, and its post: what was sent to whom, what came back, and when.

Flower's own `send_and_receive` polls every three seconds, cannot stop at k replies and forgets who was late. `Post`
keeps every message until its reply has come, matches replies by the id of the message that they answer, and never by
the node that they claim to come from: an error about a lost node comes from the SuperLink itself.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid

from enlist.errors import EnlistError

SHORTEST_POLL = 0.1
"""Seconds between two looks for replies, at least; the most is agreed."""


class NoNodesError(EnlistError, RuntimeError):
    """Nobody could be asked for as long as the server was told to wait.

    >>> issubclass(NoNodesError, EnlistError)
    True
    """


class Clock(Protocol):
    """The module `time`, or a clock of a test.

    >>> time.monotonic() <= time.monotonic()
    True
    """

    def monotonic(self) -> float:
        """Seconds of a steady clock."""

    def time(self) -> float:
        """Seconds since 1970."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


class View(Grid):
    """Another Grid, or only some of its nodes.

    >>> from enlist.flower.fake import FakeGrid
    >>> list(View(FakeGrid([11, 12, 13]), nodes=[12]).get_node_ids())
    [12]
    """

    def __init__(self, grid: Grid, nodes: Sequence[int] | None = None) -> None:
        self.grid, self.nodes = grid, None if nodes is None else list(nodes)

    def set_run(self, run: Any) -> None:
        """Set the run of the grid behind."""
        self.grid.set_run(run)

    @property
    def run(self) -> Any:
        """The run."""
        return self.grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message."""
        return self.grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that this view shows."""
        return list(self.grid.get_node_ids()) if self.nodes is None else list(self.nodes)

    def get_nodes(self) -> Iterable[Any]:
        """What the SuperLink knows of the nodes that this view shows."""
        shown = None if self.nodes is None else set(self.nodes)
        return [node for node in self.grid.get_nodes() if shown is None or node.node_id in shown]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages."""
        return self.grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies that have come."""
        return self.grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send and wait, as the grid behind does it."""
        return self.grid.send_and_receive(messages, timeout=timeout)


class BoundedView(View):
    """A Grid that is asked for its nodes only so long: Flower's own sampling would wait for ever.

    >>> from enlist.flower.fake import FakeGrid
    >>> grid = FakeGrid([11])
    >>> view = BoundedView(grid, grid.clock, patience=60.0)
    >>> grid.clock.sleep(61.0)
    >>> view.get_node_ids()
    Traceback (most recent call last):
    ...
    enlist.flower.grid.NoNodesError: 1 nodes are connected after 60 s, and the strategy wants more; let more connect...
    """

    def __init__(self, grid: Grid, clock: Clock, patience: float) -> None:
        super().__init__(grid)
        self.clock, self.patience, self.began = clock, patience, clock.monotonic()

    def get_node_ids(self) -> Iterable[int]:
        """The nodes, or an error if it has been asked for too long."""
        nodes = list(self.grid.get_node_ids())
        if self.clock.monotonic() - self.began > self.patience:
            raise NoNodesError(
                f"{len(nodes)} nodes are connected after {self.patience:g} s, and the strategy wants more; let more "
                "connect, or lower its min_available_nodes and the like."
            )
        return nodes


@dataclasses.dataclass(eq=False)
class Sent:
    """A message on its way: to whom, what for, and when (`at` by the steady clock, `wall` by the calendar's).

    `absent` is the last moment at which its reply was looked for and not there.

    >>> from enlist.flower.fake import instruction
    >>> Sent(instruction(7), "train", 3, at=1.0, wall=1.0, absent=1.0).node
    7
    """

    message: Message
    kind: str
    round: int
    at: float
    wall: float
    absent: float

    @property
    def node(self) -> int:
        """The node it was sent to."""
        return self.message.metadata.dst_node_id

    def failure(self, code: int, reason: str | None) -> Message:
        """A reply that says that it failed, from the node that was asked."""
        return Message(Error(code, reason), reply_to=self.message)


class Arrival(NamedTuple):
    """A reply, and how long it took.

    >>> Arrival._fields
    ('sent', 'reply', 'latency')
    """

    sent: Sent
    reply: Message
    latency: float


class Post:
    """Messages that are open. At most one of a kind for each node, so it cannot grow beyond the nodes there are.

    ignored   (node, id) of replies that answer nothing that is open, or come from a node that was not asked

    >>> from enlist.flower.fake import Answer, FakeGrid, instruction
    >>> grid = FakeGrid([11, 12], lambda message: Answer(seconds=float(message.metadata.dst_node_id)))
    >>> post = Post(grid.clock)
    >>> sent = post.send(grid, [instruction(11), instruction(12)], "train", 1)
    >>> sorted(post.busy)
    [11, 12]
    >>> [(arrival.sent.node, arrival.latency) for arrival in post.wait(grid, sent, 11.5)]
    [(11, 11.0)]
    >>> sorted(post.busy)
    [12]
    """

    def __init__(self, clock: Clock = time, longest_poll: float = 1.0) -> None:
        self.clock, self.longest_poll = clock, longest_poll
        self.open: dict[str, Sent] = {}
        self.ignored: list[tuple[int, str]] = []

    @property
    def busy(self) -> set[int]:
        """Nodes that have not replied to something."""
        return {sent.node for sent in self.open.values()}

    def send(self, grid: Grid, messages: Sequence[Message], kind: str, number: int) -> list[Sent]:
        """Push messages; returns those that the SuperLink has taken."""
        accepted = {identity for identity in grid.push_messages(messages) if identity} if messages else set()
        taken = [message for message in messages if message.metadata.message_id in accepted]
        return self.adopt(taken, kind, number)

    def adopt(self, messages: Sequence[Message], kind: str, number: int) -> list[Sent]:
        """Note messages that have been pushed; an older one of the same kind to the same node is forgotten."""
        now, wall = self.clock.monotonic(), self.clock.time()
        fresh = {}
        for message in messages:
            envelope = copy.copy(message)  # without the model, which would otherwise stay in memory until the reply
            envelope.content = RecordDict()
            fresh[message.metadata.message_id] = Sent(envelope, kind, number, now, wall, now)
        again = {sent.node for sent in fresh.values()}
        self.open = {
            identity: sent for identity, sent in self.open.items() if sent.kind != kind or sent.node not in again
        }
        self.open |= fresh
        return list(fresh.values())

    def poll(self, grid: Grid) -> list[Arrival]:
        """What has come since the last time."""
        if not self.open:
            return []
        now = self.clock.monotonic()
        found = self.sort(grid.pull_messages(list(self.open)), now)
        for sent in self.open.values():
            sent.absent = now
        return found

    def sort(self, replies: Iterable[Message], now: float | None = None) -> list[Arrival]:
        """Match replies, seen at the moment `now`, with what is open; the rest is ignored.

        The latency is that of our own polls; where in the interval between two of them a reply was made, its own
        time stamp says, which a wrong clock or a lie cannot carry out of that interval.
        """
        now = self.clock.monotonic() if now is None else now
        found = []
        for reply in replies:
            label = reply.metadata
            sent = self.open.get(label.reply_to_message_id)
            if sent is None or (not reply.has_error() and label.src_node_id != sent.node):
                self.ignored.append((label.src_node_id, label.reply_to_message_id))
                continue
            del self.open[label.reply_to_message_id]
            told = sent.at + label.created_at - sent.wall
            found.append(Arrival(sent, reply, min(max(told, sent.absent), now) - sent.at))
        return found

    def wait(
        self,
        grid: Grid,
        awaited: Sequence[Sent],
        seconds: float,
        enough: Callable[[list[Arrival]], bool] = lambda found: False,
    ) -> list[Arrival]:
        """Poll until all that is awaited has come, or `enough` of it, or for so many seconds; returns all that came.

        Polls are a fiftieth of the time waited so far apart, at least 0.1 s and at most `longest_poll`: that is
        how exact latencies are.
        """
        began = self.clock.monotonic()
        names = {sent.message.metadata.message_id for sent in awaited}
        found: list[Arrival] = []
        while names & self.open.keys():
            found += self.poll(grid)
            waited = self.clock.monotonic() - began
            if waited >= seconds - 1e-6 or enough(found):
                break
            if names & self.open.keys():
                pause = min(max(0.02 * waited, SHORTEST_POLL), self.longest_poll)
                self.clock.sleep(min(pause, seconds - waited))
        return found
