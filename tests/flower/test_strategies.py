"""Strategies of Flower with a selector around them do what they do without: same replies, same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg, Strategy

import enlist
from enlist.contract import Selector
from enlist.errors import InputError, UnknownNameError
from enlist.flower import Selecting, with_selector
from enlist.flower.fake import FakeGrid, FakeReply
from tests.flower.flower_helpers import behaving, model, node_of, reply, run, selecting, values


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of Flower's strategies collect garbage at every reply, which takes long in a process full of tests."""
    monkeypatch.setattr("gc.collect", lambda *arguments: 0)


KINDS = {
    "FedAvg": {},
    "FedProx": {"proximal_mu": 0.1},
    "FedAdam": {},
    "FedYogi": {},
    "FedAdagrad": {},
    "FedAvgM": {"server_momentum": 0.9},
    "FedMedian": {},
    "FedTrimmedAvg": {},
    "Krum": {},
    "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": 3},
    "Bulyan": {"num_malicious_nodes": 0},
    "QFedAvg": {"client_learning_rate": 0.1, "train_loss_key": "train_loss"},
}


def train(message: Message) -> FakeReply:
    content = reply(message, 0.001 * node_of(message) ** 2, examples=node_of(message))
    content["metrics"] = MetricRecord({"num-examples": node_of(message), "train_loss": 0.5})
    return FakeReply(0.1 * node_of(message), content)


def make(name: str, **more: Any) -> Strategy:
    strategy: Strategy = getattr(flower, name)(fraction_evaluate=0.0, **KINDS[name], **more)
    return strategy


@pytest.mark.parametrize("name", KINDS)
def test_the_model_is_that_of_the_plain_strategy(name: str) -> None:
    nodes = [11, 12, 13, 14, 15]
    plain = make(name).start(FakeGrid(nodes, behaving(train)), model(1.0), num_rounds=2)
    grid = FakeGrid(nodes, behaving(train))
    wrapped = selecting(grid, "random", strategy=make(name), k=5)
    result = wrapped.start(grid=grid, initial_arrays=model(1.0), num_rounds=2)
    for ours, theirs in zip(values(result.arrays), values(plain.arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert set(result.train_metrics_clientapp) == set(plain.train_metrics_clientapp) == {1, 2}


@pytest.mark.parametrize("name", KINDS)
def test_exactly_the_chosen_nodes_are_asked(name: str) -> None:
    grid = FakeGrid(range(11, 31), behaving(train))
    wrapped = run(grid, 2, "random", strategy=make(name, fraction_train=0.3), k=7)
    asked = [node_of(message) for message in grid.sent]
    assert len(asked) == 14
    assert np.bincount(asked, minlength=31)[11:].tolist() == wrapped.selector.counts.selected.tolist()


def test_the_users_strategy_is_not_changed() -> None:
    strategy = FedAvg(fraction_train=0.3, min_train_nodes=4, min_available_nodes=6, fraction_evaluate=0.0)
    before = dict(vars(strategy))
    run(FakeGrid(range(11, 31), behaving()), 2, "random", strategy=strategy, k=5)
    assert vars(strategy) == before


def test_fedprox_and_configs_reach_the_clients() -> None:
    configs = []

    def look(message: Message) -> FakeReply:
        configs.append(dict(message.content["config"]))
        return train(message)

    grid = FakeGrid([11, 12], behaving(look))
    wrapped = selecting(grid, "random", strategy=make("FedProx"), k=2)
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=2, train_config=ConfigRecord({"lr": 0.5}))
    shared = {"lr": 0.5, "proximal-mu": 0.1}
    assert configs == [{**shared, "server-round": number} for number in (1, 1, 2, 2)]


def trees(message: Message) -> FakeReply:
    content = reply(message)
    content["arrays"] = ArrayRecord([np.frombuffer(b"x" * node_of(message), dtype=np.uint8)])
    return FakeReply(1.0, content)


def test_cyclic_trees_take_one_node_per_round() -> None:
    grid = FakeGrid(range(11, 21), behaving(trees))
    wrapped = selecting(grid, "random", strategy=flower.FedXgbCyclic(fraction_evaluate=0.0), k=1)
    result = wrapped.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(1, np.uint8)]), num_rounds=5)
    last = [node_of(message) for message in grid.sent if message.metadata.message_type == "train"]
    assert len(last) == 5
    assert len(next(iter(result.arrays.values())).numpy()) == last[-1]
    with pytest.raises(InputError, match="FedXgbCyclic trains one node per round, so it takes a selector with k=1"):
        with_selector(flower.FedXgbCyclic(), "random", k=2)


def private(name: str, count: int, **more: Any) -> Any:
    kinds = {
        "DifferentialPrivacyServerSideFixedClipping": (0.01, 10.0, count),
        "DifferentialPrivacyClientSideFixedClipping": (0.01, 10.0, count),
        "DifferentialPrivacyServerSideAdaptiveClipping": (0.01, count),
    }
    return getattr(flower, name)(FedAvg(fraction_evaluate=0.0, fraction_train=0.1), *kinds[name], **more)


