"""The training part of a round: select nodes, send, wait for replies, aggregate, and tell the selector."""

from __future__ import annotations

import abc
import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from enlist.errors import InputError
from enlist.flower import keys, privacy, strategies
from enlist.flower.federation import FlowerFederation
from enlist.flower.grid import LOGGER, BoundedGridView, Clock, GridView, Messenger, NoNodesError
from enlist.flower.nodes import QUERY, NodeManager
from enlist.flower.replies.arrays import Shapes, in_types, shapes_of, templates_of, types_agreed
from enlist.flower.replies.reply import Reply
from enlist.flower.replies.updates import LateReplies, Model, UpdateMeasures, change, model_of, weighted_messages
from enlist.flower.rounds.round import Round
from enlist.flower.terms import Terms, deadline_seconds
from enlist.records import RoundMetrics, Selection

Aggregated = tuple[ArrayRecord | None, MetricRecord | None]
"""The result of a strategy's aggregation: a new model and metrics, or None."""

Configure = Callable[[Grid], Iterable[Message]]
"""The strategy's `configure_train` for a round, given the grid that it may see."""


class TrainingLoop(abc.ABC):
    """Training over one connection to the grid: what rounds and the steps of a buffered server share.

    strategy    the user's strategy, prepared to sample every node that it can see
    timeout     seconds after which a round ends, whatever its deadline
    messenger   the open messages
    current     the current round, if there is one
    late_replies
                replies to earlier rounds, and what is needed to use them
    forms       shapes of arrays in the app's replies, if they differ from those that are sent

    >>> sorted(TrainingLoop.__abstractmethods__)
    ['close', 'sort']
    """

    def __init__(
        self,
        strategy: Strategy,
        terms: Terms,
        federation: FlowerFederation,
        node_manager: NodeManager,
        clock: Clock,
        timeout: float,
    ) -> None:
        self.strategy, self.terms, self.federation, self.node_manager = strategy, terms, federation, node_manager
        self.clock, self.timeout = clock, timeout
        self.messenger = Messenger(clock, terms.poll)
        self.measures = UpdateMeasures(federation.source.needs, federation.source.seed, terms.sketch)
        self.late_replies = LateReplies(terms.late == "merge" or (terms.late == "learn" and bool(self.measures.wanted)))
        self.current: Round | None = None
        self.forms: list[Shapes] = []
        self.unevenness_told = False

    @abc.abstractmethod
    def sort(self, replies: Sequence[Reply]) -> list[Reply]:
        """Dispatch replies; returns evaluations."""

    @abc.abstractmethod
    def close(self, metrics: RoundMetrics) -> Round:
        """Tell the selector the outcomes of the round; returns the finished round."""

    @property
    def weight_key(self) -> str:
        """The key by which the strategy weights replies."""
        return strategies.weight_key(self.strategy)

    def heaviest(self) -> float:
        """The largest weight with which a reply counts; in shadow mode Flower averages with the claimed weights."""
        return math.inf if self.terms.shadow else self.federation.claims.heaviest(self.terms.clip)

    def _messages(self, configure: Configure, grid: Grid, nodes: list[int], selection: Selection) -> list[Message]:
        """The strategy's messages to the selected nodes, one to each, with the share of work for each."""
        messages = list(configure(GridView(grid, nodes)))
        if sorted(message.metadata.dst_node_id for message in messages) != sorted(nodes):
            name = type(strategies.innermost(self.strategy)).__name__
            raise InputError(
                f"{name} was shown {len(nodes)} selected nodes and made {len(messages)} messages that do not go to "
                "each of them once; its configure_train must respect fraction_train=1 and similar settings."
            )
        if selection.work is not None:
            shares = dict(zip(selection.clients.tolist(), selection.work.tolist(), strict=True))
            for message in messages:
                share = shares[self.federation.nodes.position(message.metadata.dst_node_id)]
                records: dict[str, Any] = {**message.content, keys.RECORD: ConfigRecord({keys.WORK: share})}
                message.content = RecordDict(records)
        return messages

    def _aggregated(self, current: Round, replies: list[Message]) -> Aggregated:
        """The strategy's aggregation of replies, with noise that fits their number if it adds noise."""
        if 0 < len(replies) < self.terms.min_replies:
            text = "enlist: %d usable replies are fewer than min_replies=%d, so the model stays as it is"
            LOGGER.warning(text, len(replies), self.terms.min_replies)
            current.count_nothing()
            return None, None
        if not replies and not current.failures and privacy.wrappers(self.strategy):
            return None, None  # adaptive clipping would divide by the number of replies
        factor = privacy.unevenness(self.strategy, [reply.weight for reply in current.usable])
        if factor > privacy.UNEVEN and not self.unevenness_told:
            self.unevenness_told = True
            text = "enlist: an update counts up to %.3g times an even share (%s), which the noise does not cover"
            LOGGER.warning(text, factor, self.weight_key)
        types = types_agreed(current.templates, [next(iter(reply.content.array_records.values())) for reply in replies])
        fitting = contextlib.nullcontext() if self.terms.shadow else privacy.noise_for(self.strategy, len(replies))
        with fitting:
            arrays, metrics = self.strategy.aggregate_train(current.number, [*replies, *current.failures])
        current.updated = arrays is not None
        if arrays is not None and not self.terms.shadow:
            arrays = in_types(arrays, types)
        if replies and not current.updated:
            text = "enlist: %s skipped round %d: no update from %d usable replies and %d errors"
            name = type(self.strategy).__name__
            LOGGER.warning(text, name, current.number, len(replies), len(current.failures))
            current.count_nothing()
        return arrays, metrics


