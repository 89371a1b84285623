"""A selector in front of a strategy of Flower's old API: `flwr.server`, `start_server`, NumPyClient apps.

The server's loop stays Flower's own. So a selector can choose clients and learn from fit results and failures, and
there are tables and saved state; deadlines, over-commitment, late replies and shadow mode need the new API.
`docs/flower-porting.md` says how to port an app.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from flwr.common import Parameters
from flwr.server import ClientManager
from flwr.server.strategy import Strategy

from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import InputError, MissingColumnError
from enlist.flower import keys, privacy
from enlist.flower.federation import FlowerFederation
from enlist.flower.grid import LOGGER, Clock, Messenger, NoNodesError, TimedClient, node_of
from enlist.flower.replies.arrays import record_from, tensors_of
from enlist.flower.replies.reply import MEASURED, REASON, Reply, measured
from enlist.flower.rounds.round import Round, UpdateMonitor
from enlist.flower.saving.checkpoint import plain_settings, saved_model, unpack_strategy
from enlist.flower.saving.folder import FederationFolder
from enlist.flower.saving.tables import TableWriter
from enlist.flower.selector import SelectorSource
from enlist.flower.strategies import Forwarding
from enlist.flower.terms import Terms
from enlist.records import Outcome, RoundMetrics

DEADLINE = 3600.0
"""The deadline passed to the selector, in seconds: only the server knows the old API's `round_timeout`."""

NEW_API_ONLY = ["deadline", "over_commit", "late", "staleness", "min_replies", "stop_without_update", "identify"]
NEW_API_ONLY += ["shadow", "on_round", "mode"]


def check(strategy: Any, terms: Terms) -> None:
    """Refuse what the old API cannot do, and what would silently go wrong.

    >>> from flwr.server.strategy import FedAvg
    >>> check(FedAvg(), Terms(k=3, deadline=60.0))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: FedAvg is a strategy of Flower's old API, which cannot do deadline=60.0; leave it out...
    """
    name, usual = type(strategy).__name__, Terms(k=1)
    way = "port the app to the new API (docs/flower-porting.md)"
    for term in NEW_API_ONLY:
        if (given := getattr(terms, term)) != getattr(usual, term):
            raise InputError(
                f"{name} is a strategy of Flower's old API, which cannot do {term}={given!r}; leave it out, or {way}."
            )
    if is_legacy(getattr(strategy, "strategy", None)):
        raise InputError(
            f"{name} holds another strategy, as wrappers for differential privacy do; under the old API nothing makes "
            f"sure that its noise fits the selected clients, so it is refused; {way}."
        )


def is_legacy(strategy: Any) -> bool:
    """Whether an object has the methods of an old strategy; classes do not count.

    >>> from flwr.server.strategy import FedAvg
    >>> is_legacy(FedAvg()), is_legacy(FedAvg)
    (True, False)
    """
    names = ("configure_fit", "aggregate_fit", "configure_evaluate", "aggregate_evaluate")
    return not isinstance(strategy, type) and all(callable(getattr(strategy, name, None)) for name in names)


class ChosenClients(ClientManager):
    """A view of another ClientManager that shows only the selected clients, and samples all of them.

    >>> from flwr.server import SimpleClientManager
    >>> ChosenClients(SimpleClientManager(), {}).sample(5)
    []
    """

    def __init__(self, manager: ClientManager, clients: Mapping[str, Any]) -> None:
        self.manager, self.clients = manager, dict(clients)

    def num_available(self) -> int:
        """How many were selected."""
        return len(self.clients)

    def register(self, client: Any) -> bool:
        """Register with the manager behind this view."""
        return self.manager.register(client)

    def unregister(self, client: Any) -> None:
        """Unregister from the manager behind this view."""
        self.manager.unregister(client)

    def all(self) -> dict[str, Any]:
        """The selected clients."""
        return dict(self.clients)

    def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
        """There is nothing to wait for: the selected clients are connected."""
        return len(self.clients) >= num_clients

    def sample(self, num_clients: int, min_num_clients: int | None = None, criterion: Any = None) -> list[Any]:
        """All selected clients, except those that a criterion of the strategy rejects."""
        return [client for client in self.clients.values() if criterion is None or criterion.select(client)]


