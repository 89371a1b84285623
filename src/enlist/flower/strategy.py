"""A user's Flower strategy, with an Enlist selector that chooses the nodes of every round.

The strategy stays as it is: it is handed a Grid that shows only the chosen nodes. Everything around it is done here:
who is who, how long to wait, when to stop, what to make of late replies, what to believe, and what to keep on disk.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from enlist._internal.text import printable
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import InputError
from enlist.flower import deadlines, evaluations, keys, privacy, resuming, telling, wrapping
from enlist.flower.attributes import plain_settings
from enlist.flower.choosers import Source
from enlist.flower.configs import Configs
from enlist.flower.contents import Shapes, in_types, shapes_of, templates_of, types_agreed
from enlist.flower.federation import Federation, Report
from enlist.flower.grid import Arrival, BoundedView, Clock, NoNodesError, Post, View
from enlist.flower.late import LateReplies
from enlist.flower.nodes import NodeTable
from enlist.flower.progress import Progress
from enlist.flower.reception import QUERY, Reception
from enlist.flower.records import Happened
from enlist.flower.replies import error_text, measured
from enlist.flower.round import Round, judge, refused
from enlist.flower.scribe import COUNTED, Scribe
from enlist.flower.state import LOGGER, Keeper
from enlist.flower.terms import Terms
from enlist.records import RoundMetrics, Selection

DEFAULT_TIMEOUT = 3600.0
"""Flower's own."""

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class Selecting(Strategy):
    """A Flower strategy whose nodes are chosen by a selector; made by `with_selector`.

    strategy     the user's strategy, copied, which asks every node that it is shown
    federation   which node is which client, and the selector
    round        the last round that was finished, counted over all starts in the same folder

    >>> from enlist.flower import with_selector
    >>> from flwr.serverapp.strategy import FedAvg
    >>> with_selector(FedAvg(), "random", k=5).round
    0
    """

    clock: Clock = time
    _made = False

    def __init__(self, strategy: Strategy, source: Source, terms: Terms, clients: Clients | None = None) -> None:
        self.original, self.source, self.terms, self.clients = wrapping.copied(strategy), source, terms, clients
        self.timeout = DEFAULT_TIMEOUT
        self.keeper = Keeper(None)
        self.configs = Configs(ConfigRecord(), ConfigRecord())
        self.used = self.running = False
        self._begin()
        self._connect()
        self._made = True

    def _begin(self) -> None:
        """Forget everything but what was given: the strategy as it was, and a selector that made itself."""
        strategy, terms = self.original, self.terms
        self.strategy = wrapping.copied(strategy) if terms.shadow else wrapping.prepared(strategy)
        self.initial = plain_settings(self.strategy)
        self.federation = Federation(
            self.source, clients=self.clients, late=terms.late, quantile=terms.clip, most_often=terms.most_often
        )
        self.reception = Reception(self.federation, terms, *self._floors())
        self.progress = Progress(terms.warn_without_update, terms.stop_without_update)
        self.scribe = Scribe(self.keeper, self.federation, terms.shadow, terms.reasons)
        self.round = 0
        self.started: float | None = None
        self.elapsed = 0.0
        self.forms: list[Shapes] = []
        self.looked = self.uneven = False
        self.began_with: Shapes | None = None

    def _floors(self) -> tuple[int, int]:
        """Nodes that have to be connected before a round begins, and nodes that have to be free then."""
        base = wrapping.innermost(self.original)
        needed = self.terms.min_nodes or max(int(base.min_available_nodes), 1)
        least = self.terms.k if privacy.accounted(self.original) else int(base.min_train_nodes)
        return needed, max(min(least, self.terms.number_to_ask), 1)

    def _connect(self) -> None:
        """Begin anew with what belongs to one connection: messages that are open, and late replies on their way."""
        self.post = Post(self.clock, self.terms.poll)
        self.late = LateReplies(merging=self.terms.late == "merge")
        self.current: Round | None = None

    if not TYPE_CHECKING:  # else nobody would notice a name that is misspelt

        def __getattr__(self, name: str) -> Any:
            """What the wrapper itself has not, the user's strategy may have."""
            for holder in self._holders(name):
                return getattr(holder, name)
            raise AttributeError(f"neither {type(self).__name__} nor the strategy in it has an attribute {name!r}")

        def __setattr__(self, name: str, value: Any) -> None:
            """What the wrapper itself has not, is set in the user's strategy if that has it."""
            own = not self._made or name in vars(self) or hasattr(type(self), name)
            holders = [] if own else self._holders(name)
            for holder in holders:
                setattr(holder, name, value)
            if not holders:
                super().__setattr__(name, value)
            elif name in wrapping.SAMPLING:
                self.reception.needed, self.reception.least = self._floors()

    def _holders(self, name: str) -> list[Any]:
        """The strategies that have an attribute: the one that is used, and the one that it begins with next time.

        How many nodes are sampled, only the latter knows: the one that is used asks every node that it is shown.
        """
        if name.startswith("__") or not self._made:
            return []
        sampling = name in wrapping.SAMPLING
        used = [] if sampling and not self.terms.shadow else [self.strategy]
        found = [*used, *([] if self.running and used else [self.original])]
        levels = [next((level for level in wrapping.levels(one) if hasattr(level, name)), None) for one in found]
        return [level for level in levels if level is not None]

    @property
    def weight_key(self) -> str:
        """The key by which the strategy weighs replies."""
        return wrapping.weight_key(self.strategy)

    @property
    def selector(self) -> Selector[Any, Any]:
        """The selector."""
        return self.federation.selector

    @property
    def nodes(self) -> NodeTable:
        """Which node is which client."""
        return self.federation.nodes

    def summary(self) -> None:
        """Log what is about to run."""
        terms, name = self.terms, self.federation.source.name
        asked = terms.number_to_ask
        how = "watches Flower's sampling (shadow)" if terms.shadow else f"asks {asked} nodes for {terms.k} replies"
        LOGGER.info("\t├──> Enlist: selector '%s' %s, late replies: %s", name, how, terms.late)
        for floor, own, wanted in wrapping.undercut(self.original, terms):
            LOGGER.warning("enlist: %s counts, which is less than the strategy's %s=%d", own, floor, wanted)
        self.original.summary()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = DEFAULT_TIMEOUT,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run the federation, as Flower's own `start` does, or continue the one that is in the folder.

        If that is finished, and no more rounds are wanted than it has, its result is returned as it is. Started again
        without a folder it begins anew, but for a configured selector, which keeps what it has learned.
        """
        self.timeout = timeout
        self.configs = Configs(train_config or ConfigRecord(), evaluate_config or ConfigRecord())
        self.keeper = Keeper.open(self.terms.folder, self._config(), self.terms.resume, self.terms.accept_changes)
        try:
            if self.used:
                self._begin()
            self.used = self.running = True
            wrapping.check(self.original, self.terms)
            privacy.check(self.original, self.terms)
            self.initial = plain_settings(self.strategy)
            self._connect()
            self.scribe = Scribe(self.keeper, self.federation, self.terms.shadow, self.terms.reasons)
            result = resuming.restored(self, initial_arrays)
            if not self.keeper.reopen(self.round, num_rounds):
                text = "enlist: %s holds a finished run of %d rounds, and %d are wanted: this is its result"
                LOGGER.info(text, self.terms.folder, self.round, num_rounds)
                return result
            name, begun = type(self.original).__name__, self.clock.monotonic()
            configs = self.configs.train, self.configs.evaluate
            _log(telling.start_lines(name, num_rounds, result.arrays, *configs))
            self.summary()
            LOGGER.info("")
            self._evaluate_first(result, evaluate_fn)
            for number in range(self.round + 1, num_rounds + 1):
                LOGGER.info("")
                LOGGER.info("[ROUND %s/%s]", number, num_rounds)
                self.keeper.check()
                self._train(grid, number, result, self.configs.train)
                self._evaluate(grid, number, result, self.configs.evaluate, evaluate_fn)
                counts = self._settle(self._measured(number, result))
                if number % self.terms.save_every == 0 or number == num_rounds or self.progress.over:
                    self._save(result)
                if self.terms.on_round is not None:
                    updated = self.progress.idle == 0
                    self.terms.on_round(telling.RoundResult.of(number, result, updated, counts))
                self.progress.end()
            self.keeper.finish({"status": "finished", "rounds": self.round, "time": self.elapsed}, self.federation)
            self.keeper.note(self.clock.time(), self.elapsed, self.round, "finished")
            _log(telling.result_lines(result, self.clock.monotonic() - begun))
            return result
        except BaseException as error:
            why = printable(f"stopped: {type(error).__name__}: {error}")
            self.keeper.note(self.clock.time(), self.elapsed, self.round, why)
            self.keeper.stop(error)
            raise
        finally:
            self.running = False
            self.keeper.close()

    def _evaluate_first(self, result: Result, evaluate_fn: Evaluate | None) -> None:
        """Evaluate the model that it begins with, unless the run is continued."""
        if evaluate_fn is None or self.round > 0:
            return
        first = evaluate_fn(0, result.arrays)
        LOGGER.info("Initial global evaluation results: %s", first)
        if first is not None:
            result.evaluate_metrics_serverapp[0] = first

    def _train(self, grid: Grid, number: int, result: Result, config: ConfigRecord) -> None:
        messages = self.configure_train(number, result.arrays, config, grid)
        arrays, metrics = self.aggregate_train(number, self._exchange(grid, list(messages)))
        if arrays is not None:
            result.arrays = arrays
        if metrics is not None:
            LOGGER.info("\t└──> Aggregated MetricRecord: %s", metrics)
            result.train_metrics_clientapp[number] = metrics

    def _evaluate(
        self, grid: Grid, number: int, result: Result, config: ConfigRecord, evaluate_fn: Evaluate | None
    ) -> None:
        messages = list(self.configure_evaluate(number, result.arrays, config, grid))
        if messages:
            sent = self.post.send(grid, messages, "evaluate", number)
            assert self.current is not None
            longest = self.timeout if self.terms.shadow else min(self.current.selection.deadline, self.timeout)
            arrivals = self._sort(self.post.wait(grid, sent, longest))
            in_time = [arrival for arrival in arrivals if arrival.sent.round == number]
            metrics = self.aggregate_evaluate(number, evaluations.named(in_time))
            if metrics is not None:
                LOGGER.info("\t└──> Aggregated MetricRecord: %s", metrics)
                result.evaluate_metrics_clientapp[number] = metrics
        if evaluate_fn:
            LOGGER.info("Global evaluation")
            central = evaluate_fn(number, result.arrays)
            LOGGER.info("\t└──> MetricRecord: %s", central)
            if central is not None:
                result.evaluate_metrics_serverapp[number] = central

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the nodes of a round, and let the strategy make its messages to them."""
        if self.current is not None:  # somebody else's loop, which does not say when a round is over
            self._settle(RoundMetrics())
        online = self.reception.gather(grid, self.post, server_round, self._sort)
        if self.federation.log is None:
            self.keeper.follow(self.federation)
            self.keeper.describe(self.federation, server_round)
        if self.federation.tidy():
            self.late.asked.clear()
        began = self._now()
        self.keeper.note(self.clock.time(), began, self.round)
        deadline = deadlines.seconds(self.terms.deadline, server_round, self.federation.recent, self.timeout)
        choose = self._shadowed if self.terms.shadow else self._chosen
        messages, selection, wanted = choose(server_round, arrays, config, grid, online, began, deadline)
        places = {self.nodes.order[client]: client for client in selection.clients.tolist()}
        asked = {message.metadata.dst_node_id for message in messages}
        nodes = {node: places[number] for node in asked if (number := self.nodes.number(node)) in places}
        expected = None if wrapping.any_shape(self.strategy) else shapes_of(arrays)
        self.current = Round(
            server_round, selection, nodes, messages, expected, set(online), began, wanted, self.terms.shadow
        )
        self.current.templates = templates_of(arrays)
        self.current.bytes_down = len(messages) * sum(len(array.data) for array in arrays.values())
        self.late.sent(server_round, nodes, arrays, selection.round)
        return messages

    def _chosen(
        self, number: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, online: list[int], now: float,
        deadline: float,
    ) -> tuple[list[Message], Selection, list[int]]:  # fmt: skip
        wanted = self.terms.number_to_ask
        selection = self.federation.choose(online, self.post.busy, wanted, now, deadline, self.terms.k)
        nodes = self.nodes.at(selection.clients)
        if len(nodes) < self.reception.least and "free" not in self.reception.undercut:
            text = "enlist: selector '%s' chose %d nodes, fewer than the %d that min_train_nodes wants"
            LOGGER.warning(text, self.source.name, len(nodes), self.reception.least)
        if not nodes:
            return [], selection, []
        privacy.check_asked(self.strategy, len(nodes))
        messages = list(self.strategy.configure_train(number, arrays, config, View(grid, nodes)))
        if sorted(message.metadata.dst_node_id for message in messages) != sorted(nodes):
            name = type(wrapping.innermost(self.strategy)).__name__
            raise InputError(
                f"{name} was shown {len(nodes)} chosen nodes and made {len(messages)} messages that do not go to each "
                "of them once; its configure_train has to respect fraction_train=1 and the like."
            )
        return messages, selection, []

    def _shadowed(
        self, number: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, online: list[int], now: float,
        deadline: float,
    ) -> tuple[list[Message], Selection, list[int]]:  # fmt: skip
        wanted = self.federation.would_choose(online, self.post.busy, self.terms.k, now, deadline)
        view = BoundedView(grid, self.clock, self.terms.patience)
        messages = list(self.strategy.configure_train(number, arrays, config, view))
        nodes = [message.metadata.dst_node_id for message in messages]
        self.federation.enrol(nodes, self.reception.introductions)
        return messages, self.federation.forced(nodes, now, deadline, wanted), wanted.tolist()

    def _exchange(self, grid: Grid, messages: list[Message]) -> list[Message]:
        """Send the messages of a round, and wait for replies until there are enough or the deadline has passed."""
        current = self.current
        assert current is not None
        began = self.clock.monotonic()
        sent = self.post.send(grid, messages, "train", current.number)
        if messages and not sent:
            raise NoNodesError(f"the SuperLink took none of the {len(messages)} messages of round {current.number}.")
        seconds = self.timeout if self.terms.shadow else current.selection.deadline
        enough = len(messages) if self.terms.shadow else self.terms.k
        known = 0

        def have_enough(found: list[Arrival]) -> bool:
            nonlocal known
            if len(found) == known:
                return False
            self._sort(found[known:])
            known = len(found)
            self._look_at_first(current)
            return current.good(self.forms) >= enough

        arrivals = self.post.wait(grid, sent, seconds, have_enough)
        self._sort(arrivals[known:])
        current.waited = min(self.clock.monotonic() - began, seconds)
        current.sent = {entry.node for entry in sent}
        return [judged.arrival.reply for judged in current.judged.values()]

    def _look_at_first(self, current: Round) -> None:
        """Name the keys that the very first reply lacks: others may carry them, but a round can be long."""
        first = next((judged for judged in current.judged.values() if judged.completed), None)
        if first is None or self.looked:
            return
        self.looked = True
        for lacking in self.federation.lacking(first.said):
            text = (
                "enlist: the first reply, of node %d, lacks what selector '%s' needs: %s. Without it, round %d fails."
            )
            LOGGER.warning(text, first.arrival.sent.node, self.source.name, lacking, current.number)

    def _sort(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Put replies where they belong: to this round, to an earlier one, to the reception; returns evaluations."""
        current, evaluations = self.current, []
        templates = None if current is None else current.templates
        for arrival in arrivals:
            if arrival.sent.kind == "train":
                judged = judge(arrival, self.terms.keys, self.weight_key, templates)
                if current is not None and current.waited is None and arrival.sent.round == current.number:
                    current.judged[arrival.sent.message.metadata.message_id] = judged
                else:
                    self.late.waiting.append(judged)
            elif arrival.sent.kind == QUERY:
                self.reception.hear(arrival)
            else:
                evaluations.append(arrival)
        return evaluations

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decide how everybody has ended, and let the strategy aggregate what can be used."""
        current = self.current
        if current is None:
            return self.strategy.aggregate_train(server_round, list(replies))
        if current.waited is None:  # somebody else has sent the messages and waited
            pushed = [message for message in current.messages if message.metadata.message_id]
            sent = self.post.adopt(pushed, "train", current.number)
            self._sort(self.post.sort(replies))
            current.sent = {entry.node for entry in sent}
            current.waited = min(self._now() - current.began, current.selection.deadline)
        form = current.sort_out(self.forms)
        if form is not None:
            self.forms = [form]
        self.federation.claims.note("num_examples", *current.examples())
        heaviest = self._heaviest()
        current.weigh(self.weight_key, heaviest)
        current.late = self.late.taken()
        merged: list[Message] = []
        if self.terms.late == "merge":
            current.late, merged, current.late_weights = self.late.merged(
                server_round, current.late, current.usable, self.terms.staleness, self.weight_key, heaviest, self.forms
            )
        usable = [judged.arrival.reply for judged in current.usable]
        if 0 < len(usable) + len(merged) < self.terms.min_replies:
            text = "enlist: %d usable replies are fewer than min_replies=%d, so the model stays as it is"
            LOGGER.warning(text, len(usable) + len(merged), self.terms.min_replies)
            current.count_nothing()
            return None, None
        return self._aggregated(current, [*usable, *merged])

    def _aggregated(self, current: Round, replies: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What the strategy makes of replies, with noise that fits them if it adds noise."""
        if not replies and not current.failures and privacy.wrappers(self.strategy):
            return None, None  # clipping that adapts would divide by the number of replies
        factor = privacy.unevenness(self.strategy, current.weights.values())
        if factor > privacy.UNEVEN and not self.uneven:
            self.uneven = True
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
            text = "enlist: %s has skipped round %d: no update of %d usable replies and %d errors"
            name = type(self.original).__name__
            LOGGER.warning(text, name, current.number, len(replies), len(current.failures))
            current.count_nothing()
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the strategy choose whom it asks for an evaluation, among nodes that are not busy."""
        if self.terms.shadow:
            bounded = BoundedView(grid, self.clock, self.terms.patience)
            messages = list(self.strategy.configure_evaluate(server_round, arrays, config, bounded))
        else:
            busy = self.post.busy
            free = [node for node in grid.get_node_ids() if node not in busy]
            if not free:
                return []
            with wrapping.fewer_evaluators(self.strategy, len(free)):
                messages = list(self.strategy.configure_evaluate(server_round, arrays, config, View(grid, free)))
        if messages and self.current is not None:
            self.current.evaluations = {"evaluate_asked": len(messages)}
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the strategy aggregate evaluations; those that would end the run, or cannot be true, are left out."""
        replies = list(replies)
        failed = [reply for reply in replies if reply.has_error()]
        heaviest = self._heaviest()
        usable, left_out = evaluations.sifted(replies, self.weight_key, self._labels(), heaviest)
        self.federation.events += [
            ("refused", node, refused(f"evaluation: {fault}").reason) for node, fault in left_out
        ]
        self.federation.events += [
            ("failed", reply.metadata.src_node_id, f"evaluation: {error_text(reply)}") for reply in failed
        ]
        if left_out:
            LOGGER.warning("enlist: %d evaluations are left out: odd, or without weight", len(left_out))
        if self.current is not None and replies:
            ended = {"evaluate_completed": len(usable), "evaluate_failed": len(failed) + len(left_out)}
            self.current.evaluations |= ended
        return self.strategy.aggregate_evaluate(server_round, [*usable, *failed])

    def _heaviest(self) -> float:
        """The largest weight with which a reply counts; in shadow mode the average is Flower's, whatever is claimed."""
        return math.inf if self.terms.shadow else self.federation.claims.heaviest(self.terms.clip)

    def _labels(self) -> evaluations.Labels:
        """The keys under which accuracy and loss of an evaluation are looked for."""
        usual = {"accuracy": keys.ACCURACIES, "loss": keys.LOSSES}
        return {name: self.terms.own(f"round.{name}", labels) for name, labels in usual.items()}

    def _measured(self, number: int, result: Result) -> RoundMetrics:
        """What the server has measured, else what clients have, as far as it can be true."""
        central = result.evaluate_metrics_serverapp.get(number)
        asked = result.evaluate_metrics_clientapp.get(number)
        found: dict[str, float | None] = {}
        for name, labels in self._labels().items():
            own = measured(central, labels)
            found[name] = evaluations.believed(asked, name, labels) if own is None else own
        return RoundMetrics(**found, duration=None if self.current is None else self.current.waited)

    def _settle(self, metrics: RoundMetrics) -> Mapping[str, int]:
        """Tell the selector what became of the round, write it down, and go on to the next; returns what is counted."""
        current = self.current
        assert current is not None
        assert current.waited is not None
        by_round: dict[int, list[Report]] = {}
        for number, report, _ in current.late:
            by_round.setdefault(number, []).append(report)
        late = [] if self.terms.late == "drop" else [(number, report) for number, report, _ in current.late]
        happened = Happened(
            current.number,
            current.selection,
            current.reports,
            late,
            current.waited,
            current.weights,
            current.late_weights,
        )
        for number, reports in by_round.items():
            self.federation.arrived(self.late.chosen[number], reports, current.number - number, current.online)
        self.federation.settle(current.selection, current.reports, current.waited, current.online, metrics)
        told = self.scribe.write(current, happened, metrics, self._now(), self.post)
        self.progress.note(current)
        self.round, self.current = current.number, None
        self.late.forget({sent.round for sent in self.post.open.values() if sent.kind == "train"})
        return {name: told[name] for name in COUNTED}

    def _now(self) -> float:
        """Seconds since the federation was first started, by the calendar's clock, and never backwards."""
        if self.started is None:
            self.started = self.clock.time()
        self.elapsed = max(self.elapsed, self.clock.time() - self.started)
        return self.elapsed

    def _config(self) -> dict[str, Any]:
        return {
            "selector": self.source.described(),
            "seed": self.source.seed,
            "strategy": type(self.original).__name__,
            **self.terms.described(),
        }

    def _save(self, result: Result) -> None:
        resuming.save(self, result)


def _log(lines: Iterable[str]) -> None:
    for line in lines:
        LOGGER.info("%s", line)
