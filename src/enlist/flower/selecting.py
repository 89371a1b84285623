"""A user's Flower strategy, with an Enlist selector that chooses the nodes of every round.

The strategy is unchanged: it gets a Grid that shows only the selected nodes. Everything else is done here: which node
is which client, how long to wait, when to stop, what to do with late replies, what to believe, and what to save.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from enlist._internal.text import printable
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import InputError
from enlist.flower import privacy, strategies
from enlist.flower.federation import FlowerFederation
from enlist.flower.grid import LOGGER, BoundedGridView, Clock
from enlist.flower.nodes import NodeManager, NodeTable
from enlist.flower.replies.arrays import Shapes
from enlist.flower.replies.updates import LateReplies
from enlist.flower.rounds import evaluations
from enlist.flower.rounds.buffered import BufferedTraining
from enlist.flower.rounds.round import Round, RoundResult, UpdateMonitor
from enlist.flower.rounds.training import SynchronousTraining, TrainingLoop
from enlist.flower.saving import checkpoint, tables
from enlist.flower.saving.folder import FederationFolder
from enlist.flower.selector import SelectorSource
from enlist.flower.terms import Terms
from enlist.records import RoundMetrics

DEFAULT_TIMEOUT = 3600.0
"""Flower's default."""

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class Selecting(strategies.Forwarding, Strategy):
    """A Flower strategy whose nodes are chosen by a selector; made by `with_selector`.

    strategy     a copy of the user's strategy, which samples every node that it can see
    federation   which node is which client, and the selector
    round        the last finished round, counted over all starts in the same folder

    >>> from enlist.flower import with_selector
    >>> from flwr.serverapp.strategy import FedAvg
    >>> with_selector(FedAvg(), "random", k=5).round
    0
    """

    clock: Clock = time

    def __init__(
        self, strategy: Strategy, source: SelectorSource, terms: Terms, clients: Clients | None = None
    ) -> None:
        self.original, self.source, self.terms, self.clients = strategies.copied(strategy), source, terms, clients
        self.timeout = DEFAULT_TIMEOUT
        self.run_folder = FederationFolder(None)
        self.configs = checkpoint.Configs(ConfigRecord(), ConfigRecord())
        self.used = self.running = False
        self._begin()
        self._connect()
        self._made = True

    def _begin(self) -> None:
        """Start from what was passed: the original strategy, and a new selector unless a configured one was passed."""
        strategy, terms = self.original, self.terms
        self.strategy = strategies.copied(strategy) if terms.shadow else strategies.prepared(strategy)
        self.initial = checkpoint.plain_settings(self.strategy)
        self.federation = FlowerFederation(
            self.source,
            clients=self.clients,
            late="drop" if terms.buffered else terms.late,
            quantile=terms.clip,
            most_often=terms.most_often,
            asynchronous=terms.buffered,
        )
        self.node_manager = NodeManager(self.federation, terms, *self._floors())
        self.update_monitor = UpdateMonitor(terms.warn_without_update, terms.stop_without_update)
        self.table_writer = tables.TableWriter(self.run_folder, self.federation, terms.late, terms.reasons)
        self.round = 0
        self.started: float | None = None
        self.elapsed = 0.0
        self.began_with: Shapes | None = None

    def _floors(self) -> tuple[int, int]:
        """Nodes that must be connected before a round begins, and nodes that must be free then."""
        base = strategies.innermost(self.original)
        needed = self.terms.min_nodes or max(int(base.min_available_nodes), 1)
        least = self.terms.k if privacy.accounted(self.original) else int(base.min_train_nodes)
        return needed, max(min(least, self.terms.number_to_ask), 1)

    def _connect(self) -> None:
        """Reset what belongs to one connection: open messages, and late replies on their way."""
        parts = self.strategy, self.terms, self.federation, self.node_manager
        kind = BufferedTraining if self.terms.buffered else SynchronousTraining
        self.training: TrainingLoop = kind(*parts, self.clock, self.timeout)

    def _holders(self, name: str) -> list[Any]:
        """The strategies that have an attribute: the one in use, and the one that the next start copies.

        Only the latter knows how many nodes to sample: the one in use samples every node that it can see.
        """
        sampling = name in strategies.SAMPLING
        used = [] if sampling and not self.terms.shadow else [self.strategy]
        found = [*used, *([] if self.running and used else [self.original])]
        levels = [next((level for level in strategies.levels(one) if hasattr(level, name)), None) for one in found]
        return [level for level in levels if level is not None]

    def _changed(self, name: str) -> None:
        """An attribute of the strategies was set; the floors depend on how many nodes they sample."""
        if name in strategies.SAMPLING:
            self.node_manager.needed, self.node_manager.least = self._floors()

    @property
    def _synchronous(self) -> SynchronousTraining:
        """Training in rounds, which a buffered server does not have."""
        if isinstance(self.training, SynchronousTraining):
            return self.training
        raise InputError("mode='buffered' sends messages as replies arrive; run it with start(grid=...).")

    @property
    def weight_key(self) -> str:
        """The key by which the strategy weights replies."""
        return self.training.weight_key

    @property
    def current(self) -> Round | None:
        """The current round, if there is one."""
        return self.training.current

    @property
    def late_replies(self) -> LateReplies:
        """Replies that arrive after their round."""
        return self.training.late_replies

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
        if terms.buffered:
            how = f"keeps {terms.at_work} nodes at work, {terms.per_step} updates make a step"
        LOGGER.info("\t├──> Enlist: selector '%s' %s, late replies: %s", name, how, terms.late)
        for floor, own, wanted in strategies.undercut(self.original, terms):
            LOGGER.warning("enlist: %s applies, which is less than the strategy's %s=%d", own, floor, wanted)
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
        """Run the federation, as Flower's own `start` does, or resume the one in the folder.

        If that run is finished, and no more rounds are requested, its result is returned. Without a folder, a second
        start begins from scratch, except that a configured selector keeps what it has learned.
        """
        self.timeout = timeout
        self.configs = checkpoint.Configs(train_config or ConfigRecord(), evaluate_config or ConfigRecord())
        self.run_folder = FederationFolder.open(
            self.terms.folder, self._config(), self.terms.resume, self.terms.accept_changes
        )
        try:
            result = self._prepared(initial_arrays)
            if not self.run_folder.reopen(self.round, num_rounds):
                text = "enlist: %s holds a finished run of %d rounds, and %d were requested: returning its result"
                LOGGER.info(text, self.terms.folder, self.round, num_rounds)
                return result
            name, begun = type(self.original).__name__, self.clock.monotonic()
            tables.log(tables.start_lines(name, num_rounds, result.arrays, self.configs.train, self.configs.evaluate))
            self.summary()
            LOGGER.info("")
            self._evaluate_first(result, evaluate_fn)
            for number in range(self.round + 1, num_rounds + 1):
                LOGGER.info("")
                LOGGER.info("[ROUND %s/%s]", number, num_rounds)
                self._round(grid, number, result, evaluate_fn, last=number == num_rounds)
            self.run_folder.finish({"status": "finished", "rounds": self.round, "time": self.elapsed}, self.federation)
            self.run_folder.note(self.clock.time(), self.elapsed, self.round, "finished")
            tables.log(tables.result_lines(result, self.clock.monotonic() - begun))
            return result
        except BaseException as error:
            why = printable(f"stopped: {type(error).__name__}: {error}")
            self.run_folder.note(self.clock.time(), self.elapsed, self.round, why)
            self.run_folder.stop(error)
            raise
        finally:
            self.running = False
            self.run_folder.close()

    def _prepared(self, initial_arrays: ArrayRecord) -> Result:
        """Prepare a start: from what was passed, or from the last checkpoint in the folder."""
        if self.used:
            self._begin()
        self.used = self.running = True
        strategies.check(self.original, self.terms)
        privacy.check(self.original, self.terms)
        self.initial = checkpoint.plain_settings(self.strategy)
        self._connect()
        self.table_writer.folder = self.run_folder
        self.table_writer.noted.clear()
        return checkpoint.restored(self, initial_arrays)

    def _round(self, grid: Grid, number: int, result: Result, evaluate_fn: Evaluate | None, last: bool) -> None:
        """One round: train, evaluate, tell the selector, record, save, and call the app's hook."""
        self.run_folder.check()
        self._train(grid, number, result)
        self._evaluate(grid, number, result, evaluate_fn)
        counts = self._settle(self._measured(number, result))
        if number % self.terms.save_every == 0 or last or self.update_monitor.over:
            self._save(result)
        if self.terms.on_round is not None:
            self.terms.on_round(RoundResult.of(number, result, self.update_monitor.idle == 0, counts))
        self.update_monitor.end()

    def _evaluate_first(self, result: Result, evaluate_fn: Evaluate | None) -> None:
        """Evaluate the initial model, unless the run is resumed."""
        if evaluate_fn is None or self.round > 0:
            return
        first = evaluate_fn(0, result.arrays)
        LOGGER.info("Initial global evaluation results: %s", first)
        if first is not None:
            result.evaluate_metrics_serverapp[0] = first

    def _train(self, grid: Grid, number: int, result: Result) -> None:
        """Ask nodes to train, and let the strategy aggregate their replies into a new model."""
        config = self.configs.train
        if isinstance(self.training, BufferedTraining):
            online = self._ready(grid, number)
            arrays, metrics = self.training.step(grid, number, result.arrays, config, online, self._now)
        else:
            messages = list(self.configure_train(number, result.arrays, config, grid))
            self._synchronous.exchange(grid, messages)
            arrays, metrics = self.aggregate_train(number, ())
        if arrays is not None:
            result.arrays = arrays
        if metrics is not None:
            LOGGER.info("\t└──> Aggregated MetricRecord: %s", metrics)
            result.train_metrics_clientapp[number] = metrics

    def _evaluate(self, grid: Grid, number: int, result: Result, evaluate_fn: Evaluate | None) -> None:
        """Evaluate the model on free nodes, then on the server."""
        messages = list(self.configure_evaluate(number, result.arrays, self.configs.evaluate, grid))
        if messages:
            sent = self.training.messenger.send(grid, messages, "evaluate", number)
            assert self.current is not None
            longest = self.timeout if self.terms.shadow else min(self.current.selection.deadline, self.timeout)
            replies = self.training.sort(self.training.messenger.wait(grid, sent, longest))
            in_time = [reply for reply in replies if reply.round == number]
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
        """Select the nodes of a round, and let the strategy make its messages to them."""
        if self.current is not None:  # called by another loop, which does not say when a round is over
            self._settle(RoundMetrics())
        training = self._synchronous
        online = self._ready(grid, server_round)
        return training.configure(server_round, arrays, config, grid, online, self._now())

    def _ready(self, grid: Grid, number: int) -> list[int]:
        """Wait for nodes, unless some are at work, and begin to record the run."""
        training = self.training
        training.clock = self.clock  # may have been set since, if start was not called
        if isinstance(training, BufferedTraining) and training.at_work:
            return list(grid.get_node_ids())
        online = self.node_manager.wait_for_nodes(grid, training.messenger, number, training.sort)
        if self.federation.log is None:
            self.run_folder.follow(self.federation)
            self.run_folder.describe(self.federation, number)
        self.run_folder.note(self.clock.time(), self._now(), self.round)
        return online

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decide every outcome, and let the strategy aggregate the usable replies."""
        return self._synchronous.aggregate(server_round, replies, self._now())

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the strategy select nodes for an evaluation, among those that are not busy."""
        if self.terms.shadow:
            bounded = BoundedGridView(grid, self.clock, self.terms.patience)
            messages = list(self.strategy.configure_evaluate(server_round, arrays, config, bounded))
        else:
            busy = self.training.messenger.busy
            messages = evaluations.requested(self.strategy, server_round, arrays, config, grid, busy)
        if messages and self.current is not None:
            self.current.evaluations = {"evaluate_selected": len(messages)}
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the strategy aggregate evaluations, without those that are impossible or would end the run."""
        replies, labels = list(replies), evaluations.labels_of(self.terms)
        seen, ended = evaluations.counted(replies, self.federation, self.weight_key, labels, self.training.heaviest())
        if self.current is not None and replies:
            self.current.evaluations |= ended
        return self.strategy.aggregate_evaluate(server_round, seen)

    def _measured(self, number: int, result: Result) -> RoundMetrics:
        """The measurements of the model after a round, and how long the round took."""
        found = evaluations.round_values(result, number, evaluations.labels_of(self.terms))
        return RoundMetrics(**found, duration=None if self.current is None else self.current.waited)

    def _settle(self, metrics: RoundMetrics) -> Mapping[str, int]:
        """Tell the selector the outcomes of the round, record it, and move to the next; returns the counts."""
        current = self.training.close(metrics)
        logged = self.table_writer.write(current, metrics, self._now(), self.training.messenger)
        self.update_monitor.note(current)
        self.round = current.number
        return {name: logged[name] for name in tables.COUNTED}

    def _now(self) -> float:
        """Seconds since the federation was first started, by the wall clock, but never running backwards."""
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
        checkpoint.save(self, result)
