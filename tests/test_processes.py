"""Worker processes: threads of linear algebra, children that die or are stopped, and what killed programs leave."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl

from enlist.engine import Child, Task, Work, clean, local, one_core, patience, temporary_folder
from enlist.engine.leftovers import started
from enlist.errors import EnlistError, InputError
from enlist.simulation import Config, Simulation
from enlist.simulation.callbacks import Callback
from tests.process_helpers import Held, held, listen, once


def threads() -> set[int]:
    np.ones((4, 4)) @ np.ones((4, 4))
    return {each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"}


def test_one_core_and_then_as_before() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        with one_core():
            assert threads() == {1}
        assert threads() == before


def test_selectors_of_a_simulation_compute_in_one_thread() -> None:
    seen: list[set[int]] = []

    class Watch(Callback):
        def on_round(self, simulation: Any, record: Any) -> None:
            seen.append(threads())

    config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
    Simulation(config, callbacks=[Watch()]).run()
    assert seen == [{1}, {1}]


SELECTING = """
import hashlib, os, sys

if sys.argv[1] == "one":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
import numpy as np

import enlist
from enlist.engine import one_core

rng, count = np.random.default_rng(0), 2000
selector = enlist.create("fedsuv", enlist.Clients(features=rng.normal(size=(count, 6))), seed=3)
with one_core():
    for _ in range(20):
        picked = selector.ask(k=20, deadline=10.0)
        latency, loss, gain = rng.uniform(0.1, 1, (3, 20))
        selector.tell(picked, enlist.Feedback(latency=latency, loss_rms=loss, accuracy_gain=gain))
print(hashlib.sha256(selector.state.utility.mean.tobytes()).hexdigest())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be withheld from a process here")
def test_the_number_of_cores_does_not_change_the_bits() -> None:
    found = {
        cores: subprocess.run([sys.executable, "-c", SELECTING, cores], capture_output=True, text=True, check=True)
        for cores in ("one", "all")
    }
    assert found["one"].stdout == found["all"].stdout


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_task_whose_process_dies_or_is_stopped_is_done_again(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ENLIST_PATIENCE", "2")
    tasks = [(str(tmp_path / "mark"), how, number) for number in range(5)]
    found = dict(local(2).map(once, tasks, role="a helper"))
    assert found == {number: 10 * number for number in range(5)}
    reason = "was killed by SIGKILL" if how == "kill" else "was stopped for 2 s and was killed"
    assert f"{reason}" in caplog.text
    assert "another one takes its place and starts its task again" in caplog.text
    assert ("has given no sign of life" in caplog.text) == (how == "stop")


def test_a_task_that_kills_every_process_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(EnlistError, match=r"a helper \(process \d+\) was killed by SIGKILL.* use fewer --jobs"):
        list(local(2).map(once, [(str(tmp_path / "mark"), "always", 1)], role="a helper"))


def test_an_error_of_a_task_is_raised_as_it_is(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    with pytest.raises(InputError, match=r"-1 is below 0") as caught:
        list(local(2).map(once, [(str(mark), "kill", number) for number in (3, -1, 4)], role="a helper"))
    assert "in once" in caught.value.__notes__[0]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_holds_only_what_its_present_task_shares(jobs: int) -> None:
    """Cycles that tasks leave behind hold shared memory; a pass over many populations must not collect them all."""
    tasks = [Task(number, (), shares=str(number)) for number in range(8)]
    results = local(jobs).run(Work(held, "a helper"), tasks, share=lambda word: Held())
    assert max(result.value for result in results) <= 2


def test_children_end_with_whoever_leaves_them() -> None:
    ends = local(2).map(time.sleep, [(0.0,), (60.0,)], role="a sleeper")
    next(ends)
    ends.close()
    child = Child("a listener", listen)
    child.end()
    assert not child.process.is_alive()


@pytest.mark.parametrize("given", ["soon", "nan", "-3", "0"])
def test_patience_must_be_seconds(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENLIST_PATIENCE", given)
    with pytest.raises(InputError, match=f"ENLIST_PATIENCE is '{given}'; give the seconds"):
        patience()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path: that of a socket has at most 107 characters."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


LEAVING = """
import os, sys, time
from enlist.engine import local, temporary_folder

def nap(seconds):
    time.sleep(seconds)

if __name__ == "__main__":
    with temporary_folder("rehearsal") as folder:
        (folder / "half.csv").touch()
        open(f"/dev/shm/sem.loky-{os.getpid()}-test", "w").close()
        for _ in local(2).map(nap, [(0.0,), (600.0,)], role="a sleeper"):
            print("ready", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc and /dev/shm")
def test_what_a_killed_group_leaves_is_cleaned_and_nothing_else_is(tmp_path: Path, short_folder: Path) -> None:
    place = short_folder / "temporary"
    for folder in ("pymp-other", "enlist-notes", f"enlist-rehearsal-{os.getpid()}-{started(os.getpid())}-abc"):
        (place / folder).mkdir(parents=True)
    (place / "pymp-other" / "listener-x").touch()
    others = sorted(place.iterdir())
    environment = {**os.environ, "TMPDIR": str(place)}
    script = tmp_path / "leaving.py"
    script.write_text(LEAVING)
    program = subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    semaphore = Path(f"/dev/shm/sem.loky-{program.pid}-test")
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        assert clean(place) == []  # it lives
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate()
    left = [path for path in place.iterdir() if path not in others]
    assert len(left) == 2
    assert sorted([*left, semaphore]) == sorted(clean(place))
    assert sorted(place.iterdir()) == others
    assert not semaphore.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_folder_of_sockets_that_somebody_still_uses_is_left_alone() -> None:
    with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as listener:
        folder = Path(place) / "pymp-old"
        folder.mkdir()
        (folder / "enlist-999999999-1").touch()
        listener.bind(str(folder / "listener-a"))
        listener.listen()
        assert clean(Path(place)) == []
        listener.close()
        assert clean(Path(place)) == [folder]


def test_a_temporary_folder_is_gone_afterwards() -> None:
    with temporary_folder("test") as folder:
        (folder / "file").touch()
        assert clean() is not None
        assert folder.exists()
    assert not folder.exists()
