"""`enlist personalise` as a person types it: table, report, several targets, Ctrl-C and resume, files, errors."""

from __future__ import annotations

import filecmp
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.personal import PERSONAL_TABLES, parse
from enlist.personal.config import load
from enlist.runs.personal_example import example_personal, write_personal

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).parent / "enlist"
SMALL = """
target = "2"
[workers]
dataset = {{ name = "telecom", rows = 4000 }}
[model]
name = "mlp"
[rounds]
rounds = {rounds}
epochs = 1
pretrain = 1
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL.format(rounds=4), encoding="utf-8")
    return tmp_path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts take longer than such small runs; one test writes them."""
    module = "enlist.report.personal.write_personal_report"
    monkeypatch.setattr(module, lambda tables, place, title: Path(place) / "report.html")


def typed(*words: str) -> tuple[int, str, BaseException | None]:
    done = CliRunner().invoke(app, ["personalise", *words])
    return done.exit_code, " ".join(done.output.split()), done.exception


def test_it_says_what_was_learned_and_where_the_report_is(place: Path, quick: None) -> None:
    code, output, _ = typed("small.toml", "--seeds", "2", "--output", "mine")
    assert code == 0, output
    assert "for worker 2, 4 rounds at most, 2 seeds" in output
    assert any(f"For worker 2 the combination {pair} was learned" in output for pair in ("1+2", "2+3", "2+4"))
    assert "than local only" in output or "from local only" in output
    assert "than federated averaging" in output or "from federated averaging" in output
    assert "report: mine/report/report.html" in output
    for seed in (0, 1):
        result = json.loads((place / "mine" / f"seed-{seed}" / "0001-2" / "result.json").read_text())
        assert (result["status"], result["rounds"]) == ("finished", 4)
        assert (place / "mine" / f"seed-{seed}" / "0001-2" / "model.safetensors").exists()


def test_the_report_command_knows_such_folders(place: Path) -> None:
    for seed in range(2):
        write_personal(example_personal(seed), place / "mine" / f"seed-{seed}" / "2")
    done = CliRunner().invoke(app, ["report", "mine", "--output", "page.html"])
    assert done.exit_code == 0, done.output
    assert "For worker 2 the combination 2+3 was learned, by 2 of 2 seeds" in " ".join(done.output.split())
    assert "Which combination, and how certain" in (place / "page.html").read_text()
    assert (place / "charts" / "partners.png").exists()
    wrong = CliRunner().invoke(app, ["report", "mine", "--target", "0.5"])
    assert "are for simulations" in str(wrong.exception)


def test_another_target_or_all_of_them(place: Path, quick: None) -> None:
    small = ("--seeds", "1", "--set", "rounds.rounds=2", "--set", "after.baselines=false")
    code, output, _ = typed("small.toml", "--target", "3", "--output", "one", *small)
    assert code == 0, output
    assert "For worker 3 the combination" in output
    code, output, _ = typed("small.toml", "--target", "all", "--output", "each", *small)
    assert code == 0, output
    assert sorted(path.name for path in (place / "each" / "seed-0").iterdir()) == [
        "0000-1",
        "0001-2",
        "0002-3",
        "0003-4",
    ]
    assert "for each of 4 workers" in output
    assert "For worker 4 the combination" in output


def test_what_is_wrong_is_said_and_nothing_is_left(place: Path, quick: None) -> None:
    _, _, error = typed("small.toml", "--target", "9")
    assert "no worker is called '9'" in str(error)
    _, _, error = typed("small.toml", "--seeds", "0")
    assert "--seeds is 0" in str(error)
    _, _, error = typed("small.toml", "--set", "rule=thompson")
    assert "needs rewards that are 0 or 1" in str(error)
    _, _, error = typed("small.toml", "--resume", "--output", "nowhere")
    assert "nothing to resume" in str(error)
    (place / "full").mkdir()
    (place / "full" / "file").touch()
    _, _, error = typed("small.toml", "--output", "full")
    assert "not empty" in str(error)
    assert sorted(path.name for path in place.iterdir()) == ["full", "small.toml"]


