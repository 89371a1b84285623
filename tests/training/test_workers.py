"""The trainer: the same bits with any number of workers, in any order of completion; workers that die are reported."""

from __future__ import annotations

import copy
import math
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from enlist.data.dataset import Samples
from enlist.errors import EnlistError, InputError
from enlist.training import workers
from enlist.training.engine import SharedSamples, TrainingSetup
from enlist.training.flat import FlatModule, Layout, Vectors
from enlist.training.local import LocalTraining, Report, TrainingTask
from enlist.training.workers import Trainer, grouped
from tests.simulation.simulation_helpers import Touchy

SIZES = (45, 20, 7, 2, 61, 40, 33, 12, 90, 5, 26, 31)


def convolutional() -> nn.Module:
    parts = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 4)
    module = nn.Sequential(*parts)
    module.memory_format = torch.channels_last
    return module


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 4))


def job_for(make: Any, shared: bool = False, **settings: Any) -> TrainingSetup:
    torch.manual_seed(3)
    module = make()
    rng = np.random.default_rng(1)
    channels_last = getattr(module, "memory_format", None) == torch.channels_last
    data = {
        name: SharedSamples.of(
            Samples(rng.normal(size=(size, 1, 4, 4)), rng.integers(4, size=size)), channels_last, shared
        )
        for name, size in (("train", sum(SIZES)), ("test", 2600))
    }
    local = LocalTraining(**{"batch": 10, "epochs": 2, "lr": 0.05, **settings})
    return TrainingSetup(module, 4, local, data, seed=5, measure=True)


def tasks_for(job: TrainingSetup, round: int = 1) -> list[TrainingTask]:
    ends = np.cumsum(SIZES).tolist()
    return [
        TrainingTask(client, end - size, end, job.settings.steps_for(size), round, client % 2, 0)
        for client, (end, size) in enumerate(zip(ends, SIZES, strict=True))
    ]


def models(job: TrainingSetup) -> list[Vectors]:
    """Two models; of a copy, since the engine's module must stay where the engine put it."""
    first = FlatModule(copy.deepcopy(job.module)).vectors
    second = first.clone()
    second.parameters.mul_(0.5)
    return [first, second]


def outcome(trainer: Trainer, job: TrainingSetup) -> tuple[list[Report], list[Tensor], Any]:
    start = models(job)
    for version, vectors in enumerate(start):
        trainer.put(version, vectors)
    reports, updates = [], []
    # one round, and then late clients of two rounds together
    mixed = [*tasks_for(job, 2)[:5], *tasks_for(job, 3)[3:9]]
    for tasks in (tasks_for(job), mixed):
        for report, update in trainer.train(tasks):
            reports.append(report)
            updates.append(torch.cat([update.parameters, update.buffers, update.counters.float()]))
    weights = [0.5 + task.client for task in tasks_for(job)]
    for group, answers, total in trainer.reduce(tasks_for(job), weights):
        reports += answers
        updates.append(torch.cat([total.parameters, total.buffers, total.counters.float()]))
        assert len(group) == len(answers)
    spans = trainer.spans(1, "train", [(0, 45), (45, 65), (100, 101)])
    return reports, updates, (trainer.evaluate(0, "test"), trainer.evaluate(1, "test"), spans)


def assert_equal(one: Any, other: Any) -> None:
    assert repr(one[0]) == repr(other[0])
    assert all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))
    assert repr(one[2]) == repr(other[2])


@pytest.fixture(scope="module", params=[dense, convolutional], ids=["stacked", "sequential"])
def alone(request: pytest.FixtureRequest) -> Any:
    job = job_for(request.param)
    with Trainer(job) as trainer:
        return request.param, outcome(trainer, job)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_bits(alone: Any, count: int) -> None:
    make, expected = alone
    job = job_for(make, shared=True)
    with Trainer(job, workers=count) as trainer:
        assert_equal(outcome(trainer, job), expected)
        processes = [worker.process for worker in trainer.workers]
    assert len(processes) == count - (make is dense and count > 1), "this process is one that trains small models"
    assert not any(process.is_alive() for process in processes)


class Shuffled(Trainer):
    """Answers requests in an arbitrary order, as workers of unequal speed do."""

    def _run(self, requests: Sequence[Any]) -> list[Any]:
        order = np.random.default_rng(len(requests)).permutation(len(requests)).tolist()
        found = {number: super(Shuffled, self)._run([requests[number]])[0] for number in order}
        return [found[number] for number in range(len(requests))]


def test_the_order_of_completion_does_not_matter(alone: Any) -> None:
    make, expected = alone
    job = job_for(make)
    assert_equal(outcome(Shuffled(job), job), expected)


