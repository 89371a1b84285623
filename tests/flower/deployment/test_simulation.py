"""The example in Flower's own simulation: ten nodes, Oort, judged by the status of the run."""

from __future__ import annotations

from pathlib import Path

from enlist.flower import replay
from enlist.runs import read_run
from tests.flower.deployment.harness import EXAMPLE, SuperLink

NODES = "num-supernodes=10 client-resources-num-cpus=1 init-args-num-cpus=1"


def test_the_example_in_a_simulation(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with SuperLink(tmp_path / "lab", "--insecure", "--simulation", connection="insecure = true") as link:
        run = link.run(
            EXAMPLE, "--federation-config", NODES, selector="oort", k=3, num_server_rounds=5, folder=str(folder)
        )
        assert run.finish(limit=180.0) == "finished:completed", link.failed("the simulation failed")

    recorded = read_run(folder)
    assert recorded.selector == "oort"
    assert recorded.rounds["round"].tolist() == [1, 2, 3, 4, 5]
    assert recorded.rounds["completed"].tolist() == [3] * 5
    assert set(recorded.participations["outcome"]) == {"completed"}
    assert recorded.rounds["accuracy"][-1] > 0.4  # a guess is right in one of ten cases
    # Node ids change from simulation to simulation, so what was learned must be tied to partitions.
    assert set(map(int, recorded.clients["id"])) <= set(range(10))
    assert len(replay(folder)) == 5
