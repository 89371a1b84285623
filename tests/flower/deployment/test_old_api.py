"""Flower's old API for real: a server and clients that talk to each other."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from enlist.flower import replay
from enlist.runs import read_run

APP = Path(__file__).parent / "old_app"
QUIET = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

pytestmark = pytest.mark.verify


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server takes connections."""
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0 or server.poll() is not None:
                return
        time.sleep(0.1)


def start(log: Path, script: str, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen([sys.executable, APP / script, *arguments], stdout=file, stderr=file, env=QUIET)


def test_start_server_and_clients(tmp_path: Path) -> None:
    """Twice, the second time in the same folder: rounds go on, and names are known again."""
    for rounds in (3, 6):
        port = str(free_port())
        server = start(tmp_path / "server.log", "server.py", port, str(tmp_path / "run"))
        listening(int(port), server)
        names = ("phone-1", "phone-2", "phone-3")
        clients = [start(tmp_path / f"{name}.log", "client.py", port, name) for name in names]
        try:
            assert server.wait(120.0) == 0, (tmp_path / "server.log").read_text()
        finally:
            for process in (server, *clients):
                process.kill()
                process.wait()
        found = read_run(tmp_path / "run")
        assert found.rounds["round"].tolist() == list(range(1, rounds + 1))
    assert set(found.participations["outcome"]) == {"completed"}
    assert len(found.participations["outcome"]) == 12
    assert {name for name in found.clients["id"] if name.startswith("phone")} <= {"phone-1", "phone-2", "phone-3"}
    assert found.rounds["loss"].tolist() == [0.5] * 6
    assert len(replay(tmp_path / "run")) == 6
