"""The training engine against plain PyTorch with autograd."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from enlist.data.dataset import Samples
from enlist.streams import Streams
from enlist.training.dense import DenseChain
from enlist.training.engine import ModuleTrainer, SharedSamples, TrainingSetup
from enlist.training.flat import Vectors
from enlist.training.local import LocalTraining, Report, TrainingTask, batches
from tests.simulation.simulation_helpers import Touchy, by_hand

SEED = 11
SIZES = (45, 20, 7, 1, 61, 40)
CLASSES = 4
SETTINGS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "decay": {"weight_decay": 0.1},
    "prox": {"prox": 0.7, "epochs": 3},
    "everything": {"momentum": 0.8, "weight_decay": 0.05, "prox": 0.5, "epochs": 3},
    "steps": {"steps": 5},
    "few steps": {"steps": 1, "momentum": 0.5},
    "large batch": {"batch": 1000, "epochs": 2},
    "decayed rate": {"lr_decay": 0.5},
}


class Small(nn.Module):
    def __init__(self, norm: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.memory_format = torch.channels_last
        self.convolution = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(4 * 2 * 2, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.dropout(torch.relu(self.norm(self.convolution(x)))).flatten(1))
        return out


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, CLASSES))


def tanh() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 9), nn.Tanh(), nn.Linear(9, CLASSES))


def data(sizes: tuple[int, ...] = SIZES, classes: int = CLASSES, scale: float = 1.0) -> Samples:
    rng = np.random.default_rng(5)
    x = scale * rng.normal(size=(sum(sizes), 1, 4, 4))
    y = rng.integers(classes, size=sum(sizes)) if classes else x.sum(axis=(1, 2, 3)) + rng.normal(size=sum(sizes))
    return Samples(x, y)


def engine_for(
    module: nn.Module, samples: Samples, classes: int = CLASSES, measure: bool = False, **settings: Any
) -> ModuleTrainer:
    placed = SharedSamples.of(samples, getattr(module, "memory_format", None) == torch.channels_last)
    local = LocalTraining(**{"batch": 20, "lr": 0.1, **settings})
    return ModuleTrainer(TrainingSetup(module, classes, local, {"train": placed}, seed=SEED, measure=measure))


def tasks_for(settings: LocalTraining, sizes: tuple[int, ...] = SIZES, round: int = 1) -> list[TrainingTask]:
    ends = np.cumsum(sizes).tolist()
    return [
        TrainingTask(client, end - size, end, settings.steps_for(size), round, model_slot=0, update_slot=client)
        for client, (end, size) in enumerate(zip(ends, sizes, strict=True))
    ]


def trained(engine: ModuleTrainer, tasks: list[TrainingTask]) -> tuple[list[Report], Vectors, Vectors]:
    models = Vectors.zeros(engine.flat.layout, 1)
    models[0].copy_(engine.flat.vectors)
    updates = Vectors.zeros(engine.flat.layout, len(tasks))
    reports = engine.train(tasks, models, updates)
    return reports, models, updates


def hand_trained(
    module: nn.Module, samples: Samples, task: TrainingTask, settings: LocalTraining, classes: int = CLASSES
) -> Any:
    own = copy.deepcopy(module)
    x, y = torch.from_numpy(samples.x), torch.from_numpy(samples.y)
    plan = batches(task, settings, Streams(SEED))
    rate = settings.lr * settings.lr_decay ** (task.round - 1)
    losses = by_hand(own, x, y, plan, rate, settings.momentum, settings.weight_decay, settings.prox, classes)
    change = {
        name: value.detach() - dict(module.named_parameters())[name].detach() for name, value in own.named_parameters()
    }
    return own, change, losses


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=3e-6)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("make", [dense, tanh, Small], ids=["stacked", "sequential", "cnn"])
def test_training_equals_a_loop_with_autograd(make: Any, name: str) -> None:
    torch.manual_seed(1)
    original = make()
    samples = data()
    engine = engine_for(copy.deepcopy(original), samples, **SETTINGS[name])
    assert (engine.chain is not None) == (make is dense)
    settings, tasks = engine.job.settings, tasks_for(engine.job.settings, round=3)
    reports, _, updates = trained(engine, tasks)
    for task, report in zip(tasks, reports, strict=True):
        _, change, losses = hand_trained(original, samples, task, settings)
        found = engine.flat.layout.named(updates[task.update_slot])
        for key, expected in change.items():
            close(found[key], expected)
        first = torch.cat(losses[: math.ceil(task.size / settings.batch)])
        assert report.loss == pytest.approx(float(first.mean()), rel=1e-4)
        assert report.loss_rms == pytest.approx(float((first**2).mean() ** 0.5), rel=1e-4)
        assert report.num_examples == len(first)
        assert report.error == ""
        assert math.isnan(report.accuracy)
        assert math.isnan(report.loss_after)


@pytest.mark.parametrize("make", [dense, tanh], ids=["stacked", "sequential"])
def test_regression_equals_a_loop_with_autograd(make: Any) -> None:
    torch.manual_seed(1)
    original = make()
    original[-1] = nn.Linear(original[-1].in_features, 1)
    samples = data(classes=0)
    engine = engine_for(copy.deepcopy(original), samples, classes=0, measure=True, lr=0.01, epochs=2, prox=0.1)
    tasks = tasks_for(engine.job.settings)
    reports, _, updates = trained(engine, tasks)
    x, y = torch.from_numpy(samples.x), torch.from_numpy(samples.y)
    for task, report in zip(tasks, reports, strict=True):
        own, change, _ = hand_trained(original, samples, task, engine.job.settings, classes=0)
        found = engine.flat.layout.named(updates[task.update_slot])
        for key, expected in change.items():
            close(found[key], expected)
        part = slice(task.start, task.stop)
        with torch.no_grad():
            after = float(((own(x[part]).reshape(-1) - y[part]) ** 2).mean())
        assert report.loss_after == pytest.approx(after, rel=1e-4)
        assert math.isnan(report.accuracy)
        assert math.isnan(report.accuracy_gain)


def test_fedprox_pulls_towards_the_model_that_was_sent() -> None:
    """One weight, one sample x = 1, y = 0, squared error: gradient 2w. By hand with lr 0.1, prox 2:
    w0 = 1; w1 = 1 - 0.1 (2 + 0) = 0.8; w2 = 0.8 - 0.1 (1.6 + 2 (0.8 - 1)) = 0.68. Away would give 0.60."""
    samples = Samples(np.ones((1, 1)), np.zeros(1))
    for chain in (True, False):
        module = nn.Sequential(nn.Linear(1, 1))
        nn.init.ones_(module[0].weight)
        nn.init.zeros_(module[0].bias)
        engine = engine_for(module, samples, classes=0, prox=2.0, epochs=2)
        if not chain:
            engine.chain = None
        # the bias moves as the weight does from 0: both feel 2 (w + b)
        _, _, updates = trained(engine, tasks_for(engine.job.settings, (1,)))
        w, b = 1.0, 0.0
        for _ in range(2):
            g = 2 * (w + b)
            w, b = w - 0.1 * (g + 2 * (w - 1)), b - 0.1 * (g + 2 * b)
        found = engine.flat.layout.named(updates[0])
        assert float(found["0.weight"]) == pytest.approx(w - 1, abs=1e-6)
        assert float(found["0.bias"]) == pytest.approx(b, abs=1e-6)
    strong = []
    for prox in (0.0, 1.0, 5.0):
        torch.manual_seed(1)
        engine = engine_for(dense(), data(), prox=prox, epochs=5)
        strong.append(float(trained(engine, tasks_for(engine.job.settings))[2].parameters[0].norm()))
    assert strong[0] > strong[1] > strong[2]


@pytest.mark.parametrize("name", SETTINGS)
def test_stacked_equals_sequential(name: str) -> None:
    torch.manual_seed(2)
    original = dense()
    found = []
    for stacked in (True, False):
        engine = engine_for(copy.deepcopy(original), data(), measure=True, **SETTINGS[name])
        assert engine.chain is not None
        if not stacked:
            engine.chain = None
        reports, _, updates = trained(engine, tasks_for(engine.job.settings))
        found.append((reports, updates.parameters))
    close(found[0][1], found[1][1])
    for one, other in zip(found[0][0], found[1][0], strict=True):
        for field in ("loss", "loss_rms", "loss_after", "num_examples"):
            assert getattr(one, field) == pytest.approx(getattr(other, field), rel=1e-4)
        assert one.accuracy == pytest.approx(other.accuracy, abs=1e-6)
        assert one.accuracy_gain == pytest.approx(other.accuracy_gain, abs=1e-6)


@pytest.mark.parametrize("make", [dense, Small], ids=["stacked", "cnn"])
def test_reports_equal_hand_computed_values(make: Any) -> None:
    torch.manual_seed(4)
    original = make()
    samples = data()
    engine = engine_for(copy.deepcopy(original), samples, measure=True, epochs=3, lr=0.3)
    tasks = tasks_for(engine.job.settings)
    reports, _, _ = trained(engine, tasks)
    x, y = torch.from_numpy(samples.x), torch.from_numpy(samples.y)
    for task, report in zip(tasks, reports, strict=True):
        part = slice(task.start, task.stop)
        own, _, losses = hand_trained(original, samples, task, engine.job.settings)
        with torch.no_grad():
            before = float((original(x[part]).argmax(1) == y[part]).float().mean())
            after = float((own(x[part]).argmax(1) == y[part]).float().mean())
            loss_after = float(nn.functional.cross_entropy(own(x[part]), y[part]))
        first = torch.cat(losses[: math.ceil(task.size / 20)]).double()
        assert len(first) == task.size
        assert report.accuracy == pytest.approx(before, abs=1e-6)
        assert report.accuracy_gain == pytest.approx(after - before, abs=1e-6)
        assert report.loss_after == pytest.approx(loss_after, rel=1e-4)
        assert report.loss == pytest.approx(float(first.mean()), rel=1e-4)
        assert report.loss_rms == pytest.approx(float((first**2).mean() ** 0.5), rel=1e-4)
        assert report.num_examples == task.size


def test_models_of_several_versions_train_side_by_side() -> None:
    torch.manual_seed(2)
    first, second = dense(), dense()
    engine = engine_for(copy.deepcopy(first), data())
    models = Vectors.zeros(engine.flat.layout, 2)
    engine.flat.layout.load_named(first.state_dict(), models[0])
    engine.flat.layout.load_named(second.state_dict(), models[1])
    tasks = tasks_for(engine.job.settings)
    tasks = [TrainingTask(t.client, t.start, t.stop, t.steps, t.round, t.client % 2, t.update_slot) for t in tasks]
    updates = Vectors.zeros(engine.flat.layout, len(tasks))
    engine.train(tasks, models, updates)
    for task in tasks:
        _, change, _ = hand_trained((first, second)[task.model_slot], data(), task, engine.job.settings)
        found = engine.flat.layout.named(updates[task.update_slot])
        for key, expected in change.items():
            close(found[key], expected)


def test_the_models_that_were_sent_stay_as_they_are() -> None:
    for make in (dense, Small):
        engine = engine_for(make(), data(), prox=0.1, momentum=0.5)
        sent = engine.flat.vectors.parameters.clone()
        _, models, _ = trained(engine, tasks_for(engine.job.settings))
        assert torch.equal(models.parameters[0], sent)


def test_batches_cover_every_sample_once_an_epoch() -> None:
    task = TrainingTask(3, 100, 147, steps=9, round=2, model_slot=0, update_slot=0)
    plan = batches(task, LocalTraining(batch=20), Streams(1))
    assert plan.shape == (9, 20)
    for epoch in range(3):
        seen = plan[3 * epoch : 3 * epoch + 3].ravel()
        assert sorted(seen[seen >= 0].tolist()) == list(range(100, 147))
    assert (plan[:3] != plan[3:6]).any()
    assert (batches(task, LocalTraining(batch=20), Streams(1)) == plan).all()
    assert (batches(TrainingTask(4, 100, 147, 9, 2, 0, 0), LocalTraining(batch=20), Streams(1)) != plan).any()
    assert (batches(TrainingTask(3, 100, 147, 9, 3, 0, 0), LocalTraining(batch=20), Streams(1)) != plan).any()
    assert (
        batches(TrainingTask(3, 100, 147, 2, 2, 0, 0), LocalTraining(batch=20), Streams(1)).tolist()
        == plan[:2].tolist()
    )


def test_work_counts_the_samples_of_all_steps() -> None:
    sizes = np.array(SIZES)
    assert LocalTraining(epochs=3).work(sizes).tolist() == (3 * sizes).tolist()
    for steps in (1, 3, 4, 7):
        settings = LocalTraining(steps=steps)
        for task, work in zip(tasks_for(settings), settings.work(sizes).tolist(), strict=True):
            plan = batches(task, settings, Streams(0))
            assert (plan >= 0).sum() == work
            assert len(plan) == settings.steps_for(task.size) == steps


def test_dropout_belongs_to_round_and_client() -> None:
    torch.manual_seed(9)
    engine = engine_for(Small(dropout=0.5), data(), epochs=2)
    tasks = tasks_for(engine.job.settings)
    start = engine.flat.vectors.clone()

    def updates(order: list[TrainingTask]) -> Tensor:
        engine.flat.vectors.copy_(start)
        found = Vectors.zeros(engine.flat.layout, len(tasks))
        models = Vectors.zeros(engine.flat.layout, 1)
        models[0].copy_(start)
        engine.train(order, models, found)
        return found.parameters

    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    forward = updates(tasks)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(updates(tasks[::-1]), forward)
    later = [TrainingTask(t.client, t.start, t.stop, t.steps, 2, 0, t.update_slot) for t in tasks]
    assert not torch.equal(updates(later), forward)


def test_batch_norm_statistics_and_counters_come_back() -> None:
    torch.manual_seed(6)
    original = Small(norm=True)
    samples = data()
    engine = engine_for(copy.deepcopy(original), samples, epochs=2)
    tasks = [task for task in tasks_for(engine.job.settings) if task.size % 20 != 1]
    _, _, updates = trained(engine, tasks_for(engine.job.settings))
    for task in tasks:
        own, change, losses = hand_trained(original, samples, task, engine.job.settings)
        found = engine.flat.layout.named(updates[task.update_slot])
        close(found["norm.running_mean"], own.norm.running_mean)
        close(found["norm.running_var"], own.norm.running_var)
        assert int(found["norm.num_batches_tracked"]) == len(losses)
        for key, expected in change.items():
            close(found[key], expected)


def test_the_first_epoch_is_reported_though_a_batch_norm_skips_single_samples() -> None:
    """21 samples in batches of 20: the single last sample is skipped, and epoch 2 must not be reported with epoch 1."""
    torch.manual_seed(6)
    original = Small(norm=True)
    samples = data((21,))
    reports = []
    for epochs in (1, 3):
        engine = engine_for(copy.deepcopy(original), samples, epochs=epochs)
        reports.append(trained(engine, tasks_for(engine.job.settings, (21,)))[0][0])
    assert reports[0].loss == reports[1].loss
    assert reports[0].loss_rms == reports[1].loss_rms


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_frozen_parameters_stay_frozen(momentum: float) -> None:
    original = tanh()
    original[1].weight.requires_grad_(False)
    engine = engine_for(original, data(), weight_decay=0.1, prox=0.1, momentum=momentum, epochs=2)
    _, _, updates = trained(engine, tasks_for(engine.job.settings))
    found = engine.flat.layout.named(updates[0])
    assert float(found["3.weight"].abs().sum()) > 0
    assert float(found["1.weight"].abs().sum()) == 0.0


def test_only_plain_chains_are_stacked() -> None:
    assert DenseChain.of(dense()) is not None
    assert DenseChain.of(nn.Linear(3, 2)) is not None
    frozen = dense()
    frozen[1].bias.requires_grad_(False)

    class Odd(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = super().forward(x)
            return -out

    without = nn.Sequential(nn.Linear(3, 2, bias=False))
    for module in (
        frozen,
        tanh(),
        Small(),
        Odd(nn.Linear(3, 2)),
        without,
        nn.Sequential(nn.Linear(3, 2), nn.ReLU()),
    ):
        assert DenseChain.of(module) is None


def test_tied_weights_are_trained_one_by_one() -> None:
    tied = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    tied[2].weight = tied[0].weight
    assert DenseChain.of(tied) is None


def coded(bad: int) -> tuple[Samples, tuple[int, ...]]:
    """Three clients with 6, 5 and 9 samples of 3 inputs; the samples of `bad` are marked for Touchy."""
    sizes = (6, 5, 9)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(sum(sizes), 3))
    ends = np.cumsum(sizes)
    x[ends[bad] - sizes[bad] : ends[bad], 0] = 100.0
    return Samples(x, rng.integers(2, size=len(x))), sizes


@pytest.mark.parametrize("behaviour", ["runtime", "value", "key", "zero"])
def test_a_model_that_raises_fails_its_client_alone(behaviour: str) -> None:
    samples, sizes = coded(bad=1)
    torch.manual_seed(1)
    module = Touchy(behaviour)
    engine = engine_for(copy.deepcopy(module), samples, classes=2, measure=True)
    reports, _, updates = trained(engine, tasks_for(engine.job.settings, sizes))
    assert "I do not like these samples" in reports[1].error
    assert reports[0].error == reports[2].error == ""
    for client in (0, 2):
        task = tasks_for(engine.job.settings, sizes)[client]
        _, change, _ = hand_trained(module, samples, task, engine.job.settings, classes=2)
        found = engine.flat.layout.named(updates[client])
        for key, expected in change.items():
            close(found[key], expected)


@pytest.mark.parametrize("bad", [0, 2])
def test_enormous_samples_of_one_client_do_not_spoil_its_neighbours_in_a_stack(bad: int) -> None:
    """Clients in a stack are padded to one length; what fills the gaps must not be another client's samples."""
    sizes = (6, 5, 9)
    samples = data(sizes)
    ends = np.cumsum(sizes)
    samples.x[ends[bad] - sizes[bad] : ends[bad]] = 3e38
    torch.manual_seed(1)
    original = dense()
    with torch.no_grad():
        for parameter in original.parameters():
            parameter.mul_(4.0)
    engine = engine_for(copy.deepcopy(original), samples, batch=4)
    reports, _, updates = trained(engine, tasks_for(engine.job.settings, sizes))
    assert not torch.isfinite(updates.parameters[bad]).all()
    for task in tasks_for(engine.job.settings, sizes):
        if task.client == bad:
            continue
        _, change, _ = hand_trained(original, samples, task, engine.job.settings)
        found = engine.flat.layout.named(updates[task.update_slot])
        for key, expected in change.items():
            close(found[key], expected)
        assert math.isfinite(reports[task.client].loss)


