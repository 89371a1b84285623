"""A Flower federation on loopback, started and stopped by tests: programs, a SuperLink, SuperNodes, runs.

Every wait has a limit, and what went wrong is reported with the last lines of every program's log.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

EXAMPLE = Path(__file__).parents[3] / "examples" / "flower-quickstart"
TINY = Path(__file__).parent / "tiny_app"
TAIL = 40
"""Lines of each log in the message of a failure."""
POLITE = 5.0
"""Seconds that a program has to end by itself."""
SLOW = 180.0
"""Seconds that one of Flower's programs may take to start, beside whatever else the machine does."""
LIVELY = 10.0
"""Times as long as a silent run, a run that still writes to its log may last."""

Found = TypeVar("Found")


class DeploymentError(Exception):
    """A program did not do what a test relies on."""


def living(home: Path) -> dict[int, str]:
    """Process id and command line of everything that runs with this FLWR_HOME in its environment.

    Flower's programs start others that leave their process group and outlive them; this finds those as well.
    """
    mark = f"FLWR_HOME={home}".encode()
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone in the meantime, or somebody else's
            if mark in (place / "environ").read_bytes().split(b"\0"):
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return found


def end_all(home: Path, how: signal.Signals) -> None:
    """Send a signal to everything that runs with this FLWR_HOME."""
    for process in living(home):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, how)


class Programs:
    """What was started in one folder: programs with their logs, and all that these started in turn."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.home.mkdir(parents=True)
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.lasting: set[str] = set()
        self._ray = tempfile.mkdtemp(prefix="enlist-")  # paths of Ray's sockets must be short
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FLWR_", "RAY_"))}
        self.environment = {
            **inherited,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.4",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": self._ray,
            "RAY_worker_niceness": "0",  # Ray makes its workers as nice as 15: beside other work they would starve
            "OMP_NUM_THREADS": "1",
            "NO_PROXY": "127.0.0.1",
            "NO_COLOR": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self._guardian = subprocess.Popen(
            [sys.executable, __file__, self.home, self._ray], stdin=subprocess.PIPE, start_new_session=True
        )

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def open(self) -> None:
        """Start what belongs to it."""

    def start(self, name: str, *command: str | Path, lasting: bool = True) -> None:
        """Start a program, its output appended to NAME.log; one that is `lasting` must not end by itself."""
        words = list(map(str, command))
        with open(self.log(name), "ab") as log:
            self.started[name] = subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        if lasting:
            self.lasting.add(name)

    def call(self, *command: str | Path, limit: float = SLOW) -> str:
        """Run a command to its end and return what it printed."""
        words = list(map(str, command))
        try:
            done = subprocess.run(
                words, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=limit, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise self.failed(
                f"`{' '.join(words)}` took more than {limit:.0f} s; it printed {error.output!r}"
            ) from None
        if done.returncode:
            raise self.failed(f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def kill(self, name: str) -> None:
        """End a program and its process group by SIGKILL."""
        program = self.started.pop(name)
        self.lasting.discard(name)
        _signal_group(program, signal.SIGKILL)
        program.wait()

    def until(self, what: str, check: Callable[[], Found | None], limit: float, every: float = 0.2) -> Found:
        """Wait until `check` returns something true, and return it."""
        end = time.monotonic() + limit
        while not (found := check()):
            if time.monotonic() > end:
                raise self.failed(f"waited {limit:.0f} s in vain for {what}")
            for name in self.lasting:
                if (code := self.started[name].poll()) is not None:
                    raise self.failed(f"{name} ended with {code} while waiting for {what}")
            time.sleep(every)
        return found

    def stop(self) -> None:
        """End everything, politely first, and make sure that nothing is left."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            for program in self.started.values():
                _signal_group(program, how)
            end_all(self.home, how)
            end = time.monotonic() + POLITE
            while self._some_run() and time.monotonic() < end:
                time.sleep(0.1)
        left = self.failed(f"these processes could not be ended: {living(self.home)}") if self._some_run() else None
        self._guardian.communicate()
        if left:
            raise left

    def _some_run(self) -> bool:
        waiting = [program for program in self.started.values() if program.poll() is None]
        return bool(waiting or living(self.home))

    def log(self, name: str) -> Path:
        """Where the output of a program goes."""
        return self.folder / f"{name}.log"

    def text(self, name: str) -> str:
        """What a program has printed so far."""
        with contextlib.suppress(FileNotFoundError):
            return self.log(name).read_text(errors="replace")
        return ""

    def failed(self, reason: str) -> DeploymentError:
        """An error with the ends of all logs."""
        ends = [f"--- {path.name}\n" + "\n".join(self.text(path.stem).splitlines()[-TAIL:]) for path in self.logs()]
        return DeploymentError("\n".join([reason, *ends]))

    def logs(self) -> list[Path]:
        """All logs by name."""
        return sorted(self.folder.glob("*.log"))


