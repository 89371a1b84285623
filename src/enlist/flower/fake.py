"""A grid in memory with scripted nodes, and a clock that does not wait. For tests and measurements.

It behaves like a real SuperLink: ids exist only after the push, a lost node's error comes from the SuperLink's own id,
a late reply can still be pulled, and a busy node is listed as available.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from enlist._internal import aliases
from enlist.flower.client import as_arrays

SUPERLINK = 1
"""The SuperLink's own node id."""


class FakeClock:
    """A clock that advances only when someone sleeps.

    >>> clock = FakeClock()
    >>> clock.sleep(2.5)
    >>> clock.monotonic(), clock.time() - FakeClock.BEGINNING
    (2.5, 2.5)
    """

    BEGINNING = 1_700_000_000.0

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds since it was made."""
        return self.now

    def time(self) -> float:
        """Seconds since 1970."""
        return self.BEGINNING + self.now

    def sleep(self, seconds: float) -> None:
        """Let this many seconds pass."""
        self.now += max(seconds, 0.0)


@dataclasses.dataclass(frozen=True)
class FakeReply:
    """How a node answers a message: the reply arrives `seconds` later, or never if that is None.

    content      the reply's records; by default, without `error` too, the model as it was sent, with 10 examples
    error        (code, reason) instead
    source       node id that the reply claims to come from; the SuperLink's own for errors 3, 4 and 5
    copies       how often the reply is delivered
    skew         seconds by which the node's clock is off

    >>> FakeReply(seconds=None).copies
    1
    """

    seconds: float | None = 1.0
    content: RecordDict | None = None
    error: tuple[int, str] | None = None
    source: int | None = None
    copies: int = 1
    skew: float = 0.0


def instruction(node: int, kind: str = "train", content: RecordDict | None = None) -> Message:
    """A message as a node would receive it.

    >>> instruction(node=7).metadata.dst_node_id
    7
    """
    _become_a_server()
    return Message(content=content or RecordDict(), dst_node_id=node, message_type=kind)


def model_reply(message: Message, *, examples: float = 10, **claims: Any) -> RecordDict:
    """A reply's records with the model as it was sent; `claims` go into Enlist's record, underscores as hyphens.

    >>> sorted(model_reply(instruction(7), loss=0.5))
    ['arrays', 'enlist', 'metrics']
    """
    sent = next(iter(message.content.array_records.values()), None)
    extra = {name.replace("_", "-"): value for name, value in claims.items()}
    records: dict[str, Any] = {"arrays": as_arrays([]) if sent is None else sent}
    records["metrics"] = MetricRecord({"num-examples": examples})
    return RecordDict({**records, "enlist": ConfigRecord(extra)})


Behaviour = Callable[[Message], FakeReply]


class FakeGrid(Grid):
    """A Grid whose nodes behave as `behaviour` says: message -> FakeReply.

    >>> grid = FakeGrid([11, 12], lambda message: FakeReply(seconds=2.0))
    >>> [identity] = grid.push_messages([instruction(11)])
    >>> list(grid.pull_messages([identity]))
    []
    >>> grid.clock.sleep(2.0)
    >>> [reply.metadata.src_node_id for reply in grid.pull_messages([identity])]
    [11]
    """

    def __init__(
        self,
        nodes: Sequence[int],
        behaviour: Behaviour | None = None,
        clock: FakeClock | None = None,
        push: Callable[[Message], bool] | None = None,
    ) -> None:
        _become_a_server()
        self.nodes = list(nodes)
        self.behaviour = behaviour or (lambda message: FakeReply())
        self.clock = clock or FakeClock()
        self.accepts = push or (lambda message: True)
        self.sent: list[Message] = []
        self.polls = 0
        self._coming: dict[str, list[tuple[float, Message]]] = {}
        self._numbers = itertools.count(1)

    def set_run(self, run: Any) -> None:
        """Does nothing: there is only one run."""

    @property
    def run(self) -> Any:
        """There is none."""
        raise NotImplementedError("a FakeGrid has no run")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """The connected nodes."""
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages; the id of each is set, and the reply is on its way."""
        found: list[Any] = []
        for message in messages:
            identity = f"message-{next(self._numbers)}"
            message.metadata.__dict__["_message_id"] = identity
            if not self.accepts(message):
                found.append(None)
                continue
            self.sent.append(message)
            found.append(identity)
            answer = self.behaviour(message)
            if answer.seconds is not None:
                due = self.clock.now + answer.seconds
                self._coming[identity] = [(due, self._reply(message, answer, due))] * answer.copies
        return found

    def _reply(self, message: Message, answer: FakeReply, due: float) -> Message:
        if answer.error is not None:
            reply = Message(Error(*answer.error), reply_to=message)
            source = SUPERLINK if answer.error[0] in (3, 4, 5) else None
        else:
            reply, source = Message(answer.content or model_reply(message), reply_to=message), None
        source = source if answer.source is None else answer.source
        if source is not None:
            reply.metadata.__dict__["_src_node_id"] = source
        reply.metadata.created_at = self.clock.BEGINNING + due + answer.skew
        return reply

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that have arrived by now, each once."""
        self.polls += 1
        found = []
        for identity in list(message_ids):
            there = [reply for due, reply in self._coming.get(identity, []) if due <= self.clock.now]
            if there:
                found += there
                del self._coming[identity]
        return found

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Flower's own way: poll until all have replied, or until the timeout."""
        waiting = {identity for identity in self.push_messages(list(messages)) if identity}
        end = self.clock.now + (np.inf if timeout is None else timeout)
        found: list[Message] = []
        while waiting and self.clock.now < end:
            new = list(self.pull_messages(waiting))
            found += new
            waiting -= {reply.metadata.reply_to_message_id for reply in new}
            if waiting:
                self.clock.sleep(3.0)
        return found


def _become_a_server() -> None:
    """Give this process an identity, without which newer versions of Flower cannot make messages; older need none.

    There is no public way to do that. So it is looked up where messages look it up, and nothing private is imported.
    """
    identity = getattr(sys.modules[Message.__module__], "TaskIdentity", None)
    if identity is not None:
        identity.run_id, identity.node_id, identity.task_id = 1, SUPERLINK, 1


__all__ = ["SUPERLINK", "FakeClock", "FakeGrid", "FakeReply", "instruction", "model_reply"]
__getattr__ = aliases.former_names(__name__)