class SynchronousTraining(TrainingLoop):
    """Rounds that wait for replies until there are enough, or until the deadline.

    >>> from enlist.flower import with_selector
    >>> from flwr.serverapp.strategy import FedAvg
    >>> with_selector(FedAvg(), "random", k=5).training.current is None
    True
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.first_examined = False
        self.base: Model | None = None
        """The model of the round, if updates are measured, or weighted by the selector."""

    def configure(
        self, number: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, online: list[int], now: float
    ) -> list[Message]:
        """Select among the nodes that are online, and let the strategy make its messages to the selected ones."""
        if self.federation.tidy():
            self.late_replies.asked.clear()
        deadline = deadline_seconds(self.terms.deadline, number, self.federation.recent, self.timeout)
        choose = self._shadowed if self.terms.shadow else self._chosen
        configure = functools.partial(self.strategy.configure_train, number, arrays, config)
        messages, selection, wanted = choose(configure, grid, online, now, deadline)
        table = self.federation.nodes
        places = {table.order[client]: client for client in selection.clients.tolist()}
        asked = {message.metadata.dst_node_id for message in messages}
        nodes = {node: places[client] for node in asked if (client := table.number(node)) in places}
        expected = None if strategies.any_shape(self.strategy) else shapes_of(arrays)
        self.current = Round(number, selection, nodes, messages, expected, set(online), now, wanted, self.terms.shadow)
        self.current.templates = templates_of(arrays)
        self.current.bytes_down = len(messages) * sum(len(array.data) for array in arrays.values())
        weighed = selection.weights is not None and not self.terms.shadow
        if weighed:
            strategies.check_weighable(self.strategy, self.federation.source.name, self.terms.late)
        self.base = model_of(arrays) if self.measures.wanted or weighed else None
        self.late_replies.sent(number, nodes, arrays, selection.round)
        return messages

    def _chosen(
        self, configure: Configure, grid: Grid, online: list[int], now: float, deadline: float
    ) -> tuple[list[Message], Selection, list[int]]:
        """The selector selects: messages to those nodes, the selection, and an empty list of other wanted clients."""
        federation, least = self.federation, self.node_manager.least
        wanted = self.terms.number_to_ask
        selection = federation.choose(online, self.messenger.busy, wanted, now, deadline, self.terms.k)
        nodes = federation.nodes.at(selection.clients)
        if len(nodes) < least and "free" not in self.node_manager.undercut:
            text = "enlist: selector '%s' selected %d nodes, fewer than the %d that min_train_nodes requires"
            LOGGER.warning(text, federation.source.name, len(nodes), least)
        if not nodes:
            return [], selection, []
        privacy.check_asked(self.strategy, len(nodes))
        return self._messages(configure, grid, nodes, selection), selection, []

    def _shadowed(
        self, configure: Configure, grid: Grid, online: list[int], now: float, deadline: float
    ) -> tuple[list[Message], Selection, list[int]]:
        """Flower samples: its messages, these nodes as a selection, and what the selector would have selected."""
        wanted = self.federation.would_choose(online, self.messenger.busy, self.terms.k, now, deadline)
        view = BoundedGridView(grid, self.clock, self.terms.patience)
        messages = list(configure(view))
        nodes = [message.metadata.dst_node_id for message in messages]
        self.federation.enrol(nodes, self.node_manager.introductions)
        return messages, self.federation.forced(nodes, now, deadline, wanted), wanted.tolist()

    def exchange(self, grid: Grid, messages: list[Message]) -> None:
        """Send the messages of the round, and collect replies until there are enough, or until the deadline."""
        current = self.current
        assert current is not None
        began = self.clock.monotonic()
        sent = self.messenger.send(grid, messages, "train", current.number)
        if messages and not sent:
            raise NoNodesError(f"the SuperLink accepted none of {len(messages)} messages of round {current.number}.")
        seconds = self.timeout if self.terms.shadow else current.selection.deadline
        enough = len(messages) if self.terms.shadow else self.terms.k
        known = 0

        def have_enough(found: list[Reply]) -> bool:
            nonlocal known
            if len(found) == known:
                return False
            self.sort(found[known:])
            known = len(found)
            self._examine_first(current)
            return current.good(self.forms) >= enough

        found = self.messenger.wait(grid, sent, seconds, have_enough)
        self.sort(found[known:])
        current.waited = min(self.clock.monotonic() - began, seconds)
        current.sent = {instruction.node for instruction in sent}

    def _examine_first(self, current: Round) -> None:
        """Name the keys that the very first reply lacks: later ones may have them, but a round can be long."""
        first = next((reply for reply in current.replies.values() if reply.completed), None)
        if first is None or self.first_examined:
            return
        self.first_examined = True
        for lacking in self.federation.needs.lacking(first):
            text = (
                "enlist: the first reply, from node %d, lacks what selector '%s' needs: %s. Without it, round %d fails."
            )
            LOGGER.warning(text, first.node, self.federation.source.name, lacking, current.number)

    def sort(self, replies: Sequence[Reply]) -> list[Reply]:
        """Dispatch replies to this round, to an earlier one, or to the node manager; returns evaluations."""
        current, found = self.current, []
        for reply in replies:
            if reply.kind == "train":
                reply.examine(self.terms.keys, self.weight_key, None if current is None else current.templates)
                if current is not None and current.waited is None and reply.round == current.number:
                    current.replies[reply.identity] = reply
                else:
                    self.late_replies.waiting.append(reply)
            elif reply.kind == QUERY:
                self.node_manager.introduce(reply)
            else:
                found.append(reply)
        return found

    def aggregate(self, number: int, replies: Iterable[Message], now: float) -> Aggregated:
        """Decide every outcome, and let the strategy aggregate the usable replies.

        `replies` count only if another loop has sent the messages of the round and waited for them.
        """
        current = self.current
        if current is None:
            return self.strategy.aggregate_train(number, list(replies))
        if current.waited is None:
            pushed = [message for message in current.messages if message.metadata.message_id]
            sent = self.messenger.adopt(pushed, "train", current.number)
            self.sort(self.messenger.sort(replies))
            current.sent = {instruction.node for instruction in sent}
            current.waited = min(now - current.began, current.selection.deadline)
        form = current.sort_out(self.forms)
        if form is not None:
            self.forms = [form]
        self.federation.claims.note("num_examples", *current.examples())
        heaviest = self.heaviest()
        current.weigh(self.weight_key, heaviest)
        current.late = self.late_replies.taken()
        merged: list[Message] = []
        if self.terms.late == "merge":
            merged = self.late_replies.merged(
                number, current.late, current.usable, self.terms.weighting, self.weight_key, heaviest, self.forms
            )
        if self.measures.wanted:
            for reply, moved in self.late_replies.changes(current.late):
                self.measures.take(reply, moved)
        usable = [reply.message for reply in current.usable if reply.message is not None]
        if self.base is not None:
            usable = self._measured(current, usable, self.base)
        return self._aggregated(current, [*usable, *merged])

    def _measured(self, current: Round, usable: list[Message], base: Model) -> list[Message]:
        """Measure updates, and weight them as the selector says, if it sets weights."""
        fitting = [reply for reply in current.usable if set(reply.shapes) == set(base)]
        changes = [change(model_of(reply.arrays), base) for reply in fitting]
        for reply, moved in zip(fitting, changes, strict=True):
            self.measures.take(reply, moved)
        if current.selection.weights is None or self.terms.shadow:
            return usable
        given = dict(zip(current.selection.clients.tolist(), current.selection.weights.tolist(), strict=True))
        weights = [given[reply.client] for reply in fitting]
        return weighted_messages(fitting, changes, weights, base, self.weight_key)

    def close(self, metrics: RoundMetrics) -> Round:
        """Tell the selector the outcomes of the round, and late replies; returns the finished round."""
        current = self.current
        assert current is not None
        assert current.waited is not None
        by_round: dict[int, list[Reply]] = {}
        for reply in current.late:
            by_round.setdefault(reply.round, []).append(reply)
        for number, replies in by_round.items():
            self.federation.arrived(self.late_replies.chosen[number], replies, current.number - number, current.online)
        self.federation.settle(current.selection, current.reported, current.waited, current.online, metrics)
        self.current = None
        self.late_replies.forget({sent.round for sent in self.messenger.open.values() if sent.kind == "train"})
        return current