class SuperLink(Programs):
    """A SuperLink on a free port; `arguments` say how it is secured, `connection` how `flwr` connects to it."""

    def __init__(self, folder: Path, *arguments: str | Path, connection: str) -> None:
        super().__init__(folder)
        self.arguments, self.connection, self.runs, self.port = arguments, connection, 0, 0

    def open(self) -> None:
        """Start it and tell `flwr` of it, under the name lab."""
        self.port = free_port()
        offline = ("--disable-runtime-dependency-installation", "--port", str(self.port))
        self.start("superlink", "flower-superlink", *self.arguments, *offline)
        self.until("the SuperLink to listen", lambda: "Uvicorn running" in self.text("superlink"), limit=SLOW)
        address = f'address = "127.0.0.1:{self.port}"'
        lines = ("[superlink]", 'default = "lab"', "[superlink.lab]", address, self.connection)
        (self.home / "config.toml").write_text("\n".join(lines))

    def run(self, app: Path, *arguments: str, **config: str | float) -> Run:
        """Submit an app with `flwr run`, under this run configuration; its log is followed into NAME.log."""
        self.runs += 1
        name = f"run{self.runs}"
        settings = " ".join(f"{key.replace('_', '-')}={json.dumps(value)}" for key, value in config.items())
        words = ("flwr", "run", str(app), "lab", "--stream", "--run-config", settings, *arguments)
        self.start(name, *words, lasting=False)
        started = re.compile(r"Successfully started run (\d+)")
        match = self.until(f"`{' '.join(words)}`", lambda: started.search(self.text(name)), limit=SLOW)
        return Run(self, match[1], name)

    def process(self, word: str) -> int | None:
        """The id of the first process with this word in its command line, or None."""
        return next((process for process, command in living(self.home).items() if word in command), None)


class Federation(SuperLink):
    """A SuperLink with TLS that admits only registered SuperNodes, and these SuperNodes."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.keys, self.nodes = folder / "keys", nodes
        pair = ("--ssl-certfile", self.keys / "server.pem", "--ssl-keyfile", self.keys / "server.key")
        authority = self.keys / "ca.crt"
        arguments = (*pair, "--ssl-ca-certfile", authority, "--enable-supernode-auth")
        super().__init__(folder, *arguments, connection=f"root-certificates = {json.dumps(str(authority))}")

    def open(self) -> None:
        """Make keys, start the SuperLink, register the SuperNodes and start them."""
        self.call(sys.executable, EXAMPLE / "credentials.py", self.keys, "--nodes", str(self.nodes))
        super().open()
        for node in range(self.nodes):
            self.call("flwr", "supernode", "register", self.keys / f"node{node}.pub", "lab")
        for node in range(self.nodes):
            self.start_node(node)
        for node in range(self.nodes):
            self.wait_for_node(node)

    def start_node(self, node: int) -> None:
        """Start a SuperNode, or restart it after `kill`."""
        self.log(f"node{node}").unlink(missing_ok=True)
        part = f"partition-id={node} num-partitions={self.nodes}"
        trust = ("--root-certificates", self.keys / "ca.crt", "--auth-supernode-private-key", self.keys / f"node{node}")
        address = ("--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port()))
        self.start(f"node{node}", "flower-supernode", *trust, *address, "--node-config", part)

    def wait_for_node(self, node: int) -> int:
        """Wait until the SuperLink has admitted a SuperNode; returns the id that it was given."""
        found = re.compile(r"SuperNode ID: (\d+)")
        match = self.until(f"node{node} to be admitted", lambda: found.search(self.text(f"node{node}")), limit=SLOW)
        return int(match[1])


class Run:
    """A run that was submitted; the program NAME follows its log until it ends."""

    def __init__(self, link: SuperLink, identity: str, name: str) -> None:
        self.link, self.identity, self.name = link, identity, name

    @property
    def status(self) -> str:
        """As `flwr ls` has it; exit codes of `flwr run` say nothing."""
        answer = self.link.call("flwr", "ls", "lab", "--run-id", self.identity, "--format", "json")
        return str(json.loads(answer)["runs"][0]["status"])

    def finish(self, limit: float) -> str:
        """Wait for the end of the run; returns its status.

        A run that works is waited for: Flower starts a process for every message, and on a busy machine that takes 20 s
        instead of 3. `limit` seconds without a new line in its log are too many, and so are ten times as many in all.
        """
        end = time.monotonic() + LIVELY * limit
        follower = self.link.started[self.name]
        while follower.poll() is None:
            quiet = min(limit, max(end - time.monotonic(), 0.0))
            written = len(self.link.text(self.name))
            self.link.until(f"a new line in the log of {self.name}, or its end", self._moved(written), quiet)
        return self.link.until(f"{self.name} to end", self._final, SLOW, every=1.0)

    def _moved(self, written: int) -> Callable[[], bool]:
        """Whether the run has ended, or has written more than this many characters."""
        follower = self.link.started[self.name]
        return lambda: follower.poll() is not None or len(self.link.text(self.name)) > written

    def _final(self) -> str | None:
        status = self.status
        return status if status.startswith("finished") else None


def _signal_group(program: subprocess.Popen[bytes], how: signal.Signals) -> None:
    if program.poll() is None:  # else its number may belong to somebody else by now
        os.killpg(program.pid, how)


def free_port() -> int:
    """A port that nobody listens on, below those that the system gives to outgoing connections."""
    for _ in range(100):
        port = 15_000 + secrets.randbelow(15_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise DeploymentError("all of a hundred ports between 15000 and 30000 are taken")


if __name__ == "__main__":  # the guardian: when the tests are gone, even by SIGKILL, so is all that they started
    sys.stdin.read()
    for _ in range(100):
        if not living(Path(sys.argv[1])):
            break
        end_all(Path(sys.argv[1]), signal.SIGKILL)
        time.sleep(0.1)
    shutil.rmtree(sys.argv[2], ignore_errors=True)