@pytest.mark.parametrize(
    "name",
    [
        "DifferentialPrivacyServerSideFixedClipping",
        "DifferentialPrivacyClientSideFixedClipping",
        "DifferentialPrivacyServerSideAdaptiveClipping",
    ],
)
def test_wrappers_for_privacy(name: str, tmp_path: Path) -> None:
    grid = FakeGrid(range(11, 31), behaving(train))
    wrapped = run(grid, 3, "random", strategy=private(name, 5), k=5, folder=tmp_path / "run")
    assert len(grid.sent) == 15
    assert wrapped.original.strategy.fraction_train == 0.1
    assert np.isfinite(values(wrapped.result.arrays)[0]).all()
    with pytest.raises(
        InputError, match=f"{name} adds noise for num_sampled_clients=5 updates, but a round ends with k=7"
    ):
        selecting(grid, "random", strategy=private(name, 5), k=7)
    with pytest.raises(InputError, match="does not average replies by weight"):
        selecting(grid, "random", strategy=private(name, 5), k=5, late="merge")


def test_an_accountant_of_privacy_cannot_be_saved(tmp_path: Path) -> None:
    strategy = private("DifferentialPrivacyClientSideFixedClipping", 5)
    strategy.accountant = object()
    with pytest.raises(InputError, match="counts the privacy spent in its accountant, which a folder cannot save"):
        with_selector(strategy, "random", k=5, folder=tmp_path)


class OwnStart(FedAvg):
    def start(self, *arguments: Any, **named: Any) -> Any:
        return super().start(*arguments, **named)


class Bare(Strategy):
    def configure_train(self, *arguments: Any) -> Any: ...
    def aggregate_train(self, *arguments: Any) -> Any: ...
    def configure_evaluate(self, *arguments: Any) -> Any: ...
    def aggregate_evaluate(self, *arguments: Any) -> Any: ...
    def summary(self) -> None: ...