def test_ctrl_c_says_how_to_go_on_and_resume_ends_the_same(place: Path, quick: None) -> None:
    (place / "small.toml").write_text(SMALL.format(rounds=40), encoding="utf-8")
    surroundings = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    words = [str(SCRIPT), "personalise", "small.toml", "--seeds", "1", "--output", "cut"]
    process = subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, text=True, env=surroundings)
    rows = place / "cut" / "seed-0" / "0001-2" / "rounds.csv"
    patience = time.monotonic() + 60
    while not (rows.exists() and len(rows.read_text().splitlines()) > 5):
        assert time.monotonic() < patience
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "enlist personalise small.toml --seeds 1 --output cut --resume" in output
    assert not (place / "cut" / "report").exists()
    code, output, _ = typed("small.toml", "--seeds", "1", "--output", "cut", "--resume")
    assert code == 0, output
    assert typed("small.toml", "--seeds", "1", "--output", "whole")[0] == 0
    for name in ("rounds.csv", "arms.csv", "result.json", "model.safetensors"):
        paths = [place / folder / "seed-0" / "0001-2" / name for folder in ("cut", "whole")]
        assert filecmp.cmp(*paths, shallow=False), name
    for baseline in ("local", "fedavg"):
        paths = [
            place / folder / "seed-0" / "0001-2" / "after" / baseline / "rounds.csv" for folder in ("cut", "whole")
        ]
        assert filecmp.cmp(*paths, shallow=False), baseline


def test_another_configuration_cannot_be_resumed(place: Path, quick: None) -> None:
    assert typed("small.toml", "--seeds", "1", "--set", "rounds.rounds=1", "--output", "mine")[0] == 0
    _, _, error = typed("small.toml", "--seeds", "1", "--output", "mine", "--resume")
    assert "rounds.rounds = 1, but 4 was asked for" in str(error)


def test_more_seeds_can_be_added(place: Path, quick: None) -> None:
    small = ("--set", "rounds.rounds=1", "--set", "after.baselines=false", "--output", "mine")
    assert typed("small.toml", "--seeds", "1", *small)[0] == 0
    before = (place / "mine" / "seed-0" / "0001-2" / "rounds.csv").stat().st_mtime_ns
    code, output, _ = typed("small.toml", "--seeds", "2", *small, "--resume")
    assert code == 0, output
    assert "2 seeds" in output
    assert (place / "mine" / "seed-0" / "0001-2" / "rounds.csv").stat().st_mtime_ns == before


def test_the_example_with_files_runs(place: Path, quick: None) -> None:
    example = ROOT / "examples" / "personal" / "own-workers"
    runpy.run_path(str(example / "offices.py"))
    small = ("--set", "rounds.rounds=4", "--seeds", "1", "--output", "out")
    code, output, _ = typed(str(example / "offices.toml"), *small)
    assert code == 0, output
    assert "test accuracy" in output
    result = json.loads((place / "out" / "seed-0" / "0000-harbour" / "result.json").read_text())
    assert result["combination"] == "harbour+station"


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "personal").rglob("*.toml")), ids=lambda path: path.stem)
def test_every_example_says_how_to_run_it(path: Path) -> None:
    assert load(path).rounds.rounds > 0
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert any("enlist personalise" in line and path.name in line for line in comments)


def test_the_page_is_true(place: Path) -> None:
    page = (ROOT / "docs" / "personalisation.md").read_text()
    tables = re.split(r"^`(\w+\.csv)`:$", page, flags=re.M)
    for name, text in zip(tables[1::2], tables[2::2], strict=True):
        lines = [line.split("|")[1] for line in text.split("\n\n")[1].splitlines()[2:]]
        assert [word for line in lines for word in re.findall(r"`(\w+)`", line)] == list(PERSONAL_TABLES[name])
    more = page.split("## More")[1].split("## ")[0]
    settings = re.findall(r"`([a-z_.]+ = [^`]+)`", more)
    assert len(settings) >= 10
    for setting in settings:
        parse(tomllib.loads(setting), "docs")
    shown = next(block for block in re.findall(r"```toml\n(.*?)```", page, flags=re.S))
    example = (ROOT / "examples" / "personal" / "own-workers" / "offices.toml").read_text()
    assert all(line in example for line in shown.splitlines())


def test_the_python_of_the_page_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "personalisation.md").read_text()
    [code] = re.findall(r"<!-- run -->\n```python\n(.*?)```", page, flags=re.S)
    exec(compile(code, "page", "exec"), {"__name__": "block"})
    assert "2+3" in capsys.readouterr().out
