"""What the documentation shows runs as it stands there."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import doctest
import inspect
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
    trials = re.findall(r"^\| kill of .* \| \d+ \| (\d+) \|", page("reliability.md"), flags=re.M)
    assert set(trials) == {"0"}
    killed = re.findall(r"(\d+) in '([^']+)'", page("reliability.md").partition("Processes killed:")[2])
    everywhere, on_ray = (sum(int(count) for count, trial in killed if word in trial) for word in ("", "Ray"))
    assert f"After {everywhere} kills at random moments, {on_ray} of them on Ray, every resumed run" in text
    judged = page("studies/asynchrony/verdict.md")
    for words, pattern in (
        ("are {} times as fast as synchronous rounds", r"- here: random: (\S+ \[[^\]]+\]) times; oort:"),
        ("they are another {} times as fast", r"- here: buffered: (\S+ \[[^\]]+\]) times; async:"),
    ):
        found = re.search(pattern, judged)
        assert found is not None
        assert words.format(found[1]) in text
    # No interval of tempo on any rung lies below 1.
    row = next(
        line for line in page("ladder.md").partition("## Speed-up on each rung")[2].splitlines() if "| tempo |" in line
    )
    highs = [float(high) for high in re.findall(r"\[[\d.]+, ([\d.]+)\]", row)]
    assert f"certainly slower in none of the {len(highs)} federations" in text
    assert min(highs) > 1.0


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


BY_MACHINE = {
    "enlist.data.idx.has_fashion_mnist",
    "enlist.engine.ray.RayActor",
    "enlist.engine.starting.keep_freed_memory",
    "enlist.training.precision.has_bf16",
}
"""What they answer depends on the machine, or on a cluster that it belongs to."""


def explains_itself(thing: Any) -> bool:
    """Whether an example would show nothing: records list their fields, and bases do nothing by themselves."""
    if not inspect.isclass(thing):
        return False
    bare = dataclasses.is_dataclass(thing) or issubclass(thing, tuple | Exception)
    return bare or inspect.isabstract(thing) or getattr(thing, "_is_protocol", False)


def test_every_public_name_has_a_doctest() -> None:
    import importlib
    import pkgutil

    import enlist
    from enlist.studies import STUDIES

    own = {place.partition(":")[0] for place in STUDIES.values()}
    missing = set()
    for module in pkgutil.walk_packages(enlist.__path__, "enlist."):
        if module.name.startswith(("enlist.cli", "enlist.ui", *own)):
            continue  # commands carry an example in their --help; nobody imports parts of the page or of a study
        loaded = importlib.import_module(module.name)
        for name, thing in vars(loaded).items():
            defined_here = getattr(thing, "__module__", "") == module.name
            if name.startswith("_") or not defined_here or not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            if ">>>" not in (thing.__doc__ or "") and not explains_itself(thing):
                missing.add(f"{module.name}.{name}")
    assert missing == BY_MACHINE


def cannot_fail(source: str, want: str) -> bool:
    """Whether an example of a docstring only repeats what the code beside it says.

    A type, a membership, or the value of a default that is None; the name or a constant of a class; either truth value.
    """
    shown = ast.parse(source).body[-1]
    if not isinstance(shown, ast.Expr):
        return False
    text, name = ast.unparse(shown.value), r"_?[A-Z]\w*[a-z]\w*"  # of a class
    always = (
        r"(isinstance|issubclass|hasattr|callable)\(.*\)",
        rf"{name}(\.[a-z_]+)?\(.*\)\.\w+ is None",
        r".* in \[\w+\.name for .*\]",
    )
    return bool(
        re.fullmatch(r".* in [(\[{](True, False|False, True)[)\]}]", text)
        or re.fullmatch(rf"({name}|type\({name}\(.*\)\))(\.\w+)*\.__(name|qualname|module|class)__", text)
        or re.fullmatch(rf"{name}\.\w+", text)
        or (want.strip() == "True" and any(re.fullmatch(pattern, text) for pattern in always))
    )


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("has_bf16() in (True, False)", "True"),
        ("isinstance(UCB(2), MeanRule)", "True"),
        ("LabelClustered.State.__name__", "'LabelClusters'"),
        ("Recorder.SHARE", "0.05"),
        ("ClusteredState(None).sketches is None", "True"),
        ('"battery" in [field.name for field in dataclasses.fields(EAFLState)]', "True"),
    ],
)
def test_examples_that_cannot_fail_are_known(source: str, want: str) -> None:
    assert cannot_fail(source, want)


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("isinstance(Oracle, Omniscient), isinstance(Tempo, Omniscient)", "(True, False)"),
        ('get("random").__name__', "'Random'"),
        ("read_config(Path('no/such/run')) is None", "True"),
        ("counts.selected", "array([3, 1])"),
        ("BINARY_10.test", "('test_batch.bin',)"),
        ("BSFLSettings().alpha", "1.0"),
    ],
)
def test_examples_that_teach_are_left_alone(source: str, want: str) -> None:
    assert not cannot_fail(source, want)


def test_no_example_of_a_docstring_is_a_filler() -> None:
    parser, found = doctest.DocTestParser(), []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                examples = parser.get_examples(ast.get_docstring(node) or "")
                found += [(path.name, each.source) for each in examples if cannot_fail(each.source, each.want)]
    assert found == []


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
