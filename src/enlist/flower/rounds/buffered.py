"""Buffered asynchronous training (FedBuff): nodes are replaced as they reply, and a round is a step of the server.

At most `concurrency` nodes are at work, and the server takes a step after every `buffer` usable updates. An update is
the difference between the model that came back and the version of the model that its node was sent. The user's strategy
aggregates, weighted by its own key,

    x + s(staleness) (x_node - x_version),    s(staleness) = 1 / sqrt(1 + staleness) by default

where x is the current model and staleness counts the steps of the server since the node was selected. So FedAvg takes
FedBuff's step with a server learning rate of 1; FedAdam and similar strategies take their own.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba: Federated Learning with Buffered Asynchronous Aggregation,
AISTATS 2022.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid

from enlist.flower.grid import LOGGER, SHORTEST_POLL, NoNodesError
from enlist.flower.nodes import QUERY
from enlist.flower.replies.arrays import Template, misshapen, outliers, put_in_order, shapes_of, templates_of
from enlist.flower.replies.reply import Reply
from enlist.flower.replies.updates import Model, change, model_of, rebased, weighted_messages, weights
from enlist.flower.rounds.round import Round
from enlist.flower.rounds.training import Aggregated, TrainingLoop
from enlist.flower.strategies import check_weighable
from enlist.flower.terms import deadline_seconds
from enlist.records import Outcome, RoundMetrics, Selection

LOSSES = 10
"""After this many times `concurrency` nodes without a usable update, a step continues with the updates it has."""

VERSION_BYTES = 8 * 2**30
"""Most bytes of old versions of the model; beyond that the oldest are dropped."""

NOBODY = np.zeros(0, dtype=np.int64)

Ended = tuple[Selection, Reply]
"""How a participation ended, with its selection."""


def _place(entry: Ended) -> tuple[int, int]:
    """In the order of clients, whatever the order of arrival, so that sums are the same to the last bit."""
    return entry[1].client, entry[0].round


@dataclasses.dataclass(frozen=True, eq=False)
class SentModel:
    """A version of the model that nodes at work were sent.

    >>> SentModel(model_of(ArrayRecord([np.ones(2)])), {}).size
    16
    """

    model: Model
    templates: Mapping[str, Template]

    @property
    def size(self) -> int:
        """Bytes of its arrays."""
        return sum(values.nbytes for values in self.model.values())


@dataclasses.dataclass(eq=False)
class BufferedStep(Round):
    """A step of the server, which uses replies of nodes that were selected in it or in an earlier one.

    asked   the selections made in it

    >>> BufferedStep(3, Selection(3, NOBODY), {}, [], None, set(), 0.0).entries()
    []
    """

    stepping: ClassVar[bool] = True
    asked: list[Selection] = dataclasses.field(default_factory=list)

    def entries(self) -> list[tuple[int, Reply | None]]:
        """Clients whose participation ended, and how."""
        return [(reply.client, reply) for reply in self.reported]

    def gather(self, ended: Sequence[Ended]) -> None:
        """Collect, for the tables, which clients were selected and which participations ended, in order of clients."""
        names = {tuple(picked.terms) for picked in self.asked}
        shared = names.pop() if len(names) == 1 else ()
        terms = {name: np.concatenate([picked.terms[name] for picked in self.asked]) for name in shared}
        clients = np.concatenate([NOBODY, *(picked.clients for picked in self.asked)])
        drawn = [picked.probabilities for picked in self.asked if picked.probabilities is not None]
        probabilities = np.concatenate(drawn) if drawn and len(drawn) == len(self.asked) else None
        self.selection = dataclasses.replace(self.selection, clients=clients, terms=terms, probabilities=probabilities)
        self.reported = [reply for _, reply in sorted(ended, key=_place)]


class BufferedTraining(TrainingLoop):
    """Steps of a buffered server over one connection to the grid.

    versions   step of the server -> the model after it, as long as a node at work was sent it; 0 is the first
    at_work    id of an open message -> the selection of its node, and the position of the client
    buffer     usable replies that no step has used yet
    ended      participations that ended in this step, or since the last one, whatever the outcome
    number     the current step, or the next one

    >>> from enlist.flower import with_selector
    >>> from flwr.serverapp.strategy import FedAvg
    >>> with_selector(FedAvg(), "random", mode="buffered", concurrency=20, buffer=5).training.places
    20
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.versions: dict[int, SentModel] = {}
        self.at_work: dict[str, tuple[Selection, int]] = {}
        self.buffer: list[Ended] = []
        self.ended: list[Ended] = []
        self.number = 1
        self.declined: tuple[set[int], float] = set(), -np.inf
        self.begun = False

    @property
    def places(self) -> int:
        """How many nodes may be selected now."""
        return self.terms.at_work - len(self.at_work)

    def step(
        self,
        grid: Grid,
        number: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        online: Sequence[int],
        now: Callable[[], float],
    ) -> Aggregated:
        """Keep nodes at work until the buffer is full, and let the strategy aggregate it."""
        self._begin()
        self.number, began = number, self.clock.monotonic()
        self.versions[number - 1] = SentModel(model_of(arrays), templates_of(arrays))
        deadline = deadline_seconds(self.terms.deadline, number, self.federation.recent, self.timeout)
        nobody = Selection(number, NOBODY, deadline)
        self.current = current = BufferedStep(number, nobody, {}, [], shapes_of(arrays), set(online), now())
        current.templates = self.versions[number - 1].templates
        given = dict(config)
        progress = began
        while not self._full():
            self._fill(grid, current, arrays, config if not current.asked else ConfigRecord(given), now())
            came = self.messenger.poll(grid)
            self.sort(came)
            self._give_up()
            if came or self.at_work:
                progress = self.clock.monotonic()
            elif self.clock.monotonic() - progress > self.terms.patience:
                raise NoNodesError(
                    f"no node is at work, and selector '{self.federation.source.name}' has selected none for "
                    f"{self.terms.patience:g} s; check its settings, or wait longer (patience=...)."
                )
            if not came:
                waited = self.clock.monotonic() - began
                self.clock.sleep(min(max(0.02 * waited, SHORTEST_POLL), self.terms.poll))
        current.waited = self.clock.monotonic() - began
        return self._merged(current)

    def _begin(self) -> None:
        """Count nodes that were at work when a server was killed as dropped: their replies are lost."""
        if not self.begun:
            self.begun = True
            self.federation.release()

    def _full(self) -> bool:
        """Whether the server takes a step: the buffer is full of compatible updates, or too many were lost."""
        size = self.terms.per_step
        for picked, reply in self.buffer:
            if self._gone(reply):  # its version went while it waited for a step
                reply.end(Outcome.LATE, self._stale(reply))
                self.ended.append((picked, reply))
        self.buffer = [entry for entry in self.buffer if entry[1].completed]
        if len(self.buffer) >= size:
            first = self.buffer[:size]
            odd = outliers([reply.records for _, reply in first])
            for (_, reply), fault in zip(first, odd, strict=True):
                if fault:
                    reply.refuse(fault)
            self.ended += [entry for entry in first if not entry[1].completed]
            self.buffer = [entry for entry in self.buffer if entry[1].completed]
        return len(self.buffer) >= size or len(self.ended) >= LOSSES * self.terms.at_work

    def _fill(self, grid: Grid, current: BufferedStep, arrays: ArrayRecord, config: ConfigRecord, now: float) -> None:
        """Select nodes for all free places."""
        if self.places <= 0:
            return
        manager, messenger = self.node_manager, self.messenger
        if self.at_work:
            online = list(dict.fromkeys(grid.get_node_ids()))
            manager.online = set(online)
            strangers = manager.enrol(grid, messenger, current.number, online, self.sort)
        else:
            online = manager.wait_for_nodes(grid, messenger, current.number, self.sort)
            strangers = self.federation.nodes.strangers(online)
        current.online |= set(online)
        free = set(online) - messenger.busy - set(strangers)
        before, when = self.declined
        if not free or (free <= before and self.clock.monotonic() - when < self.terms.poll):
            return
        picked = self.federation.choose(
            online,
            messenger.busy,
            min(self.places, len(free)),
            now,
            current.selection.deadline,
            step=(current.number, self.terms.per_step),
        )
        nodes = self.federation.nodes.at(picked.clients)
        self.declined = (free, self.clock.monotonic()) if not nodes else (set(), -np.inf)
        if not nodes:
            self.federation.settle(picked, [], 0.0, manager.online)
            return
        configure = functools.partial(self.strategy.configure_train, current.number, arrays, config)
        self._send(grid, current, picked, self._messages(configure, grid, nodes, picked))

    def _send(self, grid: Grid, current: BufferedStep, picked: Selection, messages: list[Message]) -> None:
        current.asked.append(picked)
        current.bytes_down += sum(
            len(array.data)
            for message in messages
            for record in message.content.array_records.values()
            for array in record.values()
        )
        places = {message.metadata.dst_node_id: -1 for message in messages}
        places = {node: self.federation.nodes.position(node) for node in places}
        for instruction in self.messenger.send(grid, messages, "train", current.number):
            self.at_work[instruction.identity] = picked, places.pop(instruction.node)
        for node, client in places.items():
            lost = Reply(node, current.number, 0.0, client)
            lost.end(Outcome.DROPPED, "the message could not be sent")
            self.ended.append((picked, lost))

    def sort(self, replies: Sequence[Reply]) -> list[Reply]:
        """Dispatch replies to the buffer or to the node manager; returns evaluations.

        Replies of one poll are sorted by the time when they were made, and at the same time by client: Flower delivers
        them in random order, because its strategies shuffle their messages.
        """
        found = []
        for reply in sorted(replies, key=self._made):
            if reply.kind == "train":
                self._take(reply)
            elif reply.kind == QUERY:
                self.node_manager.introduce(reply)
            else:
                found.append(reply)
        return found

    def _made(self, reply: Reply) -> tuple[float, int]:
        """When a reply was made, to the precision of a wall clock, and the client that made it."""
        began = 0.0 if reply.sent is None else reply.sent.at
        return round(began + reply.latency, 6), self.at_work.get(reply.identity, (None, -1))[1]

    def _take(self, reply: Reply) -> None:
        """Put the update of a reply into the buffer, unless it is unusable or its version is gone."""
        if reply.identity not in self.at_work:  # its place was given up
            if self.federation.nodes.number(reply.node) is not None:
                reply.client = self.federation.nodes.position(reply.node)
                self.late_replies.waiting.append(reply)
            return
        picked, reply.client = self.at_work.pop(reply.identity)
        version = self.versions.get(reply.round - 1)
        reply.examine(self.terms.keys, self.weight_key, None if version is None else version.templates)
        reply.latency = min(reply.latency, picked.deadline)
        if reply.completed and self._gone(reply):
            reply.end(Outcome.LATE, self._stale(reply))
        elif reply.completed and version is not None:
            sent = {name: values.shape for name, values in version.model.items()}
            if fault := misshapen(reply.shapes, sent):
                reply.refuse(fault)
        (self.buffer if reply.completed else self.ended).append((picked, reply))

    def _gone(self, reply: Reply) -> bool:
        """Whether the version that a reply was trained from is too old, or dropped."""
        return reply.round - 1 not in self.versions or self.terms.too_stale(self.number - reply.round)

    def _stale(self, reply: Reply) -> str:
        limit, steps = self.terms.max_staleness, self.number - reply.round
        known = "its version of the model is gone" if limit is None else f"max_staleness is {limit}"
        return f"stale: {steps} steps old, and {known}"

    def _give_up(self) -> None:
        """Count nodes past their deadline as late: their places are free, and later replies are discarded."""
        now = self.clock.monotonic()
        for identity, (picked, client) in list(self.at_work.items()):
            sent = self.messenger.open.get(identity)
            if sent is None or now - sent.at < picked.deadline:
                continue
            del self.at_work[identity]
            late = Reply(sent.node, sent.round, picked.deadline, client)
            late.end(Outcome.LATE, "")
            self.ended.append((picked, late))

    def _merged(self, current: BufferedStep) -> Aggregated:
        """Let the strategy aggregate the updates of the buffer, in the order of clients."""
        taken, self.buffer = self.buffer[: self.terms.per_step], self.buffer[self.terms.per_step :]
        self.ended += taken
        current.gather(self.ended)
        current.usable = [reply for reply in current.reported if reply.completed]
        lost = [reply for reply in current.reported if reply.outcome in (Outcome.FAILED, Outcome.DROPPED)]
        current.failures = [reply.failure() for reply in lost if reply.message is not None]
        self.federation.claims.note("num_examples", *current.examples())
        current.weigh(self.weight_key, self.heaviest())
        return self._aggregated(current, self._rebased(current))

    def _rebased(self, current: BufferedStep) -> list[Message]:
        """Messages for the strategy: the current model plus each update, scaled by its staleness."""
        now = self.versions[current.number - 1].model
        stale = [current.number - reply.round for reply in current.usable]
        factors = weights(self.terms.weighting, stale, [], [])
        given = self._given(current)
        messages, shortened = [], []
        for reply, steps, factor in zip(current.usable, stale, factors, strict=True):
            assert reply.message is not None
            assert reply.sent is not None
            put_in_order(reply.arrays, list(now))
            reply.weight *= factor
            as_it_came = steps == 0 and factor == 1.0  # avoids rounding
            if as_it_came and not given and not self.measures.wanted:
                messages.append(reply.message)
                continue
            moved = change(model_of(reply.arrays), self.versions[reply.round - 1].model)
            self.measures.take(reply, moved)
            short = {name: values * factor if values.dtype.kind == "f" else values for name, values in moved.items()}
            shortened.append(short)
            content = rebased(reply.message.content, short, now, 1.0, self.weight_key, self.heaviest())
            made = Message(content=content, reply_to=reply.sent.message)
            messages.append(reply.message if as_it_came else made)
        return weighted_messages(current.usable, shortened, given, now, self.weight_key) if given else messages

    def _given(self, current: BufferedStep) -> list[float]:
        """Weights of a selector that weighs updates itself: each selection counts by its share of the buffer."""
        origin = {id(reply): picked for picked, reply in self.ended}
        found = []
        for reply in current.usable:
            picked = origin[id(reply)]
            if picked.weights is None:
                return []
            check_weighable(self.strategy, self.federation.source.name, self.terms.late)
            weight = picked.weights[np.searchsorted(picked.clients, reply.client)]
            found.append(float(weight) * len(picked) / len(current.usable))
        return found

    def close(self, metrics: RoundMetrics) -> Round:
        """Tell the selector how participations ended in the step, selection by selection."""
        current = self.current
        assert isinstance(current, BufferedStep)
        current.gather(self.ended)  # again: more may have ended while the model was evaluated
        current.late, self.late_replies.waiting = self.late_replies.waiting, []
        self.ended.sort(key=_place)
        self.federation.ended(self.ended, current.number, current.online, metrics)
        self.current, self.ended, self.number = None, [], current.number + 1
        self._forget(current.number)
        return current

    def _forget(self, number: int) -> None:
        """Drop versions that no node at work was sent, and the oldest if the others take too much memory."""
        open_rounds = {sent.round for name, sent in self.messenger.open.items() if name in self.at_work}
        needed = {step - 1 for step in open_rounds | {reply.round for _, reply in self.buffer}}
        kept = {step: version for step, version in sorted(self.versions.items()) if step in needed}
        kept = {step: version for step, version in kept.items() if not self.terms.too_stale(number - step)}
        while sum(version.size for version in kept.values()) > VERSION_BYTES and len(kept) > 1:
            oldest = next(iter(kept))
            del kept[oldest]
            text = "enlist: version %d of the model is dropped, though nodes train on it; set max_staleness below %d"
            LOGGER.warning(text, oldest, number - oldest)
        self.versions = kept
