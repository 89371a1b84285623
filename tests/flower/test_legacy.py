"""Strategies of Flower's old API: choice, feedback, failures, tables and resuming, driven by Flower's own server."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.common import Code, EvaluateRes, FitRes, Parameters, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import Server, SimpleClientManager
from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAdam, FedAvg, Krum

from enlist.errors import InputError, MissingColumnError
from enlist.flower import NoNodesError, replay, with_selector
from enlist.flower.fake import FakeClock
from enlist.flower.legacy import LegacySelecting
from enlist.runs import read_run
from tests.flower.flower_helpers import listening

Behaviour = Callable[[int, Any], FitRes]
OK = Status(Code.OK, "")


class Proxy:
    """A client that adds its number to the model; odd ones say who they are."""

    properties: dict[str, Any] = {}

    def __init__(self, number: int, fails: bool = False) -> None:
        self.cid, self.number, self.fails, self.fits = str(number), number, fails, 0

    def fit(self, ins: Any, timeout: float | None, group_id: int | None) -> FitRes:
        self.fits += 1
        if self.fails:
            raise RuntimeError(f"no disk on {self.number}")
        model = [values + self.number for values in parameters_to_ndarrays(ins.parameters)]
        metrics = {"loss_rms": 1.0 + self.number % 3, "client-id": f"phone-{self.number}"}
        return FitRes(OK, ndarrays_to_parameters(model), num_examples=10 * self.number, metrics=metrics)

    def evaluate(self, ins: Any, timeout: float | None, group_id: int | None) -> EvaluateRes:
        return EvaluateRes(OK, 0.5, 10, {})


def population(*numbers: int, failing: tuple[int, ...] = ()) -> SimpleClientManager:
    manager = SimpleClientManager()
    for number in numbers:
        manager.register(Proxy(number, number in failing))  # type: ignore[arg-type]
    return manager


def beginning() -> Parameters:
    return ndarrays_to_parameters([np.zeros(3), np.zeros((2, 2))])


def play(strategy: Any, rounds: int, manager: SimpleClientManager) -> list[Any]:
    """Flower's own loop; returns the model."""
    server = Server(client_manager=manager, strategy=strategy)
    server.fit(num_rounds=rounds, timeout=None)
    return [values.tolist() for values in parameters_to_ndarrays(server.parameters)]


def wrapped(selector: Any = "oort", strategy: Any = None, **terms: Any) -> Any:
    given = FedAvg(fraction_evaluate=0.0, min_available_clients=1, initial_parameters=beginning())
    return with_selector(given if strategy is None else strategy, selector, **{"k": 3, **terms})


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / table).open() as file:
        return list(csv.DictReader(file))


def test_the_selector_chooses_and_learns(tmp_path: Path) -> None:
    manager = population(*range(11, 21), failing=(13,))
    strategy = wrapped(k=4, seed=3, folder=tmp_path / "run")
    assert isinstance(strategy, LegacySelecting)
    play(strategy, 6, manager)
    fits = [proxy.fits for proxy in manager.all().values()]  # type: ignore[attr-defined]
    assert sum(fits) == 24
    assert strategy.round == 6
    assert sorted(strategy.selector.counts.selected.tolist()) == sorted(fits)
    strategy.close()
    found = rows(tmp_path / "run", "participations.csv")
    assert len(found) == 24
    failed = [row for row in found if row["outcome"] == "failed"]
    assert failed
    assert {row["reason"] for row in failed} == {"RuntimeError: no disk on 13"}
    done = [row for row in found if row["outcome"] == "completed"]
    assert len(done) == 24 - len(failed)
    names = [row["id"] for row in rows(tmp_path / "run", "clients.csv")]
    assert set(names) <= {f"phone-{number}" for number in range(11, 21)} | {"node-13"}
    assert all(float(row["num_examples"]) == 10 * int(names[int(row["client"])].split("-")[1]) for row in done)
    assert all(0 <= float(row["latency"]) < 5 for row in done)
    assert len(replay(tmp_path / "run")) == 6
    assert read_run(tmp_path / "run").result["status"] == "finished"  # type: ignore[index]


def test_the_model_is_that_of_the_strategy() -> None:
    manager = population(11, 12, 13)
    assert play(wrapped("random"), 1, manager) == play(
        FedAvg(fraction_evaluate=0.0, min_fit_clients=3, min_available_clients=1, initial_parameters=beginning()),
        1,
        population(11, 12, 13),
    )


