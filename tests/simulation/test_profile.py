"""The mini-batch profile: the rule of the choice, the counting of memory, and what is measured."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from enlist.errors import EnlistError, InputError
from enlist.simulation.config import Config
from enlist.simulation.population import Population, build
from enlist.simulation.profile import BatchRow, Measurement, choose, profile, sampled, scores
from enlist.streams import Streams
from enlist.training.engine import ModuleTrainer
from enlist.training.local import Report, TrainingTask, batches
from enlist.training.models import initialise
from enlist.training.peak_memory import PeakMemory
from enlist.training.workers import one_thread

ONE = Measurement(8, 0, samples=40, steps=5, passes=(0.4,), memory=1000, accuracy=0.9, loss=0.3, latency=7.0)


def row(batch: int, time: float, memory: int, accuracy: float, loss: float = 0.3) -> BatchRow:
    changed: Any = {"batch": batch, "passes": (time,), "memory": memory, "accuracy": accuracy, "loss": loss}
    return BatchRow.of([dataclasses.replace(ONE, **changed)])


def config(**changes: Any) -> Config:
    return Config(**{"data": {"clients": 5, "partition": "iid"}, "model": "logistic", **changes})


# The rule


def test_scores_by_hand() -> None:
    rows = [row(8, 0.8, 100, 0.9), row(16, 0.6, 200, 0.8), row(32, 0.4, 500, 0.5)]
    third = 1 / 3
    expected = [[third, 0, 0], [third / 2, third / 4, third / 4], [0, third, third]]
    np.testing.assert_allclose(scores(rows), expected, atol=1e-12)
    assert choose(rows) == 8  # as good as 16, and smaller
    assert choose(rows, (1, 0, 0)) == 32
    assert choose(rows, (0, 1, 0)) == 8
    assert choose(rows, (0, 0, 1)) == 8
    assert choose(rows, (2, 1, 0)) == 32


def test_a_compromise_wins() -> None:
    rows = [row(8, 0.8, 100, 0.9), row(16, 0.45, 150, 0.88), row(32, 0.4, 500, 0.5)]
    assert choose(rows) == 16


def test_equal_scores_go_to_the_smaller_batch() -> None:
    rows = [row(32, 0.4, 500, 0.8), row(8, 0.8, 100, 0.8)]
    np.testing.assert_allclose(scores(rows).sum(axis=1), [1 / 3, 1 / 3])
    assert choose(rows) == 8
    assert choose([row(64, 0.4, 100, 0.5), row(16, 0.4, 100, 0.5)]) == 16


def test_what_is_equal_everywhere_does_not_count() -> None:
    assert scores([row(8, 0.4, 100, 0.5), row(16, 0.4, 100, 0.5)]).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert choose([row(8, 0.4, 100, 0.5)]) == 8


def test_a_regression_is_judged_by_its_loss() -> None:
    rows = [row(8, 0.4, 100, math.nan, loss=2.0), row(16, 0.4, 100, math.nan, loss=1.0)]
    assert scores(rows)[:, 2].tolist() == [pytest.approx(1 / 3), 0]
    assert choose(rows) == 16


measured = st.tuples(st.floats(1e-6, 1e3), st.integers(1, 10**9), st.floats(0, 1))


@given(st.lists(measured, min_size=1, max_size=6), st.tuples(*[st.floats(0, 10)] * 2), st.sampled_from([0.125, 8.0]))
def test_the_choice_is_the_least_weighted_sum_whatever_the_unit(
    values: list[tuple[float, int, float]], some: tuple[float, float], unit: float
) -> None:
    weights = (*some, 1.0)
    rows = [row(2**place, *value) for place, value in enumerate(values)]
    totals = scores(rows, weights).sum(axis=1)
    assert ((totals >= 0) & (totals <= 1 + 1e-9)).all()
    best = choose(rows, weights)
    assert totals[[one.batch for one in rows].index(best)] == pytest.approx(totals.min(), abs=1e-9)
    scaled = [row(2**place, time * unit, memory, accuracy) for place, (time, memory, accuracy) in enumerate(values)]
    assert choose(scaled, weights) == best


@pytest.mark.parametrize("weights", [(1, 1), (0, 0, 0), (-1, 1, 1), (math.nan, 1, 1), (1, 1, 1, 1)])
def test_bad_weights_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="weights"):
        choose([row(8, 0.4, 100, 0.5)], weights)


def test_there_must_be_something_to_choose_from() -> None:
    with pytest.raises(InputError, match="no batch size"):
        choose([])


# Rows


def test_a_row_by_hand() -> None:
    ones = [
        dataclasses.replace(ONE, samples=10, steps=2, passes=(0.1, 0.3, 0.2), memory=100, accuracy=1.0, latency=1.0),
        dataclasses.replace(ONE, samples=30, steps=4, passes=(0.6, 0.6, 0.6), memory=300, accuracy=0.5, latency=9.0),
    ]
    found = BatchRow.of(ones)
    assert found.per_sample == pytest.approx(0.8 / 40)
    assert found.per_batch == pytest.approx(0.8 / 6)
    assert (found.memory, found.memory_std) == (200, 100)
    assert (found.accuracy, found.accuracy_std) == (0.75, 0.25)
    assert found.latency == 5.0
    rates, weights = [0.01, 0.03, 0.02, 0.02, 0.02, 0.02], [10] * 3 + [30] * 3
    every = np.repeat(rates, weights)
    assert found.per_sample_std == pytest.approx(every.std())


def test_a_pass_that_was_held_up_does_not_count() -> None:
    assert dataclasses.replace(ONE, passes=(0.4, 99.0, 0.5)).seconds == 0.5


# Memory


def test_memory_counts_what_is_alive_at_once() -> None:
    outside = torch.ones(1000)
    with PeakMemory() as memory:
        first = outside + 1  # 4000 bytes
        second = first * 2  # 4000 more
        del first
        third = second + second
        del second, third
    assert (memory.peak, memory.now) == (8000, 0)


def test_memory_does_not_count_views_nor_what_was_there_before() -> None:
    outside = torch.ones(1000)
    with PeakMemory() as memory:
        view = outside.view(10, 100)[2:5]
        view.add_(1)
        row_of = view.t()
    assert memory.peak == 0
    assert len(row_of) == 100


def test_memory_of_a_backward_pass_by_hand() -> None:
    weight = torch.ones(50, requires_grad=True)
    with PeakMemory() as memory:
        loss = weight.exp().sum()  # exp is kept for the backward pass: 200 bytes, and 4 for the sum
        (gradient,) = torch.autograd.grad(loss, [weight])  # 4 for the ones at the root, 200 for the gradient
        del gradient, loss
    assert 404 <= memory.peak <= 412
    assert memory.now == 0


def test_memory_of_lists_of_tensors() -> None:
    with PeakMemory() as memory:
        parts = torch._foreach_add([torch.ones(10), torch.ones(20)], 1.0)
    assert memory.peak == 4 * 60
    del parts


# The profile


def test_memory_grows_with_the_batch_and_stops_at_the_client() -> None:
    result = profile(config(model="cnn"), [8, 32, 128, 256], rounds=1)
    one, two, three, four = (line.memory for line in result.rows)
    sizes = {one.samples for one in result.measurements}
    assert max(sizes) <= 300
    assert 128 < min(sizes) < 300
    assert one < two < three < four
    assert (four - three) / 128 == pytest.approx((three - two) / 96, rel=0.05)
    few = profile(config(data={"clients": 100, "partition": "iid"}), [64, 128], rounds=1)
    assert few.rows[0].memory == few.rows[1].memory


def test_what_does_not_depend_on_the_clock_is_the_same_every_time() -> None:
    first, second = (profile(config(), [8, 32], rounds=2) for _ in range(2))
    for one, other in zip(first.measurements, second.measurements, strict=True):
        assert dataclasses.replace(one, passes=()) == dataclasses.replace(other, passes=())
        assert len(one.passes) == 2
        assert all(taken > 0 for taken in one.passes)


@one_thread()
def plain_pytorch(settings: Config, people: Population, client: int, batch: int, rounds: int) -> tuple[float, float]:
    """Loss and accuracy of a client on its own samples, trained by a loop that anybody would write."""
    start, stop = (int(people.offsets[client + after]) for after in (0, 1))
    x, y = (torch.from_numpy(part) for part in (people.samples["train"].x, people.samples["train"].y))
    module = initialise(settings.model, people.shape, people.classes, Streams(settings.seed))
    local = settings.training.model_copy(update={"batch": batch})
    for number in range(1, rounds + 1):
        velocities = [torch.zeros_like(weight) for weight in module.parameters()]
        task = TrainingTask(client, start, stop, math.ceil((stop - start) / batch), number, 0, 0)
        for places in batches(task, local, Streams(settings.seed)):
            index = torch.from_numpy(places[places >= 0])
            module.zero_grad()
            nn.functional.cross_entropy(module(x[index]), y[index]).backward()
            with torch.no_grad():
                for weight, velocity in zip(module.parameters(), velocities, strict=True):
                    velocity.mul_(local.momentum).add_(weight.grad)
                    weight.sub_(local.lr * local.lr_decay ** (number - 1) * velocity)
    with torch.no_grad():
        outputs, targets = module(x[start:stop]), y[start:stop]
    return float(nn.functional.cross_entropy(outputs, targets)), float((outputs.argmax(1) == targets).float().mean())


@pytest.mark.parametrize("model", ["logistic", "cnn"])
def test_clients_learn_as_plain_pytorch_would(model: str) -> None:
    settings = config(model=model, training={"lr": 0.05, "lr_decay": 0.5, "momentum": 0.9, "epochs": 3})
    people = build(settings)
    for one in profile(settings, [16], rounds=2, population=people).measurements[:2]:
        loss, accuracy = plain_pytorch(settings, people, one.client, batch=16, rounds=2)
        assert one.loss == pytest.approx(loss, rel=1e-3)
        assert one.accuracy == pytest.approx(accuracy, abs=0.005)
        assert one.steps == math.ceil(people.sizes[one.client] / 16)


def test_latency_is_that_of_the_devices() -> None:
    epochs = config(training={"epochs": 2})
    people = build(epochs)
    result = profile(epochs, [8, 32], rounds=1, population=people)
    numbers = sum(tensor.numel() for tensor in initialise(epochs.model, people.shape, 10, Streams(0)).parameters())
    expected = people.devices.expected(2.0 * people.sizes, 4 * numbers).total
    for one in result.measurements:
        assert one.latency == pytest.approx(expected[one.client])
    steps = profile(config(training={"steps": 2}), [8, 32], rounds=1)
    assert steps.rows[0].latency < steps.rows[1].latency


def test_a_regression_has_a_loss_and_no_accuracy() -> None:
    data = {"dataset": {"name": "linear-regression", "samples": 300}, "clients": 3, "partition": "iid"}
    result = profile(config(data=data, model="linear"), [8, 64], rounds=3)
    assert all(math.isnan(one.accuracy) and one.loss >= 0 for one in result.measurements)
    assert result.rows[0].loss < result.rows[1].loss
    assert result.best in (8, 64)


def test_of_many_clients_a_sample_is_trained() -> None:
    many = config(data={"clients": 60, "partition": "iid"})
    result = profile(many, [64], rounds=1)
    assert (len(result.clients), result.population) == (24, 60)
    assert result.clients == sampled(60, 24, Streams(0)).tolist()
    assert sampled(60, 24, Streams(0)).tolist() != sampled(60, 24, Streams(1)).tolist()
    assert sampled(24, 24, Streams(0)).tolist() == list(range(24))


def test_batch_sizes_are_sorted_and_counted_once() -> None:
    seen = []
    result = profile(config(), [32, 8, 32], rounds=1, progress=lambda size, client: seen.append((size, client)))
    assert [line.batch for line in result.rows] == [8, 32]
    assert seen == [(size, client) for client in range(5) for size in (8, 32)]


def test_nothing_global_is_changed() -> None:
    torch.manual_seed(5)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    profile(config(model="cnn-dropout"), [64], rounds=1)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("sizes", "rounds", "words"),
    [([], 1, "no batch sizes"), ([0], 1, "batch size is 0"), ([2.5], 1, "batch size is 2.5"), ([8], 0, "rounds is 0")],
)
def test_bad_input_is_refused_before_any_work(sizes: list[Any], rounds: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        profile(config(data={"dataset": {"name": "file", "path": "missing.npz"}}), sizes, rounds=rounds)


def test_a_client_that_cannot_train_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModuleTrainer, "train", lambda *_: [Report(error="RuntimeError: no memory")])
    with pytest.raises(EnlistError, match="client 0 cannot train with batch size 8: RuntimeError: no memory"):
        profile(config(), [8])
