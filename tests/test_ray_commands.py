"""Commands on a Ray cluster, as a person types them: the same files as on the local engine, a client from outside, own
modules, Ctrl-C. One head serves all of them, and whatever it starts ends with it."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.ladder import rung as rung_module
from tests.ray_helpers import MARKS, TABLES, _left_open, files  # noqa: F401

ray = pytest.importorskip("ray")
pytestmark = MARKS
LONG = 600.0
"""Seconds that a command may take; a machine that does other work is slow."""
SMALL = """
[data]
clients = 8
partition = "iid"
[model]
name = "mlp"
hidden = [6]
[rounds]
rounds = 2
k = 3
[evaluation]
every = 1
"""
PERSONAL = """
target = "2"
[workers]
dataset = { name = "telecom", rows = 3000 }
[model]
name = "mlp"
[rounds]
rounds = 2
epochs = 1
pretrain = 1
"""
OWN = """
from torch import nn
from enlist import Selector

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

class First(Selector):
    def choose(self, request):
        return request.pick(request.available[: request.k])
"""
COMMANDS = {
    "sweep": ("sweep", "small.toml", "--set", "rounds.k=2,4", "--selectors", "random,oort", "--seeds", "1"),
    "ladder": ("ladder", "--selectors", "oort", "--rungs", "small", "--seeds", "2", "--alone"),
    "personalise": ("personalise", "personal.toml", "--seeds", "2"),
    "arena": ("arena", "--selectors", "random,cs-ucb", "--clients", "10", "-k", "2", "--rounds", "30", "--seeds", "2"),
    "reproduce": ("reproduce", "power-of-choice", "--scale", "smoke"),
}
MEASURED = ("server_ms", "server ms")
"""Columns of the ladder's tables that the clock gives."""


class Head(NamedTuple):
    """Where a cluster takes nodes and drivers, where it takes clients, and its folder."""

    address: str
    client: str
    folder: str


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    folder = tempfile.mkdtemp(prefix="ray-")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, client = one.getsockname()[1], other.getsockname()[1]
    words = ["start", "--head", "--block", "--num-cpus=2", "--node-ip-address=127.0.0.1", f"--temp-dir={folder}"]
    words += [f"--port={port}", f"--ray-client-server-port={client}", "--include-dashboard=false"]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RAY_worker_niceness": "0"}
    # Else gRPC's handlers of fork end the process that the head starts for a client, one time out of five.
    surroundings["GRPC_ENABLE_FORK_SUPPORT"] = "false"
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "ray"), *words, "--disable-usage-stats"],
        env=surroundings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 120
        for each in (port, client):
            while not listening(each):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.2)
        yield Head(f"127.0.0.1:{port}", f"ray://127.0.0.1:{client}", folder)
    finally:
        ray.shutdown()
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    try:
        until = time.monotonic() + 30
        while left := below(folder):
            assert time.monotonic() < until, f"left behind: {left}"
            time.sleep(0.2)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def driver(head: Head) -> Head:
    """The head, with this process as a driver."""
    if not ray.is_initialized():
        ray.init(head.address, log_to_driver=False)
    return head


def listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def command_line(pid: int | str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def below(folder: str) -> list[bytes]:
    """Processes of the cluster that lives in a folder."""
    lines = [command_line(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [line[:200] for line in lines if folder.encode() in line]


def at_work(folder: str, name: bytes) -> list[str]:
    """Processes of that cluster which do something of this name."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        if name in command_line(path.name):
            with contextlib.suppress(OSError):
                parent = path.joinpath("stat").read_text().rpartition(")")[2].split()[1]
                found += [path.name] if folder.encode() in command_line(parent) else []
    return found


def enlist(*words: str, **surroundings: str) -> subprocess.Popen[str]:
    """A command in a process of its own, which Ctrl-C reaches."""
    return subprocess.Popen(
        [sys.executable, "-c", "from enlist.cli import main; main()", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **surroundings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    """What a command said, once it has ended as it should."""
    try:
        said, _ = process.communicate(timeout=LONG)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == code, said
    return said


def tables(folder: Path) -> dict[str, Any]:
    """All tables and models below a folder, without what the clock gives."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors" or path.name == "result.json":
            found[name] = path.read_bytes()
        elif path.suffix == ".csv" and path.name != "wall.csv":
            rows = csv.DictReader(path.read_text().splitlines())
            found[name] = [{column: row[column] for column in row if column not in MEASURED} for row in rows]
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_gives_the_same_files(
    name: str, driver: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("enlist.report.page.save", lambda chart, stem, suffixes: [])
    (tmp_path / "personal.toml").write_text(PERSONAL)
    (tmp_path / "small.toml").write_text(SMALL if name == "sweep" else f'[rung]\nhard = "Small."\n{SMALL}')
    monkeypatch.setattr(rung_module, "FOLDER", tmp_path)
    monkeypatch.setattr(rung_module, "NAMES", ("small",))
    for engine in ("ray", "local"):
        done = CliRunner().invoke(app, [*COMMANDS[name], "--engine", engine, "--output", engine])
        assert done.exit_code == 0, done.output
    found = tables(tmp_path / "ray")
    assert found == tables(tmp_path / "local")
    assert len(found) >= 2


def test_a_client_outside_of_the_cluster_gives_the_same_files(head: Head, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    config = str(tmp_path / "small.toml")
    for command in (["compare", config, "--selectors", "random,oort", "--seeds", "1"], ["run", config]):
        place = tmp_path / command[0]
        ended(enlist(*command, "--engine", head.client, "--output", str(place / "ray")))
        done = CliRunner().invoke(app, [*command, "--output", str(place / "local")])
        assert done.exit_code == 0, done.output
        found = files(place / "ray")
        assert found == files(place / "local")
        assert len(found) == len(TABLES) * (2 if command[0] == "compare" else 1)


def test_own_modules_travel_and_are_trusted_where_the_driver_trusts_them(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "travelling_parts.py").write_text(OWN)
    (tmp_path / "own.toml").write_text(
        SMALL.replace('"mlp"\nhidden = [6]', '"python"\nfactory = "travelling_parts:Net"')
    )
    monkeypatch.syspath_prepend(own)  # of the driver: no node has it
    words = ["--selectors", "random,travelling_parts:First", "--seeds", "1", "--output"]
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "own.toml"), *words, str(tmp_path / "alone")])
    assert done.exit_code == 0, done.output
    # From here on somebody else, who has received a folder of these.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    command = ["compare", f"{next((tmp_path / 'alone' / 'runs' / 'random').iterdir())}/config.json", *words]
    done = CliRunner().invoke(app, [*command, str(tmp_path / "refused"), "--engine", "ray"])
    assert "add --trust" in f"{done.output} {done.exception}"
    told = {"RAY_ADDRESS": head.address}
    said = ended(enlist(*command, str(tmp_path / "lost"), "--engine", "ray", "--trust", **told), code=1)
    assert "there is no module 'travelling_parts'" in said, "no node can import it"
    ended(enlist(*command, str(tmp_path / "ray"), "--engine", f"ray?working_dir={own}", "--trust", **told))
    assert files(tmp_path / "ray") == files(tmp_path / "alone")
    assert len(files(tmp_path / "ray")) == 2 * len(TABLES)
    sys.modules.pop("travelling_parts")


def test_ctrl_c_of_a_run_leaves_nothing_behind(head: Head, tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(SMALL.replace("rounds = 2", "rounds = 20000"))
    words = ["run", str(tmp_path / "long.toml"), "--workers", "2", "--output", str(tmp_path / "run")]
    process = enlist(*words, "--engine", "ray", RAY_ADDRESS=head.address)
    try:
        until = time.monotonic() + LONG
        rounds = tmp_path / "run" / "rounds.csv"
        while not rounds.exists() or len(rounds.read_bytes().splitlines()) < 3:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.1)
        assert len(at_work(head.folder, b"ray::Host")) == 2
        process.send_signal(signal.SIGINT)
    finally:
        said = ended(process, code=130)
    assert "Continue with: enlist run" in said
    until = time.monotonic() + 30
    while left := at_work(head.folder, b"ray::Host"):
        assert time.monotonic() < until, f"training workers go on: {left}"
        time.sleep(0.2)
    assert not list(tmp_path.rglob(".enlist-*"))
