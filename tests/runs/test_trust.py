"""Code that a configuration names: what is typed runs, what a received folder names does not."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.errors import TrustError
from enlist.personal.config import load as load_personal
from enlist.runs import RunFolder, trust
from enlist.runs.trust import check_trust, folder_of, vouch
from enlist.simulation import compare, load, simulate
from enlist.simulation.config import Config

MODULE = """
from pathlib import Path
from torch import nn
from enlist.data import Digits

Path("imported").write_text("yes")

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

def digits(streams):
    return Digits().load(streams)
"""
TOML = """
[data]
clients = 6
[rounds]
rounds = 2
k = 2
[model]
name = "python"
factory = "{module}:Net"
"""
VALUES: dict[str, Any] = {"model": {"name": "python", "factory": "mynet:Net"}, "seed": 1}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A folder to work in, with a module of its own and a user without any key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (work / f"{module(request)}.py").write_text(MODULE)
    (work / "own.toml").write_text(TOML.format(module=module(request)))
    yield work
    sys.modules.pop(module(request), None)


def module(request: pytest.FixtureRequest) -> str:
    """A module of the test's own, because a module is imported once."""
    return "net_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[:60]


def typed(*words: str) -> tuple[str, BaseException | None]:
    done = CliRunner().invoke(app, list(words))
    return " ".join(done.output.split()), None if isinstance(done.exception, SystemExit) else done.exception


def other_user(place: Path, patch: pytest.MonkeyPatch) -> None:
    """From here on it is somebody else, or another machine: another state folder."""
    patch.setenv("XDG_STATE_HOME", str(place / "other-state"))
    (place / "imported").unlink(missing_ok=True)


def test_what_is_typed_runs_and_ones_own_folder_too(place: Path) -> None:
    output, error = typed("run", "own.toml", "--output", "one", "--workers", "0")
    assert error is None, output
    assert (place / "imported").exists()
    shutil.move(place / "one", place / "moved")
    assert typed("run", "moved/config.json", "--output", "two", "--workers", "0")[1] is None
    shutil.rmtree(place / "two" / "checkpoints")
    (place / "two" / "result.json").unlink()
    assert typed("run", "two/config.json", "--output", "two", "--resume", "--workers", "0")[1] is None


