"""What the documentation shows runs as it stands there."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.S)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def run(code: str, folder: Path, path: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme_example_runs(tmp_path: Path) -> None:
    code = blocks("README.md", "python")[0]
    shown = run(code, tmp_path)
    assert "Tempo('tempo', clients=1000, round=30)" in shown
    assert (tmp_path / "state" / "state.json").exists()


def test_every_block_of_the_python_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one namespace, as a notebook would; what is printed has the shape of what the page shows."""
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    pieces = re.findall(r"```python\n(.*?)```\n+(?:```text\n(.*?)```)?", text, flags=re.S)
    assert len(pieces) == text.count("```python") > 8
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for code, shown in pieces:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(code, "python.md", "exec"), namespace)
        if shown:
            assert shape(said.getvalue()) == shape(shown), code


def shape(text: str) -> str:
    """What is left of a text when numbers are any numbers, because other machines add up in another order."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d+(\.\d+)?", "0", text)).strip()


def test_every_block_of_the_guide_runs(tmp_path: Path) -> None:
    pieces = blocks("docs/guide.md", "python")
    assert len(pieces) == 4
    for code in pieces:
        run(code, tmp_path)


def test_numbers_of_the_readme_are_those_of_the_pages_that_measure_them() -> None:
    import enlist

    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"Enlist has {len(enlist.names())} selectors" in text
    first, second = re.findall(r"^\| \S+ \| (\S+ \[[^\]]+\]) \|", page("ladder.md"), flags=re.M)[:2]
    assert f"`tempo` is {first} times as fast" in text
    assert f"the next method reaches {second}" in text
    for name, took in re.findall(r"([\d.]+) ms with `(\w+)`", text):
        assert re.search(rf"^\| {took} \|.*\| {re.escape(name)} \(", page("benchmarks.md"), flags=re.M), took
    kills = re.findall(r"^\| kill of .* \| (\d+) \| (\d+) \|", page("reliability.md"), flags=re.M)
    assert f"{sum(int(count) for count, _ in kills)} kills" in text
    assert {wrong for _, wrong in kills} == {"0"}
    buffered = re.search(r"^tempo \(buffered\) .*? s {2,}(\S+ \[[^\]]+\])", page("simulation.md"), flags=re.M)
    assert buffered is not None
    assert f"`tempo` is {buffered[1]} times as fast as random selection in synchronous rounds" in text


def test_the_page_of_selectors_lists_every_selector() -> None:
    import enlist

    table = page("selectors.md").partition("<!-- selectors -->")[2].partition("<!-- /selectors -->")[0]
    assert re.findall(r"^\| \[`([\w-]+)`\]", table, flags=re.M) == list(enlist.names())


def test_a_users_selector_is_found_and_passes_the_suite(tmp_path: Path) -> None:
    source = blocks("docs/write-a-selector.md", "python")[0]
    assert len([line for line in source.splitlines() if line.strip()]) <= 30
    (tmp_path / "quick_selectors.py").write_text(source)
    entry = blocks("docs/write-a-selector.md", "toml")[0]
    quick = re.search(r'quick = "(.*)"', entry)
    assert quick is not None
    info = tmp_path / "quick_selectors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quick-selectors\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[enlist.selectors]\nquick = {quick[1]}\n")
    code = blocks("docs/write-a-selector.md", "python")[1] + (
        "[test_quick(check) for check in enlist.testing.CHECKS]\n"
        "import enlist\n"
        "assert 'quick' in enlist.names()\n"
        "selector = enlist.create('quick', enlist.Clients(count=5), seed=7, doubt=2.0)\n"
        "from enlist.arena import Tournament, compare, paired_difference\n"
        "results = compare(Tournament(('quick', 'random'), 'slow-minority', 50, 5, 300, seeds=3))\n"
        "assert paired_difference(results, 'round_time', 'quick').high < 0\n"
        "from enlist.cli.listing import selectors\n"
        "print('quick' in list(selectors().columns[0].cells))\n"
    )
    assert run(code, tmp_path, os.pathsep.join([str(tmp_path), *sys.path])).strip() == "True"


def test_a_selector_with_labels_sketches_and_weights_passes_the_suite(tmp_path: Path) -> None:
    source = next(code for code in blocks("docs/write-a-selector.md", "python") if "class Rare" in code)
    (tmp_path / "rare_selectors.py").write_text(source)
    code = (
        "import enlist.testing, rare_selectors\n"
        "enlist.testing.run_all(rare_selectors.Rare)\n"
        "from enlist.simulation import Config, simulate\n"
        "run = simulate(Config(data={'clients': 8}, rounds={'rounds': 3, 'k': 3}), rare_selectors.Rare)\n"
        "print(run.participations['weight'].notna().all())\n"
    )
    assert run(code, tmp_path, os.pathsep.join([str(tmp_path), *sys.path])).strip() == "True"


def test_every_public_name_has_a_doctest() -> None:
    import importlib
    import inspect
    import pkgutil

    import enlist
    from enlist.studies import STUDIES

    own = {place.partition(":")[0] for place in STUDIES.values()}
    missing = []
    for module in pkgutil.walk_packages(enlist.__path__, "enlist."):
        if module.name.startswith(("enlist.cli", "enlist.ui", *own)):
            continue  # commands carry an example in their --help; nobody imports parts of the page or of a study
        loaded = importlib.import_module(module.name)
        for name, thing in vars(loaded).items():
            defined_here = getattr(thing, "__module__", "") == module.name
            if name.startswith("_") or not defined_here or not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            if inspect.isclass(thing) and issubclass(thing, Exception):
                continue  # the test that raises it teaches more
            examples = [line for line in (thing.__doc__ or "").splitlines() if ">>>" in line]
            if all(line.strip().endswith((f"{name}.__name__", f"{name}.__module__")) for line in examples):
                missing.append(f"{module.name}.{name}")  # none, or one that cannot fail
    assert not missing


def test_sweep_tuning_and_tables_of_the_python_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    monkeypatch.chdir(tmp_path)
    pieces = blocks("docs/python.md", "python")[-3:]
    assert [word for code in pieces for word in ("sweep(", "optuna", "enlist.frame") if word in code] == [
        "sweep(",
        "optuna",
        "enlist.frame",
    ]
    recipe = pieces[1].partition("def objective")[2].partition("sampler, pruner")[0].strip()
    assert len(recipe.splitlines()) <= 10
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for code in pieces:
        exec(compile(code, "python.md", "exec"), namespace)
    assert len(namespace["swept"].table) == 8
    states = [trial.state.name for trial in namespace["study"].trials]
    assert set(states) == {"COMPLETE", "PRUNED"}, states
    assert namespace["best"].rounds.k == namespace["study"].best_params["rounds.k"]
    assert namespace["runs"]["rounds.k"].tolist() == [3, 6]
    assert len(namespace["rounds"]) == 12
