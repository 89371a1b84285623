"""Views of a Flower Grid, and its messages: what was sent to which node, what came back, and when.

Flower's own `send_and_receive` polls every three seconds, cannot stop at k replies and forgets late nodes. A
`Messenger` keeps every message until its reply arrives. It matches replies by the id of the message that they answer,
never by the node that they claim to come from: an error about a lost node comes from the SuperLink itself.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from enlist._internal.text import printable
from enlist.errors import EnlistError
from enlist.flower.replies.reply import REASON, Instruction, Reply
from enlist.runs.printing import plural

SHORTEST_POLL = 0.1
"""Shortest pause between two polls for replies, in seconds; the longest is a setting."""


class CleanLines(logging.Filter):
    """Keeps names and reasons sent by clients from moving the cursor, or faking a line of our log.

    >>> record = logging.makeLogRecord({"msg": "node %d: %s", "args": (7, "fine\\nenlist round=9 \\x1b[2J")})
    >>> CleanLines().filter(record), record.getMessage()
    (True, 'node 7: fine\\\\nenlist round=9 \\\\x1b[2J')
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Clean a line; every line passes."""
        record.msg, record.args = printable(record.getMessage(), LONGEST_LINE, keep="\t"), ()
        return True


LONGEST_LINE = 2_000
LOGGER = logging.getLogger("flwr.enlist")
"""A child of Flower's own logger, so that its lines appear with Flower's."""
LOGGER.addFilter(CleanLines())


class NoNodesError(EnlistError, RuntimeError):
    """No node was available for as long as the server was told to wait."""


class Clock(Protocol):
    """The module `time`, or a test's clock.

    >>> time.monotonic() <= time.monotonic()
    True
    """

    def monotonic(self) -> float:
        """Seconds of a monotonic clock."""

    def time(self) -> float:
        """Seconds since 1970."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


