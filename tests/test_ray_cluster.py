"""A Ray cluster on one machine, a head and two more nodes, of which one is killed in mid-comparison and one in
mid-training: the same bytes as on the local engine. Besides: the death of a head and of a driver, Ctrl-C, a node of
other versions."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from enlist.simulation import Config, Recorder, Simulation, compare, simulate
from enlist.simulation.callbacks import Callback
from tests.ray_helpers import MARKS, TABLES, _left_open, files, hidden  # noqa: F401

ray = pytest.importorskip("ray")
os.environ.setdefault("RAY_worker_niceness", "0")  # else workers starve on a machine that is busy
from ray.cluster_utils import Cluster  # noqa: E402

from enlist.engine.ray import RayEngine  # noqa: E402
from enlist.errors import InputError  # noqa: E402
from enlist.runs import RunFolder  # noqa: E402
from enlist.training.remote import RemoteWorkers  # noqa: E402

pytestmark = MARKS
LONG = 900.0
"""Seconds that a command may take; a machine that does other work is slow."""
CONFIG = Config(
    data={"clients": 12},
    rounds={"rounds": 40, "k": 4, "over_commit": 1.4, "deadline": 40.0, "late": "merge"},
    training={"steps": 5},
    evaluation={"every": 2},
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(2):
            made.add_node(num_cpus=1)
        ray.init(made.address, log_to_driver=False)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def processes(node: Any) -> tuple[int, list[int]]:
    """The raylet of a node, and what it has started."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = [path.read_text().split() for path in Path(f"/proc/{raylet}/task").glob("*/children")]
    return raylet, [int(pid) for pids in found for pid in pids]


def runs_on(node: Any) -> list[Path]:
    """The folders of the runs of a comparison that a node does: its processes hold their locks."""
    found = []
    for pid in set(processes(node)[1]) & set(at_work()):
        with contextlib.suppress(OSError):
            opened = [Path(os.readlink(link)) for link in Path(f"/proc/{pid}/fd").iterdir()]
            found += [path.parent for path in opened if path.name == "lock"]
    return found


def last_checkpoint(run: Path) -> int:
    """The round of the last whole checkpoint in the folder of a run; 0 if there is none."""
    whole = [path for path in run.glob("checkpoints/[0-9]*") if path.suffix != ".partial"]
    return max((int(path.name[:8]) for path in whole), default=0)


def done(run: Path) -> list[int]:
    """Every round that was ever done for a run, again if it was done again; wall.csv is not cut back."""
    place = run / "wall.csv"
    return [int(line.split(",")[0]) for line in place.read_text().splitlines()[1:]] if place.exists() else []


