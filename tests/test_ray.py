"""The Ray engine on one machine: the same bytes as local processes, failures, cancellation, refusals."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enlist.arena import Tournament as Matches
from enlist.arena import compare as play
from enlist.engine import Task, TaskContext, Work, chosen
from enlist.errors import EnlistError, InputError
from enlist.simulation import Config, Simulation, compare, simulate
from tests.ray_helpers import MARKS, TABLES, _left_open, files, hidden  # noqa: F401

ray = pytest.importorskip("ray")
os.environ.setdefault("RAY_worker_niceness", "0")  # else workers starve on a machine that is busy
from enlist.engine import ray as engine_module  # noqa: E402
from enlist.engine.ray import RayEngine  # noqa: E402

pytestmark = MARKS
CONFIG = Config(
    data={"clients": 8},
    rounds={"rounds": 3, "k": 3, "over_commit": 1.4, "deadline": 40.0, "late": "merge"},
    training={"steps": 2},
    evaluation={"every": 1},
)


STATUSES = ("running", "finished")


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    # A cluster of its own, whatever else runs on this machine; Ray takes our word for a GPU.
    ray.init("local", num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
    try:
        with RayEngine() as made:
            yield made
    finally:
        ray.shutdown()


@pytest.mark.parametrize("seen", [True, False], ids=["shared storage", "sent back"])
def test_a_comparison_gives_the_same_bytes(
    engine: RayEngine, seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[tuple[Any, ...]] = []
    if not seen:  # no machine finds the sign at this place
        monkeypatch.setattr("enlist.simulation.jobs.TaskFolder", hidden)
    with_ray = compare(
        CONFIG, "random,oort", seeds=2, folder=tmp_path / "ray", engine=engine, tick=lambda *state: states.append(state)
    )
    alone = compare(CONFIG, "random,oort", seeds=2, folder=tmp_path / "alone")
    assert not with_ray.failed
    assert files(tmp_path / "ray") == files(tmp_path / "alone")
    assert len(files(tmp_path / "ray")) == 4 * len(TABLES)
    assert with_ray.table.equals(alone.table)
    every = sorted((label, seed) for label in ("random", "oort") for seed in range(2))
    shown = {status: sorted({each[:2] for each in states if each[2]["status"] == status}) for status in STATUSES}
    assert shown["finished"] == every, "what the live view shows"
    assert set(shown["running"]) <= set(every), "of runs as short as these the end may come first"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".enlist-")], "the sign is gone"


def test_runs_in_memory_and_matches_are_the_same(engine: RayEngine) -> None:
    one, other = (compare(CONFIG, "random", seeds=1, engine=each) for each in (engine, None))
    assert one.runs[0].rounds.equals(other.runs[0].rounds)
    matches = Matches("random,cs-ucb", "slow-minority", clients=10, k=2, rounds=20, seeds=2)
    assert repr(play(matches, engine=engine)) == repr(play(matches))


def test_training_workers_are_actors_and_the_bits_are_the_same(engine: RayEngine, tmp_path: Path) -> None:
    for workers, where in ((0, None), (2, engine)):
        simulate(CONFIG, "oort", folder=tmp_path / str(workers), workers=workers, engine=where)
    assert files(tmp_path / "0") == files(tmp_path / "2")


def test_a_lost_training_worker_is_replaced(engine: RayEngine, caplog: pytest.LogCaptureFixture) -> None:
    expected = simulate(CONFIG, "oort").rounds
    with Simulation(CONFIG, "oort", workers=2, engine=engine) as simulation:
        simulation.step()
        ray.kill(simulation.trainer.workers[0].handle)  # type: ignore[attr-defined]
        result = simulation.run()
    assert result["accuracy"] == expected["accuracy"].iloc[-1]
    assert "another one takes its place and trains its clients again" in caplog.text


def die_once(context: TaskContext, mark: str, number: int) -> int:
    if number == 2 and not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 3:
        Path(f"{mark}-{time.time_ns()}").touch()
        raise ValueError("of its own")
    return 10 * number


def test_lost_tasks_are_done_again_and_failed_ones_are_not(
    engine: RayEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = [Task(number, (str(tmp_path / "mark"), number)) for number in range(5)]
    found = {result.key: result for result in engine.run(Work(die_once, "a helper", again="starts again"), tasks)}
    assert [found[number].value for number in range(3)] == [0, 10, 20]
    assert "of its own" in str(found[3].error)
    assert len(list(tmp_path.glob("mark-*"))) == 1
    assert "a helper of the Ray cluster was lost" in str(found[4].error)
    assert caplog.text.count("another one takes its place and starts again") == 1 + 2


def wait(context: TaskContext, mark: str) -> None:
    Path(mark).write_text(str(os.getpid()))
    context.report("begun")
    time.sleep(600)


def test_what_is_abandoned_is_cancelled(engine: RayEngine, tmp_path: Path) -> None:
    def stop(key: Any, state: Any) -> None:
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        contextlib.closing(
            engine.run(Work(wait, "a sleeper"), [Task(0, (str(tmp_path / "mark"),))], progress=stop)
        ) as ends,
    ):
        list(ends)
    pid = int((tmp_path / "mark").read_text())
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}/cmdline").exists() and b"sleeper" in Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_other_versions_are_refused(engine: RayEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "versions", lambda: {"torch": "0.4.1"})
    monkeypatch.setattr(RayEngine, "_check_nodes", lambda self: self._refuse("10.0.0.3", {"torch": "2.0"}))
    with pytest.raises(InputError, match=r"node 10.0.0.3 of the Ray cluster has torch 2.0, and here it is 0.4.1"):
        RayEngine()
    monkeypatch.setattr(engine, "versions", {"torch": "0.4.1"})
    ended = list(engine.run(Work(wait, "a sleeper"), [Task(0, ("nowhere",))]))
    assert isinstance(ended[0].error, EnlistError)
    assert "and the driver has 0.4.1; results would differ" in str(ended[0].error)


def seen_gpus(context: TaskContext) -> list[str]:
    return [str(number) for number in ray.get_gpu_ids()]


class Seeing:
    def gpus(self) -> list[str]:
        return [str(number) for number in ray.get_gpu_ids()]


def test_fractions_of_gpus_are_asked_for(engine: RayEngine) -> None:
    with chosen("ray?gpus=0.25&cpus=0.5") as shared:
        assert isinstance(shared, RayEngine)
        assert (engine.slots(), shared.slots()) == (2, 4)
        for where, expected in ((shared, ["0"]), (engine, [])):
            ends = list(where.run(Work(seen_gpus, "a task"), [Task(0), Task(1)]))
            assert [result.value for result in ends] == [expected, expected]
        actor = shared.actor("an actor", Seeing)
        shared.ask([actor], "gpus")
        assert actor.answer() == ["0"]
        actor.end()
        with pytest.raises(EnlistError, match="PyTorch finds no CUDA device on"):
            simulate(CONFIG, "random", workers=1, engine=shared, device="cuda")
    with chosen("ray?gpus=2") as greedy, pytest.raises(EnlistError, match="has 1 processors and 2 GPUs for a task"):
        greedy.slots()


def test_samples_lie_once_in_the_store_and_a_model_once_a_round(engine: RayEngine) -> None:
    put: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        place = engine.ray.put
        patch.setattr(engine.ray, "put", lambda value: put.append(value) or place(value))
        with Simulation(CONFIG.with_method("random"), workers=2, engine=engine) as simulation:
            samples = len(put)
            assert samples == 2 * len(simulation.trainer.job.data), "inputs and labels of each part"
            before = len(put)
            simulation.step()
            assert len(put) - before <= 2, "the model to train from, and that to evaluate"


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        ("ray client connection timeout", "the port must be that of"),
        ("Starting Ray client server failed. See its log.", "its head answers, .*GRPC_ENABLE_FORK_SUPPORT=false"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_one_sentence(
    failure: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)

    def refused(*arguments: Any, **named: Any) -> None:
        raise ConnectionError(failure)

    monkeypatch.setattr(ray, "init", refused)
    with socket.create_server(("127.0.0.1", 0)) as server:  # somebody listens, who is no Ray
        address = f"ray://127.0.0.1:{server.getsockname()[1]}"
        said = rf"no Ray cluster at {address} that can be used \({failure}\); {advice}"
        with pytest.raises(InputError, match=said):
            RayEngine(address)
