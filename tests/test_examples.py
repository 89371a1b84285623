"""Examples run, what the pages on simulation show works as it stands there, and the notebook is fit to print."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.notebooks import executed
from enlist.cli.app import app
from enlist.runs.columns import ENERGY, FAIRNESS, METRIC, TABLES
from enlist.simulation import Config, Simulation, build, load

ROOT = Path(__file__).parents[1]
OTHERS = ("personal", "flower-quickstart")  # not for `enlist run`; they have tests of their own
EXAMPLES = sorted(path for path in ROOT.glob("examples/**/*.toml") if not {*OTHERS} & {*path.parts})
PAGE = ROOT / "docs" / "your-own-data-and-model.md"
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
DOWNLOADED = {"fashion-mnist", "mnist", "cifar10", "cifar100"}
SHORT = ("rounds.rounds=2", "evaluation.every=1")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in; modules imported from there are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith((str(tmp_path), str(ROOT / "examples"))):
            del sys.modules[name]


def ran(config: Config) -> None:
    result = Simulation(config).run()
    assert (result["status"], result["rounds"]) == ("finished", 2)
    assert 0.0 < result["accuracy"] < 1.0


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs(path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)  # an example's own modules lie beside it
    config = load(path, SHORT)
    if config.data.dataset.name not in DOWNLOADED:
        ran(config)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_says_how_to_run_it(path: Path) -> None:
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    place = "" if path.parent.name == "own_data" else "examples/"  # modules are looked for in the current folder
    assert any(re.search(rf"enlist (run|compare) {place}{path.name}", line) for line in comments)


def pieces(page: Path) -> list[tuple[str, str, str]]:
    """Marked blocks in order: ('run' or the name of a file, language, code)."""
    marked = re.findall(r"<!-- (run|file: \S+) -->\n```(\w+)\n(.*?)```", page.read_text(), flags=re.S)
    return [(mark.removeprefix("file: "), language, code) for mark, language, code in marked]


def typed(line: str) -> None:
    words = shlex.split(line)
    assert words[0] == "enlist", line
    quick = ["--workers", "0", *(word for change in SHORT for word in ("--set", change))] if words[1] == "run" else []
    done = CliRunner().invoke(app, [*words[1:], *quick])
    assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"


def test_everything_marked_on_the_page_works_in_its_order(place: Path) -> None:
    blocks = pieces(PAGE)
    for mark, language, code in blocks:
        if mark != "run":
            (place / mark).write_text(code)
        elif language == "python":
            exec(compile(code, str(PAGE), "exec"), {"__name__": "block"})
        else:
            for line in code.splitlines():
                typed(line)
    assert len([mark for mark, _, _ in blocks if mark == "run"]) == 11
    folders = {path.parent.name for path in place.glob("*/report.html")} | {
        p.parent.name for p in place.glob("*/result.json")
    }
    assert folders == {"who", "cells", "hospitals", "csv", "people", "activity", "focal", "traces"}


def test_the_python_examples_of_the_simulation_page_work(place: Path) -> None:
    """The last as a script of its own, because worker processes import it again."""
    *others, (_, _, code) = pieces(ROOT / "docs" / "simulation.md")
    assert len(others) == 2
    for _, _, other in others:
        exec(compile(other, "simulation.md", "exec"), {"__name__": "block"})
    (place / "example.py").write_text(code)
    command = [sys.executable, "-W", "error", "example.py"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Oort('oort', clients=30, round=" in done.stdout
    assert (place / "run" / "result.json").exists()


def test_every_column_of_the_tables_is_explained() -> None:
    page = (ROOT / "docs" / "simulation.md").read_text()
    tables = re.split(r"^`(\w+\.csv)`.*:$", page, flags=re.M)
    shown = dict(zip(tables[1::2], tables[2::2], strict=True))
    for table, columns in TABLES.items():
        further = {
            "participations.csv": [ENERGY, "user"],
            "rounds.csv": [ENERGY, *FAIRNESS, f"{METRIC}NAME"],
            "reasons.csv": ["probability"],
        }
        assert named(shown[table]) == [*columns, *further.get(table, [])], table
    clients = build(Config(data={"clients": 4})).columns(model_bytes=4)
    assert named(shown["clients.csv"])[:-1] == [*clients][: len(clients) - 10 + 1]


def named(text: str) -> list[str]:
    """What the first column of the first table of a text names."""
    table = text.split("\n\n")[1]
    return [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_unmarked_python_is_not_on_the_page() -> None:
    assert PAGE.read_text().count("```python") == sum(language == "python" for _, language, _ in pieces(PAGE))


def test_the_page_shows_the_files_of_the_example() -> None:
    shown = {mark: code for mark, _, code in pieces(PAGE) if mark.startswith("activity")}
    for name, code in shown.items():
        assert code == (ROOT / "examples" / "own_data" / name).read_text(), name
    assert sorted(shown) == ["activity.py", "activity.toml"]


def test_a_selector_of_ones_own_runs_in_a_simulation(place: Path) -> None:
    files = {mark: code for mark, _, code in pieces(PAGE)}
    source = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "write-a-selector.md").read_text(), flags=re.S)[0]
    (place / "quick_selectors.py").write_text(source)
    (place / "quick.toml").write_text(files["quick.toml"])
    entry = re.search(r'quick = "(.*)"', files["pyproject.toml"])
    assert entry is not None
    info = place / "quick_selectors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quick-selectors\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[enlist.selectors]\nquick = {entry[1]}\n")
    sys.path.insert(0, str(place))
    config = load("quick.toml", SHORT)
    assert config.selector.settings == {"doubt": 2.0}
    ran(config)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_run_from_top_to_bottom(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], len(notebook["cells"]) >= 8) == (4, True)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_names_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 1_500_000
    notebook = json.loads(text)
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
    assert all(not cell["metadata"] for cell in notebook["cells"])
    readable = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not re.search(
        r"/(home|root|tmp|work|usr|Users|opt|mnt|var)/|[A-Z]:\\\\|localhost|https?://\S+:\d+", readable
    )
    assert "application/vnd" not in readable
    assert "<script" not in readable


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_with_fewer_rounds_and_seeds(path: Path) -> None:
    """`make verify` runs them as they are; this finds what no longer works."""

    def short(source: str) -> str:
        source = re.sub(r'("rounds": |rounds\.rounds=)\d+', r"\g<1>3", source)
        source = re.sub(r"seeds=\d", "seeds=1", source)
        return source.replace(".plot(", ".plot and (").replace("run_all(", "run('explained', ")

    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert len(executed(notebook, short)) == sum(cell["cell_type"] == "code" for cell in notebook["cells"])
