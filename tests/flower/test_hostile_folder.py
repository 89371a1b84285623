"""The folder of a federation that somebody edited, or that holds links: refused, and nothing outside changes."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from enlist import storage
from enlist.errors import InputError, StateFileError
from enlist.flower import replay
from enlist.flower.fake import FakeGrid, FakeReply
from tests.flower.flower_helpers import behaving, node_of, reply, run


def train(message: Any) -> FakeReply:
    node = node_of(message)
    if node == 13:
        return FakeReply(1.0, error=(2, "boom"))
    return FakeReply(0.1 * node, reply(message, 0.1 * node, client_id=f"phone-{node}", loss_rms=1.0 + node % 3))


def federation(folder: Path, rounds: int, **terms: Any) -> Any:
    return run(FakeGrid(range(11, 17), behaving(train)), rounds, "oort", k=3, folder=folder, seed=3, **terms)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federation") / "run"
    federation(folder, 3)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def edit(path: Path) -> None:
    text = path.read_text()
    path.write_text(text.replace("1", "2", 1) if "1" in text else text[:-1])


@pytest.mark.parametrize("name", ["rounds.csv", "participations.csv", "reasons.csv", "events.csv", "shadow.csv"])
def test_an_edited_table_is_refused_unless_that_is_accepted(name: str, folder: Path) -> None:
    edit(folder / name)
    with pytest.raises(StateFileError, match=name):
        federation(folder, 4)
    federation(folder, 4, accept_changes=True)
    federation(folder, 5)


def test_a_setting_that_may_change_may_not_be_edited(folder: Path) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "patience": 7.5}, indent=1) + "\n")
    with pytest.raises(StateFileError, match=r"config\.json was changed .*: patience is 7\.5 and was 600\.0"):
        federation(folder, 4)


def test_edited_clients_are_written_anew(folder: Path, finished: Path) -> None:
    edit(folder / "clients.csv")
    federation(folder, 4)
    kept = [line.rsplit(",", 2)[1:] for line in (finished / "clients.csv").read_text().splitlines()]
    assert [line.rsplit(",", 2)[1:] for line in (folder / "clients.csv").read_text().splitlines()] == kept


def test_an_edited_log_of_decisions_is_refused(folder: Path) -> None:
    edit(folder / "decisions" / "00000001" / "decisions.jsonl")
    with pytest.raises(StateFileError, match=r"decisions\.jsonl was changed since the checkpoint was made"):
        federation(folder, 4)
    federation(folder, 4, accept_changes=True)


@pytest.mark.parametrize(
    "name",
    [
        "decisions",
        "decisions/00000001",
        "decisions/00000001/decisions.jsonl",
        "events.csv",
        "result.json",
        "clients.csv",
    ],
)
def test_links_are_refused(name: str, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.move(folder / name, outside)
    (folder / name).symlink_to(outside)
    inner = [outside] if outside.is_file() else sorted(path for path in outside.rglob("*") if path.is_file())
    before = [path.read_bytes() for path in inner]
    with pytest.raises(StateFileError, match=f"{name} is a symbolic link"):
        federation(folder, 4)
    assert [path.read_bytes() for path in inner] == before


def test_only_segments_of_its_own_are_removed(folder: Path) -> None:
    for name in ("00000009-mine", "notes", "9"):
        shutil.copytree(folder / "decisions" / "00000001", folder / "decisions" / name)
    federation(folder, 4)
    left = {path.name for path in (folder / "decisions").iterdir()}
    assert left == {"00000001", "00000009-mine", "notes", "9"}


def test_a_recorded_federation_imports_no_code(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')\n")
    state = folder / "decisions" / "00000001" / "selector" / "state.json"
    content = json.loads(state.read_text())
    content["content"]["selector"] = "evil_module:Sel"
    del content["digest"]
    content["digest"] = storage._digest(content)  # anybody can make one
    state.write_text(json.dumps(content))
    with pytest.raises(InputError, match="a saved state never runs code"):
        replay(folder)
    assert "evil_module" not in sys.modules