@pytest.mark.parametrize("make", [dense, tanh], ids=["stacked", "sequential"])
def test_large_losses_are_reported_as_numbers(make: Any) -> None:
    """Squared errors of 1e22 are finite, and so is their root mean square, though their squares are not in float32."""
    module = make()
    module[-1] = nn.Linear(module[-1].in_features, 1)
    samples = data((30,), classes=0)
    samples.y[:] = 1e11
    engine = engine_for(module, samples, classes=0, lr=1e-9)
    reports, _, updates = trained(engine, tasks_for(engine.job.settings, (30,)))
    assert torch.isfinite(updates.parameters).all()
    assert reports[0].loss == pytest.approx(1e22, rel=1e-3)
    assert reports[0].loss_rms == pytest.approx(1e22, rel=1e-3)


def test_evaluation_sums_losses_and_right_answers() -> None:
    for module in (dense(), Small(norm=True, dropout=0.5)):
        samples = data((1203,))
        engine = engine_for(copy.deepcopy(module), samples)
        x, y = torch.from_numpy(samples.x), torch.from_numpy(samples.y)
        module.eval()
        with torch.no_grad():
            outputs = module(x[100:1203])
        expected = float(nn.functional.cross_entropy(outputs, y[100:1203], reduction="sum"))
        loss, right = engine.evaluate(engine.flat.vectors.clone(), "train", 100, 1203)
        assert loss == pytest.approx(expected, rel=1e-5)
        assert right == int((outputs.argmax(1) == y[100:1203]).sum())
