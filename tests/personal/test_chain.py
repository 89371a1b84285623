"""Networks with batch norm: folded evaluation and stacked training agree with PyTorch and with the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from enlist.data import Samples
from enlist.personal.chain import Chain
from enlist.personal.stacked import train_stacked
from enlist.streams import Streams
from enlist.training.engine import ModuleTrainer, SharedSamples, TrainingSetup
from enlist.training.flat import FlatModule, Vectors
from enlist.training.local import LocalTraining, TrainingTask
from enlist.training.models import MLP, Thesis, initialise

torch.set_num_threads(1)


def samples(count: int = 130, classes: int = 3, inputs: int = 7) -> Samples:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, inputs))
    return Samples(x, rng.integers(classes, size=count) if classes else x[:, 0] + rng.normal(size=count))


def trained_module(classes: int = 3) -> nn.Module:
    """A network whose running statistics are not those it was born with."""
    module = initialise(Thesis(hidden=(9, 6, 5)), (7,), classes, Streams(1))
    module.train()
    for _ in range(5):
        module(2 * torch.randn(30, 7, generator=torch.Generator().manual_seed(1)) + 1)
    return module


def both(
    settings: LocalTraining, tasks: list[TrainingTask], classes: int = 3
) -> tuple[list[Any], list[Any], Vectors, Vectors]:
    """Reports and updates of stacked training and of the engine."""
    data = SharedSamples.of(samples(classes=classes))
    engine = ModuleTrainer(TrainingSetup(trained_module(classes), classes, settings, {"train": data}, seed=4))
    layout = engine.flat.layout
    models = Vectors.zeros(layout, 2)
    models[0].copy_(engine.flat.vectors)
    models[1].copy_(engine.flat.vectors)
    models.parameters[1] *= 1.3
    stacked, single = Vectors.zeros(layout, len(tasks)), Vectors.zeros(layout, len(tasks))
    chain = Chain.of(engine.job.module)
    assert chain is not None
    first = train_stacked(chain, data, classes, settings, Streams(4), tasks, models, stacked)
    return first, engine.train(tasks, models, single), stacked, single


def assert_alike(settings: LocalTraining, tasks: list[TrainingTask], classes: int = 3) -> None:
    reports, expected, stacked, single = both(settings, tasks, classes)
    torch.testing.assert_close(stacked.parameters, single.parameters, rtol=1e-4, atol=2e-6)
    torch.testing.assert_close(stacked.buffers, single.buffers, rtol=1e-4, atol=2e-6)
    assert torch.equal(stacked.counters, single.counters)
    assert [report.loss for report in reports] == pytest.approx([report.loss for report in expected], rel=1e-5)
    assert [report.loss_rms for report in reports] == pytest.approx([report.loss_rms for report in expected], rel=1e-5)
    assert [report.num_examples for report in reports] == [report.num_examples for report in expected]
    assert float(single.parameters.abs().max()) > 1e-3


EQUAL = [TrainingTask(worker, 30 * worker, 30 * worker + 30, 9, 2, 0, worker) for worker in range(4)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"momentum": 0.9},
        {"weight_decay": 0.1},
        {"prox": 0.5},
        {"momentum": 0.5, "weight_decay": 0.05, "prox": 0.3, "lr_decay": 0.5},
    ],
)
def test_workers_trained_side_by_side_end_as_with_the_engine(settings: dict[str, float]) -> None:
    assert_alike(LocalTraining(batch=10, lr=0.1, **settings), EQUAL)


def test_workers_of_different_sizes_steps_and_models() -> None:
    tasks = [
        TrainingTask(0, 0, 30, 9, 2, 0, 1),
        TrainingTask(1, 30, 55, 6, 2, 1, 0),  # a last batch of 5
        TrainingTask(2, 55, 76, 8, 2, 0, 3),  # a last batch of a single sample, from which a batch norm cannot learn
        TrainingTask(3, 76, 106, 9, 2, 1, 2),
        TrainingTask(4, 106, 110, 2, 2, 0, 4),  # less than a batch
    ]
    assert_alike(LocalTraining(batch=10, lr=0.1), tasks)


def test_a_regression() -> None:
    assert_alike(LocalTraining(batch=10, lr=0.02), EQUAL, classes=0)


def test_more_workers_than_are_stacked() -> None:
    tasks = [TrainingTask(worker, 4 * worker, 4 * worker + 4, 2, 1, 0, worker) for worker in range(30)]
    assert_alike(LocalTraining(batch=4, lr=0.05), tasks)


def test_what_a_worker_learns_does_not_depend_on_who_else_trains() -> None:
    settings = LocalTraining(batch=10, lr=0.1)
    _, _, together, _ = both(settings, EQUAL)
    _, _, alone, _ = both(settings, [EQUAL[2].__class__(2, 60, 90, 9, 2, 0, 0)])
    torch.testing.assert_close(together.parameters[2], alone.parameters[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("classes", [2, 3, 0])
def test_folded_evaluation_is_the_modules_own(classes: int) -> None:
    module = trained_module(classes)
    chain = Chain.of(module)
    assert chain is not None
    flat = FlatModule(module)
    x = torch.randn(2300, 7, generator=torch.Generator().manual_seed(2))
    module.eval()
    with torch.inference_mode():
        torch.testing.assert_close(chain.outputs(flat.vectors, x), module(x), rtol=1e-4, atol=1e-5)


def test_a_plain_perceptron_is_evaluated_too_and_has_no_norm() -> None:
    module = initialise(MLP(hidden=(5,)), (1, 2, 3), 4, Streams(1))
    chain = Chain.of(module)
    assert chain is not None
    assert not chain.normed
    x = torch.randn(10, 1, 2, 3)
    with torch.inference_mode():
        torch.testing.assert_close(chain.outputs(FlatModule(module).vectors, x), module(x))


def shared() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


def frozen() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    module[0].weight.requires_grad_(False)
    return module


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.BatchNorm1d(3), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False), nn.ReLU(), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=None), nn.ReLU(), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False), nn.ReLU(), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 3), nn.ReLU()),
        nn.Sequential(nn.Conv1d(1, 1, 1), nn.ReLU(), nn.Linear(3, 2)),
        shared(),
        frozen(),
        nn.Tanh(),
    ],
)
def test_anything_else_is_left_to_the_engine(module: nn.Module) -> None:
    assert Chain.of(module) is None
