"""A Ray cluster on one machine, a head and two more nodes, of which one is killed in mid-comparison and one in
mid-training: the same bytes as on the local engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enlist.simulation import Config, Recorder, Simulation, compare, simulate
from enlist.simulation.callbacks import Callback

ray = pytest.importorskip("ray")
os.environ.setdefault("RAY_worker_niceness", "0")  # else workers starve on a machine that is busy
from ray.cluster_utils import Cluster  # noqa: E402

from enlist.engine.ray import RayEngine  # noqa: E402
from enlist.runs import RunFolder  # noqa: E402

# Ray itself leaves files open; Python tells of them when it collects garbage, in whatever test that happens.
LEFT_OPEN = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::FutureWarning:ray")
pytestmark = [pytest.mark.verify, *map(pytest.mark.filterwarnings, LEFT_OPEN)]
CONFIG = Config(
    data={"clients": 12},
    rounds={"rounds": 40, "k": 4, "over_commit": 1.4, "deadline": 40.0, "late": "use"},
    training={"steps": 5},
    evaluation={"every": 2},
)
TABLES = ("rounds.csv", "participations.csv", "clients.csv", "result.json", "model.safetensors")


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


def kill(cluster: Any) -> None:
    """The power of one node fails: its raylet is killed at once, and its workers notice that."""
    node = cluster.worker_nodes.pop()
    os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for name in TABLES for path in folder.rglob(name)}


def test_a_node_that_dies_in_mid_comparison_loses_only_its_runs(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    under_way: set[tuple[Any, ...]] = set()

    def tick(*news: Any) -> None:
        if news[-1]["status"] == "running" and len(under_way) < 3:
            under_way.add(news[:-1])
            if len(under_way) == 3:  # one on each node
                kill(cluster)

    with RayEngine() as engine:
        found = compare(CONFIG, "random,oort", seeds=2, folder=tmp_path / "ray", engine=engine, tick=tick)
    assert not found.failed
    assert len(under_way) == 3
    assert "a process of the comparison of the Ray cluster was lost" in caplog.text
    compare(CONFIG, "random,oort", seeds=2, folder=tmp_path / "alone")
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