def test_waves_do_not_matter_to_who_gets_what(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make, expected = alone
    job = job_for(make)
    monkeypatch.setattr(workers, "SLOT_BYTES", 4 * 4 * Layout.of(job.module).size)
    reports, updates, measured = outcome(Trainer(job), job)
    assert [report.num_examples for report in reports] == [report.num_examples for report in expected[0]]
    for one, other in zip(updates, expected[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert repr(measured) == repr(expected[2])


@pytest.mark.parametrize("make", [dense, convolutional], ids=["stacked", "sequential"])
def test_sums_of_groups_are_the_weighted_updates(make: Any) -> None:
    job = job_for(make)
    start, tasks = models(job), tasks_for(job)
    weights = [float(task.size) for task in tasks]
    with Trainer(job) as trainer:
        for version, vectors in enumerate(start):
            trainer.put(version, vectors)
        alone = [(report, update.clone()) for report, update in trainer.train(tasks)]
        seen = []
        for group, reports, total in trainer.reduce(tasks, weights):
            clients = [task.client for task in group]
            expected = sum(weights[client] * alone[client][1].parameters for client in clients)
            torch.testing.assert_close(total.parameters, expected, rtol=1e-3, atol=1e-4)
            statistics = sum(weights[client] * alone[client][1].buffers for client in clients)
            torch.testing.assert_close(total.buffers, statistics, rtol=1e-3, atol=1e-4)
            for column in range(total.counters.shape[0]):
                assert total.counters[column] == max(alone[client][1].counters[column] for client in clients)
            for client, report in zip(clients, reports, strict=True):
                assert report.loss == pytest.approx(alone[client][0].loss, rel=1e-4)
                assert report.num_examples == alone[client][0].num_examples
            seen += clients
    assert sorted(seen) == list(range(len(tasks)))


@pytest.mark.parametrize("make", [dense, convolutional], ids=["stacked", "sequential"])
def test_an_update_that_is_not_finite_is_left_out_of_the_sum(make: Any) -> None:
    job = job_for(make)
    start, tasks, bad = models(job), tasks_for(job), 4
    job.data["train"].x[tasks[bad].start : tasks[bad].stop] = math.nan
    with Trainer(job) as trainer:
        for version, vectors in enumerate(start):
            trainer.put(version, vectors)
        alone = [update.parameters.clone() for _, update in trainer.train(tasks)]
        for group, reports, total in trainer.reduce(tasks, [1.0] * len(tasks)):
            good = [task.client for task, report in zip(group, reports, strict=True) if not report.error]
            assert good == [task.client for task in group if task.client != bad]
            if good:
                expected = sum(alone[client] for client in good)
                torch.testing.assert_close(total.parameters, expected, rtol=1e-3, atol=1e-4)
                assert torch.isfinite(total.buffers).all()
            else:
                assert float(total.parameters.abs().sum()) == 0.0


def test_evaluation_equals_plain_pytorch() -> None:
    job = job_for(dense)
    with Trainer(job) as trainer:
        trainer.put(0, models(job)[0])
        loss, accuracy = trainer.evaluate(0, "test")
    data = job.data["test"]
    with torch.no_grad():
        outputs = job.module(data.x)
    assert loss == pytest.approx(float(nn.functional.cross_entropy(outputs, data.y)), rel=1e-5)
    assert accuracy == float((outputs.argmax(1) == data.y).double().mean())


def test_regression_has_no_accuracy() -> None:
    data = SharedSamples.of(Samples(np.ones((7, 2)), np.zeros(7)))
    job = TrainingSetup(nn.Linear(2, 1), 0, LocalTraining(), {"train": data, "test": data}, seed=0)
    with Trainer(job) as trainer:
        loss, accuracy = trainer.evaluate(0, "test")
    assert (loss, math.isnan(accuracy)) == (0.0, True)


def test_models_survive_growth_of_the_shelf() -> None:
    job = job_for(dense)
    with Trainer(job) as trainer:
        for version in (0, 1, 2, 9, 4):
            model = Vectors.zeros(trainer.layout)
            model.parameters.fill_(float(version))
            trainer.put(version, model)
        for version in (0, 1, 2, 9, 4):
            assert (trainer.models[version].parameters == version).all()


def test_groups_are_a_fixed_function_of_the_tasks() -> None:
    job = job_for(dense)
    layout = Layout.of(job.module)
    tasks = [*tasks_for(job, 1), *tasks_for(job, 2)]
    groups = grouped(tasks, True, layout)
    assert sorted(task.client for group in groups for task in group) == sorted(task.client for task in tasks)
    assert all(len({task.round for task in group}) == 1 for group in groups)
    assert groups == grouped(list(tasks), True, layout)
    assert max(len(group) for group in grouped(tasks * 20, True, layout)) <= workers.MOST_TOGETHER
    assert all(len(group) == 1 for group in grouped(tasks, False, layout))


def test_no_tasks_give_no_answers() -> None:
    with Trainer(job_for(dense)) as trainer:
        assert list(trainer.train([])) == []


def test_workers_must_be_a_number() -> None:
    with pytest.raises(InputError, match="workers is -1"):
        Trainer(job_for(dense), workers=-1)


@pytest.fixture
def team() -> Iterator[tuple[Trainer, TrainingSetup]]:
    job = job_for(dense, shared=True)
    with Trainer(job, workers=2) as trainer:
        for version, vectors in enumerate(models(job)):
            trainer.put(version, vectors)
        yield trainer, job


def test_a_worker_that_is_killed_is_replaced_and_the_bits_are_the_same(
    alone: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make, expected = alone
    job = job_for(make, shared=True)
    with Trainer(job, workers=2) as trainer:
        killed = trainer.workers[0].process
        killed.kill()
        assert_equal(outcome(trainer, job), expected)
        assert trainer.workers[0].process.pid != killed.pid
    assert f"(process {killed.pid}) was killed by SIGKILL" in caplog.text


class Suicidal(nn.Linear):
    """A model whose first forward pass in every process but this one kills the process, as the system does."""

    def __init__(self, master: int, marks: Path | None = None) -> None:
        super().__init__(3, 2)
        self.master, self.marks = master, marks

    def forward(self, x: Tensor) -> Tensor:
        if os.getpid() != self.master and (self.marks is None or not self.marks.exists()):
            if self.marks is not None:
                self.marks.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)


def suicidal(marks: Path | None, shared: bool) -> tuple[TrainingSetup, list[TrainingTask]]:
    torch.manual_seed(3)
    x = np.random.default_rng(0).normal(size=(12, 3))
    data = SharedSamples.of(Samples(x, np.arange(12) % 2), shared=shared)
    job = TrainingSetup(Suicidal(os.getpid(), marks), 2, LocalTraining(), {"train": data, "test": data}, seed=0)
    return job, [TrainingTask(client, 3 * client, 3 * client + 3, 1, 1, 0, 0) for client in range(4)]


def test_a_worker_that_dies_while_it_trains_loses_nothing(tmp_path: Path) -> None:
    found = []
    for workers_ in (0, 2):
        job, tasks = suicidal(tmp_path / "mark" if workers_ else None, shared=workers_ > 0)
        with Trainer(job, workers=workers_) as trainer:
            trainer.put(0, models(job)[0])
            found.append([(repr(report), update.parameters.clone()) for report, update in trainer.train(tasks)])
    for (one, first), (other, second) in zip(*found, strict=True):
        assert one == other
        assert torch.equal(first, second)


def test_what_kills_every_worker_is_an_error_that_says_so(caplog: pytest.LogCaptureFixture) -> None:
    job, tasks = suicidal(None, shared=True)
    with Trainer(job, workers=1) as trainer:
        trainer.put(0, models(job)[0])
        with pytest.raises(EnlistError, match=r"was killed by SIGKILL.*use fewer workers.*checkpoint is intact"):
            list(trainer.train(tasks))
    assert caplog.text.count("another one takes its place") == 2


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped here")
def test_a_worker_that_is_stopped_is_reported_killed_and_replaced(
    alone: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make, expected = alone
    if make is not dense:
        pytest.skip("once is enough")
    monkeypatch.setenv("ENLIST_PATIENCE", "2.5")
    job = job_for(make, shared=True)
    with Trainer(job, workers=2) as trainer:
        trainer.spans(0, "test", [(0, 3)] * 20)
        stopped = trainer.workers[0].process.pid
        os.kill(stopped, signal.SIGSTOP)
        assert_equal(outcome(trainer, job), expected)
    assert f"(process {stopped}) has given no sign of life for" in caplog.text
    assert f"it is stopped: `kill -CONT {stopped}` resumes it" in caplog.text
    assert re.search(rf"\(process {stopped}\) was stopped for \d+ s and was killed; another one", caplog.text)


def test_a_worker_that_is_busy_for_long_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ENLIST_PATIENCE", "2")
    data = SharedSamples.of(Samples(np.ones((3, 3)), np.arange(3) % 2), shared=True)
    job = TrainingSetup(Slow(), 2, LocalTraining(), {"train": data, "test": data}, seed=0)
    with Trainer(job, workers=1) as trainer:
        trainer.put(0, models(job)[0])
        reports = [report for report, _ in trainer.train([TrainingTask(0, 0, 3, 1, 1, 0, 0)])]
    assert reports[0].error == ""
    assert caplog.text == ""


class Slow(nn.Linear):
    """A model that neither computes nor answers for longer than the patience of the test."""

    def __init__(self) -> None:
        super().__init__(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(3.0)
        return super().forward(x)


def test_an_error_in_a_worker_is_passed_on(team: tuple[Trainer, TrainingSetup]) -> None:
    trainer, _ = team
    with pytest.raises(EnlistError, match="training failed: KeyError"):
        trainer.spans(0, "none", [(0, 3)])


def test_a_client_fails_alone_in_a_worker() -> None:
    x = np.random.default_rng(0).normal(size=(9, 3))
    x[3:6, 0] = 100.0
    data = SharedSamples.of(Samples(x, np.arange(9) % 2), shared=True)
    job = TrainingSetup(Touchy("runtime"), 2, LocalTraining(), {"train": data, "test": data}, seed=0)
    tasks = [TrainingTask(client, 3 * client, 3 * client + 3, 1, 1, 0, 0) for client in range(3)]
    with Trainer(job, workers=1) as trainer:
        trainer.put(0, models(job)[0])
        reports = [report for report, _ in trainer.train(tasks)]
    assert [bool(report.error) for report in reports] == [False, True, False]
