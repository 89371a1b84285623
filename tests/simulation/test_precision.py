"""Training in bf16: what is computed in which precision, the same bits wherever it runs, and what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from enlist.data.dataset import Samples
from enlist.errors import InputError
from enlist.simulation import Config, Simulation
from enlist.training import precision
from enlist.training.engine import ModuleTrainer, SharedSamples, TrainingSetup
from enlist.training.flat import Vectors
from enlist.training.local import LocalTraining, TrainingTask, batches
from enlist.training.models import CNN
from enlist.training.precision import has_bf16
from tests.simulation.simulation_helpers import Assassin, Kill, assert_same, config, continue_run
from tests.simulation.test_resume import world

needs_bf16 = pytest.mark.skipif(not has_bf16(), reason="this processor has no instructions for bf16")
SMALL_CNN = {"name": "cnn", "channels": [4, 8], "kernel": 3, "padding": 1, "hidden": [16]}


def job(kind: Any = "bf16", module: nn.Module | None = None, **settings: Any) -> TrainingSetup:
    rng = np.random.default_rng(4)
    torch.manual_seed(2)
    made = CNN(channels=(4, 8), kernel=3, padding=1, hidden=(16,)).build((1, 8, 8), 4) if module is None else module
    data = SharedSamples.of(Samples(rng.normal(size=(30, 1, 8, 8)).astype(np.float32), rng.integers(4, size=30)), True)
    local = LocalTraining(**{"batch": 10, "epochs": 2, "lr": 0.05, **settings})
    return TrainingSetup(made, 4, local, {"train": data, "test": data}, seed=5, precision=kind)


def trained(given: TrainingSetup) -> tuple[Any, torch.Tensor]:
    engine = ModuleTrainer(given)
    models, updates = Vectors.zeros(engine.flat.layout, 1), Vectors.zeros(engine.flat.layout, 1)
    models[0].copy_(engine.flat.vectors)
    report = engine.train([TrainingTask(0, 0, 30, 6, 1, 0, 0)], models, updates)[0]
    assert not report.error
    return report, updates.parameters[0].clone()


@needs_bf16
def test_products_are_bf16_and_weights_and_steps_float32() -> None:
    """Against a plain loop under autocast."""
    given = job()
    module = copy.deepcopy(given.module)
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    engine, update = ModuleTrainer(copy.deepcopy(given)), trained(given)[1]
    task, data = TrainingTask(0, 0, 30, 6, 1, 0, 0), given.data["train"]
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    for index in batches(task, given.settings, engine.streams):
        with torch.autocast("cpu", torch.bfloat16):
            outputs = module(data.inputs(torch.from_numpy(index)))
        assert outputs.dtype == torch.bfloat16
        optimiser.zero_grad()
        functional.cross_entropy(outputs.float(), data.y[index]).backward()
        optimiser.step()
    for place, (name, parameter) in zip(engine.flat.layout.parameters, module.named_parameters(), strict=True):
        expected = (parameter.detach() - before[name]).numpy()
        np.testing.assert_allclose(place.view(update).numpy(), expected, rtol=1e-4, atol=1e-7)


@needs_bf16
def test_it_is_near_float32_and_not_the_same() -> None:
    (report, update), (other, plain) = trained(job("bf16")), trained(job("float32"))
    assert report.loss == pytest.approx(other.loss, rel=0.02)
    assert report.loss != other.loss
    assert 0 < float((update - plain).norm() / plain.norm()) < 0.05


@needs_bf16
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_evaluations_are_float32(momentum: float) -> None:
    low, high = ModuleTrainer(job("bf16", momentum=momentum)), ModuleTrainer(job("float32", momentum=momentum))
    vectors = high.flat.vectors.clone()
    assert low.evaluate(vectors, "test", 0, 30) == high.evaluate(vectors, "test", 0, 30)


@needs_bf16
@pytest.mark.parametrize("selector", ["oort", "fedsuv"])
def test_killed_and_resumed_with_other_workers_it_ends_with_the_same_bytes(tmp_path: Path, selector: str) -> None:
    """With late replies, crashes, clients that join and leave, and accuracies that clients measure."""
    settings = world(selector)
    changed = {"model": SMALL_CNN, "training": {"steps": 3, "momentum": 0.5, "precision": "bf16"}}
    settings = Config(**{**settings.model_dump(mode="json"), **changed})
    continue_run(tmp_path / "whole", settings)
    for round, workers in ((2, 2), (5, 0)):
        with pytest.raises(Kill):
            continue_run(tmp_path / "killed", settings, Assassin(round), workers=workers)
    continue_run(tmp_path / "killed", settings, workers=1)
    assert_same(tmp_path / "whole", tmp_path / "killed")
    plain = settings.model_copy(update={"training": settings.training.model_copy(update={"precision": "float32"})})
    with pytest.raises(InputError, match=r"training\.precision"):
        continue_run(tmp_path / "killed", plain)


@needs_bf16
def test_a_loss_and_an_optimiser_of_the_users_get_float32() -> None:
    seen = []

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        seen.append(outputs.dtype)
        return functional.cross_entropy(outputs, targets, reduction="none")

    given = job(module=nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 4)))
    given.loss, given.optimiser = loss, torch.optim.Adam
    trained(given)
    assert set(seen) == {torch.float32}


def test_float32_is_the_default_and_is_not_written_down() -> None:
    assert Config().training.precision == "float32"
    assert "precision" not in config().model_dump(mode="json")["training"]
    assert config(training={"precision": "bf16"}).model_dump(mode="json")["training"]["precision"] == "bf16"


def test_small_dense_models_are_refused() -> None:
    with pytest.raises(InputError, match=r"training\.precision is 'bf16', which does not make small dense models"):
        Simulation(config(training={"precision": "bf16"}))


def test_a_processor_without_such_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_bf16", lambda device: False)
    with pytest.raises(InputError, match=r"this cpu has no instructions for it .* use 'float32', or another machine"):
        Simulation(config(model=SMALL_CNN, training={"precision": "bf16"}))
    with pytest.raises(InputError, match="no instructions"):  # a worker on another machine looks for itself
        ModuleTrainer(job())
    Simulation(config(model=SMALL_CNN)).close()


def test_other_precisions_are_not_known() -> None:
    with pytest.raises(InputError, match=r"training\.precision"):
        config(training={"precision": "float16"})
