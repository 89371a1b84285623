"""Python blocks of pages, with a federation made up around them; tests/test_pages.py says who runs which block."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import FedAvg
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.engine.ray import RayEngine
from enlist.flower import Selecting
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.selectors import Tempo
from enlist.simulation import Config, compare, simulate

ROOT = Path(__file__).parents[1]


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.S)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def federation() -> FakeGrid:
    return FakeGrid(range(11, 51), lambda message: FakeReply(seconds=float(message.metadata.dst_node_id)))


def test_the_line_for_flower_in_the_readme_wraps_a_strategy(home: Path) -> None:
    found: dict[str, Any] = {}
    exec(compile(blocks("README.md")[1], "README.md", "exec"), found)
    assert isinstance(found["strategy"], Selecting)


def test_the_two_defaults_of_the_page_on_choosing(home: Path) -> None:
    found: dict[str, Any] = {}
    (code,) = blocks("docs/choosing.md")
    exec(compile(code, "choosing.md", "exec"), found)
    assert len(found["selector"].ask(k=20).clients) == 20
    grid = federation()
    found["strategy"].clock = grid.clock
    found["strategy"].start(grid=grid, initial_arrays=ArrayRecord([np.zeros(2)]), num_rounds=1)
    assert type(found["strategy"].selector) is Tempo


def test_the_steps_of_operating_a_federation(home: Path) -> None:
    watch, choose = blocks("docs/operating.md")
    found: dict[str, Any] = {
        "strategy": FedAvg(fraction_evaluate=0.0),
        "grid": federation(),
        "arrays": ArrayRecord([np.zeros(2)]),
    }
    wrapped, start = watch.rstrip().rsplit("\n", 1)
    shorter = start.replace("num_rounds=50", "num_rounds=2")
    assert shorter != start
    exec(compile(wrapped, "operating.md", "exec"), found)
    found["strategy"].clock = found["grid"].clock
    exec(compile(shorter, "operating.md", "exec"), found)
    assert (home / "enlist-state" / "shadow.csv").exists()
    found["strategy"] = FedAvg(fraction_evaluate=0.0)
    exec(compile(choose, "operating.md", "exec"), found)
    assert isinstance(found["strategy"], Selecting)


def test_the_selector_of_the_ladder_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks("docs/ladder.md")
    (tmp_path / "loss_per_second.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    chosen = importlib.import_module("loss_per_second").LossPerSecond
    run = simulate(Config(data={"clients": 8}, rounds={"rounds": 5, "k": 3}), chosen)
    assert set(run.participations["client"]) == set(range(8)), "clients that were never selected come first"
    sys.modules.pop("loss_per_second")


def test_a_logged_run_is_replayed_as_the_simulation_page_shows(home: Path) -> None:
    page = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    found = re.search(r"```sh\nenlist (run [^\n]*--log [^\n]*)\n```\n+```python\n(.*?)```", page, flags=re.S)
    assert found is not None
    words = found[1].replace("examples/", f"{ROOT}/examples/").split()
    done = CliRunner().invoke(app, [*words, "--set", "rounds.rounds=3", "--workers", "0", "--quiet"])
    assert done.exit_code == 0, done.output
    shown: dict[str, Any] = {}
    exec(compile(found[2], "simulation.md", "exec"), shown)
    assert len(shown["selection"].clients), "it went through the loop"


def test_calls_on_the_scaling_page_have_arguments_that_exist() -> None:
    """No cluster is available here: the block is compiled, its imports are made and its calls are bound."""
    (code,) = blocks("docs/scaling.md")
    known: dict[str, Any] = {"RayEngine": RayEngine, "compare": compare}
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    for call in calls:
        assert isinstance(call.func, ast.Name)
        keywords = {word.arg: None for word in call.keywords if word.arg}
        inspect.signature(known[call.func.id]).bind(*call.args, **keywords)
    assert len(calls) == 2
    imports = [line for line in code.splitlines() if line.startswith(("import ", "from "))]
    exec("\n".join(imports), found := {})
    assert found["RayEngine"] is RayEngine
    assert found["compare"] is compare
