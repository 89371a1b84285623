"""`enlist reproduce` as a person types it: the smoke scale of every part, resumed, refused, published."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.errors import EnlistError

SCRIPT = Path(sys.executable).parent / "enlist"
STUDY, FOLDER = "power-of-choice", "runs/power-of-choice-smoke-001"
"""The quickest one."""


def enlisted(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    surroundings = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, text=True, cwd=cwd, env=surroundings, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduce")
    done = enlisted("reproduce", STUDY, "--scale", "smoke", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    (folder / "shown.txt").write_text(done.stdout)
    return folder


def test_the_command_says_how_long_it_will_take_what_came_out_and_where(place: Path) -> None:
    shown = (place / "shown.txt").read_text()
    assert "power-of-choice, scale smoke" in shown.splitlines()[0]
    assert "about" in shown.splitlines()[0]
    assert "It converges up to three times as fast" in shown
    assert "Smoke run: checks that everything works; no verdict" in shown
    assert "reproduced" not in shown, "nothing is judged at this scale"
    assert shown.rstrip().endswith("report: runs/power-of-choice-smoke-001/report.html")


def test_every_figure_table_and_claim_is_there(place: Path) -> None:
    from enlist.studies import get

    root, study = place / "runs" / "power-of-choice-smoke-001", get("power-of-choice")
    facts = json.loads((root / "settings.json").read_text())
    assert facts["failed"] == {}
    assert facts["command"] == "enlist reproduce power-of-choice --scale smoke --seeds 2"
    text = (root / "verdict.md").read_text()
    for claim in study.claims:
        assert f"### {claim.title}: " in text
    assert "is missing" not in text
    assert "## Smoke run: checks that everything works; no verdict" in text
    assert text.count(": no verdict\n") == len(study.claims)
    pictures = sorted((root / "figures").glob("*.png"))
    assert len(pictures) == 2
    assert all(path.stat().st_size > 5_000 and path.with_suffix(".svg").exists() for path in pictures)
    with open(root / "tables" / "methods.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 8
    assert "vegaEmbed" in (root / "report.html").read_text()


def test_resuming_a_finished_study_runs_nothing_and_publishes(place: Path) -> None:
    root = place / "runs" / "power-of-choice-smoke-001"
    before = {path: path.stat().st_mtime_ns for path in root.rglob("state.json")}
    done = enlisted("reproduce", STUDY, "--scale", "smoke", "--resume", "--publish", "docs", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "16 of them already done" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in root.rglob("state.json")} == before
    assert (place / "docs" / "power-of-choice" / "verdict.md").exists()
    assert "published: docs/power-of-choice" in done.stdout


def test_bad_input_is_refused_in_a_sentence(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for arguments, words in (
        (("reproduce", "power-of-choise"), "no study is called 'power-of-choise'. Did you mean 'power-of-choice'?"),
        (("reproduce", STUDY, "--scale", "huge"), "study 'power-of-choice' has no scale called 'huge'"),
        (("reproduce", STUDY, "--with", "cifar10"), "study 'power-of-choice' has no extra called 'cifar10'"),
        (("reproduce", STUDY, "--seeds", "0"), "seeds"),
        (("reproduce", STUDY, "--jobs", "-1"), "--jobs"),
        (("reproduce", STUDY, "--scale", "laptop", "--resume"), "finds no runs/power-of-choice-laptop-NNN here"),
        (("reproduce", STUDY, "--scale", "smoke", "--output", FOLDER), "continue it with --resume"),
        (
            ("reproduce", STUDY, "--scale", "laptop", "--output", FOLDER, "--resume"),
            "scale = 'smoke'",
        ),
    ):
        refused = CliRunner().invoke(app, list(arguments)).exception
        assert isinstance(refused, EnlistError), arguments
        assert words in str(refused)


def test_studies_are_listed() -> None:
    shown = CliRunner().invoke(app, ["list", "studies"]).output
    assert "power-of-choice" in shown
    assert "laptop" in shown


def test_a_rehearsal_runs_a_round_of_each_kind_and_keeps_nothing(tmp_path: Path) -> None:
    done = enlisted("reproduce", STUDY, "--scale", "smoke", "--first-rounds", "1", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kinds of experiments" in done.stdout
    assert "digits, mlp  fine" in done.stdout
    assert done.stdout.rstrip().endswith("all of them ran.")
    assert list(tmp_path.iterdir()) == []