class GridView(Grid):
    """A view of another Grid, optionally of only some of its nodes.

    >>> from enlist.flower.fake import FakeGrid
    >>> list(GridView(FakeGrid([11, 12, 13]), nodes=[12]).get_node_ids())
    [12]
    """

    def __init__(self, grid: Grid, nodes: Sequence[int] | None = None) -> None:
        self.grid, self.nodes = grid, None if nodes is None else list(nodes)

    def set_run(self, run: Any) -> None:
        """Set the run of the underlying grid."""
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
        """Replies that have arrived."""
        return self.grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send and wait, as the underlying grid does."""
        return self.grid.send_and_receive(messages, timeout=timeout)


class BoundedGridView(GridView):
    """A Grid with a time limit on asking for nodes: Flower's own sampling would wait forever.

    >>> from enlist.flower.fake import FakeGrid
    >>> grid = FakeGrid([11])
    >>> view = BoundedGridView(grid, grid.clock, patience=60.0)
    >>> grid.clock.sleep(61.0)
    >>> view.get_node_ids()
    Traceback (most recent call last):
    ...
    enlist.flower.grid.NoNodesError: 1 node connected after 60 s, and the strategy needs more; let more connect...
    """

    def __init__(self, grid: Grid, clock: Clock, patience: float) -> None:
        super().__init__(grid)
        self.clock, self.patience, self.began = clock, patience, clock.monotonic()

    def get_node_ids(self) -> Iterable[int]:
        """The nodes, or an error after `patience` seconds."""
        nodes = list(self.grid.get_node_ids())
        if self.clock.monotonic() - self.began > self.patience:
            raise NoNodesError(
                f"{plural(len(nodes), 'node')} connected after {self.patience:g} s, and the strategy needs more; let "
                "more connect, or lower its min_available_nodes and similar settings."
            )
        return nodes


class Messenger:
    """The open messages: at most one of each kind per node, so memory is bounded by the number of nodes.

    ignored   (node, id) of replies that answer no open message, or come from a node that was not selected

    >>> from enlist.flower.fake import FakeReply, FakeGrid, instruction
    >>> grid = FakeGrid([11, 12], lambda message: FakeReply(seconds=float(message.metadata.dst_node_id)))
    >>> messenger = Messenger(grid.clock)
    >>> sent = messenger.send(grid, [instruction(11), instruction(12)], "train", 1)
    >>> sorted(messenger.busy)
    [11, 12]
    >>> [(reply.node, reply.latency) for reply in messenger.wait(grid, sent, 11.5)]
    [(11, 11.0)]
    >>> sorted(messenger.busy)
    [12]
    """

    def __init__(self, clock: Clock = time, longest_poll: float = 1.0) -> None:
        self.clock, self.longest_poll = clock, longest_poll
        self.open: dict[str, Instruction] = {}
        self.ignored: list[tuple[int, str]] = []

    @property
    def busy(self) -> set[int]:
        """Nodes with an open message."""
        return {sent.node for sent in self.open.values()}

    def send(self, grid: Grid, messages: Sequence[Message], kind: str, number: int) -> list[Instruction]:
        """Push messages; returns those that the SuperLink accepted."""
        accepted = {identity for identity in grid.push_messages(messages) if identity} if messages else set()
        taken = [message for message in messages if message.metadata.message_id in accepted]
        return self.adopt(taken, kind, number)

    def adopt(self, messages: Sequence[Message], kind: str, number: int) -> list[Instruction]:
        """Record pushed messages; an older one of the same kind to the same node is forgotten."""
        now, wall = self.clock.monotonic(), self.clock.time()
        fresh = {}
        for message in messages:
            envelope = copy.copy(message)  # without the model, which would otherwise stay in memory until the reply
            envelope.content = RecordDict()
            fresh[message.metadata.message_id] = Instruction(envelope, kind, number, now, wall, now)
        again = {sent.node for sent in fresh.values()}
        self.open = {
            identity: sent for identity, sent in self.open.items() if sent.kind != kind or sent.node not in again
        }
        self.open |= fresh
        return list(fresh.values())

    def poll(self, grid: Grid) -> list[Reply]:
        """What has arrived since the last poll."""
        if not self.open:
            return []
        now = self.clock.monotonic()
        found = self.sort(grid.pull_messages(list(self.open)), now)
        for sent in self.open.values():
            sent.absent = now
        return found

    def sort(self, replies: Iterable[Message], now: float | None = None) -> list[Reply]:
        """Match replies, seen at time `now`, with open messages; the rest is ignored.

        Latency is measured by our own polls. The time stamp of a reply decides only within the interval between two
        polls, so a wrong clock or a lie cannot move it out of that interval.
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
            found.append(Reply.to(sent, reply, min(max(told, sent.absent), now) - sent.at))
        return found

    def wait(
        self,
        grid: Grid,
        awaited: Sequence[Instruction],
        seconds: float,
        enough: Callable[[list[Reply]], bool] = lambda found: False,
    ) -> list[Reply]:
        """Poll until all awaited replies are in, or `enough` of them, or for `seconds`; returns all that arrived.

        The pause between polls is a fiftieth of the time waited so far, at least 0.1 s and at most `longest_poll`: that
        is the precision of latencies.
        """
        began = self.clock.monotonic()
        names = {sent.identity for sent in awaited}
        found: list[Reply] = []
        while names & self.open.keys():
            found += self.poll(grid)
            waited = self.clock.monotonic() - began
            if waited >= seconds - 1e-6 or enough(found):
                break
            if names & self.open.keys():
                pause = min(max(0.02 * waited, SHORTEST_POLL), self.longest_poll)
                self.clock.sleep(min(pause, seconds - waited))
        return found


def node_of(identity: str) -> int:
    """A number for a client's connection, the same in every run: node ids are numbers, but addresses are not.

    >>> node_of("12"), node_of("ipv4:10.0.0.7:5000") == node_of("ipv4:10.0.0.7:5000")
    (12, True)
    """
    if identity.isdecimal() and 0 < int(identity) < 2**64:
        return int(identity)
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:7], "big") or 1


class TimedClient:
    """A client's proxy that records how long `fit` took, and why it failed; everything else is the proxy's own.

    >>> import types
    >>> proxy = TimedClient(types.SimpleNamespace(cid="7", fit=lambda ins, timeout, group_id: ins), time)
    >>> proxy.fit("model", None, 1), proxy.cid, proxy.seconds < 5.0
    ('model', '7', True)
    """

    def __init__(self, proxy: Any, clock: Clock) -> None:
        self.proxy, self.clock = proxy, clock
        self.seconds, self.error = math.nan, ""

    def fit(self, *arguments: Any, **named: Any) -> Any:
        """Train, and measure the time."""
        began = self.clock.monotonic()
        try:
            return self.proxy.fit(*arguments, **named)
        except BaseException as error:
            self.error = " ".join(f"{type(error).__name__}: {error}".split())[:REASON]
            raise
        finally:
            self.seconds = self.clock.monotonic() - began

    def __getattr__(self, name: str) -> Any:
        return getattr(self.proxy, name)