class Stubborn(FedAvg):
    def configure_train(self, *arguments: Any, **named: Any) -> Any:
        return list(super().configure_train(*arguments, **named))[:1]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("FedAvg", "strategy is 'FedAvg'; pass a strategy of flwr.serverapp.strategy"),
        (FedAvg, "strategy is <class"),
        (OwnStart(), r"OwnStart has a start\(\) of its own"),
        (Bare(), "Bare has no fraction_train, which is needed to make it ask exactly the selected nodes"),
        (FedAvg(fraction_train=0.0), "FedAvg has fraction_train=0, so no node can be selected"),
    ],
)
def test_why_a_strategy_cannot_be_wrapped(strategy: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        with_selector(strategy, "random", k=2)


def test_a_strategy_is_wrapped_once() -> None:
    with pytest.raises(InputError, match="Selecting has a selector already"):
        with_selector(with_selector(FedAvg(), "random", k=2), "random", k=2)


def test_a_strategy_that_asks_somebody_else() -> None:
    with pytest.raises(InputError, match="Stubborn was shown 3 selected nodes and made 1 messages"):
        run(FakeGrid(range(11, 16), behaving()), 1, "random", strategy=Stubborn(), k=3)


@pytest.mark.parametrize("name", ["FedMedian", "FedTrimmedAvg", "Krum", "MultiKrum", "Bulyan", "QFedAvg"])
def test_late_replies_cannot_be_merged_without_weights(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} does not average replies by weight"):
        with_selector(make(name), "random", k=2, late="merge")


def test_what_takes_the_place_of_a_name() -> None:
    grid = FakeGrid(range(11, 17), behaving())
    assert isinstance(run(grid, 1, "oort", k=2, settings={"penalty": 1.0}, seed=7).selector, Selector)
    configured = enlist.create("bsfl", enlist.Clients(ids=["phone-14", "phone-11"]), seed=3)
    wrapped = run(grid, 3, configured, k=2)
    assert wrapped.selector is configured
    assert wrapped.nodes.names[:2] == ["phone-14", "phone-11"]
    assert [wrapped.nodes.number(node) for node in (14, 11)] == [0, 1]
    assert len(configured.clients) == 6


def test_a_configured_selector_without_names() -> None:
    grid = FakeGrid(range(11, 17), behaving())
    configured = enlist.create("bsfl", enlist.Clients(count=4), seed=3)
    wrapped = run(grid, 2, configured, k=2)
    assert len(configured.clients) == 6
    assert sorted(node for node in wrapped.nodes.nodes if node is not None) == [11, 12, 13, 14, 15, 16]


def test_clients_known_up_front() -> None:
    grid = FakeGrid(range(11, 15), behaving())
    known = enlist.Clients(ids=["phone-12", "phone-99"], num_examples=[5, 7])
    wrapped = run(grid, 2, "size-proportional", k=2, clients=known, settings={})
    assert wrapped.nodes.names[:2] == ["phone-12", "phone-99"]
    assert wrapped.nodes.nodes[:2] == [12, None]


def test_a_function_of_the_table() -> None:
    seen = []

    def least_asked(table: Any, k: int) -> Any:
        seen.append(sorted(table))
        return np.argsort(table["selected"], kind="stable")[:k]

    wrapped = run(FakeGrid(range(11, 21), behaving()), 10, least_asked, k=3)
    assert wrapped.selector.counts.selected.tolist() == [3] * 10
    assert "client" in seen[0]


def test_a_function_by_name_may_choose_fewer() -> None:
    def listed(table: Any, k: int) -> Any:
        return np.isin(table["client"], ["phone-12", "phone-14"])

    grid = FakeGrid(range(11, 21), behaving())
    wrapped = run(grid, 4, listed, k=5, identify="always")
    counts = dict(zip(wrapped.nodes.names, wrapped.selector.counts.selected.tolist(), strict=True))
    assert {name: count for name, count in counts.items() if count} == {"phone-12": 4, "phone-14": 4}


@pytest.mark.parametrize("rows", [[0, 0], [99], [-1], [0.5], [[0]], [0, 1, 2]])
def test_a_function_that_chooses_nonsense(rows: Any) -> None:
    with pytest.raises(InputError, match="at most 2 distinct rows of the table, from 0 to 4, or a mask"):
        run(FakeGrid(range(11, 16), behaving()), 1, lambda table, k: rows, k=2)


@pytest.mark.parametrize(
    ("selector", "terms", "error", "message"),
    [
        ("oorf", {}, UnknownNameError, "Did you mean 'oort'"),
        ("oort", {"settings": {"penalti": 1}}, UnknownNameError, "penalti"),
        ("oort", {"preset": "papr"}, UnknownNameError, "Did you mean 'paper'"),
        (3, {}, InputError, "selector is 3"),
        ("oort", {"k": 0}, InputError, "k is 0"),
        ("oort", {"deadline": -1}, InputError, "deadline is -1"),
        ("oort", {"over_commit": 0.5}, InputError, "over_commit is 0.5"),
        ("oort", {"late": "never"}, InputError, "late is 'never'"),
        ("oort", {"staleness": "old"}, InputError, "staleness is 'old'"),
        ("oort", {"identify": "maybe"}, InputError, "identify is 'maybe'"),
        ("oort", {"patience": float("inf")}, InputError, "patience is inf"),
        ("oort", {"clip": 0.3}, InputError, "clip is 0.3"),
        ("oort", {"most_often": 0.5}, InputError, "most_often is 0.5"),
        ("oort", {"keys": {"los": "x"}}, UnknownNameError, "Did you mean 'loss'"),
        ("oort", {"resume": True}, InputError, "resume=True without a folder"),
        ("oort", {"shadow": True, "over_commit": 1.5}, InputError, "shadow leaves everything to Flower"),
    ],
)
def test_wrong_terms_are_refused_at_once(selector: Any, terms: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        run(FakeGrid([11], behaving()), 1, selector, **terms)


def test_settings_beside_a_configured_selector() -> None:
    configured = enlist.create("bsfl", enlist.Clients(count=4))
    with pytest.raises(InputError, match="set them on the selector"):
        with_selector(FedAvg(), configured, k=2, settings={"alpha": 2.0})
    with pytest.raises(InputError, match="pass only one"):
        with_selector(FedAvg(), configured, k=2, clients=enlist.Clients(count=3))


def test_somebody_elses_loop() -> None:
    """Flower's own `start` around our methods: no deadline, no stop at k, but choice and feedback."""
    grid = FakeGrid(range(11, 21), behaving())
    wrapped = selecting(grid, "oort", k=3, deadline=None)
    result = Strategy.start(wrapped, grid, model(), num_rounds=4)
    assert isinstance(wrapped, Selecting)
    assert wrapped.selector.counts.selected.sum() == 12
    assert wrapped.selector.counts.observed.sum() == 9, "the last round is settled when the next begins"
    assert set(result.train_metrics_clientapp) == {1, 2, 3, 4}


def test_late_replies_in_somebody_elses_loop() -> None:
    grid = FakeGrid(range(11, 14), behaving(lambda message: FakeReply(50.0 if node_of(message) == 11 else 1.0,
                                                                     reply(message))))  # fmt: skip
    wrapped = selecting(grid, "cs-ucb", k=3, deadline=None)
    Strategy.start(wrapped, grid, model(), num_rounds=3, timeout=10.0)
    assert wrapped.training.messenger.busy == {11}
    assert wrapped.selector.counts.selected.tolist() == [1, 3, 3]


def test_the_default_selector_works_on_an_app_that_was_never_changed() -> None:
    def stock(message: Message) -> FakeReply:
        content = reply(message)
        del content["enlist"]
        return FakeReply(1.0 if node_of(message) % 2 else 20.0, content)

    grid = FakeGrid(range(11, 31), behaving(stock))
    wrapped = with_selector(FedAvg(fraction_evaluate=0.0), k=4, deadline=10.0)
    wrapped.clock = grid.clock
    wrapped.start(grid=grid, initial_arrays=model(), num_rounds=20)
    counts = wrapped.selector.counts.selected
    assert counts[::2].sum() > 2 * counts[1::2].sum(), "the quick ones"