class ConnectedClients(ChosenClients):
    """A view of another ClientManager that samples connected clients without waiting; Flower would wait for a day.

    >>> from flwr.server import SimpleClientManager
    >>> ConnectedClients(SimpleClientManager(), {}).sample(5, min_num_clients=2)
    []
    """

    def sample(self, num_clients: int, min_num_clients: int | None = None, criterion: Any = None) -> list[Any]:
        """As many as requested, or as are connected."""
        found: list[Any] = self.manager.sample(min(num_clients, len(self.clients)), 0, criterion)
        return found


class LegacySelecting(Forwarding, Strategy):
    """An old strategy whose clients are chosen by a selector; made by `with_selector`.

    round     the last finished round, counted over all runs in the same folder
    selector  the selector

    It keeps the folder locked until `close()`, or until the process ends.

    >>> from enlist.flower import with_selector
    >>> from flwr.server.strategy import FedAvg
    >>> with_selector(FedAvg(), "random", k=5).round
    0
    """

    clock: Clock = time

    def __init__(self, strategy: Any, source: SelectorSource, terms: Terms, clients: Clients | None = None) -> None:
        self.strategy, self.source, self.terms = strategy, source, terms
        if lacking := sorted(source.needs & MEASURED):
            raise InputError(
                f"selector '{source.name}' needs {' and '.join(lacking)}, which is not measured under Flower's old "
                "API; choose another, or port the app to the new API (docs/flower-porting.md)."
            )
        self.federation = FlowerFederation(source, clients=clients, quantile=terms.clip, most_often=terms.most_often)
        self.initial = plain_settings(strategy)
        self.round, self.started, self.elapsed = 0, self.clock.time(), 0.0
        self.current: Round | None = None
        self.update_monitor = UpdateMonitor(terms.warn_without_update, None)
        self.proxies: dict[int, TimedClient] = {}
        self.parameters: Parameters | None = None
        self.central: tuple[float | None, Mapping[str, Any]] = (None, {})
        config = {"selector": source.described(), "seed": source.seed, "strategy": type(strategy).__name__}
        config |= {"api": "flwr.server", **terms.described()}
        self.run_folder = FederationFolder.open(terms.folder, config, terms.resume, terms.accept_changes)
        try:
            self._restore()
        except BaseException:
            self.run_folder.close()
            raise
        self.table_writer = TableWriter(self.run_folder, self.federation, terms.late, terms.reasons)
        self._made = True

    def _restore(self) -> None:
        saved = self.run_folder.restore()
        if saved is None:
            if self.run_folder.decisions is not None:
                self.run_folder.decisions.cut(None)
            return
        header, folder = saved.header, saved.folder / "selector"
        self.federation.restore(header["federation"], saved.arrays, folder if header["selector"] else None)
        self.run_folder.follow(self.federation, header["decisions"])
        unpack_strategy(self.strategy, header["strategy"], saved.weights.get("strategy", {}))
        self.round, self.started, self.elapsed = header["round"], header["started"], header["elapsed"]
        self.parameters = _parameters(saved_model(saved), header["tensor_type"])
        self.run_folder.reopen(self.round, self.round + 1)
        LOGGER.info("enlist: continuing after round %d of %s", self.round, self.terms.folder)

    def _holders(self, name: str) -> list[Any]:
        return [self.strategy] if hasattr(self.strategy, name) else []

    @property
    def selector(self) -> Selector[Any, Any]:
        """The selector."""
        return self.federation.selector

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """The model of the run that is resumed, else that of the strategy."""
        given: Parameters | None = self.strategy.initialize_parameters(client_manager)
        return given if self.parameters is None else self.parameters

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: ClientManager) -> list[Any]:
        """Select the clients of a round, and let the strategy make its instructions for them.

        Flower counts rounds from 1; the strategy gets the number counted over all runs in the folder.
        """
        if self.current is not None:  # the previous round failed, or had no evaluation
            self._settle(RoundMetrics())
        number, there = self.round + 1, self._there(client_manager)
        if left_out := self.federation.enrol(list(there), {}):
            self._refuse_unknown(len(left_out))
        if self.federation.log is None:
            self.run_folder.follow(self.federation)
            self.run_folder.describe(self.federation, number)
        began = self._now()
        self.run_folder.note(self.clock.time(), began, self.round)
        selection = self.federation.choose(list(there), set(), self.terms.k, began, DEADLINE, self.terms.k)
        nodes = self.federation.nodes.at(selection.clients)
        chosen = ChosenClients(client_manager, {there[node].cid: there[node] for node in nodes})
        instructions = list(self.strategy.configure_fit(number, parameters, chosen))
        asked = [node_of(str(proxy.cid)) for proxy, _ in instructions]
        if sorted(asked) != sorted(nodes):
            raise InputError(
                f"{type(self.strategy).__name__} was shown {len(nodes)} selected clients and made {len(asked)} "
                "instructions that do not go to each of them once; its configure_fit must use the clients that "
                "client_manager.sample() returns."
            )
        self.proxies = {
            node: TimedClient(proxy, self.clock) for node, (proxy, _) in zip(asked, instructions, strict=True)
        }
        places = {node: self.federation.nodes.position(node) for node in asked}
        self.current = Round(number, selection, places, [], None, set(there), began)
        self.current.bytes_down = len(asked) * sum(map(len, parameters.tensors))
        return [(self.proxies[node], ins) for node, (_, ins) in zip(asked, instructions, strict=True)]

    def _there(self, manager: ClientManager) -> dict[int, Any]:
        """The connected clients, as soon as there are enough, or after `patience` seconds."""
        needed = self.terms.min_nodes or max(int(getattr(self.strategy, "min_available_clients", 1)), 1)
        if not manager.wait_for(needed, math.ceil(self.terms.patience)):
            text = "enlist: continuing with %d connected clients, though %d are needed, after %.0f s"
            LOGGER.warning(text, manager.num_available(), needed, self.terms.patience)
        found = {node_of(str(proxy.cid)): proxy for proxy in manager.all().values()}
        if not found:
            raise NoNodesError(
                f"no client is connected after {self.terms.patience:g} s; start clients and check that they reach the "
                "server, or wait longer: with_selector(..., patience=...)."
            )
        return found

    def _refuse_unknown(self, count: int) -> None:
        names = " and ".join(sorted(self.federation.wanted))
        given = ", ".join(f"{name}=..." for name in sorted(self.federation.wanted))
        raise MissingColumnError(
            f"selector '{self.source.name}' needs {names} of clients before it can select any, and {count} are "
            f"unknown; pass what is known of them: with_selector(..., clients=enlist.Clients(ids=..., {given})), or "
            "port the app to the new API, where clients can be asked (docs/flower-porting.md)."
        )

    def aggregate_fit(
        self, server_round: int, results: Sequence[Any], failures: Sequence[Any]
    ) -> tuple[Parameters | None, dict[str, Any]]:
        """Record every outcome, and let the strategy aggregate, in the order of clients."""
        current = self.current
        if current is None:
            return self.strategy.aggregate_fit(server_round, results, failures)  # type: ignore[no-any-return]
        current.waited = self._now() - current.began
        ordered = sorted(results, key=lambda entry: current.nodes[node_of(str(entry[0].cid))])
        self._note(current, {node_of(str(proxy.cid)): result for proxy, result in ordered}, failures)
        plain = [(_bare(proxy), result) for proxy, result in ordered]
        failed = [(_bare(entry[0]), entry[1]) if isinstance(entry, tuple) else entry for entry in failures]
        parameters, metrics = self.strategy.aggregate_fit(current.number, plain, failed)
        current.updated = parameters is not None
        self.parameters = self.parameters if parameters is None else parameters
        return parameters, metrics

    def _note(self, current: Round, results: Mapping[int, Any], failures: Sequence[Any]) -> None:
        models = {id(result.parameters) for result in results.values()}
        if len(results) > 1 and len(models) == 1:  # SecAgg+: every result holds the average
            privacy.check_secure(self.source)
        told = {node_of(str(entry[0].cid)): entry[1].status.message for entry in failures if isinstance(entry, tuple)}
        unnamed = next((str(entry) for entry in failures if not isinstance(entry, tuple)), "no result")
        for node, client in sorted(current.nodes.items(), key=lambda entry: entry[1]):
            proxy = self.proxies[node]
            reply = Reply(node, current.number, proxy.seconds, client)
            if node in results:
                result = results[node]
                reply.claim({}, {**result.metrics, "num-examples": result.num_examples}, self.terms.keys)
                reply.latency = reply.seconds if math.isnan(proxy.seconds) else proxy.seconds
                reply.weight = float(result.num_examples)
                current.bytes_up += sum(map(len, result.parameters.tensors))
            else:
                reason = " ".join((proxy.error or told.get(node) or unnamed).split())[:REASON]
                reply.end(Outcome.FAILED, reason)
            current.reported.append(reply)
        untimed = any(math.isnan(reply.latency) for reply in current.reported if reply.node in results)
        if untimed and "latency" in self.source.needs:
            raise MissingColumnError(
                f"selector '{self.source.name}' needs latency, which cannot be measured for a single client when a "
                "workflow (DefaultWorkflow, SecAggPlusWorkflow) sends the messages; let clients report "
                f"'{keys.SECONDS}' in the metrics of fit, or choose a selector that does not need it, such as 'random'."
            )

    def evaluate(self, server_round: int, parameters: Parameters) -> tuple[float, dict[str, Any]] | None:
        """Let the strategy evaluate the model on the server."""
        if self.current is None:
            return self.strategy.evaluate(self.round, parameters)  # type: ignore[no-any-return]
        self.parameters = parameters
        found: tuple[float, dict[str, Any]] | None = self.strategy.evaluate(self.current.number, parameters)
        self.central = (None, {}) if found is None else found
        return found

    def configure_evaluate(self, server_round: int, parameters: Parameters, client_manager: ClientManager) -> list[Any]:
        """Let the strategy select clients for an evaluation; without one, the round is over."""
        number = self.round if self.current is None else self.current.number
        there = ConnectedClients(client_manager, client_manager.all())
        found: list[Any] = self.strategy.configure_evaluate(number, parameters, there)
        if self.current is not None:
            self.parameters = parameters
            if not found:
                self._settle(self._measured(None, {}))
        return found

    def aggregate_evaluate(
        self, server_round: int, results: Sequence[Any], failures: Sequence[Any]
    ) -> tuple[float | None, dict[str, Any]]:
        """Let the strategy aggregate evaluations; then the round is over."""
        number = self.round if self.current is None else self.current.number
        loss, metrics = self.strategy.aggregate_evaluate(number, results, failures)
        if self.current is not None:
            ended = {"evaluate_selected": len(results) + len(failures), "evaluate_completed": len(results)}
            self.current.evaluations = {**ended, "evaluate_failed": len(failures)}
            self._settle(self._measured(loss, metrics))
        return loss, metrics

    def _measured(self, loss: float | None, metrics: Mapping[str, Any]) -> RoundMetrics:
        """What the server measured, else what clients measured."""
        central, own = self.central
        found = {}
        for name, usual, other in (("accuracy", keys.ACCURACIES, None), ("loss", keys.LOSSES, (central, loss))):
            labels = self.terms.own(f"round.{name}", usual)
            values = [measured(own, labels), other and other[0], measured(metrics, labels), other and other[1]]
            found[name] = next((float(value) for value in values if value is not None), None)
        return RoundMetrics(**found, duration=None if self.current is None else self.current.waited)

    def _settle(self, metrics: RoundMetrics) -> None:
        """Tell the selector the outcomes of the round, record it, and save it."""
        current, self.current, self.central = self.current, None, (None, {})
        assert current is not None
        if current.waited is None:  # nothing was aggregated: a workflow gave up
            current.waited = self._now() - current.began
            for node, client in current.nodes.items():
                reply = Reply(node, current.number, client=client)
                reply.end(Outcome.DROPPED, "the round was given up")
                current.reported.append(reply)
        self.federation.settle(current.selection, current.reported, current.waited, current.online, metrics)
        self.table_writer.write(current, metrics, self._now(), Messenger(self.clock))
        self.update_monitor.note(current)
        self.round = current.number
        if self.round % self.terms.save_every == 0:
            self._save()

    def _save(self) -> None:
        parameters = self.parameters
        if parameters is None:
            return
        self.run_folder.check()
        header = {"started": self.started, "elapsed": self.elapsed, "tensor_type": parameters.tensor_type}
        self.run_folder.save(
            self.round,
            header,
            self.federation,
            self.strategy,
            record_from(parameters.tensors, parameters.tensor_type),
            self.initial,
        )

    def _now(self) -> float:
        """Seconds since the federation was first started, by the wall clock, but never running backwards."""
        self.elapsed = max(self.elapsed, self.clock.time() - self.started)
        return self.elapsed

    def close(self) -> None:
        """Finish the run: write what is left, and release the folder."""
        if self.current is not None:
            self._settle(RoundMetrics())
        try:
            if self.round % self.terms.save_every:
                self._save()
            result = {"status": "finished", "rounds": self.round, "time": self.elapsed}
            self.run_folder.finish(result, self.federation)
            self.run_folder.note(self.clock.time(), self.elapsed, self.round, "finished")
        finally:
            self.run_folder.close()


def _parameters(arrays: Any, tensor_type: str) -> Parameters:
    return Parameters(tensors_of(arrays, tensor_type), tensor_type)


def _bare(proxy: Any) -> Any:
    return proxy.proxy if isinstance(proxy, TimedClient) else proxy
