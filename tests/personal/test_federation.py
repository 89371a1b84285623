"""The federation: who trains what from where, what is aggregated, and what is measured."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from enlist.personal import Workers
from enlist.personal.config import PersonalConfig
from enlist.personal.federation import Federation, WorkerUpdate
from enlist.personal.sections import WorkersSection
from enlist.streams import Streams
from enlist.training.flat import Vectors
from enlist.training.local import LocalTraining
from enlist.training.models import CNN, MLP, Logistic, ModelOptions, Thesis
from tests.personal.personal_helpers import task

FOUR = [1.0, 0.9, 0.5, -0.5]
SETTINGS = LocalTraining(batch=10, lr=0.2)
MODELS: list[ModelOptions] = [Logistic(), MLP(hidden=(6,)), Thesis(hidden=(8, 6, 4))]


def federation(model: ModelOptions, workers: Workers | None = None, **settings: object) -> Federation:
    return Federation(workers or task(FOUR), model, LocalTraining(batch=10, lr=0.2, **settings), seed=3)


@pytest.mark.parametrize("model", MODELS)
def test_what_a_worker_does_in_a_round_does_not_depend_on_who_else_trains(model: ModelOptions) -> None:
    one = federation(model)
    together = one.train([0, 1, 2, 3], one.initial, 2, 5)
    alone = one.train([2], one.initial, 2, 5)
    torch.testing.assert_close(together[2].update.parameters, alone[2].update.parameters, rtol=1e-4, atol=1e-7)
    another = one.train([2], one.initial, 2, 6)
    assert not torch.allclose(alone[2].update.parameters, another[2].update.parameters)
    assert torch.equal(one.initial.parameters, federation(model).initial.parameters)


@pytest.mark.parametrize("model", MODELS)
def test_two_calls_give_the_same_bits(model: ModelOptions) -> None:
    one = federation(model)
    first, second = (one.train([0, 3], one.initial, 3, 1) for _ in range(2))
    for worker in (0, 3):
        assert torch.equal(first[worker].update.parameters, second[worker].update.parameters)
        assert torch.equal(first[worker].update.buffers, second[worker].update.buffers)


def test_aggregation_by_hand() -> None:
    one = federation(Logistic())
    size = one.layout.size
    answers = [
        WorkerUpdate(Vectors(torch.full((size,), value), torch.zeros(0), torch.zeros(0, dtype=torch.int64)), 1)
        for value in (1.0, 4.0)
    ]
    model = one.aggregate(one.initial, answers, [0.75, 0.25])
    torch.testing.assert_close(model.parameters, one.initial.parameters + 1.75)
    same = one.aggregate(one.initial, [*answers, WorkerUpdate(None, 0, "lost")], [0.75, 0.25, 9.0])
    assert torch.equal(same.parameters, model.parameters), "who did not answer weighs nothing"
    nothing = one.aggregate(one.initial, [WorkerUpdate(None, 0, "lost")], [1.0])
    assert torch.equal(nothing.parameters, one.initial.parameters)


def test_batch_norm_statistics_are_averaged_and_counters_are_the_largest() -> None:
    one = federation(Thesis(hidden=(8, 6, 4)), task(FOUR, train=[40, 20, 40, 40]))
    trained = one.train([0, 1], one.initial, 2, 1)
    model = one.aggregate(one.initial, [trained[0], trained[1]], [0.75, 0.25])
    expected = 0.75 * trained[0].update.buffers + 0.25 * trained[1].update.buffers
    torch.testing.assert_close(model.buffers, expected)
    assert int(model.counters.max()) == 8


def test_a_single_update_gives_back_the_local_model() -> None:
    one = federation(Thesis(hidden=(8, 6, 4)))
    trained = one.train([0], one.initial, 2, 1)
    model = one.aggregate(one.initial, [trained[0]], [1.0])
    assert torch.equal(model.buffers, trained[0].update.buffers)
    torch.testing.assert_close(model.parameters, one.initial.parameters + trained[0].update.parameters)


def test_whoever_fails_has_no_update_and_the_others_do() -> None:
    one = federation(Logistic())
    trained = one.train([0, 1, 2], one.initial, 1, 1, failing=[1, 3])
    assert (trained[1].update, trained[1].error) == (None, "it did not reply")
    assert trained[0].update is not None
    assert trained[2].update is not None
    assert one.train([1], one.initial, 1, 1, failing=[1])[1].update is None


def test_a_worker_whose_training_bursts_fails_alone() -> None:
    workers = task(FOUR)
    start, stop = workers.span("train", 1)
    workers.data["train"].x[start:stop] *= 1e30
    for model in MODELS:
        trained = federation(model, workers).train([0, 1, 2], federation(model, workers).initial, 3, 1)
        assert trained[0].update is not None
        assert trained[2].update is not None
        if trained[1].update is None:
            assert "not finite" in trained[1].error
        else:
            assert torch.isfinite(trained[1].update.parameters).all()
    bad = federation(Logistic(), workers).train([1], federation(Logistic()).initial, 3, 1)
    assert bad[1].update is None


def test_workers_go_on_from_models_of_their_own() -> None:
    one = federation(Thesis(hidden=(8, 6, 4)))
    own = {worker: one.initial.clone() for worker in (0, 1)}
    own[1].parameters.mul_(1.5)
    trained = one.train([0, 1], one.initial, 1, 1, starts=own)
    plain = one.train([0], one.initial, 1, 1)
    torch.testing.assert_close(trained[0].update.parameters, plain[0].update.parameters, rtol=1e-4, atol=1e-7)
    moved = trained[1].update.parameters + one.initial.parameters - own[1].parameters
    alone = federation(Thesis(hidden=(8, 6, 4))).train([1], own[1], 1, 1)
    torch.testing.assert_close(moved, alone[1].update.parameters, rtol=1e-3, atol=1e-6)


def test_training_until_the_loss_stands_still() -> None:
    one = federation(MLP(hidden=(6,)))
    never = one.train([0, 1], one.initial, 5, 1, tolerance=1e-9)
    assert {answer.epochs for answer in never.values()} == {5}, "the loss of every epoch falls by something"
    soon = one.train([0, 1], one.initial, 50, 1, tolerance=0.2)
    assert all(2 <= answer.epochs < 50 for answer in soon.values())
    at_once = one.train([0, 1], one.initial, 50, 1, tolerance=0.999)
    assert {answer.epochs for answer in at_once.values()} == {2}, "the second epoch shows that it does not fall"


def test_epochs_trained_one_by_one_are_not_one_and_the_same() -> None:
    """Each epoch has a stream of its own: batches are not those of the epoch before."""
    one = federation(Logistic())
    first = one._pass([0], [one.initial], 1, 1, epoch=0)[0]
    second = one._pass([0], [one.initial], 1, 1, epoch=1)[0]
    assert not torch.equal(first.parameters, second.parameters)


def test_images_go_through_the_engine() -> None:
    workers = WorkersSection(dataset="digits", count=3, partition="iid").load(Streams(1))
    one = Federation(workers, CNN(), LocalTraining(batch=20, lr=0.1), seed=1)
    assert one.chain is None
    trained = one.train([0, 1], one.initial, 5, 1)
    model = one.aggregate(one.initial, [trained[0], trained[1]], [0.5, 0.5])
    assert one.metric.name == "accuracy"
    assert one.score(model, 0, "validation") > one.score(one.initial, 0, "validation") + 0.1
    start, stop = workers.span("test", 2)
    _, right = one.engine.evaluate(model, "test", start, stop)
    outputs = one.outputs(model, 2, "test")
    assert outputs.shape == (stop - start, 10)
    assert int((outputs.argmax(dim=1) == workers.data["test"].y[start:stop]).sum()) == right


def test_scores_are_of_the_workers_own_samples() -> None:
    one = federation(MLP(hidden=(6,)))
    scores = one.scores(one.initial, [0, 1, 2], "validation")
    assert len(set(scores)) == 3
    assert scores[1] == one.score(one.initial, 1, "validation")


def test_updates_grow_with_epochs() -> None:
    one = federation(MLP(hidden=(6,)))
    lengths = [float(one.train([0], one.initial, epochs, 1)[0].update.parameters.norm()) for epochs in (1, 4)]
    assert lengths[0] < lengths[1]


def test_the_default_configuration_has_a_federation() -> None:
    config = PersonalConfig(workers={"dataset": {"name": "telecom", "rows": 4000}})
    one = Federation(config.load_workers(), config.model, config.training, config.seed)
    assert one.chain is not None
    assert one.chain.normed
    assert one.metric.name == "auc"
    assert np.isfinite(one.score(one.initial, 1, "test"))
