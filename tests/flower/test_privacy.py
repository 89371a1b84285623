"""Wrappers for differential privacy: noise for the updates that are averaged, rounds that are skipped, the page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg

import enlist
from enlist.errors import InputError, MissingColumnError
from enlist.flower import NoNodesError, with_selector
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.flower.selector import SelectorSource as Source
from enlist.testing import population
from tests.flower.flower_helpers import behaving, listening, node_of, reply, run, selecting

PAGE = (Path(__file__).parents[2] / "docs" / "flower-privacy.md").read_text()
MULTIPLIER, NORM = 0.2, 3.0
ACCOUNTANTS = "accountant" in inspect.signature(flower.DifferentialPrivacyServerSideFixedClipping).parameters
WRAPPERS = {
    "DifferentialPrivacyServerSideFixedClipping": lambda inner, k: (inner, MULTIPLIER, NORM, k),
    "DifferentialPrivacyClientSideFixedClipping": lambda inner, k: (inner, MULTIPLIER, NORM, k),
    "DifferentialPrivacyServerSideAdaptiveClipping": lambda inner, k: (inner, MULTIPLIER, k, NORM),
}


def private(name: str, k: int) -> Any:
    inner = FedAvg(fraction_evaluate=0.0, min_available_nodes=1, min_train_nodes=1)
    return getattr(flower, name)(*WRAPPERS[name](inner, k))


def noise(name: str, k: int, nodes: dict[int, float | None], **terms: Any) -> tuple[float, float, float]:
    """The noise after one round of nodes that reply after this many seconds: its deviation, multiplier and norm."""

    def hardly(message: Message) -> FakeReply:
        return FakeReply(nodes[node_of(message)], reply(message, 1e-9))

    grid = FakeGrid(sorted(nodes), behaving(hardly))
    wrapped = selecting(grid, "random", strategy=private(name, k), k=k, deadline=10.0, patience=5.0, **terms)
    result = wrapped.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(20_000)]), num_rounds=1)
    wrapper: Any = wrapped.strategy
    return float(result.arrays["0"].numpy().std()), wrapper.noise_multiplier, wrapper.clipping_norm


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize(
    ("nodes", "over_commit", "averaged"),
    [
        (dict.fromkeys(range(11, 21), 1.0), 1.0, 8),  # as told
        ({**dict.fromkeys(range(11, 15), 1.0), **dict.fromkeys(range(15, 19), None)}, 1.0, 4),  # a deadline
        (dict.fromkeys(range(11, 14), 1.0), 1.0, 3),  # too few nodes
        ({node: float(node - 10) for node in range(11, 21)}, 1.25, 8),  # of ten that are asked, eight are awaited
        (dict.fromkeys(range(11, 21), 1.0), 1.25, 10),  # all ten come at once
    ],
)
def test_the_noise_fits_the_updates_that_are_averaged(
    name: str, nodes: dict[int, float | None], over_commit: float, averaged: int
) -> None:
    deviation, multiplier, norm = noise(name, 8, nodes, over_commit=over_commit)
    assert deviation == pytest.approx(multiplier * norm / averaged, rel=0.05)


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    strategy = private("DifferentialPrivacyClientSideFixedClipping", 10)
    with pytest.raises(InputError, match=r"num_sampled_clients=10 updates, but a round ends with k=8 of them"):
        with_selector(strategy, "random", k=8, over_commit=1.25)
    strategy.accountant = object()
    with pytest.raises(InputError, match=r"in its accountant, for exactly 10 updates .* but 13 nodes would be asked"):
        with_selector(strategy, "random", k=10, over_commit=1.3)
    outer = flower.DifferentialPrivacyServerSideFixedClipping(strategy, 0.0, 1.0, 10)
    with pytest.raises(InputError, match=r"^DifferentialPrivacyClientSideFixedClipping counts the privacy spent"):
        with_selector(outer, "random", k=10, folder=tmp_path / "run")


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_round_that_is_skipped_is_said(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def train(message: Message) -> FakeReply:
        return FakeReply(1.0, error=(2, "boom")) if node_of(message) == 11 else FakeReply(1.0, reply(message))

    grid = FakeGrid(range(11, 14), behaving(train))
    wrapped = selecting(grid, "random", strategy=private(name, 3), k=3, folder=tmp_path / "run")
    with listening(caplog) as lines:
        result = wrapped.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(2)]), num_rounds=3)
    assert result.arrays["0"].numpy().tolist() == [0.0, 0.0]
    assert f"enlist: {name} skipped round 2: no update from 2 usable replies and 1 errors" in lines()
    assert [line for line in lines() if "no update of the model in the last 3 rounds" in line]
    weights = [row.split(",")[-2] for row in (tmp_path / "run" / "participations.csv").read_text().splitlines()[1:]]
    assert sorted(weights) == ["", "", "", *["0.0"] * 6]


def test_weights_that_the_noise_does_not_cover_are_said(caplog: pytest.LogCaptureFixture) -> None:
    def train(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message, examples=90 if node_of(message) == 11 else 10))

    strategy = private("DifferentialPrivacyClientSideFixedClipping", 4)
    grid = FakeGrid(range(11, 15), behaving(train))
    with listening(caplog) as lines:
        wrapped = selecting(grid, "random", strategy=strategy, k=4)
        wrapped.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(2)]), num_rounds=3)
    told = [line for line in lines() if "which the noise does not cover" in line]
    assert len(told) == 1
    assert "an update counts up to 3 times an even share (num-examples)" in told[0]


ADAPTING = ("DifferentialPrivacyServerSideAdaptiveClipping", "DifferentialPrivacyClientSideAdaptiveClipping")


@pytest.mark.parametrize("name", [*WRAPPERS, ADAPTING[1]])
def test_a_round_in_which_nobody_replies_does_not_end_the_run(name: str) -> None:
    late = behaving(lambda message: FakeReply(20.0, reply(message)))
    arguments = (8, NORM) if name in ADAPTING else (NORM, 8)
    strategy = getattr(flower, name)(FedAvg(fraction_evaluate=0.0), MULTIPLIER, *arguments)
    wrapped = run(FakeGrid(range(11, 19), late), 2, strategy=strategy, k=8, deadline=5.0)
    assert (wrapped.round, wrapped.strategy.clipping_norm) == (2, NORM)  # type: ignore[attr-defined]


class Accountant:
    """Counts what is released, and has any budget."""

    config = SimpleNamespace(population_size=100, max_epsilon=None)

    def __init__(self) -> None:
        self.releases = 0

    def compose(self, event: Any) -> None:
        self.releases += 1

    def get_privacy_spent(self) -> Any:
        return SimpleNamespace(epsilon=1.0, delta=1e-5, num_releases=self.releases)


def accounted(count: int) -> Any:
    strategy = private("DifferentialPrivacyServerSideFixedClipping", count)
    strategy.accountant = Accountant()
    return strategy


@pytest.mark.skipif(not ACCOUNTANTS, reason="this version of Flower has no accountants")
def test_an_accountant_gets_as_many_nodes_as_it_was_told() -> None:
    def train(message: Message) -> FakeReply:
        slow = node_of(message) == 11 and message.content["config"]["server-round"] == 1
        return FakeReply(12.0 if slow else 1.0, reply(message))

    strategy = accounted(4)
    wrapped = run(FakeGrid(range(11, 15), behaving(train)), 4, strategy=strategy, k=4, deadline=5.0)
    assert wrapped.round == 4
    assert strategy.accountant.releases == 3, "round 1 is skipped, and round 2 waits for node 11"
    with pytest.raises(NoNodesError, match="an accountant for 5 nodes in every round, and 4 can be asked"):
        run(FakeGrid(range(11, 15), behaving(train)), 1, strategy=accounted(5), k=5, patience=10.0)


def test_in_shadow_mode_it_is_flower_who_samples() -> None:
    grid = FakeGrid(range(11, 15), behaving())
    strategy = private("DifferentialPrivacyClientSideFixedClipping", 4)
    assert run(grid, 2, strategy=strategy, k=2, shadow=True).round == 2
    assert len(grid.sent) == 8


WORDS = {
    "clients.features": "features",
    "clients.num_examples": "examples",
    "loss_rms": "loss",
    "accuracy_gain": "accuracy",
    "round.accuracy": "accuracy",
    "clients.label_counts": "labels",
    "clients.battery": "batteries",
    "update": "sketches",
    "update_norm": "lengths",
    "contribution": "contributions",
}


def needed(name: str) -> frozenset[str]:
    try:
        return Source.of(name, None, None, 0).needs
    except MissingColumnError:  # nodes do not tell it yet
        return enlist.create(name, population(4)).needs


def test_the_page_says_what_selectors_learn_from() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", PAGE, flags=re.M)
    told = {name: text for names, text in rows for name in re.findall(r"`([a-z0-9-]+)`", names)}
    assert told.keys() == set(enlist.names())
    for name, text in told.items():
        needs = {WORDS.get(need, need) for need in needed(name)}
        must, _, _ = text.partition(";")
        words = ("features", "examples", "loss", "accuracy", "latency", *list(WORDS.values())[-5:], "energy")
        assert {word for word in words if word in must} == needs, name


def test_the_pages_code_runs() -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["strategy"].terms.k == 10
