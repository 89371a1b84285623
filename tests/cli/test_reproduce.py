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


def enlisted(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    surroundings = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, text=True, cwd=cwd, env=surroundings, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduce")
    done = enlisted("reproduce", "mabfl", "--scale", "smoke", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    (folder / "shown.txt").write_text(done.stdout)
    return folder


def test_the_command_says_how_long_it_will_take_what_came_out_and_where(place: Path) -> None:
    shown = (place / "shown.txt").read_text()
    assert "mabfl, scale smoke" in shown.splitlines()[0]
    assert "about" in shown.splitlines()[0]
    assert "The best pair beats FedAvg and the target alone" in shown
    assert "Smoke run: checks that everything works; no verdict" in shown
    assert "reproduced" not in shown, "nothing is judged at this scale"
    assert shown.rstrip().endswith("report: runs/mabfl-smoke-001/report.html")


def test_every_figure_table_and_claim_is_there(place: Path) -> None:
    from enlist.studies import get

    root, study = place / "runs" / "mabfl-smoke-001", get("mabfl")
    facts = json.loads((root / "settings.json").read_text())
    assert facts["failed"] == {}
    assert facts["command"] == "enlist reproduce mabfl --scale smoke --seeds 2"
    text = (root / "verdict.md").read_text()
    for claim in study.claims:
        assert f"### {claim.title}: " in text
    assert "is missing" not in text
    assert "## Smoke run: checks that everything works; no verdict" in text
    assert text.count(": no verdict\n") == len(study.claims)
    pictures = sorted((root / "figures").glob("*.png"))
    assert len(pictures) >= 20
    assert all(path.stat().st_size > 5_000 and path.with_suffix(".svg").exists() for path in pictures)
    with open(root / "tables" / "table-3.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 39
    assert "vegaEmbed" in (root / "report.html").read_text()


def test_resuming_a_finished_study_runs_nothing_and_publishes(place: Path) -> None:
    root = place / "runs" / "mabfl-smoke-001"
    before = {path: path.stat().st_mtime_ns for path in root.rglob("state.json")}
    done = enlisted("reproduce", "mabfl", "--scale", "smoke", "--resume", "--publish", "docs", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "189 of them done already" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in root.rglob("state.json")} == before
    assert (place / "docs" / "mabfl" / "verdict.md").exists()
    assert "published: docs/mabfl" in done.stdout


def test_bad_input_is_refused_in_a_sentence(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for arguments, words in (
        (("reproduce", "mabfk"), "no study is called 'mabfk'. Did you mean 'mabfl'?"),
        (("reproduce", "mabfl", "--scale", "huge"), "study 'mabfl' has no scale called 'huge'"),
        (("reproduce", "mabfl", "--with", "cifar10"), "study 'mabfl' has no extra called 'cifar10'"),
        (("reproduce", "mabfl", "--seeds", "0"), "seeds"),
        (("reproduce", "mabfl", "--jobs", "-1"), "--jobs"),
        (("reproduce", "mabfl", "--scale", "laptop", "--resume"), "finds no runs/mabfl-laptop-NNN here"),
        (("reproduce", "mabfl", "--scale", "smoke", "--output", "runs/mabfl-smoke-001"), "continue it with --resume"),
        (
            ("reproduce", "mabfl", "--scale", "laptop", "--output", "runs/mabfl-smoke-001", "--resume"),
            "scale = 'smoke'",
        ),
    ):
        refused = CliRunner().invoke(app, list(arguments)).exception
        assert isinstance(refused, EnlistError), arguments
        assert words in str(refused)


def test_studies_are_listed() -> None:
    shown = CliRunner().invoke(app, ["list", "studies"]).output
    assert "mabfl" in shown
    assert "laptop" in shown


def test_a_rehearsal_runs_a_round_of_each_kind_and_keeps_nothing(tmp_path: Path) -> None:
    done = enlisted("reproduce", "mabfl", "--scale", "smoke", "--first-rounds", "1", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kinds of experiments" in done.stdout
    assert "telecom, thesis  fine" in done.stdout
    assert done.stdout.rstrip().endswith("all of them run.")
    assert list(tmp_path.iterdir()) == []