def standing(runs: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """The last checkpoint of each run, and how many rounds were done."""
    return {run: (last_checkpoint(run), len(done(run))) for run in runs}


def assert_went_on(before: dict[Path, tuple[int, int]]) -> None:
    """No round was done after that which the last checkpoint held already."""
    assert any(checkpoint for checkpoint, _ in before.values())
    for run, (checkpoint, count) in before.items():
        assert done(run)[count] > checkpoint, "not from the first round"


def kill(cluster: Any, node: Any = None) -> None:
    """The power of one node fails: its raylet is killed, and whatever it has started; workers alone might stay."""
    node = node or next(iter(cluster.worker_nodes))
    cluster.worker_nodes.remove(node)
    raylet, started = processes(node)
    for pid in (raylet, *started):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_samples_and_models_lie_once_on_each_node(cluster: Any) -> None:
    with RayEngine() as engine, Simulation(CONFIG.with_method("random"), workers=3, engine=engine) as simulation:
        crew = simulation.trainer.crew
        assert isinstance(crew, RemoteWorkers)
        simulation.step()
        found = ray.experimental.get_object_locations([*crew.data, *crew.placed.values()])
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        assert len(alive) == 3
        for reference in crew.data:
            assert set(found[reference]["node_ids"]) == alive, "one worker each, and one copy each"
        for reference in crew.placed.values():
            assert set(found[reference]["node_ids"]) <= alive


@pytest.mark.parametrize("seen", [True, False], ids=["shared storage", "sent back"])
def test_a_node_that_dies_in_mid_comparison_loses_only_its_runs(
    seen: bool, cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not seen:  # no node finds the folder of the driver: what a lost run has written is lost with it
        monkeypatch.setattr("enlist.simulation.jobs.TaskFolder", hidden)
    if len(cluster.worker_nodes) < 2:  # the other case has killed one
        cluster.add_node(num_cpus=1)
    config = CONFIG.model_copy(update={"rounds": CONFIG.rounds.model_copy(update={"rounds": 200})})
    dead: list[dict[Path, tuple[int, int]]] = []

    def tick(*news: Any) -> None:
        for node in [] if dead else list(cluster.worker_nodes):
            runs = runs_on(node)
            if any(map(last_checkpoint, runs)):
                dead.append(standing(runs))
                kill(cluster, node)
                return

    with RayEngine() as engine:
        found = compare(config, "random,oort", seeds=2, folder=tmp_path / "ray", engine=engine, tick=tick)
    assert not found.failed
    assert len(dead) == 1
    assert "a process of the comparison of the Ray cluster was lost" in caplog.text
    if seen:
        assert_went_on(dead[0])
    compare(config, "random,oort", seeds=2, folder=tmp_path / "alone")
    assert len(files(tmp_path / "ray")) == 4 * len(TABLES)
    assert files(tmp_path / "ray") == files(tmp_path / "alone")


class Killer(Callback):
    """Kills a node after the third round."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster

    def on_round(self, simulation: Simulation, record: Any) -> None:
        if simulation.round == 3:
            kill(self.cluster)


def test_a_node_that_dies_in_mid_training_changes_no_bit(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    simulate(CONFIG, "oort", folder=tmp_path / "alone")
    settings = CONFIG.with_method("oort").recorded()
    values = settings.model_dump(mode="json")
    with (
        RayEngine() as engine,
        RunFolder.open(tmp_path / "ray", values, resume=False, tables=settings.tables()) as opened,
    ):
        count = engine.slots()
        assert count >= 2, "the head, and a node that is to die"
        recorder = Recorder(opened)
        with Simulation(settings, workers=count, engine=engine, callbacks=[recorder, Killer(cluster)]) as simulation:
            simulation.run()
    assert "a training worker of the Ray cluster was lost" in caplog.text
    assert files(tmp_path / "ray") == files(tmp_path / "alone")


def test_a_node_of_another_version_is_refused(cluster: Any, tmp_path: Path) -> None:
    metadata = tmp_path / "torch-0.4.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.4.1\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": path})
    try:
        with pytest.raises(
            InputError, match=r"of the Ray cluster has torch 0\.4\.1, and here it is .*Install the same"
        ):
            RayEngine()
    finally:
        cluster.remove_node(node)


class Command:
    """A comparison or another command, typed in a terminal."""

    def __init__(self, place: Path, *words: str, rounds: int = 400) -> None:
        place.mkdir(exist_ok=True)
        self.config, self.folder = place / "config.json", place / "out"
        self.words = words or ("compare", "--selectors", "random,oort", "--seeds", "2")
        values = CONFIG.model_dump(mode="json")
        values["rounds"]["rounds"] = rounds
        self.config.write_text(json.dumps(values))

    def start(self, address: str, *more: str) -> subprocess.Popen[str]:
        """Begin, or go on."""
        words = [self.words[0], str(self.config), *self.words[1:], "--output", str(self.folder), *more]
        command = [sys.executable, "-c", "from enlist.cli import main; main()", *words]
        surroundings = {**os.environ, "RAY_ADDRESS": address, "PYTHONPATH": os.pathsep.join(sys.path)}
        # As in a terminal; a program in the background of a shell ignores Ctrl-C, and so do those that it starts.
        begin = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        how: dict[str, Any] = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "preexec_fn": begin,
            "start_new_session": True,
            "text": True,
        }
        return subprocess.Popen(command, env=surroundings, **how)

    def grow(self, process: subprocess.Popen[str], what: str = "rounds.csv") -> None:
        """Wait until the process writes rounds, or something else."""
        begun = time.time()
        while not any(changed(path) > begun for path in self.folder.rglob(what)):
            assert process.poll() is None, process.communicate()[0]
            assert time.time() < begun + LONG
            time.sleep(0.1)


def changed(path: Path) -> float:
    """When a file was written; a checkpoint may go at any time, because there is a newer one."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def at_work() -> list[int]:
    """Processes of a cluster that do runs of a comparison."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [int(path.parent.name)] if b"ray::a process of the comparison" in path.read_bytes() else []
    return found


def test_after_the_death_of_a_head_and_after_ctrl_c_the_same_command_goes_on(tmp_path: Path) -> None:
    command, head = Command(tmp_path / "ray"), {"num_cpus": 2, "include_dashboard": False}
    own = Cluster(initialize_head=True, head_node_args=head)
    begun = command.start(own.address, "--engine", "ray")
    command.grow(begun)
    for processes in own.head_node.all_processes.values():
        for each in processes:
            os.kill(each.process.pid, signal.SIGKILL)
    said, _ = begun.communicate(timeout=200)
    assert begun.returncode == 2, said
    assert "the head of the Ray cluster at" in said
    assert "repeat the same command" in said
    own.shutdown()
    own = Cluster(initialize_head=True, head_node_args=head)
    try:
        again = command.start(own.address, "--engine", "ray")
        command.grow(again)
        again.send_signal(signal.SIGINT)
        said, _ = again.communicate(timeout=200)
        assert again.returncode == 130, said
        assert "Continue with: enlist compare" in said
        assert not list(command.folder.rglob(".enlist-*")), "no sign is left"
        until = time.monotonic() + 20
        while at_work():
            assert time.monotonic() < until, "remote work goes on"
            time.sleep(0.2)
        last = command.start(own.address, "--engine", "ray")
        said, _ = last.communicate(timeout=LONG)
        assert last.returncode == 0, said
    finally:
        own.shutdown()
    alone = Command(tmp_path / "alone")
    said, _ = (local := alone.start("", "--jobs", "2")).communicate(timeout=LONG)
    assert local.returncode == 0, said
    assert len(files(command.folder)) == 4 * len(TABLES)
    assert files(command.folder) == files(alone.folder)


WAYS = ("--engine", "ray"), ("--engine", "local")


@pytest.mark.parametrize(
    ("words", "going_on"),
    [(("run",), ("--resume", "--workers", "2")), (("compare", "--selectors", "random,oort", "--seeds", "1"), ())],
    ids=["run", "compare"],
)
def test_a_driver_that_is_killed_goes_on_with_another_engine(
    words: tuple[str, ...], going_on: tuple[str, ...], cluster: Any, tmp_path: Path
) -> None:
    """On the cluster and killed, on this machine and killed, on the cluster again: as if nobody had disturbed it."""
    if not cluster.worker_nodes:  # other tests have killed them
        cluster.add_node(num_cpus=1)
    command = Command(tmp_path / "ray", *words, rounds=200)
    killed = []
    for number in range(3):
        process = command.start(cluster.address, *WAYS[number % 2], *(going_on if number else ()))
        if number < 2:
            command.grow(process, "checkpoints/*[0-9]/model.safetensors")  # whole: something to go on from
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            assert not list(command.folder.rglob("result.json")), "killed before the end"
            killed.append(standing(filter(last_checkpoint, [command.folder, *command.folder.glob("runs/*/*")])))
    said, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    for before in killed:
        assert_went_on(before)
    alone = Command(tmp_path / "alone", *words, rounds=200)
    said, _ = (local := alone.start("", "--engine", "local")).communicate(timeout=LONG)
    assert local.returncode == 0, said
    assert len(files(command.folder)) >= len(TABLES)
    assert files(command.folder) == files(alone.folder)