class Own(FedAdam):
    """Notes which rounds, clients and failures it was told of."""

    def __init__(self) -> None:
        super().__init__(
            fraction_evaluate=0.0, min_available_clients=1, initial_parameters=beginning(),
            on_fit_config_fn=lambda number: {"round": number},
        )  # fmt: skip
        self.seen: list[Any] = []

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        self.seen.append([server_round, [type(proxy).__name__ for proxy, _ in results], len(failures)])
        return super().aggregate_fit(server_round, results, failures)


def test_continued_it_is_as_if_it_had_not_been_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without close(), as after a crash; Flower counts from 1 again, the strategy and the tables do not."""
    monkeypatch.setattr(LegacySelecting, "clock", FakeClock())
    for rounds in (2, 4):
        strategy = wrapped("oort", Own(), k=4, seed=3, folder=tmp_path / "run")
        model = play(strategy, rounds, population(*range(11, 21), failing=(13,)))
        strategy.run_folder.close()
    whole = wrapped("oort", Own(), k=4, seed=3, folder=tmp_path / "whole")
    assert model == play(whole, 6, population(*range(11, 21), failing=(13,)))
    assert strategy.round == whole.round == 6
    assert [entry[0] for entry in strategy.seen] == [1, 2, 3, 4, 5, 6]
    assert strategy.seen == whole.seen
    assert {name for entry in whole.seen for name in entry[1]} == {"Proxy"}, "the strategy sees the proxies as they are"
    columns = ("round", "client", "outcome")
    ours, theirs = (rows(tmp_path / name, "participations.csv") for name in ("run", "whole"))
    assert [[row[name] for name in columns] for row in ours] == [[row[name] for name in columns] for row in theirs]
    whole.close()
    again = wrapped("oort", Own(), k=4, seed=3, folder=tmp_path / "whole")
    assert again.round == 6, "a finished run goes on"
    with pytest.raises(InputError, match="being written by another process"):
        wrapped("oort", Own(), k=4, seed=3, folder=tmp_path / "whole")
    again.close()
    with pytest.raises(InputError, match="holds no run to resume"):
        wrapped(folder=tmp_path / "new", resume=True)


def test_evaluations_end_a_round() -> None:
    def evaluate(number: int, model: Any, config: Any) -> tuple[float, dict[str, Any]]:
        return 1.0 / (1 + number), {"accuracy": 0.1 * number}

    strategy = wrapped("darts-ucb", FedAvg(
        fraction_evaluate=0.0, min_available_clients=1, initial_parameters=beginning(), evaluate_fn=evaluate
    ))  # fmt: skip
    play(strategy, 3, population(11, 12, 13, 14))
    assert strategy.round == 3
    with pytest.raises(MissingColumnError, match="needs the accuracy after every round"):
        play(wrapped("darts-ucb"), 2, population(11, 12, 13, 14))


def test_what_the_old_api_cannot_do_is_refused() -> None:
    for terms in ({"deadline": 60.0}, {"over_commit": 1.3}, {"late": "merge"}, {"shadow": True}, {"on_round": print}):
        [name] = terms
        with pytest.raises(InputError, match=f"old API, which cannot do {name}=.*docs/flower-porting.md"):
            wrapped(**terms)
    with pytest.raises(InputError, match="'divfl' needs update, which is not measured under Flower's old API"):
        wrapped("divfl")
    private = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, 3)
    with pytest.raises(InputError, match="nothing makes sure that its noise fits"):
        wrapped(strategy=private)
    with pytest.raises(InputError, match="strategy is <class"):
        with_selector(FedAvg, "random")  # type: ignore[arg-type]


def test_a_strategy_that_chooses_otherwise_is_refused() -> None:
    class Stubborn(FedAvg):
        def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> Any:
            return super().configure_fit(server_round, parameters, client_manager)[:1]

    strategy = wrapped("random", Stubborn(min_available_clients=1, initial_parameters=beginning()))
    with pytest.raises(InputError, match="was shown 3 selected clients and made 1 instructions"):
        play(strategy, 1, population(11, 12, 13, 14))


def test_attributes_are_the_strategys() -> None:
    given = Krum(min_available_clients=2)
    strategy = wrapped(strategy=given)
    strategy.num_malicious_clients = 1
    assert (given.num_malicious_clients, strategy.num_malicious_clients) == (1, 1)
    strategy.mine = 2
    assert not hasattr(given, "mine")
    with pytest.raises(AttributeError):
        _ = strategy.wurst


def test_waiting_has_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NoNodesError, match="no client is connected after 0 s"):
        play(wrapped("random", patience=0.0), 1, population())
    with listening(caplog) as lines:
        play(wrapped("random", patience=0.0, min_nodes=5), 1, population(11, 12))
    evaluating = FedAvg(min_available_clients=5, min_evaluate_clients=5, initial_parameters=beginning())
    play(wrapped("random", evaluating, patience=0.0), 1, population(11, 12))
    assert [line for line in lines() if "continuing with 2 connected clients, though 5 are needed" in line]


def test_clients_must_be_known_where_the_selector_needs_it() -> None:
    with pytest.raises(MissingColumnError, match=r"needs features .* port the app to the new API"):
        play(wrapped("fedsuv"), 1, population(11, 12, 13))


class Workflow:
    """Sends messages past the proxies, as DefaultWorkflow and SecAggPlusWorkflow do; may give up in between."""

    def __init__(self, strategy: Any, seconds: dict[str, float] | None = None) -> None:
        self.strategy, self.seconds, self.manager = strategy, seconds or {}, population(11, 12, 13, 14)

    def round(self, number: int, gives_up: bool = False) -> None:
        asked = self.strategy.configure_fit(number, beginning(), self.manager)
        if not gives_up:
            results = [(proxy, FitRes(OK, beginning(), 10, dict(self.seconds))) for proxy, _ in asked]
            self.strategy.aggregate_fit(number, results, [])
        self.strategy.evaluate(number, beginning())
        self.strategy.configure_evaluate(number, beginning(), self.manager)


def test_under_a_workflow_latency_is_what_clients_report() -> None:
    strategy = wrapped("tempo", k=2)
    strategy.clock = FakeClock()
    with pytest.raises(MissingColumnError, match=r"'tempo' needs latency, .* a workflow .* report 'seconds'"):
        Workflow(strategy).round(1)
    told = Workflow(wrapped("tempo", k=2), {"seconds": 7.0})
    told.round(1)
    assert np.nanmax(told.strategy.federation.claims.latency) == 7.0
    Workflow(wrapped("random", k=2)).round(1)


def test_a_round_that_a_workflow_gives_up_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    workflow = Workflow(wrapped("random", k=2, folder=tmp_path / "run", warn_without_update=1))
    workflow.round(1)
    with listening(caplog) as lines:
        workflow.round(2, gives_up=True)
    workflow.round(3)
    workflow.strategy.close()
    told = "no update of the model in the last round; of 2 requests: 2 dropped (most often: the round was given up)"
    assert [line for line in lines() if told in line]
    found = rows(tmp_path / "run", "rounds.csv")
    assert [(row["completed"], row["dropped"]) for row in found] == [("2", "0"), ("0", "2"), ("2", "0")]


def test_trees_and_other_bytes_survive(tmp_path: Path) -> None:
    class Bytes(FedAvg):
        def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
            return Parameters([b"tree" * server_round], ""), {}

    given = {"fraction_evaluate": 0.0, "min_available_clients": 1, "initial_parameters": Parameters([b""], "")}
    first = wrapped("random", Bytes(**given), k=2, folder=tmp_path / "run")
    Workflow(first).strategy.configure_fit(1, Parameters([b"x"], ""), population(11, 12))
    first.aggregate_fit(1, [], [])
    first.configure_evaluate(1, Parameters([b"tree"], ""), population(11, 12))
    first.close()
    again = wrapped("random", Bytes(**given), k=2, folder=tmp_path / "run")
    assert again.initialize_parameters(population(11)).tensors == [b"tree"]
    again.close()


def test_under_secure_aggregation_a_selector_that_looks_at_single_clients_is_refused() -> None:
    """SecAgg+ gives all results the same parameters, the average."""

    def aggregated(selector: str) -> None:
        strategy: Any = wrapped(selector, k=3)
        asked = strategy.configure_fit(1, beginning(), population(11, 12, 13, 14))
        average = beginning()
        metrics = {"loss_rms": 1.0, "seconds": 2.0}
        strategy.aggregate_fit(1, [(proxy, FitRes(OK, average, 10, dict(metrics))) for proxy, _ in asked], [])

    aggregated("random")
    aggregated("tempo")
    with pytest.raises(InputError, match=r"'oort' needs loss_rms of single clients, .* does not need them: .*random"):
        aggregated("oort")
    with pytest.raises(InputError, match="secure aggregation hides"):
        wrapped("oort", secure_aggregation=True)
    wrapped("refl", secure_aggregation=True)
