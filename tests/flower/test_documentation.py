"""docs/flower.md and examples/flower-migration.md say what is so, and their code runs."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg

import enlist
from enlist.flower import Selecting, client, keys, with_selector
from enlist.flower.fake import FakeGrid, FakeReply, instruction
from enlist.flower.replies.reply import read
from enlist.flower.saving.tables import FLOWER_TABLES
from enlist.flower.saving.tables import LOGGED as TOLD
from tests.flower.flower_helpers import behaving, node_of, reply

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "flower.md").read_text()
MIGRATION = (ROOT / "examples" / "flower-migration.md").read_text()


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


def marked(text: str, mark: str) -> list[str]:
    return re.findall(rf"<!-- {mark} -->\n```python\n(.*?)```", text, flags=re.S)


def test_every_argument_is_explained() -> None:
    table = PAGE.split("## What you can pass")[1].split("\n\n")[1]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == set(inspect.signature(with_selector).parameters)
    defaults = {name: given.default for name, given in inspect.signature(with_selector).parameters.items()}
    numbers = ("k", "over_commit", "min_replies", "warn_without_update", "patience", "clip", "most_often", "save_every")
    for name in (*numbers, "poll"):
        assert re.search(rf"\| `{name}` \| {defaults[name]:g}(\.0)? \|", table), name


def test_every_key_is_explained() -> None:
    for key in (*keys.CLAIMS.values(), keys.CLIENT_ID, keys.SECONDS, keys.FEATURES, keys.FEATURE_NAMES):
        assert f"`{key}`" in PAGE, key
    assert keys.INTRODUCTION in PAGE
    for table in FLOWER_TABLES:
        assert f"`{table}`" in PAGE, table
    line = next(line for line in PAGE.splitlines() if "enlist round=3" in line)
    assert [word.split("=")[0] for word in line.split()[1:]] == [*TOLD, "open", "waited", "deadline"]


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGrid:
    def train(message: Message) -> FakeReply:
        return FakeReply(1.0, reply(message, 0.0, client_id=f"phone-{node_of(message)}", loss_rms=1.0))

    found = FakeGrid(range(11, 51), behaving(train))
    monkeypatch.setattr(Selecting, "clock", found.clock)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return found


def network() -> torch.nn.Module:
    return torch.nn.Linear(2, 2)


def test_the_pages_code_runs(grid: FakeGrid) -> None:
    first, function, buffered, clients, personal = blocks(PAGE)
    names: dict[str, Any] = {"FedAdam": FedAdam, "FedAvg": FedAvg, "grid": grid, "with_selector": with_selector}
    names["arrays"] = ArrayRecord([np.zeros(3)])
    exec(first, names)
    assert names["strategy"].round == 50
    exec(function, names)
    names["strategy"].start(grid=grid, initial_arrays=names["arrays"], num_rounds=3)
    assert names["strategy"].selector.counts.selected.max() == 1
    exec(buffered, names)
    assert names["strategy"].round == 50
    assert names["strategy"].selector.counts.observed.sum() == 250
    app = ClientApp()
    names = {"app": app, "np": np, "model": network(), "data": [1, 2], "fit": lambda model, data: [0.5, 1.5]}
    exec(clients, names)
    check_client(app)
    play_the_personal_one(personal)


def play_the_personal_one(code: str) -> None:
    """Two silos, of which the clinic's own data want what the other's do."""
    named = {11: "clinic-a", 12: "clinic-c"}

    def answer(message: Message) -> FakeReply:
        name, kind = named[node_of(message)], message.metadata.message_type
        if kind == "query.enlist":
            return FakeReply(0.2, client.introduction(message, client_id=name, num_examples=10).content)
        scores = {"accuracy": 0.5, "test-accuracy": 0.5} if kind == "evaluate" else {}
        metrics = {"metrics": MetricRecord({"num-examples": 10, **scores})}
        arrays = {"arrays": message.content["arrays"]} if kind == "train" else {}
        return FakeReply(1.0, RecordDict({**arrays, **metrics}))

    federation = FakeGrid([*named], answer)
    before, after = code.split("result = ")
    names: dict[str, Any] = {"grid": federation, "arrays": ArrayRecord([np.zeros(3)])}
    exec(before, names)
    names["strategy"].clock = federation.clock
    exec(f"result = {after}", names)
    assert names["strategy"].combination == "clinic-a+clinic-c"
    assert names["strategy"].round == 40


def check_client(app: ClientApp) -> None:
    context = Context(run_id=1, node_id=7, node_config={"partition-id": 3}, state=RecordDict(), run_config={})
    arrays = ArrayRecord(network().state_dict())
    made = app(instruction(7, content=RecordDict({"arrays": arrays})), context)
    said = read(made)
    assert said.name == "3"
    assert said.claims["loss_rms"] == pytest.approx(np.sqrt(1.25))
    assert dict(made.content["metrics"]) == {"num-examples": 2, "train_loss": 1.0}
    told = app(instruction(7, "query.enlist"), context)
    assert told.content["enlist"]["client-id"] == 3


class Server:
    """Catches what `@app.main()` decorates."""

    def main(self) -> Callable[[Any], Any]:
        def keep(function: Any) -> Any:
            self.run = function
            return function

        return keep


def test_the_migrations_servers_run(grid: FakeGrid, tmp_path: Path) -> None:
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    names: dict[str, Any] = {"Grid": Grid, "Context": Context, "ArrayRecord": ArrayRecord, "Net": network}
    servers = marked(MIGRATION, "server")
    assert len(servers) == 2
    for code in servers:
        names["app"] = server = Server()
        exec(code.replace("/var/lib/federation", str(tmp_path)), names)
        server.run(grid, context)
    assert (tmp_path / "enlist-state" / "result.json").exists()


def test_the_migrations_client_runs() -> None:
    app = ClientApp()
    loader = type("Loader", (), {"dataset": [1, 2]})()
    names = {"app": app, "model": network(), "loader": loader, "fit": lambda model, loader: [0.5, 1.5]}
    names |= {"Message": Message, "Context": Context}
    for code in marked(MIGRATION, "client"):
        exec(code, names)
    check_client(app)


def test_the_migrations_quick_way() -> None:
    from tests.flower.flower_helpers import run

    def train(message: Message) -> FakeReply:
        content = reply(message)
        content["metrics"] = MetricRecord({"num-examples": 10, "train_loss": 0.5})
        return FakeReply(1.0, content)

    assert 'keys={"loss_rms": "train_loss"}' in MIGRATION
    wrapped = run(FakeGrid(range(11, 16), behaving(train)), 2, "oort", k=5, keys={"loss_rms": "train_loss"})
    assert wrapped.selector.state.utility.tolist() == [5.0] * 5


def test_pages_name_no_machine_and_only_selectors_that_exist() -> None:
    for text in (PAGE, MIGRATION):
        assert not re.search(r"/(home|root|tmp|work|Users)/|localhost|https?://(?!github\.com/adap/flower/)", text)
    for name in ("oort", "bsfl", "darts-ucb", "power-of-choice", "safa"):
        assert name in enlist.names()
    assert client.reply is not None


def test_the_walk_of_a_round_names_what_there_is() -> None:
    """Every `module.name` and `Class.method` of the section is in the code of the adapter."""
    section = (ROOT / "docs" / "design.md").read_text().split("## One Flower round")[1].split("\n## ")[0]
    sources = ROOT / "src"
    modules = {
        path.stem: importlib.import_module(".".join(path.relative_to(sources).with_suffix("").parts))
        for path in (sources / "enlist" / "flower").rglob("*.py")
        if path.stem not in ("__init__", "personal")
    }
    places = {**modules, **{name: value for module in modules.values() for name, value in vars(module).items()}}
    named = re.findall(r"`([A-Za-z]\w*)\.(\w+)`", section)
    assert len(named) > 15
    for owner, name in named:
        fields = getattr(places[owner], "__dataclass_fields__", {})
        source = inspect.getsource(places[owner])
        assert hasattr(places[owner], name) or name in fields or f"self.{name}" in source, f"{owner}.{name}"
    for step in range(1, 11):
        assert f"\n{step}. " in section


def test_the_tests_of_promises_exist() -> None:
    table = PAGE.split("## What it promises")[1].split("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", " ".join(line.split("|")[2:])) for line in table.splitlines() if ".py`" in line]
    assert len(rows) > 20
    for names in rows:
        text = "".join((Path(__file__).parent / name).read_text() for name in names if name.endswith(".py"))
        missing = [name for name in names if not name.endswith(".py") and f"def test_{name}(" not in text]
        assert not missing


def test_the_folder_tells_what_its_modules_are_for() -> None:
    """Every module stands in the package's docstring, wherever it lies; docs/design.md says how many, and why."""
    folder = ROOT / "src" / "enlist" / "flower"
    modules = [path for path in folder.rglob("*.py") if path.stem != "__init__"]
    assert not [path.stem for path in modules if not re.search(rf"\b{path.stem}\b", enlist.flower.__doc__ or "")]
    assert f"has {len(modules)} modules" in (ROOT / "docs" / "design.md").read_text()
    assert {path.stem for path in modules if len(path.read_text().splitlines()) > 400} == set()
