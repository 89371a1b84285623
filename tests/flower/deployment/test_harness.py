"""The harness leaves nothing running, whatever happens, and says what went wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.flower.deployment import harness
from tests.flower.deployment.harness import DeploymentError, Programs, Run, SuperLink, living

SLEEP = "import time; time.sleep(600)"
DETACH = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True); {SLEEP}"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); {SLEEP}"


def nothing_runs(home: Path) -> bool:
    """Within a few seconds."""
    end = time.monotonic() + 20.0
    while living(home) and time.monotonic() < end:
        time.sleep(0.1)
    return not living(home)


def test_what_left_its_process_group_is_ended_as_well(tmp_path: Path) -> None:
    with Programs(tmp_path / "lab") as programs:
        programs.start("parent", sys.executable, "-c", DETACH)
        programs.until("a parent and its child", lambda: len(living(programs.home)) == 2, limit=20.0)
    assert not living(programs.home)


def test_what_ignores_a_polite_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "POLITE", 0.5)
    with Programs(tmp_path / "lab") as programs:
        programs.start("stubborn", sys.executable, "-c", STUBBORN)
        programs.until("it to be ready", lambda: "ready" in programs.text("stubborn"), limit=20.0)
    assert not living(programs.home)


def test_a_failing_test_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Programs(tmp_path / "lab") as programs:  # noqa: PT012
        programs.start("sleeper", sys.executable, "-c", SLEEP)
        _ = 1 / 0
    assert not living(programs.home)


def test_a_killed_test_leaves_nothing(tmp_path: Path) -> None:
    lines = (
        "import sys, time",
        "from pathlib import Path",
        f"sys.path.insert(0, {str(Path(__file__).parents[3])!r})",
        "from tests.flower.deployment.harness import Programs",
        f"Programs(Path({str(tmp_path / 'lab')!r})).start('parent', sys.executable, '-c', {DETACH!r})",
        "time.sleep(600)",
    )
    home = tmp_path / "lab" / "home"
    with subprocess.Popen([sys.executable, "-c", "\n".join(lines)]) as test:
        end = time.monotonic() + 20.0
        while len(living(home)) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        assert len(living(home)) == 2
        os.kill(test.pid, signal.SIGKILL)
    assert nothing_runs(home)


def test_a_wait_in_vain_shows_the_logs(tmp_path: Path) -> None:
    with Programs(tmp_path / "lab") as programs:
        programs.start("talker", sys.executable, "-c", f"print('what it said', flush=True); {SLEEP}")
        programs.until("it to speak", lambda: programs.text("talker"), limit=20.0)
        with pytest.raises(DeploymentError, match=r"(?s)1 s in vain for a miracle.*talker.log.*what it said"):
            programs.until("a miracle", lambda: None, limit=1.0)


def test_a_program_that_ends_too_early_is_noticed(tmp_path: Path) -> None:
    with Programs(tmp_path / "lab") as programs:
        programs.start("weak", sys.executable, "-c", "raise SystemExit(3)")
        with pytest.raises(DeploymentError, match="weak ended with 3 while waiting for a miracle"):
            programs.until("a miracle", lambda: None, limit=20.0)


def test_a_command_that_fails_is_shown(tmp_path: Path) -> None:
    with Programs(tmp_path / "lab") as programs, pytest.raises(DeploymentError, match=r"(?s)ended with 1.*broken"):
        programs.call(sys.executable, "-c", "raise SystemExit('broken')")


class Silent(SuperLink):
    """A SuperLink without Flower, whose runs are programs of the test."""

    def open(self) -> None:
        """Nothing to start."""

    def call(self, *command: str | Path, limit: float = 1.0) -> str:
        return '{"runs": [{"status": "finished:completed"}]}'


def talking(pause: float, lines: int) -> str:
    return f"import time\nfor _ in range({lines}):\n    time.sleep({pause})\n    print('step', flush=True)"


def test_a_slow_run_is_waited_for_as_long_as_it_writes(tmp_path: Path) -> None:
    with Silent(tmp_path / "lab", connection="") as link:
        link.start("run1", sys.executable, "-c", talking(0.5, 12), lasting=False)
        began = time.monotonic()
        assert Run(link, "1", "run1").finish(limit=3.0) == "finished:completed"
        assert time.monotonic() - began > 5.0


def test_a_run_that_writes_nothing_is_given_up(tmp_path: Path) -> None:
    with Silent(tmp_path / "lab", connection="") as link:
        link.start("run1", sys.executable, "-c", SLEEP, lasting=False)
        with pytest.raises(DeploymentError, match="2 s in vain for a new line in the log of run1"):
            Run(link, "1", "run1").finish(limit=2.0)


def test_a_run_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "LIVELY", 1.5)
    with Silent(tmp_path / "lab", connection="") as link:
        link.start("run1", sys.executable, "-c", talking(0.2, 1000), lasting=False)
        with pytest.raises(DeploymentError, match="in vain for a new line"):
            Run(link, "1", "run1").finish(limit=2.0)
