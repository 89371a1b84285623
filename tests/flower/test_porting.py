"""docs/flower-porting.md: its code runs, before and after, and both servers learn the same model."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.common import parameters_to_ndarrays
from flwr.server import Server, SimpleClientManager

from enlist.flower import Selecting, keys, legacy, with_selector
from enlist.flower.fake import FakeGrid, FakeReply, instruction
from enlist.flower.legacy import NEW_API_ONLY
from tests.flower.flower_helpers import behaving, reply
from tests.flower.test_legacy import Proxy, population

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "flower-porting.md").read_text()


def code(mark: str) -> str:
    [found] = re.findall(rf"<!-- {mark} -->\n```python\n(.*?)```", PAGE, flags=re.S)
    return str(found)


def app() -> dict[str, Any]:
    """What the app's own code would define."""
    return {
        "weights": lambda: [np.zeros(2)],
        "loss": lambda arrays: 0.5,
        "accuracy": lambda arrays: 0.25,
        "train": lambda arrays, lr: ([values - lr for values in arrays], [0.5, 1.5]),
    }


def context() -> Context:
    return Context(run_id=1, node_id=7, node_config={"partition-id": 3}, state=RecordDict(), run_config={})


def test_an_old_server_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    asked: list[int] = []

    def start_server(config: Any, strategy: Any) -> None:
        asked.append(config.num_rounds)
        strategy.strategy.initial_parameters = legacy._parameters(ArrayRecord([np.zeros(2)]), "numpy.ndarray")
        strategy.strategy.fraction_evaluate = 0.0
        Server(client_manager=population(*range(11, 31)), strategy=strategy).fit(3, None)

    monkeypatch.setattr("flwr.server.start_server", start_server)
    for _ in range(2):
        exec(code("old server"), {})
    assert asked == [50, 47]
    assert (tmp_path / "enlist-state" / "result.json").exists()


def test_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old server of the page and the new one, with nodes that do the same."""
    old, new = app(), app()
    exec(code("before server"), old)
    components = old["server_fn"](None)
    manager = SimpleClientManager()
    for number in range(11, 31):
        manager.register(Proxy(number))  # type: ignore[arg-type]
    components.strategy.fraction_evaluate, components.strategy.fraction_fit = 0.0, 1.0
    components.strategy.tau = 1e-3  # the new default, as the page says
    server = Server(client_manager=manager, strategy=components.strategy)
    server.fit(2, None)

    def train(message: Any) -> FakeReply:
        assert message.content["config"]["lr"] == 0.1
        return FakeReply(1.0, reply(message, examples=10 * message.metadata.dst_node_id))

    grid = FakeGrid(range(11, 31), behaving(train))
    monkeypatch.setattr(Selecting, "clock", grid.clock)
    start, results = Selecting.start, []
    monkeypatch.setattr(
        Selecting, "start", lambda self, **given: results.append(start(self, **{**given, "num_rounds": 2}))
    )
    exec(code("after server"), new)
    new["main"](grid, context())
    [result] = results
    found = result.arrays.to_numpy_ndarrays()
    np.testing.assert_allclose(found[0], parameters_to_ndarrays(server.parameters)[0], rtol=1e-6)
    assert dict(result.evaluate_metrics_serverapp[2]) == {"loss": 0.5, "accuracy": 0.25}


def test_the_client_before_and_after() -> None:
    old, new = app(), app()
    exec(code("before client"), old)
    arrays, count, metrics = old["Client"]().fit([np.ones(2)], {"lr": 0.1})
    exec(code("after client"), new)
    content = RecordDict({"arrays": ArrayRecord([np.ones(2)]), "config": ConfigRecord({"lr": 0.1})})
    made = new["app"](instruction(7, content=content), context())
    np.testing.assert_array_equal(made.content["arrays"].to_numpy_ndarrays()[0], arrays[0])
    assert dict(made.content["metrics"]) == {"num-examples": count, **metrics}
    assert made.content["enlist"][keys.CLIENT_ID] == 3


def test_the_page_names_what_is_refused() -> None:
    table = next(line for line in PAGE.splitlines() if "refused" in line and "deadline" in line)
    for word in ("deadline", "over-commitment", "late", "shadow", "min_replies", "on_round"):
        assert word in table
    assert {"deadline", "over_commit", "late", "shadow", "min_replies", "on_round"} <= set(NEW_API_ONLY)
    assert set(NEW_API_ONLY) <= set(inspect.signature(with_selector).parameters)