@pytest.mark.parametrize("command", ["run", "compare", "profile"])
def test_a_received_folder_runs_nothing(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    with RunFolder.open("one", load("own.toml").model_dump(mode="json"), resume=False, code=["a:B"]):
        pass
    other_user(place, monkeypatch)
    more: dict[str, list[str]] = {
        "compare": ["--selectors", "random", "--seeds", "1", "--jobs", "1"],
        "run": ["--workers", "0"],
    }
    words = [command, "one/config.json", *more.get(command, ["--batch-sizes", "8", "--rounds", "1"])]
    _, error = typed(*words)
    assert isinstance(error, TrustError)
    for part in (f"{module(request)}:Net", str(place / "one"), "--trust"):
        assert part in str(error)
    assert not (place / "imported").exists()
    assert not (place / "runs").exists()
    output, error = typed(*words, "--trust")
    assert error is None, output
    assert (place / "imported").exists()


SELECTOR = """
from pathlib import Path
from enlist.selectors import Random

Path("imported").write_text("yes")

class Own(Random):
    pass
"""


def test_a_selector_in_a_received_folder_is_code_too(
    place: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    name = f"{module(request)}:Own"
    (place / f"{module(request)}.py").write_text(SELECTOR)
    small = Config(data={"clients": 6}, rounds={"rounds": 2, "k": 2})
    simulate(small, name, folder="one")
    other_user(place, monkeypatch)
    del sys.modules[module(request)]
    for words in (["run", "one/config.json"], ["compare", "one/config.json", "--seeds", "1"]):
        assert name in str(typed(*words)[1])
    with pytest.raises(TrustError, match="trust=True"):
        simulate("one/config.json")
    with pytest.raises(TrustError, match="trust=True"):
        compare("one/config.json", "random", seeds=1)
    for words in (["describe", "one/config.json"], ["report", "one"]):
        output, error = typed(*words)
        assert error is None, output
    assert not (place / "imported").exists()
    assert simulate("one/config.json", trust=True).label == name
    assert (place / "imported").exists()


def test_resuming_a_received_folder_runs_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert typed("run", "own.toml", "--output", "one", "--workers", "0")[1] is None
    other_user(place, monkeypatch)
    words = ("run", "one/config.json", "--output", "one", "--resume", "--workers", "0")
    assert isinstance(typed(*words)[1], TrustError)
    assert isinstance(typed(*words, "--set", "rounds.k=2")[1], TrustError)
    assert not (place / "imported").exists()
    assert "already finished" in typed("run", "own.toml", "--output", "one", "--resume")[0], "typed, so it may"


def test_personalise_draws_the_same_line(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"workers": {"dataset": {"name": "python", "factory": "mynet:digits"}}, **VALUES}
    (place / "one").mkdir()
    (place / "one" / "config.json").write_text(json.dumps(config))
    with pytest.raises(TrustError, match="mynet:digits, mynet:Net"):
        load_personal("one/config.json")
    assert load_personal("one/config.json", trust=True).code() == ("mynet:digits", "mynet:Net")
    _, error = typed("personalise", "one/config.json")
    assert isinstance(error, TrustError)


def test_what_set_names_was_typed(place: Path) -> None:
    (place / "one").mkdir()
    (place / "one" / "config.json").write_text(json.dumps(VALUES))
    assert load("one/config.json", ["model.factory=other:Net"]).code() == ("other:Net",)
    assert load("one/config.json", ['model.factory="mynet:Net"']).code() == ("mynet:Net",)
    for change in ("rounds.k=3", "seed=2", "model.options.text=notmynet:Net"):
        with pytest.raises(TrustError):
            load("one/config.json", [change])


def test_describe_does_not_import_the_model(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, error = typed("describe", "own.toml", "--output", "seen")
    assert error is None, output
    assert "its size is unknown" in output
    assert not (place / "imported").exists()
    other_user(place, monkeypatch)
    assert typed("describe", "seen/config.json", "--output", "again")[1] is None
    assert not (place / "imported").exists()
    for folder in ("seen", "again"):  # describing is not vouching
        assert isinstance(typed("run", f"{folder}/config.json", "--workers", "0")[1], TrustError)


def test_describe_asks_about_data_that_is_code(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "one").mkdir()
    config = {"data": {"dataset": {"name": "python", "factory": "mydata:load"}}}
    (place / "one" / "config.json").write_text(json.dumps(config))
    _, error = typed("describe", "one/config.json", "--output", "seen")
    assert isinstance(error, TrustError)
    assert "mydata:load" in str(error)


def test_report_imports_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert typed("run", "own.toml", "--output", "one", "--workers", "0")[1] is None
    other_user(place, monkeypatch)
    config = json.loads((place / "one" / "config.json").read_text())
    config["model"]["factory"] = "subprocess:getoutput"
    (place / "one" / "config.json").write_text(json.dumps(config))
    output, error = typed("report", "one")
    assert error is None, output
    assert not (place / "imported").exists()


@pytest.mark.parametrize("change", ["key", "value", "note", "identity", "no note", "no key", "other key", "open key"])
def test_what_makes_a_folder_somebody_elses(change: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place / "one"
    folder.mkdir()
    vouch(folder, VALUES)
    check_trust(folder, VALUES, ["mynet:Net"])
    values, key, note = dict(VALUES), trust.state_folder() / "key", folder / "origin.json"
    content = json.loads(note.read_text())
    if change == "key":
        values["more"] = 1
    elif change == "value":
        values["seed"] = 2
    elif change == "note":
        note.write_text(json.dumps({**content, "hmac": "0" * 64}))
    elif change == "identity":
        note.write_text(json.dumps({**content, "identity": "0" * 32}))
    elif change == "no note":
        note.unlink()
    elif change == "no key":
        key.unlink()
    elif change == "other key":
        key.write_bytes(bytes(32))
    else:
        key.chmod(0o644)
    with pytest.raises(TrustError, match="mynet:Net"):
        check_trust(folder, values, ["mynet:Net"])
    check_trust(folder, values, ["mynet:Net"], trust=True)
    check_trust(folder, values, [])


def test_the_key_is_private_and_made_once(place: Path) -> None:
    folder = place / "one"
    folder.mkdir()
    vouch(folder, VALUES)
    key = trust.state_folder() / "key"
    assert len(key.read_bytes()) == 32
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [path.name for path in key.parent.iterdir()] == ["key"]
    before = key.read_bytes()
    vouch(folder, VALUES)
    assert key.read_bytes() == before
    assert before.hex() not in (folder / "origin.json").read_text()


@pytest.mark.parametrize("what", ["key", "folder"])
def test_a_key_behind_a_link_is_not_used(what: str, place: Path, caplog: pytest.LogCaptureFixture) -> None:
    state, folder = trust.state_folder(), place / "one"
    folder.mkdir()
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "key").write_bytes(bytes(32))
    (place / "elsewhere" / "key").chmod(0o600)
    state.parent.mkdir()
    if what == "folder":
        state.symlink_to(place / "elsewhere", target_is_directory=True)
    else:
        state.mkdir()
        (state / "key").symlink_to(place / "elsewhere" / "key")
    vouch(folder, VALUES)
    assert not (folder / "origin.json").exists()
    assert "cannot be marked as yours" in caplog.text


def test_without_a_home_runs_still_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "file").write_text("x")
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "file"))
    output, error = typed("run", "own.toml", "--output", "one", "--workers", "0")
    assert error is None, output
    assert isinstance(typed("run", "one/config.json", "--workers", "0")[1], TrustError)


def test_code_that_lies_in_the_folder_is_never_ones_own(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note vouches for a name; a module that came with the folder has that name too."""
    folder = place / "one"
    folder.mkdir()
    vouch(folder, VALUES)
    (folder / "mynet.py").write_text("raise SystemExit('run')")
    check_trust(folder, VALUES, ["mynet:Net"])
    monkeypatch.chdir(folder)
    with pytest.raises(TrustError, match="module 'mynet' lies in that folder"):
        check_trust(folder, VALUES, ["mynet:Net"])


def test_which_files_are_a_run_folders(place: Path) -> None:
    (place / "one").mkdir()
    for name in ("config.json", "copy.json", "own.toml", "environment.json"):
        (place / "one" / name).write_text("{}")
    (place / "link.json").symlink_to("one/config.json")
    (place / "mine.json").write_text("{}")
    found = {name: folder_of(name) for name in ("one/config.json", "one/copy.json", "one/own.toml", "mine.json")}
    assert found == {
        "one/config.json": place / "one",
        "one/copy.json": place / "one",
        "one/own.toml": None,
        "mine.json": None,
    }
    assert folder_of("link.json") == place / "one"


def test_runs_without_code_leave_no_note(place: Path) -> None:
    with RunFolder.open("one", Config().model_dump(mode="json"), resume=False, code=Config().code()):
        pass
    assert not (place / "one" / "origin.json").exists()
    assert not trust.state_folder().exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this platform")
def test_a_configuration_that_is_a_pipe_does_not_hang(place: Path) -> None:
    (place / "one").mkdir()
    os.mkfifo(place / "one" / "config.json")
    _, error = typed("run", "one/config.json")
    assert "is not a plain file" in str(error)
